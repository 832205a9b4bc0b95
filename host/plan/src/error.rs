//! Errors of planning.

use host_manifest::nearest;
use host_record::words::bytes;
use host_record::{AxisObstacle, PortAxis, quoted_key};

/// The most cells that a matrix may have: more than anyone can run, and few enough to count.
pub const CELL_LIMIT: u64 = 100_000_000;

/// Reasons why planning failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The facts or the experiment lack a model that the matrix names.
    #[error("there are no facts about the model `{0}`")]
    UnknownModel(String),
    /// The facts or the experiment lack a backend that the matrix names.
    #[error("there are no facts about the backend `{0}`")]
    UnknownBackend(String),
    /// The reference for outputs cannot be used.
    #[error("the reference `{id}` cannot be used: {reason}")]
    NoReference {
        /// Its name in the manifest.
        id: String,
        /// Reason why it cannot be used.
        reason: String,
    },
    /// The manifest does not fit the axes of a model, or leaves some without a size.
    #[error("the model `{model}`: {}", obstacle.reason())]
    Axes {
        /// The model's id.
        model: String,
        /// The reason.
        obstacle: Box<AxisObstacle>,
    },
    /// An input steers the model, and the manifest does not give it.
    #[error(
        "the model `{model}`: `{input}` decides what is computed, or how much (a branch, rounds of a loop or a size), and has no \
         usual value"
    )]
    Steers {
        /// The model's id.
        model: String,
        /// The input.
        input: String,
        /// Whether it is a truth value.
        is_truth: bool,
    },
    /// An input is computed with before it is looked up in a table, and the manifest does not give it.
    #[error(
        "the model `{model}`: `{operator}` computes with `{input}` before it is looked up in a table of {entries} entries, \
         so it is not known which values are legal"
    )]
    Computed {
        /// The model's id.
        model: String,
        /// The input.
        input: String,
        /// Entries of the table.
        entries: u64,
        /// The operator.
        operator: String,
    },
    /// The manifest names an input that the model lacks.
    #[error("the model `{model}` has no input `{input}`")]
    UnknownInput {
        /// The model's id.
        model: String,
        /// The name.
        input: String,
        /// The inputs that there are.
        known: Vec<String>,
    },
    /// A model with a data set has an input that is neither in it nor drawn.
    #[error("the model `{model}`: its input `{input}` has no file")]
    NoFile {
        /// The model's id.
        model: String,
        /// The input.
        input: String,
    },
    /// An input is drawn from a range beyond the table that it is looked up in.
    #[error(
        "the model `{model}`: `{input}` is drawn from {low} to {high}, beyond the table of {entries} entries that \
         it is looked up in"
    )]
    BeyondTable {
        /// The model's id.
        model: String,
        /// The input.
        input: String,
        /// The lowest value, in words.
        low: String,
        /// The highest value, in words.
        high: String,
        /// Entries of the table.
        entries: u64,
    },
    /// A batch or a length fits no model of the matrix.
    #[error("{value} fits no model of the matrix: `{model}`: {}", obstacle.reason())]
    FitsNone {
        /// The batch or the length, in words.
        value: String,
        /// The first of the models.
        model: String,
        /// Its reason.
        obstacle: Box<AxisObstacle>,
    },
    /// A query's inputs and outputs are larger than the machine's memory.
    #[error(
        "the model `{model}` at {extent}: the inputs of a query take {}{}, and the machine has {} of memory",
        bytes(*inputs_bytes),
        outputs(*outputs_bytes),
        bytes(*memory_bytes)
    )]
    BeyondMemory {
        /// The model's id.
        model: String,
        /// The batch and the length, in words.
        extent: String,
        /// Size of the inputs.
        inputs_bytes: u64,
        /// Size of the outputs, as far as it is known.
        outputs_bytes: u64,
        /// The machine's memory.
        memory_bytes: u64,
    },
    /// No cell is left.
    #[error("the matrix is empty: `exclude` removes every cell")]
    Empty,
    /// There are too many cells.
    #[error(
        "the matrix has {cells} cells, more than the maximum of {CELL_LIMIT}: shorten its axes"
    )]
    TooLarge {
        /// Number of cells before exclusions.
        cells: u128,
    },
}

impl PlanError {
    /// Returns what to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Axes { obstacle, .. } => match &**obstacle {
                AxisObstacle::NoSuchPort { name, found } => near(name, found),
                AxisObstacle::NoSuchAxis { axis, found, .. } => near(axis, &symbols(found)),
                obstacle => obstacle.hint(),
            },
            Self::FitsNone { obstacle, .. } => obstacle.hint(),
            Self::UnknownInput { input, known, .. } => near(input, known).or_else(|| {
                Some(match known.is_empty() {
                    true => "it has no inputs".to_owned(),
                    false => format!("it has `{}`", known.join("`, `")),
                })
            }),
            Self::NoFile { .. } => {
                Some("give it one under `data`, or an entry under `inputs` to draw it".to_owned())
            }
            Self::BeyondTable { entries, .. } => {
                Some(format!("write `high = {}` or less", entries.saturating_sub(1)))
            }
            Self::Steers { input, is_truth, .. } => {
                let (key, value) = (quoted_key(input), if *is_truth { 1 } else { 10 });
                let truth = if *is_truth { " (1 is true)" } else { "" };
                Some(format!(
                    "give it a range in the `[[model]]`, such as `inputs.{key} = {{ low = {value}, high = {value} \
                     }}`{truth}"
                ))
            }
            Self::Computed { input, entries, .. } => Some(format!(
                "give it a range in the `[[model]]`, such as `inputs.{} = {{ low = 0, high = {} }}`",
                quoted_key(input),
                entries.saturating_sub(1).min(100)
            )),
            Self::BeyondMemory { .. } => {
                Some("leave this batch or length out, or give the axes smaller sizes".to_owned())
            }
            _ => None,
        }
    }
}

fn outputs(size: u64) -> String {
    if size == 0 { String::new() } else { format!(" and its outputs {}", bytes(size)) }
}

/// Returns the known name that is near to a mistyped one.
fn near(name: &str, known: &[String]) -> Option<String> {
    let known: Vec<_> = known.iter().map(String::as_str).collect();
    nearest(name, &known).map(|near| format!("did you mean `{near}`?"))
}

fn symbols(axes: &[PortAxis]) -> Vec<String> {
    let symbol = |axis: &PortAxis| match axis {
        PortAxis::Dynamic(symbol) if !symbol.is_empty() => Some(symbol.clone()),
        _ => None,
    };
    axes.iter().filter_map(symbol).collect()
}
