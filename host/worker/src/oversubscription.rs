//! Detection of more computing threads than processors.
//!
//! Threads that share a processor wait for each other in the middle of an operator, and more so if
//! idle threads spin: they keep a processor from those that have work. The measurement then shows how
//! the kernel shares the processors, and not how long the model takes.

use std::collections::BTreeMap;

use host_machine::{Machine, ProcessorActivity, process};
use host_record::{CaseSpec, Doubt, Scheduling, processors_of_list};

/// Half a processor counts: less is what a quiet machine does, and counting in hundredths of a second
/// sees no finer.
const HALF: f64 = 0.5;

/// Looks at the worker's processors, from before the plugin is opened to before the first timed query.
#[derive(Debug)]
pub(crate) struct Beforehand {
    machine: Machine,
    processors: Vec<u32>,
    own_ns: u64,
    activity: Option<ProcessorActivity>,
}

impl Beforehand {
    pub(crate) fn start(machine: &Machine) -> Self {
        let processors = machine.allowed_processors().unwrap_or_default();
        let (own_ns, activity) = now(machine, &processors);
        Self { machine: machine.clone(), processors, own_ns, activity }
    }

    /// Returns how many of the processors were kept busy by other processes; `None` if the system does
    /// not report it, or the time was too short.
    pub(crate) fn others(&self) -> Option<f64> {
        let (own_ns, activity) = now(&self.machine, &self.processors);
        let own_ns = own_ns.saturating_sub(self.own_ns);
        others(self.activity?, activity?, own_ns, self.processors.len())
    }
}

fn now(machine: &Machine, processors: &[u32]) -> (u64, Option<ProcessorActivity>) {
    (process::usage().processor_ns, machine.activity_of(processors))
}

fn others(
    before: ProcessorActivity,
    after: ProcessorActivity,
    own_ns: u64,
    processors: usize,
) -> Option<f64> {
    const LEAST_NS: f64 = 2e8;
    let total_ns = after.total_ns.checked_sub(before.total_ns)?;
    let elapsed_ns = total_ns as f64 / processors as f64;
    if !elapsed_ns.is_finite() || elapsed_ns < LEAST_NS {
        return None;
    }
    let busy_ns = after.busy_ns.saturating_sub(before.busy_ns);
    Some(busy_ns.saturating_sub(own_ns) as f64 / elapsed_ns)
}

/// Threads that compute, and processors for them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Demand {
    /// For each client.
    threads: u32,
    clients: u32,
    processors: u32,
    /// Processors' worth of time that the control groups grant.
    quota: Option<f64>,
    /// Processors that other work kept busy beforehand.
    others: Option<f64>,
    /// Returns whether idle threads spin.
    spins: bool,
}

impl Demand {
    /// Returns `None` if the system does not report the processors. The threads are those that the
    /// session says it used, or else the requested number. If another device computes,
    /// each client has one thread that drives it.
    pub(crate) fn of(
        case: &CaseSpec,
        used: &BTreeMap<String, String>,
        scheduling: &Scheduling,
        quota: Option<f64>,
        others: Option<f64>,
    ) -> Option<Self> {
        let processors = processors_of_list(scheduling.processors.as_deref()?)?;
        let reported = used.get("threads").and_then(|threads| threads.parse().ok());
        let threads = match &*case.device.kind {
            "gpu" | "npu" => None,
            _ => reported.or(case.threads),
        };
        Some(Self {
            threads: threads.unwrap_or(1),
            clients: case.key.clients.unwrap_or(1),
            processors: u32::try_from(processors.len()).ok()?,
            quota,
            others,
            spins: used.get("allow-spinning").is_some_and(|value| value == "true"),
        })
    }

