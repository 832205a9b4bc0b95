//! External things that a manifest mentions, each with its place in the text: plugins with
//! their options and limits, files, and the parts of the matrix that a plan can find wrong.
//!
//! An [`Experiment`](crate::Experiment) has no places, and exists only without errors. Mentions
//! exist even with errors, so that the code that knows plugins and files can report their errors in
//! the same pass.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::PathBuf;

use semver::VersionReq;
use serde_json::Value;

use crate::document::{
    BackendTable, LimitTable, Manifest, ModelTable, PluginTable, RecommendTable,
};
use crate::experiment::{Allowance, Ask, Recommender};
use crate::options::OptionPlace;
use crate::scalar::{Bytes, Nanoseconds, PluginId};
use crate::shape::{At, List, Tables};

/// Greatest number of backends, metrics, reports or recommenders of a manifest: each is loaded.
pub(crate) const MOST_PLUGINS: usize = 256;

/// Everything that is mentioned, each list in the order of the file. Parts that could not be read
/// are left out: an error says why.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Mentions {
    /// Folders to look for plugins in, relative to the manifest's folder.
    pub plugin_folders: Vec<PathBuf>,
    /// Model and data files.
    pub files: Vec<FileMention>,
    /// Place of each model's id.
    pub models: BTreeMap<String, Range<usize>>,
    /// Place of each input that a model names, by the model's id and the input's name.
    pub inputs: BTreeMap<String, BTreeMap<String, Range<usize>>>,
    /// Models that are architectures.
    pub architectures: Vec<ArchitectureMention>,
    /// Backends.
    pub backends: Vec<PluginMention>,
    /// Metrics, those included that stand in for an absent list.
    pub metrics: Vec<PluginMention>,
    /// Reports, those included that stand in for an absent list.
    pub reports: Vec<PluginMention>,
    /// Recommenders.
    pub recommenders: Vec<PluginMention>,
    /// Limits that a run is checked by.
    pub alerts: Vec<LimitMention>,
    /// The matrix's `exclude`, if there is one.
    pub exclude: Option<Range<usize>>,
    /// The matrix, if there is one.
    pub matrix: Option<Range<usize>>,
    /// `measure.pin`, if there is one.
    pub pin: Option<Range<usize>>,
    /// `measure.nice`, if there is one.
    pub nice: Option<Range<usize>>,
    /// `check.reference`, if there is one.
    pub reference: Option<Range<usize>>,
}

/// A file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileMention {
    /// Its path, relative to the manifest's folder unless absolute.
    pub path: PathBuf,
    /// Position in the manifest.
    pub place: Range<usize>,
}

/// A model that is an architecture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchitectureMention {
    /// The model's id.
    pub model: String,
    /// Position of the architecture's name in the manifest.
    pub place: Range<usize>,
}

/// A plugin.
#[derive(Debug, Clone, PartialEq)]
pub struct PluginMention {
    /// The plugin's id.
    pub id: String,
    /// Position in the manifest; `None` for a default.
    pub place: Option<Range<usize>>,
    /// Accepted versions of the plugin; any, if that could not be read.
    pub version: VersionReq,
    /// Options for the plugin, a JSON object; `None` if they could not be read.
    pub options: Option<Value>,
    /// Place of each option.
    pub option_places: BTreeMap<String, OptionPlace>,
    /// A recommender's limits.
    pub limits: Vec<LimitMention>,
    /// Cases beyond the matrix that a recommender may ask for.
    pub ask: Option<Ask>,
    /// Its limits in the sandbox.
    pub allowance: Allowance,
}

/// A limit on a metric.
#[derive(Debug, Clone, PartialEq)]
pub struct LimitMention {
    /// Full name of the metric.
    pub metric: String,
    /// Position in the manifest.
    pub place: Range<usize>,
    /// The bound's unit, as in [`Limit::unit`](crate::Limit::unit).
    pub unit: Option<&'static str>,
    /// The bound, in that unit.
    pub bound: f64,
    /// Place of the bound.
    pub bound_place: Range<usize>,
}

