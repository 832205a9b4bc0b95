//! From a document to an experiment: references between parts, and rules that concern more than
//! one value.
//!
//! Everything is checked even after an error, so that all errors show at once. A field that is
//! `None` although it is required or has a default was reported when it was read.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::num::NonZeroU32;

use host_record::{
    AxesChoice, Confidence, Find, InputSource, LatencyLimit, MeasureSettings, Mode, Order, Pair,
    PairAxis, PlacementRule, Precision, RuleSet, Scenario, Share, SyntheticInput, Tolerance,
    WarmUp,
};
use semver::VersionReq;
use serde_json::Map;

use crate::document::{
    AskTable, AxesTable, BackendTable, CellTable, CheckTable, ConfidenceTable, DataTable,
    ExecutionTable, ExperimentTable, LimitTable, Manifest, MatrixTable, MeasureTable, ModelTable,
    PluginTable, PriceTable, RecommendTable, SyntheticTable, ToleranceTable, TolerancesTable,
};
use crate::experiment::{
    Allowance, Ask, Backend, Bound, DeviceChoice, Execution, Experiment, Limit, Matrix, Model,
    OutputCheck, PartialCell, PluginUse, Price, Recommender,
};
use crate::mentions::{MOST_PLUGINS, Mentions, allowance};
use crate::precisions::PerPrecision;
use crate::scalar::{Bytes, Id, Level, Nanoseconds, Nice, Percentile, PluginId, Positive};
use crate::shape::{At, Axis, List, Named, Reader, Tables};
use crate::suggestions::suggestion;

fn tables<T>(list: &Option<At<Tables<T>>>) -> impl Iterator<Item = &T> {
    list.iter().flat_map(|list| &list.get_ref().values).map(At::get_ref)
}

fn value<T: Clone>(field: &Option<At<T>>) -> Option<T> {
    field.as_ref().map(|value| value.get_ref().clone())
}

fn length<T>(list: &At<Tables<T>>) -> usize {
    list.get_ref().values.len()
}

/// Reports of a manifest without `[[report]]`.
const DEFAULT_REPORTS: &[&str] = &["html", "markdown"];

/// Returns the experiment (`None` only if an error is recorded), and everything that the manifest
/// mentions.
pub(crate) fn resolve(manifest: &Manifest, reader: &mut Reader) -> (Option<Experiment>, Mentions) {
    let models = Names::collect(
        "model",
        reader,
        // The models behind a category of architectures are not known here.
        is_complete(&manifest.model)
            && tables(&manifest.model).all(|model| model.architecture.is_none()),
        tables(&manifest.model).map(|model| model.id.as_ref().map(id_text)),
    );
    let all = |backend: &BackendTable| match (&backend.plugin, &backend.id) {
        (Some(plugin), _) => plugin.get_ref().0 == Experiment::ALL_BACKENDS,
        (None, Some(id)) => id.get_ref().0 == Experiment::ALL_BACKENDS,
        (None, None) => false,
    };
    let backends = Names::collect(
        "backend",
        reader,
        // The backends behind `all` are not known here.
        is_complete(&manifest.backend) && !tables(&manifest.backend).any(all),
        tables(&manifest.backend).map(|backend| backend.id.as_ref().map(id_text)),
    );
    let labelled = tables(&manifest.model)
        .filter_map(|model| model.data.as_ref())
        .any(|data| data.get_ref().labels.is_some());
    let default_metrics: &[&str] = match labelled {
        true => &["latency", "throughput", "memory", "startup", "stability", "accuracy"],
        false => &["latency", "throughput", "memory", "startup", "stability"],
    };
    let mut metrics = Names::collect(
        "metric",
        reader,
        // An absent one has defaults.
        manifest.metric.is_none() || is_complete(&manifest.metric),
        tables(&manifest.metric).map(|metric| metric.plugin.as_ref().map(plugin_text)),
    );
    if manifest.metric.is_none() {
        metrics.names = default_metrics.iter().map(|name| (*name).to_owned()).collect();
    }
    // Two reports by one plugin would write over each other.
    Names::collect(
        "report",
        reader,
        is_complete(&manifest.report),
        tables(&manifest.report).map(|report| report.plugin.as_ref().map(plugin_text)),
    );

    let lists = [
        ("backend", manifest.backend.as_ref().map(|list| (list.span(), length(list)))),
        ("metric", manifest.metric.as_ref().map(|list| (list.span(), length(list)))),
        ("report", manifest.report.as_ref().map(|list| (list.span(), length(list)))),
        ("recommend", manifest.recommend.as_ref().map(|list| (list.span(), length(list)))),
    ];
    for (kind, list) in lists {
        if let Some((span, count)) = list.filter(|(_, count)| *count > MOST_PLUGINS) {
            reader.error(
                span,
                format!("there are {count} `[[{kind}]]`, and a manifest may have {MOST_PLUGINS}"),
                "too many",
                "split it into several manifests".to_owned(),
            );
        }
    }

    let placed = manifest.model.iter().flat_map(|list| &list.get_ref().values);
    let resolved_models: Vec<_> = placed.map(|table| model(table, reader)).collect();
    let resolved_backends: Vec<_> =
        tables(&manifest.backend).map(|table| backend(table, reader)).collect();
    let matrix = manifest
        .matrix
        .as_ref()
        .and_then(|table| matrix(table.get_ref(), &models, &backends, reader));
    if let Some(matrix) = &manifest.matrix {
        let find = manifest.measure.as_ref().map(|table| &table.get_ref().find);
        loads(matrix.get_ref(), find.unwrap_or(&None), reader);
        if let Some(measure) = &manifest.measure {
            of_scenarios(matrix.get_ref(), measure.get_ref(), reader);
            of_training(matrix.get_ref(), measure.get_ref(), reader);
        }
    }
    let measure = manifest.measure.as_ref().and_then(|table| {
        let pair = pair(table.get_ref(), manifest.matrix.as_ref(), &models, &backends, reader)?;
        measure(table.get_ref(), pair, reader)
    });
    let resolved_metrics = plugin_uses(&manifest.metric, default_metrics, reader);
    let reports = plugin_uses(&manifest.report, DEFAULT_REPORTS, reader);
    let prices: Option<Vec<Price>> =
        tables(&manifest.price).map(|table| price(table, &backends, reader)).collect();
    let recommenders: Vec<_> = tables(&manifest.recommend)
        .map(|table| recommender(table, prices.as_deref().unwrap_or_default(), &metrics, reader))
        .collect();
    let alerts = manifest.alert.iter().flat_map(|list| &list.get_ref().values);
    let alerts: Vec<_> = alerts.map(|table| limit(table, &metrics, false, reader)).collect();
    let execution =
        manifest.execution.as_ref().and_then(|table| execution(table.get_ref(), reader));
    let check = manifest.check.as_ref().and_then(|table| check(table.get_ref(), reader));
    let reference = manifest
        .check
        .as_ref()
        .and_then(|table| reference(table.get_ref().reference.as_ref()?, &backends, reader));
    let mentions = Mentions::new(manifest, default_metrics, DEFAULT_REPORTS, &recommenders);

    let experiment = || {
        manifest.schema.as_ref()?;
        let table = manifest.experiment.as_ref()?.get_ref();
        let ExperimentTable { name, description, seed, results, plugins } = table;
        Some(Experiment {
            name: name.as_ref()?.get_ref().0.clone(),
            description: value(description)?,
            seed: value(seed)?,
            results: value(results),
            plugins: list(plugins).cloned().collect(),
            models: resolved_models.into_iter().collect::<Option<_>>()?,
            backends: with_reference(
                resolved_backends.into_iter().collect::<Option<_>>()?,
                reference,
            ),
            matrix: matrix?,
            measure: measure?,
            execution: execution?,
            check: match &manifest.check {
                Some(_) => Some(check?),
                None => None,
            },
            metrics: resolved_metrics?,
            reports: reports?,
            recommenders: recommenders.into_iter().collect::<Option<_>>()?,
            alerts: alerts.into_iter().collect::<Option<_>>()?,
            prices: prices?,
        })
    };
    (experiment(), mentions)
}

