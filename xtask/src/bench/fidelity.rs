/*!
Comparison with the runtimes' own times: the same models through this tool, and with the same library in
a bare loop over ONNX Runtime's C API, or in OpenVINO's `benchmark_app`.

The two alternate, because the machine may be shared, with the same threads and settings. The result is the ratio of
medians within a round. The noise is the interval of the true median of those ratios: no smaller difference can be
resolved on this machine. Other load only makes a query slower, so the minimum latency of each side is shown too,
which is more informative on a busy machine.
*/

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::machine::{Machine, load};
use super::{keep, write};
use crate::layout::{self, Profile};
use crate::setup;
use crate::shell::{At, Failed, cargo, command, root, say};

/// Packages of the other side, and of the program that writes the models.
const PACKAGES: &[&str] =
    &["ml_dtypes", "numpy", "onnx==1.22.0", "onnxruntime==1.28.0", "openvino==2026.4.1"];

/// Many short rounds are better than few long ones: disturbances here last longer than a round.
const ROUNDS: u32 = 21;
/// Seconds for each model and number of threads, in each round and on each side.
const SECONDS: u32 = 2;
/// Least number of rounds for an interval of 95 %.
const LEAST_ROUNDS: u32 = 6;
const THREADS: [u32; 2] = [1, 2];

struct Model {
    name: &'static str,
    /// Its inputs in the format of the bare loop and `benchmark_app`.
    bare: &'static [&'static str],
    shapes: &'static str,
    /// Its inputs in a manifest.
    manifest: &'static str,
}

const MODELS: [Model; 2] = [
    Model {
        name: "resnet50",
        bare: &["image:f32:1x3x224x224"],
        shapes: "image[1,3,224,224]",
        manifest: "[model.inputs.image]\nlow = 0\nhigh = 1\n",
    },
    Model {
        name: "bert-base",
        bare: &["input_ids:i64:1x128", "attention_mask:i64:1x128"],
        shapes: "input_ids[1,128],attention_mask[1,128]",
        manifest: "[model.inputs.input_ids]\nlow = 1\nhigh = 1\n\
                   [model.inputs.attention_mask]\nlow = 1\nhigh = 1\n",
    },
];

/// One comparison: a model at a number of threads through one runtime.
struct Compared {
    model: &'static str,
    runtime: &'static str,
    threads: u32,
    /// The other side's results of each round.
    theirs: Vec<Seen>,
    ours: Vec<Seen>,
}

/// Results of one side in one round, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Seen {
    median: f64,
    least: f64,
}

impl Seen {
    fn of(mut latencies: Vec<f64>) -> Result<Self, Failed> {
        latencies.sort_by(f64::total_cmp);
        match latencies.first() {
            Some(&least) => Ok(Self { median: median(&latencies), least }),
            None => Err(Failed::new("nothing was measured")),
        }
    }
}

const RUNTIMES: [&str; 2] = ["onnxruntime", "openvino"];

/// Options: the number of rounds, their seconds, and the runtimes.
#[derive(Debug, PartialEq)]
struct Chosen {
    rounds: u32,
    seconds: u32,
    runtimes: Vec<&'static str>,
}

fn chosen(arguments: &[String]) -> Result<Chosen, Failed> {
    let usage = || {
        Failed::new(format!(
            "usage: cargo xtask bench fidelity [--rounds N] [--seconds N] [--runtime {}], with at least \
             {LEAST_ROUNDS} rounds",
            RUNTIMES.join("|")
        ))
    };
    let mut chosen = Chosen { rounds: ROUNDS, seconds: SECONDS, runtimes: RUNTIMES.into() };
    for pair in arguments.chunks(2) {
        let [name, value] = pair else { return Err(usage()) };
        let number = value.parse();
        match (name.as_str(), number) {
            ("--rounds", Ok(number)) if number >= LEAST_ROUNDS => chosen.rounds = number,
            ("--seconds", Ok(number)) if number > 0 => chosen.seconds = number,
            ("--runtime", _) => {
                let runtime = RUNTIMES.into_iter().find(|runtime| runtime == value);
                chosen.runtimes = vec![runtime.ok_or_else(usage)?];
            }
            _ => return Err(usage()),
        }
    }
    Ok(chosen)
}