    /// Returns the warning: more threads than processors, or than the quota is worth; or too few
    /// processors left by other work.
    pub(crate) fn doubt(&self) -> Option<Doubt> {
        let Self { threads, clients, processors, quota, others, spins } = *self;
        let count = u64::from(threads) * u64::from(clients);
        let (all, there) = (count as f64, f64::from(processors));
        let too_many = all > there || quota.is_some_and(|quota| all > quota);
        let others =
            others.filter(|others| *others >= HALF && (too_many || all + others >= there + HALF));
        (too_many || others.is_some()).then_some(Doubt::Oversubscribed {
            threads,
            clients,
            processors,
            quota_processors: quota,
            other_processors: others,
            spins,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::case;

    const FITS: Demand = Demand {
        threads: 2,
        clients: 1,
        processors: 2,
        quota: None,
        others: Some(0.1),
        spins: true,
    };

    #[test]
    fn threads_that_have_a_processor_each_raise_no_warning() {
        for demand in [
            FITS,
            Demand { others: None, ..FITS },
            Demand { quota: Some(2.0), ..FITS },
            Demand { threads: 1, clients: 2, ..FITS },
            // Other work uses the other processor, by a little more than one.
            Demand { threads: 1, others: Some(1.04), ..FITS },
            Demand { processors: 8, others: Some(6.0), ..FITS },
        ] {
            assert_eq!(demand.doubt(), None, "{demand:?}");
        }
    }

    #[test]
    fn what_has_no_processor_of_its_own_is_told_with_its_figures() {
        let cases = [
            Demand { threads: 64, others: None, spins: false, ..FITS },
            Demand { threads: 3, ..FITS },
            Demand { threads: 1, clients: 4, spins: false, ..FITS },
            Demand { threads: 4, clients: 3, processors: 8, quota: Some(1.5), ..FITS },
            Demand { threads: 1, quota: Some(0.5), spins: false, ..FITS },
            Demand { others: Some(0.75), ..FITS },
            Demand { threads: 4, others: Some(1.25), spins: false, ..FITS },
        ];
        // Less than half a processor of other work is what a quiet machine does.
        for (demand, other_processors) in
            cases.into_iter().zip([None, None, None, None, None, Some(0.75), Some(1.25)])
        {
            let Demand { threads, clients, processors, quota, spins, .. } = demand;
            let expected = Doubt::Oversubscribed {
                threads,
                clients,
                processors,
                quota_processors: quota,
                other_processors,
                spins,
            };
            assert_eq!(demand.doubt(), Some(expected));
        }
    }

    #[test]
    fn threads_are_those_that_the_session_used_and_a_device_has_its_own() {
        let scheduling = Scheduling { processors: Some("0-1,4".into()), ..Scheduling::default() };
        let mut case = case();
        let demand = |case: &CaseSpec, used: &[(&str, &str)]| {
            let used = used.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            let demand = Demand::of(case, &used.collect(), &scheduling, None, None);
            demand.expect("processors are told")
        };
        let used = demand(&case, &[("threads", "16"), ("allow-spinning", "true")]);
        assert_eq!((used.threads, used.processors, used.spins), (16, 3, true));
        assert_eq!(demand(&case, &[("allow-spinning", "false")]).threads, 2, "asked for");
        case.threads = None;
        case.key.clients = Some(5);
        let untold = demand(&case, &[]);
        assert_eq!((untold.threads, untold.clients), (1, 5));
        case.device.kind = "gpu".into();
        assert_eq!(demand(&case, &[("threads", "16")]).threads, 1, "it is driven by one");
        let nothing = Scheduling::default();
        assert_eq!(Demand::of(&case, &BTreeMap::new(), &nothing, None, None), None);
    }

    #[test]
    fn other_work_is_what_this_process_did_not_do() {
        let before = ProcessorActivity { busy_ns: 500, total_ns: 1_000 };
        let after = ProcessorActivity { busy_ns: 1_500_000_500, total_ns: 2_000_001_000 };
        assert_eq!(others(before, after, 500_000_000, 2), Some(1.0));
        assert_eq!(others(before, after, 2_000_000_000, 2), Some(0.0), "counters are not exact");
        let soon = ProcessorActivity { busy_ns: 300_000_000, total_ns: 300_000_000 };
        assert_eq!(others(before, soon, 0, 2), None, "too short to tell");
        assert_eq!(others(before, after, 0, 0), None, "no processor is known");
        assert_eq!(others(after, before, 0, 2), None, "a counter went back");
    }
}
