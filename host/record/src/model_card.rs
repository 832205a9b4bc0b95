//! A model's card: facts of its file, and the cost of a pass over the inputs of a case.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::gap::Gap;

/// Facts about a model, and the cost of a pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ModelCard {
    /// Size of its file and of those with its weights.
    pub bytes: u64,
    /// Its parameters.
    pub parameters: u64,
    /// Operators and how often they are used, in all graphs. One of another domain has it before a dot.
    pub operators: BTreeMap<String, u64>,
    /// Weights by element type.
    pub weights: BTreeMap<String, Weights>,
    /// Cost of a pass over the inputs of the case.
    pub cost: ModelCost,
}

/// Weights of one element type.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Weights {
    /// Tensors.
    pub tensors: u64,
    /// Their elements.
    pub elements: u64,
    /// The bytes that these take.
    pub bytes: u64,
}

/// The cost of one pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ModelCost {
    /// Operations of convolutions, products of matrices and recurrent layers: two for each product that is summed.
    pub flops: Result<u64, Gap>,
    /// Bytes that must move at least: inputs, outputs, and weights that are read, once.
    pub least_bytes: Result<u64, Gap>,
    /// Bytes that move if each operator reads its inputs from memory and writes its outputs to it.
    pub unfused_bytes: Result<u64, Gap>,
}

impl ModelCost {
    /// Returns a cost that is not known for one reason.
    #[must_use]
    pub fn unknown(gap: &Gap) -> Self {
        let gap = || Err(gap.clone());
        Self { flops: gap(), least_bytes: gap(), unfused_bytes: gap() }
    }

    /// Returns the arithmetic intensity if as few bytes move as can: operations for each byte.
    ///
    /// # Errors
    ///
    /// The gap of operations or bytes.
    pub fn intensity(&self) -> Result<f64, Gap> {
        let flops = self.flops.clone()? as f64;
        Ok(flops / self.least_bytes.clone()?.max(1) as f64)
    }
}

impl ModelCard {
    /// Returns the number of operators.
    #[must_use]
    pub fn operator_count(&self) -> u64 {
        self.operators.values().sum()
    }
}
