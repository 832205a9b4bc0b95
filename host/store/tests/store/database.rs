//! The database file: imports, queries, and damage.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::*;
use host_record::{Cell, Conditions, Outcome, Recorder, Table, Views};
use host_store::{
    Database, ExportFormat, Flaw, Past, RecommendationRecord, ResultRecord, ResultsFolder,
    RunFolder, RunViews, RunWriter, StoreError, Synced, export,
};

const NOW: Duration = Duration::ZERO;

/// Returns a run with four cases: two finished, one gap, and one whose metric plugin failed.
fn write_run(results: &Path) -> RunWriter {
    let mut writer = RunFolder::create(results, new_run()).expect("a run");
    write_plan(&writer, 3, 1);
    write_case(&mut writer, 0, 1500);
    write_case(&mut writer, 1, 2500);
    let failure = host_record::Failure::ExitCode { code: 3, phase: host_record::Phase::Load };
    writer.case_started(&spec(2)).expect("a started case");
    let failed = record(&spec(2), Outcome::Failed { failure });
    writer.case_finished(&failed).expect("a failed case");
    writer.case_finished(&gap_record(3)).expect("a gap");
    let values = vec![metric("latency.p50", 1500.0), metric("latency.p99", 2500.0)];
    writer.record_result(&result(0, values)).expect("a result");
    let mut missing = metric("latency.p50", 0.0);
    (missing.value, missing.interval) = (Err(gap()), None);
    writer.record_result(&result(1, vec![missing])).expect("a result");
    let trap =
        ResultRecord::failed(spec(1).id, plugin("memory"), serde_json::Value::Null, "a trap");
    writer.record_result(&trap).expect("a result");
    let advice = host_record::Recommendation {
        title: "Use batch 1".into(),
        explanation: "It's the fastest.".into(),
        cases: vec![spec(0).id],
        attributes: Default::default(),
    };
    let prediction = host_record::Prediction {
        coordinates: [("batch".to_owned(), "2".to_owned())].into(),
        metric: "latency.p50".into(),
        value: 5.0,
        interval: (4.0, 7.0),
        confidence: 0.9,
        unit: "ns".into(),
        cases: vec![spec(0).id],
        attributes: Default::default(),
    };
    writer
        .record_recommendations(&RecommendationRecord::new(
            plugin("hardware"),
            serde_json::json!({}),
            vec![advice],
            vec![prediction],
        ))
        .expect("advice");
    writer.finish().expect("a finished run");
    writer
}

fn integer(table: &Table) -> i64 {
    match table.rows.as_slice() {
        [row] => match row.as_slice() {
            [Cell::Integer(value)] => *value,
            other => panic!("not a whole number: {other:?}"),
        },
        other => panic!("not one row: {other:?}"),
    }
}

fn query(results: &ResultsFolder, sql: &str) -> Table {
    Database::query(results, sql, NOW).expect(sql).table
}

#[test]
fn the_database_says_what_the_folders_say() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    // Characters with a meaning in patterns and in SQL.
    let path = folder.path().join("it's [a] *folder, with");
    let results = ResultsFolder::new(&path);
    let first = write_run(&path);
    let second = write_run(&path);
    let mut database = Database::open(&results, NOW).expect("a database");
    let report = database.sync_all().expect("a sync");
    assert_eq!(report.runs.len(), 2);
    for (_, synced) in &report.runs {
        let imported = Synced::Imported { cases: 4, results: 4 };
        assert_eq!(*synced.as_ref().expect("an import"), imported);
    }
    assert_eq!(database.sync(first.folder()).expect("a sync"), Synced::Unchanged);
    database.close().expect("a closed database");

    // Counted in the files, without any code of the importer.
    let mut journal_lines = 0;
    let mut values = 0;
    for run in [&first, &second] {
        let read = |name: &str| fs::read_to_string(run.folder().path().join(name)).expect(name);
        journal_lines += read("journal.jsonl").lines().count() as i64;
        values += read("results.jsonl").matches("\"metric\":").count() as i64;
    }
    assert_eq!(integer(&query(&results, "SELECT count(*) FROM benchmark_runs")), 2);
    assert_eq!(integer(&query(&results, "SELECT count(*) FROM benchmark_cases")), journal_lines);
    let sql = "SELECT count(*) FROM benchmark_results WHERE unit IS NOT NULL";
    assert_eq!(integer(&query(&results, sql)), values);
    let sql = "SELECT count(*) FROM raw_benchmark_data";
    assert_eq!(integer(&query(&results, sql)), 2 * (1500 + 3 + 2500 + 3));
    let sum: u64 = latencies(0, 1500).iter().chain(&latencies(1, 2500)).sum();
    let sql = "SELECT sum(latency_ns) FROM raw_benchmark_data WHERE phase = 'measured'";
    assert_eq!(integer(&query(&results, sql)), 2 * sum as i64);
    let sql = "SELECT sum(queries)::BIGINT FROM benchmark_cases";
    assert_eq!(integer(&query(&results, sql)), 2 * 4000);
    // Runs and cases are distinguished by the names of the files.
    let sql = format!(
        "SELECT count(*) FROM raw_benchmark_data AS raw JOIN benchmark_cases AS c \
         USING (run_id, case_id) WHERE run_id = '{}' AND c.batch = 2",
        second.folder().run_id()
    );
    assert_eq!(integer(&query(&results, &sql)), 2503);
    let sql = "SELECT value FROM hardware_info WHERE name = 'processor.name' LIMIT 1";
    assert_eq!(query(&results, sql).rows, [[Cell::Text("Test Processor".into())]]);
    let sql = "SELECT DISTINCT started_at FROM benchmark_cases";
    assert_eq!(query(&results, sql).rows, [[Cell::Text("2026-07-28T09:15:03.123Z".into())]]);
}

