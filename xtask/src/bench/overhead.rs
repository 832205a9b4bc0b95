/*!
Overhead of measuring: proof 1.

Our loops with the null backend and LoadGen's C++ library with a system that does nothing are measured in turns,
because the machine may be shared: other load slows both. The results are ratios within a round and
medians over rounds.
*/

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::machine::{Machine, load};
use super::{example, number, write};
use crate::layout;
use crate::shell::{Failed, cargo, command, root, say};

/// The package with the sources of the C++ library that is compared with.
const LOADGEN: &str = "mlcommons-loadgen";
const LOADGEN_VERSION: &str = "6.0.17";

const ROUNDS: usize = 5;
/// Seconds for each scenario in each round.
const SECONDS: u32 = 3;
const RATE: f64 = 150_000.0;
/// Rates for LoadGen: one that it sustains, the target's, and Tare's.
const LOADGEN_RATES: [f64; 3] = [10_000.0, 50_000.0, RATE];

pub(super) fn prove() -> Result<(), Failed> {
    let target = layout::target_folder()?;
    if layout::prebuilt().is_none() {
        cargo().args(["build", "--quiet", "--release", "--package", "backend-null"]).run()?;
    }
    let library = target.join("release/libbackend_null.so");
    let folder = target.join("loadgen");
    let program = loadgen(&folder);
    if let Err(gap) = &program {
        say(&format!("bench: {gap}"));
    }

    let machine = Machine::here();
    let before = load();
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 1..=ROUNDS {
        say(&format!("bench: overhead, round {round} of {ROUNDS}"));
        let arguments = [library.display().to_string(), SECONDS.to_string(), RATE.to_string()];
        ours.push(example("host-worker", "overhead", &arguments)?);
        if let Ok(program) = &program {
            theirs.push(run_loadgen(program, &folder)?);
        }
    }
    let machine = machine.sentence(before, load());
    write("overhead", &document(&ours, &theirs, program.err().as_deref(), &machine)?)
}

/// Builds LoadGen's C++ sources with a system that does nothing, below cargo's folder. Returns the program, or why
/// there is none.
fn loadgen(folder: &Path) -> Result<PathBuf, String> {
    let sources = folder.join(format!("mlcommons_loadgen-{LOADGEN_VERSION}"));
    let program = folder.join("loadgen");
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    if !sources.is_dir() {
        say(&format!("bench: fetching the sources of {LOADGEN} {LOADGEN_VERSION}"));
        let pinned = format!("{LOADGEN}=={LOADGEN_VERSION}");
        let fetched = command("python3")
            .args([
                "-m",
                "pip",
                "download",
                "--quiet",
                "--no-deps",
                "--no-binary",
                LOADGEN,
                &pinned,
            ])
            .arg("--dest")
            .arg(folder)
            .quietly();
        let archive = folder.join(format!("mlcommons_loadgen-{LOADGEN_VERSION}.tar.gz"));
        let unpacked =
            fetched && command("tar").arg("-xzf").arg(archive).arg("-C").arg(folder).quietly();
        if !unpacked {
            return Err(format!("pip could not fetch the sources of {pinned}"));
        }
    }
    say("bench: compiling LoadGen");
    let files = std::fs::read_dir(&sources).map_err(|error| error.to_string())?;
    let files = files.filter_map(|entry| Some(entry.ok()?.path()));
    let compiled = command("c++")
        .args(["-std=c++14", "-O3", "-w", "-pthread", "-I"])
        .arg(&sources)
        .args(
            LOADGEN_VERSION
                .split('.')
                .zip(["MAJOR", "MINOR"])
                .map(|(number, name)| format!("-D{name}_VERSION={number}")),
        )
        .arg(root().join("xtask/src/bench/loadgen.cpp"))
        .args(files.filter(|path| path.extension().is_some_and(|extension| extension == "cc")))
        .arg(sources.join("generated/version_generated.cc"))
        .arg("-o")
        .arg(&program)
        .quietly();
    if compiled { Ok(program) } else { Err("the C++ compiler refuses LoadGen's sources".into()) }
}

