//! Errors of the application.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use host_architectures::ArchitectureError;
use host_manifest::ManifestErrors;
use host_onnx::OnnxError;
use host_record::{Axis, CaseKey, Gap, PluginIdentity};
use host_registry::{Problem, RegistryError};
use host_run::RunError;
use host_runtime::RuntimeError;
use host_store::StoreError;
use host_wasm::{GuestError, Kind};

use crate::cluster::ClusterError;
use crate::problem::GuestProblem;

/// The result of a call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Errors of the application.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The manifest's file cannot be read.
    #[error("cannot read the manifest {}", path.display())]
    ReadManifest {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The manifest is not text in UTF-8 but, by its first bytes, in UTF-16.
    #[error("the manifest {} looks like UTF-16, from its first byte on", name.display())]
    Utf16 {
        /// The manifest's name.
        name: PathBuf,
    },
    /// The manifest is wrong, or names what is missing. Each error has its place in the text.
    #[error("{errors}")]
    Manifest {
        /// The errors, in the order of the text.
        errors: ManifestErrors,
        /// The manifest's name.
        name: PathBuf,
        /// Its text, which the places refer to.
        text: String,
        /// Whether the manifest is correct and only plugins that it names are missing or broken.
        is_of_plugins: bool,
    },
    /// The manifest's folder cannot be recorded.
    #[error("the folder {} has a name that is not UTF-8", path.display())]
    FolderName {
        /// The folder.
        path: PathBuf,
    },
    /// A word stands for no model.
    #[error("`{word}` is neither a file nor an architecture")]
    NoModel {
        /// The word.
        word: String,
        /// The name that is nearest, or all of them.
        hint: Option<String>,
    },
    /// A model's file cannot be read, or is not a model.
    #[error(transparent)]
    Onnx(#[from] OnnxError),
    /// An architecture has other sizes than those that are given.
    #[error(transparent)]
    Architecture(ArchitectureError),
    /// There is no folder to write architectures to.
    #[error("there is no cache folder to write architectures to")]
    NoCache,
    /// No case of a run has this id.
    #[error("the run {run} has no case whose id begins with `{case}`; its cases are {}", known.join(", "))]
    NoSuchCase {
        /// The beginning of the id.
        case: String,
        /// The run's id.
        run: String,
        /// The ids of its cases.
        known: Vec<String>,
    },
    /// A flame graph cannot be drawn.
    #[error("no flame graph can be drawn of the case {case}")]
    FlameGraph {
        /// The case's id.
        case: String,
        /// The reason.
        source: io::Error,
    },
    /// The manifest asks for all backends, and none is installed.
    #[error("`all` matches no backend: none is installed")]
    NoBackend,
    /// A WASM plugin cannot be used, or refuses its options, and no manifest has a place for it.
    #[error("{0}")]
    Guest(Box<GuestProblem>),
    /// A runtime is named for a plugin that does not take one.
    #[error("--runtime names `{id}`, but no plugin of that id needs a runtime")]
    NoSuchRuntimePlugin {
        /// The plugin's id.
        id: String,
    },
    /// The sandbox for WASM plugins cannot start.
    #[error("the sandbox for WASM plugins cannot start")]
    Sandbox(#[source] GuestError),
    /// The worker was not found.
    #[error("{name} was not found beside the executable of host")]
    NoWorker {
        /// The name of its executable.
        name: String,
    },
    /// A native plugin is missing, broken or not trusted.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// No plugin of an id can be used, though there are some.
    #[error("plugin `{id}` cannot be used: {}", list(&broken.iter().map(|(reason, _)| reason).collect::<Vec<_>>()))]
    Broken {
        /// The id.
        id: String,
        /// The reasons and the advice; never empty.
        broken: Vec<(String, String)>,
    },
    /// A name stands for no run, baseline or commit.
    #[error("{source}")]
    NoSuchReference {
        /// The error of the search among runs.
        source: StoreError,
        /// The names of baselines that there are.
        baselines: Vec<String>,
    },
    /// A run has no case with a value of an axis, between which cases are compared.
    #[error("the run `{run}` has measured no case with {axis} `{value}`; it has: {}", found.join(", "))]
    NoSuchSide {
        /// The run's id.
        run: String,
        /// The axis.
        axis: Axis,
        /// The value.
        value: String,
        /// The values of its measured cases.
        found: Vec<String>,
    },
    /// The file of a baseline does not exist.
    #[error("there is no baseline {}", path.display())]
    NoBaseline {
        /// The file.
        path: PathBuf,
    },
    /// A file is not a baseline, or is damaged.
    #[error("{} is not a baseline, or is damaged: {detail}", path.display())]
    Baseline {
        /// The file.
        path: PathBuf,
        /// The error.
        detail: String,
    },
    /// A baseline was written by a newer host.
    #[error("the baseline {} has version {found}, but this host reads versions up to {supported}", path.display())]
    NewerBaseline {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The newest version that this host reads.
        supported: u32,
    },
    /// A name cannot be that of a baseline.
    #[error("`{name}` cannot be the name of a baseline")]
    BaselineName {
        /// The name.
        name: String,
    },
    /// A run has no case that a baseline could keep.
    #[error("the run {run} has measured nothing that a baseline could keep")]
    NothingMeasured {
        /// The run's id.
        run: String,
    },
    /// There is nothing that a run could be checked by.
    #[error(
        "there is nothing to check {run} by: no baseline is named, and its manifest has no alert"
    )]
    NothingToCheck {
        /// The run's id.
        run: String,
    },
    /// Two runs share no case.
    #[error("{first} and {second} have no case in common that both have measured")]
    NothingInCommon {
        /// The first run's id.
        first: String,
        /// The second run's id.
        second: String,
    },
    /// No case has a metric.
    #[error("no case has the metric `{metric}`")]
    NoSuchMetric {
        /// The metric.
        metric: String,
        /// The metrics that there are.
        known: Vec<String>,
    },
    /// Of a metric neither way is better.
    #[error("`{metric}` cannot regress: neither more nor less of it is better")]
    NoBetterDirection {
        /// The metric.
        metric: String,
    },
    /// A vendor's runtime cannot be found or installed.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// Nothing can be installed for a plugin on this machine, so that nothing is installed.
    #[error("nothing is installed for `{id}`: its runtime `{name}` {reason}")]
    NothingInstalled {
        /// The plugin's id.
        id: String,
        /// The name of its runtime.
        name: String,
        /// Why.
        reason: String,
    },
    /// The runtime is missing that a plugin cannot do without.
    #[error("{gap}")]
    NoRuntime {
        /// Which one, and why it cannot be used.
        gap: Box<Gap>,
    },
    /// A plugin's file cannot be used.
    #[error("{}: {error}", path.display())]
    UnusableGuest {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: Box<GuestError>,
        /// The remedy.
        hint: String,
    },
    /// A plugin's file is of another kind.
    #[error("{} is a {found} plugin, and a {wanted} plugin is needed", path.display())]
    OtherKind {
        /// The file.
        path: PathBuf,
        /// Its kind.
        found: Kind,
        /// The kind that the command takes.
        wanted: Kind,
    },
    /// A plugin has no such option.
    #[error("{plugin} has no option `{option}`")]
    NoSuchOption {
        /// The plugin's id.
        plugin: String,
        /// The option.
        option: String,
        /// Its options.
        known: Vec<String>,
    },
    /// A path has no plugin that can be added.
    #[error("{} is not a plugin: {reason}", path.display())]
    NothingToAdd {
        /// The path.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The user has no folder for plugins.
    #[error("there is no folder to add plugins to")]
    NoPluginFolder,
    /// A plugin is not in the user's plugin folder.
    #[error("`{id}` is not in your plugin folder but at {}", place.display())]
    NotAdded {
        /// Its id.
        id: String,
        /// Where it is.
        place: PathBuf,
    },
    /// The path is not that of a plugin's folder.
    #[error("{target} is not a plugin: {}", if *is_folder { "it has no plugin.toml" } else { "there is no such folder" })]
    NotAPlugin {
        /// The path.
        target: String,
        /// Whether the path is a folder.
        is_folder: bool,
    },
    /// A plugin's folder has something wrong with it.
    #[error("{0}")]
    BrokenPlugin(Box<Problem>),
    /// The conformance suite could not check a plugin.
    #[error("`{id}` could not be checked: {reason}")]
    NotChecked {
        /// The plugin's id.
        id: String,
        /// Why.
        reason: String,
    },
    /// The conformance suite was not found.
    #[error("{name} was not found beside the executable of host")]
    NoTestkit {
        /// The name of its executable.
        name: String,
    },
    /// The conformance suite is of another version.
    #[error("plugin-testkit wrote a line that is not a check: {line}")]
    NotACheck {
        /// The line.
        line: String,
        /// Why it cannot be read.
        source: serde_json::Error,
    },
    /// Nothing in the database has a name.
    #[error("the database has no {what} `{name}`")]
    NoHistory {
        /// The kind of the name, such as `model or case`.
        what: &'static str,
        /// The name.
        name: String,
        /// The nearest names, or all of them.
        hint: Option<String>,
    },
    /// A run folder or the database cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The file system refused something.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// The verb.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The noise of the machine cannot be measured.
    #[error("the noise of this machine cannot be measured: {reason}")]
    NoNoise {
        /// The worker's failure.
        reason: String,
    },
    /// A run on a cluster failed.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// Interrupted before the first case.
    #[error("interrupted before anything was measured")]
    Interrupted,
    /// Interrupted while a runtime was installed.
    #[error("{0}")]
    InterruptedInstallation(RuntimeError),
    /// Results of one run come from the same code and the same files, and these are others now.
    #[error("the run cannot be resumed, since its parts have changed: {}", list(changes))]
    Changed {
        /// The changes; never empty.
        changes: Vec<Change>,
    },
    /// Results could not be kept, so the run has ended early.
    #[error("{error}")]
    NotKept {
        /// The run's id.
        run: String,
        /// The results folder that it lies in.
        results: PathBuf,
        /// The reason.
        error: RunError,
    },
    /// Several independent errors.
    #[error("{}", list(.0))]
    Several(Vec<Error>),
}

/// A difference between the run as it began and the run as it would go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Change {
    /// A plugin is not found any more.
    #[error("the plugin `{id}` is gone")]
    PluginGone {
        /// Its id.
        id: String,
    },
    /// A plugin has another version or hash.
    #[error("the plugin `{}` was {} and is now {}", then.id, described(then), described(now))]
    Plugin {
        /// The plugin when the run began.
        then: PluginIdentity,
        /// The plugin now.
        now: PluginIdentity,
    },
    /// A plugin would run on another runtime.
    #[error("the plugin `{id}` ran on another runtime")]
    Runtime {
        /// The plugin's id.
        id: String,
    },
    /// The plan has fewer cases.
    #[error("there are fewer cases now")]
    FewerCases,
    /// The plan has more cases.
    #[error("there are more cases now")]
    MoreCases,
    /// The first case that differs.
    #[error("the case {key} has changed: its model, data or device is different")]
    Case {
        /// Its coordinates.
        key: CaseKey,
    },
}

