//! Run folders: what is written is read, and a crash costs the case in flight at most.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use crate::common::*;
use host_record::{
    CaseColumns, CaseRecord, ColumnData, Failure, Outcome, OutputBlock, Phase, Recorder,
    SampleBlock, SamplePhase, column,
};
use host_store::{
    Counts, ResultRecord, ResultsFolder, RunFolder, RunState, StoreError, list_table,
};
use proptest::prelude::*;

fn records(folder: &RunFolder) -> Vec<CaseRecord> {
    folder.records().expect("a journal").collect::<Result<_, _>>().expect("whole records")
}

fn column<'a>(columns: &'a CaseColumns, name: &str) -> &'a ColumnData {
    &columns.columns.iter().find(|column| column.name == name).expect(name).data
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
    assert_eq!(records, [record(&spec(0), Outcome::Finished(Box::new(expected)))]);

    let columns = folder.columns(&records[0], column::ALL).expect("columns");
    assert_eq!(columns.case_id, spec(0).id);
    assert_eq!(columns.attributes["batch"], "1");
    assert_eq!(columns.attributes["scenario"], "single-stream");
    assert!(!columns.attributes.contains_key("sequence-length"));
    let names: Vec<_> = columns.columns.iter().map(|column| column.name.as_str()).collect();
    // The report has no time for preparing, so there is no such column.
    let have: Vec<_> =
        column::ALL.iter().copied().filter(|name| *name != column::PREPARE_TIME).collect();
    assert_eq!(names, have);
    assert_eq!(*column(&columns, column::LATENCY), ColumnData::U64(latencies(0, 2500)));
    assert_eq!(*column(&columns, column::ITEMS), ColumnData::U64(vec![8; 2500]));
    assert_eq!(*column(&columns, column::LABEL), ColumnData::S64(vec![3, -1, 7]));
    let output = columns.columns.iter().find(|column| column.name == column::OUTPUT);
    let output = output.expect("outputs");
    assert_eq!(output.width, 3);
    let infinity = f32::INFINITY;
    let values = vec![0.0, -0.5, infinity, 1.0, -0.5, infinity, 2.0, -0.5, infinity];
    assert_eq!(output.data, ColumnData::F32(values));
    assert_eq!(*column(&columns, column::OPEN_TIME), ColumnData::U64(vec![1]));
    assert_eq!(*column(&columns, column::PEAK_MEMORY), ColumnData::U64(vec![50 << 20]));
}

#[test]
fn failures_and_gaps_are_kept_with_their_reasons() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let mut writer = RunFolder::create(results.path(), new_run()).expect("a run");
    let failure = Failure::Signal { signal: 11, name: "SIGSEGV".into(), phase: Phase::Measure };
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

fn sample_block() -> impl Strategy<Value = SampleBlock> {
    let edges = prop_oneof![
        prop::collection::vec(any::<u64>(), 1..40),
        prop::collection::vec(0..1000_u64, 1..40),
    ];
    let phase = prop_oneof![Just(SamplePhase::WarmUp), Just(SamplePhase::Measured)];
    (phase, any::<u64>(), edges).prop_map(|(phase, items_per_query, edges_ns)| SampleBlock {
        phase,
        items_per_query,
        edges_ns,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_blocks_come_back(blocks in prop::collection::vec(sample_block(), 0..12)) {
        let results = tempfile::tempdir().expect("a temporary folder");
        let mut writer = RunFolder::create(results.path(), new_run()).expect("a run");
        writer.case_started(&spec(0)).expect("a started case");
        for block in &blocks {
            writer.samples(block).expect("samples");
        }
        let record = record(&spec(0), Outcome::Finished(Box::new(report())));
        writer.case_finished(&record).expect("a finished case");

        let names = [column::START, column::LATENCY, column::ITEMS];
        let columns = writer.folder().columns(&record, &names).expect("columns");
        let (mut start, mut latency, mut items) = (Vec::new(), Vec::new(), Vec::new());
        for block in blocks.iter().filter(|block| block.phase == SamplePhase::Measured) {
            for (from, took) in block.queries() {
                start.push(from);
                latency.push(took);
                items.push(block.items_per_query);
            }
        }
        if blocks.iter().all(SampleBlock::is_empty) {
            prop_assert!(columns.columns.is_empty());
        } else {
            prop_assert_eq!(column(&columns, column::START), &ColumnData::U64(start));
            prop_assert_eq!(column(&columns, column::LATENCY), &ColumnData::U64(latency));
            prop_assert_eq!(column(&columns, column::ITEMS), &ColumnData::U64(items));
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
        let values = vec![1.0; 2];
        let block = OutputBlock { name: "y".into(), first_example, width: 2, values };
        writer.outputs(&block).expect("outputs");
    }
    let uneven = OutputBlock { name: "y".into(), first_example: 3, width: 2, values: vec![1.0; 3] };
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
    // What a crash between the files and the journal, or in the middle of either, leaves behind.
    for name in ["samples/0000000000000001.parquet", "samples/0000000000000002.parquet.partial"] {
        fs::write(path.join(name), "half").expect("a leftover");
    }
    let mut journal = fs::OpenOptions::new().append(true).open(path.join("journal.jsonl"));
    journal.as_mut().expect("the journal").write_all(b"{\"record-ver").expect("a torn line");

    let found = folder.find("latest").expect("the run");
    let mut writer = RunFolder::open_to_resume(&found).expect("a resumed run");
    assert_eq!(writer.torn().expect("a torn line").line, 2);
    assert!(writer.is_recorded(&spec(0).id) && !writer.is_recorded(&spec(1).id));
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
    let table = list_table(&[entry]);
    assert_eq!(table.rows[0][3], host_record::Cell::Text("finished".into()));
    assert_eq!(table.rows[0][4], host_record::Cell::Integer(2));
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
    assert!(matches!(error, StoreError::NewerRecord { found: 2, known: 1, .. }), "{error}");
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

/// A process that records cases is killed at an arbitrary moment. Every case that it had said was
/// recorded must be there, whole.
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
            // The last line may be cut short; a whole one ends with sixteen digits.
            let id = line.strip_prefix("recorded ").filter(|id| id.len() == 16);
            promised.extend(id.map(str::to_owned));
        }

        let path = ResultsFolder::new(results.path()).find("latest").expect("the run");
        let mut writer = RunFolder::open_to_resume(&path).expect("a resumed run");
        for id in &promised {
            assert!(writer.is_recorded(id), "case {id} was promised");
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
