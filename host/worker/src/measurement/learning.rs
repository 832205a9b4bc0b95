//! Trains a model from the weights of its file, epoch by epoch, after the steps that are timed one by one.
//!
//! The session is a new one, so the first loss is that of the file's weights. An epoch takes the examples in random
//! order, by the case's seed, and its time contains all that a user's loop would do: reading the batch, handing it over,
//! the step, and reading the loss. The test after it is timed apart.

use std::io;

use host_measure::Clock;
use host_record::{CaseSpec, Epoch, Failure, Gap, Learning, Mode, NotMeasured, Phase};
use host_statistics::Random;
use plugin_api::client::{Call, Error, Model, TensorData};

use super::context::Context;
use super::preparing::Subject;
use crate::backend::{Answer, tensors};
use crate::failure::Stop;
use crate::outputs::to_f32;
use crate::surroundings::{not_offered, refused};

/// Why learning stopped.
enum End {
    Stop(Stop),
    Gap(Gap),
}

impl From<Failure> for End {
    fn from(failure: Failure) -> Self {
        Self::Stop(failure.into())
    }
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        Self::Stop(error.into())
    }
}

fn backend(error: Error) -> End {
    End::Gap(refused(&error))
}

/// Trains if the case asks for it; of several processes, only the first does.
pub(super) fn learn(
    context: &mut Context<'_>,
    subject: &mut Subject,
) -> Result<Option<Result<Learning, Gap>>, Stop> {
    let CaseSpec { key, measure, process, .. } = context.case;
    let Some(epochs) = measure.epochs.filter(|_| key.mode == Mode::Training && *process == 0)
    else {
        return Ok(None);
    };
    context.connection.enter(Phase::Learn)?;
    Ok(Some(match all_epochs(context, subject, epochs) {
        Ok(learning) => Ok(learning),
        Err(End::Gap(gap)) => Err(gap),
        Err(End::Stop(stop)) => return Err(stop),
    }))
}

fn all_epochs(
    context: &mut Context<'_>,
    subject: &mut Subject,
    epochs: u64,
) -> Result<Learning, End> {
    let Context { case, clock, interval, .. } = *context;
    let Subject { model, examples, .. } = subject;
    let batch = u64::from(case.key.batch);
    let count = examples.count.ok_or_else(|| gap(NotMeasured::NoDataSet))?;
    if count < batch {
        return Err(gap(NotMeasured::TooFewExamples { examples: count, batch }));
    }
    let place = place_of_loss(model).ok_or_else(|| gap(NotMeasured::NoLoss))?;
    let steps = count / batch;
    let keeps_losses = epochs.saturating_mul(steps) <= Learning::MOST_LOSSES as u64;
    let mut learning = Learning {
        examples: count,
        test_examples: examples.test,
        batch,
        steps,
        losses: Vec::new(),
        epochs: Vec::new(),
    };
    let session = model.prepare(case.key.precision.name(), &examples.shapes()).map_err(backend)?;
    let mut order: Vec<u64> = (0..count).collect();
    let first = examples.batch_of(&order[..batch as usize])?;
    let mut call = session.call(tensors(model, &first).map_err(backend)?).map_err(backend)?;
    let mut random = Random::from_seed(case.seed);
    for _ in 0..epochs {
        shuffle(&mut order, &mut random);
        let mut epoch = Epoch::default();
        let mut sum = 0.0;
        let begun = clock.now();
        for rows in order.chunks_exact(batch as usize) {
            let start = clock.now();
            put(model, &mut call, &examples.batch_of(rows)?)?;
            epoch.reading_ns += clock.now().saturating_sub(start);
            call.run().map_err(backend)?;
            let loss = loss(&mut call, place)?;
            sum += f64::from(loss);
            if keeps_losses {
                learning.losses.push(Some(loss).filter(|loss| loss.is_finite()));
            }
            context.connection.progress(interval)?;
        }
        epoch.time_ns = clock.now().saturating_sub(begun);
        epoch.loss = finite(sum / steps as f64);
        if examples.test > 0 {
            let mut test = Test { right: 0, losses: 0.0, batches: 0 };
            let begun = clock.now();
            for first in (0..examples.test).step_by(batch as usize) {
                // The last batch is filled up with the last example.
                let row = |row: u64| count + row.min(examples.test - 1);
                let rows: Vec<u64> = (first..first + batch).map(row).collect();
                put(model, &mut call, &examples.batch_of(&rows)?)?;
                let evaluated = call
                    .evaluate()
                    .ok_or_else(|| End::Gap(not_offered(plugin_api::abi::TRAINING)))?;
                evaluated.map_err(backend)?;
                let whole = (examples.test - first).min(batch);
                if whole == batch {
                    test.losses += f64::from(loss(&mut call, place)?);
                    test.batches += 1;
                }
                let labels = examples.test_labels.iter().skip(first as usize);
                let labels: Vec<i64> = labels.take(whole as usize).copied().collect();
                test.right += right(&scores(&mut call)?, batch, &labels);
                context.connection.progress(interval)?;
            }
            epoch.test_ns = clock.now().saturating_sub(begun);
            epoch.test_loss = finite(test.losses / test.batches as f64);
            epoch.right = (!examples.test_labels.is_empty()).then_some(test.right);
        }
        learning.epochs.push(epoch);
    }
    Ok(learning)
}

