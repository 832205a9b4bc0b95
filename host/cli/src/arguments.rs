//! The command line as typed. [`crate::settings`] resolves it for the commands.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::Styles;
use clap::builder::styling::AnsiColor;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{
    ArgAction, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum, ValueHint,
};
use host_authoring::{Kind, Language};
use host_experiment::{Quick, Sides};
use host_record::Axis;

use crate::exit::{Exit, PRECEDENCE};

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// Measures machine-learning models on hardware.
///
/// A manifest says which models to run on which backends, at which batch sizes and precisions, and
/// what to report. Each case is measured in a process of its own. A value that cannot be measured is
/// a gap with a reason, never a guess. Start with `host bench model.onnx`, with `host init`, or with
/// `host run manifests/quickstart.toml`.
///
/// A packaged tool has a second name for this command, `tare`, for machines on which `host` is
/// another program.
#[derive(Debug, Parser)]
#[command(
    name = "host",
    version,
    styles = STYLES,
    max_term_width = 100,
    after_help = exit_codes(),
    infer_subcommands = false,
    arg_required_else_help = true
)]
pub struct Arguments {
    /// Options of every command.
    #[command(flatten)]
    pub global: GlobalArguments,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// Reads the command line of this process.
///
/// # Errors
///
/// If it asks for help or the version, or cannot be understood.
pub(crate) fn parse() -> Result<Arguments, clap::Error> {
    let called = std::env::args_os().next();
    let name = called.as_deref().map(Path::new).and_then(Path::file_stem);
    let mut command = Arguments::command();
    // A package has this name beside `host`, which on some machines is another program.
    if name.is_some_and(|name| name == "tare") {
        let about = command.get_long_about().map(ToString::to_string).unwrap_or_default();
        command = command.name("tare").long_about(about.replace("`host ", "`tare "));
    }
    let matches = command.try_get_matches()?;
    Arguments::from_arg_matches(&matches)
}

fn exit_codes() -> String {
    let mut text = String::from("Exit codes:");
    for exit in Exit::ALL {
        let meaning = exit.meaning().replace('\n', "\n       ");
        text.push_str(&format!("\n  {:>3}  {meaning}", exit.code()));
    }
    text.push_str(&format!("\n\n{PRECEDENCE}"));
    text
}

/// Options of every command.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Global options")]
pub struct GlobalArguments {
    /// Format of data on standard output; everything else goes to standard error.
    #[arg(long, global = true, value_enum, default_value_t, value_name = "FORMAT")]
    pub format: Format,
    /// When to use colours. NO_COLOR turns them off as well.
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN")]
    pub color: ColorChoice,
    /// Print more about progress; twice for every detail.
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,
    /// Print only data, warnings and errors.
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Folder for results: run folders and the database. By default the manifest's, or `results` in
    /// the current folder.
    #[arg(long, global = true, env = "TARE_RESULTS", value_name = "FOLDER", value_hint = ValueHint::DirPath, hide_env_values = true)]
    pub results: Option<PathBuf>,
    /// Folder to search for plugins, before all others. Can be given more than once; TARE_PLUGINS
    /// lists more folders.
    #[arg(long, global = true, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub plugins: Vec<PathBuf>,
    /// Runtime for a plugin: its folder, or the library itself. Can be given more than once. The
    /// variable TARE_RUNTIME_ID, with the plugin's id in capitals, does the same.
    #[arg(long = "runtime", global = true, value_name = "ID=PATH", value_parser = named_runtime)]
    pub runtimes: Vec<(String, PathBuf)>,
}

/// Parses a plugin's id, and the path of its runtime.
fn named_runtime(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((id, path)) if !id.is_empty() && !path.is_empty() => Ok((id.into(), path.into())),
        _ => Err("write the plugin's id and the path, such as cuda=/opt/onnxruntime".into()),
    }
}

/// Format of data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Tables for people; their layout may change.
    #[default]
    Human,
    /// One JSON document.
    Json,
    /// One JSON object on each line.
    Jsonl,
    /// Comma-separated values with a header.
    Csv,
    /// A Markdown table.
    Markdown,
}

/// Use of colours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum ColorChoice {
    /// If the output is a terminal with colours.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// A command.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measure what a manifest describes, compute its metrics and write its reports.
    Run(RunArguments),
    /// Measure models without a manifest: `host bench model.onnx --backend all --batch 1,8`.
    Bench(Box<BenchArguments>),
    /// Show what a model is: inputs, outputs, operators, weights, and a [[model]] for a manifest.
    Inspect(InspectArguments),
    /// Check a manifest, with the models, files, plugins, options and limits in it, without running it.
    Validate(ManifestArgument),
    /// Show the cases and gaps that a run would have, and an estimate of its time.
    Plan(ManifestArgument),
    /// Write a commented manifest to start from.
    Init(InitArguments),
    /// List plugins; start, build, check, try and add your own; show, trust or remove one.
    #[command(subcommand)]
    Plugins(PluginsCommand),
    /// List, install, remove or verify the vendors' runtimes that plugins use.
    #[command(subcommand)]
    Runtimes(RuntimesCommand),
    /// List the devices that every installed backend sees.
    Devices,
    /// Compare the cases that two runs share: which got faster or slower?
    Compare(CompareArguments),
    /// Decide whether a run may pass: by a baseline, and by the limits of its manifest.
    Check(CheckArguments),
    /// List, show, query, export and index results.
    #[command(subcommand)]
    Results(ResultsCommand),
    /// Show results of cases over commits and time, and when they changed.
    History(HistoryArguments),
    /// Show where the time of cases goes: operators by type and by node, flame graphs and traces.
    Profile(ProfileArguments),
    /// Write reports of a run again, or further ones; or a page that compares two runs.
    #[command(after_long_help = REPORT_HELP)]
    Report(ReportArguments),
    /// Show all results in a browser: runs, reports, comparisons and histories.
    #[command(after_long_help = SERVE_HELP)]
    Serve(ServeArguments),
    /// List what will disturb a measurement on this machine, and how to avoid it.
    Doctor(DoctorArguments),
    /// Write a completion script for a shell to standard output.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Do a part of a run on a node of a cluster: used by the tasks that `run --on slurm` submits.
    #[command(hide = true)]
    RunPart(RunPartArguments),
    /// Write files that are generated from the code: used when the tool is built.
    #[command(subcommand, hide = true)]
    Generate(GenerateCommand),
}

