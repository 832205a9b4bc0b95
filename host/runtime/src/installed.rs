//! `installed.json`: the contents of an installed runtime.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use host_hash::sha256_of_file;
use host_registry::LockedPackage;
use serde::{Deserialize, Serialize};

use crate::error::{Flaw, RuntimeError};

/// The newest `schema` of `installed.json` that this host reads.
const SCHEMA: u32 = 1;

/// The file's name.
pub(crate) const FILE: &str = "installed.json";

/// Greatest length of both files: a runtime has thousands of files at most.
const LARGEST_RECORD: u64 = 64 << 20;

/// Name of the file that records the state of all files when they were last verified.
const VERIFIED: &str = "verified.json";

/// State of a file, for detecting changes without reading it. No program can set the time of the last change, and
/// every write updates it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Stamp {
    inode: u64,
    bytes: u64,
    /// Time of the last change of any kind, in seconds and nanoseconds.
    changed: (i64, i64),
}

impl Stamp {
    /// Returns whether another change would get a different time: the kernel keeps times in steps of milliseconds.
    fn is_old(&self) -> bool {
        let (seconds, nanoseconds) = self.changed;
        let (Ok(seconds), Ok(nanoseconds)) = (u64::try_from(seconds), u32::try_from(nanoseconds))
        else {
            return false;
        };
        let changed = SystemTime::UNIX_EPOCH + Duration::new(seconds, nanoseconds);
        changed.elapsed().is_ok_and(|age| age >= Duration::from_secs(1))
    }
}

/// A package of an installed runtime, as in the lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct InstalledPackage {
    /// Its name in the Python package index.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The wheel.
    pub file: String,
    /// SHA-256 of the wheel.
    pub sha256: String,
    /// Patterns of the unpacked files.
    pub unpack: Vec<String>,
    /// Target folder.
    pub to: String,
}

impl From<&LockedPackage> for InstalledPackage {
    fn from(package: &LockedPackage) -> Self {
        Self {
            name: package.name.clone(),
            version: package.version.clone(),
            file: package.file.clone(),
            sha256: package.sha256.clone(),
            unpack: package.unpack.iter().map(|pattern| pattern.as_str().to_owned()).collect(),
            to: package.to.clone(),
        }
    }
}

/// A file of an installed runtime.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct InstalledFile {
    /// SHA-256 in hexadecimal.
    pub sha256: String,
    /// Size in bytes.
    pub bytes: u64,
}

/// Contents of an installed runtime. It contains no times and no paths, so the same runtime has the same record, and
/// the same hash, on every machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Installed {
    /// The format's version.
    pub schema: u32,
    /// The runtime's name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Operating system and architecture.
    pub platform: String,
    /// Packages that it was unpacked from.
    pub packages: Vec<InstalledPackage>,
    /// Its files, by their paths in the runtime's folder.
    pub files: BTreeMap<String, InstalledFile>,
}

impl Installed {
    pub(crate) fn new(
        name: &str,
        version: &str,
        platform: &str,
        packages: &[&LockedPackage],
        files: BTreeMap<String, InstalledFile>,
    ) -> Self {
        Self {
            schema: SCHEMA,
            name: name.into(),
            version: version.into(),
            platform: platform.into(),
            packages: packages.iter().map(|package| (*package).into()).collect(),
            files,
        }
    }

