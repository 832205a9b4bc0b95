//! Items of one of a case's processes, which are numbered from 0.

use std::fmt;

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
pub(crate) fn is_first(process: &u32) -> bool {
    *process == 0
}

/// Writes which process it was, unless it was the first.
pub(crate) fn in_process(formatter: &mut fmt::Formatter<'_>, process: u32) -> fmt::Result {
    match process {
        0 => Ok(()),
        _ => write!(formatter, "in process {}: ", process + 1),
    }
}
