//! Run folders: written data is read back, and a crash costs at most the case in progress.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::*;
use host_record::{
    CaseColumns, CaseRecord, Check, ColumnData, Energy, Epoch, Failure, Gap, Learning, Marks,
    NotMeasured, Outcome, OutputBlock, OutputValues, Phase, Precision, QUANTITIES, Quantity,
    Recorder, SampleBlock, SamplePhase, SampleTimes, ScheduledTimes, Tolerance, WarningKind,
    column,
};
use host_store::{
    CaseFile, Counts, Database, ExportFormat, Flaw, Loss, PluginRole, ResultRecord, ResultsFolder,
    RunFolder, RunPlugin, RunState, StoreError, export, list_table,
};
use proptest::prelude::*;

fn records(folder: &RunFolder) -> Vec<CaseRecord> {
    folder.records().expect("a journal").collect::<Result<_, _>>().expect("whole records")
}

fn column<'a>(columns: &'a CaseColumns, name: &str) -> &'a ColumnData {
    &columns.columns.iter().find(|column| column.name == name).expect(name).data
}

/// Runs that earlier hosts wrote, as they are kept with the documentation.
#[test]
fn runs_of_earlier_hosts_are_read_whole() {
    let kept = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/h200");
    let (mut read, mut warnings) = (0, 0);
    for entry in fs::read_dir(&kept).expect("a folder") {
        let folder = entry.expect("an entry").path();
        if !folder.join("run.json").is_file() {
            continue;
        }
        let run = RunFolder::open(&folder).unwrap_or_else(|error| panic!("{error}"));
        let what = folder.display();
        let records: Result<Vec<_>, _> = run.records().expect("a journal").collect();
        let records = records.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(!records.is_empty(), "{what}");
        let ids: std::collections::BTreeSet<_> =
            records.iter().map(|record| &record.case_id).collect();
        let glances = run.glances().unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(glances.len(), ids.len(), "{what}");
        let results = run.results().unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(results.iter().all(|result| result.error.is_none()), "{what}");
        let _ = run.glanced_results().unwrap_or_else(|error| panic!("{what}: {error}"));
        let _ = run.recommendations().unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(run.finished().unwrap_or_else(|error| panic!("{what}: {error}")).is_some());
        for gap in records.iter().filter_map(|record| match &record.outcome {
            Outcome::Finished(report) => {
                report.conditions.energy.as_ref()?.processor.as_ref().err()
            }
            Outcome::Failed { .. } | Outcome::Gap { .. } => None,
        }) {
            assert!(gap.to_string().contains("energy counters"), "{what}: {gap}");
        }
        let few = records.iter().flat_map(|record| record.report()).flat_map(|it| &it.warnings);
        warnings += few.filter(|warning| warning.kind() == WarningKind::FewSamples).count();
        read += 1;
    }
    assert_eq!((read, warnings), (3, 4));
}

#[test]
fn a_case_is_read_as_it_was_written() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let mut writer = RunFolder::create(results.path(), new_run()).expect("a run");
    write_plan(&writer, 1, 0);
    write_case(&mut writer, 0, 2500);
    let finished = writer.finish().expect("a finished run");
    assert_eq!(finished.counts, Counts { finished: 1, failed: 0, gaps: 0 });

    let folder = RunFolder::open(writer.folder().path()).expect("a run folder");
    assert_eq!(folder.header(), writer.folder().header());
    assert_eq!(folder.manifest_text().expect("the manifest"), "schema = 1\n");
    assert_eq!(folder.finished().expect("the end"), Some(finished));
    let plan: Vec<_> = folder.plan().expect("a plan").map(|line| line.expect("a line")).collect();
    assert_eq!(plan, [host_store::PlanLine::from(&spec(0))]);

    let records = records(&folder);
    let mut expected = report();
    expected.labels.clear();
    expected.profile.clear();
    expected.device_states.clear();
    assert_eq!(records, [record(&spec(0), Outcome::Finished(Box::new(expected)))]);

    let quantities = QUANTITIES.iter().filter(|quantity| quantity.is_column());
    let all: Vec<&str> =
        column::ALL.iter().copied().chain(quantities.map(|quantity| quantity.id)).collect();
    let columns = folder.columns(&records[0], &all).expect("columns");
    assert_eq!(columns.case_id, spec(0).id);
    assert_eq!(columns.attributes["batch"], "1");
    assert_eq!(columns.attributes["scenario"], "single-stream");
    assert!(!columns.attributes.contains_key("sequence-length"));
    let names: Vec<_> = columns.columns.iter().map(|column| column.name.as_str()).collect();
    // The report has no time for preparing, a closed loop no schedule, one process no number, and a query of
    // inference no marks and no epochs, so these columns do not exist.
    let absent = [
        column::STEP_LOSS,
        column::EPOCH_LOSS,
        column::EPOCH_TIME,
        column::EPOCH_READING,
        column::EPOCH_ACCURACY,
        column::EPOCH_EXAMPLES,
        column::PHASES,
        column::TOKENS,
        column::TOKEN_TIME,
        column::PHASE_MEMORY,
        column::SCHEDULED,
        column::PROCESS,
        column::ACHIEVED_RATE,
        column::OFFERED_RATE,
    ];
    let is_there = |name: &&str| match Quantity::named(name) {
        _ if absent.contains(name) => false,
        Some(quantity) => quantity.of(&records[0]).is_some_and(|found| found.is_ok()),
        None => true,
    };
    assert!(!is_there(&"prepare-time") && is_there(&"open-time"));
    let have: Vec<_> = all
        .iter()
        .copied()
        .filter(is_there)
        .flat_map(|name| match name {
            column::OUTPUTS => vec!["output.logits", "output.embedding"],
            name => vec![name],
        })
        .collect();
    assert_eq!(names, have);
    assert_eq!(*column(&columns, column::LATENCY), ColumnData::U64(latencies(0, 2500)));
    assert_eq!(*column(&columns, column::ITEMS), ColumnData::U64(vec![8; 2500]));
    assert_eq!(*column(&columns, column::WARM_UP_LATENCY), ColumnData::U64(vec![9; 3]));
    assert_eq!(*column(&columns, column::WARM_UP_START), ColumnData::U64(vec![0, 9, 18]));
    assert_eq!(*column(&columns, column::LABEL), ColumnData::S64(vec![3, -1, 7]));
    let output = columns.columns.iter().find(|column| column.name == column::OUTPUT);
    let output = output.expect("outputs");
    assert_eq!(output.width, 3);
    let infinity = f32::INFINITY;
    let values = vec![0.0, -0.5, infinity, 1.0, -0.5, infinity, 2.0, -0.5, infinity];
    assert_eq!(output.data, ColumnData::F32(values));
    assert_eq!(*column(&columns, "open-time"), ColumnData::U64(vec![1]));
    assert_eq!(*column(&columns, "peak-memory"), ColumnData::U64(vec![50 << 20]));
    assert_eq!(*column(&columns, "package-energy"), ColumnData::F64(vec![30.0]));
    assert_eq!(*column(&columns, "device-memory"), ColumnData::U64(vec![1 << 30]));
    assert_eq!(*column(&columns, "compute-time"), ColumnData::F64(vec![80.0]));
    assert!(!columns.attributes.keys().any(|name| name.starts_with("missing.")));
}

