//! Files that are part of the program, and writing them.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// Returns the text of a file that is part of the program.
pub(crate) fn text(bytes: &'static [u8]) -> &'static str {
    std::str::from_utf8(bytes).expect("texts of the program are UTF-8")
}

/// Writes a file and the folders around it.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|source| Error::io("create", folder, source))?;
    }
    fs::write(path, bytes).map_err(|source| Error::io("write", path, source))
}

/// Creates a folder, or takes an empty one.
pub(crate) fn empty_folder(folder: &Path) -> Result<()> {
    let io = |source| Error::io("create", folder, source);
    if folder.symlink_metadata().is_ok() && !folder.is_dir() {
        return Err(Error::NotAFolder { path: folder.to_owned() });
    }
    fs::create_dir_all(folder).map_err(io)?;
    match fs::read_dir(folder).map_err(io)?.next() {
        None => Ok(()),
        Some(_) => Err(Error::NotEmpty { folder: PathBuf::from(folder) }),
    }
}
