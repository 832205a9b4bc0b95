//! Facts about the clock that times queries.

use host_machine::Machine;
use host_measure::{Anchor, Calibration, SystemClock};
use host_record::{ClockFacts, Doubt, Failure, Warning};

/// Returns the clock that times queries: the processor's counter if the kernel takes its own time from it and it is
/// invariant, else the operating system's clock.
pub(crate) fn choose(anchor: Option<Anchor>, machine: &Machine) -> SystemClock {
    let is_proved = machine.clock_source().as_deref() == Some("tsc")
        && machine.invariant_counter() == Some(true);
    match anchor.filter(|_| is_proved) {
        Some(anchor) => SystemClock::on_counter(anchor),
        None => SystemClock::new(),
    }
}

/// Checks that the counter kept to the operating system's clock while queries were timed.
///
/// The limit is twice as much as the kernel may steer its clock.
///
/// # Errors
///
/// [`Failure::Impossible`] if it did not.
pub(crate) fn check(clock: &SystemClock) -> Result<(), Failure> {
    clock.disagreement().map_or(Ok(()), |(ahead_ns, elapsed_ns)| judge(ahead_ns, elapsed_ns))
}

fn judge(ahead_ns: i64, elapsed_ns: u64) -> Result<(), Failure> {
    /// Largest error of a single reading, on a busy machine.
    const READING_NS: u64 = 100_000;
    if ahead_ns.unsigned_abs() <= READING_NS + elapsed_ns / 1000 {
        return Ok(());
    }
    let detail = format!(
        "within {:.3} s, the processor's counter and the kernel's clock came {:.3} ms apart; was the machine \
         suspended, or moved to another host?",
        elapsed_ns as f64 / 1e9,
        ahead_ns as f64 / 1e6,
    );
    Err(Failure::Impossible { detail })
}

/// Returns the measured facts about the clock, and the kernel's.
///
/// `CLOCK_MONOTONIC` is read through the vDSO: a function that the kernel maps into each process,
/// which reads a register of the processor and computes the time from it. With a clock source
/// without such a register it enters the kernel instead, which the cost of a reading shows.
pub(crate) fn facts(
    clock: &SystemClock,
    calibration: &Calibration,
    machine: &Machine,
) -> ClockFacts {
    ClockFacts {
        source: clock.source().into(),
        resolution_ns: calibration.resolution_ns,
        read_ns: calibration.read_ns,
        loop_ns: calibration.loop_ns,
        checked_readings: Some(calibration.checked_readings),
        kernel_source: machine.clock_source(),
        invariant_counter: machine.invariant_counter(),
    }
}

/// Warns about a slow clock. A reading through the vDSO costs 20 to 60 ns on processors of the last
/// fifteen years; one that costs 200 ns enters the kernel or is trapped by a hypervisor. `hpet` and
/// `acpi_pm` are timers outside the processor, whose reading takes a microsecond and makes
/// processors wait for each other.
pub(crate) fn slow(facts: &ClockFacts) -> Option<Warning> {
    const DEAR_NS: f64 = 200.0;
    let source = facts.kernel_source.as_deref();
    let outside = matches!(source, Some("hpet" | "acpi_pm"));
    (outside || facts.read_ns > DEAR_NS).then(|| {
        Doubt::ClockSlow { read_ns: facts.read_ns, kernel_source: facts.kernel_source.clone() }
            .into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use host_machine::fake::Files;

    const CALIBRATION: Calibration =
        Calibration { resolution_ns: 1, read_ns: 25.0, loop_ns: 30.0, checked_readings: 256 };

    fn told(source: &str, flags: &str) -> ClockFacts {
        let information = format!("processor\t: 0\nflags\t\t: fpu {flags} sse\n");
        let files = Files::new(&[
            ("sys/devices/system/clocksource/clocksource0/current_clocksource", source),
            ("proc/cpuinfo", &information),
        ]);
        facts(&SystemClock::new(), &CALIBRATION, &files.machine())
    }

    #[test]
    fn the_kernels_source_and_the_counter_are_reported() {
        let tsc = told("tsc\n", "tsc constant_tsc nonstop_tsc");
        assert_eq!(tsc.source, "CLOCK_MONOTONIC");
        assert_eq!(
            (tsc.kernel_source.as_deref(), tsc.invariant_counter),
            (Some("tsc"), Some(true))
        );
        assert_eq!(tsc.checked_readings, Some(256));
        assert_eq!(told("hpet", "tsc constant_tsc").invariant_counter, Some(false));
        assert_eq!(told("hpet", "").invariant_counter, None);
        let nothing = Files::new(&[]);
        assert_eq!(
            facts(&SystemClock::new(), &CALIBRATION, &nothing.machine()).kernel_source,
            None
        );
    }

    #[test]
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    fn the_counter_is_read_only_if_the_kernel_trusts_it() {
        let chosen = |source: &str, flags: &str| {
            let information = format!("processor\t: 0\nflags\t\t: fpu {flags} sse\n");
            let files = Files::new(&[
                ("sys/devices/system/clocksource/clocksource0/current_clocksource", source),
                ("proc/cpuinfo", &information),
            ]);
            choose(Anchor::take(), &files.machine()).source()
        };
        let flags = "tsc constant_tsc nonstop_tsc";
        assert_eq!(chosen("tsc\n", flags), "TSC, scaled to CLOCK_MONOTONIC");
        assert_eq!(chosen("tsc\n", "tsc constant_tsc"), "CLOCK_MONOTONIC");
        assert_eq!(chosen("hpet\n", flags), "CLOCK_MONOTONIC");
        assert_eq!(chosen("kvm-clock\n", flags), "CLOCK_MONOTONIC");
    }

    #[test]
    fn a_counter_that_leaves_the_kernels_clock_is_impossible() {
        assert_eq!(judge(0, 0), Ok(()));
        assert_eq!(judge(-90_000, 1_000_000), Ok(()));
        assert_eq!(judge(500_000, 1_000_000_000), Ok(()));
        let failure = judge(-2_500_000, 2_000_000_000).expect_err("a suspended machine");
        assert_eq!(
            failure.to_string(),
            "impossible measurement: within 2.000 s, the processor's counter and the kernel's clock came -2.500 ms \
             apart; was the machine suspended, or moved to another host?"
        );
    }

    #[test]
    fn a_clock_outside_of_the_processor_or_of_a_dear_reading_is_doubted() {
        let flags = "tsc constant_tsc nonstop_tsc";
        assert_eq!(slow(&told("tsc", flags)), None);
        assert_eq!(slow(&told("kvm-clock", flags)), None);
        assert!(slow(&told("hpet", flags)).is_some());
        let dear = ClockFacts { read_ns: 431.4, ..told("xen", flags) };
        let kernel_source = Some("xen".into());
        let doubt = Doubt::ClockSlow { read_ns: 431.4, kernel_source };
        assert_eq!(slow(&dear).expect("a warning").doubt, doubt);
    }
}