#[test]
fn marks_of_queries_are_columns() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let mut writer = RunFolder::create(results.path(), new_run()).expect("a run");
    writer.case_started(&spec(0)).expect("a started case");
    let phases = || vec!["prefill".to_owned(), "decode".to_owned()];
    let warm_up =
        Marks { phases: phases(), ends_ns: vec![3, 5], counts: vec![1], within_ns: vec![4] };
    let measured = Marks {
        phases: phases(),
        ends_ns: vec![110, 200, 230, 300],
        counts: vec![2, 0],
        within_ns: vec![150, 190],
    };
    for (phase, begin, latencies, marks) in [
        (SamplePhase::WarmUp, 0, vec![9], warm_up),
        (SamplePhase::Measured, 100, vec![100, 100], measured),
    ] {
        let marked = SampleBlock { marks: Some(marks), ..block(phase, begin, &latencies) };
        writer.samples(&marked).expect("samples");
    }
    writer.case_finished(&record(&spec(0), Outcome::Finished(Box::new(report())))).expect("a case");
    write_case(&mut writer, 1, 10);
    writer.finish().expect("a finished run");

    let folder = writer.folder();
    let records = records(folder);
    let asked = [column::PHASES, column::TOKENS, column::TOKEN_TIME, column::LATENCY];
    let columns = folder.columns(&records[0], &asked).expect("columns");
    let found: Vec<_> = columns
        .columns
        .iter()
        .map(|column| (column.name.as_str(), column.unit.as_str(), column.data.clone()))
        .collect();
    let numbers = |values: &[u64]| ColumnData::U64(values.to_vec());
    assert_eq!(
        found,
        [
            ("phase.prefill", "ns", numbers(&[10, 30])),
            ("phase.decode", "ns", numbers(&[90, 70])),
            ("tokens", "1", numbers(&[2, 0])),
            ("token-time", "ns", numbers(&[50, 90])),
            ("latency", "ns", numbers(&[100, 100])),
        ]
    );
    let columns = folder.columns(&records[1], &asked).expect("columns");
    assert_eq!(columns.columns.len(), 1, "only latencies");

    let file = results.path().join("samples.csv");
    export(folder, "samples", ExportFormat::Csv, &file).expect("an export");
    let text = fs::read_to_string(&file).expect("the export");
    let header = text.lines().next().expect("a header");
    assert!(header.ends_with(",phase_ends_ns,within_ns"), "{header}");
    assert!(text.contains("\"{prefill=110, decode=200}\",\"[150, 190]\""), "{text}");
}

#[test]
fn epochs_of_training_are_columns() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let mut writer = RunFolder::create(results.path(), new_run()).expect("a run");
    let epoch = |time_ns, loss, right| Epoch { time_ns, loss, right, ..Epoch::default() };
    let learning = Learning {
        examples: 9,
        test_examples: 4,
        batch: 4,
        steps: 2,
        losses: vec![Some(2.0), None, Some(1.0), Some(0.5)],
        epochs: vec![epoch(70, None, Some(1)), epoch(80, Some(0.75), Some(3))],
    };
    let gap = Gap::from(NotMeasured::NoDataSet);
    for (index, learning) in [Ok(learning), Err(gap.clone())].into_iter().enumerate() {
        let mut report = report();
        report.conditions.learning = Some(learning);
        let spec = spec(index as u64);
        writer.case_started(&spec).expect("a started case");
        let finished = record(&spec, Outcome::Finished(Box::new(report)));
        writer.case_finished(&finished).expect("a case");
    }
    writer.finish().expect("a finished run");
    let folder = writer.folder();
    let records = records(folder);
    let names = [column::STEP_LOSS, column::EPOCH_LOSS, column::EPOCH_TIME, column::EPOCH_READING];
    let asked = [&names[..], &[column::EPOCH_ACCURACY, column::EPOCH_EXAMPLES]].concat();
    let columns = folder.columns(&records[0], &asked).expect("columns");
    let real = |name| match column(&columns, name) {
        ColumnData::F64(values) => values.clone(),
        other => panic!("{name}: {other:?}"),
    };
    let losses = real(column::STEP_LOSS);
    assert!(losses[1].is_nan() && losses[2..] == [1.0, 0.5], "{losses:?}");
    let losses = real(column::EPOCH_LOSS);
    assert!(losses[0].is_nan() && losses[1] == 0.75, "{losses:?}");
    assert_eq!(real(column::EPOCH_ACCURACY), [0.25, 0.75]);
    assert_eq!(*column(&columns, column::EPOCH_TIME), ColumnData::U64(vec![70, 80]));
    assert_eq!(*column(&columns, column::EPOCH_READING), ColumnData::U64(vec![0, 0]));
    assert_eq!(*column(&columns, column::EPOCH_EXAMPLES), ColumnData::U64(vec![8]));
    let columns = folder.columns(&records[1], &asked).expect("columns");
    assert_eq!(columns.columns, []);
    assert_eq!(columns.attributes["missing.epoch-time"], gap.to_string());
}

#[test]
fn outputs_of_every_type_are_columns() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let mut writer = RunFolder::create(results.path(), new_run()).expect("a run");
    writer.case_started(&spec(0)).expect("a started case");
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    for first_example in [0, 1] {
        for (name, width, values) in [
            ("mask", 2, OutputValues::Booleans(vec![true, first_example == 1])),
            ("word", 1, OutputValues::Texts(texts(&[["a", "\u{e9}\""][first_example as usize]]))),
            ("score", 1, vec![0.5].into()),
        ] {
            let block = OutputBlock { name: name.into(), first_example, width, values };
            writer.outputs(&block).expect("outputs");
        }
    }
    writer.case_finished(&record(&spec(0), Outcome::Finished(Box::new(report())))).expect("a case");
    let records = records(writer.folder());
    let asked = [column::OUTPUT, column::OUTPUTS];
    let columns = writer.folder().columns(&records[0], &asked).expect("columns");
    let found: Vec<_> = columns
        .columns
        .iter()
        .map(|column| (column.name.as_str(), column.width, column.data.clone()))
        .collect();
    let mask = || ColumnData::Boolean(vec![true, false, true, true]);
    assert_eq!(
        found,
        [
            ("output", 2, mask()),
            ("output.mask", 2, mask()),
            ("output.word", 1, ColumnData::Text(texts(&["a", "\u{e9}\""]))),
            ("output.score", 1, ColumnData::F32(vec![0.5, 0.5])),
        ]
    );
}

#[test]
fn a_column_that_is_missing_says_why() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let writer = RunFolder::create(results.path(), new_run()).expect("a run");
    let mut report = report();
    let gap: Gap = NotMeasured::NoEnergyCounters { folder: "/sys/class/powercap".into() }.into();
    let (reason, device) = (gap.to_string(), Err(gap.clone()));
    report.conditions.energy = Some(Energy { processor: Err(gap), device });
    let record = record(&spec(0), Outcome::Finished(Box::new(report)));
    let asked = ["package-energy", "baseline-memory"];
    let columns = writer.folder().columns(&record, &asked).expect("columns");
    let names: Vec<_> = columns.columns.iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["baseline-memory"]);
    assert_eq!(columns.attributes["missing.package-energy"], reason);
    assert!(!columns.attributes.contains_key("missing.device-energy"), "it was not asked for");
}

