//! Reference for outputs: a backend on one of its devices, for all cases.

use host_manifest::{Backend, DeviceChoice, Experiment, OutputCheck};
use host_record::{CaseKey, Check, Tolerance};
use serde_json::json;

use crate::axes::{Found, find};
use crate::error::PlanError;
use crate::facts::{Facts, ModelFacts, ModelFile};
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
        let found = find(id, facts, choice).1.map_err(|gap| no_reference(gap.reason))?;
        if !found.device.precisions.contains(&check.precision) {
            let (device, precision) = (&found.device.id, check.precision);
            let reason = format!("it does not compute in {precision} on `{device}`");
            return Err(no_reference(found.lacks.map_or(reason, |gap| gap.reason)));
        }
        Ok(Some(Self { check: check.clone(), backend: backend.clone(), found }))
    }

    /// Returns the reference of a case. Cases of the same model, batch, shape and seed share it.
    pub(crate) fn check(
        &self,
        key: &CaseKey,
        model: &ModelFacts,
        own: &ModelFile,
        identity: &ModelPart,
        seed: u64,
    ) -> Check {
        let Self { check, backend, found } = self;
        let precision = check.precision;
        // Where the reference has no file of its own, it runs the case's.
        let file = model.get(precision).unwrap_or(own);
        let text = json!({
            "batch": key.batch,
            "device": found.device.id,
            "inputs": identity.inputs,
            "model": file.sha256,
            "options": backend.options,
            "plugin": found.plugin,
            "precision": precision,
            "seed": seed,
            "sequence-length": key.sequence_length,
            "threads": backend.threads,
        });
        let tolerance = check.tolerances.get(&key.precision).copied();
        Check {
            id: identity::id(&text.to_string()),
            plugin: found.plugin.clone(),
            plugin_library: found.library.clone(),
            device: found.device.clone(),
            precision,
            model_path: file.path.clone(),
            model_sha256: file.sha256.clone(),
            threads: backend.threads,
            options: backend.options.clone(),
            tolerance: tolerance.unwrap_or_else(|| Tolerance::of(key.precision)),
        }
    }
}
