//! What depends on the operating system.
//!
//! What a process holds is asked for to see whether it grows, so only what it keeps may count. The pages of
//! libraries and other files do not: they come when they are first read, and go as the system likes. Nor
//! does what the C library holds free for the next allocation. glibc keeps up to 64 MiB of that at the end of
//! the heap of each thread that ever ran, as soon as one large block was freed, and a driver that compiles
//! in threads of its own makes it come and go in steps of that size. So it is told to keep little, and to
//! give the rest back before each look.

/// Has the C library give memory back when it is freed, in all threads, from now on.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) fn keep_little_free() {
    /// glibc's own default, which it raises as large blocks are freed unless it is set.
    const MOST_BYTES: libc::c_int = 128 << 10;
    // SAFETY: it sets a number, and may be called at any time.
    unsafe { libc::mallopt(libc::M_TRIM_THRESHOLD, MOST_BYTES) };
}

/// Elsewhere the C library does as it does.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn keep_little_free() {}

/// Memory of this process's own that is resident, in bytes: in no file, and not free. `None` where the
/// system does not say.
#[cfg(target_os = "linux")]
pub(crate) fn own_bytes() -> Option<u64> {
    #[cfg(target_env = "gnu")]
    // SAFETY: it gives back what is free, and may be called at any time.
    unsafe {
        libc::malloc_trim(0);
    }
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let kibibytes = |key: &str| -> Option<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(key))?;
        line.trim().strip_suffix("kB")?.trim().parse().ok()
    };
    Some((kibibytes("RssAnon:")? + kibibytes("RssShmem:")?) * 1024)
}

/// Memory of this process's own in bytes; `None` where the system does not say.
#[cfg(not(target_os = "linux"))]
pub(crate) fn own_bytes() -> Option<u64> {
    None
}
