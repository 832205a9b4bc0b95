/*!
Adding plugins to the user's plugin folder, and removing them.

A plugin is a folder, an archive of one, or a component. It is looked at where it lies before anything is copied, and the
copy takes its place with one rename, so a plugin in use is never half there. Its hash is then recorded in the lock file: a
user who adds a plugin has said that they want it. Nothing of it is run, except a component in its sandbox.
*/

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use host_registry::{NativePlugin, Places, Registry, Search};
use host_wasm::Compiling;
use semver::Version;
use tempfile::TempDir;

use crate::advice::advice;
use crate::error::{Error, Result};
use crate::guests::sandbox;
use crate::observer::{Notice, Observer};
use crate::settings::Settings;

/// Limits on what an archive or a folder may hold.
const MOST_FILES: usize = 10_000;
const MOST_BYTES: u64 = 4 << 30;
const LARGEST_COMPONENT: u64 = 256 << 20;

/// Folders of a project that do not belong to its plugin.
const NOT_OF_PLUGINS: &[&str] = &["sdk", "target", "build", "node_modules", "src", "tests", "test"];

/// A plugin that was added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Added {
    /// Its id.
    pub id: String,
    /// `backend`, `metric`, `report` or `recommender`.
    pub kind: &'static str,
    /// Its version.
    pub version: String,
    /// Where it is now: a folder or a file.
    pub place: PathBuf,
    /// The version that it replaced.
    pub replaced: Option<String>,
    /// The hash that is recorded, and the lock file.
    pub sha256: String,
    /// The lock file.
    pub lock: Option<PathBuf>,
}

/// A plugin that was removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removed {
    /// Its id.
    pub id: String,
    /// Where it was.
    pub place: PathBuf,
}

/// Adds a plugin to the user's plugin folder: from a folder, a component, or an archive (`.zip`, `.tar.gz`).
///
/// # Errors
///
/// If it is not a plugin, cannot be used, or cannot be copied.
pub fn add(path: &Path, settings: &Settings, observer: &mut dyn Observer) -> Result<Added> {
    let not_here = || Error::NothingToAdd {
        path: path.to_owned(),
        reason: "there is no such file or folder".into(),
    };
    let home = settings.places.user_data.as_ref().ok_or(Error::NoPluginFolder)?.join("plugins");
    fs::create_dir_all(&home).map_err(|error| Error::io("create", &home, error))?;
    // As it is searched later, and as the lock file names it.
    let home = home.canonicalize().map_err(|error| Error::io("open", &home, error))?;
    if path.is_dir() {
        return add_folder(path, &home, settings, observer);
    }
    if !path.exists() {
        return Err(not_here());
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    if name.ends_with(".wasm") {
        return add_guest(path, &home, settings, observer);
    }
    let fails = |reason: String| Error::NothingToAdd { path: path.to_owned(), reason };
    let unpacked =
        tempfile::tempdir().map_err(|error| Error::io("create", &std::env::temp_dir(), error))?;
    if name.ends_with(".zip") {
        unzip(path, &unpacked).map_err(|error| fails(format!("it cannot be unpacked: {error}")))?;
    } else if name.ends_with(".tar.gz") || name.ends_with(".tgz") {
        untar(path, &unpacked).map_err(|error| fails(format!("it cannot be unpacked: {error}")))?;
    } else {
        return Err(fails(
            "it is neither a folder, a .wasm file, nor an archive: .zip, .tar.gz or .tgz".into(),
        ));
    }
    // Most archives have one folder with all files.
    let mut folder = unpacked.path().to_owned();
    while let [only] = &entries(&folder)?[..]
        && only.is_dir()
    {
        folder.clone_from(only);
    }
    add_folder(&folder, &home, settings, observer).map_err(|error| match error {
        // The temporary folder's name says nothing.
        Error::NothingToAdd { reason, .. } => fails(reason),
        other => other,
    })
}

fn add_folder(
    folder: &Path,
    home: &Path,
    settings: &Settings,
    observer: &mut dyn Observer,
) -> Result<Added> {
    let fails = |reason: String| Error::NothingToAdd { path: folder.to_owned(), reason };
    let folder = folder.canonicalize().map_err(|error| Error::io("open", folder, error))?;
    if folder.starts_with(home) {
        return Err(fails("it is in your plugin folder already".into()));
    }
    let registry =
        Registry::scan(&Search::new(&Places::default(), std::slice::from_ref(&folder), &[]));
    if folder.join("plugin.toml").is_file() {
        if let Some(plugin) = registry.natives().first() {
            return add_native(plugin, home, settings);
        }
        if let Some(problem) = registry.problems().first() {
            return Err(Error::BrokenPlugin(Box::new(problem.clone())));
        }
    }
    let guests: Vec<_> = entries(&folder)?
        .into_iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "wasm"))
        .collect();
    match &guests[..] {
        [guest] => add_guest(guest, home, settings, observer),
        [] if folder.join("plugin.toml").is_file() => {
            Err(fails("it has no plugin yet: `host plugins build` makes it".into()))
        }
        [] => Err(fails("it has neither a plugin.toml nor a .wasm file".into())),
        _ => Err(fails("it has several .wasm files: name one of them".into())),
    }
}

