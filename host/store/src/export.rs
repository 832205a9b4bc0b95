//! Export of a run to files that other tools read.

use std::fs;
use std::path::Path;

use crate::database::path_literal;
use crate::error::StoreError;
use crate::run::{CaseFile, LostFile, RunFolder};
use crate::views::{NAMES, RunViews};

/// File formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportFormat {
    /// Comma-separated values with a header.
    Csv,
    /// Apache Parquet, zstd.
    Parquet,
    /// A JSON object on each line. An output that is infinite or not a number is null, since JSON
    /// has no such numbers.
    JsonLines,
}

/// Additional exports beside the fixed views, each with its view.
const OVER_FILES: [(&str, &str); 4] = [
    ("samples", "raw_benchmark_data"),
    ("outputs", "outputs"),
    ("operators", "operators"),
    ("device_states", "device_states"),
];

/// Returns the names of all views that [`export`] writes; `docs/reference/views.md` lists their columns.
pub fn exported_views() -> impl Iterator<Item = &'static str> {
    // The history is of other runs, and `operators` has what the profile sums.
    let of_run = NAMES.into_iter().filter(|name| !["history", "profile"].contains(name));
    OVER_FILES.map(|(name, _)| name).into_iter().chain(of_run)
}

/// Writes a view of a run to a file: `samples` (one row per query), `outputs` (one row per example and output),
/// `operators` (one row per operator of a profile), `device_states` (one row per sample of the device's state),
/// or one of the fixed views. The rows are streamed, so any number of samples can be exported; the file is
/// complete or absent. If the run has lost files, a view that needs them is not exported at all: a table with
/// fewer cases would look complete.
///
/// # Errors
///
/// If there is no such view, the run cannot be read, or the file cannot be written;
/// [`StoreError::LostFiles`] if finished cases have lost files that the view needs.
pub fn export(
    folder: &RunFolder,
    view: &str,
    format: ExportFormat,
    path: &Path,
) -> Result<(), StoreError> {
    let views = RunViews::open_unconfined(folder)?;
    if !exported_views().any(|name| name == view) {
        let names = exported_views().collect::<Vec<_>>().join(", ");
        let detail = format!("there is no view `{view}`; there are: {names}");
        return Err(StoreError::Query { detail });
    }
    let over_files = OVER_FILES.iter().find(|(name, _)| *name == view);
    let source = over_files.map_or(view, |(_, source)| source);
    let needed = match source {
        "outputs" => Some(CaseFile::Outputs),
        "operators" => Some(CaseFile::Profile),
        "device_states" => Some(CaseFile::DeviceStates),
        "raw_benchmark_data" | "latency_quantiles" | "latency_histogram" | "timeline" => {
            Some(CaseFile::Samples)
        }
        _ => None,
    };
    let files = views.lost().iter().filter(|lost| Some(lost.file) == needed);
    let files: Vec<LostFile> = files.cloned().collect();
    if !files.is_empty() {
        return Err(StoreError::LostFiles { files });
    }
    let columns = match (source, format) {
        // In other views every value is finite.
        ("outputs", ExportFormat::JsonLines) => {
            "* REPLACE (list_transform(values, lambda x: CASE WHEN isfinite(x) THEN x END) AS values)"
        }
        _ => "*",
    };
    let options = match format {
        ExportFormat::Csv => "FORMAT csv, HEADER true",
        ExportFormat::Parquet => "FORMAT parquet, COMPRESSION zstd",
        ExportFormat::JsonLines => "FORMAT json, ARRAY false",
    };
    let mut beside = path.as_os_str().to_owned();
    beside.push(".partial");
    let beside = Path::new(&beside);
    let written = views
        .copy(source, columns, &path_literal(beside), options)
        .and_then(|()| fs::rename(beside, path).map_err(StoreError::io("write", path)));
    if written.is_err() {
        // A partial file is useless, and a missing one is not an error.
        let _ = fs::remove_file(beside);
    }
    written
}
