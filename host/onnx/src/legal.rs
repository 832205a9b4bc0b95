//! Legal values of a model's inputs, as its graph tells them: an input that is looked up in a table must be below
//! the table's size, and an engine is free to do anything with another one.

use std::collections::{BTreeMap, BTreeSet};

use host_record::{LegalValues, PortAxis};

use crate::messages::{Attribute, Graph, Node, Tensor};
use crate::value::Value;

/// Operators of which some inputs decide what is computed, or how much, by the places of these inputs.
const STEERED: &[(&str, &[usize])] = &[
    ("ConstantOfShape", &[0]),
    ("Expand", &[1]),
    ("If", &[0]),
    ("Loop", &[0, 1]),
    ("OneHot", &[1]),
    ("Pad", &[1]),
    ("Range", &[0, 1, 2]),
    ("Reshape", &[1]),
    ("Resize", &[3]),
    ("Slice", &[1, 2, 3, 4]),
    ("Split", &[1]),
    ("Tile", &[1]),
    ("TopK", &[1]),
];

/// Operators whose output does not depend on the values of their input.
const OF_SHAPES: &[&str] = &["Shape", "Size"];

/// Operators that look up in a table: its place among the inputs, and that of the indices.
const LOOKUPS: &[(&str, usize, usize)] = &[
    ("Gather", 0, 1),
    ("GatherElements", 0, 1),
    ("GatherND", 0, 1),
    ("GatherBlockQuantized", 0, 1),
    ("OneHot", 1, 0),
    ("ScatterElements", 0, 1),
    ("ScatterND", 0, 1),
    ("EmbedLayerNormalization", 2, 0),
    ("EmbedLayerNormalization", 4, 1),
];

/// Operators whose output has the same values as some of their inputs, or some of their values: the places of these
/// inputs.
const CARRIERS: &[(&str, &[usize])] = &[
    ("Cast", &[0]),
    ("Concat", &[0, 1, 2, 3]),
    ("Expand", &[0]),
    ("Flatten", &[0]),
    ("Identity", &[0]),
    ("Reshape", &[0]),
    ("Slice", &[0]),
    ("Split", &[0]),
    ("Squeeze", &[0]),
    ("Tile", &[0]),
    ("Transpose", &[0]),
    ("Unsqueeze", &[0]),
    ("Where", &[1, 2]),
];

/// Operators that bring any value into bounds.
const BOUNDED: &[&str] = &["Clip", "Max", "Min"];

/// Operators that compute other numbers.
const ARITHMETIC: &[&str] =
    &["Abs", "Add", "BitShift", "Div", "Floor", "Mul", "Neg", "Pow", "Sub", "Sum"];

/// Subgraphs within subgraphs that values are followed through.
const DEEPEST: usize = 16;

/// Operators whose output has the shape of their first input, which may be a table.
const SAME_SHAPE: &[&str] = &["Cast", "DequantizeLinear", "Identity"];

/// A graph with its subgraphs.
struct Nodes<'a> {
    inputs: &'a [Value],
    /// Nodes in the order in which they are computed, except those of a subgraph, which come before the node around it.
    nodes: Vec<&'a Node>,
    /// Shapes of weights and constants, by name.
    shapes: BTreeMap<&'a str, &'a [i64]>,
    /// Weights and constants that are one whole number, by name.
    numbers: BTreeMap<&'a str, i64>,
}

