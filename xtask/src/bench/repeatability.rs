//! Agreement of two runs of the quickstart: proof 4.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

use super::machine::{Machine, load};
use super::write;
use crate::layout::{self, Profile};
use crate::setup;
use crate::shell::{At, Failed, command, root, say};

const QUERY: &str = "SELECT c.model, c.backend, c.device, c.precision, c.batch, c.scenario, r.metric, \
                     r.unit, r.value, r.interval_low, r.interval_high \
                     FROM benchmark_results AS r JOIN benchmark_cases AS c USING (run_id, case_id) \
                     ORDER BY c.case_index, r.metric";

pub(super) fn prove() -> Result<(), Failed> {
    setup::setup()?;
    let built = layout::build(Profile::Release)?;
    let results = std::env::temp_dir().join(format!("tare-repeatability-{}", std::process::id()));
    let machine = Machine::here();
    let before = load();
    let runs = [1, 2].map(|number| {
        say(&format!("bench: the quickstart, run {number} of 2"));
        run(&built.join("host"), &results.join(number.to_string()))
    });
    let machine = machine.sentence(before, load());
    std::fs::remove_dir_all(&results).at(&results)?;
    let [first, second] = runs;
    write("repeatability", &document(&first?, &second?, &machine))
}

fn run(host: &Path, results: &Path) -> Result<Vec<Measured>, Failed> {
    let manifest = root().join("manifests/quickstart.toml");
    let host = || command(host).arg("--results").arg(results);
    host().args(["--quiet", "run"]).arg(manifest).read()?;
    let text = host().args(["--format", "json", "results", "query", QUERY]).read()?;
    let answer: Value = serde_json::from_str(&text)
        .map_err(|error| Failed::new(format!("the answer of `host results query`: {error}")))?;
    measured(&answer).ok_or_else(|| Failed::new(format!("`host results query` answered {answer}")))
}

/// A metric of a case in one run.
#[derive(Debug, Clone, PartialEq)]
struct Measured {
    case: String,
    metric: String,
    unit: String,
    /// `None` for a gap.
    value: Option<f64>,
    interval: Option<(f64, f64)>,
}

fn measured(answer: &Value) -> Option<Vec<Measured>> {
    let rows = answer.as_array()?;
    let row = |row: &Value| {
        let text = |name: &str| match &row[name] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let names = ["model", "backend", "device", "precision", "scenario"].map(text);
        let [model, backend, device, precision, scenario] = names;
        let batch = text("batch");
        Some(Measured {
            case: format!(
                "{model} · {backend} · {device} · {precision} · batch {batch} · {scenario}"
            ),
            metric: row["metric"].as_str()?.to_owned(),
            unit: row["unit"].as_str().unwrap_or_default().to_owned(),
            value: row["value"].as_f64(),
            interval: row["interval_low"].as_f64().zip(row["interval_high"].as_f64()),
        })
    };
    rows.iter().map(row).collect()
}

/// Agreement of two runs on one metric of one case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Agreement {
    /// The intervals have values in common, or the values are the same.
    Agree,
    /// The intervals do not overlap.
    Differ,
    /// At least one run states no interval, and the values differ.
    NoInterval,
    /// At least one run has no value.
    Gap,
}

impl Agreement {
    fn of(first: &Measured, second: &Measured) -> Self {
        let (Some(one), Some(other)) = (first.value, second.value) else { return Self::Gap };
        if one == other {
            return Self::Agree;
        }
        match (first.interval, second.interval) {
            (Some(one), Some(other)) if one.0 <= other.1 && other.0 <= one.1 => Self::Agree,
            (Some(_), Some(_)) => Self::Differ,
            _ => Self::NoInterval,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Agree => "agree",
            Self::Differ => "**differ**",
            Self::NoInterval => "no interval",
            Self::Gap => "gap",
        }
    }
}

