/*!
The conformance suite for whoever writes a backend.

The suite is the program `plugin-testkit`, which lies beside the worker and makes each check in a process of
its own: a native plugin is never loaded here. It gets the environment that a worker would get.
*/

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{self, Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use host_registry::{NativePlugin, Places, Registry, RegistryError, Search};
use host_run::LocalPlugin;
use host_runtime::RuntimeStatus;
use serde::{Deserialize, Serialize};

use crate::backends::{executor, nothing_found};
use crate::error::{Error, Result};
use crate::observer::Silent;
use crate::platform::testkit_file_name;
use crate::plugins::plugin_info;
use crate::runtimes::missing;
use crate::settings::Settings;
use crate::shadow::Shadow;

/// The default fixture in a plugin's folder.
const OWN_FIXTURE: &str = "fixture.toml";

/// Result of a check, as `plugin-testkit --json` writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CheckVerdict {
    /// The plugin keeps to it.
    Holds,
    /// The plugin does not.
    Fails,
    /// The check does not apply.
    NotChecked,
}

impl CheckVerdict {
    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Fails => "fails",
            Self::NotChecked => "not-checked",
        }
    }
}

/// A check, done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckedPlugin {
    /// Its name.
    pub check: String,
    /// The result.
    pub verdict: CheckVerdict,
    /// The finding of a failed check, or the reason why it does not apply.
    #[serde(default)]
    pub detail: Option<String>,
    /// Duration in seconds.
    pub seconds: f64,
}

/// A suite that is about to be run.
#[derive(Debug)]
pub struct Suite {
    /// The plugin.
    pub plugin: NativePlugin,
    /// The fixture; `None`: the one that comes with the suite.
    pub fixture: Option<PathBuf>,
    /// The fixture that the plugin's folder would have.
    pub own_fixture: PathBuf,
    program: PathBuf,
    runtime: Option<PathBuf>,
    shadow: Option<Shadow>,
}

impl Suite {
    /// Prepares the suite for a plugin: its folder, with a separator in it, or the id of an installed one.
    ///
    /// # Errors
    ///
    /// If there is no such plugin, it lacks its runtime, or it has no device to make the checks on.
    pub fn new(target: &str, fixture: Option<&Path>, settings: &Settings) -> Result<Self> {
        let (plugin, registry, shadow) = plugin(target, settings)?;
        let own_fixture = plugin.folder.join(OWN_FIXTURE);
        let fixture = fixture.or_else(|| own_fixture.is_file().then_some(&*own_fixture));
        let fixture = fixture.map(Path::to_owned);
        let runtime = runtime(&plugin, &registry, settings)?;
        let program = program(settings)?;
        see_that_it_has_a_device(&plugin, runtime.as_deref(), fixture.as_deref(), settings)?;
        Ok(Self { plugin, fixture, own_fixture, program, runtime, shadow })
    }

    /// Returns the built-in plugin that the tested one is used instead of, if any.
    #[must_use]
    pub fn shadow(&self) -> Option<&Shadow> {
        self.shadow.as_ref()
    }