#[test]
fn failures_and_gaps_are_kept_with_their_reasons() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let mut writer = RunFolder::create(results.path(), new_run()).expect("a run");
    let failure = Failure::Signal {
        signal: 11,
        name: "SIGSEGV".into(),
        phase: Phase::Measure,
        said: String::new(),
    };
    let mut failed = record(&spec(0), Outcome::Failed { failure });
    failed.standard_error = "Segmentation fault\n".into();
    writer.case_started(&spec(0)).expect("a started case");
    writer.samples(&block(SamplePhase::Measured, 0, &[1, 2])).expect("samples");
    writer.case_finished(&failed).expect("a failed case");
    writer.case_finished(&gap_record(1)).expect("a gap");

    let records = records(writer.folder());
    assert_eq!(records, [failed, gap_record(1)]);
    let folder = writer.folder();
    let text = fs::read_to_string(folder.path().join("stderr/0000000000000000.txt"));
    assert_eq!(text.expect("standard error"), "Segmentation fault\n");
    let columns = folder.columns(&records[0], column::ALL).expect("columns");
    assert!(columns.columns.is_empty(), "a case that did not finish has no columns");
    assert!(folder.path().join("samples/0000000000000000.parquet").is_file(), "evidence is kept");
    assert_eq!(writer.counts(), Counts { finished: 0, failed: 1, gaps: 1 });
}

/// Returns the blocks of one case, from a closed or an open loop.
/// Times and counts: of more than 146 years, a file is damaged.
fn possible() -> impl Strategy<Value = u64> {
    0..1_u64 << 62
}

fn sample_blocks() -> impl Strategy<Value = Vec<SampleBlock>> {
    let edges = || {
        prop_oneof![
            prop::collection::vec(possible(), 1..40),
            prop::collection::vec(0..1000_u64, 1..40),
        ]
    };
    let block = |times| {
        let phase = prop_oneof![
            Just(SamplePhase::WarmUp),
            Just(SamplePhase::Search),
            Just(SamplePhase::Measured)
        ];
        (phase, possible(), 0..4_u32, times).prop_map(|(phase, items_per_query, lane, times)| {
            SampleBlock { phase, items_per_query, lane, times, marks: None }
        })
    };
    let chains = block(edges().prop_map(SampleTimes::Chain).boxed());
    let query = (possible(), 0..1000_u64, 0..1000_u64).prop_map(|(scheduled_ns, late, took)| {
        let begun_ns = scheduled_ns.saturating_add(late);
        ScheduledTimes { scheduled_ns, begun_ns, ended_ns: begun_ns.saturating_add(took) }
    });
    let queries = prop::collection::vec(query, 0..40).prop_map(SampleTimes::Scheduled);
    prop_oneof![
        prop::collection::vec(chains, 0..12),
        prop::collection::vec(block(queries.boxed()), 0..12)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_blocks_come_back(blocks in sample_blocks()) {
        let results = tempfile::tempdir().expect("a temporary folder");
        let mut writer = RunFolder::create(results.path(), new_run()).expect("a run");
        writer.case_started(&spec(0)).expect("a started case");
        for block in &blocks {
            writer.samples(block).expect("samples");
        }
        let record = record(&spec(0), Outcome::Finished(Box::new(report())));
        writer.case_finished(&record).expect("a finished case");

        let names =
            [column::START, column::LATENCY, column::ITEMS, column::SCHEDULED, column::LANE];
        let columns = writer.folder().columns(&record, &names).expect("columns");
        let (mut start, mut latency, mut items) = (Vec::new(), Vec::new(), Vec::new());
        let (mut scheduled, mut lane) = (Vec::new(), Vec::new());
        for block in blocks.iter().filter(|block| block.phase == SamplePhase::Measured) {
            for query in block.queries() {
                start.push(query.start_ns);
                latency.push(query.latency_ns);
                items.push(block.items_per_query);
                scheduled.extend(query.scheduled_ns);
                lane.push(u64::from(block.lane));
            }
        }
        if blocks.iter().all(SampleBlock::is_empty) {
            prop_assert!(columns.columns.is_empty());
        } else {
            prop_assert_eq!(column(&columns, column::START), &ColumnData::U64(start.clone()));
            prop_assert_eq!(column(&columns, column::LATENCY), &ColumnData::U64(latency));
            prop_assert_eq!(column(&columns, column::ITEMS), &ColumnData::U64(items));
            prop_assert_eq!(column(&columns, column::LANE), &ColumnData::U64(lane));
            let has = columns.columns.iter().any(|found| found.name == column::SCHEDULED);
            let open = matches!(blocks[0].times, SampleTimes::Scheduled(_));
            prop_assert_eq!(has, open || start.is_empty());
            if open {
                prop_assert_eq!(column(&columns, column::SCHEDULED), &ColumnData::U64(scheduled));
            }
        }
    }
}

#[test]
fn more_samples_than_the_buffer_holds_come_back() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let mut writer = RunFolder::create(results.path(), new_run()).expect("a run");
    writer.case_started(&spec(0)).expect("a started case");
    let mut expected = Vec::new();
    for number in 0..70_u64 {
        let latencies: Vec<u64> = (0..65_537).map(|query| 500 + (query ^ number) % 61).collect();
        writer.samples(&block(SamplePhase::Measured, number << 32, &latencies)).expect("samples");
        expected.extend(latencies);
    }
    let record = record(&spec(0), Outcome::Finished(Box::new(report())));
    writer.case_finished(&record).expect("a finished case");
    let columns = writer.folder().columns(&record, &[column::LATENCY]).expect("columns");
    assert!(*column(&columns, column::LATENCY) == ColumnData::U64(expected));
}

#[test]
fn outputs_with_a_hole_are_an_error_that_says_where() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let mut writer = RunFolder::create(results.path(), new_run()).expect("a run");
    writer.case_started(&spec(0)).expect("a started case");
    for first_example in [0, 2] {
        let values = vec![1.0; 2].into();
        let block = OutputBlock { name: "y".into(), first_example, width: 2, values };
        writer.outputs(&block).expect("outputs");
    }
    let values = vec![1.0; 3].into();
    let uneven = OutputBlock { name: "y".into(), first_example: 3, width: 2, values };
    assert!(matches!(writer.outputs(&uneven), Err(StoreError::Parquet { .. })));
    let record = record(&spec(0), Outcome::Finished(Box::new(report())));
    writer.case_finished(&record).expect("a finished case");
    let error = writer.folder().columns(&record, &[column::OUTPUT]).expect_err("a hole");
    assert!(error.to_string().contains("example 2 with 2 values, where example 1"), "{error}");
}

