/*!
Outputs of references, which are kept in the run folder until the run is finished.

Workers write and read them. A resumed run uses existing ones, so they are checked first: with a damaged one, correct
outputs would be reported as wrong, or wrong ones as correct.
*/

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::fmt;
use std::fs;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use host_hash::{hexadecimal, sha256_of_reader};
use host_record::{CaseRecord, Failure, Outcome};

use super::folder::JournalRecords;
use super::lost::Loss;
use super::writer::RunWriter;
use crate::error::StoreError;

/// A reference whose outputs are missing or have changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostReference {
    /// The reference as text, or its id if no case has been compared with it yet.
    pub reference: String,
    /// Expected place of its outputs.
    pub path: PathBuf,
    /// Kind of loss.
    pub loss: Loss,
}

impl fmt::Display for LostReference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { reference, path, loss } = self;
        write!(formatter, "the outputs of the reference {reference} are lost: ")?;
        loss.explain(path, formatter)
    }
}

impl RunWriter {
    /// Removes damaged outputs of references, so that they are computed again, and returns these references and
    /// missing ones that a case has been compared with. For a resumed run, before its first case.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or removed.
    pub fn forget_lost_references(&mut self) -> Result<Vec<LostReference>, StoreError> {
        let folder = self.references_folder();
        let used = self.used_references()?;
        let mut lost = Vec::new();
        let mut lose = |id: &str, path: PathBuf, loss| {
            let reference = used.get(id).cloned().unwrap_or_else(|| id.to_owned());
            lost.push(LostReference { reference, path, loss });
        };
        let there = kept(&folder).map_err(StoreError::io("read", &folder))?;
        for id in &there {
            let path = folder.join(id);
            if !is_whole(&path).map_err(StoreError::io("read", &path))? {
                fs::remove_file(&path).map_err(StoreError::io("remove", &path))?;
                let detail = "its SHA-256 is not the one that it ends with".into();
                lose(id, path, Loss::Unreadable { detail });
            }
        }
        for id in used.keys().filter(|id| !there.contains(*id)) {
            lose(id, folder.join(id), Loss::Missing);
        }
        Ok(lost)
    }

    /// Returns the references that recorded cases were compared with, as text by id.
    fn used_references(&self) -> Result<BTreeMap<String, String>, StoreError> {
        let mut used = BTreeMap::new();
        for record in JournalRecords::open(&self.folder().layout)? {
            let CaseRecord { spec, outcome, .. } = record?;
            let check = spec.and_then(|spec| spec.check);
            let had_none = matches!(
                outcome,
                Outcome::Gap { .. } | Outcome::Failed { failure: Failure::NoReference { .. } }
            );
            if let Some(check) = check.filter(|_| !had_none) {
                used.insert(check.id.clone(), check.reference());
            }
        }
        Ok(used)
    }
}

/// Returns the ids of the references that are kept, without unfinished ones.
fn kept(folder: &Path) -> io::Result<BTreeSet<String>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeSet::new()),
        entries => entries?,
    };
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let is_kept = |name: &io::Result<String>| !matches!(name, Ok(name) if name.contains('.'));
    names.filter(is_kept).collect()
}

/// Returns whether a file ends with the SHA-256 of all preceding bytes.
fn is_whole(path: &Path) -> io::Result<bool> {
    const SEAL: usize = 32;
    let mut file = host_files::open(path)?;
    let Some(length) = file.metadata()?.len().checked_sub(SEAL as u64) else { return Ok(false) };
    let mut contents = file.by_ref().take(length);
    let Ok(found) = sha256_of_reader(&mut contents, |_| Ok::<_, Infallible>(()));
    let found = found?;
    let mut seal = Vec::with_capacity(SEAL);
    file.take(SEAL as u64 + 1).read_to_end(&mut seal)?;
    Ok(found == hexadecimal(&seal))
}

#[cfg(test)]
mod tests {
    use host_hash::{Digest as _, Sha256};

    use super::*;

    #[test]
    fn a_file_that_is_cut_or_changed_is_not_whole() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("reference");
        let mut bytes = b"[]\nelements".to_vec();
        bytes.extend(Sha256::digest(&bytes));
        let is_whole = |bytes: &[u8]| {
            fs::write(&path, bytes).expect("the folder is writable");
            is_whole(&path).expect("it can be read")
        };
        assert!(is_whole(&bytes));
        for length in [0, 31, 32, bytes.len() - 1] {
            assert!(!is_whole(&bytes[..length]), "{length}");
        }
        for place in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[place] ^= 1;
            assert!(!is_whole(&changed), "{place}");
        }
    }
}
