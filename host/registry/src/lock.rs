//! The lock file: the native plugins that the user has used, and their hashes.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use semver::Version;
use serde::{Deserialize, Serialize};

use crate::limits::LARGEST_TEXT;

/// The newest schema that is read. Without guests the first one is written, which older hosts read.
const SCHEMA: u32 = 2;
const WITHOUT_GUESTS: u32 = 1;
const HEADER: &str = "\
# The native plugins that you have used, and one SHA-256 for the files of each. Written by `host`.
# In the plugin's folder: sha256sum plugin.toml [runtime.lock] LIBRARY | sha256sum
# A plugin that no longer has its hash is refused until `host plugins trust ID`.
";
const HEADER_OF_GUESTS: &str = "\
# A plugin with a `file` is a WASM plugin that you have added: the SHA-256 is that of the file. It runs in the sandbox.
";

/// A plugin whose hash is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Locked {
    /// The plugin.
    pub id: String,
    /// Its version when it was recorded.
    pub version: Version,
    /// Its folder, with links resolved.
    pub folder: PathBuf,
    /// SHA-256 of its files, in hexadecimal, as in [`crate::Seal::sha256`].
    pub sha256: String,
    /// Time of the record, RFC 3339 in UTC.
    pub recorded_at: String,
    /// Of a guest, its file in the folder; `sha256` is then that of the file. `None` for native plugins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Contents {
    schema: u32,
    #[serde(default, rename = "plugin")]
    plugins: Vec<Locked>,
}

impl Locked {
    /// Returns whether it is the record of a guest's file in a folder, or of the native plugin there.
    fn is_at(&self, folder: &Path, file: Option<&Path>) -> bool {
        self.folder == folder && self.file.as_deref() == file
    }
}

/// Reasons why the lock file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// The lock file has no folder.
    #[error("there is no configuration folder in which to record the plugin's hash")]
    Nowhere,
    /// The system refused.
    #[error("the lock file {} cannot be {action}: {source}", .file.display())]
    File {
        /// The lock file.
        file: PathBuf,
        /// `read` or `written`.
        action: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The file was not written by this host.
    #[error("the lock file {} is damaged: {message}", .file.display())]
    Damaged {
        /// The lock file.
        file: PathBuf,
        /// The error.
        message: String,
    },
    /// A newer host wrote it.
    #[error("the lock file {} has schema {schema}, but this host reads {SCHEMA}", .file.display())]
    Newer {
        /// The lock file.
        file: PathBuf,
        /// Its schema.
        schema: u32,
    },
}

impl LockError {
    /// Returns a hint to fix the error.
    #[must_use]
    pub fn help(&self) -> String {
        match self {
            Self::Nowhere => "set HOME, or XDG_CONFIG_HOME to an absolute path".into(),
            Self::File { file, .. } => {
                format!(
                    "make {} readable and writable, or set XDG_CONFIG_HOME elsewhere",
                    file.display()
                )
            }
            Self::Damaged { file, .. } => {
                format!("fix it, or delete {} and trust your plugins again", file.display())
            }
            Self::Newer { .. } => "update the host".into(),
        }
    }
}

/// The lock file at a path. Each call reads it again, so that hosts that run at the same time see
/// each other's entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockFile {
    path: PathBuf,
}

impl LockFile {
    /// Creates a lock file at `path`, which need not exist yet.
    #[must_use]
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Returns the file's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the record of the plugin in a folder, if there is one.
    ///
    /// # Errors
    ///
    /// If the file exists and cannot be read or parsed.
    pub fn find(&self, folder: &Path) -> Result<Option<Locked>, LockError> {
        self.find_file(folder, None)
    }

    /// Returns the record of a guest's file in a folder, or of the native plugin there.
    ///
    /// # Errors
    ///
    /// As [`LockFile::find`].
    pub fn find_file(
        &self,
        folder: &Path,
        file: Option<&Path>,
    ) -> Result<Option<Locked>, LockError> {
        let is_it = |entry: &Locked| entry.is_at(folder, file);
        Ok(self.read()?.into_iter().find(is_it))
    }

    /// Removes the record of a guest's file in a folder, or of the native plugin there.
    ///
    /// # Errors
    ///
    /// As [`LockFile::record`].
    pub fn forget(&self, folder: &Path, file: Option<&Path>) -> Result<(), LockError> {
        // A file that is not there is not created.
        match self.find_file(folder, file)? {
            Some(_) => self.update(|plugins| plugins.retain(|entry| !entry.is_at(folder, file))),
            None => Ok(()),
        }
    }

    /// Records a plugin and replaces an earlier record for its folder. The new file replaces the old one
    /// atomically, and hosts that write at the same time take turns.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, parsed or written.
    pub fn record(&self, entry: Locked) -> Result<(), LockError> {
        self.update(|plugins| {
            plugins.retain(|known| !known.is_at(&entry.folder, entry.file.as_deref()));
            plugins.push(entry);
        })
    }

    /// Records a plugin unless one is recorded for its folder, and returns the record.
    ///
    /// # Errors
    ///
    /// As [`LockFile::record`].
    pub fn record_first(&self, entry: Locked) -> Result<Locked, LockError> {
        let mut recorded = entry.clone();
        let is_it = |known: &&Locked| known.is_at(&entry.folder, entry.file.as_deref());
        self.update(|plugins| match plugins.iter().find(is_it) {
            Some(known) => recorded = known.clone(),
            None => plugins.push(entry.clone()),
        })?;
        Ok(recorded)
    }

