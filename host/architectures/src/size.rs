//! Sizes that make other architectures of a family.

use std::collections::BTreeMap;

/// A size that an architecture has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Its name.
    pub name: &'static str,
    /// Its value unless another is given.
    pub default: u64,
    /// Its meaning.
    pub meaning: &'static str,
}

/// No size is larger.
pub const LARGEST: u64 = 1 << 20;

/// Why sizes do not fit together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// A size is not a multiple of another one.
    #[error("`{size}` is not a multiple of {by}")]
    NotAMultiple {
        /// The size.
        size: &'static str,
        /// The divisor.
        by: u64,
    },
    /// There are only some such architectures.
    #[error("`{size}` is one of {}", listed(choices))]
    NotAmong {
        /// The size.
        size: &'static str,
        /// The values that it may have.
        choices: &'static [u64],
    },
}

fn listed(choices: &[u64]) -> String {
    choices.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
}

/// The sizes of one architecture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sizes(pub(crate) BTreeMap<&'static str, u64>);

impl Sizes {
    /// Returns the size of a name that the architecture declares.
    pub(crate) fn get(&self, name: &str) -> u64 {
        *self.0.get(name).unwrap_or_else(|| unreachable!("the family does not declare `{name}`"))
    }

    /// Returns a size that must be a multiple of a number, divided by it.
    pub(crate) fn divided(&self, size: &'static str, by: u64) -> Result<u64, Unfit> {
        match self.get(size) {
            value if by > 0 && value.is_multiple_of(by) => Ok(value / by),
            _ => Err(Unfit::NotAMultiple { size, by }),
        }
    }
}
