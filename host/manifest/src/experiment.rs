//! The experiment: what a manifest says, with every default filled in and every name resolved.
//!
//! Paths stay as they are written, relative to the manifest's folder; this crate does no I/O.

use std::collections::BTreeMap;
use std::path::PathBuf;

use host_record::{
    AxesChoice, CaseKey, Engine, InputSource, MeasureSettings, Mode, PlacementRule, Precision,
    Rate, Scenario, Tolerance,
};
use semver::VersionReq;
use serde_json::{Map, Value, json};

use crate::precisions::PerPrecision;

/// The experiment that one manifest describes.
#[derive(Debug, Clone, PartialEq)]
pub struct Experiment {
    /// The experiment's name; ids, tables and reports carry it.
    pub name: String,
    /// Purpose of the experiment; possibly empty.
    pub description: String,
    /// Seed of everything random.
    pub seed: u64,
    /// Folder for run folders and the database, if the manifest names one.
    pub results: Option<PathBuf>,
    /// Folders to search for plugins, in addition to the usual ones.
    pub plugins: Vec<PathBuf>,
    /// Models, in the order of the file; at least one.
    pub models: Vec<Model>,
    /// Backends, in the order of the file; at least one.
    pub backends: Vec<Backend>,
    /// The matrix of combinations.
    pub matrix: Matrix,
    /// Settings for the measurement of each case.
    pub measure: MeasureSettings,
    /// Where cases are executed.
    pub execution: Execution,
    /// Reference with which outputs are compared before a case is timed.
    pub check: Option<OutputCheck>,
    /// Metrics to compute; never empty.
    pub metrics: Vec<PluginUse>,
    /// Reports to write; never empty.
    pub reports: Vec<PluginUse>,
    /// Recommenders to ask.
    pub recommenders: Vec<Recommender>,
    /// Limits on metrics that a run is checked by.
    pub alerts: Vec<Limit>,
    /// Prices of backends, for costs.
    pub prices: Vec<Price>,
}

/// Where cases are executed, and how a cluster is asked for nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Execution {
    /// The engine.
    pub engine: Engine,
    /// Partitions; empty for the cluster's default.
    pub partitions: Vec<String>,
    /// The account to charge.
    pub account: Option<String>,
    /// Alternative sets of features; empty if nodes need none.
    pub constraints: Vec<String>,
    /// Generic resources of each node.
    pub gres: Option<String>,
    /// Time limit of a task in nanoseconds.
    pub time_ns: Option<u64>,
    /// Whether a task has its node for itself.
    pub exclusive: bool,
    /// The most tasks that run at the same time.
    pub array_limit: Option<u64>,
    /// Lines of shell that a task runs first; possibly empty.
    pub prologue: String,
    /// Further options of the command that submits.
    pub options: Vec<String>,
    /// Further attempts at a case whose node or task died.
    pub retries: u64,
    /// Cases of a task.
    pub block: Option<u64>,
}

impl Default for Execution {
    fn default() -> Self {
        Self {
            engine: Engine::Local,
            partitions: Vec::new(),
            account: None,
            constraints: Vec::new(),
            gres: None,
            time_ns: None,
            exclusive: true,
            array_limit: None,
            prologue: String::new(),
            options: Vec::new(),
            retries: 1,
            block: None,
        }
    }
}

/// The price of an hour of a backend.
#[derive(Debug, Clone, PartialEq)]
pub struct Price {
    /// The backend's id.
    pub backend: String,
    /// The device's id; `None` for each of them.
    pub device: Option<String>,
    /// The price of an hour, in any currency.
    pub per_hour: f64,
}

impl Price {
    /// Returns the price of an hour of a device: its own, or else that of its backend.
    #[must_use]
    pub fn of(prices: &[Self], backend: &str, device: &str) -> Option<f64> {
        let of = |wanted: Option<&str>| {
            let is_it = |one: &&Self| one.backend == backend && one.device.as_deref() == wanted;
            prices.iter().find(is_it).map(|price| price.per_hour)
        };
        of(Some(device)).or_else(|| of(None))
    }
}

