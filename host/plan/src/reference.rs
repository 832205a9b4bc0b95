//! Reference for outputs: a backend on one of its devices, for all cases.

use std::collections::BTreeMap;

use host_manifest::{Backend, DeviceChoice, Experiment, OutputCheck};
use host_record::{Axis, AxisRole, CaseKey, Check, FileId, Tolerance};
use serde_json::json;

use crate::axes::{Found, find};
use crate::error::PlanError;
use crate::facts::{Facts, ModelFacts};
use crate::identity::{self, ModelPart};

/// The reference, with the plugin and the device that it uses.
#[derive(Debug, Clone)]
pub(crate) struct PlannedReference {
    check: OutputCheck,
    backend: Backend,
    found: Found,
}

impl PlannedReference {
    /// Returns the reference of an experiment, if it has one. Its device is the first that its backend
    /// names.
    pub(crate) fn new(experiment: &Experiment, facts: &Facts) -> Result<Option<Self>, PlanError> {
        let Some(check) = &experiment.check else { return Ok(None) };
        let id = &check.reference;
        let backend = experiment.backends.iter().find(|backend| backend.id == *id);
        let backend = backend.ok_or_else(|| PlanError::UnknownBackend(id.clone()))?;
        let facts = facts.backends.get(id);
        let facts = facts.ok_or_else(|| PlanError::UnknownBackend(id.clone()))?;
        let choice = backend.devices.first().unwrap_or(&DeviceChoice::Auto);
        let no_reference = |reason| PlanError::NoReference { id: id.clone(), reason };
        let found = find(id, facts, choice).1.map_err(|gap| no_reference(gap.to_string()))?;
        if !found.device.precisions.contains(&check.precision) {
            let (device, precision) = (&found.device.id, check.precision);
            let reason = format!("it does not compute in {precision} on `{device}`");
            return Err(no_reference(found.lacks.map_or(reason, |gap| gap.to_string())));
        }
        Ok(Some(Self { check: check.clone(), backend: backend.clone(), found }))
    }

    /// Returns the reference of a case. Cases of the same model, batch, shape and seed share it.
    pub(crate) fn check(
        &self,
        key: &CaseKey,
        model: &ModelFacts,
        own: &FileId,
        identity: &ModelPart,
        seed: u64,
    ) -> Check {
        let Self { check, backend, found } = self;
        let precision = check.precision;
        // A reference without its own file runs the case's.
        let file = model.get(precision).unwrap_or(own);
        let own_precision = key.precision;
        // Where and in which precision it is computed are the reference's own; a load computes nothing.
        let own = [Axis::Model, Axis::Backend, Axis::Device, Axis::Precision];
        let shared = Axis::ALL
            .iter()
            .filter(|axis| axis.role() != AxisRole::Load && !own.contains(axis))
            .filter_map(|axis| Some((axis.name(), axis.value(key)?)));
        let mut text = json!({
            "axes": shared.collect::<BTreeMap<_, _>>(),
            "device": found.device.id,
            "inputs": identity.inputs,
            "model": file.sha256,
            "options": backend.options,
            "plugin": found.plugin,
            "precision": precision,
            "seed": seed,
            "threads": backend.threads,
        });
        if let Some(weights) = identity::weights(file) {
            text["weights"] = weights;
        }
        if let Some(axes) = &identity.axes {
            text["model-axes"] = axes.as_str().into();
        }
        if let Some(values) = identity.values_of(own_precision) {
            text["values"] = values.into();
        }
        let tolerance = check.tolerances.get(&key.precision).copied();
        Check {
            id: identity::id(&text.to_string()),
            plugin: found.plugin.clone(),
            device: found.device.clone(),
            precision,
            model: file.clone(),
            threads: backend.threads,
            options: backend.options.clone(),
            tolerance: tolerance.unwrap_or_else(|| Tolerance::of(key.precision)),
        }
    }
}