#[test]
fn a_place_that_duckdb_cannot_name_is_refused_with_words() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let results = ResultsFolder::new(folder.path().join("why?"));
    let error = Database::open(&results, NOW).err().expect("a question mark");
    assert!(error.to_string().contains("question mark"), "{error}");
}

#[test]
fn a_changed_run_is_imported_anew_and_an_import_can_be_repeated() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let results = ResultsFolder::new(folder.path());
    let mut writer = RunFolder::create(folder.path(), new_run()).expect("a run");
    let mut database = Database::open(&results, NOW).expect("a database");
    let nothing = Synced::Imported { cases: 0, results: 0 };
    assert_eq!(database.sync(writer.folder()).expect("a sync"), nothing);
    database.close().expect("a closed database");
    // Without samples the view is empty and does not fail.
    assert_eq!(integer(&query(&results, "SELECT count(*) FROM raw_benchmark_data")), 0);

    for index in 0..3 {
        write_case(&mut writer, index, 100);
        let mut database = Database::open(&results, NOW).expect("a database");
        let imported = Synced::Imported { cases: index + 1, results: 0 };
        assert_eq!(database.sync(writer.folder()).expect("a sync"), imported);
        assert_eq!(database.sync(writer.folder()).expect("a sync"), Synced::Unchanged);
    }
    assert_eq!(integer(&query(&results, "SELECT count(*) FROM benchmark_runs")), 1);
    assert_eq!(integer(&query(&results, "SELECT count(*) FROM benchmark_cases")), 3);
    assert_eq!(integer(&query(&results, "SELECT count(*) FROM raw_benchmark_data")), 309);

    // Another client, with the results folder as its working folder, sees the samples too.
    let connection = duckdb::Connection::open(results.database_path()).expect("a client");
    let place = folder.path().to_str().expect("a path");
    connection.execute_batch(&format!("SET file_search_path = '{place}'")).expect("a setting");
    let rows: i64 = connection
        .query_row("SELECT count(*) FROM raw_benchmark_data", [], |row| row.get(0))
        .expect("the view as it is stored");
    assert_eq!(rows, 309);
}

#[test]
fn a_run_that_cannot_be_read_hinders_no_other() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let results = ResultsFolder::new(folder.path());
    let bad = write_run(folder.path());
    let good = write_run(folder.path());
    let journal = bad.folder().path().join("journal.jsonl");
    let text = fs::read_to_string(&journal).expect("the journal");
    fs::write(&journal, text.replacen("finished", "finshed", 1)).expect("a damaged journal");
    let mut database = Database::open(&results, NOW).expect("a database");
    let report = database.sync_all().expect("a sync");
    for (path, synced) in report.runs {
        if path == good.folder().path().canonicalize().expect("a path") {
            assert!(synced.is_ok());
        } else {
            let error = synced.expect_err("a damaged journal").to_string();
            assert!(error.contains("journal.jsonl`, line 1: "), "{error}");
        }
    }
    database.close().expect("a closed database");
    assert_eq!(integer(&query(&results, "SELECT count(*) FROM benchmark_runs")), 1);
    assert_eq!(integer(&query(&results, "SELECT count(*) FROM benchmark_cases")), 4);
}

