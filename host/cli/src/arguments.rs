//! The command line as it is typed. [`crate::settings`] turns it into what the commands work with.

use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use clap::builder::Styles;
use clap::builder::styling::AnsiColor;
use clap::{
    ArgAction, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum, ValueHint,
};

use crate::exit::Exit;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// Measures machine-learning models on hardware.
///
/// A manifest says which models to run on which backends, at which batch sizes and precisions, and
/// what to report. Each case is measured in a process of its own; what cannot be measured is a gap
/// with its reason, never a guess. Start with `host init`, or with `host run
/// manifests/quickstart.toml`.
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
    /// What holds for every command.
    #[command(flatten)]
    pub global: GlobalArguments,
    /// What to do.
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
        text.push_str(&format!("\n  {:>3}  {}", exit.code(), exit.meaning()));
    }
    text
}

/// What holds for every command.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Global options")]
pub struct GlobalArguments {
    /// How to write data to standard output; everything else goes to standard error.
    #[arg(long, global = true, value_enum, default_value_t, value_name = "FORMAT")]
    pub format: Format,
    /// When to use colours. NO_COLOR turns them off as well.
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN")]
    pub color: ColorChoice,
    /// Say more of what is being done; twice for every detail.
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,
    /// Say nothing but data, warnings and errors.
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Folder for results: run folders and the database. Without it, what the manifest says, or
    /// `results` in the current folder.
    #[arg(long, global = true, env = "TARE_RESULTS", value_name = "FOLDER", value_hint = ValueHint::DirPath, hide_env_values = true)]
    pub results: Option<PathBuf>,
    /// Folder to look for plugins in, before all others. Can be given more than once; TARE_PLUGINS
    /// lists further ones.
    #[arg(long, global = true, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub plugins: Vec<PathBuf>,
    /// Runtime that a plugin is to use: its folder, or the library itself. Can be given more than
    /// once. TARE_RUNTIME_ID, with the plugin's id in capitals, says the same.
    #[arg(long = "runtime", global = true, value_name = "ID=PATH", value_parser = named_runtime)]
    pub runtimes: Vec<(String, PathBuf)>,
}

/// A plugin's id, and the path of its runtime.
fn named_runtime(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((id, path)) if !id.is_empty() && !path.is_empty() => Ok((id.into(), path.into())),
        _ => Err("write the plugin's id and the path, such as cuda=/opt/onnxruntime".into()),
    }
}

/// How data is written.
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

/// When colours are used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum ColorChoice {
    /// Where the output is a terminal that shows them.
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
    /// Check a manifest, with the files, plugins, options and limits in it, without running it.
    Validate(ManifestArgument),
    /// Show the cases and gaps that a run would have, and an estimate of its time.
    Plan(ManifestArgument),
    /// Write a commented manifest to start from.
    Init(InitArguments),
    /// List plugins, look into one, or trust one.
    #[command(subcommand)]
    Plugins(PluginsCommand),
    /// List, install, remove or verify the vendors' runtimes that plugins run on.
    #[command(subcommand)]
    Runtimes(RuntimesCommand),
    /// List the devices that every installed backend sees.
    Devices,
    /// List, show, query, export and index what was measured.
    #[command(subcommand)]
    Results(ResultsCommand),
    /// Say what on this machine will disturb a measurement, and what to do about it.
    Doctor,
    /// Write a completion script for a shell to standard output.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Write what is generated from the code: used when the tool is built.
    #[command(subcommand, hide = true)]
    Generate(GenerateCommand),
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
/// A manifest that names no metrics gets latency, throughput, memory, startup and stability, and
/// accuracy where a model has labels; one that names no reports gets html and markdown.
#[derive(Debug, Args)]
#[command(after_long_help = RUN_HELP)]
pub struct RunArguments {
    /// The manifest, a TOML file; `-` reads standard input.
    #[arg(
        value_name = "MANIFEST",
        value_hint = ValueHint::FilePath,
        required_unless_present = "resume"
    )]
    pub manifest: Option<PathBuf>,
    /// Do the rest of an interrupted run: its id, a part of it, its folder, or `latest`. What is
    /// finished is kept. It uses the manifest as it was when the run began.
    #[arg(long, value_name = "RUN", conflicts_with = "manifest")]
    pub resume: Option<String>,
    /// Write reports to this folder instead of into the run folder.
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub report_dir: Option<PathBuf>,
    /// Install the runtimes that the manifest's backends need and that are missing, before anything
    /// is measured; an optional one only where a backend's options ask for it. Without this nothing
    /// is ever downloaded.
    #[arg(long)]
    pub install: bool,
}

