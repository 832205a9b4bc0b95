//! Scanning the folders, and choosing a plugin from them.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use host_hash::{sha256, sha256_of_file};
use host_record::PluginIdentity;
use semver::VersionReq;
use serde::Serialize;

use crate::error::{Problem, RegistryError, nearest};
use crate::limits::{LARGEST_LIBRARY, LARGEST_TEXT};
use crate::lock::{LockError, LockFile, Locked};
use crate::metadata::{Metadata, is_id};
use crate::origin::Origin;
use crate::platform;
use crate::search::{Folder, Search};

/// A native plugin as its folder describes it. Nothing has been loaded or hashed.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct NativePlugin {
    /// Contents of `plugin.toml`.
    pub metadata: Metadata,
    /// The plugin's folder, with links resolved.
    pub folder: PathBuf,
    /// Its library, with links resolved. It is in the folder.
    pub library: PathBuf,
    /// Origin of its folder.
    pub origin: Origin,
}

/// A guest's file. Its kind is known only after loading it into the sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct GuestFile {
    /// The file's name without `.wasm`, with hyphens for underscores: the expected id of the
    /// plugin.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// The plugin folder that it was found in.
    pub folder: PathBuf,
    /// Origin of that folder.
    pub origin: Origin,
}

impl GuestFile {
    /// Returns whether the file is the plugin `id` by its name: `latency`, with a version `latency-0.2.0`, or with
    /// the kind, as cargo names it, `metric-latency`. If a file cannot be loaded, only its name is known.
    #[must_use]
    pub fn is_named_like(&self, id: &str) -> bool {
        let kinds = ["metric-", "report-", "recommender-"];
        let without_kind = kinds.iter().find_map(|kind| self.name.strip_prefix(kind));
        [Some(&*self.name), without_kind].into_iter().flatten().any(|name| {
            let rest = name.strip_prefix(id);
            rest.is_some_and(|rest| {
                let version = rest.strip_prefix('-').unwrap_or_default();
                rest.is_empty() || version.starts_with(|first: char| first.is_ascii_digit())
            })
        })
    }
}

/// Trust in a native plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "trust", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum Trust {
    /// Installed beside the executable, and trusted like it.
    Installed,
    /// Its hash is the recorded one.
    Recorded,
    /// The user installed it and has not used it yet; the first use records its hash.
    New,
    /// A manifest names its folder, and the user has not trusted it.
    Untrusted,
    /// Its hash is not the recorded one.
    Changed {
        /// SHA-256 when it was recorded.
        recorded: String,
        /// Time of that record.
        recorded_at: String,
    },
}

/// Hashes of a native plugin, in hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seal {
    /// SHA-256 of the lines that `sha256sum` prints in its folder for `plugin.toml`, `runtime.lock` if there
    /// is one, and the library: the files that determine its code. Trust depends on this hash.
    pub sha256: String,
    /// SHA-256 of its library alone, which results keep.
    pub library_sha256: String,
}

/// A native plugin that the user has trusted.
#[derive(Debug, Clone, PartialEq)]
pub struct Trusted {
    /// The plugin.
    pub plugin: NativePlugin,
    /// Its hashes. `None` if it is beside the executable and needs no record.
    pub seal: Option<Seal>,
    /// Other plugins with the same id, whose trust is unchanged.
    pub others: Vec<NativePlugin>,
}

/// A native plugin that may be used.
#[derive(Debug, Clone, PartialEq)]
pub struct BackendPlugin {
    /// The plugin.
    pub plugin: NativePlugin,
    /// Its id, version and hash, as results keep them.
    pub identity: PluginIdentity,
    /// Whether its hash has just been recorded for the first time.
    pub first_use: bool,
    /// Folder of the plugin beside the executable that this one hides, if there is one.
    pub hides: Option<PathBuf>,
}

/// The plugins in a search's folders.
#[derive(Debug, Clone)]
pub struct Registry {
    natives: Vec<NativePlugin>,
    guests: Vec<GuestFile>,
    problems: Vec<Problem>,
    lock: Option<LockFile>,
    install: Option<PathBuf>,
}

impl Registry {
    /// Searches the folders. A broken plugin becomes a problem and does not hide others.
    #[must_use]
    pub fn scan(search: &Search) -> Self {
        let _span = tracing::debug_span!("scan plugins").entered();
        let user = search.folders.iter().find(|folder| folder.origin == Origin::User);
        let mut registry = Self {
            natives: Vec::new(),
            guests: Vec::new(),
            problems: search.problems.clone(),
            lock: search.lock_file.as_ref().map(LockFile::at),
            install: user.map(|folder| folder.path.clone()),
        };
        for folder in &search.folders {
            registry.scan_folder(folder);
        }
        tracing::debug!(
            natives = registry.natives.len(),
            guests = registry.guests.len(),
            problems = registry.problems.len(),
            "scanned"
        );
        registry
    }

    fn scan_folder(&mut self, Folder { path, origin }: &Folder) {
        // A named folder may be a plugin's own folder or the folder above it.
        let folder = Folder { path: path.clone(), origin: *origin };
        if path.join(DESCRIPTION).symlink_metadata().is_ok() {
            self.scan_entry(path, &folder);
            return;
        }
        let entries = match sorted_entries(path) {
            Ok(entries) => entries,
            // These two folders need not exist, since the user did not name them.
            Err(error)
                if error.kind() == io::ErrorKind::NotFound
                    && matches!(origin, Origin::User | Origin::Installed) =>
            {
                return;
            }
            Err(error) => {
                self.problems.push(Problem::Folder {
                    folder: path.clone(),
                    origin: *origin,
                    reason: error.to_string(),
                });
                return;
            }
        };
        let first = self.natives.len();
        for entry in entries {
            self.scan_entry(&entry, &folder);
        }
        // Within one folder the newest version comes first.
        self.natives[first..].sort_by(|a, b| {
            let (a, b) = (&a.metadata, &b.metadata);
            a.id.cmp(&b.id).then_with(|| b.version.cmp(&a.version))
        });
    }

