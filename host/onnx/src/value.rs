//! Inputs and outputs.

use host_record::PortAxis;
use serde::Serialize;

/// An input or output.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Value {
    /// Its name.
    pub name: String,
    /// Its element type; `None` if it is not a tensor.
    pub element: Option<String>,
    /// Its axes; `None` if even their number is open.
    pub axes: Option<Vec<PortAxis>>,
    /// Its kind.
    pub kind: Kind,
}

/// Kinds of values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A tensor.
    #[default]
    Tensor,
    /// A sequence of values.
    Sequence,
    /// A map.
    Map,
    /// Another kind.
    Other,
}
