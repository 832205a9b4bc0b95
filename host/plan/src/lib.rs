/*!
The plan: an experiment and the abilities of plugins and devices, turned into cases and gaps.

The crate is pure. The caller provides the [`Facts`]: hashes of files, and the available plugins and
devices. The plan is lazy: [`Plan::items`] enumerates the cells of the matrix one by one, so a
million cases need no more memory than ten.

A cell whose plugin, device or precision is missing is not dropped: it becomes a gap with a
reason, and appears as such in the results.

Rules:

- The cells are the product of the axes, then those of each `include`, without those of `exclude`;
  a cell that is reached twice appears once, at its first place.
- Cells come in the order of the axes, each in the manifest's order, the last one varying fastest.
- A cell that a model's axes cannot have (module `obstacles`) is a gap. A batch or a length that no model of
  the matrix can have, or a manifest that does not fit a model, is an error, and nothing is planned. All such errors
  are found at once.
- `limit` keeps the first so many cases, and the gaps among them.
- The device `auto` is the first device that the backend lists.
- The module `identity` documents case ids.
*/

mod axes;
mod cells;
mod error;
mod estimate;
mod facts;
mod identity;
mod obstacles;
mod pairs;
mod reference;

use std::collections::BTreeMap;

use host_manifest::{Backend, Experiment, Model};
use host_record::{
    AxesChoice, AxesUse, CaseKey, CaseSpec, DeviceInfo, FileId, Gap, InputSource, LegalValues,
    MeasureSettings, Mode, Order, Scenario, Unsupported,
};

use crate::axes::{Coordinates, Found, Values};
use crate::cells::{Cell, Cells};
pub use crate::error::{CELL_LIMIT, PlanError};
pub use crate::estimate::Estimate;
pub use crate::facts::{BackendFacts, Facts, ModelFacts};
use crate::identity::{BackendPart, ModelPart};
use crate::obstacles::{Fits, Obstacles, Traffic};
use crate::reference::PlannedReference;

/// Checks whether an experiment's matrix can be planned, as far as that is known without devices: it
/// has cells, and not too many.
///
/// # Errors
///
/// As [`Plan::new`].
pub fn check(experiment: &Experiment) -> Result<(), PlanError> {
    // No backend has been asked for devices.
    let unasked = |backend: &Backend| {
        let (backend, device, found) = (backend.id.clone(), None, Vec::new());
        let gap =
            Gap::DeviceMissing { backend: backend.clone(), device, found, backend_message: None };
        (backend, BackendFacts::Missing(gap))
    };
    let backends = experiment.backends.iter().map(unasked).collect();
    let (_, cells) = axes::cells(experiment, &Facts { backends, ..Facts::default() })?;
    within_limit(&cells)?;
    if cells.iter().next().is_none() {
        return Err(PlanError::Empty);
    }
    Ok(())
}

fn within_limit(cells: &Cells) -> Result<(), PlanError> {
    let size = cells.size();
    if size > CELL_LIMIT.into() { Err(PlanError::TooLarge { cells: size }) } else { Ok(()) }
}

/// An item of a plan in pairs.
#[derive(Debug, Clone, PartialEq)]
pub enum PlannedPair {
    /// Two cases to measure in turns: the first side, and the second.
    Pair([Box<CaseSpec>; 2]),
    /// A cell that cannot be run, or not in a pair.
    Gap(PlannedCase),
}

/// An item of a plan: a case, or a gap in its place.
#[derive(Debug, Clone, PartialEq)]
pub enum PlannedCase {
    /// A case that can be run.
    Case(Box<CaseSpec>),
    /// A cell that cannot be run here.
    Gap {
        /// The id that the case would have.
        case_id: String,
        /// Position in the plan, from 0, counted together with the cases.
        index: u64,
        /// Coordinates in the matrix. If no device could be resolved, `device` is the manifest's
        /// text.
        key: CaseKey,
        /// Reason for the gap.
        gap: Box<Gap>,
    },
}

