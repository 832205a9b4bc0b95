/*!
Whether a number is the runtime's own: the same models through this tool, and by the same library without it.

Two comparisons. The tool's own loop and a bare loop over the runtime's C interface take turns of some milliseconds in one
process, so that disturbances hit both alike; each round is such a process, since where a process has its memory shifts
a latency by a per cent. And the whole of `host run` is compared with OpenVINO's own `benchmark_app`, in processes of their
own.

This is a test of equivalence: the interval of the true median ratio over rounds must lie within the limit. A wide
interval says that nothing was shown.
*/

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::machine::{Machine, load};
use super::{keep, write};
use crate::layout::{self, Profile};
use crate::python;
use crate::setup;
use crate::shell::{At, Failed, command, root, say};

/// Packages of the other side, and of the program that writes the models.
const PACKAGES: &[&str] =
    &["ml_dtypes", "numpy", "onnx==1.22.0", "onnxruntime==1.28.0", "openvino==2026.4.1"];

/// Many short rounds are better than few long ones: disturbances here last longer than a round.
const ROUNDS: u32 = 15;
/// Of each model at each number of threads in each round: of both sides together in one process, else of each.
const SECONDS: u32 = 4;
/// Largest difference that counts as none.
const LIMIT: f64 = 0.01;
/// Fewer rounds have no interval of 95 %.
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

const MODELS: [Model; 3] = [
    // Some 50 to 100 µs: what the tool itself takes would be seen here first.
    Model {
        name: "digits",
        bare: &["image:f32:1x1x8x8"],
        shapes: "image[1,1,8,8]",
        manifest: "[model.inputs.image]\nlow = 0\nhigh = 16\n",
    },
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

/// One comparison: a model at a number of threads.
struct Compared {
    model: &'static str,
    with: &'static str,
    /// The same for readers, with the version.
    theirs: String,
    threads: u32,
    /// Of each round.
    seen: Vec<Seen>,
}

/// Results of one round.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Seen {
    /// Our latency over theirs.
    ratio: f64,
    /// Median latencies in nanoseconds.
    ours: f64,
    theirs: f64,
}

/// Names of the comparisons.
const RUNTIMES: [&str; 3] = ["onnxruntime", "openvino", "benchmark_app"];

/// Options: the number of rounds, their seconds, the runtimes and the models.
struct Chosen {
    rounds: u32,
    seconds: u32,
    runtimes: Vec<&'static str>,
    models: Vec<&'static Model>,
}

fn chosen(arguments: &[String]) -> Result<Chosen, Failed> {
    let usage = || {
        Failed::new(format!(
            "usage: cargo xtask bench fidelity [--rounds N] [--seconds N] [--runtime {}] … [--model {}] …, with at least \
             {LEAST_ROUNDS} rounds",
            RUNTIMES.join("|"),
            MODELS.each_ref().map(|model| model.name).join("|"),
        ))
    };
    let (mut runtimes, mut models) = (Vec::new(), Vec::new());
    let mut chosen = Chosen {
        rounds: ROUNDS,
        seconds: SECONDS,
        runtimes: RUNTIMES.into(),
        models: MODELS.iter().collect(),
    };
    for pair in arguments.chunks(2) {
        let [name, value] = pair else { return Err(usage()) };
        let number = value.parse();
        match (name.as_str(), number) {
            ("--rounds", Ok(number)) if number >= LEAST_ROUNDS => chosen.rounds = number,
            ("--seconds", Ok(number)) if number > 0 => chosen.seconds = number,
            ("--runtime", _) => {
                let runtime = RUNTIMES.into_iter().find(|runtime| runtime == value);
                runtimes.push(runtime.ok_or_else(usage)?);
            }
            ("--model", _) => {
                let model = MODELS.iter().find(|model| model.name == value);
                models.push(model.ok_or_else(usage)?);
            }
            _ => return Err(usage()),
        }
    }
    if !runtimes.is_empty() {
        chosen.runtimes = runtimes;
    }
    if !models.is_empty() {
        chosen.models = models;
    }
    Ok(chosen)
}

