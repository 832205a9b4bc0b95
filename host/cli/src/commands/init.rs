//! `host init`.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};

use crate::arguments::InitArguments;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::printer::Printer;

pub(crate) fn init(arguments: &InitArguments, printer: &Printer) -> Result<Exit> {
    let path = &arguments.file;
    let mut options = OpenOptions::new();
    options.write(true);
    if arguments.force {
        options.create(true).truncate(true);
    } else {
        options.create_new(true);
    }
    let written =
        options.open(path).and_then(|mut file| file.write_all(host_manifest::TEMPLATE.as_bytes()));
    match written {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            return Err(Failure::new(Exit::Failure, format!("{} exists already", path.display()))
                .help("name another file, or replace this one with --force"));
        }
        Err(error) => return Err(Failure::io("write", path, error)),
    }
    printer.status("Wrote", path.display());
    printer.detail(format_args!("set `path` of the model, then: host run {}", path.display()));
    Ok(Exit::Success)
}