/// Arguments of `doctor`.
#[derive(Debug, Args)]
pub struct DoctorArguments {
    /// Measure the smallest change that this machine can show, for this long: arithmetic, memory bandwidth, the scheduler,
    /// the hypervisor and the clock. The figures are kept for a month, and `run` and `check` use them to say how many
    /// processes are needed.
    #[arg(
        long,
        value_name = "DURATION",
        num_args = 0..=1,
        default_missing_value = "20s",
        value_parser = host_manifest::duration
    )]
    pub noise: Option<std::time::Duration>,
}

/// A manifest.
#[derive(Debug, Args)]
pub struct ManifestArgument {
    /// The manifest, a TOML file; `-` reads standard input.
    #[arg(value_name = "MANIFEST", value_hint = ValueHint::FilePath)]
    pub manifest: PathBuf,
}

/// Arguments of `run`.
///
/// A manifest without metrics gets latency, throughput, memory, startup and stability, and
/// accuracy if a model has labels; one without reports gets html and markdown.
#[derive(Debug, Args)]
#[command(after_long_help = RUN_HELP)]
pub struct RunArguments {
    /// The manifest, a TOML file; `-` reads standard input.
    #[arg(
        value_name = "MANIFEST",
        value_hint = ValueHint::FilePath,
        required_unless_present_any = ["resume", "attach"]
    )]
    pub manifest: Option<PathBuf>,
    /// Continue an interrupted run: its id, a part of it, its folder, or `latest`. Finished cases are
    /// kept. It uses the manifest as it was when the run began.
    #[arg(long, value_name = "RUN", conflicts_with_all = ["manifest", "on"])]
    pub resume: Option<String>,
    /// What executes the cases, in place of the manifest's `[execution] engine`.
    #[arg(long, value_enum, value_name = "ENGINE")]
    pub on: Option<EngineArgument>,
    /// Follow a run on a cluster that was left: its id, a part of it, its folder, or `latest`. What its tasks have
    /// measured is taken over, and what is missing is submitted again.
    #[arg(long, value_name = "RUN", conflicts_with_all = ["manifest", "resume", "on"])]
    pub attach: Option<String>,
    /// Options of every run.
    #[command(flatten)]
    pub options: OptionsOfRuns,
}

/// An engine that executes cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EngineArgument {
    /// This machine.
    Local,
    /// The nodes of a cluster, through Slurm.
    Slurm,
}

/// Arguments of `run-part`.
#[derive(Debug, Args)]
pub struct RunPartArguments {
    /// The run folder.
    pub run: PathBuf,
    /// Measure the block of this number and that of the task in its array.
    #[arg(long, value_name = "N", required_unless_present = "facts")]
    pub offset: Option<u64>,
    /// Write the facts of this node for the kind of node of this number.
    #[arg(long, value_name = "N", conflicts_with = "offset")]
    pub facts: Option<usize>,
}

/// Options of `run` and `bench`.
#[derive(Debug, Args)]
pub struct OptionsOfRuns {
    /// Write reports below this folder instead of into the run folder, each into a folder of its own.
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub report_dir: Option<PathBuf>,
    /// Install missing runtimes of the manifest's backends before anything is measured; an optional
    /// runtime only if a backend's options ask for it. Without this nothing is ever downloaded.
    #[arg(long)]
    pub install: bool,
}

