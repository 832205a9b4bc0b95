//! Legal values of a model's inputs, as its graph tells them: an input that is looked up in a table must be below
//! the table's size, and an engine is free to do anything with another one.

use std::collections::{BTreeMap, BTreeSet};

use plugin_api::backend::DataType;

use crate::{OnnxFile, dtype};

/// A node of a graph.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) operator: String,
    pub(crate) inputs: Vec<String>,
    pub(crate) outputs: Vec<String>,
    /// The attribute `axis`.
    pub(crate) axis: Option<i64>,
}

/// Legal values of an input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LegalValues {
    /// Positions in a table, from 0 to one less than its entries.
    Index {
        /// Entries of the smallest table that it is looked up in.
        entries: u64,
        /// The operator that looks it up.
        operator: String,
    },
    /// A mask, by its name: everything is valid.
    Ones,
    /// Places in a sequence, by its name.
    Positions {
        /// Entries of the table of positions, if there is one.
        entries: Option<u64>,
    },
    /// It steers the graph: how often a `Loop` runs, which branch of an `If`, or a size.
    Steers,
}

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

impl OnnxFile {
    /// Returns the legal values of inputs, by name. An input that is not there may have any.
    #[must_use]
    pub fn legal_values(&self) -> BTreeMap<String, LegalValues> {
        let inputs = self.inputs.iter().filter(|input| !self.initializers.contains(&input.name));
        inputs
            .filter_map(|input| {
                let dtype = dtype(input.element)?;
                Some((input.name.clone(), self.legal_values_of(&input.name, dtype)?))
            })
            .collect()
    }

    fn legal_values_of(&self, input: &str, dtype: DataType) -> Option<LegalValues> {
        if dtype.is_text() {
            return None;
        }
        let is_real =
            matches!(dtype, DataType::F64 | DataType::F32 | DataType::F16 | DataType::BF16);
        let carried = self.carried(input);
        let reads = |node: &Node, at: usize| {
            node.inputs.get(at).is_some_and(|name| carried.contains(name.as_str()))
        };
        if self.steers(input, is_real) {
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
    fn steers(&self, input: &str, is_real: bool) -> bool {
        let declared = self.inputs.iter().find(|declared| declared.name == input);
        let rank = declared.and_then(|declared| declared.dimensions.as_ref()).map(Vec::len);
        if is_real || rank.is_some_and(|rank| rank > 1) {
            return false;
        }
        let mut follow = BTreeSet::from([input]);
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
    fn carried<'a>(&'a self, input: &'a str) -> BTreeSet<&'a str> {
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
            if let Some(shape) = self.shapes.get(name) {
                let axis = match node.axis.unwrap_or(0) {
                    axis @ ..0 => axis + i64::try_from(shape.len()).ok()?,
                    axis => axis,
                };
                return shape.get(usize::try_from(axis).ok()?).copied().filter(|size| *size > 0);
            }
            let maker = self.nodes.iter().find(|node| node.outputs.contains(name))?;
            name =
                maker.inputs.first().filter(|_| SAME_SHAPE.contains(&maker.operator.as_str()))?;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use plugin_api::backend::Dimension;

    use super::*;
    use crate::Value;

    const INT64: u64 = 7;
    const FLOAT: u64 = 1;

    fn node(operator: &str, inputs: &[&str], output: &str) -> Node {
        Node {
            operator: operator.into(),
            inputs: inputs.iter().map(|name| (*name).to_owned()).collect(),
            outputs: vec![output.to_owned()],
            axis: None,
        }
    }

    fn file(inputs: &[(&str, u64)], nodes: Vec<Node>) -> OnnxFile {
        let input = |(name, element): &(&str, u64)| Value {
            name: (*name).to_owned(),
            element: *element,
            ..Value::default()
        };
        OnnxFile {
            inputs: inputs.iter().map(input).collect(),
            nodes,
            shapes: [("words".to_owned(), vec![30522, 64]), ("kinds".to_owned(), vec![64, 2])]
                .into(),
            ..OnnxFile::default()
        }
    }

    fn index(entries: u64) -> LegalValues {
        LegalValues::Index { entries, operator: "Gather".into() }
    }

    #[test]
    fn what_steers_the_graph_is_asked_for() {
        const BOOL: u64 = 9;
        let steers = |element, rank: usize, nodes| {
            let mut file = file(&[("x", element)], nodes);
            file.inputs[0].dimensions = Some(vec![Dimension::Dynamic("n".into()); rank]);
            file.legal_values().get("x") == Some(&LegalValues::Steers)
        };
        let of_loop = vec![
            node("ReduceMax", &["x"], "longest"),
            node("Add", &["longest", "one"], "rounds"),
            node("Loop", &["rounds", "go", "state"], "y"),
        ];
        assert!(steers(INT64, 1, of_loop));
        assert!(steers(BOOL, 1, vec![node("Squeeze", &["x"], "c"), node("If", &["c"], "y")]));
        assert!(steers(INT64, 0, vec![node("TopK", &["values", "x"], "y")]));
        assert!(steers(INT64, 1, vec![node("Reshape", &["values", "x"], "y")]));
        // Sizes do not depend on values, and elements are not sizes.
        let of_shape = vec![node("Shape", &["x"], "s"), node("Reshape", &["x", "s"], "y")];
        assert!(!steers(INT64, 1, of_shape));
        assert!(!steers(INT64, 2, vec![node("Reshape", &["values", "x"], "y")]));
        assert!(!steers(FLOAT, 1, vec![node("Tile", &["values", "x"], "y")]));
        assert!(!steers(INT64, 1, vec![node("Add", &["x", "x"], "y")]));
    }

    #[test]
    fn what_is_looked_up_is_below_the_table() {
        let nodes = vec![
            node("DequantizeLinear", &["words", "scale"], "table"),
            node("Cast", &["ids"], "as_int32"),
            node("Unsqueeze", &["as_int32", "axes"], "indices"),
            node("Gather", &["table", "indices"], "embedded"),
            Node { axis: Some(-1), ..node("Gather", &["kinds", "token_type_ids"], "kind") },
            node("Gather", &["embedded", "other"], "row"),
        ];
        let inputs = [("ids", INT64), ("token_type_ids", INT64), ("other", INT64)];
        let values = file(&inputs, nodes).legal_values();
        let expected = [("ids".to_owned(), index(30522)), ("token_type_ids".to_owned(), index(2))];
        assert_eq!(values, expected.into(), "a table that is computed has no known size");
    }

    #[test]
    fn the_smallest_table_counts() {
        let nodes = vec![
            node("Gather", &["words", "ids"], "a"),
            Node { axis: Some(1), ..node("Gather", &["kinds", "ids"], "b") },
        ];
        assert_eq!(file(&[("ids", INT64)], nodes).legal_values()["ids"], index(2));
    }

    #[test]
    fn masks_positions_and_trip_counts_are_known() {
        let nodes = vec![
            node("Identity", &["rounds"], "count"),
            node("Loop", &["count", "condition", "state"], "out"),
            node("Gather", &["words", "position_ids"], "place"),
        ];
        let inputs = [
            ("attention_mask", INT64),
            ("mask_input", FLOAT),
            ("position_ids", INT64),
            ("rounds", INT64),
            ("position_bias", FLOAT),
            ("image", FLOAT),
        ];
        let expected = [
            ("attention_mask".to_owned(), LegalValues::Ones),
            ("position_ids".to_owned(), LegalValues::Positions { entries: Some(30522) }),
            ("rounds".to_owned(), LegalValues::Steers),
        ];
        assert_eq!(file(&inputs, nodes).legal_values(), expected.into());
    }
}
