//! Parts that depend on the operating system: folders and names of programs.

use std::path::PathBuf;

/// Returns the user's cache folder of this program, by the XDG base directory specification.
pub(crate) fn cache_folder() -> Option<PathBuf> {
    let named = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let base = named.filter(|path| path.is_absolute()).or_else(|| {
        let home = std::env::home_dir().filter(|home| home.is_absolute())?;
        Some(home.join(".cache"))
    })?;
    Some(base.join("tare"))
}

/// Returns the folder of architectures that were written, in the user's cache folder.
pub(crate) fn architectures() -> Option<PathBuf> {
    cache_folder().map(|folder| folder.join("architectures"))
}

/// Returns the name of the executable of the command `host`.
pub(crate) fn host_file_name() -> String {
    format!("host{}", std::env::consts::EXE_SUFFIX)
}

/// Returns the name of the executable that checks backends.
pub(crate) fn testkit_file_name() -> String {
    format!("plugin-testkit{}", std::env::consts::EXE_SUFFIX)
}

/// Returns the name of the worker's executable.
pub(crate) fn worker_file_name() -> String {
    format!("host-worker{}", std::env::consts::EXE_SUFFIX)
}