#[test]
fn a_query_reads_and_does_nothing_else() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let results = ResultsFolder::new(folder.path());
    let error = Database::query(&results, "SELECT 1", NOW).expect_err("no database");
    assert!(matches!(error, StoreError::NoDatabase { .. }));
    let writer = write_run(folder.path());
    let mut database = Database::open(&results, NOW).expect("a database");
    database.sync_all().expect("a sync");
    database.close().expect("a closed database");

    for sql in [
        "SELECT count(*) FROM benchmark_runs; -- with a comment",
        "FROM benchmark_cases",
        "WITH a AS (SELECT 1 AS x) SELECT x FROM a",
        "DESCRIBE benchmark_cases",
        "SHOW TABLES",
        "SUMMARIZE benchmark_results",
        "VALUES (1), (2)",
        "PIVOT benchmark_results ON metric IN ('latency.p50') USING first(value) GROUP BY case_id",
    ] {
        assert!(!query(&results, sql).rows.is_empty(), "{sql}");
    }
    let sample = writer.folder().path().join("samples/0000000000000000.parquet");
    let before = fs::read(&sample).expect("samples");
    let target = sample.canonicalize().expect("a path");
    let target = target.to_str().expect("a path");
    for sql in [
        "DELETE FROM benchmark_runs".to_owned(),
        "DROP TABLE benchmark_runs".into(),
        "CREATE TABLE t (x INTEGER)".into(),
        format!("COPY (SELECT 1) TO '{target}'"),
        format!("EXPLAIN ANALYZE COPY (SELECT 1) TO '{target}'"),
        "ATTACH '/tmp/other.duckdb'".into(),
        "SELECT * FROM read_text('/etc/passwd')".into(),
        "SELECT * FROM read_csv('/etc/passwd')".into(),
        "SELECT * FROM glob('/etc/*')".into(),
        "FROM '/etc/passwd'".into(),
        "INSTALL httpfs".into(),
        "LOAD httpfs".into(),
        "SET enable_external_access = true".into(),
        "SELECT 1; SELECT 2".into(),
        "SELECT 1; DROP TABLE benchmark_runs".into(),
        "PRAGMA database_list".into(),
        String::new(),
    ] {
        let error = Database::query(&results, &sql, NOW).expect_err(&sql);
        assert!(matches!(error, StoreError::Query { .. }), "{sql}: {error:?}");
    }
    assert_eq!(fs::read(&sample).expect("samples"), before);
    let error = Database::query(&results, "SELECT 1 FRM benchmark_runs", NOW).expect_err("a typo");
    assert!(error.to_string().contains("benchmark_runs"), "{error}");
    assert_eq!(integer(&query(&results, "SELECT count(*) FROM benchmark_runs")), 1);
}

#[test]
fn every_type_has_a_cell() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let results = ResultsFolder::new(folder.path());
    Database::open(&results, NOW).expect("a database").close().expect("a closed database");
    let table = query(
        &results,
        "SELECT NULL, true, 1::TINYINT, 2::UBIGINT, 18446744073709551615::UBIGINT AS big, \
         3::HUGEINT, 1.5::FLOAT, 2.5, 'text', DATE '2026-07-28' AS d, \
         TIMESTAMP '2026-07-28 09:15:03.5' AS t, TIME '09:15:03' AS c, [1, 2] AS l, \
         {'a': 1, 'b': [true]} AS s, MAP {'k': 1.5::DOUBLE} AS m, 'x'::ENUM('x', 'y') AS e, \
         INTERVAL 1 DAY AS i, 'ab'::BLOB AS blob",
    );
    let text = |text: &str| Cell::Text(text.into());
    assert_eq!(
        table.rows[0],
        [
            Cell::Null,
            Cell::Boolean(true),
            Cell::Integer(1),
            Cell::Integer(2),
            Cell::Real(18_446_744_073_709_551_615.0),
            Cell::Integer(3),
            Cell::Real(1.5),
            Cell::Real(2.5),
            text("text"),
            text("2026-07-28"),
            text("2026-07-28T09:15:03.5Z"),
            text("09:15:03"),
            text("[1,2]"),
            text(r#"{"a":1,"b":[true]}"#),
            text(r#"{"k":1.5}"#),
            text("x"),
            text("0 months 1 days 0 s"),
            text("6162"),
        ]
    );
}

#[test]
fn nested_values_are_distinguished_from_text() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let results = ResultsFolder::new(folder.path());
    Database::open(&results, NOW).expect("a database").close().expect("a closed database");
    let sql = "SELECT [1] AS l, '[1]' AS text, {'a': [NULL]} AS s, MAP {'k': 1} AS m, 1 AS one, \
               [1, 2]::INTEGER[2] AS array, CASE WHEN x > 1 THEN [x] END AS late \
               FROM (VALUES (1), (2)) AS v(x)";
    let answer = Database::query(&results, sql, NOW).expect("an answer");
    assert_eq!(answer.nested.into_iter().collect::<Vec<_>>(), [0, 2, 3, 5, 6]);
}

