//! The system calls.

use std::ffi::{CStr, CString, c_char, c_int};
use std::mem::MaybeUninit;
use std::ptr;

use super::names::Values;

/// The kernel's named values: sysctl(3).
#[derive(Debug, Clone, Copy)]
pub(super) struct Kernel;

impl Values for Kernel {
    fn text(&self, name: &str) -> Option<String> {
        let mut bytes = vec![0; read_into(name, ptr::null_mut(), 0)?];
        let length = read_into(name, bytes.as_mut_ptr().cast(), bytes.len())?;
        bytes.truncate(length);
        let text = CStr::from_bytes_until_nul(&bytes).ok()?.to_str().ok()?;
        Some(text.to_owned())
    }

    fn number(&self, name: &str) -> Option<u64> {
        // The kernel has little-endian numbers of both sizes, and returns the size that it wrote.
        let mut bytes = [0_u8; 8];
        match read_into(name, bytes.as_mut_ptr().cast(), bytes.len())? {
            4 | 8 => Some(u64::from_le_bytes(bytes)),
            _ => None,
        }
    }
}

/// Reads a value into `length` bytes, and returns its size. With a null `place`, only its size is returned.
fn read_into(name: &str, place: *mut u8, length: usize) -> Option<usize> {
    let name = CString::new(name).ok()?;
    let mut length = length;
    // SAFETY: the name ends with a zero, `place` is null or valid for `length` bytes, and nothing is
    // written to the kernel.
    let result = unsafe {
        libc::sysctlbyname(name.as_ptr(), place.cast(), &raw mut length, ptr::null_mut(), 0)
    };
    (result == 0).then_some(length)
}

/// Returns the swap space.
pub(super) fn swap() -> Option<libc::xsw_usage> {
    let mut usage = MaybeUninit::<libc::xsw_usage>::zeroed();
    let size = size_of::<libc::xsw_usage>();
    let length = read_into("vm.swapusage", usage.as_mut_ptr().cast(), size)?;
    // SAFETY: it was written in full, and consists of integers.
    (length == size).then(|| unsafe { usage.assume_init() })
}

/// Returns the port of this machine. Later calls are cheap.
fn host() -> libc::host_t {
    // SAFETY: it takes nothing.
    unsafe { mach2::mach_init::mach_host_self() }
}

/// Returns the memory that processes could get without compression or swapping, in bytes.
pub(super) fn available_memory() -> Option<u64> {
    let mut pages = MaybeUninit::<libc::vm_statistics64>::zeroed();
    let mut count = libc::HOST_VM_INFO64_COUNT;
    // SAFETY: the pointer is valid for as many integers as `count` says; an older kernel writes
    // fewer.
    let result = unsafe {
        libc::host_statistics64(
            host(),
            libc::HOST_VM_INFO64,
            pages.as_mut_ptr().cast(),
            &raw mut count,
        )
    };
    // SAFETY: it was zeroed before, and consists of integers.
    let pages = unsafe { pages.assume_init() };
    // Pages of files and purgeable ones are among the inactive.
    let count = u64::from(pages.free_count) + u64::from(pages.inactive_count);
    (result == libc::KERN_SUCCESS).then(|| count * rustix::param::page_size() as u64)
}

/// Activity of a processor since the machine started.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ticks {
    user: u32,
    system: u32,
    idle: u32,
    nice: u32,
}

impl Ticks {
    fn ns(ticks: u64) -> u64 {
        ticks * 1_000_000_000_u64.checked_div(rustix::param::clock_ticks_per_second()).unwrap_or(0)
    }

    pub(super) fn busy_ns(self) -> u64 {
        Self::ns(u64::from(self.user) + u64::from(self.system) + u64::from(self.nice))
    }

    pub(super) fn total_ns(self) -> u64 {
        self.busy_ns() + Self::ns(self.idle.into())
    }
}

