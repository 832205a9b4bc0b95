//! Metrics over a run: values of its cases that depend on other cases.

use serde::de::DeserializeOwned;

use crate::{Description, Error, Measurement, Views};

/// Computes values for the cases of a run from the run as a whole. For a value of a single case, implement
/// [`Metric`](crate::Metric), which reads columns and is computed when the case has ended.
pub trait RunMetric {
    /// Type of the plugin's options. [`NoOptions`](crate::NoOptions) if it has none.
    type Options: DeserializeOwned;

    /// Returns the plugin's description.
    fn describe() -> Description;

    /// Returns the values of each case: names, units and directions, each with a [`Gap`](crate::Gap)
    /// for a value. Before anything is measured, the host calls this to check the options and to learn the names on
    /// which limits can be set.
    ///
    /// # Errors
    ///
    /// If the options are invalid.
    fn outline(options: &Self::Options) -> Result<Vec<Measurement>, Error>;

    /// Returns the values of the outline for every finished case of the view `cases`, each with the case's id. Other
    /// metrics have been computed, and their values are in the view `results`.
    ///
    /// # Errors
    ///
    /// If the options are invalid or a view cannot be read.
    fn compute(
        views: &dyn Views,
        options: &Self::Options,
    ) -> Result<Vec<(String, Measurement)>, Error>;
}
