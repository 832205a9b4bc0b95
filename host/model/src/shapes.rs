//! From the meaning of axes to shapes.

use std::collections::BTreeMap;

use host_record::{AxisObstacle, AxisPlace, FixedAxis, OpenAxis, Port, PortAxis};

use crate::expression::Expression;
use crate::meaning::{Meaning, sequence_axes};

/// Coordinates of a case that give axes their sizes, and shapes that are known already.
#[derive(Debug, Clone, Default)]
pub struct Wanted<'a> {
    /// Examples in a batch.
    pub batch: u64,
    /// Length of the sequence, if the matrix has that axis.
    pub length: Option<u64>,
    /// Whole shapes of inputs that come from files.
    pub given: BTreeMap<&'a str, Vec<u64>>,
}

impl Meaning<'_> {
    /// Checks whether the model can take a batch and a length.
    ///
    /// # Errors
    ///
    /// The obstacle, which is a gap.
    pub fn check(&self, wanted: &Wanted<'_>) -> Result<(), AxisObstacle> {
        let batch = wanted.batch;
        let axes = self.axes();
        let fixed = |place: &AxisPlace| match place.size {
            PortAxis::Fixed(size) => {
                Some(FixedAxis { input: place.input.clone(), axis: place.axis, size })
            }
            PortAxis::Dynamic(_) => None,
        };
        if axes.batch.places.is_empty() && batch != 1 {
            return Err(AxisObstacle::NoBatchAxis { batch, fixed_first: self.fixed_first() });
        }
        let other = axes.batch.places.iter().filter_map(fixed).find(|fixed| fixed.size != batch);
        if let Some(fixed) = other {
            return Err(AxisObstacle::FixedBatch { fixed, batch });
        }
        let Some(length) = wanted.length else { return Ok(()) };
        if axes.sequence.places.is_empty() {
            return Err(AxisObstacle::NoSequenceAxis { length, sized: self.sized() });
        }
        let other = axes.sequence.places.iter().filter_map(fixed);
        match other.into_iter().find(|fixed| fixed.size != length) {
            Some(fixed) => Err(AxisObstacle::FixedSequence { fixed, length }),
            None => Ok(()),
        }
    }

    /// Returns the shape of each input.
    ///
    /// # Errors
    ///
    /// As [`Meaning::check`], or if an axis has no size, or a symbol has two.
    pub fn shapes(&self, wanted: &Wanted<'_>) -> Result<Vec<Vec<u64>>, AxisObstacle> {
        self.check(wanted)?;
        let symbols = self.symbols(wanted)?;
        // Axes that are open, and symbols of expressions that are, which may have no axis of their own.
        let mut open: Vec<OpenAxis> = Vec::new();
        let mut within: Vec<OpenAxis> = Vec::new();
        let mut shapes = Vec::new();
        for Port { name, axes } in &self.signature.inputs {
            if let Some(given) = wanted.given.get(name.as_str()) {
                shapes.push(given.clone());
                continue;
            }
            let Some(axes) = axes else {
                return Err(AxisObstacle::Undeclared { input: name.clone() });
            };
            let mut shape = Vec::new();
            for (axis, size) in axes.iter().enumerate() {
                let symbol = match size {
                    PortAxis::Fixed(size) => {
                        shape.push(*size);
                        continue;
                    }
                    PortAxis::Dynamic(symbol) => symbol,
                };
                let place = || OpenAxis {
                    input: name.clone(),
                    axis: axis as u32,
                    symbol: symbol.clone(),
                    expression: None,
                };
                let own = self.sizes.of(name, axis, symbol);
                if let Some(size) = own.or_else(|| self.coordinate(name, axis, wanted)) {
                    shape.push(size);
                    continue;
                }
                let expression = Expression::parse(symbol);
                match expression.value(&symbols) {
                    None if expression.symbol().is_some() => open.push(place()),
                    None => within.extend(
                        (expression.symbols().into_iter())
                            .filter(|name| !symbols.contains_key(*name))
                            .map(|name| OpenAxis {
                                symbol: name.to_owned(),
                                expression: Some(symbol.clone()),
                                ..place()
                            }),
                    ),
                    Some(value) => match value.and_then(|value| u64::try_from(value).ok()) {
                        Some(size) => shape.push(size),
                        None => return Err(AxisObstacle::NoSize { axis: place(), symbols }),
                    },
                }
            }
            shapes.push(shape);
        }
        for axis in within {
            if !open.iter().any(|known| known.symbol == axis.symbol) {
                open.push(axis);
            }
        }
        if open.is_empty() { Ok(shapes) } else { Err(AxisObstacle::Open { axes: open }) }
    }

    /// Returns the shape of each output whose axes follow from those of the inputs.
    ///
    /// # Errors
    ///
    /// If a symbol has two sizes.
    pub fn output_shapes(
        &self,
        wanted: &Wanted<'_>,
    ) -> Result<Vec<Option<Vec<u64>>>, AxisObstacle> {
        let symbols = self.symbols(wanted)?;
        let size = |axis: &PortAxis| match axis {
            PortAxis::Fixed(size) => Some(*size),
            PortAxis::Dynamic(symbol) => {
                Expression::parse(symbol).value(&symbols)??.try_into().ok()
            }
        };
        let shape = |port: &Port| port.axes.as_ref()?.iter().map(size).collect();
        Ok(self.signature.outputs.iter().map(shape).collect())
    }

    /// Returns the size of an axis that counts examples or tokens.
    fn coordinate(&self, input: &str, axis: usize, wanted: &Wanted<'_>) -> Option<u64> {
        let is_in = |places: &[AxisPlace]| {
            places.iter().any(|place| place.input == input && place.axis as usize == axis)
        };
        if is_in(&self.axes().batch.places) {
            return Some(wanted.batch);
        }
        wanted.length.filter(|_| is_in(&self.axes().sequence.places))
    }

    /// Returns the size of each symbol: from the manifest, from files, and from the case.
    fn symbols(&self, wanted: &Wanted<'_>) -> Result<BTreeMap<String, u64>, AxisObstacle> {
        let mut symbols = self.sizes.choice.sizes.clone();
        let mut bind = |symbol: &str, size: u64| match symbols.get(symbol) {
            _ if symbol.is_empty() => Ok(()),
            Some(known) if *known != size => {
                let symbol = symbol.to_owned();
                Err(AxisObstacle::TwoSizes { symbol, one: *known, other: size })
            }
            _ => {
                symbols.insert(symbol.to_owned(), size);
                Ok(())
            }
        };
        // A symbol of an expression has no axis of its own.
        for own in self.sizes.dimensions.values() {
            for (key, size) in own.iter().filter(|(key, _)| key.parse::<usize>().is_err()) {
                bind(key, *size)?;
            }
        }
        for Port { name, axes } in &self.signature.inputs {
            let given = wanted.given.get(name.as_str());
            for (axis, size) in axes.iter().flatten().enumerate() {
                let PortAxis::Dynamic(symbol) = size else { continue };
                let own = self.sizes.of(name, axis, symbol);
                let given = given.and_then(|shape| shape.get(axis).copied());
                let all = [own, given, self.coordinate(name, axis, wanted)];
                for size in all.into_iter().flatten() {
                    bind(symbol, size)?;
                }
            }
        }
        Ok(symbols)
    }

    /// Returns the first axis of an input that is fixed at more than 1, and could be the batch.
    fn fixed_first(&self) -> Option<FixedAxis> {
        self.signature.inputs.iter().find_map(|port| match port.axes.as_ref()?.first()? {
            PortAxis::Fixed(size) if *size > 1 => {
                Some(FixedAxis { input: port.name.clone(), axis: 0, size: *size })
            }
            _ => None,
        })
    }

    /// Returns the axes that would be sequence axes if the manifest gave them no size.
    fn sized(&self) -> Vec<OpenAxis> {
        let open = |AxisPlace { input, axis, size }: AxisPlace| match size {
            PortAxis::Dynamic(symbol) => Some(OpenAxis { input, axis, symbol, expression: None }),
            PortAxis::Fixed(_) => None,
        };
        match self.sizes.choice.sequence {
            None => sequence_axes(self.signature).into_iter().filter_map(open).collect(),
            Some(_) => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use host_record::{AxesChoice, AxisName, NotMeasured, Signature};

    use super::*;
    use crate::Sizes;
    use crate::testing::{Axes, ports};

    #[derive(Default)]
    struct Model {
        signature: Signature,
        choice: AxesChoice,
        dimensions: BTreeMap<String, BTreeMap<String, u64>>,
    }

    impl Model {
        fn new(inputs: Axes<'_>, outputs: Axes<'_>) -> Self {
            let signature = Signature { inputs: ports(inputs), outputs: ports(outputs) };
            Self { signature, ..Self::default() }
        }

        fn sized(mut self, symbol: &str, size: u64) -> Self {
            self.choice.sizes.insert(symbol.into(), size);
            self
        }

        fn dimension(mut self, input: &str, axis: &str, size: u64) -> Self {
            self.dimensions.entry(input.into()).or_default().insert(axis.into(), size);
            self
        }

        fn batch(mut self, names: &[AxisName]) -> Self {
            self.choice.batch = Some(names.to_vec());
            self
        }

        fn meaning(&self) -> Result<Meaning<'_>, AxisObstacle> {
            let sizes = Sizes { choice: &self.choice, dimensions: &self.dimensions };
            Meaning::new(&self.signature, sizes)
        }

        /// Returns the shapes, or the obstacle in words.
        fn shapes(&self, batch: u64, length: Option<u64>) -> Result<Vec<Vec<u64>>, String> {
            let wanted = Wanted { batch, length, ..Wanted::default() };
            let shapes = self.meaning().and_then(|meaning| meaning.shapes(&wanted));
            shapes.map_err(|obstacle| obstacle.to_string())
        }

        fn refusal(&self, batch: u64, length: Option<u64>) -> String {
            self.shapes(batch, length).expect_err("an obstacle")
        }

        fn samples(&self, batch: u64, shapes: &[&[i64]]) -> Result<u64, NotMeasured> {
            let shapes: Vec<_> = shapes.iter().map(|shape| Some(shape.to_vec())).collect();
            self.meaning().expect("a meaning").samples(batch, &shapes)
        }
    }

    fn input(input: &str, axis: u32) -> AxisName {
        AxisName::Input { input: input.into(), axis }
    }

    #[test]
    fn axes_are_found_by_their_symbols_at_any_position() {
        let model = Model::new(
            &[
                ("ids", &["batch_size", "sequence_length"]),
                ("state", &["2", "batch_size", "128"]),
                ("mask", &["", "seq_len"]),
                ("rows", &["unk__12", "4"]),
            ],
            &[],
        );
        let shapes = model.shapes(8, Some(16)).expect("shapes");
        assert_eq!(shapes, [vec![8, 16], vec![2, 8, 128], vec![8, 16], vec![8, 4]]);
        let meaning = model.meaning().expect("a meaning");
        assert_eq!(meaning.batch_axis("state"), Some(1));
        insta::assert_snapshot!(meaning.axes().batch, @"`batch_size`, axis 0 of `mask` and `unk__12`");
        insta::assert_snapshot!(meaning.axes().sequence, @"`sequence_length` and `seq_len`");
    }

    #[test]
    fn a_first_axis_with_another_name_is_no_batch() {
        let image = Model::new(&[("image", &["height", "width", "3"])], &[]);
        insta::assert_snapshot!(image.refusal(8, None), @"the model has no batch axis for a batch of 8; name the axis that counts examples with `axes.batch` in the `[[model]]`, or use batch 1");
        insta::assert_snapshot!(image.refusal(1, None), @"axis 0 (`height`) of `image` and axis 1 (`width`) of `image` have no size; give them sizes in the `[[model]]` with `axes.sizes = { height = …, width = … }`");
        let image = image.sized("height", 224).dimension("image", "1", 112);
        assert_eq!(image.shapes(1, None), Ok(vec![vec![224, 112, 3]]));
        // Declared, it is one.
        let rows = Model::new(&[("image", &["height", "3"])], &[]);
        let rows = rows.batch(&[AxisName::Symbol("height".into())]);
        assert_eq!(rows.shapes(8, None), Ok(vec![vec![8, 3]]));
    }

    #[test]
    fn a_symbol_twice_in_one_input_does_not_count_examples() {
        let inputs: Axes<'_> = &[("nodes", &["N", "16"]), ("adjacency", &["N", "N"])];
        let graph = Model::new(inputs, &[("scores", &["N", "3"])]);
        insta::assert_snapshot!(graph.refusal(1, None), @"axis 0 (`N`) of `nodes`, axis 0 (`N`) of `adjacency` and axis 1 (`N`) of `adjacency` have no size; give them sizes in the `[[model]]` with `axes.sizes = { N = … }`");
        insta::assert_snapshot!(graph.refusal(8, None), @"the model has no batch axis for a batch of 8; name the axis that counts examples with `axes.batch` in the `[[model]]`, or use batch 1");
        let sized = Model::new(inputs, &[]).sized("N", 5);
        assert_eq!(sized.shapes(1, None), Ok(vec![vec![5, 16], vec![5, 5]]));
        // Declared, it does.
        let declared = Model::new(inputs, &[]).batch(&[AxisName::Symbol("N".into())]);
        assert_eq!(declared.shapes(8, None), Ok(vec![vec![8, 16], vec![8, 8]]));
        // Batches of graphs have an axis for them.
        let batched =
            Model::new(&[("nodes", &["B", "N", "16"]), ("adjacency", &["B", "N", "N"])], &[]);
        let batched = batched.sized("N", 5);
        assert_eq!(batched.shapes(2, None), Ok(vec![vec![2, 5, 16], vec![2, 5, 5]]));
    }

    #[test]
    fn fixed_axes_are_what_they_are() {
        let matrix = Model::new(&[("x", &["64", "64"])], &[("y", &["64", "64"])]);
        assert_eq!(matrix.shapes(1, None), Ok(vec![vec![64, 64]]));
        insta::assert_snapshot!(matrix.refusal(64, None), @r#"the model has no batch axis for a batch of 64: axis 0 of `x` is fixed at 64; if that axis counts examples, write `axes.batch = { input = "x", axis = 0 }` in the `[[model]]`, otherwise use batch 1"#);
        let faces = Model::new(&[("x", &["10", "3"])], &[]).batch(&[input("x", 0)]);
        assert_eq!(faces.shapes(10, None), Ok(vec![vec![10, 3]]));
        insta::assert_snapshot!(faces.refusal(1, None), @"the model's batch axis cannot be 1: axis 0 of `x` is fixed at 10; export the model with a dynamic batch axis, or leave this batch size out");
        let one = Model::new(&[("x", &["1", "3"])], &[]);
        assert_eq!(one.shapes(1, None), Ok(vec![vec![1, 3]]));
        insta::assert_snapshot!(one.refusal(8, None), @"the model's batch axis cannot be 8: axis 0 of `x` is fixed at 1; export the model with a dynamic batch axis, or leave this batch size out");
        let mut long = Model::new(&[("ids", &["batch", "2048"])], &[]);
        insta::assert_snapshot!(long.refusal(1, Some(16)), @"the model has no sequence axis that could be 16 long; name it with `axes.sequence` in the `[[model]]`, or leave the length out of the matrix");
        long.choice.sequence = Some(vec![input("ids", 1)]);
        assert_eq!(long.shapes(1, Some(2048)), Ok(vec![vec![1, 2048]]));
        insta::assert_snapshot!(long.refusal(1, Some(16)), @"the model's sequence axis cannot be 16 long: axis 1 of `ids` is fixed at 2048");
    }

    #[test]
    fn without_inputs_there_is_no_batch() {
        let model = Model::new(&[], &[("y", &["3"])]);
        assert_eq!(model.shapes(1, None), Ok(Vec::new()));
        assert!(model.refusal(4, None).starts_with("the model has no batch axis"));
        assert_eq!(model.samples(1, &[&[3]]), Err(NotMeasured::NoBatchAxis));
    }

    #[test]
    fn expressions_follow_from_their_symbols() {
        let inputs: Axes<'_> = &[
            ("ids", &["batch", "sequence_length"]),
            ("mask", &["batch", "past_sequence_length + sequence_length"]),
            ("past", &["batch", "8", "past_sequence_length", "64"]),
        ];
        let model = Model::new(inputs, &[]).sized("past_sequence_length", 30);
        let shapes = model.shapes(2, Some(2)).expect("shapes");
        assert_eq!(shapes, [vec![2, 2], vec![2, 32], vec![2, 8, 30, 64]]);
        insta::assert_snapshot!(Model::new(inputs, &[]).refusal(2, Some(2)), @"axis 2 (`past_sequence_length`) of `past` has no size; give it one in the `[[model]]` with `axes.sizes = { past_sequence_length = … }`");
        let inner = Model::new(&[("x", &["foo*2", "bar"]), ("y", &["foo*2", "bar + baz"])], &[]);
        insta::assert_snapshot!(inner.refusal(1, None), @"axis 1 (`bar`) of `x`, `foo` of axis 0 (`foo*2`) of `x` and `baz` of axis 1 (`bar + baz`) of `y` have no size; give them sizes in the `[[model]]` with `axes.sizes = { bar = …, foo = …, baz = … }`");
        let closed = inner.sized("foo", 3).sized("bar", 2).sized("baz", 5);
        assert_eq!(closed.shapes(1, None), Ok(vec![vec![6, 2], vec![6, 7]]));
        let negative = Model::new(&[("x", &["a - 5"])], &[]).sized("a", 3);
        insta::assert_snapshot!(negative.refusal(1, None), @"axis 0 (`a - 5`) of `x` has no possible size with a = 3");
    }

    #[test]
    fn outputs_follow_from_inputs_if_their_symbols_do() {
        let inputs: Axes<'_> = &[("x", &["batch", "seq"])];
        let outputs: Axes<'_> =
            &[("y", &["batch", "2*seq"]), ("z", &["batch", "boxes"]), ("n", &[])];
        let model = Model::new(inputs, outputs);
        let wanted = Wanted { batch: 4, length: Some(8), ..Wanted::default() };
        let found = model.meaning().and_then(|meaning| meaning.output_shapes(&wanted));
        assert_eq!(found, Ok(vec![Some(vec![4, 16]), None, Some(vec![])]));
    }

    #[test]
    fn explicit_sizes_are_never_overridden() {
        let inputs: Axes<'_> =
            &[("source", &["batch", "source_seq"]), ("target", &["batch", "target_seq"])];
        let model = Model::new(inputs, &[]).dimension("target", "target_seq", 1);
        assert_eq!(model.shapes(1, Some(16)), Ok(vec![vec![1, 16], vec![1, 1]]));
        let both = model.sized("source_seq", 7);
        insta::assert_snapshot!(both.refusal(1, Some(16)), @"no sequence axis is left that could be 16 long: the manifest gives axis 1 (`source_seq`) of `source` and axis 1 (`target_seq`) of `target` another size; remove that, or leave the length out of the matrix");
        assert_eq!(both.shapes(1, None), Ok(vec![vec![1, 7], vec![1, 1]]));
        let two = Model::new(&[("x", &["batch", "w"]), ("y", &["batch", "w"])], &[]);
        let two = two.dimension("x", "w", 3).dimension("y", "w", 4);
        insta::assert_snapshot!(two.refusal(1, None), @"axes called `w` have one size, and it is both 3 and 4");
        let fixed =
            Model::new(&[("x", &["batch", "w"])], &[]).batch(&[AxisName::Symbol("batch".into())]);
        let fixed = fixed.sized("batch", 4).sized("w", 1);
        insta::assert_snapshot!(fixed.refusal(8, None), @"axes called `batch` have one size, and it is both 4 and 8");
    }

    #[test]
    fn axes_without_a_name_are_not_equal() {
        let model = Model::new(&[("x", &["batch", ""]), ("y", &["batch", ""])], &[]);
        let model = model.dimension("x", "1", 3).dimension("y", "1", 4);
        assert_eq!(model.shapes(2, None), Ok(vec![vec![2, 3], vec![2, 4]]));
    }

    #[test]
    fn names_that_the_model_lacks_are_refused() {
        let model = || Model::new(&[("x", &["batch", "w", "3"])], &[("y", &["batch"])]);
        insta::assert_snapshot!(model().sized("h", 1).refusal(1, None), @"the model's inputs have no axis `h`; they have [batch], [w]");
        insta::assert_snapshot!(model().dimension("x", "2", 1).refusal(1, None), @"`x` has no dynamic axis `2`: it is [batch, w, 3]");
        insta::assert_snapshot!(model().dimension("z", "w", 1).refusal(1, None), @"the model has no input `z`; it has `x`");
        insta::assert_snapshot!(model().batch(&[input("x", 3)]).refusal(1, None), @"`x` has no dynamic axis `3`: it is [batch, w, 3]");
        let output = AxisName::Output { output: "y".into(), axis: 1 };
        insta::assert_snapshot!(model().batch(&[output]).refusal(1, None), @"`y` has no dynamic axis `1`: it is [batch]");
    }

    #[test]
    fn samples_are_what_the_outputs_have() {
        let inputs: Axes<'_> = &[("x", &["batch", "3"]), ("fixed", &["1", "3"])];
        let named = Model::new(inputs, &[("y", &["2", "batch"])]);
        assert_eq!(named.samples(8, &[&[2, 8]]), Ok(8));
        let fixed = Model::new(inputs, &[("y", &["1", "5"])]);
        let of_output = NotMeasured::BatchOfOutput { output: "y".into(), examples: 1, batch: 8 };
        assert_eq!(fixed.samples(8, &[&[1, 5]]), Err(of_output));
        assert_eq!(fixed.samples(1, &[&[1, 5]]), Ok(1));
        let chance = Model::new(inputs, &[("y", &["8", "5"])]);
        assert_eq!(chance.samples(8, &[&[8, 5]]), Err(NotMeasured::NoBatchOfOutputs));
        let scalar = Model::new(inputs, &[("loss", &[])]);
        assert_eq!(scalar.samples(8, &[&[]]), Err(NotMeasured::NoBatchOfOutputs));
        let output = AxisName::Output { output: "y".into(), axis: 1 };
        let declared = Model::new(inputs, &[("y", &["1", "5"])]).batch(&[input("x", 0), output]);
        assert_eq!(declared.samples(8, &[&[1, 8]]), Ok(8));
    }
}