    fn update(&self, change: impl FnOnce(&mut Vec<Locked>)) -> Result<(), LockError> {
        let written =
            |source| LockError::File { file: self.path.clone(), action: "written", source };
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(folder).map_err(written)?;
        // The guard is another file, since the lock file itself is replaced on each write.
        let guard = File::create(self.path.with_extension("lock.guard")).map_err(written)?;
        guard.lock().map_err(written)?;
        let mut plugins = self.read()?;
        change(&mut plugins);
        plugins.sort_by(|a, b| (&a.id, &a.folder, &a.file).cmp(&(&b.id, &b.folder, &b.file)));
        let has_guests = plugins.iter().any(|plugin| plugin.file.is_some());
        let schema = if has_guests { SCHEMA } else { WITHOUT_GUESTS };
        let guests = if has_guests { HEADER_OF_GUESTS } else { "" };
        let text = toml::to_string(&Contents { schema, plugins })
            .map_err(|error| written(io::Error::other(error)))?;
        let mut beside = tempfile::NamedTempFile::new_in(folder).map_err(written)?;
        beside.write_all(format!("{HEADER}{guests}{text}").as_bytes()).map_err(written)?;
        beside.as_file().sync_all().map_err(written)?;
        beside.persist(&self.path).map_err(|error| written(error.error))?;
        // The rename is on stable storage once the folder is synced.
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(written)
    }

    fn read(&self) -> Result<Vec<Locked>, LockError> {
        let text = match host_files::read_to_string(&self.path, LARGEST_TEXT) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => {
                return Err(LockError::File { file: self.path.clone(), action: "read", source });
            }
        };
        #[derive(Deserialize)]
        struct Schema {
            schema: u32,
        }
        let damaged = |error: toml::de::Error| LockError::Damaged {
            file: self.path.clone(),
            message: error.to_string(),
        };
        let Schema { schema } = toml::from_str(&text).map_err(damaged)?;
        if schema > SCHEMA {
            return Err(LockError::Newer { file: self.path.clone(), schema });
        }
        let contents: Contents = toml::from_str(&text).map_err(damaged)?;
        Ok(contents.plugins)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: &str, sha256: &str) -> Locked {
        Locked {
            id: id.into(),
            version: Version::new(0, 1, 0),
            folder: format!("/plugins/{id}").into(),
            sha256: sha256.into(),
            recorded_at: "2026-01-02T03:04:05Z".into(),
            file: None,
        }
    }

    #[test]
    fn guests_are_recorded_beside_native_plugins_and_forgotten() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("plugins.lock");
        let lock = LockFile::at(&path);
        lock.forget(Path::new("/plugins"), None).expect("nothing to forget");
        assert!(!path.exists(), "nothing is written for nothing");
        lock.record(entry("a", "aa")).expect("recording");
        let tail = Locked {
            folder: "/plugins".into(),
            file: Some("tail.wasm".into()),
            ..entry("tail", "cc")
        };
        lock.record(tail.clone()).expect("recording a guest");
        let text = fs::read_to_string(&path).expect("the file");
        assert!(text.contains("schema = 2") && text.contains("# A plugin with a `file`"), "{text}");
        let file = Some(Path::new("tail.wasm"));
        let found = lock.find_file(Path::new("/plugins"), file).expect("reading");
        assert_eq!(found, Some(tail));
        assert_eq!(lock.find(Path::new("/plugins")).expect("reading"), None, "it is not native");
        lock.forget(Path::new("/plugins"), file).expect("forgetting");
        // Without guests, an older host can read it again.
        let text = fs::read_to_string(&path).expect("the file");
        assert!(text.contains("schema = 1") && !text.contains("tail"), "{text}");
    }

    #[test]
    fn what_is_recorded_is_found() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("new/plugins.lock");
        let lock = LockFile::at(&path);
        assert_eq!(lock.find(Path::new("/plugins/b")).expect("no file is no entry"), None);
        lock.record(entry("b", "bb")).expect("recording");
        lock.record(entry("a", "aa")).expect("recording");
        lock.record(entry("b", "b2")).expect("recording again");
        insta::assert_snapshot!(fs::read_to_string(&path).expect("the file"), @r#"
        # The native plugins that you have used, and one SHA-256 for the files of each. Written by `host`.
        # In the plugin's folder: sha256sum plugin.toml [runtime.lock] LIBRARY | sha256sum
        # A plugin that no longer has its hash is refused until `host plugins trust ID`.
        schema = 1

        [[plugin]]
        id = "a"
        version = "0.1.0"
        folder = "/plugins/a"
        sha256 = "aa"
        recorded-at = "2026-01-02T03:04:05Z"

        [[plugin]]
        id = "b"
        version = "0.1.0"
        folder = "/plugins/b"
        sha256 = "b2"
        recorded-at = "2026-01-02T03:04:05Z"
        "#);
        let kept = lock.record_first(entry("b", "b3")).expect("recording a known one");
        assert_eq!(kept.sha256, "b2", "the first record stays");
    }

    #[test]
    fn hosts_that_write_at_the_same_time_lose_nothing() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let lock = LockFile::at(folder.path().join("plugins.lock"));
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let lock = &lock;
                scope.spawn(move || {
                    for index in 0..5 {
                        lock.record(entry(&format!("p{thread}-{index}"), "aa")).expect("recording");
                    }
                });
            }
        });
        assert_eq!(lock.read().expect("reading").len(), 20);
    }

    #[test]
    fn a_damaged_or_newer_file_is_refused_and_not_overwritten() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("plugins.lock");
        let lock = LockFile::at(&path);
        for (text, expected) in [("schema = 9", "has schema 9"), ("schema = 1\nx", "is damaged")] {
            fs::write(&path, text).expect("writing");
            let error = lock.record(entry("a", "aa")).expect_err("a file that is not understood");
            assert!(error.to_string().contains(expected), "{error}");
            assert_eq!(fs::read_to_string(&path).expect("reading"), text);
        }
    }
}
