/*!
The cache of components on disk: their compiled code, their description, or why they failed.

Compiling a component takes a tenth of a second or a minute, loading compiled code a millisecond. But
compiled code runs outside any sandbox, so its owner matters: the folder and each file in it must belong
to this user and be writable by no other user, no link is followed, and files are read through the descriptors that
were checked. A checksum detects damage from a full or broken disk. Files that fail a check are compiled again; an
unusable cache costs only time.

A component has an entry, a small file in JSON, and a file of code. Their names are the component's
SHA-256 and a hash of all dependencies: this host's version, wasmtime's version, its settings, the
processor's features. The entry has the description and the columns, so that listing plugins runs
none of them. A failed component is not tried again for a day. The least recently used files are removed if the total
exceeds a gibibyte.
*/

use std::fs::File;
use std::hash::{Hash, Hasher};
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use host_hash::{Digest, Sha256, hexadecimal};
use serde::{Deserialize, Serialize};
use wasmtime::component::Component;
use wasmtime::{Engine, Module};

use crate::engine::Compiled;
use crate::platform::{Folder, Part, path_of, touch};
use crate::plugin::Profile;
use crate::shape::{Interface, Shape};

/// Limit on the size of all files, in bytes.
const MOST: u64 = 1 << 30;

/// Limit on the size of an entry, in bytes.
const LARGEST_ENTRY: u64 = 1 << 20;

/// Time for which a failure is kept.
const REMEMBERED: Duration = Duration::from_secs(24 * 60 * 60);

/// Version of the files' format.
const FORMAT: u32 = 4;

/// Compiled components and their entries.
#[derive(Debug)]
pub(crate) struct Cache {
    folder: Folder,
    path: PathBuf,
    compatibility: String,
}

/// The entry of a component.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Entry {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) code: Option<Code>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) profile: Option<Profile>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) failure: Option<Failure>,
}

/// A file of compiled code.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Code {
    pub(crate) shape: Shape,
    /// CRC-32, which takes a tenth of the time of SHA-256. It detects damage; the folder's owner is what is trusted.
    checksum: u32,
}

/// Why a component cannot be used.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Failure {
    /// Seconds since 1970.
    at: u64,
    /// `describe` or `columns`; `None` if it could not be compiled.
    pub(crate) call: Option<String>,
    pub(crate) reason: String,
    pub(crate) standard_error: String,
}

impl Failure {
    pub(crate) fn new(call: Option<&str>, reason: String, standard_error: String) -> Self {
        Self { at: now(), call: call.map(str::to_owned), reason, standard_error }
    }

