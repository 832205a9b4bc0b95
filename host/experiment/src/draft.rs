//! From a manifest's path to an experiment with its files found, hashed and its plugins chosen.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use host_hash::sha256_of_reader;
use host_machine::Machine;
use host_manifest::{
    Experiment, FileMention, ManifestError, ManifestErrors, Mentions, PluginMention, Reading,
    suggestions,
};
use host_plan::{BackendFacts, Facts, ModelFacts, Plan, PlanError, PlannedCase};
use host_record::{
    Axis, AxisRole, CaseKey, Engine, Failure, FileId, InputSource, Limit, ModelStructure, Pin,
    list_of_processors,
};
use host_registry::Registry;
use host_run::{Interrupt, LocalExecutor};
use host_runtime::Runtimes;
use serde_json::Value;

use crate::architectures::Architectures;
use crate::backends::{
    ChosenBackend, choose_backends, describe_backends, executor, real_backends, tell_of_missing,
};
use crate::error::{Error, Result};
use crate::guests::{Guests, Wishes, unknown_option};
use crate::local_paths::LocalPaths;
use crate::observer::Observer;
use crate::platform;
use crate::problem::GuestProblem;
use crate::settings::Settings;

/// A manifest that has been read, be it right or wrong.
#[derive(Debug)]
pub struct Draft {
    path: PathBuf,
    name: PathBuf,
    base: PathBuf,
    text: String,
    reading: Reading,
}

/// A manifest that is right, as far as can be known before anything is measured.
#[derive(Debug)]
pub struct Manifest {
    /// Absolute path of the manifest; without a file, a name in the current folder.
    pub path: PathBuf,
    /// The name that errors use.
    name: PathBuf,
    /// The folder that its paths are relative to.
    pub base: PathBuf,
    /// Its text.
    pub text: String,
    /// The experiment that it describes.
    pub experiment: Experiment,
    mentions: Mentions,
}

/// A manifest with all that it names.
pub struct Checked {
    /// The manifest.
    pub manifest: Manifest,
    pub(crate) files: Files,
    pub(crate) backends: Vec<ChosenBackend>,
    pub(crate) guests: Guests,
    pub(crate) runtimes: Runtimes,
}

/// A manifest with its plan.
#[derive(Debug)]
pub struct Planned {
    /// The manifest.
    pub manifest: Manifest,
    /// The cases and gaps.
    pub plan: Plan,
}

/// Greatest length of a manifest's text.
pub const LARGEST_MANIFEST: u64 = 16 << 20;

impl Draft {
    /// Returns the folder that the manifest's paths are relative to.
    #[must_use]
    pub fn base(&self) -> &Path {
        &self.base
    }

