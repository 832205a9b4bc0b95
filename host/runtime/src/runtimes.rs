//! The choice of a plugin's runtime, and the installed runtimes.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use glob::Pattern;
use host_hash::{sha256, sha256_of_file};
use host_record::{RuntimeIdentity, RuntimeOrigin};
use host_registry::{NativePlugin, RuntimeLock};

use crate::error::{Flaw, RuntimeError, variable};
use crate::installed::{self, Installed};
use crate::observer::{Observer, Step};

/// Returns the operating system and architecture, as named in locks.
#[must_use]
pub fn platform_name() -> String {
    format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH)
}

/// Runtimes that the user has named; they take precedence over installed ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Named {
    /// By the flag `--runtime`: a folder or library for each plugin's id.
    pub flags: BTreeMap<String, PathBuf>,
    /// By the environment: variable and path.
    pub environment: BTreeMap<OsString, PathBuf>,
}

impl Named {
    /// Returns the runtimes that the flag and this process's environment name.
    #[must_use]
    pub fn of_this_process(flags: BTreeMap<String, PathBuf>) -> Self {
        let ours = |name: &OsString| name.to_string_lossy().starts_with(&variable(""));
        let named = std::env::vars_os().filter(|(name, path)| ours(name) && !path.is_empty());
        Self { flags, environment: named.map(|(name, path)| (name, path.into())).collect() }
    }
}

/// A runtime that a plugin can use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ready {
    /// Its name in the plugin.
    pub name: String,
    /// Its version, if it is installed.
    pub version: Option<String>,
    /// Its folder, or the library itself; absolute.
    pub path: PathBuf,
    /// Source of the choice.
    pub origin: RuntimeOrigin,
}

/// State of a plugin's runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuntimeStatus {
    /// The runtime can be used.
    Ready(Ready),
    /// None is named and none is installed, or the installed one does not match the plugin's lock. It
    /// can be installed.
    Missing {
        /// The reason, as text that follows the runtime's name.
        reason: String,
    },
    /// Installed, but incomplete or changed. Installing repairs it.
    Damaged {
        /// The reason, as for [`RuntimeStatus::Missing`].
        reason: String,
    },
    /// None is named, and there is nothing to install on this machine.
    Unavailable {
        /// The reason, as for [`RuntimeStatus::Missing`].
        reason: String,
    },
}

impl RuntimeStatus {
    /// Returns why the runtime cannot be used, as text that follows its name; `None` if it can.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Ready(_) => None,
            Self::Missing { reason } | Self::Damaged { reason } | Self::Unavailable { reason } => {
                Some(reason)
            }
        }
    }
}

/// Returns why a plugin's runtime cannot be installed on this machine, as text that follows its name; `None` if it
/// can.
///
/// # Errors
///
/// If the plugin's lock cannot be read.
pub fn unavailable(plugin: &NativePlugin) -> Result<Option<String>, RuntimeError> {
    let Some(lock) = RuntimeLock::read(&plugin.folder)? else {
        return Ok(Some("cannot be installed: the plugin has no runtime.lock".into()));
    };
    let platform = platform_name();
    if !lock.packages_for(&platform).is_empty() {
        return Ok(None);
    }
    let others: Vec<_> = lock.platforms().into_iter().collect();
    let others = if others.is_empty() { "none".into() } else { others.join(", ") };
    Ok(Some(format!("is not available for {platform} (packages exist for: {others})")))
}

/// The runtimes of a user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Runtimes {
    folder: Option<PathBuf>,
    named: Named,
}

impl Runtimes {
    /// Returns the named runtimes, and those installed in the user's data folder of this program.
    #[must_use]
    pub fn new(user_data: Option<&Path>, named: Named) -> Self {
        Self { folder: user_data.map(|data| data.join("runtimes")), named }
    }

    /// Returns the folder in which runtimes are installed.
    ///
    /// # Errors
    ///
    /// If the user has no data folder.
    pub fn folder(&self) -> Result<&Path, RuntimeError> {
        self.folder.as_deref().ok_or(RuntimeError::Nowhere)
    }

