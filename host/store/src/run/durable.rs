//! Writing files and folders so that they are complete or absent, also after a crash.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::error::StoreError;
use crate::platform::sync_folder;

/// Returns the name under which a file is written before it is complete.
pub(crate) fn partial(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".partial");
    name.into()
}

/// Puts a complete `.partial` file on stable storage and renames it.
pub(crate) fn settle(path: &Path) -> Result<(), StoreError> {
    let beside = partial(path);
    // The file is opened for writing, since Windows does not flush files opened for reading.
    fs::OpenOptions::new()
        .write(true)
        .open(&beside)
        .and_then(|file| file.sync_all())
        .map_err(StoreError::io("write", &beside))?;
    fs::rename(&beside, path).map_err(StoreError::io("write", path))?;
    let folder = path.parent().unwrap_or(Path::new("."));
    sync_folder(folder).map_err(StoreError::io("write", folder))
}

/// Writes a small file so that it is complete or absent.
pub(crate) fn write_whole(path: &Path, contents: &[u8]) -> Result<(), StoreError> {
    let beside = partial(path);
    fs::File::create(&beside)
        .and_then(|mut file| file.write_all(contents))
        .map_err(StoreError::io("write", &beside))?;
    settle(path)
}

/// Writes a value as JSON, so that the file is complete or absent.
pub(super) fn write_json(path: &Path, value: &impl serde::Serialize) -> Result<(), StoreError> {
    write_whole(path, json_text(path, value)?.as_bytes())
}

/// Returns the text that [`write_json`] writes.
pub(super) fn json_text(path: &Path, value: &impl serde::Serialize) -> Result<String, StoreError> {
    let mut text = serde_json::to_string_pretty(value)
        .map_err(|error| StoreError::io("write", path)(error.into()))?;
    text.push('\n');
    Ok(text)
}

/// Creates a folder in a run folder durably; it may exist.
pub(crate) fn make_folder(path: &Path) -> Result<(), StoreError> {
    match fs::create_dir(path) {
        Ok(()) => {
            let parent = path.parent().unwrap_or(Path::new("."));
            sync_folder(parent).map_err(StoreError::io("write", parent))
        }
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(StoreError::io("create", path)(error)),
    }
}