    /// Reads a manifest's file.
    ///
    /// # Errors
    ///
    /// If it cannot be read or is not UTF-8.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = host_files::read(path, LARGEST_MANIFEST)
            .map_err(|source| Error::ReadManifest { path: path.to_owned(), source })?;
        Self::of_bytes(path, path, bytes)
    }

    /// Parses a manifest from its bytes. Its paths are relative to the folder of `path`, which may itself be
    /// relative; errors call it `name`.
    ///
    /// # Errors
    ///
    /// If it is not UTF-8, or there is no current folder.
    pub fn of_bytes(path: &Path, name: &Path, bytes: Vec<u8>) -> Result<Self> {
        let folder = std::env::current_dir()
            .map_err(|error| Error::io("find the current folder", Path::new("."), error))?;
        Ok(Self::parse(folder.join(path), name, utf8(bytes, name)?))
    }

    /// Parses a manifest's text from the absolute `path`; errors call it `name`. [`Draft::check`] reports its
    /// errors.
    #[must_use]
    pub fn parse(path: PathBuf, name: &Path, text: String) -> Self {
        let reading = host_manifest::read(&text);
        let base = path.parent().unwrap_or(Path::new("/")).to_owned();
        Self { path, name: name.to_owned(), base, text, reading }
    }

    /// Checks all that can be known before anything is measured: the manifest itself, the files
    /// and plugins that it names, their options, the limits, and that the matrix has cells.
    /// All errors are returned at once, in the order of the text.
    ///
    /// # Errors
    ///
    /// All that is wrong, as [`Error::Several`] if it is more than the manifest's text has a place for.
    pub fn check(self, settings: &Settings, observer: &mut dyn Observer) -> Result<Checked> {
        let Self { path, name, base, text, reading: Reading { experiment, mentions } } = self;
        let folders: Vec<_> = mentions.plugin_folders.iter().map(|it| base.join(it)).collect();
        let registry = settings.registry(&folders);
        let runtimes = settings.runtimes(&registry)?;

        let mut nothing_for_all = None;
        let mut architectures = Architectures::default();
        let (experiment, mut wrong) = match experiment {
            Ok(mut experiment) => {
                if experiment.wants_all_backends() {
                    let installed = real_backends(&registry);
                    if installed.is_empty() {
                        nothing_for_all = Some(Error::NoBackend);
                    }
                    experiment.expand_all_backends(&installed);
                }
                match Architectures::find(&mut experiment, &mentions.architectures) {
                    Ok(found) => {
                        architectures = found;
                        (Some(experiment), Vec::new())
                    }
                    Err(errors) => (None, errors),
                }
            }
            Err(ManifestErrors { errors }) => (None, errors),
        };
        let interrupt = &settings.interrupt;
        let files = match files(&mentions, &base, experiment.as_ref(), architectures, interrupt)? {
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
        // On a cluster, the worker finds out.
        if let Some(experiment) =
            experiment.as_ref().filter(|it| it.execution.engine == Engine::Local)
        {
            let allowed = Machine::this().allowed_processors();
            wrong.extend(pinned(&experiment.measure.pin, &mentions, allowed.as_deref()));
            let least = Machine::this().least_nice();
            wrong.extend(prioritised(experiment.measure.nice, &mentions, least));
        }
        let (mut missing, mut others) = (Vec::new(), Vec::new());
        let wishes = Wishes::from(&mentions);
        let (guests, problems) = Guests::choose(&wishes, &registry, settings, observer)?;
        if settings.interrupt.is_interrupted() {
            return Err(Error::Interrupted);
        }
        let of_backends = mentions.backends.iter();
        let of_backends = of_backends.flat_map(|mention| backend_options(mention, &registry));
        wrong.extend(mentions.backends.iter().flat_map(|it| option_values(it, &registry)));
        for problem in of_backends.chain(problems) {
            let is_missing = problem.is_missing;
            match ManifestError::try_from(problem) {
                Ok(error) if is_missing => missing.push(error),
                Ok(error) => wrong.push(error),
                Err(problem) => others.push(Error::Guest(Box::new(problem))),
            }
        }
        others.extend(nothing_for_all);
        let backends = match &experiment {
            Some(experiment) => choose_backends(experiment, &base, &registry, &runtimes, observer)
                .unwrap_or_else(|error| {
                    others.push(error);
                    Vec::new()
                }),
            None => {
                tell_of_missing(&mentions, &registry, observer);
                Vec::new()
            }
        };

        wrong.extend(unread(&mentions, experiment.as_ref(), &backends));
        let is_of_plugins = wrong.is_empty();
        let mut errors: Vec<_> = wrong.into_iter().chain(missing).collect();
        errors.sort_by_key(|error| error.span.start);
        let placed = (!errors.is_empty()).then(|| Error::Manifest {
            errors: ManifestErrors { errors },
            name: name.clone(),
            text: text.clone(),
            is_of_plugins,
        });
        if let Some(error) = Error::all(placed.into_iter().chain(others)) {
            return Err(error);
        }
        let experiment = experiment.expect("a manifest without an experiment has errors");
        let manifest = Manifest { path, name, base, text, experiment, mentions };
        Ok(Checked { manifest, files, backends, guests, runtimes })
    }
}

impl Checked {
    /// Plans a run. Starts a worker for each model to read its structure, and one for each chosen plugin to list
    /// its devices.
    ///
    /// # Errors
    ///
    /// If there is no worker, or the manifest has no plan.
    pub fn plan(self, settings: &Settings) -> Result<Planned> {
        let Self { manifest, mut files, backends, .. } = self;
        let mut executor = executor(settings)?;
        files.complete(&manifest, &backends, &mut executor, &settings.interrupt)?;
        let described = describe_backends(&backends, &executor, &settings.interrupt);
        if settings.interrupt.is_interrupted() {
            return Err(Error::Interrupted);
        }
        let plan = manifest.plan(&files, described.facts)?;
        manifest.check_data(&plan, &executor, &settings.interrupt)?;
        Ok(Planned { manifest, plan })
    }
}