    /// Returns the runtime that a plugin uses; `None` if it uses none. Nothing is hashed.
    ///
    /// # Errors
    ///
    /// If a named runtime does not exist, or the lock or the installed runtime cannot be read.
    pub fn find(&self, plugin: &NativePlugin) -> Result<Option<RuntimeStatus>, RuntimeError> {
        let id = &plugin.metadata.id;
        let Some(need) = &plugin.metadata.runtime else { return Ok(None) };
        let flag = self.named.flags.get(id).map(|path| (path.clone(), RuntimeOrigin::Flag));
        let variable = || {
            let path = self.named.environment.get(&OsString::from(variable(id)))?;
            Some((path.clone(), RuntimeOrigin::Environment))
        };
        let in_plugin =
            || need.path.as_ref().map(|it| (plugin.folder.join(it), RuntimeOrigin::Plugin));
        if let Some((path, origin)) = flag.or_else(variable).or_else(in_plugin) {
            let path = std::path::absolute(&path).map_err(RuntimeError::io("find", &path))?;
            if !path.exists() {
                return Err(RuntimeError::NamedMissing { id: id.clone(), origin, path });
            }
            if let Some(detail) = no_runtime(plugin, &path)? {
                return Err(RuntimeError::NamedOther { id: id.clone(), origin, path, detail });
            }
            return ready(Ready { name: need.name.clone(), version: None, path, origin }).map(Some);
        }
        // Another plugin may have installed different packages under the same name.
        if let Some(reason) = unavailable(plugin)? {
            return Ok(Some(RuntimeStatus::Unavailable { reason }));
        }
        let Some(path) = self.folder.as_ref().map(|folder| folder.join(need.folder_name())) else {
            return Ok(Some(RuntimeStatus::Missing { reason: "is not installed".into() }));
        };
        let missing = |reason: String| Ok(Some(RuntimeStatus::Missing { reason }));
        let Some(installed) = Installed::read(&path)? else {
            return missing("is not installed".into());
        };
        let lock = RuntimeLock::read(&plugin.folder)?;
        if lock.is_some_and(|lock| !installed.is_of(&lock.packages_for(&platform_name()))) {
            return missing("is installed from different packages than the plugin's lock".into());
        }
        if let Some(flaw) = installed.glance(&path) {
            let reason = format!("is installed and damaged ({flaw})");
            return Ok(Some(RuntimeStatus::Damaged { reason }));
        }
        let (name, version) = (need.name.clone(), Some(need.version.clone()));
        ready(Ready { name, version, path, origin: RuntimeOrigin::Installed }).map(Some)
    }

    /// Returns all installed runtimes, by the folder's name.
    ///
    /// # Errors
    ///
    /// If the folder cannot be read.
    pub fn installed(
        &self,
    ) -> Result<BTreeMap<String, Result<Installed, RuntimeError>>, RuntimeError> {
        let Some(folder) = &self.folder else { return Ok(BTreeMap::new()) };
        let read = |error| RuntimeError::io("read", folder)(error);
        let entries = match fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
            other => other.map_err(read)?,
        };
        let mut installed = BTreeMap::new();
        for entry in entries {
            let entry = entry.map_err(read)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with('.') {
                continue;
            }
            if let Some(record) = Installed::read(&entry.path()).transpose() {
                installed.insert(name, record);
            }
        }
        Ok(installed)
    }

    /// Removes the installed runtime of this name and version atomically, and files that were
    /// fetched for it but not installed. Returns its folder.
    ///
    /// # Errors
    ///
    /// If it is not installed, or the system refuses.
    pub fn remove(&self, name: &str, observer: &mut dyn Observer) -> Result<PathBuf, RuntimeError> {
        let not_installed = || RuntimeError::NotInstalled { name: name.into() };
        let runtimes = self.folder()?;
        let is_plain = !name.starts_with('.') && !name.is_empty() && !name.contains(['/', '\\']);
        let folder = runtimes.join(name);
        let downloads = runtimes.join(".downloads").join(name);
        if !is_plain || !(folder.exists() || downloads.exists()) {
            return Err(not_installed());
        }
        let _turn = self.take_turn(name, observer)?;
        drop(fs::remove_dir_all(&downloads));
        if let Some(aside) = self.set_aside(&folder)? {
            let path = aside.path().to_owned();
            aside.close().map_err(RuntimeError::io("remove", path))?;
        }
        Ok(folder)
    }

    /// Reads every file of an installed runtime again, and returns its flaws.
    ///
    /// # Errors
    ///
    /// If it is not installed, or cannot be read.
    pub fn verify(
        &self,
        name: &str,
        observer: &mut dyn Observer,
    ) -> Result<(Installed, Vec<Flaw>), RuntimeError> {
        let folder = self.folder()?.join(name);
        let installed = Installed::read(&folder)?
            .ok_or_else(|| RuntimeError::NotInstalled { name: name.into() })?;
        observer.step(Step::Verifying { bytes: installed.bytes() });
        let flaws = installed.verify(&folder, |bytes| observer.advanced(bytes))?;
        Ok((installed, flaws))
    }
}

