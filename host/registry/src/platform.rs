//! Differences between operating systems: places of a user's files, and names of libraries.

use std::env;
use std::ffi::OsStr;
use std::path::PathBuf;

/// Returns the file name of the library `name`: `libNAME.so`, `libNAME.dylib` or `NAME.dll`.
#[must_use]
pub fn library_file_name(name: &str) -> String {
    format!("{}{name}{}", env::consts::DLL_PREFIX, env::consts::DLL_SUFFIX)
}

/// Returns the user's data folder of this program, by the XDG base directory specification.
pub(crate) fn user_data_folder() -> Option<PathBuf> {
    user_folder("XDG_DATA_HOME", ".local/share")
}

/// Returns the user's configuration folder of this program, by the XDG base directory
/// specification.
pub(crate) fn user_config_folder() -> Option<PathBuf> {
    user_folder("XDG_CONFIG_HOME", ".config")
}

fn user_folder(variable: &str, beneath_home: &str) -> Option<PathBuf> {
    // The specification requires relative paths to be ignored.
    let named = env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = named.or_else(|| {
        let home = env::home_dir().filter(|home| home.is_absolute())?;
        Some(home.join(beneath_home))
    })?;
    Some(base.join("tare"))
}

/// Splits a list of paths such as `PATH`.
pub(crate) fn split_paths(list: &OsStr) -> Vec<PathBuf> {
    env::split_paths(list).collect()
}
