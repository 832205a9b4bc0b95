//! Refusing links in folders that may be untrusted.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use crate::error::StoreError;

/// Refuses a run folder that is a link, or contains anything other than files and folders. An untrusted run folder
/// may contain a link to the user's files, and only its own files may be read, replaced and removed.
pub(super) fn refuse_links(run: &Path) -> Result<(), StoreError> {
    refuse_link(run)?;
    let mut folders = vec![run.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if is_absent(&error) => continue,
            Err(error) => return Err(StoreError::io("read", &folder)(error)),
        };
        for entry in entries {
            let entry = entry.map_err(StoreError::io("read", &folder))?;
            let path = entry.path();
            match entry.file_type().map_err(StoreError::io("read", &path))? {
                kind if kind.is_dir() => folders.push(path),
                kind if kind.is_file() => {}
                _ => return Err(StoreError::Link { path }),
            }
        }
    }
    Ok(())
}

/// Refuses a path whose last component is a link.
pub(crate) fn refuse_link(path: &Path) -> Result<(), StoreError> {
    if path.is_symlink() { Err(StoreError::Link { path: path.to_owned() }) } else { Ok(()) }
}

/// Returns whether an error means that the file or folder does not exist.
pub(super) fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}
