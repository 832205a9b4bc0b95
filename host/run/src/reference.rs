//! Outputs of references, computed once for all cases that are compared with them.

use std::collections::HashMap;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::time::Duration;

use host_record::protocol::{PROTOCOL_VERSION, Request};
use host_record::{CaseSpec, Failure, Phase};

use crate::Interrupt;
use crate::resolver::LocalPlugin;
use crate::resolver::{Found, Resolver, find};
use crate::supervise::{Conclusion, Limits, Program, supervise};

/// Reference of a case.
#[derive(Debug, PartialEq)]
pub(crate) enum Reference {
    /// The case has no check.
    Unasked,
    /// The file with the reference's outputs.
    Kept(PathBuf),
    /// The reference failed.
    Failed(Failure),
    /// A stop was requested.
    Interrupted,
}

/// References that failed in this run and are not tried again.
#[derive(Debug, Default)]
pub(crate) struct References {
    failed: HashMap<String, Failure>,
}

impl References {
    /// Returns the reference of a case. It is made in a separate worker, unless its file already exists: from an
    /// earlier case, or from before the run was interrupted.
    pub(crate) fn of(
        &mut self,
        folder: Option<&Path>,
        worker: &Path,
        resolver: &dyn Resolver,
        case: &CaseSpec,
        interrupt: &Interrupt,
    ) -> Reference {
        let Some(check) = &case.check else { return Reference::Unasked };
        let no_reference = |failure: &Failure| match failure {
            // The model is the reason, whoever runs it.
            Failure::Gap { .. } | Failure::Varies { .. } => Reference::Failed(failure.clone()),
            _ => {
                let detail = format!("the reference, {}, failed: {failure}", check.reference());
                Reference::Failed(Failure::NoReference { detail })
            }
        };
        if let Some(failure) = self.failed.get(&check.id) {
            return no_reference(failure);
        }
        let Some(folder) = folder else {
            let detail = "this run has no folder to keep it in".into();
            return no_reference(&Failure::NotStarted { detail });
        };
        let file = folder.join(&check.id);
        if file.is_file() {
            return Reference::Kept(file);
        }
        let case = case.reference(check);
        let found = find(resolver, &case);
        match found.and_then(|found| make(worker, case, found, folder, &file, interrupt)) {
            Ok(true) => Reference::Kept(file),
            Ok(false) => Reference::Interrupted,
            Err(failure) => {
                let reference = no_reference(&failure);
                self.failed.insert(check.id.clone(), failure);
                reference
            }
        }
    }
}

/// Returns whether it was made; `false` if a stop was requested.
fn make(
    worker: &Path,
    case: CaseSpec,
    found: Found,
    folder: &Path,
    file: &Path,
    interrupt: &Interrupt,
) -> Result<bool, Failure> {
    std::fs::create_dir_all(folder).map_err(|error| Failure::NotStarted {
        detail: format!("{}: {error}", folder.display()),
    })?;
    let limits = Limits {
        silence: Duration::from_nanos(case.measure.timeout_ns),
        measuring: Duration::ZERO,
        memory: case.measure.memory_limit_bytes,
    };
    let request = Request::Reference {
        protocol_version: PROTOCOL_VERSION,
        case: Box::new(case),
        files: Box::new(found.files),
        file: file.to_owned(),
    };
    let LocalPlugin { runtime, variables, .. } = &found.plugin;
    let program = Program { executable: worker, runtime: runtime.as_deref(), variables };
    let ignore = |_| Ok::<_, Infallible>(());
    let Ok((conclusion, _)) = supervise(program, &request, limits, interrupt, None, ignore);
    match conclusion {
        Conclusion::Kept => Ok(true),
        Conclusion::Interrupted => Ok(false),
        other => Err(other.instead_of("word that outputs are kept", Phase::Start)),
    }
}
