//! Parts that depend on the operating system: descriptors, the loader, files.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

/// Takes the pipe to the host from standard output and puts standard error in its place.
/// From then on no output of a plugin can end up between frames.
pub(crate) fn take_protocol() -> io::Result<File> {
    // Above the standard descriptors, and not inherited by what a plugin starts.
    let protocol = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    Ok(protocol.into())
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
