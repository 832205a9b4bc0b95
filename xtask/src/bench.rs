/*!
Overhead of the tool itself, measured in one run on one machine.

Each figure comes from a program in the measured crate, which prints one line of JSON; this module runs them one after
the other and prints a table beside the targets. Nothing is asserted: machines are shared and noisy. Six benches are
proofs: each prints a separate page and writes it to `docs/reference/`.
*/

mod comparing;
mod fidelity;
mod history;
mod machine;
mod overhead;
mod pages;
mod pairs;
mod predict;
mod repeatability;
mod statistics;

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::layout::{self, Profile};
use crate::setup;
use crate::shell::{At, Failed, command, print, relative, root, say};

/// A measured figure beside its target.
struct Row {
    what: String,
    measured: String,
    to_beat: &'static str,
}

pub(crate) fn bench(arguments: &[String]) -> Result<(), Failed> {
    let only = arguments.first().map(String::as_str);
    let given = arguments.get(1..).unwrap_or_default();
    if only == Some("fidelity") {
        return fidelity::prove(given);
    }
    if only == Some("pairs") {
        return pairs::prove(given);
    }
    if only == Some("predict") {
        return predict::prove(given);
    }
    if let Some(unknown) = given.first() {
        return Err(Failed::new(format!("`{unknown}` means nothing to this bench")));
    }
    if let Some((_, prove)) = PROOFS.iter().find(|(name, _)| only == Some(name)) {
        return prove();
    }
    let wanted: Vec<_> =
        BENCHES.iter().filter(|(name, _)| only.is_none_or(|only| only == *name)).collect();
    if wanted.is_empty() {
        let benches = BENCHES.iter().map(|(name, _)| *name);
        let proofs = ["fidelity", "pairs", "predict"];
        let proofs = proofs.into_iter().chain(PROOFS.iter().map(|(name, _)| *name));
        let names: Vec<_> = proofs.chain(benches).collect();
        let (name, names) = (only.unwrap_or_default(), names.join(", "));
        return Err(Failed::new(format!("there is no bench `{name}`; there are {names}")));
    }
    setup::setup()?;
    let built = layout::build(Profile::Release)?;
    let mut table = String::from("| what | measured | to beat |\n|---|---|---|\n");
    let mut failed = None;
    for (_, bench) in wanted {
        match bench(&built) {
            Ok(Row { what, measured, to_beat }) => {
                table.push_str(&format!("| {what} | {measured} | {to_beat} |\n"));
            }
            // The others can still be measured.
            Err(error) => {
                say(&format!("bench: {error}"));
                failed = Some(error);
            }
        }
    }
    print(&table);
    failed.map_or(Ok(()), Err)
}

type Bench = fn(&Path) -> Result<Row, Failed>;

const BENCHES: &[(&str, Bench)] = &[
    ("loop", measuring_loop),
    ("start", start),
    ("minimal", minimal),
    ("plan", plan),
    ("guest", guest),
    ("guests", guests),
    ("compare", comparing::compare),
    ("report", pages::report),
    ("serve", pages::serve),
];

type Proof = fn() -> Result<(), Failed>;

const PROOFS: &[(&str, Proof)] = &[
    ("history", history::prove),
    ("overhead", overhead::prove),
    ("statistics", statistics::prove),
    ("repeatability", repeatability::prove),
];

/// Prints a page and writes it to `docs/reference/`.
fn write(name: &str, page: &str) -> Result<(), Failed> {
    print(page);
    let path = keep(name, page)?;
    say(&format!("bench: wrote {}", relative(&path)));
    Ok(())
}

/// Writes a page to `docs/reference/`.
fn keep(name: &str, page: &str) -> Result<PathBuf, Failed> {
    let path = root().join("docs/reference").join(name).with_extension("md");
    std::fs::write(&path, page).at(&path)?;
    Ok(path)
}

/// Runs an example of a package, built for release, and reads the line of JSON that it prints.
fn example(package: &str, name: &str, arguments: &[impl AsRef<OsStr>]) -> Result<Value, Failed> {
    let text = command(layout::build_example(package, name)?).args(arguments).read()?;
    serde_json::from_str(&text).map_err(|error| Failed::new(format!("{package} {name}: {error}")))
}

fn number(value: &Value, name: &str) -> Result<f64, Failed> {
    value[name].as_f64().ok_or_else(|| Failed::new(format!("the bench gave no `{name}`: {value}")))
}

fn measuring_loop(built: &Path) -> Result<Row, Failed> {
    say("bench: the measuring loop with the null backend, beside a bare loop that reads the clock");
    let library = built.join("plugins/null/libbackend_null.so");
    let value = example("host-worker", "overhead", &[library])?;
    let (bare, query) = (number(&value, "bare_ns")?, number(&value, "query_ns")?);
    let iteration = number(&value, "iteration_ns")?;
    Ok(Row {
        what: "harness per iteration, null backend, over a bare clock read".into(),
        measured: format!(
            "{:.2}× with samples encoded and written, {:.2}× in the timed loop alone \
             ({iteration:.1} and {query:.1} ns over {bare:.1} ns)",
            iteration / bare,
            query / bare
        ),
        to_beat: "2×",
    })
}