    /// Makes the checks whose name has `only` in it, and tells each as soon as it is done. A check that takes longer than
    /// `timeout` fails.
    ///
    /// # Errors
    ///
    /// If nothing can be checked, or the suite is of another version.
    pub fn run(
        &self,
        only: Option<&str>,
        timeout: Option<Duration>,
        on_result: &mut dyn FnMut(&CheckedPlugin),
    ) -> Result<Vec<CheckedPlugin>> {
        let mut command = Command::new(&self.program);
        // It ends all that the plugin starts, and does so as well when this process is ended without notice.
        command.args(["--json", "--with-parent"]);
        command.args(only.iter().flat_map(|only| ["--only", only]));
        if let Some(timeout) = timeout {
            let seconds = timeout.as_secs_f64().ceil().max(1.0);
            command.args(["--time-limit", &seconds.to_string()]);
        }
        command.arg(&self.plugin.library).args(&self.fixture);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let variables = &self.plugin.metadata.environment;
        host_run::set_environment(&mut command, self.runtime.as_deref(), variables);
        let failed = |error| Error::io("run", &self.program, error);
        let mut child = command.spawn().map_err(failed)?;
        let stdout = child.stdout.take().expect("it is piped");
        let mut stderr = child.stderr.take().expect("it is piped");
        let mut checks = Vec::new();
        for line in BufReader::new(stdout).lines() {
            let checked = parse(&line.map_err(failed)?)?;
            on_result(&checked);
            checks.push(checked);
        }
        // Only errors before the checks are written there, so the pipe does not fill up.
        let mut message = String::new();
        stderr.read_to_string(&mut message).map_err(failed)?;
        let status = child.wait().map_err(failed)?;
        if !matches!(status.code(), Some(0 | 1)) || checks.is_empty() {
            let message = message.trim();
            let reason = if message.is_empty() { status.to_string() } else { message.to_owned() };
            return Err(Error::NotChecked { id: self.plugin.metadata.id.clone(), reason });
        }
        Ok(checks)
    }
}

/// Returns whether what an argument names is a backend, or nothing that is known, as opposed to a metric, report or
/// recommender.
#[must_use]
pub fn is_native(target: &str, settings: &Settings) -> bool {
    if target.ends_with(".wasm") {
        return false;
    }
    if is_folder(target) {
        let folder = Path::new(target);
        let Ok(folder) = folder.canonicalize() else { return true };
        let registry = Registry::scan(&Search::new(&Places::default(), &[folder], &[]));
        return registry.guests().is_empty()
            || !registry.natives().is_empty()
            || !registry.problems().is_empty();
    }
    let registry = settings.registry(&[]);
    let is_guest = registry.guests().iter().any(|guest| guest.is_named_like(target));
    registry.natives().iter().any(|plugin| plugin.metadata.id == target) || !is_guest
}

/// Returns whether an argument names a folder and not a plugin's id.
fn is_folder(target: &str) -> bool {
    target.contains(path::is_separator) || matches!(target, "." | "..")
}

/// Returns the plugin that the target names, the registry that has it, and the built-in plugin that it is used
/// instead of.
fn plugin(target: &str, settings: &Settings) -> Result<(NativePlugin, Registry, Option<Shadow>)> {
    if !is_folder(target) {
        let registry = settings.registry(&[]);
        let plugin = match registry.backend(target, None) {
            // Why a WASM plugin cannot be used is told before what it is.
            Err(error @ RegistryError::NotABackend { .. }) => {
                let why = plugin_info(target, false, settings, &mut Silent).err();
                return Err(why.unwrap_or(error.into()));
            }
            plugin => plugin?,
        };
        let shadow = Shadow::of_backend(&plugin);
        return Ok((plugin.plugin, registry, shadow));
    }
    let folder = Path::new(target);
    if !folder.join("plugin.toml").is_file() {
        let (target, is_folder) = (target.to_owned(), folder.is_dir());
        return Err(Error::NotAPlugin { target, is_folder });
    }
    let folder = folder.canonicalize().map_err(|error| Error::io("open", folder, error))?;
    // A user who names the folder wants its code to run, so the lock file is not checked.
    let registry = Registry::scan(&Search::new(&Places::default(), &[folder], &[]));
    if let Some(plugin) = registry.natives().first().cloned() {
        return Ok((plugin, registry, None));
    }
    Err(match registry.problems().first() {
        Some(problem) => Error::BrokenPlugin(Box::new(problem.clone())),
        None => Error::NotAPlugin { target: target.to_owned(), is_folder: true },
    })
}

