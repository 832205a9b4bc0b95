//! The number of parameters of a model: the elements of its floating-point weights, and of the integers that stand for
//! some. Scales and zero points of quantised tensors do not count.

use std::collections::{BTreeMap, BTreeSet};

use crate::element::element;
use crate::messages::{Graph, Model, Node, Tensor};

/// Operators over quantised tensors: the places of these among their inputs, and those of scales and zero points.
const QUANTISED: &[(&str, &[usize], &[usize])] = &[
    ("ConvInteger", &[0, 1], &[2, 3]),
    ("DequantizeLinear", &[0], &[1, 2]),
    ("DynamicQuantizeLSTM", &[1, 2], &[8, 9, 10, 11]),
    ("DynamicQuantizeMatMul", &[1], &[2, 3]),
    ("GatherBlockQuantized", &[0], &[2, 3]),
    ("MatMulInteger", &[0, 1], &[2, 3]),
    ("MatMulNBits", &[1], &[2, 3]),
    ("QLinearConv", &[0, 3, 8], &[1, 2, 4, 5, 6, 7]),
    ("QLinearMatMul", &[0, 3], &[1, 2, 4, 5, 6, 7]),
    ("QuantizeLinear", &[], &[1, 2]),
];

/// Weights and constants by name, and the parts that they have.
#[derive(Default)]
struct Collected<'a> {
    /// Elements, and whether they are floating-point numbers.
    weights: BTreeMap<&'a str, (u64, bool)>,
    /// Floating-point elements without a name.
    unnamed: u64,
    quantised: BTreeSet<&'a str>,
    scales: BTreeSet<&'a str>,
}

pub(crate) fn of(model: &Model, graph: &Graph) -> u64 {
    let mut all = Collected::default();
    all.graph(graph);
    for function in &model.functions {
        all.nodes(&function.nodes);
    }
    let named = all.weights.iter().filter(|(name, (_, is_float))| match is_float {
        true => !all.scales.contains(*name),
        false => all.quantised.contains(*name) && !all.scales.contains(*name),
    });
    named.fold(all.unnamed, |sum, (_, (elements, _))| sum.saturating_add(*elements))
}

impl<'a> Collected<'a> {
    fn graph(&mut self, graph: &'a Graph) {
        graph.initializers.iter().for_each(|tensor| self.tensor(&tensor.name, tensor));
        // Of a sparse tensor, the elements that are stored.
        let sparse = graph.sparse_initializers.iter().filter_map(|tensor| tensor.values.as_ref());
        sparse.for_each(|tensor| self.tensor(&tensor.name, tensor));
        self.nodes(&graph.nodes);
    }

    fn nodes(&mut self, nodes: &'a [Node]) {
        for node in nodes {
            let rows = QUANTISED.iter().filter(|(operator, ..)| *operator == node.operator);
            for (_, tensors, scales) in rows {
                let names = |places: &'static [usize]| {
                    places.iter().filter_map(|at| Some(node.inputs.get(*at)?.as_str()))
                };
                self.quantised.extend(names(tensors));
                self.scales.extend(names(scales));
            }
            for attribute in &node.attributes {
                for tensor in attribute.tensor.iter().chain(&attribute.tensors) {
                    // The value of a constant goes by the name of the output.
                    self.tensor(node.outputs.first().map_or("", String::as_str), tensor);
                }
                attribute.graph.iter().chain(&attribute.graphs).for_each(|it| self.graph(it));
            }
        }
    }

    fn tensor(&mut self, name: &'a str, tensor: &Tensor) {
        let is_float = ["fp32", "fp16", "bf16", "fp64"].contains(&element(tensor.element).0);
        let sizes = tensor.sizes.iter().map(|size| u64::try_from(*size).unwrap_or(0));
        let elements = sizes.fold(1_u64, u64::saturating_mul);
        match name {
            "" if is_float => self.unnamed = self.unnamed.saturating_add(elements),
            "" => {}
            // Names of graphs within graphs may repeat.
            name => {
                let known = self.weights.entry(name).or_insert((0, is_float));
                known.0 = known.0.saturating_add(elements);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOAT: i32 = 1;
    const UINT8: i32 = 2;
    const INT8: i32 = 3;
    const INT32: i32 = 6;
    const INT64: i32 = 7;

    fn parameters(node: (&str, &[&str]), weights: &[(&str, i32, &[i64])]) -> u64 {
        let weight = |(name, element, sizes): &(&str, i32, &[i64])| Tensor {
            name: (*name).to_owned(),
            element: *element,
            sizes: sizes.to_vec(),
            ..Tensor::default()
        };
        let node = Node {
            operator: node.0.to_owned(),
            inputs: node.1.iter().map(|name| (*name).to_owned()).collect(),
            ..Node::default()
        };
        let initializers = weights.iter().map(weight).collect();
        let graph = Graph { nodes: vec![node], initializers, ..Graph::default() };
        of(&Model::default(), &graph)
    }

    #[test]
    fn integers_count_if_they_stand_for_real_numbers_and_scales_do_not() {
        let (scale, zero) = (("s", FLOAT, &[16][..]), ("z", INT8, &[16][..]));
        let weight = ("w", INT8, &[32, 16][..]);
        assert_eq!(parameters(("DequantizeLinear", &["w", "s", "z"]), &[weight, scale, zero]), 512);
        let point = ("z", UINT8, &[][..]);
        assert_eq!(parameters(("MatMulInteger", &["x", "w", "", "z"]), &[weight, point]), 512);
        let bias = ("b", INT32, &[16][..]);
        let conv = ("QLinearConv", &["x", "s", "z", "w", "s", "z", "s", "z", "b"][..]);
        assert_eq!(parameters(conv, &[weight, scale, zero, bias]), 512 + 16);
    }

    #[test]
    fn weights_of_layers_that_quantise_their_inputs_count() {
        let lstm = ["x", "w", "r", "b", "", "h", "c", "", "s", "z", "s", "z"];
        let weights = [
            ("w", INT8, &[1, 8, 16][..]),
            ("r", INT8, &[1, 4, 16]),
            ("b", FLOAT, &[1, 32]),
            ("s", FLOAT, &[1]),
            ("z", INT8, &[1]),
        ];
        assert_eq!(parameters(("DynamicQuantizeLSTM", &lstm), &weights), 128 + 64 + 32);
    }

    #[test]
    fn other_integers_do_not_count() {
        let weights = [("w", FLOAT, &[4, 3][..]), ("shape", INT64, &[2][..])];
        assert_eq!(parameters(("Reshape", &["w", "shape"]), &weights), 12);
    }
}