/// Arguments of `bench`.
#[derive(Debug, Args)]
#[command(after_long_help = BENCH_HELP)]
pub struct BenchArguments {
    /// Models: ONNX files; architectures by name, such as resnet50 or gpt2:layers=6, with random weights;
    /// categories of them (vision, text, audio, multimodal, generation); or `all`.
    #[arg(required = true, value_name = "MODEL", value_hint = ValueHint::FilePath)]
    pub models: Vec<PathBuf>,
    /// Backends, by the ids that `host plugins list` shows; `all` is every installed one.
    #[arg(long, value_name = "ID", value_delimiter = ',', default_value = "cpu")]
    pub backend: Vec<String>,
    /// Devices, by the ids that `host devices` shows; by default each backend's first.
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    pub device: Vec<String>,
    /// Batch sizes.
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1")]
    pub batch: Vec<u64>,
    /// Precisions: fp32, fp16, bf16, int8. By default fp32.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub precision: Vec<String>,
    /// Lengths of sequences in tokens.
    #[arg(long, value_name = "N", value_delimiter = ',')]
    pub sequence: Vec<u64>,
    /// Modes: inference, training, generation. By default inference.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub mode: Vec<String>,
    /// Scenarios: single-stream, multi-stream, offline. By default single-stream.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub scenario: Vec<String>,
    /// Values of any other axis of the matrix, by its key in a manifest. Can be given more than once.
    #[arg(long, value_name = "AXIS=VALUE,…", value_parser = axis_values)]
    pub matrix: Vec<(String, Vec<String>)>,
    /// Measure at most this many cases, the first ones, and say what is left out.
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// Metrics, by their plugins' ids; by default those of a manifest that names none.
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    pub metric: Vec<String>,
    /// How long to measure each case, such as 2s.
    #[arg(long, value_name = "TIME")]
    pub duration: Option<String>,
    /// Processes that measure each case, one after the other: several show how much they differ.
    #[arg(long, value_name = "N")]
    pub processes: Option<u32>,
    /// The most memory that the processes of a case may use, such as 2GiB. Cases whose weights, inputs and
    /// outputs alone take more are left out; others are ended when they use more.
    #[arg(long, value_name = "SIZE", value_parser = host_manifest::size)]
    pub memory_limit: Option<u64>,
    /// Options of every run.
    #[command(flatten)]
    pub run: OptionsOfRuns,
}

impl BenchArguments {
    /// Returns what they ask for.
    #[must_use]
    pub fn quick(&self) -> Quick {
        Quick {
            models: self.models.clone(),
            backends: self.backend.clone(),
            devices: self.device.clone(),
            matrix: self.axes(),
            limit: self.limit,
            metrics: self.metric.clone(),
            duration: self.duration.clone(),
            processes: self.processes,
            memory_limit: self.memory_limit,
        }
    }

    /// Returns the values of each axis that is given.
    fn axes(&self) -> BTreeMap<String, Vec<String>> {
        // An option has the first word of its axis's name.
        let axis = |word: &str| {
            let mut names = Axis::ALL.iter().map(|axis| axis.name());
            let is_named = |name: &&str| name.split('-').next() == Some(word);
            names.find(is_named).expect("the axis of the option").to_owned()
        };
        let named = [
            ("batch", self.batch.iter().map(u64::to_string).collect()),
            ("precision", self.precision.clone()),
            ("sequence", self.sequence.iter().map(u64::to_string).collect()),
            ("mode", self.mode.clone()),
            ("scenario", self.scenario.clone()),
        ];
        let named = named.into_iter().map(|(word, values)| (axis(word), values));
        let given = named.chain(self.matrix.clone());
        given.filter(|(_, values): &(String, Vec<String>)| !values.is_empty()).collect()
    }
}

/// Reads `AXIS=VALUE,…`.
fn axis_values(text: &str) -> Result<(String, Vec<String>), String> {
    match text.split_once('=') {
        Some((axis, values)) if !axis.is_empty() && !values.is_empty() => {
            Ok((axis.to_owned(), values.split(',').map(str::to_owned).collect()))
        }
        _ => Err("expected an axis and its values, such as `mode=inference`".into()),
    }
}

const BENCH_HELP: &str = "\
A word that is an architecture's name or a category means that; write ./NAME for a file of this name.
An architecture is written once to the cache folder, with weights drawn from the seed. Without
--sequence, its sequences have 128 tokens.

Every combination of the lists is a case. The manifest is written to `manifests` in the results
folder, so that it can be run again, changed and kept: `host run` takes it as any other.";

const RUN_HELP: &str = "\
A manifest without [[metric]] gets latency, throughput, memory, startup and stability, and accuracy
if a model has labels. One without [[report]] gets html and markdown. One without [[recommend]] gets
no advice.

The manifest's plugins, their options and the limits are checked before anything is measured. A
metric, report or recommender that fails afterwards costs only its own output: the run is kept, and
the exit code is 4, or 6 if a case failed as well. `host report` writes a report later.
Ctrl-C ends the run, also while metrics are computed and reports written, and keeps what is done; a
second Ctrl-C ends it immediately. --resume does the rest.

Each report is written into a folder that is named by its plugin: reports/PLUGIN in the run folder,
or PLUGIN in the folder of --report-dir. A report replaces only files that the host wrote there
before and that have not changed since.";

/// Arguments of `inspect`.
#[derive(Debug, Args)]
#[command(after_long_help = INSPECT_HELP)]
pub struct InspectArguments {
    /// The model: an ONNX file, or an architecture by name, such as resnet50.
    #[arg(value_name = "MODEL", value_hint = ValueHint::FilePath)]
    pub model: PathBuf,
    /// Run a query on every installed backend, and say which refuses the model and why. This loads the
    /// weights.
    #[arg(long)]
    pub engines: bool,
}

const INSPECT_HELP: &str = "\
Weights are not read, so a model of gigabytes takes no longer than a small one. The batch is the open
axis that is named so, or else the first axis if it is open; a sequence is an open axis whose name
contains `seq`. The [[model]] has a size for each other open axis, the range of token ids that the
graph's tables tell, and ones for masks: change what does not fit.

Operations of a pass are two for each product that convolutions and products of matrices sum, at the
sizes of the [[model]] and 128 tokens. At least the weights, inputs and outputs move once.";