/// Returns the runtime that the plugin would be measured with.
fn runtime(
    plugin: &NativePlugin,
    registry: &Registry,
    settings: &Settings,
) -> Result<Option<PathBuf>> {
    let Some(need) = &plugin.metadata.runtime else { return Ok(None) };
    let status = settings.runtimes(registry)?.find(plugin)?;
    if let Some(RuntimeStatus::Ready(ready)) = status {
        return Ok(Some(ready.path));
    }
    match missing(plugin, status.as_ref()) {
        Some(gap) if !need.optional => Err(Error::NoRuntime { gap: Box::new(gap) }),
        _ => Ok(None),
    }
}

/// Opens the library and lists its devices first: if that fails, all checks would fail with the same message,
/// and the worker's is better. All other problems are for the checks to find.
fn see_that_it_has_a_device(
    plugin: &NativePlugin,
    runtime: Option<&Path>,
    fixture: Option<&Path>,
    settings: &Settings,
) -> Result<()> {
    use host_record::Failure::{
        MissingLibrary, MissingSymbol, NotAPlugin, RefusedVersion, WrongArchitecture,
    };
    let executor = executor(settings)?;
    let local = LocalPlugin {
        library: plugin.library.clone(),
        runtime: runtime.map(Path::to_owned),
        variables: plugin.metadata.environment.clone(),
        missing_runtime: None,
    };
    let reason = match executor.describe(&local, None, &settings.interrupt) {
        Ok(description) => {
            let ids: Vec<_> = description.devices.iter().map(|device| &*device.id).collect();
            without_device(&ids, fixture.and_then(device_of).as_deref())
        }
        Err(error) => match &error.failure {
            failure @ (NotAPlugin { .. }
            | WrongArchitecture { .. }
            | MissingSymbol { .. }
            | MissingLibrary { .. }
            | RefusedVersion { .. }) => Some(failure.to_string()),
            _ => nothing_found(&error),
        },
    };
    let id = &plugin.metadata.id;
    match reason {
        Some(reason) => Err(Error::NotChecked { id: id.clone(), reason }),
        None => Ok(()),
    }
}

/// Returns the reason why none of these devices can be checked: it is not the requested one, or there is
/// none.
fn without_device(ids: &[&str], wanted: Option<&str>) -> Option<String> {
    match wanted {
        _ if ids.is_empty() => Some("it finds no device".into()),
        Some(wanted) if !ids.contains(&wanted) => {
            let ids = ids.join(", ");
            Some(format!("it finds no device `{wanted}`, which the fixture names, only {ids}"))
        }
        _ => None,
    }
}

/// Greatest length of a fixture's description.
const LARGEST_FIXTURE: u64 = 1 << 20;

/// Returns the device that a fixture names, if it can be read.
fn device_of(fixture: &Path) -> Option<String> {
    #[derive(Deserialize)]
    struct Named {
        device: Option<String>,
    }
    let text = host_files::read_to_string(fixture, LARGEST_FIXTURE).ok()?;
    toml::from_str::<Named>(&text).ok()?.device
}

/// Returns the program that runs the checks.
fn program(settings: &Settings) -> Result<PathBuf> {
    let name = testkit_file_name();
    let program = settings.executable_folder().map(|folder| folder.join(&name));
    program.filter(|program| program.is_file()).ok_or_else(|| Error::NoTestkit { name })
}

fn parse(line: &str) -> Result<CheckedPlugin> {
    serde_json::from_str(line).map_err(|source| Error::NotACheck { line: line.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_distinguished_from_ids() {
        for folder in ["./cpu", "../cpu", "/opt/cpu", "plugins/cpu/", ".", ".."] {
            assert!(is_folder(folder), "{folder}");
        }
        for id in ["cpu", "my-backend"] {
            assert!(!is_folder(id), "{id}");
        }
    }

    #[test]
    fn what_is_no_check_is_an_error() {
        let error = parse("Segmentation fault").expect_err("no JSON");
        assert!(error.to_string().contains("Segmentation fault"), "{error}");
    }
}
