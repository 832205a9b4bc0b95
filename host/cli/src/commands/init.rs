//! `host init`.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::path::Path;

use host_experiment::{ModelManifest, manifest_for};
use serde_json::json;

use crate::arguments::InitArguments;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::printer::Printer;
use crate::table;

/// The file that the template's `#:schema` line names, beside the manifest: editors complete and
/// check a manifest by it, also those of colleagues who do not have the tool.
const SCHEMA: &str = "manifest.schema.json";

pub(crate) fn init(arguments: &InitArguments, printer: &Printer) -> Result<Exit> {
    let path = &arguments.file;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let ModelManifest { text, guessed } = match &arguments.model {
        Some(model) => manifest_for(model, folder.unwrap_or(Path::new(".")))?,
        None => ModelManifest { text: host_manifest::TEMPLATE.to_owned(), guessed: Vec::new() },
    };
    write(path, &text, arguments.force)
        .map_err(|failure| failure.help("name another file, or replace this one with --force"))?;
    let schema = path.with_file_name(SCHEMA);
    // It belongs to the tool and not to the user: a new version of the tool brings a new one.
    write(&schema, &format!("{:#}\n", host_manifest::json_schema()), true)?;
    let written = json!({ "manifest": path, "schema": schema, "guessed": guessed });
    if !printer.machine(|| written.clone(), || table::of_object(&written)) {
        printer.status("Wrote", path.display());
        printer.detail(format_args!("and {}, for your editor", schema.display()));
        for input in &guessed {
            printer.detail(format_args!(
                "`{input}` decides what is computed, or how much: 1 is a guess, so set `low` and `high`"
            ));
        }
        let first = if arguments.model.is_none() { "set `path` of the model, then: " } else { "" };
        printer.detail(format_args!("{first}host run {}", path.display()));
    }
    Ok(Exit::Success)
}

fn write(path: &Path, text: &str, replace: bool) -> Result<()> {
    let mut options = OpenOptions::new();
    options.write(true);
    if replace {
        options.create(true).truncate(true);
    } else {
        options.create_new(true);
    }
    let outcome = options.open(path).and_then(|mut file| file.write_all(text.as_bytes()));
    outcome.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            Failure::new(Exit::Failure, format!("{} exists already", path.display()))
        }
        _ => Failure::io("write", path, error),
    })
}
