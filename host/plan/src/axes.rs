//! From the experiment's matrix to numbered values and blocks of them.

use std::collections::BTreeMap;

use host_manifest::{DeviceChoice, Experiment, PartialCell};
use host_record::{
    CaseKey, DeviceInfo, Find, Gap, Mode, PluginIdentity, Precision, Rate, Scenario,
};

use crate::cells::{Axis, Bits, Block, Cell, Cells, Exclusion};
use crate::error::PlanError;
use crate::facts::{BackendFacts, Facts};
use crate::obstacles::Extent;

/// Different values, numbered in the order in which they were met.
#[derive(Debug, Clone)]
struct Numbered<T> {
    values: Vec<T>,
    numbers: BTreeMap<T, u32>,
}

impl<T: Clone + Ord> Numbered<T> {
    fn new() -> Self {
        Self { values: Vec::new(), numbers: BTreeMap::new() }
    }

    fn number(&mut self, value: &T) -> u32 {
        if let Some(number) = self.numbers.get(value) {
            return *number;
        }
        let number = u32::try_from(self.values.len()).expect("an axis is shorter than 2³² values");
        self.values.push(value.clone());
        self.numbers.insert(value.clone(), number);
        number
    }
}

/// A backend with one of its devices. The two form one axis, because each backend has its own
/// devices.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// Position of the backend in the experiment.
    pub(crate) backend: usize,
    /// The device's id, or the manifest's text if no device could be resolved.
    pub(crate) device: String,
    /// The device found, or the reason why there is none.
    pub(crate) found: Result<Found, Gap>,
}

/// A plugin and a device that it sees.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) plugin: PluginIdentity,
    pub(crate) device: DeviceInfo,
    /// The runtime that the backend asks for and that is missing.
    pub(crate) lacks: Option<Gap>,
}

/// Values behind the numbers of a cell.
#[derive(Debug, Clone)]
pub(crate) struct Values {
    places: Vec<Place>,
    batch: Vec<u32>,
    sequence_length: Vec<Option<u32>>,
    load: Vec<Load>,
}

/// A scenario with the rate or the clients that it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Load {
    pub(crate) scenario: Scenario,
    pub(crate) rate: Option<Rate>,
    pub(crate) clients: Option<u32>,
}

/// A cell, spelled out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Coordinates<'a> {
    /// Position of the model in the experiment.
    pub(crate) model: usize,
    pub(crate) place: &'a Place,
    pub(crate) precision: Precision,
    pub(crate) batch: u32,
    pub(crate) sequence_length: Option<u32>,
    pub(crate) mode: Mode,
    pub(crate) load: Load,
}

impl Coordinates<'_> {
    /// Returns the sizes that the cell asks of the model's axes.
    pub(crate) fn extent(&self) -> Extent {
        (self.batch, self.sequence_length)
    }

    /// Returns the key of a case of a model and a backend.
    pub(crate) fn key(&self, model: &str, backend: &str) -> CaseKey {
        let Self { place, precision, batch, sequence_length, mode, load, .. } = *self;
        let Load { scenario, rate, clients } = load;
        CaseKey {
            precision,
            batch,
            sequence_length,
            mode,
            scenario,
            rate,
            clients,
            ..CaseKey::new(model, backend, &place.device)
        }
    }
}

impl Values {
    /// Returns all sizes that a cell may ask of a model's axes.
    pub(crate) fn extents(&self) -> Vec<Extent> {
        let lengths = &self.sequence_length;
        let pairs =
            self.batch.iter().flat_map(|batch| lengths.iter().map(move |length| (*batch, *length)));
        pairs.collect()
    }

    /// Returns the backends with their devices, by their number.
    pub(crate) fn places(&self) -> &[Place] {
        &self.places
    }

    /// Returns the coordinates behind a cell's numbers.
    pub(crate) fn coordinates(&self, cell: Cell) -> Coordinates<'_> {
        let [model, place, precision, batch, sequence_length, mode, load] =
            cell.map(|number| number as usize);
        Coordinates {
            model,
            place: &self.places[place],
            precision: Precision::ALL[precision],
            batch: self.batch[batch],
            sequence_length: self.sequence_length[sequence_length],
            mode: Mode::ALL[mode],
            load: self.load[load],
        }
    }
}

