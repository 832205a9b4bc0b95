/*!
Training: steps by their phases, the cost of looking at them, and loss and accuracy by epoch.

**Steps.** The measured steps wait for the device after each phase, so that the phases can be timed. `training.step` is
their median. `training.phase.NAME` is the mean time of a phase, `training.share.NAME` its share of all measured steps, and
`training.explained` what all phases together explain. `training.peak-memory.NAME` is the most that tensors took on the
device during a phase of one more step. `training.first-step` is the worker's first run and
`training.warm-up-step` the median of the warm-up: neither is among the others.

**The cost of looking.** After measuring, the worker makes steps with marks and without, in turns.
`training.throughput` is that of the steps without: training as a user would run it. `training.cost-of-looking` is how
much longer a marked step takes. If the backend marks no phases, the measured steps are unmarked, and the throughput is
theirs.

**Epochs.** With `[measure] epochs`, the worker trains a new session epoch by epoch. `training.loss` is the mean loss of
the last epoch, and the attribute `by-epoch` lists all. `training.time-to-accuracy` is stated if the option `accuracy` is
set: the time of all epochs up to the first one whose test reached it.

If a case has several processes, values of steps are means over them. Only the first process trains by epochs.
*/

use host_statistics::{median, student_quantile};
use plugin_guest::{Case, Columns, Description, Direction, Error, Gap, Measurement, Metric};
use serde::Deserialize;

const LATENCY: &str = "latency";
const WARM_UP_LATENCY: &str = "warm-up-latency";
const ITEMS: &str = "items";
const PROCESS: &str = "process";
const PHASE: &str = "phase.";
const MEMORY: &str = "phase-memory.";
const FIRST: &str = "first-run-time";
const MARKED: &str = "marked-step-time";
const UNMARKED: &str = "unmarked-step-time";
const ERROR: &str = "marking-error";
const TURNS: &str = "marking-turns";
const STEP_LOSS: &str = "step-loss";
const EPOCH_LOSS: &str = "epoch-loss";
const EPOCH_TIME: &str = "epoch-time";
const EPOCH_READING: &str = "epoch-reading";
const EPOCH_ACCURACY: &str = "epoch-accuracy";
const EPOCH_EXAMPLES: &str = "epoch-examples";

/// Phases that are stated without the option `phases`.
const PHASES: [&str; 6] = ["copy", "forward", "loss", "backward", "optimiser", "zeroing"];

/// Limit on the epochs that are listed: an attribute has at most 16 KiB.
const LISTED: usize = 500;

/// Turns from which an interval is stated: with fewer, its width is that of the method.
const LEAST_TURNS: f64 = 10.0;

/// The metric.
pub struct Training;

/// Options of the metric.
#[derive(Debug, Clone, Deserialize)]
#[serde(default)]
pub struct Options {
    /// Names of the phases to state.
    pub phases: Vec<String>,
    /// The accuracy whose time is stated.
    pub accuracy: Option<f64>,
}

impl Default for Options {
    fn default() -> Self {
        Self { phases: PHASES.map(str::to_owned).into(), accuracy: None }
    }
}

impl Metric for Training {
    type Options = Options;

    fn describe() -> Description {
        plugin_guest::describe!("training", {
            "phases" => "List of the phases of a step. Default: copy, forward, loss, backward, optimiser and zeroing.",
            "accuracy" => "An accuracy of the test, between 0 and 1: states the time until an epoch reached it. Default: none.",
        })
    }

    fn columns() -> &'static [&'static str] {
        &[
            LATENCY,
            WARM_UP_LATENCY,
            ITEMS,
            PROCESS,
            "phase.*",
            "phase-memory.*",
            FIRST,
            MARKED,
            UNMARKED,
            ERROR,
            TURNS,
            STEP_LOSS,
            EPOCH_LOSS,
            EPOCH_TIME,
            EPOCH_READING,
            EPOCH_ACCURACY,
            EPOCH_EXAMPLES,
        ]
    }

    fn compute(
        case: &Case,
        columns: &Columns,
        options: Options,
    ) -> Result<Vec<Measurement>, Error> {
        if let Some(accuracy) = options.accuracy
            && !(accuracy > 0.0 && accuracy <= 1.0)
        {
            return Err(Error::Options(format!(
                "`accuracy` is above 0 and at most 1, got {accuracy}"
            )));
        }
        let mode = case.attributes.get("mode").map(String::as_str);
        if let Some(mode) = mode.filter(|mode| *mode != "training") {
            // The same values, without what they are computed from.
            let gap =
                Gap::unsupported(format!("a query of the mode `{mode}` is not a training step"));
            let mut all = of_steps(case, &Columns::default(), &options.phases);
            all.extend(of_memory(&Columns::default(), &options.phases));
            all.extend(of_epochs(&Columns::default(), options.accuracy));
            all.iter_mut().for_each(|one| one.value = Err(gap.clone()));
            return Ok(all);
        }
        let mut all = match columns.processes() {
            Some(processes) => {
                let of_each =
                    processes.iter().map(|columns| of_steps(case, columns, &options.phases));
                Measurement::all_over_processes(of_each.collect(), case.confidence())
            }
            None => of_steps(case, columns, &options.phases),
        };
        all.extend(of_memory(columns, &options.phases));
        all.extend(of_epochs(columns, options.accuracy));
        Ok(all)
    }
}