pub(super) fn prove(given: &[String]) -> Result<(), Failed> {
    let Chosen { rounds, seconds, runtimes } = chosen(given)?;
    setup::setup()?;
    let built = layout::build(Profile::Release)?;
    cargo()
        .args(["build", "--quiet", "--release", "--package", "engine-onnxruntime"])
        .args(["--example", "bare"])
        .run()?;
    let target = layout::target_folder()?;
    let bare = target.join("release/examples/bare");
    let folder = target.join("fidelity");
    let python = python(&folder.join("python"))?;
    let models = folder.join("models");
    if !MODELS.iter().all(|model| path(&models, model).is_file()) {
        say("bench: making models as large as ResNet-50 and BERT-base");
        let script = root().join("xtask/src/bench/models.py");
        command(&python).arg(script).arg(&models).arg("fp32").run()?;
    }
    let place = Place { host: built.join("host"), bare, python, models, folder, seconds };

    let machine = Machine::here();
    let before = load();
    let mut compared: Vec<Compared> = Vec::new();
    for runtime in runtimes {
        for model in &MODELS {
            for threads in THREADS {
                let model = model.name;
                let (theirs, ours) = (Vec::new(), Vec::new());
                compared.push(Compared { model, runtime, threads, theirs, ours });
            }
        }
    }
    for round in 0..rounds {
        for one in &mut compared {
            let (name, runtime, threads) = (one.model, one.runtime, one.threads);
            say(&format!(
                "bench: fidelity, round {} of {rounds}: {name}, {runtime}, {threads} threads",
                round + 1
            ));
            let model = MODELS.iter().find(|model| model.name == name).expect("it is one of them");
            // Each side goes first as often as the other, if possible.
            if round % 2 == 0 {
                one.theirs.push(place.theirs(runtime, model, threads)?);
                one.ours.push(place.ours(runtime, model, threads)?);
            } else {
                one.ours.push(place.ours(runtime, model, threads)?);
                one.theirs.push(place.theirs(runtime, model, threads)?);
            }
        }
        // Finished rounds are kept if a later one fails.
        if round + 1 >= LEAST_ROUNDS {
            let page = document(&compared, seconds, &machine.sentence(before, load()));
            keep("fidelity", &page)?;
        }
    }
    write("fidelity", &document(&compared, seconds, &machine.sentence(before, load())))
}

fn path(models: &Path, model: &Model) -> PathBuf {
    models.join(format!("{}-fp32.onnx", model.name))
}

/// Returns a Python with the packages, created below cargo's folder.
fn python(folder: &Path) -> Result<PathBuf, Failed> {
    let python = folder.join("bin/python");
    let marker = folder.join("packages");
    let wanted = PACKAGES.join("\n");
    if std::fs::read_to_string(&marker).is_ok_and(|installed| installed == wanted) {
        return Ok(python);
    }
    say(&format!("bench: installing {} into a folder of its own", PACKAGES.join(", ")));
    command("python3").args(["-m", "venv"]).arg(folder).run()?;
    command(&python).args(["-m", "pip", "install", "--quiet"]).args(PACKAGES).run()?;
    std::fs::write(&marker, wanted).at(&marker)?;
    Ok(python)
}

struct Place {
    host: PathBuf,
    bare: PathBuf,
    python: PathBuf,
    models: PathBuf,
    folder: PathBuf,
    seconds: u32,
}

impl Place {
    /// Returns the folder of a package among those of the Python.
    fn package(&self, name: &str) -> Result<PathBuf, Failed> {
        let script = format!("import {name}, os; print(os.path.dirname({name}.__file__))");
        let text = command(&self.python)
            .env("ORT_DISABLE_TELEMETRY", "1")
            .args(["-c", script.as_str()])
            .read()?;
        Ok(text.trim().into())
    }