/// Numbers the values of an experiment's matrix.
pub(crate) fn cells(experiment: &Experiment, facts: &Facts) -> Result<(Values, Cells), PlanError> {
    let mut axes = Axes {
        experiment,
        facts: experiment
            .backends
            .iter()
            .map(|backend| {
                let facts = facts.backends.get(&backend.id);
                facts.ok_or_else(|| PlanError::UnknownBackend(backend.id.clone()))
            })
            .collect::<Result<_, _>>()?,
        places: Vec::new(),
        place_numbers: BTreeMap::new(),
        batch: Numbered::new(),
        sequence_length: Numbered::new(),
        load: Numbered::new(),
    };
    let matrix = &experiment.matrix;
    // The matrix itself is the include that leaves everything out.
    let blocks = std::iter::once(&PartialCell::default())
        .chain(&matrix.include)
        .map(|cell| axes.block(cell))
        .collect::<Result<_, _>>()?;
    let exclusions =
        matrix.exclude.iter().map(|cell| axes.exclusion(cell)).collect::<Result<_, _>>()?;
    let values = Values {
        places: axes.places,
        batch: axes.batch.values,
        sequence_length: axes.sequence_length.values,
        load: axes.load.values,
    };
    Ok((values, Cells { blocks, exclusions }))
}

struct Axes<'a> {
    experiment: &'a Experiment,
    /// By position of the backend.
    facts: Vec<&'a BackendFacts>,
    places: Vec<Place>,
    place_numbers: BTreeMap<(usize, String), u32>,
    batch: Numbered<u32>,
    sequence_length: Numbered<Option<u32>>,
    load: Numbered<Load>,
}

/// Returns `own` unless it is empty, else `others`.
fn either<'a, T>(own: &'a [T], others: &'a [T]) -> &'a [T] {
    if own.is_empty() { others } else { own }
}

