/*!
Samples and queries per second. Samples are examples in the outputs; if nobody can tell how many those are,
only queries have a rate.

For one client that waits for its queries, over measured time: the sum of the queries' latencies. Between blocks of
queries the harness pauses to send its samples; these pauses are left out, so the figure is the backend's rate while
it is busy.

For several clients, the sum of their individual rates.

For an open loop, where queries arrive by a schedule, the achieved rate: *n* - 1 gaps between the ends of
*n* queries, without the harness's pauses. One query has no gap and therefore no rate. The attribute `offered-queries`
is the rate at which queries arrived.

For several processes, the mean of theirs, with the interval of that mean over processes, if it does not reach
below zero, and a prediction interval, in which another process will lie.
*/

use std::collections::BTreeMap;

use plugin_guest::{
    Case, Columns, Description, Direction, Error, Gap, Measurement, Metric, NoOptions,
};

/// The columns that are read.
const LATENCY: &str = "latency";
const ITEMS: &str = "items";
const LANE: &str = "lane";
const ACHIEVED: &str = "achieved-rate";
const OFFERED: &str = "offered-rate";
const PROCESS: &str = "process";

/// Scenarios of an open loop.
const OPEN: [&str; 2] = ["server", "constant-rate"];

/// The metric.
pub struct Throughput;

impl Metric for Throughput {
    type Options = NoOptions;

    fn describe() -> Description {
        plugin_guest::describe!("throughput")
    }

    fn columns() -> &'static [&'static str] {
        &[LATENCY, ITEMS, LANE, ACHIEVED, OFFERED, PROCESS]
    }

    fn compute(case: &Case, columns: &Columns, _: NoOptions) -> Result<Vec<Measurement>, Error> {
        let sample = Sample {
            latencies: columns.unsigned(LATENCY),
            items: columns.unsigned(ITEMS),
            lanes: columns.unsigned(LANE).ok(),
            achieved: columns.double(ACHIEVED).ok(),
            offered: columns.double(OFFERED).ok(),
            is_open: case.attributes.get("scenario").is_some_and(|name| OPEN.contains(&&**name)),
        };
        sample.check()?;
        if let (Ok(latencies), Ok(numbers)) = (&sample.latencies, columns.unsigned(PROCESS))
            && latencies.len() != numbers.len()
        {
            return Err(Error::Other("latencies and processes do not match".into()));
        }
        let Some(processes) = columns.processes() else { return Ok(sample.rates()) };
        let of_each = processes.iter().map(|columns| Self::compute(case, columns, NoOptions {}));
        let of_each = of_each.collect::<Result<_, _>>()?;
        Ok(Measurement::all_over_processes(of_each, case.confidence()))
    }
}

/// Queries of one process, or of all.
struct Sample<'a> {
    latencies: Result<&'a [u64], Gap>,
    items: Result<&'a [u64], Gap>,
    /// The client of each query.
    lanes: Option<&'a [u64]>,
    /// Queries per second of each process of an open loop, as the harness counts them.
    achieved: Option<&'a [f64]>,
    offered: Option<&'a [f64]>,
    /// Whether queries arrived by a schedule, so that latencies do not determine a rate.
    is_open: bool,
}

impl<'a> Sample<'a> {
    fn check(&self) -> Result<(), Error> {
        let (Ok(latencies), Ok(items)) = (&self.latencies, &self.items) else { return Ok(()) };
        if latencies.len() == items.len() {
            return Ok(());
        }
        Err(Error::Other(format!(
            "{} latencies and {} counts of samples do not match",
            latencies.len(),
            items.len()
        )))
    }

    fn rates(&self) -> Vec<Measurement> {
        let (latencies, items) = (self.latencies.clone(), self.items.clone());
        if let Some(&[achieved]) = self.achieved {
            return by_schedule(Ok(achieved), self.offered, &items);
        }
        if self.is_open {
            let gap = latencies.map_or_else(
                |gap| gap,
                |latencies| match latencies.len() {
                    0 => Gap::not_measured("no query was measured"),
                    1 => Gap::not_measured("needs 2 queries, has 1"),
                    _ => Gap::not_measured(format!("the case has no record of `{ACHIEVED}`")),
                },
            );
            return by_schedule(Err(gap), self.offered, &items);
        }
        if let (Ok(latencies), Some(lanes)) = (&latencies, self.lanes)
            && lanes.len() == latencies.len()
            && lanes.iter().any(|lane| *lane > 0)
        {
            return of_clients(latencies, &items, lanes);
        }
        let time = latencies.and_then(|latencies| {
            if latencies.is_empty() {
                return Err(Gap::not_measured("no query was measured"));
            }
            match total(latencies) {
                0 => Err(Gap::not_measured("the queries were too short for the clock")),
                nanoseconds => Ok((nanoseconds, latencies.len() as u128)),
            }
        });
        let samples = time.clone().and_then(|(time, _)| Ok(rate(total(items?), time)));
        let queries = time.clone().map(|(time, queries)| rate(queries, time));
        let measurement = |name: &str, value| {
            let mut measurement =
                Measurement::new(format!("throughput.{name}"), value, "1/s", Direction::Higher);
            if let Ok((nanoseconds, queries)) = &time {
                measurement = measurement
                    .with_attribute("measured-ns", nanoseconds.to_string())
                    .with_attribute("queries", queries.to_string());
            }
            measurement
        };
        vec![measurement("samples", samples), measurement("queries", queries)]
    }
}

