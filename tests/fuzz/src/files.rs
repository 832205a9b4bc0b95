//! Targets that read files.

use std::fs;
use std::path::{Path, PathBuf};

use host_experiment::{GateOptions, RunFigures, compare, judge};
use host_record::PortAxis;
use host_record::Views;
use host_registry::RuntimeLock;
use host_store::{ResultsFolder, RunFolder, RunViews};
use onnx_file::OnnxFile;
use tempfile::TempDir;

use crate::container::{SAMPLES, unpack};

/// Creates a folder, in memory if the system supports it.
fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    folder.expect("a temporary folder")
}

/// Writes the input to a file.
fn file(folder: &TempDir, name: &str, data: &[u8]) -> PathBuf {
    let path = folder.path().join(name);
    fs::write(&path, data).expect("a temporary file");
    path
}

/// Unpacks a run folder, packed by [`crate::pack`], and reads its journal and the columns of its cases.
fn journal(data: &[u8]) -> Option<(TempDir, RunFolder)> {
    let folder = folder();
    let path = folder.path().join("run");
    fs::create_dir(&path).expect("a temporary folder");
    unpack(data, &path).expect("temporary files");
    let named = folder.path().join(run_id(&path).unwrap_or_else(|| "run".into()));
    fs::rename(&path, &named).expect("renaming it");
    let run = RunFolder::open(&named).ok()?;
    let _ = run.finished();
    if let Ok(plan) = run.plan() {
        plan.take_while(Result::is_ok).for_each(drop);
    }
    let _ = run.results();
    let _ = run.recommendations();
    for record in run.records().ok()?.map_while(Result::ok) {
        let _ = run.columns(&record, host_record::column::ALL);
    }
    Some((folder, run))
}

/// Returns the id in a header, which the folder's name must be, if a folder can have that name.
fn run_id(folder: &Path) -> Option<String> {
    let header = fs::read(folder.join("run.json")).ok()?;
    let header = String::from_utf8_lossy(&header);
    let (_, rest) = header.split_once("\"run-id\"")?;
    let id = rest.split('"').nth(1)?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
    let is_name = id.len() <= 200 && id.bytes().any(|byte| byte.is_ascii_alphanumeric());
    (is_name && id.bytes().all(is_plain)).then(|| id.to_owned())
}

/// Reads everything that `host results show` and reports read from a run folder.
pub(crate) fn run_folder(data: &[u8]) {
    let Some((_folder, run)) = journal(data) else { return };
    let Ok(views) = RunViews::open(&run) else { return };
    for name in views.names() {
        let _ = views.read(&name);
    }
}

/// Reads a baseline, compares it with itself, and judges it by itself.
pub(crate) fn baseline(data: &[u8]) {
    let folder = folder();
    let path = file(&folder, "it.json", data);
    let results = ResultsFolder::new(folder.path());
    let name = path.to_str().expect("a temporary folder has a plain name");
    let Ok(figures) = RunFigures::find(name, &results) else { return };
    let comparison = compare(&figures, &figures, 0.05);
    for case in &comparison.cases {
        for change in case.others.iter().chain([&case.main]) {
            let _ = (change.verdict(), change.part(), change.detectable(), change.needed(0.05));
            let _ = change.after.as_ref().map(|figure| figure.interval());
        }
    }
    let options = GateOptions { max_regression: 0.05, metrics: Vec::new() };
    let _ = judge(&figures, Some(&figures), &[], &options).map(|gate| gate.outcome());
}

/// Reads the samples of a case, in an otherwise intact run folder.
pub(crate) fn samples(data: &[u8]) {
    let whole = include_bytes!("../corpus/run-folder/whole");
    let mut packed = whole.to_vec();
    // The last file of a name wins.
    packed.push(SAMPLES);
    packed.extend_from_slice(&u32::try_from(data.len()).unwrap_or(0).to_le_bytes()[..3]);
    packed.extend_from_slice(data);
    let _ = journal(&packed);
}

/// Unpacks a wheel of a locked package.
pub(crate) fn wheel(data: &[u8]) {
    let lock = "schema = 1\n[[package]]\nplatform = \"linux-x86_64\"\nname = \"demo\"\nversion = \"1.0\"\n\
                file = \"demo-1.0-py3-none-any.whl\"\n\
                sha256 = \"0000000000000000000000000000000000000000000000000000000000000000\"\n\
                bytes = 1\nunpack = [\"demo/*\", \"*.so\"]\n";
    let lock = RuntimeLock::parse(lock, Path::new("runtime.lock")).expect("a lock");
    let folder = folder();
    let path = file(&folder, "demo-1.0-py3-none-any.whl", data);
    let into = folder.path().join("into");
    let _ = host_runtime::fuzzing::unpack(&lock.packages[0], &path, &into);
    // Nothing may be written elsewhere.
    let outside: Vec<_> = fs::read_dir(folder.path())
        .expect("the folder is there")
        .map(|entry| entry.expect("an entry").file_name())
        .filter(|name| name != "into" && name != "demo-1.0-py3-none-any.whl")
        .collect();
    assert!(outside.is_empty(), "{outside:?}");
}

/// Reads a NumPy file.
pub(crate) fn npy(data: &[u8]) {
    let folder = folder();
    let path = file(&folder, "data.npy", data);
    host_worker::fuzzing::npy(&path);
}

/// Reads a model.
pub(crate) fn onnx(data: &[u8]) {
    let folder = folder();
    let path = file(&folder, "model.onnx", data);
    if let Ok(model) = OnnxFile::read(&path) {
        let info = model.info();
        let _ = model.precision();
        for input in info.inputs {
            let _ = model.dtype_of_input(&input.name);
        }
    }
    // As `host inspect` reads it.
    if let Ok(model) = host_onnx::Model::read(&path) {
        let size = |axis: &PortAxis| match axis {
            PortAxis::Fixed(size) => *size,
            PortAxis::Dynamic(_) => 2,
        };
        let shapes = model.facts.inputs.iter().filter_map(|input| {
            Some((input.name.clone(), input.axes.as_ref()?.iter().map(size).collect()))
        });
        let _ = model.cost(&shapes.collect());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_run_is_read() {
        assert!(journal(include_bytes!("../corpus/run-folder/whole")).is_some());
    }
}
