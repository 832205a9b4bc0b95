/*!
How often pairs find a planted difference, and how often they find one that is not there.

The plugin `fault` computes given numbers in each run. Each pair has two backends of it, the second of which computes 0, 1, 2
or 5 % fewer. Waiting for a given time would not do: it takes the same time on a processor that is slow. A run of the tool measures many pairs, one for each batch size, which changes nothing for this plugin. And the
plugin `cpu` is built twice, the second time for newer processors, and the two builds are compared on a model.

`cargo xtask bench pairs [--trials N] [--at-once N]` measures so many pairs of each kind (default 200), and so many runs of
the tool at the same time (default 1).
*/

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::time::Instant;

use serde_json::Value;

use super::machine::{Machine, load};
use super::write;
use crate::layout::{self, Profile};
use crate::setup;
use crate::shell::{At, Failed, cargo, command, root, say};

const TRIALS: usize = 200;

/// Numbers that a run of the first side computes, which takes some 100 µs.
const FIRST: u64 = 20_000;

/// Differences in per cent.
const PLANTED: [u64; 4] = [0, 1, 2, 5];

/// One pair.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Trial {
    processes: u64,
    ratio: f64,
    interval: Option<[f64; 2]>,
    is_different: bool,
    rounds: u64,
    block_ns: u64,
    handover_ns: u64,
    deviation: f64,
}

/// The pairs of one kind.
struct Kind {
    planted: u64,
    trials: Vec<Trial>,
    seconds: f64,
}

pub(super) fn prove(arguments: &[String]) -> Result<(), Failed> {
    let (mut trials, mut at_once) = (TRIALS, 1);
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let number = match argument.as_str() {
            "--trials" => &mut trials,
            "--at-once" => &mut at_once,
            unknown => return Err(Failed::new(format!("`{unknown}` means nothing to this bench"))),
        };
        let value = rest.next().and_then(|text| text.parse().ok()).filter(|&value| value > 0);
        *number = value.ok_or_else(|| Failed::new(format!("`{argument}` needs a number")))?;
    }
    setup::setup()?;
    let built = layout::build(Profile::Release)?;
    let place = std::env::temp_dir().join(format!("tare-pairs-{}", std::process::id()));
    fs::create_dir_all(&place).at(&place)?;
    let (machine, before) = (Machine::here(), load());
    let kinds = planted(&built, &place, trials, at_once)?;
    say("bench: two builds of the plugin `cpu`");
    let builds = two_builds(&built, &place)?;
    let page = document(&kinds, &builds, at_once, &machine.sentence(before, load()));
    fs::remove_dir_all(&place).at(&place)?;
    write("pairs", &page)
}

/// Pairs of a run of the tool: enough that its start does not count, and few enough that all kinds share what else the
/// machine does.
const PAIRS_OF_A_RUN: usize = 25;

/// Measures pairs of all kinds, in runs that take turns.
fn planted(built: &Path, place: &Path, trials: usize, at_once: usize) -> Result<Vec<Kind>, Failed> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for start in (0..trials).step_by(PAIRS_OF_A_RUN) {
        let pairs = PAIRS_OF_A_RUN.min(trials - start);
        runs.extend((0..PLANTED.len()).map(|kind| (kind, pairs)));
    }
    runs.reverse();
    let empty = |planted| Kind { planted, trials: Vec::new(), seconds: 0.0 };
    let (queue, total) = (Mutex::new(runs), trials * PLANTED.len());
    let kinds = Mutex::new(PLANTED.map(empty).into_iter().collect::<Vec<Kind>>());
    std::thread::scope(|scope| {
        let work = |worker: usize| -> Result<(), Failed> {
            let place = place.join(format!("worker-{worker}"));
            fs::create_dir_all(&place).at(&place)?;
            while let Some((kind, pairs)) = queue.lock().ok().and_then(|mut queue| queue.pop()) {
                let (manifest, start) = (place.join("planted.toml"), Instant::now());
                fs::write(&manifest, planted_manifest(PLANTED[kind], pairs)).at(&manifest)?;
                let measured = measure(built, &place, &manifest)?;
                let Ok(mut kinds) = kinds.lock() else { break };
                kinds[kind].trials.extend(measured);
                kinds[kind].seconds += start.elapsed().as_secs_f64();
                let done: usize = kinds.iter().map(|kind| kind.trials.len()).sum();
                say(&format!("bench: {done} of {total} pairs"));
            }
            Ok(())
        };
        let workers: Vec<_> =
            (0..at_once).map(|worker| scope.spawn(move || work(worker))).collect();
        workers.into_iter().try_for_each(|worker| {
            worker.join().unwrap_or_else(|_| Err(Failed::new("a thread of the bench panicked")))
        })
    })?;
    kinds.into_inner().map_err(|_| Failed::new("a thread of the bench panicked"))
}