const RUN_HELP: &str = "\
A manifest without [[metric]] gets latency, throughput, memory, startup and stability, and accuracy
where a model has labels. One without [[report]] gets html and markdown. One without [[recommend]] gets no advice.

All plugins that the manifest names, their options and the limits are checked before anything is
measured. A metric, report or recommender that fails afterwards costs its own output: the run is kept,
and the exit code is 4, or 6 where a case failed as well. Ctrl-C ends the run and keeps what is
finished; a second Ctrl-C ends it at once.";

/// Arguments of `init`.
#[derive(Debug, Args)]
pub struct InitArguments {
    /// The file to write.
    #[arg(value_name = "FILE", default_value = "experiment.toml", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Replace the file if it exists.
    #[arg(long)]
    pub force: bool,
}

/// Commands on plugins.
#[derive(Debug, Subcommand)]
pub enum PluginsCommand {
    /// List what is found and what is broken. No native plugin is loaded.
    List,
    /// Everything about one plugin: its options, or its devices.
    Info {
        /// The plugin's id.
        id: String,
    },
    /// Allow a native plugin whose library has changed, or that came with a manifest.
    #[command(after_long_help = TRUST_HELP)]
    Trust {
        /// The plugin's id.
        id: String,
    },
    /// Check whether a backend keeps the native ABI's contract.
    #[command(after_long_help = TEST_HELP)]
    Test {
        /// The plugin's folder, with a separator in it, such as ./scale; or the id of an installed one.
        #[arg(value_name = "DIR|ID", value_hint = ValueHint::DirPath)]
        plugin: String,
        /// A model, inputs and the outputs that are right, as a TOML file; where none is given, the
        /// `fixture.toml` of the plugin's folder, or else a tiny ONNX model in float32.
        #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        fixture: Option<PathBuf>,
        /// Make only the checks whose name has this in it, such as `shapes`.
        #[arg(long, value_name = "TEXT")]
        only: Option<String>,
    },
}

const TEST_HELP: &str = "\
The checks are made by the program plugin-testkit, which lies beside host. Each is made in a process
of its own, with the runtime that the plugin would be measured with, and a crash or a hang is a
failed check. One that does not apply, such as of an extension that is not offered, is listed with
the reason. The exit code is 0 where no check fails, and 4 where one does or nothing could be
checked.";

const TRUST_HELP: &str = "\
A native plugin can do whatever you can do. One that you put into your plugin folder, or name with
--plugins or TARE_PLUGINS, is used, and the SHA-256 of its library is recorded in plugins.lock. A
library that has changed since is refused until you trust it. One that only a manifest names is
refused from the start; to trust it, name its folder with --plugins. Plugins beside the executable
are as trusted as the executable. WASM plugins run in a sandbox and need no trust.";

/// Commands on runtimes.
#[derive(Debug, Subcommand)]
pub enum RuntimesCommand {
    /// List the runtimes that plugins use, and what else is installed.
    List,
    /// Install the runtimes of plugins, or put right what is damaged.
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
    /// Read every file of installed runtimes again and compare it with what was installed.
    Verify {
        /// Plugins' ids, or names as `list` shows them; all that are installed where none is given.
        #[arg(value_name = "ID")]
        ids: Vec<String>,
    },
}

const INSTALL_HELP: &str = "\
A plugin's runtime.lock names the packages that its runtime consists of, with their hashes. They
are fetched with your own pip (python3 -m pip), so that its settings for index, proxy, certificates
and cache hold, and unpacked into runtimes/ of your data folder. Nothing of them is run, and no
Python environment is changed. What has arrived whole is kept when the rest fails; the same command
then goes on from there.

