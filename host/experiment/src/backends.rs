//! Choosing the native plugins of an experiment, and asking them what they see.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use host_manifest::{Experiment, Mentions, PluginMention};
use host_plan::BackendFacts;
use host_record::{DeviceInfo, ErrorCode, Failure, Gap, Phase, PluginIdentity, RuntimeIdentity};
use host_registry::{BackendPlugin, NativePlugin, Registry, RegistryError};
use host_run::{DescribeError, Interrupt, LocalExecutor, LocalPlugin};
use host_runtime::{RuntimeStatus, Runtimes};
use semver::{Version, VersionReq};

use crate::error::{Error, Result};
use crate::local_paths::LocalPaths;
use crate::observer::{Notice, Observer};
use crate::settings::Settings;
use crate::shadow::{PassedOver, Shadow};
use crate::{platform, runtimes};

/// Returns the ids of the installed backends that run models on hardware, each once. Those that only test
/// the tool have the hardware `none` in their `plugin.toml`.
pub(crate) fn real_backends(registry: &Registry) -> Vec<String> {
    let real = registry
        .natives()
        .iter()
        .map(|native| &native.metadata)
        .filter(|metadata| metadata.hardware.iter().any(|hardware| hardware != "none"));
    real.map(|metadata| metadata.id.clone()).collect::<BTreeSet<_>>().into_iter().collect()
}

/// A backend of the manifest, with its plugin.
#[derive(Debug)]
pub(crate) struct ChosenBackend {
    /// The id in the manifest.
    pub(crate) id: String,
    /// The plugin, or the reason why there is none.
    pub(crate) plugin: Result<BackendPlugin, RegistryError>,
    /// State of the plugin's runtime; `None` if it needs none.
    pub(crate) runtime: Option<RuntimeStatus>,
    /// Whether its options need that runtime.
    needs_runtime: bool,
    /// Names of environment variables that the manifest gives its workers.
    environment: Vec<String>,
}

impl ChosenBackend {
    /// Returns the identity of the plugin's runtime for results.
    pub(crate) fn runtime_identity(&self) -> Result<Option<RuntimeIdentity>> {
        match (&self.plugin, &self.runtime) {
            (Ok(plugin), Some(RuntimeStatus::Ready(ready))) => {
                Ok(Some(ready.identify(&plugin.plugin)?))
            }
            _ => Ok(None),
        }
    }

    /// Returns the ends of names of the models that it reads; `None` if it may read any.
    pub(crate) fn formats(&self) -> Option<&Vec<String>> {
        self.plugin.as_ref().ok()?.plugin.metadata.formats.as_ref()
    }

    /// Returns the plugin if its runtime is missing.
    fn without_runtime(&self) -> Option<&NativePlugin> {
        match (&self.plugin, &self.runtime) {
            (Ok(plugin), Some(status)) if status.reason().is_some() => Some(&plugin.plugin),
            _ => None,
        }
    }

    /// Returns the paths of its plugin and runtime on this machine.
    pub(crate) fn local(&self) -> Option<LocalPlugin> {
        let plugin = &self.plugin.as_ref().ok()?.plugin;
        let mut local = LocalPlugin {
            library: plugin.library.clone(),
            variables: plugin.metadata.environment.clone(),
            ..LocalPlugin::default()
        };
        if let Some(RuntimeStatus::Ready(ready)) = &self.runtime {
            local.runtime = Some(ready.path.clone());
        } else {
            local.missing_runtime = runtimes::missing(plugin, self.runtime.as_ref());
        }
        Some(local)
    }

    /// Returns the gap of a missing runtime that its options need.
    fn lacks(&self) -> Option<Gap> {
        let plugin = self.without_runtime().filter(|_| self.needs_runtime)?;
        runtimes::missing(plugin, self.runtime.as_ref())
    }
}

/// Installs the missing runtimes that the options of a chosen backend need. If there is
/// none to install on this machine, the backend's cases stay gaps.
pub(crate) fn install_missing(
    backends: &mut [ChosenBackend],
    runtimes: &Runtimes,
    observer: &mut dyn Observer,
) -> Result<()> {
    let mut installed = BTreeSet::new();
    for backend in backends.iter().filter(|backend| backend.needs_runtime) {
        if let Some(plugin) = backend.without_runtime()
            && !matches!(backend.runtime, Some(RuntimeStatus::Unavailable { .. }))
            && installed.insert(&plugin.folder)
        {
            runtimes::install(runtimes, plugin, observer)?;
        }
    }
    // One that can do without uses what was installed for another.
    for backend in backends {
        if let Some(plugin) = backend.without_runtime() {
            backend.runtime = runtimes.find(plugin)?;
        }
    }
    Ok(())
}