#[test]
fn the_order_of_calls_is_checked() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let mut writer = RunFolder::create(results.path(), new_run()).expect("a run");
    let lonely = block(SamplePhase::Measured, 0, &[1]);
    assert!(matches!(writer.samples(&lonely), Err(StoreError::OutOfOrder { .. })));
    write_case(&mut writer, 0, 1);
    assert!(matches!(writer.case_started(&spec(0)), Err(StoreError::OutOfOrder { .. })));
    let mut evil = spec(1);
    evil.id = "../../evil".into();
    assert!(matches!(writer.case_started(&evil), Err(StoreError::OutOfOrder { .. })));
    let odd = result(0, vec![metric("latency.p50", f64::NAN)]);
    let error = writer.record_result(&odd).expect_err("not a number");
    assert_eq!(
        error.to_string(),
        "metric `latency.p50` of case `0000000000000000` is NaN, which is not a finite number"
    );
}

#[test]
fn a_later_result_takes_the_place_of_an_earlier_one() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let mut writer = RunFolder::create(results.path(), new_run()).expect("a run");
    write_case(&mut writer, 0, 1);
    let first = result(0, vec![metric("latency.p50", 1.0)]);
    let other_options = ResultRecord { options: serde_json::json!({"a": 1}), ..first.clone() };
    let second = result(0, vec![metric("latency.p50", 2.0)]);
    for line in [&first, &other_options, &second] {
        writer.record_result(line).expect("a result");
    }
    assert_eq!(writer.folder().results().expect("results"), [other_options, second]);
}

#[test]
fn two_hosts_cannot_write_one_run_and_a_run_goes_on_where_it_stopped() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let folder = ResultsFolder::new(results.path());
    let mut writer = RunFolder::create(results.path(), new_run()).expect("a run");
    let path = writer.folder().path().to_owned();
    write_case(&mut writer, 0, 10);
    writer.record_result(&result(0, vec![metric("latency.p50", 1.0)])).expect("a result");
    writer.case_started(&spec(1)).expect("a started case");
    writer.samples(&block(SamplePhase::Measured, 0, &[5])).expect("samples");
    let error = RunFolder::open_to_resume(&path).expect_err("a locked run");
    assert!(matches!(error, StoreError::RunLocked { .. }), "{error}");
    let entry = folder.list().expect("a list").remove(0).expect("an entry");
    assert_eq!(entry.state, RunState::Running);
    drop(writer);

    let entry = folder.list().expect("a list").remove(0).expect("an entry");
    assert_eq!(entry.state, RunState::Interrupted);
    assert_eq!(entry.torn, []);
    // These are leftovers of a crash between the files and the journal, or within either.
    for name in ["samples/0000000000000001.parquet", "samples/0000000000000002.parquet.partial"] {
        fs::write(path.join(name), "half").expect("a leftover");
    }
    let mut journal = fs::OpenOptions::new().append(true).open(path.join("journal.jsonl"));
    journal.as_mut().expect("the journal").write_all(b"{\"record-ver").expect("a torn line");

    let entry = folder.list().expect("a list").remove(0).expect("an entry");
    assert_eq!(entry.torn.iter().map(|torn| torn.line).collect::<Vec<_>>(), [2]);
    let run = RunFolder::open(&path).expect("a run folder");
    assert_eq!(run.flaws().expect("flaws"), [Flaw::TornLine(entry.torn[0].clone())]);

    let found = folder.find("latest").expect("the run");
    let mut writer = RunFolder::open_to_resume(&found).expect("a resumed run");
    assert_eq!(writer.torn().expect("a torn line").line, 2);
    assert!(writer.is_recorded(&spec(0).id, 0) && !writer.is_recorded(&spec(1).id, 0));
    let left: Vec<_> = fs::read_dir(path.join("samples"))
        .expect("samples")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    assert_eq!(left, ["0000000000000000.parquet"]);
    write_case(&mut writer, 1, 10);
    writer.record_result(&result(1, vec![metric("latency.p50", 2.0)])).expect("a result");
    writer.finish().expect("a finished run");
    let ids: Vec<_> = records(writer.folder()).into_iter().map(|record| record.case_id).collect();
    assert_eq!(ids, [spec(0).id, spec(1).id]);
    assert_eq!(writer.folder().results().expect("results").len(), 2);
    drop(writer);

    let entry = folder.list().expect("a list").remove(0).expect("an entry");
    assert_eq!(entry.state, RunState::Finished);
    assert_eq!(entry.torn, []);
    let table = list_table(&[Ok(entry)]);
    assert_eq!(table.rows[0][3], host_record::Cell::Text("finished".into()));
    assert_eq!(table.rows[0][4], host_record::Cell::Integer(2));
}

/// An untrusted, interrupted run folder, and a file outside of it that must survive.
struct Hostile {
    results: tempfile::TempDir,
    run: PathBuf,
    outside: PathBuf,
}

impl Hostile {
    fn new() -> Self {
        let results = tempfile::tempdir().expect("a temporary folder");
        let mut writer = RunFolder::create(results.path(), new_run()).expect("a run");
        write_case(&mut writer, 0, 10);
        let run = writer.folder().path().to_owned();
        let outside = results.path().join("mine");
        fs::create_dir(&outside).expect("a folder");
        fs::write(outside.join("thesis.txt"), "three years").expect("a file");
        Self { results, run, outside }
    }

    /// Tries to resume and to read it, and returns the error.
    fn refusal(&self) -> String {
        let read = RunFolder::open(&self.run).and_then(|folder| {
            folder.records()?.collect::<Result<Vec<_>, _>>()?;
            folder.results()?;
            Ok(())
        });
        read.expect_err("what points outside is not read");
        let error = RunFolder::open_to_resume(&self.run).expect_err("nor resumed");
        let thesis = fs::read_to_string(self.outside.join("thesis.txt"));
        assert_eq!(thesis.expect("the file"), "three years");
        error.to_string().replace(&self.results.path().display().to_string(), "")
    }
}

#[test]
fn a_case_id_that_is_a_path_is_refused_when_it_is_read() {
    let hostile = Hostile::new();
    let journal = hostile.run.join("journal.jsonl");
    let text = fs::read_to_string(&journal).expect("the journal");
    let path = hostile.outside.join("thesis").display().to_string();
    for id in [path.as_str(), "../../../mine/thesis", "..", ""] {
        fs::write(&journal, text.replace(&spec(0).id, id)).expect("another journal");
        let refusal = hostile.refusal();
        assert!(refusal.contains("is not the id of a case"), "{id}: {refusal}");
    }
}

#[test]
fn a_references_id_that_is_a_path_is_refused_when_it_is_read() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let mut writer = RunFolder::create(results.path(), new_run()).expect("a run");
    let mut compared = spec(0);
    compared.check = Some(Box::new(Check {
        id: "../../../mine".into(),
        plugin: compared.plugin.clone(),
        device: compared.device.clone(),
        precision: Precision::Fp32,
        model: compared.model.clone(),
        threads: None,
        options: BTreeMap::new(),
        tolerance: Tolerance::of(Precision::Fp32),
    }));
    writer.case_started(&compared).expect("a started case");
    let record = record(&compared, Outcome::Finished(Box::new(report())));
    writer.case_finished(&record).expect("a finished case");
    drop(writer);
    let run = ResultsFolder::new(results.path()).find("latest").expect("the run");
    let error = RunFolder::open_to_resume(&run).expect_err("a path as an id");
    assert!(error.to_string().contains("\"../../../mine\" is not the id of"), "{error}");
}