impl Mentions {
    /// Collects the mentions. `recommenders` are those of the manifest's tables, in order.
    pub(crate) fn new(
        manifest: &Manifest,
        default_metrics: &[&str],
        default_reports: &[&str],
        recommenders: &[Option<Recommender>],
    ) -> Self {
        let experiment = manifest.experiment.as_ref().map(At::get_ref);
        let folders = experiment.and_then(|table| table.plugins.as_ref());
        let folders_of_backends = tables(&manifest.backend)
            .filter_map(|backend| Some(backend.folder.as_ref()?.get_ref().clone()));
        let matrix = manifest.matrix.as_ref();
        let measure = manifest.measure.as_ref();
        let check = manifest.check.as_ref();
        let exclude = matrix.and_then(|table| table.get_ref().exclude.as_ref());
        Self {
            plugin_folders: items(folders).cloned().chain(folders_of_backends).collect(),
            files: tables(&manifest.model).flat_map(files).collect(),
            models: tables(&manifest.model)
                .filter_map(|model| model.id.as_ref())
                .map(|id| (id.get_ref().0.clone(), id.span()))
                .collect(),
            inputs: tables(&manifest.model)
                .filter_map(|model| Some((model.id.as_ref()?.get_ref().0.clone(), inputs(model))))
                .collect(),
            architectures: tables(&manifest.model).filter_map(architecture).collect(),
            backends: tables(&manifest.backend).filter_map(backend).take(MOST_PLUGINS).collect(),
            metrics: plugins(&manifest.metric, default_metrics),
            reports: plugins(&manifest.report, default_reports),
            recommenders: tables(&manifest.recommend)
                .zip(recommenders)
                .filter_map(|(table, resolved)| recommender(table, resolved.as_ref()))
                .take(MOST_PLUGINS)
                .collect(),
            alerts: tables(&manifest.alert).filter_map(limit).collect(),
            exclude: exclude.map(At::span),
            matrix: matrix.map(At::span),
            pin: measure.and_then(|table| table.get_ref().pin.as_ref()).map(At::span),
            nice: measure.and_then(|table| table.get_ref().nice.as_ref()).map(At::span),
            reference: check.and_then(|table| table.get_ref().reference.as_ref()).map(At::span),
        }
    }
}

fn tables<T>(list: &Option<At<Tables<T>>>) -> impl Iterator<Item = &T> {
    list.iter().flat_map(|list| &list.get_ref().values).map(At::get_ref)
}

fn items<T>(list: Option<&At<List<T>>>) -> impl Iterator<Item = &T> {
    list.into_iter().flat_map(|list| &list.get_ref().values).map(At::get_ref)
}

fn files(model: &ModelTable) -> Vec<FileMention> {
    let data = model.data.as_ref().map(At::get_ref);
    let inputs = data.and_then(|data| data.inputs.as_ref());
    let inputs = inputs.into_iter().flat_map(|inputs| inputs.get_ref().values.values());
    let labels = data.and_then(|data| data.labels.as_ref());
    let paths = model.path.iter().filter_map(|path| path.get_ref().0.as_ref());
    let paths = paths.flat_map(|path| path.values());
    (paths.chain(inputs).chain(labels))
        .map(|path| FileMention { path: path.get_ref().clone(), place: path.span() })
        .collect()
}

fn inputs(model: &ModelTable) -> BTreeMap<String, Range<usize>> {
    let drawn = model.inputs.iter().flat_map(|inputs| &inputs.get_ref().keys);
    let data = model.data.as_ref().and_then(|data| data.get_ref().inputs.as_ref());
    let from_files = data.into_iter().flat_map(|inputs| &inputs.get_ref().keys);
    drawn.chain(from_files).map(|(name, place)| (name.clone(), place.clone())).collect()
}

fn architecture(table: &ModelTable) -> Option<ArchitectureMention> {
    let model = table.id.as_ref()?.get_ref().0.clone();
    Some(ArchitectureMention { model, place: table.architecture.as_ref()?.span() })
}