/// Returns whether every table of a list could be read; if not, a missing name proves nothing.
fn is_complete<T>(list: &Option<At<Tables<T>>>) -> bool {
    list.as_ref().is_some_and(|list| list.get_ref().complete)
}

fn id_text(id: &At<Id>) -> At<String> {
    At::new(id.span(), id.get_ref().0.clone())
}

fn plugin_text(id: &At<PluginId>) -> At<String> {
    At::new(id.span(), id.get_ref().0.clone())
}

fn list<T>(list: &Option<At<List<T>>>) -> impl Iterator<Item = &T> {
    list.iter().flat_map(|list| &list.get_ref().values).map(At::get_ref)
}

/// Names that other parts of the manifest may refer to.
struct Names {
    /// Kind of the names, as in the header.
    kind: &'static str,
    names: Vec<String>,
    /// Whether every name could be read; if not, a missing name proves nothing.
    complete: bool,
}

impl Names {
    /// Collects names, and records those that are given twice.
    fn collect(
        kind: &'static str,
        reader: &mut Reader,
        mut complete: bool,
        found: impl Iterator<Item = Option<At<String>>>,
    ) -> Self {
        let (mut names, mut known) = (Vec::new(), BTreeSet::new());
        for name in found {
            match name {
                None => complete = false,
                Some(name) if !known.insert(name.get_ref().clone()) => reader.error(
                    name.span(),
                    format!("there are two `[[{kind}]]` called `{}`", name.get_ref()),
                    "again",
                    match kind {
                        "model" | "backend" => "give this one another id, or remove it".to_owned(),
                        _ => "remove it: a plugin is used once, with one set of options".to_owned(),
                    },
                ),
                Some(name) => names.push(name.into_inner()),
            }
        }
        Self { kind, names, complete }
    }

    /// Records names that refer to nothing.
    fn check(&self, axis: &Option<At<Axis<Id>>>, reader: &mut Reader) {
        for id in axis.iter().flat_map(|axis| &axis.get_ref().values) {
            self.check_one(&id.get_ref().0, id.span(), reader);
        }
    }

    fn check_one(&self, name: &str, span: std::ops::Range<usize>, reader: &mut Reader) -> bool {
        let known = self.names.iter().any(|known| known == name);
        if !known && self.complete {
            let kind = self.kind;
            let hint = if self.names.is_empty() {
                format!("add a `[[{kind}]]` for it")
            } else {
                let names: Vec<_> = self.names.iter().map(String::as_str).collect();
                suggestion(name, &names, "this manifest has")
            };
            reader.error(
                span,
                format!("there is no `[[{kind}]]` called `{name}`"),
                format!("unknown {kind}"),
                hint,
            );
        }
        known
    }
}

fn model(table: &At<ModelTable>, reader: &mut Reader) -> Option<Model> {
    let ModelTable { id, path, architecture, data, inputs, axes } = table.get_ref();
    let path = match (path, architecture) {
        (Some(path), None) => {
            let path = path.get_ref().0.as_ref();
            path.and_then(|path| path.try_map(|path| Some(path.get_ref().clone())))
        }
        (None, Some(_)) => Some(PerPrecision::Each(BTreeMap::new())),
        (Some(_), Some(architecture)) => {
            reader.error(
                architecture.span(),
                "a model has either `path` or `architecture`",
                "beside `path`",
                "remove one: `path` is a file, `architecture` makes one".to_owned(),
            );
            None
        }
        (None, None) => {
            reader.error(
                table.span(),
                "a model needs `path` or `architecture`",
                "has neither",
                "add `path = \"model.onnx\"`, or `architecture = \"resnet50\"`".to_owned(),
            );
            None
        }
    };
    let drawn = synthetic(inputs, reader);
    let source = match data {
        Some(data) => files(data, inputs, drawn, reader),
        None => drawn.map(InputSource::Synthetic),
    };
    let axes = match axes {
        Some(axes) => self::axes(axes.get_ref()),
        None => Some(AxesChoice::default()),
    };
    Some(Model {
        id: id.as_ref()?.get_ref().0.clone(),
        path: path?,
        architecture: value(architecture),
        inputs: source?,
        axes: axes?,
    })
}

fn axes(table: &AxesTable) -> Option<AxesChoice> {
    let AxesTable { batch, sequence, sizes } = table;
    Some(AxesChoice {
        batch: batch.as_ref().map(|names| names.get_ref().0.clone()),
        sequence: sequence.as_ref().map(|names| names.get_ref().0.clone()),
        sizes: named(sizes.as_ref()?.get_ref(), |size: &u64| *size),
    })
}

fn files(
    data: &At<DataTable>,
    drawn_table: &Option<At<Named<SyntheticTable>>>,
    drawn: Option<BTreeMap<String, SyntheticInput>>,
    reader: &mut Reader,
) -> Option<InputSource> {
    let DataTable { inputs, labels } = data.get_ref();
    let inputs = inputs.as_ref()?;
    if inputs.get_ref().values.is_empty() {
        reader.error(
            inputs.span(),
            "`model.data.inputs` names no input",
            "empty",
            "name a file for each input, such as `{ image = \"images.npy\" }`".to_owned(),
        );
        return None;
    }
    let both = drawn_table.iter().flat_map(|table| &table.get_ref().keys);
    let mut is_twice = false;
    for (name, place) in both.filter(|(name, _)| inputs.get_ref().values.contains_key(*name)) {
        reader.error(
            place.clone(),
            format!("the input `{name}` has a file and is drawn, too"),
            "beside its file",
            "remove one: `data` names files, `inputs` draws values from the seed".to_owned(),
        );
        is_twice = true;
    }
    let inputs = named(inputs.get_ref(), Clone::clone);
    let files = InputSource::Files { inputs, labels: value(labels), drawn: drawn? };
    (!is_twice).then_some(files)
}

