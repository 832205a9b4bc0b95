/*!
Environment of a worker, for the plugin that it opens.

Loaders and many runtimes read their settings from the environment when they are loaded, which is
too early for a plugin to set them; so the host does, before the worker starts.
*/

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::platform;

/// Variable that names the plugin's runtime: its folder, or the library itself.
const RUNTIME: &str = "TARE_RUNTIME";

/// Sets the environment that a plugin expects for a process that opens one: a worker, or another
/// program in its place. `runtime` is the folder or the library for the plugin.
pub fn set_environment(command: &mut Command, runtime: Option<&Path>) {
    command.envs(fixed());
    match runtime {
        Some(runtime) => command.envs(of_runtime(runtime)),
        // The host's environment must not choose the runtime of every plugin at once.
        None => command.env_remove(RUNTIME),
    };
}

/// Returns the environment of every worker: telemetry is switched off for runtimes
/// that have it on by default, each in its own way.
fn fixed() -> [(&'static str, &'static str); 1] {
    // ONNX Runtime from 1.29 on. Its API to switch it off comes too late.
    [("ORT_DISABLE_TELEMETRY", "1")]
}

/// Returns the environment of the worker of a plugin that uses this runtime.
fn of_runtime(runtime: &Path) -> [(&'static str, OsString); 2] {
    let old = env::var_os(platform::LIBRARY_PATH).unwrap_or_default();
    // An empty entry would be the current folder.
    let others = env::split_paths(&old).filter(|folder| !folder.as_os_str().is_empty());
    let folders = std::iter::once(library_folder(runtime)).chain(others);
    // A folder whose name has the separator in it cannot be listed; the plugin still has its path.
    let libraries = env::join_paths(folders).unwrap_or_else(|_| old.clone());
    [(RUNTIME, runtime.into()), (platform::LIBRARY_PATH, libraries)]
}

/// Returns the folder with a runtime's libraries.
fn library_folder(runtime: &Path) -> PathBuf {
    let inner = runtime.join("lib");
    match runtime.parent() {
        Some(parent) if runtime.is_file() => parent.to_owned(),
        _ if inner.is_dir() => inner,
        _ => runtime.to_owned(),
    }
}
