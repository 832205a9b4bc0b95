//! Options of a backend, as a manifest gives them.

use std::fmt::Display;
use std::str::FromStr;

use super::{Error, ErrorCode, Result};
use crate::abi::OPTION_PLACEMENT;

/// Options by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options<'a> {
    pub(super) entries: Vec<(&'a str, &'a str)>,
}

impl<'a> Options<'a> {
    /// Refuses every unknown option. Call it first, because a typo must not silently
    /// change a benchmark. A known name that ends in `.*` stands for all names with that beginning.
    ///
    /// # Errors
    ///
    /// Names the option, and the known ones.
    pub fn only(&self, known: &[&str]) -> Result<()> {
        let is_known = |key: &str| {
            known.iter().any(|known| match known.strip_suffix('*') {
                Some(prefix) if prefix.ends_with('.') => key.starts_with(prefix),
                _ => *known == key,
            })
        };
        match self.entries.iter().find(|(key, _)| !is_known(key)) {
            None => Ok(()),
            Some((key, _)) if known.is_empty() => Err(Error::new(
                ErrorCode::InvalidArgument,
                format!("there is no option `{key}`: this backend has none"),
            )),
            Some((key, _)) => Err(Error::new(
                ErrorCode::InvalidArgument,
                format!("there is no option `{key}`; there are: {}", known.join(", ")),
            )),
        }
    }

    /// Returns the value of an option, if it is given.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&'a str> {
        self.entries.iter().find(|(other, _)| *other == key).map(|(_, value)| *value)
    }

    /// Returns the options whose names begin with `prefix`, without it.
    pub fn under(&self, prefix: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.entries
            .iter()
            .filter_map(move |(key, value)| Some((key.strip_prefix(prefix)?, *value)))
    }

    /// Returns whether the option [`OPTION_PLACEMENT`] requires every operator to run on the requested
    /// device. A backend that could run one elsewhere must then refuse to; any other backend only has to know the
    /// option. It is a separate key in the manifest, and not declared in `plugin.toml`.
    ///
    /// # Errors
    ///
    /// If it is neither `any` (the default) nor `strict`.
    pub fn strict_placement(&self) -> Result<bool> {
        match self.get(OPTION_PLACEMENT) {
            None | Some("any") => Ok(false),
            Some("strict") => Ok(true),
            Some(other) => Err(Error::new(
                ErrorCode::InvalidArgument,
                format!("option `{OPTION_PLACEMENT}` cannot be `{other}`: it is any or strict"),
            )),
        }
    }

    /// Returns the value of an option, parsed as a number, a boolean or another type.
    ///
    /// # Errors
    ///
    /// If the value cannot be parsed; names option and value.
    pub fn parse<T: FromStr<Err: Display>>(&self, key: &str) -> Result<Option<T>> {
        let parse = |value: &str| {
            value.parse().map_err(|error| {
                let message = format!("option `{key}` cannot be `{value}`: {error}");
                Error::new(ErrorCode::InvalidArgument, message)
            })
        };
        self.get(key).map(parse).transpose()
    }
}
