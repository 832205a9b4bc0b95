//! What depends on the operating system: descriptors, the loader, process accounting.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use rustix::process::Signal;

/// Takes the pipe to the host away from standard output and puts standard error in its place.
/// From now on nothing that a plugin prints can end up between frames.
pub(crate) fn take_protocol() -> io::Result<File> {
    // Above the standard descriptors, and not inherited by what a plugin starts.
    let protocol = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    Ok(protocol.into())
}

/// Has the kernel end this process when the host ends, even while a plugin hangs. A host that
/// ended before is found out by the pipe that it left.
pub(crate) fn end_with_parent() {
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
}

/// Has the kernel choose this process, not the host, when memory runs out.
pub(crate) fn be_first_to_go() {
    let _ = fs::write("/proc/self/oom_score_adj", "1000");
}

/// Ends the process without running exit handlers or destructors of libraries.
pub(crate) fn end(code: i32) -> ! {
    // SAFETY: it only ends the process; every frame was written without a buffer.
    unsafe { libc::_exit(code) }
}

/// Opens a library with all its symbols resolved, so that none is looked for while the clock runs.
///
/// # Safety
///
/// The library's initialisers run; as for [`Library::open`].
pub(crate) unsafe fn open_library(path: &Path) -> Result<Library, libloading::Error> {
    // SAFETY: the caller vouches for the library.
    unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }
}

/// What tells one state of a file from another without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    /// Last written to, in seconds and nanoseconds.
    modified: (i64, i64),
    /// Last changed in any way: unlike the other time, no program can set it.
    changed: (i64, i64),
}

impl Stamp {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// Resident memory of this process in bytes.
pub(crate) fn resident_memory() -> Option<u64> {
    status("VmRSS:")
}

/// The most resident memory that this process has ever had, in bytes.
pub(crate) fn peak_memory() -> Option<u64> {
    status("VmHWM:")
}

fn status(name: &str) -> Option<u64> {
    kibibytes(&fs::read_to_string("/proc/self/status").ok()?, name)
}

/// The value in bytes behind `name` in lines such as `VmRSS:  16 kB`.
fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// What this process, the host and the machine did until now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Activity {
    /// Processor time of this process in nanoseconds.
    pub(crate) own_ns: u64,
    /// Processor time in nanoseconds of the process that started this one, which is the host: it takes what
    /// is measured while it is measured. `None` where the system does not tell.
    pub(crate) host_ns: Option<u64>,
    /// The machine.
    pub(crate) machine: Option<MachineActivity>,
}

/// What all processors did until now, added up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct MachineActivity {
    /// Processors.
    pub(crate) processors: u32,
    /// Time in nanoseconds spent in processes and in the kernel.
    pub(crate) busy_ns: u64,
    /// Time in nanoseconds that a hypervisor kept for others.
    pub(crate) stolen_ns: u64,
}

/// What some processors did until now, added up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProcessorActivity {
    /// Time in nanoseconds spent in processes and in the kernel.
    pub(crate) busy_ns: u64,
    /// All of their time in nanoseconds.
    pub(crate) total_ns: u64,
}

/// What the kernel counted for this process until now, all its threads together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Processor time in nanoseconds.
    pub(crate) processor_ns: u64,
    /// How often a thread gave its processor up.
    pub(crate) voluntary_switches: u64,
    /// How often the kernel took it.
    pub(crate) involuntary_switches: u64,
    /// Pages that were mapped without reading a disk.
    pub(crate) minor_faults: u64,
    /// Pages that were read from a disk.
    pub(crate) major_faults: u64,
}

/// Reads the counters of this process.
pub(crate) fn usage() -> Usage {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is valid, and a zeroed `rusage` is a valid one should the call fail.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    let nanoseconds = |time: libc::timeval| {
        (time.tv_sec as u64).saturating_mul(1_000_000_000) + time.tv_usec as u64 * 1000
    };
    Usage {
        processor_ns: nanoseconds(usage.ru_utime) + nanoseconds(usage.ru_stime),
        voluntary_switches: usage.ru_nvcsw as u64,
        involuntary_switches: usage.ru_nivcsw as u64,
        minor_faults: usage.ru_minflt as u64,
        major_faults: usage.ru_majflt as u64,
    }
}

