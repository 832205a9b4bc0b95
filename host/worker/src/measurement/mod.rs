//! One case, from opening the plugin to the report.
//!
//! Each step takes what the one before it returned, and their order is part of what is measured: files
//! are hashed before anything is opened, processors are settled before the clock is looked at, and
//! everything that needs additional memory or time comes after the measured part.

mod checking;
mod collecting;
mod context;
mod examining;
mod learning;
mod measuring;
mod opening;
mod preparing;

use std::path::Path;
use std::time::Duration;

use host_measure::SystemClock;
use host_record::protocol::CaseFiles;
use host_record::{Calibration, CaseSpec, Gap, WorkerReport};

use crate::connection::Connection;
use crate::failure::Stop;

use context::Context;

/// Measures a case.
pub(crate) fn measure(
    connection: &mut Connection,
    clock: &SystemClock,
    case: &CaseSpec,
    files: &CaseFiles,
    reference: Option<&Path>,
    calibration: Option<&Result<Calibration, Gap>>,
) -> Result<WorkerReport, Stop> {
    let interval = Duration::from_nanos(case.measure.timeout_ns / 10);
    let mut context = Context { connection, case, files, clock, calibration, interval };
    let mut opened = opening::open(&mut context)?;
    let prepared = preparing::prepare(&mut context, &opened)?;
    let checked = checking::check(&mut context, prepared, reference)?;
    let measured = measuring::measure(&mut context, &mut opened, checked)?;
    let examined = examining::examine(&mut context, &opened, measured)?;
    collecting::collect(&mut context, opened, examined)
}
