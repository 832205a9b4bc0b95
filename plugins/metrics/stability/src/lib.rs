/*!
Steadiness of latencies.

The series is cut at its change points, and classified by its segments after Barrett et al.: flat, a warm-up, a
slow-down, or no steady state; see `host-statistics`. A value is a number and a class is a word, so the class is in
the attribute `class` of the values about it: `stability.changes`, the number of change points, and
`stability.steady-part`, the part of the series in its final steady state: all of a flat series, and nothing of a
series without one.

By default, only the measured queries are classified. With the option `warm-up = true`, the warm-up's queries are put
before them, which shows whether the warm-up was a real one, and long enough.

Each of several processes is examined separately, and a value is the mean of their values. If their classes differ,
the class is `inconsistent`, and `classes` lists them. The warm-up's queries are the first process's, so with the
option only that process is classified.

All other values describe the measured queries: outliers (counted, never removed), correlation, spread. Each has its
minimum number of queries: of three queries none can lie beyond the quartiles, and of four none below, so finding no
outliers among them would mean nothing.
*/

use std::borrow::Cow;

use host_statistics::{
    OutlierClass, STEADY_STATE_TOLERANCE, STEADY_STATE_VALUES, SteadyClass, SteadyState,
    TukeyFences, Undefined, autocorrelation, deviation_outliers, drift, effective_size, moments,
    steady_state, thinned,
};
use plugin_guest::{Case, Columns, Description, Direction, Error, Gap, Measurement, Metric};
use serde::Deserialize;

/// The columns that are read.
const LATENCY: &str = "latency";
const WARM_UP_LATENCY: &str = "warm-up-latency";
const PROCESS: &str = "process";

/// Limit on the latencies that are searched for change points; a longer series is sampled.
const MOST: usize = 1 << 18;

/// Queries from which values can lie beyond the quartiles on both sides; quartiles are nearest
/// ranks.
const LEAST_FOR_QUARTILES: usize = 5;

/// Queries from which one can lie further from the median than the others: two queries are equally far from it.
const LEAST_FOR_DEVIATION: usize = 3;

/// Limit on the listed change points.
const LISTED: usize = 20;

/// The metric.
pub struct Stability;

/// Options of the metric.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct Options {
    /// Whether the warm-up's queries are classified as well.
    pub warm_up: bool,
}

impl Metric for Stability {
    type Options = Options;

    fn describe() -> Description {
        plugin_guest::describe!("stability", {
            "warm-up" => "Whether the warm-up's queries are classified together with the measured ones. Default: false.",
        })
    }

    fn columns() -> &'static [&'static str] {
        &[LATENCY, WARM_UP_LATENCY, PROCESS]
    }

    fn compute(
        case: &Case,
        columns: &Columns,
        options: Options,
    ) -> Result<Vec<Measurement>, Error> {
        let measured = columns.unsigned(LATENCY);
        let warm_up = options.warm_up.then(|| columns.unsigned(WARM_UP_LATENCY));
        let (Ok(latencies), Ok(numbers)) = (&measured, columns.unsigned(PROCESS)) else {
            let mut all = Vec::from(classed(&series(measured.clone(), warm_up)));
            all.extend(described(measured));
            return Ok(all);
        };
        if latencies.len() != numbers.len() {
            return Err(Error::Other("latencies and processes do not match".into()));
        }
        let mut rest = *latencies;
        let processes: Vec<&[u64]> = numbers
            .chunk_by(|one, next| one == next)
            .map(|process| {
                let (of_process, others) = rest.split_at(process.len());
                rest = others;
                of_process
            })
            .collect();
        let classed_of = |process: &&[u64]| Vec::from(classed(&series(Ok(process), None)));
        let mut all = match (&warm_up, processes.first()) {
            (Some(_), Some(first)) => Vec::from(classed(&series(Ok(first), warm_up)))
                .into_iter()
                .map(|one| one.with_attribute("process", format!("first of {}", processes.len())))
                .collect(),
            _ => over_processes(processes.iter().map(classed_of).collect(), case.confidence()),
        };
        let described_of = |process: &&[u64]| described(Ok(process));
        all.extend(over_processes(processes.iter().map(described_of).collect(), case.confidence()));
        Ok(all)
    }
}

