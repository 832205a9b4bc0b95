//! Options that every backend over the engine has.

use std::collections::BTreeMap;

use ort::session::builder::GraphOptimizationLevel;
use plugin_api::abi::OPTION_PLACEMENT;
use plugin_api::backend::{Error, ErrorCode, Options, Result};

use crate::library::is_at_least;

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

    /// Refuses what a version of ONNX Runtime does not know. It would only say that a number is wrong.
    pub(crate) fn check(self, version: &str) -> Result<()> {
        if self != Self::Layout || is_at_least(version, 23) {
            return Ok(());
        }
        let message = format!(
            "option `graph-optimisation` cannot be `layout` with ONNX Runtime {version}: 1.23 and later \
             know it as a level of its own; `all` contains it in every version"
        );
        Err(Error::new(ErrorCode::Unsupported, message))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_that_the_library_does_not_know_is_refused_by_name() {
        for level in Optimisation::ALL {
            assert_eq!(level.check("1.23.0"), Ok(()));
            assert_eq!(level.check("1.28.0"), Ok(()));
            if level != Optimisation::Layout {
                assert_eq!(level.check("1.22.1"), Ok(()), "{level:?}");
            }
        }
        let error = Optimisation::Layout.check("1.22.1").expect_err("it came later");
        assert_eq!(error.code, ErrorCode::Unsupported);
        assert!(error.message.contains("`layout` with ONNX Runtime 1.22.1: 1.23"), "{error}");
    }
}