    fn scan_entry(&mut self, entry: &Path, folder: &Folder) {
        if !entry.is_dir() {
            self.scan_guest(entry, folder);
            return;
        }
        let description = entry.join(DESCRIPTION);
        // If it is not a file, reading it says so.
        if description.symlink_metadata().is_ok() && !is_guests_project(&description) {
            match read_native(entry, &description, folder.origin) {
                Ok(plugin) => self.natives.push(plugin),
                Err(problem) => {
                    tracing::debug!(%problem, "a plugin that cannot be used");
                    self.problems.push(*problem);
                }
            }
        }
        for file in sorted_entries(entry).unwrap_or_default() {
            self.scan_guest(&file, folder);
        }
    }

    fn scan_guest(&mut self, file: &Path, folder: &Folder) {
        let stem = file.file_stem().and_then(|stem| stem.to_str());
        let is_guest = file.extension().is_some_and(|extension| extension == "wasm");
        if let Some(stem) = stem.filter(|_| is_guest && !file.is_dir()) {
            self.guests.push(GuestFile {
                name: stem.replace('_', "-"),
                path: file.to_owned(),
                folder: folder.path.clone(),
                origin: folder.origin,
            });
        }
    }

    /// Returns every native plugin in order of preference, including shadowed ones.
    #[must_use]
    pub fn natives(&self) -> &[NativePlugin] {
        &self.natives
    }

    /// Returns every guest in order of preference, including shadowed ones.
    #[must_use]
    pub fn guests(&self) -> &[GuestFile] {
        &self.guests
    }

    /// Returns the plugins that cannot be used.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Returns the plugin of the same id that is preferred to `plugin`, if there is one.
    #[must_use]
    pub fn shadowed_by(&self, plugin: &NativePlugin) -> Option<&NativePlugin> {
        let first = self.natives.iter().find(|other| other.metadata.id == plugin.metadata.id)?;
        (first.folder != plugin.folder).then_some(first)
    }

    /// Returns the plugin beside the executable that `plugin` hides: one with the same id, in a folder
    /// that is searched later.
    #[must_use]
    pub fn hidden_by(&self, plugin: &NativePlugin) -> Option<&NativePlugin> {
        if plugin.origin >= Origin::Installed {
            return None;
        }
        self.natives.iter().find(|other| {
            other.origin == Origin::Installed && other.metadata.id == plugin.metadata.id
        })
    }

    /// Returns the guest beside the executable that `guest`, whose id is `id`, hides. Guests beside the
    /// executable are named by their ids, so none has to be compiled.
    #[must_use]
    pub fn guest_hidden_by(&self, guest: &GuestFile, id: &str) -> Option<&GuestFile> {
        if guest.origin >= Origin::Installed {
            return None;
        }
        self.guests.iter().find(|other| other.origin == Origin::Installed && other.name == id)
    }

    /// Returns the backend `id`: the first in order of preference whose version fits. Hashes its files and compares
    /// them with the lock file.
    ///
    /// # Errors
    ///
    /// If no plugin has this id, works, fits and is trusted.
    pub fn backend(
        &self,
        id: &str,
        requirement: Option<&VersionReq>,
    ) -> Result<BackendPlugin, RegistryError> {
        let _span = tracing::debug_span!("choose backend", id).entered();
        self.admit(self.choose(id, requirement, None)?)
    }

    /// As [`Registry::backend`], but only among the plugins in a folder, or in the folders in it.
    ///
    /// # Errors
    ///
    /// As [`Registry::backend`].
    pub fn backend_in(
        &self,
        folder: &Path,
        id: &str,
        requirement: &VersionReq,
    ) -> Result<BackendPlugin, RegistryError> {
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        self.admit(self.choose(id, Some(requirement), Some(&folder))?)
    }

    /// Returns the first plugin in order of preference that is called `id` and whose version fits.
    fn choose(
        &self,
        id: &str,
        requirement: Option<&VersionReq>,
        folder: Option<&Path>,
    ) -> Result<&NativePlugin, RegistryError> {
        let is_in = |plugin: &&NativePlugin| folder.is_none_or(|it| plugin.folder.starts_with(it));
        let named: Vec<_> =
            self.natives.iter().filter(|plugin| plugin.metadata.id == id).filter(is_in).collect();
        if named.is_empty() {
            return Err(self.missing(id));
        }
        let fits = |plugin: &&&NativePlugin| {
            requirement.is_none_or(|requirement| requirement.matches(&plugin.metadata.version))
        };
        named.iter().find(fits).copied().ok_or_else(|| {
            let mut available: Vec<_> =
                named.iter().map(|plugin| plugin.metadata.version.clone()).collect();
            available.sort();
            let requirement = requirement.cloned().unwrap_or_default();
            RegistryError::NoVersion { id: id.into(), requirement, available }
        })
    }

    /// Returns the native plugin that [`Registry::backend`] would choose, trusted or not. Nothing
    /// is hashed.
    #[must_use]
    pub fn native(&self, id: &str, requirement: &VersionReq) -> Option<&NativePlugin> {
        self.natives.iter().find(|plugin| {
            plugin.metadata.id == id && requirement.matches(&plugin.metadata.version)
        })
    }