/// Arguments of `compare`.
#[derive(Debug, Args)]
#[command(after_long_help = COMPARE_HELP)]
pub struct CompareArguments {
    /// The run to compare with: a run by its id, a part of it, its folder or `latest`; a baseline by its name or its
    /// .json file; or a commit, by seven or more digits.
    pub first: String,
    /// The run that is compared with it. By default the latest; with --between, the first.
    pub second: Option<String>,
    /// Compare cases with two values of an axis of the matrix, such as backend=cpu,openvino: those of the first run with the
    /// first value, and those of the second run with the second.
    #[arg(long, value_name = "AXIS=A,B")]
    pub between: Option<Sides>,
    /// Show samples for each joule, gigabyte of memory and unit of price as well. With --between they are shown anyway.
    #[arg(long)]
    pub efficiency: bool,
    /// Change that does not matter: what surely stays within it counts as the same.
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = per_cent)]
    pub margin: f64,
}

/// Arguments of `profile`.
#[derive(Debug, Args)]
#[command(after_long_help = PROFILE_HELP)]
pub struct ProfileArguments {
    /// A manifest, which is run; or a run by its id, a part of it, its folder or `latest`.
    #[arg(value_name = "MANIFEST|RUN", value_hint = ValueHint::FilePath)]
    pub subject: PathBuf,
    /// Only the case with this id, or the beginning of it.
    #[arg(long, value_name = "ID")]
    pub case: Option<String>,
    /// Folder for the files, instead of `reports/profile` in the run folder.
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub output: Option<PathBuf>,
}

const PROFILE_HELP: &str = "\
Every run profiles each case once, after all queries that are timed, if the backend can: a profile is
never a part of a measurement. This command shows the profiles of a run, or runs a manifest first.

For each case the folder has by-type.svg and by-node.svg, flame graphs; the same as folded stacks
(.folded); and trace.json for Perfetto (ui.perfetto.dev) or chrome://tracing.

Times are those of calls on processors. PyTorch's on graphics processors are between events of the
device. ONNX Runtime's there are those of queueing, which say nothing of the device's work.";

/// Arguments of `check`.
#[derive(Debug, Args)]
#[command(after_long_help = CHECK_HELP)]
pub struct CheckArguments {
    /// The run: its id, a part of it, its folder, or `latest`.
    #[arg(default_value = "latest")]
    pub run: String,
    /// The baseline: its name or its .json file; a run by its id, a part of it or its folder; or a commit, by seven or
    /// more digits.
    #[arg(long, value_name = "REF")]
    pub baseline: Option<String>,
    /// Largest accepted change for the worse. The larger figure is divided by the smaller one, so a throughput may fall by
    /// 4.8 % at 5%.
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = per_cent)]
    pub max_regression: f64,
    /// Metrics to judge by the baseline, by their full names, such as latency.p99. By default the main figure of each case:
    /// latency.p50, or the rate that a search found.
    #[arg(long, value_name = "METRIC", value_delimiter = ',')]
    pub metric: Vec<String>,
    /// Write the result to this file as well, by its ending: .xml for JUnit, .json, or .md for the summary of a job. Can be
    /// given more than once.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Vec<PathBuf>,
    /// Print an annotation for each figure that is beyond its limit or cannot be told, as GitHub Actions reads them, to
    /// standard error.
    #[arg(long)]
    pub annotations: bool,
    /// Keep the run as a baseline instead of judging it: in a file, if the name ends with .json, or under a name, such as
    /// main@runner-1, in the results folder. A baseline that is there is replaced.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["baseline", "metric", "output", "annotations"])]
    pub save_baseline: Option<String>,
}

/// Reads a percentage above 0 % and below 100 %, as a part.
fn per_cent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').and_then(|text| text.trim().parse::<f64>().ok());
    let number = number.filter(|number| *number > 0.0 && *number < 100.0);
    number
        .map(|number| number / 100.0)
        .ok_or_else(|| "write a percentage above 0 % and below 100 %, such as 5%".into())
}

const COMPARE_HELP: &str = "\
Cases are matched by their id, so equally defined cases are compared; those that are left, by their
coordinates, and then a warning says that their definition has changed. For each, the median latency
of the second run is compared with that of the first, or the rate if it was searched, and then every
metric that both runs have. Cases that changed most come first; before them, conditions that differ
between the runs, such as the processor, a driver or a version. A clock that changed by less than a
tenth counts as the same.

A verdict needs several processes in both runs (`processes = 5` under [measure]), because processes
differ by more than the queries of one. They are compared by Welch's test on logarithms. The change
is the ratio of geometric means over processes, with its 95 % interval. The verdicts:

  faster, slower     a change was found (better, worse, larger, smaller for other metrics)
  same within 3 %    none was found, and the interval stays within 3 %, which is within --margin
  cannot tell        neither; with the number of processes in each run that would tell a change of
                     --margin from none in 80 % of such comparisons, or another reason

Of many comparisons some find something by chance. So a change counts if its false-discovery rate is
at most 5 %: so many of all findings are expected to be false. Main figures are corrected over all
cases, and the other metrics over all cases and metrics. The column \"could be seen\" has the change
that would have been found in 80 % of such comparisons, if it was the only one. For a single process
the interval within it is shown, which says nothing about the next process.

Counts and sizes that are the same in all processes of each run, and accuracies, which no process
changes, are not tested: a change of them is exact. A metric that states no value for each process
cannot be compared, and the comparison says so. In `--format json` each interval has its confidence:
95 % if it is of the comparison, the metric's own if the metric states it. Accuracies of the same
labelled examples are compared by McNemar's test on the examples that only one of the runs has
right: it tells whether other examples of the same kind would show the change too.