/// Returns the legal values of inputs, by name. An input that is not there may have any.
pub(crate) fn of(graph: &Graph, inputs: &[Value]) -> BTreeMap<String, LegalValues> {
    let mut nodes = Vec::new();
    let mut weights: Vec<_> = graph.initializers.iter().collect();
    flatten(&graph.nodes, &mut |graph| weights.extend(&graph.initializers), &mut nodes);
    let constants = nodes
        .iter()
        .filter(|node| node.operator == "Constant")
        .filter_map(|node| Some((node.outputs.first()?.as_str(), node.attributes.first()?)));
    let (mut shapes, mut numbers) = (BTreeMap::new(), BTreeMap::new());
    let tensors = weights.into_iter().map(|weight| (weight.name.as_str(), weight));
    let of_constants = constants.clone().filter_map(|(name, it)| Some((name, it.tensor.as_ref()?)));
    for (name, tensor) in tensors.chain(of_constants) {
        shapes.insert(name, &tensor.sizes[..]);
        numbers.extend(number(tensor).map(|number| (name, number)));
    }
    for (name, attribute) in constants {
        // `value_int`, or `value_ints` of one.
        let listed = attribute.integers.first().filter(|_| attribute.integers.len() == 1);
        numbers.extend(attribute.integer.or(listed.copied()).map(|number| (name, number)));
    }
    let all = Nodes { inputs, nodes, shapes, numbers };
    let of_input = |input: &Value| {
        let element = input.element.as_deref()?;
        Some((input.name.clone(), all.legal_values_of(input, element)?))
    };
    inputs.iter().filter_map(of_input).collect()
}

