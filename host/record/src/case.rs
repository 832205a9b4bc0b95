//! Definition of a case. It holds no path, so that it means the same on every machine.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::backend::{DeviceInfo, PluginIdentity};
use crate::check::Check;
use crate::file::FileId;
use crate::key::CaseKey;
use crate::model::{AxesChoice, LegalValues};
use crate::names::names;
use crate::numbered::is_first;
use crate::settings::MeasureSettings;

names! {
    /// Placement of operators.
    PlacementRule {
        /// Wherever the backend puts them; what fell back from the device is a warning.
        Any = "any",
        /// On the device that was asked for, or the case fails.
        Strict = "strict",
    }
}

/// Seeded input for one model input that has no data file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SyntheticInput {
    /// Sizes of named or numbered dynamic axes other than batch and sequence length.
    #[serde(default)]
    pub dimensions: BTreeMap<String, u64>,
    /// Lowest value; `None` leaves it to the graph, or is 0.
    pub low: Option<f64>,
    /// Highest value; `None` leaves it to the graph, or is 1.
    pub high: Option<f64>,
}

impl SyntheticInput {
    /// Returns the range that is set, if any of its ends is.
    #[must_use]
    pub fn range(&self) -> Option<(f64, f64)> {
        match (self.low, self.high) {
            (None, None) => None,
            (low, high) => Some((low.unwrap_or(0.0), high.unwrap_or(1.0))),
        }
    }
}

/// Source of a model's inputs. A file is a path in a manifest, and a [`FileId`] in a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InputSource<File = PathBuf> {
    /// NumPy `.npy` files whose first axis counts examples, by input name, and their labels.
    Files {
        /// Input name → file.
        inputs: BTreeMap<String, File>,
        /// Class labels: integers, shape `[examples]`.
        labels: Option<File>,
        /// Inputs that are drawn instead.
        #[serde(default = "BTreeMap::new", skip_serializing_if = "BTreeMap::is_empty")]
        drawn: BTreeMap<String, SyntheticInput>,
    },
    /// Values drawn from the seed. Inputs not named here are drawn as the graph tells, or else uniformly from
    /// 0 to 1.
    Synthetic(BTreeMap<String, SyntheticInput>),
}

impl<File> InputSource<File> {
    /// Returns the settings of inputs that are drawn.
    #[must_use]
    pub fn drawn(&self) -> &BTreeMap<String, SyntheticInput> {
        match self {
            Self::Files { drawn, .. } | Self::Synthetic(drawn) => drawn,
        }
    }

    /// Returns the sizes that the manifest gives to axes of drawn inputs.
    #[must_use]
    pub fn dimensions(&self) -> BTreeMap<String, BTreeMap<String, u64>> {
        let drawn = self.drawn().iter().filter(|(_, input)| !input.dimensions.is_empty());
        drawn.map(|(name, input)| (name.clone(), input.dimensions.clone())).collect()
    }
}

/// A case, with everything that an executor needs to measure it. Files and plugins are named by their
/// content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct CaseSpec {
    /// Sixteen hexadecimal digits: a hash of everything that defines the case. Two cases with the
    /// same id did the same work, in any run.
    pub id: String,
    /// Position in the plan, from 0.
    pub index: u64,
    /// Coordinates in the matrix.
    pub key: CaseKey,
    /// The model file.
    pub model: FileId,
    /// The plugin that runs it.
    pub plugin: PluginIdentity,
    /// The name of the machine that the device is of.
    #[serde(default)]
    pub machine: String,
    /// The device as its backend described it there when the plan was made.
    pub device: DeviceInfo,
    /// Threads that the backend may use; `None` leaves it to the backend.
    pub threads: Option<u32>,
    /// Options passed through to the backend.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
    /// Placement of operators.
    #[serde(default = "anywhere", skip_serializing_if = "is_anywhere")]
    pub placement: PlacementRule,
    /// Names of environment variables that its worker gets beyond the usual ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub environment: Vec<String>,
    /// Reference with which its outputs are compared before it is timed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<Box<Check>>,
    /// Source of the inputs.
    pub inputs: InputSource<FileId>,
    /// Meaning and sizes of the model's axes, as far as the manifest declares them.
    #[serde(default, skip_serializing_if = "AxesChoice::is_default")]
    pub axes: AxesChoice,
    /// Legal values of inputs, as the model's graph tells them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, LegalValues>,
    /// Settings for the measurement.
    pub measure: MeasureSettings,
    /// Seed of everything random in this case.
    pub seed: u64,
    /// Which of its processes measures it, from 0.
    #[serde(default, skip_serializing_if = "is_first")]
    pub process: u32,
    /// Who asked for it, if it is not of the manifest's matrix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<Asked>,
}

/// A wish for a case that the manifest's matrix does not have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Asked {
    /// The id of the recommender.
    pub by: String,
    /// Purpose, in one line.
    pub reason: String,
}

fn anywhere() -> PlacementRule {
    PlacementRule::Any
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_anywhere(rule: &PlacementRule) -> bool {
    *rule == PlacementRule::Any
}

impl CaseSpec {
    /// Returns the name for the files of this process of the case.
    #[must_use]
    pub fn part(&self) -> String {
        part(&self.id, self.process)
    }

    /// Returns the case that computes a check's reference outputs: the same inputs on another backend.
    #[must_use]
    pub fn reference(&self, check: &Check) -> Self {
        let mut key = self.key.clone();
        key.backend.clone_from(&check.plugin.id);
        key.device.clone_from(&check.device.id);
        key.precision = check.precision;
        Self {
            key,
            model: check.model.clone(),
            plugin: check.plugin.clone(),
            device: check.device.clone(),
            threads: check.threads,
            options: check.options.clone(),
            placement: PlacementRule::Any,
            environment: Vec::new(),
            check: None,
            ..self.clone()
        }
    }
}

/// Returns the name for the files of one process of a case: the case's id, followed by a dot and
/// the process unless it is the first.
#[must_use]
pub fn part(case_id: &str, process: u32) -> String {
    match process {
        0 => case_id.to_owned(),
        _ => format!("{case_id}.{process}"),
    }
}
