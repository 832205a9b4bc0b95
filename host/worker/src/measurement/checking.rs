//! Runs the model for the first time, and compares its outputs with the reference's: before anything is
//! timed, and again afterwards.

use std::path::Path;

use host_machine::Machine;
use host_measure::Target as _;
use host_record::{Check, Failure, Parity, Phase};
use plugin_api::client::Session;

use super::context::Context;
use super::preparing::{Prepared, Subject};
use crate::backend::BackendTarget;
use crate::failure::{self, Stop};
use crate::parity;
use crate::platform;
use crate::reference::{self, Outputs};

/// A target that has run once, and whose outputs match the reference if that is checked.
pub(super) struct Checked<'a> {
    pub(super) subject: Subject,
    pub(super) target: BackendTarget,
    pub(super) checked_outputs: Option<CheckedOutputs<'a>>,
    pub(super) first_run_ns: u64,
    /// Peak memory before the outputs were compared, which is the harness's own work.
    pub(super) peak_memory_bytes: Option<u64>,
}

/// Outputs that match the reference's. The reference's are read again when they are compared again, so that they take
/// no memory while the case is measured.
pub(super) struct CheckedOutputs<'a> {
    check: &'a Check,
    reference: Option<&'a Path>,
    pub(super) parity: Parity,
}

/// Runs the first call, and compares outputs with those in `reference` if the case asks for that.
pub(super) fn check<'a>(
    context: &mut Context<'a>,
    prepared: Prepared,
    reference: Option<&'a Path>,
) -> Result<Checked<'a>, Stop> {
    let case = context.case;
    let Prepared { subject, session, calls, compared } = prepared;
    let mut target = BackendTarget::new(session, calls);
    let ((), first_run_ns) = context
        .timed(Phase::FirstRun, || target.run().map_err(failure::backend(Phase::FirstRun)))?;
    target.check_outputs().map_err(failure::backend(Phase::FirstRun))?;
    let judge = parity::Case::of(case);
    let machine = Machine::this();
    let mut peak_memory_bytes = None;
    let mut checked_outputs = None;
    if let (Some(check), Some(calls)) = (&case.check, compared) {
        context.connection.enter(Phase::Check)?;
        peak_memory_bytes = machine.peak_memory();
        let expected = reference::expected(reference)?;
        // Engines may tune or compile during the first run, and answer wrongly in that run alone.
        let first = target.first_outputs(subject.model.info());
        let first = first.map_err(failure::backend(Phase::Check))?;
        parity::compare(check, judge, &expected[..1], &[first]).map_err(parity::of_first_run)?;
        let found = reference::answers(&subject.model, calls)?;
        let parity = parity::compare(check, judge, &expected, &found)?;
        checked_outputs = Some(CheckedOutputs { check, reference, parity });
        drop((expected, found));
        platform::give_memory_back();
        machine.forget_peak_memory();
    }
    Ok(Checked { subject, target, checked_outputs, first_run_ns, peak_memory_bytes })
}

impl CheckedOutputs<'_> {
    /// Compares again: the outputs of the timed calls, and those of new calls. A backend may have gone wrong
    /// since, and the timed calls must be the checked ones.
    pub(super) fn again(
        &self,
        context: &mut Context<'_>,
        subject: &mut Subject,
        session: &Session,
        timed: Outputs,
    ) -> Result<(), Stop> {
        context.connection.enter(Phase::Check)?;
        let batches = subject.examples.different_batches()?;
        let calls = reference::calls(&subject.model, session, &batches)?;
        let found = reference::answers(&subject.model, calls)?;
        let compare = |expected: &[Outputs], found: &[Outputs]| -> Result<Parity, Failure> {
            parity::compare(self.check, parity::Case::of(context.case), expected, found)
                .map_err(parity::after_measuring)
        };
        let expected = reference::expected(self.reference)?;
        compare(&expected[..1], &[timed])?;
        compare(&expected, &found)?;
        Ok(())
    }
}