impl Nodes<'_> {
    fn legal_values_of(&self, value: &Value, element: &str) -> Option<LegalValues> {
        let is_whole = ["int", "bool"].iter().any(|whole| element.contains(whole));
        let is_real = ["fp16", "bf16", "fp32", "fp64"].contains(&element);
        if !is_whole && !is_real {
            return None;
        }
        let input = value.name.as_str();
        if self.steers(value, is_real) {
            return Some(LegalValues::Steers);
        }
        let looked_up = self.looked_up(input, is_real);
        let name = input.to_lowercase();
        match looked_up {
            looked_up if !is_real && name.contains("position") => {
                let entries = match looked_up {
                    Some(LegalValues::Index { entries, .. }) => Some(entries),
                    _ => None,
                };
                Some(LegalValues::Positions { entries })
            }
            // A mask may be computed with, since its values are known.
            Some(LegalValues::Computed { .. }) | None
                if name.contains("attention_mask") || (!is_real && name.contains("mask")) =>
            {
                Some(LegalValues::Ones)
            }
            looked_up => looked_up,
        }
    }

    /// Returns the legal values that follow from the tables that an input is looked up in.
    fn looked_up(&self, input: &str, is_real: bool) -> Option<LegalValues> {
        let traces = self.traces(input);
        let mut legal: Option<LegalValues> = None;
        let mut computed: Option<LegalValues> = None;
        let entries_of = |legal: &Option<LegalValues>| match legal {
            Some(
                LegalValues::Index { entries, .. }
                | LegalValues::Below { entries, .. }
                | LegalValues::Computed { entries, .. },
            ) => *entries,
            _ => u64::MAX,
        };
        for node in &self.nodes {
            for (_, table, indices) in LOOKUPS.iter().filter(|(name, ..)| *name == node.operator) {
                let Some(trace) =
                    node.inputs.get(*indices).and_then(|name| traces.get(name.as_str()))
                else {
                    continue;
                };
                let Some(entries) = self.entries(node, *table, *indices) else { continue };
                let shifted = i128::from(entries) - i128::from(trace.shift);
                match (&trace.computed_by, trace.wraps, u64::try_from(shifted)) {
                    (None, Some((by, modulus)), _) => {
                        let entries = modulus.unwrap_or(entries);
                        if entries < entries_of(&legal) {
                            legal = Some(LegalValues::Below { entries, operator: by.to_owned() });
                        }
                    }
                    (None, None, Ok(shifted @ 1..)) => {
                        let operator = node.operator.clone();
                        if shifted < entries_of(&legal) {
                            legal = Some(match node.operator.as_str() {
                                "OneHot" => LegalValues::Below { entries: shifted, operator },
                                _ => LegalValues::Index { entries: shifted, operator },
                            });
                        }
                    }
                    // Real numbers are computed with everywhere.
                    (Some(by), ..) if !is_real && entries < entries_of(&computed) => {
                        let operator = (*by).to_owned();
                        computed = Some(LegalValues::Computed { entries, operator });
                    }
                    _ => {}
                }
            }
        }
        legal.or(computed)
    }

    /// Returns whether an input decides what is computed, or how much: a whole number, a flag or a list of them, from
    /// which such an input of an operator follows.
    fn steers(&self, input: &Value, is_real: bool) -> bool {
        let rank = input.axes.as_ref().map(Vec::len);
        if is_real || rank.is_some_and(|rank| rank > 1) {
            return false;
        }
        let mut follow = BTreeSet::from([input.name.as_str()]);
        for _ in 0..DEEPEST {
            let before = follow.len();
            for node in &self.nodes {
                let depends = node.inputs.iter().any(|name| follow.contains(name.as_str()));
                if depends && !OF_SHAPES.contains(&node.operator.as_str()) {
                    follow.extend(node.outputs.iter().map(String::as_str));
                }
            }
            if follow.len() == before {
                break;
            }
        }
        self.nodes.iter().any(|node| {
            let places = STEERED.iter().find(|(operator, _)| *operator == node.operator);
            let steered = places.map_or(&[][..], |(_, places)| places).iter();
            steered.filter_map(|at| node.inputs.get(*at)).any(|name| follow.contains(name.as_str()))
        })
    }

    /// Returns how all values follow from an input that are its own, or computed from it by simple arithmetic.
    fn traces<'a>(&'a self, input: &'a str) -> BTreeMap<&'a str, Trace<'a>> {
        let mut traces = BTreeMap::from([(input, Trace::default())]);
        // Nodes come in the order in which they are computed, except those of a subgraph, which come before the node
        // around it.
        for _ in 0..DEEPEST {
            let before = traces.len();
            for node in &self.nodes {
                let Some(trace) = self.trace(node, &traces) else { continue };
                for output in &node.outputs {
                    traces.entry(output).or_insert(trace);
                }
            }
            if traces.len() == before {
                break;
            }
        }
        traces
    }

    /// Returns how the output of a node follows from an input of the model.
    fn trace<'a>(&self, node: &'a Node, traces: &BTreeMap<&str, Trace<'a>>) -> Option<Trace<'a>> {
        let operator = node.operator.as_str();
        let of = |at: usize| node.inputs.get(at).and_then(|name| traces.get(name.as_str()));
        let number = |at: usize| self.numbers.get(node.inputs.get(at)?.as_str()).copied();
        if let Some((_, places)) = CARRIERS.iter().find(|(name, _)| *name == operator) {
            return places.iter().find_map(|at| of(*at)).copied();
        }
        if operator == "Mod" {
            let modulus = number(1).and_then(|number| u64::try_from(number).ok());
            let trace = *of(0)?;
            return Some(Trace { wraps: Some((operator, modulus.filter(|it| *it > 0))), ..trace });
        }
        if BOUNDED.contains(&operator) {
            let trace = (0..node.inputs.len()).find_map(of)?;
            return Some(Trace { wraps: trace.wraps.or(Some((operator, None))), ..*trace });
        }
        if !ARITHMETIC.contains(&operator) {
            return None;
        }
        let at = (0..node.inputs.len()).find(|at| of(*at).is_some())?;
        let trace = *of(at)?;
        let added = match (operator, at, number(1 - at.min(1))) {
            ("Add", _, Some(number)) => Some(number),
            ("Sub", 0, Some(number)) => number.checked_neg(),
            _ => None,
        };
        match added.and_then(|added| trace.shift.checked_add(added)) {
            Some(shift) if node.inputs.len() == 2 => Some(Trace { shift, ..trace }),
            _ => Some(Trace { computed_by: trace.computed_by.or(Some(operator)), ..trace }),
        }
    }

    /// Returns the number of entries of the table that a node looks up in, if it is known before the model runs.
    fn entries(&self, node: &Node, table: usize, indices: usize) -> Option<u64> {
        let mut name = node.inputs.get(table)?;
        if node.operator == "OneHot" {
            return u64::try_from(*self.numbers.get(name.as_str())?)
                .ok()
                .filter(|depth| *depth > 0);
        }
        // A table may be stored in another type.
        for _ in 0..8 {
            if let Some(shape) = self.shapes.get(name.as_str()) {
                if matches!(&*node.operator, "GatherND" | "ScatterND") {
                    return self.entries_of_coordinates(node, shape, node.inputs.get(indices)?);
                }
                let axis = match axis(node).unwrap_or(0) {
                    axis @ ..0 => axis + i64::try_from(shape.len()).ok()?,
                    axis => axis,
                };
                let size = *shape.get(usize::try_from(axis).ok()?)?;
                return u64::try_from(size).ok().filter(|size| *size > 0);
            }
            let maker = self.maker(name)?;
            name =
                maker.inputs.first().filter(|_| SAME_SHAPE.contains(&maker.operator.as_str()))?;
        }
        None
    }

    fn maker(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().copied().find(|node| node.outputs.iter().any(|output| output == name))
    }

    /// Returns the smallest size of the axes that coordinates index. They are along the last axis of the indices, and
    /// as many as it is long; if that is not known, any axis may be one of them.
    fn entries_of_coordinates(&self, node: &Node, shape: &[i64], indices: &str) -> Option<u64> {
        let batch_axes = attribute(node, "batch_dims").and_then(|it| it.integer).unwrap_or(0);
        let axes = shape.get(usize::try_from(batch_axes).ok()?..)?;
        let last = |name: &str| {
            let input = self.inputs.iter().find(|input| input.name == name)?;
            match input.axes.as_ref()?.last()? {
                PortAxis::Fixed(size) => usize::try_from(*size).ok(),
                PortAxis::Dynamic(_) => None,
            }
        };
        let rank = |name: &str| {
            let input = self.inputs.iter().find(|input| input.name == name)?;
            i64::try_from(input.axes.as_ref()?.len()).ok()
        };
        let maker = self.maker(indices);
        let of_unsqueeze = maker.filter(|maker| maker.operator == "Unsqueeze").and_then(|maker| {
            let of_input = || self.numbers.get(maker.inputs.get(1)?.as_str()).copied();
            let axis = axis(maker).or_else(of_input)?;
            (axis == -1 || Some(axis) == rank(maker.inputs.first()?)).then_some(1)
        });
        let count = of_unsqueeze.or_else(|| last(indices)).unwrap_or(axes.len());
        let smallest = axes.iter().take(count).copied().min()?;
        u64::try_from(smallest).ok().filter(|size| *size > 0)
    }
}

