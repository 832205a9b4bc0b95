/*!
Growth of throughput with batch, threads, clients and replicas.

The efficiency of a case is its throughput divided by the baseline's throughput scaled in proportion: *T*(*n*) *n*₀ /
(*n* *T*(*n*₀)). The baseline is the otherwise equal case with the smallest *n*, and is 1 by definition; the attribute
`baseline` names it. Over threads and clients this is strong scaling, over batches the benefit of one more sample in a
batch.

Cases are otherwise equal if they share all other coordinates. Threads belong to a backend, so a manifest
varies them by several `[[backend]]` tables of one plugin: over threads, cases are equal if they share the plugin's
build, regardless of the backend's name. The manifest must ensure that their options are equal as well; the attribute
`baseline-backend` names the chosen one.

`scaling.replicas` is that of training on several devices together, or on several groups of a processor's threads: the backend
states how many it used, as `replicas`. Each has the same part of the batch, so cases are equal if they share the batch by
the number of replicas (weak scaling), regardless of the backend's name. A case that states none has one.

`scaling.training-to-inference` compares modes: the throughput of inference divided by that of training, of the case that
is equal in all else. If the query of each is a batch, a step takes that many times as long as a pass. The throughput of
training is `training.throughput` if the run has it, which is that of steps without marks.

In `server` and `constant-rate` the throughput is the offered rate, which does not show scaling.
*/

use std::collections::BTreeMap;

use plugin_guest::{
    Description, Direction, Error, Gap, Measurement, NoOptions, Row, RunMetric, View, Views,
};

/// The metric that is read from the view `results`.
const THROUGHPUT: &str = "throughput.samples";

/// The metric of training cases that is read instead, if the run has it.
const TRAINED: &str = "training.throughput";

/// Scenarios in which queries arrive at a given rate.
const OFFERED: [&str; 2] = ["server", "constant-rate"];

/// The metric.
pub struct Scaling;

/// The varied quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Axis {
    Batch,
    Threads,
    Clients,
}

impl Axis {
    const ALL: [Self; 3] = [Self::Batch, Self::Threads, Self::Clients];

    fn name(self) -> &'static str {
        match self {
            Self::Batch => "batch",
            Self::Threads => "threads",
            Self::Clients => "clients",
        }
    }

    fn measurement(self, value: Result<f64, Gap>) -> Measurement {
        let name = self.name();
        Measurement::new(format!("scaling.{name}"), value, "1", Direction::Higher).with_attribute(
            "definition",
            format!("throughput per {name}, relative to the case with the smallest {name}"),
        )
    }
}

impl RunMetric for Scaling {
    type Options = NoOptions;

    fn describe() -> Description {
        plugin_guest::describe!("scaling")
    }

    fn outline(_: &NoOptions) -> Result<Vec<Measurement>, Error> {
        let gap = || Err(Gap::not_measured("nothing is measured yet"));
        let axes = Axis::ALL.iter().map(|axis| axis.measurement(gap()));
        Ok(axes.chain([replicas_measurement(gap()), training_measurement(gap())]).collect())
    }

    fn compute(views: &dyn Views, _: &NoOptions) -> Result<Vec<(String, Measurement)>, Error> {
        let cases = cases(views)?;
        let all = cases.iter().flat_map(|case| {
            let axes = Axis::ALL.iter().map(|axis| efficiency(case, *axis, &cases));
            axes.chain([replicas(case, &cases), training(case, &cases)])
                .map(|one| (case.id.clone(), one))
        });
        Ok(all.collect())
    }
}

plugin_guest::export_run_metric!(Scaling);

/// A finished case.
struct Case {
    id: String,
    backend: String,
    scenario: String,
    mode: String,
    /// The value of each axis; `None` if the run does not state it.
    axes: [Option<u64>; 3],
    /// Replicas that train together.
    replicas: u64,
    /// All other coordinates except the names of backend and mode.
    others: Vec<String>,
    throughput: Result<Rate, Gap>,
}