impl PlannedCase {
    /// Returns the case's id.
    #[must_use]
    pub fn id(&self) -> &str {
        match self {
            Self::Case(case) => &case.id,
            Self::Gap { case_id, .. } => case_id,
        }
    }

    /// Returns the position in the plan, from 0.
    #[must_use]
    pub fn index(&self) -> u64 {
        match self {
            Self::Case(case) => case.index,
            Self::Gap { index, .. } => *index,
        }
    }

    /// Coordinates in the matrix.
    #[must_use]
    pub fn key(&self) -> &CaseKey {
        match self {
            Self::Case(case) => &case.key,
            Self::Gap { key, .. } => key,
        }
    }

    /// Returns the reason for the gap; `None` for a case that can run.
    #[must_use]
    pub fn gap(&self) -> Option<&Gap> {
        match self {
            Self::Case(_) => None,
            Self::Gap { gap, .. } => Some(gap),
        }
    }
}

/// Numbers of items in a plan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// Cases that can be run.
    pub cases: u64,
    /// Cells that cannot.
    pub gaps: u64,
}

impl Count {
    /// Returns the number of all items.
    #[must_use]
    pub fn total(self) -> u64 {
        self.cases + self.gaps
    }
}

/// A model as cases need it.
#[derive(Debug, Clone)]
struct PlannedModel {
    id: String,
    facts: ModelFacts,
    inputs: InputSource<FileId>,
    axes: AxesChoice,
    /// Sizes of weights, by the file.
    weights_bytes: BTreeMap<FileId, u64>,
    /// Legal values of inputs, by the file.
    values: BTreeMap<FileId, BTreeMap<String, LegalValues>>,
    identity: ModelPart,
}

impl PlannedModel {
    fn new(model: &Model, facts: &Facts) -> Result<Self, PlanError> {
        let known = facts.models.get(&model.id);
        let known = known.ok_or_else(|| PlanError::UnknownModel(model.id.clone()))?;
        let inputs = match &model.inputs {
            InputSource::Files { inputs, labels, drawn } => InputSource::Files {
                inputs: inputs
                    .iter()
                    .map(|(name, path)| (name.clone(), facts.file(path)))
                    .collect(),
                labels: labels.as_ref().map(|path| facts.file(path)),
                drawn: drawn.clone(),
            },
            InputSource::Synthetic(inputs) => InputSource::Synthetic(inputs.clone()),
        };
        Ok(Self {
            id: model.id.clone(),
            facts: known.clone(),
            inputs,
            axes: model.axes.clone(),
            weights_bytes: known
                .values()
                .filter_map(|file| Some((file.clone(), facts.structures.get(file)?.weights_bytes?)))
                .collect(),
            values: known
                .values()
                .filter_map(|file| Some((file.clone(), facts.structures.get(file)?.values.clone())))
                .collect(),
            identity: ModelPart::new(model, known, facts),
        })
    }
}

/// A backend as cases need it.
#[derive(Debug, Clone)]
struct PlannedBackend {
    backend: Backend,
    identity: BackendPart,
}

/// A plan: the cases and gaps of an experiment, made as they are asked for.
#[derive(Debug, Clone)]
pub struct Plan {
    models: Vec<PlannedModel>,
    backends: Vec<PlannedBackend>,
    values: Values,
    cells: Cells,
    reference: Option<PlannedReference>,
    obstacles: Obstacles,
    measure: MeasureSettings,
    /// The canonical text of `measure`, for each scenario and mode.
    measure_identity: Vec<((Scenario, Mode), String)>,
    /// The machine that the devices are of.
    machine: String,
    /// The memory that a process on it can get at most, if that is known.
    memory_bytes: Option<u64>,
    seed: u64,
    order: Order,
    count: Count,
    /// Cells up to the last one that the limit keeps; `None` keeps all.
    end: Option<usize>,
    /// Cases that the limit leaves out.
    left_out: u64,
    /// Cases that can be run and whose rate is searched.
    searched: u64,
}