/// How a value follows from an input.
#[derive(Debug, Clone, Copy, Default)]
struct Trace<'a> {
    /// Sum of the numbers that were added.
    shift: i64,
    /// The operator that brings any value into bounds, and its modulus, if known.
    wraps: Option<(&'a str, Option<u64>)>,
    /// The operator that has made other numbers of it.
    computed_by: Option<&'a str>,
}

fn attribute<'a>(node: &'a Node, name: &str) -> Option<&'a Attribute> {
    node.attributes.iter().find(|attribute| attribute.name == name)
}

/// Returns the attribute `axis`, or the last of `axes`.
fn axis(node: &Node) -> Option<i64> {
    let of_list = || attribute(node, "axes")?.integers.last().copied();
    attribute(node, "axis").and_then(|it| it.integer).or_else(of_list)
}

/// Returns the element of a tensor, if there is only one, and it is a whole number.
fn number(tensor: &Tensor) -> Option<i64> {
    if tensor.sizes.iter().any(|size| *size != 1) {
        return None;
    }
    let of_real = || {
        let value = *tensor.real()?.first()?;
        (value.fract() == 0.0 && value.abs() < i64::MAX as f32).then_some(value as i64)
    };
    tensor.whole().and_then(|all| all.first().copied()).or_else(of_real)
}

