//! Finds OpenVINO's library and loads it.
//!
//! The library is the file of the C interface, whose name contains the version: `libopenvino_c.so.2641` is
//! 2026.4.1; the package has no `libopenvino_c.so`. The other libraries are found beside it.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::path::{Path, PathBuf};

use openvino_sys::library;
use plugin_api::backend::{Error, ErrorCode};

use crate::native;

/// Names the runtime: a folder, or the library itself.
const RUNTIME: &str = "TARE_RUNTIME";

/// The first version whose C interface takes properties as a list.
const FIRST: (u32, u32) = (2026, 4);

/// A function in every version of the C interface.
const FUNCTION: &[u8] = b"ov_get_openvino_version";

/// Loads the library, and returns its version.
pub(crate) fn load() -> Result<String, Error> {
    let path = match std::env::var_os(RUNTIME) {
        Some(runtime) => find_in(Path::new(&runtime))?,
        None => library::find().ok_or_else(|| {
            missing(format!(
                "OpenVINO was not found: {RUNTIME} is not set, and {} is not where the system \
                 keeps libraries",
                usual_name()
            ))
        })?,
    };
    // It is closed after the bindings have opened it.
    let _checked = open(&path)?;
    library::load_from(&path)
        .map_err(|reason| missing(format!("OpenVINO cannot be loaded: {reason}")))?;
    let version =
        native::version().map_err(|failure| missing(format!("{}: {failure}", path.display())))?;
    if !is_recent(&version) {
        let (year, release) = FIRST;
        return Err(missing(format!(
            "{} is OpenVINO {version}; this plugin needs {year}.{release} or later",
            path.display()
        )));
    }
    Ok(version)
}

/// Opens the library, and refuses other libraries: the bindings accept any, and panic at the first call of a missing
/// function.
fn open(path: &Path) -> Result<libloading::Library, Error> {
    // SAFETY: this is the library that the bindings open next.
    let library = unsafe { libloading::Library::new(path) }
        .map_err(|error| missing(format!("OpenVINO cannot be loaded: {error}")))?;
    // SAFETY: the symbol is only searched for.
    let found = unsafe { library.get::<*const ()>(FUNCTION) }.is_ok();
    if found {
        return Ok(library);
    }
    let (path, function) = (path.display(), String::from_utf8_lossy(FUNCTION));
    Err(missing(format!(
        "{path} is not OpenVINO's C library, {}: it has no function `{function}`",
        usual_name()
    )))
}

fn missing(what: String) -> Error {
    let message = format!("{what}; install it with `host runtimes install openvino`");
    Error::new(ErrorCode::RuntimeMissing, message)
}

fn usual_name() -> String {
    format!("{DLL_PREFIX}openvino_c{DLL_SUFFIX}")
}

/// Returns the library in a folder, or in its `lib`; a file is taken as the library.
fn find_in(runtime: &Path) -> Result<PathBuf, Error> {
    if runtime.is_file() {
        return Ok(runtime.into());
    }
    let inner = runtime.join("lib");
    let folder = if inner.is_dir() { &inner } else { runtime };
    newest_in(folder).ok_or_else(|| {
        missing(format!(
            "{RUNTIME} is {}, and there is no {} or {}.VERSION in {}",
            runtime.display(),
            usual_name(),
            usual_name(),
            folder.display()
        ))
    })
}

/// Returns the library with the highest version in a folder; one without a version is preferred.
fn newest_in(folder: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).ok()?;
    let candidates = entries.filter_map(|entry| {
        let path = entry.ok()?.path();
        let version = version_in(path.file_name()?.to_str()?)?;
        path.is_file().then_some((version, path))
    });
    candidates.max().map(|(_, path)| path)
}

/// Returns the version in a library's name: `libopenvino_c.so.2641`, or `libopenvino_c.2641.dylib`. A name without a
/// version counts as the administrator's choice, above all versions.
fn version_in(name: &str) -> Option<Vec<u32>> {
    if name == usual_name() {
        return Some(vec![u32::MAX]);
    }
    let rest = name.strip_prefix(DLL_PREFIX)?.strip_prefix("openvino_c")?;
    let version = match rest.strip_prefix(DLL_SUFFIX) {
        Some(version) => version.strip_prefix('.')?,
        None => rest.strip_suffix(DLL_SUFFIX)?.strip_prefix('.')?,
    };
    version.split('.').map(|part| part.parse().ok()).collect()
}

/// Returns whether a version such as `2026.4.1-22982-…` is recent enough.
fn is_recent(version: &str) -> bool {
    let mut parts = version.split(['.', '-']).map(str::parse);
    let (Some(Ok(year)), Some(Ok(release))) = (parts.next(), parts.next()) else { return false };
    (year, release) >= FIRST
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(path: PathBuf) -> PathBuf {
        std::fs::write(&path, []).expect("the folder is writable");
        path
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_newest_version_is_taken() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        touch(folder.join("libopenvino.so.9999"));
        touch(folder.join("libopenvino_c.so.old"));
        assert_eq!(newest_in(folder), None);
        touch(folder.join("libopenvino_c.so.2640"));
        let newest = touch(folder.join("libopenvino_c.so.2641"));
        touch(folder.join("libopenvino_c.so.950"));
        assert_eq!(newest_in(folder), Some(newest));
        let usual = touch(folder.join("libopenvino_c.so"));
        assert_eq!(find_in(folder).expect("the library"), usual);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_runtime_is_a_file_or_a_folder_or_has_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        let here = touch(folder.join("libopenvino_c.so.2641"));
        assert_eq!(find_in(folder).expect("the library"), here);
        assert_eq!(find_in(&here).expect("the library"), here);
        std::fs::create_dir(folder.join("lib")).expect("the folder is writable");
        let inner = touch(folder.join("lib/libopenvino_c.so.2650"));
        assert_eq!(find_in(folder).expect("the library"), inner);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_folder_without_the_library_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = find_in(folder.path()).expect_err("nothing is there");
        assert_eq!(error.code, ErrorCode::RuntimeMissing);
        let path = folder.path().display();
        assert_eq!(
            error.message,
            format!(
                "TARE_RUNTIME is {path}, and there is no libopenvino_c.so or \
                 libopenvino_c.so.VERSION in {path}; install it with `host runtimes install openvino`"
            )
        );
        find_in(Path::new("/nowhere")).expect_err("no folder");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn another_library_is_refused_by_its_path() {
        let error = open(Path::new("libc.so.6")).expect_err("it is none of OpenVINO's");
        assert_eq!(error.code, ErrorCode::RuntimeMissing);
        assert_eq!(
            error.message,
            "libc.so.6 is not OpenVINO's C library, libopenvino_c.so: it has no function \
             `ov_get_openvino_version`; install it with `host runtimes install openvino`"
        );
        let error = open(Path::new("/nowhere/libopenvino_c.so")).expect_err("nothing is there");
        assert_eq!(error.code, ErrorCode::RuntimeMissing);
        assert!(error.message.starts_with("OpenVINO cannot be loaded: "), "{error}");
    }

    #[test]
    fn versions_before_2026_4_are_too_old() {
        for recent in ["2026.4.0-1", "2026.4.1-22982-abc-releases/2026/4", "2026.10.0", "2027.0.0"]
        {
            assert!(is_recent(recent), "{recent}");
        }
        for old in ["2026.3.9", "2025.4.1-1", "custom", ""] {
            assert!(!is_recent(old), "{old}");
        }
    }
}