pub(super) fn prove(given: &[String]) -> Result<(), Failed> {
    let Chosen { rounds, seconds, runtimes, models: wanted } = chosen(given)?;
    setup::setup()?;
    let built = layout::build(Profile::Release)?;
    let examples =
        [("engine-onnxruntime", "onnxruntime_paired"), ("backend-openvino", "openvino_paired")];
    for (package, example) in examples {
        layout::build_example(package, example)?;
    }
    let target = layout::target_folder()?;
    let folder = target.join("fidelity");
    let python = python::with_packages(&folder.join("python"), PACKAGES)?;
    let models = folder.join("models");
    if !wanted.iter().all(|model| path(&models, model).is_file()) {
        say("bench: making models as large as ResNet-50 and BERT-base");
        let script = root().join("xtask/src/bench/models.py");
        command(&python).arg(script).arg(&models).arg("fp32").run()?;
    }
    let examples = target.join("release/examples");
    let place = Place { built, examples, python, models, folder, seconds };

    let machine = Machine::here();
    let before = load();
    let mut compared: Vec<(&Model, Compared)> = Vec::new();
    for with in runtimes {
        let theirs = match with {
            "onnxruntime" => {
                let library = place.onnxruntime()?;
                let version = version_of_onnxruntime(&library).unwrap_or("of no known version");
                format!("ONNX Runtime {version}, bare loop, one process")
            }
            "openvino" => "OpenVINO 2026.4.1, bare loop, one process".into(),
            _ => "OpenVINO 2026.4.1, `benchmark_app`, two processes".into(),
        };
        for &model in &wanted {
            for threads in THREADS {
                let (theirs, seen) = (theirs.clone(), Vec::new());
                let one = Compared { model: model.name, with, theirs, threads, seen };
                compared.push((model, one));
            }
        }
    }
    let page = |compared: &[(&Model, Compared)]| {
        let all = compared.iter().map(|(_, one)| one);
        document(all, rounds, seconds, &machine.sentence(before, load()))
    };
    for round in 0..rounds {
        for (model, Compared { with, threads, seen, .. }) in &mut compared {
            say(&format!(
                "bench: fidelity, round {} of {rounds}: {}, {with}, {threads} threads",
                round + 1,
                model.name
            ));
            // Each side goes first as often as the other, as near as may be.
            let we_are_first = round % 2 == 0;
            seen.push(match *with {
                "benchmark_app" => place.apart(we_are_first, model, *threads)?,
                with => place.paired(with, we_are_first, model, *threads)?,
            });
        }
        // A later round that fails does not lose the earlier ones.
        if round + 1 >= LEAST_ROUNDS {
            keep("fidelity", &page(&compared))?;
        }
    }
    write("fidelity", &page(&compared))
}

fn path(models: &Path, model: &Model) -> PathBuf {
    match model.name {
        "digits" => root().join("manifests/data/digits.onnx"),
        name => models.join(format!("{name}-fp32.onnx")),
    }
}

struct Place {
    /// The folder of the built tool.
    built: PathBuf,
    examples: PathBuf,
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

    /// Returns the library of the package, whose version is in its name.
    fn onnxruntime(&self) -> Result<PathBuf, Failed> {
        let folder = self.package("onnxruntime")?.join("capi");
        let entries = std::fs::read_dir(&folder).at(&folder)?;
        let mut paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let library = paths.find(|path| version_of_onnxruntime(path).is_some());
        library.ok_or_else(|| Failed::new(format!("no libonnxruntime.so in {}", folder.display())))
    }

    /// Measures both sides in one process.
    fn paired(
        &self,
        runtime: &str,
        we_are_first: bool,
        model: &Model,
        threads: u32,
    ) -> Result<Seen, Failed> {
        let first = if we_are_first { "ours" } else { "bare" };
        let program = command(self.examples.join(format!("{runtime}_paired")))
            .env("ORT_DISABLE_TELEMETRY", "1")
            .arg(first);
        let (threads, seconds) = (threads.to_string(), self.seconds.to_string());
        let path = path(&self.models, model);
        let text = match runtime {
            "onnxruntime" => {
                let library = self.onnxruntime()?;
                let plugin = self.built.join("plugins/cpu/libbackend_cpu.so");
                program
                    .env("TARE_RUNTIME", &library)
                    .args([plugin, library, path])
                    .args([threads, seconds])
                    .args(model.bare)
                    .read()?
            }
            _ => {
                let shapes = model.bare.iter().filter_map(|input| input.split(':').nth(2));
                program
                    .env("TARE_RUNTIME", self.package("openvino")?.join("libs"))
                    .arg(path)
                    .args([threads, seconds])
                    .args(shapes)
                    .read()?
            }
        };
        seen_in_line(&text)
    }

    /// Measures through `host run` and by `benchmark_app`, in processes of their own.
    fn apart(&self, we_are_first: bool, model: &Model, threads: u32) -> Result<Seen, Failed> {
        let early = we_are_first.then(|| self.ours(model, threads)).transpose()?;
        let theirs = self.theirs(model, threads)?;
        let ours = early.map_or_else(|| self.ours(model, threads), Ok)?;
        Ok(Seen { ratio: ours / theirs, ours, theirs })
    }

