//! Differences between operating systems.

use std::io;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::Stdio;

/// Programs that may be Python 3.
pub(crate) const PYTHONS: &[&str] = &["python3", "python"];

/// Returns the number of bytes that this user can still write to a folder's file system.
pub(crate) fn free_space(folder: &Path) -> io::Result<u64> {
    let system = rustix::fs::statvfs(folder)?;
    Ok(system.f_bavail.saturating_mul(system.f_frsize))
}

/// Returns this process's standard error for a child process.
pub(crate) fn standard_error() -> io::Result<Stdio> {
    Ok(io::stderr().as_fd().try_clone_to_owned()?.into())
}

/// Makes a file executable for everyone if its package marks it as executable.
pub(crate) fn make_executable(file: &std::fs::File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let mut permissions = file.metadata()?.permissions();
    permissions.set_mode(permissions.mode() | 0o111);
    file.set_permissions(permissions)
}
