//! Differences between operating systems.
//!
//! Memory of the process is sampled to detect growth, so only memory that it keeps may count. The pages of libraries
//! and other files do not count: they appear when they are first read, and the system may drop them. Free memory that
//! the C library keeps for later allocations does not count either. glibc keeps up to 64 MiB of it at the end of the
//! heap of each thread that ever ran, once a large block was freed, and a driver that compiles in its own threads
//! makes it vary in steps of that size. So it is configured to keep little, and to return the rest before each
//! sample.

/// Makes the C library return memory when it is freed, in all threads, from now on.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) fn keep_little_free() {
    /// glibc's default. Unless it is set, glibc raises it when large blocks are freed.
    const MOST_BYTES: libc::c_int = 128 << 10;
    // SAFETY: it sets a number, and may be called at any time.
    unsafe { libc::mallopt(libc::M_TRIM_THRESHOLD, MOST_BYTES) };
}

/// Keeps the C library's default on other systems.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn keep_little_free() {}

/// Returns the resident memory of this process, in bytes, without files and free memory. `None` if the system does
/// not report it.
#[cfg(target_os = "linux")]
pub(crate) fn own_bytes() -> Option<u64> {
    #[cfg(target_env = "gnu")]
    // SAFETY: it returns free memory, and may be called at any time.
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

/// Returns the private memory of this process in bytes; `None` if the system does not report it.
#[cfg(not(target_os = "linux"))]
pub(crate) fn own_bytes() -> Option<u64> {
    None
}
