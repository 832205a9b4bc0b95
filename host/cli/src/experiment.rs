//! From a manifest's path to an experiment with its files found, hashed and its plugins chosen.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use host_manifest::{Experiment, ManifestError, ManifestErrors};
use host_plan::{BackendFacts, Facts, ModelFacts};
use host_record::{DeviceInfo, Gap, GapKind, InputSource, PluginIdentity};
use host_registry::{BackendPlugin, Registry, RegistryError, sha256_of_file};
use host_run::{DescribeError, Interrupt, Runner};

use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::platform;
use crate::printer::Printer;
use crate::settings::Settings;

/// A manifest that has been read and understood.
#[derive(Debug)]
pub(crate) struct Manifest {
    /// Where it was read from, absolute; `<stdin>` in the current folder for standard input.
    pub(crate) path: PathBuf,
    /// What errors call it.
    shown: PathBuf,
    /// What its paths are relative to.
    pub(crate) base: PathBuf,
    pub(crate) text: String,
    pub(crate) experiment: Experiment,
}

impl Manifest {
    /// Reads a manifest; `-` is standard input.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let here = std::env::current_dir()
            .map_err(|error| Failure::io("find the current folder", Path::new("."), error))?;
        if path == Path::new("-") {
            let mut text = String::new();
            std::io::stdin()
                .read_to_string(&mut text)
                .map_err(|error| Failure::io("read", Path::new("standard input"), error))?;
            return Self::parse(here.join("<stdin>"), Path::new("<stdin>"), text);
        }
        let text = fs::read_to_string(path).map_err(|error| {
            let missing = error.kind() == std::io::ErrorKind::NotFound;
            let failure = Failure::new(
                Exit::Manifest,
                format!("cannot read the manifest {}", path.display()),
            )
            .because(error);
            if missing { failure.help("`host init` writes one to start from") } else { failure }
        })?;
        Self::parse(here.join(path), path, text)
    }

    /// Reads a manifest's text, as it stood at `path`. `shown` is what errors call it.
    pub(crate) fn parse(path: PathBuf, shown: &Path, text: String) -> Result<Self> {
        let experiment = host_manifest::parse(&text)
            .map_err(|errors| Failure::manifest(&errors, shown, &text))?;
        let base = path.parent().unwrap_or(Path::new("/")).to_owned();
        Ok(Self { path, shown: shown.to_owned(), base, text, experiment })
    }

    /// The results folder that the manifest names.
    pub(crate) fn results(&self) -> Option<PathBuf> {
        self.experiment.results.as_ref().map(|folder| self.base.join(folder))
    }

    /// The plugin folders that it names.
    pub(crate) fn plugin_folders(&self) -> Vec<PathBuf> {
        self.experiment.plugins.iter().map(|folder| self.base.join(folder)).collect()
    }

    /// Hashes the models and data files. All files that are missing are told at once, each where
    /// the manifest names it.
    pub(crate) fn files(&self) -> Result<Files> {
        let mut files = Files::default();
        let mut errors = Vec::new();
        let mut hash = |path: &Path| match sha256_of_file(&self.base.join(path)) {
            Ok(sha256) => Some(sha256),
            Err(error) => {
                errors.push(self.file_error(path, &error));
                None
            }
        };
        for model in &self.experiment.models {
            if let Some(sha256) = hash(&model.path) {
                let path = absolute(&self.base.join(&model.path));
                files.models.insert(model.id.clone(), ModelFacts { path, sha256 });
            }
            if let InputSource::Files { inputs, labels } = &model.inputs {
                for path in inputs.values().chain(labels) {
                    if let Some(sha256) = hash(path) {
                        files.data.insert(path.clone(), sha256);
                    }
                }
            }
        }
        if errors.is_empty() {
            return Ok(files);
        }
        errors.sort_by_key(|error| error.span.start);
        Err(Failure::manifest(&ManifestErrors { errors }, &self.shown, &self.text))
    }

    fn file_error(&self, path: &Path, error: &std::io::Error) -> ManifestError {
        let named = toml_text(path);
        let start = self.text.find(&named).unwrap_or(0);
        ManifestError {
            message: format!("{} cannot be read: {error}", self.base.join(path).display()),
            span: start
                ..start + if self.text[start..].starts_with(&named) { named.len() } else { 0 },
            label: "named here".into(),
            hint: Some("paths in a manifest are relative to the manifest's own folder".into()),
        }
    }
}

/// Hashes of the files that an experiment names.
#[derive(Debug, Default)]
pub(crate) struct Files {
    models: BTreeMap<String, ModelFacts>,
    data: BTreeMap<PathBuf, String>,
}

/// A backend of the manifest, with its plugin.
#[derive(Debug)]
pub(crate) struct ChosenBackend {
    /// The id in the manifest.
    pub(crate) id: String,
    /// The plugin, or why there is none.
    pub(crate) plugin: std::result::Result<BackendPlugin, RegistryError>,
}

