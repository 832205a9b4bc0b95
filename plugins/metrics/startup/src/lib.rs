/*!
Times from opening a plugin to its first answer.

Each step is timed once, in a process that has run nothing before: opening the library, loading and
preparing (optimising, compiling) the model, and running one batch. Making inputs and starting the process
are not included. A single timing has no interval. With `processes = N` in the manifest the times are means over
the processes, with intervals over them.

`startup.first-to-steady` is the ratio of the first inference to the median of the steady ones: it shows
compiling, allocating and filling caches that the backend postpones until the first run. It is stated if a
query is one inference that runs alone, in `single-stream` and in `closed-loop` with one client, and if
latencies have become steady.

If the model's file is hashed just before it is loaded, its pages are in memory, and loading does not wait for the
disk. The attribute `pages` of `startup.load` says whether they were `warm`, or `cold` because the manifest asks for
`cold-cache`; `partly warm` in between.
*/

use std::sync::LazyLock;

use host_record::Quantity;
use host_statistics::{STEADY_STATE_TOLERANCE, STEADY_STATE_VALUES, median, steady_state, thinned};
use plugin_guest::{
    Case, Columns, Description, Direction, Error, Gap, Measurement, Metric, NoOptions,
};

const FIRST: &str = "first-run-time";
const LATENCY: &str = "latency";
const PROCESS: &str = "process";
const CACHED: &str = "model-cached";

/// The columns that are read: those of the quantities that this metric states, and two more.
static COLUMNS: LazyLock<Vec<&str>> = LazyLock::new(|| {
    let stated = Quantity::stated_by("startup").map(|(_, quantity)| quantity.id);
    stated.chain([LATENCY, PROCESS, CACHED]).collect()
});

/// Limit on the examined latencies; a longer series is sampled.
const MOST: usize = 1 << 18;

/// The metric.
pub struct Startup;

impl Metric for Startup {
    type Options = NoOptions;

    fn describe() -> Description {
        plugin_guest::describe!("startup")
    }

    fn columns() -> &'static [&'static str] {
        &COLUMNS
    }

    fn compute(case: &Case, columns: &Columns, _: NoOptions) -> Result<Vec<Measurement>, Error> {
        if let Some(processes) = columns.processes() {
            let of_each =
                processes.iter().map(|columns| Self::compute(case, columns, NoOptions {}));
            let of_each = of_each.collect::<Result<_, _>>()?;
            return Ok(Measurement::all_over_processes(of_each, case.confidence()));
        }
        let steps: Vec<_> = Quantity::stated_by("startup")
            .map(|(metric, quantity)| (metric, one(columns, quantity.id)))
            .collect();
        let total = steps.iter().try_fold(0.0, |sum, (_, time)| Ok(sum + time.clone()?));
        let ratio = one(columns, FIRST).and_then(|first| Ok(first / steady_median(case, columns)?));
        let mut all: Vec<Measurement> =
            steps.into_iter().map(|(name, time)| measurement(name, time, "ns")).collect();
        let pages =
            columns.double(CACHED).ok().and_then(|parts| parts.first()).map(|part| match part {
                0.99.. => "warm",
                ..0.01 => "cold",
                _ => "partly warm",
            });
        if let (Some(pages), Some(load)) =
            (pages, all.iter_mut().find(|one| one.metric == "startup.load"))
        {
            load.attributes.insert("pages".to_owned(), pages.to_owned());
        }
        all.push(
            measurement("startup.total", total, "ns")
                .with_attribute("definition", "open + load + prepare + first inference"),
        );
        all.push(
            measurement("startup.first-to-steady", ratio, "1")
                .with_attribute("definition", "first inference / median of the steady latencies"),
        );
        Ok(all)
    }
}

plugin_guest::export_metric!(Startup);

fn measurement(name: &str, value: Result<f64, Gap>, unit: &str) -> Measurement {
    Measurement::new(name, value, unit, Direction::Lower)
}