/// A model.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// Name in the matrix and in results.
    pub id: String,
    /// The model file, or one for each precision, relative to the manifest's folder unless absolute.
    pub path: PerPrecision<PathBuf>,
    /// The architecture that stands in for a file, by name; `path` is empty then.
    pub architecture: Option<String>,
    /// Source of its inputs; paths as in `path`.
    pub inputs: InputSource,
    /// Meaning and sizes of its axes.
    pub axes: AxesChoice,
}

/// A backend, as the manifest wants it.
#[derive(Debug, Clone, PartialEq)]
pub struct Backend {
    /// Name in the matrix and in results.
    pub id: String,
    /// The plugin's id.
    pub plugin: String,
    /// Which versions of the plugin will do.
    pub version: VersionReq,
    /// Folder of the plugin, relative to the manifest's folder unless absolute; `None` for the usual ones.
    pub folder: Option<PathBuf>,
    /// Devices; never empty.
    pub devices: Vec<DeviceChoice>,
    /// Threads that it may use; `None` leaves it to the backend.
    pub threads: Option<u32>,
    /// Placement of operators.
    pub placement: PlacementRule,
    /// Names of environment variables that its workers get beyond the usual ones.
    pub environment: Vec<String>,
    /// Options, passed through as text.
    pub options: BTreeMap<String, String>,
}

impl Experiment {
    /// The plugin id, and thus the id of a `[[backend]]`, that stands for every installed backend.
    pub const ALL_BACKENDS: &'static str = "all";

    /// Returns the experiment with a single case in its matrix. The case may be beyond the matrix; its model and backend are of
    /// the experiment.
    #[must_use]
    pub fn only(&self, key: &CaseKey) -> Self {
        let mut only = self.clone();
        for backend in only.backends.iter_mut().filter(|backend| backend.id == key.backend) {
            backend.devices = vec![DeviceChoice::Id(key.device.clone())];
        }
        only.matrix = Matrix {
            model: vec![key.model.clone()],
            backend: vec![key.backend.clone()],
            precision: vec![key.precision],
            batch: vec![key.batch],
            sequence_length: key.sequence_length.into_iter().collect(),
            mode: vec![key.mode],
            scenario: vec![key.scenario],
            // A rate that was searched is not of the case.
            rate: key.rate.into_iter().collect(),
            clients: key.clients.into_iter().collect(),
            include: Vec::new(),
            exclude: Vec::new(),
            limit: None,
        };
        only
    }

    /// Replaces a model by others, also where the matrix names it. One whose id another model has is left out.
    pub fn replace_model(&mut self, id: &str, by: Vec<Model>) {
        let Some(place) = self.models.iter().position(|model| model.id == id) else { return };
        self.models.remove(place);
        let is_new = |model: &Model| self.models.iter().all(|other| other.id != model.id);
        let (ids, added): (Vec<_>, Vec<_>) =
            by.into_iter().map(|model| (model.id.clone(), is_new(&model).then_some(model))).unzip();
        self.models.splice(place..place, added.into_iter().flatten());
        self.matrix.replace(id, &ids, |matrix| &mut matrix.model, |cell| &mut cell.model);
    }

    /// Returns whether a backend stands for all installed ones.
    #[must_use]
    pub fn wants_all_backends(&self) -> bool {
        self.backends.iter().any(|backend| backend.plugin == Self::ALL_BACKENDS)
    }

    /// Replaces the backend that stands for all by one for each of these plugins, with the plugin's id.
    /// A plugin that has a backend of its own is not added twice.
    pub fn expand_all_backends(&mut self, installed: &[String]) {
        let all = |backend: &Backend| backend.plugin == Self::ALL_BACKENDS;
        let Some(place) = self.backends.iter().position(all) else { return };
        let template = self.backends.remove(place);
        let mut ids = Vec::new();
        let mut added = Vec::new();
        for plugin in installed {
            let renamed = |backend: &Backend| backend.plugin == *plugin && backend.id != *plugin;
            if self.backends.iter().any(renamed) {
                continue;
            }
            if self.backends.iter().all(|backend| backend.id != *plugin) {
                let (id, plugin) = (plugin.clone(), plugin.clone());
                added.push(Backend { id, plugin, ..template.clone() });
            }
            ids.push(plugin.clone());
        }
        self.backends.splice(place..place, added);
        let id = &template.id;
        self.matrix.replace(id, &ids, |matrix| &mut matrix.backend, |cell| &mut cell.backend);
    }
}

