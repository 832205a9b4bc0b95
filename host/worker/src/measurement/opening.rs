//! Opens the plugin, on processors that are settled and under a clock that is known.

use std::time::Duration;

use host_machine::Machine;
use host_measure::{Calibration, Meter, SystemClock, calibrate};
use host_record::{Failure, Phase, Scheduling};
use plugin_api::client::{Backend, Description};

use super::context::Context;
use crate::failure::{self, Stop};
use crate::library::{Library, nonempty_hash};
use crate::oversubscription::Beforehand;
use crate::{cancel, model, pinning};

/// Samples leave the worker at least this often, so that a crash loses few of them.
const LONGEST_BLOCK: Duration = Duration::from_secs(1);

/// An open plugin, and the machine that it was opened on.
pub(super) struct Opened<'clock> {
    pub(super) backend: Backend,
    pub(super) description: Description,
    pub(super) open_ns: u64,
    pub(super) scheduling: Scheduling,
    pub(super) beforehand: Beforehand,
    pub(super) calibration: Calibration,
    pub(super) meter: Meter<'clock, SystemClock>,
    pub(super) baseline_memory_bytes: Option<u64>,
}

/// Checks library and model against the plan, settles processors and clock, and opens the plugin.
pub(super) fn open<'clock>(context: &mut Context<'clock>) -> Result<Opened<'clock>, Stop> {
    let Context { case, files, clock, interval, .. } = *context;
    // Before anything is timed: what was hashed when the run was planned is what is measured.
    let library = Library::check(&files.library, nonempty_hash(&case.plugin.sha256))?;
    model::check(context.connection, case, files, interval)?;
    // Before the clock is measured, which may differ from processor to processor, and before the
    // plugin is opened, whose threads inherit it.
    let machine = Machine::this();
    let scheduling = pinning::pin(case, &machine)?;
    let beforehand = Beforehand::start(&machine);
    let calibration =
        calibrate(clock).map_err(|error| Failure::Impossible { detail: error.to_string() })?;
    let longest_block = interval.min(LONGEST_BLOCK).as_nanos() as u64;
    let meter = Meter::new(clock, Meter::<SystemClock>::BLOCK, longest_block);
    let baseline_memory_bytes = machine.resident_memory();
    let on_progress = context.connection.reporter(interval)?;
    let (backend, open_ns) = context.timed(Phase::Open, || library.open(on_progress))?;
    // A side of a pair reads the same input for its turns.
    if case.measure.pair.is_none() {
        cancel::listen(context.connection, &backend)?;
    }
    let description = backend.describe().map_err(failure::backend(Phase::Open))?;
    Ok(Opened {
        backend,
        description,
        open_ns,
        scheduling,
        beforehand,
        calibration,
        meter,
        baseline_memory_bytes,
    })
}
