//! Opens libtorch, and the engine that is linked against it.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::ffi::{CStr, OsStr};
use std::path::{Path, PathBuf};

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use plugin_api::abi;
use plugin_api::backend::{Error, ErrorCode, Result};

/// Names the runtime: the folder of a Python package `torch`, its folder `lib`, or the library itself.
const RUNTIME: &str = "TARE_RUNTIME";

/// The version of PyTorch that the engine is linked against. Others have other functions.
const WANTED: (u8, u8, u8) = (2, 11, 0);

/// A function that returns the library's version: major, minor and patch in the three highest bytes. PyTorch has it
/// since 2.9.
const VERSION: &[u8] = b"aoti_torch_abi_version\0";

type Version = unsafe extern "C" fn() -> u64;

/// Opens libtorch and the engine, and returns the engine's entry point.
///
/// # Errors
///
/// If libtorch is missing or of another version, or if this build has no engine.
pub(crate) fn engine() -> Result<abi::Entry> {
    open_torch(std::env::var_os(RUNTIME).as_deref())?;
    let beside = own_path()?.with_file_name(library_name("engine_torch"));
    if !beside.is_file() {
        let message = format!(
            "this tool was built without the engine for libtorch: there is no {}; `cargo xtask build torch` in Tare's \
             checkout makes it",
            beside.display()
        );
        return Err(Error::new(ErrorCode::Unsupported, message));
    }
    let refused = |error: &libloading::Error| {
        let message = format!("{} cannot be opened: {}", beside.display(), answer(error));
        Error::new(ErrorCode::Unsupported, message)
    };
    // SAFETY: this is the other half of this plugin.
    let library = unsafe { Library::open(Some(&beside), RTLD_NOW) };
    let library = library.map_err(|error| refused(&error))?;
    // SAFETY: the ABI says what type a symbol of this name has.
    let entry = unsafe { library.get::<abi::Entry>(abi::ENTRY_SYMBOL) };
    let entry = *entry.map_err(|error| refused(&error))?;
    // It stays open until the process ends, as libtorch does.
    std::mem::forget(library);
    Ok(entry)
}

fn library_name(name: &str) -> String {
    format!("{DLL_PREFIX}{name}{DLL_SUFFIX}")
}

/// Opens libtorch for all libraries that are opened later.
fn open_torch(runtime: Option<&OsStr>) -> Result<()> {
    let name = library_name("torch_cpu");
    let path = match runtime {
        Some(runtime) => find_in(Path::new(runtime), &name)?,
        // The loader searches the system's folders.
        None => PathBuf::from(&name),
    };
    // SAFETY: this is the runtime that the user has named or installed.
    let library = unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_GLOBAL) };
    let library = library.map_err(|error| match runtime {
        Some(_) => missing(format!("libtorch cannot be opened: {}", answer(&error))),
        None => missing(format!("libtorch was not found: {RUNTIME} is not set, and {name} is not where the system keeps libraries")),
    })?;
    let found = version(&library);
    let (major, minor, patch) = WANTED;
    if found != Some(WANTED) {
        let found = match found {
            Some((major, minor, patch)) => format!("PyTorch {major}.{minor}.{patch}"),
            None => "not PyTorch, or one before 2.9".into(),
        };
        let path = path.display();
        return Err(missing(format!(
            "{path} is {found}; this plugin needs {major}.{minor}.{patch}"
        )));
    }
    std::mem::forget(library);
    Ok(())
}

/// Returns the library's version, if it tells one.
fn version(library: &Library) -> Option<(u8, u8, u8)> {
    // SAFETY: a function of this name in libtorch has this type.
    let version = unsafe { library.get::<Version>(VERSION) }.ok()?;
    // SAFETY: it returns a constant.
    let [major, minor, patch, ..] = unsafe { version() }.to_be_bytes();
    Some((major, minor, patch))
}

/// Returns the loader's message, which the error keeps as its source.
fn answer(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

fn missing(what: String) -> Error {
    let message = format!("{what}; install it with `host runtimes install torch`");
    Error::new(ErrorCode::RuntimeMissing, message)
}

/// Returns the library in a folder, or in its `lib`; a file is taken as the library.
fn find_in(runtime: &Path, name: &str) -> Result<PathBuf> {
    if runtime.is_file() {
        return Ok(runtime.into());
    }
    let candidates = [runtime.join("lib").join(name), runtime.join(name)];
    candidates.into_iter().find(|path| path.is_file()).ok_or_else(|| {
        let runtime = runtime.display();
        missing(format!("{RUNTIME} is {runtime}, and there is no {name} in it or in its `lib`"))
    })
}

/// Returns the path of this library.
fn own_path() -> Result<PathBuf> {
    let mut found = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    let here = own_path as *const libc::c_void;
    // SAFETY: the address is one of this library's, and the result is written to a place of its type.
    let answered = unsafe { libc::dladdr(here, &raw mut found) } != 0 && !found.dli_fname.is_null();
    if !answered {
        return Err(Error::new(
            ErrorCode::Internal,
            "the loader does not know this library's path",
        ));
    }
    // SAFETY: the loader's name of a library is a C string that lives as long as the library.
    let name = unsafe { CStr::from_ptr(found.dli_fname) };
    use std::os::unix::ffi::OsStrExt as _;
    Ok(PathBuf::from(OsStr::from_bytes(name.to_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_is_a_file_or_a_folder_or_has_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        let name = library_name("torch_cpu");
        let refused = find_in(folder, &name).expect_err("nothing is there");
        assert_eq!(refused.code, ErrorCode::RuntimeMissing);
        assert_eq!(
            refused.message,
            format!(
                "TARE_RUNTIME is {}, and there is no {name} in it or in its `lib`; install it with `host runtimes \
                 install torch`",
                folder.display()
            )
        );
        let here = folder.join(&name);
        std::fs::write(&here, []).expect("the folder is writable");
        assert_eq!(find_in(folder, &name).expect("the library"), here);
        assert_eq!(find_in(&here, &name).expect("the library"), here);
        std::fs::create_dir(folder.join("lib")).expect("the folder is writable");
        std::fs::write(folder.join("lib").join(&name), []).expect("the folder is writable");
        assert_eq!(find_in(folder, &name).expect("the library"), folder.join("lib").join(&name));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn another_library_is_refused_with_what_it_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let other = folder.path().join("libtorch_cpu.so");
        std::fs::write(&other, "text").expect("the folder is writable");
        let refused = open_torch(Some(other.as_os_str())).expect_err("it is a text");
        assert_eq!(refused.code, ErrorCode::RuntimeMissing);
        assert!(refused.message.starts_with("libtorch cannot be opened: "), "{refused}");
        // SAFETY: the C library is open in every process.
        let library = unsafe { Library::open(Some("libc.so.6"), RTLD_NOW) }.expect("the C library");
        assert_eq!(version(&library), None);
    }

    #[test]
    fn this_library_knows_its_path() {
        assert!(own_path().expect("a path").is_file());
    }
}
