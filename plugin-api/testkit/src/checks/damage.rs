//! Damaged models. An engine need not detect the damage, because it need not read all of
//! a file; but users do have such files, and they must not end the process.

use std::fs;
use std::path::{Path, PathBuf};

use plugin_api::client::{Backend, Error, ErrorCode, TensorData};
use tempfile::TempDir;

use super::{Loading, attempt, cycle, describe_error, device, ensure, load_with, names, refused};
use crate::fixture::Fixture;
use crate::{Suite, Verdict};

/// Number of bits that are flipped, one at a time, in each part of a model.
const FLIPS: usize = 16;
/// Most files describe their contents at the beginning and end.
const EDGE: usize = 1024;

fn folder() -> Result<TempDir, String> {
    tempfile::tempdir().map_err(|error| format!("no folder for a damaged model: {error}"))
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    fs::write(path, bytes).map_err(|error| format!("{}: {error}", path.display()))
}

/// Returns the same name in another folder: engines use the file's extension.
fn beside(folder: &TempDir, file: &Path) -> Result<PathBuf, String> {
    Ok(folder.path().join(file.file_name().ok_or("the model has no file name")?))
}

/// Loads, prepares and runs a model that may have become another one.
fn use_model(
    backend: &Backend,
    fixture: &Fixture,
) -> Result<Result<Vec<TensorData>, Error>, String> {
    let device = device(backend, fixture)?;
    let path = fixture.model.to_str().ok_or("the model's path is not UTF-8")?;
    let loading = Loading { path, device: &device, extra_option: None };
    Ok(load_with(backend, fixture, &loading).and_then(|model| attempt(&model, fixture)))
}

/// Gives the backend damaged models, then intact ones.
fn survives(
    suite: &Suite,
    fixture: &Fixture,
    damages: impl Iterator<Item = (String, Vec<u8>)>,
) -> Result<Verdict, String> {
    let backend = suite.backend()?;
    let folder = folder()?;
    let damaged = Fixture { model: beside(&folder, &fixture.model)?, ..fixture.clone() };
    for (what, bytes) in damages {
        suite.note(&what);
        write(&damaged.model, &bytes)?;
        if let Err(error) = use_model(&backend, &damaged)? {
            refused::<()>(Err(error), &what)?;
        }
    }
    cycle(&backend, fixture).map_err(|detail| format!("after damaged models: {detail}"))?;
    Ok(Verdict::Holds)
}

pub(super) fn cut_off_models(suite: &Suite, fixture: &Fixture) -> Result<Verdict, String> {
    let whole = read(&fixture.model)?;
    let size = whole.len();
    let lengths = [0, 1, size / 4, size / 2, size / 4 * 3, size.saturating_sub(1)];
    let cut = lengths.map(|length| {
        (
            format!("a model cut off after {length} of {size} bytes"),
            whole[..length.min(size)].to_vec(),
        )
    });
    survives(suite, fixture, cut.into_iter())
}

pub(super) fn flipped_models(suite: &Suite, fixture: &Fixture) -> Result<Verdict, String> {
    let whole = read(&fixture.model)?;
    let size = whole.len();
    let edge = size.min(EDGE);
    let parts = [0..edge, 0..size, size - edge..size];
    let places = parts.into_iter().flat_map(|part| {
        (0..FLIPS).map(move |number| (part.start + part.len() * number / FLIPS, number % 8))
    });
    let flipped = places.filter(|(byte, _)| *byte < size).map(|(byte, bit)| {
        let mut bytes = whole.clone();
        bytes[byte] ^= 1 << bit;
        (format!("a model with bit {bit} of byte {byte} of {size} flipped"), bytes)
    });
    survives(suite, fixture, flipped)
}

pub(super) fn external_data(suite: &Suite, fixture: &Fixture) -> Result<Verdict, String> {
    let Some((fixture, files)) = fixture.of_external_data() else {
        let reason = "the fixture has no model with data in other files";
        return Ok(Verdict::NotChecked(reason.into()));
    };
    let backend = suite.backend()?;
    match use_model(&backend, &fixture)? {
        Err(error) if error.code == ErrorCode::Unsupported => {
            let error = refused::<()>(Err(error), "data in other files")?;
            return Ok(Verdict::NotChecked(format!("not supported: {}", error.message)));
        }
        outputs => super::compare(&describe_error(outputs)?, &fixture)?,
    }
    for lost in files {
        let folder = folder()?;
        let apart = Fixture { model: beside(&folder, &fixture.model)?, ..fixture.clone() };
        write(&apart.model, &read(&fixture.model)?)?;
        for file in files.iter().filter(|file| *file != lost) {
            write(&beside(&folder, file)?, &read(file)?)?;
        }
        let name = lost.file_name().unwrap_or_default().to_string_lossy();
        let what = format!("a model without its file `{name}`");
        suite.note(&what);
        let error = refused(use_model(&backend, &apart)?, &what)?;
        names(&error, &name)?;

        let bytes = read(lost)?;
        let half = &bytes[..bytes.len() / 2];
        write(&beside(&folder, lost)?, half)?;
        let what = format!("a model of whose file `{name}` half is there");
        suite.note(&what);
        refused(use_model(&backend, &apart)?, &what)?;

        write(&beside(&folder, lost)?, &bytes)?;
        let outputs = describe_error(use_model(&backend, &apart)?)?;
        super::compare(&outputs, &apart)
            .map_err(|detail| format!("in another folder: {detail}"))?;
    }
    ensure(!files.is_empty(), || {
        "the fixture names no files of the model with external data".into()
    })?;
    Ok(Verdict::Holds)
}