/// Returns the ticks of each processor.
pub(super) fn processor_ticks() -> Option<Vec<Ticks>> {
    let (mut processors, mut words): (libc::natural_t, libc::mach_msg_type_number_t) = (0, 0);
    let mut array: libc::processor_info_array_t = ptr::null_mut();
    // SAFETY: the pointers are valid for the call.
    let result = unsafe {
        libc::host_processor_info(
            host(),
            libc::PROCESSOR_CPU_LOAD_INFO,
            &raw mut processors,
            &raw mut array,
            &raw mut words,
        )
    };
    if result != libc::KERN_SUCCESS || array.is_null() {
        return None;
    }
    const WORDS: usize = libc::CPU_STATE_MAX as usize;
    // SAFETY: the kernel gave this many integers, which are unsigned ticks.
    let all = unsafe { std::slice::from_raw_parts(array.cast::<u32>(), words as usize) };
    let ticks = all.chunks_exact(WORDS).map(|states| Ticks {
        user: states[libc::CPU_STATE_USER as usize],
        system: states[libc::CPU_STATE_SYSTEM as usize],
        idle: states[libc::CPU_STATE_IDLE as usize],
        nice: states[libc::CPU_STATE_NICE as usize],
    });
    let ticks = ticks.collect();
    // SAFETY: the kernel mapped it into this process, and it is not used any more.
    unsafe {
        libc::vm_deallocate(
            mach2::traps::mach_task_self(),
            array as libc::vm_address_t,
            words as usize * size_of::<libc::integer_t>(),
        );
    }
    Some(ticks)
}

/// Returns the usage of a process: this one, or another of the same user.
pub(super) fn process_usage(process: i32) -> Option<libc::rusage_info_v4> {
    let mut usage = MaybeUninit::<libc::rusage_info_v4>::zeroed();
    // SAFETY: this version of the call fills such a buffer. The header declares its type as a pointer by mistake; the
    // call takes the structure's address.
    let result =
        unsafe { libc::proc_pid_rusage(process, libc::RUSAGE_INFO_V4, usage.as_mut_ptr().cast()) };
    // SAFETY: it was written, and consists of integers.
    (result == 0).then(|| unsafe { usage.assume_init() })
}

/// Converts a time in the units of Mach's clock to nanoseconds.
pub(super) fn nanoseconds(time: u64) -> Option<u64> {
    let mut base = mach2::mach_time::mach_timebase_info { numer: 0, denom: 0 };
    // SAFETY: the pointer is valid for the call.
    let result = unsafe { mach2::mach_time::mach_timebase_info(&raw mut base) };
    if result != libc::KERN_SUCCESS {
        return None;
    }
    let scaled = u128::from(time) * u128::from(base.numer);
    u64::try_from(scaled.checked_div(base.denom.into())?).ok()
}

/// Returns the load over one minute.
pub(super) fn load_average() -> Option<f64> {
    let mut load = 0.0;
    // SAFETY: the pointer is valid for one number.
    let count = unsafe { libc::getloadavg(&raw mut load, 1) };
    (count == 1).then_some(load)
}

/// Returns the state of a notification: notify(3).
pub(super) fn notification(name: &CStr) -> Option<u64> {
    // In libSystem. The crate `libc` does not declare them.
    unsafe extern "C" {
        fn notify_register_check(name: *const c_char, token: *mut c_int) -> u32;
        fn notify_get_state(token: c_int, state: *mut u64) -> u32;
        fn notify_cancel(token: c_int) -> u32;
    }
    const OK: u32 = 0;
    let (mut token, mut state) = (0, 0);
    // SAFETY: the name ends with a zero, the pointers are valid for the calls, and the token is used only between
    // registration and cancellation.
    unsafe {
        if notify_register_check(name.as_ptr(), &raw mut token) != OK {
            return None;
        }
        let result = notify_get_state(token, &raw mut state);
        notify_cancel(token);
        (result == OK).then_some(state)
    }
}
