//! Reasons why a statistic has no value.

use std::fmt;

use crate::quantile::TooFew;

/// A statistic has no value for this sample. This is never a zero and never a guess.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Undefined {
    /// The sample is too small.
    TooFew(TooFew),
    /// The sample has no spread to measure by: the values, or as many as matter, are equal.
    NoSpread,
    /// The estimate lies outside the values of all resamples, so its bias cannot be corrected.
    OutsideResamples,
    /// The values are too few for their spread: the interval would reach below zero, and no such value can.
    BelowZero,
    /// A value is zero or below, so that it has no logarithm.
    NotPositive,
}

impl Undefined {
    /// Refuses fewer than `needs` values.
    pub(crate) fn unless_at_least(needs: usize, has: usize) -> Result<(), Self> {
        if has < needs { Err(Self::TooFew(TooFew { needs, has })) } else { Ok(()) }
    }
}

impl From<TooFew> for Undefined {
    fn from(refusal: TooFew) -> Self {
        Self::TooFew(refusal)
    }
}

impl fmt::Display for Undefined {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooFew(refusal) => refusal.fmt(formatter),
            Self::NoSpread => formatter.write_str("needs values that differ"),
            Self::OutsideResamples => formatter.write_str("needs an estimate among its resamples"),
            Self::NotPositive => formatter.write_str("needs values above zero"),
            Self::BelowZero => formatter.write_str("needs an interval that stays above zero"),
        }
    }
}

impl std::error::Error for Undefined {}