plugin_guest::export_metric!(Training);

fn measurement(
    name: &str,
    value: Result<f64, Gap>,
    unit: &str,
    direction: Direction,
    definition: &str,
) -> Measurement {
    Measurement::new(format!("training.{name}"), value, unit, direction)
        .with_attribute("definition", definition)
}

fn sum(values: &[u64]) -> f64 {
    values.iter().map(|value| u128::from(*value)).sum::<u128>() as f64
}

/// Returns the only row of a column of whole numbers.
fn whole(columns: &Columns, name: &str) -> Result<f64, Gap> {
    let values = columns.unsigned(name)?;
    values.first().map(|value| *value as f64).ok_or_else(|| Gap::not_measured("no value"))
}

/// Returns the only row of a column of real numbers, with the host's reason if there is none.
fn real(columns: &Columns, name: &str) -> Result<f64, Gap> {
    let values = columns.double(name)?;
    values.first().copied().ok_or_else(|| Gap::not_measured("no value"))
}

/// The measured steps of one process.
struct Steps<'a> {
    latencies: Result<&'a [u64], Gap>,
    /// Names and times of their phases; none if they are not marked.
    phases: Vec<(&'a str, &'a [u64])>,
}

impl<'a> Steps<'a> {
    fn of(columns: &'a Columns) -> Self {
        let latencies = columns.unsigned(LATENCY).and_then(|latencies| match latencies {
            [] => Err(Gap::not_measured("no step was measured")),
            some => Ok(some),
        });
        let phase = |(name, column): (&'a str, &'a plugin_guest::Column)| match &column.data {
            plugin_guest::ColumnData::Unsigned(times) => Some((name, times.as_slice())),
            _ => None,
        };
        Self { latencies, phases: columns.beginning(PHASE).filter_map(phase).collect() }
    }

    /// Returns the mean time of a phase, and its share of the steps in percent.
    fn phase(&self, name: &str) -> Result<(f64, f64), Gap> {
        let latencies = self.latencies.clone()?;
        let found = self.phases.iter().find(|(phase, _)| *phase == name);
        let Some((_, times)) = found else {
            return Err(match self.phases.is_empty() {
                true => Gap::not_measured("the backend marked no phases"),
                false => {
                    let names: Vec<&str> = self.phases.iter().map(|(name, _)| *name).collect();
                    let names = names.join(", ");
                    Gap::not_measured(format!("a step has no phase `{name}`; it has {names}"))
                }
            });
        };
        Ok((sum(times) / times.len() as f64, percent(sum(times), sum(latencies))?))
    }

    /// Returns the part of the steps that all phases explain, in percent.
    fn explained(&self) -> Result<f64, Gap> {
        let latencies = self.latencies.clone()?;
        if self.phases.is_empty() {
            return Err(Gap::not_measured("the backend marked no phases"));
        }
        percent(self.phases.iter().map(|(_, times)| sum(times)).sum(), sum(latencies))
    }
}

fn percent(part: f64, whole: f64) -> Result<f64, Gap> {
    match whole > 0.0 {
        true => Ok(part / whole * 100.0),
        false => Err(Gap::not_measured("the steps were too short for the clock")),
    }
}

