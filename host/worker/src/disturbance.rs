//! Interruptions during measurement: the kernel's counters before and after, and warnings about
//! the difference.
//!
//! Voluntary switches, to wait for something, raise no warning: a backend's threads make them all the
//! time. Stolen time is reported with other reasons of a busy machine.

use host_machine::process::{self, Usage};
use host_machine::{Activity, Machine, QuotaThrottling};
use host_record::{Disturbance, Doubt, Throttle, Warning};

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
    /// Reads the counters. `processors` are those of the worker.
    pub(crate) fn read(machine: &Machine, processors: &[u32], activity: Activity) -> Self {
        Self {
            usage: process::usage(),
            stolen_ns: activity.machine.and_then(|machine| machine.stolen_ns),
            thermal_throttles: machine.thermal_throttles(processors),
            quota: machine.quota_throttling(),
            frequency_hertz: machine.highest_frequency(processors),
        }
    }

    /// Returns the difference to a later moment.
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

/// Returns warnings about interruptions.
pub(crate) fn warnings(found: &Disturbance) -> Vec<Warning> {
    [
        heat(found),
        quota_reached(found),
        frequency_changed(found),
        preempted(found),
        page_faults(found),
    ]
    .into_iter()
    .flatten()
    .map(Warning::from)
    .collect()
}

/// Warns about preemptions. Another process keeps a processor for some milliseconds, so fifty times a second
/// are at least a tenth of the time, twice the threshold of a drift. A few per second are the system's own.
fn preempted(found: &Disturbance) -> Option<Doubt> {
    const A_SECOND: f64 = 50.0;
    let (times, seconds) = (found.involuntary_switches?, found.elapsed_ns as f64 / 1e9);
    // A single one in a short measurement does not make a rate.
    let is_much = times >= 10 && times as f64 > A_SECOND * seconds;
    is_much.then_some(Doubt::Preempted { times, elapsed_ns: found.elapsed_ns })
}

/// Warns about heat, from the first event on: the processor then runs slower for a while, and does not report
/// by how much.
fn heat(found: &Disturbance) -> Option<Doubt> {
    let times = found.thermal_throttles.filter(|times| *times > 0)?;
    Some(Doubt::Throttled { by: Throttle::Heat { times } })
}

/// Warns about a quota that has stopped the processes for at least a hundredth of the time. A group that
/// hardly reaches its quota is still stopped for a few microseconds.
fn quota_reached(found: &Disturbance) -> Option<Doubt> {
    const QUOTA: f64 = 0.01;
    let times = found.quota_throttles.filter(|times| *times > 0)?;
    let stopped_ns = found.quota_throttled_ns?;
    (stopped_ns as f64 > QUOTA * found.elapsed_ns as f64)
        .then_some(Doubt::Throttled { by: Throttle::Quota { times, stopped_ns } })
}

/// Warns about a changed frequency. A tenth more or less changes latencies of computation by as
/// much, twice the threshold of a drift. Turbo causes smaller changes all the time.
fn frequency_changed(found: &Disturbance) -> Option<Doubt> {
    const CHANGE: f64 = 0.10;
    let (from_hertz, to_hertz) = found.frequency_start_hertz.zip(found.frequency_end_hertz)?;
    let change = from_hertz.abs_diff(to_hertz) as f64;
    (change > CHANGE * from_hertz as f64)
        .then_some(Doubt::FrequencyChanged { from_hertz, to_hertz })
}

/// Warns about page faults. After a warm-up, nothing should have to be read from a disk: one page
/// takes a tenth of a millisecond at best, and ten in a measurement are not chance. A mapped page
/// costs at least a quarter of a microsecond; such faults matter if that alone is a twentieth of the
/// processor time, as with an allocator that returns memory after every query.
fn page_faults(found: &Disturbance) -> Option<Doubt> {
    const MAJOR: u64 = 10;
    const MINOR_NS: f64 = 250.0;
    const MINOR: f64 = 0.05;
    let disk_pages = found.major_faults.filter(|pages| *pages >= MAJOR);
    let mapped = found.minor_faults.zip(found.processor_ns).and_then(|(pages, processor_ns)| {
        let ratio = pages as f64 * MINOR_NS / processor_ns as f64;
        (processor_ns > 0 && ratio > MINOR).then_some((pages, ratio))
    });
    if disk_pages.is_none() && mapped.is_none() {
        return None;
    }
    let (mapped_pages, mapping_ratio) = mapped.unzip();
    Some(Doubt::PageFaults { disk_pages, mapped_pages, mapping_ratio })
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
        let doubts: Vec<_> = warnings(&loud).into_iter().map(|warning| warning.doubt).collect();
        let quota = Throttle::Quota { times: 5, stopped_ns: 50_000_000 };
        let expected = [
            Doubt::Throttled { by: Throttle::Heat { times: 3 } },
            Doubt::Throttled { by: quota },
            Doubt::FrequencyChanged { from_hertz: 2_000_000_000, to_hertz: 1_500_000_000 },
            Doubt::Preempted { times: 400, elapsed_ns: 1_000_000_000 },
            Doubt::PageFaults {
                disk_pages: Some(10),
                mapped_pages: Some(400_000),
                mapping_ratio: Some(0.1),
            },
        ];
        assert_eq!(doubts, expected);
    }
}