`host compare RUN --between backend=cpu,openvino` compares cases of one run: those with the first
value of an axis (model, backend, device, precision, batch, …) with those with the second, and all
other coordinates the same. With two runs, the first value is taken from the first run. Prices for
samples per unit of price are the [[price]] tables of the manifest.";

const CHECK_HELP: &str = "\
A figure fails if it is worse than the baseline by more than --max-regression, outside the noise; it
passes if the 95 % interval of its change stays within; anything else cannot be told, and the answer
says how many processes would tell. Exit codes: 10 if a figure failed, else 11 if one cannot be
told, else 0. If nothing regressed by more than the limit, the code is 10 in at most 2.5 % of all
checks, however many figures are judged. If something did, the code is 0 in at most 2.5 %.

Each [[alert]] of the run's manifest is a limit on a metric, and is judged as well, by the interval
of its value. Without --baseline only alerts are judged.

docs/guide/ci.md has a workflow for CI, and all answers to bad input.";

/// Arguments of `init`.
#[derive(Debug, Args)]
pub struct InitArguments {
    /// The file to write.
    #[arg(value_name = "FILE", default_value = "experiment.toml", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Write a manifest that runs this model: an ONNX file, or an architecture by name.
    #[arg(long, value_name = "MODEL", value_hint = ValueHint::FilePath)]
    pub model: Option<PathBuf>,
    /// Replace the file if it exists.
    #[arg(long)]
    pub force: bool,
}

/// Arguments of `history`.
#[derive(Debug, Args)]
#[command(after_long_help = HISTORY_HELP)]
pub struct HistoryArguments {
    /// A model's id, a case's id, or the start of a case's id; by default all cases.
    #[arg(value_name = "MODEL|CASE")]
    pub subject: Option<String>,
    /// Metrics, such as latency.p99; by default the median latency, or the throughput of offline cases
    /// and of searched rates.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub metric: Vec<String>,
    /// Backends, by their ids in the manifests; by default all.
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    pub backend: Vec<String>,
    /// Put machines with the same processor and device into one series: for machines that are new each
    /// time, as in many CI services.
    #[arg(long)]
    pub pool: bool,
    /// Write a page for a browser as well: one file that needs no network.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub html: Option<PathBuf>,
    /// Replace the page if it exists.
    #[arg(long, requires = "html")]
    pub force: bool,
}

/// Arguments of `report`.
#[derive(Debug, Args)]
pub struct ReportArguments {
    /// The run: its id, a part of it, its folder, or `latest`.
    #[arg(default_value = "latest")]
    pub run: String,
    /// Report plugins, which the run need not have used; by default all of the run's.
    #[arg(long = "report", value_name = "PLUGIN")]
    pub reports: Vec<String>,
    /// Write reports below this folder instead of into the run folder, each into a folder of its own.
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub report_dir: Option<PathBuf>,
    /// Write a page that compares two runs, commits or baselines, to the file of --to.
    #[arg(
        long,
        num_args = 2,
        value_names = ["FIRST", "SECOND"],
        requires = "to",
        conflicts_with_all = ["run", "reports", "report_dir"]
    )]
    pub compare: Vec<String>,
    /// The file of the comparison.
    #[arg(long, value_name = "FILE", requires = "compare", value_hint = ValueHint::FilePath)]
    pub to: Option<PathBuf>,
    /// Replace the file if it exists.
    #[arg(long, requires = "to")]
    pub force: bool,
    /// Changes that surely stay within this count as the same, in a comparison.
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = per_cent, requires = "compare")]
    pub margin: f64,
}

/// Arguments of `serve`.
#[derive(Debug, Args)]
pub struct ServeArguments {
    /// The port on 127.0.0.1; 0 is any free one.
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub port: u16,
}

const SERVE_HELP: &str = "\
The address is printed, and has a token without which nothing is answered: open it in a browser on
this machine. The server listens on 127.0.0.1 only, reads and never writes, and ends with Ctrl-C.
Pages show the database; `host results sync` brings in runs that are missing. While a page reads the
database, a run that ends waits for a moment.";

const HISTORY_HELP: &str = "\
The results are those of the database, of all runs. A series has the same coordinates, experiment and
machine. Several series are a line each, those that changed most first; a single one is shown with
all its changes. Differences of the environment (versions, driver, governor, kernel, the model's
file) are marked below the line.

A series needs 12 values. A change is a step between levels of at least 3 runs each; one or two slow
runs are none. It is found if at most 1 in 200 permutations of the values around it separate them as
much; p is that part, and not below 0.0001. A slow drift is found by the test of Mann and Kendall.
Of series in which nothing changed, about 1 in 100 show a change if runs are independent, and more if
a run resembles the one before. Sizes have 95 % intervals. Runs that failed, or whose result is
invalid, are crosses.";

