//! Sizes for the axes that a model leaves open, so that a manifest for it runs.

use std::collections::BTreeMap;

use host_record::{AxesChoice, AxisObstacle, OpenAxis, Signature};

use crate::expression::Expression;
use crate::meaning::{Meaning, Sizes, is_batch};
use crate::shapes::Wanted;

/// Sizes that close all axes of a model, as a manifest gives them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Closing {
    /// Sizes of symbols, in all inputs.
    pub sizes: BTreeMap<String, u64>,
    /// Sizes of axes without a symbol, by input and number.
    pub dimensions: BTreeMap<String, BTreeMap<String, u64>>,
}

impl Closing {
    /// Finds sizes for all axes that count no examples. A symbol gets the size that `usual` says for it, and an
    /// expression follows from its symbols. Inputs that do not say how many axes they have are left out.
    #[must_use]
    pub fn of(signature: &Signature, batch: u64, usual: impl Fn(&str) -> u64) -> Self {
        let mut signature = signature.clone();
        signature.inputs.retain(|port| port.axes.is_some());
        let mut closing = Self::default();
        // Each round closes at least one axis.
        while let Some(open) = closing.open(&signature, batch) {
            for OpenAxis { input, axis, symbol, .. } in open {
                let expression = Expression::parse(&symbol);
                let symbols = expression.symbols().into_iter();
                let new: Vec<_> = symbols
                    .filter(|symbol| !symbol.is_empty() && !closing.sizes.contains_key(*symbol))
                    .collect();
                if new.is_empty()
                    && expression.value(&closing.sizes).flatten().is_none_or(|it| it < 0)
                {
                    let own = closing.dimensions.entry(input).or_default();
                    own.insert(axis.to_string(), usual(&symbol));
                }
                for symbol in new {
                    let size = if is_batch(symbol) { batch } else { usual(symbol) };
                    closing.sizes.insert(symbol.to_owned(), size);
                }
            }
        }
        closing
    }

    /// Returns the shape of each input that says how many axes it has, by name.
    #[must_use]
    pub fn shapes(&self, signature: &Signature, batch: u64) -> BTreeMap<String, Vec<u64>> {
        let mut signature = signature.clone();
        signature.inputs.retain(|port| port.axes.is_some());
        let shapes = self.with(&signature, |meaning| meaning.shapes(&wanted(batch)));
        let names = signature.inputs.iter().map(|port| port.name.clone());
        names.zip(shapes.unwrap_or_default()).collect()
    }

    fn open(&self, signature: &Signature, batch: u64) -> Option<Vec<OpenAxis>> {
        match self.with(signature, |meaning| meaning.shapes(&wanted(batch))) {
            Err(AxisObstacle::Open { axes }) => Some(axes),
            Err(AxisObstacle::NoSize { axis, .. }) => Some(vec![axis]),
            _ => None,
        }
    }

    fn with<T>(
        &self,
        signature: &Signature,
        then: impl FnOnce(Meaning<'_>) -> Result<T, AxisObstacle>,
    ) -> Result<T, AxisObstacle> {
        let choice = AxesChoice { sizes: self.sizes.clone(), ..AxesChoice::default() };
        let sizes = Sizes { choice: &choice, dimensions: &self.dimensions };
        Meaning::new(signature, sizes).and_then(then)
    }
}

fn wanted(batch: u64) -> Wanted<'static> {
    Wanted { batch, ..Wanted::default() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{Axes, ports};

    fn signature(inputs: Axes<'_>) -> Signature {
        Signature { inputs: ports(inputs), outputs: Vec::new() }
    }

    fn usual(symbol: &str) -> u64 {
        if symbol.contains("past") { 30 } else { 16 }
    }

    #[test]
    fn expressions_follow_from_their_symbols() {
        let model = signature(&[
            ("mask", &["batch", "past_sequence + sequence"]),
            ("ids", &["batch", "sequence"]),
            ("past", &["batch", "8", "past_sequence", ""]),
            ("wide", &["batch", "sequence * heads"]),
            ("sum", &["batch", "past_sequence - 40"]),
        ]);
        let closing = Closing::of(&model, 1, usual);
        let sizes = [("heads", 16), ("past_sequence", 30), ("sequence", 16)];
        assert_eq!(closing.sizes, sizes.map(|(name, size)| (name.to_owned(), size)).into());
        let shapes = closing.shapes(&model, 2);
        assert_eq!(shapes["mask"], [2, 46]);
        assert_eq!(shapes["past"], [2, 8, 30, 16]);
        assert_eq!(shapes["wide"], [2, 256]);
        // It would be negative.
        assert_eq!(closing.dimensions["sum"], [("1".to_owned(), 30)].into());
        assert_eq!(closing.dimensions["past"], [("3".to_owned(), 16)].into());
    }

    #[test]
    fn what_is_fixed_needs_nothing() {
        let model = signature(&[("x", &["batch", "3"]), ("n", &[])]);
        assert_eq!(Closing::of(&model, 4, usual), Closing::default());
        assert_eq!(Closing::of(&model, 4, usual).shapes(&model, 4)["x"], [4, 3]);
    }

    proptest! {
        #[test]
        fn nothing_stays_open(axes in prop::collection::vec(prop::collection::vec(
            prop::sample::select(vec!["batch", "seq", "past", "past + seq", "", "a - b", "N", "2", "a*seq", "unk__1", "floor(a)"]), 0..4), 0..4))
        {
            let names = ["v", "w", "x", "y"];
            let inputs: Vec<_> = names.into_iter().zip(axes.iter().map(Vec::as_slice)).collect();
            let model = signature(&inputs);
            let closing = Closing::of(&model, 1, usual);
            prop_assert_eq!(closing.shapes(&model, 1).len(), model.inputs.len());
        }
    }
}
