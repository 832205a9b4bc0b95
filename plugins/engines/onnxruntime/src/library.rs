//! Finding and loading the library.

use std::ffi::{CStr, OsString, c_int};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::{Mutex, OnceLock, PoisonError};

use ort::AsPointer;
use ort::environment::Environment;
use ort::logging::LogLevel;
use ort::session::builder::SessionBuilder;
use ort::sys::{OrtApi, OrtApiBase, OrtSessionOptions, OrtStatusPtr};
use plugin_api::backend::{Error, ErrorCode, Result};

use crate::error::{Operation, convert};
use crate::log;

/// Variable with the plugin's runtime: a folder, or the library itself.
const RUNTIME: &str = "TARE_RUNTIME";

/// The function that adds the processor as a provider. It is in no table.
const APPEND_PROCESSOR: &[u8] = b"OrtSessionOptionsAppendExecutionProvider_CPU\0";

/// Switches telemetry off, if it is set before the library is loaded.
const NO_TELEMETRY: &str = "ORT_DISABLE_TELEMETRY";

/// Adds the processor's provider to options, with an arena if the number is not 0.
type AppendProcessor = unsafe extern "C" fn(*mut OrtSessionOptions, c_int) -> OrtStatusPtr;

/// ONNX Runtime, loaded.
#[derive(Debug)]
pub struct Library {
    environment: Environment,
    base: &'static OrtApiBase,
    append_processor: AppendProcessor,
    version: String,
    path: PathBuf,
    plugin: String,
}

impl Library {
    /// Returns the library, which is loaded at the first call. `plugin` is the id for `host runtimes
    /// install`.
    ///
    /// # Errors
    ///
    /// If the runtime is missing, with the names that were searched for and the command that installs it; or a device
    /// error if the library exists but cannot be used.
    pub fn get(plugin: &str) -> Result<&'static Self> {
        static LOADED: OnceLock<Library> = OnceLock::new();
        static LOADING: Mutex<()> = Mutex::new(());
        if let Some(library) = LOADED.get() {
            return Ok(library);
        }
        let _turn = LOADING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(library) = LOADED.get() {
            return Ok(library);
        }
        let library = Self::load(plugin)?;
        Ok(LOADED.get_or_init(|| library))
    }

    fn load(plugin: &str) -> Result<Self> {
        let (path, library) = open(std::env::var_os(RUNTIME), plugin)?;
        let unusable = |what: String| {
            Error::new(ErrorCode::Device, format!("{} cannot be used: {what}", path.display()))
        };
        let (base, version) =
            base(&library).ok_or_else(|| unusable("it is not ONNX Runtime".into()))?;
        // SAFETY: a symbol of this name has this type in every version of the library.
        let append = unsafe { library.get::<AppendProcessor>(APPEND_PROCESSOR) };
        let append_processor = *append.map_err(|error| unusable(loader_says(&error)))?;
        let builder = ort::init_from(&path).map_err(|error| unusable(error.to_string()))?;
        // The crate holds the library open from here on.
        drop(library);
        let environment = builder
            .with_name("tare")
            .with_telemetry(false)
            .with_logger(log::keeper())
            .build()
            .map_err(|error| convert(&error, Operation::Loading))?;
        environment.set_log_level(LogLevel::Warning);
        Ok(Self { environment, base, append_processor, version, path, plugin: plugin.to_owned() })
    }

    /// Returns the environment in which sessions are created.
    #[must_use]
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// Returns the library's version, such as `1.28.0`.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Makes the processor the only provider. If none is named, the crate lets ONNX Runtime
    /// choose the most efficient: on some systems that is another device, and 1.22 ends the
    /// process if it finds none.
    pub(crate) fn append_processor(
        &self,
        mut builder: SessionBuilder,
    ) -> ort::Result<SessionBuilder> {
        // SAFETY: the options are valid, and the library stays loaded.
        unsafe {
            let status = (self.append_processor)(builder.ptr_mut(), 1);
            ort::Error::result_from_status(status)?;
        }
        Ok(builder)
    }

    /// Returns the library's table of functions of a later version than the crate's, if it has one. ONNX Runtime 1.N
    /// has tables up to version N.
    pub(crate) fn table(&self, version: u32) -> Option<NonNull<OrtApi>> {
        // A library prints to standard error if it is asked for a missing table.
        if !is_at_least(&self.version, version) {
            return None;
        }
        // SAFETY: the library stays loaded, and this returns a table that stays valid, or null.
        NonNull::new(unsafe { (self.base.GetApi)(version) }.cast_mut())
    }

    /// Returns the plugin that it was loaded for.
    pub(crate) fn plugin(&self) -> &str {
        &self.plugin
    }

    /// Returns the library's file, or the name under which the system found it.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Returns the folder with the libraries of the plugin's runtime, if the host names one.
#[must_use]
pub fn runtime_folder() -> Option<PathBuf> {
    let path = PathBuf::from(std::env::var_os(RUNTIME)?);
    if path.is_file() {
        return path.parent().map(Path::to_path_buf);
    }
    let inner = path.join("lib");
    Some(if inner.is_dir() { inner } else { path })
}

/// Beginning and end of names of the library's file.
const FILE_NAME: (&str, &str) = if cfg!(target_os = "windows") {
    ("onnxruntime", ".dll")
} else if cfg!(target_os = "macos") {
    ("libonnxruntime.", ".dylib")
} else {
    ("libonnxruntime.so", "")
};

