/*!
Overhead of measuring: proof 1.

Tare's loops with the null backend and LoadGen with a system that does nothing alternate, because the machine may be
shared: other load slows both. The results are ratios within a round and medians over rounds.
*/

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::machine::{Machine, load};
use super::{example, number, write};
use crate::layout;
use crate::shell::{Failed, cargo, command, root, say};

/// The Python package of LoadGen.
const LOADGEN: &str = "mlcommons-loadgen==6.0.17";
/// Overhead that LoadGen's authors publish for the C++ library, on a Xeon, in nanoseconds.
const PUBLISHED_NS: f64 = 1700.0;

const ROUNDS: usize = 5;
/// Seconds for each scenario in each round.
const SECONDS: u32 = 3;
const RATE: f64 = 150_000.0;
/// Rates for LoadGen: one that it sustains, the target's, and Tare's.
const LOADGEN_RATES: [f64; 3] = [10_000.0, 50_000.0, RATE];

pub(super) fn prove() -> Result<(), Failed> {
    let target = layout::target_folder()?;
    cargo().args(["build", "--quiet", "--release", "--package", "backend-null"]).run()?;
    let library = target.join("release/libbackend_null.so");
    let python = loadgen(&target.join("loadgen"));
    if let Err(gap) = &python {
        say(&format!("bench: {gap}"));
    }

    let machine = Machine::here();
    let before = load();
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 1..=ROUNDS {
        say(&format!("bench: overhead, round {round} of {ROUNDS}"));
        let arguments = [library.display().to_string(), SECONDS.to_string(), RATE.to_string()];
        ours.push(example("host-worker", "overhead", &arguments)?);
        if let Ok(python) = &python {
            theirs.push(run_loadgen(python)?);
        }
    }
    let machine = machine.sentence(before, load());
    write("overhead", &document(&ours, &theirs, python.err().as_deref(), &machine)?)
}

/// Returns a Python with LoadGen, created below cargo's folder, or why it is not available.
fn loadgen(folder: &Path) -> Result<PathBuf, String> {
    let python = folder.join("bin/python");
    let has_it = |python: &Path| {
        let (package, version) = LOADGEN.split_once("==").expect("a pinned version");
        let script = format!(
            "import importlib.metadata as m, mlperf_loadgen; assert m.version('{package}') == '{version}'"
        );
        command(python).args(["-c", script.as_str()]).quietly()
    };
    if !has_it(&python) {
        say(&format!("bench: installing {LOADGEN} into a folder of its own"));
        let made = command("python3").args(["-m", "venv"]).arg(folder).quietly();
        if !made {
            return Err("there is no Python with `venv`".into());
        }
        let pip = command(&python).args(["-m", "pip", "install", "--quiet", LOADGEN]).quietly();
        if !pip || !has_it(&python) {
            return Err(format!("pip could not install {LOADGEN}"));
        }
    }
    Ok(python)
}

fn run_loadgen(python: &Path) -> Result<Value, Failed> {
    let script = root().join("xtask/src/bench/loadgen.py");
    let line = command(python).arg(&script).arg(SECONDS.to_string());
    let text = line.args(LOADGEN_RATES.map(|rate| rate.to_string())).read()?;
    serde_json::from_str(&text).map_err(|error| Failed::new(format!("LoadGen: {error}")))
}

