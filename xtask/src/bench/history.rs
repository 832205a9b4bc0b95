//! Changes in series of results: found, missed and false ones, beside Apache Otava; and the time over many results.

use std::process::Stdio;
use std::time::{Duration, Instant};

use super::machine::{Machine, load};
use super::write;
use crate::layout::{self, Profile};
use crate::python;
use crate::shell::{At, Failed, cargo, command, root, say};

/// The program to compare with.
const OTAVA: &str = "apache-otava==0.8.0";

/// Runs and cases of the database whose history is timed.
const RUNS: &str = "1000";
const CASES: &str = "100";

pub(super) fn prove() -> Result<(), Failed> {
    let machine = Machine::here();
    let before = load();
    say("bench: series with planted changes, here and with Apache Otava");
    let folder = std::env::temp_dir().join(format!("tare-bench-history-{}", std::process::id()));
    std::fs::create_dir_all(&folder).at(&folder)?;
    let series = folder.join("series.json");
    std::fs::write(&series, example("tare-statistics", "history", &["series"])?).at(&series)?;
    let python = python::with_packages(&root().join("target/otava"), &[OTAVA])?;
    let script = root().join("xtask/src/bench/with_otava.py");
    let found = folder.join("found.json");
    let text = command(&python).arg(script).arg(&series).read()?;
    std::fs::write(&found, text).at(&found)?;
    let found = found.display().to_string();
    let tables = example("tare-statistics", "history", &["tables", &found])?;
    say("bench: the history of 100,000 results");
    let built = layout::build(Profile::Release)?;
    let results = folder.join("results").display().to_string();
    example("host-store", "many_results", &[&results, RUNS, CASES])?;
    let mut times = Vec::new();
    for _ in 0..5 {
        let started = Instant::now();
        let status = std::process::Command::new(built.join("host"))
            .args(["--results", &results, "history"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .at(&built)?;
        if !status.success() {
            return Err(Failed::new(format!("`host history` ended with {status}")));
        }
        times.push(started.elapsed());
    }
    times.sort();
    std::fs::remove_dir_all(&folder).at(&folder)?;
    let seconds = |time: Duration| time.as_secs_f64();
    let machine = machine.sentence(before, load());
    write(
        "history",
        &format!(
            "# How often changes over runs are found\n\n\
             `cargo xtask bench history` writes this page. All figures but the times follow from fixed seeds. Otava \
             is {OTAVA} from PyPI with its own defaults. How `host history` finds changes is told in \
             [the design](../design/statistics.md#changes-over-runs).\n\n\
             {machine}\n\n## Planted changes\n\n{}\n\n## Speed\n\n\
             `host history` over {RUNS} runs of {CASES} cases, 100,000 results, built for release: {:.2} s (median \
             of 5; {:.2} to {:.2} s). The target is 2 s.\n",
            tables.trim(),
            seconds(times[2]),
            seconds(times[0]),
            seconds(times[4])
        ),
    )
}

/// Runs an example of a package, built for release, and returns its output.
fn example(package: &str, name: &str, arguments: &[&str]) -> Result<String, Failed> {
    let line = ["run", "--quiet", "--release", "--package", package, "--example", name, "--"];
    cargo().args(line).args(arguments).read()
}
