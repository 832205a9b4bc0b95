/*!
What reports and recommenders share: a run as typed values, what cases are called, and how numbers
are written.

The host's views are tables of text and numbers. [`Run::read`] turns them into cases with their
results, warnings and distributions once, so that every plugin reads them the same way, and a view
that lacks something fails here, by name, and not in the middle of a page. This is an ordinary
library and no plugin.
*/

mod configuration;
mod label;
#[cfg(feature = "made-up")]
pub mod made_up;
mod number;
mod ran;
mod run;
mod summary;
mod surroundings;
mod visible;

pub use host_record::{Doubt, Warning, WarningKind};

pub use configuration::{Configuration, OFFLINE, SINGLE_STREAM, configurations};
pub use label::{Labels, case_label};
pub use number::{
    Scale, humanise, humanise_interval, humanise_metric, parse_quantity, significant,
};
pub use ran::{OutputParity, Parity, Tolerance};
pub use run::{
    Advice, Bin, Case, Direction, Gap, HardwareFact, MetricResult, Outcome, PluginUse, Run,
};
pub use summary::{SummaryCell, SummaryColumn, summary_columns};
pub use surroundings::{
    Disturbance, Lateness, OpenLoop, Probe, QueryStages, RateSearch, Scheduling, Surroundings,
};
pub use visible::{REASON, excerpt, visible};
