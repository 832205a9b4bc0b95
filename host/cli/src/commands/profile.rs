//! `host profile`: where the time of cases goes.

use std::fs;
use std::path::{Path, PathBuf};

use host_experiment::{CaseProfile, Grouping, Profiles, RunOptions, Settings, run as begin, units};
use host_record::{Axis, CaseKey, Cell, Table};
use host_store::{ResultsFolder, RunFolder};
use serde_json::{Value, json};

use crate::arguments::ProfileArguments;
use crate::commands::manifest_of;
use crate::commands::run::listen;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::notices::{Console, warn_of_flaws};
use crate::printer::Printer;
use crate::table;

/// Types of operators that are shown without `--verbose`.
const MOST_KINDS: usize = 12;

/// The folder of the files, in that of the run's reports.
const FOLDER: &str = "profile";

pub(crate) fn profile(
    arguments: &ProfileArguments,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit> {
    let folder = match is_manifest(&arguments.subject) {
        true => measured(&arguments.subject, settings, printer)?,
        false => {
            let results = ResultsFolder::new(settings.results(None));
            RunFolder::open(&results.find(&arguments.subject.to_string_lossy())?)?
        }
    };
    let profiles = Profiles::read(&folder, arguments.case.as_deref())?;
    let target = arguments.output.clone().unwrap_or_else(|| folder.reports_folder().join(FOLDER));
    let mut files = Vec::new();
    for case in &profiles.cases {
        files.push(write(case, &target)?);
    }
    let document = || {
        let cases = profiles.cases.iter().zip(&files);
        json!({
            "run": folder.run_id(),
            "cases": cases.map(|(case, files)| document_of(case, files)).collect::<Vec<_>>(),
            "without": profiles.without.iter().map(|(key, reason)| json!({
                "case": label(key), "reason": reason,
            })).collect::<Vec<_>>(),
        })
    };
    if !printer.machine(document, || rows(&profiles.cases)) {
        for (number, case) in profiles.cases.iter().enumerate() {
            show(case, number > 0, printer);
        }
    }
    for (key, reason) in &profiles.without {
        printer.status("No profile", format_args!("{}: {reason}", label(key)));
    }
    if !files.is_empty() {
        printer.status("Files", target.display());
    }
    warn_of_flaws(&folder.flaws()?, printer);
    Ok(if profiles.cases.is_empty() { Exit::NothingToRun } else { Exit::Success })
}

/// Returns whether a word names a manifest, and not a run.
fn is_manifest(subject: &Path) -> bool {
    let ends_so = subject.extension().is_some_and(|extension| extension == "toml");
    subject == Path::new("-") || ends_so || subject.is_file()
}

/// Runs a manifest.
fn measured(manifest: &Path, settings: &Settings, printer: &Printer) -> Result<RunFolder> {
    listen(settings, printer)?;
    let mut console = Console::new(printer);
    let ran = begin(manifest_of(manifest)?, &RunOptions::default(), settings, &mut console)?;
    match ran.interrupted {
        true => Err(Failure::new(Exit::Interrupted, "the run was interrupted")),
        false => Ok(ran.folder),
    }
}

/// Returns the coordinates of a case in one line.
fn label(key: &CaseKey) -> String {
    let parts: Vec<String> = Axis::shown()
        .filter(|axis| !axis.goes_without_saying(key))
        .filter_map(|axis| axis.labelled(key))
        .collect();
    parts.join(" · ")
}

/// Writes the files of a case, and returns them.
fn write(case: &CaseProfile, target: &Path) -> Result<Vec<PathBuf>> {
    let folder = target.join(&case.case_id);
    fs::create_dir_all(&folder).map_err(|error| Failure::io("create", &folder, error))?;
    let title = label(&case.key);
    let mut files = Vec::new();
    let mut put = |name: String, content: &[u8]| {
        let path = folder.join(name);
        fs::write(&path, content).map_err(|error| Failure::io("write", &path, error))?;
        files.push(path);
        Ok::<_, Failure>(())
    };
    for grouping in Grouping::ALL {
        let folded: String = case.folded(grouping).iter().map(|line| format!("{line}\n")).collect();
        put(format!("{}.folded", grouping.name()), folded.as_bytes())?;
        // Operators that took no time have nothing to draw.
        if case.time_ns() > 0 {
            put(format!("{}.svg", grouping.name()), &case.flame_graph(grouping, &title)?)?;
        }
    }
    put("trace.json".into(), case.trace(&title).to_string().as_bytes())?;
    Ok(files)
}

/// Returns the operators of a case by type, the longest time first.
fn table_of(case: &CaseProfile, most: usize) -> Table {
    let whole = case.time_ns().max(1) as f64;
    let kinds = case.kinds();
    let row = |name: String, operators: u64, time_ns: u64| {
        vec![
            Cell::Text(name),
            Cell::Integer(i64::try_from(operators).unwrap_or(i64::MAX)),
            Cell::Text(units::duration(time_ns as f64)),
            Cell::Text(format!("{:.1} %", time_ns as f64 / whole * 100.0)),
        ]
    };
    let shown = kinds.iter().take(most);
    let mut rows: Vec<Vec<Cell>> =
        shown.map(|share| row(share.kind.clone(), share.operators, share.time_ns)).collect();
    if let Some(rest) = kinds.get(most..).filter(|rest| !rest.is_empty()) {
        let operators = rest.iter().map(|share| share.operators).sum();
        let time = rest.iter().map(|share| share.time_ns).sum();
        rows.push(row(format!("{} other types", rest.len()), operators, time));
    }
    Table { columns: ["type", "operators", "time", "share"].map(Into::into).into(), rows }
}

/// Returns how the sum of a case's operators compares with what was measured, in a sentence.
fn sentence(case: &CaseProfile) -> String {
    let operators = units::count(case.operators.len() as u64, "operator", "operators");
    let time = units::duration(case.time_ns() as f64);
    let times = case.times.words();
    let verb = if case.operators.len() == 1 { "takes" } else { "take" };
    match (case.latency_ns, case.of_latency()) {
        (Some(latency), Some(part)) => format!(
            "{operators} {verb} {time} in one profiled run, {:.1} % of the measured median of {}; {times}",
            part * 100.0,
            units::duration(latency),
        ),
        (Some(latency), None) => format!(
            "{operators} {verb} {time} in one profiled run, and the measured median is {}; {times}",
            units::duration(latency),
        ),
        (None, _) => format!("{operators} {verb} {time} in one profiled run; {times}"),
    }
}

fn show(case: &CaseProfile, is_later: bool, printer: &Printer) {
    if is_later {
        printer.show("\n");
    }
    let most = if printer.is_verbose() { usize::MAX } else { MOST_KINDS };
    printer.show(format_args!("{}\n{}\n", label(&case.key), sentence(case)));
    printer.show(printer.headed(&table::human(&table_of(case, most), printer.width())));
}

/// Returns all operators' types of all cases for machines: a row for each.
fn rows(cases: &[CaseProfile]) -> Table {
    let columns = ["case", "type", "operators", "time_ns", "times"].map(Into::into).into();
    let integer = |number: u64| Cell::Integer(i64::try_from(number).unwrap_or(i64::MAX));
    let of_case = |case: &CaseProfile| -> Vec<Vec<Cell>> {
        let row = |share: host_experiment::KindShare| {
            vec![
                Cell::Text(case.case_id.clone()),
                Cell::Text(share.kind),
                integer(share.operators),
                integer(share.time_ns),
                Cell::Text(case.times.name().into()),
            ]
        };
        case.kinds().into_iter().map(row).collect()
    };
    Table { columns, rows: cases.iter().flat_map(of_case).collect() }
}

fn document_of(case: &CaseProfile, files: &[PathBuf]) -> Value {
    let kinds: Vec<Value> = case
        .kinds()
        .into_iter()
        .map(|share| json!({ "type": share.kind, "operators": share.operators, "time-ns": share.time_ns }))
        .collect();
    json!({
        "id": case.case_id,
        "case": label(&case.key),
        "times": case.times.name(),
        "time-ns": case.time_ns(),
        "median-latency-ns": case.latency_ns,
        "of-latency": case.of_latency(),
        "types": kinds,
        "files": files,
    })
}

#[cfg(test)]
mod tests {
    use host_experiment::OperatorTimes;
    use host_record::ProfiledOperator;

    use super::*;

    fn case(times: OperatorTimes) -> CaseProfile {
        let operator = |name: &str, kind: &str, duration_ns| ProfiledOperator {
            name: name.into(),
            kind: kind.into(),
            provider: "CPU".into(),
            start_ns: 0,
            duration_ns,
        };
        CaseProfile {
            case_id: "0123".into(),
            key: CaseKey::new("digits", "torch", "cpu:0"),
            operators: vec![
                operator("conv1", "Conv", 600_000),
                operator("conv2", "Conv", 200_000),
                operator("relu", "Relu", 100_000),
                operator("flatten", "Flatten", 50_000),
            ],
            times,
            latency_ns: Some(1e6),
        }
    }

    #[test]
    fn the_sum_is_held_against_the_measured_latency() {
        insta::assert_snapshot!(sentence(&case(OperatorTimes::Calls)), @"4 operators take 950 µs in one profiled run, 95.0 % of the measured median of 1 ms; times of calls");
        insta::assert_snapshot!(sentence(&case(OperatorTimes::Queueing)), @"4 operators take 950 µs in one profiled run, and the measured median is 1 ms; times of queueing, which say nothing of the device's work");
    }

    #[test]
    fn the_types_that_are_left_out_are_summed() {
        let table = table_of(&case(OperatorTimes::Calls), 1);
        let texts = |row: &Vec<Cell>| {
            row.iter().map(|cell| format!("{cell:?}")).collect::<Vec<_>>().join(" ")
        };
        let lines: Vec<String> = table.rows.iter().map(texts).collect();
        insta::assert_snapshot!(lines.join("\n"), @r#"
        Text("Conv") Integer(2) Text("800 µs") Text("84.2 %")
        Text("2 other types") Integer(2) Text("150 µs") Text("15.8 %")
        "#);
    }

    #[test]
    fn files_of_a_case_are_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = write(&case(OperatorTimes::Device), folder.path()).expect("they are written");
        let names: Vec<_> = files.iter().filter_map(|file| file.file_name()?.to_str()).collect();
        assert_eq!(
            names,
            ["by-type.folded", "by-type.svg", "by-node.folded", "by-node.svg", "trace.json"]
        );
        let folded = fs::read_to_string(&files[0]).expect("a file");
        assert!(folded.starts_with("Conv;conv1 600000\n"), "{folded}");
    }

    #[test]
    fn manifests_are_told_from_runs() {
        assert!(is_manifest(Path::new("it.toml")) && is_manifest(Path::new("-")));
        assert!(!is_manifest(Path::new("latest")) && !is_manifest(Path::new("20261130T1-x")));
    }
}