/// Commands on plugins.
#[derive(Debug, Subcommand)]
pub enum PluginsCommand {
    /// List found and broken plugins. No native plugin is loaded.
    List,
    /// Show everything about one plugin: its options, or its devices.
    Info {
        /// The plugin's id; or its file or folder, with a separator in it or ending with .wasm, which need not be installed.
        #[arg(value_name = "ID|PATH", value_hint = ValueHint::AnyPath)]
        plugin: String,
    },
    /// Write a project for a new plugin, which builds, has a test and runs as it is.
    #[command(after_long_help = NEW_HELP)]
    New {
        /// The kind of plugin.
        #[arg(value_name = "KIND", value_parser = kind())]
        kind: Kind,
        /// The plugin's id: lower-case words or digits joined by hyphens.
        #[arg(value_name = "NAME")]
        name: String,
        /// The language.
        #[arg(long, value_name = "LANGUAGE", value_parser = language())]
        lang: Language,
        /// The project's folder, which is empty or does not exist; by default the name.
        #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
        folder: Option<PathBuf>,
    },
    /// Build a plugin's project with its language's usual tool, and put the plugin beside plugin.toml.
    #[command(after_long_help = BUILD_HELP)]
    Build {
        /// The project's folder.
        #[arg(value_name = "FOLDER", default_value = ".", value_hint = ValueHint::DirPath)]
        folder: PathBuf,
    },
    /// Check a plugin: a backend by the native ABI's contract, a WASM plugin on a small run in the sandbox.
    #[command(after_long_help = TEST_HELP)]
    Test {
        /// The plugin's folder or .wasm file, with a separator in it, such as ./scale; or the id of an installed one.
        #[arg(value_name = "PATH|ID", value_hint = ValueHint::AnyPath)]
        plugin: String,
        /// Of a backend: a model, inputs and correct outputs, as a TOML file; by default the `fixture.toml` of the
        /// plugin's folder, or else a tiny ONNX model in float32.
        #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        fixture: Option<PathBuf>,
        /// Run only the checks with this text in their name, such as `shapes`.
        #[arg(long, value_name = "TEXT")]
        only: Option<String>,
        /// Of a backend: fail a check that takes longer than this, such as 30s or 5min; by default 10min.
        #[arg(long, value_name = "DURATION", value_parser = host_manifest::duration)]
        timeout: Option<Duration>,
        /// Of a WASM plugin: keep its answers in expected.json beside it. Without this they are compared with that file,
        /// if it is there.
        #[arg(long, conflicts_with_all = ["fixture", "timeout"])]
        accept: bool,
    },
    /// Compute a metric's file on a run that exists, and show the values. The run is not changed.
    #[command(after_long_help = TRY_HELP)]
    Compute {
        /// The run and the plugin.
        #[command(flatten)]
        trial: TrialArguments,
    },
    /// Write a report's file about a run that exists. The run is not changed.
    #[command(after_long_help = TRY_HELP)]
    Report {
        /// The run and the plugin.
        #[command(flatten)]
        trial: TrialArguments,
        /// The folder for the report, which gets a folder named by the plugin.
        #[arg(long, value_name = "FOLDER", default_value = ".", value_hint = ValueHint::DirPath)]
        to: PathBuf,
    },
    /// Ask a recommender's file about a run that exists, and show its advice. The run is not changed.
    #[command(after_long_help = TRY_HELP)]
    Recommend {
        /// The run and the plugin.
        #[command(flatten)]
        trial: TrialArguments,
    },
    /// Copy a plugin into your plugin folder, and record its hash. A plugin of this id there is replaced.
    #[command(after_long_help = ADD_HELP)]
    Add {
        /// The plugin: its folder, its .wasm file, or an archive of the folder: .zip, .tar.gz or .tgz.
        #[arg(value_name = "PATH|ARCHIVE", value_hint = ValueHint::AnyPath)]
        plugin: PathBuf,
    },
    /// Remove plugins from your plugin folder, and their records.
    Remove {
        /// The plugins' ids.
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
    },
    /// Allow a native plugin that has changed, or that came with a manifest.
    #[command(after_long_help = TRUST_HELP)]
    Trust {
        /// The plugin's id.
        id: String,
    },
    /// Write what plugins are built on: C headers, the WIT package with bindings for C, Rust crates, fixtures.
    #[command(after_long_help = SDK_HELP)]
    Sdk {
        /// The folder, which is empty, does not exist, or is an SDK, which is replaced.
        #[arg(value_name = "FOLDER", value_hint = ValueHint::DirPath)]
        folder: PathBuf,
    },
}

/// A plugin's file, to be tried on a run.
#[derive(Debug, Args)]
pub struct TrialArguments {
    /// The run: its id, a part of it, its folder, or `latest`.
    pub run: String,
    /// The plugin's .wasm file, or the folder of its project.
    #[arg(value_name = "FILE", value_hint = ValueHint::AnyPath)]
    pub file: PathBuf,
    /// An option of the plugin, as in a manifest, such as percentile=99. Can be given more than once.
    #[arg(long = "option", value_name = "NAME=VALUE", value_parser = option)]
    pub options: Vec<(String, serde_json::Value)>,
    /// Try it again whenever the file changes, until Ctrl-C.
    #[arg(long)]
    pub watch: bool,
}

/// Reads `NAME=VALUE`: a value of TOML, or else a text.
fn option(text: &str) -> Result<(String, serde_json::Value), String> {
    let (name, value) = text
        .split_once('=')
        .filter(|(name, _)| !name.is_empty())
        .ok_or("expected a name and a value, such as `percentile=99`")?;
    let table = toml::from_str::<BTreeMap<String, serde_json::Value>>(&format!("it = {value}"));
    let value = table.ok().and_then(|mut table| table.remove("it"));
    Ok((name.to_owned(), value.unwrap_or_else(|| value_of(text))))
}

/// Returns what follows `=`, as a text.
fn value_of(text: &str) -> serde_json::Value {
    text.split_once('=').map_or_else(Default::default, |(_, value)| value.into())
}

fn kind() -> impl TypedValueParser<Value = Kind> {
    let names = PossibleValuesParser::new(Kind::ALL.map(Kind::name));
    names.map(|name| Kind::of_name(&name).expect("one of the names"))
}

