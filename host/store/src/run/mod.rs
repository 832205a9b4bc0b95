//! One run's folder: its contents, its writer and its readers.

mod begin;
mod conditions;
mod device_states;
mod durable;
mod flaws;
mod folder;
mod glance;
mod glanced;
mod guarded;
mod header;
mod journal;
mod layout;
mod lines;
mod links;
mod lock;
mod lost;
mod outputs;
mod parts;
mod profile;
mod references;
mod samples;
mod thrift;
mod writer;

pub use flaws::Flaw;
pub use folder::{Records, RunFolder};
pub use glanced::{ExampleOutcomes, GlancedValue};
pub use header::{
    CALLERS_METRIC, Counts, NewRun, PlanLine, PluginRole, Program, RecommendationRecord,
    ResultRecord, RunFinished, RunHeader, RunPlugin,
};
pub use lines::TornLine;
pub use lost::{CaseFile, Loss, LostFile};
pub use parts::{PartEnd, RunPart, StartedCase};
pub use references::LostReference;
pub use writer::{PlanWriter, RunWriter};

pub(crate) use device_states::NUMBERS as DEVICE_STATE_NUMBERS;
pub(crate) use flaws::Inspection;
pub(crate) use layout::Layout;
pub(crate) use links::refuse_link;
pub(crate) use lock::is_locked;
pub(crate) use lost::without_samples;
pub(crate) use samples::SampleColumn;