/// Sums over a test.
struct Test {
    right: u64,
    losses: f64,
    /// Whole batches, whose losses count.
    batches: u64,
}

fn gap(cause: NotMeasured) -> End {
    End::Gap(cause.into())
}

fn finite(value: f64) -> Option<f64> {
    Some(value).filter(|value| value.is_finite())
}

/// Returns the position of the output that is the loss.
fn place_of_loss(model: &Model) -> Option<usize> {
    let name = Mode::Training.further_output()?;
    model.info().outputs.iter().position(|output| output.name == name)
}

/// Puts an order into another one, each equally likely (Fisher and Yates).
fn shuffle(order: &mut [u64], random: &mut Random) {
    for last in (1..order.len()).rev() {
        let other = random.below(last as u64 + 1) as usize;
        order.swap(last, other);
    }
}

/// Hands a batch to a call.
fn put(model: &Model, call: &mut Call, batch: &[TensorData]) -> Result<(), End> {
    for (position, input) in tensors(model, batch).map_err(backend)?.into_iter().enumerate() {
        call.set_input(position, input).map_err(backend)?;
    }
    Ok(())
}

/// Returns the loss that a call has left: it is the same for each example.
fn loss(call: &mut Call, place: usize) -> Result<f32, End> {
    let losses = numbers(call, place)?;
    losses.first().copied().ok_or_else(|| gap(NotMeasured::NoLoss))
}

/// Returns the first output that a call has left.
fn scores(call: &mut Call) -> Result<Vec<f32>, End> {
    numbers(call, 0)
}

fn numbers(call: &mut Call, place: usize) -> Result<Vec<f32>, End> {
    match Answer::read(call, place).map_err(backend)? {
        Answer::Numbers(data) => Ok(to_f32(&data).unwrap_or_default()),
        Answer::Texts(_) | Answer::NotATensor(_) => Ok(Vec::new()),
    }
}

/// Returns the number of examples whose label has the highest score. Of equal scores the first counts, and an example
/// with a score that is not a number is wrong, as in the metric `accuracy`.
fn right(scores: &[f32], batch: u64, labels: &[i64]) -> u64 {
    let classes = scores.len() / batch as usize;
    if classes == 0 {
        return 0;
    }
    let is_right = |(scores, label): (&[f32], &i64)| {
        let Some(own) = usize::try_from(*label).ok().and_then(|label| scores.get(label)) else {
            return false;
        };
        let before = |(class, score): (usize, &f32)| {
            score > own || (score == own && (class as i64) < *label)
        };
        !scores.iter().any(|score| score.is_nan()) && !scores.iter().enumerate().any(before)
    };
    scores.chunks_exact(classes).zip(labels).filter(|pair| is_right(*pair)).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_has_every_example_and_depends_on_the_seed() {
        let shuffled = |seed: u64| {
            let mut order: Vec<u64> = (0..100).collect();
            shuffle(&mut order, &mut Random::from_seed(seed));
            order
        };
        let mut sorted = shuffled(7);
        assert_ne!(sorted, (0..100).collect::<Vec<_>>());
        assert_eq!(sorted, shuffled(7));
        assert_ne!(sorted, shuffled(8));
        sorted.sort_unstable();
        assert_eq!(sorted, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn the_label_with_the_highest_score_is_right() {
        let scores = [0.1, 0.7, 0.2, 0.5, 0.3, 0.2, 0.4, 0.4, 0.2, f32::NAN, 0.0, 1.0];
        assert_eq!(right(&scores, 4, &[1, 0, 0, 2]), 3);
        assert_eq!(right(&scores, 4, &[1, 1, 1, 2]), 1);
        // Fewer labels than examples: the rest fills the batch up.
        assert_eq!(right(&scores, 4, &[1]), 1);
        assert_eq!(right(&scores, 4, &[-1, 9]), 0);
        assert_eq!(right(&[], 4, &[0]), 0);
    }
}
