//! Recommenders: advice about the run at hand.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;

use crate::{Description, Error, Views};

/// Gives advice about the run at hand.
pub trait Recommender {
    /// What the plugin's options are parsed into. [`NoOptions`](crate::NoOptions) if it has none.
    type Options: DeserializeOwned;

    /// What the plugin is.
    fn describe() -> Description;

    /// The advice.
    ///
    /// Check the options before the first view is read: before anything is measured, the host calls
    /// this with views that cannot be read, and shows an error that comes before as one of the
    /// manifest.
    ///
    /// # Errors
    ///
    /// Where the options make no sense or a view cannot be read.
    fn recommend(views: &dyn Views, options: Self::Options) -> Result<Vec<Recommendation>, Error>;
}

/// Advice, with the cases that it rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recommendation {
    /// The advice in one line.
    pub title: String,
    /// Why, with the figures.
    pub explanation: String,
    /// Ids of the cases that it rests on; never empty for advice that states a number.
    pub cases: Vec<String>,
    /// Whatever else there is to say.
    pub attributes: BTreeMap<String, String>,
}