/// Writes the page. `theirs` is empty if LoadGen was not available, for the reason `gap`.
fn document(
    ours: &[Value],
    theirs: &[Value],
    gap: Option<&str>,
    machine: &str,
) -> Result<String, Failed> {
    let of = |rounds: &[Value], name: &str| -> Result<Spread, Failed> {
        rounds.iter().map(|round| number(round, name)).collect::<Result<_, _>>().map(Spread::new)
    };
    let loop_ratio = of(ours, "query_ratio")?;
    let iteration_ratio = of(ours, "ratio")?;
    let (bare, iteration) = (of(ours, "bare_ns")?, of(ours, "iteration_ns")?);
    let (query, empty) = (of(ours, "query_ns")?, of(ours, "empty_loop_ns")?);

    let mut rows = vec![
        Row::below(
            "single-stream loop with the null backend, over a bare loop that reads the clock",
            format!("{loop_ratio} ({query:.1} over {bare:.1} ns)"),
            "≤ 1.3×",
            loop_ratio.median <= 1.3,
        ),
        Row::below(
            "the same with samples encoded and written",
            format!("{iteration_ratio} ({iteration:.1} ns)"),
            "≤ 1.3×",
            iteration_ratio.median <= 1.3,
        ),
        Row::text(
            "the loop alone, with an empty target in place of a plugin",
            format!("{empty:.1} ns"),
        ),
    ];
    match gap {
        Some(gap) => {
            rows.push(Row::text("LoadGen's Python binding", format!("not measured: {gap}")))
        }
        None => {
            let single = of(theirs, "single_stream_ns")?;
            let times = ours.iter().zip(theirs).map(|(ours, theirs)| {
                Ok(number(theirs, "single_stream_ns")? / number(ours, "iteration_ns")?)
            });
            let times = Spread::new(times.collect::<Result<_, Failed>>()?);
            rows.push(Row::below(
                "single-stream: LoadGen through its Python binding, over ours with samples written",
                format!("{times} ({:.2} µs over {iteration:.1} ns)", single.median / 1e3),
                "≥ 50×",
                times.median >= 50.0,
            ));
        }
    }
    let published = PUBLISHED_NS / iteration.median;
    rows.push(Row::below(
        "single-stream: the C++ library's published 1.7 µs on a Xeon, over ours here",
        format!("{published:.1}×"),
        "≥ 20×",
        published >= 20.0,
    ));

    let seconds: Vec<&Value> = ours.iter().flat_map(|round| array(&round["server"])).collect();
    let late = |name: &str| -> Result<Spread, Failed> {
        seconds.iter().map(|second| number(second, name)).collect::<Result<_, _>>().map(Spread::new)
    };
    let rates = seconds.iter().map(|second| {
        Ok(100.0 * (number(second, "achieved")? / number(second, "offered")? - 1.0).abs())
    });
    let rates = Spread::new(rates.collect::<Result<_, Failed>>()?);
    let p99 = late("p99_ns")?;
    rows.push(Row::below(
        "server at 150,000 queries/s: achieved rate off the offered one",
        format!("{:.4} % (worst second {:.4} %)", rates.median, rates.most),
        "≤ 0.1 %",
        rates.median <= 0.1,
    ));
    rows.push(Row::below(
        "server at 150,000 queries/s: 99th percentile of lateness",
        format!("{:.1} µs (worst second {:.1} µs)", p99.median / 1e3, p99.most / 1e3),
        "≤ 100 µs",
        p99.median <= 1e5,
    ));

    let table: String = rows.iter().map(Row::line).collect();
    let undisturbed: Vec<&Value> = seconds
        .iter()
        .filter(|second| second["taken_away"].as_f64() == Some(0.0))
        .copied()
        .collect();
    let server = [("all", seconds.clone()), ("undisturbed", undisturbed)]
        .map(|(name, seconds)| server_line(name, &seconds));
    let server: String = server.into_iter().collect::<Result<_, _>>()?;
    Ok(format!(
        "# What measuring costs\n\n\
         `cargo xtask bench overhead` writes this page. Timed figures belong to the machine and the \
         minute; ratios are taken within a round, and what is said is the median of {ROUNDS} rounds, with \
         the least and the most of them in brackets. No test asserts them.\n\n\
         {machine}\n\n\
         | what | measured | target | |\n|---|---|---|---|\n{table}\n\
         Everything of ours goes through the plugin ABI, as a worker runs it. `{LOADGEN}` is the C++ \
         library behind a Python binding, so that each query passes through Python twice: its figures are \
         those of a harness in Python, and not of the C++ library, for which its authors publish 1.7 to \
         2 µs a query. Its cost is the median from a query's issue to its completion, so that neither \
         other work on the machine nor its own work between queries is counted against it.\n\n\
         ## Open loop\n\n\
         Lateness is what a query began after the time at which a generator that is never late would have \
         begun it. Ours is looked at for each second; *taken away* is how often the kernel gave the \
         generator's processor to somebody else meanwhile, which the generator cannot help. An undisturbed \
         second is one in which that never happened.\n\n\
         | our server scenario, {RATE} queries/s | seconds | p50 | p99 | max | taken away |\n\
         |---|--:|--:|--:|--:|--:|\n{server}\n{}",
        loadgen_table(theirs)?
    ))
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn server_line(name: &str, seconds: &[&Value]) -> Result<String, Failed> {
    if seconds.is_empty() {
        return Ok(format!("| {name} | 0 | | | | |\n"));
    }
    let of = |key: &str| -> Result<Spread, Failed> {
        seconds.iter().map(|second| number(second, key)).collect::<Result<_, _>>().map(Spread::new)
    };
    let microseconds = |key: &str| -> Result<String, Failed> {
        let spread = of(key)?;
        Ok(format!(
            "{:.2} ({:.2}–{:.2}) µs",
            spread.median / 1e3,
            spread.least / 1e3,
            spread.most / 1e3
        ))
    };
    let taken = of("taken_away")?;
    Ok(format!(
        "| {name} | {} | {} | {} | {} | {:.0} ({:.0}–{:.0}) |\n",
        seconds.len(),
        microseconds("p50_ns")?,
        microseconds("p99_ns")?,
        microseconds("maximum_ns")?,
        taken.median,
        taken.least,
        taken.most
    ))
}

fn loadgen_table(theirs: &[Value]) -> Result<String, Failed> {
    let [first, ..] = theirs else {
        return Ok("LoadGen was not to be had here, so there are no figures of it.\n".into());
    };
    let mut text = String::from(
        "With a system that does nothing, LoadGen's latencies count from the scheduled time as well, so \
         that they are its lateness. Medians over rounds.\n\n\
         | LoadGen's server scenario, asked for | offered | achieved | p50 | p99 | max |\n\
         |--:|--:|--:|--:|--:|--:|\n",
    );
    for (index, asked) in array(&first["server"]).iter().enumerate() {
        let of = |key: &str| -> Result<f64, Failed> {
            let values = theirs.iter().map(|round| number(&array(&round["server"])[index], key));
            Ok(Spread::new(values.collect::<Result<_, _>>()?).median)
        };
        text.push_str(&format!(
            "| {} | {:.0}/s | {:.0}/s | {:.1} µs | {:.1} µs | {:.1} µs |\n",
            number(asked, "asked")?,
            of("offered")?,
            of("achieved")?,
            of("p50_ns")? / 1e3,
            of("p99_ns")? / 1e3,
            of("maximum_ns")? / 1e3
        ));
    }
    Ok(text)
}

/// Median, minimum and maximum of the samples.
struct Spread {
    median: f64,
    least: f64,
    most: f64,
}

impl Spread {
    fn new(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
        let last = values.len().saturating_sub(1);
        Self { median: at(values.len() / 2), least: at(0), most: at(last) }
    }
}

impl std::fmt::Display for Spread {
    /// Writes a ratio; with a precision, only the median.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match formatter.precision() {
            Some(precision) => write!(formatter, "{:.precision$}", self.median),
            None => write!(formatter, "{:.2}× ({:.2}–{:.2})", self.median, self.least, self.most),
        }
    }
}