A runtime that is on this machine already is named instead: with --runtime ID=PATH, with the
variable TARE_RUNTIME_ID, or with `path` under [runtime] in the plugin's plugin.toml, in this order.";

/// Commands on results.
#[derive(Debug, Subcommand)]
pub enum ResultsCommand {
    /// List the runs.
    List,
    /// Show one run: its cases, results and advice.
    Show {
        /// The run: its id, a part of it, its folder, or `latest`.
        #[arg(default_value = "latest")]
        run: String,
    },
    /// Say of each case that two runs have in common whether it got slower.
    #[command(after_long_help = COMPARE_HELP)]
    Compare {
        /// The run to compare with: its id, a part of it, its folder, or `latest`.
        first: String,
        /// The run that is compared.
        #[arg(default_value = "latest")]
        second: String,
    },
    /// Ask the database, in SQL. Only reading is allowed.
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
        /// The file. Its ending says the format: .csv, .parquet, or .jsonl.
        #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        to: PathBuf,
        /// What to export; docs/reference/views.md lists the columns.
        #[arg(long, default_value = "results", value_name = "VIEW", value_parser = PossibleValuesParser::new(host_store::exported_views()))]
        view: String,
    },
    /// Compute metrics of a run anew from its recorded samples, with the plugins found now.
    #[command(after_long_help = RECOMPUTE_HELP)]
    Recompute {
        /// The run: its id, a part of it, its folder, or `latest`.
        #[arg(default_value = "latest")]
        run: String,
        /// The metric plugins, which the run need not have had; all of the run's where none is named.
        #[arg(long = "metric", value_name = "PLUGIN", num_args = 1..)]
        metrics: Vec<String>,
        /// Say what would change, and change nothing.
        #[arg(long)]
        dry_run: bool,
    },
    /// Bring the database up to date with the run folders.
    Sync {
        /// Make the database anew.
        #[arg(long)]
        rebuild: bool,
    },
}

const COMPARE_HELP: &str = "\
Cases are matched by their id, so that only what is defined alike is compared. Of each the median
latency of the second run is held against that of the first. It takes several processes of both
runs to tell, as `processes = 5` under [measure] asks for: processes differ by more than the queries
of one do. Where their intervals at 95 % are apart, the case is slower or faster. Where they
overlap, where there is none, where a run has a single process or where a result is invalid, it
cannot be told, which does not mean that nothing changed. Of a single process the interval within is
shown, which says nothing of the next process.

The last column says in how many pairs of a first and a second value the second is the larger. Of
processes the values are their medians, and p is that of the test of Mann and Whitney: how often
chance alone would set two runs so far apart. So few values bound it from below: with three
processes of each run it is 0.10 at the least, with five 0.01. Queries of single processes have no
p, since they say nothing of what the next process would measure.";

const QUERY_HELP: &str = "\
The tables are benchmark_runs, benchmark_cases, benchmark_results, benchmark_warnings,
benchmark_plugins, hardware_info, recommendations, raw_benchmark_data, operators, device_states and
schema_version, with the rows of all runs; docs/reference/tables.md lists their columns. The views
of one run that reports read, such as results, warnings and latency_quantiles, are no tables here:
`host results export` writes them. For example:

  host results query \"SELECT experiment, count(*) FROM benchmark_runs GROUP BY ALL\"";

const RECOMPUTE_HELP: &str = "\
A metric of the run is given the options that it was given then, another none. What is new takes
the place of what was said before, in every command, view and database; what was said before
stays in the run folder's results.jsonl, each line with the version and hash of its plugin. A
metric that fails, or whose samples are lost, keeps the values that it had. Reports and advice
of the run stay as they are. With --dry-run, a metric over the run, such as scaling, reads the
values that are there.

Exit code 4 says that a plugin is missing or failed, 7 that values could not be computed because
files of the run are lost.";

/// What is generated from the code.
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
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Arguments::command().debug_assert();
    }
}
