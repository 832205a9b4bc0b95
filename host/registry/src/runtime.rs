/*!
The vendor's runtime that a plugin uses.

`[runtime]` in `plugin.toml` names it. `runtime.lock` beside it lists its packages on the Python
package index, for each platform, with their hashes and the files to unpack. Both are read here;
`host-runtime` installs them.
*/

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use glob::{MatchOptions, Pattern};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::error::MetadataError;
use crate::limits::LARGEST_TEXT;
use crate::strict::{Text, is_line};

/// The newest `schema` of `runtime.lock` that this host reads.
const SCHEMA: u32 = 1;

/// `[runtime]` of a `plugin.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct RuntimeNeed {
    /// Its name.
    #[serde(deserialize_with = "word")]
    pub name: String,
    /// The version to install.
    #[serde(deserialize_with = "word")]
    pub version: String,
    /// Whether the plugin works without it.
    #[serde(default)]
    pub optional: bool,
    /// If it is optional: options of the plugin, each with the value that needs the runtime.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub needed_by: BTreeMap<String, String>,
    /// Summary, in one line.
    #[serde(deserialize_with = "line")]
    pub summary: String,
    /// A folder or library on this machine that is used instead of an installed one. A relative path starts in the
    /// plugin's folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
}

impl RuntimeNeed {
    /// Returns the name of the folder in which it is installed.
    #[must_use]
    pub fn folder_name(&self) -> String {
        format!("{}-{}", self.name, self.version)
    }

    /// Returns whether a backend with these options needs it.
    #[must_use]
    pub fn is_needed(&self, options: &BTreeMap<String, String>) -> bool {
        !self.optional
            || self.needed_by.iter().any(|(option, value)| options.get(option) == Some(value))
    }
}

/// A `runtime.lock`: the packages of a runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeLock {
    /// Packages for all platforms.
    pub packages: Vec<LockedPackage>,
}

/// One package, for one platform.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct LockedPackage {
    /// Operating system and architecture as named in Rust, such as `linux-x86_64`.
    #[serde(deserialize_with = "word")]
    pub platform: String,
    /// Its name in the Python package index.
    #[serde(deserialize_with = "word")]
    pub name: String,
    /// Its version.
    #[serde(deserialize_with = "word")]
    pub version: String,
    /// The file's name, whose tags determine the Python and system to request.
    #[serde(deserialize_with = "wheel")]
    pub file: String,
    /// SHA-256 of the file, in hexadecimal.
    #[serde(deserialize_with = "sha256")]
    pub sha256: String,
    /// Size of the file.
    pub bytes: u64,
    /// Files to unpack: paths inside the wheel, in which `*` stands for any part of a name.
    #[serde(deserialize_with = "patterns")]
    pub unpack: Vec<Pattern>,
    /// Subfolder of the runtime's folder for these files; their own folders are dropped.
    #[serde(default = "library_folder", deserialize_with = "folder")]
    pub to: String,
}

impl LockedPackage {
    /// Returns whether the file at this path inside the wheel is unpacked.
    #[must_use]
    pub fn unpacks(&self, path: &str) -> bool {
        let options = MatchOptions { require_literal_separator: true, ..MatchOptions::new() };
        self.unpack.iter().any(|pattern| pattern.matches_with(path, options))
    }
}

impl RuntimeLock {
    /// Reads the `runtime.lock` of a plugin's folder; `None` if there is none.
    ///
    /// # Errors
    ///
    /// If it cannot be read or is invalid; with the file and the line.
    pub fn read(plugin_folder: &Path) -> Result<Option<Self>, MetadataError> {
        let file = plugin_folder.join("runtime.lock");
        match host_files::read_to_string(&file, LARGEST_TEXT) {
            Ok(text) => Self::parse(&text, &file).map(Some),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => {
                let message = format!("cannot be read: {error}");
                Err(MetadataError { file, line: None, message })
            }
        }
    }

    /// Checks the text of a `runtime.lock`; `file` is named in errors.
    ///
    /// # Errors
    ///
    /// As [`RuntimeLock::read`].
    pub fn parse(text: &str, file: &Path) -> Result<Self, MetadataError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "kebab-case", deny_unknown_fields)]
        struct Contents {
            #[serde(rename = "schema")]
            _schema: u32,
            #[serde(rename = "package")]
            packages: Vec<LockedPackage>,
        }
        let contents: Contents = Text { text, file }.parse(SCHEMA)?;
        Ok(Self { packages: contents.packages })
    }

    /// Returns the packages for a platform.
    #[must_use]
    pub fn packages_for(&self, platform: &str) -> Vec<&LockedPackage> {
        self.packages.iter().filter(|package| package.platform == platform).collect()
    }

    /// Returns every platform that has packages.
    #[must_use]
    pub fn platforms(&self) -> BTreeSet<&str> {
        self.packages.iter().map(|package| package.platform.as_str()).collect()
    }
}

fn library_folder() -> String {
    "lib".into()
}

/// Reads a text and checks it; `what` describes a valid one.
fn checked<'de, D: Deserializer<'de>>(
    deserializer: D,
    is_right: impl FnOnce(&str) -> bool,
    what: &str,
) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    if is_right(&text) {
        Ok(text)
    } else {
        Err(D::Error::custom(format!("{text:?} is not {what}")))
    }
}

/// Reads a word that becomes part of a file's name and of a line for pip.
fn word<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let is_word = |text: &str| {
        text.starts_with(|first: char| first.is_ascii_alphanumeric())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_+".contains(&byte))
    };
    checked(deserializer, is_word, "a name or version of letters, digits, `.`, `-`, `_` and `+`")
}

