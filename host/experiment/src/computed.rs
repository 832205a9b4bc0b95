//! Results of metrics, and their relation to earlier ones.

use std::fmt;

use host_record::CaseKey;
use host_store::ResultRecord;

/// Result of one metric for one case.
pub struct Computed {
    /// The case's coordinates.
    pub key: CaseKey,
    /// Whether it is a run metric, which fails for all cases at once.
    pub is_over_run: bool,
    /// The new result.
    pub now: ResultRecord,
    /// The earlier result.
    pub before: Option<ResultRecord>,
    /// Its relation to the earlier one.
    pub state: State,
}

/// Relation of the new result to the earlier one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// The case had no earlier result.
    New,
    /// The new result replaces the earlier one.
    Replaced,
    /// The same, by the same build of the plugin.
    Unchanged,
    /// The earlier result stays.
    Kept(KeptReason),
}

/// Reason for which an earlier result stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeptReason {
    /// The plugin failed.
    Failed(String),
    /// The file is lost that holds these columns.
    Lost(Vec<String>),
}

impl fmt::Display for KeptReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(error) => formatter.write_str(error),
            Self::Lost(columns) => {
                let names: Vec<_> = columns.iter().map(|name| format!("`{name}`")).collect();
                write!(formatter, "the file with {} is lost", names.join(", "))
            }
        }
    }
}

impl State {
    /// Returns its name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Replaced => "replaced",
            Self::Unchanged => "unchanged",
            Self::Kept(_) => "kept",
        }
    }
}

impl Computed {
    /// Returns whether the new result must be recorded.
    #[must_use]
    pub fn is_news(&self) -> bool {
        matches!(self.state, State::New | State::Replaced)
    }
}
