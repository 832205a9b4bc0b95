/*!
The measured quantities of a case: one table for all that keeps, shows or computes with one.

A quantity is a number that the host takes for each case beside the times of queries, such as the
peak of its memory. It is declared once, in [`QUANTITIES`]: its name, unit and direction, the heading
that people read, where a record has it, and when it is a gap instead. The columns of the database and
of the view `cases`, the columns that metrics get, the metrics that state a quantity as it is, and the
tables of the terminal and of the reports are made from that. `docs/design/adding.md` lists the files
that a new quantity touches.
*/

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::conditions::{Conditions, Disturbance, MemoryUse, StageTimes};
use crate::device_state::{DeviceStates, Spread};
use crate::energy::DomainEnergy;
use crate::gap::{Gap, NotMeasured};
use crate::load::{Lateness, Pace};
use crate::model_card::ModelCard;
use crate::names::names;
use crate::outcome::{CaseRecord, Timings, WorkerReport};
use crate::peaks::Peaks;
use crate::results::Direction;
use crate::training::{Learning, LookingCost};

names! {
    /// Quantities that reports show together.
    Group {
        /// One-off times on the way to the first answer.
        Startup = "startup",
        /// Memory of the worker and the device.
        Memory = "memory",
        /// Energy over the measured part.
        Energy = "energy",
        /// Parts of the time of a whole query.
        Copies = "copies",
        /// Training steps with and without marks, and training epoch by epoch.
        Training = "training-passes",
        /// The device during the measurement.
        Device = "device",
        /// Interruptions during the measurement.
        Disturbance = "disturbance",
        /// Pace of an open loop.
        Load = "load",
        /// The clock and the harness's own cost.
        Clock = "clock",
        /// The model, the cost of a pass, and the peaks of the device.
        Model = "model",
    }
}

impl Group {
    /// Returns the heading of the group in reports.
    #[must_use]
    pub fn heading(self) -> &'static str {
        match self {
            Self::Startup => "From opening the plugin to the first answer",
            Self::Memory => "Memory",
            Self::Energy => "Energy over the measured part",
            Self::Copies => "Stages of a whole query",
            Self::Training => "Training beside the measured steps",
            Self::Device => "The device during measurement",
            Self::Disturbance => "Interruptions during measurement",
            Self::Load => "How the load was kept up",
            Self::Clock => "Clock and harness",
            Self::Model => "Model and cost of a pass",
        }
    }
}

/// Value of a quantity in a record, or the reason why there is none. `None` if the record has neither, as for
/// a case that did not finish.
pub type Measured<T> = Option<Result<T, Gap>>;

/// Source of a quantity in a record.
#[derive(Clone, Copy)]
pub enum Source {
    /// A whole number.
    Whole(fn(&CaseRecord) -> Measured<u64>),
    /// Another number.
    Real(fn(&CaseRecord) -> Measured<f64>),
}

/// Place of a metric in the summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shown {
    /// Its place: lower is further left.
    pub(crate) order: u8,
    /// Order in which columns are dropped on a narrow terminal: higher is sooner; 0 stays.
    pub gives_way: u8,
    /// Many machines cannot have it, such as the memory of a device without one beside the
    /// processor: it has no column if all cases have gaps.
    pub only_if_measured: bool,
}

impl Shown {
    /// Creates a place in the summary.
    #[must_use]
    pub const fn at(order: u8, gives_way: u8) -> Self {
        Self { order, gives_way, only_if_measured: false }
    }

    /// Returns this place, for metrics with a value only.
    #[must_use]
    pub const fn if_measured(self) -> Self {
        Self { only_if_measured: true, ..self }
    }
}

/// A measured quantity.
#[derive(Clone, Copy)]
pub struct Quantity {
    /// Its name, such as `peak-memory`: what metrics ask for.
    pub id: &'static str,
    /// Its unit by symbol: `ns`, `s`, `B`, `J`, `1/s`, `Hz`, `W`, `°C`, `FLOP`, `FLOP/s`, `B/s`, or `1` for a plain
    /// number.
    pub unit: &'static str,
    /// Which way is better.
    pub direction: Direction,
    /// The heading of its columns where people read.
    pub heading: &'static str,
    /// The quantities that reports show it with.
    pub group: Group,
    /// Its definition, for reference pages and for the metric that states it.
    pub definition: &'static str,
    /// Its source in a record.
    pub source: Source,
    /// The metric that passes it on unchanged, and its place in the summary.
    pub metric: Option<(&'static str, Option<Shown>)>,
}

impl Quantity {
    /// Returns the quantity of this name.
    #[must_use]
    pub fn named(id: &str) -> Option<&'static Self> {
        QUANTITIES.iter().find(|quantity| quantity.id == id)
    }

