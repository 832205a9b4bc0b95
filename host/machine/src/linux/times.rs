//! Processor time, which the kernel counts in ticks.

use super::files::Files;
use crate::system::{MachineActivity, ProcessorActivity};

/// User, nice, system, idle, waiting for a disk, interrupts, soft interrupts, stolen. Guests, which
/// follow, are part of the first two.
type Times = [u64; 8];

/// Nanoseconds of a tick.
fn tick_ns() -> Option<u64> {
    1_000_000_000_u64.checked_div(rustix::param::clock_ticks_per_second())
}

/// Returns the processor time of a process in nanoseconds, all its threads together.
pub(super) fn of_process(files: &Files, process: u32) -> Option<u64> {
    ticks_of_process(&files.text(&format!("proc/{process}/stat"))?)?.checked_mul(tick_ns()?)
}

/// Returns the ticks from the line of `/proc/PID/stat`. Its second field is a name in parentheses that may
/// contain anything; the 14th counts the time in the process and the 15th in the kernel.
fn ticks_of_process(text: &str) -> Option<u64> {
    let (_, behind_name) = text.rsplit_once(')')?;
    let mut fields = behind_name.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    ticks()?.checked_add(ticks()?)
}

pub(super) fn of_machine(files: &Files) -> Option<MachineActivity> {
    machine(&files.text("proc/stat")?, tick_ns()?)
}

fn machine(text: &str, tick_ns: u64) -> Option<MachineActivity> {
    let times = times(text, "cpu")?;
    let processors = text.lines().skip(1).take_while(|line| line.starts_with("cpu")).count();
    Some(MachineActivity {
        processors: u32::try_from(processors).ok()?,
        busy_ns: busy(times).checked_mul(tick_ns)?,
        stolen_ns: Some(times[7].checked_mul(tick_ns)?),
    })
}

pub(super) fn of_processors(files: &Files, processors: &[u32]) -> Option<ProcessorActivity> {
    sum(&files.text("proc/stat")?, processors, tick_ns()?)
}

fn sum(text: &str, processors: &[u32], tick_ns: u64) -> Option<ProcessorActivity> {
    let mut activity = ProcessorActivity { busy_ns: 0, total_ns: 0 };
    for processor in processors {
        let times = times(text, &format!("cpu{processor}"))?;
        activity.busy_ns += busy(times).checked_mul(tick_ns)?;
        activity.total_ns += times.iter().sum::<u64>().checked_mul(tick_ns)?;
    }
    Some(activity)
}

pub(super) fn stolen_share(files: &Files) -> Option<f64> {
    let times = times(&files.text("proc/stat")?, "cpu")?;
    let total = times.iter().sum::<u64>();
    (total > 0).then(|| times[7] as f64 / total as f64)
}

/// Returns the line of `/proc/stat` that begins with `name`.
fn times(text: &str, name: &str) -> Option<Times> {
    let fields = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    let mut fields = fields.split_whitespace();
    let mut times = [0; 8];
    for time in &mut times {
        *time = fields.next()?.parse().ok()?;
    }
    Some(times)
}

fn busy([user, nice, system, _, _, interrupts, soft_interrupts, _]: Times) -> u64 {
    user + nice + system + interrupts + soft_interrupts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Machine, fake};

    const TICK_NS: u64 = 10_000_000;

    #[test]
    fn the_kernels_counters_are_read() {
        let text = "cpu  10 20 30 400 50 6 7 8 9 0\ncpu0 1 2 3\ncpu1 1 2 3\nintr 5\n";
        assert_eq!(
            machine(text, TICK_NS).expect("well formed"),
            MachineActivity { processors: 2, busy_ns: 730_000_000, stolen_ns: Some(80_000_000) }
        );
        assert_eq!(machine("cpu 1 2\n", TICK_NS), None);
        assert_eq!(machine("", TICK_NS), None);
        let text = "cpu  9 9 9 9 9 9 9 9\ncpu0 10 20 30 400 50 6 7 8 9 0\n\
                    cpu1 1 0 0 9 0 0 0 0\ncpu10 5 0 0 5 0 0 0 0 0 0\nintr 5\n";
        let activity = |processors: &[u32]| sum(text, processors, TICK_NS);
        let is = |busy_ns, total_ns| Some(ProcessorActivity { busy_ns, total_ns });
        assert_eq!(activity(&[0]), is(730_000_000, 5_310_000_000));
        assert_eq!(activity(&[1, 10]), is(60_000_000, 200_000_000));
        assert_eq!(activity(&[0, 2]), None, "there is no such processor");
        let files = fake::Files::new(&[("proc/stat", "cpu  50 0 20 20 0 0 0 10 0 0\n")]);
        assert_eq!(files.machine().stolen_share(), Some(0.1));
    }

    #[test]
    fn a_process_of_any_name_is_accounted_for() {
        let text = "7 (a) (b c) S 1 7 7 0 -1 4194304 500 0 0 0 120 30 9 9 20 0 4 0 100 5 5\n";
        assert_eq!(ticks_of_process(text), Some(150));
        assert_eq!(ticks_of_process("7 (a) S 1 7"), None);
        assert_eq!(ticks_of_process(""), None);
    }

    #[test]
    fn this_process_is_accounted_for() {
        let machine = Machine::this();
        let own = std::process::id();
        let before = machine.activity(&[own]);
        let mut sum = 0_u64;
        while machine.activity(&[]).own_ns == before.own_ns {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(machine.activity(&[]).machine.is_some_and(|machine| machine.processors > 0));
        // The same file has this process's own time.
        assert!(before.host_ns.is_some());
        assert_eq!(machine.activity(&[own, u32::MAX]).host_ns, None, "one of them does not run");
        while of_process(&Files::at("/"), own).expect("Linux tells") == 0 {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        let resident = machine.resident_memory().expect("Linux tells");
        assert!(machine.peak_memory().expect("Linux tells") >= resident && resident > 0);
        assert!(machine.proportional_memory().is_none_or(|bytes| bytes > 0));
        let used = machine.memory_of(std::process::id()).expect("Linux tells");
        assert!(used.kept > 100_000 && used.resident >= used.kept, "{used:?}");
        assert!(machine.available_memory().expect("Linux tells") > 1 << 20);
    }
}