/// A throughput with its interval.
#[derive(Clone, Copy)]
struct Rate {
    value: f64,
    interval: Option<(f64, f64)>,
}

fn cases(views: &dyn Views) -> Result<Vec<Case>, Error> {
    let results = View::read(views, "results")?;
    let mut throughputs = BTreeMap::new();
    for wanted in [THROUGHPUT, TRAINED] {
        for row in results.rows().filter(|row| row.text("metric") == Ok(wanted)) {
            let id = row.text("case_id")?;
            match rate(&row, wanted)? {
                // Cases of other modes have a gap there.
                Err(_) if throughputs.contains_key(id) => {}
                found => drop(throughputs.insert(id.to_owned(), found)),
            }
        }
    }
    let view = View::read(views, "cases")?;
    let mut cases = Vec::new();
    for row in view.rows() {
        if row.text("outcome")? != "finished" {
            continue;
        }
        let number = |column: &str| -> Result<Option<u64>, Error> {
            Ok(row.optional_integer(column)?.and_then(|value| u64::try_from(value).ok()))
        };
        let id = row.text("case_id")?.to_owned();
        // Cases are compared along the scaling axis, across backends and between modes; all other coordinates are equal.
        let compared = [
            host_record::Axis::Batch,
            host_record::Axis::Clients,
            host_record::Axis::Backend,
            host_record::Axis::Mode,
        ];
        let others = host_record::Axis::ALL
            .iter()
            .filter(|axis| !compared.contains(axis))
            .map(|axis| axis.column())
            .chain(["plugin_id", "plugin_sha256"])
            .map(|column| Ok(format!("{:?}", row.cell(column)?)));
        cases.push(Case {
            backend: row.text("backend")?.to_owned(),
            scenario: row.text("scenario")?.to_owned(),
            mode: row.text("mode")?.to_owned(),
            axes: [number("batch")?, number("threads")?, number("clients")?],
            replicas: replicas_of(row.optional_text("used")?),
            others: others.collect::<Result<_, Error>>()?,
            throughput: throughputs.remove(&id).unwrap_or_else(|| {
                Err(Gap::not_measured(format!(
                    "the run has no `{THROUGHPUT}`; the metric `throughput` computes it"
                )))
            }),
            id,
        });
    }
    Ok(cases)
}

fn rate(row: &Row<'_>, metric: &str) -> Result<Result<Rate, Gap>, Error> {
    Ok(match row.optional_real("value")? {
        Some(value) if value > 0.0 => {
            let bounds = (row.optional_real("interval_low")?, row.optional_real("interval_high")?);
            let interval = match bounds {
                (Some(low), Some(high)) => Some((low, high)),
                _ => None,
            };
            Ok(Rate { value, interval })
        }
        Some(value) => Err(Gap::unsupported(format!("a throughput of {value} is not usable"))),
        None => {
            let reason = row.optional_text("gap_reason")?.unwrap_or("no reason given");
            Err(Gap::not_measured(format!("`{metric}` is a gap: {reason}")))
        }
    })
}

fn efficiency(case: &Case, axis: Axis, cases: &[Case]) -> Measurement {
    match against_baseline(case, axis, cases) {
        Ok((value, interval, baseline)) => {
            let mut measurement = axis
                .measurement(Ok(value))
                .with_attribute("baseline", baseline.id.as_str())
                .with_attribute("baseline-backend", baseline.backend.as_str());
            if let Some(smallest) = baseline.axes[axis as usize] {
                measurement = measurement
                    .with_attribute(format!("baseline-{}", axis.name()), smallest.to_string());
            }
            match interval {
                Some((low, high)) => measurement.with_interval(low, high),
                None => measurement,
            }
        }
        Err(gap) => axis.measurement(Err(gap)),
    }
}

fn offered(scenario: &str) -> Gap {
    Gap::unsupported(format!("in the {scenario} scenario the throughput is the offered rate"))
}

type Efficiency<'a> = (f64, Option<(f64, f64)>, &'a Case);