impl Axes<'_> {
    fn model(&self, id: &str) -> Result<usize, PlanError> {
        let position = self.experiment.models.iter().position(|model| model.id == id);
        position.ok_or_else(|| PlanError::UnknownModel(id.to_owned()))
    }

    fn backend(&self, id: &str) -> Result<usize, PlanError> {
        let position = self.experiment.backends.iter().position(|backend| backend.id == id);
        position.ok_or_else(|| PlanError::UnknownBackend(id.to_owned()))
    }

    /// Returns the number of a backend's device.
    fn place(&mut self, backend: usize, choice: &DeviceChoice) -> u32 {
        let (device, found) = self.find(backend, choice);
        let next = u32::try_from(self.places.len()).expect("an axis is shorter than 2³² values");
        let number = *self.place_numbers.entry((backend, device.clone())).or_insert(next);
        if number == next {
            self.places.push(Place { backend, device, found });
        }
        number
    }

    fn find(&self, backend: usize, choice: &DeviceChoice) -> (String, Result<Found, Gap>) {
        find(&self.experiment.backends[backend].id, self.facts[backend], choice)
    }

    /// Returns the cells that an include adds.
    fn block(&mut self, cell: &PartialCell) -> Result<Block, PlanError> {
        let experiment = self.experiment;
        let matrix = &experiment.matrix;
        let models = either(&cell.model, &matrix.model)
            .iter()
            .map(|id| self.model(id).map(|position| position as u32))
            .collect::<Result<Axis, _>>()?;
        let mut places = Vec::new();
        for id in either(&cell.backend, &matrix.backend) {
            let backend = self.backend(id)?;
            for choice in either(&cell.device, &experiment.backends[backend].devices) {
                places.push(self.place(backend, choice));
            }
        }
        let lengths = either(&cell.sequence_length, &matrix.sequence_length);
        let lengths: Vec<_> = if lengths.is_empty() {
            vec![None]
        } else {
            lengths.iter().copied().map(Some).collect()
        };
        Ok(Block([
            models,
            places.into_iter().collect(),
            either(&cell.precision, &matrix.precision).iter().map(|value| *value as u32).collect(),
            either(&cell.batch, &matrix.batch)
                .iter()
                .map(|batch| self.batch.number(batch))
                .collect(),
            lengths.iter().map(|length| self.sequence_length.number(length)).collect(),
            either(&cell.mode, &matrix.mode).iter().map(|value| *value as u32).collect(),
            self.loads(cell).iter().map(|load| self.load.number(load)).collect(),
        ]))
    }

    /// Returns each scenario, once for each rate or number of clients if it takes one.
    fn loads(&self, cell: &PartialCell) -> Vec<Load> {
        let Experiment { matrix, measure, .. } = self.experiment;
        let mut loads = Vec::new();
        for &scenario in either(&cell.scenario, &matrix.scenario) {
            let plain = Load { scenario, rate: None, clients: None };
            let rates = either(&cell.rate, &matrix.rate).iter().map(|rate| Some(*rate));
            let clients = either(&cell.clients, &matrix.clients).iter().map(|count| Some(*count));
            match scenario {
                Scenario::Server | Scenario::ConstantRate => match measure.find {
                    Some(Find::MaxRate) => loads.push(plain),
                    None => loads.extend(rates.map(|rate| Load { rate, ..plain })),
                },
                Scenario::ClosedLoop => {
                    loads.extend(clients.map(|clients| Load { clients, ..plain }));
                }
                Scenario::SingleStream | Scenario::MultiStream | Scenario::Offline => {
                    loads.push(plain);
                }
            }
        }
        loads
    }

    /// Returns what an exclude matches, among the values of the blocks.
    fn exclusion(&self, cell: &PartialCell) -> Result<Exclusion, PlanError> {
        let models = cell
            .model
            .iter()
            .map(|id| self.model(id).map(|position| position as u32))
            .collect::<Result<Bits, _>>()?;
        let backends =
            cell.backend.iter().map(|id| self.backend(id)).collect::<Result<Vec<_>, _>>()?;
        let places = self
            .places
            .iter()
            .filter(|place| backends.is_empty() || backends.contains(&place.backend))
            .filter(|place| {
                let is = |choice| self.find(place.backend, choice).0 == place.device;
                cell.device.is_empty() || cell.device.iter().any(is)
            })
            .map(|place| self.place_numbers[&(place.backend, place.device.clone())])
            .collect();
        let batch = cell.batch.iter().filter_map(|batch| self.batch.numbers.get(batch).copied());
        let lengths = cell
            .sequence_length
            .iter()
            .filter_map(|length| self.sequence_length.numbers.get(&Some(*length)).copied());
        let loads = self.load.numbers.iter().filter_map(|(load, number)| {
            let among = |rate: &Rate| cell.rate.contains(rate);
            let matches = (cell.scenario.is_empty() || cell.scenario.contains(&load.scenario))
                && (cell.rate.is_empty() || load.rate.as_ref().is_some_and(among))
                && (cell.clients.is_empty()
                    || load.clients.is_some_and(|count| cell.clients.contains(&count)));
            matches.then_some(*number)
        });
        Ok(Exclusion([
            (!cell.model.is_empty()).then_some(models),
            (!cell.backend.is_empty() || !cell.device.is_empty()).then_some(places),
            (!cell.precision.is_empty())
                .then(|| cell.precision.iter().map(|value| *value as u32).collect()),
            (!cell.batch.is_empty()).then(|| batch.collect()),
            (!cell.sequence_length.is_empty()).then(|| lengths.collect()),
            (!cell.mode.is_empty()).then(|| cell.mode.iter().map(|value| *value as u32).collect()),
            (!cell.scenario.is_empty() || !cell.rate.is_empty() || !cell.clients.is_empty())
                .then(|| loads.collect()),
        ]))
    }
}

/// Finds a device of a backend, or the name of a missing one.
pub(crate) fn find(
    id: &str,
    facts: &BackendFacts,
    choice: &DeviceChoice,
) -> (String, Result<Found, Gap>) {
    let text = || choice.text().to_owned();
    let (plugin, devices, lacks) = match facts {
        BackendFacts::Missing(gap) => return (text(), Err(gap.clone())),
        BackendFacts::Ready { plugin, devices, lacks } => (plugin, devices, lacks),
    };
    let device = match choice {
        DeviceChoice::Auto => devices.first(),
        DeviceChoice::Id(id) => devices.iter().find(|device| device.id == *id),
    };
    match device {
        Some(device) => {
            let (plugin, lacks) = (plugin.clone(), lacks.clone());
            let found = Found { plugin, device: device.clone(), lacks };
            (device.id.clone(), Ok(found))
        }
        None => {
            let gap = Gap::DeviceMissing {
                backend: id.to_owned(),
                device: match choice {
                    DeviceChoice::Auto => None,
                    DeviceChoice::Id(device) => Some(device.clone()),
                },
                found: devices.iter().map(|device| device.id.clone()).collect(),
                backend_message: None,
            };
            (text(), Err(gap))
        }
    }
}