#[cfg(unix)]
#[test]
fn a_results_folder_with_links_is_refused() {
    use std::os::unix::fs::symlink;

    let hostile = Hostile::new();
    let results = ResultsFolder::new(hostile.results.path());
    // The run itself is a link.
    let runs = hostile.results.path().join("runs");
    let elsewhere = hostile.outside.join("run");
    fs::rename(&hostile.run, &elsewhere).expect("moving it");
    symlink(&elsewhere, &hostile.run).expect("a link");
    assert!(hostile.refusal().contains("is a link"), "{}", hostile.refusal());
    let list = results.list().expect("a list");
    assert!(matches!(&list[..], [Err(damaged)] if damaged.error.to_string().contains("is a link")));
    // The folder of runs is a link.
    fs::remove_file(&hostile.run).expect("removing it");
    fs::remove_dir(&runs).expect("removing it");
    symlink(&hostile.outside, &runs).expect("a link");
    let refused = |error: StoreError| assert!(matches!(error, StoreError::Link { .. }), "{error}");
    refused(results.run_paths().expect_err("a link"));
    refused(RunFolder::create(results.path(), new_run()).map(drop).expect_err("a link"));
    fs::remove_file(&runs).expect("removing it");
    // The database or its log is a link.
    for name in ["tare.duckdb", "tare.duckdb.wal"] {
        let link = hostile.results.path().join(name);
        symlink(hostile.outside.join("new"), &link).expect("a link");
        refused(Database::open(&results, Duration::ZERO).map(drop).expect_err("a link"));
        fs::remove_file(&link).expect("removing it");
    }
    assert!(!hostile.outside.join("new").exists());
    // The database or its log is a pipe.
    for name in ["tare.duckdb", "tare.duckdb.wal"] {
        let pipe = hostile.results.path().join(name);
        let made = Command::new("mkfifo").arg(&pipe).status().expect("mkfifo");
        assert!(made.success());
        let error = Database::open(&results, Duration::ZERO).map(drop).expect_err("a pipe");
        assert!(matches!(error, StoreError::Unreadable { .. }), "{error}");
        assert!(error.to_string().ends_with("it is a pipe, not a regular file"), "{error}");
        fs::remove_file(&pipe).expect("removing it");
    }
}

#[cfg(unix)]
#[test]
fn a_run_folder_with_links_is_refused() {
    use std::os::unix::fs::symlink;

    let hostile = Hostile::new();
    let stderr = hostile.run.join("stderr");
    symlink(&hostile.outside, &stderr).expect("a link");
    assert!(hostile.refusal().contains("/stderr` is a link"), "{}", hostile.refusal());
    fs::remove_file(&stderr).expect("removing it");
    fs::create_dir(&stderr).expect("a folder");
    let file = stderr.join(format!("{}.txt", spec(0).id));
    symlink(hostile.outside.join("thesis.txt"), &file).expect("a link");
    assert!(hostile.refusal().contains("is a link"), "{}", hostile.refusal());
    fs::remove_file(&file).expect("removing it");
    // Links in place of the files that a host would write.
    for name in ["lock", "finished.json.partial", "reports/html/report.html"] {
        let link = hostile.run.join(name);
        fs::create_dir_all(link.parent().expect("a folder")).expect("a folder");
        let moved = link.exists().then(|| fs::rename(&link, hostile.run.join("moved")));
        symlink(hostile.outside.join("thesis.txt"), &link).expect("a link");
        assert!(hostile.refusal().contains("is a link"), "{name}: {}", hostile.refusal());
        fs::remove_file(&link).expect("removing it");
        drop(moved);
    }
    // A pipe: reading one would never end.
    let pipe = hostile.run.join("results.jsonl");
    drop(fs::remove_file(&pipe));
    let made = Command::new("mkfifo").arg(&pipe).status().expect("mkfifo");
    assert!(made.success());
    assert!(hostile.refusal().contains("a special file"), "{}", hostile.refusal());
}

#[test]
fn runs_are_found_by_what_names_one_only() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let folder = ResultsFolder::new(results.path());
    let error = folder.find("latest").expect_err("no run yet");
    assert!(error.hint().expect("a hint").contains("--results"), "{error}");
    let ids: Vec<String> = (0..3)
        .map(|_| {
            let writer = RunFolder::create(results.path(), new_run()).expect("a run");
            writer.folder().run_id().to_owned()
        })
        .collect();
    assert!(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2]);
    for id in &ids {
        let suffix = id.rsplit('-').next().expect("a suffix");
        for wanted in [id.as_str(), suffix] {
            let path = folder.find(wanted).expect("a run");
            assert_eq!(RunFolder::open(&path).expect("a run folder").run_id(), id);
        }
        let path = folder.path().join("runs").join(id);
        assert_eq!(folder.find(path.to_str().expect("a path")).expect("a run"), path);
    }
    assert!(matches!(folder.find("quick"), Err(StoreError::AmbiguousRun { .. })));
    let error = folder.find("nonesuch").expect_err("no such run");
    assert!(error.hint().expect("a hint").contains(&ids[0]), "{error}");
    assert!(matches!(RunFolder::open(results.path()), Err(StoreError::NotARun { .. })));
}

#[test]
fn samples_of_more_queries_than_were_measured_are_lost() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let mut writer = RunFolder::create(results.path(), new_run()).expect("a run");
    write_case(&mut writer, 0, 7);
    let folder = writer.folder();
    assert_eq!(folder.lost_files().expect("a journal"), []);
    let journal = folder.path().join("journal.jsonl");
    let mut text = fs::read_to_string(&journal).expect("a journal");
    let count = "\"queries\":";
    let at = text.rfind(count).expect("the number of queries") + count.len();
    text.insert(at, '4');
    fs::write(&journal, text).expect("a journal");
    let lost = folder.lost_files().expect("a journal");
    let [file] = &lost[..] else { panic!("{lost:?}") };
    assert_eq!(file.file, CaseFile::Samples);
    assert!(file.to_string().contains("measured queries instead of 4"), "{file}");
}

#[test]
fn a_start_that_is_not_a_time_is_damage_in_its_line() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let run = RunFolder::create(results.path(), new_run()).expect("a run");
    let path = run.folder().path().to_owned();
    let header = fs::read_to_string(path.join("run.json")).expect("a header");
    let header = header.replace(&run.folder().header().started_at, "yesterday");
    fs::write(path.join("run.json"), header).expect("a header");
    let error = RunFolder::open(&path).expect_err("not a time").to_string();
    let end = "run.json`, line 6: `started-at` is \"yesterday\", which is not a time";
    assert!(error.ends_with(end), "{error}");
}