/// Collects the nodes of a graph and of those within it. The inner ones come before the node that they are in.
/// `within` is called for each graph within.
fn flatten<'a>(nodes: &'a [Node], within: &mut dyn FnMut(&'a Graph), all: &mut Vec<&'a Node>) {
    for node in nodes {
        for attribute in &node.attributes {
            for graph in attribute.graph.iter().chain(&attribute.graphs) {
                within(graph);
                flatten(&graph.nodes, within, all);
            }
        }
        all.push(node);
    }
}

#[cfg(test)]
mod tests {
    use host_record::PortAxis;

    use super::*;
    use crate::messages::{Attribute, Tensor};

    fn node(operator: &str, inputs: &[&str], output: &str) -> Node {
        Node {
            operator: operator.into(),
            inputs: inputs.iter().map(|name| (*name).to_owned()).collect(),
            outputs: vec![output.to_owned()],
            ..Node::default()
        }
    }

    fn along(axis: i64, node: Node) -> Node {
        with("axis", axis, node)
    }

    fn with(name: &str, number: i64, node: Node) -> Node {
        let (name, integers) = (name.to_owned(), vec![number]);
        let attribute = Attribute { name, integer: Some(number), integers, ..Attribute::default() };
        Node { attributes: vec![attribute], ..node }
    }

    fn input(name: &str, element: &str, axes: Option<Vec<PortAxis>>) -> Value {
        let (name, element) = (name.to_owned(), Some(element.to_owned()));
        Value { name, element, axes, ..Value::default() }
    }

    fn values(inputs: &[(&str, &str)], nodes: Vec<Node>) -> BTreeMap<String, LegalValues> {
        let inputs: Vec<_> = inputs.iter().map(|(name, it)| input(name, it, None)).collect();
        of(&graph(nodes), &inputs)
    }

    fn graph(nodes: Vec<Node>) -> Graph {
        let table = |name: &str, sizes: &[i64]| Tensor {
            name: name.into(),
            sizes: sizes.to_vec(),
            ..Tensor::default()
        };
        let number =
            |name: &str, value| Tensor { element: 7, integers: vec![value], ..table(name, &[]) };
        let initializers = vec![
            table("words", &[30522, 64]),
            table("kinds", &[64, 2]),
            number("two", 2),
            number("fifty", 50),
            number("last", -1),
        ];
        Graph { nodes, initializers, ..Graph::default() }
    }

    fn index(entries: u64) -> LegalValues {
        LegalValues::Index { entries, operator: "Gather".into() }
    }

    #[test]
    fn what_steers_the_graph_is_asked_for() {
        let steers = |element, rank: usize, nodes| {
            let axes = vec![PortAxis::Dynamic("n".into()); rank];
            let inputs = [input("x", element, Some(axes))];
            of(&graph(nodes), &inputs).get("x") == Some(&LegalValues::Steers)
        };
        let of_loop = vec![
            node("ReduceMax", &["x"], "longest"),
            node("Add", &["longest", "one"], "rounds"),
            node("Loop", &["rounds", "go", "state"], "y"),
        ];
        assert!(steers("int64", 1, of_loop));
        assert!(steers("bool", 1, vec![node("Squeeze", &["x"], "c"), node("If", &["c"], "y")]));
        assert!(steers("int64", 0, vec![node("TopK", &["values", "x"], "y")]));
        assert!(steers("int64", 1, vec![node("Reshape", &["values", "x"], "y")]));
        // Sizes do not depend on values, and elements are not sizes.
        let of_shape = vec![node("Shape", &["x"], "s"), node("Reshape", &["x", "s"], "y")];
        assert!(!steers("int64", 1, of_shape));
        assert!(!steers("int64", 2, vec![node("Reshape", &["values", "x"], "y")]));
        assert!(!steers("fp32", 1, vec![node("Tile", &["values", "x"], "y")]));
        assert!(!steers("int64", 1, vec![node("Add", &["x", "x"], "y")]));
    }