fn synthetic(
    inputs: &Option<At<Named<SyntheticTable>>>,
    reader: &mut Reader,
) -> Option<BTreeMap<String, SyntheticInput>> {
    let mut drawn = Some(BTreeMap::new());
    for (name, input) in inputs.iter().flat_map(|inputs| &inputs.get_ref().values) {
        let SyntheticTable { dimensions, low, high } = input.get_ref();
        let Some(dimensions) = dimensions else {
            drawn = None;
            continue;
        };
        let given = SyntheticInput {
            dimensions: named(dimensions.get_ref(), |size: &Positive| size.0),
            low: value(low),
            high: value(high),
        };
        if let Some((lowest, highest)) = given.range()
            && lowest > highest
        {
            reader.error(
                low.as_ref().or(high.as_ref()).map_or_else(|| input.span(), At::span),
                format!(
                    "the lowest value of the input `{name}` is {lowest}, above the highest, {highest}"
                ),
                "above `high`",
                "give a `low` that is no more than `high` (by default 0 and 1)".to_owned(),
            );
            drawn = None;
            continue;
        }
        if let Some(drawn) = &mut drawn {
            drawn.insert(name.clone(), given);
        }
    }
    drawn
}

fn named<T, U>(values: &Named<T>, convert: impl Fn(&T) -> U) -> BTreeMap<String, U> {
    values.values.iter().map(|(name, value)| (name.clone(), convert(value.get_ref()))).collect()
}

fn backend(table: &BackendTable, reader: &mut Reader) -> Option<Backend> {
    let BackendTable {
        id,
        plugin,
        version,
        folder,
        device,
        threads,
        placement,
        environment,
        options,
    } = table;
    let plugin = match (plugin, id) {
        (Some(plugin), _) => Some(plugin.get_ref().0.clone()),
        (None, Some(id)) if PluginId::fits(&id.get_ref().0) => Some(id.get_ref().0.clone()),
        (None, Some(id)) => {
            reader.error(
                id.span(),
                format!("`{}` is not a valid plugin id, and `plugin` is not set", id.get_ref().0),
                "not a plugin id",
                format!("add `plugin = \"…\"`; {}", PluginId::RULE),
            );
            None
        }
        (None, None) => None,
    };
    if plugin.as_deref() == Some(Experiment::ALL_BACKENDS) {
        let mut refuse = |span, key| {
            reader.error(
                span,
                format!("`{key}` cannot be set for all backends at once"),
                "beside `all`",
                "give each backend that needs it a `[[backend]]` of its own; `all` leaves those out"
                    .to_owned(),
            );
        };
        let chosen = |axis: &&At<Axis<DeviceChoice>>| {
            let values = &axis.get_ref().values;
            values.iter().any(|choice| *choice.get_ref() != DeviceChoice::Auto)
        };
        if let Some(device) = device.as_ref().filter(chosen) {
            refuse(device.span(), "device");
        }
        if let Some(options) = options.as_ref().filter(|it| !it.get_ref().values.is_empty()) {
            refuse(options.span(), "options");
        }
        if let Some(folder) = folder {
            refuse(folder.span(), "folder");
        }
    }
    Some(Backend {
        id: id.as_ref()?.get_ref().0.clone(),
        plugin: plugin?,
        version: value(version)?,
        folder: value(folder),
        devices: axis(device)?,
        threads: threads.as_ref().map(|threads| threads.get_ref().get()),
        placement: value(placement)?,
        environment: list(environment).map(|name| name.0.clone()).collect(),
        options: named(options.as_ref()?.get_ref(), |text| text.0.clone()),
    })
}

fn axis<T: Clone>(axis: &Option<At<Axis<T>>>) -> Option<Vec<T>> {
    Some(axis.as_ref()?.get_ref().values.iter().map(|value| value.get_ref().clone()).collect())
}

fn counts(values: Vec<NonZeroU32>) -> Vec<u32> {
    values.into_iter().map(NonZeroU32::get).collect()
}

fn ids(values: Vec<Id>) -> Vec<String> {
    values.into_iter().map(|id| id.0).collect()
}

fn matrix(
    table: &MatrixTable,
    models: &Names,
    backends: &Names,
    reader: &mut Reader,
) -> Option<Matrix> {
    let MatrixTable {
        model,
        backend,
        precision,
        batch,
        sequence_length,
        mode,
        scenario,
        rate,
        clients,
        include,
        exclude,
        limit,
    } = table;
    models.check(model, reader);
    backends.check(backend, reader);
    for cell in list(include).chain(list(exclude)) {
        models.check(&cell.model, reader);
        backends.check(&cell.backend, reader);
    }
    for cell in [include, exclude].into_iter().flatten().flat_map(|cells| &cells.get_ref().values) {
        if cell.get_ref().is_empty() {
            reader.error(
                cell.span(),
                "this cell names no coordinate",
                "empty",
                "name at least one, such as `{ batch = 64 }`".to_owned(),
            );
        }
    }

    let mut exclusions = Exclusions { include, exclude, reader };
    // A name that is not declared was reported as such.
    let declared = |names: &Names, id: &Id| names.names.contains(&id.0);
    let all = |names: &Names| names.names.iter().cloned().map(Id).collect::<Vec<_>>();
    let model_default = models.complete.then(|| all(models));
    let backend_default = backends.complete.then(|| all(backends));
    exclusions.check("model", model, model_default, |id| declared(models, id), |cell| &cell.model);
    exclusions.check(
        "backend",
        backend,
        backend_default,
        |id| declared(backends, id),
        |cell| &cell.backend,
    );
    exclusions.check("precision", precision, None, |_| true, |cell| &cell.precision);
    exclusions.check("batch", batch, None, |_| true, |cell| &cell.batch);
    exclusions.check(
        "sequence-length",
        sequence_length,
        Some(Vec::new()),
        |_| true,
        |cell| &cell.sequence_length,
    );
    exclusions.check("mode", mode, None, |_| true, |cell| &cell.mode);
    exclusions.check("scenario", scenario, None, |_| true, |cell| &cell.scenario);
    exclusions.check("rate", rate, Some(Vec::new()), |_| true, |cell| &cell.rate);
    exclusions.check("clients", clients, Some(Vec::new()), |_| true, |cell| &cell.clients);
    let model = axis(model).unwrap_or_else(|| all(models));
    let backend = axis(backend).unwrap_or_else(|| all(backends));
    let sequence_length = axis(sequence_length).unwrap_or_default();
    let (precision, batch) = (axis(precision), axis(batch));
    let (mode, scenario) = (axis(mode), axis(scenario));
    Some(Matrix {
        model: ids(model),
        backend: ids(backend),
        precision: precision?,
        batch: counts(batch?),
        sequence_length: counts(sequence_length),
        mode: mode?,
        scenario: scenario?,
        rate: axis(rate).unwrap_or_default(),
        clients: counts(axis(clients).unwrap_or_default()),
        include: list(include).map(partial_cell).collect(),
        exclude: list(exclude).map(partial_cell).collect(),
        limit: value(limit).map(|Positive(count)| count),
    })
}