/// Returns the values over processes; the class, if all have the same.
fn over_processes(processes: Vec<Vec<Measurement>>, confidence: f64) -> Vec<Measurement> {
    let class = |one: &Measurement| one.attributes.get("class").cloned();
    let classes: Vec<Vec<Option<String>>> =
        processes.iter().map(|process| process.iter().map(class).collect()).collect();
    let classed = |(index, found): (usize, Measurement)| {
        let classes: Vec<&str> =
            classes.iter().filter_map(|process| process[index].as_deref()).collect();
        let Some(first) = classes.first() else { return found };
        let same = classes.iter().all(|other| other == first);
        let class = if same { *first } else { "inconsistent" };
        found.with_attribute("class", class).with_attribute("classes", classes.join(", "))
    };
    let all = Measurement::all_over_processes(processes, confidence);
    all.into_iter().enumerate().map(classed).collect()
}

plugin_guest::export_metric!(Stability);

/// The latencies that are classified.
struct Series<'a> {
    latencies: Cow<'a, [u64]>,
    /// Queries of the warm-up among them.
    warm_up: usize,
}

fn series<'a>(
    measured: Result<&'a [u64], Gap>,
    warm_up: Option<Result<&'a [u64], Gap>>,
) -> Result<Series<'a>, Gap> {
    let measured = measured?;
    let Some(warm_up) = warm_up else {
        return Ok(Series { latencies: measured.into(), warm_up: 0 });
    };
    let warm_up = warm_up?;
    Ok(Series { latencies: [warm_up, measured].concat().into(), warm_up: warm_up.len() })
}

/// Returns the values about the class.
fn classed(series: &Result<Series<'_>, Gap>) -> [Measurement; 3] {
    let found = series.as_ref().map_err(Gap::clone).and_then(|series| {
        let thin = thinned(&series.latencies, MOST);
        let state = steady_state(&thin, STEADY_STATE_TOLERANCE).map_err(gap)?;
        let trend = drift(&thin).map_err(gap);
        Ok((series, thin, state, trend))
    });
    let (changes, steady_part, change) = match &found {
        Ok((_, thin, state, _)) => (
            Ok(state.change_points().count() as f64),
            Ok(state.steady_from().map_or(0.0, |from| percent(thin.len() - from, thin.len()))),
            level_change(state),
        ),
        Err(gap) => (Err(gap.clone()), Err(gap.clone()), Err(gap.clone())),
    };
    let mut all = [
        measurement("changes", changes, "1", Direction::Lower),
        measurement("steady-part", steady_part, "%", Direction::Higher),
        measurement("drift", change, "%", Direction::Neutral)
            .with_attribute("definition", "level of the last segment / level of the first - 1"),
    ];
    let Ok((series, thin, state, trend)) = found else { return all };
    // In a sampled series, each value stands for several.
    let stride = series.latencies.len().div_ceil(thin.len());
    for one in &mut all {
        let mut add = |name: &str, value: String| one.attributes.insert(name.into(), value);
        add("class", class_name(state.class).into());
        add("queries", series.latencies.len().to_string());
        if series.warm_up > 0 {
            add("warm-up-queries", series.warm_up.to_string());
        }
        if stride > 1 {
            add("thinned", format!("one query in {stride}"));
        }
    }
    let places: Vec<_> =
        state.change_points().take(LISTED).map(|place| (place * stride).to_string()).collect();
    if !places.is_empty() {
        all[0].attributes.insert("change-points".into(), places.join(" "));
    }
    if let Ok(trend) = trend {
        // The Theil–Sen slope, which also detects changes that are too slow for a step.
        all[2].attributes.insert("trend".into(), format!("{:.3} %", trend * 100.0));
    }
    all
}

fn level_change(state: &SteadyState) -> Result<f64, Gap> {
    let (Some(first), Some(last)) = (state.segments.first(), state.segments.last()) else {
        return Err("no query was measured".into());
    };
    if first.level > 0.0 {
        Ok((last.level / first.level - 1.0) * 100.0)
    } else {
        Err("the first queries were too short for the clock".into())
    }
}