    /// Returns the runtime of a backend: the same library that the other side uses.
    fn runtime(&self, runtime: &str) -> Result<PathBuf, Failed> {
        Ok(match runtime {
            "onnxruntime" => self.package("onnxruntime")?.join("capi/libonnxruntime.so.1.28.0"),
            _ => self.package("openvino")?.join("libs"),
        })
    }

    /// Measures without this tool.
    fn theirs(&self, runtime: &str, model: &Model, threads: u32) -> Result<Seen, Failed> {
        let (path, threads) = (path(&self.models, model), threads.to_string());
        if runtime == "onnxruntime" {
            let text = command(&self.bare)
                .env("ORT_DISABLE_TELEMETRY", "1")
                .arg(self.runtime(runtime)?)
                .arg(path)
                .args([threads, self.seconds.to_string()])
                .args(model.bare)
                .read()?;
            return seen_in_line(&text);
        }
        let application = self.python.with_file_name("benchmark_app");
        let text = command(application)
            .arg("-m")
            .arg(path)
            .args(["-d", "CPU", "-api", "sync", "-nireq", "1", "-nstreams", "1"])
            .args(["-hint", "none", "-infer_precision", "f32", "-shape", model.shapes])
            .args(["-nthreads", threads.as_str(), "-t", self.seconds.to_string().as_str()])
            .read()?;
        seen_by_application(&text)
    }

    /// Measures through `host run`.
    fn ours(&self, runtime: &str, model: &Model, threads: u32) -> Result<Seen, Failed> {
        let manifest = self.folder.join("manifest.toml");
        let path = path(&self.models, model);
        let (backend, options) = match runtime {
            "onnxruntime" => ("cpu", "options = { engine = \"onnxruntime\" }\n"),
            _ => ("openvino", ""),
        };
        let device = if backend == "cpu" { "cpu:0" } else { "auto" };
        let text = format!(
            "schema = 1\n\n[experiment]\nname = \"fidelity\"\n\n[[model]]\nid = {:?}\npath = {:?}\n{}\n\
             [[backend]]\nid = \"{backend}\"\ndevice = \"{device}\"\nthreads = {threads}\n{options}\n\
             [matrix]\nbatch = [1]\nsequence-length = [128]\n\n\
             [measure]\nwarm-up = \"500ms\"\nduration = \"{}s\"\nminimum-queries = 5\n\n\
             [[metric]]\nplugin = \"latency\"\n",
            model.name,
            path.display().to_string(),
            model.manifest,
            self.seconds,
        );
        // Only models with a sequence have a sequence length.
        let text = match model.name {
            "bert-base" => text,
            _ => text.replace("sequence-length = [128]\n", ""),
        };
        std::fs::write(&manifest, text).at(&manifest)?;
        let results = self.folder.join("results");
        if results.exists() {
            std::fs::remove_dir_all(&results).at(&results)?;
        }
        let variable = format!("TARE_RUNTIME_{}", backend.to_uppercase());
        let library = self.runtime(runtime)?;
        let host = || command(&self.host).env(&variable, &library).arg("--results").arg(&results);
        host().args(["--quiet", "run"]).arg(&manifest).read()?;
        let query = "SELECT latency_ns FROM raw_benchmark_data WHERE phase = 'measured'";
        let text = host().args(["--format", "json", "results", "query", query]).read()?;
        let rows: Value = serde_json::from_str(&text)
            .map_err(|error| Failed::new(format!("the answer of `host results query`: {error}")))?;
        let latencies = rows.as_array().into_iter().flatten();
        Seen::of(latencies.filter_map(|row| row["latency_ns"].as_f64()).collect())
    }
}

/// Returns the median of sorted values, which must not be empty.
fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    match sorted.len() % 2 {
        1 => sorted[middle],
        _ => (sorted[middle - 1] + sorted[middle]) / 2.0,
    }
}

fn seen_in_line(line: &str) -> Result<Seen, Failed> {
    let value: Value = serde_json::from_str(line)
        .map_err(|error| Failed::new(format!("the bare loop's answer: {error}")))?;
    let latencies = value["latencies_ns"].as_array().into_iter().flatten();
    Seen::of(latencies.filter_map(Value::as_f64).collect())
}

