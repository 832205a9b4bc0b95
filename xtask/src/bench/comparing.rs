//! Time to compare two runs of ten thousand cases: a run of one case, whose records are repeated under other ids.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::{Row, spread};
use crate::shell::{At, Failed, command, root, say};

/// Cases of each run.
const CASES: u32 = 10_000;

/// Measures `host compare` of two such runs, five times.
pub(super) fn compare(built: &Path) -> Result<Row, Failed> {
    say("bench: comparing two runs of 10,000 cases");
    let folder = std::env::temp_dir().join(format!("tare-bench-compare-{}", std::process::id()));
    fs::create_dir_all(&folder).at(&folder)?;
    let measured = measured(built, &folder)?;
    // A copy of a run keeps its id as its name.
    let id = measured.file_name().unwrap_or_default().to_owned();
    let [first, second] = ["first", "second"].map(|copy| folder.join(copy).join(&id));
    for copy in [&first, &second] {
        grow(&measured, copy)?;
    }
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..5 {
        let started = Instant::now();
        let line = command(built.join("host")).args(["--format", "csv", "--quiet", "compare"]);
        let table = line.arg(&first).arg(&second).read()?;
        times.push(started.elapsed());
        let rows = table.lines().count();
        if rows != CASES as usize + 1 {
            return Err(Failed::new(format!("the comparison has {rows} lines")));
        }
    }
    fs::remove_dir_all(&folder).at(&folder)?;
    times.sort();
    Ok(Row {
        what: "`host compare` of two runs of 10,000 cases, five processes and the usual metrics each (median of 5)".into(),
        measured: spread(&times),
        to_beat: "3 s",
    })
}

/// Measures one case in five processes, and returns the run's folder.
fn measured(built: &Path, folder: &Path) -> Result<PathBuf, Failed> {
    let manifest = folder.join("it.toml");
    let text = format!(
        "schema = 1\nexperiment = {{ name = \"compare\" }}\n\
         [[model]]\nid = \"digits\"\npath = {:?}\n[[backend]]\nid = \"cpu\"\n\
         [matrix]\nbatch = [1]\n\
         [measure]\nwarm-up = 1\nduration = \"100ms\"\nminimum-queries = 100\nprocesses = 5\n",
        root().join("manifests/data/digits.onnx")
    );
    fs::write(&manifest, text).at(&manifest)?;
    let results = folder.join("results");
    let line = command(built.join("host")).args(["--quiet", "--results"]).arg(&results);
    let _table = line.arg("run").arg(&manifest).read()?;
    let runs = results.join("runs");
    let mut entries = fs::read_dir(&runs).at(&runs)?;
    let run = entries.next().ok_or_else(|| Failed::new("the run left no folder"))?;
    Ok(run.at(&runs)?.path())
}

/// Writes a run that repeats the only case of another, at other batch sizes.
fn grow(from: &Path, to: &Path) -> Result<(), Failed> {
    fs::create_dir_all(to).at(to)?;
    for name in ["manifest.toml", "run.json", "finished.json"] {
        fs::copy(from.join(name), to.join(name)).at(from)?;
    }
    let plan = from.join("plan.jsonl");
    let line = fs::read_to_string(&plan).at(&plan)?;
    let line: serde_json::Value = serde_json::from_str(line.trim())
        .map_err(|error| Failed::new(format!("{}: {error}", plan.display())))?;
    let id = line["case-id"].as_str().ok_or_else(|| Failed::new("the plan has no case"))?;
    for name in ["plan.jsonl", "journal.jsonl", "results.jsonl"] {
        let path = from.join(name);
        let text = fs::read_to_string(&path).at(&path)?;
        let mut all = String::with_capacity(text.len() * CASES as usize);
        for case in 1..=CASES {
            let named = text.replace(id, &format!("{case:016x}"));
            let _ = write!(all, "{}", named.replace("\"batch\":1,", &format!("\"batch\":{case},")));
        }
        let path = to.join(name);
        fs::write(&path, all).at(&path)?;
    }
    Ok(())
}