impl Plan {
    /// Makes a plan.
    ///
    /// # Errors
    ///
    /// All that is wrong: the facts lack a model or backend, the matrix has no cell or too many, or the
    /// experiment does not fit a model.
    pub fn new(experiment: &Experiment, facts: Facts) -> Result<Self, Vec<PlanError>> {
        let _span = tracing::debug_span!("plan", experiment = experiment.name).entered();
        let (values, cells) = axes::cells(experiment, &facts).map_err(one)?;
        within_limit(&cells).map_err(one)?;
        let obstacles = Obstacles::new(experiment, &facts, &values.extents());
        let mut errors = obstacles.errors.clone();
        let reference = PlannedReference::new(experiment, &facts).unwrap_or_else(|error| {
            errors.push(error);
            None
        });
        let mut plan = Self {
            models: experiment
                .models
                .iter()
                .map(|model| PlannedModel::new(model, &facts))
                .collect::<Result<_, _>>()
                .map_err(one)?,
            backends: experiment
                .backends
                .iter()
                .map(|backend| PlannedBackend {
                    backend: backend.clone(),
                    identity: BackendPart::new(backend),
                })
                .collect(),
            values,
            cells,
            reference,
            obstacles,
            measure: experiment.measure.clone(),
            measure_identity: Scenario::ALL
                .iter()
                .flat_map(|scenario| Mode::ALL.iter().map(|mode| (*scenario, *mode)))
                .map(|of| (of, identity::measure_part(&experiment.measure, of.0, of.1)))
                .collect(),
            machine: facts.machine.clone(),
            memory_bytes: facts.memory_bytes,
            seed: experiment.seed,
            order: experiment.measure.order,
            count: Count::default(),
            end: None,
            left_out: 0,
            searched: 0,
        };
        let mut fits = Fits::default();
        let mut too_large = BTreeMap::new();
        for (index, place) in plan.cells.iter().enumerate() {
            let cell = plan.values.coordinates(place);
            let is_searched = cell.load.scenario.is_open_loop() && cell.load.rate.is_none();
            let obstacle = plan.obstacles.of(cell.model, cell.precision, cell.extent());
            fits.add(cell.model, cell.extent(), obstacle);
            if !too_large.contains_key(&cell.model)
                && let Some(error) = plan.beyond_memory(&cell, facts.memory_bytes)
            {
                too_large.insert(cell.model, error);
            }
            match plan.possible(place, &cell) {
                Ok(_) if experiment.matrix.limit.is_some_and(|most| plan.count.cases >= most) => {
                    plan.end = plan.end.or(Some(index));
                    plan.left_out += 1;
                }
                Ok(_) => {
                    plan.count.cases += 1;
                    plan.searched += u64::from(is_searched);
                }
                Err(_) if plan.end.is_some() => {}
                Err(_) => plan.count.gaps += 1,
            }
        }
        errors.extend(fits.errors(|model| plan.models[model].id.clone()));
        errors.extend(too_large.into_values());
        if !errors.is_empty() {
            return Err(errors);
        }
        if plan.count.total() == 0 {
            return Err(one(PlanError::Empty));
        }
        tracing::debug!(cases = plan.count.cases, gaps = plan.count.gaps, "planned");
        Ok(plan)
    }

    /// Returns the numbers of items.
    #[must_use]
    pub fn count(&self) -> Count {
        self.count
    }

    /// Returns the number of cases that the matrix's limit leaves out.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Returns the coordinates of the first case that the matrix's limit leaves out, if it leaves any out.
    #[must_use]
    pub fn first_left_out(&self) -> Option<CaseKey> {
        let cell = self.values.coordinates(self.cells.iter().nth(self.end?)?);
        let backend = &self.backends[cell.place.backend].backend;
        Some(cell.key(&self.models[cell.model].id, &backend.id))
    }

