//! A recommender's answer, and the cases that it may ask for.

use host_record::{Prediction, Recommendation};

/// Remaining cases that a recommender may ask for.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Grant {
    /// Cases.
    pub cases: u32,
    /// Time to measure them, in seconds.
    pub seconds: f64,
}

/// Takes a recommender's wishes for further cases. They are measured after the call.
pub trait MoreCases {
    /// Returns what is left, less what this call has asked for.
    fn left(&self) -> Grant;

    /// Takes a wish for a case like that with the id `like`, with other values on some axes, by their names.
    ///
    /// # Errors
    ///
    /// The reason why it cannot be had.
    fn ask(&self, like: &str, changes: &[(String, String)], reason: &str) -> Result<(), String>;
}

/// A recommender's answer.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Advice {
    /// Its advice.
    pub recommendations: Vec<Recommendation>,
    /// Values that it predicts.
    pub predictions: Vec<Prediction>,
}
