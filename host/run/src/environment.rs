/*!
Environment of a worker, for the plugin that it opens.

Loaders and many runtimes read their settings from the environment when they are loaded, before a plugin could set
them. So the host sets them before the worker starts.

A plugin is third-party code, and the user's environment holds tokens. A worker gets the variables that systems,
loaders and engines are known to read ([`NAMES`], [`FAMILIES`]), those that its `plugin.toml` or the manifest names,
and no others.
*/

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::platform;

/// Variable that names the plugin's runtime: its folder, or the library itself.
const RUNTIME: &str = "TARE_RUNTIME";

/// Variables that every worker gets if they are set.
const NAMES: [&str; 24] = [
    // The system and the user.
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TMPDIR",
    "TERM",
    "COLUMNS",
    // The loader and the allocator.
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "LD_BIND_NOW",
    "DYLD_LIBRARY_PATH",
    "DYLD_FALLBACK_LIBRARY_PATH",
    "GLIBC_TUNABLES",
    "ADSP_LIBRARY_PATH",
    "PYTHONPATH",
    "PYTHONHOME",
    "VIRTUAL_ENV",
    // Diagnosis.
    "RUST_BACKTRACE",
    "RUST_LOG",
    "ASAN_OPTIONS",
    "LSAN_OPTIONS",
];

/// Beginnings of names that every worker gets: locales and folders, allocators, threading and mathematics libraries,
/// drivers and engines.
const FAMILIES: [&str; 38] = [
    "LC_",
    "XDG_",
    "TARE_",
    "MALLOC_",
    "MIMALLOC_",
    "TCMALLOC_",
    "OMP_",
    "GOMP_",
    "KMP_",
    "MKL_",
    "DNNL_",
    "ONEDNN_",
    "OPENBLAS_",
    "BLIS_",
    "VECLIB_",
    "RAYON_",
    "TBB_",
    "CUDA_",
    "CUDNN_",
    "CUBLAS_",
    "NCCL_",
    "NVIDIA_",
    "TENSORRT_",
    "HIP_",
    "HSA_",
    "ROCR_",
    "ROCM_",
    "MIOPEN_",
    "MIGRAPHX_",
    "ORT_",
    "OPENVINO_",
    "OV_",
    "QNN_",
    "VK_",
    "MESA_",
    "WGPU_",
    "TORCH_",
    "PYTORCH_",
];

/// Sets the environment that a plugin expects for a process that opens one: a worker, or another
/// program in its place. `runtime` is the folder or the library for the plugin, and `further` names variables beyond
/// those that every worker gets.
pub fn set_environment(command: &mut Command, runtime: Option<&Path>, further: &[String]) {
    command.env_clear().envs(variables_of_worker(runtime, further));
}

/// Returns the environment that [`set_environment`] sets.
pub(crate) fn variables_of_worker(
    runtime: Option<&Path>,
    further: &[String],
) -> BTreeMap<OsString, OsString> {
    let mut all: BTreeMap<_, _> =
        env::vars_os().filter(|(name, _)| is_given(name, further)).collect();
    // The host's environment must not choose the runtime of every plugin at once.
    all.remove(OsStr::new(RUNTIME));
    if let Some(libraries) = all.get_mut(OsStr::new(platform::LIBRARY_PATH)) {
        *libraries = listed(folders(libraries), libraries);
    }
    all.extend(fixed().map(|(name, value)| (name.into(), value.into())));
    if let Some(runtime) = runtime {
        all.extend(of_runtime(runtime).map(|(name, value)| (name.into(), value)));
    }
    all
}

/// Returns whether a worker gets the host's variable of this name.
fn is_given(name: &OsStr, further: &[String]) -> bool {
    let Some(name) = name.to_str() else { return false };
    NAMES.contains(&name)
        || FAMILIES.iter().any(|family| name.starts_with(family))
        || further.iter().any(|further| further == name)
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
    let folders = std::iter::once(library_folder(runtime)).chain(folders(&old));
    [(RUNTIME, runtime.into()), (platform::LIBRARY_PATH, listed(folders, &old))]
}

/// Returns the folders of a list. An empty entry, which would be the current folder, is left out.
fn folders(list: &OsStr) -> impl Iterator<Item = PathBuf> + '_ {
    env::split_paths(list).filter(|folder| !folder.as_os_str().is_empty())
}

/// Returns folders as a list. If a folder's name contains the separator, it cannot be listed, and `otherwise`
/// replaces the list; the plugin still has its path.
fn listed(folders: impl Iterator<Item = PathBuf>, otherwise: &OsStr) -> OsString {
    env::join_paths(folders).unwrap_or_else(|_| otherwise.to_owned())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_settings_are_given_and_tokens_are_not() {
        let given = |name: &str| is_given(OsStr::new(name), &["HF_HOME".to_owned()]);
        for name in ["PATH", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "LC_ALL", "HF_HOME"] {
            assert!(given(name), "{name}");
        }
        for name in ["HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "SSH_AUTH_SOCK", "CUDA", "hf_home"] {
            assert!(!given(name), "{name}");
        }
    }

    #[test]
    fn a_list_of_folders_has_no_empty_entries() {
        let list = OsStr::new(":/opt/a::/opt/b:");
        assert_eq!(listed(folders(list), list), "/opt/a:/opt/b");
    }
}
