//! Building backends with the system's compilers.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/c-backend");
pub(crate) const INCLUDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../native/include");

/// Builds a shared library from one source file of `tests/c-backend`. Every warning is an error.
pub(crate) fn build(source: &str, into: &Path, flags: &[&str]) -> PathBuf {
    build_with(source, into, flags, Path::new(INCLUDE))
}

/// As [`build`], with the headers of a folder.
pub(crate) fn build_with(source: &str, into: &Path, flags: &[&str], include: &Path) -> PathBuf {
    let (variable, default, standard) = if source.ends_with(".cpp") {
        ("CXX", "c++", "-std=c++17")
    } else {
        ("CC", "cc", "-std=c11")
    };
    let compiler = std::env::var(variable).unwrap_or_else(|_| default.into());
    let library = into.join(format!("lib{}.so", flags.concat().replace(['"', '='], "_") + source));
    let output = Command::new(&compiler)
        .args([standard, "-Wall", "-Wextra", "-Werror", "-pedantic", "-O1", "-shared", "-fPIC"])
        .args(flags)
        .arg("-I")
        .arg(include)
        .arg(Path::new(FOLDER).join(source))
        .arg("-o")
        .arg(&library)
        .output()
        .unwrap_or_else(|error| panic!("the compiler `{compiler}` must be installed: {error}"));
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{compiler} does not accept {source}:\n{complaints}");
    library
}

/// The suite measures memory, so the tests that use it take turns.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
