//! Signals that a process waits for beside other events: the end of a child, and requests to end.

use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};
use std::sync::atomic::{AtomicI32, Ordering};

/// Requests to end: from a terminal, from `kill`, and from a terminal that is closed.
const REQUESTS: [i32; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// The pipe's end that the handler writes to; −1 before there is one.
static PIPE: AtomicI32 = AtomicI32::new(-1);
/// The latest request to end; 0 before there is one.
static REQUEST: AtomicI32 = AtomicI32::new(0);

/// A descriptor that becomes readable with each such signal.
#[derive(Debug)]
pub struct Signals {
    reader: PipeReader,
    /// Written to by the handler for the life of the process.
    _writer: PipeWriter,
}

impl Signals {
    /// Begins to watch, once in the life of a process. Ignored requests stay ignored.
    ///
    /// # Errors
    ///
    /// If no pipe can be created.
    pub fn watch() -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        rustix::io::ioctl_fionbio(&reader, true)?;
        rustix::io::ioctl_fionbio(&writer, true)?;
        PIPE.store(writer.as_raw_fd(), Ordering::SeqCst);
        for signal in REQUESTS.into_iter().chain([libc::SIGCHLD]) {
            set_handler(signal);
        }
        Ok(Self { reader, _writer: writer })
    }

    /// Reads all signals so far, and returns the latest request to end.
    #[must_use]
    pub fn take(&self) -> Option<i32> {
        let mut bytes = [0; 64];
        while rustix::io::read(&self.reader, &mut bytes).is_ok_and(|count| count > 0) {}
        Some(REQUEST.load(Ordering::SeqCst)).filter(|signal| *signal != 0)
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }
}

fn set_handler(signal: i32) {
    // SAFETY: zeroes are a valid `sigaction`, both pointers are valid for the calls, and the handler does only
    // what signal-safety(7) allows.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0
            && action.sa_sigaction == libc::SIG_IGN
            && signal != libc::SIGCHLD
        {
            return;
        }
        action = std::mem::zeroed();
        action.sa_sigaction = handle as extern "C" fn(libc::c_int) as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(signal, &raw const action, std::ptr::null_mut());
    }
}

extern "C" fn handle(signal: libc::c_int) {
    if signal != libc::SIGCHLD {
        REQUEST.store(signal, Ordering::SeqCst);
    }
    let byte = 0_u8;
    // SAFETY: `write` may be called in a handler. A full pipe is already readable.
    unsafe {
        let errno = errno();
        let before = *errno;
        libc::write(PIPE.load(Ordering::SeqCst), (&raw const byte).cast(), 1);
        *errno = before;
    }
}

/// # Safety
///
/// The pointer belongs to the calling thread.
unsafe fn errno() -> *mut libc::c_int {
    // SAFETY: it takes nothing and returns a valid pointer.
    unsafe {
        #[cfg(target_os = "macos")]
        return libc::__error();
        #[cfg(not(target_os = "macos"))]
        libc::__errno_location()
    }
}
