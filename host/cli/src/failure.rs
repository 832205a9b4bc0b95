//! Errors at the edge: what failed, where, what to do, and the exit code.

use std::error::Error;
use std::fmt;
use std::path::Path;
use std::sync::OnceLock;

use host_authoring::Error as AuthoringError;
use host_experiment::{ClusterError, Error as ExperimentError, GuestFailure, Hint};
use host_manifest::ManifestErrors;
use host_registry::RegistryError;
use host_runtime::RuntimeError;
use host_store::StoreError;
use miette::{Diagnostic, LabeledSpan, SourceCode};

use crate::exit::Exit;
use crate::source_excerpt::SourceExcerpt;
use crate::visible;

/// Errors of a manifest that are shown; the rest is counted.
const MOST_SHOWN: usize = 20;

/// The name of the command in hints, if this process is not the command.
static PROGRAM: OnceLock<&str> = OnceLock::new();

/// Sets the name of the command in hints, for a process that is not the command.
pub(crate) fn call_the_program(name: &'static str) {
    PROGRAM.get_or_init(|| name);
}

/// Failure of a command, with its exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The exit code.
    pub(crate) exit: Exit,
    reports: Vec<Report>,
}

pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

/// One thing that is wrong.
#[derive(Debug)]
struct Report {
    message: String,
    help: Option<String>,
    cause: Option<Cause>,
    place: Option<Place>,
}

/// Messages of an error and its sources.
#[derive(Debug)]
struct Cause {
    words: String,
    cause: Option<Box<Cause>>,
}

/// One thing that is wrong, in parts, for a caller that shows it in its own way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What is wrong.
    pub message: String,
    /// Why, the nearest cause first.
    pub causes: Vec<String>,
    /// What to do.
    pub help: Option<String>,
    /// Where it is, if it is in a text.
    pub place: Option<PlaceInText>,
}

/// A place in a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaceInText {
    /// The manifest's name.
    pub name: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in bytes, from 1.
    pub column: usize,
    /// What is wrong there.
    pub label: Option<String>,
}

/// Position in a text.
#[derive(Debug)]
struct Place {
    source: SourceExcerpt,
    label: LabeledSpan,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        let message = shown(&message.into());
        let report = Report { message, help: None, cause: None, place: None };
        Self { exit, reports: vec![report] }
    }

    /// Says what to do.
    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        if let Some(report) = self.reports.first_mut() {
            report.help = Some(shown(&help.into()));
        }
        self
    }

    /// Says why it is so.
    pub(crate) fn because(mut self, cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        if let Some(report) = self.reports.first_mut() {
            report.cause = Some(Cause::of(&*cause.into()));
        }
        self
    }

    /// Joins several failures, which are all shown. The first one's exit code applies. `None` if there is
    /// none.
    pub(crate) fn all(failures: impl IntoIterator<Item = Self>) -> Option<Self> {
        failures.into_iter().reduce(|mut all, next| {
            all.reports.extend(next.reports);
            all
        })
    }

    /// Creates the failure of a file system operation.
    pub(crate) fn io(action: &str, path: &Path, error: std::io::Error) -> Self {
        Self::new(Exit::Failure, format!("cannot {action} {}", path.display())).because(error)
    }

    /// Creates the failure of a manifest with errors.
    pub(crate) fn manifest(errors: &ManifestErrors, path: &Path, text: &str) -> Self {
        let name = visible::line(&path.display().to_string()).into_owned();
        let text = visible::source(text);
        let reports = errors.errors.iter().take(MOST_SHOWN).map(|error| {
            let (source, span) = SourceExcerpt::around(&name, &text, &error.span);
            let label = Some(shown(&error.label)).filter(|label| !label.is_empty());
            Report {
                message: shown(&error.message),
                help: error.hint.as_deref().map(shown),
                cause: None,
                place: Some(Place { source, label: LabeledSpan::new_with_span(label, span) }),
            }
        });
        let mut failure = Self { exit: Exit::Manifest, reports: reports.collect() };
        if let Some(more @ 1..) = errors.errors.len().checked_sub(MOST_SHOWN) {
            let errors = if more == 1 { "error" } else { "errors" };
            failure
                .reports
                .extend(Self::new(Exit::Manifest, format!("and {more} more {errors}")).reports);
        }
        failure
    }

    /// Returns each problem in parts: message, causes, help, and place in a text.
    pub(crate) fn problems(&self) -> impl Iterator<Item = Problem> {
        self.reports.iter().map(|report| {
            let causes =
                std::iter::successors(report.cause.as_ref(), |cause| cause.cause.as_deref());
            Problem {
                message: report.message.clone(),
                causes: causes.map(|cause| cause.words.clone()).collect(),
                help: report.help.clone(),
                place: report.place.as_ref().and_then(|place| {
                    let span = place.label.inner();
                    let contents = place.source.read_span(span, 0, 0).ok()?;
                    Some(PlaceInText {
                        name: contents.name().unwrap_or_default().to_owned(),
                        line: contents.line() + 1,
                        column: contents.column() + 1,
                        label: place.label.label().map(str::to_owned),
                    })
                }),
            }
        })
    }

    /// Iterates over the diagnostics.
    pub(crate) fn reports(&self) -> impl Iterator<Item = &(dyn Diagnostic + '_)> {
        self.reports.iter().map(|report| report as &dyn Diagnostic)
    }
}