/// Finds exclusions that cannot match anything: most likely a typo, which would leave a case in.
struct Exclusions<'a> {
    include: &'a Option<At<List<CellTable>>>,
    exclude: &'a Option<At<List<CellTable>>>,
    reader: &'a mut Reader,
}

impl Exclusions<'_> {
    /// Checks values. `absent` lists an axis's values if the matrix does not have it, `None` if
    /// those are not known. If a value of the axis could not be read, a missing one proves nothing.
    /// A value that is not `valid` is checked elsewhere.
    fn check<T: Clone + PartialEq + fmt::Display>(
        &mut self,
        key: &str,
        own: &Option<At<Axis<T>>>,
        absent: Option<Vec<T>>,
        valid: impl Fn(&T) -> bool,
        coordinate: impl Fn(&CellTable) -> &Option<At<Axis<T>>>,
    ) {
        let Some(mut available) = axis(own).or(absent) else { return };
        let is_complete =
            |axis: &Option<At<Axis<T>>>| axis.as_ref().is_none_or(|axis| axis.get_ref().complete);
        let included = self.include.as_ref().is_some_and(|list| list.get_ref().complete);
        if !included || !is_complete(own) || !list(self.include).map(&coordinate).all(is_complete) {
            return;
        }
        for value in list(self.include).filter_map(|cell| axis(coordinate(cell))).flatten() {
            if !available.contains(&value) {
                available.push(value);
            }
        }
        for excluded in list(self.exclude).filter_map(|cell| coordinate(cell).as_ref()) {
            for value in &excluded.get_ref().values {
                if available.contains(value.get_ref()) || !valid(value.get_ref()) {
                    continue;
                }
                let hint = if available.is_empty() {
                    format!("the matrix has no axis `{key}`")
                } else {
                    let shown: Vec<_> =
                        available.iter().take(12).map(|value| format!("`{value}`")).collect();
                    let more = if available.len() > shown.len() { ", …" } else { "" };
                    format!("`{key}` takes {}{more}", shown.join(", "))
                };
                self.reader.error(
                    value.span(),
                    format!("no cell has `{key} = {}`, so this excludes nothing", value.get_ref()),
                    "matches no cell",
                    hint,
                );
            }
        }
    }
}

impl CellTable {
    fn is_empty(&self) -> bool {
        let Self {
            model,
            backend,
            device,
            precision,
            batch,
            sequence_length,
            mode,
            scenario,
            rate,
            clients,
        } = self;
        model.is_none()
            && backend.is_none()
            && device.is_none()
            && precision.is_none()
            && batch.is_none()
            && sequence_length.is_none()
            && mode.is_none()
            && scenario.is_none()
            && rate.is_none()
            && clients.is_none()
    }
}

fn partial_cell(cell: &CellTable) -> PartialCell {
    let CellTable {
        model,
        backend,
        device,
        precision,
        batch,
        sequence_length,
        mode,
        scenario,
        rate,
        clients,
    } = cell;
    PartialCell {
        model: axis(model).map(ids).unwrap_or_default(),
        backend: axis(backend).map(ids).unwrap_or_default(),
        device: axis::<DeviceChoice>(device).unwrap_or_default(),
        precision: axis(precision).unwrap_or_default(),
        batch: axis(batch).map(counts).unwrap_or_default(),
        sequence_length: axis(sequence_length).map(counts).unwrap_or_default(),
        mode: axis(mode).unwrap_or_default(),
        scenario: axis(scenario).unwrap_or_default(),
        rate: axis(rate).unwrap_or_default(),
        clients: axis(clients).map(counts).unwrap_or_default(),
    }
}

/// More threads than this are a mistake, and would take the machine down.
const MOST_CLIENTS: u32 = 1024;

/// Greatest number of processes per case. More would take days, and are surely a mistake.
const MOST_PROCESSES: u32 = 1000;
const SHORTEST_SAMPLING_NS: u64 = 1_000_000;
const LONGEST_SAMPLING_NS: u64 = 60_000_000_000;

fn too_many(what: &str, count: &At<NonZeroU32>, most: u32, reader: &mut Reader) {
    if count.get_ref().get() > most {
        reader.error(
            count.span(),
            format!("{} {what} exceed the maximum of {most}", count.get_ref()),
            "too many",
            format!("give {most} or fewer"),
        );
    }
}

/// Checks that each scenario has its load, and that no load is given without use.
fn loads(table: &MatrixTable, find: &Option<At<Find>>, reader: &mut Reader) {
    let MatrixTable { scenario, rate, clients, include, .. } = table;
    let read = |axis: &Option<At<Axis<Scenario>>>| {
        axis.as_ref().is_none_or(|axis| axis.get_ref().complete)
    };
    let blocks = || {
        std::iter::once((scenario, rate, clients))
            .chain(list(include).map(|cell| (&cell.scenario, &cell.rate, &cell.clients)))
    };
    let (mut takes_rate, mut takes_clients) = (false, false);
    for (own_scenario, own_rate, own_clients) in blocks() {
        let named = own_scenario.as_ref().or(scenario.as_ref());
        for value in named.iter().flat_map(|axis| &axis.get_ref().values) {
            let name = *value.get_ref();
            if name.is_open_loop() {
                takes_rate = true;
                if find.is_none() && own_rate.is_none() && rate.is_none() {
                    reader.error(
                        value.span(),
                        format!("the scenario `{name}` needs a `rate`"),
                        "without a rate",
                        "add `rate = [100]` (queries per second) under `[matrix]`, or search it: \
                         `find = \"max-rate\"` under `[measure]`"
                            .to_owned(),
                    );
                }
            }
            if name == Scenario::ClosedLoop {
                takes_clients = true;
                if own_clients.is_none() && clients.is_none() {
                    reader.error(
                        value.span(),
                        format!("the scenario `{name}` needs `clients`"),
                        "without clients",
                        "add `clients = [1, 2, 4]` under `[matrix]`".to_owned(),
                    );
                }
            }
        }
    }
    if !blocks().all(|(scenario, ..)| read(scenario)) {
        return;
    }
    let open = "`server` and `constant-rate`";
    for (_, rate, clients) in blocks() {
        if let Some(rate) = rate {
            if !takes_rate {
                reader.error(
                    rate.span(),
                    "no scenario takes a rate, so this has no effect",
                    "no effect",
                    format!("remove it, or add one of {open} to `scenario`"),
                );
            } else if let Some(find) = find {
                reader.error(
                    rate.span(),
                    "the rate is searched, so it cannot be set",
                    "beside `find`",
                    format!(
                        "remove it, or remove `find = \"{}\"` under `[measure]`",
                        find.get_ref()
                    ),
                );
            }
        }
        for count in clients.iter().flat_map(|axis| &axis.get_ref().values) {
            too_many("clients", count, MOST_CLIENTS, reader);
        }
        if let Some(clients) = clients.as_ref().filter(|_| !takes_clients) {
            reader.error(
                clients.span(),
                "no scenario has clients, so this has no effect",
                "no effect",
                "remove it, or add `closed-loop` to `scenario`".to_owned(),
            );
        }
    }
    if let Some(find) = find.as_ref().filter(|_| !takes_rate) {
        reader.error(
            find.span(),
            "no scenario takes a rate, so `find` has nothing to search",
            "no effect",
            format!("remove it, or add one of {open} to `scenario` under `[matrix]`"),
        );
    }
}