fn language() -> impl TypedValueParser<Value = Language> {
    let names = PossibleValuesParser::new(Language::ALL.map(Language::name));
    names.map(|name| Language::of_name(&name).expect("one of the names"))
}

const NEW_HELP: &str = "\
The project's README.md names what to install, and the commands from there to a plugin in use.
What the plugin is built on is in the folder sdk, from this tool: no checkout is needed. It is not
a part of the sources; `host plugins build` writes it if it is missing.

Offered are: backends in rust, c and cpp; metrics, reports and recommenders in rust, c, python and
js. Any other language that makes WebAssembly components can use the WIT package of `host plugins
sdk`.";

const BUILD_HELP: &str = "\
The table [build] of plugin.toml has the command, what it makes, and the programs that it needs,
each with how to install it. Without the table, a Cargo.toml or a Makefile tells. A core
WebAssembly module, as clang makes it, becomes a component. The plugin is then beside plugin.toml,
so the project's folder is a plugin's folder: `host plugins test .`, `host plugins add .` and
`--plugins .` take it.";

const TRY_HELP: &str = "\
The plugin need not be installed. It gets the data that it would get at the end of that run, under
the same limits. What it writes to its standard output and error is shown as it comes. With
--watch, a plugin that fails is told, and its next build is tried.";

const ADD_HELP: &str = "\
Your plugin folder is plugins in $XDG_DATA_HOME/tare, usually ~/.local/share/tare/plugins. A
backend is copied as a folder, without sources and what only building needs; a WASM plugin as one
file named by its id. The hash goes into $XDG_CONFIG_HOME/tare/plugins.lock, which is one file for
all kinds: a backend that changes later is refused until `host plugins trust`, and `host plugins
info` shows that a WASM plugin has. Nothing is run, except a WASM plugin in its sandbox.";

const SDK_HELP: &str = "\
The folder has include (plugin_api.h and plugin_api.hpp), wit (the package tare:plugin), c
(bindings of the package for C), rust (the crates tare-plugin-api, tare-plugin-guest and
tare-plugin-testkit with what they need), fixtures, and tare-sdk.toml with the versions. All of it
is of this tool, so a checkout is not needed.";

const TEST_HELP: &str = "\
A backend: the program plugin-testkit, which lies beside host, runs the checks. Each runs in a
process of its own, with the runtime that measurements would use; a crash or a hang is a failed
check. Processes that a check leaves running are ended and fail it. A check that does not apply,
for instance to an extension that is not offered, is listed with the reason.

A WASM plugin: it is loaded, called on a small run that is part of this tool, and called again.
Checked are its world and version, its answers, that they are the same twice, and its memory, time
and instructions, also with a million queries. With an expected.json beside it, the answers are
compared.

The exit code is 0 if all checks pass, and 4 if one fails or nothing could be checked.";

const TRUST_HELP: &str = "\
A native plugin can do everything that you can do. If you put it into your plugin folder, or name it
with --plugins or TARE_PLUGINS, it is used, and one SHA-256 of its plugin.toml, runtime.lock and
library is recorded for its folder, in $XDG_CONFIG_HOME/tare/plugins.lock, usually
~/.config/tare/plugins.lock. A plugin that has changed since is refused until you trust it. A plugin
that only a manifest names is refused; to trust it, name its folder with --plugins. If several
plugins have the id, the one that would be used is trusted; --plugins selects another. Plugins
beside the executable are trusted like the executable. WASM plugins run in a sandbox and need no
trust.";

/// Commands on runtimes.
#[derive(Debug, Subcommand)]
pub enum RuntimesCommand {
    /// List the runtimes that plugins use, and other installed ones.
    List,
    /// Install the runtimes of plugins, or repair damaged ones.
    #[command(after_long_help = INSTALL_HELP)]
    Install {
        /// The plugins' ids.
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
    },
    /// Remove installed runtimes.
    Remove {
        /// Plugins' ids, or names as `list` shows them, such as onnxruntime-1.28.0.
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
    },
    /// Read every file of installed runtimes and compare it with the installation's record.
    Verify {
        /// Plugins' ids, or names as `list` shows them; by default all that are installed.
        #[arg(value_name = "ID")]
        ids: Vec<String>,
    },
}

const INSTALL_HELP: &str = "\
A plugin's runtime.lock lists the packages of its runtime, with their hashes. Your own pip
(python3 -m pip) fetches them, so that its settings for index, proxy, certificates and cache apply.
They are unpacked into runtimes/ of your data folder. Nothing in them is run, and no Python
environment is changed. If a package fails, those that were fetched are kept, and the same command
continues from there.

If a runtime is on this machine already, name it: with --runtime ID=PATH, with the variable
TARE_RUNTIME_ID, or with `path` under [runtime] in the plugin's plugin.toml, in this order.";

