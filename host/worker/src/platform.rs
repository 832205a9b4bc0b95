//! Parts that depend on the operating system: descriptors, the loader, files.

use std::fs::{File, Metadata};
use std::io::{self, PipeWriter};
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

/// Ends of pipes for a worker's standard output and standard error.
#[derive(Debug)]
pub(crate) struct Outputs {
    pub(crate) standard_output: PipeWriter,
    pub(crate) standard_error: PipeWriter,
}

/// Takes the pipe to the host from standard output and puts `outputs` in the place of standard output and standard
/// error; without them, standard error takes both. From then on no output of a plugin can end up between frames.
pub(crate) fn take_protocol(outputs: Option<Outputs>) -> io::Result<File> {
    // Above the standard descriptors, and not inherited by what a plugin starts.
    let protocol = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
    match outputs {
        Some(Outputs { standard_output, standard_error }) => {
            rustix::stdio::dup2_stdout(standard_output)?;
            rustix::stdio::dup2_stderr(standard_error)?;
        }
        None => rustix::stdio::dup2_stdout(rustix::stdio::stderr())?,
    }
    Ok(protocol.into())
}

/// Makes the worker lead a group, if that is how what it starts is found.
pub(crate) fn lead_a_group() {
    if !host_descendants::FINDS_ORPHANS {
        let _ = rustix::process::setpgid(None, None);
    }
}

/// Has the overseer end what is below it when the host ends; on systems that do not ask a process for that, it is
/// ended, and the worker with it.
pub(crate) fn end_overseer_with_host() {
    if host_descendants::FINDS_ORPHANS {
        host_descendants::be_asked_to_end_with_parent();
    } else {
        host_machine::process::end_with_parent();
    }
}

/// Waits until one of these can be read, for as long as `limit` if there is one. Returns whether one can.
pub(crate) fn wait_for_one(sources: &[BorrowedFd<'_>], limit: Option<Duration>) -> bool {
    let entry = |source: &BorrowedFd<'_>| libc::pollfd {
        fd: source.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    let mut entries: Vec<libc::pollfd> = sources.iter().map(entry).collect();
    let milliseconds =
        limit.map_or(-1, |limit| i32::try_from(limit.as_millis()).unwrap_or(i32::MAX));
    // SAFETY: the descriptors are open, and the list is valid and has this length.
    unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, milliseconds) > 0 }
}

/// Ends the process without running exit handlers or destructors of libraries.
pub(crate) fn end(code: i32) -> ! {
    // SAFETY: it only ends the process; every frame was written without a buffer.
    unsafe { libc::_exit(code) }
}

/// Opens a library and resolves all its symbols, so that none is resolved while the clock runs.
///
/// # Safety
///
/// The library's initialisers run; as for [`Library::open`].
pub(crate) unsafe fn open_library(path: &Path) -> Result<Library, libloading::Error> {
    // SAFETY: the caller vouches for the library.
    unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }
}

/// Distinguishes states of a file without reading it.
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