#[test]
fn a_run_whose_folder_is_gone_is_dropped() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let results = ResultsFolder::new(folder.path());
    let runs: Vec<_> = (0..3)
        .map(|_| {
            let writer = write_run(folder.path());
            (writer.folder().run_id().to_owned(), writer.folder().path().to_owned())
        })
        .collect();
    let mut database = Database::open(&results, NOW).expect("a database");
    assert_eq!(database.sync_all().expect("a sync").dropped, [] as [String; 0]);
    fs::remove_dir_all(&runs[0].1).expect("a removed run");
    fs::write(runs[1].1.join("run.json"), "{").expect("a damaged run");
    let renamed = folder.path().join("runs/under-another-name");
    fs::rename(&runs[2].1, renamed).expect("a renamed run");
    fs::create_dir(folder.path().join("runs/half-made")).expect("a folder that is no run");

    let report = database.sync_all().expect("a sync");
    let gone = [runs[0].0.clone(), runs[2].0.clone()];
    assert_eq!(report.dropped, gone, "what is damaged is not gone");
    let refused = report.runs.iter().filter_map(|(_, synced)| synced.as_ref().err());
    assert_eq!(refused.filter(|error| matches!(error, StoreError::OtherRun { .. })).count(), 1);
    assert_eq!(report.half_made.len(), 1);
    assert_eq!(database.sync_all().expect("a second sync").dropped, [] as [String; 0]);
    database.close().expect("a closed database");
    for table in ["benchmark_runs", "benchmark_cases", "benchmark_results", "hardware_info"] {
        let sql = format!("SELECT count(DISTINCT run_id) FROM {table}");
        assert_eq!(integer(&query(&results, &sql)), 1, "{table}");
    }
}

#[test]
fn a_copy_of_a_run_does_not_replace_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let results = ResultsFolder::new(folder.path());
    let run = write_run(folder.path()).folder().path().to_owned();
    let copy = folder.path().join("runs/zz-copy");
    fs::create_dir(&copy).expect("a folder");
    let header = fs::read_to_string(run.join("run.json")).expect("a header");
    let id = results.find("latest").expect("the run");
    let id = id.file_name().expect("a name").to_string_lossy().into_owned();
    for claimed in [&*id, "../../../etc/x", ""] {
        let header = header.replace(&id, claimed).replace("A run that a test made.", "changed");
        fs::write(copy.join("run.json"), header).expect("a header");
        let mut database = Database::open(&results, NOW).expect("a database");
        let report = database.sync_all().expect("a sync");
        assert!(matches!(&report.runs[1].1, Err(StoreError::OtherRun { .. })), "{report:?}");
        database.close().expect("a closed database");
        let changed = "SELECT count(*) FROM benchmark_runs WHERE description = 'changed'";
        assert_eq!(integer(&query(&results, changed)), 0);
        let list = results.list().expect("a list");
        let Err(damaged) = &list[1] else { panic!("{list:?}") };
        assert_eq!(damaged.run_id, "zz-copy");
        assert!(damaged.error.to_string().contains(&format!("{claimed:?}")), "{}", damaged.error);
    }
}

#[test]
fn lost_samples_are_said_to_be_lost() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let results = ResultsFolder::new(folder.path());
    let writer = write_run(folder.path());
    let run = writer.folder();
    let mut database = Database::open(&results, NOW).expect("a database");
    assert!(database.sync_all().expect("a sync").flaws.is_empty());
    let file = run.path().join("samples/0000000000000000.parquet");
    fs::remove_file(&file).expect("a lost file");

    for synced in [Synced::Imported { cases: 4, results: 4 }, Synced::Unchanged] {
        let report = database.sync_all().expect("a sync");
        assert_eq!(*report.runs[0].1.as_ref().expect("a run"), synced);
        let [flaw] = &report.flaws[..] else { panic!("not one flaw: {:?}", report.flaws) };
        assert!(matches!(flaw, Flaw::LostFile(_)) && flaw.to_string().contains("samples/00000"));
    }
    database.close().expect("a closed database");
    let sql = "SELECT case_id FROM benchmark_warnings WHERE kind = 'file-lost'";
    assert_eq!(query(&results, sql).rows, [[Cell::Text(spec(0).id)]]);
    let sql = "SELECT count(*) FROM benchmark_cases WHERE outcome = 'finished' AND queries IS NULL";
    assert_eq!(integer(&query(&results, sql)), 1);
    assert_eq!(results.lost_files().expect("a look").len(), 1);

    // A damaged Parquet file must not affect the others.
    for bytes in [None, Some("no Parquet")] {
        if let Some(bytes) = bytes {
            fs::write(&file, bytes).expect("a damaged file");
        }
        let to = |name: &str| folder.path().join(name);
        let views = RunViews::open(run).expect("views");
        let warnings = read(&views, "warnings");
        let of_kind = warnings.rows.iter().filter(|row| row[2] == Cell::Text("file-lost".into()));
        assert_eq!(of_kind.count(), 1);
        assert!(!read(&views, "latency_quantiles").rows.is_empty(), "those of the other case");
        let sql = "SELECT count(DISTINCT case_id) FROM raw_benchmark_data";
        assert_eq!(integer(&views.query(sql).expect("samples")), 1);
        for view in ["samples", "latency_quantiles", "latency_histogram"] {
            let error = export(run, view, ExportFormat::Csv, &to("lost.csv")).expect_err(view);
            let StoreError::LostFiles { files } = &error else { panic!("{view}: {error:?}") };
            assert_eq!(files[0].case_id, spec(0).id);
            assert!(!to("lost.csv").exists());
        }
        for view in ["outputs", "results", "cases"] {
            export(run, view, ExportFormat::Csv, &to("kept.csv")).expect(view);
        }
        let mut database = Database::open(&results, NOW).expect("a database");
        assert!(database.sync_all().expect("a sync").runs[0].1.is_ok());
        database.close().expect("a closed database");
        assert_eq!(integer(&query(&results, "SELECT count(*) FROM benchmark_cases")), 4);
    }
    Database::rebuild(&results, NOW).expect("a rebuilt database");
    assert_eq!(integer(&query(&results, "SELECT count(*) FROM benchmark_cases")), 4);
    let error = Database::query(&results, "FROM raw_benchmark_data", NOW).expect_err("damaged");
    assert!(error.to_string().contains("samples/0000000000000000.parquet"), "{error}");
}