#[test]
fn results_that_a_finished_run_lacks_are_flaws() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let mut run = new_run();
    run.plugins.extend(["latency", "memory"].map(|id| RunPlugin {
        role: PluginRole::Metric,
        identity: plugin(id),
        runtime: None,
        hides: None,
    }));
    let mut writer = RunFolder::create(results.path(), run).expect("a run");
    for index in 0..3 {
        writer.case_started(&spec(index)).expect("a started case");
        let outcome = match index {
            2 => Outcome::Failed { failure: Failure::Input { detail: "none".into() } },
            _ => Outcome::Finished(Box::new(report())),
        };
        writer.case_finished(&record(&spec(index), outcome)).expect("a finished case");
    }
    let result = |id: &str, index| {
        ResultRecord::failed(spec(index).id, plugin(id), serde_json::Value::Null, "broken")
    };
    writer.record_result(&result("latency", 0)).expect("a result");
    writer.record_result(&result("latency", 1)).expect("a result");
    writer.record_result(&result("memory", 0)).expect("a result");
    let path = writer.folder().path().to_owned();
    let lost = || -> Vec<String> {
        let flaws = RunFolder::open(&path).expect("a run").flaws().expect("flaws");
        let flaws = flaws.iter().filter(|flaw| matches!(flaw, Flaw::LostResults { .. }));
        flaws.map(|flaw| flaw.to_string().replace(&path.display().to_string(), "RUN")).collect()
    };
    assert_eq!(lost(), [] as [String; 0], "the run is not finished");
    writer.finish().expect("an end");
    let file = "in `RUN/results.jsonl`";
    assert_eq!(lost(), [format!("a finished case has no results of the metric `memory` {file}")]);
    fs::write(path.join("results.jsonl"), "").expect("an empty file");
    let none = ["latency", "memory"]
        .map(|id| format!("2 finished cases have no results of the metric `{id}` {file}"));
    assert_eq!(lost(), none);
}

#[test]
fn a_damaged_file_costs_its_own_run_only() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let folder = ResultsFolder::new(results.path());
    let runs: Vec<_> = (0..2)
        .map(|_| {
            let writer = RunFolder::create(results.path(), new_run()).expect("a run");
            writer.folder().path().to_owned()
        })
        .collect();
    let refused = |reason: &str| {
        let list = folder.list().expect("a list");
        assert_eq!(list.iter().filter(|entry| entry.is_ok()).count(), 1);
        let damaged = list.into_iter().find_map(Result::err).expect("a damaged run");
        assert_eq!(damaged.path, runs[0]);
        let text = damaged.error.to_string();
        assert!(text.contains(reason), "{text}");
        // The command line has an exit code for results that are damaged, and not for `Io`.
        assert!(!matches!(damaged.error, StoreError::Io { .. }), "{text}");
    };
    let endless = |file: &str, reason: &str| {
        let path = runs[0].join(file);
        let before = fs::read(&path).ok();
        let file = fs::OpenOptions::new().create(true).append(true).open(&path);
        file.and_then(|file| file.set_len(200 << 30)).expect("a sparse file");
        refused(reason);
        match before {
            Some(before) => fs::write(&path, before).expect("a file"),
            None => fs::remove_file(&path).expect("removing it"),
        }
    };
    endless("journal.jsonl", "line 1: it is longer than 128 MiB");
    endless("results.jsonl", "line 1: it is longer than 128 MiB");
    endless("run.json", "it is longer than 64 MiB");
    endless("finished.json", "it is longer than 64 MiB");
    for file in ["journal.jsonl", "run.json", "finished.json", "plan.jsonl"] {
        let (path, aside) = (runs[0].join(file), results.path().join("aside"));
        let is_there = fs::rename(&path, &aside).is_ok();
        fs::create_dir(&path).expect("a folder");
        // A folder in place of the header leaves a folder that is not a run.
        if file != "run.json" {
            refused("it is a folder, not a regular file");
        }
        fs::remove_dir(&path).expect("removing it");
        if is_there {
            fs::rename(&aside, &path).expect("moving it back");
        }
    }
}

#[test]
fn a_newer_or_damaged_folder_is_refused_and_hides_no_other() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let paths: Vec<_> = (0..3)
        .map(|_| {
            let mut writer = RunFolder::create(results.path(), new_run()).expect("a run");
            write_case(&mut writer, 0, 1);
            writer.folder().path().to_owned()
        })
        .collect();
    let header = fs::read_to_string(paths[0].join("run.json")).expect("a header");
    let newer = header.replace("\"record-version\": 1", "\"record-version\": 2");
    assert_ne!(header, newer);
    fs::write(paths[0].join("run.json"), newer).expect("a newer header");
    fs::write(paths[1].join("run.json"), &header[..header.len() / 2]).expect("half a header");

    let error = RunFolder::open(&paths[0]).expect_err("a newer folder");
    assert!(matches!(error, StoreError::NewerRecord { found: 2, supported: 1, .. }), "{error}");
    assert!(error.to_string().contains("version 2") && error.to_string().contains("up to 1"));
    let error = RunFolder::open(&paths[1]).expect_err("half a header");
    assert!(matches!(error, StoreError::Malformed { .. }), "{error}");

    let listed = ResultsFolder::new(results.path()).list().expect("a list");
    assert_eq!(listed.iter().filter(|entry| entry.is_ok()).count(), 1);
    fs::write(paths[2].join("manifest.toml"), "schema = 2\n").expect("another manifest");
    let folder = RunFolder::open(&paths[2]).expect("a run folder");
    assert!(matches!(folder.manifest_text(), Err(StoreError::Malformed { .. })));
}

const CHILD: &str = "TARE_TEST_STORE_CHILD";

