//! `host bench`: models from the command line, without a manifest of one's own.

use std::fs;
use std::path::Path;

use host_experiment::{Draft, Error, Settings};
use host_hash::sha256;

use crate::arguments::BenchArguments;
use crate::commands::run::run_draft;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::printer::Printer;

/// Folder of the manifests that this command writes, in the results folder.
const MANIFESTS: &str = "manifests";

pub(crate) fn bench(
    arguments: &BenchArguments,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit> {
    let quick = arguments.quick();
    let manifest = quick.manifest().map_err(|error| match error {
        Error::Io { .. } => {
            Failure::from(error).help("give files of models, such as `host bench model.onnx`")
        }
        error => Failure::from(error),
    })?;
    // The same words are the same file, and other words do not replace it.
    let hash = &sha256(manifest.text.as_bytes())[..8];
    let folder = settings.results(None).join(MANIFESTS);
    fs::create_dir_all(&folder).map_err(|error| Failure::io("create", &folder, error))?;
    let path = folder.join(format!("{}-{hash}.toml", manifest.name));
    fs::write(&path, &manifest.text).map_err(|error| Failure::io("write", &path, error))?;
    printer.status("Manifest", path.display());
    run_draft(Draft::read(Path::new(&path))?, &arguments.run, settings, printer)
}