/// Parses lines such as `[ INFO ]    Median:        12.34 ms`.
fn seen_by_application(text: &str) -> Result<Seen, Failed> {
    let value_of = |name: &str| {
        let found = text.lines().find_map(|line| {
            let (_, rest) = line.split_once(name)?;
            rest.trim().strip_suffix("ms")?.trim().parse::<f64>().ok()
        });
        let missing = || Failed::new(format!("benchmark_app told no `{name}`:\n{text}"));
        found.map(|milliseconds| milliseconds * 1e6).ok_or_else(missing)
    };
    Ok(Seen { median: value_of("Median:")?, least: value_of("Min:")? })
}

/// Returns how many ratios, on either side, are outside an interval that covers their true median in at
/// least 95 % of runs, and the confidence of that interval: the median lies below the k-th smallest value
/// if fewer than k of n are below it, each with a probability of one half.
fn left_out(rounds: usize) -> (usize, f64) {
    let (mut below, mut chance) = (0.0, 0.5_f64.powi(rounds as i32));
    let (mut out, mut confidence) = (0, 1.0 - 2.0 * chance);
    for taken in 1..=rounds / 2 {
        below += chance;
        if 1.0 - 2.0 * below < 0.95 {
            break;
        }
        (out, confidence) = (taken - 1, 1.0 - 2.0 * below);
        chance *= (rounds - taken + 1) as f64 / taken as f64;
    }
    (out, confidence)
}

