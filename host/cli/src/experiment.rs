//! From a manifest's path to an experiment with its files found, hashed and its plugins chosen.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use host_hash::sha256_of_file;
use host_machine::Machine;
use host_manifest::{
    Experiment, FileMention, ManifestError, ManifestErrors, Mentions, PluginMention, Reading,
};
use host_plan::{BackendFacts, Facts, ModelFacts, ModelFile, Plan, PlanError};
use host_record::{
    DeviceInfo, Gap, GapKind, Pin, PluginIdentity, RuntimeIdentity, list_of_processors,
};
use host_registry::{BackendPlugin, NativePlugin, Registry, RegistryError};
use host_run::{DescribeError, Interrupt, MissingRuntime, Runner};
use host_runtime::{Runtimes, Standing};

use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::guests::{Chosen, Findings, unknown_option};
use crate::platform;
use crate::printer::Printer;
use crate::runtimes;
use crate::settings::Settings;

/// A manifest that has been read, be it right or wrong.
#[derive(Debug)]
pub(crate) struct Draft {
    path: PathBuf,
    shown: PathBuf,
    base: PathBuf,
    text: String,
    reading: Reading,
}

/// A manifest that is right, as far as can be known before anything is measured.
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
    mentions: Mentions,
}

/// A manifest with all that it names.
pub(crate) struct Checked {
    pub(crate) manifest: Manifest,
    pub(crate) files: Files,
    pub(crate) backends: Vec<ChosenBackend>,
    pub(crate) guests: Chosen,
    pub(crate) runtimes: Runtimes,
}

impl Draft {
    /// Reads a manifest; `-` is standard input.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let here = std::env::current_dir()
            .map_err(|error| Failure::io("find the current folder", Path::new("."), error))?;
        if path == Path::new("-") {
            let mut bytes = Vec::new();
            std::io::stdin()
                .read_to_end(&mut bytes)
                .map_err(|error| Failure::io("read", Path::new("standard input"), error))?;
            let shown = Path::new("<stdin>");
            return Ok(Self::parse(here.join(shown), shown, utf8(bytes, shown)?));
        }
        let bytes = fs::read(path).map_err(|error| {
            let missing = error.kind() == std::io::ErrorKind::NotFound;
            let failure = Failure::new(
                Exit::Manifest,
                format!("cannot read the manifest {}", path.display()),
            )
            .because(error);
            if missing { failure.help("`host init` writes one to start from") } else { failure }
        })?;
        Ok(Self::parse(here.join(path), path, utf8(bytes, path)?))
    }

    /// Reads a manifest's text, as it stood at `path`. `shown` is what errors call it.
    pub(crate) fn parse(path: PathBuf, shown: &Path, text: String) -> Self {
        let reading = host_manifest::read(&text);
        let base = path.parent().unwrap_or(Path::new("/")).to_owned();
        Self { path, shown: shown.to_owned(), base, text, reading }
    }

    /// Checks all that can be known before anything is measured: the manifest itself, the files
    /// and plugins that it names, their options, the limits, and that the matrix has cells.
    /// Everything that is wrong is told at once, in the order of the text.
    pub(crate) fn check(self, settings: &Settings, printer: &Printer) -> Result<Checked> {
        let Self { path, shown, base, text, reading: Reading { experiment, mentions } } = self;
        let folders: Vec<_> = mentions.plugin_folders.iter().map(|it| base.join(it)).collect();
        let registry = settings.registry(&folders);
        let runtimes = settings.runtimes(&registry)?;

        let mut nothing_for_all = None;
        let (experiment, mut wrong) = match experiment {
            Ok(mut experiment) => {
                if experiment.wants_all_backends() {
                    let installed = real_backends(&registry);
                    if installed.is_empty() {
                        let message = "no backend is installed that `all` could stand for";
                        let failure = Failure::new(Exit::Plugin, message);
                        nothing_for_all =
                            Some(failure.help("`host plugins list` shows what is installed"));
                    }
                    experiment.expand_all_backends(&installed);
                }
                (Some(experiment), Vec::new())
            }
            Err(ManifestErrors { errors }) => (None, errors),
        };
        let files = match files(&mentions, &base, experiment.as_ref()) {
            Ok(files) => files,
            Err(errors) => {
                wrong.extend(errors);
                Files::default()
            }
        };
        if let Some(experiment) = &experiment
            && nothing_for_all.is_none()
            && let Err(error) = host_plan::check(experiment)
        {
            wrong.push(plan_error(&error, &mentions));
        }
        if let Some(experiment) = &experiment {
            let allowed = Machine::this().allowed_processors();
            wrong.extend(pinned(&experiment.measure.pin, &mentions, allowed.as_deref()));
            let least = Machine::this().least_nice();
            wrong.extend(prioritised(experiment.measure.nice, &mentions, least));
        }
        for mention in &mentions.backends {
            wrong.extend(backend_options(mention, &registry));
        }
        let (guests, Findings { wrong: unfit, missing, mut others }) =
            Chosen::all(&mentions, &registry, printer)?;
        wrong.extend(unfit);
        others.extend(nothing_for_all);
        let backends = match &experiment {
            Some(experiment) => choose_backends(experiment, &registry, &runtimes, printer)
                .unwrap_or_else(|failure| {
                    others.push(failure);
                    Vec::new()
                }),
            None => {
                warn_of_missing(&mentions, &registry, printer);
                Vec::new()
            }
        };

        let exit = if wrong.is_empty() { Exit::Plugin } else { Exit::Manifest };
        let mut errors: Vec<_> = wrong.into_iter().chain(missing).collect();
        errors.sort_by_key(|error| error.span.start);
        let placed = (!errors.is_empty()).then(|| {
            let mut failure = Failure::manifest(&ManifestErrors { errors }, &shown, &text);
            failure.exit = exit;
            failure
        });
        match (Failure::all(placed.into_iter().chain(others)), experiment) {
            (None, Some(experiment)) => {
                let manifest = Manifest { path, shown, base, text, experiment, mentions };
                Ok(Checked { manifest, files, backends, guests, runtimes })
            }
            (Some(failure), _) => Err(failure),
            (None, None) => Err(Failure::new(Exit::Manifest, "the manifest cannot be read")),
        }
    }
}