    #[test]
    fn what_is_looked_up_is_below_the_table() {
        let nodes = vec![
            node("DequantizeLinear", &["words", "scale"], "table"),
            node("Cast", &["ids"], "as_int32"),
            node("Unsqueeze", &["as_int32", "axes"], "indices"),
            node("Gather", &["table", "indices"], "embedded"),
            along(-1, node("Gather", &["kinds", "token_type_ids"], "kind")),
            node("Gather", &["embedded", "other"], "row"),
        ];
        let inputs = [("ids", "int64"), ("token_type_ids", "int64"), ("other", "int64")];
        let values = values(&inputs, nodes);
        let expected = [("ids".to_owned(), index(30522)), ("token_type_ids".to_owned(), index(2))];
        assert_eq!(values, expected.into(), "a table that is computed has no known size");
    }

    #[test]
    fn the_smallest_table_counts() {
        let nodes = vec![
            node("Gather", &["words", "ids"], "a"),
            along(1, node("Gather", &["kinds", "ids"], "b")),
        ];
        assert_eq!(values(&[("ids", "int64")], nodes)["ids"], index(2));
    }

    #[test]
    fn masks_positions_and_trip_counts_are_known() {
        let nodes = vec![
            node("Identity", &["rounds"], "count"),
            node("Loop", &["count", "condition", "state"], "out"),
            node("Gather", &["words", "position_ids"], "place"),
        ];
        let inputs = [
            ("attention_mask", "int64"),
            ("mask_input", "fp32"),
            ("position_ids", "int64"),
            ("rounds", "int64"),
            ("position_bias", "fp32"),
            ("image", "fp32"),
        ];
        let expected = [
            ("attention_mask".to_owned(), LegalValues::Ones),
            ("position_ids".to_owned(), LegalValues::Positions { entries: Some(30522) }),
            ("rounds".to_owned(), LegalValues::Steers),
        ];
        assert_eq!(values(&inputs, nodes), expected.into());
    }

    fn values_of(nodes: Vec<Node>) -> Option<LegalValues> {
        let axes = ["batch", "tokens"].map(|name| PortAxis::Dynamic(name.into()));
        of(&graph(nodes), &[input("ids", "int64", Some(axes.into()))]).remove("ids")
    }

    #[test]
    fn arithmetic_before_a_table_is_followed() {
        let lookup = || node("Gather", &["words", "index"], "y");
        let by = |operator: &str, other: &str| {
            values_of(vec![node(operator, &["ids", other], "index"), lookup()])
        };
        assert_eq!(by("Add", "two"), Some(index(30520)));
        assert_eq!(by("Sub", "two"), Some(index(30524)), "the first id is 2");
        let below = |entries, operator: &str| {
            Some(LegalValues::Below { entries, operator: operator.into() })
        };
        assert_eq!(by("Mod", "fifty"), below(50, "Mod"));
        assert_eq!(by("Mod", "computed"), below(30522, "Mod"));
        assert_eq!(by("Clip", "low"), below(30522, "Clip"));
        let computed = |operator: &str| {
            Some(LegalValues::Computed { entries: 30522, operator: operator.into() })
        };
        assert_eq!(by("Mul", "two"), computed("Mul"));
        assert_eq!(by("Add", "offsets"), computed("Add"), "not one number");
        let reversed = vec![node("Sub", &["two", "ids"], "index"), lookup()];
        assert_eq!(values_of(reversed), computed("Sub"));
        // A table that is looked up directly tells more than one that is not.
        let both = vec![
            node("Gather", &["words", "ids"], "a"),
            node("Mul", &["ids", "two"], "index"),
            along(1, node("Gather", &["kinds", "index"], "b")),
        ];
        assert_eq!(values_of(both), Some(index(30522)));
        let selected = vec![node("Where", &["valid", "ids", "zeros"], "index"), lookup()];
        assert_eq!(values_of(selected), Some(index(30522)));
        assert_eq!(values_of(vec![node("Mul", &["ids", "two"], "y")]), None);
    }