fn against_baseline<'a>(
    case: &'a Case,
    axis: Axis,
    cases: &'a [Case],
) -> Result<Efficiency<'a>, Gap> {
    let name = axis.name();
    let Some(size) = case.axes[axis as usize].filter(|size| *size > 0) else {
        return Err(Gap::not_measured(match axis {
            Axis::Threads => "the number of threads was left to the backend".to_owned(),
            _ => format!("the case has no {name}"),
        }));
    };
    if OFFERED.contains(&&*case.scenario) {
        return Err(offered(&case.scenario));
    }
    let is_equal = |other: &&Case| {
        other.others == case.others
            && other.mode == case.mode
            && (axis == Axis::Threads || other.backend == case.backend)
            && Axis::ALL.iter().all(|&fixed| {
                fixed == axis || other.axes[fixed as usize] == case.axes[fixed as usize]
            })
            && other.axes[axis as usize].is_some_and(|size| size > 0)
    };
    let equal: Vec<&Case> = cases.iter().filter(is_equal).collect();
    let absent = format!("no otherwise equal case differs in {name}");
    let size_of = |other: &Case| other.axes[axis as usize].unwrap_or(size);
    relative_to_smallest(case, &equal, size_of, name, &absent)
}

/// Returns the throughput of a case for its size, relative to that of the smallest of otherwise equal cases, its interval, and
/// the smallest. `absent` is the reason if all have one size.
fn relative_to_smallest<'a>(
    case: &Case,
    equal: &[&'a Case],
    size_of: impl Fn(&Case) -> u64,
    name: &str,
    absent: &str,
) -> Result<Efficiency<'a>, Gap> {
    let size = size_of(case);
    let smallest = equal.iter().map(|other| size_of(other)).min().unwrap_or(size);
    if equal.iter().all(|other| size_of(other) == smallest) {
        return Err(Gap::not_measured(absent));
    }
    let mut baselines = equal.iter().filter(|other| size_of(other) == smallest);
    let (Some(&baseline), None) = (baselines.next(), baselines.next()) else {
        return Err(Gap::unsupported(format!(
            "several otherwise equal cases share {name} {smallest}, so there is no baseline"
        )));
    };
    let this = case.throughput.clone()?;
    if baseline.id == case.id {
        return Ok((1.0, None, baseline));
    }
    let base = baseline.throughput.clone().map_err(|gap| Gap {
        reason: format!("baseline {name} {smallest}: {}", gap.reason),
        ..gap
    })?;
    let (value, interval) = relative(this, base, smallest as f64 / size as f64);
    Ok((value, interval, baseline))
}

/// Returns how many replicas a backend used, by the settings that it reports.
fn replicas_of(used: Option<&str>) -> u64 {
    let used: Option<BTreeMap<String, String>> =
        used.and_then(|used| serde_json::from_str(used).ok());
    let stated = used.and_then(|used| used.get("replicas")?.parse().ok());
    stated.filter(|count| *count > 0).unwrap_or(1)
}

fn replicas_measurement(value: Result<f64, Gap>) -> Measurement {
    Measurement::new("scaling.replicas", value, "1", Direction::Higher).with_attribute(
        "definition",
        "throughput per replica, relative to the case with the fewest replicas and as much of the batch for each",
    )
}