    /// Returns the quantities that a metric plugin passes on unchanged, with the names of its metrics.
    pub fn stated_by(plugin: &str) -> impl Iterator<Item = (&'static str, &'static Self)> {
        QUANTITIES.iter().filter_map(move |quantity| {
            let (metric, _) = quantity.metric?;
            (metric.split('.').next() == Some(plugin)).then_some((metric, quantity))
        })
    }

    /// Returns the name of its column in the database and in views: its own name with underscores, and the
    /// unit.
    #[must_use]
    pub fn column(&self) -> String {
        let unit = match self.unit {
            "ns" => "_ns",
            "s" => "_seconds",
            "B" => "_bytes",
            "J" => "_joules",
            "Hz" => "_hertz",
            "W" => "_watts",
            "°C" => "_celsius",
            "FLOP" => "_flop",
            "FLOP/s" => "_flop_per_second",
            "B/s" => "_bytes_per_second",
            _ => "",
        };
        format!("{}{unit}", self.id.replace('-', "_"))
    }

    /// Returns whether metrics can ask for it. Rates of open loops they get for each process apart.
    #[must_use]
    pub fn is_column(&self) -> bool {
        self.group != Group::Load
    }

    /// Returns the value of this quantity in a case.
    #[must_use]
    pub fn of(&self, record: &CaseRecord) -> Measured<f64> {
        match self.source {
            Source::Whole(of) => of(record).map(|found| found.map(|value| value as f64)),
            Source::Real(of) => of(record),
        }
    }
}

/// A quantity of a case as it is written to JSON.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct QuantityValue {
    /// The value in `unit`.
    pub value: Option<f64>,
    /// Unit by its symbol.
    pub unit: &'static str,
    /// `lower` or `higher` (is better), or `neutral`.
    pub direction: Direction,
    /// The reason why there is no value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gap: Option<Gap>,
}

impl CaseRecord {
    /// Returns the quantities with a value or a gap in the record, by name.
    #[must_use]
    pub fn quantities(&self) -> BTreeMap<&'static str, QuantityValue> {
        let entry = |quantity: &Quantity| {
            let found = quantity.of(self)?;
            let value = QuantityValue {
                value: found.as_ref().ok().copied(),
                unit: quantity.unit,
                direction: quantity.direction,
                gap: found.err(),
            };
            Some((quantity.id, value))
        };
        QUANTITIES.iter().filter_map(entry).collect()
    }
}

impl fmt::Debug for Quantity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.id)
    }
}

fn gap<T>(cause: NotMeasured) -> Measured<T> {
    Some(Err(cause.into()))
}

/// Returns the gap of a quantity that is newer than the record.
fn before<T>(quantity: &str) -> Measured<T> {
    gap(NotMeasured::BeforeRecorded { quantity: quantity.into() })
}

/// Returns a number, which a record may lack without a reason.
fn plain<T>(value: Option<T>) -> Measured<T> {
    value.map(Ok)
}

fn report<T>(of: impl FnOnce(&WorkerReport) -> Measured<T>, record: &CaseRecord) -> Measured<T> {
    of(record.report()?)
}

fn timing(record: &CaseRecord, of: fn(&Timings) -> Option<u64>) -> Measured<u64> {
    report(|report| plain(of(&report.timings)), record)
}

fn conditions(record: &CaseRecord) -> Option<&Conditions> {
    record.report().map(|report| &report.conditions)
}

fn memory<T>(record: &CaseRecord, of: impl FnOnce(&MemoryUse) -> Measured<T>) -> Measured<T> {
    of(conditions(record)?.memory.as_ref()?)
}

fn disturbance(record: &CaseRecord, of: fn(&Disturbance) -> Option<u64>) -> Measured<u64> {
    plain(of(conditions(record)?.disturbance.as_ref()?))
}

fn stage(record: &CaseRecord, of: fn(&StageTimes) -> f64) -> Measured<f64> {
    let stages = conditions(record)?.stages.as_ref()?;
    Some(stages.as_ref().map(of).map_err(Clone::clone))
}

fn looking(record: &CaseRecord, of: fn(&LookingCost) -> Option<f64>) -> Measured<f64> {
    match conditions(record)?.looking.as_ref()? {
        Ok(looking) => plain(of(looking)),
        Err(gap) => Some(Err(gap.clone())),
    }
}

fn learned(record: &CaseRecord, of: fn(&Learning) -> Option<f64>) -> Measured<f64> {
    match conditions(record)?.learning.as_ref()? {
        Ok(learning) => plain(of(learning)),
        Err(gap) => Some(Err(gap.clone())),
    }
}