/// Returns foreign text without control characters, to be shown between the tool's own styles.
fn shown(text: &str) -> String {
    visible::lines(&visible::excerpt(text)).into_owned()
}

impl Cause {
    fn of(error: &(dyn Error + 'static)) -> Self {
        let cause = error.source().map(|cause| Box::new(Self::of(cause)));
        Self { words: shown(&error.to_string()), cause }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.words)
    }
}

impl Error for Cause {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.as_deref().map(|cause| cause as &dyn Error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, report) in self.reports.iter().enumerate() {
            write!(formatter, "{}{report}", if index == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl Error for Report {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.as_ref().map(|cause| cause as &dyn Error)
    }
}

impl Diagnostic for Report {
    fn help(&self) -> Option<Box<dyn fmt::Display + '_>> {
        self.help.as_ref().map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.place.as_ref().map(|place| &place.source as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let place = self.place.as_ref()?;
        Some(Box::new(std::iter::once(place.label.clone())))
    }
}

impl From<ExperimentError> for Failure {
    fn from(error: ExperimentError) -> Self {
        let hint = error.hint().map(|hint| words(&hint));
        let message = error.to_string();
        let failure = |exit| {
            let failure = Self::new(exit, message);
            match hint {
                Some(hint) => failure.help(hint),
                None => failure,
            }
        };
        match error {
            ExperimentError::Several(errors) => {
                let all = Self::all(errors.into_iter().map(Self::from));
                all.unwrap_or_else(|| failure(Exit::Failure))
            }
            ExperimentError::Manifest { errors, name, text, is_of_plugins } => {
                let exit = if is_of_plugins { Exit::Plugin } else { Exit::Manifest };
                Self { exit, ..Self::manifest(&errors, &name, &text) }
            }
            ExperimentError::Registry(error) => error.into(),
            ExperimentError::Runtime(error) => error.into(),
            ExperimentError::Store(error) => error.into(),
            ExperimentError::NoSuchSide { .. }
            | ExperimentError::NoSuchReference { .. }
            | ExperimentError::NoBaseline { .. }
            | ExperimentError::Baseline { .. }
            | ExperimentError::NewerBaseline { .. }
            | ExperimentError::NothingMeasured { .. }
            | ExperimentError::NothingInCommon { .. } => failure(Exit::Results),
            ExperimentError::BaselineName { .. }
            | ExperimentError::NothingToCheck { .. }
            | ExperimentError::NoSuchMetric { .. }
            | ExperimentError::NoBetterDirection { .. } => failure(Exit::Usage),
            ExperimentError::InterruptedInstallation(error) => {
                Self { exit: Exit::Interrupted, ..error.into() }
            }
            ExperimentError::ReadManifest { source, .. } => failure(Exit::Manifest).because(source),
            ExperimentError::Utf16 { .. } | ExperimentError::FolderName { .. } => {
                failure(Exit::Manifest)
            }
            ExperimentError::NoBackend
            | ExperimentError::Guest(_)
            | ExperimentError::Broken { .. }
            | ExperimentError::NothingInstalled { .. }
            | ExperimentError::NoRuntime { .. }
            | ExperimentError::NotAPlugin { .. }
            | ExperimentError::UnusableGuest { .. }
            | ExperimentError::NothingToAdd { .. }
            | ExperimentError::BrokenPlugin(_)
            | ExperimentError::NotChecked { .. } => failure(Exit::Plugin),
            ExperimentError::Onnx(error) => {
                let source = std::error::Error::source(&error).map(ToString::to_string);
                match source {
                    Some(source) => failure(Exit::Failure).because(std::io::Error::other(source)),
                    None => failure(Exit::Failure),
                }
            }
            ExperimentError::NoSuchRuntimePlugin { .. }
            | ExperimentError::OtherKind { .. }
            | ExperimentError::NoSuchOption { .. }
            | ExperimentError::NotAdded { .. }
            | ExperimentError::NoModel { .. }
            | ExperimentError::Architecture(_) => failure(Exit::Usage),
            ExperimentError::NoHistory { .. } | ExperimentError::NoSuchCase { .. } => {
                failure(Exit::Results)
            }
            ExperimentError::FlameGraph { source, .. } => failure(Exit::Failure).because(source),
            ExperimentError::Sandbox(source) => failure(Exit::Failure).because(source),
            ExperimentError::NotACheck { source, .. } => failure(Exit::Failure).because(source),
            ExperimentError::Io { source, .. } => failure(Exit::Failure).because(source),
            ExperimentError::Cluster(
                ClusterError::NoPartition { .. } | ClusterError::PairApart { .. },
            ) => failure(Exit::Manifest),
            ExperimentError::Cluster(ClusterError::NotOfACluster { .. }) => failure(Exit::Results),
            ExperimentError::Cluster(error) => {
                let source = std::error::Error::source(&error).map(ToString::to_string);
                match source {
                    Some(source) => failure(Exit::Failure).because(std::io::Error::other(source)),
                    None => failure(Exit::Failure),
                }
            }
            ExperimentError::Interrupted => failure(Exit::Interrupted),
            ExperimentError::NoWorker { .. }
            | ExperimentError::NoTestkit { .. }
            | ExperimentError::NoCache
            | ExperimentError::NoPluginFolder
            | ExperimentError::NoNoise { .. }
            | ExperimentError::Changed { .. }
            | ExperimentError::NotKept { .. } => failure(Exit::Failure),
        }
    }
}

impl From<AuthoringError> for Failure {
    fn from(error: AuthoringError) -> Self {
        let exit = match &error {
            AuthoringError::NotOffered { .. }
            | AuthoringError::Name { .. }
            | AuthoringError::NotEmpty { .. }
            | AuthoringError::NotAFolder { .. }
            | AuthoringError::NotAProject { .. } => Exit::Usage,
            AuthoringError::Io { .. } | AuthoringError::NoTool { .. } => Exit::Failure,
            AuthoringError::Description { .. }
            | AuthoringError::Failed { .. }
            | AuthoringError::NoResult { .. }
            | AuthoringError::NoComponent { .. } => Exit::Plugin,
        };
        let help = error.help();
        let failure = Self::new(exit, error.to_string());
        let failure = match error {
            AuthoringError::Io { source, .. } => failure.because(source),
            _ => failure,
        };
        match help {
            Some(help) => failure.help(help),
            None => failure,
        }
    }
}

/// Returns a hint in terms of this tool's commands.
fn words(hint: &Hint) -> String {
    match hint {
        Hint::StartManifest => "`host init` writes one to start from".into(),
        Hint::ListPlugins => "`host plugins list` shows what is installed".into(),
        Hint::ListRuntimes => "`host runtimes list` shows the plugins that do".into(),
        Hint::ListInstalledRuntimes => "`host runtimes list` shows what is installed".into(),
        Hint::CheckInstallation => {
            "install the two together; `host doctor` checks the installation".into()
        }
        Hint::Resume { run, results } => {
            let command = resume_command(run, results);
            format!("when that is mended, do the rest with: {command}")
        }
        Hint::Attach { run, results } => {
            let command = attach_command(run, results);
            format!("when that is mended, do the rest with: {command}")
        }
        Hint::Text(text) => text.clone(),
    }
}

/// Returns the exit code of a command that ends well, but for guests.
pub(crate) fn of_guests(failure: Option<GuestFailure>) -> Exit {
    match failure {
        Some(GuestFailure::Plugin) => Exit::Plugin,
        Some(GuestFailure::FileSystem) => Exit::Failure,
        None => Exit::Success,
    }
}

/// Returns the command that resumes a run.
pub(crate) fn resume_command(run: &str, results: &Path) -> String {
    command(&format!("run --resume {run}"), results)
}

/// Returns the command that follows a run on a cluster again.
pub(crate) fn attach_command(run: &str, results: &Path) -> String {
    command(&format!("run --attach {run}"), results)
}

/// The command that shows a run.
pub(crate) fn show_command(run: &str, results: &Path) -> String {
    command(&format!("results show {}", shell_word(Path::new(run))), results)
}

fn command(words: &str, results: &Path) -> String {
    let place = if results == Path::new("results") {
        String::new()
    } else {
        format!(" --results {}", shell_word(results))
    };
    // As it was called this time, which need not be by a name that the shell finds.
    let called = || std::env::args_os().next().unwrap_or_else(|| "host".into());
    let program = PROGRAM.get().map_or_else(called, Into::into);
    let program = shell_word(Path::new(&program));
    format!("{program} {words}{place}")
}

/// Returns the path as one word of a POSIX shell.
fn shell_word(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+:@%,=".contains(&byte);
    if text.bytes().all(plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

impl From<RegistryError> for Failure {
    fn from(error: RegistryError) -> Self {
        let help = error.help();
        let failure = Self::new(Exit::Plugin, error.to_string());
        let failure = match error {
            RegistryError::Read { source, .. } => failure.because(source),
            _ => failure,
        };
        match help {
            Some(help) => failure.help(help),
            None => failure,
        }
    }
}

impl From<RuntimeError> for Failure {
    fn from(error: RuntimeError) -> Self {
        let help = error.help();
        // Errors of the disk or the system are not a plugin's fault.
        let exit = match error {
            RuntimeError::Io { .. } | RuntimeError::Space { .. } | RuntimeError::Nowhere => {
                Exit::Failure
            }
            _ => Exit::Plugin,
        };
        let failure = Self::new(exit, error.to_string());
        let failure = match error {
            RuntimeError::Io { source, .. } => failure.because(source),
            _ => failure,
        };
        match help {
            Some(help) => failure.help(help),
            None => failure,
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let failure = Self::new(exit(&error), error.to_string());
        match error.hint() {
            Some(hint) => failure.help(hint),
            None => failure,
        }
    }
}

/// Returns the exit code of an error of the store. Missing, busy or damaged results and wrong queries have
/// their own; all others are internal.
fn exit(error: &StoreError) -> Exit {
    match error {
        StoreError::Malformed { .. }
        | StoreError::Unsuitable { .. }
        | StoreError::OtherRun { .. }
        | StoreError::NewerRecord { .. }
        | StoreError::Parquet { .. }
        | StoreError::LostFiles { .. }
        | StoreError::NoSuchRun { .. }
        | StoreError::AmbiguousRun { .. }
        | StoreError::NotARun { .. }
        | StoreError::Link { .. }
        | StoreError::RunLocked { .. }
        | StoreError::Busy { .. }
        | StoreError::NoDatabase { .. }
        | StoreError::NewerDatabase { .. }
        | StoreError::Unreadable { .. }
        | StoreError::Query { .. } => Exit::Results,
        StoreError::Io { .. }
        | StoreError::NotOurs { .. }
        | StoreError::NotUnicode { .. }
        | StoreError::OutOfOrder { .. }
        | StoreError::NotFinite { .. }
        | StoreError::Database { .. } => Exit::Failure,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};

    use super::*;

    #[test]
    fn what_the_machine_refuses_is_told_from_results_that_are_not_there() {
        let path = || std::path::PathBuf::from("results");
        let detail = || String::from("IO Error: no space left");
        let source = || Error::from(ErrorKind::StorageFull);
        for (error, exit) in [
            (StoreError::Io { action: "write", path: path(), source: source() }, Exit::Failure),
            (StoreError::Database { action: "export", detail: detail() }, Exit::Failure),
            (StoreError::Malformed { path: path(), line: 1, detail: detail() }, Exit::Results),
            (StoreError::NotARun { path: path() }, Exit::Results),
            (StoreError::Busy { path: path(), detail: detail() }, Exit::Results),
            (StoreError::Query { detail: detail() }, Exit::Results),
        ] {
            let text = error.to_string();
            assert_eq!(Failure::from(error).exit, exit, "{text}");
        }
    }
}