/// Compares a training case with the one that has the fewest replicas, each with the same part of the batch.
fn replicas(case: &Case, cases: &[Case]) -> Measurement {
    let part = |case: &Case| {
        let batch = case.axes[Axis::Batch as usize]?;
        (batch % case.replicas == 0).then_some(batch / case.replicas)
    };
    let found = || -> Result<Efficiency<'_>, Gap> {
        if case.mode != "training" {
            let mode = &case.mode;
            return Err(Gap::unsupported(format!("the mode of the case is `{mode}`")));
        }
        if OFFERED.contains(&&*case.scenario) {
            return Err(offered(&case.scenario));
        }
        let is_equal = |other: &&Case| {
            other.others == case.others
                && other.mode == case.mode
                && part(other).is_some()
                && part(other) == part(case)
                && [Axis::Threads, Axis::Clients]
                    .iter()
                    .all(|&axis| other.axes[axis as usize] == case.axes[axis as usize])
        };
        let equal: Vec<&Case> = cases.iter().filter(is_equal).collect();
        let absent =
            "no otherwise equal case differs in replicas and has as much of the batch for each";
        relative_to_smallest(case, &equal, |other| other.replicas, "replicas", absent)
    };
    match found() {
        Ok((value, interval, baseline)) => {
            let measurement = replicas_measurement(Ok(value))
                .with_attribute("replicas", case.replicas.to_string())
                .with_attribute("baseline", baseline.id.as_str())
                .with_attribute("baseline-backend", baseline.backend.as_str())
                .with_attribute("baseline-replicas", baseline.replicas.to_string());
            match interval {
                Some((low, high)) => measurement.with_interval(low, high),
                None => measurement,
            }
        }
        Err(gap) => replicas_measurement(Err(gap)),
    }
}

/// Returns one rate by another, times a factor, with the bounds that follow from both intervals.
fn relative(this: Rate, base: Rate, factor: f64) -> (f64, Option<(f64, f64)>) {
    let interval = this.interval.zip(base.interval).filter(|(_, (low, _))| *low > 0.0).map(
        |((low, high), (base_low, base_high))| (low / base_high * factor, high / base_low * factor),
    );
    (this.value / base.value * factor, interval)
}

fn training_measurement(value: Result<f64, Gap>) -> Measurement {
    Measurement::new("scaling.training-to-inference", value, "1", Direction::Lower).with_attribute(
        "definition",
        "throughput of inference / throughput of training, of otherwise equal cases",
    )
}

/// Compares a training case with the otherwise equal inference case.
fn training(case: &Case, cases: &[Case]) -> Measurement {
    let found = || -> Result<_, Gap> {
        if case.mode != "training" {
            let mode = &case.mode;
            return Err(Gap::unsupported(format!("the mode of the case is `{mode}`")));
        }
        if OFFERED.contains(&&*case.scenario) {
            return Err(offered(&case.scenario));
        }
        let is_equal = |other: &&Case| {
            other.mode == "inference"
                && other.others == case.others
                && other.backend == case.backend
                && other.axes == case.axes
        };
        let inference = cases.iter().find(is_equal).ok_or_else(|| {
            Gap::not_measured("the run has no otherwise equal case of the mode `inference`")
        })?;
        let own = case.throughput.clone()?;
        Ok((inference.throughput.clone()?, own, inference))
    };
    match found() {
        Ok((pass, step, inference)) => {
            let found = training_measurement(Ok(pass.value / step.value))
                .with_attribute("baseline", inference.id.as_str());
            match (pass.interval, step.interval) {
                (Some(pass), Some(step)) if step.0 > 0.0 => {
                    found.with_interval(pass.0 / step.1, pass.1 / step.0)
                }
                _ => found,
            }
        }
        Err(gap) => training_measurement(Err(gap)),
    }
}

#[cfg(test)]
mod tests {
    use host_record::{CaseKey, Coordinate};
    use plugin_guest::{Cell, Table};

    use super::*;

    /// A case for the views: id, backend, batch, threads, throughput.
    type Made = (&'static str, &'static str, i64, Option<i64>, Option<f64>);