fn check(table: &CheckTable, reader: &mut Reader) -> Option<OutputCheck> {
    let CheckTable { reference, precision, tolerance } = table;
    let TolerancesTable { fp32, fp16, bf16, int8 } = tolerance.as_ref()?.get_ref();
    let tables = [
        (Precision::Fp32, fp32),
        (Precision::Fp16, fp16),
        (Precision::Bf16, bf16),
        (Precision::Int8, int8),
    ];
    let tolerances = tables.into_iter().map(|(precision, table)| {
        let mut tolerance = Tolerance::of(precision);
        if let Some(table) = table {
            let ToleranceTable { absolute, of_scale, relative, outliers, cosine, top1 } =
                table.get_ref();
            let given = |value: &Option<At<f64>>,
                         default: f64,
                         range: std::ops::RangeInclusive<f64>,
                         reader: &mut Reader| {
                let Some(value) = value else { return default };
                if !range.contains(value.get_ref()) {
                    reader.error(
                        value.span(),
                        format!("{} is not a tolerance", value.get_ref()),
                        "out of range",
                        match *range.end() {
                            f64::MAX => format!("it may be {} or more", range.start()),
                            end => format!("it may be {} to {end}", range.start()),
                        },
                    );
                }
                *value.get_ref()
            };
            tolerance.absolute = given(absolute, tolerance.absolute, 0.0..=f64::MAX, reader);
            tolerance.of_scale = given(of_scale, tolerance.of_scale, 0.0..=f64::MAX, reader);
            tolerance.relative = given(relative, tolerance.relative, 0.0..=f64::MAX, reader);
            tolerance.outliers = given(outliers, tolerance.outliers, 0.0..=1.0, reader);
            tolerance.cosine = given(cosine, tolerance.cosine, -1.0..=1.0, reader);
            tolerance.top1 = given(top1, tolerance.top1, 0.0..=1.0, reader);
        }
        (precision, tolerance)
    });
    Some(OutputCheck {
        tolerances: tolerances.collect(),
        reference: reference.as_ref()?.get_ref().0.clone(),
        precision: value(precision)?,
    })
}

/// Returns the reference as a backend of its own, if no `[[backend]]` has its id.
fn reference(id: &At<Id>, backends: &Names, reader: &mut Reader) -> Option<Backend> {
    let id = (id.span(), &id.get_ref().0);
    if backends.names.contains(id.1) {
        return None;
    }
    if !PluginId::fits(id.1) {
        backends.check_one(id.1, id.0, reader);
        return None;
    }
    Some(Backend {
        id: id.1.clone(),
        plugin: id.1.clone(),
        version: VersionReq::STAR,
        folder: None,
        devices: vec![DeviceChoice::Auto],
        threads: None,
        placement: PlacementRule::Any,
        environment: Vec::new(),
        options: BTreeMap::new(),
    })
}

fn with_reference(mut backends: Vec<Backend>, reference: Option<Backend>) -> Vec<Backend> {
    backends.extend(reference);
    backends
}

/// Checks that nothing is set for a scenario that no case has.
fn of_scenarios(matrix: &MatrixTable, measure: &MeasureTable, reader: &mut Reader) {
    let MatrixTable { scenario, include, .. } = matrix;
    let axes: Vec<_> = scenario
        .iter()
        .chain(list(include).filter_map(|cell| cell.scenario.as_ref()))
        .map(At::get_ref)
        .collect();
    let included = include.as_ref().is_some_and(|list| list.get_ref().complete);
    if scenario.is_none() || !included || !axes.iter().all(|axis| axis.complete) {
        return;
    }
    let mut scenarios = axes.iter().flat_map(|axis| &axis.values).map(|value| *value.get_ref());
    let MeasureTable { offline_examples, multi_stream_examples, latency_limit, .. } = measure;
    for (examples, wanted) in
        [(offline_examples, Scenario::Offline), (multi_stream_examples, Scenario::MultiStream)]
    {
        if let Some(examples) = examples
            && !scenarios.clone().any(|scenario| scenario == wanted)
        {
            reader.error(
                examples.span(),
                format!("no case is `{wanted}`, so this has no effect"),
                "no effect",
                format!("remove it, or add `{wanted}` to `scenario` under `[matrix]`"),
            );
        }
    }
    if let Some(limit) = latency_limit
        && scenarios.all(|scenario| scenario == Scenario::Offline)
    {
        reader.error(
            limit.span(),
            "an `offline` query is the whole set of examples, so a latency limit does not apply",
            "no effect",
            "remove it, or add another scenario to `scenario` under `[matrix]`".to_owned(),
        );
    }
}

/// Checks that nothing is set for training if no case is trained.
fn of_training(matrix: &MatrixTable, measure: &MeasureTable, reader: &mut Reader) {
    let MatrixTable { mode, include, .. } = matrix;
    let axes: Vec<_> = mode
        .iter()
        .chain(list(include).filter_map(|cell| cell.mode.as_ref()))
        .map(At::get_ref)
        .collect();
    let included = include.as_ref().is_some_and(|list| list.get_ref().complete);
    let mut modes = axes.iter().flat_map(|axis| &axis.values).map(|value| *value.get_ref());
    if !included
        || !axes.iter().all(|axis| axis.complete)
        || modes.any(|mode| mode == Mode::Training)
    {
        return;
    }
    let MeasureTable { epochs, test_examples, .. } = measure;
    for number in [epochs, test_examples].into_iter().flatten() {
        reader.error(
            number.span(),
            format!("no case is `{}`, so this has no effect", Mode::Training),
            "no effect",
            format!("remove it, or add `{}` to `mode` under `[matrix]`", Mode::Training),
        );
    }
}

/// Level of an interval, if the manifest gives none.
const USUAL_LEVEL: f64 = 0.95;

/// No case is measured for longer: 30 days.
const LONGEST_NS: u64 = 30 * 24 * 3_600_000_000_000;

/// No case makes more queries: they would fill a disk with 50 GB.
const MOST_QUERIES: u64 = 10_000_000_000;

/// No query has more examples.
const MOST_EXAMPLES: u64 = 1_000_000_000;

/// No model is trained for more epochs: each has an entry in the record.
const MOST_EPOCHS: u64 = 10_000;

