/*!
Energy by the processor's own counters (RAPL), which Linux shows for Intel and AMD as files
under `/sys/class/powercap`.

Each counter counts microjoules since some moment and wraps to zero after its largest value,
so only differences have a meaning, and only if no wrap was missed. They are read just
before the first measured query, just after the last, and between blocks. A
reading that comes so late that a counter could have wrapped twice is a gap.

The counters are the machine's: they include all other work.
*/

use std::io;

use host_machine::{EnergyCounter, Machine, NoEnergy};
use host_measure::Clock;
use host_record::{DomainEnergy, Gap, NotMeasured};

/// Nothing that fits into a socket takes more.
const MOST_WATTS: u64 = 2000;

/// Counters need no reading more often than this: at the power above, the smallest counter in use
/// (65,536 J) takes half a minute for a turn.
const INTERVAL_NS: u64 = 5_000_000_000;

/// A counter, with what it has counted since the start.
#[derive(Debug)]
struct Counter {
    source: EnergyCounter,
    range_microjoules: u64,
    last_microjoules: u64,
    taken_microjoules: u64,
}

/// The counters of a machine.
#[derive(Debug)]
pub(crate) struct Rapl {
    machine: Machine,
    counters: Vec<Counter>,
    started_ns: u64,
    read_ns: u64,
    lost: Option<Gap>,
}

/// Returns the gap for a missing energy figure.
fn no_energy(cause: NoEnergy) -> Gap {
    let cause = match cause {
        NoEnergy::NotOffered => NotMeasured::NoEnergyInterface,
        NoEnergy::NoCounters { folder } => NotMeasured::NoEnergyCounters { folder },
        NoEnergy::Unreadable { file, error } => NotMeasured::CounterUnreadable {
            file,
            root_only: error.kind() == io::ErrorKind::PermissionDenied,
            system_message: error.to_string(),
        },
        NoEnergy::NotACount { file, text } => NotMeasured::NotACount { file, text },
    };
    cause.into()
}

impl Rapl {
    /// Finds the counters and reads them for the first time.
    ///
    /// # Errors
    ///
    /// A gap, if there are none or one cannot be read.
    pub(crate) fn start(machine: &Machine, now_ns: u64) -> Result<Self, Gap> {
        let counter = |source: EnergyCounter| {
            Ok(Counter {
                last_microjoules: machine.energy(&source)?,
                range_microjoules: machine.energy_range(&source)?,
                taken_microjoules: 0,
                source,
            })
        };
        let counters = || machine.energy_counters()?.into_iter().map(counter).collect();
        let machine = machine.clone();
        let counters: Result<_, NoEnergy> = counters();
        let counters = counters.map_err(no_energy)?;
        Ok(Self { machine, counters, started_ns: now_ns, read_ns: now_ns, lost: None })
    }

    /// Reads the counters if it is time to.
    pub(crate) fn sample(&mut self, now_ns: u64) {
        if now_ns.saturating_sub(self.read_ns) >= INTERVAL_NS {
            self.read(now_ns);
        }
    }

    fn read(&mut self, now_ns: u64) {
        let elapsed_ns = now_ns.saturating_sub(self.read_ns);
        self.read_ns = now_ns;
        for counter in &mut self.counters {
            let now = match self.machine.energy(&counter.source) {
                Ok(now) => now,
                Err(why) => {
                    self.lost.get_or_insert_with(|| no_energy(why));
                    return;
                }
            };
            // Microjoules are watts times microseconds.
            let most = u128::from(elapsed_ns / 1000) * u128::from(MOST_WATTS);
            if most > u128::from(counter.range_microjoules) {
                self.lost.get_or_insert_with(|| {
                    NotMeasured::CounterMayHaveWrapped {
                        domain: counter.source.domain.clone(),
                        elapsed_ns,
                        range_microjoules: counter.range_microjoules,
                    }
                    .into()
                });
                return;
            }
            let last = std::mem::replace(&mut counter.last_microjoules, now);
            counter.taken_microjoules += match now.checked_sub(last) {
                Some(taken) => taken,
                None => now + counter.range_microjoules.saturating_sub(last),
            };
        }
    }