/// Chooses the plugin of each backend. The cases of one that is not installed are gaps. One that is broken, or of no
/// version that fits, stops everything, as a guest does: the user can mend it before anything is measured. So does
/// an untrusted one, because it may be an attack.
pub(crate) fn choose_backends(
    experiment: &Experiment,
    base: &Path,
    registry: &Registry,
    runtimes: &Runtimes,
    observer: &mut dyn Observer,
) -> Result<Vec<ChosenBackend>> {
    let mut chosen = Vec::new();
    let mut refused = Vec::new();
    for backend in &experiment.backends {
        let plugin = match &backend.folder {
            Some(folder) => {
                registry.backend_in(&base.join(folder), &backend.plugin, &backend.version)
            }
            None => registry.backend(&backend.plugin, Some(&backend.version)),
        };
        match plugin {
            Err(error) if error.is_absence() => {
                observer.notice(Notice::BackendMissing(&error));
                chosen.push(ChosenBackend {
                    id: backend.id.clone(),
                    plugin: Err(error),
                    runtime: None,
                    needs_runtime: false,
                    environment: backend.environment.clone(),
                });
            }
            Err(error) => refused.push(Error::from(error)),
            Ok(plugin) => {
                if plugin.first_use {
                    observer.notice(Notice::FirstUse(&plugin));
                }
                if let Some(shadow) = Shadow::of_backend(&plugin) {
                    observer.notice(Notice::Shadow(&shadow));
                }
                for problem in
                    registry.problems().iter().filter(|it| it.id() == Some(&backend.plugin))
                {
                    observer.notice(Notice::PassedOver(&PassedOver {
                        kind: "backend",
                        id: backend.plugin.clone(),
                        reason: problem.to_string(),
                        used: plugin.plugin.folder.clone(),
                        hint: problem.help(),
                    }));
                }
                match runtimes.find(&plugin.plugin) {
                    Ok(runtime) => {
                        let need = plugin.plugin.metadata.runtime.as_ref();
                        let needs_runtime = need.is_some_and(|it| it.is_needed(&backend.options));
                        let id = backend.id.clone();
                        chosen.push(ChosenBackend {
                            id,
                            plugin: Ok(plugin),
                            runtime,
                            needs_runtime,
                            environment: backend.environment.clone(),
                        });
                    }
                    Err(error) => refused.push(Error::from(error)),
                }
            }
        }
    }
    match Error::all(refused) {
        Some(error) => Err(error),
        None => Ok(chosen),
    }
}

/// Descriptions of an experiment's backends, and the gaps of those that have none.
#[derive(Debug, Default)]
pub(crate) struct Described {
    /// For the plan, by the id in the manifest.
    pub(crate) facts: BTreeMap<String, BackendFacts>,
    /// Plugins that are there and could not even say what they are: their cases fail.
    pub(crate) failures: BTreeMap<String, DescribeError>,
}

/// Returns the plugins of backends by their libraries, each once. It gets the variables of all backends that use
/// it, so that it lists the devices that their workers see.
fn plugins_to_describe(chosen: &[ChosenBackend]) -> BTreeMap<&Path, (&BackendPlugin, LocalPlugin)> {
    let mut plugins: BTreeMap<&Path, (&BackendPlugin, LocalPlugin)> = BTreeMap::new();
    for backend in chosen {
        if let (Ok(plugin), Some(local)) = (&backend.plugin, backend.local()) {
            let (_, local) = plugins.entry(&plugin.plugin.library).or_insert((plugin, local));
            local.variables.extend_from_slice(&backend.environment);
        }
    }
    plugins
}

/// Asks each chosen plugin for its devices, all at the same time, each in a worker of its own.
pub(crate) fn describe_backends(
    chosen: &[ChosenBackend],
    executor: &LocalExecutor,
    interrupt: &Interrupt,
) -> Described {
    let plugins = plugins_to_describe(chosen);
    let answers: BTreeMap<&Path, _> = std::thread::scope(|scope| {
        let threads: Vec<_> = plugins
            .into_iter()
            .map(|(library, (plugin, local))| {
                let ask = move || describe(plugin, &local, executor, interrupt);
                (library, scope.spawn(ask))
            })
            .collect();
        threads.into_iter().filter_map(|(path, thread)| Some((path, thread.join().ok()?))).collect()
    });
    let mut described = Described::default();
    for backend in chosen {
        let facts = match &backend.plugin {
            Err(error) => missing(&backend.id, error.to_string()),
            Ok(plugin) => match answers.get(&*plugin.plugin.library) {
                Some(Ok(devices)) => BackendFacts::Ready {
                    plugin: plugin.identity.clone(),
                    devices: devices.clone(),
                    lacks: backend.lacks(),
                },
                Some(Err(error)) => {
                    match lacking(&backend.id, plugin, backend.runtime.as_ref(), error) {
                        Some(gap) => BackendFacts::Missing(gap),
                        None => {
                            described.failures.insert(backend.id.clone(), error.clone());
                            missing(&plugin.identity.id, error.to_string())
                        }
                    }
                }
                None => {
                    let id = &plugin.identity.id;
                    missing(id, format!("plugin `{id}` was not asked"))
                }
            },
        };
        described.facts.insert(backend.id.clone(), facts);
    }
    described
}

