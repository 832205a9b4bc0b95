/*!
Shared code of reports and recommenders: a run as typed values, names of cases, and
formatting of numbers.

The host's views are tables of text and numbers. [`Run::read`] converts them into cases with their
results, warnings and distributions once, so that every plugin reads them the same way, and an incomplete view is an
early error with its name. This is an ordinary library and not a plugin.
*/

mod configuration;
mod figures;
mod inputs;
mod label;
#[cfg(feature = "made-up")]
pub mod made_up;
mod pairs;
mod run;
mod summary;
mod training;
mod words;

pub use configuration::{Configuration, configurations};
pub use figures::Drawing;
pub use host_page::{
    REASON, Scale, excerpt, humanise, humanise_interval, humanise_metric, parse_quantity,
    significant, visible,
};
pub use host_record;
pub use host_record::{
    Axis, AxisRole, CaseKey, Coordinate, Direction, Doubt, Gap, Group, MetricValue, Order, Outcome,
    QUANTITIES, Quantity, Scenario, Warning, WarningKind,
};
pub use inputs::{INPUT_HEADINGS, inputs};
pub use label::{Labels, case_label};
pub use pairs::{PAIR_HEADINGS, PAIRS_EXPLAINED, PairRow, pairs};
pub use run::{Advice, Bin, Case, HardwareFact, Node, Past, PluginUse, Run, Span, class};
pub use summary::{SummaryCell, SummaryColumn, summary_columns};
pub use words::{PARITY_HEADINGS, parity_figures, quantity};