fn plan(_built: &Path) -> Result<Row, Failed> {
    say("bench: planning a million cases");
    let value = example("host-plan", "million", &[""; 0])?;
    Ok(Row {
        what: format!("planning {} cases", number(&value, "cases")?),
        measured: format!(
            "{:.2} s, {:.0} MB",
            number(&value, "seconds")?,
            number(&value, "peak_memory_bytes")? / 1e6
        ),
        to_beat: "5 s, 300 MB",
    })
}

fn guest(built: &Path) -> Result<Row, Failed> {
    say("bench: the latency metric over 10⁷ samples, in the sandbox and natively");
    let value = example("host-wasm", "latency_metric", &[built.join("plugins/latency.wasm")])?;
    let (native, guest) = (number(&value, "native_seconds")?, number(&value, "guest_seconds")?);
    Ok(Row {
        what: "WASM latency metric over 10⁷ samples, over the same code native".into(),
        measured: format!("{:.2}× ({guest:.3} s over {native:.3} s)", guest / native),
        to_beat: "1.3×",
    })
}

fn guests(built: &Path) -> Result<Row, Failed> {
    say("bench: all metrics over a case, for a thousand cases, and loading them from the cache");
    let value = example("host-wasm", "many_cases", &[built.join("plugins")])?;
    let (seconds, call) = (number(&value, "seconds")?, number(&value, "call_seconds")?);
    Ok(Row {
        what: format!(
            "{} WASM metrics over {} cases of {} queries; loading one from the cache",
            number(&value, "metrics")?,
            number(&value, "cases")?,
            number(&value, "queries")?
        ),
        measured: format!(
            "{seconds:.2} s ({:.3} ms a call); {:.2} ms",
            call * 1e3,
            number(&value, "load_seconds")? * 1e3
        ),
        to_beat: "1 % of the run; 1 ms",
    })
}

/// Measures the time from starting `host run` to its first timed query, by its own log, ten times.
fn start(built: &Path) -> Result<Row, Failed> {
    say("bench: from the start of `host run` to the first sample");
    let results = std::env::temp_dir().join(format!("tare-bench-{}", std::process::id()));
    let mut times = Vec::new();
    for _ in 0..10 {
        times.push(first_sample(built, &results)?);
    }
    std::fs::remove_dir_all(&results).at(&results)?;
    times.sort();
    Ok(Row {
        what: "start of `host run` to first sample (quickstart; median of 10)".into(),
        measured: spread(&times),
        to_beat: "100 ms",
    })
}

/// Measures the shortest run from its start to its end, without the requested measuring time.
fn minimal(built: &Path) -> Result<Row, Failed> {
    const TOLD: Duration = Duration::from_millis(11);
    say("bench: a whole `host run` of one case with the null backend");
    let folder = std::env::temp_dir().join(format!("tare-bench-minimal-{}", std::process::id()));
    std::fs::create_dir_all(&folder).at(&folder)?;
    let manifest = folder.join("minimal.toml");
    let text = format!(
        "schema = 1\nexperiment = {{ name = \"minimal\" }}\n\
         [[model]]\nid = \"digits\"\npath = {:?}\n[[backend]]\nid = \"null\"\n\
         [matrix]\nbatch = [1]\n\
         [measure]\nwarm-up = \"1ms\"\nduration = \"10ms\"\nminimum-queries = 10\n\
         [[metric]]\nplugin = \"latency\"\n",
        root().join("manifests/data/digits.onnx")
    );
    std::fs::write(&manifest, text).at(&manifest)?;
    let mut times = Vec::new();
    for _ in 0..11 {
        let started = Instant::now();
        command(built.join("host"))
            .args(["--color", "never", "--results"])
            .arg(folder.join("results"))
            .arg("run")
            .arg(&manifest)
            .read()?;
        times.push(started.elapsed() - TOLD);
    }
    std::fs::remove_dir_all(&folder).at(&folder)?;
    // The first run creates the database.
    times.remove(0);
    times.sort();
    Ok(Row {
        what: "whole `host run` of one case, null backend, without the 11 ms it measures (median of 10)"
            .into(),
        measured: spread(&times),
        to_beat: "250 ms",
    })
}

/// Returns the median of sorted times, with the minimum and maximum.
fn spread(times: &[Duration]) -> String {
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
    format!(
        "{:.0} ms ({:.0} to {:.0})",
        milliseconds(times[times.len() / 2]),
        milliseconds(times[0]),
        milliseconds(times[times.len() - 1])
    )
}

fn first_sample(built: &Path, results: &Path) -> Result<Duration, Failed> {
    const MARK: &str = "first timed query";
    let mut process = command(built.join("host"))
        .args(["-vv", "--color", "never", "--results"])
        .arg(results)
        .arg("run")
        .arg(root().join("manifests/quickstart.toml"))
        .into_command();
    let started = Instant::now();
    let mut child = process
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| Failed::new(format!("host could not be started: {error}")))?;
    let lines = BufReader::new(child.stderr.take().expect("standard error is piped")).lines();
    let mut found = None;
    let mut last = String::new();
    for line in lines.map_while(Result::ok) {
        if line.contains(MARK) {
            found = Some(started.elapsed());
            break;
        }
        last = line;
    }
    // The rest of the run does not matter.
    let _ = child.kill();
    let _ = child.wait();
    found.ok_or_else(|| {
        Failed::new(format!("`host run` never said `{MARK}`; its last words: {last}"))
    })
}
