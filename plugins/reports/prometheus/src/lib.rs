/*!
The values of the run in Prometheus' text format, `metrics.prom`: for a textfile collector, or to push to a gateway.

A metric is a gauge in the base unit of its kind (seconds, bytes, joules), with the unit in its name, as Prometheus' own
rules have it. Labels are the coordinates of the case, and its id. A value that is missing has no line: a gauge cannot say
why. Cases that failed, are not possible or are invalid are told by `tare_case_valid` and `tare_case_finished`.
*/

use std::collections::BTreeMap;
use std::fmt::Write as _;

use plugin_guest::{Description, Error, NoOptions, Output, Report, Views};
use report_common::{Axis, Case, Run, visible};

/// The report.
pub struct Prometheus;

const FILE: &str = "metrics.prom";

impl Report for Prometheus {
    type Options = NoOptions;

    fn describe() -> Description {
        plugin_guest::describe!("prometheus")
    }

    fn render(
        views: &dyn Views,
        output: &mut dyn Output,
        _: NoOptions,
    ) -> Result<Vec<String>, Error> {
        let run = Run::read(views)?;
        output.write(FILE, text(&run).as_bytes())?;
        Ok(vec![FILE.to_owned()])
    }
}

plugin_guest::export_report!(Prometheus);

/// A family of lines that share their name.
#[derive(Default)]
struct Family {
    help: String,
    lines: Vec<String>,
}

fn text(run: &Run) -> String {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut add = |name: String, help: &str, labels: &str, value: f64| {
        let family = families.entry(name.clone()).or_default();
        if family.help.is_empty() {
            family.help = help.to_owned();
        }
        family.lines.push(format!("{name}{{{labels}}} {value}"));
    };
    let info = [
        ("run_id", Some(run.id.as_str())),
        ("experiment", Some(&run.experiment)),
        ("started_at", Some(&run.started_at)),
        ("finished_at", run.finished_at.as_deref()),
        ("host_version", Some(&run.host_version)),
        ("git_commit", run.git_commit.as_deref()),
    ];
    add("tare_run_info".to_owned(), "The run that these values are of.", &labels(&info), 1.0);
    for case in &run.cases {
        let labels = labels_of(case);
        let told = |yes: bool| if yes { 1.0 } else { 0.0 };
        add(
            "tare_case_finished".to_owned(),
            "Whether the case finished.",
            &labels,
            told(case.is_finished()),
        );
        if let Some(valid) = case.valid() {
            add(
                "tare_case_valid".to_owned(),
                "Whether the result keeps its rules.",
                &labels,
                told(valid),
            );
        }
        let warnings = case.warnings.len() as f64;
        add("tare_case_warnings".to_owned(), "Warnings about the case.", &labels, warnings);
        for result in &case.results {
            let Ok(value) = result.value else { continue };
            let (size, unit) = base(&result.unit);
            let name = |part: &str| {
                let name = format!("tare_{}{part}{unit}", result.metric);
                name.replace(|character: char| !character.is_ascii_alphanumeric(), "_")
            };
            let help = format!("{} ({} is better).", result.metric, result.direction.name());
            add(name(""), &help, &labels, value * size);
            if let Some((low, high)) = result.interval {
                add(name("_interval_low"), "Lower bound of the interval.", &labels, low * size);
                add(name("_interval_high"), "Upper bound of the interval.", &labels, high * size);
            }
        }
    }
    let mut text = String::new();
    for (name, Family { help, lines }) in families {
        let _ = writeln!(text, "# HELP {name} {}\n# TYPE {name} gauge", escaped(&help));
        for line in lines {
            let _ = writeln!(text, "{line}");
        }
    }
    text
}

/// Returns the number of base units in a unit, and the ending of names in that base unit.
fn base(unit: &str) -> (f64, &str) {
    match unit {
        "ns" => (1e-9, "_seconds"),
        "us" | "µs" => (1e-6, "_seconds"),
        "ms" => (1e-3, "_seconds"),
        "s" => (1.0, "_seconds"),
        "B" => (1.0, "_bytes"),
        "J" => (1.0, "_joules"),
        "W" => (1.0, "_watts"),
        "Hz" => (1.0, "_hertz"),
        "1/s" => (1.0, "_per_second"),
        "FLOP/s" => (1.0, "_flop_per_second"),
        "B/s" => (1.0, "_bytes_per_second"),
        "%" => (0.01, "_ratio"),
        _ => (1.0, ""),
    }
}

fn labels_of(case: &Case) -> String {
    let values: Vec<(&str, Option<String>)> = [("case_id", Some(case.id.clone()))]
        .into_iter()
        .chain(Axis::ALL.iter().map(|axis| (axis.column(), axis.value(&case.key))))
        .collect();
    let values: Vec<(&str, Option<&str>)> =
        values.iter().map(|(name, value)| (*name, value.as_deref())).collect();
    labels(&values)
}

fn labels(values: &[(&str, Option<&str>)]) -> String {
    let written = values.iter().filter_map(|(name, value)| {
        Some(format!("{name}=\"{}\"", escaped((*value)?).replace('"', "\\\"")))
    });
    written.collect::<Vec<_>>().join(",")
}

/// Escapes what would end a line, and a backslash.
fn escaped(text: &str) -> String {
    visible(text).replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r")
}

#[cfg(test)]
mod tests {
    use report_common::made_up::{self, COMPARISON, SINGLE, Shape};

    use super::*;

    #[test]
    fn values_are_in_base_units_with_the_coordinates_as_labels() {
        let run = Run::read(&made_up::tables(&SINGLE)).expect("readable tables");
        let text = text(&run);
        for family in [
            "tare_run_info",
            "tare_case_finished",
            "tare_latency_p50_seconds",
            "tare_latency_p50_interval_low_seconds",
            "tare_throughput_samples_per_second",
            "tare_memory_peak_bytes",
            "tare_accuracy_top1",
        ] {
            assert!(text.contains(&format!("# TYPE {family} gauge\n")), "{family}: {text}");
        }
        let p50 = run.cases[0].value("latency.p50").expect("a median");
        let line = text
            .lines()
            .find(|line| line.starts_with("tare_latency_p50_seconds{"))
            .expect("a line");
        let value: f64 =
            line.rsplit(' ').next().and_then(|text| text.parse().ok()).expect("a number");
        assert!((value - p50 * 1e-9).abs() < 1e-15);
        assert!(
            line.contains("case_id=\"5eed000000000000\",model=\"digits\",backend=\"cpu\""),
            "{line}"
        );
    }

    #[test]
    fn each_line_keeps_the_format_whatever_names_say() {
        let shape = Shape { models: &["a\"b\\c\nd # e{f}"], ..COMPARISON };
        let text = text(&Run::read(&made_up::tables(&shape)).expect("readable tables"));
        let mut typed: Vec<&str> = Vec::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let name = rest.strip_suffix(" gauge").expect("a gauge");
                assert!(!typed.contains(&name), "{name} is declared twice");
                typed.push(name);
            } else if !line.starts_with("# HELP ") {
                let name = line.split('{').next().expect("a name");
                assert_eq!(typed.last(), Some(&name), "{line}");
                assert!(name.chars().all(|it| it.is_ascii_alphanumeric() || it == '_'), "{name}");
                let value = line.rsplit(' ').next().expect("a value");
                assert!(value.parse::<f64>().is_ok_and(f64::is_finite), "{line}");
            }
        }
        assert!(text.contains(r#"model="a\"b\\c\nd # e{f}""#));
    }
}