/// Refuses what can only be a slip of the keyboard, and would be found out after days.
fn absurd(table: &MeasureTable, reader: &mut Reader) {
    let MeasureTable { duration, maximum_duration, minimum_queries, .. } = table;
    for (key, time) in [("duration", duration), ("maximum-duration", maximum_duration)] {
        if let Some(time) = time
            && time.get_ref().0 > LONGEST_NS
        {
            let message = format!("`measure.{key}` is longer than 30 days");
            let hint = "give 720h or less".to_owned();
            reader.error(time.span(), message, "too long", hint);
        }
    }
    let samples = [
        ("minimum-queries", "queries", minimum_queries, MOST_QUERIES),
        ("offline-examples", "examples", &table.offline_examples, MOST_EXAMPLES),
        ("multi-stream-examples", "examples", &table.multi_stream_examples, MOST_EXAMPLES),
        ("epochs", "epochs", &table.epochs, MOST_EPOCHS),
        ("test-examples", "examples", &table.test_examples, MOST_EXAMPLES),
    ];
    for (key, what, count, most) in samples {
        if let Some(count) = count
            && count.get_ref().0 > most
        {
            let message = format!("`measure.{key}` exceeds the maximum of {most} {what}");
            reader.error(count.span(), message, "too many", format!("give {most} or fewer"));
        }
    }
}

/// Level and width of a pair's interval, if the manifest gives none: at most one in 200 equal pairs seems to differ.
const LEVEL_OF_PAIR: f64 = 0.995;
const HALF_WIDTH_OF_PAIR: f64 = 0.01;

/// Returns the pair that cases are measured in, if they are. `None` if it is wrong.
#[expect(clippy::option_option, reason = "no pair, and a wrong one")]
fn pair(
    table: &MeasureTable,
    matrix: Option<&At<MatrixTable>>,
    models: &Names,
    backends: &Names,
    reader: &mut Reader,
) -> Option<Option<Pair>> {
    let MeasureTable { order, pair, confidence, .. } = table;
    let order = order.as_ref()?;
    let Some(sides) = pair else {
        if *order.get_ref() == Order::Paired {
            reader.error(
                order.span(),
                "`order = \"paired\"` needs the two sides of a pair",
                "without a pair",
                "add `pair = [\"a\", \"b\"]`, with two backends, two models or two precisions"
                    .to_owned(),
            );
            return None;
        }
        return Some(None);
    };
    if *order.get_ref() != Order::Paired {
        reader.error(
            sides.span(),
            "`measure.pair` has no effect without `order = \"paired\"`",
            "no effect",
            "add `order = \"paired\"`, or remove it".to_owned(),
        );
        return None;
    }
    if !sides.get_ref().complete {
        return None;
    }
    let names: Vec<&str> =
        sides.get_ref().values.iter().map(|id| id.get_ref().0.as_str()).collect();
    let [first, second] = names[..] else {
        let message = format!("a pair has two sides, and this has {}", names.len());
        let hint = "name two backends, two models or two precisions, such as `[\"a\", \"b\"]`";
        reader.error(sides.span(), message, "not two", hint.to_owned());
        return None;
    };
    if first == second {
        let hint = "give a second `[[backend]]` with its own `id` to compare a backend with itself";
        reader.error(
            sides.span(),
            format!("both sides of the pair are `{first}`"),
            "the same twice",
            hint.to_owned(),
        );
        return None;
    }
    let has =
        |names: &Names| [first, second].iter().all(|id| names.names.iter().any(|name| name == id));
    let are_precisions = [first, second].iter().all(|name| name.parse::<Precision>().is_ok());
    let axes: Vec<PairAxis> = [
        (PairAxis::Backend, has(backends)),
        (PairAxis::Model, has(models)),
        (PairAxis::Precision, are_precisions),
    ]
    .into_iter()
    .filter_map(|(axis, is_it)| is_it.then_some(axis))
    .collect();
    let axis = match axes[..] {
        [axis] => axis,
        // One that stands for all installed backends may have them.
        [] if !backends.complete => PairAxis::Backend,
        [] if !models.complete => PairAxis::Model,
        [] => {
            reader.error(
                sides.span(),
                format!(
                    "`{first}` and `{second}` are not two backends, two models or two precisions"
                ),
                "unknown",
                format!(
                    "backends are {}; models are {}",
                    backends.names.join(", "),
                    models.names.join(", ")
                ),
            );
            return None;
        }
        [..] => {
            reader.error(
                sides.span(),
                format!("`{first}` and `{second}` are two {}s and two {}s", axes[0], axes[1]),
                "ambiguous",
                "give the backends other ids than the models".to_owned(),
            );
            return None;
        }
    };
    let is_sound = fits_pair(table, matrix.map(At::get_ref), order, reader);
    let confidence = confidence.as_ref().map(At::get_ref);
    let level = confidence.and_then(|table| value(&table.level)).map(|Level(level)| level);
    let half_width = confidence.and_then(|table| table.half_width.as_ref());
    let usual = |share: f64| Share::new(share).ok();
    is_sound.then_some(Some(Pair {
        axis,
        sides: [first.to_owned(), second.to_owned()],
        level: level.or_else(|| usual(LEVEL_OF_PAIR))?,
        half_width: half_width.map(|at| at.get_ref().0).or_else(|| usual(HALF_WIDTH_OF_PAIR))?,
    }))
}

/// Checks that nothing else is asked of cases that are measured in turns. Returns whether that is so.
fn fits_pair(
    table: &MeasureTable,
    matrix: Option<&MatrixTable>,
    order: &At<Order>,
    reader: &mut Reader,
) -> bool {
    let before = reader.errors.len();
    let MeasureTable { processes, rules, find, device_sampling, .. } = table;
    let remove = "remove it, or `order = \"paired\"`".to_owned();
    let others = [
        ("rules", rules.as_ref().map(At::span), "rules ask for a measurement without pauses"),
        ("find", find.as_ref().map(At::span), "a search has one side only"),
        (
            "device-sampling",
            device_sampling.as_ref().map(At::span),
            "the device's state would be that of both sides",
        ),
    ];
    for (key, span, reason) in others {
        if let Some(span) = span {
            let message = format!("`measure.{key}` does not fit `order = \"paired\"`: {reason}");
            reader.error(span, message, "not in pairs", remove.clone());
        }
    }
    if let Some(processes) = processes
        && processes.get_ref().get() < Pair::LEAST_PROCESSES
    {
        let count = processes.get_ref().get();
        reader.error(
            processes.span(),
            format!(
                "{} of each side can never tell the two apart: where memory happens to lie already makes one \
                 faster",
                host_record::words::count(count.into(), "process", "processes")
            ),
            "too few",
            format!(
                "leave it out, or allow more: at 95 % at least {} are needed, at 99.5 % 11",
                Pair::LEAST_PROCESSES
            ),
        );
    }
    let Some(MatrixTable { scenario, include, limit, .. }) = matrix else {
        return reader.errors.len() == before;
    };
    if let Some(limit) = limit {
        let message = "a limit on the number of cases may leave out one side of a pair";
        reader.error(limit.span(), message, "not in pairs", "name the cases instead".to_owned());
    }
    let scenarios: Vec<Scenario> = scenario
        .iter()
        .chain(list(include).filter_map(|cell| cell.scenario.as_ref()))
        .flat_map(|axis| &axis.get_ref().values)
        .map(|value| *value.get_ref())
        .collect();
    let own_pace = scenarios
        .into_iter()
        .find(|scenario| scenario.is_open_loop() || *scenario == Scenario::ClosedLoop);
    if let Some(scenario) = own_pace {
        let reason = match scenario {
            Scenario::ClosedLoop => "several clients take no turns",
            _ => "its queries arrive by a schedule, whether or not it is their side's turn",
        };
        reader.error(
            order.span(),
            format!("a pair cannot be measured in `{scenario}`: {reason}"),
            "not in this scenario",
            "use `single-stream`, `multi-stream` or `offline`, or `order = \"interleaved\"`"
                .to_owned(),
        );
    }
    reader.errors.len() == before
}