    /// Returns the error for a backend `id` that is not among the native plugins: it is broken, a guest, or not
    /// installed.
    #[must_use]
    pub fn missing(&self, id: &str) -> RegistryError {
        let problems: Vec<_> =
            self.problems.iter().filter(|problem| problem.id() == Some(id)).cloned().collect();
        if !problems.is_empty() {
            return RegistryError::Broken { id: id.into(), problems };
        }
        if let Some(guest) = self.guests.iter().find(|guest| guest.is_named_like(id)) {
            return RegistryError::NotABackend { id: id.into(), file: guest.path.clone() };
        }
        let natives = self.natives.iter().map(|plugin| plugin.metadata.id.as_str());
        self.unknown("backend", id, natives)
    }

    /// Returns the error that no plugin `id` is among the `available` ones.
    #[must_use]
    pub fn unknown<'a>(
        &self,
        what: &'static str,
        id: &str,
        available: impl Iterator<Item = &'a str>,
    ) -> RegistryError {
        let available: BTreeSet<&str> = available.collect();
        RegistryError::Unknown {
            what,
            id: id.into(),
            nearest: nearest(id, available.iter().copied().filter(|other| *other != id))
                .map(Into::into),
            available: available.into_iter().map(Into::into).collect(),
            install: self.install.clone(),
        }
    }

    /// Returns whether a plugin may be used, and its hashes.
    ///
    /// # Errors
    ///
    /// If one of its files or the lock file cannot be read.
    pub fn trust_of(&self, plugin: &NativePlugin) -> Result<(Trust, Seal), RegistryError> {
        let found = seal(plugin)?;
        if plugin.origin == Origin::Installed {
            return Ok((Trust::Installed, found));
        }
        let locked = match &self.lock {
            Some(lock) => lock.find(&plugin.folder)?,
            None => None,
        };
        let trust = match locked {
            Some(locked) if locked.sha256 == found.sha256 => Trust::Recorded,
            Some(Locked { sha256, recorded_at, .. }) => {
                Trust::Changed { recorded: sha256, recorded_at }
            }
            None if plugin.origin == Origin::Manifest => Trust::Untrusted,
            None => Trust::New,
        };
        Ok((trust, found))
    }

    fn admit(&self, plugin: &NativePlugin) -> Result<BackendPlugin, RegistryError> {
        let (trust, seal) = self.trust_of(plugin)?;
        let changed = |recorded, recorded_at| RegistryError::Changed {
            id: plugin.metadata.id.clone(),
            folder: plugin.folder.clone(),
            recorded,
            recorded_at,
            found: seal.sha256.clone(),
        };
        let mut first_use = false;
        match trust {
            Trust::Installed | Trust::Recorded => {}
            Trust::New => {
                let recorded = self.lock()?.record_first(entry(plugin, &seal))?;
                // Another host may just have recorded another plugin here.
                if recorded.sha256 != seal.sha256 {
                    return Err(changed(recorded.sha256, recorded.recorded_at));
                }
                first_use = true;
                tracing::info!(id = plugin.metadata.id, seal.sha256, "first use; hash recorded");
            }
            Trust::Untrusted => {
                return Err(RegistryError::Untrusted {
                    id: plugin.metadata.id.clone(),
                    version: plugin.metadata.version.clone(),
                    folder: plugin.folder.clone(),
                });
            }
            Trust::Changed { recorded, recorded_at } => return Err(changed(recorded, recorded_at)),
        }
        Ok(BackendPlugin {
            identity: PluginIdentity {
                id: plugin.metadata.id.clone(),
                version: plugin.metadata.version.to_string(),
                sha256: seal.library_sha256,
            },
            plugin: plugin.clone(),
            first_use,
            hides: self.hidden_by(plugin).map(|hidden| hidden.folder.clone()),
        })
    }

    /// Records the current hash of the plugin that [`Registry::backend`] would choose. Others with the same
    /// id are not changed.
    ///
    /// # Errors
    ///
    /// If there is no such plugin, or the lock file cannot be written.
    pub fn trust(&self, id: &str) -> Result<Trusted, RegistryError> {
        let plugin = self.choose(id, None, None)?;
        let seal = match plugin.origin {
            Origin::Installed => None,
            _ => {
                let seal = seal(plugin)?;
                self.lock()?.record(entry(plugin, &seal))?;
                Some(seal)
            }
        };
        let others = self
            .natives
            .iter()
            .filter(|other| other.metadata.id == id && other.folder != plugin.folder);
        Ok(Trusted { plugin: plugin.clone(), seal, others: others.cloned().collect() })
    }

    /// Records a guest that the user has added, which is in one of the folders. It is sandboxed, so this is no question of
    /// trust: a later change is told.
    ///
    /// # Errors
    ///
    /// If the lock file cannot be written.
    pub fn record_guest(
        &self,
        guest: &GuestFile,
        id: &str,
        version: semver::Version,
        sha256: &str,
    ) -> Result<(), RegistryError> {
        let entry = Locked {
            id: id.into(),
            version,
            folder: guest.folder.clone(),
            sha256: sha256.into(),
            recorded_at: now(),
            file: guest.path.strip_prefix(&guest.folder).ok().map(Path::to_owned),
        };
        Ok(self.lock()?.record(entry)?)
    }

    /// Returns the record of a guest that the user has added, if there is one.
    #[must_use]
    pub fn recorded_guest(&self, guest: &GuestFile) -> Option<Locked> {
        let file = guest.path.strip_prefix(&guest.folder).ok()?;
        self.lock.as_ref()?.find_file(&guest.folder, Some(file)).ok().flatten()
    }

    /// Forgets a plugin: of a native one, its folder; of a guest, its file in a folder.
    ///
    /// # Errors
    ///
    /// If the lock file cannot be read or written.
    pub fn forget(&self, folder: &Path, file: Option<&Path>) -> Result<(), RegistryError> {
        match &self.lock {
            Some(lock) => Ok(lock.forget(folder, file)?),
            None => Ok(()),
        }
    }

    /// Returns the lock file; `None` if the user has no configuration folder.
    #[must_use]
    pub fn lock_file(&self) -> Option<&Path> {
        self.lock.as_ref().map(LockFile::path)
    }

    fn lock(&self) -> Result<&LockFile, LockError> {
        self.lock.as_ref().ok_or(LockError::Nowhere)
    }
}