plugin_guest::export_metric!(Throughput);

/// Returns the rates of an open loop.
fn by_schedule(
    achieved: Result<f64, Gap>,
    offered: Option<&[f64]>,
    items: &Result<&[u64], Gap>,
) -> Vec<Measurement> {
    let samples = achieved.clone().and_then(|achieved| {
        let items = items.clone()?;
        match items.len() {
            0 => Err(Gap::not_measured("no query was measured")),
            queries => Ok(achieved * total(items) as f64 / queries as f64),
        }
    });
    let measurement = |name: &str, value| {
        let name = format!("throughput.{name}");
        let mut found = Measurement::new(name, value, "1/s", Direction::Higher)
            .with_attribute("over", "the gaps between the ends of queries");
        if let Some(&[offered]) = offered {
            found = found.with_attribute("offered-queries", offered.to_string());
        }
        found
    };
    vec![measurement("samples", samples), measurement("queries", achieved)]
}

/// Returns the rates of several clients: the sum of their individual rates.
fn of_clients(latencies: &[u64], items: &Result<&[u64], Gap>, lanes: &[u64]) -> Vec<Measurement> {
    let mut of_lane: BTreeMap<u64, [u128; 3]> = BTreeMap::new();
    for (index, (latency, lane)) in latencies.iter().zip(lanes).enumerate() {
        let items = items.as_ref().ok().and_then(|items| items.get(index)).copied();
        let sums = of_lane.entry(*lane).or_default();
        for (sum, one) in sums.iter_mut().zip([*latency, items.unwrap_or(0), 1]) {
            *sum += u128::from(one);
        }
    }
    let sum = |what: usize| -> Result<f64, Gap> {
        let rates = of_lane.values().map(|sums| match sums[0] {
            0 => Err(Gap::not_measured("the queries were too short for the clock")),
            nanoseconds => Ok(rate(sums[what], nanoseconds)),
        });
        rates.sum()
    };
    let measurement = |name: &str, value| {
        Measurement::new(format!("throughput.{name}"), value, "1/s", Direction::Higher)
            .with_attribute("clients", of_lane.len().to_string())
            .with_attribute("queries", latencies.len().to_string())
            .with_attribute("over", "the sum of each client's latencies")
    };
    let samples = items.clone().and_then(|_| sum(1));
    vec![measurement("samples", samples), measurement("queries", sum(2))]
}

fn total(values: &[u64]) -> u128 {
    values.iter().map(|&value| u128::from(value)).sum()
}

fn rate(count: u128, nanoseconds: u128) -> f64 {
    count as f64 * 1e9 / nanoseconds as f64
}

#[cfg(test)]
mod tests {
    use plugin_guest::{Column, ColumnData};

    use super::*;

    fn compute(columns: &[(&str, Vec<u64>)]) -> Result<Vec<Measurement>, Error> {
        let columns: Vec<_> = columns
            .iter()
            .map(|(name, values)| Column {
                name: (*name).into(),
                unit: String::new(),
                width: 1,
                data: ColumnData::Unsigned(values.clone()),
            })
            .collect();
        Throughput::compute(&Case::default(), &columns.into(), NoOptions {})
    }

    #[test]
    fn rates_are_counts_over_the_sum_of_latencies() {
        let found = compute(&[(LATENCY, vec![1_000_000, 3_000_000]), (ITEMS, vec![8, 8])]).unwrap();
        assert_eq!(found[0].metric, "throughput.samples");
        assert_eq!(found[0].value, Ok(4000.0));
        assert_eq!(found[1].metric, "throughput.queries");
        assert_eq!(found[1].value, Ok(500.0));
        assert_eq!(found[0].attributes["measured-ns"], "4000000");
        assert!(found.iter().all(|one| one.unit == "1/s" && one.direction == Direction::Higher));
    }

    #[test]
    fn queries_have_a_rate_where_samples_cannot_be_counted() {
        let alone = compute(&[(LATENCY, vec![1_000_000, 3_000_000])]).unwrap();
        assert!(alone[0].value.is_err(), "{alone:?}");
        assert_eq!(alone[1].value, Ok(500.0));
        // Two clients, each with a query in a millisecond.
        let clients = compute(&[(LATENCY, vec![1_000_000; 2]), (LANE, vec![0, 1])]).unwrap();
        assert!(clients[0].value.is_err(), "{clients:?}");
        assert_eq!(clients[1].value, Ok(2000.0));
    }

    #[test]
    fn sums_do_not_overflow() {
        let found = compute(&[(LATENCY, vec![u64::MAX; 4]), (ITEMS, vec![u64::MAX; 4])]).unwrap();
        assert_eq!(found[0].value, Ok(1e9));
    }

