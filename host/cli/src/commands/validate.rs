//! `host validate`: everything about a manifest that can be checked without running it.

use serde_json::json;

use crate::arguments::ManifestArgument;
use crate::exit::Exit;
use crate::experiment::{Manifest, choose_backends};
use crate::failure::{Failure, Result};
use crate::guests;
use crate::printer::Printer;
use crate::settings::Settings;
use crate::units;

pub(crate) fn validate(
    arguments: &ManifestArgument,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit> {
    let manifest = Manifest::read(&arguments.manifest)?;
    let files = manifest.files().err();
    let registry = settings.registry(&manifest.plugin_folders());
    let backends = choose_backends(&manifest.experiment, &registry, printer);
    let guests = guests::Chosen::all(&manifest.experiment, &registry);
    let failures = files.into_iter().chain(backends.err()).chain(guests.err());
    if let Some(failure) = Failure::all(failures) {
        return Err(failure);
    }
    let experiment = &manifest.experiment;
    let document = || {
        json!({
            "manifest": manifest.path,
            "experiment": experiment.name,
            "models": experiment.models.len(),
            "backends": experiment.backends.len(),
            "valid": true,
        })
    };
    let row = || host_record::Table {
        columns: ["manifest", "experiment", "valid"].map(Into::into).into(),
        rows: vec![vec![
            host_record::Cell::Text(manifest.path.display().to_string()),
            host_record::Cell::Text(experiment.name.clone()),
            host_record::Cell::Boolean(true),
        ]],
    };
    if !printer.machine(document, row) {
        printer.status(
            "Valid",
            format_args!(
                "{}: {}, {}, {}",
                arguments.manifest.display(),
                units::count(experiment.models.len() as u64, "model", "models"),
                units::count(experiment.backends.len() as u64, "backend", "backends"),
                units::count(experiment.metrics.len() as u64, "metric", "metrics"),
            ),
        );
    }
    Ok(Exit::Success)
}