/// Returns the gap of a plugin that could not be described because its runtime or device is missing. A plugin
/// that looks for its device first has not needed its runtime yet.
fn lacking(
    backend: &str,
    plugin: &BackendPlugin,
    runtime: Option<&RuntimeStatus>,
    error: &DescribeError,
) -> Option<Gap> {
    let nothing = nothing_found(error);
    let wants_runtime =
        wants_runtime(error) || matches!(error.failure, Failure::MissingLibrary { .. });
    let runtime = runtime.filter(|_| wants_runtime);
    runtimes::missing(&plugin.plugin, runtime).or_else(|| {
        Some(Gap::DeviceMissing {
            backend: backend.to_owned(),
            device: None,
            found: Vec::new(),
            backend_message: Some(nothing?),
        })
    })
}

/// Asks a plugin for its devices. It must be the plugin that its `plugin.toml` says it is, since
/// results carry that name.
///
/// # Errors
///
/// If it cannot be opened, or is another plugin.
pub(crate) fn describe(
    plugin: &BackendPlugin,
    local: &LocalPlugin,
    executor: &LocalExecutor,
    interrupt: &Interrupt,
) -> Result<Vec<DeviceInfo>, DescribeError> {
    let PluginIdentity { id, version, sha256 } = &plugin.identity;
    let description = executor.describe(local, Some(sha256), interrupt);
    let description = description.map_err(|error| *error)?;
    let found = &description;
    let detail = if (&found.id, &found.version) != (id, version) {
        format!(
            "plugin.toml says `{id}` {version}, and the library says `{}` {}; update the one that is old",
            found.id, found.version
        )
    } else if let Some(detail) = foreign_abi(found.abi, &plugin.plugin.metadata.api) {
        detail
    } else {
        return Ok(description.devices);
    };
    Err(DescribeError {
        failure: host_record::Failure::RefusedVersion { detail },
        standard_error: String::new(),
    })
}

/// Returns what is wrong with the ABI that a library was built for, which must lie in the range of its `plugin.toml`. The
/// range was compared with the host's ABI before, and says nothing if the library beside it was not built for it.
fn foreign_abi((major, minor): (u32, u32), range: &VersionReq) -> Option<String> {
    let is_within = range.matches(&Version::new(major.into(), minor.into(), 0));
    (!is_within).then(|| {
        format!(
            "plugin.toml says that the native ABI is {range}, and the library was built for {major}.{minor}; build the library again, or correct `api`"
        )
    })
}

/// Returns whether a plugin could not list devices because its runtime is missing.
pub(crate) fn wants_runtime(error: &DescribeError) -> bool {
    matches!(&error.failure, Failure::Backend { code: ErrorCode::RuntimeMissing, .. })
}

/// Returns the message of a plugin that could not list devices because it did not find its runtime, a driver,
/// or hardware. Such a plugin works, but cannot be used on this machine.
pub(crate) fn nothing_found(error: &DescribeError) -> Option<String> {
    match &error.failure {
        Failure::Backend {
            phase: Phase::Devices,
            code: ErrorCode::NotFound | ErrorCode::Unsupported | ErrorCode::RuntimeMissing,
            message,
            ..
        } => Some(message.clone()),
        _ => None,
    }
}

fn missing(plugin: &str, registry_message: String) -> BackendFacts {
    BackendFacts::Missing(Gap::PluginMissing { plugin: plugin.to_owned(), registry_message })
}

/// Returns an executor of this machine that finds no files and plugins yet.
///
/// # Errors
///
/// If the worker is not there.
pub(crate) fn executor(settings: &Settings) -> Result<LocalExecutor> {
    match settings.worker() {
        Some(worker) if worker.is_file() => {
            Ok(LocalExecutor::new(worker, Arc::new(LocalPaths::default())))
        }
        _ => Err(Error::NoWorker { name: platform::worker_file_name() }),
    }
}

