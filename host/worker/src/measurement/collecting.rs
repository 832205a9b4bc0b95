//! Collects outputs for metrics, takes everything down and writes the report.

use host_record::protocol::Message;
use host_record::{
    Doubt, InvalidReason, OutputBlock, OutputObstacle, Phase, Warning, WorkerReport,
};
use plugin_api::client::{Call, Session};

use super::context::Context;
use super::examining::{Examined, Findings};
use super::opening::Opened;
use super::preparing::Subject;
use crate::backend::{Answer, tensors};
use crate::failure::{self, Stop};
use crate::outputs::{self, NotNumbers};

/// Collects outputs if there is a data set, unloads, and reports.
pub(super) fn collect(
    context: &mut Context<'_>,
    opened: Opened<'_>,
    examined: Examined,
) -> Result<WorkerReport, Stop> {
    let Examined { mut subject, session, mut not_numbers, findings, .. } = examined;
    let Findings { conditions, mut warnings, mut verdict } = findings;
    if let Some(count) = subject.examples.count {
        context.connection.enter(Phase::Outputs)?;
        match outputs(context, &mut subject, &session, count)? {
            // Of all examples, and not only of those that were read before.
            Ok(found) => not_numbers.iter_mut().take(1).for_each(|first| *first = found.clone()),
            Err(obstacle) => warnings.push(Doubt::OutputsNotCollected { obstacle }.into()),
        }
    }
    for output in &not_numbers {
        match output.judge(conditions.parity.is_some()) {
            Ok(doubt) => warnings.extend(doubt.map(Warning::from)),
            Err(breach) => verdict.reasons.push(breach.into()),
        }
    }
    let invalid =
        |reason: &InvalidReason| Warning::from(Doubt::Invalid { breach: reason.breach.clone() });
    warnings.splice(0..0, verdict.reasons.iter().map(invalid));

    context.connection.enter(Phase::Unload)?;
    let Subject { model, examples, used, .. } = subject;
    drop(session);
    drop(model);
    warnings.extend(opened.backend.end().into_iter().map(|error| {
        let code = failure::code(error.code);
        Doubt::EndFailed { call: error.call.into(), code, message: error.message }.into()
    }));

    Ok(WorkerReport {
        timings: examined.timings,
        peak_memory_bytes: examined.peak_memory_bytes,
        baseline_memory_bytes: opened.baseline_memory_bytes,
        labels: examples.labels,
        clock: examined.clock,
        warnings,
        used,
        pace: examined.pace,
        verdict: Some(verdict),
        search: examined.search,
        warm_up: examined.warm_up,
        // The host knows both sides.
        paired: None,
        conditions,
        profile: examined.operators,
        device_states: examined.device_samples,
    })
}

/// An output other than the first is kept if all of it takes no more than this, in bytes: it may be as large as
/// a layer, and nobody may want it.
const LARGEST_OTHER: u64 = 64 << 20;

/// An output that is being collected.
struct Collected<'a> {
    name: &'a str,
    width: Option<u64>,
    /// Reason why collecting stopped.
    ended: Option<OutputObstacle>,
}

impl Collected<'_> {
    /// Checks that a block matches the earlier ones.
    fn takes(&mut self, block: &OutputBlock) -> Result<(), OutputObstacle> {
        let expected = *self.width.get_or_insert(block.width);
        if block.width == expected {
            return Ok(());
        }
        Err(OutputObstacle::WidthChanged {
            output: block.name.clone(),
            example: block.first_example,
            values: block.width,
            before: expected,
        })
    }
}

/// Runs the whole data set once more, untimed, sends the outputs of each example and counts what is NaN in
/// the first. The inner error says why there is no first output to send, which does not make the case fail.
fn outputs(
    context: &mut Context<'_>,
    subject: &mut Subject,
    session: &Session,
    count: u64,
) -> Result<Result<NotNumbers, OutputObstacle>, Stop> {
    let backend = failure::backend(Phase::Outputs);
    let batch = u64::from(context.case.key.batch);
    let Subject { model, examples, .. } = subject;
    let mut all: Vec<Collected<'_>> = model
        .info()
        .outputs
        .iter()
        .map(|info| Collected { name: &info.name, width: None, ended: None })
        .collect();
    let Some(first) = all.first() else { return Ok(Err(OutputObstacle::NoOutput)) };
    let mut not_numbers = NotNumbers { name: first.name.into(), found: 0, of: 0 };
    let mut call: Option<Call> = None;
    for index in 0..examples.batches() {
        let inputs = tensors(model, &examples.batch(index)?).map_err(&backend)?;
        let call = match &mut call {
            Some(call) => {
                for (position, input) in inputs.into_iter().enumerate() {
                    call.set_input(position, input).map_err(&backend)?;
                }
                call
            }
            None => call.insert(session.call(inputs).map_err(&backend)?),
        };
        call.run().map_err(&backend)?;
        let first = index * batch;
        for (position, output) in all.iter_mut().enumerate() {
            if output.ended.is_some() {
                continue;
            }
            let answer = Answer::read(call, position).map_err(&backend)?;
            if let (0, Answer::Numbers(data)) = (position, &answer) {
                not_numbers = not_numbers.and(&NotNumbers::of(output.name, data));
            }
            let blocks = outputs::blocks(output.name, &answer, batch, first, count - first);
            for block in blocks.unwrap_or_else(|obstacle| {
                output.ended = Some(obstacle);
                Vec::new()
            }) {
                let bytes = block.width.saturating_mul(4).saturating_mul(count);
                if position > 0 && bytes > LARGEST_OTHER {
                    let name = output.name.to_owned();
                    output.ended = Some(OutputObstacle::TooLarge { output: name, bytes });
                } else {
                    output.ended = output.takes(&block).err();
                }
                if output.ended.is_some() {
                    break;
                }
                context.connection.send(&Message::Outputs(block))?;
            }
        }
    }
    let first = all.into_iter().next().and_then(|first| first.ended);
    Ok(first.map_or(Ok(not_numbers), Err))
}