fn entry(plugin: &NativePlugin, seal: &Seal) -> Locked {
    Locked {
        id: plugin.metadata.id.clone(),
        version: plugin.metadata.version.clone(),
        folder: plugin.folder.clone(),
        sha256: seal.sha256.clone(),
        recorded_at: now(),
        file: None,
    }
}

fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

const DESCRIPTION: &str = "plugin.toml";
const RUNTIME_LOCK: &str = "runtime.lock";

/// Hashes the files that determine a plugin's code.
fn seal(plugin: &NativePlugin) -> Result<Seal, RegistryError> {
    let library_sha256 = hash(&plugin.library)?;
    let mut lines = format!("{}  {DESCRIPTION}\n", hash_text(&plugin.folder.join(DESCRIPTION))?);
    let runtime_lock = plugin.folder.join(RUNTIME_LOCK);
    if runtime_lock.exists() {
        lines.push_str(&format!("{}  {RUNTIME_LOCK}\n", hash_text(&runtime_lock)?));
    }
    let library = platform::library_file_name(&plugin.metadata.library);
    lines.push_str(&format!("{library_sha256}  {library}\n"));
    Ok(Seal { sha256: sha256(lines.as_bytes()), library_sha256 })
}

/// Returns the id in a `plugin.toml` that cannot be used, as far as it can be read, else the folder's name.
fn probable_id(folder: &Path, file: &Path) -> Option<String> {
    let text = host_files::read_to_string(file, LARGEST_TEXT).unwrap_or_default();
    let value = |line: &str| {
        let (key, value) = line.split_once('=')?;
        let value = value.trim().trim_matches(['"', '\'']);
        (key.trim() == "id" && is_id(value)).then(|| value.to_owned())
    };
    // The plugin's keys come before its tables, which may also have an `id`.
    let lines = text.lines().take_while(|line| !line.trim_start().starts_with('['));
    let mut lines = lines.filter_map(value);
    lines.next().or_else(|| Some(folder.file_name()?.to_str()?.to_owned()))
}

/// Returns whether a `plugin.toml` is that of a project for a guest, which is a plugin without it.
fn is_guests_project(file: &Path) -> bool {
    #[derive(serde::Deserialize)]
    struct Named {
        kind: String,
    }
    let text = host_files::read_to_string(file, LARGEST_TEXT).unwrap_or_default();
    let kind = toml::from_str(&text).map(|Named { kind }| kind).unwrap_or_default();
    matches!(&*kind, "metric" | "report" | "recommender")
}

fn read_native(folder: &Path, file: &Path, origin: Origin) -> Result<NativePlugin, Box<Problem>> {
    let metadata = Metadata::read(file)
        .map_err(|error| Problem::Metadata { id: probable_id(folder, file), error })?;
    let library = folder.join(platform::library_file_name(&metadata.library));
    let (id, version) = (metadata.id.clone(), metadata.version.clone());
    let unusable = |library: PathBuf, reason: String| {
        let (id, version) = (id.clone(), version.clone());
        Box::new(Problem::UnusableLibrary { id, version, library, reason })
    };
    match host_files::open(&library).and_then(|file| file.metadata()) {
        Ok(found) if found.len() > LARGEST_LIBRARY => {
            let limit = LARGEST_LIBRARY >> 30;
            let reason = format!("it has {} bytes, and may have {limit} GiB", found.len());
            return Err(unusable(library, reason));
        }
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(Problem::MissingLibrary { id, version, library }.into());
        }
        Err(error) => return Err(unusable(library, error.to_string())),
    }
    if !metadata.api.matches(&crate::HOST_ABI) {
        let (required, offered) = (metadata.api, crate::HOST_ABI);
        return Err(
            Problem::Abi { id, version, folder: folder.to_owned(), required, offered }.into()
        );
    }
    let unreadable = |file: &Path, error: io::Error| Problem::Folder {
        folder: file.to_owned(),
        origin,
        reason: error.to_string(),
    };
    let folder = folder.canonicalize().map_err(|error| unreadable(folder, error))?;
    // A file elsewhere may be trusted there, under another description, or change there.
    let library_name = platform::library_file_name(&metadata.library);
    for name in [DESCRIPTION, RUNTIME_LOCK, &library_name] {
        let file = folder.join(name);
        match file.canonicalize() {
            Ok(target) if target.starts_with(&folder) => {}
            Ok(target) => return Err(Problem::Link { id, version, file, target }.into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound && !file.is_symlink() => {}
            Err(error) => return Err(unreadable(&file, error).into()),
        }
    }
    if origin == Origin::Manifest
        && metadata.runtime.as_ref().is_some_and(|runtime| runtime.path.is_some())
    {
        return Err(Problem::RuntimePath { id, version, folder }.into());
    }
    let library = library.canonicalize().map_err(|error| unreadable(&library, error))?;
    Ok(NativePlugin { metadata, folder, library, origin })
}