fn measure(
    table: &MeasureTable,
    pair: Option<Pair>,
    reader: &mut Reader,
) -> Option<MeasureSettings> {
    let MeasureTable {
        warm_up,
        duration,
        maximum_duration,
        minimum_queries,
        offline_examples,
        multi_stream_examples,
        confidence,
        latency_limit,
        latency_percentile,
        rules,
        find,
        processes,
        order,
        pair: _,
        timeout,
        memory_limit,
        pin,
        nice,
        device_sampling,
        cold_cache,
        epochs,
        test_examples,
    } = table;
    if let Some(period) = device_sampling
        && !(SHORTEST_SAMPLING_NS..=LONGEST_SAMPLING_NS).contains(&period.get_ref().0)
    {
        reader.error(
            period.span(),
            "`measure.device-sampling` is from 1 ms to 1 min",
            "too short or too long",
            "give a time such as `\"100ms\"`, or leave it out".to_owned(),
        );
    }
    if let Some(processes) = processes {
        too_many("processes", processes, MOST_PROCESSES, reader);
    }
    if let (Some(processes), Some(order)) = (processes, order)
        && *order.get_ref() == Order::Interleaved
        && processes.get_ref().get() == 1
    {
        reader.error(
            order.span(),
            "with one process per case there is nothing to interleave",
            "no effect",
            "add `processes = 5`, or remove it".to_owned(),
        );
    }
    absurd(table, reader);
    let rules = value(rules);
    for (key, time) in
        [("duration", duration), ("timeout", timeout), ("latency-limit", latency_limit)]
    {
        if let Some(time) = time
            && time.get_ref().0 == 0
        {
            let message = format!("`measure.{key}` is zero");
            let hint = "set a time, such as `\"1s\"`".to_owned();
            reader.error(time.span(), message, "zero", hint);
        }
    }
    if let Some(limit) = memory_limit
        && limit.get_ref().0 == 0
    {
        let hint = "set a size, such as `\"2 GiB\"`, or leave the key out".to_owned();
        reader.error(limit.span(), "`measure.memory-limit` is zero", "zero", hint);
    }
    if let (Some(percentile), None) = (latency_percentile, latency_limit) {
        reader.error(
            percentile.span(),
            "`measure.latency-percentile` has no effect without `latency-limit`",
            "without a limit",
            "add `latency-limit = \"10ms\"`, or remove it".to_owned(),
        );
    }
    if let (Some(find), None) = (find, latency_limit) {
        reader.error(
            find.span(),
            "the search for the highest rate needs a latency limit",
            "without a limit",
            "add `latency-limit = \"10ms\"`".to_owned(),
        );
    }
    let usual = if pair.is_some() { 100_000_000 } else { 5_000_000_000 };
    let shortest = rules.map_or(usual, RuleSet::minimum_duration_ns);
    let least = value(duration).map_or(shortest, |Nanoseconds(time)| time);
    let maximum = match maximum_duration {
        Some(maximum) if maximum.get_ref().0 < least => {
            reader.error(
                maximum.span(),
                "`measure.maximum-duration` is shorter than `measure.duration`",
                "shorter than `duration`",
                format!(
                    "make it at least as long (`duration` is {} by default), or leave it out",
                    host_record::words::time(shortest as f64)
                ),
            );
            return None;
        }
        Some(maximum) => maximum.get_ref().0,
        None => least.saturating_mul(10),
    };
    let latency_limit = value(latency_limit).map(|Nanoseconds(at_most_ns)| LatencyLimit {
        at_most_ns,
        percentile: value(latency_percentile).map(|Percentile(share)| share),
    });
    Some(MeasureSettings {
        warm_up: value(warm_up).unwrap_or(WarmUp::Nanoseconds(match pair {
            Some(_) => 50_000_000,
            None => 1_000_000_000,
        })),
        minimum_duration_ns: least,
        maximum_duration_ns: maximum,
        minimum_queries: minimum_queries.as_ref()?.get_ref().0,
        offline_examples: match offline_examples {
            Some(samples) => Some(samples.get_ref().0),
            None => rules.map(RuleSet::offline_examples),
        },
        // The usual number goes without saying, in ids of cases too.
        multi_stream_examples: value(multi_stream_examples)
            .map(|Positive(samples)| samples)
            .filter(|samples| *samples != Scenario::MULTI_STREAM_EXAMPLES),
        confidence: match confidence {
            Some(table) => {
                let ConfidenceTable { level, half_width, percentile } = table.get_ref();
                Some(Confidence {
                    level: match (value(level), &pair) {
                        (Some(Level(level)), _) => level,
                        (None, Some(pair)) => pair.level,
                        (None, None) => Share::new(USUAL_LEVEL).ok()?,
                    },
                    half_width: half_width.as_ref()?.get_ref().0,
                    percentile: percentile.as_ref()?.get_ref().0,
                })
            }
            None => None,
        },
        latency_limit,
        rules,
        find: value(find),
        processes: match (value(processes), &pair) {
            (Some(count), _) => count.get(),
            (None, Some(_)) => Pair::USUAL_PROCESSES,
            (None, None) => 1,
        },
        order: value(order)?,
        pair,
        timeout_ns: value(timeout).map(|Nanoseconds(time)| time)?,
        memory_limit_bytes: value(memory_limit).map(|Bytes(size)| size),
        pin: value(pin)?,
        nice: value(nice).map(|Nice(value)| value),
        device_sampling_ns: value(device_sampling).map(|Nanoseconds(period)| period),
        cold_cache: value(cold_cache)?,
        epochs: value(epochs).map(|Positive(count)| count),
        test_examples: value(test_examples).map(|Positive(count)| count),
    })
}

/// Returns the listed plugins, or the defaults if the list is absent.
fn plugin_uses(
    list: &Option<At<Tables<PluginTable>>>,
    defaults: &[&str],
    reader: &mut Reader,
) -> Option<Vec<PluginUse>> {
    if list.is_some() {
        return tables(list).map(|table| plugin_use(table, reader)).collect();
    }
    let plain = |plugin: &&str| PluginUse {
        plugin: (*plugin).to_owned(),
        version: VersionReq::STAR,
        options: Map::new(),
        allowance: Allowance::default(),
    };
    Some(defaults.iter().map(plain).collect())
}

