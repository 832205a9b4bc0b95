/*!
Agreement of two runs of the quickstart: proof 4.

This is a test of equivalence, for each metric of each case: the interval of the ratio of the two runs, over their
processes, must lie within the limit. Intervals of two runs that overlap show nothing: the wider they are, the better
they would agree.
*/

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

use super::machine::{Machine, load};
use super::write;
use crate::layout::{self, Profile};
use crate::setup;
use crate::shell::{At, Failed, command, root, say};

/// Largest ratio that counts as none, in either direction.
const LIMIT: f64 = 1.05;

pub(super) fn prove() -> Result<(), Failed> {
    setup::setup()?;
    let built = layout::build(Profile::Release)?;
    let host = built.join("host");
    let results = std::env::temp_dir().join(format!("tare-repeatability-{}", std::process::id()));
    let machine = Machine::here();
    let before = load();
    let runs = [1, 2].map(|number| {
        say(&format!("bench: the quickstart, run {number} of 2"));
        run(&host, &results)
    });
    let machine = machine.sentence(before, load());
    let [first, second] = runs;
    let (first, second) = (first?, second?);
    let arguments = ["compare", &first, &second].map(Path::new);
    let answer = json(&host, &results, &arguments)?;
    std::fs::remove_dir_all(&results).at(&results)?;
    write("repeatability", &document(&compared(&answer)?, &machine))
}

/// Runs the quickstart, and returns the run's id.
fn run(host: &Path, results: &Path) -> Result<String, Failed> {
    let manifest = root().join("manifests/quickstart.toml");
    let answer = json(host, results, &["run".as_ref(), &manifest])?;
    let id = answer["run"].as_str();
    id.map(str::to_owned).ok_or_else(|| Failed::new(format!("`host run` answered {answer}")))
}

fn json(host: &Path, results: &Path, arguments: &[&Path]) -> Result<Value, Failed> {
    let line = command(host).arg("--results").arg(results).args(["--quiet", "--format", "json"]);
    let text = line.args(arguments).read()?;
    serde_json::from_str(&text)
        .map_err(|error| Failed::new(format!("the answer of `host`: {error}: {text}")))
}

/// A metric of a case in both runs.
#[derive(Debug, Clone, PartialEq)]
struct Compared {
    case: String,
    metric: String,
    unit: String,
    values: [Option<f64>; 2],
    /// The ratio of the second run to the first with its interval, if the metric has values of processes that differ.
    ratio: Option<[f64; 3]>,
    /// Whether the value is the same in all processes of each run, and does not depend on chance.
    is_exact: bool,
    /// Why it has no ratio.
    reason: String,
}

fn compared(answer: &Value) -> Result<Vec<Compared>, Failed> {
    let cases = answer["cases"].as_array().filter(|cases| !cases.is_empty());
    let cases = cases.ok_or_else(|| Failed::new(format!("the runs share no case: {answer}")))?;
    let rows = cases.iter().flat_map(|case| {
        let name = case["name"].as_str().unwrap_or_default();
        let others = case["metrics"].as_array().into_iter().flatten();
        std::iter::once(case).chain(others).map(move |change| one(name, change))
    });
    Ok(rows.collect())
}

fn one(case: &str, change: &Value) -> Compared {
    let text = |name: &str| change[name].as_str().unwrap_or_default().to_owned();
    let value = |run: &str| {
        let figures = ["median-ns", "rate-per-second", "value"];
        figures.iter().find_map(|name| change[run][name].as_f64())
    };
    let interval = &change["ratio-interval"];
    let ratio = [&change["ratio"], &interval[0], &interval[1]].map(Value::as_f64);
    let [ratio, low, high] = ratio;
    Compared {
        case: case.to_owned(),
        metric: text("metric"),
        unit: text("unit"),
        values: ["first", "second"].map(value),
        ratio: ratio.zip(low).zip(high).map(|((ratio, low), high)| [ratio, low, high]),
        is_exact: change["exact"] == true,
        reason: text("reason"),
    }
}

/// Agreement of two runs on one metric of one case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Agreement {
    /// The interval of the ratio lies within the limit, or both have the same value that does not depend on chance.
    Agree,
    /// It lies outside, or such values differ.
    Differ,
    /// It contains both: nothing is shown.
    TooWide,
    /// There is no interval.
    NoInterval,
}

impl Agreement {
    fn of(compared: &Compared) -> Self {
        let [first, second] = compared.values;
        match compared.ratio {
            Some([_, low, high]) if low >= 1.0 / LIMIT && high <= LIMIT => Self::Agree,
            Some([_, low, high]) if low > LIMIT || high < 1.0 / LIMIT => Self::Differ,
            Some(_) => Self::TooWide,
            None if compared.is_exact && first == second => Self::Agree,
            None if compared.is_exact => Self::Differ,
            None => Self::NoInterval,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Agree => "agree",
            Self::Differ => "**differ**",
            Self::TooWide => "not shown: interval too wide",
            Self::NoInterval => "no interval",
        }
    }
}