impl Manifest {
    /// The results folder that the manifest names.
    pub(crate) fn results(&self) -> Option<PathBuf> {
        self.experiment.results.as_ref().map(|folder| self.base.join(folder))
    }

    /// The plan, from what is known of files and backends.
    pub(crate) fn plan(
        &self,
        files: Files,
        backends: BTreeMap<String, BackendFacts>,
    ) -> Result<Plan> {
        let base = absolute(&self.base);
        let facts = Facts { base, models: files.models, data: files.data, backends };
        Plan::new(&self.experiment, facts).map_err(|error| {
            let errors = ManifestErrors { errors: vec![plan_error(&error, &self.mentions)] };
            Failure::manifest(&errors, &self.shown, &self.text)
        })
    }
}

/// What is wrong with pinned processors on this machine. Where it does not list its processors, the
/// worker finds out.
fn pinned(pin: &Pin, mentions: &Mentions, allowed: Option<&[u32]>) -> Option<ManifestError> {
    let (Pin::Processors(wanted), Some(allowed)) = (pin, allowed) else { return None };
    let missing: Vec<u32> =
        wanted.iter().copied().filter(|number| !allowed.contains(number)).collect();
    (!missing.is_empty()).then(|| ManifestError {
        message: format!(
            "`measure.pin` names the processors {}, which this process may not use or the machine \
             does not have",
            list_of_processors(&missing)
        ),
        span: mentions.pin.clone().unwrap_or(0..0),
        label: "not here".into(),
        hint: Some(format!("it may use {}", list_of_processors(allowed))),
    })
}