/// Commands on results.
#[derive(Debug, Subcommand)]
pub enum ResultsCommand {
    /// List the runs.
    List,
    /// Show one run: its cases, results and advice.
    #[command(after_long_help = SHOW_HELP)]
    Show {
        /// The run: its id, a part of it, its folder, or `latest`.
        #[arg(default_value = "latest")]
        run: String,
        /// Print every warning, failure and gap of every case, with all figures, instead of the table.
        #[arg(long)]
        warnings: bool,
        /// Print all advice, with the figures that it is based on, instead of the table.
        #[arg(long)]
        advice: bool,
    },
    /// Query the database in SQL. Only reading is allowed.
    #[command(after_long_help = QUERY_HELP)]
    Query {
        /// One SELECT statement.
        sql: String,
    },
    /// Write a view of a run to a file.
    Export {
        /// The run: its id, a part of it, its folder, or `latest`.
        #[arg(default_value = "latest")]
        run: String,
        /// The file. Its extension sets the format: .csv, .parquet, or .jsonl.
        #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        to: PathBuf,
        /// The view to export; docs/reference/views.md lists the columns.
        #[arg(long, default_value = "results", value_name = "VIEW", value_parser = PossibleValuesParser::new(host_store::exported_views()))]
        view: String,
        /// Replace the file if there is one.
        #[arg(long)]
        force: bool,
    },
    /// Recompute metrics of a run from its recorded samples, with the current plugins.
    #[command(after_long_help = RECOMPUTE_HELP)]
    Recompute {
        /// The run: its id, a part of it, its folder, or `latest`.
        #[arg(default_value = "latest")]
        run: String,
        /// Metric plugins, which the run need not have used; by default all of the run's.
        #[arg(long = "metric", value_name = "PLUGIN", num_args = 1..)]
        metrics: Vec<String>,
        /// Print what would change, without changing anything.
        #[arg(long)]
        dry_run: bool,
    },
    /// Update the database from the run folders.
    Sync {
        /// Rebuild the database from scratch.
        #[arg(long)]
        rebuild: bool,
    },
}

const SHOW_HELP: &str = "\
The table is followed by each kind of failure, gap and warning, once, with its number of cases and
its worst case, and by the advice in a sentence each. --warnings and --advice print all of them.
--format json and the reports always have everything.";

const QUERY_HELP: &str = "\
The tables are benchmark_runs, benchmark_cases, benchmark_results, benchmark_warnings,
benchmark_plugins, hardware_info, recommendations, predictions, raw_benchmark_data, operators,
device_states and schema_version, with the rows of all runs; docs/reference/tables.md lists their
columns. The views of a single run, such as results, warnings and latency_quantiles, cannot be
queried here; `host results export` writes them. For example:

  host results query \"SELECT experiment, count(*) FROM benchmark_runs GROUP BY ALL\"";

const RECOMPUTE_HELP: &str = "\
A metric of the run gets the options that it had then; any other metric gets none. New values
replace the earlier ones in every command, view and database. Earlier values stay in the run
folder's results.jsonl, each line with the version and hash of its plugin. A metric that fails, or
whose samples are lost, keeps its earlier values. Reports and advice of the run are not changed.
With --dry-run, a metric over the run, such as scaling, reads the existing values.

Exit code 4 means that a plugin is missing or failed, 7 that values could not be computed because
files of the run are lost.";

const REPORT_HELP: &str = "\
Each report is written into a folder that is named by its plugin: reports/PLUGIN in the run folder,
or PLUGIN in the folder of --report-dir. A report of the run gets the options that it had then; any
other report gets none. If the plugin is not the one of the run, a warning says so.

A report replaces only files that the host wrote there before and that have not changed since, by
the list in files.sha256. If another file is in the way, the report is not written, and the exit
code is 1. Exit code 4 means that a plugin is missing, broken or failed.

With --compare, a page shows what `host compare` finds: the changes with their intervals, the
conditions that differ, and charts.";

/// Files that are generated from the code.
#[derive(Debug, Subcommand)]
pub enum GenerateCommand {
    /// Man pages, into a folder.
    Man {
        /// The folder.
        folder: PathBuf,
    },
    /// The command-line reference in Markdown.
    Reference,
    /// The manifest's JSON Schema.
    Schema,
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Arguments::command().debug_assert();
    }

    /// Every command of the page about CI, as a shell would split it.
    #[test]
    fn the_commands_of_the_guide_to_ci_exist() {
        let page = include_str!("../../../docs/guide/ci.md").replace("${{ runner.temp }}", "/tmp");
        let lines = page.lines().map(|line| line.trim().trim_start_matches("run: "));
        let commands: Vec<&str> = lines.filter(|line| line.starts_with("host ")).collect();
        assert!(commands.len() > 10, "{commands:?}");
        for command in commands {
            let ends = [" >>", " ||", " #"].iter().filter_map(|end| command.find(end)).min();
            let words = command[..ends.unwrap_or(command.len())].split_whitespace();
            Arguments::try_parse_from(words).unwrap_or_else(|error| panic!("{command}: {error}"));
        }
    }

    #[test]
    fn an_option_gives_values_to_the_axis_of_its_name() {
        let words = "host bench m.onnx --batch 2 --precision fp16 --sequence 8 --mode training --scenario offline \
                     --matrix clients=3";
        let arguments = Arguments::try_parse_from(words.split_whitespace()).expect("they are good");
        let Command::Bench(bench) = arguments.command else { panic!("not a bench") };
        let axis = |name: &str, value: &str| (name.to_owned(), vec![value.to_owned()]);
        let mut names = Axis::ALL.iter().map(|axis| axis.name());
        let sequence = names.find(|name| name.starts_with("sequence")).expect("an axis");
        let expected = [
            axis("batch", "2"),
            axis("precision", "fp16"),
            axis(sequence, "8"),
            axis("mode", "training"),
            axis("scenario", "offline"),
            axis("clients", "3"),
        ];
        assert_eq!(bench.quick().matrix, expected.into());
    }
}
