//! Collects outputs for metrics, takes everything down and writes the report.

use host_record::protocol::Message;
use host_record::{Doubt, InvalidReason, OutputObstacle, Phase, Warning, WorkerReport};
use plugin_api::client::{Call, Session};

use super::context::Context;
use super::examining::{Examined, Findings};
use super::opening::Opened;
use super::preparing::Subject;
use crate::backend::tensors;
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
        match output.judge() {
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
    drop(opened.backend);

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
        conditions,
        profile: examined.operators,
        device_states: examined.device_samples,
    })
}

/// Runs the whole data set once more, untimed, sends the first output of each example and counts what
/// is NaN in it. The inner error says why there are no outputs to send, which does not make the case fail.
fn outputs(
    context: &mut Context<'_>,
    subject: &mut Subject,
    session: &Session,
    count: u64,
) -> Result<Result<NotNumbers, OutputObstacle>, Stop> {
    let backend = failure::backend(Phase::Outputs);
    let batch = u64::from(context.case.key.batch);
    let Subject { model, examples, .. } = subject;
    let Some(info) = model.info().outputs.first() else {
        return Ok(Err(OutputObstacle::NoOutput));
    };
    let mut call: Option<Call> = None;
    let mut width = None;
    let mut not_numbers = NotNumbers { name: info.name.clone(), found: 0, of: 0 };
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
        let output = call.read_output(0).map_err(&backend)?;
        not_numbers = not_numbers.and(&NotNumbers::of(&info.name, &output));
        let first = index * batch;
        match outputs::blocks(&info.name, &output, batch, first, count - first) {
            Ok(blocks) => {
                for block in blocks {
                    let expected = *width.get_or_insert(block.width);
                    if block.width != expected {
                        return Ok(Err(OutputObstacle::WidthChanged {
                            output: block.name,
                            example: block.first_example,
                            values: block.width,
                            before: expected,
                        }));
                    }
                    context.connection.send(&Message::Outputs(block))?;
                }
            }
            Err(obstacle) => return Ok(Err(obstacle)),
        }
    }
    Ok(Ok(not_numbers))
}
