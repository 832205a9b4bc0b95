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

/// Drops the pages of a file from memory, except for mapped and changed ones.
///
/// # Errors
///
/// If the system refuses, or has no such call.
#[cfg(target_os = "linux")]
pub(crate) fn drop_pages(file: &File) -> io::Result<()> {
    // Pages that are not on the disk yet would stay.
    file.sync_data()?;
    // SAFETY: the descriptor is open; the call changes no memory of this process.
    match unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn drop_pages(_: &File) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns the part of a file's pages that are in memory; `None` if the system does not tell. To those who may not write
/// to the file, Linux says that all are.
#[cfg(target_os = "linux")]
pub(crate) fn cached_part(file: &File) -> Option<f64> {
    let length = usize::try_from(file.metadata().ok()?.len()).ok().filter(|length| *length > 0)?;
    // SAFETY: it only asks for a constant.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()?;
    let (protection, flags) = (libc::PROT_READ, libc::MAP_SHARED);
    // SAFETY: a new mapping of an open file, at an address of the kernel's choice. Nothing reads through it.
    let start =
        unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, file.as_raw_fd(), 0) };
    if start == libc::MAP_FAILED {
        return None;
    }
    let mut pages = vec![0_u8; length.div_ceil(page)];
    // SAFETY: the mapping has this length, and the list a byte for each of its pages.
    let found = unsafe { libc::mincore(start, length, pages.as_mut_ptr()) };
    // SAFETY: nothing refers to the mapping any more.
    unsafe { libc::munmap(start, length) };
    let cached = pages.iter().filter(|page| **page & 1 == 1).count();
    (found == 0).then(|| cached as f64 / pages.len() as f64)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn cached_part(_: &File) -> Option<f64> {
    None
}

/// Returns freed memory to the system, so that it does not count as used.
pub(crate) fn give_memory_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it only trims the heap, and may be called at any time.
    unsafe {
        libc::malloc_trim(0);
    }
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

#[cfg(test)]
mod tests {
    #[test]
    #[cfg(target_os = "linux")]
    fn dropped_pages_are_no_longer_in_memory() {
        use std::io::Write as _;

        use super::{cached_part, drop_pages};

        // Pages of a folder in memory cannot be dropped.
        let mut file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).expect("a file");
        file.write_all(&vec![1; 4 << 20]).expect("there is room");
        assert_eq!(cached_part(&file), Some(1.0));
        drop_pages(&file).expect("Linux drops pages");
        let left = cached_part(&file).expect("Linux tells");
        assert!(left < 0.1, "{left}");
    }
}
