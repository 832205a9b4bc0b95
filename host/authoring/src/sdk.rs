//! The SDK: headers, WIT, bindings, crates and fixtures, as this program was built with them.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::files::{SDK, empty_folder, text, write};

/// Says that a folder is an SDK, and of which versions.
const MARK: &str = "tare-sdk.toml";

/// The model of the fixture `digits`, as the sources name it.
const DIGITS: (&str, &str) = ("../../../manifests/data/digits.onnx", "digits.onnx");

/// Versions of an SDK.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Versions {
    /// The tool.
    pub host: String,
    /// The native ABI, of backends.
    pub native_abi: String,
    /// The package `tare:plugin`, of metrics, reports and recommenders.
    pub wit: String,
}

impl Versions {
    /// Returns those of this program, as the files that it carries say.
    #[must_use]
    pub fn of_this_program() -> Self {
        let header = text(file("include/plugin_api.h"));
        let number = |name: &str| {
            let line =
                header.lines().find_map(|line| line.strip_prefix(&format!("#define {name} ")));
            line.expect("the header has its version").trim().trim_end_matches('u').to_owned()
        };
        let wit = text(file("wit/plugin.wit"));
        let package = wit.lines().find_map(|line| line.strip_prefix("package tare:plugin@"));
        Self {
            host: env!("CARGO_PKG_VERSION").into(),
            native_abi: format!("{}.{}", number("TARE_ABI_MAJOR"), number("TARE_ABI_MINOR")),
            wit: package.expect("the package has its version").trim_end_matches(';').into(),
        }
    }
}

/// Returns a file of the SDK.
fn file(name: &str) -> &'static [u8] {
    let found = SDK.iter().find(|(path, _)| *path == name);
    found.map(|(_, bytes)| *bytes).expect("a file of the SDK")
}

/// Returns whether a folder is an SDK.
#[must_use]
pub fn is_sdk(folder: &Path) -> bool {
    folder.join(MARK).is_file()
}

/// Writes the SDK into a folder that is empty, does not exist, or is an SDK, which is replaced. Returns the
/// number of files.
///
/// # Errors
///
/// If the folder has other files, or cannot be written.
pub fn write_sdk(folder: &Path) -> Result<usize> {
    if is_sdk(folder) {
        // What an older program wrote and this one does not would be found by compilers.
        for name in ["include", "wit", "c", "rust", "fixtures"] {
            let old = folder.join(name);
            if old.symlink_metadata().is_ok_and(|found| found.is_dir()) {
                fs::remove_dir_all(&old).map_err(|source| Error::io("replace", &old, source))?;
            }
        }
    } else {
        empty_folder(folder)?;
    }
    for (name, bytes) in SDK {
        let path = folder.join(name);
        if *name == "fixtures/digits.toml" {
            write(&path, text(bytes).replace(DIGITS.0, DIGITS.1).as_bytes())?;
        } else {
            write(&path, bytes)?;
        }
    }
    let versions = toml::to_string(&Versions::of_this_program()).expect("texts are TOML");
    write(&folder.join(MARK), versions.as_bytes())?;
    Ok(SDK.len() + 1)
}