/// Returns the values about the steps of one process.
fn of_steps(case: &Case, columns: &Columns, phases: &[String]) -> Vec<Measurement> {
    use Direction::{Higher, Lower, Neutral};
    let steps = Steps::of(columns);
    let median_of =
        |values: &[u64]| median(values).ok_or_else(|| Gap::not_measured("no step was made"));
    let mut all = vec![
        measurement(
            "step",
            steps.latencies.clone().and_then(median_of),
            "ns",
            Lower,
            "median time of a measured step, marks included",
        ),
        measurement(
            "first-step",
            whole(columns, FIRST),
            "ns",
            Lower,
            "time of the worker's first step",
        ),
        measurement(
            "warm-up-step",
            columns.unsigned(WARM_UP_LATENCY).and_then(median_of),
            "ns",
            Lower,
            "median time of a step of the first process's warm-up",
        ),
        measurement(
            "explained",
            steps.explained(),
            "%",
            Higher,
            "time of all phases / time of the measured steps",
        ),
    ];
    for name in phases {
        let found = steps.phase(name);
        all.push(measurement(
            &format!("phase.{name}"),
            found.clone().map(|(time, _)| time),
            "ns",
            Lower,
            "mean time of the phase in a measured step",
        ));
        all.push(measurement(
            &format!("share.{name}"),
            found.map(|(_, share)| share),
            "%",
            Neutral,
            "time of the phase / time of the measured steps",
        ));
    }
    let unmarked = unmarked(columns, &steps);
    let samples = columns.unsigned(ITEMS);
    let samples = samples.and_then(|items| match items.len() {
        0 => Err(Gap::not_measured("no step was measured")),
        count => Ok(sum(items) / count as f64),
    });
    let throughput = unmarked.clone().and_then(|time| match time > 0.0 {
        true => Ok(samples? / time * 1e9),
        false => Err(Gap::not_measured("the steps were too short for the clock")),
    });
    all.push(measurement(
        "throughput",
        throughput,
        "1/s",
        Higher,
        "samples of a step / mean time of a step without marks",
    ));
    all.push(cost(case, columns, &steps));
    all
}

/// Returns the values about the memory of phases, from the first process.
fn of_memory(columns: &Columns, phases: &[String]) -> Vec<Measurement> {
    let peak = |phase: &str| {
        let found = columns.beginning(MEMORY).find(|(name, _)| *name == phase);
        match found.map(|(_, column)| &column.data) {
            Some(plugin_guest::ColumnData::Unsigned(bytes)) if !bytes.is_empty() => {
                Ok(bytes[0] as f64)
            }
            _ => Err(columns.missing("phase-memory.*").map_or_else(
                || Gap::not_measured("the memory of this phase was not measured"),
                Gap::not_measured,
            )),
        }
    };
    let one = |phase: &String| {
        measurement(
            &format!("peak-memory.{phase}"),
            peak(phase),
            "B",
            Direction::Lower,
            "most bytes that tensors took on the device during the phase",
        )
    };
    phases.iter().map(one).collect()
}

/// Returns the mean time of a step without marks.
fn unmarked(columns: &Columns, steps: &Steps<'_>) -> Result<f64, Gap> {
    match real(columns, UNMARKED) {
        Err(gap) => match &steps.latencies {
            // The measured steps are such.
            Ok(latencies) if steps.phases.is_empty() => Ok(sum(latencies) / latencies.len() as f64),
            _ => Err(gap),
        },
        found => found,
    }
}

/// Returns the cost of looking, with an interval over the turns of this process.
fn cost(case: &Case, columns: &Columns, steps: &Steps<'_>) -> Measurement {
    const METHOD: &str = "Student's t over turns of a step with marks and one without";
    let value = match (&steps.latencies, steps.phases.is_empty()) {
        (Ok(_), true) => Err(Gap::not_measured("the backend marked no phases")),
        _ => real(columns, MARKED).and_then(|marked| {
            let unmarked = real(columns, UNMARKED)?;
            Ok(percent(marked, unmarked)? - 100.0)
        }),
    };
    let found = measurement(
        "cost-of-looking",
        value.clone(),
        "%",
        Direction::Lower,
        "mean time of a step with marks / without marks - 1",
    )
    .with_attribute("difference", "steps with marks minus steps without");
    let Ok(value) = value else { return found };
    let (Ok(error), Ok(unmarked), Ok(turns)) =
        (real(columns, ERROR), real(columns, UNMARKED), whole(columns, TURNS))
    else {
        return found.without_interval("a single turn");
    };
    let found = found.with_attribute("turns", turns.to_string());
    if turns < LEAST_TURNS {
        return found.without_interval(&format!("needs {LEAST_TURNS} turns, has {turns}"));
    }
    let confidence = case.confidence();
    let factor = student_quantile((1.0 + confidence) / 2.0, turns - 1.0);
    let half = factor * error / unmarked * 100.0;
    found
        .with_interval(value - half, value + half)
        .with_attribute("confidence", confidence.to_string())
        .with_attribute("interval", METHOD)
}