/// A case that is measured again may leave the lengths of all files unchanged.
#[test]
fn a_case_that_was_measured_again_is_imported_again() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let results = ResultsFolder::new(folder.path());
    let writer = write_run(folder.path());
    let mut database = Database::open(&results, NOW).expect("a database");
    database.sync_all().expect("a sync");
    let journal = writer.folder().path().join("journal.jsonl");
    let text = fs::read_to_string(&journal).expect("the journal");
    let later = text.replacen("09:15:03.123Z", "10:15:03.123Z", 1);
    assert_eq!((text.len(), text != later), (later.len(), true));
    fs::write(&journal, later).expect("another journal");
    let imported = Synced::Imported { cases: 4, results: 4 };
    assert_eq!(database.sync(writer.folder()).expect("a sync"), imported);
}

const CHILD: &str = "TARE_TEST_STORE_CHILD";

/// Another process holds the database: nothing waits for ever, nothing is lost, and a later sync
/// imports the run.
#[test]
fn busy() {
    if let Ok(results) = std::env::var(CHILD) {
        let _database = Database::open(&ResultsFolder::new(results), NOW).expect("a database");
        let mut output = std::io::stdout().lock();
        writeln!(output, "holding").expect("a line");
        output.flush().expect("a line");
        let _ = std::io::stdin().read(&mut [0]);
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let results = ResultsFolder::new(folder.path());
    let mut child = Command::new(std::env::current_exe().expect("this executable"))
        .args(["--exact", "database::busy", "--nocapture"])
        .env(CHILD, folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a child");
    // It is kept until the child has ended, because the child fails if it cannot print.
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    assert!(
        lines.by_ref().map_while(Result::ok).any(|line| line.contains("holding")),
        "the child holds it"
    );

    let writer = write_run(folder.path());
    for error in [
        Database::open(&results, Duration::from_millis(120)).err().expect("a busy database"),
        Database::query(&results, "SELECT 1", NOW).expect_err("a busy database"),
        Database::rebuild(&results, NOW).expect_err("a busy database"),
    ] {
        assert!(matches!(error, StoreError::Busy { .. }), "{error:?}");
        assert!(error.hint().expect("a hint").contains("host results sync"));
    }
    drop(child.stdin.take());
    assert!(child.wait().expect("an ended child").success());
    drop(lines);

    let mut database = Database::open(&results, NOW).expect("a database");
    let imported = Synced::Imported { cases: 4, results: 4 };
    assert_eq!(database.sync(writer.folder()).expect("a sync"), imported);
}

/// A process is killed with the database open, after an import that is not yet in the main file. Even a reader finds
/// the complete import.
#[test]
fn killed_while_the_database_is_open() {
    if let Ok(results) = std::env::var(CHILD) {
        let results = ResultsFolder::new(results);
        let mut database = Database::open(&results, NOW).expect("a database");
        database.sync_all().expect("a sync");
        let mut output = std::io::stdout().lock();
        writeln!(output, "imported").expect("a line");
        output.flush().expect("a line");
        loop {
            std::thread::park();
        }
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let results = ResultsFolder::new(folder.path());
    write_run(folder.path());
    Database::open(&results, NOW).expect("a database").close().expect("a closed database");
    let mut child = Command::new(std::env::current_exe().expect("this executable"))
        .args(["--exact", "database::killed_while_the_database_is_open", "--nocapture"])
        .env(CHILD, folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a child");
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let imported = lines.by_ref().map_while(Result::ok).any(|line| line.contains("imported"));
    assert!(imported, "the child imports");
    child.kill().expect("a killed child");
    child.wait().expect("a dead child");

    let log = folder.path().join("tare.duckdb.wal");
    assert!(log.exists(), "the import is in the log only");
    assert_eq!(integer(&query(&results, "SELECT count(*) FROM benchmark_cases")), 4);
    let mut database = Database::open(&results, NOW).expect("a database");
    let report = database.sync_all().expect("a sync");
    assert!(matches!(report.runs[0].1, Ok(Synced::Unchanged)));
}

#[test]
fn a_damaged_database_is_rebuilt_from_the_folders() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let results = ResultsFolder::new(folder.path());
    write_run(folder.path());
    let mut database = Database::open(&results, NOW).expect("a database");
    database.sync_all().expect("a sync");
    database.close().expect("a closed database");
    let whole = fs::read(results.database_path()).expect("the file");

    let mut scribbled = whole.clone();
    scribbled[4096..12_288].fill(0x5a);
    for (what, bytes) in [
        ("not a database", b"this is no database at all".to_vec()),
        ("cut", whole[..whole.len() / 2].to_vec()),
        ("scribbled over", [&whole[..4096], &vec![0x5a; whole.len() - 4096]].concat()),
        ("partly scribbled over", scribbled),
    ] {
        fs::write(results.database_path(), bytes).expect("a damaged file");
        fs::write(results.database_path().with_extension("duckdb.wal"), "stale").expect("a log");
        let opened = Database::open(&results, NOW).err();
        let asked = Database::query(&results, "FROM benchmark_cases", NOW).err();
        for error in [opened, asked] {
            let error = error.unwrap_or_else(|| panic!("{what}: it was taken for whole"));
            assert!(matches!(error, StoreError::Unreadable { .. }), "{what}: {error:?}");
            assert!(error.hint().expect("a hint").contains("--rebuild"));
        }
        let report = Database::rebuild(&results, NOW).expect("a rebuilt database");
        assert!(report.runs.iter().all(|(_, synced)| synced.is_ok()));
        assert_eq!(integer(&query(&results, "SELECT count(*) FROM benchmark_cases")), 4);
        assert_eq!(integer(&query(&results, "SELECT count(*) FROM raw_benchmark_data")), 4006);
    }
    let left: Vec<_> = fs::read_dir(folder.path())
        .expect("the folder")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
        .filter(|name| name != "runs")
        .collect();
    assert_eq!(left, ["tare.duckdb"]);
}

fn read(views: &RunViews, name: &str) -> Table {
    views.read(name).expect(name)
}

#[test]
fn views_show_the_run() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let writer = write_run(folder.path());
    let views = RunViews::open(writer.folder()).expect("views");
    let past = Past {
        case_id: spec(0).id,
        metric: "latency.p50".into(),
        unit: "ns".into(),
        run_id: "an-earlier-run".into(),
        started_at: "2026-01-01T00:00:00.000Z".into(),
        git_commit: None,
        value: 5.0,
        interval: Some((4.0, 6.0)),
        change: None,
    };
    views.set_history(&[past]).expect("a row");
    for name in views.names() {
        let table = read(&views, &name);
        assert!(table.rows.iter().all(|row| row.len() == table.columns.len()), "{name}");
        assert!(!table.rows.is_empty(), "{name}");
        // The reference page names every column, with separate tables for axes and quantities.
        let page = include_str!("../../../../docs/reference/views.md");
        let line = page.lines().find(|line| line.starts_with(&format!("| `{name}`")));
        let line = line.unwrap_or_else(|| panic!("{name} is not in the reference"));
        let declared = host_store::reference();
        for column in &table.columns {
            let cell = format!("`{column}`");
            let is_there = line.contains(&cell) || name == "cases" && declared.contains(&cell);
            assert!(is_there, "{name}.{column} is not in the reference");
        }
    }
    let page = include_str!("../../../../docs/reference/views.md");
    let declared = host_store::reference();
    assert!(page.contains(&declared), "put this into docs/reference/views.md:\n{declared}");
    let error = views.read("nonesuch").expect_err("no such view");
    assert!(error.contains("latency_quantiles"), "{error}");
    // Every query of the first process is in one part of its case's time.
    let sql = "SELECT count(*) FROM (SELECT case_id, phase, sum(queries) AS parts FROM timeline GROUP BY ALL) \
               FULL JOIN (SELECT case_id, phase, count(*) AS queries FROM raw_benchmark_data \
               WHERE process = 0 AND phase <> 'search' GROUP BY ALL) USING (case_id, phase) \
               WHERE parts IS DISTINCT FROM queries \
               AND case_id IN (SELECT case_id FROM cases WHERE outcome = 'finished')";
    assert_eq!(integer(&views.query(sql).expect("the timeline")), 0);
    let sql = "SELECT count(*) FROM timeline WHERE least_ns > median_ns OR median_ns > most_ns OR start_ns >= end_ns \
               OR (phase = 'warm-up') <> (start_ns < 0)";
    assert_eq!(integer(&views.query(sql).expect("the timeline")), 0);

    let run = read(&views, "run");
    let at = |table: &Table, row: usize, column: &str| {
        let index = table.columns.iter().position(|name| name == column).expect(column);
        table.rows[row][index].clone()
    };
    let started = Cell::Text(writer.folder().header().started_at.clone());
    assert_eq!(at(&run, 0, "started_at"), started);
    assert_eq!(at(&run, 0, "cases"), Cell::Integer(4));
    assert_eq!(at(&run, 0, "git_commit"), Cell::Text("0123abc-dirty".into()));
    assert_eq!(at(&run, 0, "git_dirty"), Cell::Boolean(true));
    let plugins = read(&views, "plugins");
    let last = plugins.rows.len() - 1;
    assert_eq!(at(&plugins, last, "role"), Cell::Text("program".into()));
    assert_eq!(at(&plugins, last, "plugin_id"), Cell::Text("host-worker".into()));
    let hardware = read(&views, "hardware");
    let names: Vec<_> = (0..hardware.rows.len()).map(|row| at(&hardware, row, "name")).collect();
    let has = |name: &str| names.contains(&Cell::Text(name.into()));
    assert!(has("control-group.processor-quota") && has("clock-source"), "{names:?}");
    assert!(!has("git-commit") && !has("git-dirty"), "they are the repository's: {names:?}");

    let cases = read(&views, "cases");
    let indices: Vec<_> = (0..4).map(|row| at(&cases, row, "case_index")).collect();
    assert_eq!(indices, [0, 1, 2, 3].map(Cell::Integer), "a gap's place is known from the plan");
    assert_eq!(at(&cases, 0, "queries"), Cell::Integer(1500));
    let Cell::Text(text) = at(&cases, 0, "conditions") else { panic!("no conditions") };
    let conditions: Conditions = serde_json::from_str(&text).expect("JSON");
    assert_eq!(conditions, report().conditions);
    assert_eq!(at(&cases, 3, "conditions"), Cell::Null);
    assert_eq!(at(&cases, 2, "queries"), Cell::Null);
    assert_eq!(at(&cases, 2, "reason_kind"), Cell::Text("exit-code".into()));
    let reason = "the worker exited with code 3 in phase load";
    assert_eq!(at(&cases, 2, "reason"), Cell::Text(reason.into()));
    assert_eq!(at(&cases, 3, "outcome"), Cell::Text("gap".into()));
    assert_eq!(at(&cases, 3, "plugin_id"), Cell::Null);

    let found = read(&views, "results");
    assert_eq!(at(&found, 0, "value"), Cell::Real(1500.0));
    assert_eq!(at(&found, 2, "value"), Cell::Null);
    assert_eq!(at(&found, 2, "gap_kind"), Cell::Text("precision-unsupported".into()));
    assert_eq!(at(&found, 3, "gap_kind"), Cell::Text("plugin-failed".into()));
    let predictions = read(&views, "predictions");
    assert_eq!(predictions.rows.len(), 1);
    assert_eq!(predictions.rows[0][1], Cell::Text(r#"{"batch":"2"}"#.into()));
    assert_eq!(predictions.rows[0][3..7], [5.0, 4.0, 7.0, 0.9].map(Cell::Real));
    let advice = read(&views, "recommendations");
    assert_eq!(at(&advice, 0, "cases"), Cell::Text(r#"["0000000000000000"]"#.into()));
    assert_eq!(at(&advice, 0, "plugin"), Cell::Text("hardware".into()));

    let plugins = read(&views, "plugins");
    assert_eq!(at(&plugins, 0, "role"), Cell::Text("backend".into()));
    assert_eq!(at(&plugins, 0, "plugin_id"), Cell::Text("cpu".into()));
    let Cell::Text(measure) = at(&cases, 0, "measure") else { panic!("no settings") };
    let measure: serde_json::Value = serde_json::from_str(&measure).expect("JSON");
    assert_eq!(measure, serde_json::to_value(spec(0).measure).expect("JSON"));

    // The distribution covers the measured queries, by the nearest rank.
    let mut sorted = latencies(0, 1500);
    sorted.sort_unstable();
    let sql = format!(
        "SELECT latency_ns FROM latency_quantiles WHERE case_id = '{}' \
         AND quantile IN (0, 0.5, 0.99, 0.999, 1) ORDER BY quantile",
        spec(0).id
    );
    let points: Vec<_> = views.query(&sql).expect("quantiles").rows.concat();
    let expected =
        [0, 749, 1484, 1498, 1499].map(|index: usize| Cell::Integer(sorted[index] as i64));
    assert_eq!(points, expected);
    let sql = "SELECT sum(queries)::BIGINT FROM latency_histogram";
    assert_eq!(integer(&views.query(sql).expect("a histogram")), 4000);
    // The distributions exist in whatever way a query names them; a text literal with such a name does not count.
    for sql in [
        "WITH q AS (FROM Latency_Quantiles) SELECT count(*) > 0 FROM q",
        "SELECT count(*) > 0 FROM query_table('latency_histogram')",
        "SELECT count(*) > 0 FROM (SUMMARIZE latency_quantiles)",
        "SELECT count(*) > 0 FROM cases, \"latency_quantiles\" WHERE true",
    ] {
        let views = RunViews::open(writer.folder()).expect("views");
        assert_eq!(views.query(sql).expect(sql).rows, [[Cell::Boolean(true)]], "{sql}");
    }
    let sql = "SELECT count(*) FROM raw_benchmark_data";
    assert_eq!(integer(&views.query(sql).expect("samples")), 4006);
    assert!(views.query("SELECT * FROM read_text('/etc/passwd')").is_err());
}

#[test]
fn views_of_an_empty_run_are_empty() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let writer = RunFolder::create(folder.path(), new_run()).expect("a run");
    let views = RunViews::open(writer.folder()).expect("views");
    for name in ["cases", "results", "latency_quantiles", "latency_histogram", "recommendations"] {
        assert!(read(&views, name).rows.is_empty(), "{name}");
    }
    assert_eq!(read(&views, "run").rows.len(), 1);
    assert!(views.query("FROM outputs").expect("outputs").rows.is_empty());
    assert!(views.query("FROM operators").expect("operators").rows.is_empty());
    assert!(views.query("FROM device_states").expect("looks").rows.is_empty());
}

#[test]
fn exports_can_be_read_by_others() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let writer = write_run(folder.path());
    let to = |name: &str| folder.path().join(name);
    let csv = to("it's samples.csv");
    export(writer.folder(), "samples", ExportFormat::Csv, &csv).expect("an export");
    let text = fs::read_to_string(&csv).expect("a file");
    assert_eq!(text.lines().count(), 1 + 4006);
    assert_eq!(
        text.lines().next(),
        Some("run_id,case_id,phase,start_ns,latency_ns,items,scheduled_ns,lane,process")
    );

    export(writer.folder(), "outputs", ExportFormat::JsonLines, &to("o.jsonl")).expect("an export");
    let text = fs::read_to_string(to("o.jsonl")).expect("a file");
    let first: serde_json::Value =
        serde_json::from_str(text.lines().next().expect("a line")).expect("an object");
    assert_eq!(first["output"], "logits");
    assert_eq!(first["values"], serde_json::json!([0.0, -0.5, null]), "JSON has no infinity");
    assert_eq!(text.lines().count(), 2 * 3 * 2);

    export(writer.folder(), "operators", ExportFormat::Csv, &to("p.csv")).expect("an export");
    let text = fs::read_to_string(to("p.csv")).expect("a file");
    let lines: Vec<_> = text.lines().take(3).collect();
    let (run, case) = (writer.folder().run_id(), &spec(0).id);
    assert_eq!(lines[0], "run_id,case_id,name,kind,provider,start_ns,duration_ns");
    assert_eq!(lines[1], format!("{run},{case},conv,Node,TestProvider,0,70"));
    assert_eq!(lines[2], format!("{run},{case},softmax,Node,TestProvider,70,10"));

    export(writer.folder(), "device_states", ExportFormat::Csv, &to("d.csv")).expect("an export");
    let text = fs::read_to_string(to("d.csv")).expect("a file");
    let lines: Vec<_> = text.lines().take(4).collect();
    assert_eq!(
        lines[0],
        "run_id,case_id,process,time_ns,utilisation,memory_utilisation,clock_hertz,\
         memory_clock_hertz,temperature_celsius,power_watts,slowed_by"
    );
    assert_eq!(lines[1], format!("{run},{case},0,10,,,1500000000.0,,,,power heat"));
    assert_eq!(lines[2], format!("{run},{case},0,20,,,1500000000.0,,,,\"\""));
    assert_eq!(lines[3], format!("{run},{case},0,30,,,1500000000.0,,,,"));

    export(writer.folder(), "latency_quantiles", ExportFormat::Parquet, &to("q.parquet"))
        .expect("an export");
    let connection = duckdb::Connection::open_in_memory().expect("a client");
    let sql = format!("SELECT count(*) FROM '{}'", to("q.parquet").display());
    let rows: usize = connection.query_row(&sql, [], |row| row.get(0)).expect("a file");
    let views = RunViews::open(writer.folder()).expect("views");
    assert_eq!(rows, read(&views, "latency_quantiles").rows.len());

    let error = export(writer.folder(), "nonesuch", ExportFormat::Csv, &to("n.csv"));
    assert!(
        error
            .expect_err("no such view")
            .to_string()
            .contains("samples, outputs, operators, device_states, run")
    );
    let error = export(writer.folder(), "samples", ExportFormat::Csv, &to("no/such/folder.csv"));
    assert!(error.is_err());
    let partial = fs::read_dir(folder.path())
        .expect("the folder")
        .any(|entry| entry.expect("an entry").file_name().to_string_lossy().ends_with(".partial"));
    assert!(!partial, "nothing half-written is left");
}
