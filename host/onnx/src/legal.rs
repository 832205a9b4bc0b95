//! Legal values of a model's inputs, as its graph tells them: an input that is looked up in a table must be below
//! the table's size, and an engine is free to do anything with another one.

use std::collections::{BTreeMap, BTreeSet};

use host_record::LegalValues;

use crate::messages::{Graph, Node};
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
    ("GatherBlockQuantized", 0, 1),
    ("EmbedLayerNormalization", 2, 0),
    ("EmbedLayerNormalization", 4, 1),
];

/// Operators whose output has the same values as their first input, or some of them.
const CARRIERS: &[&str] = &[
    "Cast",
    "Expand",
    "Flatten",
    "Identity",
    "Reshape",
    "Slice",
    "Squeeze",
    "Tile",
    "Transpose",
    "Unsqueeze",
];

/// Subgraphs within subgraphs that values are followed through.
const DEEPEST: usize = 16;

/// Operators whose output has the shape of their first input, which may be a table.
const SAME_SHAPE: &[&str] = &["Cast", "DequantizeLinear", "Identity"];

/// A graph with its subgraphs.
struct Nodes<'a> {
    /// Nodes in the order in which they are computed, except those of a subgraph, which come before the node around it.
    nodes: Vec<&'a Node>,
    /// Shapes of weights, by name.
    shapes: BTreeMap<&'a str, &'a [i64]>,
}

/// Returns the legal values of inputs, by name. An input that is not there may have any.
pub(crate) fn of(graph: &Graph, inputs: &[Value]) -> BTreeMap<String, LegalValues> {
    let mut nodes = Vec::new();
    let mut weights: Vec<_> = graph.initializers.iter().collect();
    flatten(&graph.nodes, &mut |graph| weights.extend(&graph.initializers), &mut nodes);
    let shapes = weights.iter().map(|it| (it.name.as_str(), &it.sizes[..])).collect();
    let all = Nodes { nodes, shapes };
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
        let carried = self.carried(input);
        let reads = |node: &Node, at: usize| {
            node.inputs.get(at).is_some_and(|name| carried.contains(name.as_str()))
        };
        if self.steers(value, is_real) {
            return Some(LegalValues::Steers);
        }
        let tables = self.nodes.iter().flat_map(|node| {
            let of_operator = LOOKUPS.iter().filter(|(operator, ..)| *operator == node.operator);
            let lookups = of_operator.filter(|(_, _, indices)| reads(node, *indices));
            lookups.filter_map(|(_, table, _)| Some((self.entries(node, *table)?, &node.operator)))
        });
        let smallest = tables.min_by_key(|(entries, _)| *entries);
        let name = input.to_lowercase();
        match smallest {
            _ if !is_real && name.contains("position") => {
                Some(LegalValues::Positions { entries: smallest.map(|(entries, _)| entries) })
            }
            Some((entries, operator)) => {
                Some(LegalValues::Index { entries, operator: operator.clone() })
            }
            // A real number called a mask may be an image.
            None if name.contains("attention_mask") || (!is_real && name.contains("mask")) => {
                Some(LegalValues::Ones)
            }
            None => None,
        }
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

    /// Returns the names of all values that are those of an input.
    fn carried<'b>(&'b self, input: &'b str) -> BTreeSet<&'b str> {
        let mut carried = BTreeSet::from([input]);
        // Nodes come in the order in which they are computed, except those of a subgraph, which come before the node
        // around it.
        for _ in 0..DEEPEST {
            let before = carried.len();
            for node in self.nodes.iter().filter(|node| CARRIERS.contains(&node.operator.as_str()))
            {
                if node.inputs.first().is_some_and(|name| carried.contains(name.as_str())) {
                    carried.extend(node.outputs.first().map(String::as_str));
                }
            }
            if carried.len() == before {
                break;
            }
        }
        carried
    }

    /// Returns the number of entries of the table that a node looks up in, if it consists of weights.
    fn entries(&self, node: &Node, table: usize) -> Option<u64> {
        let mut name = node.inputs.get(table)?;
        // A table may be stored in another type.
        for _ in 0..8 {
            if let Some(shape) = self.shapes.get(name.as_str()) {
                let attribute = node.attributes.iter().find(|attribute| attribute.name == "axis");
                let axis = match attribute.and_then(|attribute| attribute.integer).unwrap_or(0) {
                    axis @ ..0 => axis + i64::try_from(shape.len()).ok()?,
                    axis => axis,
                };
                let size = *shape.get(usize::try_from(axis).ok()?)?;
                return u64::try_from(size).ok().filter(|size| *size > 0);
            }
            let maker = self.nodes.iter().find(|node| node.outputs.contains(name))?;
            name =
                maker.inputs.first().filter(|_| SAME_SHAPE.contains(&maker.operator.as_str()))?;
        }
        None
    }
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
        let axis = Attribute { name: "axis".into(), integer: Some(axis), ..Attribute::default() };
        Node { attributes: vec![axis], ..node }
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
        let initializers = vec![table("words", &[30522, 64]), table("kinds", &[64, 2])];
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
}