/// A process that records cases is killed at an arbitrary moment. Every case that it had reported
/// as recorded must be there, complete.
#[test]
fn killed_while_writing() {
    if let Ok(results) = std::env::var(CHILD) {
        let mut writer = RunFolder::create(results.as_ref(), new_run()).expect("a run");
        let mut output = std::io::stdout().lock();
        for index in 0.. {
            write_case(&mut writer, index, 20_000);
            writeln!(output, "recorded {}", spec(index).id).expect("a line");
            output.flush().expect("a line");
        }
    }
    for trial in 0..6 {
        let results = tempfile::tempdir().expect("a temporary folder");
        let executable = std::env::current_exe().expect("this executable");
        let mut child = Command::new(executable)
            .args(["--exact", "run_folder::killed_while_writing", "--nocapture"])
            .env(CHILD, results.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a child");
        let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let mut promised = Vec::new();
        while promised.len() <= trial {
            let line = lines.next().expect("the child lives").expect("a line");
            promised.extend(line.strip_prefix("recorded ").map(str::to_owned));
        }
        std::thread::sleep(std::time::Duration::from_micros(1700 * trial as u64));
        child.kill().expect("a killed child");
        child.wait().expect("a dead child");
        for line in lines {
            let line = line.expect("a line");
            // The last line may be truncated; a complete one ends with sixteen digits.
            let id = line.strip_prefix("recorded ").filter(|id| id.len() == 16);
            promised.extend(id.map(str::to_owned));
        }

        let path = ResultsFolder::new(results.path()).find("latest").expect("the run");
        let mut writer = RunFolder::open_to_resume(&path).expect("a resumed run");
        for id in &promised {
            assert!(writer.is_recorded(id, 0), "case {id} was promised");
        }
        let records = records(writer.folder());
        for (index, record) in records.iter().enumerate() {
            let columns = writer.folder().columns(record, column::ALL).expect("columns");
            let expected = ColumnData::U64(latencies(index as u64, 20_000));
            assert!(*column(&columns, column::LATENCY) == expected, "samples of case {index}");
        }
        let next = records.len() as u64;
        write_case(&mut writer, next, 10);
        writer.finish().expect("a finished run");
        assert_eq!(writer.counts().finished, next + 1);
    }
}

/// Returns the missing files of the folder: the case's number, the file, and the name of the loss.
fn lost(folder: &RunFolder) -> Vec<(u64, CaseFile, &'static str)> {
    let number = |id: &str| u64::from_str_radix(id, 16).expect("an id of these tests");
    let lost = folder.lost_files().expect("a journal");
    lost.iter().map(|lost| (number(&lost.case_id), lost.file, lost.loss.name())).collect()
}

#[test]
fn files_that_a_finished_case_has_lost_are_found() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let mut writer = RunFolder::create(results.path(), new_run()).expect("a run");
    for index in 0..5 {
        write_case(&mut writer, index, 10);
    }
    let failure = Failure::ExitCode { code: 3, phase: Phase::Measure };
    writer.case_started(&spec(5)).expect("a started case");
    writer.samples(&block(SamplePhase::Measured, 0, &[1, 2])).expect("samples");
    let failed = record(&spec(5), Outcome::Failed { failure });
    writer.case_finished(&failed).expect("a failed case");
    writer.case_finished(&gap_record(6)).expect("a gap");
    let folder = writer.folder();
    assert_eq!(lost(folder), []);

    let path =
        |kind: &str, index: u64| folder.path().join(kind).join(format!("{:016x}.parquet", index));
    fs::remove_file(path("samples", 0)).expect("a lost file");
    let bytes = fs::read(path("outputs", 1)).expect("outputs");
    fs::write(path("outputs", 1), &bytes[..bytes.len() / 2]).expect("half a file");
    let bytes = fs::read(path("labels", 2)).expect("labels");
    fs::write(path("labels", 2), vec![b'x'; bytes.len()]).expect("a scribbled file");
    fs::remove_file(path("samples", 3)).expect("a lost file");
    fs::create_dir(path("samples", 3)).expect("a folder in its place");
    fs::remove_file(path("samples", 5)).expect("evidence of a failed case");
    let found = lost(folder);
    assert_eq!(
        found[..3],
        [
            (0, CaseFile::Samples, "missing"),
            (1, CaseFile::Outputs, "wrong-length"),
            (2, CaseFile::Labels, "unreadable"),
        ]
    );
    assert_eq!(found[3..].iter().map(|lost| lost.0).collect::<Vec<_>>(), [3], "{found:?}");

    let files = folder.lost_files().expect("a journal");
    assert_eq!(files[0].loss, Loss::Missing);
    for file in &files {
        let path = file.path.to_str().expect("a path");
        assert_eq!(file.to_string().matches(path).count(), 1, "{file}");
    }
    let flaws = folder.flaws().expect("flaws");
    let text = flaws[0].to_string();
    for part in [&spec(0).id, "digits", "samples/0000000000000000.parquet` is missing"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(flaws[0].hint().expect("a hint").contains("--resume"));
}

/// Reads journals of hosts that did not record which files a case has.
#[test]
fn samples_are_missed_even_if_the_journal_does_not_name_them() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let mut writer = RunFolder::create(results.path(), new_run()).expect("a run");
    for index in 0..2 {
        write_case(&mut writer, index, 10);
    }
    let journal = writer.folder().path().join("journal.jsonl");
    let text = fs::read_to_string(&journal).expect("the journal");
    let older: String = text
        .lines()
        .map(|line| {
            let mut line: serde_json::Value = serde_json::from_str(line).expect("JSON");
            let files = line.as_object_mut().and_then(|line| line.remove("files"));
            let files = files.expect("the files of a case");
            // The lengths of five files, and the number of queries.
            assert_eq!(files.as_object().expect("an object").len(), 6, "{files}");
            format!("{line}\n")
        })
        .collect();
    fs::write(&journal, older).expect("an older journal");
    assert_eq!(lost(writer.folder()), []);
    let path = |kind: &str| writer.folder().path().join(kind).join("0000000000000001.parquet");
    fs::remove_file(path("labels")).expect("a lost file that nobody can know of");
    assert_eq!(lost(writer.folder()), []);
    fs::remove_file(path("samples")).expect("a lost file");
    assert_eq!(lost(writer.folder()), [(1, CaseFile::Samples, "missing")]);
}

#[test]
fn a_resumed_run_forgets_cases_that_have_lost_files() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let mut writer = RunFolder::create(results.path(), new_run()).expect("a run");
    let path = writer.folder().path().to_owned();
    for index in 0..3 {
        write_case(&mut writer, index, 10);
        let values = vec![metric("latency.p50", index as f64)];
        writer.record_result(&result(index, values)).expect("a result");
    }
    drop(writer);
    let lines = |name: &str| -> Vec<String> {
        let text = fs::read_to_string(path.join(name)).expect(name);
        text.lines().map(str::to_owned).collect()
    };
    let (journal, values) = (lines("journal.jsonl"), lines("results.jsonl"));
    fs::remove_file(path.join("samples/0000000000000001.parquet")).expect("a lost file");

    let mut writer = RunFolder::open_to_resume(&path).expect("a resumed run");
    assert!(writer.is_recorded(&spec(1).id, 0), "nothing is forgotten unasked");
    let forgotten = writer.forget_lost().expect("a look at the files");
    assert_eq!(forgotten.iter().map(|lost| &lost.case_id).collect::<Vec<_>>(), [&spec(1).id]);
    assert_eq!(writer.forget_lost().expect("a second look"), []);
    let known: Vec<_> = (0..3).map(|index| writer.is_recorded(&spec(index).id, 0)).collect();
    assert_eq!(known, [true, false, true]);
    assert_eq!(writer.counts().finished, 2);
    assert_eq!(lines("journal.jsonl"), [&*journal[0], &*journal[2]], "the others are untouched");
    assert_eq!(lines("results.jsonl"), [&*values[0], &*values[2]], "old values of it are gone");
    assert!(!path.join("outputs/0000000000000001.parquet").exists(), "so is the rest of it");

    write_case(&mut writer, 1, 20);
    writer.record_result(&result(1, vec![metric("latency.p50", 7.0)])).expect("a result");
    writer.finish().expect("a finished run");
    let ids: Vec<_> = records(writer.folder()).into_iter().map(|record| record.case_id).collect();
    assert_eq!(ids, [spec(0).id, spec(2).id, spec(1).id]);
    assert_eq!(lost(writer.folder()), []);
}

/// A file that the operating system refuses to read may be complete, and must not be discarded.
#[cfg(unix)]
#[test]
fn a_file_that_may_be_whole_is_not_measured_again() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let mut writer = RunFolder::create(results.path(), new_run()).expect("a run");
    let path = writer.folder().path().to_owned();
    write_case(&mut writer, 0, 10);
    drop(writer);
    let file = path.join("samples/0000000000000000.parquet");
    let mut writer = RunFolder::open_to_resume(&path).expect("a resumed run");
    // A link to itself acts like another user's file. A folder with a link is not opened, so it is created
    // afterwards.
    fs::rename(&file, path.join("elsewhere")).expect("a moved file");
    std::os::unix::fs::symlink(&file, &file).expect("a link");
    assert_eq!(lost(writer.folder()), [(0, CaseFile::Samples, "refused")]);
    let error = writer.forget_lost().expect_err("a file that cannot be read");
    assert!(matches!(error, StoreError::Io { .. }), "{error:?}");
    assert!(writer.is_recorded(&spec(0).id, 0) && file.is_symlink());
}

