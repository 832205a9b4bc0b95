//! Legal values of a model's inputs, as its graph tells them: an input that is looked up in a table must be below
//! the table's size, and an engine is free to do anything with another one.

use std::collections::{BTreeMap, BTreeSet};

use plugin_api::backend::{DataType, Dimension};

use crate::{OnnxFile, dtype};

/// A node of a graph.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) operator: String,
    pub(crate) inputs: Vec<String>,
    pub(crate) outputs: Vec<String>,
    /// The attribute `axis`, or the last of `axes`.
    pub(crate) axis: Option<i64>,
    /// The attribute `batch_dims`.
    pub(crate) batch_axes: i64,
    /// Shape of its tensor, and its value if that is one whole number.
    pub(crate) constant: Option<(Vec<u64>, Option<i64>)>,
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
    /// Any number, of which only those from 0 to one less than `entries` differ: the others wrap around, or name
    /// nothing.
    Below {
        /// Numbers that differ.
        entries: u64,
        /// The operator that tells: `Mod`, `OneHot` or `Clip`.
        operator: String,
    },
    /// Positions in a table, after other numbers have gone into them: which ones are legal is not known.
    Computed {
        /// Entries of the smallest table that the result is looked up in.
        entries: u64,
        /// The operator that computes with it.
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
        if self.steers(input, is_real) {
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
                    (Some(by), ..) if !is_real => {
                        if entries < entries_of(&computed) {
                            let operator = (*by).to_owned();
                            computed = Some(LegalValues::Computed { entries, operator });
                        }
                    }
                    _ => {}
                }
            }
        }
        legal.or(computed)
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
        let number = |at: usize| self.numbers.get(node.inputs.get(at)?).copied();
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
            return u64::try_from(*self.numbers.get(name)?).ok().filter(|depth| *depth > 0);
        }
        // A table may be stored in another type.
        for _ in 0..8 {
            if let Some(shape) = self.shapes.get(name) {
                if matches!(&*node.operator, "GatherND" | "ScatterND") {
                    return self.entries_of_coordinates(node, shape, node.inputs.get(indices)?);
                }
                let axis = match node.axis.unwrap_or(0) {
                    axis @ ..0 => axis + i64::try_from(shape.len()).ok()?,
                    axis => axis,
                };
                return shape.get(usize::try_from(axis).ok()?).copied().filter(|size| *size > 0);
            }
            let maker = self.maker(name)?;
            name =
                maker.inputs.first().filter(|_| SAME_SHAPE.contains(&maker.operator.as_str()))?;
        }
        None
    }

    fn maker(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.outputs.iter().any(|output| output == name))
    }

    /// Returns the smallest size of the axes that coordinates index. They are along the last axis of the indices, and
    /// as many as it is long; if that is not known, any axis may be one of them.
    fn entries_of_coordinates(&self, node: &Node, shape: &[u64], indices: &str) -> Option<u64> {
        let axes = shape.get(usize::try_from(node.batch_axes).ok()?..)?;
        let last = |name: &str| {
            let input = self.inputs.iter().find(|input| input.name == name)?;
            match input.dimensions.as_ref()?.last()? {
                Dimension::Fixed(size) => usize::try_from(*size).ok(),
                Dimension::Dynamic(_) => None,
            }
        };
        let rank = |name: &str| {
            let input = self.inputs.iter().find(|input| input.name == name)?;
            i64::try_from(input.dimensions.as_ref()?.len()).ok()
        };
        let maker = self.maker(indices);
        let of_unsqueeze = maker.filter(|maker| maker.operator == "Unsqueeze").and_then(|maker| {
            let axis = maker.axis.or_else(|| self.numbers.get(maker.inputs.get(1)?).copied())?;
            (axis == -1 || Some(axis) == rank(maker.inputs.first()?)).then_some(1)
        });
        let count = of_unsqueeze.or_else(|| last(indices)).unwrap_or(axes.len());
        axes.iter().take(count).copied().min().filter(|size| *size > 0)
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
            ..Node::default()
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
            numbers: [("two".to_owned(), 2), ("fifty".to_owned(), 50), ("last".to_owned(), -1)]
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
    fn values_of(nodes: Vec<Node>) -> Option<LegalValues> {
        let mut file = file(&[("ids", INT64)], nodes);
        let axes = ["batch", "tokens"].map(|name| Dimension::Dynamic(name.into()));
        file.inputs[0].dimensions = Some(axes.into());
        file.legal_values().remove("ids")
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
            Node { axis: Some(1), ..node("Gather", &["kinds", "index"], "b") },
        ];
        assert_eq!(values_of(both), Some(index(30522)));
        let selected = vec![node("Where", &["valid", "ids", "zeros"], "index"), lookup()];
        assert_eq!(values_of(selected), Some(index(30522)));
        assert_eq!(values_of(vec![node("Mul", &["ids", "two"], "y")]), None);
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
        let of_attribute = Node { axis: Some(-1), ..node("Unsqueeze", &["ids"], "places") };
        assert_eq!(entries(vec![of_attribute, lookup()]), 30522);
        let of_batch = Node { batch_axes: 1, ..node("GatherND", &["words", "ids"], "y") };
        assert_eq!(entries(vec![of_batch]), 64);
    }
}
