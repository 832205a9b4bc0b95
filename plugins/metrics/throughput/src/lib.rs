/*!
Samples and queries per second.

Of one client that waits for its queries, over measured time: the sum of the queries' latencies.
Between blocks of queries the harness pauses to send its samples out; those pauses are its own and
are left out, so the figure is what the backend does while it is asked to do something.

Of an open loop, where queries arrive by a schedule, and of several clients, over the time from the
first query's end to the last one's: what was achieved, in *n* - 1 gaps between *n* ends. The attribute
`offered-queries` is the rate at which queries arrived, over the gaps of the schedule.

Of several processes, the mean of theirs, with an interval of what another process may do.
*/

use host_statistics::student_interval;
use plugin_guest::{
    Case, Columns, Description, Direction, Error, Gap, Measurement, Metric, NoOptions,
};

/// The columns that are read.
const LATENCY: &str = "latency";
const ITEMS: &str = "items";
const START: &str = "start";
const SCHEDULED: &str = "scheduled";
const LANE: &str = "lane";
const PROCESS: &str = "process";

/// Confidence of the interval over processes.
const CONFIDENCE: f64 = 0.95;

/// The metric.
pub struct Throughput;

impl Metric for Throughput {
    type Options = NoOptions;

    fn describe() -> Description {
        plugin_guest::describe!("throughput")
    }

    fn columns() -> &'static [&'static str] {
        &[LATENCY, ITEMS, START, SCHEDULED, LANE, PROCESS]
    }

    fn compute(_: &Case, columns: &Columns, _: NoOptions) -> Result<Vec<Measurement>, Error> {
        let sample = Sample {
            latencies: columns.unsigned(LATENCY),
            items: columns.unsigned(ITEMS),
            begun: columns.unsigned(START).ok().filter(|_| {
                columns.unsigned(LANE).is_ok_and(|lanes| lanes.iter().any(|lane| *lane > 0))
            }),
            scheduled: columns.unsigned(SCHEDULED).ok(),
        };
        sample.check()?;
        let Ok(numbers) = columns.unsigned(PROCESS) else { return Ok(sample.rates()) };
        if sample.latencies.as_ref().is_ok_and(|latencies| latencies.len() != numbers.len()) {
            return Err(Error::Other("latencies and processes do not belong together".into()));
        }
        let mut place = 0;
        let processes: Vec<_> = numbers
            .chunk_by(|one, next| one == next)
            .map(|process| {
                let range = place..place + process.len();
                place = range.end;
                sample.part(range).rates()
            })
            .collect();
        Ok(over_processes(&processes))
    }
}

/// Queries of one process, or of all.
struct Sample<'a> {
    latencies: Result<&'a [u64], Gap>,
    items: Result<&'a [u64], Gap>,
    /// When queries began, where several clients made them.
    begun: Option<&'a [u64]>,
    /// When they were to begin, in an open loop.
    scheduled: Option<&'a [u64]>,
}

impl<'a> Sample<'a> {
    fn check(&self) -> Result<(), Error> {
        let (Ok(latencies), Ok(items)) = (&self.latencies, &self.items) else { return Ok(()) };
        if latencies.len() == items.len() {
            return Ok(());
        }
        Err(Error::Other(format!(
            "{} latencies and {} counts of samples do not belong together",
            latencies.len(),
            items.len()
        )))
    }

    fn part(&self, range: std::ops::Range<usize>) -> Self {
        let part = |values: &'a [u64]| values.get(range.clone()).unwrap_or_default();
        Self {
            latencies: self.latencies.clone().map(part),
            items: self.items.clone().map(part),
            begun: self.begun.map(part),
            scheduled: self.scheduled.map(part),
        }
    }

