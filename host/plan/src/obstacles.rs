//! Which cells a model's axes cannot have, as far as its file tells.

use std::collections::BTreeMap;

use host_manifest::{Experiment, Model};
use host_model::{Meaning, Sizes, Wanted};
use host_record::{
    AxesUse, AxisObstacle, FileId, InputSource, LegalValues, ModelStructure, Port, Precision,
    Signature,
};

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
    /// Sizes of inputs and outputs.
    traffic: BTreeMap<(usize, Precision, Extent), Traffic>,
    /// Reasons why the manifest does not fit a model, whatever the cell.
    pub(crate) errors: Vec<PlanError>,
}

impl Obstacles {
    /// Finds the obstacles of all models, for cells of these extents.
    pub(crate) fn new(experiment: &Experiment, facts: &Facts, extents: &[Extent]) -> Self {
        let mut found = Self::default();
        let matrix = &experiment.matrix;
        let modes = matrix.mode.iter().chain(matrix.include.iter().flat_map(|cell| &cell.mode));
        let further: Vec<&str> = modes.filter_map(|mode| mode.further_input()).collect();
        for (position, model) in experiment.models.iter().enumerate() {
            for precision in Precision::ALL {
                let file = facts.models.get(&model.id).and_then(|files| files.get(*precision));
                let structure = file.and_then(|file| facts.structures.get(file));
                let (Some(file), Some(structure)) = (file, structure) else { continue };
                let Some(signature) = &structure.signature else { continue };
                let mut new = wrong_inputs(model, signature, structure, &further);
                new.extend(steering(model, file, structure, facts));
                let place = (position, *precision);
                if let Err(error) = found.add(place, model, signature, structure, extents) {
                    new.push(error);
                }
                // Files of other precisions have the same inputs.
                new.retain(|error| !found.errors.contains(error));
                found.errors.append(&mut new);
            }
        }
        found
    }

    fn add(
        &mut self,
        (position, precision): (usize, Precision),
        model: &Model,
        signature: &Signature,
        structure: &ModelStructure,
        extents: &[Extent],
    ) -> Result<(), PlanError> {
        let mut dimensions = model.inputs.dimensions();
        // The others are errors of their own.
        dimensions.retain(|name, _| signature.inputs.iter().any(|port| port.name == *name));
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
            let place = (position, precision, (*batch, *length));
            let result = match &model.inputs {
                // Their shapes are in the files.
                InputSource::Files { .. } => meaning.check(&wanted).map(|()| None),
                InputSource::Synthetic(_) => meaning.shapes(&wanted).map(Some),
            };
            match result {
                Ok(None) => {}
                Ok(Some(inputs)) => {
                    let inputs = inputs.into_iter().map(Some);
                    let outputs = meaning.output_shapes(&wanted).unwrap_or_default();
                    let traffic = Traffic {
                        inputs_bytes: bytes(structure, &signature.inputs, inputs),
                        outputs_bytes: bytes(structure, &signature.outputs, outputs),
                    };
                    self.traffic.insert(place, traffic);
                }
                Err(obstacle) => drop(self.obstacles.insert(place, obstacle)),
            }
        }
        Ok(())
    }

    /// Returns the meaning of the axes of a model, if its file tells its inputs.
    pub(crate) fn axes(&self, model: usize) -> Option<&AxesUse> {
        self.axes.get(&model)
    }

    /// Returns the sizes of the inputs and outputs of a query, if the file tells them.
    pub(crate) fn traffic(
        &self,
        model: usize,
        precision: Precision,
        extent: Extent,
    ) -> Option<Traffic> {
        self.traffic.get(&(model, precision, extent)).copied()
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

/// Sizes of the inputs and outputs of a query.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Traffic {
    pub(crate) inputs_bytes: u64,
    pub(crate) outputs_bytes: u64,
}

impl Traffic {
    pub(crate) fn total(self) -> u64 {
        self.inputs_bytes.saturating_add(self.outputs_bytes)
    }
}

/// Returns the size of values whose shapes and types are known; others count as nothing.
fn bytes(
    structure: &ModelStructure,
    ports: &[Port],
    shapes: impl IntoIterator<Item = Option<Vec<u64>>>,
) -> u64 {
    let size = |(port, shape): (&Port, Option<Vec<u64>>)| {
        let bits = *structure.element_bits.get(&port.name)?;
        let elements = shape?.into_iter().fold(1, u64::saturating_mul);
        Some(
            u64::try_from((u128::from(elements) * u128::from(bits)).div_ceil(8))
                .unwrap_or(u64::MAX),
        )
    };
    ports.iter().zip(shapes).filter_map(size).fold(0, u64::saturating_add)
}

/// Whether the manifest fits the models in the cells that there are, and which batches and lengths fit one.
#[derive(Debug, Default)]
pub(crate) struct Fits {
    /// Obstacles that are errors of the manifest, with their models. Open axes of a model are together.
    wrong: Vec<(usize, AxisObstacle)>,
    /// The first obstacle of each batch, with its model; `None` if a cell has it.
    batches: BTreeMap<u32, Option<(usize, AxisObstacle)>>,
    lengths: BTreeMap<u32, Option<(usize, AxisObstacle)>>,
}