fn line<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    checked(deserializer, is_line, "one line of text, or has invisible characters")
}

fn wheel<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let is_wheel = |text: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_+".contains(&byte);
        let parts = text.strip_suffix(".whl").map_or(0, |stem| stem.split('-').count());
        matches!(parts, 5 | 6) && text.bytes().all(plain) && !text.starts_with('.')
    };
    checked(deserializer, is_wheel, "the name of a wheel: NAME-VERSION-PYTHON-ABI-PLATFORM.whl")
}

fn sha256<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let is_hash = |text: &str| {
        text.len() == 64
            && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    };
    checked(deserializer, is_hash, "a SHA-256: 64 lower-case hexadecimal digits")
}

fn folder<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let is_inside = |text: &str| {
        !text.is_empty()
            && Path::new(text).components().all(|part| matches!(part, Component::Normal(_)))
    };
    checked(deserializer, is_inside, "a folder beneath the runtime's own")
}

fn patterns<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Pattern>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    if texts.is_empty() {
        return Err(D::Error::custom("the list is empty"));
    }
    let pattern = |text: &String| {
        Pattern::new(text)
            .map_err(|error| D::Error::custom(format!("{text:?} is not a pattern: {error}")))
    };
    texts.iter().map(pattern).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"schema = 1

[[package]]
platform = "linux-x86_64"
name = "onnxruntime"
version = "1.28.0"
file = "onnxruntime-1.28.0-cp312-cp312-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl"
sha256 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
bytes = 19214257
unpack = ["onnxruntime/capi/libonnxruntime.so.*"]
"#;

    fn parse(text: &str) -> Result<RuntimeLock, MetadataError> {
        RuntimeLock::parse(text, Path::new("cpu/runtime.lock"))
    }

    fn error(from: &str, to: &str) -> String {
        let text = GOOD.replacen(from, to, 1);
        assert_ne!(text, GOOD, "the replacement must change something");
        parse(&text).expect_err("a broken runtime.lock").to_string()
    }

    #[test]
    fn a_complete_file_is_read() {
        let lock = parse(GOOD).expect("a good file");
        assert_eq!(lock.packages_for("linux-aarch64"), [] as [&LockedPackage; 0]);
        assert_eq!(lock.platforms().into_iter().collect::<Vec<_>>(), ["linux-x86_64"]);
        let package = lock.packages_for("linux-x86_64")[0];
        assert_eq!((package.to.as_str(), package.bytes), ("lib", 19_214_257));
        assert!(package.unpacks("onnxruntime/capi/libonnxruntime.so.1.28.0"));
        assert!(!package.unpacks("onnxruntime/capi/libonnxruntime_providers_shared.so"));
        assert!(!package.unpacks("onnxruntime/capi/libonnxruntime.so.1/x"), "a folder ends a name");
    }

    #[test]
    fn errors_name_the_file_the_line_and_the_fault() {
        let cases = [
            error("schema = 1", "schema = 2\nfuture = true"),
            error("schema = 1\n", ""),
            error("bytes", "byte"),
            error("sha256 = \"01", "sha256 = \"0g"),
            error("sha256 = \"01", "sha256 = \""),
            error("\"onnxruntime\"", "\"onnxruntime --index-url x\""),
            error("\"1.28.0\"", "\"../1.28.0\""),
            error("file = \"", "file = \"../"),
            error("-cp312-cp312", ""),
            error("19214257", "-1"),
            error("[\"onnxruntime/capi/libonnxruntime.so.*\"]", "[]"),
            error(".so.*", ".so.***"),
            error("unpack", "to = \"../lib\"\nunpack"),
            error("unpack", "to = \"/lib\"\nunpack"),
        ];
        insta::assert_snapshot!(cases.join("\n"), @r#"
    cpu/runtime.lock:1: unknown schema 2; this host reads up to 1 and may need an update
    cpu/runtime.lock: missing key `schema`
    cpu/runtime.lock:9: unknown key `byte`; did you mean `bytes`?
    cpu/runtime.lock:8: `sha256`: "0g23456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef" is not a SHA-256: 64 lower-case hexadecimal digits
    cpu/runtime.lock:8: `sha256`: "23456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef" is not a SHA-256: 64 lower-case hexadecimal digits
    cpu/runtime.lock:5: `name`: "onnxruntime --index-url x" is not a name or version of letters, digits, `.`, `-`, `_` and `+`
    cpu/runtime.lock:6: `version`: "../1.28.0" is not a name or version of letters, digits, `.`, `-`, `_` and `+`
    cpu/runtime.lock:7: `file`: "../onnxruntime-1.28.0-cp312-cp312-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl" is not the name of a wheel: NAME-VERSION-PYTHON-ABI-PLATFORM.whl
    cpu/runtime.lock:7: `file`: "onnxruntime-1.28.0-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl" is not the name of a wheel: NAME-VERSION-PYTHON-ABI-PLATFORM.whl
    cpu/runtime.lock:9: `bytes`: invalid value: integer `-1`, expected u64
    cpu/runtime.lock:10: `unpack`: the list is empty
    cpu/runtime.lock:10: `unpack`: "onnxruntime/capi/libonnxruntime.so.***" is not a pattern: Pattern syntax error near position 37: wildcards are either regular `*` or recursive `**`
    cpu/runtime.lock:10: `to`: "../lib" is not a folder beneath the runtime's own
    cpu/runtime.lock:10: `to`: "/lib" is not a folder beneath the runtime's own
    "#);
    }
}