/// Reference with which outputs are compared before a case is timed.
#[derive(Debug, Clone, PartialEq)]
pub struct OutputCheck {
    /// Id of the reference's backend. It is among [`Experiment::backends`] even if it is not in the
    /// matrix.
    pub reference: String,
    /// The precision that the reference computes in.
    pub precision: Precision,
    /// Largest accepted differences, by the precision of the case.
    pub tolerances: BTreeMap<Precision, Tolerance>,
}

/// A device, as the manifest names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeviceChoice {
    /// The first device that the backend lists.
    Auto,
    /// The device with this id, such as `cpu:0`.
    Id(String),
}

impl DeviceChoice {
    /// The word in the manifest that means [`DeviceChoice::Auto`].
    pub const AUTO: &'static str = "auto";

    /// Returns the text as written in the manifest.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Auto => Self::AUTO,
            Self::Id(id) => id,
        }
    }
}

/// The matrix: its cells are the product of the axes and the cells of `include`,
/// without those of `exclude`. A cell that is reached twice counts once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matrix {
    /// Ids of models.
    pub model: Vec<String>,
    /// Ids of backends.
    pub backend: Vec<String>,
    /// Number formats.
    pub precision: Vec<Precision>,
    /// Examples per batch.
    pub batch: Vec<u32>,
    /// Lengths of the sequence axis; empty if the matrix has none.
    pub sequence_length: Vec<u32>,
    /// Kind of work.
    pub mode: Vec<Mode>,
    /// Load scenario.
    pub scenario: Vec<Scenario>,
    /// Queries per second of the scenarios that take a rate; empty if there is none, or it is
    /// searched.
    pub rate: Vec<Rate>,
    /// Numbers of clients of the scenario that has them; empty if there is none.
    pub clients: Vec<u32>,
    /// Cells to add. A coordinate that an entry leaves out takes every value of the matrix's axis.
    pub include: Vec<PartialCell>,
    /// Cells to leave out, from the axes' product and from `include`. A coordinate that an entry
    /// leaves out matches everything.
    pub exclude: Vec<PartialCell>,
    /// The most cases; the first ones are kept.
    pub limit: Option<u64>,
}

impl Matrix {
    /// Returns the lengths of sequences in tokens; empty if the matrix has no axis for them.
    #[must_use]
    pub fn tokens(&self) -> &[u32] {
        &self.sequence_length
    }

    /// Replaces an id by others, in the axis and in the same coordinate of cells.
    fn replace(
        &mut self,
        id: &str,
        by: &[String],
        axis: fn(&mut Self) -> &mut Vec<String>,
        of_cell: fn(&mut PartialCell) -> &mut Vec<String>,
    ) {
        let put = |list: &mut Vec<String>| {
            let Some(place) = list.iter().position(|known| known == id) else { return };
            list.remove(place);
            let new: Vec<_> = by.iter().filter(|id| !list.contains(id)).cloned().collect();
            list.splice(place..place, new);
        };
        put(axis(self));
        self.include.iter_mut().chain(&mut self.exclude).map(of_cell).for_each(put);
    }
}