/// Returns the values about the measured queries.
fn described(latencies: Result<&[u64], Gap>) -> Vec<Measurement> {
    let latencies = latencies.and_then(|latencies| match latencies {
        [] => Err(Gap::not_measured("no query was measured")),
        some => Ok(some),
    });
    let of = |read: fn(&[u64]) -> Result<f64, Gap>| latencies.clone().and_then(read);
    vec![
        measurement("outliers.tukey-mild", of(|it| tukey(it, false)), "%", Direction::Lower)
            .with_attribute("definition", "from 1.5 to 3 interquartile ranges outside the quartiles"),
        measurement("outliers.tukey-severe", of(|it| tukey(it, true)), "%", Direction::Lower)
            .with_attribute("definition", "over 3 interquartile ranges outside the quartiles"),
        measurement("outliers.deviation", of(by_deviation), "%", Direction::Lower).with_attribute(
            "definition",
            "modified z-score, by the median absolute deviation, over 3.5",
        ),
        measurement("coefficient-of-variation", of(variation), "%", Direction::Lower)
            .with_attribute("definition", "standard deviation / mean"),
        measurement("autocorrelation", of(correlation), "1", Direction::Neutral)
            .with_attribute("definition", "correlation of each latency with the next"),
        measurement("effective-size", of(size), "1", Direction::Higher)
            .with_attribute(
                "definition",
                "independent queries whose mean would be as uncertain: Geyer's initial monotone sequence, \
                 with the mean's own variance put back, over averages of neighbours where correlation or the \
                 series is long; the intervals of mean and percentiles may count fewer",
            ),
    ]
}

/// Refuses a statistic if there are fewer queries than it needs.
fn at_least(needs: usize, latencies: &[u64]) -> Result<(), Gap> {
    match latencies.len() {
        has if has < needs => Err(Gap::not_measured(format!("needs {needs} queries, has {has}"))),
        _ => Ok(()),
    }
}

fn tukey(latencies: &[u64], severe: bool) -> Result<f64, Gap> {
    at_least(LEAST_FOR_QUARTILES, latencies)?;
    let fences = TukeyFences::of(latencies).ok_or("no query was measured")?;
    let is_such = |latency: &&u64| {
        fences.class(**latency as f64).is_some_and(|class| {
            severe == matches!(class, OutlierClass::SevereLow | OutlierClass::SevereHigh)
        })
    };
    Ok(percent(latencies.iter().filter(is_such).count(), latencies.len()))
}

fn by_deviation(latencies: &[u64]) -> Result<f64, Gap> {
    at_least(LEAST_FOR_DEVIATION, latencies)?;
    let outliers = deviation_outliers(latencies).map_err(gap)?;
    Ok(percent(outliers.len(), latencies.len()))
}

fn variation(latencies: &[u64]) -> Result<f64, Gap> {
    let found = moments(latencies).ok_or("no query was measured")?;
    let deviation = found.deviation.ok_or("needs 2 queries, has 1")?;
    if found.mean == 0.0 {
        return Err("the queries were too short for the clock".into());
    }
    Ok(deviation / found.mean * 100.0)
}

fn correlation(latencies: &[u64]) -> Result<f64, Gap> {
    at_least(2, latencies)?;
    let found = autocorrelation(latencies, 1);
    Ok(found.ok_or_else(|| Gap::unsupported("all latencies are equal"))?[1])
}

fn size(latencies: &[u64]) -> Result<f64, Gap> {
    at_least(2, latencies)?;
    Ok(effective_size(latencies))
}

fn measurement(
    name: &str,
    value: Result<f64, Gap>,
    unit: &str,
    direction: Direction,
) -> Measurement {
    Measurement::new(format!("stability.{name}"), value, unit, direction)
}

fn percent(part: usize, whole: usize) -> f64 {
    part as f64 / whole as f64 * 100.0
}

fn gap(undefined: Undefined) -> Gap {
    match undefined {
        Undefined::TooFew(few) => {
            Gap::not_measured(format!("needs {} queries, has {}", few.needs, few.has))
        }
        _ => Gap::unsupported("at least half of the latencies are equal"),
    }
}

fn class_name(class: SteadyClass) -> &'static str {
    match class {
        SteadyClass::Flat => "flat",
        SteadyClass::WarmUp => "warm-up",
        SteadyClass::SlowDown => "slow-down",
        SteadyClass::NoSteadyState => "no steady state",
    }
}