/// Returns the values about training epoch by epoch.
fn of_epochs(columns: &Columns, accuracy: Option<f64>) -> Vec<Measurement> {
    use Direction::{Higher, Lower};
    let none =
        || Gap::not_measured("the manifest asks for no epochs; set `epochs` under `[measure]`");
    let absent = |name: &str, gap: Gap| match columns.column(EPOCH_TIME) {
        Ok(_) => gap,
        Err(_) => columns.missing(name).map_or_else(none, Gap::not_measured),
    };
    let times = columns.unsigned(EPOCH_TIME).map_err(|gap| absent(EPOCH_TIME, gap));
    let losses = columns.double(EPOCH_LOSS).map_err(|gap| absent(EPOCH_LOSS, gap));
    let accuracies =
        columns.double(EPOCH_ACCURACY).map_err(|gap| match columns.column(EPOCH_TIME) {
            Ok(_) => Gap::not_measured(
                "there are no labelled test examples; set `test-examples` under `[measure]`",
            ),
            Err(_) => absent(EPOCH_ACCURACY, gap),
        });
    let last = |values: &[f64]| match values.last() {
        Some(value) if value.is_finite() => Ok(*value),
        Some(_) => Err(Gap::not_measured("the loss is not a finite number")),
        None => Err(Gap::not_measured("no epoch ended")),
    };
    let epoch = times
        .clone()
        .and_then(|times| median(times).ok_or_else(|| Gap::not_measured("no epoch ended")));
    let rate = epoch.clone().and_then(|time| match time > 0.0 {
        true => Ok(whole(columns, EPOCH_EXAMPLES)? / time * 1e9),
        false => Err(Gap::not_measured("the epochs were too short for the clock")),
    });
    let reading = times.clone().and_then(|times| {
        let reading = columns.unsigned(EPOCH_READING)?;
        percent(sum(reading), sum(times))
    });
    let mut loss = measurement(
        "loss",
        losses.clone().and_then(last),
        "1",
        Lower,
        "mean loss of the last epoch",
    );
    if let Ok(first) = columns.double(STEP_LOSS)
        && let Some(first) = first.first().filter(|first| first.is_finite())
    {
        loss = loss.with_attribute("first-step", first.to_string());
    }
    let mut all = vec![
        listed(loss, losses.as_deref().ok()),
        listed(
            measurement(
                "test-accuracy",
                accuracies.clone().and_then(last),
                "1",
                Higher,
                "part of the test examples whose label has the highest score, after the last epoch",
            ),
            accuracies.as_deref().ok(),
        ),
        measurement(
            "epoch",
            epoch,
            "ns",
            Lower,
            "median time of an epoch, with reading its examples, without the test after it",
        ),
        measurement(
            "epoch-throughput",
            rate,
            "1/s",
            Higher,
            "examples of an epoch / median time of an epoch",
        ),
        measurement(
            "epoch-reading",
            reading,
            "%",
            Lower,
            "part of all epochs in which examples were read and handed to the backend",
        ),
        measurement(
            "time",
            times.clone().map(sum),
            "ns",
            Lower,
            "time of all epochs, without tests",
        ),
    ];
    if let Some(wanted) = accuracy {
        let time = times.and_then(|times| {
            let accuracies = accuracies?;
            let reached = accuracies.iter().position(|accuracy| *accuracy >= wanted);
            let highest = accuracies.iter().copied().fold(0.0, f64::max);
            let reached = reached.ok_or_else(|| {
                Gap::not_measured(format!("no epoch reached {wanted}; the highest was {highest}"))
            })?;
            Ok(sum(&times[..=reached]))
        });
        all.push(
            measurement(
                "time-to-accuracy",
                time,
                "ns",
                Lower,
                "time of all epochs up to the first whose test reached the accuracy, without tests",
            )
            .with_attribute("accuracy", wanted.to_string()),
        );
    }
    all
}

/// Adds the value of each epoch.
fn listed(found: Measurement, values: Option<&[f64]>) -> Measurement {
    let Some(values) = values else { return found };
    let found = found.with_attribute("epochs", values.len().to_string());
    if values.len() > LISTED {
        return found;
    }
    let values: Vec<String> = values.iter().map(|value| format!("{value:.6}")).collect();
    found.with_attribute("by-epoch", values.join(" "))
}

#[cfg(test)]
mod tests;
