//! Metrics over a run: values for its cases that take other cases to compute.

use serde::de::DeserializeOwned;

use crate::{Description, Error, Measurement, Views};

/// Computes values for the cases of a run from the run as a whole. What can be said of a case by itself
/// is better a [`Metric`](crate::Metric), which reads columns and is computed when the case has ended.
pub trait RunMetric {
    /// What the plugin's options are parsed into. [`NoOptions`](crate::NoOptions) if it has none.
    type Options: DeserializeOwned;

    /// What the plugin is.
    fn describe() -> Description;

    /// What is stated of each case: names, units and directions, each with a [`Gap`](crate::Gap) for a
    /// value. Before anything is measured, the host asks for it to check the options and to learn the
    /// names on which limits can be set.
    ///
    /// # Errors
    ///
    /// Where the options make no sense.
    fn outline(options: &Self::Options) -> Result<Vec<Measurement>, Error>;

    /// Values, each with the id of a finished case of the view `cases`: for every finished case those
    /// of the outline. Other metrics have been computed, and their values are in the view `results`.
    ///
    /// # Errors
    ///
    /// Where the options make no sense or a view cannot be read.
    fn compute(
        views: &dyn Views,
        options: &Self::Options,
    ) -> Result<Vec<(String, Measurement)>, Error>;
}