/// Some coordinates of a cell; an empty list does not restrict that coordinate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PartialCell {
    /// Ids of models.
    pub model: Vec<String>,
    /// Ids of backends.
    pub backend: Vec<String>,
    /// Devices.
    pub device: Vec<DeviceChoice>,
    /// Number formats.
    pub precision: Vec<Precision>,
    /// Examples per batch.
    pub batch: Vec<u32>,
    /// Lengths of the sequence axis.
    pub sequence_length: Vec<u32>,
    /// Kind of work.
    pub mode: Vec<Mode>,
    /// Load scenario.
    pub scenario: Vec<Scenario>,
    /// Queries per second.
    pub rate: Vec<Rate>,
    /// Numbers of clients.
    pub clients: Vec<u32>,
}

/// A metric or a report, as the manifest wants it.
#[derive(Debug, Clone, PartialEq)]
pub struct PluginUse {
    /// The plugin's id.
    pub plugin: String,
    /// Which versions of the plugin will do.
    pub version: VersionReq,
    /// A JSON object for the plugin.
    pub options: Map<String, Value>,
    /// Its limits.
    pub allowance: Allowance,
}

/// Limits of a call of a plugin in the sandbox; what is absent is as for every plugin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Allowance {
    /// Bytes of memory.
    pub memory_bytes: Option<u64>,
    /// Time in nanoseconds.
    pub time_ns: Option<u64>,
}

impl Allowance {
    /// The most memory, which is what a plugin can address.
    pub const MOST_MEMORY: u64 = 4 << 30;
    /// The most time.
    pub const MOST_TIME_NS: u64 = 3_600_000_000_000;
}

/// A recommender, as the manifest wants it.
#[derive(Debug, Clone, PartialEq)]
pub struct Recommender {
    /// The plugin's id.
    pub plugin: String,
    /// Which versions of the plugin will do.
    pub version: VersionReq,
    /// Limits that a case must meet to be recommended.
    pub limits: Vec<Limit>,
    /// Cases beyond the matrix that it may ask for.
    pub ask: Option<Ask>,
    /// Prices of backends.
    pub prices: Vec<Price>,
    /// A JSON object for the plugin, without the limits and prices.
    pub options: Map<String, Value>,
    /// Its limits in the sandbox.
    pub allowance: Allowance,
}

/// Cases beyond the matrix that a recommender may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    /// The most cases.
    pub cases: u32,
    /// Time to measure them, in nanoseconds.
    pub time_ns: u64,
}

impl Recommender {
    /// Returns the object that the plugin gets: the options, and under `limits` an array of objects
    /// with `metric` and either `at-most` or `at-least`. A bound that the manifest gives as a
    /// duration or a size is text in the smallest unit, such as `"5000000 ns"` or `"2048 B"`, so
    /// that the plugin can refuse a time as the limit of something else; any other is a number in
    /// the metric's unit. If the manifest has prices, `prices` is an array of objects with `backend`, `device` (or null) and
    /// `per-hour`.
    #[must_use]
    pub fn options_with_limits(&self) -> Value {
        let limits = self.limits.iter().map(|limit| {
            let (name, value) = match limit.bound {
                Bound::AtMost(value) => ("at-most", value),
                Bound::AtLeast(value) => ("at-least", value),
            };
            let value = match limit.unit {
                Some(unit) => json!(format!("{value} {unit}")),
                None => json!(value),
            };
            json!({ "metric": limit.metric, name: value })
        });
        let mut options = self.options.clone();
        options.insert("limits".to_owned(), limits.collect());
        if !self.prices.is_empty() {
            let price = |price: &Price| {
                let Price { backend, device, per_hour } = price;
                json!({ "backend": backend, "device": device, "per-hour": per_hour })
            };
            options.insert("prices".to_owned(), self.prices.iter().map(price).collect());
        }
        Value::Object(options)
    }
}

/// A limit on a metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit {
    /// Full name of the metric, such as `latency.p99`.
    pub metric: String,
    /// The bound, in `unit`, or else in the metric's own unit.
    pub bound: Bound,
    /// `ns` if the manifest gives a duration, `B` if it gives a size, nothing if it gives a
    /// plain number.
    pub unit: Option<&'static str>,
}

/// Which side a limit is on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bound {
    /// The metric may be this much or less.
    AtMost(f64),
    /// The metric must be this much or more.
    AtLeast(f64),
}