/// Chooses the plugin of each backend. One that is missing makes gaps of its cases; one that is
/// not trusted stops everything, since it may be someone's attempt.
pub(crate) fn choose_backends(
    experiment: &Experiment,
    registry: &Registry,
    printer: &Printer,
) -> Result<Vec<ChosenBackend>> {
    let mut chosen = Vec::new();
    let mut refused = Vec::new();
    for backend in &experiment.backends {
        let plugin = registry.backend(&backend.plugin, Some(&backend.version));
        match plugin {
            Err(
                error @ (RegistryError::Unknown { .. }
                | RegistryError::NoVersion { .. }
                | RegistryError::Broken { .. }),
            ) => {
                printer.warning(&error, error.help().as_deref());
                chosen.push(ChosenBackend { id: backend.id.clone(), plugin: Err(error) });
            }
            Err(error) => refused.push(Failure::from(error)),
            Ok(plugin) => {
                if plugin.first_use {
                    printer.status(
                        "Recorded",
                        format_args!(
                            "{} {} from {}: first use, its hash is now in plugins.lock",
                            plugin.identity.id,
                            plugin.identity.version,
                            plugin.plugin.folder.display()
                        ),
                    );
                }
                chosen.push(ChosenBackend { id: backend.id.clone(), plugin: Ok(plugin) });
            }
        }
    }
    match Failure::all(refused) {
        Some(failure) => Err(failure),
        None => Ok(chosen),
    }
}

/// What the backends of an experiment say of themselves.
#[derive(Debug, Default)]
pub(crate) struct Described {
    /// For the plan, by the id in the manifest.
    pub(crate) facts: BTreeMap<String, BackendFacts>,
    /// Plugins that are there and could not even say what they are: their cases fail.
    pub(crate) failures: BTreeMap<String, DescribeError>,
}

/// Asks each chosen plugin for its devices, all at the same time, each in a worker of its own.
pub(crate) fn describe_backends(
    chosen: &[ChosenBackend],
    runner: &Runner,
    interrupt: &Interrupt,
) -> Described {
    let mut plugins: Vec<&BackendPlugin> =
        chosen.iter().filter_map(|backend| backend.plugin.as_ref().ok()).collect();
    plugins.sort_unstable_by(|a, b| a.plugin.library.cmp(&b.plugin.library));
    plugins.dedup_by(|a, b| a.plugin.library == b.plugin.library);
    let answers: BTreeMap<&Path, _> = std::thread::scope(|scope| {
        let threads: Vec<_> = plugins
            .into_iter()
            .map(|plugin| {
                (&*plugin.plugin.library, scope.spawn(|| describe(plugin, runner, interrupt)))
            })
            .collect();
        threads.into_iter().filter_map(|(path, thread)| Some((path, thread.join().ok()?))).collect()
    });
    let mut described = Described::default();
    for backend in chosen {
        let facts = match &backend.plugin {
            Err(error) => missing(error.to_string()),
            Ok(plugin) => match answers.get(&*plugin.plugin.library) {
                Some(Ok(devices)) => BackendFacts::Ready {
                    plugin: plugin.identity.clone(),
                    library: plugin.plugin.library.clone(),
                    devices: devices.clone(),
                },
                Some(Err(error)) => {
                    described.failures.insert(backend.id.clone(), error.clone());
                    missing(error.to_string())
                }
                None => missing(format!("plugin `{}` was not asked", plugin.identity.id)),
            },
        };
        described.facts.insert(backend.id.clone(), facts);
    }
    described
}

/// Asks a plugin for its devices. It must be the plugin that its `plugin.toml` says it is, since
/// results carry that name.
pub(crate) fn describe(
    plugin: &BackendPlugin,
    runner: &Runner,
    interrupt: &Interrupt,
) -> std::result::Result<Vec<DeviceInfo>, DescribeError> {
    let description = runner.describe(&plugin.plugin.library, interrupt).map_err(|error| *error)?;
    let PluginIdentity { id, version, .. } = &plugin.identity;
    if (&description.id, &description.version) == (id, version) {
        return Ok(description.devices);
    }
    let detail = format!(
        "plugin.toml says `{id}` {version}, and the library says `{}` {}; update the one that is old",
        description.id, description.version
    );
    Err(DescribeError {
        failure: host_record::Failure::RefusedVersion { detail },
        standard_error: String::new(),
    })
}

fn missing(reason: String) -> BackendFacts {
    BackendFacts::Missing(Gap { kind: GapKind::PluginMissing, reason })
}

/// What a plan needs to know.
pub(crate) fn facts(
    manifest: &Manifest,
    files: Files,
    backends: BTreeMap<String, BackendFacts>,
) -> Facts {
    Facts { base: absolute(&manifest.base), models: files.models, data: files.data, backends }
}

/// A runner with the worker that lies beside the executable.
pub(crate) fn runner(settings: &Settings) -> Result<Runner> {
    let name = platform::worker_file_name();
    let worker = settings.executable_folder().map(|folder| folder.join(&name));
    match worker {
        Some(worker) if worker.is_file() => Ok(Runner::new(worker)),
        _ => {
            Err(Failure::new(Exit::Failure, format!("{name} is not beside the executable of host"))
                .help("install the two together; `host doctor` checks the installation"))
        }
    }
}

/// The path with links resolved, or as it is where it cannot be resolved.
fn absolute(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// The path as a basic TOML string, which is how nearly everyone writes it.
fn toml_text(path: &Path) -> String {
    format!("\"{}\"", path.display())
}
