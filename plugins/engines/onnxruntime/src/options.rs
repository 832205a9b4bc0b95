//! Options that every backend over the engine has.

use std::collections::BTreeMap;

use ort::session::builder::GraphOptimizationLevel;
use plugin_api::abi::OPTION_PLACEMENT;
use plugin_api::backend::{Error, ErrorCode, Options, Result};

/// Names of the options, for [`Options::only`].
pub const OPTIONS: &[&str] =
    &["allow-spinning", "graph-optimisation", OPTION_PLACEMENT, "provider.*", "session.*"];

/// The options, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Common {
    pub(crate) optimisation: Optimisation,
    pub(crate) spinning: bool,
    pub(crate) strict: bool,
    pub(crate) provider: BTreeMap<String, String>,
    pub(crate) session: BTreeMap<String, String>,
}

/// How far ONNX Runtime changes the graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Optimisation {
    Disable,
    Basic,
    Extended,
    Layout,
    All,
}

impl Optimisation {
    const ALL: [Self; 5] = [Self::Disable, Self::Basic, Self::Extended, Self::Layout, Self::All];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Disable => "disable",
            Self::Basic => "basic",
            Self::Extended => "extended",
            Self::Layout => "layout",
            Self::All => "all",
        }
    }

    pub(crate) const fn level(self) -> GraphOptimizationLevel {
        match self {
            Self::Disable => GraphOptimizationLevel::Disable,
            Self::Basic => GraphOptimizationLevel::Level1,
            Self::Extended => GraphOptimizationLevel::Level2,
            Self::Layout => GraphOptimizationLevel::Level3,
            Self::All => GraphOptimizationLevel::All,
        }
    }
}

impl Common {
    pub(crate) fn read(options: &Options<'_>) -> Result<Self> {
        let optimisation = options.get("graph-optimisation").unwrap_or("all");
        let optimisation = Optimisation::ALL
            .into_iter()
            .find(|known| known.name() == optimisation)
            .ok_or_else(|| {
                let known = Optimisation::ALL.map(Optimisation::name).join(", ");
                unknown("graph-optimisation", optimisation, &known)
            })?;
        Ok(Self {
            optimisation,
            spinning: options.parse("allow-spinning")?.unwrap_or(false),
            strict: options.strict_placement()?,
            provider: (options.under("provider."))
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect(),
            session: (options.under("session."))
                .map(|(key, value)| (format!("session.{key}"), value.to_owned()))
                .collect(),
        })
    }
}

fn unknown(option: &str, value: &str, known: &str) -> Error {
    let message = format!("option `{option}` cannot be `{value}`; it can be: {known}");
    Error::new(ErrorCode::InvalidArgument, message)
}