impl Fits {
    /// Adds a cell of a model.
    pub(crate) fn add(
        &mut self,
        model: usize,
        (batch, length): Extent,
        obstacle: Option<&AxisObstacle>,
    ) {
        if let Some(obstacle) = obstacle.filter(|obstacle| !obstacle.is_gap()) {
            self.add_wrong(model, obstacle);
        }
        let of_batch = obstacle.filter(|obstacle| {
            matches!(obstacle, AxisObstacle::NoBatchAxis { .. } | AxisObstacle::FixedBatch { .. })
        });
        note(&mut self.batches, batch, model, of_batch);
        // With an obstacle of the batch, the length was not looked at.
        if let (Some(length), None) = (length, of_batch) {
            note(&mut self.lengths, length, model, obstacle.filter(|obstacle| obstacle.is_gap()));
        }
    }

    fn add_wrong(&mut self, model: usize, obstacle: &AxisObstacle) {
        if let AxisObstacle::Open { axes } = obstacle {
            for (of, known) in &mut self.wrong {
                if let AxisObstacle::Open { axes: known } = known
                    && *of == model
                {
                    let new: Vec<_> = axes.iter().filter(|axis| !known.contains(axis)).collect();
                    known.extend(new.into_iter().cloned());
                    return;
                }
            }
        }
        if !self.wrong.iter().any(|known| known.0 == model && known.1 == *obstacle) {
            self.wrong.push((model, obstacle.clone()));
        }
    }

    /// Returns an error for each model that the manifest does not fit, and for each batch and each length that no cell
    /// can have.
    pub(crate) fn errors(self, id: impl Fn(usize) -> String) -> Vec<PlanError> {
        let wrong = self.wrong.into_iter().map(|(model, obstacle)| PlanError::Axes {
            model: id(model),
            obstacle: Box::new(obstacle),
        });
        let batches = self.batches.into_iter().map(|(size, it)| (format!("batch {size}"), it));
        let lengths =
            self.lengths.into_iter().map(|(size, it)| (format!("sequence length {size}"), it));
        let misfits = batches.chain(lengths).filter_map(|(value, obstacle)| {
            let (model, obstacle) = obstacle?;
            let obstacle = Box::new(obstacle);
            Some(PlanError::FitsNone { value, model: id(model), obstacle })
        });
        wrong.chain(misfits).collect()
    }
}

fn note(
    known: &mut BTreeMap<u32, Option<(usize, AxisObstacle)>>,
    size: u32,
    model: usize,
    obstacle: Option<&AxisObstacle>,
) {
    match obstacle {
        None => drop(known.insert(size, None)),
        Some(obstacle) => {
            known.entry(size).or_insert_with(|| Some((model, obstacle.clone())));
        }
    }
}

/// Returns the inputs that a manifest names and the model lacks, those that it forgets, and those that it draws
/// beyond the table that they are looked up in. A mode of the matrix may have further inputs.
fn wrong_inputs(
    model: &Model,
    signature: &Signature,
    structure: &ModelStructure,
    further: &[&str],
) -> Vec<PlanError> {
    let id = || model.id.clone();
    let known: Vec<_> = signature.inputs.iter().map(|port| port.name.clone()).collect();
    let drawn = model.inputs.drawn();
    let files = match &model.inputs {
        InputSource::Files { inputs, .. } => Some(inputs),
        InputSource::Synthetic(_) => None,
    };
    let named = drawn.keys().chain(files.into_iter().flat_map(BTreeMap::keys));
    let is_unknown = |name: &&String| !known.contains(name) && !further.contains(&name.as_str());
    let unknown = named.filter(is_unknown).map(|input| PlanError::UnknownInput {
        model: id(),
        input: input.clone(),
        known: known.clone(),
    });
    let has_source = |name: &String| {
        files.is_none_or(|files| files.contains_key(name) || drawn.contains_key(name))
    };
    let forgotten = known.iter().filter(|name| !has_source(name));
    let forgotten = forgotten.map(|input| PlanError::NoFile { model: id(), input: input.clone() });
    let beyond = drawn.iter().filter_map(|(input, given)| {
        let (low, high) = given.range()?;
        let entries = match structure.values.get(input)? {
            LegalValues::Index { entries, .. } => *entries,
            LegalValues::Positions { entries } => (*entries)?,
            LegalValues::Below { .. }
            | LegalValues::Computed { .. }
            | LegalValues::Ones
            | LegalValues::Steers => return None,
        };
        // A negative index counts from the end.
        let most = entries as f64;
        (high >= most || low < -most).then(|| PlanError::BeyondTable {
            model: id(),
            input: input.clone(),
            low: low.to_string(),
            high: high.to_string(),
            entries,
        })
    });
    unknown.chain(forgotten).chain(beyond).collect()
}

/// Returns the inputs that the manifest has to give and does not: those that steer the model, and those that are computed
/// with before they are looked up.
fn steering(
    model: &Model,
    file: &FileId,
    structure: &ModelStructure,
    facts: &Facts,
) -> Vec<PlanError> {
    let model_id = || model.id.clone();
    let asked_for = |(input, values)| match values {
        LegalValues::Steers => {
            let is_truth = structure.truth_values.contains(&input);
            Some(PlanError::Steers { model: model_id(), input, is_truth })
        }
        LegalValues::Computed { entries, operator } => {
            Some(PlanError::Computed { model: model_id(), input, entries, operator })
        }
        _ => None,
    };
    drawn_values(model, file, facts).into_iter().filter_map(asked_for).collect()
}
