//! Blocks of cases, each for one task.

use std::fs;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use host_record::CaseSpec;
use serde::{Deserialize, Serialize};

use super::error::ClusterError;
use crate::error::{Error, Result};

/// Cases of a task that a manifest does not say.
const USUAL: u64 = 10;
/// Tasks that are not exceeded if a manifest does not say the size of a block: the usual limit of an array.
const MOST_TASKS: u64 = 1000;

/// Work that stays together: all processes of a case, or both sides of a pair.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Work {
    Case(Box<CaseSpec>),
    Pair([Box<CaseSpec>; 2]),
}

impl Work {
    /// Returns the case, or both sides.
    pub(crate) fn cases(&self) -> &[Box<CaseSpec>] {
        match self {
            Self::Case(case) => std::slice::from_ref(case),
            Self::Pair(sides) => sides,
        }
    }

    pub(crate) fn cases_mut(&mut self) -> &mut [Box<CaseSpec>] {
        match self {
            Self::Case(case) => std::slice::from_mut(case),
            Self::Pair(sides) => sides,
        }
    }

    /// Returns the ids of its cases.
    pub(crate) fn ids(&self) -> Vec<String> {
        self.cases().iter().map(|case| case.id.clone()).collect()
    }
}

/// Returns the number of cases in a block.
pub(crate) fn block_size(wanted: Option<u64>, cases: u64) -> usize {
    let size = wanted.unwrap_or_else(|| USUAL.max(cases.div_ceil(MOST_TASKS)));
    usize::try_from(size.max(1)).unwrap_or(usize::MAX)
}

/// Returns the file of a block.
fn path(run: &Path, block: u64) -> PathBuf {
    run.join("blocks").join(format!("{block}.jsonl"))
}

/// Writes a block, a line for each piece of work.
pub(crate) fn write(run: &Path, block: u64, work: &[Work]) -> Result<()> {
    let path = path(run, block);
    let io = |error| Error::io("write", &path, error);
    let mut writer = BufWriter::new(fs::File::create(&path).map_err(io)?);
    for one in work {
        serde_json::to_writer(&mut writer, one).map_err(|error| io(error.into()))?;
        writer.write_all(b"\n").map_err(io)?;
    }
    let file = writer.into_inner().map_err(|error| io(error.into_error()))?;
    file.sync_all().map_err(io)
}

/// Reads a block.
pub(crate) fn read(run: &Path, block: u64) -> Result<Vec<Work>> {
    let path = path(run, block);
    let file = host_files::open(&path).map_err(|error| Error::io("read", &path, error))?;
    let line = |line: std::io::Result<String>| {
        let line = line.map_err(|error| Error::io("read", &path, error))?;
        serde_json::from_str(&line).map_err(|error| {
            ClusterError::Block { path: path.clone(), detail: error.to_string() }.into()
        })
    };
    BufReader::new(file).lines().map(line).collect()
}

/// Creates the folder of blocks.
pub(crate) fn make_folder(run: &Path) -> Result<()> {
    let folder = run.join("blocks");
    fs::create_dir_all(&folder).map_err(|error| Error::io("create", &folder, error))
}

/// Removes all blocks of a run that is complete.
pub(crate) fn remove(run: &Path) -> Result<()> {
    let folder = run.join("blocks");
    match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::io("remove", &folder, error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_of_any_size_fits_an_array() {
        assert_eq!(block_size(None, 7), 10);
        assert_eq!(block_size(None, 10_000), 10);
        assert_eq!(block_size(None, 100_000), 100);
        assert_eq!(block_size(Some(3), 100_000), 3);
    }
}