const _: () = assert!(MOST >= STEADY_STATE_VALUES);

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use host_statistics::Random;
    use plugin_guest::{Column, ColumnData};

    use super::*;

    type Found = BTreeMap<String, Measurement>;

    fn compute(measured: Option<Vec<u64>>, warm_up: Option<Vec<u64>>, options: Options) -> Found {
        let columns: Vec<_> = [(LATENCY, measured), (WARM_UP_LATENCY, warm_up)]
            .into_iter()
            .filter_map(|(name, values)| {
                let data = ColumnData::Unsigned(values?);
                Some(Column { name: name.into(), unit: "ns".into(), width: 1, data })
            })
            .collect();
        Stability::compute(&Case::default(), &columns.into(), options)
            .expect("options that make sense")
            .into_iter()
            .map(|one| (one.metric.clone(), one))
            .collect()
    }

    /// Returns `count` latencies around each level, evenly spread over 1 % of it, in random order.
    fn around(levels: &[(u64, usize)]) -> Vec<u64> {
        let mut random = Random::from_seed(4);
        levels
            .iter()
            .flat_map(|&(level, count)| std::iter::repeat_n(level, count))
            .map(|level| level + random.below(level / 100))
            .collect()
    }

    fn value(found: &Found, name: &str) -> Result<f64, String> {
        found[&format!("stability.{name}")].value.clone().map_err(|gap| gap.reason)
    }

    fn class(found: &Found) -> &str {
        &found["stability.changes"].attributes["class"]
    }

    #[test]
    fn a_flat_series_is_steady_throughout() {
        let found = compute(Some(around(&[(1_000_000, 600)])), None, Options::default());
        assert_eq!(class(&found), "flat");
        assert_eq!(value(&found, "changes"), Ok(0.0));
        assert_eq!(value(&found, "steady-part"), Ok(100.0));
        assert_eq!(value(&found, "drift"), Ok(0.0));
        assert_eq!(found.len(), 9);
    }

    #[test]
    fn processes_of_other_classes_are_inconsistent() {
        let of = |first: Vec<u64>, second: Vec<u64>| -> Found {
            let numbers = [vec![0; first.len()], vec![1; second.len()]].concat();
            let columns = [(LATENCY, [first, second].concat()), (PROCESS, numbers)]
                .map(|(name, values)| Column {
                    name: name.into(),
                    unit: String::new(),
                    width: 1,
                    data: ColumnData::Unsigned(values),
                })
                .to_vec();
            let found = Stability::compute(&Case::default(), &columns.into(), Options::default());
            let found = found.expect("options that make sense").into_iter();
            found.map(|one| (one.metric.clone(), one)).collect()
        };
        let flat = || around(&[(1_000_000, 600)]);
        // Different levels of two processes are not a change within one.
        let same = of(flat(), around(&[(2_000_000, 600)]));
        assert_eq!((class(&same), value(&same, "changes")), ("flat", Ok(0.0)));
        let differing = of(flat(), around(&[(1_000_000, 300), (1_500_000, 300)]));
        assert_eq!((class(&differing), value(&differing, "changes")), ("inconsistent", Ok(0.5)));
        let classes = &differing["stability.changes"].attributes["classes"];
        assert_eq!(classes, "flat, slow-down");
    }

    #[test]
    fn classes_go_by_the_levels() {
        let slower =
            compute(Some(around(&[(1_000_000, 300), (1_500_000, 300)])), None, Options::default());
        assert_eq!(class(&slower), "slow-down");
        assert_eq!(value(&slower, "changes"), Ok(1.0));
        assert_eq!(value(&slower, "steady-part"), Ok(50.0));
        assert_eq!(slower["stability.changes"].attributes["change-points"], "300");
        let change = value(&slower, "drift").expect("levels");
        assert!((49.5..50.5).contains(&change), "{change}");

        let late =
            compute(Some(around(&[(1_000_000, 500), (1_500_000, 80)])), None, Options::default());
        assert_eq!(class(&late), "no steady state");
        assert_eq!(value(&late, "steady-part"), Ok(0.0));
    }

    #[test]
    fn the_warm_up_is_classed_where_it_is_asked_for() {
        let measured = || Some(around(&[(1_000_000, 300)]));
        let warm_up = || Some(around(&[(3_000_000, 100)]));
        let apart = compute(measured(), warm_up(), Options::default());
        assert_eq!(class(&apart), "flat");
        let together = compute(measured(), warm_up(), Options { warm_up: true });
        assert_eq!(class(&together), "warm-up");
        assert_eq!(value(&together, "steady-part"), Ok(75.0));
        assert_eq!(together["stability.changes"].attributes["warm-up-queries"], "100");
        // Values about the measured queries stay the same.
        assert_eq!(
            value(&together, "coefficient-of-variation"),
            value(&apart, "coefficient-of-variation")
        );

        let without = compute(measured(), None, Options { warm_up: true });
        assert_eq!(
            value(&without, "changes"),
            Err("the case has no record of `warm-up-latency`".into())
        );
        assert!(value(&without, "autocorrelation").is_ok());
    }

    #[test]
    fn a_long_series_is_thinned_and_its_change_is_found_where_it_is() {
        let half = MOST;
        let found = compute(
            Some(around(&[(1_000_000, half), (1_100_000, half)])),
            None,
            Options::default(),
        );
        assert_eq!(class(&found), "slow-down");
        assert_eq!(found["stability.changes"].attributes["thinned"], "one query in 2");
        let place: usize =
            found["stability.changes"].attributes["change-points"].parse().expect("one place");
        assert!(place.abs_diff(half) <= 4, "{place}");
    }

    #[test]
    fn outliers_and_correlation_are_of_the_measured_queries() {
        // Two in a hundred stall; quartiles are 5 % apart at most.
        let mut latencies = around(&[(1_000_000, 1000)]);
        (0..20).for_each(|stall| latencies[stall * 50] = 9_000_000);
        let found = compute(Some(latencies), None, Options::default());
        assert_eq!(value(&found, "outliers.tukey-severe"), Ok(2.0));
        assert_eq!(value(&found, "outliers.tukey-mild"), Ok(0.0));
        assert_eq!(value(&found, "outliers.deviation"), Ok(2.0));

        let pairs: Vec<u64> = (0..1000).map(|query| 1000 + query / 2 % 2).collect();
        let found = compute(Some(pairs), None, Options::default());
        let correlation = value(&found, "autocorrelation").expect("spread");
        assert!(correlation.abs() < 0.01, "{correlation}");
        assert_eq!(value(&found, "outliers.deviation"), Ok(0.0));
    }

    #[test]
    fn what_few_queries_cannot_show_is_a_gap() {
        let reasons = |latencies: Vec<u64>| {
            let found = compute(Some(latencies), None, Options::default());
            let names = [
                "effective-size",
                "autocorrelation",
                "coefficient-of-variation",
                "outliers.deviation",
                "outliers.tukey-mild",
                "outliers.tukey-severe",
            ];
            names.map(|name| value(&found, name).err())
        };
        let needs = |count: usize, has: usize| Some(format!("needs {count} queries, has {has}"));
        let [two, three, five] = [2, 3, 5].map(|count| needs(count, 1));
        assert_eq!(reasons(vec![7]), [two.clone(), two.clone(), two, three, five.clone(), five]);
        let (three, five) = (needs(3, 2), needs(5, 2));
        assert_eq!(reasons(vec![7, 9]), [None, None, None, three, five.clone(), five]);
        assert_eq!(reasons(vec![7, 9, 8, 6, 5]), [const { None }; 6]);
    }

    /// The smallest accepted number of queries can show an outlier.
    #[test]
    fn the_fewest_queries_can_have_outliers() {
        let low = compute(Some(vec![1, 1_000, 1_001, 1_002, 1_003]), None, Options::default());
        assert_eq!(value(&low, "outliers.tukey-severe"), Ok(20.0));
        let high = compute(Some(vec![9_999, 1_000, 1_001, 1_002, 1_003]), None, Options::default());
        assert_eq!(value(&high, "outliers.tukey-severe"), Ok(20.0));
        let three = compute(Some(vec![10, 11, 100]), None, Options::default());
        let third = value(&three, "outliers.deviation").expect("spread");
        assert!((third - 100.0 / 3.0).abs() < 1e-9, "{third}");
    }

    #[test]
    fn the_definition_of_the_effective_size_says_what_is_done() {
        let found = compute(Some(vec![7; 40]), None, Options::default());
        let definition = &found["stability.effective-size"].attributes["definition"];
        assert!(definition.contains("the mean's own variance put back"), "{definition}");
    }

    #[test]
    fn what_a_series_cannot_carry_is_a_gap() {
        let found = compute(Some(vec![5; 39]), None, Options::default());
        assert_eq!(value(&found, "changes"), Err("needs 40 queries, has 39".into()));
        assert_eq!(
            value(&found, "outliers.deviation"),
            Err("at least half of the latencies are equal".into())
        );
        assert_eq!(value(&found, "autocorrelation"), Err("all latencies are equal".into()));
        assert_eq!(value(&found, "effective-size"), Ok(39.0));
        let found = compute(Some(vec![]), None, Options::default());
        assert_eq!(value(&found, "effective-size"), Err("no query was measured".into()));
        let found = compute(None, None, Options::default());
        assert_eq!(found.len(), 9);
        for name in found.keys() {
            let name = name.strip_prefix("stability.").expect("the id");
            assert_eq!(
                value(&found, name),
                Err("the case has no record of `latency`".into()),
                "{name}"
            );
        }
    }
}