fn planted_manifest(planted: u64, trials: usize) -> String {
    let model = root().join("manifests/data/digits.onnx");
    let backend = |id: &str, iterations: u64| {
        format!(
            "[[backend]]\nid = \"{id}\"\nplugin = \"fault\"\n\
             threads = 1\noptions = {{ fault = \"work\", fault-iterations = {iterations} }}\n"
        )
    };
    let batches: Vec<String> = (1..=trials).map(|batch| batch.to_string()).collect();
    format!(
        "schema = 1\nexperiment = {{ name = \"pairs\" }}\n\
         [[model]]\nid = \"m\"\npath = \"{}\"\n{}{}[matrix]\nbatch = [{}]\n\
         [measure]\norder = \"paired\"\npair = [\"a\", \"b\"]\nwarm-up = \"10ms\"\n\
         [[metric]]\nplugin = \"throughput\"\n[[report]]\nplugin = \"json\"\n",
        model.display(),
        backend("a", FIRST),
        backend("b", FIRST * (100 - planted) / 100),
        batches.join(", "),
    )
}

/// Level of the instruction set that the second build of `cpu` may use: the usual one may use the first.
const LEVEL: &str = "x86-64-v3";

/// Builds `cpu` for newer processors, and compares it with the usual build.
fn two_builds(built: &Path, place: &Path) -> Result<Vec<Trial>, Failed> {
    let target = layout::target_folder()?.join(LEVEL);
    if layout::prebuilt().is_none() {
        cargo()
            .args(["build", "--release", "--package=backend-cpu", "--target-dir"])
            .arg(&target)
            .env("RUSTFLAGS", format!("-C target-cpu={LEVEL}"))
            .run()?;
    }
    let folders = ["usual", "newer"].map(|name| place.join(name));
    let libraries =
        [built.join("plugins/cpu/libbackend_cpu.so"), target.join("release/libbackend_cpu.so")];
    for (folder, library) in folders.iter().zip(&libraries) {
        fs::create_dir_all(folder).at(folder)?;
        for file in [library, &built.join("plugins/cpu/plugin.toml")] {
            let to = folder.join(file.file_name().unwrap_or_default());
            fs::copy(file, &to).at(file)?;
        }
    }
    let backend = |id: &str, folder: &Path| {
        format!(
            "[[backend]]\nid = \"{id}\"\nplugin = \"cpu\"\nfolder = \"{}\"\nthreads = 1\n",
            folder.display()
        )
    };
    let [usual, newer] = &folders;
    let manifest = place.join("builds.toml");
    let text = format!(
        "schema = 1\nexperiment = {{ name = \"builds\" }}\n\
         [[model]]\nid = \"digits\"\npath = \"{}\"\n{}{}[matrix]\nbatch = [1, 8, 64]\n\
         [measure]\norder = \"paired\"\npair = [\"usual\", \"newer\"]\n\
         [[metric]]\nplugin = \"throughput\"\n[[report]]\nplugin = \"json\"\n",
        root().join("manifests/data/digits.onnx").display(),
        backend("usual", usual),
        backend("newer", newer),
    );
    fs::write(&manifest, text).at(&manifest)?;
    for folder in &folders {
        let trust = host(built, place).args(["plugins", "trust", "cpu", "--plugins"]);
        trust.arg(folder).run()?;
    }
    measure(built, place, &manifest)
}

/// Returns the command line of the tool, with folders of its own for everything that it keeps.
fn host(built: &Path, place: &Path) -> crate::shell::Program {
    command(built.join("host"))
        .env("XDG_CONFIG_HOME", place.join("config"))
        .env("XDG_DATA_HOME", place.join("data"))
        .env("XDG_CACHE_HOME", place.join("cache"))
}

fn measure(built: &Path, place: &Path, manifest: &Path) -> Result<Vec<Trial>, Failed> {
    let line = host(built, place).arg("--results").arg(place.join("results"));
    let text = line.args(["--quiet", "--format", "json", "run"]).arg(manifest).read()?;
    let answer: Value = serde_json::from_str(&text)
        .map_err(|error| Failed::new(format!("the answer of `host`: {error}: {text}")))?;
    let cases = answer["cases"].as_array().into_iter().flatten();
    let paired = cases.map(|case| &case["paired"]).filter(|paired| paired["side"] == "second");
    let trials: Option<Vec<Trial>> = paired.map(trial).collect();
    trials
        .filter(|trials| !trials.is_empty())
        .ok_or_else(|| Failed::new(format!("`host run` answered without pairs: {text}")))
}

fn trial(paired: &Value) -> Option<Trial> {
    let result = &paired["result"];
    let interval = &result["interval"];
    Some(Trial {
        processes: result["processes"].as_u64()?,
        ratio: result["ratio"].as_f64()?,
        interval: interval[0].as_f64().zip(interval[1].as_f64()).map(|(low, high)| [low, high]),
        is_different: result["end"] == "differs",
        rounds: paired["rounds"].as_u64()?,
        block_ns: paired["block-ns"].as_u64()?,
        handover_ns: paired["handover-ns"].as_u64()?,
        deviation: result["deviation"].as_f64()?,
    })
}

