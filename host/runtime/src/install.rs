//! Installing: fetch, check, unpack into a temporary folder, rename.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use host_registry::{LockedPackage, NativePlugin, RuntimeLock};

use crate::error::RuntimeError;
use crate::installed::Installed;
use crate::observer::{Observer, Step};
use crate::pip::Pip;
use crate::platform;
use crate::runtimes::{Runtimes, platform_name};
use crate::wheel::{self, Wheel};

/// Result of installing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The runtime's folder.
    pub folder: PathBuf,
    /// The runtime's record.
    pub installed: Installed,
    /// Whether it was installed already, complete and from the same packages.
    pub was_there: bool,
}

impl Runtimes {
    /// Installs the runtime of a plugin, or repairs an installed one. A complete runtime is left
    /// unchanged.
    ///
    /// # Errors
    ///
    /// If the lock, pip, a package or the disk prevents it. Nothing is then installed, and
    /// completely fetched files are kept for the next attempt.
    #[tracing::instrument(skip_all, fields(plugin = plugin.metadata.id))]
    pub fn install(
        &self,
        plugin: &NativePlugin,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, RuntimeError> {
        let id = &plugin.metadata.id;
        let Some(need) = &plugin.metadata.runtime else {
            return Err(RuntimeError::NoRuntime { id: id.clone() });
        };
        let name = need.folder_name();
        let lock = RuntimeLock::read(&plugin.folder)?.ok_or_else(|| RuntimeError::NoLock {
            id: id.clone(),
            runtime: name.clone(),
            file: plugin.folder.join("runtime.lock"),
        })?;
        let platform = platform_name();
        let packages = lock.packages_for(&platform);
        if packages.is_empty() {
            let available = lock.platforms().into_iter().map(Into::into).collect();
            return Err(RuntimeError::NoPackage {
                id: id.clone(),
                runtime: name,
                platform,
                available,
            });
        }

        let folder = self.folder()?.join(&name);
        let _turn = self.take_turn(&name, observer)?;
        if let Some(installed) = find_complete(&folder, &packages, observer) {
            return Ok(Outcome { folder, installed, was_there: true });
        }
        let downloads = self.downloads(&name)?;
        let wheels = fetch(&packages, &downloads, observer)?;
        let unpacked = tempfile::Builder::new()
            .prefix(".new-")
            .tempdir_in(self.folder()?)
            .map_err(RuntimeError::io("create a folder in", self.folder()?))?;
        let files = unpack(&wheels, unpacked.path(), observer)?;
        let installed = Installed::new(&need.name, &need.version, &platform, &packages, files);
        installed.write(unpacked.path())?;
        self.put_in_place(unpacked, &folder)?;
        // The runtime is complete; leftovers only take space.
        drop(fs::remove_dir_all(downloads));
        Ok(Outcome { folder, installed, was_there: false })
    }

    /// Waits until no other host works on this runtime. This host's turn lasts until the file is dropped.
    pub(crate) fn take_turn(
        &self,
        name: &str,
        observer: &mut dyn Observer,
    ) -> Result<File, RuntimeError> {
        let locks = self.folder()?.join(".locks");
        fs::create_dir_all(&locks).map_err(RuntimeError::io("create", &locks))?;
        let path = locks.join(name);
        let failed = |error| RuntimeError::io("lock", &path)(error);
        let file = File::create(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                observer.step(Step::Waiting);
                file.lock().map_err(failed)?;
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        Ok(file)
    }

    /// Returns the folder in which wheels of this runtime are kept until it is installed.
    fn downloads(&self, name: &str) -> Result<PathBuf, RuntimeError> {
        let folder = self.folder()?.join(".downloads").join(name);
        fs::create_dir_all(&folder).map_err(RuntimeError::io("create", &folder))?;
        Ok(folder)
    }

    /// Replaces an existing folder by a new one.
    fn put_in_place(&self, new: tempfile::TempDir, folder: &Path) -> Result<(), RuntimeError> {
        let old = self.set_aside(folder)?;
        let new = new.keep();
        fs::rename(&new, folder).map_err(|error| {
            drop(fs::remove_dir_all(&new));
            RuntimeError::io("create", folder)(error)
        })?;
        let runtimes = self.folder()?;
        // The rename is on stable storage once the folder is synced.
        let synced = File::open(runtimes).and_then(|runtimes| runtimes.sync_all());
        synced.map_err(RuntimeError::io("write", runtimes))?;
        drop(old);
        Ok(())
    }

    /// Moves a runtime out of its place atomically. It is deleted when the result is dropped;
    /// `None` if there is none.
    pub(crate) fn set_aside(
        &self,
        folder: &Path,
    ) -> Result<Option<tempfile::TempDir>, RuntimeError> {
        let runtimes = self.folder()?;
        let aside = tempfile::Builder::new()
            .prefix(".old-")
            .tempdir_in(runtimes)
            .map_err(RuntimeError::io("create a folder in", runtimes))?;
        match fs::rename(folder, aside.path().join("runtime")) {
            Ok(()) => Ok(Some(aside)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(RuntimeError::io("remove", folder)(error)),
        }
    }
}

/// Returns the installed runtime, if it is complete and from these packages. An unreadable one is
/// not complete.
fn find_complete(
    folder: &Path,
    packages: &[&LockedPackage],
    observer: &mut dyn Observer,
) -> Option<Installed> {
    let installed = Installed::read(folder).ok()??;
    if !installed.is_of(packages) {
        return None;
    }
    observer.step(Step::Verifying { bytes: installed.bytes() });
    let flaws = installed.verify(folder, |bytes| observer.advanced(bytes)).ok()?;
    flaws.is_empty().then_some(installed)
}

/// Fetches each package, and checks its hash.
fn fetch<'a>(
    packages: &[&'a LockedPackage],
    downloads: &Path,
    observer: &mut dyn Observer,
) -> Result<Vec<(&'a LockedPackage, PathBuf)>, RuntimeError> {
    let mut missing = Vec::new();
    for package in packages {
        let file = downloads.join(&package.file);
        if file.is_file() && check(package, &file, observer).is_err() {
            // The file is truncated, or belongs to another lock.
            fs::remove_file(&file).map_err(RuntimeError::io("remove", &file))?;
        }
        if !file.is_file() {
            missing.push(*package);
        }
    }
    require_space(downloads, missing.iter().map(|package| package.bytes).sum())?;
    let pip = if missing.is_empty() { None } else { Some(Pip::find(downloads)?) };
    for (index, package) in missing.iter().enumerate() {
        let Some(pip) = &pip else { break };
        observer.step(Step::Fetching {
            package: &title(package),
            bytes: package.bytes,
            number: index + 1,
            count: missing.len(),
        });
        let work = downloads.join(".pip");
        // These are files of an interrupted pip.
        drop(fs::remove_dir_all(&work));
        fs::create_dir_all(&work).map_err(RuntimeError::io("create", &work))?;
        pip.download(package, downloads, &work, observer.shows_pip())?;
        check(package, &downloads.join(&package.file), observer)?;
    }
    Ok(packages.iter().map(|package| (*package, downloads.join(&package.file))).collect())
}

/// Checks whether a file is the one that the lock names.
fn check(
    package: &LockedPackage,
    file: &Path,
    observer: &mut dyn Observer,
) -> Result<(), RuntimeError> {
    observer.step(Step::Checking { package: &title(package), bytes: package.bytes });
    let read = |error| RuntimeError::io("read", file)(error);
    let mut reader = host_files::open(file).map_err(read)?;
    let mut advanced = |bytes| observer.advanced(bytes);
    let found = wheel::copy(&mut reader, &mut io::sink(), &mut advanced).map_err(read)?;
    let detail = if found.bytes != package.bytes {
        format!("it has {} bytes instead of {}", found.bytes, package.bytes)
    } else if found.sha256 != package.sha256 {
        format!("its SHA-256 is {} instead of {}", found.sha256, package.sha256)
    } else {
        return Ok(());
    };
    Err(RuntimeError::WrongFile { file: file.to_owned(), detail })
}

/// Unpacks all wheels into a folder.
fn unpack(
    wheels: &[(&LockedPackage, PathBuf)],
    folder: &Path,
    observer: &mut dyn Observer,
) -> Result<BTreeMap<String, crate::InstalledFile>, RuntimeError> {
    let opened = wheels.iter().map(|(package, path)| Wheel::open(package, path));
    let opened = opened.collect::<Result<Vec<_>, _>>()?;
    require_space(folder, opened.iter().map(|wheel| wheel.bytes).sum())?;
    let mut files = BTreeMap::new();
    for (wheel, (package, _)) in opened.into_iter().zip(wheels) {
        observer.step(Step::Unpacking { package: &title(package), bytes: wheel.bytes });
        wheel.unpack(folder, &mut files, &mut |bytes| observer.advanced(bytes))?;
    }
    Ok(files)
}

fn title(package: &LockedPackage) -> String {
    format!("{} {}", package.name, package.version)
}

fn require_space(folder: &Path, needed: u64) -> Result<(), RuntimeError> {
    let available =
        platform::free_space(folder).map_err(RuntimeError::io("find the free space in", folder))?;
    if needed > available {
        return Err(RuntimeError::Space { folder: folder.to_owned(), needed, available });
    }
    Ok(())
}
