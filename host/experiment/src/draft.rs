//! From a manifest's path to an experiment with its files found, hashed and its plugins chosen.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use host_hash::sha256_of_file;
use host_machine::Machine;
use host_manifest::{
    Experiment, FileMention, ManifestError, ManifestErrors, Mentions, PluginMention, Reading,
};
use host_plan::{BackendFacts, Facts, ModelFacts, Plan, PlanError};
use host_record::{FileId, ModelStructure, Pin, list_of_processors};
use host_registry::Registry;
use host_run::{Interrupt, LocalExecutor};
use host_runtime::Runtimes;

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
        let bytes = fs::read(path)
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
        let files = match files(&mentions, &base, experiment.as_ref(), architectures) {
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
        let (mut missing, mut others) = (Vec::new(), Vec::new());
        let wishes = Wishes::from(&mentions);
        let (guests, problems) = Guests::choose(&wishes, &registry, settings, observer)?;
        if settings.interrupt.is_interrupted() {
            return Err(Error::Interrupted);
        }
        let of_backends = mentions.backends.iter();
        let of_backends = of_backends.flat_map(|mention| backend_options(mention, &registry));
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
            Some(experiment) => choose_backends(experiment, &registry, &runtimes, observer)
                .unwrap_or_else(|error| {
                    others.push(error);
                    Vec::new()
                }),
            None => {
                tell_of_missing(&mentions, &registry, observer);
                Vec::new()
            }
        };

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
        files.complete(&backends, &mut executor, &settings.interrupt)?;
        let described = describe_backends(&backends, &executor, &settings.interrupt);
        let plan = manifest.plan(&files, described.facts)?;
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
        let Files { models, structures, data, .. } = files;
        let (models, structures, data) = (models.clone(), structures.clone(), data.clone());
        let facts = Facts { machine: host_machine::name(), models, structures, data, backends };
        let refused = |error| {
            let errors = ManifestErrors { errors: vec![error] };
            let (name, text) = (self.name.clone(), self.text.clone());
            Error::Manifest { errors, name, text, is_of_plugins: false }
        };
        let plan = Plan::new(&self.experiment, facts);
        let plan = plan.map_err(|error| refused(plan_error(&error, &self.mentions)))?;
        match files.architectures.refusal(&plan, &self.mentions) {
            Some(error) => Err(refused(error)),
            None => Ok(plan),
        }
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
fn files(
    mentions: &Mentions,
    base: &Path,
    experiment: Option<&Experiment>,
    mut architectures: Architectures,
) -> Result<Files, Vec<ManifestError>> {
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
    files.architectures = architectures;
    files.data = hashes.into_iter().map(|(path, hash)| (path.to_owned(), hash)).collect();
    Ok(files)
}

/// Converts a planning error to one with a position in the manifest.
fn plan_error(error: &PlanError, mentions: &Mentions) -> ManifestError {
    let (place, label) = match error {
        PlanError::Empty => (mentions.exclude.clone(), "leaves nothing"),
        PlanError::NoReference { .. } => (mentions.reference.clone(), "cannot be used"),
        PlanError::Axes { model, .. }
        | PlanError::Steers { model, .. }
        | PlanError::Computed { model, .. } => {
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
    /// Their paths on this machine.
    paths: LocalPaths,
}

impl Files {
    /// Finds all files that models consist of, and hashes them; then gives the executor the paths of models, data
    /// and these backends on this machine. A model that cannot be read, or that names a file that is not there,
    /// keeps its own hash: each of its cases fails, with the reason.
    ///
    /// # Errors
    ///
    /// If a file of weights cannot be read.
    pub(crate) fn complete(
        &mut self,
        backends: &[ChosenBackend],
        executor: &mut LocalExecutor,
        interrupt: &Interrupt,
    ) -> Result<()> {
        let paths: BTreeMap<FileId, PathBuf> =
            self.data.iter().map(|(path, hash)| (FileId::of(path, hash), path.clone())).collect();
        let mut whole = BTreeMap::new();
        for file in self.models.values().flat_map(ModelFacts::values) {
            let Some(path) = paths.get(file).filter(|_| !whole.contains_key(file)) else {
                continue;
            };
            let path = absolute(&self.base.join(path));
            let Ok(structure) = executor.inspect(&path, interrupt) else { continue };
            let parts = parts(&path, &structure.weights)?;
            let complete = FileId { parts, ..file.clone() };
            self.paths.add_file(complete.clone(), &path);
            self.structures.insert(complete.clone(), structure);
            whole.insert(file.clone(), complete);
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

/// Hashes the files with the weights of a model, which lie in its folder.
fn parts(model: &Path, weights: &[String]) -> Result<Vec<FileId>> {
    let folder = model.parent().unwrap_or(Path::new(""));
    let part = |name: &String| {
        let path = folder.join(name);
        let sha256 = sha256_of_file(&path).map_err(|error| Error::io("read", &path, error))?;
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
