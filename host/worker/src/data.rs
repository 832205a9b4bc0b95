//! Data of a case, checked before anything is measured.

use host_record::protocol::CaseFiles;
use host_record::{CaseSpec, Failure};

use crate::examples::Examples;
use crate::inspect;

/// Checks the files of a case against its model's file, by the rules that hold when the engine has loaded it.
pub(crate) fn check_inputs(case: &CaseSpec, files: &CaseFiles) -> Result<(), Failure> {
    if files.model.extension().is_none_or(|extension| extension != "onnx") {
        return Ok(());
    }
    let model = inspect::read(&files.model)?.info();
    match Examples::new(case, files, &model) {
        // The engine may know more, and the case becomes a gap or not.
        Ok(_) | Err(Failure::Gap { .. }) => Ok(()),
        Err(failure) => Err(failure),
    }
}