/// Returns the registry of the user's folder alone.
fn users(settings: &Settings) -> Registry {
    let Places { user_data, user_config, .. } = settings.places.clone();
    Registry::scan(&Search::new(&Places { user_data, user_config, ..Places::default() }, &[], &[]))
}

fn add_native(plugin: &NativePlugin, home: &Path, settings: &Settings) -> Result<Added> {
    let id = &plugin.metadata.id;
    let before = users(settings).natives().iter().find(|other| other.metadata.id == *id).cloned();
    let replaced = before.as_ref().map(|before| before.metadata.version.to_string());
    let place = before.map_or_else(|| home.join(id), |before| before.folder);
    let beside = tempfile::Builder::new()
        .prefix(".adding-")
        .tempdir_in(home)
        .map_err(|error| Error::io("create a folder in", home, error))?;
    let copy = beside.path().join("new");
    copy_folder(&plugin.folder, &copy, &mut (MOST_FILES, MOST_BYTES))?;
    let io = |error| Error::io("replace", &place, error);
    if place.symlink_metadata().is_ok() {
        fs::rename(&place, beside.path().join("old")).map_err(io)?;
    }
    fs::rename(&copy, &place).map_err(io)?;
    let registry = users(settings);
    let trusted = registry.trust(id)?;
    Ok(Added {
        id: id.clone(),
        kind: "backend",
        version: plugin.metadata.version.to_string(),
        place,
        replaced,
        sha256: trusted.seal.map(|seal| seal.sha256).unwrap_or_default(),
        lock: registry.lock_file().map(Path::to_owned),
    })
}

fn add_guest(
    file: &Path,
    home: &Path,
    settings: &Settings,
    observer: &mut dyn Observer,
) -> Result<Added> {
    let sandbox = sandbox(settings)?;
    let mut tell = |compiling: Compiling| observer.notice(Notice::Compiling(&compiling));
    let plugin = sandbox.load_telling(file, &mut tell).map_err(|error| Error::UnusableGuest {
        hint: advice(&error, file),
        path: file.to_owned(),
        error: Box::new(error),
    })?;
    let (id, version) = (plugin.description().id.clone(), plugin.description().version.clone());
    let place = home.join(format!("{id}.wasm"));
    let replaced = sandbox.load(&place).ok().map(|before| before.description().version.clone());
    let bytes = host_files::read(file, LARGEST_COMPONENT)
        .map_err(|error| Error::io("read", file, error))?;
    let io = |error| Error::io("write", &place, error);
    let mut beside = tempfile::NamedTempFile::new_in(home).map_err(io)?;
    io::Write::write_all(&mut beside, &bytes).map_err(io)?;
    beside.persist(&place).map_err(|error| io(error.error))?;
    let registry = users(settings);
    let guest = registry.guests().iter().find(|guest| guest.path == place);
    if let (Some(guest), Ok(version)) = (guest, Version::parse(&version)) {
        registry.record_guest(guest, &id, version, plugin.sha256())?;
    }
    Ok(Added {
        id,
        kind: plugin.kind().name(),
        version,
        place,
        replaced,
        sha256: plugin.sha256().to_owned(),
        lock: registry.lock_file().map(Path::to_owned),
    })
}

