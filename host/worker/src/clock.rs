//! Facts about the clock that times queries.

use host_machine::Machine;
use host_measure::{Calibration, SystemClock};
use host_record::{ClockFacts, Doubt, Warning};

/// Returns the measured facts about the clock, and the kernel's.
///
/// `CLOCK_MONOTONIC` is read through the vDSO: a function that the kernel maps into each process,
/// which reads a register of the processor and computes the time from it. With a clock source
/// without such a register it enters the kernel instead, which the cost of a reading shows.
pub(crate) fn facts(calibration: &Calibration, machine: &Machine) -> ClockFacts {
    ClockFacts {
        source: SystemClock::SOURCE.into(),
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
        facts(&CALIBRATION, &files.machine())
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
        assert_eq!(facts(&CALIBRATION, &nothing.machine()).kernel_source, None);
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