    /// Returns the median latency that `benchmark_app` reports, in nanoseconds.
    fn theirs(&self, model: &Model, threads: u32) -> Result<f64, Failed> {
        let application = self.python.with_file_name("benchmark_app");
        let text = command(application)
            .arg("-m")
            .arg(path(&self.models, model))
            .args(["-d", "CPU", "-api", "sync", "-nireq", "1", "-nstreams", "1"])
            .args(["-hint", "none", "-infer_precision", "f32", "-shape", model.shapes])
            .args(["-nthreads", &threads.to_string(), "-t", &self.seconds.to_string()])
            .read()?;
        median_of_application(&text)
    }

    /// Returns the median latency that `host run` measures, in nanoseconds.
    fn ours(&self, model: &Model, threads: u32) -> Result<f64, Failed> {
        let manifest = self.folder.join("manifest.toml");
        let text = format!(
            "schema = 1\n\n[experiment]\nname = \"fidelity\"\n\n[[model]]\nid = {:?}\npath = {:?}\n{}\n\
             [[backend]]\nid = \"openvino\"\ndevice = \"auto\"\nthreads = {threads}\n\n\
             [matrix]\nbatch = [1]\nsequence-length = [128]\n\n\
             [measure]\nwarm-up = \"500ms\"\nduration = \"{}s\"\nminimum-queries = 5\n\n\
             [[metric]]\nplugin = \"latency\"\n",
            model.name,
            path(&self.models, model).display().to_string(),
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
        let library = self.package("openvino")?.join("libs");
        let program = self.built.join("host");
        let host = || {
            command(&program).env("TARE_RUNTIME_OPENVINO", &library).arg("--results").arg(&results)
        };
        host().args(["--quiet", "run"]).arg(&manifest).read()?;
        let query = "SELECT median(latency_ns) FROM raw_benchmark_data WHERE phase = 'measured'";
        let text = host().args(["--format", "csv", "results", "query", query]).read()?;
        let value = text.lines().nth(1).and_then(|value| value.parse().ok());
        value.ok_or_else(|| Failed::new(format!("the answer of `host results query`: {text}")))
    }
}

/// Returns the version in the name of a library such as `libonnxruntime.so.1.28.0`.
fn version_of_onnxruntime(library: &Path) -> Option<&str> {
    library.file_name()?.to_str()?.strip_prefix("libonnxruntime.so.")
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
        .map_err(|error| Failed::new(format!("the answer of the paired loops: {error}")))?;
    let number = |name| super::number(&value, name);
    Ok(Seen { ratio: number("ratio")?, ours: number("ours_ns")?, theirs: number("theirs_ns")? })
}

/// Parses a line such as `[ INFO ]    Median:        12.34 ms` to nanoseconds.
fn median_of_application(text: &str) -> Result<f64, Failed> {
    let found = text.lines().find_map(|line| {
        let (_, rest) = line.split_once("Median:")?;
        rest.trim().strip_suffix("ms")?.trim().parse::<f64>().ok()
    });
    let missing = || Failed::new(format!("benchmark_app reported no median:\n{text}"));
    found.map(|milliseconds| milliseconds * 1e6).ok_or_else(missing)
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

fn latency(ns: f64) -> String {
    match ns {
        ..1e6 => format!("{:.2} µs", ns / 1e3),
        _ => format!("{:.2} ms", ns / 1e6),
    }
}

/// Returns the verdict on an interval of the difference.
fn verdict(low: f64, high: f64) -> &'static str {
    if low >= -LIMIT && high <= LIMIT {
        "within 1 %"
    } else if low > LIMIT || high < -LIMIT {
        "**apart**"
    } else {
        "not shown"
    }
}

fn document<'a>(
    compared: impl Iterator<Item = &'a Compared>,
    rounds: u32,
    seconds: u32,
    machine: &str,
) -> String {
    let mut rows = String::new();
    let mut confidence = 0.0;
    for Compared { model, theirs, threads, seen, .. } in compared {
        let sorted = |value: fn(&Seen) -> f64| {
            let mut values: Vec<f64> = seen.iter().map(value).collect();
            values.sort_by(f64::total_cmp);
            values
        };
        let differences = sorted(|seen| seen.ratio - 1.0);
        let (out, of_interval) = left_out(differences.len());
        confidence = 100.0 * of_interval;
        let (low, high) = (differences[out], differences[differences.len() - 1 - out]);
        let _ = writeln!(
            rows,
            "| {model} | {theirs} | {threads} | {} | {} | {:+.2} % | {:+.2} to {:+.2} % | {} |",
            latency(median(&sorted(|seen| seen.theirs))),
            latency(median(&sorted(|seen| seen.ours))),
            100.0 * median(&differences),
            100.0 * low,
            100.0 * high,
            verdict(low, high),
        );
    }
    format!(
        "# Whether a number is the runtime's own\n\n\
         `cargo xtask bench fidelity` writes this page. The quickstart's network for digits, and two models with drawn \
         weights, as large as ResNet-50 and BERT-base (sequence of 128), in fp32, batch 1, single-stream, are measured through this tool and \
         by the same library without it, with the same settings.\n\n\
         - *One process*: the tool's own loop, through the plugin, and a bare loop over the runtime's C interface take \
         turns of at least 5 ms. A round is a process of {seconds} s, in which the side that is prepared first changes from \
         round to round; its result is the median over pairs of turns of the ratio of their median latencies.\n\
         - *Two processes*: the whole of `host run`, and OpenVINO's own `benchmark_app` (`-api sync -nireq 1 -nstreams 1 \
         -hint none -infer_precision f32`), {seconds} s each, one after the other. The rest of the machine disturbs each \
         alone.\n\n\
         *Difference* is the median over {rounds} rounds of the ratio, less one. *Interval* holds the true median with \
         {confidence:.1} % confidence (sign test). The verdict is a test of equivalence: *within 1 %* if the interval lies \
         inside ±1 %, *apart* if it lies outside, and *not shown* otherwise. Latencies are medians of their own, whose \
         ratio need not be the median of ratios.\n\n\
         {machine}\n\n\
         | model | compared with | threads | theirs | ours | difference | interval | |\n\
         |---|---|--:|--:|--:|--:|--:|---|\n{rows}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_from_what_the_others_print() {
        let line = "{\"ratio\": 1.5, \"pairs\": 9, \"ours_ns\": 3, \"theirs_ns\": 2.0}";
        assert_eq!(seen_in_line(line).ok(), Some(Seen { ratio: 1.5, ours: 3.0, theirs: 2.0 }));
        assert!(seen_in_line("{\"pairs\": 9}").is_err());
        let text = "[ INFO ] Latency:\n[ INFO ]    Median:        12.34 ms\n[ INFO ]    Min: 1 ms";
        assert_eq!(median_of_application(text).ok(), Some(12.34e6));
        assert!(median_of_application("[ ERROR ]").is_err());
    }

    #[test]
    fn the_version_of_a_library_is_in_its_name() {
        let version = |name: &str| version_of_onnxruntime(Path::new(name)).map(str::to_owned);
        assert_eq!(version("/p/capi/libonnxruntime.so.1.30.0").as_deref(), Some("1.30.0"));
        assert_eq!(version("/p/capi/libonnxruntime_providers_shared.so"), None);
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
            let given: Vec<_> = given.iter().map(|&one| one.to_owned()).collect();
            let Chosen { rounds, seconds, runtimes, models } = chosen(&given).ok()?;
            let models: Vec<_> = models.iter().map(|model| model.name).collect();
            Some((rounds, seconds, runtimes, models))
        };
        let all = vec!["digits", "resnet50", "bert-base"];
        assert_eq!(of(&[]), Some((ROUNDS, SECONDS, RUNTIMES.to_vec(), all.clone())));
        let few = Some((6, 1, vec!["openvino"], vec!["digits"]));
        let given =
            ["--seconds", "1", "--rounds", "6", "--runtime", "openvino", "--model", "digits"];
        assert_eq!(of(&given), few);
        let both = Some((ROUNDS, SECONDS, vec!["onnxruntime", "openvino"], all));
        assert_eq!(of(&["--runtime", "onnxruntime", "--runtime", "openvino"]), both);
        for wrong in [
            &["--rounds"][..],
            &["--rounds", "5"],
            &["--seconds", "0"],
            &["--runtime", "cuda"],
            &["--minutes", "3"],
            &["--model", "alexnet"],
        ] {
            assert_eq!(of(wrong), None);
        }
    }

    #[test]
    fn only_an_interval_inside_the_limit_shows_that_two_are_equal() {
        let seen = |ratio: f64| Seen { ratio, ours: 1e6 * ratio, theirs: 1e6 };
        let row = |ratios: [f64; 9]| {
            let seen = ratios.map(seen).to_vec();
            let theirs = "ONNX Runtime".into();
            let one = Compared { model: "resnet50", with: "onnxruntime", theirs, threads: 1, seen };
            document([&one].into_iter(), 9, 2, "Measured here.")
        };
        assert!(row([1.005; 9]).contains("| +0.50 to +0.50 % | within 1 % |"));
        let wide = [0.9, 0.95, 0.98, 0.99, 1.0, 1.01, 1.02, 1.05, 1.1];
        assert!(row(wide).contains("| -5.00 to +5.00 % | not shown |"), "{}", row(wide));
        assert!(row(wide.map(|ratio| ratio + 0.2)).contains("| **apart** |"));
        assert!(
            row([1.009, 1.009, 1.009, 1.009, 1.0, 1.02, 1.02, 1.02, 1.02])
                .contains("| not shown |")
        );
    }
}