/// Names under which the system may know the library.
const SYSTEM_NAMES: &[&str] = if cfg!(target_os = "windows") {
    &["onnxruntime.dll"]
} else if cfg!(target_os = "macos") {
    &["libonnxruntime.dylib"]
} else {
    &["libonnxruntime.so.1", "libonnxruntime.so"]
};

/// Opens the library at `runtime`, or the system's.
fn open(runtime: Option<OsString>, plugin: &str) -> Result<(PathBuf, libloading::Library)> {
    if std::env::var_os(NO_TELEMETRY).is_none() {
        // SAFETY: a worker has no threads yet when it asks for devices, and no thread of this crate reads the
        // environment.
        unsafe { std::env::set_var(NO_TELEMETRY, "1") };
    }
    let candidates = match runtime.map(PathBuf::from) {
        Some(path) => match find_in(&path) {
            Some(file) => vec![file],
            None => {
                let what = format!(
                    "there is no {}*{} in {}, which {RUNTIME} names",
                    FILE_NAME.0,
                    FILE_NAME.1,
                    path.display()
                );
                return Err(missing(&what, plugin));
            }
        },
        None => SYSTEM_NAMES.iter().map(PathBuf::from).collect(),
    };
    let mut failures = Vec::new();
    for path in candidates {
        // SAFETY: this is the library that the user has installed or named, and loading it runs only its own
        // start-up.
        match unsafe { libloading::Library::new(&path) } {
            Ok(library) => return Ok((path, library)),
            Err(error) => failures.push(loader_says(&error)),
        }
    }
    Err(missing(&failures.join("; "), plugin))
}

/// Returns the loader's error for a library that cannot be opened.
#[must_use]
pub fn loader_says(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

fn missing(what: &str, plugin: &str) -> Error {
    let message = format!(
        "ONNX Runtime was not found: {what}; install it with `host runtimes install {plugin}`"
    );
    Error::new(ErrorCode::RuntimeMissing, message)
}

/// Returns the library's file: the path itself, or the newest in its folder `lib`, or in itself.
fn find_in(path: &Path) -> Option<PathBuf> {
    if path.is_file() {
        return Some(path.to_path_buf());
    }
    [path.join("lib"), path.to_path_buf()].iter().find_map(|folder| {
        let (prefix, suffix) = FILE_NAME;
        let files = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
        let named = |file: &PathBuf| {
            let name = file.file_name().map(|name| name.to_string_lossy().into_owned());
            name.is_some_and(|name| {
                name.starts_with(prefix) && name.ends_with(suffix) && !name.contains("_providers_")
            })
        };
        files.filter(named).max()
    })
}

/// Returns the library's first table, and its version.
fn base(library: &libloading::Library) -> Option<(&'static OrtApiBase, String)> {
    type Base = unsafe extern "C" fn() -> *const OrtApiBase;
    // SAFETY: a symbol of this name has this type in every version of the library.
    let base = unsafe { library.get::<Base>(b"OrtGetApiBase\0") }.ok()?;
    // SAFETY: it returns a table that stays valid while the library is loaded, or null. A usable library is never
    // unloaded, and nothing of another one is kept.
    let base = unsafe { base().as_ref() }?;
    // SAFETY: the string is a constant of the library.
    let version = unsafe { CStr::from_ptr((base.GetVersionString)()) };
    Some((base, version.to_str().ok()?.to_owned()))
}

/// Returns whether a version of ONNX Runtime, such as `1.28.0`, is 1.`minor` or later. A version in another format
/// counts as later: the library itself will report missing functions.
pub(crate) fn is_at_least(version: &str, minor: u32) -> bool {
    let mut numbers = version.split('.').map(|number| number.parse::<u32>().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(1), Some(own)) => minor <= own,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        for version in ["1.9.0", "1.22.2", "1.22.2.post3"] {
            assert!(!is_at_least(version, 23), "{version}");
        }
        for version in ["1.23.0", "1.28.0", "1.100.0-rc1", "2.0.0", "newest"] {
            assert!(is_at_least(version, 23), "{version}");
        }
    }

    #[test]
    fn a_runtime_without_the_library_is_named_with_what_installs_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = open(Some(folder.path().into()), "cuda").expect_err("an empty folder");
        assert_eq!(error.code, ErrorCode::RuntimeMissing);
        let path = folder.path().display().to_string();
        assert!(error.message.contains(&path), "{error}");
        assert!(
            error.message.ends_with("; install it with `host runtimes install cuda`"),
            "{error}"
        );
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_library_is_found_by_file_by_folder_and_by_runtime() {
        let folder = tempfile::tempdir().expect("a folder");
        let inner = folder.path().join("lib");
        std::fs::create_dir(&inner).expect("the folder is writable");
        let file = inner.join("libonnxruntime.so.1.28.0");
        for name in ["libonnxruntime.so.1.28.0", "libonnxruntime_providers_shared.so"] {
            std::fs::write(inner.join(name), "").expect("the folder is writable");
        }
        for path in [&file, &inner, folder.path()] {
            assert_eq!(find_in(path), Some(file.clone()), "{}", path.display());
        }
        assert_eq!(find_in(&folder.path().join("nowhere")), None);
        let error = open(Some(folder.path().into()), "cpu").expect_err("an empty library");
        assert!(error.message.contains("file too short"), "{error}");
    }
}
