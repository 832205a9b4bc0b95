//! The main job, as a newcomer runs it, in a copy of the tool in another folder.

use std::path::Path;
use std::process::Command;

use end_to_end::{Place, built, root};

/// Copies the files of an installation, and nothing else from cargo's folder.
fn installed_elsewhere(target: &Path) {
    let status = Command::new("cp")
        .arg("-r")
        .args(["host", "host-worker", "libduckdb.so", "plugins"].map(|name| built().join(name)))
        .arg(target)
        .status()
        .expect("starting cp");
    assert!(status.success(), "copying the installation");
}

#[test]
fn the_main_job_runs_from_any_folder_and_leaves_what_it_says() {
    let installation = tempfile::tempdir().expect("a temporary folder");
    installed_elsewhere(installation.path());
    let place = Place::with_host(installation.path().join("host"));
    let manifest = root().join("manifests/quickstart.toml");
    let manifest = manifest.to_str().expect("a path in UTF-8");

    let run = place.run(&["run", manifest]).expect(0);
    // Six cases, each with its batch size and scenario.
    for scenario in ["single-stream", "offline"] {
        let lines = run.stdout.lines().filter(|line| {
            let mut words = line.split_whitespace();
            matches!(words.next(), Some("1" | "8" | "64")) && words.next() == Some(scenario)
        });
        assert_eq!(lines.count(), 3, "{}", run.stdout);
    }
    let folder = place.run_folder();
    let shown = run.stdout.clone() + &run.stderr;
    let name = folder.file_name().and_then(|name| name.to_str()).expect("a run's id");
    for path in [name, "results/tare.duckdb", "reports/html/report.html"] {
        assert!(shown.contains(path), "{path} in\n{shown}");
    }

    // The journal has every process of every case, measured to its end, with the test set's known accuracy.
    let journal = place.lines("journal.jsonl");
    assert_eq!(journal.len(), 5 * 6);
    assert!(journal.iter().all(|record| record["outcome"]["outcome"] == "finished"), "{journal:?}");

    let query = "SELECT case_id, metric, value FROM benchmark_results ORDER BY ALL";
    let results = place.run(&["--format", "json", "results", "query", query]).expect(0).json();
    let values = |metric: &str| -> Vec<f64> {
        let rows = results.as_array().expect("rows").iter();
        rows.filter(|row| row["metric"] == metric)
            .map(|row| row["value"].as_f64().expect("a number"))
            .collect()
    };
    assert_eq!(values("accuracy.top1"), vec![378.0 / 384.0; 6]);
    for metric in ["latency.p50", "throughput.samples", "memory.peak"] {
        let values = values(metric);
        assert_eq!(values.len(), 6, "{metric}");
        assert!(values.iter().all(|value| *value > 0.0), "{metric}: {values:?}");
    }

    // Raw samples agree with the results derived from them.
    let query = "SELECT case_id, avg(middle) AS middle, min(queries) AS queries FROM ( \
                 SELECT case_id, process, quantile_disc(latency_ns, 0.5) AS middle, \
                 count(*) AS queries FROM raw_benchmark_data WHERE phase = 'measured' GROUP BY ALL) \
                 GROUP BY case_id ORDER BY case_id";
    let raw = place.run(&["--format", "json", "results", "query", query]).expect(0).json();
    let raw = raw.as_array().expect("rows");
    assert_eq!(raw.len(), 6);
    for (row, reported) in raw.iter().zip(values("latency.p50")) {
        let middle = row["middle"].as_f64().expect("a number");
        assert!((middle / reported - 1.0).abs() < 0.05, "{middle} and {reported}");
        assert!(row["queries"].as_u64().expect("a count") >= 3);
    }

    let report =
        std::fs::read_to_string(folder.join("reports/html/report.html")).expect("the report");
    for needed in ["<svg", "digits", "98.4", "single-stream", "offline"] {
        assert!(report.contains(needed), "`{needed}` is missing from the report");
    }
    for fetched in ["src=\"http", "href=\"http", "url(http", "@import", "<link", "src=\"//"] {
        assert!(!report.contains(fetched), "the report fetches something: {fetched}");
    }
    assert!(folder.join("reports/markdown/report.md").is_file());
    let advice = place.lines("recommendations.jsonl");
    assert!(!advice.is_empty(), "the recommender said nothing");

    // Results can be listed and exported, and the database rebuilt from the folders.
    let listed = place.run(&["--format", "json", "results", "list"]).expect(0).json();
    assert_eq!(listed.as_array().expect("rows").len(), 1);
    std::fs::remove_file(place.path().join("results/tare.duckdb")).expect("removing the database");
    let _ = place.run(&["results", "sync"]).expect(0);
    let query = "SELECT count(*) AS cases FROM benchmark_results WHERE metric = 'accuracy.top1'";
    let counted = place.run(&["--format", "json", "results", "query", query]).expect(0).json();
    assert_eq!(counted[0]["cases"], 6);
    let table = place.path().join("samples.csv");
    let table = table.to_str().expect("UTF-8");
    let _ = place.run(&["results", "export", "--view", "samples", "--to", table]).expect(0);
    assert!(std::fs::read_to_string(table).expect("the export").lines().count() > 100);
}