    /// Returns the estimated time to run, as far as the settings determine it.
    #[must_use]
    pub fn estimate(&self) -> Estimate {
        Estimate::new(self.count.cases, self.searched, &self.measure)
    }

    /// Returns the meaning of each model's axes, by the model's id. A model whose file does not tell its inputs is
    /// left out.
    pub fn axes(&self) -> impl Iterator<Item = (&str, &AxesUse)> {
        let models = self.models.iter().enumerate();
        models.filter_map(|(position, model)| {
            Some((model.id.as_str(), self.obstacles.axes(position)?))
        })
    }

    /// Returns the cases and gaps in order, each created on demand.
    pub fn items(&self) -> impl Iterator<Item = PlannedCase> + '_ {
        let mut text = String::new();
        (0..)
            .zip(self.cells.iter().take(self.end.unwrap_or(usize::MAX)))
            .map(move |(index, cell)| self.item(index, cell, &mut text))
    }

    /// Returns the number of processes in which each case is measured.
    #[must_use]
    pub fn processes_of_each(&self) -> u32 {
        self.measure.processes.max(1)
    }

    /// Returns everything to run, in order: each case once per process, and each gap once.
    pub fn processes(&self) -> Box<dyn Iterator<Item = PlannedCase> + '_> {
        let count = self.processes_of_each();
        let of_process = |item: PlannedCase, process: u32| match item {
            PlannedCase::Case(mut case) => {
                case.process = process;
                Some(PlannedCase::Case(case))
            }
            gap @ PlannedCase::Gap { .. } => (process == 0).then_some(gap),
        };
        match self.order {
            Order::Planned => Box::new(self.items().flat_map(move |item| {
                (0..count).filter_map(move |process| of_process(item.clone(), process))
            })),
            Order::Interleaved | Order::Paired => Box::new((0..count).flat_map(move |process| {
                self.items().filter_map(move |item| of_process(item, process))
            })),
        }
    }

    /// Returns the device and the file that run a cell, or the reason why none can, alone or in its pair.
    fn possible<'a>(
        &'a self,
        cell: Cell,
        coordinates: &Coordinates<'a>,
    ) -> Result<(&'a Found, &'a FileId), Gap> {
        let found = self.runnable(coordinates)?;
        self.pair_obstacle(cell, found).map_or(Ok(found), Err)
    }

    /// Returns the device and the file that run a cell, or the reason why none can.
    fn runnable<'a>(&'a self, cell: &Coordinates<'a>) -> Result<(&'a Found, &'a FileId), Gap> {
        let found = cell.place.found.as_ref().map_err(Clone::clone)?;
        if !found.device.precisions.contains(&cell.precision) {
            let backend = &self.backends[cell.place.backend].backend.id;
            let gap = || precision_gap(cell, backend, &found.device);
            return Err(found.lacks.clone().unwrap_or_else(gap));
        }
        if !found.device.modes.contains(&cell.mode) {
            return Err(Gap::Unsupported(Unsupported::Mode {
                backend: self.backends[cell.place.backend].backend.id.clone(),
                mode: cell.mode,
                offered: found.device.modes.clone(),
            }));
        }
        let model = &self.models[cell.model];
        let file = model.facts.get(cell.precision).ok_or_else(|| {
            let offered = model.facts.precisions().collect();
            Gap::ModelFileMissing { model: model.id.clone(), precision: cell.precision, offered }
        })?;
        if let Some(obstacle) = self.obstacles.of(cell.model, cell.precision, cell.extent()) {
            return Err(Unsupported::Axes { obstacle: obstacle.clone() }.into());
        }
        if let Some(limit_bytes) = self.measure.memory_limit_bytes {
            // The weights of other devices do not stay in the memory of the process, which the limit is about.
            let weights = model.weights_bytes.get(file).filter(|_| found.device.kind == "cpu");
            let weights_bytes = weights.copied().unwrap_or(0);
            let traffic = self.obstacles.traffic(cell.model, cell.precision, cell.extent());
            let traffic = traffic.filter(|_| weights_bytes <= limit_bytes);
            let all = weights_bytes.saturating_add(traffic.map_or(0, Traffic::total));
            if all > limit_bytes {
                let inputs_bytes = traffic.map(|traffic| traffic.inputs_bytes);
                let outputs_bytes = traffic.map(|traffic| traffic.outputs_bytes);
                let gap =
                    Unsupported::Memory { weights_bytes, inputs_bytes, outputs_bytes, limit_bytes };
                return Err(gap.into());
            }
        }
        Ok((found, file))
    }

    /// Returns the error of a cell whose inputs and outputs are larger than the machine's memory.
    fn beyond_memory(&self, cell: &Coordinates<'_>, memory: Option<u64>) -> Option<PlanError> {
        let traffic = self.obstacles.traffic(cell.model, cell.precision, cell.extent())?;
        let memory_bytes = memory.filter(|memory| traffic.total() > *memory)?;
        let (batch, length) = cell.extent();
        let length = length.map(|length| format!(" and sequence length {length}"));
        Some(PlanError::BeyondMemory {
            model: self.models[cell.model].id.clone(),
            extent: format!("batch {batch}{}", length.unwrap_or_default()),
            inputs_bytes: traffic.inputs_bytes,
            outputs_bytes: traffic.outputs_bytes,
            memory_bytes,
        })
    }

    fn item(&self, index: u64, place: Cell, text: &mut String) -> PlannedCase {
        let cell = &self.values.coordinates(place);
        let model = &self.models[cell.model];
        let PlannedBackend { backend, identity } = &self.backends[cell.place.backend];
        let key = cell.key(&model.id, &backend.id);
        let measure = self.measure_identity.iter().find(|(of, _)| *of == (key.scenario, key.mode));
        let measure = measure.map_or("", |(_, text)| text);
        identity::write_canonical(text, &key, &model.identity, identity, measure, self.seed);
        let id = identity::id(text);
        let (found, file) = match self.possible(place, cell) {
            Ok(runnable) => runnable,
            Err(gap) => return PlannedCase::Gap { case_id: id, index, key, gap: Box::new(gap) },
        };
        let check = self.reference.as_ref().map(|reference| {
            Box::new(reference.check(&key, &model.facts, file, &model.identity, self.seed))
        });
        let measure = of_case(&self.measure, &key);
        PlannedCase::Case(Box::new(CaseSpec {
            id,
            index,
            key,
            model: file.clone(),
            plugin: found.plugin.clone(),
            machine: self.machine.clone(),
            device: found.device.clone(),
            threads: backend.threads,
            options: backend.options.clone(),
            placement: backend.placement,
            environment: backend.environment.clone(),
            check,
            inputs: model.inputs.clone(),
            axes: model.axes.clone(),
            values: model.values.get(file).cloned().unwrap_or_default(),
            measure,
            seed: self.seed,
            process: 0,
            asked: None,
        }))
    }
}

fn one(error: PlanError) -> Vec<PlanError> {
    vec![error]
}

/// Returns the settings for a case. An `offline` query is the whole set of examples, so a latency limit does not apply
/// to it, and a model is trained and tested in training only.
fn of_case(settings: &MeasureSettings, key: &CaseKey) -> MeasureSettings {
    let mut settings = settings.clone();
    if key.scenario == Scenario::Offline {
        settings.latency_limit = None;
    }
    if key.mode != Mode::Training {
        (settings.epochs, settings.test_examples) = (None, None);
    }
    settings
}

/// Returns the reason why a device cannot run a cell's precision.
fn precision_gap(cell: &Coordinates<'_>, backend: &str, device: &DeviceInfo) -> Gap {
    Gap::PrecisionUnsupported {
        backend: backend.to_owned(),
        device: device.id.clone(),
        precision: cell.precision,
        offered: device.precisions.clone(),
    }
}