fn described(identity: &PluginIdentity) -> String {
    let hash = identity.sha256.get(..12).unwrap_or(&identity.sha256);
    format!("{} ({hash})", identity.version)
}

fn list(items: &[impl fmt::Display]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Remedy for an error. The caller writes it in terms of its own commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hint {
    /// Write a manifest to start from.
    StartManifest,
    /// See which plugins are installed.
    ListPlugins,
    /// See which plugins take a runtime.
    ListRuntimes,
    /// See which runtimes are installed.
    ListInstalledRuntimes,
    /// Check the installation.
    CheckInstallation,
    /// Resume the run, once the reason is mended.
    Resume {
        /// The run's id.
        run: String,
        /// The results folder that it lies in.
        results: PathBuf,
    },
    /// Follow the run again, once the reason is mended: what is missing is submitted again.
    Attach {
        /// The run's id.
        run: String,
        /// The results folder that it lies in.
        results: PathBuf,
    },
    /// A sentence from the crate that the error comes from.
    Text(String),
}

impl Error {
    /// Returns the remedy, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<Hint> {
        let text = |text: &str| Some(Hint::Text(text.to_owned()));
        match self {
            Self::ReadManifest { source, .. } => {
                if source.kind() == io::ErrorKind::NotFound {
                    Some(Hint::StartManifest)
                } else if host_files::is_unsuitable(source) {
                    text("`-` reads the manifest from standard input, which may be a pipe")
                } else {
                    None
                }
            }
            Self::Utf16 { .. } => {
                text("save it as UTF-8; in PowerShell, `Out-File -Encoding utf8` does")
            }
            Self::FolderName { .. } => text(
                "models and data are found from there, and recorded as text: put them elsewhere",
            ),
            Self::NoModel { hint, .. } | Self::NoHistory { hint, .. } => {
                hint.clone().map(Hint::Text)
            }
            Self::Onnx(OnnxError::Weights { .. }) => {
                text("put the whole file beside the model, under this name")
            }
            Self::Onnx(OnnxError::Broken { .. }) => {
                text("export it again; `onnx.checker.check_model` of the package `onnx` tells more")
            }
            Self::Architecture(error) => error.hint().map(Hint::Text),
            Self::Cluster(ClusterError::Slurm(error)) => error.hint().and_then(text),
            Self::Cluster(ClusterError::Unmeasured { run, results, .. }) => {
                Some(Hint::Attach { run: run.clone(), results: results.clone() })
            }
            Self::Cluster(ClusterError::OtherPlugin { .. } | ClusterError::OtherFile { .. }) => {
                text(
                    "use the same files on this machine and on all nodes, such as by a shared folder",
                )
            }
            Self::Cluster(ClusterError::NoPlugin { .. }) => text(
                "install it where the nodes see it, such as in a shared folder that `--plugins` names",
            ),
            Self::Cluster(ClusterError::NoPartition { .. }) => {
                text("correct `partition` under `[execution]`")
            }
            Self::Cluster(ClusterError::PairApart { .. }) => {
                text("name one kind of node that has both, under `[execution]`")
            }
            Self::Cluster(
                ClusterError::NoFacts { .. }
                | ClusterError::Block { .. }
                | ClusterError::NotOfACluster { .. },
            ) => None,
            Self::NoCache => text("set XDG_CACHE_HOME, or HOME, to an absolute path"),
            Self::NoBackend => Some(Hint::ListPlugins),
            Self::Guest(problem) => problem.hint.clone().map(Hint::Text),
            Self::NoSuchRuntimePlugin { .. } => Some(Hint::ListRuntimes),
            Self::NothingInstalled { .. } => Some(Hint::ListInstalledRuntimes),
            Self::NoWorker { .. } | Self::NoNoise { .. } => Some(Hint::CheckInstallation),
            Self::Registry(error) => error.help().map(Hint::Text),
            Self::Broken { broken, .. } => {
                let advice: Vec<_> = broken.iter().map(|(_, advice)| advice).collect();
                Some(Hint::Text(list(&advice)))
            }
            Self::Runtime(error) | Self::InterruptedInstallation(error) => {
                error.help().map(Hint::Text)
            }
            Self::Store(error) => error.hint().map(Hint::Text),
            Self::Changed { .. } => text(
                "put back what was there when it began, or start a new run; what was measured is kept",
            ),
            Self::NotKept { run, results, .. } => {
                Some(Hint::Resume { run: run.clone(), results: results.clone() })
            }
            Self::UnusableGuest { hint, .. } => Some(Hint::Text(hint.clone())),
            Self::OtherKind { found, .. } => Some(Hint::Text(match found {
                Kind::Metric => "`host plugins compute RUN FILE` tries metrics".into(),
                Kind::Report => "`host plugins report RUN FILE` tries reports".into(),
                Kind::Recommender => "`host plugins recommend RUN FILE` tries recommenders".into(),
            })),
            Self::NoSuchOption { known, .. } => Some(Hint::Text(match &known[..] {
                [] => "it has no options".into(),
                known => format!("it has: {}", known.join(", ")),
            })),
            Self::NothingToAdd { .. } => text(
                "name a plugin's folder, its .wasm file, or an archive of its folder: .zip or .tar.gz",
            ),
            Self::NoPluginFolder => text("set HOME, or XDG_DATA_HOME to an absolute path"),
            Self::NotAdded { .. } => text(
                "only plugins in your plugin folder are removed; `host plugins list` shows where each is",
            ),
            Self::NotAPlugin { .. } => text(
                "a plugin is a folder with plugin.toml and the library that it names; one that is \
                 installed can be named by its id",
            ),
            Self::BrokenPlugin(problem) => Some(Hint::Text(problem.help())),
            Self::NoTestkit { .. } => text(
                "install the two together, or build it with `cargo build -p tare-plugin-testkit`",
            ),
            Self::NotACheck { .. } => {
                text("host and plugin-testkit must be of one version: install the two together")
            }
            Self::NoSuchReference { source, baselines } => {
                let runs = source.hint().unwrap_or_default();
                Some(Hint::Text(match baselines.as_slice() {
                    [] => format!(
                        "{runs}; a baseline is made with `--save-baseline`, and a commit is named by seven or more digits \
                         and needs a run that was made without changes to it"
                    ),
                    some => format!("{runs}; baselines: {}", some.join(", ")),
                }))
            }
            Self::NoSuchSide { .. } => {
                text("name two of these values, or measure a run that has both")
            }
            Self::NoBaseline { .. } => text("`host check RUN --save-baseline FILE` writes one"),
            Self::Baseline { .. } => text(
                "restore it from a copy, or write it again with `host check RUN --save-baseline FILE`",
            ),
            Self::NewerBaseline { .. } => {
                text("update this host, or write the baseline again with this one")
            }
            Self::BaselineName { .. } => text(
                "end the name of a file with .json; another name has letters, digits, `.`, `_`, `-`, `@` and `+`, such as \
                 main@runner-1",
            ),
            Self::NothingMeasured { .. } => {
                text("`host results show RUN --warnings` says why its cases failed or are gaps")
            }
            Self::NothingToCheck { .. } => text(
                "name one with --baseline, or add an `[[alert]]` to the manifest and measure again",
            ),
            Self::NothingInCommon { .. } => text(
                "cases are matched by their definition, or else by model, backend, device, precision, batch, sequence \
                 length, mode and scenario: measure both with one manifest",
            ),
            Self::NoSuchMetric { metric, known } => {
                let known: Vec<&str> = known.iter().map(String::as_str).collect();
                Some(Hint::Text(host_manifest::suggestions(metric, &known, "there are")))
            }
            Self::NoBetterDirection { .. } => text("`host compare` shows how it changed"),
            Self::Manifest { .. }
            | Self::Onnx(_)
            | Self::NoRuntime { .. }
            | Self::NotChecked { .. }
            | Self::NoSuchCase { .. }
            | Self::FlameGraph { .. }
            | Self::Sandbox(_)
            | Self::Io { .. }
            | Self::Interrupted
            | Self::Several(_) => None,
        }
    }

    /// Joins errors; `None` if there are none.
    #[must_use]
    pub fn all(errors: impl IntoIterator<Item = Self>) -> Option<Self> {
        let mut errors: Vec<_> = errors.into_iter().collect();
        match errors.len() {
            0 | 1 => errors.pop(),
            _ => Some(Self::Several(errors)),
        }
    }

    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), source }
    }
}