/// What is wrong with a nice value for a process that may have none below `least`. Where the system does not
/// tell, the worker finds out.
fn prioritised(
    nice: Option<i32>,
    mentions: &Mentions,
    least: Option<i32>,
) -> Option<ManifestError> {
    let (nice, least) = (nice?, least?);
    (nice < least).then(|| ManifestError {
        message: format!("`measure.nice` is {nice}, and this process may go no lower than {least}"),
        span: mentions.nice.clone().unwrap_or(0..0),
        label: "not allowed here".into(),
        hint: Some(
            "give the host the capability `CAP_SYS_NICE`, raise its limit (`ulimit -e`), or leave it out"
                .into(),
        ),
    })
}

/// The text of a manifest. One that is not UTF-8 is refused where that begins.
fn utf8(bytes: Vec<u8>, shown: &Path) -> Result<String> {
    let name = shown.display();
    let utf16 = match bytes[..] {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => true,
        // Without a mark, every other byte of plain text is zero.
        [first, second, ..] => (first == 0) != (second == 0),
        _ => false,
    };
    if utf16 {
        let message = format!("the manifest {name} looks like UTF-16, from its first byte on");
        return Err(Failure::new(Exit::Manifest, message)
            .help("save it as UTF-8; in PowerShell, `Out-File -Encoding utf8` does"));
    }
    let error = match String::from_utf8(bytes) {
        Ok(text) => return Ok(text),
        Err(error) => error,
    };
    let at = error.utf8_error().valid_up_to();
    let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
    let error = ManifestError {
        message: format!("the manifest is not UTF-8 from byte {at} on"),
        span: at..at + char::REPLACEMENT_CHARACTER.len_utf8(),
        label: format!("byte 0x{:02x}", error.as_bytes().get(at).copied().unwrap_or_default()),
        hint: Some("save it as UTF-8; it may be in Latin-1 or another encoding".into()),
    };
    Err(Failure::manifest(&ManifestErrors { errors: vec![error] }, shown, &text))
}