/// Binds this process to these processors; threads that it starts from now on inherit that.
pub(crate) fn bind(processors: &[u32]) -> io::Result<()> {
    /// Bits in a mask: more than any kernel takes, which ignores those beyond its own.
    const BITS: usize = 1 << 16;
    const WORD: usize = libc::c_ulong::BITS as usize;
    let mut mask: Vec<libc::c_ulong> = vec![0; BITS / WORD];
    for processor in processors {
        let index = *processor as usize;
        let word = mask.get_mut(index / WORD).ok_or(io::ErrorKind::InvalidInput)?;
        *word |= 1 << (index % WORD);
    }
    // SAFETY: the mask is valid and as long as is said; the kernel only reads it.
    let result =
        unsafe { libc::sched_setaffinity(0, size_of_val(mask.as_slice()), mask.as_ptr().cast()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The scheduling policy of this process by the kernel's name, where it is a known one.
pub(crate) fn policy() -> Option<&'static str> {
    // SAFETY: it takes no pointers.
    let policy = unsafe { libc::sched_getscheduler(0) };
    Some(match policy & !libc::SCHED_RESET_ON_FORK {
        libc::SCHED_OTHER => "other",
        libc::SCHED_BATCH => "batch",
        libc::SCHED_IDLE => "idle",
        libc::SCHED_FIFO => "fifo",
        libc::SCHED_RR => "round-robin",
        libc::SCHED_DEADLINE => "deadline",
        _ => return None,
    })
}

/// The nice value of this process.
pub(crate) fn nice() -> Option<i32> {
    rustix::process::getpriority_process(None).ok()
}

/// Gives this thread, and those that it starts from now on, a nice value.
pub(crate) fn set_nice(value: i32) -> io::Result<()> {
    Ok(rustix::process::setpriority_process(None, value)?)
}

/// Resident memory of this process in bytes, with shared pages divided among those who share them.
/// The kernel walks the page tables for it, so it is not for the timed part.
pub(crate) fn proportional_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/smaps_rollup").ok()?;
    kibibytes(&text, "Pss:")
}

/// Reads the counters.
pub(crate) fn activity() -> Activity {
    Activity {
        own_ns: usage().processor_ns,
        host_ns: rustix::process::getppid()
            .and_then(|host| processor_time(host.as_raw_nonzero().get())),
        machine: fs::read_to_string("/proc/stat")
            .ok()
            .and_then(|text| machine_activity(&text, rustix::param::clock_ticks_per_second())),
    }
}

/// Processor time of a process in nanoseconds, all its threads together.
fn processor_time(process: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    processor_time_in(&text, rustix::param::clock_ticks_per_second())
}

/// From the line of `/proc/PID/stat`, whose second field is a name in parentheses that may hold anything: the
/// 14th counts the time in the process and the 15th in the kernel.
fn processor_time_in(text: &str, ticks_per_second: u64) -> Option<u64> {
    let (_, behind_name) = text.rsplit_once(')')?;
    let mut fields = behind_name.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    let nanoseconds = 1_000_000_000_u64.checked_div(ticks_per_second)?;
    ticks()?.checked_add(ticks()?)?.checked_mul(nanoseconds)
}

/// Reads the counters of these processors; `None` where the system lacks those of one.
pub(crate) fn activity_of(processors: &[u32]) -> Option<ProcessorActivity> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    processor_activity(&text, processors, rustix::param::clock_ticks_per_second())
}

