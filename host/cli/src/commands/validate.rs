//! `host validate`: everything about a manifest that can be checked without running it.

use host_experiment::Settings;
use serde_json::json;

use crate::arguments::ManifestArgument;
use crate::commands::manifest_of;
use crate::exit::Exit;
use crate::failure::Result;
use crate::notices::Console;
use crate::printer::Printer;
use host_experiment::units;

pub(crate) fn validate(
    arguments: &ManifestArgument,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit> {
    let draft = manifest_of(&arguments.manifest)?;
    let checked = draft.check(settings, &mut Console::new(printer))?;
    let manifest = checked.plan(settings)?.manifest;
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
