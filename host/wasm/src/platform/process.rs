//! Limits of this process, and how another one ended.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;

use rustix::process::{Resource, Rlimit, Signal, getppid, getrlimit, setrlimit};

/// How a process with limits ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Code(i32),
    /// It ran out of memory.
    OutOfMemory,
    /// The file that it wrote reached the limit.
    FileTooLarge,
    /// It crashed, for instance by a stack overflow.
    Crashed(i32),
    /// Another signal ended it.
    Ended(i32),
}

impl From<ExitStatus> for End {
    fn from(status: ExitStatus) -> Self {
        const CRASHES: [Signal; 4] = [Signal::SEGV, Signal::BUS, Signal::ILL, Signal::FPE];

        if let Some(code) = status.code() {
            return Self::Code(code);
        }
        let signal = status.signal().unwrap_or(0);
        let is = |one: Signal| one.as_raw() == signal;
        // Rust aborts if an allocation fails.
        if is(Signal::ABORT) {
            Self::OutOfMemory
        } else if is(Signal::XFSZ) {
            Self::FileTooLarge
        } else if CRASHES.into_iter().any(is) {
            Self::Crashed(signal)
        } else {
            Self::Ended(signal)
        }
    }
}

/// Permanently limits this process: bytes of memory, and bytes of a file that it writes. It leaves no core file, and
/// ends with its parent.
pub(crate) fn limit_this_process(memory: u64, file: u64, parent: u32) -> io::Result<()> {
    let set = |resource, most: u64| {
        let most = getrlimit(resource).maximum.map_or(most, |hard| hard.min(most));
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })
    };
    set(Resource::Core, 0)?;
    set(Resource::Fsize, file)?;
    set(Resource::As, memory)?;
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // The parent may have ended before the signal was asked for.
    let now = getppid().map_or(0, |parent| parent.as_raw_nonzero().get());
    if u32::try_from(now) != Ok(parent) {
        return Err(io::Error::other("the process that started this one has ended"));
    }
    Ok(())
}

/// Creates a file without a name.
pub(crate) fn unnamed_file() -> io::Result<File> {
    #[cfg(target_os = "linux")]
    {
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        Ok(File::from(rustix::fs::memfd_create("compiled-plugin", flags)?))
    }
    #[cfg(not(target_os = "linux"))]
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

/// Returns a path that leads to an open file, even if its name has changed.
pub(crate) fn path_of(file: &File) -> PathBuf {
    let folder = if cfg!(target_os = "linux") { "/proc/self/fd" } else { "/dev/fd" };
    PathBuf::from(format!("{folder}/{}", file.as_raw_fd()))
}