fn document(compared: &[Compared], seconds: u32, machine: &str) -> String {
    let rounds = compared.first().map_or(0, |one| one.ours.len());
    let (out, confidence) = left_out(rounds);
    let confidence = 100.0 * confidence;
    let mut rows = String::new();
    for one in compared {
        let sorted = |values: &mut dyn Iterator<Item = f64>| {
            let mut values: Vec<f64> = values.collect();
            values.sort_by(f64::total_cmp);
            values
        };
        let differences = sorted(
            &mut one
                .ours
                .iter()
                .zip(&one.theirs)
                .map(|(ours, theirs)| ours.median / theirs.median - 1.0),
        );
        let difference = median(&differences);
        let (low, high) = (differences[out], differences[differences.len() - 1 - out]);
        let verdict = match difference.abs() {
            size if size <= 0.01 => "within 1 %",
            _ if (low..=high).contains(&0.0) => "within the noise",
            _ => "**apart**",
        };
        let middle = |seen: &[Seen]| median(&sorted(&mut seen.iter().map(|seen| seen.median)));
        let least =
            |seen: &[Seen]| seen.iter().map(|seen| seen.least).fold(f64::INFINITY, f64::min);
        let _ = writeln!(
            rows,
            "| {} | {} | {} | {:.3} ms | {:.3} ms | {:+.2} % | {:+.2} to {:+.2} % | {verdict} | \
             {:.3} ms | {:.3} ms | {:+.2} % |",
            one.model,
            match one.runtime {
                "onnxruntime" => "ONNX Runtime 1.28.0, bare loop",
                _ => "OpenVINO 2026.4.1, benchmark_app",
            },
            one.threads,
            middle(&one.theirs) / 1e6,
            middle(&one.ours) / 1e6,
            100.0 * difference,
            100.0 * low,
            100.0 * high,
            least(&one.theirs) / 1e6,
            least(&one.ours) / 1e6,
            100.0 * (least(&one.ours) / least(&one.theirs) - 1.0),
        );
    }
    format!(
        "# Whether a number is the runtime's own\n\n\
         `cargo xtask bench fidelity` writes this page. Two models with drawn weights, as large as ResNet-50 \
         and BERT-base (sequence of 128), in fp32, batch 1, single-stream, are measured through this tool and \
         by the same library without it: ONNX Runtime in a bare loop of its C API, with all optimisations \
         and without spinning on both sides, and OpenVINO by its own `benchmark_app` (`-api sync -nireq 1 \
         -nstreams 1 -hint none -infer_precision f32`). {rounds} rounds of {seconds} s each, in turns, each in \
         a process of its own.\n\n\
         *Difference* is the median over rounds of the ratio of medians, less one; *noise* is the interval \
         of {confidence:.0} % confidence around it: the ratios without the {out} least and the {out} most. The target: \
         within 1 %, or with 0 in that interval. *Least* is the fastest query of all rounds: other work on the \
         machine only ever makes queries slower, so these are the least disturbed, and the more telling the \
         wider the interval is. Columns are medians of their own, whose ratio need not be the median of ratios. \
         Where an interval is wide, this page says that nothing larger was seen, and not that there is nothing.\n\n\
         {machine}\n\n\
         | model | compared with | threads | theirs | ours | difference | noise | | theirs, least | ours, least | difference of least |\n\
         |---|---|--:|--:|--:|--:|--:|---|--:|--:|--:|\n{rows}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_from_what_the_others_print() {
        let seen = |median, least| Some(Seen { median, least });
        assert_eq!(seen_in_line("{\"latencies_ns\": [3, 1, 2]}").ok(), seen(2.0, 1.0));
        assert_eq!(seen_in_line("{\"latencies_ns\": [4, 1]}").ok(), seen(2.5, 1.0));
        assert!(seen_in_line("{\"latencies_ns\": []}").is_err());
        let text = "[ INFO ] Latency:\n[ INFO ]    Median:        12.34 ms\n[ INFO ]    Min: 1 ms";
        assert_eq!(seen_by_application(text).ok(), seen(12.34e6, 1e6));
        assert!(seen_by_application("[ ERROR ]").is_err());
    }

    #[test]
    fn intervals_of_medians_are_those_of_the_tables_for_the_sign_test() {
        // W. J. Conover, "Practical Nonparametric Statistics", 1999, table A3: 6, 9 and 21 observations.
        let rounded = |rounds| {
            let (out, confidence) = left_out(rounds);
            (out, (1e4 * confidence).round())
        };
        assert_eq!([6, 9, 21].map(rounded), [(0, 9688.0), (1, 9609.0), (5, 9734.0)]);
    }

    #[test]
    fn rounds_and_seconds_can_be_chosen() {
        let of = |given: &[&str]| {
            chosen(&given.iter().map(|&one| one.to_owned()).collect::<Vec<_>>()).ok()
        };
        let all = Chosen { rounds: ROUNDS, seconds: SECONDS, runtimes: RUNTIMES.into() };
        assert_eq!(of(&[]), Some(all));
        let few = Chosen { rounds: 6, seconds: 1, runtimes: vec!["openvino"] };
        assert_eq!(of(&["--seconds", "1", "--rounds", "6", "--runtime", "openvino"]), Some(few));
        for wrong in [
            &["--rounds"][..],
            &["--rounds", "5"],
            &["--seconds", "0"],
            &["--runtime", "cuda"],
            &["--minutes", "3"],
        ] {
            assert_eq!(of(wrong), None);
        }
    }

    #[test]
    fn a_difference_is_judged_by_the_noise_where_that_is_larger() {
        let seen = |values: [f64; 9]| {
            values.map(|value| Seen { median: value * 1e6, least: value * 9e5 }).to_vec()
        };
        let row = |ours: [f64; 9]| {
            let (theirs, ours) = (seen([10.0; 9]), seen(ours));
            let (model, runtime) = ("resnet50", "onnxruntime");
            document(&[Compared { model, runtime, threads: 1, theirs, ours }], 2, "Measured here.")
        };
        assert!(row([10.05; 9]).contains("| within 1 % |"));
        assert!(
            row([9.0, 9.5, 9.8, 10.1, 10.3, 10.3, 10.4, 10.5, 11.0])
                .contains("| within the noise |")
        );
        assert!(
            row([9.0, 10.1, 10.2, 10.2, 10.3, 10.3, 10.4, 10.5, 11.0]).contains("| **apart** |")
        );
    }
}