/// Returns a quantile of some figure of the trials.
fn quantile(trials: &[Trial], part: f64, of: impl Fn(&Trial) -> f64) -> f64 {
    let mut values: Vec<f64> = trials.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    let index = (part * values.len() as f64).ceil() as usize;
    values.get(index.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

fn row(kind: &Kind) -> String {
    let Kind { planted, trials, seconds } = kind;
    let found = trials.iter().filter(|trial| trial.is_different).count();
    let wrong = trials
        .iter()
        .filter(|trial| trial.is_different && trial.ratio > 1.0 && *planted > 0)
        .count();
    let truth = 1.0 - *planted as f64 / 100.0;
    let covered = trials
        .iter()
        .filter(|trial| trial.interval.is_some_and(|[low, high]| low <= truth && truth <= high));
    let processes = |part: f64| quantile(trials, part, |trial| trial.processes as f64);
    format!(
        "| {planted} % | {} | {found} | {wrong} | {} | {:.0} ({:.0}) | {:+.2} % | {:.2} % | {:.1} s |\n",
        trials.len(),
        covered.count(),
        processes(0.5),
        processes(0.9),
        100.0 * (quantile(trials, 0.5, |trial| trial.ratio) - 1.0),
        100.0 * quantile(trials, 0.5, |trial| trial.deviation),
        seconds / trials.len() as f64,
    )
}

fn document(kinds: &[Kind], builds: &[Trial], at_once: usize, machine: &str) -> String {
    let mut rows = String::new();
    for kind in kinds {
        rows.push_str(&row(kind));
    }
    let all: Vec<Trial> = kinds.iter().flat_map(|kind| kind.trials.iter().copied()).collect();
    let milliseconds = |of: fn(&Trial) -> u64| quantile(&all, 0.5, |trial| of(trial) as f64) / 1e6;
    let beside = match at_once {
        1 => "One pair was measured at a time.".to_owned(),
        many => format!("{many} pairs were measured at the same time."),
    };
    let mut of_builds = String::new();
    for (batch, trial) in [1, 8, 64].iter().zip(builds) {
        let change = |ratio: f64| format!("{:+.1} %", 100.0 * (ratio - 1.0));
        let interval = trial.interval.map_or_else(
            || "none".to_owned(),
            |[low, high]| format!("{} to {}", change(low), change(high)),
        );
        let _ = writeln!(
            of_builds,
            "| {batch} | {} | {interval} | {} | {} |",
            change(trial.ratio),
            trial.processes,
            if trial.is_different { "differs" } else { "does not" }
        );
    }
    format!(
        "# What pairs find\n\n\
         `cargo xtask bench pairs` measures pairs whose sides differ by a known amount, and writes this page. The plugin \
         `fault` computes {FIRST} numbers in a run, one from the other, and that of the second side so many fewer. A pair is measured at 99.5 % until it \
         tells, in up to 60 processes of each side of 100 ms each, with a warm-up of 10 ms. [The design](../design/pairs.md) \
         says how. {beside}\n\n{machine}\n\n\
         | planted | pairs | found different | in the wrong direction | interval has the truth | processes: median (p90) | \
         median change | deviation of a process | time of a pair |\n\
         |--:|--:|--:|--:|--:|--:|--:|--:|--:|\n{rows}\n\
         Found different at 0 % is a false alarm. Blocks were {:.1} ms long, {:.0} rounds in a process, and a handover took \
         {:.2} ms (medians).\n\n\
         ## Two builds of one plugin\n\n\
         The plugin `cpu`, as it is packaged and built for newer processors (`target-cpu={LEVEL}`), by their folders, on the model of the quickstart with one thread. The change is that of the second build's time per \
         query.\n\n\
         | batch | change | interval | processes | differs from the first |\n|--:|--:|---|--:|---|\n{of_builds}",
        milliseconds(|trial| trial.block_ns),
        quantile(&all, 0.5, |trial| trial.rounds as f64),
        milliseconds(|trial| trial.handover_ns),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(ratio: f64, is_different: bool) -> Trial {
        Trial {
            processes: 12,
            ratio,
            interval: Some([ratio - 0.005, ratio + 0.005]),
            is_different,
            rounds: 5,
            block_ns: 2_000_000,
            handover_ns: 200_000,
            deviation: 0.004,
        }
    }

    #[test]
    fn a_pair_is_read_from_the_answer_of_the_tool() {
        let paired = serde_json::json!({
            "side": "second", "rounds": 5, "block-ns": 2_000_000, "handover-ns": 200_000,
            "result": {
                "processes": 12, "ratio": 1.02, "interval": [1.015, 1.025], "deviation": 0.004,
                "end": "differs",
            },
        });
        let found = trial(&paired).expect("a pair");
        assert_eq!(found.interval, Some([1.015, 1.025]));
        assert_eq!(Trial { interval: None, ..found }, Trial { interval: None, ..of(1.02, true) });
        assert_eq!(trial(&serde_json::json!({})), None);
    }

    #[test]
    fn rows_count_what_was_found() {
        let trials = vec![of(0.989, true), of(1.01, true), of(0.996, false)];
        let kind = Kind { planted: 1, trials, seconds: 6.0 };
        assert_eq!(row(&kind), "| 1 % | 3 | 2 | 1 | 1 | 12 (12) | -0.40 % | 0.40 % | 2.0 s |\n");
    }
}