fn document(first: &[Measured], second: &[Measured], machine: &str) -> String {
    let mut rows = String::new();
    let mut seen = Vec::new();
    for one in first {
        let same = |other: &&Measured| (&other.case, &other.metric) == (&one.case, &one.metric);
        let Some(other) = second.iter().find(same) else {
            let _ =
                writeln!(rows, "| {} | {} | only in the first run | | | |", one.case, one.metric);
            continue;
        };
        let agreement = Agreement::of(one, other);
        seen.push(agreement);
        let difference = one.value.zip(other.value).filter(|(value, _)| *value != 0.0);
        let difference =
            difference.map(|(one, other)| format!("{:+.2} %", 100.0 * (other - one) / one));
        let _ = writeln!(
            rows,
            "| {} | {} | {} | {} | {} | {} |",
            one.case,
            one.metric,
            shown(one),
            shown(other),
            difference.unwrap_or_default(),
            agreement.name()
        );
    }
    // Half the width of each interval, relative to its value.
    let mut widths: Vec<f64> = first
        .iter()
        .chain(second)
        .filter_map(|one| {
            let (value, (low, high)) = one.value.zip(one.interval)?;
            (value > 0.0 && high > low).then(|| 50.0 * (high - low) / value)
        })
        .collect();
    widths.sort_by(f64::total_cmp);
    let widths = match widths.as_slice() {
        [] => String::new(),
        [.., most] => format!(
            " Half the width of an interval is {:.1} % of its value in the median, and {most:.1} % at the most: two \
             runs agree as long as they differ by less than about twice that.",
            widths[widths.len() / 2]
        ),
    };
    let count = |wanted: Agreement| seen.iter().filter(|agreement| **agreement == wanted).count();
    let (agree, differ) = (count(Agreement::Agree), count(Agreement::Differ));
    format!(
        "# Whether two runs agree\n\n\
         `cargo xtask bench repeatability` runs the quickstart twice, one after the other, with the \
         release build, and writes this page. Two values agree where the intervals that the two runs state \
         for them have values in common, or where they are the same. The quickstart measures each case in five \
         processes, in rounds, so that its intervals are of the mean over processes, and are as wide as processes \
         differ on this machine. They do not say what a single other process will measure: that is the prediction \
         interval. Those within one process would not know how processes differ, and two runs could differ by more \
         than either says.\n\n\
         {machine}\n\n\
         Of {} values with an interval in both runs or the same in both, **{agree} agree** and **{differ} \
         differ**; {} have no interval, {} are gaps.{widths}\n\n\
         | case | metric | first run | second run | change | |\n|---|---|--:|--:|--:|---|\n{rows}",
        agree + differ,
        count(Agreement::NoInterval),
        count(Agreement::Gap)
    )
}

fn shown(measured: &Measured) -> String {
    let Some(value) = measured.value else { return "gap".into() };
    let unit = &measured.unit;
    let number = |value: f64| match value.abs() {
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.4}"),
    };
    match measured.interval {
        Some((low, high)) => {
            format!("{} {unit} ({}–{})", number(value), number(low), number(high))
        }
        None => format!("{} {unit}", number(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(value: Option<f64>, interval: Option<(f64, f64)>) -> Measured {
        let text = |text: &str| text.to_owned();
        Measured {
            case: text("digits · batch 1"),
            metric: text("latency.p50"),
            unit: text("ns"),
            value,
            interval,
        }
    }

    #[test]
    fn intervals_decide_where_there_are_two() {
        let of = |first, second| Agreement::of(&first, &second);
        let near = || one(Some(10.0), Some((9.0, 11.0)));
        assert_eq!(of(near(), one(Some(12.0), Some((11.0, 13.0)))), Agreement::Agree);
        assert_eq!(of(near(), one(Some(12.0), Some((11.1, 13.0)))), Agreement::Differ);
        assert_eq!(of(one(Some(12.0), Some((11.1, 13.0))), near()), Agreement::Differ);
        assert_eq!(of(near(), one(Some(10.5), None)), Agreement::NoInterval);
        assert_eq!(of(one(Some(1.0), None), one(Some(1.0), None)), Agreement::Agree);
        assert_eq!(of(near(), one(None, None)), Agreement::Gap);
    }

    #[test]
    fn the_page_says_what_was_seen() {
        let first = [one(Some(1234.0), Some((1200.0, 1250.0)))];
        let second = [one(Some(1290.0), Some((1260.0, 1300.0)))];
        let page = document(&first, &second, "Measured here.");
        assert!(page.contains("**0 agree** and **1 differ**"), "{page}");
        assert!(
            page.contains("is 2.0 % of its value in the median, and 2.0 % at the most"),
            "{page}"
        );
        let row = "| digits · batch 1 | latency.p50 | 1234 ns (1200–1250) | 1290 ns (1260–1300) | +4.54 % \
                   | **differ** |";
        assert!(page.contains(row), "{page}");
        assert!(document(&first, &[], "").contains("only in the first run"));
    }

    #[test]
    fn rows_of_the_database_are_read() {
        let answer = serde_json::json!([{
            "model": "digits", "backend": "cpu", "device": "cpu:0", "precision": "fp32", "batch": 8,
            "scenario": "offline", "metric": "latency.p50", "unit": "ns", "value": 5.0,
            "interval_low": 4.0, "interval_high": 6.0,
        }]);
        let found = measured(&answer).expect("a table");
        assert_eq!(found[0].case, "digits · cpu · cpu:0 · fp32 · batch 8 · offline");
        assert_eq!(found[0].interval, Some((4.0, 6.0)));
        assert_eq!(measured(&serde_json::json!("no table")), None);
    }
}
