//! Taking files out of a wheel.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Write};
use std::path::{Component, Path};

use host_hash::sha256_of_reader;
use host_registry::LockedPackage;
use zip::ZipArchive;
use zip::result::ZipError;

use crate::error::RuntimeError;
use crate::installed::InstalledFile;

/// A wheel whose table of contents has been read.
pub(crate) struct Wheel<'a> {
    package: &'a LockedPackage,
    path: &'a Path,
    archive: ZipArchive<BufReader<File>>,
    /// Files to unpack: index in the archive, and path in the runtime's folder.
    wanted: Vec<(usize, String)>,
    /// Total size of these files.
    pub(crate) bytes: u64,
}

/// Copies and hashes in one pass.
pub(crate) fn copy(
    reader: &mut impl Read,
    writer: &mut impl Write,
    advanced: &mut dyn FnMut(u64),
) -> io::Result<InstalledFile> {
    let mut bytes = 0;
    let sha256 = sha256_of_reader(reader, |piece| {
        writer.write_all(piece)?;
        bytes += piece.len() as u64;
        advanced(piece.len() as u64);
        Ok::<_, io::Error>(())
    })??;
    Ok(InstalledFile { sha256, bytes })
}

impl<'a> Wheel<'a> {
    /// Opens a wheel and searches for the files that the lock names. If names lead out of the folder, the whole wheel
    /// is refused as malicious.
    pub(crate) fn open(package: &'a LockedPackage, path: &'a Path) -> Result<Self, RuntimeError> {
        let bad = |detail: String| RuntimeError::BadWheel { file: path.to_owned(), detail };
        let file = host_files::open(path).map_err(RuntimeError::io("open", path))?;
        let mut archive =
            ZipArchive::new(BufReader::new(file)).map_err(|error| bad(error.to_string()))?;
        let mut wanted: Vec<(usize, String)> = Vec::new();
        let mut used = vec![false; package.unpack.len()];
        let mut bytes = 0_u64;
        for index in 0..archive.len() {
            let entry = archive.by_index_raw(index).map_err(|error| bad(error.to_string()))?;
            let name = entry.name();
            if !stays_inside(name) {
                return Err(bad(format!("{name:?} would be written outside of its folder")));
            }
            if entry.is_dir() || !package.unpacks(name) {
                continue;
            }
            if entry.is_symlink() {
                return Err(bad(format!("{name:?} is a link")));
            }
            for (used, pattern) in used.iter_mut().zip(&package.unpack) {
                *used |= pattern.matches(name);
            }
            let base = name.rsplit('/').next().unwrap_or(name);
            let target = format!("{}/{base}", package.to);
            if wanted.iter().any(|(_, other)| *other == target) {
                return Err(bad(format!("two of its files would become {target}")));
            }
            bytes = bytes.saturating_add(entry.size());
            wanted.push((index, target));
        }
        if let Some((_, pattern)) = used.iter().zip(&package.unpack).find(|(used, _)| !**used) {
            return Err(bad(format!("none of its files fits `{pattern}`")));
        }
        Ok(Self { package, path, archive, wanted, bytes })
    }

    /// Unpacks into a runtime's folder, and returns the added files.
    pub(crate) fn unpack(
        mut self,
        folder: &Path,
        files: &mut BTreeMap<String, InstalledFile>,
        advanced: &mut dyn FnMut(u64),
    ) -> Result<(), RuntimeError> {
        let bad = |detail: String| RuntimeError::BadWheel { file: self.path.to_owned(), detail };
        let into = folder.join(&self.package.to);
        fs::create_dir_all(&into).map_err(RuntimeError::io("create", into))?;
        for (index, target) in &self.wanted {
            if files.contains_key(target) {
                return Err(bad(format!("another package has a file {target} as well")));
            }
            let path = folder.join(target);
            let write = |error| RuntimeError::io("write", &path)(error);
            let mut entry = self.archive.by_index(*index).map_err(|error| match error {
                ZipError::Io(error) => RuntimeError::io("read", self.path)(error),
                other => bad(other.to_string()),
            })?;
            let executable = entry.unix_mode().is_some_and(|mode| mode & 0o111 != 0);
            let mut file = File::create_new(&path).map_err(write)?;
            let written = match copy(&mut entry, &mut file, advanced) {
                Ok(written) => written,
                // The archive contradicts itself, as with a wrong checksum.
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    return Err(bad(format!("{target}: {error}")));
                }
                Err(error) => return Err(write(error)),
            };
            if executable {
                crate::platform::make_executable(&file).map_err(write)?;
            }
            // The folder is renamed only when its contents are on stable storage.
            file.sync_all().map_err(write)?;
            files.insert(target.clone(), written);
        }
        Ok(())
    }
}

/// Returns whether a name in an archive stays below the target folder.
fn stays_inside(name: &str) -> bool {
    !name.is_empty()
        && !name.contains(['\\', '\0'])
        && Path::new(name).components().all(|part| matches!(part, Component::Normal(_)))
}