fn sorted_entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut entries =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    entries.sort();
    Ok(entries)
}

fn hash_text(path: &Path) -> Result<String, RegistryError> {
    let text = host_files::read(path, LARGEST_TEXT);
    let text = text.map_err(|source| RegistryError::Read { path: path.to_owned(), source })?;
    Ok(sha256(&text))
}

fn hash(path: &Path) -> Result<String, RegistryError> {
    sha256_of_file(path).map_err(|source| RegistryError::Read { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use semver::Version;

    use super::*;

    /// A machine in a temporary folder: four plugin folders and a lock file.
    struct Machine {
        root: tempfile::TempDir,
    }

    impl Machine {
        fn new() -> Self {
            let root = tempfile::tempdir().expect("a temporary folder");
            for origin in ["flag", "user", "installed", "manifest"] {
                fs::create_dir(root.path().join(origin)).expect("a folder");
            }
            Self { root }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.root.path().canonicalize().expect("the folder").join(name)
        }

        fn search(&self) -> Search {
            let folder = |path: &str, origin| Folder { path: self.path(path), origin };
            Search {
                folders: vec![
                    folder("flag", Origin::Flag),
                    folder("user", Origin::User),
                    folder("installed", Origin::Installed),
                    folder("manifest", Origin::Manifest),
                ],
                lock_file: Some(self.path("config/plugins.lock")),
                problems: Vec::new(),
            }
        }

        fn registry(&self) -> Registry {
            Registry::scan(&self.search())
        }

        fn install(&self, place: &str, id: &str, version: &str, library: &str) {
            self.describe(place, id, version, ">=1.0, <2");
            let library_file = self.path(place).join(format!("{id}-{version}/libbackend_{id}.so"));
            fs::write(library_file, library).expect("a library");
        }

        fn describe(&self, place: &str, id: &str, version: &str, api: &str) {
            let folder = self.path(place).join(format!("{id}-{version}"));
            fs::create_dir_all(&folder).expect("a folder");
            let text = format!(
                "schema = 1\nid = \"{id}\"\nversion = \"{version}\"\nkind = \"backend\"\n\
                 summary = \"A test.\"\nlicense = \"MIT\"\nlibrary = \"backend_{id}\"\n\
                 api = \"{api}\"\nhardware = [\"cpu\"]\nengine = \"none\"\n"
            );
            fs::write(folder.join("plugin.toml"), text).expect("a description");
        }

        /// Returns the message for the user, without parts that differ between machines.
        fn message_for_user(&self, error: &RegistryError) -> String {
            let text = format!("{error}\nhelp: {}", error.help().unwrap_or_default());
            text.replace(&self.path("").display().to_string(), "/").replace("//", "/")
        }
    }

    fn requirement(text: &str) -> VersionReq {
        text.parse().expect("a range")
    }

    #[test]
    fn what_the_user_brings_in_is_recorded_on_first_use() {
        for place in ["flag", "user"] {
            let machine = Machine::new();
            machine.install(place, "cpu", "0.1.0", "code");
            let registry = machine.registry();
            let (trust, _) = registry.trust_of(&registry.natives()[0]).expect("readable");
            assert_eq!(trust, Trust::New);
            assert!(registry.backend("cpu", None).expect("first use").first_use);
            assert!(!registry.backend("cpu", None).expect("second use").first_use);
            let (trust, _) = registry.trust_of(&registry.natives()[0]).expect("readable");
            assert_eq!(trust, Trust::Recorded);
        }
    }

    #[test]
    fn a_changed_library_is_refused_until_it_is_trusted() {
        let machine = Machine::new();
        machine.install("user", "cpu", "0.1.0", "code");
        let registry = machine.registry();
        registry.backend("cpu", None).expect("first use");
        machine.install("user", "cpu", "0.1.0", "other code");
        let error = registry.backend("cpu", None).expect_err("a changed library");
        assert!(matches!(error, RegistryError::Changed { .. }), "{error}");
        assert!(machine.message_for_user(&error).contains(": host plugins trust cpu ("), "{error}");
        assert!(registry.trust("cpu").expect("trusting").seal.is_some());
        registry.backend("cpu", None).expect("a trusted library");
    }

    #[test]
    fn what_lies_beside_the_executable_needs_no_record() {
        let machine = Machine::new();
        machine.install("installed", "cpu", "0.1.0", "code");
        let registry = machine.registry();
        registry.backend("cpu", None).expect("an installed plugin");
        machine.install("installed", "cpu", "0.1.0", "rebuilt");
        registry.backend("cpu", None).expect("a rebuilt one");
        assert_eq!(registry.trust("cpu").expect("nothing to record").seal, None);
        assert!(!machine.path("config/plugins.lock").exists());
    }

    #[test]
    fn a_manifest_cannot_bring_in_native_code() {
        let machine = Machine::new();
        machine.install("manifest", "npu", "0.1.0", "code");
        let registry = machine.registry();
        let error = registry.backend("npu", None).expect_err("native code from a manifest");
        insta::assert_snapshot!(machine.message_for_user(&error), @r"
        plugin `npu` 0.1.0 comes with the manifest, from /manifest/npu-0.1.0, and is native code that you have not trusted
        help: if you know where it is from: host plugins trust npu --plugins /manifest/npu-0.1.0
        ");
        // The user trusts it explicitly, and only for this library.
        registry.trust("npu").expect("trusting");
        registry.backend("npu", None).expect("a trusted library");
        machine.install("manifest", "npu", "0.1.0", "other code");
        let error = registry.backend("npu", None).expect_err("a changed library");
        assert!(matches!(error, RegistryError::Changed { .. }), "{error}");
    }

    #[test]
    fn trust_is_in_all_that_decides_what_the_code_does() {
        for (name, other) in [("plugin.toml", "# other\n"), ("runtime.lock", "schema = 1\n")] {
            let machine = Machine::new();
            machine.install("user", "cpu", "0.1.0", "code");
            machine.registry().backend("cpu", None).expect("first use");
            let file = machine.path("user/cpu-0.1.0").join(name);
            let text = fs::read_to_string(&file).unwrap_or_default();
            fs::write(&file, text + other).expect("another file");
            let error = machine.registry().backend("cpu", None).expect_err("a changed plugin");
            assert!(matches!(error, RegistryError::Changed { .. }), "{name}: {error}");
        }
    }

    #[test]
    fn what_is_not_a_file_of_a_plugin_is_named_and_not_read() {
        let machine = Machine::new();
        let pipe = |path: &Path| {
            drop(fs::remove_file(path));
            let made = std::process::Command::new("mkfifo").arg(path).status().expect("mkfifo");
            assert!(made.success());
        };
        let problem = || {
            let registry = machine.registry();
            assert!(registry.natives().is_empty());
            let [problem] = registry.problems() else { panic!("{:?}", registry.problems()) };
            problem.to_string()
        };
        let library = machine.path("user/cpu-0.1.0/libbackend_cpu.so");
        let description = machine.path("user/cpu-0.1.0/plugin.toml");
        machine.install("user", "cpu", "0.1.0", "code");
        pipe(&library);
        assert!(problem().ends_with("cannot be used: it is a pipe, not a regular file"));
        fs::remove_file(&library).expect("removing it");
        machine.install("user", "cpu", "0.1.0", "code");
        let sparse = fs::OpenOptions::new().write(true).open(&library).expect("the library");
        sparse.set_len(100 << 30).expect("a sparse file");
        assert!(problem().ends_with("it has 107374182400 bytes, and may have 4 GiB"));
        pipe(&description);
        assert!(problem().contains("cannot be read: it is a pipe, not a regular file"));
        let file = fs::remove_file(&description).and_then(|()| fs::File::create(&description));
        file.and_then(|file| file.set_len(1 << 40)).expect("a sparse file");
        assert!(problem().contains("cannot be read: it is longer than 4 MiB"));
        fs::remove_dir_all(description.parent().expect("a folder")).expect("removing it");
        pipe(&machine.path("user/odd.wasm"));
        assert_eq!(machine.registry().guests().len(), 1, "loading it says what it is");
    }

    #[test]
    fn the_recorded_hash_is_what_two_commands_print() {
        let machine = Machine::new();
        machine.install("user", "cpu", "0.1.0", "code");
        let registry = machine.registry();
        let (_, seal) = registry.trust_of(&registry.natives()[0]).expect("readable");
        let printed = std::process::Command::new("sh")
            .args(["-c", "sha256sum plugin.toml libbackend_cpu.so | sha256sum"])
            .current_dir(machine.path("user/cpu-0.1.0"))
            .output()
            .expect("a shell");
        assert_eq!(String::from_utf8_lossy(&printed.stdout), format!("{}  -\n", seal.sha256));
    }

    #[test]
    fn trust_is_not_borrowed_by_a_link() {
        let machine = Machine::new();
        machine.install("user", "cpu", "0.1.0", "code");
        machine.registry().backend("cpu", None).expect("first use");
        machine.describe("manifest", "npu", "0.1.0", "^1");
        std::os::unix::fs::symlink(
            machine.path("user/cpu-0.1.0/libbackend_cpu.so"),
            machine.path("manifest/npu-0.1.0/libbackend_npu.so"),
        )
        .expect("a link");
        let error = machine.registry().backend("npu", None).expect_err("a borrowed library");
        insta::assert_snapshot!(machine.message_for_user(&error), @r"
        plugin `npu` cannot be used: /manifest/npu-0.1.0/libbackend_npu.so of plugin `npu` 0.1.0 is a link to /user/cpu-0.1.0/libbackend_cpu.so, outside the plugin's folder
        help: copy the file itself to /manifest/npu-0.1.0/libbackend_npu.so
        ");
    }

    #[test]
    fn a_manifests_plugin_cannot_name_a_runtime_on_this_machine() {
        let machine = Machine::new();
        machine.install("manifest", "npu", "0.1.0", "code");
        let file = machine.path("manifest/npu-0.1.0/plugin.toml");
        let text = fs::read_to_string(&file).expect("the description");
        let runtime = "[runtime]\nname = \"r\"\nversion = \"1\"\nsummary = \"R.\"\npath = \"rt\"\n";
        fs::write(&file, text + runtime).expect("a description");
        let registry = machine.registry();
        registry.trust("npu").expect_err("not even by trusting it");
        let error = registry.backend("npu", None).expect_err("a runtime from a manifest");
        insta::assert_snapshot!(machine.message_for_user(&error), @r"
        plugin `npu` cannot be used: plugin `npu` 0.1.0 in /manifest/npu-0.1.0 comes with a manifest and sets `runtime.path`
        help: a manifest may not choose the libraries that are loaded: remove the key, and name the runtime with --runtime, or copy the plugin into your plugin folder
        ");
    }

    #[test]
    fn a_new_version_in_a_new_folder_asks_again() {
        let machine = Machine::new();
        machine.install("manifest", "npu", "0.1.0", "code");
        machine.registry().trust("npu").expect("trusting");
        machine.install("manifest", "npu", "0.2.0", "code");
        let error = machine.registry().backend("npu", None).expect_err("another plugin");
        assert!(matches!(error, RegistryError::Untrusted { .. }), "{error}");
    }

    #[test]
    fn one_of_two_plugins_is_trusted_and_named() {
        let machine = Machine::new();
        machine.install("manifest", "npu", "0.1.0", "a");
        machine.install("manifest", "npu", "0.2.0", "b");
        let registry = machine.registry();
        let trusted = registry.trust("npu").expect("trusting");
        assert_eq!(trusted.plugin.metadata.version, Version::new(0, 2, 0));
        let [other] = &*trusted.others else { panic!("one other: {:?}", trusted.others) };
        assert_eq!(other.folder, machine.path("manifest/npu-0.1.0"));
        registry.backend("npu", None).expect("the trusted one");
        let error = registry.backend("npu", Some(&requirement("^0.1"))).expect_err("the other one");
        assert!(matches!(error, RegistryError::Untrusted { .. }), "{error}");
    }

    #[test]
    fn a_plugin_that_hides_a_built_in_one_is_known() {
        let machine = Machine::new();
        for place in ["installed", "user", "manifest"] {
            machine.install(place, "cpu", "0.1.0", "code");
            fs::write(machine.path(place).join("latency.wasm"), "").expect("a guest");
        }
        machine.install("user", "npu", "0.1.0", "code");
        let registry = machine.registry();
        let chosen = registry.backend("cpu", None).expect("the user's");
        assert_eq!(chosen.hides, Some(machine.path("installed/cpu-0.1.0")));
        assert_eq!(registry.backend("npu", None).expect("the only one").hides, None);
        let hides: Vec<_> = registry
            .guests()
            .iter()
            .map(|guest| Some(registry.guest_hidden_by(guest, "latency")?.path.clone()))
            .collect();
        assert_eq!(hides, [Some(machine.path("installed/latency.wasm")), None, None]);
    }

    #[test]
    fn a_manifest_cannot_replace_a_plugin() {
        let machine = Machine::new();
        machine.install("installed", "cpu", "0.1.0", "code");
        machine.install("manifest", "cpu", "0.2.0", "other code");
        let registry = machine.registry();
        let chosen = registry.backend("cpu", None).expect("the installed one");
        assert_eq!(chosen.plugin.origin, Origin::Installed);
        let theirs = &registry.natives()[1];
        assert_eq!(registry.shadowed_by(theirs).map(|by| by.origin), Some(Origin::Installed));
        let error = registry.backend("cpu", Some(&requirement("^0.2"))).expect_err("untrusted");
        assert!(matches!(error, RegistryError::Untrusted { .. }), "{error}");
    }

    #[test]
    fn the_first_version_that_fits_wins() {
        let machine = Machine::new();
        machine.install("flag", "cpu", "0.1.0", "a");
        machine.install("flag", "cpu", "0.1.5", "b");
        machine.install("user", "cpu", "0.3.0", "c");
        let registry = machine.registry();
        let version = |range: Option<&str>| {
            let range = range.map(requirement);
            let chosen = registry.backend("cpu", range.as_ref())?;
            Ok::<_, RegistryError>(chosen.plugin.metadata.version)
        };
        assert_eq!(version(None).expect("any"), Version::new(0, 1, 5));
        assert_eq!(version(Some("=0.1.0")).expect("exact"), Version::new(0, 1, 0));
        assert_eq!(version(Some("^0.3")).expect("newer"), Version::new(0, 3, 0));
        let messages = [
            machine.message_for_user(&version(Some("^0.4")).expect_err("too new a wish")),
            machine.message_for_user(&version(Some("<0.1")).expect_err("too old a wish")),
        ];
        insta::assert_snapshot!(messages.join("\n"), @r"
        no version of plugin `cpu` fits `^0.4`; installed: 0.1.0, 0.1.5, 0.3.0
        help: install a newer `cpu`, or widen `version` in the manifest
        no version of plugin `cpu` fits `<0.1`; installed: 0.1.0, 0.1.5, 0.3.0
        help: change `version` in the manifest to fit what is installed, or install a `cpu` that fits `<0.1`
        ");
    }

    #[test]
    fn an_unknown_id_suggests_the_nearest() {
        let machine = Machine::new();
        machine.install("installed", "openvino", "0.1.0", "code");
        fs::write(machine.path("installed/latency.wasm"), "").expect("a guest");
        let registry = machine.registry();
        let messages = [
            machine.message_for_user(&registry.backend("openvno", None).expect_err("a typo")),
            machine.message_for_user(&registry.backend("cuda", None).expect_err("not installed")),
            machine.message_for_user(&registry.unknown(
                "metric",
                "latencies",
                ["latency"].into_iter(),
            )),
            machine.message_for_user(&registry.unknown(
                "",
                "x",
                ["latency", "openvino", "x"].into_iter(),
            )),
        ];
        insta::assert_snapshot!(messages.join("\n"), @r"
        no backend plugin `openvno` is installed
        help: did you mean `openvino`?
        no backend plugin `cuda` is installed
        help: installed: openvino; to add one, put its folder or .wasm file into /user
        no metric plugin `latencies` is installed
        help: installed: latency; to add one, put its folder or .wasm file into /user
        no plugin `x` is installed
        help: installed: latency, openvino, x; to add one, put its folder or .wasm file into /user
        ");
    }

    #[test]
    fn broken_plugins_are_problems_and_hide_nothing() {
        let machine = Machine::new();
        machine.install("flag", "good", "0.1.0", "code");
        machine.describe("flag", "absent", "0.1.0", "^1");
        machine.install("flag", "future", "0.1.0", "code");
        machine.describe("flag", "future", "0.1.0", ">=2, <3");
        machine.install("user", "past", "0.1.0", "code");
        machine.describe("user", "past", "0.1.0", "<1");
        fs::create_dir(machine.path("user/typo")).expect("a folder");
        fs::write(machine.path("user/typo/plugin.toml"), "schema = 1\nid = typo\n")
            .expect("a file");
        let mut search = machine.search();
        search.folders.push(Folder { path: machine.path("nowhere"), origin: Origin::Environment });
        let registry = Registry::scan(&search);
        let messages: Vec<_> = registry
            .problems()
            .iter()
            .map(|problem| format!("{problem}\n  help: {}", problem.help()))
            .collect();
        let messages = messages.join("\n").replace(&machine.path("").display().to_string(), "/");
        let messages = messages.replace(std::env::consts::ARCH, "ARCHITECTURE");
        insta::assert_snapshot!(messages, @r"
        the library /flag/absent-0.1.0/libbackend_absent.so of plugin `absent` 0.1.0 is missing
          help: build or copy the library for ARCHITECTURE to /flag/absent-0.1.0/libbackend_absent.so
        plugin `future` 0.1.0 in /flag/future-0.1.0 needs native ABI >=2, <3, but this host has 1.1.0
          help: the plugin is newer than the host: update the host, or install an older version of the plugin
        plugin `past` 0.1.0 in /user/past-0.1.0 needs native ABI <1, but this host has 1.1.0
          help: the plugin is older than the host: update the plugin, or rebuild it against this host's plugin-api
        /user/typo/plugin.toml:2: `id`: invalid boolean, expected `true`
          help: fix the line; the guide's page on backends lists every key
        the plugin folder /nowhere (environment) cannot be read: No such file or directory (os error 2)
          help: create the folder, or stop naming it (the variable TARE_PLUGINS)
        ");
        registry.backend("good", None).expect("the good one is still there");
        let error = registry.backend("absent", None).expect_err("a broken plugin");
        assert!(matches!(error, RegistryError::Broken { .. }), "{error}");
    }

    #[test]
    fn a_broken_plugin_is_known_by_its_id_and_not_by_its_folder() {
        let machine = Machine::new();
        fs::create_dir_all(machine.path("user/scale-0.2")).expect("a folder");
        for text in
            ["schema = 1\nid = \"scale\"\nversoin = \"0.2.0\"\n", "id = 'scale'\nversion = \"0\n"]
        {
            fs::write(machine.path("user/scale-0.2/plugin.toml"), text).expect("a file");
            let error = machine.registry().backend("scale", None).expect_err("a typo");
            assert!(matches!(error, RegistryError::Broken { .. }), "{error}");
            assert!(!error.is_absence());
        }
    }

    #[test]
    fn a_guest_that_is_wanted_as_a_backend_is_said_to_be_one() {
        let machine = Machine::new();
        fs::write(machine.path("user/metric_latency.wasm"), "").expect("a guest");
        let error = machine.registry().backend("latency", None).expect_err("a guest");
        let message = machine.message_for_user(&error);
        insta::assert_snapshot!(message, @r"
        `latency` is a WASM plugin and not a backend: /user/metric_latency.wasm
        help: metrics, reports and recommenders have tables of their own in a manifest: [[metric]], [[report]] and [[recommend]]; `host plugins info latency` says which it is
        ");
        let file = &machine.registry().guests()[0].clone();
        let alike = ["latency", "metric-latency", "report-latency", "lat", "latency-0"];
        assert_eq!(alike.map(|id| file.is_named_like(id)), [true, true, false, false, false]);
    }

    #[test]
    fn guests_are_files_up_to_one_folder_deep() {
        let machine = Machine::new();
        fs::create_dir_all(machine.path("user/mine/deep")).expect("folders");
        for file in ["user/p95_latency.wasm", "user/mine/other.wasm", "user/mine/deep/no.wasm"] {
            fs::write(machine.path(file), "").expect("a guest");
        }
        let registry = machine.registry();
        let names: Vec<_> = registry.guests().iter().map(|guest| guest.name.as_str()).collect();
        assert_eq!(names, ["other", "p95-latency"]);
    }

    #[test]
    fn a_plugins_own_folder_may_be_named() {
        let machine = Machine::new();
        machine.install("flag", "cpu", "0.1.0", "code");
        let mut search = machine.search();
        search.folders =
            vec![Folder { path: machine.path("flag/cpu-0.1.0"), origin: Origin::Flag }];
        Registry::scan(&search).backend("cpu", None).expect("the plugin in the folder");
    }

    #[test]
    fn without_a_configuration_folder_nothing_new_is_used() {
        let machine = Machine::new();
        machine.install("flag", "cpu", "0.1.0", "code");
        machine.install("installed", "null", "0.1.0", "code");
        let registry = Registry::scan(&Search { lock_file: None, ..machine.search() });
        let error = registry.backend("cpu", None).expect_err("nowhere to record the hash");
        assert!(matches!(error, RegistryError::Lock(LockError::Nowhere)), "{error}");
        registry.backend("null", None).expect("an installed plugin");
    }
}