/// Checks a plugin's limits.
fn check_allowance(
    memory: &Option<At<Bytes>>,
    time: &Option<At<Nanoseconds>>,
    reader: &mut Reader,
) {
    if let Some(memory) = memory
        && !(1..=Allowance::MOST_MEMORY).contains(&memory.get_ref().0)
    {
        let hint = "write a size such as `\"1 GiB\"`".to_owned();
        let message = "the memory of a plugin is more than nothing and at most 4 GiB";
        reader.error(memory.span(), message, "not such a size", hint);
    }
    if let Some(time) = time
        && !(1..=Allowance::MOST_TIME_NS).contains(&time.get_ref().0)
    {
        let hint = "write a duration such as `\"5min\"`".to_owned();
        let message = "the time of a plugin's call is more than nothing and at most an hour";
        reader.error(time.span(), message, "not such a duration", hint);
    }
}

fn plugin_use(table: &PluginTable, reader: &mut Reader) -> Option<PluginUse> {
    let PluginTable { plugin, version, options, memory_limit, time_limit } = table;
    check_allowance(memory_limit, time_limit, reader);
    Some(PluginUse {
        plugin: plugin.as_ref()?.get_ref().0.clone(),
        version: value(version)?,
        options: options.as_ref()?.get_ref().values.clone(),
        allowance: allowance(memory_limit, time_limit),
    })
}

fn execution(table: &ExecutionTable, reader: &mut Reader) -> Option<Execution> {
    let ExecutionTable { engine, partition, account, constraint, gres, time, .. } = table;
    let ExecutionTable { exclusive, array_limit, prologue, options, retries, block, .. } = table;
    let texts = |axis: &Option<At<Axis<String>>>| -> Vec<String> {
        let values = axis.iter().flat_map(|axis| &axis.get_ref().values);
        values.map(|value| value.get_ref().clone()).collect()
    };
    let mut is_right = true;
    for name in partition.iter().flat_map(|axis| &axis.get_ref().values) {
        if name.get_ref().contains(',') {
            reader.error(
                name.span(),
                format!("`{}` names several partitions in one text", name.get_ref()),
                "a list in a text",
                "write a list, such as `[\"a\", \"b\"]`: each partition is a kind of node"
                    .to_owned(),
            );
            is_right = false;
        }
    }
    let named = partition.iter().chain(constraint).flat_map(|axis| &axis.get_ref().values);
    for empty in named.filter(|name| name.get_ref().trim().is_empty()) {
        let hint = "name one, or leave the key out".to_owned();
        reader.error(empty.span(), "the name is empty", "empty", hint);
        is_right = false;
    }
    let execution = Execution {
        engine: value(engine)?,
        partitions: texts(partition),
        account: value(account),
        constraints: texts(constraint),
        gres: value(gres),
        time_ns: time.as_ref().map(|time| time.get_ref().0),
        exclusive: value(exclusive)?,
        array_limit: array_limit.as_ref().map(|limit| limit.get_ref().0),
        prologue: value(prologue)?,
        options: list(options).cloned().collect(),
        retries: value(retries)?,
        block: block.as_ref().map(|block| block.get_ref().0),
    };
    is_right.then_some(execution)
}

fn price(table: &PriceTable, backends: &Names, reader: &mut Reader) -> Option<Price> {
    let PriceTable { backend, device, per_hour } = table;
    if let Some(backend) = backend {
        backends.check_one(&backend.get_ref().0, backend.span(), reader);
    }
    let price = per_hour.as_ref()?;
    let is_one = price.get_ref().is_finite() && *price.get_ref() > 0.0;
    if !is_one {
        let hint = "leave it out if the hour is free".to_owned();
        reader.error(price.span(), "a price is above zero", "not a price", hint);
    }
    Some(Price {
        backend: backend.as_ref()?.get_ref().0.clone(),
        device: value(device),
        per_hour: Some(*price.get_ref()).filter(|_| is_one)?,
    })
}

fn recommender(
    table: &RecommendTable,
    prices: &[Price],
    metrics: &Names,
    reader: &mut Reader,
) -> Option<Recommender> {
    let RecommendTable { plugin, version, limits, ask, options, memory_limit, time_limit } = table;
    check_allowance(memory_limit, time_limit, reader);
    if let Some(options) = options
        && options.get_ref().values.contains_key("limits")
    {
        reader.error(
            options.span(),
            "`limits` belongs beside `options`, not inside",
            "has `limits`",
            "write `limits = […]` directly under `[[recommend]]`".to_owned(),
        );
    }
    let resolved: Vec<_> = limits
        .iter()
        .flat_map(|limits| &limits.get_ref().values)
        .map(|table| limit(table, metrics, !prices.is_empty(), reader))
        .collect();
    Some(Recommender {
        plugin: plugin.as_ref()?.get_ref().0.clone(),
        version: value(version)?,
        limits: resolved.into_iter().collect::<Option<_>>()?,
        ask: match ask {
            Some(table) => {
                let AskTable { cases, time } = table.get_ref();
                let (Positive(cases), Nanoseconds(time_ns)) = (value(cases)?, value(time)?);
                Some(Ask { cases: u32::try_from(cases).unwrap_or(u32::MAX), time_ns })
            }
            None => None,
        },
        prices: prices.to_vec(),
        options: options.as_ref()?.get_ref().values.clone(),
        allowance: allowance(memory_limit, time_limit),
    })
}

/// Reads a limit. With prices, recommenders make costs of throughputs, which no plugin states.
fn limit(
    table: &At<LimitTable>,
    metrics: &Names,
    has_costs: bool,
    reader: &mut Reader,
) -> Option<Limit> {
    let LimitTable { metric, at_most, at_least } = table.get_ref();
    let bound = match (at_most, at_least) {
        (Some(most), None) => Some((Bound::AtMost(most.get_ref().value), most.get_ref().unit)),
        (None, Some(least)) => Some((Bound::AtLeast(least.get_ref().value), least.get_ref().unit)),
        _ => {
            // If both are absent, one may have been reported already.
            let both = at_most.is_some();
            if both || !reader.errors.iter().any(|error| within(&error.span, &table.span())) {
                reader.error(
                    table.span(),
                    "a limit needs exactly one of `at-most` and `at-least`",
                    if both { "both are given" } else { "neither is given" },
                    "for a range, write two limits".to_owned(),
                );
            }
            None
        }
    };
    let metric = metric.as_ref()?;
    // The text before the first dot is the metric plugin's id.
    let plugin = metric.get_ref().0.split('.').next().unwrap_or_default();
    if !(has_costs && plugin == "cost") {
        metrics.check_one(plugin, metric.span(), reader);
    }
    let (bound, unit) = bound?;
    Some(Limit { metric: metric.get_ref().0.clone(), bound, unit })
}

fn within(inner: &std::ops::Range<usize>, outer: &std::ops::Range<usize>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}