    /// Reads the counters for the last time.
    ///
    /// # Errors
    ///
    /// A gap, if a counter could not be read or may have wrapped unnoticed.
    pub(crate) fn end(mut self, now_ns: u64) -> Result<Vec<DomainEnergy>, Gap> {
        self.read(now_ns);
        if let Some(gap) = self.lost {
            return Err(gap);
        }
        let seconds = now_ns.saturating_sub(self.started_ns) as f64 / 1e9;
        let energy = |counter: Counter| DomainEnergy {
            domain: counter.source.domain,
            joules: counter.taken_microjoules as f64 / 1e6,
            seconds,
            step_seconds: None,
        };
        Ok(self.counters.into_iter().map(energy).collect())
    }

    /// Measures how long the counters take from one change to the next.
    pub(crate) fn steps(machine: &Machine, clock: &impl Clock, domains: &mut [DomainEnergy]) {
        // They move once in a millisecond or so.
        const LIMIT_NS: u64 = 100_000_000;
        let Ok(sources) = machine.energy_counters() else { return };
        for domain in domains {
            let source = sources.iter().find(|source| source.domain == domain.domain);
            let read = || machine.energy(source?).ok();
            domain.step_seconds = step(clock, LIMIT_NS, read);
        }
    }
}

/// Returns the typical time between two changes of a counter in seconds. If it does not change within the limit, the
/// limit, which is less than the truth; `None` if it cannot be read.
pub fn step(
    clock: &impl Clock,
    limit_ns: u64,
    mut read: impl FnMut() -> Option<u64>,
) -> Option<f64> {
    /// Changes that are enough.
    const ENOUGH: usize = 6;
    /// Pause between readings: a tenth of the finest step.
    const PAUSE_NS: u64 = 100_000;

    let start = clock.now();
    let mut last = read()?;
    let mut changes = Vec::with_capacity(ENOUGH);
    loop {
        let now = clock.now();
        if changes.len() == ENOUGH || now.saturating_sub(start) >= limit_ns {
            let mut steps: Vec<u64> = changes.windows(2).map(|pair| pair[1] - pair[0]).collect();
            steps.sort_unstable();
            let elapsed = now.saturating_sub(start);
            let typical = steps.get(steps.len() / 2).copied().unwrap_or(elapsed);
            return Some(typical as f64 / 1e9);
        }
        let found = read()?;
        if found != last {
            changes.push(clock.now());
            last = found;
        }
        clock.wait_until(clock.now() + PAUSE_NS);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use host_machine::fake::Files;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    const MACHINE: &[(&str, &str)] = &[
        ("sys/class/powercap/intel-rapl/enabled", "1\n"),
        ("sys/class/powercap/intel-rapl:0/name", "package-0\n"),
        ("sys/class/powercap/intel-rapl:0/energy_uj", "262143000000\n"),
        ("sys/class/powercap/intel-rapl:0/max_energy_range_uj", "262143328850\n"),
        ("sys/class/powercap/intel-rapl:0:0/name", "dram\n"),
        ("sys/class/powercap/intel-rapl:0:0/energy_uj", "5000000\n"),
        ("sys/class/powercap/intel-rapl:0:0/max_energy_range_uj", "65712999613\n"),
        ("sys/class/powercap/intel-rapl:1/name", "psys\n"),
        ("sys/class/powercap/intel-rapl:1/energy_uj", "0\n"),
        ("sys/class/powercap/intel-rapl:1/max_energy_range_uj", "262143328850\n"),
        ("sys/class/powercap/intel-rapl-mmio:0/name", "package-0\n"),
        ("sys/class/powercap/intel-rapl-mmio:0/energy_uj", "1\n"),
        ("sys/class/powercap/dtpm/enabled", "1\n"),
    ];

    fn set(files: &Files, zone: &str, microjoules: u64) {
        let path = format!("sys/class/powercap/intel-rapl:{zone}/energy_uj");
        files.write(&path, &format!("{microjoules}\n"));
    }

    #[test]
    fn every_domain_is_counted_over_its_turns() {
        let files = Files::new(MACHINE);
        let mut rapl = Rapl::start(&files.machine(), 10 * SECOND).expect("counters");
        set(&files, "0", 1_671_150); // 0.328850 J to the end of its range, and 1.671150 J more.
        set(&files, "0:0", 5_500_000);
        rapl.sample(11 * SECOND); // Too soon: what it would have seen must not be lost either.
        rapl.sample(16 * SECOND);
        set(&files, "0", 11_671_150);
        set(&files, "1", 30_000_000);
        let energy = rapl.end(20 * SECOND).expect("energy");
        let energy: Vec<_> =
            energy.iter().map(|one| (one.domain.as_str(), one.joules, one.seconds)).collect();
        assert_eq!(
            energy,
            [("package-0", 12.0, 10.0), ("package-0/dram", 0.5, 10.0), ("psys", 30.0, 10.0)]
        );
    }

    /// A clock that moves only if someone waits or reads, by 10 µs.
    struct Ticking(Cell<u64>);

    impl Clock for Ticking {
        fn now(&self) -> u64 {
            self.0.set(self.0.get() + 10_000);
            self.0.get()
        }

        fn wait_until(&self, deadline_ns: u64) -> u64 {
            self.0.set(self.0.get().max(deadline_ns));
            self.0.get()
        }
    }

    #[test]
    fn a_counters_step_is_measured() {
        for (step_ns, limit_ns) in
            [(1_000_000, 100_000_000), (20_000_000, SECOND), (100_000_000, SECOND)]
        {
            let clock = Ticking(Cell::new(0));
            let found = step(&clock, limit_ns, || Some(clock.0.get() / step_ns)).expect("a step");
            let ratio = found * 1e9 / step_ns as f64;
            assert!((0.8..1.3).contains(&ratio), "{step_ns}: {found}");
        }
        // One that stands still may take as long as was waited, or longer.
        let clock = Ticking(Cell::new(0));
        assert!(step(&clock, SECOND, || Some(7)).expect("a bound") >= 1.0);
        assert_eq!(step(&clock, SECOND, || None), None);
    }

    /// Two wraps between two readings look like one. A machine of 2 kW fills 65,713 J in 33 s.
    #[test]
    fn a_counter_that_may_have_gone_round_twice_is_a_gap() {
        let files = Files::new(MACHINE);
        let rapl = Rapl::start(&files.machine(), 0).expect("counters");
        assert_eq!(rapl.end(32 * SECOND).map(|energy| energy.len()), Ok(3));
        let rapl = Rapl::start(&files.machine(), 0).expect("counters");
        let gap = rapl.end(40 * SECOND).expect_err("nothing was read for 40 s");
        let expected = NotMeasured::CounterMayHaveWrapped {
            domain: "package-0/dram".into(),
            elapsed_ns: 40 * SECOND,
            range_microjoules: 65_712_999_613,
        };
        assert_eq!(gap, expected.into());
        let mut rapl = Rapl::start(&files.machine(), 0).expect("counters");
        rapl.sample(20 * SECOND);
        assert_eq!(rapl.end(40 * SECOND).map(|energy| energy.len()), Ok(3));
    }

    #[test]
    fn a_machine_without_counters_is_a_gap() {
        let files = Files::new(&[("sys/class/powercap/dtpm/enabled", "1\n")]);
        let gap = Rapl::start(&files.machine(), 0).expect_err("no counters");
        let folder = "/sys/class/powercap".to_owned();
        assert_eq!(gap, NotMeasured::NoEnergyCounters { folder }.into());
    }

    #[test]
    fn a_counter_that_cannot_be_read_is_a_gap_that_names_it() {
        let gap = no_energy(NoEnergy::Unreadable {
            file: "/sys/class/x/energy_uj".into(),
            error: io::ErrorKind::PermissionDenied.into(),
        });
        assert_eq!(
            gap.to_string(),
            "only root may read /sys/class/x/energy_uj; to allow it until the next boot: \
             sudo chmod a+r /sys/class/x/energy_uj"
        );
        let files = Files::new(MACHINE);
        let rapl = Rapl::start(&files.machine(), 0).expect("counters");
        files.write("sys/class/powercap/intel-rapl:1/energy_uj", "much\n");
        let file = "/sys/class/powercap/intel-rapl:1/energy_uj".to_owned();
        let gap = NotMeasured::NotACount { file, text: "much".into() };
        assert_eq!(rapl.end(SECOND), Err(gap.into()));
        files.remove("sys/class/powercap/intel-rapl:0/energy_uj");
        let gap = Rapl::start(&files.machine(), 0).expect_err("a missing file");
        assert!(gap.to_string().contains("intel-rapl:0/energy_uj: No such file"), "{gap:?}");
    }

    /// Files of this machine, with permissions as they are.
    #[test]
    fn this_machine_has_counters_or_says_why_not() {
        match Rapl::start(&Machine::this(), 0) {
            Ok(rapl) => assert!(rapl.end(SECOND).is_ok_and(|energy| !energy.is_empty())),
            Err(gap) => assert!(gap.to_string().contains("/sys/class/powercap"), "{gap:?}"),
        }
    }
}