fn backend(table: &BackendTable) -> Option<PluginMention> {
    let (id, place) = match (&table.plugin, &table.id) {
        (Some(plugin), _) => (&plugin.get_ref().0, plugin.span()),
        (None, Some(id)) => (&id.get_ref().0, id.span()),
        (None, None) => return None,
    };
    let options = table.options.as_ref().map(At::get_ref);
    let option = |(name, key): (&String, &Range<usize>)| {
        let value = options?.values.get(name)?.span();
        Some((name.clone(), OptionPlace { key: key.clone(), value }))
    };
    Some(PluginMention {
        id: id.clone(),
        place: Some(place),
        version: version(&table.version),
        options: options.map(|options| {
            let text = |(name, text): (&String, &At<crate::scalar::OptionText>)| {
                (name.clone(), Value::String(text.get_ref().0.clone()))
            };
            options.values.iter().map(text).collect()
        }),
        option_places: (options.into_iter().flat_map(|options| &options.keys))
            .filter_map(option)
            .collect(),
        limits: Vec::new(),
        ask: None,
        allowance: Allowance::default(),
    })
}

fn plugins(list: &Option<At<Tables<PluginTable>>>, defaults: &[&str]) -> Vec<PluginMention> {
    if list.is_some() {
        // A second one by the same plugin was reported.
        let mut seen = BTreeSet::new();
        let mentions = tables(list).filter_map(plugin);
        let first = mentions.filter(|mention| seen.insert(mention.id.clone()));
        return first.take(MOST_PLUGINS).collect();
    }
    let plain = |id: &&str| PluginMention {
        id: (*id).to_owned(),
        place: None,
        version: VersionReq::STAR,
        options: Some(Value::Object(serde_json::Map::new())),
        option_places: BTreeMap::new(),
        limits: Vec::new(),
        ask: None,
        allowance: Allowance::default(),
    };
    defaults.iter().map(plain).collect()
}

/// Reads a plugin's limits.
pub(crate) fn allowance(memory: &Option<At<Bytes>>, time: &Option<At<Nanoseconds>>) -> Allowance {
    Allowance {
        memory_bytes: memory.as_ref().map(|size| size.get_ref().0),
        time_ns: time.as_ref().map(|time| time.get_ref().0),
    }
}

fn plugin(table: &PluginTable) -> Option<PluginMention> {
    let options = table.options.as_ref().map(At::get_ref);
    Some(PluginMention {
        options: options.map(|options| Value::Object(options.values.clone())),
        option_places: options.map(|options| options.places.clone()).unwrap_or_default(),
        allowance: allowance(&table.memory_limit, &table.time_limit),
        ..named(table.plugin.as_ref()?, &table.version)
    })
}

fn recommender(table: &RecommendTable, resolved: Option<&Recommender>) -> Option<PluginMention> {
    let options = table.options.as_ref().map(At::get_ref);
    let mut places = options.map(|options| options.places.clone()).unwrap_or_default();
    if let Some(limits) = &table.limits {
        let place = limits.span();
        places.insert("limits".into(), OptionPlace { key: place.clone(), value: place });
    }
    Some(PluginMention {
        options: resolved.map(Recommender::options_with_limits),
        option_places: places,
        limits: items(table.limits.as_ref()).filter_map(limit).collect(),
        ask: resolved.and_then(|recommender| recommender.ask),
        allowance: allowance(&table.memory_limit, &table.time_limit),
        ..named(table.plugin.as_ref()?, &table.version)
    })
}

fn named(id: &At<PluginId>, range: &Option<At<VersionReq>>) -> PluginMention {
    PluginMention {
        id: id.get_ref().0.clone(),
        place: Some(id.span()),
        version: version(range),
        options: None,
        option_places: BTreeMap::new(),
        limits: Vec::new(),
        ask: None,
        allowance: Allowance::default(),
    }
}

fn version(range: &Option<At<VersionReq>>) -> VersionReq {
    range.as_ref().map_or(VersionReq::STAR, |range| range.get_ref().clone())
}

fn limit(table: &LimitTable) -> Option<LimitMention> {
    let metric = table.metric.as_ref()?;
    let bound = table.at_most.as_ref().or(table.at_least.as_ref())?;
    Some(LimitMention {
        metric: metric.get_ref().0.clone(),
        place: metric.span(),
        unit: bound.get_ref().unit,
        bound: bound.get_ref().value,
        bound_place: bound.span(),
    })
}