/// What a line of `/proc/stat` counts, in nanoseconds: user, nice, system, idle, waiting for a disk,
/// interrupts, soft interrupts, stolen. Guests, which follow, are part of user.
fn times(line: &str, name: &str, ticks_per_second: u64) -> Option<[u64; 8]> {
    let mut fields = line.strip_prefix(name)?.strip_prefix(' ')?.split_whitespace();
    let nanoseconds = 1_000_000_000_u64.checked_div(ticks_per_second)?;
    let mut times = [0; 8];
    for time in &mut times {
        *time = fields.next()?.parse::<u64>().ok()?.checked_mul(nanoseconds)?;
    }
    Some(times)
}

fn busy([user, nice, system, _, _, interrupts, soft_interrupts, _]: [u64; 8]) -> u64 {
    user + nice + system + interrupts + soft_interrupts
}

fn machine_activity(text: &str, ticks_per_second: u64) -> Option<MachineActivity> {
    let (first, rest) = text.split_once('\n')?;
    let times = times(first, "cpu", ticks_per_second)?;
    let processors = rest.lines().take_while(|line| line.starts_with("cpu")).count();
    Some(MachineActivity {
        processors: u32::try_from(processors).ok()?,
        busy_ns: busy(times),
        stolen_ns: times[7],
    })
}

fn processor_activity(
    text: &str,
    processors: &[u32],
    ticks_per_second: u64,
) -> Option<ProcessorActivity> {
    let mut sum = ProcessorActivity { busy_ns: 0, total_ns: 0 };
    for processor in processors {
        let name = format!("cpu{processor}");
        let times = text.lines().find_map(|line| times(line, &name, ticks_per_second))?;
        sum.busy_ns += busy(times);
        sum.total_ns += times.iter().sum::<u64>();
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_counters_are_read() {
        let text = "cpu  10 20 30 400 50 6 7 8 9 0\ncpu0 1 2 3\ncpu1 1 2 3\nintr 5\n";
        let machine = machine_activity(text, 100).expect("well formed");
        assert_eq!(
            machine,
            MachineActivity { processors: 2, busy_ns: 730_000_000, stolen_ns: 80_000_000 }
        );
        assert_eq!(machine_activity("cpu 1 2\n", 100), None);
        assert_eq!(machine_activity("", 100), None);
        let text = "cpu  9 9 9 9 9 9 9 9\ncpu0 10 20 30 400 50 6 7 8 9 0\n\
                    cpu1 1 0 0 9 0 0 0 0\ncpu10 5 0 0 5 0 0 0 0 0 0\nintr 5\n";
        let activity = |processors: &[u32]| processor_activity(text, processors, 100);
        let sum = |busy_ns, total_ns| Some(ProcessorActivity { busy_ns, total_ns });
        assert_eq!(activity(&[0]), sum(730_000_000, 5_310_000_000));
        assert_eq!(activity(&[1, 10]), sum(60_000_000, 200_000_000));
        assert_eq!(activity(&[0, 2]), None, "there is no such processor");
    }

    #[test]
    fn a_process_of_any_name_is_accounted_for() {
        let text = "7 (a) (b c) S 1 7 7 0 -1 4194304 500 0 0 0 120 30 9 9 20 0 4 0 100 5 5\n";
        assert_eq!(processor_time_in(text, 100), Some(1_500_000_000));
        assert_eq!(processor_time_in("7 (a) S 1 7", 100), None);
        assert_eq!(processor_time_in("", 100), None);
    }

    #[test]
    fn this_process_is_accounted_for() {
        let before = activity();
        let mut sum = 0_u64;
        while activity().own_ns == before.own_ns {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(activity().machine.is_some_and(|machine| machine.processors > 0));
        // What started it has used some time, and the same file has this process's own.
        assert!(activity().host_ns.is_some());
        let this = rustix::process::getpid().as_raw_nonzero().get();
        while processor_time(this).expect("Linux tells") == 0 {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        let resident = resident_memory().expect("Linux tells");
        assert!(peak_memory().expect("Linux tells") >= resident && resident > 0);
        assert!(proportional_memory().is_none_or(|bytes| bytes > 0));
        assert!(usage().minor_faults > 0);
        assert!((-20..=19).contains(&nice().expect("Linux tells")));
        assert!(policy().is_some());
    }
}
