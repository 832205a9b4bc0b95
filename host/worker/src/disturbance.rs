//! What came between while a case was measured: the kernel's counters before and after, and what
//! is doubtful about the difference.
//!
//! Switches that a thread asks for, to wait for something, raise no warning: a backend's threads do so all the
//! time. Stolen time is told with what else keeps a machine busy.

use host_machine::process::{self, Usage};
use host_machine::{Activity, Machine, QuotaThrottling};
use host_record::{Disturbance, Warning, WarningKind};

/// The kernel's counters at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counters {
    usage: Usage,
    stolen_ns: Option<u64>,
    thermal_throttles: Option<u64>,
    quota: Option<QuotaThrottling>,
    frequency_hertz: Option<u64>,
}

impl Counters {
    /// Reads them. `processors` are those of the worker.
    pub(crate) fn read(machine: &Machine, processors: &[u32], activity: Activity) -> Self {
        Self {
            usage: process::usage(),
            stolen_ns: activity.machine.and_then(|machine| machine.stolen_ns),
            thermal_throttles: machine.thermal_throttles(processors),
            quota: machine.quota_throttling(),
            frequency_hertz: machine.highest_frequency(processors),
        }
    }

    /// What was counted from one moment to a later one.
    pub(crate) fn until(&self, after: &Self, elapsed_ns: u64) -> Disturbance {
        let difference = |before: Option<u64>, after: Option<u64>| after?.checked_sub(before?);
        let counted =
            |count: fn(&Usage) -> u64| count(&after.usage).checked_sub(count(&self.usage));
        let quota = |count: fn(QuotaThrottling) -> u64| {
            difference(self.quota.map(count), after.quota.map(count))
        };
        Disturbance {
            elapsed_ns,
            processor_ns: counted(|usage| usage.processor_ns),
            voluntary_switches: counted(|usage| usage.voluntary_switches),
            involuntary_switches: counted(|usage| usage.involuntary_switches),
            minor_faults: counted(|usage| usage.minor_faults),
            major_faults: counted(|usage| usage.major_faults),
            stolen_ns: difference(self.stolen_ns, after.stolen_ns),
            thermal_throttles: difference(self.thermal_throttles, after.thermal_throttles),
            quota_throttles: quota(|quota| quota.times),
            quota_throttled_ns: quota(|quota| quota.ns),
            frequency_start_hertz: self.frequency_hertz,
            frequency_end_hertz: after.frequency_hertz,
        }
    }
}

/// What is doubtful about a measurement by what came between.
pub(crate) fn warnings(found: &Disturbance) -> Vec<Warning> {
    [throttled(found), frequency_changed(found), preempted(found), page_faults(found)]
        .into_iter()
        .flatten()
        .collect()
}

/// Whoever takes a processor keeps it for some milliseconds, so that fifty times a second are a tenth of the time
/// and more, twice what counts as a drift. A few a second are the system's own.
fn preempted(found: &Disturbance) -> Option<Warning> {
    const A_SECOND: f64 = 50.0;
    let (times, seconds) = (found.involuntary_switches?, found.elapsed_ns as f64 / 1e9);
    // One in a short measurement is no rate.
    let is_much = times >= 10 && times as f64 > A_SECOND * seconds;
    is_much.then(|| Warning {
        kind: WarningKind::Preempted,
        evidence: format!(
            "While measuring, the kernel took the processor from the worker's threads {times} times, {:.0} \
             times a second.",
            times as f64 / seconds
        ),
    })
}

/// Heat is told by the first event: the processor then runs slower for a while, by how much it does
/// not say. A quota is no matter until it has held the processes back for a hundredth of the time,
/// since a group that never reaches it for long is stopped for a last few microseconds.
fn throttled(found: &Disturbance) -> Option<Warning> {
    const QUOTA: f64 = 0.01;
    let mut said = Vec::new();
    if let Some(times @ 1..) = found.thermal_throttles {
        said.push(format!("heat slowed the processors {times} times"));
    }
    if let (Some(times @ 1..), Some(nanoseconds)) =
        (found.quota_throttles, found.quota_throttled_ns)
        && nanoseconds as f64 > QUOTA * found.elapsed_ns as f64
    {
        said.push(format!(
            "the control group's quota stopped its processes {times} times, for {:.1} ms in all",
            nanoseconds as f64 / 1e6
        ));
    }
    (!said.is_empty()).then(|| Warning {
        kind: WarningKind::Throttled,
        evidence: format!("While measuring, {}.", said.join(", and ")),
    })
}

/// A tenth more or less moves the latencies of whatever computes by as much, twice what counts as a
/// drift. Less is what turbo does from moment to moment.
fn frequency_changed(found: &Disturbance) -> Option<Warning> {
    const CHANGE: f64 = 0.10;
    let (start, end) = found.frequency_start_hertz.zip(found.frequency_end_hertz)?;
    let change = (end as f64 - start as f64) / start as f64;
    (change.abs() > CHANGE).then(|| Warning {
        kind: WarningKind::FrequencyChanged,
        evidence: format!(
            "The processors' highest frequency went from {:.2} GHz when measuring began to {:.2} \
             GHz when it ended ({:+.0} %).",
            start as f64 / 1e9,
            end as f64 / 1e9,
            100.0 * change
        ),
    })
}