/// The disk is full: the operating system refuses every write.
#[cfg(unix)]
#[test]
fn a_run_that_cannot_be_made_leaves_nothing_behind() {
    if let Ok(results) = std::env::var(CHILD) {
        let made = RunFolder::create(results.as_ref(), new_run());
        let error = made.map(drop).expect_err("a run on a full disk");
        assert!(matches!(error, StoreError::Io { .. }), "{error:?}");
        return;
    }
    let results = tempfile::tempdir().expect("a temporary folder");
    let child = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().expect("this executable"))
        .args(["--exact", "run_folder::a_run_that_cannot_be_made_leaves_nothing_behind"])
        .env(CHILD, results.path())
        .output()
        .expect("a child");
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
    let runs = fs::read_dir(results.path().join("runs")).expect("the folder of runs");
    assert_eq!(runs.count(), 0);
}

#[cfg(unix)]
#[test]
fn names_that_are_not_utf_8() {
    use std::os::unix::ffi::OsStringExt;
    let odd = |name: &[u8]| PathBuf::from(std::ffi::OsString::from_vec(name.to_vec()));
    let results = tempfile::tempdir().expect("a temporary folder");
    let run = host_store::NewRun { manifest_path: odd(b"caf\xe9.toml"), ..new_run() };
    let writer = RunFolder::create(results.path(), run).expect("a run");
    let folder = RunFolder::open(writer.folder().path()).expect("a run folder");
    assert_eq!(folder.header().manifest_path, PathBuf::from("caf\u{fffd}.toml"));

    let place = results.path().join(odd(b"r\xe9sultats"));
    let error = RunFolder::create(&place, new_run()).expect_err("a place that DuckDB cannot read");
    assert!(matches!(error, StoreError::NotUnicode { .. }), "{error:?}");
    assert!(!place.exists(), "nothing was made");
}

#[test]
fn a_folder_without_a_header_is_not_passed_over() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let folder = ResultsFolder::new(results.path());
    let make = |cases: u64| {
        let mut writer = RunFolder::create(results.path(), new_run()).expect("a run");
        (0..cases).for_each(|index| write_case(&mut writer, index, 1));
        fs::remove_file(writer.folder().path().join("run.json")).expect("a lost header");
        writer
    };
    let (empty, recorded) = (make(0), make(1));
    assert_eq!(folder.half_made().expect("a look"), [] as [PathBuf; 0], "it may be in the making");
    let [empty, recorded] = [empty, recorded].map(|writer| writer.folder().path().to_owned());
    assert_eq!(folder.half_made().expect("a look"), [&*empty]);
    let damaged = folder.list().expect("a list").remove(0).expect_err("a run without header");
    assert_eq!(damaged.path, recorded);
    assert!(matches!(damaged.error, StoreError::NotARun { .. }));
    let table = list_table(&[Err(damaged)]);
    let run_id = recorded.file_name().and_then(|name| name.to_str()).expect("a name");
    assert_eq!(table.rows[0][0], host_record::Cell::Text(run_id.into()));
    assert_eq!(table.rows[0][3], host_record::Cell::Text("damaged".into()));
    assert_eq!(table.rows[0].len(), table.columns.len());
}

#[test]
fn a_run_without_its_manifest_is_damaged_and_one_that_is_discarded_is_gone() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let writer = RunFolder::create(results.path(), new_run()).expect("a run");
    let path = writer.folder().path().to_owned();
    fs::remove_file(path.join("manifest.toml")).expect("a lost manifest");
    let error = writer.folder().manifest_text().expect_err("no manifest");
    assert!(matches!(error, StoreError::Malformed { .. }), "{error:?}");
    writer.discard().expect("an empty place");
    assert!(!path.exists());
}

#[test]
fn a_case_of_several_processes_is_one_case_once_all_have_ended() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let mut writer = RunFolder::create(results.path(), new_run()).expect("a run");
    write_plan(&writer, 2, 0);
    let of_process = |index, process| {
        let mut case = spec(index);
        case.measure.processes = 2;
        case.process = process;
        case
    };
    let measure = |writer: &mut host_store::RunWriter, case: &host_record::CaseSpec, took: u64| {
        writer.case_started(case).expect("a started case");
        writer.samples(&block(SamplePhase::Measured, 0, &[took, took])).expect("samples");
        let outcome = Outcome::Finished(Box::new(report()));
        writer.case_finished(&record(case, outcome)).expect("a finished case");
    };
    // The run is interleaved, and interrupted before the last process of the first case.
    measure(&mut writer, &of_process(0, 0), 10);
    measure(&mut writer, &of_process(1, 0), 20);
    measure(&mut writer, &of_process(1, 1), 21);
    writer.case_started(&of_process(0, 1)).expect("a started case");
    assert_eq!(writer.counts(), Counts { finished: 1, failed: 0, gaps: 0 });
    let path = writer.folder().path().to_owned();
    drop(writer);

    let mut writer = RunFolder::open_to_resume(&path).expect("a run");
    let known = [(0, 0), (0, 1), (1, 0), (1, 1)]
        .map(|(index, process)| writer.is_recorded(&spec(index).id, process));
    assert_eq!(known, [true, false, true, true]);
    let only = records(writer.folder());
    assert_eq!(only.len(), 1, "a case is shown when all its processes have ended");
    assert_eq!((only[0].case_id.clone(), only[0].further.len()), (spec(1).id, 1));

    measure(&mut writer, &of_process(0, 1), 11);
    writer.finish().expect("a finished run");
    let folder = writer.folder();
    let records = records(folder);
    let ids: Vec<_> = records.iter().map(|record| record.case_id.as_str()).collect();
    assert_eq!(ids, [&*spec(1).id, &*spec(0).id]);
    let columns =
        folder.columns(&records[1], &[column::LATENCY, column::PROCESS]).expect("columns");
    assert_eq!(*column(&columns, column::LATENCY), ColumnData::U64(vec![10, 10, 11, 11]));
    assert_eq!(*column(&columns, column::PROCESS), ColumnData::U64(vec![0, 0, 1, 1]));

    let views = host_store::RunViews::open(folder).expect("views");
    let rows = views
        .query(
            "SELECT case_id, process, count(*) FROM raw_benchmark_data GROUP BY ALL ORDER BY ALL",
        )
        .expect("an answer")
        .rows;
    let expected = [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(index, process)| {
        vec![
            host_record::Cell::Text(spec(index).id),
            host_record::Cell::Integer(process),
            host_record::Cell::Integer(2),
        ]
    });
    assert_eq!(rows, expected);
    let cases = views.query("SELECT case_id, queries, processes FROM cases").expect("an answer");
    assert_eq!(cases.rows[0][1..], [4, 2].map(host_record::Cell::Integer));
}
