//! Differences between operating systems: making directory entries durable.

use std::io;
use std::path::Path;

/// Puts the entries of a folder on stable storage, so that a file created or renamed in it is
/// found after a power failure.
#[cfg(unix)]
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    std::fs::File::open(folder)?.sync_all()
}

/// Does nothing: on other systems the file system orders entries itself, and a folder cannot be opened as a file.
#[cfg(not(unix))]
pub(crate) fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Gives new files the usual permissions instead of private ones.
#[cfg(unix)]
pub(crate) fn for_everybody(builder: &mut tempfile::Builder<'_, '_>) {
    use std::os::unix::fs::PermissionsExt as _;
    builder.permissions(std::fs::Permissions::from_mode(0o666));
}

/// Does nothing: on other systems a file has the permissions of its folder.
#[cfg(not(unix))]
pub(crate) fn for_everybody(_: &mut tempfile::Builder<'_, '_>) {}