    /// Returns the failure's age; `None` if it has expired, or if the clock was set back.
    pub(crate) fn age(&self) -> Option<Duration> {
        now().checked_sub(self.at).map(Duration::from_secs).filter(|age| *age < REMEMBERED)
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

impl Cache {
    pub(crate) fn open(path: &Path, engine: &Engine) -> io::Result<Self> {
        let mut hasher = ShaHasher(Sha256::new());
        engine.precompile_compatibility_hash().hash(&mut hasher);
        hasher.write(format!("{FORMAT} {}", env!("CARGO_PKG_VERSION")).as_bytes());
        let compatibility = hexadecimal(&hasher.0.finalize()[..8]);
        Ok(Self { folder: Folder::private(path)?, path: path.to_owned(), compatibility })
    }

    fn entry_name(&self, sha256: &str) -> String {
        format!("{sha256}-{}.json", self.compatibility)
    }

    fn code_name(&self, sha256: &str) -> String {
        format!("{sha256}-{}.code", self.compatibility)
    }

    /// Returns the path of an entry. If it is removed, the component is compiled and described again.
    pub(crate) fn entry_path(&self, sha256: &str) -> PathBuf {
        self.path.join(self.entry_name(sha256))
    }

    /// Returns the entry of a component. A failure of more than a day ago is ignored.
    pub(crate) fn entry(&self, sha256: &str) -> Entry {
        let name = self.entry_name(sha256);
        let refused = |reason: &dyn std::fmt::Display| {
            tracing::warn!(
                entry = name,
                "asking the plugin again, since its entry is unusable: {reason}"
            );
        };
        let Ok(Some(text)) =
            self.folder.read_private(&name, LARGEST_ENTRY).inspect_err(|error| refused(error))
        else {
            return Entry::default();
        };
        let entry: Result<Entry, _> = serde_json::from_slice(&text);
        let Ok(mut entry) = entry.inspect_err(|error| refused(error)) else {
            return Entry::default();
        };
        entry.failure = entry.failure.filter(|failure| failure.age().is_some());
        entry
    }

    /// Keeps an entry, and removes the least recently used files if the limit is exceeded.
    pub(crate) fn keep(&self, sha256: &str, entry: &Entry) {
        let written = serde_json::to_vec(entry)
            .map_err(io::Error::from)
            .and_then(|text| self.folder.write(&self.entry_name(sha256), &text))
            .and_then(|()| self.folder.prune(MOST));
        if let Err(error) = written {
            tracing::warn!("what is known of a plugin is not kept: {error}");
        }
    }

    /// Returns compiled code, if it exists and is intact.
    pub(crate) fn code(&self, engine: &Engine, sha256: &str, code: &Code) -> Option<Compiled> {
        let name = self.code_name(sha256);
        let refused = |reason: &dyn std::fmt::Display| {
            tracing::warn!(
                entry = name,
                "compiling again, since the cached code is unusable: {reason}"
            );
        };
        let mut file =
            self.folder.open_private(&name).inspect_err(|error| refused(error)).ok()??;
        let found = checksum(&mut file).inspect_err(|error| refused(error)).ok()?;
        if found != code.checksum {
            refused(&"its checksum does not match");
            return None;
        }
        // Only the order of removal depends on it.
        let _ = touch(&file);
        // SAFETY: the bytes were written by a compiler of this sandbox and not changed, since the folder and the file
        // belong to this user, no other user can write to them, and the checksum is correct. Such a file is replaced,
        // and never written to again.
        unsafe { load(engine, code.shape.interface, &mut file) }
            .inspect_err(|error| refused(error))
            .ok()
    }

    /// Creates a file for compiled code.
    pub(crate) fn part(&self) -> io::Result<Part<'_>> {
        self.folder.part()
    }

    /// Keeps a file of compiled code.
    pub(crate) fn keep_code(
        &self,
        sha256: &str,
        shape: Shape,
        mut part: Part<'_>,
    ) -> io::Result<Code> {
        let code = Code { shape, checksum: checksum(&mut part.file)? };
        part.keep(&self.code_name(sha256))?;
        Ok(code)
    }
}

/// Loads compiled code from a file, whose pages are read when they are needed.
///
/// # Safety
///
/// The file must have been written by a compiler of this sandbox, and must not change while the component lives.
pub(crate) unsafe fn load(
    engine: &Engine,
    interface: Interface,
    file: &mut File,
) -> wasmtime::Result<Compiled> {
    let mapped = match interface {
        Interface::Command => {
            // SAFETY: as promised by the caller.
            unsafe { Module::deserialize_file(engine, path_of(file)) }.map(Compiled::Module)
        }
        // SAFETY: as promised by the caller.
        _ => unsafe { Component::deserialize_file(engine, path_of(file)) }.map(Compiled::Component),
    };
    mapped.or_else(|error| {
        // Some file systems do not allow executing their files.
        let mut compiled = Vec::new();
        let whole = file.rewind().and_then(|()| file.read_to_end(&mut compiled));
        whole.map_err(|_| error)?;
        // SAFETY: as above.
        unsafe { deserialize(engine, interface, &compiled) }
    })
}

/// Loads compiled code from memory.
///
/// # Safety
///
/// It must have been made by a compiler of this sandbox.
pub(crate) unsafe fn deserialize(
    engine: &Engine,
    interface: Interface,
    compiled: &[u8],
) -> wasmtime::Result<Compiled> {
    match interface {
        Interface::Command => {
            // SAFETY: as promised by the caller.
            unsafe { Module::deserialize(engine, compiled) }.map(Compiled::Module)
        }
        // SAFETY: as promised by the caller.
        _ => unsafe { Component::deserialize(engine, compiled) }.map(Compiled::Component),
    }
}

fn checksum(file: &mut File) -> io::Result<u32> {
    file.rewind()?;
    let (mut hasher, mut block) = (crc32fast::Hasher::new(), vec![0; 1 << 18]);
    loop {
        match file.read(&mut block)? {
            0 => return Ok(hasher.finalize()),
            length => hasher.update(&block[..length]),
        }
    }
}

/// SHA-256 as a hasher, because the standard library's hash functions may change.
struct ShaHasher(Sha256);

impl Hasher for ShaHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        u64::from_le_bytes(self.0.clone().finalize()[..8].try_into().expect("eight bytes"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_remembered_for_a_day() {
        let hour = 60 * 60;
        let failed = |ago: i64| Failure {
            at: now().saturating_add_signed(-ago),
            ..Failure::new(None, "slow".into(), String::new())
        };
        assert!(failed(0).age().is_some());
        assert!(failed(23 * hour).age().is_some());
        assert!(failed(25 * hour).age().is_none());
        // A clock that was set back must not extend it for years.
        assert!(failed(-2 * hour).age().is_none());
    }

    #[test]
    fn what_was_used_longest_ago_is_removed_first() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("cache");
        let cache = Folder::private(&path).expect("a folder");
        for (age, name) in [(3, "old"), (2, "used"), (1, "new")] {
            cache.write(name, &[0; 100]).expect("a file");
            let file = File::options().write(true).open(path.join(name)).expect("it is there");
            let time = SystemTime::now() - Duration::from_secs(100 * age);
            file.set_modified(time).expect("a time");
        }
        touch(&File::open(path.join("used")).expect("it is there")).expect("a time");
        cache.prune(200).expect("two fit");
        assert!(!path.join("old").exists());
        cache.prune(199).expect("one fits");
        assert!(path.join("used").exists() && !path.join("new").exists());
    }
}