/// Hashes the models and data files that a manifest mentions; where there is no experiment, it only
/// sees that they are there. All that are missing are told, each where the manifest names it.
fn files(
    mentions: &Mentions,
    base: &Path,
    experiment: Option<&Experiment>,
) -> std::result::Result<Files, Vec<ManifestError>> {
    let mut hashes: BTreeMap<&Path, String> = BTreeMap::new();
    let mut errors = Vec::new();
    for FileMention { path, place } in &mentions.files {
        if hashes.contains_key(path.as_path()) {
            continue;
        }
        let full = base.join(path);
        let hash = match experiment {
            Some(_) => sha256_of_file(&full),
            None => fs::File::open(&full).map(|_| String::new()),
        };
        match hash {
            Ok(hash) => drop(hashes.insert(path, hash)),
            Err(error) => errors.push(ManifestError {
                message: format!("{} cannot be read: {error}", full.display()),
                span: place.clone(),
                label: "named here".into(),
                hint: Some("paths in a manifest are relative to the manifest's own folder".into()),
            }),
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let mut files = Files::default();
    for model in experiment.iter().flat_map(|experiment| &experiment.models) {
        let facts = model.path.try_map(|path| {
            let sha256 = hashes.get(path.as_path())?.clone();
            Some(ModelFile { path: absolute(&base.join(path)), sha256 })
        });
        if let Some(facts) = facts {
            files.models.insert(model.id.clone(), facts);
        }
    }
    files.data = hashes.into_iter().map(|(path, hash)| (path.to_owned(), hash)).collect();
    Ok(files)
}

/// Why there is no plan, where the manifest says so.
fn plan_error(error: &PlanError, mentions: &Mentions) -> ManifestError {
    let (place, label) = match error {
        PlanError::Empty => (&mentions.exclude, "leaves nothing"),
        PlanError::NoReference { .. } => (&mentions.reference, "cannot be used"),
        _ => (&mentions.matrix, "cannot be planned"),
    };
    ManifestError {
        message: error.to_string(),
        span: place.clone().unwrap_or(0..0),
        label: label.into(),
        hint: None,
    }
}

/// Options that a backend's `plugin.toml` does not list, where it lists any: a name there that ends
/// in `.*` stands for all that begin like it. What it does not tell, the backend itself does when it
/// loads a model.
fn backend_options(mention: &PluginMention, registry: &Registry) -> Vec<ManifestError> {
    let native = registry.native(&mention.id, &mention.version);
    let Some(known) = native.and_then(|native| native.metadata.options.as_ref()) else {
        return Vec::new();
    };
    let known: Vec<_> = known.keys().map(String::as_str).collect();
    let is_known = |name: &str| {
        known.iter().any(|known| match known.strip_suffix('*') {
            Some(prefix) if prefix.ends_with('.') => name.starts_with(prefix),
            _ => *known == name,
        })
    };
    (mention.option_places.keys())
        .filter(|name| !is_known(name))
        .filter_map(|name| unknown_option("backend", mention, name, &known))
        .collect()
}

/// Backends that are not there, where nothing else is done about them.
fn warn_of_missing(mentions: &Mentions, registry: &Registry, printer: &Printer) {
    for PluginMention { id, .. } in &mentions.backends {
        if id != Experiment::ALL_BACKENDS
            && registry.natives().iter().all(|native| native.metadata.id != *id)
        {
            let error = registry.missing("backend", id);
            printer.warning(&error, error.help().as_deref());
        }
    }
}

/// Hashes of the files that an experiment names.
#[derive(Debug, Default)]
pub(crate) struct Files {
    models: BTreeMap<String, ModelFacts>,
    data: BTreeMap<PathBuf, String>,
}

/// Ids of the installed backends that run models on hardware, each once. Those that only test the tool say
/// in their `plugin.toml` that their hardware is `none`.
fn real_backends(registry: &Registry) -> Vec<String> {
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
    /// The plugin, or why there is none.
    pub(crate) plugin: std::result::Result<BackendPlugin, RegistryError>,
    /// How things stand with the plugin's runtime; `None` where it takes none.
    pub(crate) runtime: Option<Standing>,
    /// Whether its options need that runtime.
    needs_runtime: bool,
}

impl ChosenBackend {
    /// Which runtime the plugin is given, as results keep it.
    pub(crate) fn runtime_identity(&self) -> Result<Option<RuntimeIdentity>> {
        match (&self.plugin, &self.runtime) {
            (Ok(plugin), Some(Standing::Ready(ready))) => Ok(Some(ready.identify(&plugin.plugin)?)),
            _ => Ok(None),
        }
    }

    /// The plugin, where its runtime is missing.
    fn without_runtime(&self) -> Option<&NativePlugin> {
        match (&self.plugin, &self.runtime) {
            (Ok(plugin), Some(standing)) if standing.reason().is_some() => Some(&plugin.plugin),
            _ => None,
        }
    }

    /// The gap of what it cannot do for want of the runtime that its options need.
    fn lacks(&self) -> Option<Gap> {
        let plugin = self.without_runtime().filter(|_| self.needs_runtime)?;
        let reason = runtimes::missing(plugin, self.runtime.as_ref())?;
        Some(Gap { kind: GapKind::RuntimeMissing, reason })
    }
}

/// Installs the runtimes that are missing and that the options of a chosen backend need. Where there is
/// none to install on this machine, the backend's cases stay gaps.
pub(crate) fn install_missing(
    backends: &mut [ChosenBackend],
    runtimes: &Runtimes,
    printer: &Printer,
) -> Result<()> {
    let mut installed = BTreeSet::new();
    for backend in backends.iter().filter(|backend| backend.needs_runtime) {
        if let Some(plugin) = backend.without_runtime()
            && !matches!(backend.runtime, Some(Standing::Unavailable { .. }))
            && installed.insert(&plugin.folder)
        {
            runtimes::install(runtimes, plugin, printer)?;
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

/// Chooses the plugin of each backend. One that is missing makes gaps of its cases; one that is
/// not trusted stops everything, since it may be someone's attempt.
pub(crate) fn choose_backends(
    experiment: &Experiment,
    registry: &Registry,
    runtimes: &Runtimes,
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
                chosen.push(ChosenBackend {
                    id: backend.id.clone(),
                    plugin: Err(error),
                    runtime: None,
                    needs_runtime: false,
                });
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
                        });
                    }
                    Err(error) => refused.push(Failure::from(error)),
                }
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
                    lacks: backend.lacks(),
                },
                Some(Err(error)) => match lacking(plugin, backend.runtime.as_ref(), error) {
                    Some(gap) => BackendFacts::Missing(gap),
                    None => {
                        described.failures.insert(backend.id.clone(), error.clone());
                        missing(error.to_string())
                    }
                },
                None => missing(format!("plugin `{}` was not asked", plugin.identity.id)),
            },
        };
        described.facts.insert(backend.id.clone(), facts);
    }
    described
}