    fn views(scenario: &str, made: &[Made]) -> BTreeMap<String, Table> {
        let columns = |names: &str| names.split(' ').map(str::to_owned).collect();
        let row = |id: &str, outcome: &str, backend: &str, batch: i64, threads: Option<i64>| {
            let key = CaseKey {
                batch: u32::try_from(batch).expect("a batch"),
                scenario: scenario.parse().expect("a scenario"),
                ..CaseKey::new("digits", backend, "cpu:0")
            };
            let mut row: Vec<Cell> = vec![id.into(), outcome.into()];
            row.extend(host_record::Axis::ALL.iter().map(|axis| match axis.of(&key) {
                Coordinate::None => Cell::Null,
                Coordinate::Text(text) => text.into(),
                Coordinate::Count(count) => i64::from(count).into(),
                Coordinate::Number(number) => number.into(),
            }));
            row.extend(["cpu".into(), "c0de".into(), threads.into(), Cell::Null]);
            row
        };
        let cases = made
            .iter()
            .map(|&(id, backend, batch, threads, _)| row(id, "finished", backend, batch, threads));
        let failed = row("failed", "failed", "cpu", 1, None);
        let axes: Vec<_> = host_record::Axis::ALL.iter().map(|axis| axis.column()).collect();
        let results = made.iter().filter_map(|&(id, .., throughput)| {
            Some(vec![
                id.into(),
                THROUGHPUT.into(),
                Cell::Real(throughput?),
                Cell::Null,
                Cell::Null,
                Cell::Null,
            ])
        });
        [
            (
                "cases",
                Table {
                    columns: columns(&format!(
                        "case_id outcome {} plugin_id plugin_sha256 threads used",
                        axes.join(" ")
                    )),
                    rows: cases.chain([failed]).collect(),
                },
            ),
            (
                "results",
                Table {
                    columns: columns("case_id metric value interval_low interval_high gap_reason"),
                    rows: results.collect(),
                },
            ),
        ]
        .map(|(name, table)| (name.to_owned(), table))
        .into()
    }

    fn value(views: &BTreeMap<String, Table>, id: &str, metric: &str) -> Result<f64, String> {
        let found = Scaling::compute(views, &NoOptions {}).expect("views");
        let of = |(case, one): &&(String, Measurement)| case == id && one.metric == metric;
        found.iter().find(of).expect("a value").1.value.clone().map_err(|gap| gap.reason)
    }

    #[test]
    fn batches_are_held_against_the_smallest() {
        let views = views(
            "single-stream",
            &[
                ("b8", "cpu", 8, None, Some(4000.0)),
                ("b2", "cpu", 2, None, Some(2000.0)),
                ("other", "other", 1, None, Some(9.0)),
            ],
        );
        assert_eq!(value(&views, "b2", "scaling.batch"), Ok(1.0));
        assert_eq!(value(&views, "b8", "scaling.batch"), Ok(0.5));
        let alone = Err("no otherwise equal case differs in batch".to_owned());
        assert_eq!(value(&views, "other", "scaling.batch"), alone);
        let threads = Err("the number of threads was left to the backend".to_owned());
        assert_eq!(value(&views, "b8", "scaling.threads"), threads);
        let clients = Err("the case has no clients".to_owned());
        assert_eq!(value(&views, "b8", "scaling.clients"), clients);
    }

    #[test]
    fn threads_are_compared_across_backends_of_one_plugin() {
        let mut made = vec![
            ("one", "cpu-1", 1, Some(1), Some(1000.0)),
            ("two", "cpu-2", 1, Some(2), Some(1800.0)),
            ("batch", "cpu-2", 8, Some(2), Some(4000.0)),
        ];
        let found = views("offline", &made);
        assert_eq!(value(&found, "two", "scaling.threads"), Ok(0.9));
        assert_eq!(value(&found, "one", "scaling.threads"), Ok(1.0));
        let alone = Err("no otherwise equal case differs in threads".to_owned());
        assert_eq!(value(&found, "batch", "scaling.threads"), alone);
        assert_eq!(value(&found, "batch", "scaling.batch"), Ok(4000.0 / 1800.0 / 8.0));

        made.push(("twin", "cpu-1b", 1, Some(1), Some(900.0)));
        let several = "several otherwise equal cases share threads 1, so there is no baseline";
        assert_eq!(value(&views("offline", &made), "two", "scaling.threads"), Err(several.into()));
    }