    #[test]
    fn what_was_not_measured_is_a_gap() {
        let reasons = |columns: &[(&str, Vec<u64>)]| {
            let found = compute(columns).unwrap();
            [0, 1].map(|index: usize| found[index].value.clone().map_err(|gap| gap.reason))
        };
        let absent = Err("the case has no record of `latency`".to_owned());
        assert_eq!(reasons(&[(ITEMS, vec![1])]), [absent.clone(), absent]);
        let empty = Err("no query was measured".to_owned());
        assert_eq!(reasons(&[(LATENCY, vec![]), (ITEMS, vec![])]), [empty.clone(), empty]);
        let zero = Err("the queries were too short for the clock".to_owned());
        assert_eq!(reasons(&[(LATENCY, vec![0]), (ITEMS, vec![1])]), [zero.clone(), zero]);
        let items = Err("the case has no record of `items`".to_owned());
        assert_eq!(reasons(&[(LATENCY, vec![10])]), [items, Ok(1e8)]);
    }

    #[test]
    fn an_open_loop_achieves_what_the_harness_says() {
        let column =
            |name: &str, data| Column { name: name.into(), unit: String::new(), width: 1, data };
        let columns = vec![
            column(LATENCY, ColumnData::Unsigned(vec![5, 6, 7])),
            column(ITEMS, ColumnData::Unsigned(vec![8; 3])),
            column(ACHIEVED, ColumnData::Double(vec![10.0])),
            column(OFFERED, ColumnData::Double(vec![12.0])),
        ];
        let found = Throughput::compute(&Case::default(), &columns.into(), NoOptions {}).unwrap();
        assert_eq!(found[0].value, Ok(80.0));
        assert_eq!(found[1].value, Ok(10.0));
        assert_eq!(found[1].attributes["offered-queries"], "12");
    }

    #[test]
    fn processes_are_averaged_with_an_interval() {
        // 20 and 25 a second.
        let found = of_processes(vec![50_000_000, 50_000_000, 40_000_000, 40_000_000]);
        assert_eq!(found[0].value, Ok(22.5));
        // t with one degree of freedom, 12.706, times the standard error, 2.5, is 31.8.
        assert_eq!(found[0].interval, None);
        assert_eq!(
            found[0].attributes["interval"],
            "none: the spread is too wide for so few values: by Student's t over processes it \
             would reach below zero"
        );
        // 20 and 20.2 a second.
        let found = of_processes(vec![50_000_000, 50_000_000, 49_500_000, 49_509_901]);
        let (low, high) = found[0].interval.expect("an interval");
        assert!((low - 18.83).abs() < 0.02 && (high - 21.37).abs() < 0.02, "{low} {high}");
        assert_eq!(found[0].attributes["processes"], "2");
        assert_eq!(found[0].attributes["confidence"], "0.95");
        let found = of_processes(vec![50_000_000; 4]);
        assert_eq!((&found[0].value, found[0].interval), (&Ok(20.0), None));
        assert!(
            found[0].attributes["interval"].starts_with("none: all processes have the same value")
        );
    }

    /// Returns measurements for two queries in each of two processes.
    fn of_processes(latencies: Vec<u64>) -> Vec<Measurement> {
        let columns = [(LATENCY, latencies), (ITEMS, vec![1; 4]), (PROCESS, vec![0, 0, 1, 1])];
        compute(&columns).unwrap()
    }

    /// Latencies of 20 ms at 5 queries per second do not give 50 queries per second.
    #[test]
    fn an_open_loop_without_a_rate_has_none_by_its_latencies() {
        let case = Case {
            id: "0123456789abcdef".into(),
            attributes: [("scenario".to_owned(), "constant-rate".to_owned())].into(),
        };
        let reasons = |latencies: Vec<u64>| {
            let items = vec![1; latencies.len()];
            let columns = [(LATENCY, latencies), (ITEMS, items)].map(|(name, values)| Column {
                name: name.into(),
                unit: String::new(),
                width: 1,
                data: ColumnData::Unsigned(values),
            });
            let found = Throughput::compute(&case, &columns.to_vec().into(), NoOptions {}).unwrap();
            [0, 1].map(|index: usize| found[index].value.clone().map_err(|gap| gap.reason))
        };
        for (latencies, reason) in [
            (vec![], "no query was measured"),
            (vec![20_000_000], "needs 2 queries, has 1"),
            (vec![20_000_000; 2], "the case has no record of `achieved-rate`"),
        ] {
            assert_eq!(reasons(latencies), [Err(reason.to_owned()), Err(reason.to_owned())]);
        }
    }

    #[test]
    fn clients_add_up() {
        let columns =
            [(LATENCY, vec![10, 10, 20, 20]), (ITEMS, vec![2; 4]), (LANE, vec![0, 0, 1, 1])];
        let found = compute(&columns).unwrap();
        assert_eq!(found[0].value, Ok(3e8));
        assert_eq!(found[1].value, Ok(1.5e8));
    }

    #[test]
    fn columns_that_do_not_belong_together_are_refused() {
        let error = compute(&[(LATENCY, vec![1, 2]), (ITEMS, vec![1])]).unwrap_err();
        assert_eq!(error.to_string(), "2 latencies and 1 counts of samples do not match");
    }
}