impl Manifest {
    /// Returns the results folder that the manifest names.
    #[must_use]
    pub fn results(&self) -> Option<PathBuf> {
        self.experiment.results.as_ref().map(|folder| self.base.join(folder))
    }

    /// Plans the experiment from the facts about files and backends.
    pub(crate) fn plan(
        &self,
        files: &Files,
        backends: BTreeMap<String, BackendFacts>,
    ) -> Result<Plan> {
        let plan = self.plan_of(&self.experiment, files, backends).map_err(|errors| {
            self.refused(errors.iter().map(|error| plan_error(error, &self.mentions)).collect())
        })?;
        match files.architectures.refusal(&plan, &self.mentions) {
            Some(error) => Err(self.refused(vec![error])),
            None => Ok(plan),
        }
    }

    /// Plans a single case, which may be beyond the matrix, of the experiment's models and backends.
    ///
    /// # Errors
    ///
    /// The reason why it cannot be planned.
    pub(crate) fn plan_case(
        &self,
        key: &CaseKey,
        files: &Files,
        backends: BTreeMap<String, BackendFacts>,
    ) -> Result<Plan, String> {
        let plan = self.plan_of(&self.experiment.only(key), files, backends).map_err(|errors| {
            errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
        })?;
        match files.architectures.refusal(&plan, &self.mentions) {
            Some(error) => Err(error.message),
            None => Ok(plan),
        }
    }

    /// Plans an experiment that is made of this one's models and backends.
    ///
    /// # Errors
    ///
    /// As [`Plan::new`].
    fn plan_of(
        &self,
        experiment: &Experiment,
        files: &Files,
        backends: BTreeMap<String, BackendFacts>,
    ) -> Result<Plan, Vec<PlanError>> {
        let Files { models, structures, data, .. } = files;
        let (models, structures, data) = (models.clone(), structures.clone(), data.clone());
        let here = || (host_machine::name(), memory());
        let (machine, memory_bytes) = files.place.clone().unwrap_or_else(here);
        Plan::new(experiment, Facts { machine, memory_bytes, models, structures, data, backends })
    }

    /// Checks the files with inputs and labels of each model, in a worker: their shapes, types and numbers of examples
    /// must fit the model. Only models whose file tells their inputs are checked here.
    ///
    /// # Errors
    ///
    /// The first problem of each model.
    pub(crate) fn check_data(
        &self,
        plan: &Plan,
        executor: &LocalExecutor,
        interrupt: &Interrupt,
    ) -> Result<()> {
        if !self
            .experiment
            .models
            .iter()
            .any(|model| matches!(model.inputs, InputSource::Files { .. }))
        {
            return Ok(());
        }
        let mut checked = BTreeSet::new();
        let mut errors: BTreeMap<String, ManifestError> = BTreeMap::new();
        for item in plan.items() {
            let PlannedCase::Case(case) = item else { continue };
            let key = &case.key;
            if !matches!(case.inputs, InputSource::Files { .. })
                || errors.contains_key(&key.model)
                || !checked.insert((case.model.clone(), shape_of(key)))
            {
                continue;
            }
            let answer = executor.check_inputs(&case, interrupt);
            if interrupt.is_interrupted() {
                return Err(Error::Interrupted);
            }
            if let Err(error) = answer {
                let error = ManifestError {
                    message: format!("the model `{}`: {}", key.model, reason(&error.failure)),
                    span: self.mentions.models.get(&key.model).cloned().unwrap_or(0..0),
                    label: "its data does not fit".into(),
                    hint: None,
                };
                errors.insert(key.model.clone(), error);
            }
        }
        if errors.is_empty() { Ok(()) } else { Err(self.refused(errors.into_values().collect())) }
    }

    /// Returns errors of the manifest, in the order of its text.
    fn refused(&self, mut errors: Vec<ManifestError>) -> Error {
        errors.sort_by_key(|error| error.span.start);
        let (name, text) = (self.name.clone(), self.text.clone());
        Error::Manifest { errors: ManifestErrors { errors }, name, text, is_of_plugins: false }
    }
}

/// Returns the error of pinned processors that this process may not use. If the system does not list them,
/// the worker checks.
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

/// Returns the error of a nice value below `least`, the lowest allowed. If the system does not report it, the
/// worker checks.
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

