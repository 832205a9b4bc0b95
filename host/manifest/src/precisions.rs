//! Values that may differ from precision to precision.

use std::collections::BTreeMap;

use host_record::Precision;

/// One value for every precision, or one for each of some.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PerPrecision<T> {
    /// The same for all.
    All(T),
    /// One each; a precision that is not listed has none.
    Each(BTreeMap<Precision, T>),
}

impl<T> PerPrecision<T> {
    /// Returns the value for a precision, if there is one.
    #[must_use]
    pub fn get(&self, precision: Precision) -> Option<&T> {
        match self {
            Self::All(value) => Some(value),
            Self::Each(values) => values.get(&precision),
        }
    }

    /// Returns the values.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        let (one, several) = match self {
            Self::All(value) => (Some(value), None),
            Self::Each(values) => (None, Some(values.values())),
        };
        one.into_iter().chain(several.into_iter().flatten())
    }

    /// Converts each value.
    pub fn map<U>(&self, mut convert: impl FnMut(&T) -> U) -> PerPrecision<U> {
        match self {
            Self::All(value) => PerPrecision::All(convert(value)),
            Self::Each(values) => PerPrecision::Each(
                values.iter().map(|(precision, value)| (*precision, convert(value))).collect(),
            ),
        }
    }

    /// Converts each value; returns `None` if one cannot be converted.
    pub fn try_map<U>(&self, mut convert: impl FnMut(&T) -> Option<U>) -> Option<PerPrecision<U>> {
        Some(match self {
            Self::All(value) => PerPrecision::All(convert(value)?),
            Self::Each(values) => PerPrecision::Each(
                values
                    .iter()
                    .map(|(precision, value)| Some((*precision, convert(value)?)))
                    .collect::<Option<_>>()?,
            ),
        })
    }

    /// Returns the precisions that have a value of their own.
    pub fn precisions(&self) -> impl Iterator<Item = Precision> {
        let own = match self {
            Self::All(_) => None,
            Self::Each(values) => Some(values.keys().copied()),
        };
        own.into_iter().flatten()
    }
}
