//! One module for each command.

pub(crate) mod authoring;
pub(crate) mod bench;
pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod devices;
pub(crate) mod doctor;
pub(crate) mod generate;
pub(crate) mod history;
pub(crate) mod init;
pub(crate) mod inspect;
pub(crate) mod plan;
pub(crate) mod plugin_test;
pub(crate) mod plugins;
pub(crate) mod profile;
pub(crate) mod recompute;
pub(crate) mod report;
pub(crate) mod results;
pub(crate) mod run;
pub(crate) mod run_part;
pub(crate) mod runtimes;
pub(crate) mod serve;
pub(crate) mod trial;
pub(crate) mod validate;

use std::io::Read as _;
use std::path::Path;

use host_experiment::{Draft, LARGEST_MANIFEST};

use crate::exit::Exit;
use crate::failure::{Failure, Result};

/// Reads a manifest; `-` is standard input.
pub(crate) fn manifest_of(path: &Path) -> Result<Draft> {
    if path != Path::new("-") {
        return Ok(Draft::read(path)?);
    }
    let mut bytes = Vec::new();
    std::io::stdin()
        .lock()
        .take(LARGEST_MANIFEST + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::io("read", Path::new("standard input"), error))?;
    if bytes.len() as u64 > LARGEST_MANIFEST {
        let limit = LARGEST_MANIFEST >> 20;
        let message = format!("the manifest on standard input is longer than {limit} MiB");
        return Err(Failure::new(Exit::Manifest, message));
    }
    let name = Path::new("<stdin>");
    Ok(Draft::of_bytes(name, name, bytes)?)
}