/// What a plugin lacks that cannot be described, and so has not failed: its runtime, or a device. One
/// that looks for its device first has found no use for the runtime either.
fn lacking(
    plugin: &BackendPlugin,
    runtime: Option<&Standing>,
    error: &DescribeError,
) -> Option<Gap> {
    use host_record::Failure::MissingLibrary;
    let nothing = nothing_found(error);
    let wants_runtime = match &nothing {
        Some(message) => message.contains(&runtimes::install_command(&plugin.identity.id)),
        None => matches!(error.failure, MissingLibrary { .. }),
    };
    let missing = if wants_runtime { runtimes::missing(&plugin.plugin, runtime) } else { None };
    missing
        .map(|reason| Gap { kind: GapKind::RuntimeMissing, reason })
        .or_else(|| nothing.map(|reason| Gap { kind: GapKind::DeviceMissing, reason }))
}

/// Asks a plugin for its devices. It must be the plugin that its `plugin.toml` says it is, since
/// results carry that name.
pub(crate) fn describe(
    plugin: &BackendPlugin,
    runner: &Runner,
    interrupt: &Interrupt,
) -> std::result::Result<Vec<DeviceInfo>, DescribeError> {
    let PluginIdentity { id, version, sha256 } = &plugin.identity;
    let description = runner.describe(&plugin.plugin.library, Some(sha256), interrupt);
    let description = description.map_err(|error| *error)?;
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

/// What a plugin looked for and did not find, where that is why it could not list devices: its runtime, a
/// driver, or hardware. It works, and this is not a machine for it.
pub(crate) fn nothing_found(error: &DescribeError) -> Option<String> {
    use host_record::{Failure, Phase};
    match &error.failure {
        Failure::Backend { phase: Phase::Devices, code, message, .. }
            if matches!(&**code, "not-found" | "unsupported") =>
        {
            // What comes before is the name of the call.
            Some(message.strip_prefix("devices: ").unwrap_or(message).to_owned())
        }
        _ => None,
    }
}

fn missing(reason: String) -> BackendFacts {
    BackendFacts::Missing(Gap { kind: GapKind::PluginMissing, reason })
}

/// A runner for the chosen backends, with their runtimes.
pub(crate) fn runner_for(settings: &Settings, backends: &[ChosenBackend]) -> Result<Runner> {
    let mut runner = runner(settings)?;
    for backend in backends {
        let Ok(BackendPlugin { plugin, .. }) = &backend.plugin else { continue };
        let library = plugin.library.clone();
        if let Some(Standing::Ready(ready)) = &backend.runtime {
            runner.runtimes.insert(library, ready.path.clone());
        } else if let Some(reason) = runtimes::missing(plugin, backend.runtime.as_ref()) {
            let command = runtimes::install_command(&plugin.metadata.id);
            runner.missing_runtimes.insert(library, MissingRuntime { command, reason });
        }
    }
    Ok(runner)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_that_finds_no_runtime_has_not_failed() {
        let text = "schema = 1\nid = \"demo\"\nversion = \"0.1.0\"\nkind = \"backend\"\n\
                    summary = \"A test.\"\nlicense = \"MIT\"\nlibrary = \"backend_demo\"\n\
                    api = \">=1.0\"\nhardware = [\"npu\"]\nengine = \"none\"\n[runtime]\n\
                    name = \"demo\"\nversion = \"1.0\"\nsummary = \"A demo.\"\n";
        let sha256 = String::new();
        let plugin = BackendPlugin {
            plugin: host_registry::NativePlugin {
                metadata: host_registry::Metadata::parse(text, Path::new("plugin.toml"))
                    .expect("a good file"),
                folder: "/plugins/demo".into(),
                library: "/plugins/demo/libbackend_demo.so".into(),
                origin: host_registry::Origin::User,
            },
            identity: PluginIdentity { id: "demo".into(), version: "0.1.0".into(), sha256 },
            first_use: false,
        };
        let missing = Standing::Missing { reason: "is not installed".into() };
        let said = |code: &str, message: &str| DescribeError {
            failure: host_record::Failure::Backend {
                phase: host_record::Phase::Devices,
                code: code.into(),
                message: message.into(),
                details: String::new(),
            },
            standard_error: String::new(),
        };
        let nowhere = "libdemo.so is nowhere; `host runtimes install demo` installs it";
        let gap = lacking(&plugin, Some(&missing), &said("not-found", nowhere)).expect("a gap");
        assert_eq!(gap.kind, GapKind::RuntimeMissing);
        assert_eq!(
            gap.reason,
            "runtime `demo` 1.0 is not installed; `host runtimes install demo` installs it"
        );
        assert_eq!(lacking(&plugin, Some(&missing), &said("internal", nowhere)), None, "it failed");
        // One that looked for its device first has no use for the runtime either.
        let gap = lacking(&plugin, Some(&missing), &said("not-found", "devices: there is no NPU"));
        let device = Gap { kind: GapKind::DeviceMissing, reason: "there is no NPU".to_owned() };
        assert_eq!(gap, Some(device));
    }

    #[test]
    fn processors_that_are_not_here_are_underlined() {
        let mentions = Mentions { pin: Some(7..13), ..Mentions::default() };
        let wrong = |pin, allowed: Option<&[u32]>| pinned(&pin, &mentions, allowed);
        let listed = || Pin::Processors(vec![0, 2, 9]);
        assert_eq!(wrong(listed(), Some(&[0, 1, 2, 9])), None);
        assert_eq!(wrong(listed(), None), None, "the worker finds out");
        assert_eq!(wrong(Pin::Auto, Some(&[0])), None);
        let error = wrong(listed(), Some(&[0, 1])).expect("two are not here");
        assert_eq!(error.span, 7..13);
        assert_eq!(
            error.message,
            "`measure.pin` names the processors 2,9, which this process may not use or the machine \
             does not have"
        );
        assert_eq!(error.hint.as_deref(), Some("it may use 0-1"));
    }

    #[test]
    fn a_nice_value_that_may_not_be_given_is_underlined() {
        let mentions = Mentions { nice: Some(7..9), ..Mentions::default() };
        let wrong = |nice, least| prioritised(nice, &mentions, least);
        assert_eq!(wrong(None, Some(0)), None);
        assert_eq!(wrong(Some(-5), None), None, "the worker finds out");
        assert_eq!(wrong(Some(-5), Some(-20)), None);
        assert_eq!(wrong(Some(0), Some(0)), None);
        let error = wrong(Some(-5), Some(0)).expect("it may not");
        assert_eq!(error.span, 7..9);
        assert_eq!(error.message, "`measure.nice` is -5, and this process may go no lower than 0");
    }
}
