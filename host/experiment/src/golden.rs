//! The golden run: a small run that is part of the program, for trying plugins on.
//!
//! It is one of the runs that the reference keeps, measured on an H200: eight cases with their samples, the states of the
//! device, profiles, and the results of all default metrics.

use std::fs;

use host_store::RunFolder;
use tempfile::TempDir;

use crate::error::{Error, Result};

/// The run's id, which is its folder's name.
const RUN: &str = "20261128T172832Z-h200-state-c2103b";

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$((
            $name,
            include_bytes!(concat!(
                "../../../docs/reference/h200/20261128T172832Z-h200-state-c2103b/",
                $name
            )),
        )),*]
    };
}

/// Its files, without the reports that were made of it.
const FILES: &[(&str, &[u8])] = files![
    "device-states/43ba486056b0d03e.parquet",
    "device-states/5c1ec10d314e83b7.parquet",
    "device-states/71bbabe9609b1d32.parquet",
    "device-states/96c666aa2c49100f.parquet",
    "device-states/9befedd6d5b77cca.parquet",
    "device-states/a7d6eb1bc8f4b7d3.parquet",
    "device-states/ac9e7786c8ae55b1.parquet",
    "device-states/fef3b0bc4552ac31.parquet",
    "finished.json",
    "journal.jsonl",
    "manifest.toml",
    "plan.jsonl",
    "profiles/43ba486056b0d03e.parquet",
    "profiles/5c1ec10d314e83b7.parquet",
    "profiles/71bbabe9609b1d32.parquet",
    "profiles/96c666aa2c49100f.parquet",
    "profiles/9befedd6d5b77cca.parquet",
    "profiles/a7d6eb1bc8f4b7d3.parquet",
    "profiles/ac9e7786c8ae55b1.parquet",
    "profiles/fef3b0bc4552ac31.parquet",
    "recommendations.jsonl",
    "results.jsonl",
    "run.json",
    "samples/43ba486056b0d03e.parquet",
    "samples/5c1ec10d314e83b7.parquet",
    "samples/71bbabe9609b1d32.parquet",
    "samples/96c666aa2c49100f.parquet",
    "samples/9befedd6d5b77cca.parquet",
    "samples/a7d6eb1bc8f4b7d3.parquet",
    "samples/ac9e7786c8ae55b1.parquet",
    "samples/fef3b0bc4552ac31.parquet",
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
        assert_eq!(records.expect("its records").len(), 8);
        let results = run.results().expect("its results");
        assert!(results.iter().any(|result| result.plugin.id == "latency"));
    }
}
