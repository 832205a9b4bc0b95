//! Metrics over a run: values for its cases that take other cases to compute.

use serde::de::DeserializeOwned;

use crate::{Description, Error, Measurement, Views};

/// Computes values for the cases of a run from the run as a whole. A value of a single case is better
/// a [`Metric`](crate::Metric), which reads columns and is computed when the case has ended.
pub trait RunMetric {
    /// Type of the plugin's options. [`NoOptions`](crate::NoOptions) if it has none.
    type Options: DeserializeOwned;

    /// Returns the plugin's description.
    fn describe() -> Description;

    /// Returns the values of each case: names, units and directions, each with a [`Gap`](crate::Gap)
    /// for a value. Before anything is measured, the host asks for it to check the options and to
    /// learn the names on which limits can be set.
    ///
    /// # Errors
    ///
    /// If the options are invalid.
    fn outline(options: &Self::Options) -> Result<Vec<Measurement>, Error>;

    /// Returns values, each with the id of a finished case of the view `cases`: for every finished
    /// case those of the outline. Other metrics have been computed, and their values are in the view
    /// `results`.
    ///
    /// # Errors
    ///
    /// If the options are invalid or a view cannot be read.
    fn compute(
        views: &dyn Views,
        options: &Self::Options,
    ) -> Result<Vec<(String, Measurement)>, Error>;
}