fn run_loadgen(program: &Path, folder: &Path) -> Result<Value, Failed> {
    let line = command(program).arg(SECONDS.to_string()).arg(folder);
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
    let reading = of(ours, "reading_ns")?;
    let clock = ours.first().and_then(|round| round["clock"].as_str()).unwrap_or("unknown");

    let mut rows = vec![
        Row::below(
            "single-stream loop with the null backend, over a bare loop that reads `CLOCK_MONOTONIC`",
            format!("{loop_ratio} ({query:.1} over {bare:.1} ns)"),
            "≤ 1.3×",
            loop_ratio.median <= 1.3,
        ),
        Row::below(
            "the same with samples encoded and written",
            format!("{iteration_ratio} ({iteration:.1} ns)"),
            "≤ 1.25×",
            iteration_ratio.median <= 1.25,
        ),
        Row::text(
            "the loop alone, with an empty target in place of a plugin",
            format!("{empty:.1} ns"),
        ),
        Row::text(
            "a bare reading of the clock that the loop reads",
            format!("{reading:.1} ns ({clock})"),
        ),
    ];
    match gap {
        Some(gap) => rows.push(Row::text("LoadGen", format!("not measured: {gap}"))),
        None => {
            let cost = |round: &Value| {
                Ok::<_, Failed>(1e9 / number(round, "single_stream_queries_per_second")?)
            };
            let costs = theirs.iter().map(cost).collect::<Result<Vec<_>, _>>()?;
            let times = ours.iter().zip(&costs);
            let times = times.map(|(ours, theirs)| Ok(theirs / number(ours, "iteration_ns")?));
            let times = Spread::new(times.collect::<Result<_, Failed>>()?);
            let costs = Spread::new(costs);
            rows.push(Row::below(
                "single-stream: LoadGen's cost of a query, over ours with samples written",
                format!("{times} ({:.2} µs over {iteration:.1} ns)", costs.median / 1e3),
                "≥ 20×",
                times.median >= 20.0,
            ));
            let latency = of(theirs, "single_stream_latency_ns")?;
            rows.push(Row::text(
                "single-stream: median latency of nothing that LoadGen records, and that ours does",
                format!("{latency:.0} ns, {query:.0} ns"),
            ));
        }
    }

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
         Everything of ours goes through the plugin ABI, as a worker runs it. The bare loop reads the operating \
         system's clock, as `std::time` and LoadGen do; ours reads the counter that this clock is made from \
         if the kernel trusts it. LoadGen is its C++ library, \
         built from the sources in `{LOADGEN}` {LOADGEN_VERSION} with a system that completes each query on \
         the thread that issues it. A query's cost is the time from one issue to the next: of all queries \
         for LoadGen, which says no more, so other load on the machine is in it; the median over blocks \
         for ours.\n\n\
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
            "bare_ns": 30.0, "reading_ns": 22.0, "clock": "TSC", "empty_loop_ns": 32.0, "query_ns": query_ns, "iteration_ns": query_ns + 2.0,
            "query_ratio": query_ns / 30.0, "ratio": (query_ns + 2.0) / 30.0, "server": [second],
        })
    }

    #[test]
    fn what_misses_its_target_is_said_to_miss_it() {
        let met = document(&[ours(35.0, 900.0)], &[], Some("there is no Python"), "Here.")
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
        let theirs = json!({
            "single_stream_latency_ns": 135.0, "single_stream_queries_per_second": 500_000.0, "server": [server],
        });
        let page = document(&[ours(36.0, 900.0)], &[theirs], None, "Here.").expect("all figures");
        assert!(
            page.contains("52.63× (52.63–52.63) (2.00 µs over 38.0 ns) | ≥ 20× | met"),
            "{page}"
        );
        assert!(page.contains("| 50000 | 50010/s | 50009/s | 20.0 µs | 8600.0 µs | 9000.0 µs |"));
    }
}