    #[test]
    fn without_a_throughput_there_is_no_efficiency() {
        let made = [("b1", "cpu", 1, None, None), ("b2", "cpu", 2, None, Some(5.0))];
        let reason = value(&views("offline", &made), "b2", "scaling.batch").unwrap_err();
        assert_eq!(
            reason,
            "baseline batch 1: the run has no `throughput.samples`; the metric `throughput` computes it"
        );
        let made = [("b1", "cpu", 1, None, Some(5.0)), ("b2", "cpu", 2, None, Some(5.0))];
        let offered = "in the server scenario the throughput is the offered rate";
        assert_eq!(value(&views("server", &made), "b2", "scaling.batch"), Err(offered.into()));
    }

    #[test]
    fn replicas_are_compared_with_as_much_of_the_batch_for_each() {
        let made = [
            ("one", "alone", 8, None, Some(100.0)),
            ("two", "pair", 16, None, Some(180.0)),
            ("same", "pair", 8, None, Some(150.0)),
            ("four", "team", 32, None, Some(300.0)),
            ("pass", "alone", 8, None, Some(900.0)),
        ];
        let mut views = views("single-stream", &made);
        let cases = views.get_mut("cases").expect("a view");
        let column =
            |name: &str| cases.columns.iter().position(|column| column == name).expect("a column");
        let (mode, used) = (column("mode"), column("used"));
        for (row, replicas) in cases.rows.iter_mut().zip(["", "2", "2", "4"]) {
            row[mode] = "training".into();
            if !replicas.is_empty() {
                row[used] = Cell::Text(format!(r#"{{"replicas":"{replicas}","loss":"output"}}"#));
            }
        }
        let name = "scaling.replicas";
        assert_eq!(value(&views, "one", name), Ok(1.0));
        assert_eq!(value(&views, "two", name), Ok(0.9));
        assert_eq!(value(&views, "four", name), Ok(0.75));
        let alone =
            "no otherwise equal case differs in replicas and has as much of the batch for each";
        assert_eq!(value(&views, "same", name), Err(alone.into()));
        assert_eq!(value(&views, "pass", name), Err("the mode of the case is `inference`".into()));
    }

    #[test]
    fn training_is_compared_with_inference() {
        let made =
            [("pass", "torch", 8, None, Some(600.0)), ("step", "torch", 8, None, Some(90.0))];
        let mut views = views("single-stream", &made);
        let alone = "the run has no otherwise equal case of the mode `inference`";
        let cases = views.get_mut("cases").expect("a view");
        let column = cases.columns.iter().position(|column| column == "mode").expect("a column");
        cases.rows[1][column] = "training".into();
        let ratio = "scaling.training-to-inference";
        assert_eq!(value(&views, "step", ratio), Ok(600.0 / 90.0));
        assert_eq!(value(&views, "pass", ratio), Err("the mode of the case is `inference`".into()));
        // A pass and a step are no batches of one series.
        assert!(value(&views, "step", "scaling.batch").is_err());
        let row = |id: &str, value: Cell| {
            vec![id.into(), TRAINED.into(), value, Cell::Null, Cell::Null, Cell::Null]
        };
        let results = views.get_mut("results").expect("a view");
        results.rows.extend([row("step", Cell::Real(100.0)), row("pass", Cell::Null)]);
        assert_eq!(value(&views, "step", ratio), Ok(6.0), "of steps without marks");
        views.get_mut("cases").expect("a view").rows[0][column] = "generation".into();
        assert_eq!(value(&views, "step", ratio), Err(alone.into()));
    }

    #[test]
    fn what_is_stated_is_what_is_outlined() {
        let names = |all: &[Measurement]| -> Vec<String> {
            all.iter().map(|one| format!("{} {}", one.metric, one.unit)).collect()
        };
        let outlined = names(&Scaling::outline(&NoOptions {}).expect("no options"));
        let views = views("offline", &[("b1", "cpu", 1, None, Some(5.0))]);
        let stated: Vec<Measurement> = Scaling::compute(&views, &NoOptions {})
            .expect("views")
            .into_iter()
            .map(|(case, one)| {
                assert_eq!(case, "b1", "nothing is stated of a case that failed");
                one
            })
            .collect();
        assert_eq!(names(&stated), outlined);
    }
}