impl Ready {
    /// Returns the identity that results record. A library is read; of a folder, `installed.json`, or else the
    /// libraries with names as in the plugin's lock. Every file of an installed runtime that has changed since it
    /// was last read is compared with `installed.json`: otherwise a changed library would be recorded under a wrong
    /// hash.
    ///
    /// # Errors
    ///
    /// If something cannot be read, or differs from the installation's record.
    pub fn identify(&self, plugin: &NativePlugin) -> Result<RuntimeIdentity, RuntimeError> {
        let hash = |path: &Path| sha256_of_file(path).map_err(RuntimeError::io("read", path));
        let record = self.path.join(installed::FILE);
        if self.origin == RuntimeOrigin::Installed
            && let Some(installed) = Installed::read(&self.path)?
        {
            let flaws = installed.verify_what_changed(&self.path)?;
            if !flaws.is_empty() {
                let (id, folder) = (plugin.metadata.id.clone(), self.path.clone());
                return Err(RuntimeError::NotAsInstalled { id, folder, flaws });
            }
        }
        let sha256 = if self.path.is_file() {
            Some(hash(&self.path)?)
        } else if record.is_file() {
            Some(hash(&record)?)
        } else {
            let mut lines = String::new();
            for library in self.libraries(plugin)? {
                let name = library.file_name().unwrap_or_default().to_string_lossy();
                let _ = writeln!(lines, "{}  {name}", hash(&library)?);
            }
            (!lines.is_empty()).then(|| sha256(lines.as_bytes()))
        };
        Ok(RuntimeIdentity {
            name: self.name.clone(),
            version: self.version.clone(),
            path: self.path.clone(),
            origin: self.origin,
            sha256,
        })
    }

    /// Returns the files of a named folder with the names of the files that the lock would install.
    fn libraries(&self, plugin: &NativePlugin) -> Result<Vec<PathBuf>, RuntimeError> {
        let inner = self.path.join("lib");
        let folder = if inner.is_dir() { &inner } else { &self.path };
        libraries(folder, &library_names(plugin)?)
    }
}

/// Returns the name patterns of the libraries of a plugin's runtime, by its lock for this machine.
/// A library from another source may have another version in its name, or none.
fn library_names(plugin: &NativePlugin) -> Result<Vec<Pattern>, RuntimeError> {
    let Some(lock) = RuntimeLock::read(&plugin.folder)? else { return Ok(Vec::new()) };
    let packages = lock.packages_for(&platform_name());
    let mut names: Vec<_> = packages
        .iter()
        .flat_map(|package| &package.unpack)
        .filter_map(|pattern| {
            let name = pattern.as_str().rsplit('/').next()?;
            let name = match name.split_once(".so") {
                Some((name, _)) => format!("{name}.so*"),
                None => name.to_owned(),
            };
            let is_library =
                name.starts_with("lib") || name.ends_with(".so*") || name.ends_with(".dll");
            Pattern::new(&name).ok().filter(|_| is_library)
        })
        .collect();
    names.sort();
    names.dedup();
    Ok(names)
}

/// Returns the files in a folder with such names, in order.
fn libraries(folder: &Path, names: &[Pattern]) -> Result<Vec<PathBuf>, RuntimeError> {
    let read = |error| RuntimeError::io("read", folder)(error);
    let mut libraries = Vec::new();
    for entry in fs::read_dir(folder).map_err(read)? {
        let path = entry.map_err(read)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_file() && names.iter().any(|pattern| pattern.matches(&name)) {
            libraries.push(path);
        }
    }
    libraries.sort();
    Ok(libraries)
}

/// Returns why the named path cannot be a runtime of this plugin, as text that follows the path; `None` if it may be
/// one. Without this check, a wrong path would count as an optional runtime.
fn no_runtime(plugin: &NativePlugin, path: &Path) -> Result<Option<String>, RuntimeError> {
    if path.is_file() {
        let is_library = is_library(path).map_err(RuntimeError::io("read", path))?;
        return Ok((!is_library).then(|| "is a file but not a library".to_owned()));
    }
    let names = library_names(plugin)?;
    let mut folders = vec![path.to_owned()];
    folders.extend(Some(path.join("lib")).filter(|inner| inner.is_dir()));
    for folder in &folders {
        // Without a lock its name is unknown.
        if names.is_empty() || !libraries(folder, &names)?.is_empty() {
            return Ok(None);
        }
    }
    const NAMED: usize = 4;
    let shown: Vec<_> = names.iter().take(NAMED).map(Pattern::as_str).collect();
    let others = if names.len() > NAMED { " and the like" } else { "" };
    let shown = shown.join(", ");
    Ok(Some(format!("has neither {shown}{others}, nor a folder `lib` that does")))
}

/// Returns whether a file begins like a library of Linux, macOS or Windows.
fn is_library(path: &Path) -> io::Result<bool> {
    let mut start = Vec::new();
    host_files::open(path)?.take(4).read_to_end(&mut start)?;
    const MACH_O: [[u8; 4]; 2] = [0xfeed_facf_u32.to_le_bytes(), 0xcafe_babe_u32.to_be_bytes()];
    Ok(start == *b"\x7fELF" || start.starts_with(b"MZ") || MACH_O.iter().any(|it| start == *it))
}

/// Checks that the path is text, because results are text.
fn ready(ready: Ready) -> Result<RuntimeStatus, RuntimeError> {
    if ready.path.to_str().is_none() {
        return Err(RuntimeError::NotUnicode { path: ready.path });
    }
    Ok(RuntimeStatus::Ready(ready))
}