/// Removes the plugins of an id from the user's plugin folder, and their records.
///
/// # Errors
///
/// If there is none, or it cannot be removed.
pub fn remove(id: &str, settings: &Settings) -> Result<Vec<Removed>> {
    let registry = users(settings);
    let mut removed = Vec::new();
    for plugin in registry.natives().iter().filter(|plugin| plugin.metadata.id == id) {
        fs::remove_dir_all(&plugin.folder)
            .map_err(|error| Error::io("remove", &plugin.folder, error))?;
        registry.forget(&plugin.folder, None)?;
        removed.push(Removed { id: id.to_owned(), place: plugin.folder.clone() });
    }
    let sandbox = sandbox(settings)?;
    for guest in registry.guests() {
        let is_it = match sandbox.look(&guest.path) {
            Ok(host_wasm::Seen::Known(profile)) => profile.description().id == id,
            // A file that cannot be loaded is known by its name.
            _ => guest.is_named_like(id),
        };
        if is_it {
            fs::remove_file(&guest.path)
                .map_err(|error| Error::io("remove", &guest.path, error))?;
            let file = guest.path.strip_prefix(&guest.folder).ok();
            registry.forget(&guest.folder, file)?;
            removed.push(Removed { id: id.to_owned(), place: guest.path.clone() });
        }
    }
    if !removed.is_empty() {
        return Ok(removed);
    }
    let all = settings.registry(&[]);
    let elsewhere = all
        .natives()
        .iter()
        .find(|plugin| plugin.metadata.id == id)
        .map(|plugin| plugin.folder.clone());
    let elsewhere = elsewhere.or_else(|| {
        all.guests().iter().find(|guest| guest.is_named_like(id)).map(|guest| guest.path.clone())
    });
    match elsewhere {
        Some(place) => Err(Error::NotAdded { id: id.to_owned(), place }),
        None => {
            let natives = registry.natives().iter().map(|plugin| &*plugin.metadata.id);
            let guests = registry.guests().iter().map(|guest| &*guest.name);
            Err(registry.unknown("", id, natives.chain(guests)).into())
        }
    }
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let io = |error| Error::io("read", folder, error);
    let entries = fs::read_dir(folder).map_err(io)?;
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<_>>()
        .map_err(io)?;
    paths.sort();
    Ok(paths)
}

/// Copies the files of a plugin's folder: regular ones, without hidden ones and without what only building needs.
fn copy_folder(from: &Path, to: &Path, left: &mut (usize, u64)) -> Result<()> {
    fs::create_dir_all(to).map_err(|error| Error::io("create", to, error))?;
    for path in entries(from)? {
        let name = path.file_name().unwrap_or_default();
        let text = name.to_string_lossy();
        let kind = path.symlink_metadata().map_err(|error| Error::io("read", &path, error))?;
        if text.starts_with('.') || kind.is_symlink() {
            continue;
        }
        if kind.is_dir() {
            if !NOT_OF_PLUGINS.contains(&&*text) {
                copy_folder(&path, &to.join(name), left)?;
            }
        } else if kind.is_file() {
            *left = match (left.0.checked_sub(1), left.1.checked_sub(kind.len())) {
                (Some(files), Some(bytes)) => (files, bytes),
                _ => {
                    return Err(Error::NothingToAdd {
                        path: from.to_owned(),
                        reason: format!("it has more than {MOST_FILES} files or 4 GiB"),
                    });
                }
            };
            fs::copy(&path, to.join(name)).map_err(|error| Error::io("copy", &path, error))?;
        }
    }
    Ok(())
}

/// Returns the place of an archive's entry below a folder; `None` if it leads out of it.
fn inside(folder: &Path, name: &Path) -> Option<PathBuf> {
    let is_plain =
        name.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    is_plain.then(|| folder.join(name))
}

fn outside(name: &Path) -> io::Error {
    io::Error::other(format!("`{}` leads out of it", name.display()))
}

fn unzip(path: &Path, folder: &TempDir) -> io::Result<()> {
    let mut archive = zip::ZipArchive::new(host_files::open(path)?).map_err(io::Error::other)?;
    let mut left = MOST_BYTES;
    if archive.len() > MOST_FILES {
        return Err(io::Error::other(format!("it has more than {MOST_FILES} files")));
    }
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).map_err(io::Error::other)?;
        let name = PathBuf::from(entry.name());
        let place = inside(folder.path(), &name).ok_or_else(|| outside(&name))?;
        if entry.is_dir() {
            fs::create_dir_all(place)?;
        } else if !entry.is_symlink() {
            unpack(&mut entry, &place, &mut left)?;
        }
    }
    Ok(())
}

fn untar(path: &Path, folder: &TempDir) -> io::Result<()> {
    let file = host_files::open(path)?;
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file));
    let mut left = MOST_BYTES;
    for (index, entry) in archive.entries()?.enumerate() {
        let mut entry = entry?;
        if index == MOST_FILES {
            return Err(io::Error::other(format!("it has more than {MOST_FILES} files")));
        }
        let name = entry.path()?.into_owned();
        let place = inside(folder.path(), &name).ok_or_else(|| outside(&name))?;
        match entry.header().entry_type() {
            tar::EntryType::Directory => fs::create_dir_all(place)?,
            tar::EntryType::Regular => unpack(&mut entry, &place, &mut left)?,
            // Links and devices do not belong to a plugin.
            _ => {}
        }
    }
    Ok(())
}

fn unpack(entry: &mut impl Read, place: &Path, left: &mut u64) -> io::Result<()> {
    if let Some(folder) = place.parent() {
        fs::create_dir_all(folder)?;
    }
    let written = io::copy(&mut entry.take(*left + 1), &mut File::create(place)?)?;
    *left = left
        .checked_sub(written)
        .ok_or_else(|| io::Error::other("it unpacks to more than 4 GiB"))?;
    Ok(())
}