/// A figure beside its target.
struct Row {
    what: &'static str,
    measured: String,
    target: &'static str,
    verdict: &'static str,
}

impl Row {
    fn below(what: &'static str, measured: String, target: &'static str, met: bool) -> Self {
        Self { what, measured, target, verdict: if met { "met" } else { "**missed**" } }
    }

    fn text(what: &'static str, measured: String) -> Self {
        Self { what, measured, target: "", verdict: "" }
    }

    fn line(&self) -> String {
        format!("| {} | {} | {} | {} |\n", self.what, self.measured, self.target, self.verdict)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ours(query_ns: f64, p99_ns: f64) -> Value {
        let second = json!({
            "asked": RATE, "queries": 150_000, "offered": 150_100.0, "achieved": 150_090.0,
            "p50_ns": 40, "p99_ns": p99_ns, "maximum_ns": 9000, "taken_away": 0,
        });
        json!({
            "bare_ns": 30.0, "empty_loop_ns": 32.0, "query_ns": query_ns, "iteration_ns": query_ns + 2.0,
            "query_ratio": query_ns / 30.0, "ratio": (query_ns + 2.0) / 30.0, "server": [second],
        })
    }

    #[test]
    fn what_misses_its_target_is_said_to_miss_it() {
        let met = document(&[ours(36.0, 900.0)], &[], Some("there is no Python"), "Here.")
            .expect("all figures are there");
        assert!(
            !met.contains("missed") && met.contains("not measured: there is no Python"),
            "{met}"
        );
        let missed = document(&[ours(60.0, 200_000.0)], &[], Some("none"), "Here.")
            .expect("all figures are there");
        assert_eq!(missed.matches("**missed**").count(), 3, "{missed}");
    }

    #[test]
    fn loadgen_is_set_beside_it() {
        let server = json!({
            "asked": 50_000.0, "offered": 50_010.0, "achieved": 50_009.0,
            "p50_ns": 20_000.0, "p99_ns": 8_600_000.0, "maximum_ns": 9e6,
        });
        let theirs = json!({ "single_stream_ns": 6400.0, "server": [server] });
        let page = document(&[ours(36.0, 900.0)], &[theirs], None, "Here.").expect("all figures");
        assert!(
            page.contains("168.42× (168.42–168.42) (6.40 µs over 38.0 ns) | ≥ 50× | met"),
            "{page}"
        );
        assert!(page.contains("| 50000 | 50010/s | 50009/s | 20.0 µs | 8600.0 µs | 9000.0 µs |"));
    }
}