fn document(all: &[Compared], machine: &str) -> String {
    let percent = |ratio: f64| format!("{:+.1}", 100.0 * (ratio - 1.0));
    let mut rows = String::new();
    for one in all {
        let agreement = Agreement::of(one);
        let [first, second] = one.values.map(|value| shown(value, &one.unit));
        let change = match one.ratio {
            Some([ratio, low, high]) => {
                format!("{} % ({} to {} %)", percent(ratio), percent(low), percent(high))
            }
            None if one.is_exact => "exact".to_owned(),
            None => one.reason.clone(),
        };
        let Compared { case, metric, .. } = one;
        let name = agreement.name();
        let _ = writeln!(rows, "| {case} | {metric} | {first} | {second} | {change} | {name} |");
    }
    // Half the width of each interval, as a part of the ratio.
    let mut widths: Vec<f64> =
        all.iter().filter_map(|one| one.ratio.map(|[_, low, high]| (high / low).sqrt())).collect();
    widths.sort_by(f64::total_cmp);
    let widths = match widths.as_slice() {
        [] => String::new(),
        [.., most] => format!(
            " The interval of a ratio reaches {} % to either side in the median, and {} % at the most.",
            percent(widths[widths.len() / 2]),
            percent(*most)
        ),
    };
    let count = |wanted: Agreement| all.iter().filter(|one| Agreement::of(one) == wanted).count();
    let limit = 100.0 * (LIMIT - 1.0);
    format!(
        "# Whether two runs agree\n\n\
         `cargo xtask bench repeatability` runs the quickstart twice, one after the other, with the \
         release build, compares the runs with `host compare`, and writes this page. Each case is measured in \
         five processes, in rounds. Two runs agree on a metric if the 95 % interval of the ratio of their geometric \
         means over processes lies within {limit:.0} %; they differ if it lies outside. If it contains both, nothing is \
         shown: on this machine, five processes say too little. Whether the intervals of two runs overlap is not looked \
         at: the less a run knows, the wider its intervals are, and the more often they overlap. Values that are the \
         same in all processes of each run, such as accuracies, agree if they are the same in both.\n\n\
         {machine}\n\n\
         Of {} values, **{} agree**, **{} differ**, and for {} the interval is too wide to tell; {} have no \
         interval.{widths}\n\n\
         | case | metric | first run | second run | change | |\n|---|---|--:|--:|--:|---|\n{rows}",
        all.len(),
        count(Agreement::Agree),
        count(Agreement::Differ),
        count(Agreement::TooWide),
        count(Agreement::NoInterval)
    )
}

fn shown(value: Option<f64>, unit: &str) -> String {
    let Some(value) = value else { return "—".into() };
    match value.abs() {
        size if size >= 1000.0 => format!("{value:.0} {unit}"),
        size if size >= 10.0 => format!("{value:.1} {unit}"),
        _ => format!("{value:.4} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(ratio: Option<[f64; 3]>, values: [f64; 2], is_exact: bool) -> Compared {
        Compared {
            case: "digits · batch 1".into(),
            metric: "latency.p50".into(),
            unit: "ns".into(),
            values: values.map(Some),
            ratio,
            is_exact,
            reason: String::new(),
        }
    }

    #[test]
    fn an_interval_shows_agreement_only_within_the_limit() {
        let of = |low: f64, high: f64| {
            Agreement::of(&with(Some([(low * high).sqrt(), low, high]), [1.0, 1.0], false))
        };
        assert_eq!(of(0.99, 1.02), Agreement::Agree);
        assert_eq!(of(0.953, 1.049), Agreement::Agree);
        assert_eq!(of(1.06, 1.2), Agreement::Differ);
        assert_eq!(of(0.8, 0.9), Agreement::Differ);
        // However wide it is, and however near the ratio is to 1.
        assert_eq!(of(0.9, 1.1), Agreement::TooWide);
        assert_eq!(of(0.5, 2.0), Agreement::TooWide);
        assert_eq!(of(1.0, 1.06), Agreement::TooWide);
        let exact = |second| Agreement::of(&with(None, [0.98, second], true));
        assert_eq!([exact(0.98), exact(0.97)], [Agreement::Agree, Agreement::Differ]);
        assert_eq!(Agreement::of(&with(None, [5.0, 5.0], false)), Agreement::NoInterval);
    }

    #[test]
    fn the_page_says_what_was_seen() {
        let page = document(
            &[
                with(Some([1.01, 1.0, 1.02]), [1000.0, 1010.0], false),
                with(Some([1.1, 0.9, 1.3]), [1234.0, 1357.0], false),
            ],
            "Measured here.",
        );
        assert!(
            page.contains(
                "Of 2 values, **1 agree**, **0 differ**, and for 1 the interval is too wide to tell; 0 have no interval."
            ),
            "{page}"
        );
        let row = "| digits · batch 1 | latency.p50 | 1234 ns | 1357 ns | +10.0 % (-10.0 to +30.0 %) | not shown: \
                   interval too wide |";
        assert!(page.contains(row), "{page}");
    }

    #[test]
    fn the_comparison_of_the_tool_is_read() {
        let answer = serde_json::json!({ "cases": [{
            "name": "digits · cpu", "metric": "latency.p50", "unit": "ns", "ratio": 1.5,
            "ratio-interval": [1.4, 1.6], "exact": false, "reason": null,
            "first": { "median-ns": 5.0 }, "second": { "median-ns": 7.5 },
            "metrics": [{
                "metric": "accuracy.top1", "unit": "1", "ratio": null, "ratio-interval": null, "exact": true,
                "reason": null, "verdict": "same",
                "first": { "value": 0.98 }, "second": { "value": 0.98 },
            }],
        }]});
        let found = compared(&answer).expect("a comparison");
        assert_eq!(
            (found[0].ratio, found[0].values),
            (Some([1.5, 1.4, 1.6]), [Some(5.0), Some(7.5)])
        );
        assert_eq!((&*found[1].metric, found[1].is_exact), ("accuracy.top1", true));
        assert_eq!(
            found.iter().map(Agreement::of).collect::<Vec<_>>(),
            [Agreement::Differ, Agreement::Agree]
        );
        assert!(compared(&serde_json::json!({ "cases": [] })).is_err());
    }
}