fn device_state(
    record: &CaseRecord,
    of: fn(&DeviceStates) -> Option<Spread>,
    which: fn(&Spread) -> f64,
) -> Measured<f64> {
    match conditions(record)?.device_state.as_ref()? {
        Ok(states) => of(states).map(|spread| Ok(which(&spread))),
        Err(gap) => Some(Err(gap.clone())),
    }
}

fn lateness(record: &CaseRecord, of: fn(&Lateness) -> u64) -> Measured<u64> {
    plain(Some(of(&record.pace()?.lateness?)))
}

fn rate(record: &CaseRecord, of: fn(&Pace) -> Option<f64>) -> Measured<f64> {
    plain(of(&record.pace()?))
}

/// Returns the sum of the processor's energy counters for some of its domains.
fn processor_energy(
    record: &CaseRecord,
    is_part: fn(&DomainEnergy) -> bool,
    part: &str,
) -> Measured<f64> {
    let energy = conditions(record)?.energy.as_ref();
    let Some(energy) = energy else { return before("energy") };
    let domains = match &energy.processor {
        Ok(domains) => domains,
        Err(gap) => return Some(Err(gap.clone())),
    };
    let mut parts = domains.iter().filter(|domain| is_part(domain)).peekable();
    if parts.peek().is_none() {
        return gap(NotMeasured::NoEnergyDomain { domain: part.into() });
    }
    Some(Ok(parts.map(|domain| domain.joules).sum()))
}

/// Returns the seconds for which energy was counted: by the processor, or else by the device.
fn energy_time(record: &CaseRecord) -> Measured<f64> {
    let energy = conditions(record)?.energy.as_ref()?;
    let processor = energy.processor.as_deref().unwrap_or_default().first();
    plain(Some(processor.or(energy.device.as_ref().ok())?.seconds))
}

/// Returns the longest step of the processor's energy counters.
fn processor_step(record: &CaseRecord) -> Measured<f64> {
    let domains = conditions(record)?.energy.as_ref()?.processor.as_deref().unwrap_or_default();
    plain(domains.iter().filter_map(|domain| domain.step_seconds).reduce(f64::max))
}

fn device_step(record: &CaseRecord) -> Measured<f64> {
    plain(conditions(record)?.energy.as_ref()?.device.as_ref().ok()?.step_seconds)
}

fn device_energy(record: &CaseRecord) -> Measured<f64> {
    match &conditions(record)?.energy {
        Some(energy) => Some(energy.device.as_ref().map(|one| one.joules).map_err(Clone::clone)),
        None => before("energy"),
    }
}

fn allocator_peak(record: &CaseRecord) -> Measured<u64> {
    let memory = conditions(record)?.memory.as_ref();
    match memory.and_then(|memory| memory.allocator.as_ref()) {
        None => before("allocators"),
        Some(Err(gap)) => Some(Err(gap.clone())),
        Some(Ok(found)) => match found.peak_bytes {
            Some(bytes) => Some(Ok(bytes)),
            None => gap(NotMeasured::NoAllocatorPeak { allocator: found.name.clone() }),
        },
    }
}

fn average_memory(record: &CaseRecord) -> Measured<u64> {
    memory(record, |memory| match memory.average_bytes {
        None if memory.average_of == 0 => gap(NotMeasured::TooShortToSample),
        average => plain(average),
    })
}

fn card<T>(record: &CaseRecord, of: fn(&ModelCard) -> Result<T, Gap>) -> Measured<T> {
    match conditions(record)?.model.as_ref()?.card.as_ref()? {
        Ok(card) => Some(of(card)),
        Err(gap) => Some(Err(gap.clone())),
    }
}

fn peak(record: &CaseRecord, of: fn(&Peaks) -> &Result<f64, Gap>) -> Measured<f64> {
    match conditions(record)?.peaks.as_ref()? {
        Ok(peaks) => Some(of(peaks).clone()),
        Err(gap) => Some(Err(gap.clone())),
    }
}

use Direction::{Higher, Lower, Neutral};
use Source::{Real, Whole};

