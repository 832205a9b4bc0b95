//! The experiment: what a manifest says, with every default filled in and every name resolved.
//!
//! Paths stay as they are written, relative to the manifest's folder; this crate does no I/O.

use std::collections::BTreeMap;
use std::path::PathBuf;

use host_record::{
    InputSource, MeasureSettings, Mode, Order, PlacementRule, Precision, Rate, Scenario,
};
use semver::VersionReq;
use serde_json::{Map, Value, json};

/// What one manifest describes.
#[derive(Debug, Clone, PartialEq)]
pub struct Experiment {
    /// The experiment's name; ids, tables and reports carry it.
    pub name: String,
    /// What it is to find out; possibly empty.
    pub description: String,
    /// Seed for whatever is random.
    pub seed: u64,
    /// Folder for run folders and the database, where the manifest names one.
    pub results: Option<PathBuf>,
    /// Folders to look for plugins in, beside the usual ones.
    pub plugins: Vec<PathBuf>,
    /// Models, in the order of the file; at least one.
    pub models: Vec<Model>,
    /// Backends, in the order of the file; at least one.
    pub backends: Vec<Backend>,
    /// What is combined with what.
    pub matrix: Matrix,
    /// How each case is measured.
    pub measure: MeasureSettings,
    /// In which order the processes of cases are run.
    pub order: Order,
    /// Metrics to compute; never empty.
    pub metrics: Vec<PluginUse>,
    /// Reports to write; never empty.
    pub reports: Vec<PluginUse>,
    /// Recommenders to ask.
    pub recommenders: Vec<Recommender>,
}

/// A model.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// What the matrix and the results call it.
    pub id: String,
    /// The model file, relative to the manifest's folder unless absolute.
    pub path: PathBuf,
    /// Where its inputs come from; paths as in `path`.
    pub inputs: InputSource,
}

/// A backend, as the manifest wants it.
#[derive(Debug, Clone, PartialEq)]
pub struct Backend {
    /// What the matrix and the results call it.
    pub id: String,
    /// The plugin's id.
    pub plugin: String,
    /// Which versions of the plugin will do.
    pub version: VersionReq,
    /// Which devices; never empty.
    pub devices: Vec<DeviceChoice>,
    /// Threads that it may use; `None` leaves it to the backend.
    pub threads: Option<u32>,
    /// Where operators may run.
    pub placement: PlacementRule,
    /// Options, passed through as text.
    pub options: BTreeMap<String, String>,
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

    /// As written in the manifest.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Auto => Self::AUTO,
            Self::Id(id) => id,
        }
    }
}

/// What is combined with what: the cells are the product of the axes and the cells of `include`,
/// without those of `exclude`. A cell that is reached twice counts once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matrix {
    /// Ids of models.
    pub model: Vec<String>,
    /// Ids of backends.
    pub backend: Vec<String>,
    /// Number formats.
    pub precision: Vec<Precision>,
    /// Samples per batch.
    pub batch: Vec<u32>,
    /// Lengths of the sequence axis; empty where the matrix has none.
    pub sequence_length: Vec<u32>,
    /// What is done with the model.
    pub mode: Vec<Mode>,
    /// How queries are issued.
    pub scenario: Vec<Scenario>,
    /// Queries per second of the scenarios that take a rate; empty where there is none, or it is
    /// searched.
    pub rate: Vec<Rate>,
    /// Numbers of clients of the scenario that has them; empty where there is none.
    pub clients: Vec<u32>,
    /// Cells to add. What an entry leaves out takes every value of the matrix's axis.
    pub include: Vec<PartialCell>,
    /// Cells to leave out, of the axes' product and of `include` alike. What an entry leaves out
    /// matches everything.
    pub exclude: Vec<PartialCell>,
}

/// Some coordinates of a cell; an empty list says nothing about that coordinate.
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
    /// Samples per batch.
    pub batch: Vec<u32>,
    /// Lengths of the sequence axis.
    pub sequence_length: Vec<u32>,
    /// What is done with the model.
    pub mode: Vec<Mode>,
    /// How queries are issued.
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
}

/// A recommender, as the manifest wants it.
#[derive(Debug, Clone, PartialEq)]
pub struct Recommender {
    /// The plugin's id.
    pub plugin: String,
    /// Which versions of the plugin will do.
    pub version: VersionReq,
    /// What a case must meet to be recommended.
    pub limits: Vec<Limit>,
    /// A JSON object for the plugin, without the limits.
    pub options: Map<String, Value>,
}

impl Recommender {
    /// What the plugin is given: the options, and under `limits` an array of objects with `metric`
    /// and either `at-most` or `at-least`. A bound that the manifest gives as a duration or a size
    /// is text in the smallest unit, such as `"5000000 ns"` or `"2048 B"`, so that the plugin can
    /// refuse a time as the limit of something else; any other is a number in the metric's unit.
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
        Value::Object(options)
    }
}

/// A limit on a metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit {
    /// Full name of the metric, such as `latency.p99`.
    pub metric: String,
    /// The bound, in `unit`; without one, in the metric's own.
    pub bound: Bound,
    /// `ns` where the manifest gave a duration, `B` where it gave a size, nothing where it gave a
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