    fn rates(&self) -> Vec<Measurement> {
        let (latencies, items) = (self.latencies.clone(), self.items.clone());
        if let Some(began) = self.scheduled.or(self.begun) {
            return by_ends(began, self.scheduled, latencies, items);
        }
        let time = latencies.and_then(|latencies| {
            if latencies.is_empty() {
                return Err(Gap::not_measured("no query was measured"));
            }
            match total(latencies) {
                0 => Err(Gap::not_measured("the queries took no time that the clock could tell")),
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

/// The mean of the processes' rates, with its interval by Student's *t*; the first gap, if one of them
/// has none.
fn over_processes(processes: &[Vec<Measurement>]) -> Vec<Measurement> {
    let Some(first) = processes.first() else { return Vec::new() };
    let over = |(index, of_first): (usize, &Measurement)| {
        let values: Result<Vec<f64>, Gap> =
            processes.iter().map(|rates| rates[index].value.clone()).collect();
        let values = match values {
            Ok(values) => values,
            Err(gap) => {
                let Measurement { metric, unit, direction, .. } = of_first.clone();
                return Measurement::new(metric, Err(gap), unit, direction);
            }
        };
        let mut found = of_first.clone();
        found.value = Ok(values.iter().sum::<f64>() / values.len() as f64);
        found.attributes.clear();
        let found = found
            .with_attribute("processes", values.len().to_string())
            .with_attribute("definition", "mean over processes");
        let of_process: Vec<&[f64]> = values.chunks(1).collect();
        match student_interval(&of_process, |one| one[0], CONFIDENCE) {
            Ok(interval) => found
                .with_interval(interval.low, interval.high)
                .with_attribute("confidence", CONFIDENCE.to_string())
                .with_attribute("interval", "Student's t over processes"),
            // All are the same, which leaves nothing to estimate an uncertainty by.
            Err(_) => found,
        }
    };
    first.iter().enumerate().map(over).collect()
}

plugin_guest::export_metric!(Throughput);

/// Rates over the time between ends. `began` is what latencies count from.
fn by_ends(
    began: &[u64],
    scheduled: Option<&[u64]>,
    latencies: Result<&[u64], Gap>,
    items: Result<&[u64], Gap>,
) -> Vec<Measurement> {
    let span = latencies.and_then(|latencies| {
        let ends = || began.iter().zip(latencies).map(|(began, took)| began.saturating_add(*took));
        // Which of several queries that end first and last does not matter.
        let first = ends().enumerate().min_by_key(|(_, end)| *end);
        match first.zip(ends().max()) {
            Some(((first, from), to)) if latencies.len() > 1 && to > from => {
                Ok((first, u128::from(to - from), latencies.len()))
            }
            Some(_) if latencies.len() > 1 => {
                Err(Gap::not_measured("the queries took no time that the clock could tell"))
            }
            _ => Err(Gap::not_measured("a rate needs two queries")),
        }
    });
    let queries = span.clone().map(|(_, time, queries)| rate(queries as u128 - 1, time));
    // The first query's samples belong to no gap.
    let samples = span.clone().and_then(|(first, time, _)| {
        let items = items?;
        Ok(rate(total(items) - u128::from(items.get(first).copied().unwrap_or(0)), time))
    });
    let bounds = scheduled.and_then(|times| times.iter().min().zip(times.iter().max()));
    let offered = bounds
        .map(|(from, to)| u128::from(to - from))
        .filter(|span| *span > 0)
        .map(|span| rate(began.len() as u128 - 1, span));
    let higher = |name: &str, value| {
        let mut measurement =
            Measurement::new(format!("throughput.{name}"), value, "1/s", Direction::Higher);
        if let Ok((_, time, queries)) = span {
            measurement = measurement
                .with_attribute("measured-ns", time.to_string())
                .with_attribute("queries", queries.to_string())
                .with_attribute("over", "the time from the first query's end to the last one's");
        }
        if let Some(offered) = offered {
            measurement = measurement.with_attribute("offered-queries", offered.to_string());
        }
        measurement
    };
    vec![higher("samples", samples), higher("queries", queries)]
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
        let absent = Err("the case has no column `latency`".to_owned());
        assert_eq!(reasons(&[(ITEMS, vec![1])]), [absent.clone(), absent]);
        let empty = Err("no query was measured".to_owned());
        assert_eq!(reasons(&[(LATENCY, vec![]), (ITEMS, vec![])]), [empty.clone(), empty]);
        let zero = Err("the queries took no time that the clock could tell".to_owned());
        assert_eq!(reasons(&[(LATENCY, vec![0]), (ITEMS, vec![1])]), [zero.clone(), zero]);
        let items = Err("the case has no column `items`".to_owned());
        assert_eq!(reasons(&[(LATENCY, vec![10])]), [items, Ok(1e8)]);
    }

    #[test]
    fn an_open_loop_achieves_what_ends_and_is_offered_what_is_scheduled() {
        let columns = [
            (LATENCY, vec![500_000_000, 1_500_000_000, 1_500_000_000]),
            (ITEMS, vec![8, 8, 8]),
            (SCHEDULED, vec![1_000_000_000, 1_500_000_000, 2_000_000_000]),
            (START, vec![1_000_000_000, 2_000_000_000, 2_500_000_000]),
        ];
        let found = compute(&columns).unwrap();
        assert_eq!(found[0].value, Ok(8.0));
        assert_eq!(found[1].value, Ok(1.0));
        assert_eq!(found[1].attributes["offered-queries"], "2");
        let one = columns.map(|(name, values)| (name, values[..1].to_vec()));
        assert!(compute(&one).unwrap().iter().all(|found| found.value.is_err()));
    }

    #[test]
    fn processes_are_averaged_with_an_interval() {
        let columns = [
            (LATENCY, vec![500_000_000, 500_000_000, 250_000_000, 250_000_000]),
            (ITEMS, vec![1; 4]),
            (PROCESS, vec![0, 0, 1, 1]),
        ];
        let found = compute(&columns).unwrap();
        assert_eq!(found[0].value, Ok(3.0));
        // t with one degree of freedom, 12.706, times the standard error, 1.
        let (low, high) = found[0].interval.expect("an interval");
        assert!((low + 9.706).abs() < 1e-3 && (high - 15.706).abs() < 1e-3, "{low} {high}");
        assert_eq!(found[0].attributes["processes"], "2");
    }

    #[test]
    fn several_clients_are_counted_over_the_same_time() {
        let columns = [
            (LATENCY, vec![10, 10, 10, 10]),
            (ITEMS, vec![1; 4]),
            (START, vec![0, 10, 0, 10]),
            (LANE, vec![0, 0, 1, 1]),
        ];
        // Four ends in 10 ns, of which the first is no gap.
        assert_eq!(compute(&columns).unwrap()[0].value, Ok(3e8));
    }

    #[test]
    fn columns_that_do_not_belong_together_are_refused() {
        let error = compute(&[(LATENCY, vec![1, 2]), (ITEMS, vec![1])]).unwrap_err();
        assert_eq!(error.to_string(), "2 latencies and 1 counts of samples do not belong together");
    }
}
