//! Folders and files that nobody else can redirect.
//!
//! Everything goes through the descriptor of a folder and follows no links, so the checked file is
//! the one that is used.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::process::geteuid;

const READ: OFlags = OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const FOLDER: OFlags = READ.union(OFlags::DIRECTORY);
const CREATE: OFlags = OFlags::WRONLY
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// An open folder.
#[derive(Debug)]
pub(crate) struct Folder {
    descriptor: OwnedFd,
    /// Permissions of what is created in it.
    mode: Mode,
}

impl Folder {
    /// Creates or opens a folder that only this user can write to.
    ///
    /// Refused if it belongs to someone else, or if others may write to it: its files may then be
    /// theirs.
    pub(crate) fn private(path: &Path) -> io::Result<Self> {
        use std::os::unix::fs::DirBuilderExt;

        fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        let descriptor = rustix::fs::open(path, FOLDER, Mode::empty())?;
        let status = rustix::fs::fstat(&descriptor)?;
        check_private(status.st_uid, Mode::from_raw_mode(status.st_mode))?;
        Ok(Self { descriptor, mode: Mode::from_raw_mode(0o600) })
    }

    /// Writes a file under a temporary name and then moves it into place; a link there is replaced.
    /// Folders in `name` are created, and refused if they are links.
    pub(crate) fn write(&self, name: &str, contents: &[u8]) -> io::Result<()> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);

        let (folders, file) = match name.rsplit_once('/') {
            Some((folders, file)) => (folders.split('/').collect(), file),
            None => (Vec::new(), name),
        };
        let mut folder = rustix::fs::openat(&self.descriptor, ".", FOLDER, Mode::empty())?;
        for part in folders {
            match rustix::fs::mkdirat(&folder, part, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            folder = rustix::fs::openat(&folder, part, FOLDER, Mode::empty())?;
        }
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let beside = format!(".{}-{number}.part", std::process::id());
        let write = || -> io::Result<()> {
            let descriptor = rustix::fs::openat(&folder, &beside, CREATE, self.mode)?;
            File::from(descriptor).write_all(contents)?;
            Ok(rustix::fs::renameat(&folder, &beside, &folder, file)?)
        };
        write().inspect_err(|_| {
            // It may not have been created at all.
            let _ = rustix::fs::unlinkat(&folder, &beside, AtFlags::empty());
        })
    }

    /// Reads a file of this folder, which must belong to this user and be writable by nobody else.
    /// `None` if there is none.
    pub(crate) fn read_private(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let descriptor = match rustix::fs::openat(&self.descriptor, name, READ, Mode::empty()) {
            Ok(descriptor) => descriptor,
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let status = rustix::fs::fstat(&descriptor)?;
        if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
            return Err(io::Error::other("it is not a regular file"));
        }
        check_private(status.st_uid, Mode::from_raw_mode(status.st_mode))?;
        let mut contents = Vec::new();
        File::from(descriptor).read_to_end(&mut contents)?;
        Ok(Some(contents))
    }

    /// Removes the oldest files until `keep` are left.
    pub(crate) fn prune(&self, keep: usize) -> io::Result<()> {
        let mut files = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.descriptor)? {
            let entry = entry?;
            if entry.file_type() == FileType::RegularFile {
                let status = rustix::fs::statat(
                    &self.descriptor,
                    entry.file_name(),
                    AtFlags::SYMLINK_NOFOLLOW,
                )?;
                files.push((status.st_mtime, entry.file_name().to_owned()));
            }
        }
        files.sort();
        for (_, name) in files.iter().take(files.len().saturating_sub(keep)) {
            rustix::fs::unlinkat(&self.descriptor, name, AtFlags::empty())?;
        }
        Ok(())
    }
}

fn check_private(owner: u32, mode: Mode) -> io::Result<()> {
    let user = geteuid().as_raw();
    if owner != user {
        return Err(io::Error::other(format!(
            "it belongs to user {owner}, and this process runs as user {user}"
        )));
    }
    if mode.intersects(Mode::WGRP | Mode::WOTH) {
        return Err(io::Error::other(format!(
            "others may write to it (mode {:03o}); `chmod go-w` it, after making sure that what it holds is yours",
            mode.bits() & 0o777
        )));
    }
    Ok(())
}