    #[test]
    fn constants_of_one_number_are_read() {
        let lookup = || node("Gather", &["words", "index"], "y");
        let added = |constant: Tensor| {
            let nodes = vec![node("Add", &["ids", "constant"], "index"), lookup()];
            let mut graph = graph(nodes);
            graph.initializers.push(Tensor { name: "constant".into(), ..constant });
            of(&graph, &[input("ids", "int64", None)]).remove("ids")
        };
        let of =
            |element, sizes: &[i64]| Tensor { element, sizes: sizes.to_vec(), ..Tensor::default() };
        let raw = |bytes: &[u8]| Some(crate::messages::Bytes::copy_from_slice(bytes));
        let (fp32, int8, int32, int64, fp16, fp64, uint32) = (1, 3, 6, 7, 10, 11, 12);
        for constant in [
            Tensor { small: vec![2], ..of(int32, &[1]) },
            Tensor { small: vec![2], ..of(int8, &[]) },
            Tensor { integers: vec![2], ..of(int64, &[1, 1]) },
            Tensor { unsigned: vec![2], ..of(uint32, &[]) },
            Tensor { floats: vec![2.0], ..of(fp32, &[]) },
            Tensor { doubles: vec![2.0], ..of(fp64, &[]) },
            Tensor { small: vec![0x4000], ..of(fp16, &[]) },
            Tensor { raw: raw(&[2, 0, 0, 0]), ..of(int32, &[]) },
            Tensor { raw: raw(&[0, 0x40]), ..of(fp16, &[1]) },
        ] {
            assert_eq!(added(constant.clone()), Some(index(30520)), "{constant:?}");
        }
        let computed = LegalValues::Computed { entries: 30522, operator: "Add".into() };
        for constant in [
            Tensor { floats: vec![0.5], ..of(fp32, &[]) },
            Tensor { small: vec![2, 3], ..of(int32, &[2]) },
            of(int32, &[]),
        ] {
            assert_eq!(added(constant.clone()), Some(computed.clone()), "{constant:?}");
        }
        // As attributes of a `Constant`.
        for (integer, integers) in [(Some(2), vec![]), (None, vec![2])] {
            let mut constant = node("Constant", &[], "two more");
            constant.attributes = vec![Attribute { integer, integers, ..Attribute::default() }];
            let nodes = vec![constant, node("Add", &["ids", "two more"], "index"), lookup()];
            assert_eq!(values_of(nodes), Some(index(30520)));
        }
    }

    #[test]
    fn classes_of_a_one_hot_code_are_below_its_depth() {
        let below = LegalValues::Below { entries: 50, operator: "OneHot".into() };
        let coded = vec![
            node("Cast", &["ids"], "classes"),
            node("OneHot", &["classes", "fifty", "values"], "y"),
        ];
        assert_eq!(values_of(coded), Some(below));
        assert_eq!(values_of(vec![node("OneHot", &["ids", "depth", "values"], "y")]), None);
    }

    #[test]
    fn coordinates_are_below_the_axes_that_they_index() {
        let entries = |nodes| match values_of(nodes) {
            Some(LegalValues::Index { entries, operator }) => {
                assert_eq!(operator, "GatherND");
                entries
            }
            other => panic!("{other:?}"),
        };
        let lookup = || node("GatherND", &["words", "places"], "y");
        let single = |axis| vec![node("Unsqueeze", &["ids", axis], "places"), lookup()];
        assert_eq!(entries(single("last")), 30522, "one coordinate each");
        assert_eq!(entries(single("two")), 30522, "the last axis by its number");
        assert_eq!(entries(single("unknown")), 64, "each could be of any axis");
        assert_eq!(entries(vec![node("Identity", &["ids"], "places"), lookup()]), 64);
        let of_attribute = with("axes", -1, node("Unsqueeze", &["ids"], "places"));
        assert_eq!(entries(vec![of_attribute, lookup()]), 30522);
        let of_batch = with("batch_dims", 1, node("GatherND", &["words", "ids"], "y"));
        assert_eq!(entries(vec![of_batch]), 64);
    }
}