    /// Reads the record of the runtime in a folder; `None` if there is no such runtime.
    pub(crate) fn read(folder: &Path) -> Result<Option<Self>, RuntimeError> {
        let file = folder.join(FILE);
        let text = match host_files::read_to_string(&file, LARGEST_RECORD) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(RuntimeError::io("read", &file)(error)),
        };
        #[derive(Deserialize)]
        struct Schema {
            schema: u32,
        }
        let wrong = |message: String| RuntimeError::Record { file: file.clone(), message };
        let Schema { schema } =
            serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        if schema != SCHEMA {
            return Err(wrong(format!("it has schema {schema}, but this host reads {SCHEMA}")));
        }
        serde_json::from_str(&text).map(Some).map_err(|error| wrong(error.to_string()))
    }

    pub(crate) fn write(&self, folder: &Path) -> Result<(), RuntimeError> {
        let file = folder.join(FILE);
        let text = serde_json::to_string_pretty(self).map_err(|error| RuntimeError::Record {
            file: file.clone(),
            message: error.to_string(),
        })?;
        fs::write(&file, text + "\n").map_err(RuntimeError::io("write", file))
    }

    /// Returns the size of all files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.values().map(|file| file.bytes).sum()
    }

    /// Returns whether it was made from these packages, unpacked in the same way.
    pub(crate) fn is_of(&self, packages: &[&LockedPackage]) -> bool {
        self.packages.iter().eq(&packages.iter().map(|it| (*it).into()).collect::<Vec<_>>())
    }

    /// Returns the first file that is missing or has another size. Reads no contents.
    pub(crate) fn glance(&self, folder: &Path) -> Option<Flaw> {
        self.files.iter().find_map(|(file, InstalledFile { bytes, .. })| {
            match fs::metadata(folder.join(file)) {
                Ok(found) if found.len() == *bytes => None,
                Ok(_) => Some(Flaw::Changed { file: file.clone() }),
                Err(_) => Some(Flaw::Missing { file: file.clone() }),
            }
        })
    }

    /// Verifies like [`Self::verify`], but skips files that have not changed since they were last verified: a
    /// runtime may have gigabytes, and this happens at the start of each run.
    pub(crate) fn verify_what_changed(&self, folder: &Path) -> Result<Vec<Flaw>, RuntimeError> {
        let stamps = self.stamps(folder);
        let file = folder.join(VERIFIED);
        let known = host_files::read(&file, LARGEST_RECORD)
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok());
        if stamps.is_some() && stamps == known {
            return foreign(folder, &self.files);
        }
        let flaws = self.verify(folder, |_| {})?;
        if let (Some(stamps), true) = (stamps, flaws.is_empty())
            && stamps.values().all(Stamp::is_old)
            && let Ok(text) = serde_json::to_string_pretty(&stamps)
        {
            // If it cannot be stored, everything is read again the next time.
            drop(fs::write(file, text + "\n"));
        }
        Ok(flaws)
    }

    /// Returns the states of `installed.json` and of each file; `None` if one is missing.
    fn stamps(&self, folder: &Path) -> Option<BTreeMap<String, Stamp>> {
        let files = self.files.keys().map(String::as_str).chain([FILE]);
        let stamp = |file: &str| {
            let found = fs::metadata(folder.join(file)).ok()?;
            let changed = (found.ctime(), found.ctime_nsec());
            Some((file.to_owned(), Stamp { inode: found.ino(), bytes: found.len(), changed }))
        };
        files.map(stamp).collect()
    }

    /// Returns all flaws: reads each file, and searches the folder for others.
    pub(crate) fn verify(
        &self,
        folder: &Path,
        mut advanced: impl FnMut(u64),
    ) -> Result<Vec<Flaw>, RuntimeError> {
        let mut flaws = Vec::new();
        for (file, InstalledFile { sha256, bytes }) in &self.files {
            let path = folder.join(file);
            if !path.is_file() {
                flaws.push(Flaw::Missing { file: file.clone() });
                continue;
            }
            let found = sha256_of_file(&path).map_err(RuntimeError::io("read", &path))?;
            if found != *sha256 {
                flaws.push(Flaw::Changed { file: file.clone() });
            }
            advanced(*bytes);
        }
        flaws.extend(foreign(folder, &self.files)?);
        Ok(flaws)
    }
}

/// Returns the files in a runtime's folder that do not belong to it.
fn foreign(
    folder: &Path,
    files: &BTreeMap<String, InstalledFile>,
) -> Result<Vec<Flaw>, RuntimeError> {
    let name = |path: &PathBuf| {
        let name = path.strip_prefix(folder).unwrap_or(path).to_string_lossy();
        let is_ours = [FILE, VERIFIED].contains(&&*name) || files.contains_key(&*name);
        (!is_ours).then(|| Flaw::Foreign { file: name.into_owned() })
    };
    Ok(files_beneath(folder)?.iter().filter_map(name).collect())
}

/// Returns everything in a folder that is not a folder, in order.
fn files_beneath(folder: &Path) -> Result<Vec<PathBuf>, RuntimeError> {
    let mut files = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        let read = |error| RuntimeError::io("read", &folder)(error);
        for entry in fs::read_dir(&folder).map_err(read)? {
            let entry = entry.map_err(read)?;
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_folder { open.push(entry.path()) } else { files.push(entry.path()) }
        }
    }
    files.sort();
    Ok(files)
}