/// Decodes the text of a manifest. The error of invalid UTF-8 names its position.
fn utf8(bytes: Vec<u8>, name: &Path) -> Result<String> {
    let utf16 = match bytes[..] {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => true,
        // Without a mark, every other byte of plain text is zero.
        [first, second, ..] => (first == 0) != (second == 0),
        _ => false,
    };
    if utf16 {
        return Err(Error::Utf16 { name: name.to_owned() });
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
    let errors = ManifestErrors { errors: vec![error] };
    Err(Error::Manifest { errors, name: name.to_owned(), text, is_of_plugins: false })
}

/// Hashes the models and data files that a manifest mentions; without an experiment, it only
/// checks that they exist. All missing ones are reported, each at its position in the manifest.
///
/// # Errors
///
/// [`Error::Interrupted`] if it was interrupted meanwhile: files may be large.
fn files(
    mentions: &Mentions,
    base: &Path,
    experiment: Option<&Experiment>,
    mut architectures: Architectures,
    interrupt: &Interrupt,
) -> Result<Result<Files, Vec<ManifestError>>> {
    let mut hashes: BTreeMap<&Path, String> = BTreeMap::new();
    let mut errors = Vec::new();
    for FileMention { path, place } in &mentions.files {
        if hashes.contains_key(path.as_path()) {
            continue;
        }
        let full = base.join(path);
        let hash = match experiment {
            Some(_) => hash(&full, interrupt)?,
            None => host_files::open(&full).map(|_| String::new()),
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
        return Ok(Err(errors));
    }
    let mut files = Files { base: base.to_owned(), ..Files::default() };
    let seed = experiment.map_or(0, |experiment| experiment.seed);
    for model in experiment.iter().flat_map(|experiment| &experiment.models) {
        let of_file = || {
            model.path.try_map(|path| {
                let sha256 = hashes.get(path.as_path())?.clone();
                Some(FileId::of(path, sha256))
            })
        };
        let facts = architectures.files_of(&model.id, seed).or_else(of_file);
        if let Some(facts) = facts {
            files.models.insert(model.id.clone(), facts);
        }
    }
    for (path, sha256) in &hashes {
        files.paths.add_file(FileId::of(path, sha256), &absolute(&base.join(path)));
    }
    if let Some(cache) = platform::architectures() {
        for (file, path) in architectures.paths(&cache) {
            files.paths.add_file(file, &path);
        }
    }
    files.structures.extend(architectures.structures());
    files.architectures = architectures;
    files.data = hashes.into_iter().map(|(path, hash)| (path.to_owned(), hash)).collect();
    Ok(Ok(files))
}

/// Returns the SHA-256 of a file, or the error of reading it.
///
/// # Errors
///
/// [`Error::Interrupted`].
fn hash(path: &Path, interrupt: &Interrupt) -> Result<io::Result<String>> {
    let mut file = match host_files::open(path) {
        Ok(file) => file,
        Err(error) => return Ok(Err(error)),
    };
    sha256_of_reader(&mut file, |_| match interrupt.is_interrupted() {
        true => Err(Error::Interrupted),
        false => Ok(()),
    })
}

/// Converts a planning error to one with a position in the manifest.
fn plan_error(error: &PlanError, mentions: &Mentions) -> ManifestError {
    let (place, label) = match error {
        PlanError::Empty => (mentions.exclude.clone(), "leaves nothing"),
        PlanError::NoReference { .. } => (mentions.reference.clone(), "cannot be used"),
        PlanError::UnknownInput { model, input, .. } => (
            mentions.inputs.get(model).and_then(|inputs| inputs.get(input)).cloned(),
            "not an input of the model",
        ),
        PlanError::BeyondTable { model, input, .. } => (
            mentions.inputs.get(model).and_then(|inputs| inputs.get(input)).cloned(),
            "beyond its table",
        ),
        PlanError::Axes { model, .. }
        | PlanError::BeyondMemory { model, .. }
        | PlanError::Steers { model, .. }
        | PlanError::Computed { model, .. }
        | PlanError::NoFile { model, .. } => {
            (mentions.models.get(model).cloned(), "does not fit its file")
        }
        _ => (mentions.matrix.clone(), "cannot be planned"),
    };
    ManifestError {
        message: error.to_string(),
        span: place.unwrap_or(0..0),
        label: label.into(),
        hint: error.hint(),
    }
}

/// Returns errors of models whose files no chosen backend reads, by the end of their name. A backend that does not list
/// the formats that it reads may read any.
fn unread(
    mentions: &Mentions,
    experiment: Option<&Experiment>,
    backends: &[ChosenBackend],
) -> Vec<ManifestError> {
    let formats: Option<Vec<(&str, &Vec<String>)>> =
        backends.iter().map(|backend| Some((backend.id.as_str(), backend.formats()?))).collect();
    let (Some(experiment), Some(formats)) = (experiment, formats.filter(|all| !all.is_empty()))
    else {
        return Vec::new();
    };
    let paths = experiment.models.iter().flat_map(|model| model.path.values());
    let paths: BTreeSet<&PathBuf> = paths.collect();
    let is_read = |path: &Path| {
        let end = path.extension().and_then(|end| end.to_str());
        end.is_some_and(|end| formats.iter().any(|(_, known)| known.iter().any(|it| it == end)))
    };
    let wrong =
        mentions.files.iter().filter(|file| paths.contains(&file.path) && !is_read(&file.path));
    let known = formats.iter().map(|(id, known)| format!("`{id}` reads .{}", known.join(", .")));
    let known = known.collect::<Vec<_>>().join("; ");
    let error = |file: &FileMention| ManifestError {
        message: format!("no chosen backend reads {}", file.path.display()),
        span: file.place.clone(),
        label: "not a model that they know".into(),
        hint: Some(known.clone()),
    };
    wrong.map(error).collect()
}

/// Returns problems of option values that a backend's `plugin.toml` does not list, if it lists those of the option.
fn option_values(mention: &PluginMention, registry: &Registry) -> Vec<ManifestError> {
    let native = registry.native(&mention.id, &mention.version);
    let Some(native) = native else { return Vec::new() };
    let (Some(Value::Object(given)), places) = (&mention.options, &mention.option_places) else {
        return Vec::new();
    };
    let wrong = given.iter().filter_map(|(name, value)| {
        let known = native.metadata.option_values.get(name)?;
        let value = value.as_str()?;
        if known.iter().any(|it| it == value) {
            return None;
        }
        let known: Vec<_> = known.iter().map(String::as_str).collect();
        Some(ManifestError {
            message: format!(
                "the option `{name}` of the backend plugin `{}` cannot be `{value}`",
                mention.id
            ),
            span: places.get(name).map_or(0..0, |place| place.value.clone()),
            label: "not one of its values".into(),
            hint: Some(suggestions(value, &known, "it can be")),
        })
    });
    wrong.collect()
}

/// Returns problems of options that a backend's `plugin.toml` does not list, if it lists any. A listed name
/// that ends in `.*` stands for all that begin like it. The backend itself reports others when it loads a
/// model.
fn backend_options(mention: &PluginMention, registry: &Registry) -> Vec<GuestProblem> {
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
        .map(|name| unknown_option("backend", &mention.id, &mention.option_places, name, &known))
        .collect()
}

/// The files that an experiment names.
#[derive(Debug, Default)]
pub(crate) struct Files {
    /// The folder that paths are relative to.
    base: PathBuf,
    models: BTreeMap<String, ModelFacts>,
    structures: BTreeMap<FileId, ModelStructure>,
    data: BTreeMap<PathBuf, String>,
    pub(crate) architectures: Architectures,
    /// The machine that cases are planned for, and the memory of a process on it, if it is not this one.
    pub(crate) place: Option<(String, Option<u64>)>,
    /// Their paths on this machine.
    paths: LocalPaths,
}

impl Files {
    /// Returns all files that have a path on this machine.
    pub(crate) fn all(&self) -> impl Iterator<Item = &FileId> {
        self.paths.files()
    }

    /// Finds all files that models consist of, and hashes them; then gives the executor the paths of models, data
    /// and these backends on this machine.
    ///
    /// # Errors
    ///
    /// If a file is not a model, or a file of weights is missing, truncated or cannot be read.
    pub(crate) fn complete(
        &mut self,
        manifest: &Manifest,
        backends: &[ChosenBackend],
        executor: &mut LocalExecutor,
        interrupt: &Interrupt,
    ) -> Result<()> {
        let paths: BTreeMap<FileId, PathBuf> =
            self.data.iter().map(|(path, hash)| (FileId::of(path, hash), path.clone())).collect();
        let (mut whole, mut wrong) = (BTreeMap::new(), BTreeMap::new());
        for file in self.models.values().flat_map(ModelFacts::values) {
            let is_new = !whole.contains_key(file) && !wrong.contains_key(file);
            let Some(named) = paths.get(file).filter(|_| is_new) else {
                continue;
            };
            let path = absolute(&self.base.join(named));
            let structure = match executor.inspect(&path, interrupt) {
                Ok(structure) => structure,
                Err(_) if interrupt.is_interrupted() => return Err(Error::Interrupted),
                Err(error) => {
                    let mut mentions = manifest.mentions.files.iter();
                    let mention = mentions.find(|mention| mention.path == *named);
                    let error = ManifestError {
                        message: reason(&error.failure),
                        span: mention.map_or(0..0, |mention| mention.place.clone()),
                        label: match error.failure {
                            Failure::Backend { .. } => "cannot be used as a model".into(),
                            _ => "could not be looked into".into(),
                        },
                        hint: None,
                    };
                    wrong.insert(file.clone(), error);
                    continue;
                }
            };
            let parts = parts(&path, &structure.weights, interrupt)?;
            let complete = FileId { parts, ..file.clone() };
            self.paths.add_file(complete.clone(), &path);
            self.structures.insert(complete.clone(), structure);
            whole.insert(file.clone(), complete);
        }
        if !wrong.is_empty() {
            return Err(manifest.refused(wrong.into_values().collect()));
        }
        for model in self.models.values_mut() {
            *model = model.map(|file| whole.get(file).unwrap_or(file).clone());
        }
        let mut paths = self.paths.clone();
        for backend in backends {
            if let (Ok(plugin), Some(local)) = (&backend.plugin, backend.local()) {
                paths.add_plugin(&plugin.identity, local);
            }
        }
        executor.resolver = Arc::new(paths);
        Ok(())
    }
}

/// Returns the memory that a process can get at most: the machine's, or the limit of the control group.
pub(crate) fn memory() -> Option<u64> {
    let machine = Machine::this();
    let limit = machine.control_group().memory_bytes.and_then(Limit::at);
    let all = machine.memory().map(|memory| memory.total);
    all.into_iter().chain(limit.map(|limit| limit as u64)).min()
}

/// Returns the coordinates that shapes of inputs can depend on: those that are neither a load nor the place of the work.
fn shape_of(key: &CaseKey) -> String {
    let place = [Axis::Backend, Axis::Device, Axis::Precision];
    let axes = Axis::ALL.iter().filter(|it| it.role() != AxisRole::Load && !place.contains(it));
    let values = axes.filter_map(|axis| Some(format!("{}={}", axis.name(), axis.value(key)?)));
    values.collect::<Vec<_>>().join(" ")
}

/// Returns the reason of a failure without the call that it comes from.
fn reason(failure: &Failure) -> String {
    match failure {
        Failure::Backend { message, .. } => message.clone(),
        Failure::Input { detail } => detail.clone(),
        failure => failure.to_string(),
    }
}

/// Hashes the files with the weights of a model, which lie in its folder.
fn parts(model: &Path, weights: &[String], interrupt: &Interrupt) -> Result<Vec<FileId>> {
    let folder = model.parent().unwrap_or(Path::new(""));
    let part = |name: &String| {
        let path = folder.join(name);
        let sha256 = hash(&path, interrupt)?;
        let sha256 = sha256.map_err(|error| Error::io("read", &path, error))?;
        Ok(FileId { name: name.clone(), sha256, parts: Vec::new() })
    };
    weights.iter().map(part).collect()
}

/// Returns the path with links of its folder resolved, or unchanged if that fails. The file itself keeps its name,
/// and the files beside it, even if it is a link.
fn absolute(path: &Path) -> PathBuf {
    let resolved = path.parent().and_then(|folder| folder.canonicalize().ok());
    match (resolved, path.file_name()) {
        (Some(folder), Some(name)) => folder.join(name),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashing_a_large_model_ends_when_it_is_interrupted() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("large.onnx");
        let file = std::fs::File::create(&path).expect("a file");
        // Hashing all of it takes more than a day.
        file.set_len(1 << 43).expect("a sparse file");
        let interrupt = Interrupt::new();
        interrupt.interrupt();
        let hash = hash(&path, &interrupt);
        assert!(matches!(hash, Err(Error::Interrupted)), "{hash:?}");
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