/// All quantities, group by group, in the order in which they are shown.
pub const QUANTITIES: &[Quantity] = &[
    Quantity {
        id: "open-time",
        unit: "ns",
        direction: Lower,
        heading: "open",
        group: Group::Startup,
        definition: "time to open the plugin's library",
        source: Whole(|record| timing(record, |timings| timings.open_ns)),
        metric: Some(("startup.open", None)),
    },
    Quantity {
        id: "load-time",
        unit: "ns",
        direction: Lower,
        heading: "load",
        group: Group::Startup,
        definition: "time to load the model",
        source: Whole(|record| timing(record, |timings| timings.load_ns)),
        metric: Some(("startup.load", None)),
    },
    Quantity {
        id: "model-cached",
        unit: "1",
        direction: Neutral,
        heading: "model in memory before",
        group: Group::Startup,
        definition: "part of the pages of all the model's files that were in memory just before it was loaded",
        source: Real(|record| plain(conditions(record)?.model_cached)),
        metric: None,
    },
    Quantity {
        id: "prepare-time",
        unit: "ns",
        direction: Lower,
        heading: "prepare",
        group: Group::Startup,
        definition: "time to prepare the model: to optimise and compile",
        source: Whole(|record| timing(record, |timings| timings.prepare_ns)),
        metric: Some(("startup.prepare", None)),
    },
    Quantity {
        id: "first-run-time",
        unit: "ns",
        direction: Lower,
        heading: "first run",
        group: Group::Startup,
        definition: "time of the first run",
        source: Whole(|record| timing(record, |timings| timings.first_run_ns)),
        metric: Some(("startup.first-inference", None)),
    },
    Quantity {
        id: "peak-memory",
        unit: "B",
        direction: Lower,
        heading: "peak memory",
        group: Group::Memory,
        definition: "highest resident memory of the worker, or of the worker and the processes that it started, \
                     which is sampled; of several processes of a case, the highest of all",
        source: Whole(|record| plain(record.reports().filter_map(|it| it.peak_memory_bytes).max())),
        metric: Some(("memory.peak", Some(Shown::at(30, 3)))),
    },
    Quantity {
        id: "baseline-memory",
        unit: "B",
        direction: Neutral,
        heading: "baseline memory",
        group: Group::Memory,
        definition: "resident memory of the worker just before the plugin was opened",
        source: Whole(|record| report(|report| plain(report.baseline_memory_bytes), record)),
        metric: Some(("memory.baseline", None)),
    },
    Quantity {
        id: "average-memory",
        unit: "B",
        direction: Lower,
        heading: "average memory",
        group: Group::Memory,
        definition: "mean resident memory of the worker and the processes that it started while it measured",
        source: Whole(average_memory),
        metric: Some(("memory.average", None)),
    },
    Quantity {
        id: "proportional-memory",
        unit: "B",
        direction: Lower,
        heading: "proportional memory",
        group: Group::Memory,
        definition: "resident memory of the worker alone just after measuring, pages that processes share \
                     divided among them",
        source: Whole(|record| memory(record, |memory| plain(memory.proportional_bytes))),
        metric: Some(("memory.proportional", None)),
    },
    Quantity {
        id: "device-memory",
        unit: "B",
        direction: Lower,
        heading: "device memory",
        group: Group::Memory,
        definition: "peak device memory of the worker, by the backend",
        source: Whole(|record| memory(record, |memory| memory.device_peak_bytes.clone())),
        metric: Some(("memory.device-peak", Some(Shown::at(31, 2).if_measured()))),
    },
    Quantity {
        id: "device-allocator",
        unit: "B",
        direction: Lower,
        heading: "allocator's memory",
        group: Group::Memory,
        definition: "peak device memory of the engine's own allocator",
        source: Whole(allocator_peak),
        metric: Some(("memory.allocator-peak", Some(Shown::at(32, 5).if_measured()))),
    },
    Quantity {
        id: "package-energy",
        unit: "J",
        direction: Lower,
        heading: "processor energy",
        group: Group::Energy,
        definition: "energy of the processors' packages, including other work on them",
        source: Real(|record| {
            let is_package =
                |one: &DomainEnergy| one.domain.starts_with("package") && !one.domain.contains('/');
            processor_energy(record, is_package, "package")
        }),
        metric: None,
    },
    Quantity {
        id: "memory-energy",
        unit: "J",
        direction: Lower,
        heading: "memory energy",
        group: Group::Energy,
        definition: "energy of the memory, by the processors' counters",
        source: Real(|record| {
            let is_memory = |one: &DomainEnergy| one.domain.ends_with("/dram");
            processor_energy(record, is_memory, "memory")
        }),
        metric: None,
    },
    Quantity {
        id: "device-energy",
        unit: "J",
        direction: Lower,
        heading: "device energy",
        group: Group::Energy,
        definition: "energy of the whole device, by the backend",
        source: Real(device_energy),
        metric: None,
    },
    Quantity {
        id: "energy-time",
        unit: "s",
        direction: Neutral,
        heading: "counted for",
        group: Group::Energy,
        definition: "time over which energy was counted",
        source: Real(energy_time),
        metric: None,
    },
    Quantity {
        id: "processor-energy-step",
        unit: "s",
        direction: Neutral,
        heading: "processor counter's step",
        group: Group::Energy,
        definition: "time between two changes of the processors' energy counters, measured just afterwards",
        source: Real(processor_step),
        metric: None,
    },
    Quantity {
        id: "device-energy-step",
        unit: "s",
        direction: Neutral,
        heading: "device counter's step",
        group: Group::Energy,
        definition: "time between two changes of the device's energy counter, measured just afterwards",
        source: Real(device_step),
        metric: None,
    },
    Quantity {
        id: "copy-in-time",
        unit: "ns",
        direction: Lower,
        heading: "copy in",
        group: Group::Copies,
        definition: "mean time of a query's copies to the device, measured separately",
        source: Real(|record| stage(record, |stages| stages.copy_in_ns)),
        metric: None,
    },
    Quantity {
        id: "compute-time",
        unit: "ns",
        direction: Lower,
        heading: "compute",
        group: Group::Copies,
        definition: "mean time of a query's computation, measured separately",
        source: Real(|record| stage(record, |stages| stages.compute_ns)),
        metric: None,
    },
    Quantity {
        id: "copy-out-time",
        unit: "ns",
        direction: Lower,
        heading: "copy out",
        group: Group::Copies,
        definition: "mean time of a query's copies from the device, measured separately",
        source: Real(|record| stage(record, |stages| stages.copy_out_ns)),
        metric: None,
    },
    Quantity {
        id: "marked-step-time",
        unit: "ns",
        direction: Lower,
        heading: "step with marks",
        group: Group::Training,
        definition: "mean time of a training step in which the device is waited for after each phase, in turns with \
                     steps without marks",
        source: Real(|record| looking(record, |looking| Some(looking.marked_ns))),
        metric: None,
    },
    Quantity {
        id: "unmarked-step-time",
        unit: "ns",
        direction: Lower,
        heading: "step without marks",
        group: Group::Training,
        definition: "mean time of a training step in which the device is waited for at its end alone, in turns with \
                     steps with marks",
        source: Real(|record| looking(record, |looking| Some(looking.unmarked_ns))),
        metric: None,
    },
    Quantity {
        id: "marking-error",
        unit: "ns",
        direction: Lower,
        heading: "standard error of the difference",
        group: Group::Training,
        definition: "standard error of the mean difference between a step with marks and one without, over turns",
        source: Real(|record| looking(record, |looking| looking.error_ns)),
        metric: None,
    },
    Quantity {
        id: "marking-turns",
        unit: "1",
        direction: Neutral,
        heading: "turns",
        group: Group::Training,
        definition: "turns of a step with marks and one without",
        source: Whole(|record| match conditions(record)?.looking.as_ref()? {
            Ok(looking) => plain(Some(looking.turns)),
            Err(gap) => Some(Err(gap.clone())),
        }),
        metric: None,
    },
    Quantity {
        id: "trained-time",
        unit: "ns",
        direction: Lower,
        heading: "trained for",
        group: Group::Training,
        definition: "time of all epochs of training from the weights of the file, with reading examples, without tests",
        source: Real(|record| {
            learned(record, |it| Some(it.epochs.iter().map(|epoch| epoch.time_ns as f64).sum()))
        }),
        metric: None,
    },
    Quantity {
        id: "trained-loss",
        unit: "1",
        direction: Lower,
        heading: "loss of the last epoch",
        group: Group::Training,
        definition: "mean loss of the steps of the last epoch",
        source: Real(|record| learned(record, |it| it.epochs.last()?.loss)),
        metric: None,
    },
    Quantity {
        id: "test-loss",
        unit: "1",
        direction: Lower,
        heading: "loss of the test",
        group: Group::Training,
        definition: "mean loss over the test examples after the last epoch",
        source: Real(|record| learned(record, |it| it.epochs.last()?.test_loss)),
        metric: None,
    },
    Quantity {
        id: "device-busy-time",
        unit: "ns",
        direction: Lower,
        heading: "device's time for a run",
        group: Group::Device,
        definition: "median time that the device was busy with a run, by its own events",
        source: Real(|record| {
            let time = conditions(record)?.device_time.as_ref()?;
            Some(time.as_ref().map(|time| time.device_ns).map_err(Clone::clone))
        }),
        metric: None,
    },
    Quantity {
        id: "device-utilisation",
        unit: "1",
        direction: Neutral,
        heading: "device busy",
        group: Group::Device,
        definition: "mean part of the time in which the device computed",
        source: Real(|record| device_state(record, |it| it.utilisation, |spread| spread.mean)),
        metric: None,
    },
    Quantity {
        id: "device-clock-least",
        unit: "Hz",
        direction: Neutral,
        heading: "lowest device clock",
        group: Group::Device,
        definition: "lowest clock of the device's compute units",
        source: Real(|record| device_state(record, |it| it.clock_hertz, |spread| spread.minimum)),
        metric: None,
    },
    Quantity {
        id: "device-clock-most",
        unit: "Hz",
        direction: Neutral,
        heading: "highest device clock",
        group: Group::Device,
        definition: "highest clock of the device's compute units",
        source: Real(|record| device_state(record, |it| it.clock_hertz, |spread| spread.maximum)),
        metric: None,
    },
    Quantity {
        id: "device-temperature",
        unit: "°C",
        direction: Neutral,
        heading: "highest device temperature",
        group: Group::Device,
        definition: "highest temperature of the device",
        source: Real(|record| {
            device_state(record, |it| it.temperature_celsius, |spread| spread.maximum)
        }),
        metric: None,
    },
    Quantity {
        id: "device-power",
        unit: "W",
        direction: Neutral,
        heading: "device power",
        group: Group::Device,
        definition: "mean power of the whole device",
        source: Real(|record| device_state(record, |it| it.power_watts, |spread| spread.mean)),
        metric: None,
    },
    Quantity {
        id: "voluntary-switches",
        unit: "1",
        direction: Neutral,
        heading: "voluntary switches",
        group: Group::Disturbance,
        definition: "times that a thread of the worker gave up its processor to wait",
        source: Whole(|record| disturbance(record, |it| it.voluntary_switches)),
        metric: None,
    },
    Quantity {
        id: "involuntary-switches",
        unit: "1",
        direction: Lower,
        heading: "involuntary switches",
        group: Group::Disturbance,
        definition: "times that the kernel preempted a thread of the worker",
        source: Whole(|record| disturbance(record, |it| it.involuntary_switches)),
        metric: None,
    },
    Quantity {
        id: "minor-faults",
        unit: "1",
        direction: Neutral,
        heading: "minor page faults",
        group: Group::Disturbance,
        definition: "pages that were mapped without reading from disk",
        source: Whole(|record| disturbance(record, |it| it.minor_faults)),
        metric: None,
    },
    Quantity {
        id: "major-faults",
        unit: "1",
        direction: Lower,
        heading: "major page faults",
        group: Group::Disturbance,
        definition: "pages that were read from disk",
        source: Whole(|record| disturbance(record, |it| it.major_faults)),
        metric: None,
    },
    Quantity {
        id: "stolen-time",
        unit: "ns",
        direction: Lower,
        heading: "stolen time",
        group: Group::Disturbance,
        definition: "time that the hypervisor withheld, all processors together",
        source: Whole(|record| disturbance(record, |it| it.stolen_ns)),
        metric: None,
    },
    Quantity {
        id: "thermal-throttles",
        unit: "1",
        direction: Lower,
        heading: "thermal throttles",
        group: Group::Disturbance,
        definition: "times that heat slowed a processor",
        source: Whole(|record| disturbance(record, |it| it.thermal_throttles)),
        metric: None,
    },
    Quantity {
        id: "quota-throttles",
        unit: "1",
        direction: Lower,
        heading: "quota throttles",
        group: Group::Disturbance,
        definition: "times that the control group's quota stopped its processes",
        source: Whole(|record| disturbance(record, |it| it.quota_throttles)),
        metric: None,
    },
    Quantity {
        id: "frequency-start",
        unit: "Hz",
        direction: Neutral,
        heading: "clock at start",
        group: Group::Disturbance,
        definition: "highest frequency among the worker's processors at the start of the measurement",
        source: Whole(|record| disturbance(record, |it| it.frequency_start_hertz)),
        metric: None,
    },
    Quantity {
        id: "frequency-end",
        unit: "Hz",
        direction: Neutral,
        heading: "clock at end",
        group: Group::Disturbance,
        definition: "highest frequency among them at its end",
        source: Whole(|record| disturbance(record, |it| it.frequency_end_hertz)),
        metric: None,
    },
    Quantity {
        id: "asked-rate",
        unit: "1/s",
        direction: Neutral,
        heading: "rate asked for",
        group: Group::Load,
        definition: "requested queries per second; of several processes, the mean",
        source: Real(|record| rate(record, |pace| Some(pace.asked.get()))),
        metric: None,
    },
    Quantity {
        id: "offered-rate",
        unit: "1/s",
        direction: Neutral,
        heading: "rate offered",
        group: Group::Load,
        definition: "scheduled queries per second; of several processes, the mean",
        source: Real(|record| rate(record, |pace| pace.offered_per_second)),
        metric: None,
    },
    Quantity {
        id: "achieved-rate",
        unit: "1/s",
        direction: Higher,
        heading: "rate achieved",
        group: Group::Load,
        definition: "completed queries per second; of several processes, the mean",
        source: Real(|record| rate(record, |pace| pace.achieved_per_second)),
        metric: None,
    },
    Quantity {
        id: "queries-per-run",
        unit: "1",
        direction: Neutral,
        heading: "queries in a run",
        group: Group::Load,
        definition: "most queries of an open loop that one run of the model served: always 1, since queries that wait are not batched",
        source: Whole(|record| plain(record.pace().map(|_| 1))),
        metric: None,
    },
    Quantity {
        id: "unserved",
        unit: "1",
        direction: Lower,
        heading: "queries never begun",
        group: Group::Load,
        definition: "queries that were due but never started, all processes together",
        source: Whole(|record| plain(Some(record.pace()?.unserved))),
        metric: None,
    },
    Quantity {
        id: "lateness-p50",
        unit: "ns",
        direction: Lower,
        heading: "generator's lateness, median",
        group: Group::Load,
        definition: "median lateness of the load generator; of several processes, the worst",
        source: Whole(|record| lateness(record, |late| late.median_ns)),
        metric: None,
    },
    Quantity {
        id: "lateness-p99",
        unit: "ns",
        direction: Lower,
        heading: "generator's lateness, p99",
        group: Group::Load,
        definition: "99th percentile of its lateness",
        source: Whole(|record| lateness(record, |late| late.p99_ns)),
        metric: None,
    },
    Quantity {
        id: "lateness-max",
        unit: "ns",
        direction: Lower,
        heading: "generator's lateness, maximum",
        group: Group::Load,
        definition: "greatest lateness",
        source: Whole(|record| lateness(record, |late| late.maximum_ns)),
        metric: None,
    },
    Quantity {
        id: "clock-resolution",
        unit: "ns",
        direction: Lower,
        heading: "clock step",
        group: Group::Clock,
        definition: "smallest step between two different readings of the clock",
        source: Whole(|record| report(|report| plain(Some(report.clock.resolution_ns)), record)),
        metric: None,
    },
    Quantity {
        id: "clock-read",
        unit: "ns",
        direction: Lower,
        heading: "clock reading",
        group: Group::Clock,
        definition: "median cost of a reading of the clock",
        source: Real(|record| report(|report| plain(Some(report.clock.read_ns)), record)),
        metric: None,
    },
    Quantity {
        id: "loop",
        unit: "ns",
        direction: Lower,
        heading: "empty round",
        group: Group::Clock,
        definition: "median cost of a round of the measuring loop with an empty target",
        source: Real(|record| report(|report| plain(Some(report.clock.loop_ns)), record)),
        metric: None,
    },
    Quantity {
        id: "model-size",
        unit: "B",
        direction: Neutral,
        heading: "model",
        group: Group::Model,
        definition: "size of the model's file and of those with its weights",
        source: Whole(|record| card(record, |card| Ok(card.bytes))),
        metric: Some(("model.size", None)),
    },
    Quantity {
        id: "model-parameters",
        unit: "1",
        direction: Neutral,
        heading: "parameters",
        group: Group::Model,
        definition: "elements of the model's weights",
        source: Whole(|record| card(record, |card| Ok(card.parameters))),
        metric: Some(("model.parameters", None)),
    },
    Quantity {
        id: "model-operators",
        unit: "1",
        direction: Neutral,
        heading: "operators",
        group: Group::Model,
        definition: "operators of the model's graphs",
        source: Whole(|record| card(record, |card| Ok(card.operator_count()))),
        metric: Some(("model.operators", None)),
    },
    Quantity {
        id: "model-operations",
        unit: "FLOP",
        direction: Neutral,
        heading: "operations",
        group: Group::Model,
        definition: "operations of a pass over the batch: two for each product that convolutions, products of matrices and recurrent layers sum",
        source: Whole(|record| card(record, |card| card.cost.flops.clone())),
        metric: Some(("model.operations", None)),
    },
    Quantity {
        id: "least-traffic",
        unit: "B",
        direction: Neutral,
        heading: "least traffic",
        group: Group::Model,
        definition: "bytes that a pass moves at least: inputs, outputs, and weights that are read, once",
        source: Whole(|record| card(record, |card| card.cost.least_bytes.clone())),
        metric: Some(("model.least-traffic", None)),
    },
    Quantity {
        id: "unfused-traffic",
        unit: "B",
        direction: Neutral,
        heading: "unfused traffic",
        group: Group::Model,
        definition: "bytes that a pass moves if each operator reads its inputs from memory and writes its outputs to it",
        source: Whole(|record| card(record, |card| card.cost.unfused_bytes.clone())),
        metric: Some(("model.unfused-traffic", None)),
    },
    Quantity {
        id: "peak-compute",
        unit: "FLOP/s",
        direction: Neutral,
        heading: "peak compute",
        group: Group::Model,
        definition: "operations for each second that the device can do at most in the precision of the case",
        source: Real(|record| peak(record, |peaks| &peaks.flops_per_second)),
        metric: Some(("model.peak-compute", None)),
    },
    Quantity {
        id: "peak-bandwidth",
        unit: "B/s",
        direction: Neutral,
        heading: "peak bandwidth",
        group: Group::Model,
        definition: "bytes of its memory that the device can read for each second at most",
        source: Real(|record| peak(record, |peaks| &peaks.bytes_per_second)),
        metric: Some(("model.peak-bandwidth", None)),
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{CaseKey, Energy, Outcome};

    fn record(conditions: Conditions) -> CaseRecord {
        let report = WorkerReport { conditions, ..WorkerReport::default() };
        CaseRecord {
            record_version: crate::RECORD_VERSION,
            case_id: "c".into(),
            key: CaseKey::new("m", "b", "d"),
            spec: None,
            process: 0,
            started_at: String::new(),
            elapsed_ns: 1,
            outcome: Outcome::Finished(Box::new(report)),
            standard_error: String::new(),
            environment: None,
            further: Vec::new(),
        }
    }

    fn of(id: &str, record: &CaseRecord) -> Measured<f64> {
        Quantity::named(id).expect("a quantity").of(record)
    }

    fn missing(id: &str, record: &CaseRecord) -> Gap {
        of(id, record).expect("something is said").expect_err("a gap")
    }

    #[test]
    fn names_columns_and_metrics_are_there_once() {
        let ids: BTreeSet<_> = QUANTITIES.iter().map(|quantity| quantity.id).collect();
        let columns: BTreeSet<_> = QUANTITIES.iter().map(Quantity::column).collect();
        let stated: Vec<_> = QUANTITIES.iter().filter_map(|quantity| quantity.metric).collect();
        let metrics: BTreeSet<_> = stated.iter().map(|(metric, _)| metric).collect();
        assert_eq!(ids.len(), QUANTITIES.len());
        assert_eq!(columns.len(), QUANTITIES.len());
        assert_eq!(metrics.len(), stated.len());
        assert!(QUANTITIES.is_sorted_by_key(|quantity| quantity.group), "groups stay together");
        let memory: Vec<_> = Quantity::stated_by("memory").map(|(metric, _)| metric).collect();
        assert!(memory.contains(&"memory.allocator-peak") && !memory.contains(&"startup.open"));
    }

    fn domain(name: &str, joules: f64) -> DomainEnergy {
        DomainEnergy { domain: name.into(), joules, seconds: 2.0, step_seconds: Some(0.001) }
    }

    fn energy(processor: Result<Vec<DomainEnergy>, Gap>) -> CaseRecord {
        let device = Err(NotMeasured::ThreadPanicked.into());
        record(Conditions { energy: Some(Energy { processor, device }), ..Conditions::default() })
    }

    #[test]
    fn packages_are_added_up_and_nothing_is_counted_twice() {
        let all = energy(Ok(vec![
            domain("package-0", 10.0),
            domain("package-0/core", 4.0),
            domain("package-0/dram", 1.0),
            domain("package-1", 20.0),
            domain("package-1/dram", 2.0),
            domain("psys", 99.0),
        ]));
        assert_eq!(of("package-energy", &all), Some(Ok(30.0)));
        assert_eq!(of("memory-energy", &all), Some(Ok(3.0)));
        assert_eq!(of("energy-time", &all), Some(Ok(2.0)));
        assert_eq!(missing("device-energy", &all), NotMeasured::ThreadPanicked.into());
        assert_eq!(of("average-memory", &all), None);
    }

    #[test]
    fn a_gap_says_why() {
        let psys = energy(Ok(vec![domain("psys", 99.0)]));
        let none = NotMeasured::NoEnergyDomain { domain: "package".into() };
        assert_eq!(missing("package-energy", &psys), none.into());
        let unknown: Gap = NotMeasured::NoEnergyCounters { folder: "/sys".into() }.into();
        let none = energy(Err(unknown.clone()));
        assert_eq!(of("memory-energy", &none), Some(Err(unknown)));
        assert_eq!(of("energy-time", &none), None);
        let old = record(Conditions::default());
        let before = |quantity: &str| NotMeasured::BeforeRecorded { quantity: quantity.into() };
        assert_eq!(missing("device-energy", &old), before("energy").into());
        assert_eq!(missing("device-allocator", &old), before("allocators").into());
        let short = Some(MemoryUse::default());
        let short = record(Conditions { memory: short, ..Conditions::default() });
        assert_eq!(missing("average-memory", &short), NotMeasured::TooShortToSample.into());
    }
}
