//! The golden run: a small run that is part of the program, for trying plugins on.
//!
//! It was measured with the backend in C that `host plugins new` writes: two cases in three processes each, with their
//! samples, and two gaps.

use std::fs;

use host_store::RunFolder;
use tempfile::TempDir;

use crate::error::{Error, Result};

/// The run's id, which is its folder's name.
const RUN: &str = "20261130T205317.579Z-golden-1f3172";

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$((
            $name,
            include_bytes!(concat!(
                "../golden/20261130T205317.579Z-golden-1f3172/",
                $name
            )),
        )),*]
    };
}

/// Its files.
const FILES: &[(&str, &[u8])] = files![
    "finished.json",
    "journal.jsonl",
    "manifest.toml",
    "plan.jsonl",
    "results.jsonl",
    "run.json",
    "samples/14821bcd99b81ee1.1.parquet",
    "samples/14821bcd99b81ee1.2.parquet",
    "samples/14821bcd99b81ee1.parquet",
    "samples/ae74d8bc8fd44697.1.parquet",
    "samples/ae74d8bc8fd44697.2.parquet",
    "samples/ae74d8bc8fd44697.parquet",
];

/// Writes the golden run into a temporary folder, which lives as long as the first value.
pub(crate) fn golden_run() -> Result<(TempDir, RunFolder)> {
    let place =
        tempfile::tempdir().map_err(|error| Error::io("create", &std::env::temp_dir(), error))?;
    let folder = place.path().join("runs").join(RUN);
    for (name, bytes) in FILES {
        let path = folder.join(name);
        let parent = path.parent().unwrap_or(&folder);
        fs::create_dir_all(parent).map_err(|error| Error::io("create", parent, error))?;
        fs::write(&path, bytes).map_err(|error| Error::io("write", &path, error))?;
    }
    let run = RunFolder::open(&folder)?;
    Ok((place, run))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_whole_and_all_of_it_can_be_read() {
        let (_place, run) = golden_run().expect("the golden run");
        assert_eq!(run.lost_files().expect("its files"), []);
        let records = run.records().expect("its journal").collect::<Result<Vec<_>, _>>();
        assert_eq!(records.expect("its records").len(), 4);
        let results = run.results().expect("its results");
        assert!(results.iter().any(|result| result.plugin.id == "latency"));
    }
}