/// Missing and broken backends that are not reported in another way.
pub(crate) fn tell_of_missing(
    mentions: &Mentions,
    registry: &Registry,
    observer: &mut dyn Observer,
) {
    for PluginMention { id, .. } in &mentions.backends {
        if id != Experiment::ALL_BACKENDS
            && registry.natives().iter().all(|native| native.metadata.id != *id)
        {
            observer.notice(Notice::BackendMissing(&registry.missing(id)));
        }
    }
}

#[cfg(test)]
mod tests {
    use host_record::RuntimeState;

    use super::*;

    /// Returns the plugin `demo`, which needs a runtime and reads the variable `OWN`.
    fn demo() -> BackendPlugin {
        let text = "schema = 1\nid = \"demo\"\nversion = \"0.1.0\"\nkind = \"backend\"\n\
                    summary = \"A test.\"\nlicense = \"MIT\"\nenvironment = [\"OWN\"]\nlibrary = \"backend_demo\"\n\
                    api = \">=1.0\"\nhardware = [\"npu\"]\nengine = \"none\"\n[runtime]\n\
                    name = \"demo\"\nversion = \"1.0\"\nsummary = \"A demo.\"\n";
        let sha256 = String::new();
        BackendPlugin {
            plugin: host_registry::NativePlugin {
                metadata: host_registry::Metadata::parse(text, Path::new("plugin.toml"))
                    .expect("a good file"),
                folder: "/plugins/demo".into(),
                library: "/plugins/demo/libbackend_demo.so".into(),
                origin: host_registry::Origin::User,
            },
            identity: PluginIdentity { id: "demo".into(), version: "0.1.0".into(), sha256 },
            first_use: false,
            hides: None,
        }
    }

    #[test]
    fn a_library_is_built_for_an_abi_of_the_range_beside_it() {
        let range = |text: &str| text.parse::<VersionReq>().expect("a range");
        assert_eq!(foreign_abi((1, 0), &range(">=1.0, <2")), None);
        // A later minor version than this host's is fine: structs carry their sizes.
        assert_eq!(foreign_abi((1, 9), &range(">=1.0, <2")), None);
        insta::assert_snapshot!(
            foreign_abi((1, 0), &range(">=1.1, <2")).expect("it is too old"),
            @"plugin.toml says that the native ABI is >=1.1, <2, and the library was built for 1.0; build the library again, or correct `api`"
        );
        assert!(foreign_abi((1, 3), &range("~1.1")).is_some());
    }

    #[test]
    fn a_plugin_is_asked_once_with_the_variables_of_all_its_backends() {
        let backend = |id: &str, variable: &str| ChosenBackend {
            id: id.to_owned(),
            plugin: Ok(demo()),
            runtime: None,
            needs_runtime: false,
            environment: vec![variable.to_owned()],
        };
        let chosen = [backend("one", "FIRST"), backend("two", "SECOND")];
        let plugins = plugins_to_describe(&chosen);
        let variables: Vec<_> = plugins.values().map(|(_, local)| &local.variables).collect();
        assert_eq!(variables, [&["OWN", "FIRST", "SECOND"]]);
        let of_a_case = chosen[0].local().expect("it has a plugin").variables;
        assert_eq!(of_a_case, ["OWN"], "its own come with the case");
    }

    #[test]
    fn a_plugin_that_finds_no_runtime_has_not_failed() {
        let plugin = demo();
        let missing = RuntimeStatus::Missing { reason: "is not installed".into() };
        let reported = |code: ErrorCode, message: &str| DescribeError {
            failure: Failure::Backend {
                phase: Phase::Devices,
                call: "devices".into(),
                code,
                message: message.into(),
                details: String::new(),
            },
            standard_error: String::new(),
        };
        let nowhere = reported(ErrorCode::RuntimeMissing, "libdemo.so is nowhere");
        let lacking = |error| lacking("demo", &plugin, Some(&missing), error);
        let runtime = Gap::RuntimeMissing {
            plugin: "demo".into(),
            runtime: "demo".into(),
            version: "1.0".into(),
            state: RuntimeState::Missing,
            reason: "is not installed".into(),
        };
        assert_eq!(lacking(&nowhere), Some(runtime));
        let failed = reported(ErrorCode::Internal, "install it with `host runtimes install demo`");
        assert_eq!(lacking(&failed), None, "it failed");
        // One that looked for its device first has no use for the runtime either.
        let nothing = reported(ErrorCode::NotFound, "there is no NPU");
        let device = Gap::DeviceMissing {
            backend: "demo".into(),
            device: None,
            found: Vec::new(),
            backend_message: Some("there is no NPU".into()),
        };
        assert_eq!(lacking(&nothing), Some(device));
    }
}
