//! Recommenders that ask for further cases, and that predict.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;

use crate::{Description, Error, Recommendation, Table, Views};

/// Gives advice, and may ask for cases that the run lacks and state predictions. Needs a host of `tare:plugin` 0.1.3.
///
/// Requested cases are measured after the call. Then the host calls again, until nothing is asked for, or the manifest's
/// grant is used up. So write the plugin as a function of what the views have: look up what was measured, and ask for what
/// is missing next.
pub trait ActiveRecommender {
    /// Type of the plugin's options. [`NoOptions`](crate::NoOptions) if it has none.
    type Options: DeserializeOwned;

    /// Returns the plugin's description.
    fn describe() -> Description;

    /// Returns the advice. As with [`Recommender::recommend`](crate::Recommender::recommend), check the options before the
    /// first view is read.
    ///
    /// # Errors
    ///
    /// If the options are invalid or a view cannot be read.
    fn recommend(
        host: &mut dyn RecommenderHost,
        options: Self::Options,
    ) -> Result<Vec<Recommendation>, Error>;
}

/// Services of the host for an [`ActiveRecommender`]: the views, further cases, and a place for predictions.
pub trait RecommenderHost: Views {
    /// Returns what is left of the cases that may be asked for.
    fn left(&self) -> Grant;

    /// Asks for a case like that with the id `like`, with other values on axes of the matrix, by their names. `reason` says in
    /// one line what it is for.
    ///
    /// # Errors
    ///
    /// The reason why it cannot be had: the run has it, nothing is left, or device or model cannot do it.
    fn ask(&mut self, like: &str, changes: &[(&str, String)], reason: &str) -> Result<(), String>;

    /// States predictions.
    ///
    /// # Errors
    ///
    /// If the host finds a fault in one of them; then it keeps none.
    fn predict(&mut self, predictions: Vec<Prediction>) -> Result<(), Error>;
}

/// Remaining cases that may be asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Grant {
    /// Cases.
    pub cases: u32,
    /// Time to measure them, in seconds.
    pub seconds: f64,
}

/// The value that a measurement would have, probably.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// Coordinates of the configuration, by the names of axes.
    pub coordinates: BTreeMap<String, String>,
    /// The metric.
    pub metric: String,
    /// The value, in `unit`.
    pub value: f64,
    /// Bounds between which a measurement would lie.
    pub interval: (f64, f64),
    /// The part of such measurements that lie in such intervals, between 0 and 1.
    pub confidence: f64,
    /// Unit by its symbol.
    pub unit: String,
    /// Ids of the cases that it was made from.
    pub cases: Vec<String>,
    /// Other facts.
    pub attributes: BTreeMap<String, String>,
}

/// A wish for a case, as [`RecommenderHost::ask`] got it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish {
    /// The id of the case that it is like.
    pub like: String,
    /// The other values.
    pub changes: Vec<(String, String)>,
    /// Purpose.
    pub reason: String,
}

/// A host for tests: it keeps wishes and predictions.
#[derive(Debug, Clone, Default)]
pub struct RecordingHost {
    /// The views.
    pub tables: BTreeMap<String, Table>,
    /// The grant.
    pub grant: Grant,
    /// Requested cases.
    pub wishes: Vec<Wish>,
    /// Predictions.
    pub predictions: Vec<Prediction>,
}

impl Views for RecordingHost {
    fn names(&self) -> Vec<String> {
        self.tables.names()
    }

    fn read(&self, name: &str) -> Result<Table, Error> {
        self.tables.read(name)
    }
}

impl RecommenderHost for RecordingHost {
    fn left(&self) -> Grant {
        let asked = u32::try_from(self.wishes.len()).unwrap_or(u32::MAX);
        Grant { cases: self.grant.cases.saturating_sub(asked), ..self.grant }
    }

    fn ask(&mut self, like: &str, changes: &[(&str, String)], reason: &str) -> Result<(), String> {
        if self.left().cases == 0 {
            return Err("nothing is left of the grant".to_owned());
        }
        self.wishes.push(Wish {
            like: like.to_owned(),
            changes: changes
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.clone()))
                .collect(),
            reason: reason.to_owned(),
        });
        Ok(())
    }

    fn predict(&mut self, predictions: Vec<Prediction>) -> Result<(), Error> {
        self.predictions.extend(predictions);
        Ok(())
    }
}
