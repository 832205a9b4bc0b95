//! Processes on macOS.

use std::ffi::{CStr, c_char, c_int};
use std::{io, process, ptr, thread};

use rustix::process::{Signal, getpid, getppid, kill_process};

/// Whether [`bind`](super::bind) works. The kernel's affinity sets are only hints, and do not exist on Apple silicon.
pub(super) const CAN_BIND: bool = false;

pub(super) fn bind(_: &[u32]) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "macOS binds no thread to processors"))
}

/// Raises the quality of service, which decides between performance and efficiency cores. A thread that this
/// one starts does not inherit it.
pub(super) fn prefer_fast_processors() {
    // SAFETY: it takes no pointers and concerns the calling thread only. If it fails, the thread keeps
    // the class that it had, and `policy` returns that.
    unsafe {
        libc::pthread_set_qos_class_self_np(libc::qos_class_t::QOS_CLASS_USER_INTERACTIVE, 0);
    }
}

pub(super) fn policy() -> Option<&'static str> {
    // The kernel has more classes than the header, so the result is stored as a number.
    let mut class = 0_u32;
    let mut priority: c_int = 0;
    // SAFETY: the enumeration is a C `unsigned int`, and both pointers are valid for the call.
    let result = unsafe {
        libc::pthread_get_qos_class_np(
            libc::pthread_self(),
            (&raw mut class).cast(),
            &raw mut priority,
        )
    };
    if result != 0 {
        return None;
    }
    Some(match class {
        0x21 => "user-interactive",
        0x19 => "user-initiated",
        0x15 => "default",
        0x11 => "utility",
        0x09 => "background",
        0x00 => "unspecified",
        _ => return None,
    })
}

/// Ends this process with its parent. The kernel sends no signal for this, so a thread waits for the parent's end;
/// until then it sleeps in the kernel and uses no processor time.
pub(super) fn end_with_parent() {
    let parent = getppid();
    // A child whose parent has ended is adopted by the first process.
    let Some(parent) = parent.filter(|parent| !parent.is_init()) else { return };
    let watch = move || {
        // SAFETY: it takes no pointers.
        let queue = unsafe { libc::kqueue() };
        if queue < 0 {
            return;
        }
        let change = libc::kevent {
            ident: parent.as_raw_nonzero().get() as usize,
            filter: libc::EVFILT_PROC,
            flags: libc::EV_ADD | libc::EV_ONESHOT,
            fflags: libc::NOTE_EXIT,
            data: 0,
            udata: ptr::null_mut(),
        };
        let mut event = change;
        loop {
            // SAFETY: the queue is open, both pointers are valid for one event each, and without a
            // time limit none is pointed to.
            let count = unsafe {
                libc::kevent(queue, &raw const change, 1, &raw mut event, 1, ptr::null())
            };
            let is_interrupted =
                count < 0 && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted;
            if !is_interrupted {
                break;
            }
        }
        // Either the parent ended, or it had ended before it could be watched: the kernel then
        // reports that there is no such process, as an event or as an error.
        let _ = kill_process(getpid(), Signal::KILL);
        process::abort();
    };
    // Without a thread, the pipe still shows that the host has ended.
    let _ = thread::Builder::new().name("parent".into()).stack_size(64 << 10).spawn(watch);
}

/// Does nothing: on macOS a process cannot offer itself to be killed first.
pub(super) fn be_first_to_go() {}

pub(super) fn c_library() -> Option<String> {
    unsafe extern "C" {
        /// Returns the version of a loaded library, or −1. From `mach-o/dyld.h`.
        fn NSVersionOfRunTimeLibrary(name: *const c_char) -> i32;
    }
    const NAME: &CStr = c"System";
    // SAFETY: the name is a string that ends with a zero, and is only read.
    let version = unsafe { NSVersionOfRunTimeLibrary(NAME.as_ptr()) };
    (version != -1).then(|| library_version(version as u32))
}

/// Formats a version `X.Y.Z` of 16, 8 and 8 bits.
fn library_version(version: u32) -> String {
    format!("libSystem {}.{}.{}", version >> 16, version >> 8 & 0xff, version & 0xff)
}
