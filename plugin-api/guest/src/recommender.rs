//! Recommenders: advice about the current run.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;

use crate::{Description, Error, Views};

/// Gives advice about the current run.
pub trait Recommender {
    /// Type of the plugin's options. [`NoOptions`](crate::NoOptions) if it has none.
    type Options: DeserializeOwned;

    /// Returns the plugin's description.
    fn describe() -> Description;

    /// Returns the advice.
    ///
    /// Check the options before the first view is read: before anything is measured, the host calls
    /// this with views that cannot be read, and shows an earlier error as an error in the
    /// manifest.
    ///
    /// # Errors
    ///
    /// If the options are invalid or a view cannot be read.
    fn recommend(views: &dyn Views, options: Self::Options) -> Result<Vec<Recommendation>, Error>;
}

/// Advice, with the cases that it rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recommendation {
    /// The advice in one line.
    pub title: String,
    /// The explanation, with the figures.
    pub explanation: String,
    /// Ids of the cases that support it; never empty for advice that states a number.
    pub cases: Vec<String>,
    /// Other facts.
    pub attributes: BTreeMap<String, String>,
}
