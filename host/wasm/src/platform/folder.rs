//! Folders and files that nothing else can redirect.
//!
//! Everything goes through the descriptor of a folder and follows no links, so the checked file is
//! the one that is used.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Timespec, Timestamps, UTIME_NOW};
use rustix::process::geteuid;

const READ: OFlags = OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const FOLDER: OFlags = READ.union(OFlags::DIRECTORY);
const CREATE: OFlags = OFlags::RDWR
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// An open folder.
#[derive(Debug)]
pub(crate) struct Folder {
    descriptor: OwnedFd,
    /// Permissions of files and folders created in it.
    mode: Mode,
}

/// A new file of a folder under a temporary name. It is removed unless it is kept.
#[derive(Debug)]
pub(crate) struct Part<'folder> {
    folder: &'folder Folder,
    name: String,
    /// The file, open for reading and writing.
    pub(crate) file: File,
    is_kept: bool,
}

impl Part<'_> {
    /// Gives the file its name. A file or link of that name is replaced.
    pub(crate) fn keep(mut self, name: &str) -> io::Result<()> {
        let folder = &self.folder.descriptor;
        rustix::fs::renameat(folder, &self.name, folder, name)?;
        self.is_kept = true;
        Ok(())
    }
}

impl Drop for Part<'_> {
    fn drop(&mut self) {
        if !self.is_kept {
            // It is a temporary file, which `prune` removes as well.
            let _ = rustix::fs::unlinkat(&self.folder.descriptor, &self.name, AtFlags::empty());
        }
    }
}

/// Returns a name for a temporary file that no other file of this process has.
fn temporary_name() -> String {
    static COUNTER: AtomicU64 = AtomicU64::new(0);

    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    format!(".{}-{number}.part", std::process::id())
}

impl Folder {
    /// Creates or opens a folder that only this user can write to.
    ///
    /// Refuses a folder that belongs to another user or that others may write to: they may have made its files.
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
        let beside = temporary_name();
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

    /// Creates a file under a temporary name, to be kept under another.
    pub(crate) fn part(&self) -> io::Result<Part<'_>> {
        let name = temporary_name();
        let open = || rustix::fs::openat(&self.descriptor, &name, CREATE, self.mode);
        let descriptor = match open() {
            // It is a file of an earlier process with this id, which was killed.
            Err(rustix::io::Errno::EXIST) => {
                rustix::fs::unlinkat(&self.descriptor, &name, AtFlags::empty())?;
                open()?
            }
            other => other?,
        };
        Ok(Part { folder: self, name, file: File::from(descriptor), is_kept: false })
    }

    /// Opens a file of this folder, which must belong to this user and be writable by no other. `None` if it does not
    /// exist.
    pub(crate) fn open_private(&self, name: &str) -> io::Result<Option<File>> {
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
        Ok(Some(File::from(descriptor)))
    }

    /// Reads such a file, of at most `most` bytes.
    pub(crate) fn read_private(&self, name: &str, most: u64) -> io::Result<Option<Vec<u8>>> {
        let Some(file) = self.open_private(name)? else { return Ok(None) };
        let mut contents = Vec::new();
        if file.take(most + 1).read_to_end(&mut contents)? as u64 > most {
            return Err(io::Error::other(format!("it has more than {most} bytes")));
        }
        Ok(Some(contents))
    }

    /// Removes the oldest files until the rest have at most `most` bytes.
    pub(crate) fn prune(&self, most: u64) -> io::Result<()> {
        let mut files = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.descriptor)? {
            let entry = entry?;
            if entry.file_type() == FileType::RegularFile {
                // Another process may have removed it meanwhile.
                let Ok(status) = rustix::fs::statat(
                    &self.descriptor,
                    entry.file_name(),
                    AtFlags::SYMLINK_NOFOLLOW,
                ) else {
                    continue;
                };
                let size = u64::try_from(status.st_size).unwrap_or(0);
                let time = (status.st_mtime, status.st_mtime_nsec);
                files.push((time, size, entry.file_name().to_owned()));
            }
        }
        files.sort();
        let mut all: u64 = files.iter().map(|(_, size, _)| size).sum();
        for (_, size, name) in files {
            if all <= most {
                break;
            }
            rustix::fs::unlinkat(&self.descriptor, &name, AtFlags::empty())?;
            all -= size;
        }
        Ok(())
    }
}

/// Sets a file's time to now, so that it is removed last.
pub(crate) fn touch(file: &File) -> io::Result<()> {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    Ok(rustix::fs::futimens(file, &Timestamps { last_access: now, last_modification: now })?)
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
