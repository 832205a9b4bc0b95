//! Parts that depend on the operating system: processes, pipes and signals.

use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

/// The variable that lists the folders that the loader searches first. macOS ignores it for programs of the system
/// and for programs that forbid it; a worker is neither.
pub(crate) const LIBRARY_PATH: &str =
    if cfg!(target_os = "macos") { "DYLD_LIBRARY_PATH" } else { "LD_LIBRARY_PATH" };

/// Puts the process into a separate group: a Ctrl-C in the terminal does not reach it, and its children can be ended
/// with it.
pub(crate) fn separate(command: &mut Command) {
    command.process_group(0);
}

/// Enlarges a pipe's buffer, so that a worker that sends samples need not wait for the host to
/// wake up. Not an error if the system refuses.
#[cfg(target_os = "linux")]
pub(crate) fn widen(pipe: impl AsFd) {
    let _ = rustix::pipe::fcntl_setpipe_size(pipe, 1 << 20);
}

/// Does nothing: on this system the kernel chooses the size of a pipe. macOS widens one to 64 KiB by itself once more
/// than its first 16 KiB are waiting.
#[cfg(not(target_os = "linux"))]
pub(crate) fn widen(_: impl AsFd) {}

/// Asks a process that has not been reaped to end.
pub(crate) fn ask_to_end(child: &Child) {
    if let Some(id) = pid(child) {
        let _ = rustix::process::kill_process(id, Signal::TERM);
    }
}

/// Kills a process that has not been reaped, and all others in the group that it leads.
pub(crate) fn kill_group(child: &Child) {
    if let Some(id) = pid(child) {
        // It may already have ended, or have joined another group.
        let _ = rustix::process::kill_process_group(id, Signal::KILL);
        let _ = rustix::process::kill_process(id, Signal::KILL);
    }
}

/// Returns whether a process has ended, without reaping it.
pub(crate) fn has_ended(child: &Child) -> bool {
    let Some(id) = pid(child) else { return true };
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    match rustix::process::waitid(WaitId::Pid(id), options) {
        Ok(status) => status.is_some(),
        Err(error) => error != rustix::io::Errno::INTR,
    }
}

fn pid(child: &Child) -> Option<Pid> {
    Pid::from_raw(i32::try_from(child.id()).ok()?)
}

/// Returns a status as `wait` returned it to another process.
pub(crate) fn status(raw: i32) -> ExitStatus {
    ExitStatus::from_raw(raw)
}

/// Returns the signal that ended a process.
pub(crate) fn signal(status: ExitStatus) -> Option<i32> {
    status.signal()
}

/// Returns a signal's name, such as `SIGSEGV`.
pub(crate) fn signal_name(signal: i32) -> String {
    let name = match Signal::from_named_raw(signal) {
        Some(Signal::HUP) => "SIGHUP",
        Some(Signal::INT) => "SIGINT",
        Some(Signal::QUIT) => "SIGQUIT",
        Some(Signal::ILL) => "SIGILL",
        Some(Signal::TRAP) => "SIGTRAP",
        Some(Signal::ABORT) => "SIGABRT",
        Some(Signal::BUS) => "SIGBUS",
        Some(Signal::FPE) => "SIGFPE",
        Some(Signal::KILL) => "SIGKILL",
        Some(Signal::SEGV) => "SIGSEGV",
        Some(Signal::PIPE) => "SIGPIPE",
        Some(Signal::ALARM) => "SIGALRM",
        Some(Signal::TERM) => "SIGTERM",
        Some(Signal::XCPU) => "SIGXCPU",
        Some(Signal::XFSZ) => "SIGXFSZ",
        Some(Signal::SYS) => "SIGSYS",
        Some(Signal::USR1) => "SIGUSR1",
        Some(Signal::USR2) => "SIGUSR2",
        _ => return format!("signal {signal}"),
    };
    name.into()
}
