/*!
The typed records that cross rooms.

This crate owns the nouns: cases, samples, outcomes, warnings. It does no I/O. Rooms that would
otherwise need each other (the run and the store, the worker and the run, the store and the WASM
adapters) meet here instead, so the arrows between rooms keep pointing one way.

Everything here is stored or sent between processes, so every type is versioned:
[`RECORD_VERSION`] for files on disk, [`protocol::PROTOCOL_VERSION`] for messages between the
worker and the host.
*/

mod allocation;
mod axis;
mod backend;
mod case;
mod check;
mod columns;
mod conditions;
mod device_state;
pub mod earlier;
mod energy;
mod environment;
mod file;
mod gap;
mod glance;
mod key;
mod load;
mod model;
mod model_card;
mod model_use;
mod names;
mod noise;
mod number;
mod numbered;
mod outcome;
mod pair;
mod peaks;
mod phase;
mod pin;
mod placement;
mod processes;
pub mod protocol;
mod quantity;
mod recorder;
mod results;
mod rules;
mod runtime;
mod sample;
mod settings;
mod summary;
mod table;
mod training;
pub mod visible;
mod warning;
pub mod words;

pub use allocation::{Allocation, EarlierAttempt, Engine};
pub use axis::{Axis, AxisRole, Coordinate};
pub use backend::{DeviceInfo, PluginIdentity};
pub use case::{Asked, CaseSpec, InputSource, PlacementRule, SyntheticInput, part};
pub use check::{Check, DifferenceKind, OutputParity, Parity, Tolerance};
pub use columns::{CaseColumns, Column, ColumnData, asks_for, column};
pub use conditions::{
    AllocatorUse, Conditions, Disturbance, InsideRun, MemoryUse, Scheduling, StageTimes,
    StartedProcesses,
};
pub use device_state::{DeviceSample, DeviceStates, SlowedBy, SlowedShare, Spread};
pub use energy::{DomainEnergy, Energy};
pub use environment::{
    ClockFacts, Container, ControlGroup, Environment, Limit, NoLimit, Processor,
};
pub use file::FileId;
pub use gap::{Gap, GapKind, Impossible, NotMeasured, PairObstacle, RuntimeState, Unsupported};
pub use glance::{CaseGlance, FinishedGlance, GlancedLine, Glances};
pub use key::{CaseKey, Mode, Precision, Scenario};
pub use load::{
    Breach, CurveShape, EarlyStopping, HeldLatency, HeldRate, InvalidKind, InvalidReason, Lateness,
    Pace, Probe, RateBound, RateCurve, RateSearch, RuleDifference, SearchEnd, SteadyClass,
    TimedCall, Verdict, WarmUpFacts,
};
pub use model::{
    AxesChoice, AxesUse, AxisName, AxisObstacle, AxisPlace, AxisUse, FixedAxis, LegalValues,
    ModelStructure, OpenAxis, Port, PortAxis, Signature, quoted_key, shown_axes,
};
pub use model_card::{ModelCard, ModelCost, Weights};
pub use model_use::{InputOrigin, InputUse, ModelUse};
pub use noise::NoiseProbe;
pub use number::{Rate, Share};
pub use outcome::{CaseRecord, Failure, Outcome, Timings, WorkerReport};
pub use pair::{Pair, PairAxis, PairEnd, PairResult, PairVerdict, Paired, Side, ratio_change};
pub use peaks::{Calibration, ComputePeak, PeakSource, Peaks};
pub use phase::{ErrorCode, Phase};
pub use pin::{Pin, list_of_processors, processors_of_list};
pub use placement::{DeviceTime, Placement, ProfiledOperator, ProviderShare};
pub use processes::Processes;
pub use quantity::{Group, Measured, QUANTITIES, Quantity, QuantityValue, Shown, Source};
pub use recorder::Recorder;
pub use results::{Direction, MetricValue, Prediction, Recommendation, process_values};
pub use rules::{Requirement, RuleDeparture};
pub use runtime::{RuntimeIdentity, RuntimeOrigin};
pub use sample::{
    Marks, OutputBlock, OutputValues, QueryTimes, SampleBlock, SamplePhase, SampleTimes,
    ScheduledTimes, TensorData, TensorType,
};
pub use settings::{Confidence, Find, LatencyLimit, MeasureSettings, Order, RuleSet, WarmUp};
pub use summary::{SummaryMetric, is_bundled, summary};
pub use table::{Cell, CellKind, Part, Table, Views};
pub use training::{Epoch, Learning, LookingCost, PhaseMemory};
pub use warning::{
    Doubt, Fallback, FileLoss, OutputObstacle, Throttle, Warning, WarningGroup, WarningKind,
    by_kind,
};

/// Version of the records that are written to run folders: the journal, the plan and the results.
///
/// A reader accepts its own version and every older one; a newer one is refused with a message
/// that names both.
pub const RECORD_VERSION: u32 = 1;