fn one(columns: &Columns, name: &str) -> Result<f64, Gap> {
    match columns.unsigned(name)? {
        [value] => Ok(*value as f64),
        values => Err(Gap::unsupported(format!(
            "column `{name}` has {} rows instead of one",
            values.len()
        ))),
    }
}

/// Returns the median of the latencies in a series' steady state.
fn steady_median(case: &Case, columns: &Columns) -> Result<f64, Gap> {
    match case.attributes.get("scenario").map(String::as_str) {
        Some("single-stream") => {}
        Some("closed-loop") => match case.attributes.get("clients").map(String::as_str) {
            // One client waits for each of its queries, as in a single stream.
            Some("1") => {}
            Some(clients) => {
                return Err(Gap::unsupported(format!(
                    "in the closed-loop scenario of {clients} clients a latency is not that of an \
                     inference by itself"
                )));
            }
            None => {
                return Err(Gap::unsupported("the case does not state its number of clients"));
            }
        },
        Some(other) => {
            return Err(Gap::unsupported(format!(
                "in the {other} scenario a latency is not that of one inference"
            )));
        }
        None => return Err(Gap::unsupported("the case names no scenario")),
    }
    let latencies = columns.unsigned(LATENCY)?;
    let latencies = thinned(latencies, MOST);
    let steady = steady_state(&latencies, STEADY_STATE_TOLERANCE).map_err(|_| {
        Gap::not_measured(format!(
            "needs {STEADY_STATE_VALUES} queries to find a steady state, has {}",
            latencies.len()
        ))
    })?;
    let from = steady.steady_from().ok_or("latencies did not become steady")?;
    match median(&latencies[from..]) {
        Some(median) if median > 0.0 => Ok(median),
        _ => Err("the steady queries were too short for the clock".into()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use plugin_guest::{Column, ColumnData};

    use super::*;

    fn compute(
        scenario: &str,
        columns: &[(&str, Vec<u64>)],
    ) -> BTreeMap<String, Result<f64, String>> {
        let attributes = [("scenario".to_owned(), scenario.to_owned())].into();
        measurements(attributes, columns)
            .into_iter()
            .map(|one| (one.metric, one.value.map_err(|gap| gap.reason)))
            .collect()
    }

    fn measurements(
        attributes: BTreeMap<String, String>,
        columns: &[(&str, Vec<u64>)],
    ) -> Vec<Measurement> {
        let columns: Vec<_> = columns
            .iter()
            .map(|(name, values)| Column {
                name: (*name).into(),
                unit: "ns".into(),
                width: 1,
                data: ColumnData::Unsigned(values.clone()),
            })
            .collect();
        let case = Case { id: "0123456789abcdef".into(), attributes };
        Startup::compute(&case, &columns.into(), NoOptions {}).expect("it takes no options")
    }

    /// Returns a warm-up of 100 queries, then 400 around 1 ms.
    fn latencies() -> Vec<u64> {
        (0..500).map(|query| if query < 100 { 3_000_000 } else { 1_000_000 + query % 7 }).collect()
    }

    fn columns() -> Vec<(&'static str, Vec<u64>)> {
        vec![
            ("open-time", vec![1_000]),
            ("load-time", vec![20_000]),
            ("prepare-time", vec![300_000]),
            ("first-run-time", vec![4_000_012]),
            (LATENCY, latencies()),
        ]
    }

    #[test]
    fn steps_add_up_and_the_first_inference_is_held_against_the_steady_ones() {
        let found = compute("single-stream", &columns());
        assert_eq!(found["startup.open"], Ok(1_000.0));
        assert_eq!(found["startup.load"], Ok(20_000.0));
        assert_eq!(found["startup.prepare"], Ok(300_000.0));
        assert_eq!(found["startup.first-inference"], Ok(4_000_012.0));
        assert_eq!(found["startup.total"], Ok(4_321_012.0));
        // The median of the last 400, and not of all.
        assert_eq!(found["startup.first-to-steady"], Ok(4_000_012.0 / 1_000_003.0));
    }

    #[test]
    fn processes_are_averaged_with_an_interval() {
        // Another process is faster, and its first inference is held against its own latencies.
        let mut several = columns();
        for (name, values) in &mut several {
            match *name {
                LATENCY => values.extend(latencies().iter().map(|latency| latency / 2)),
                _ => values.push(values[0] / 2),
            }
        }
        several.push((PROCESS, [vec![0; 500], vec![1; 500]].concat()));
        let single = [("scenario".to_owned(), "single-stream".to_owned())].into();
        let found = measurements(single, &several);
        let of = |name: &str| found.iter().find(|one| one.metric == name).expect("a figure");
        assert_eq!(of("startup.load").value, Ok(15_000.0));
        assert_eq!(of("startup.load").attributes["process-values"], "20000 10000");
        let ratio = of("startup.first-to-steady").value.clone().expect("a ratio");
        assert!((ratio - 4.0).abs() < 1e-3, "{ratio}");
    }

    #[test]
    fn a_load_says_whether_the_models_pages_were_in_memory() {
        let pages = |part: f64| {
            let cached = Column {
                name: CACHED.into(),
                unit: "1".into(),
                width: 1,
                data: ColumnData::Double(vec![part]),
            };
            let found = Startup::compute(&Case::default(), &vec![cached].into(), NoOptions {});
            let found = found.expect("gaps");
            let load = found.into_iter().find(|one| one.metric == "startup.load");
            load.expect("it is listed").attributes["pages"].clone()
        };
        assert_eq!([1.0, 0.5, 0.0].map(pages), ["warm", "partly warm", "cold"]);
    }

    #[test]
    fn one_client_of_a_closed_loop_is_a_single_stream() {
        let ratio = |clients: Option<&str>| {
            let mut attributes = BTreeMap::from([("scenario".into(), "closed-loop".into())]);
            attributes.extend(clients.map(|count| ("clients".to_owned(), count.to_owned())));
            let found = measurements(attributes, &columns());
            let one = found.into_iter().find(|one| one.metric == "startup.first-to-steady");
            one.expect("the ratio").value.map_err(|gap| gap.reason)
        };
        assert_eq!(ratio(Some("1")), Ok(4_000_012.0 / 1_000_003.0));
        assert_eq!(
            ratio(Some("4")),
            Err("in the closed-loop scenario of 4 clients a latency is not that of an inference by \
                 itself"
                .into())
        );
        assert_eq!(ratio(None), Err("the case does not state its number of clients".into()));
    }

    #[test]
    fn without_a_stage_there_is_no_total() {
        let mut some = columns();
        some.retain(|(name, _)| *name != "load-time");
        let found = compute("single-stream", &some);
        let gap = Err("the case has no record of `load-time`".to_owned());
        assert_eq!((&found["startup.load"], &found["startup.total"]), (&gap, &gap));
        assert_eq!(found["startup.prepare"], Ok(300_000.0));
    }

    #[test]
    fn a_ratio_needs_steady_latencies_of_single_inferences() {
        let ratio = |scenario, latencies: Vec<u64>| {
            let mut some = columns();
            some[4].1 = latencies;
            compute(scenario, &some)["startup.first-to-steady"].clone().unwrap_err()
        };
        assert_eq!(
            ratio("offline", latencies()),
            "in the offline scenario a latency is not that of one inference"
        );
        assert_eq!(
            ratio("single-stream", vec![5; 30]),
            "needs 40 queries to find a steady state, has 30"
        );
        let rising = (0..500).map(|query| 1_000_000 + query * 10_000).collect();
        assert_eq!(ratio("single-stream", rising), "latencies did not become steady");
        assert_eq!(
            ratio("single-stream", vec![0; 50]),
            "the steady queries were too short for the clock"
        );
    }
}
