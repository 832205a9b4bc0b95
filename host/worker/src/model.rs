//! The model's files: whether they are those that were planned, and loading them.

use std::io;
use std::path::Path;
use std::time::Duration;

use host_hash::sha256_of_reader;
use host_record::protocol::CaseFiles;
use host_record::{CaseSpec, Failure, Phase};
use plugin_api::client::{Backend, LoadRequest, Model};

use crate::connection::Connection;
use crate::failure::{self, Stop, input};
use crate::library::nonempty_hash;

/// Refuses a model that is not the one that the case is named for. Its files are read now in any case,
/// since loading them comes next.
pub(crate) fn check(
    connection: &mut Connection,
    case: &CaseSpec,
    files: &CaseFiles,
    interval: Duration,
) -> Result<(), Stop> {
    check_file(connection, &files.model, &case.model.sha256, interval)?;
    let folder = files.model.parent().unwrap_or(Path::new(""));
    for part in &case.model.parts {
        check_file(connection, &folder.join(&part.name), &part.sha256, interval)?;
    }
    Ok(())
}

fn check_file(
    connection: &mut Connection,
    path: &Path,
    sha256: &str,
    interval: Duration,
) -> Result<(), Stop> {
    let Some(expected) = nonempty_hash(sha256) else { return Ok(()) };
    let shown = path.display();
    let unreadable = |error: io::Error| Stop::from(input(format!("{shown}: {error}")));
    let mut file = host_files::open(path).map_err(unreadable)?;
    let found = sha256_of_reader(&mut file, |_| connection.progress(interval))?;
    let found = found.map_err(unreadable)?;
    if found == expected {
        return Ok(());
    }
    let detail = format!(
        "the model {shown} has changed: its SHA-256 was {expected} when the run was planned, and is \
         {found} now"
    );
    Err(input(detail).into())
}

/// Loads the model with the case's options and these.
pub(crate) fn load(
    backend: &Backend,
    case: &CaseSpec,
    files: &CaseFiles,
    more: &[(&str, &str)],
) -> Result<Model, Failure> {
    let options = case.options.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    let options: Vec<_> = options.chain(more.iter().copied()).collect();
    let path = files.model.to_str().ok_or_else(|| {
        input(format!("the model's path is not UTF-8: {}", files.model.display()))
    })?;
    let request =
        LoadRequest { path, device: &case.key.device, threads: case.threads, options: &options };
    backend.load_for(case.key.mode.name(), &request).map_err(failure::backend(Phase::Load))
}
