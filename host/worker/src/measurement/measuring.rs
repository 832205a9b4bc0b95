//! Measures: on this thread, or on one for each client.

use std::num::NonZeroU32;

use host_machine::Machine;
use host_measure::Crew;
use host_record::Phase;

use super::checking::{Checked, CheckedOutputs};
use super::context::Context;
use super::opening::Opened;
use super::preparing::{self, Subject};
use crate::backend::BackendTarget;
use crate::failure::{self, Stop};
use crate::lanes::Lanes;
use crate::load::{self, Bench, Load, Observed, SingleTarget};
use crate::marks::{MarkLog, MarkedTarget, Marking};

/// A target that was measured, and the figures.
pub(super) struct Measured<'a> {
    pub(super) subject: Subject,
    pub(super) target: BackendTarget,
    pub(super) checked_outputs: Option<CheckedOutputs<'a>>,
    pub(super) first_run_ns: u64,
    pub(super) lanes: NonZeroU32,
    /// Processors that other work kept busy before measuring.
    pub(super) others: Option<f64>,
    pub(super) figures: load::Measured,
    pub(super) peak_memory_bytes: Option<u64>,
}

/// Warms up, searches a rate if the case asks for one, and measures.
pub(super) fn measure<'a>(
    context: &mut Context<'a>,
    opened: &mut Opened<'a>,
    checked: Checked<'a>,
) -> Result<Measured<'a>, Stop> {
    let Context { case, clock, .. } = *context;
    let Checked { mut subject, mut target, checked_outputs, first_run_ns, peak_memory_bytes } =
        checked;
    let Opened { backend, scheduling, beforehand, meter, .. } = opened;
    let mut load = Load::new(case, &subject.examples)?;
    let others = beforehand.others();
    let connection = &mut *context.connection;
    let lanes = load.lanes();
    let observed = Observed { clock, backend, scheduling };
    let marking = Marking::of(case, target.session()).map_err(failure::backend(Phase::Prepare))?;
    let marks: Vec<MarkLog> = match &marking {
        Some(marking) => (0..lanes.get()).map(|_| MarkLog::new(&marking.phases)).collect(),
        None => Vec::new(),
    };
    let marks = marks.as_slice();
    let mut while_measuring = None;
    let figures = match (lanes.get(), marking) {
        (1, None) => {
            let runner = SingleTarget { meter, target: &mut target };
            load.run(&mut Bench { connection, runner, observed, marks }, first_run_ns)
        }
        (1, Some(marking)) => {
            let mut target = MarkedTarget::new(&mut target, &marking, clock, marks[0].clone());
            let runner = SingleTarget { meter, target: &mut target };
            load.run(&mut Bench { connection, runner, observed, marks }, first_run_ns)
        }
        (_, marking) => {
            // Each lane has a session and inputs of its own. One more would count as the case's memory.
            drop(target);
            let targets = Lanes::new(&subject.model, case, &mut subject.examples)?;
            let run = |crew: &mut Crew<'_, _, _>| {
                let connection = &mut *connection;
                let mut bench = Bench { connection, runner: crew, observed, marks };
                load.run(&mut bench, first_run_ns)
            };
            let measured = match marking {
                None => meter.with_crew(lanes, |lane| targets.target(lane), run),
                Some(_) => {
                    let log = |lane: u32| marks[lane as usize].clone();
                    meter.with_crew(lanes, |lane| targets.marked(lane, clock, log(lane)), run)
                }
            };
            let figures = measured.map_err(failure::backend(Phase::Prepare))?;
            while_measuring = Machine::this().peak_memory();
            targets.check()?;
            // The examination needs a single session.
            drop(targets);
            target = preparing::target(context, &mut subject)?;
            figures
        }
    }?;
    // Before the outputs are collected, which needs memory of its own.
    let while_measuring = while_measuring.or_else(|| Machine::this().peak_memory());
    let peak_memory_bytes = peak_memory_bytes.max(while_measuring);
    Ok(Measured {
        subject,
        target,
        checked_outputs,
        first_run_ns,
        lanes,
        others,
        figures,
        peak_memory_bytes,
    })
}
