//! Which cells a model's axes cannot have, as far as its file tells.

use std::collections::BTreeMap;

use host_manifest::{Experiment, Model};
use host_model::{Meaning, Sizes, Wanted};
use host_record::{AxesUse, AxisObstacle, FileId, InputSource, LegalValues, Precision, Signature};

use crate::error::PlanError;
use crate::facts::Facts;
use crate::identity::drawn_values;

/// Batch and length of a cell.
pub(crate) type Extent = (u32, Option<u32>);

/// Meaning of the axes of each model, and the cells that they rule out.
#[derive(Debug, Clone, Default)]
pub(crate) struct Obstacles {
    /// By the model's position.
    axes: BTreeMap<usize, AxesUse>,
    obstacles: BTreeMap<(usize, Precision, Extent), AxisObstacle>,
}

impl Obstacles {
    /// Finds the obstacles of all models, for cells of these extents.
    ///
    /// # Errors
    ///
    /// If a manifest does not fit a model.
    pub(crate) fn new(
        experiment: &Experiment,
        facts: &Facts,
        extents: &[Extent],
    ) -> Result<Self, PlanError> {
        let mut found = Self::default();
        for (position, model) in experiment.models.iter().enumerate() {
            for precision in Precision::ALL {
                let file = facts.models.get(&model.id).and_then(|files| files.get(*precision));
                let Some(file) = file else { continue };
                let signature = facts.structures.get(file).and_then(|it| it.signature.as_ref());
                if let Some(signature) = signature {
                    check_trip_counts(model, file, facts)?;
                    found.add(position, *precision, model, signature, extents)?;
                }
            }
        }
        Ok(found)
    }

    fn add(
        &mut self,
        position: usize,
        precision: Precision,
        model: &Model,
        signature: &Signature,
        extents: &[Extent],
    ) -> Result<(), PlanError> {
        let dimensions = model.inputs.dimensions();
        let sizes = Sizes { choice: &model.axes, dimensions: &dimensions };
        let meaning = Meaning::new(signature, sizes).map_err(|obstacle| PlanError::Axes {
            model: model.id.clone(),
            obstacle: Box::new(obstacle),
        })?;
        self.axes.entry(position).or_insert_with(|| meaning.axes().clone());
        for (batch, length) in extents {
            let wanted = Wanted {
                batch: u64::from(*batch),
                length: length.map(u64::from),
                ..Wanted::default()
            };
            let result = match &model.inputs {
                // Their shapes are in the files.
                InputSource::Files { .. } => meaning.check(&wanted),
                InputSource::Synthetic(_) => meaning.shapes(&wanted).map(drop),
            };
            if let Err(obstacle) = result {
                self.obstacles.insert((position, precision, (*batch, *length)), obstacle);
            }
        }
        Ok(())
    }

    /// Returns the meaning of the axes of a model, if its file tells its inputs.
    pub(crate) fn axes(&self, model: usize) -> Option<&AxesUse> {
        self.axes.get(&model)
    }

    /// Returns the obstacle of a cell.
    pub(crate) fn of(
        &self,
        model: usize,
        precision: Precision,
        extent: Extent,
    ) -> Option<&AxisObstacle> {
        self.obstacles.get(&(model, precision, extent))
    }
}

fn check_trip_counts(model: &Model, file: &FileId, facts: &Facts) -> Result<(), PlanError> {
    let values = drawn_values(model, file, facts);
    let model = || model.id.clone();
    for (input, values) in values {
        match values {
            LegalValues::Steers => return Err(PlanError::Steers { model: model(), input }),
            LegalValues::Computed { entries, operator } => {
                return Err(PlanError::Computed { model: model(), input, entries, operator });
            }
            _ => {}
        }
    }
    Ok(())
}