/// After a warm-up, nothing should have to be read from a disk any more: one page is read in a tenth
/// of a millisecond at best. Ten in a measurement are more than chance leaves over. A page that is
/// only mapped costs a quarter of a microsecond at the least; they matter where that alone is a
/// twentieth of the processor time, as with an allocator that gives memory back after every query.
fn page_faults(found: &Disturbance) -> Option<Warning> {
    const MAJOR: u64 = 10;
    const MINOR_NS: f64 = 250.0;
    const MINOR: f64 = 0.05;
    let mut said = Vec::new();
    if let Some(count @ MAJOR..) = found.major_faults {
        said.push(format!("{count} pages of memory had to be read from a disk"));
    }
    if let Some((count, processor_ns)) = found.minor_faults.zip(found.processor_ns)
        && count as f64 * MINOR_NS > MINOR * processor_ns as f64
        && processor_ns > 0
    {
        let share = 100.0 * count as f64 * MINOR_NS / processor_ns as f64;
        said.push(format!(
            "{count} pages were mapped anew, which took at least {share:.0} % of the processor time"
        ));
    }
    (!said.is_empty()).then(|| Warning {
        kind: WarningKind::PageFaults,
        evidence: format!("While measuring, {}.", said.join(", and ")),
    })
}

#[cfg(test)]
mod tests {
    use host_machine::MachineActivity;
    use host_machine::fake::Files;

    use super::*;

    fn counters(throttles: &str, usec: &str, kilohertz: &str) -> Counters {
        let statistics =
            format!("usage_usec 5\nnr_periods 9\nnr_throttled 3\nthrottled_usec {usec}\n");
        let files = Files::new(&[
            ("proc/self/cgroup", "0::/a\n"),
            ("sys/fs/cgroup/a/cpu.stat", &statistics),
            ("sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", throttles),
            ("sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count", "7"),
            ("sys/devices/system/cpu/cpu2/thermal_throttle/core_throttle_count", "70"),
            ("sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_count", "100"),
            ("sys/devices/system/cpu/cpu1/thermal_throttle/package_throttle_count", "100"),
            ("sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", kilohertz),
            ("sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq", "800000"),
            ("sys/devices/system/cpu/cpu2/cpufreq/scaling_cur_freq", "9000000"),
        ]);
        let machine = MachineActivity { stolen_ns: Some(5), ..MachineActivity::default() };
        let activity = Activity { machine: Some(machine), ..Activity::default() };
        Counters::read(&files.machine(), &[0, 1], activity)
    }

    #[test]
    fn counters_are_those_of_the_workers_processors() {
        let before = counters("1", "10", "2000000");
        let after = counters("5", "1510", "2100000");
        let found = before.until(&after, 1_000_000_000);
        assert_eq!(found.thermal_throttles, Some(4));
        assert_eq!((found.quota_throttles, found.quota_throttled_ns), (Some(0), Some(1_500_000)));
        assert_eq!(found.frequency_start_hertz, Some(2_000_000_000));
        assert_eq!(found.frequency_end_hertz, Some(2_100_000_000));
        assert_eq!(found.stolen_ns, Some(0));
        assert!(found.minor_faults.is_some() && found.voluntary_switches.is_some());
    }

    #[test]
    fn a_system_that_says_nothing_has_no_counts() {
        let files = Files::new(&[]);
        let counters = Counters::read(&files.machine(), &[0], Activity::default());
        let found = counters.until(&counters, 1);
        assert_eq!(found.thermal_throttles, None);
        assert_eq!((found.quota_throttles, found.quota_throttled_ns), (None, None));
        assert_eq!((found.frequency_start_hertz, found.frequency_end_hertz), (None, None));
        assert_eq!(found.stolen_ns, None);
        assert_eq!(warnings(&found), []);
    }

    #[test]
    fn each_warning_names_its_figures_and_small_ones_raise_none() {
        let quiet = Disturbance {
            elapsed_ns: 1_000_000_000,
            processor_ns: Some(1_000_000_000),
            minor_faults: Some(100),
            major_faults: Some(9),
            voluntary_switches: Some(100_000),
            involuntary_switches: Some(50),
            stolen_ns: Some(0),
            thermal_throttles: Some(0),
            quota_throttles: Some(5),
            quota_throttled_ns: Some(9_000_000),
            frequency_start_hertz: Some(2_000_000_000),
            frequency_end_hertz: Some(1_810_000_000),
        };
        assert_eq!(warnings(&quiet), []);
        let loud = Disturbance {
            involuntary_switches: Some(400),
            minor_faults: Some(400_000),
            major_faults: Some(10),
            thermal_throttles: Some(3),
            quota_throttled_ns: Some(50_000_000),
            frequency_end_hertz: Some(1_500_000_000),
            ..quiet
        };
        let shown: Vec<_> = warnings(&loud)
            .iter()
            .map(|warning| format!("{}: {}", warning.kind, warning.evidence))
            .collect();
        insta::assert_debug_snapshot!(shown, @r#"
    [
        "throttled: While measuring, heat slowed the processors 3 times, and the control group's quota stopped its processes 5 times, for 50.0 ms in all.",
        "frequency-changed: The processors' highest frequency went from 2.00 GHz when measuring began to 1.50 GHz when it ended (-25 %).",
        "preempted: While measuring, the kernel took the processor from the worker's threads 400 times, 400 times a second.",
        "page-faults: While measuring, 10 pages of memory had to be read from a disk, and 400000 pages were mapped anew, which took at least 10 % of the processor time.",
    ]
    "#);
    }
}
