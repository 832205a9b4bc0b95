/*!
Groups of nodes that one function of libtorch computes.

Exporters write a linear layer as `MatMul` and `Add`, GELU as five nodes, and attention as products around a `Softmax`.
PyTorch itself calls one function for each, and so does the importer: the same kernels run as in the model that was
exported. The option `fusion` leaves it out. A group is replaced if no value within it is used elsewhere.
*/

use std::collections::{BTreeMap, BTreeSet};

use tch::{Kind, Tensor};

use crate::onnx::{Attributes, Graph, Node};

/// Operators that stand for a group.
pub(crate) const LINEAR: &str = "MatMul+Add";
/// The same, with a row of the matrix for each output.
pub(crate) const TURNED_LINEAR: &str = "Linear";
pub(crate) const GELU: &str = "GELU";
pub(crate) const ATTENTION: &str = "Attention (scaled dot product)";

/// Who makes and who uses values.
struct Uses {
    makers: BTreeMap<String, usize>,
    users: BTreeMap<String, Vec<usize>>,
    outputs: BTreeSet<String>,
}

impl Uses {
    fn of(graph: &Graph) -> Self {
        let (mut makers, mut users) = (BTreeMap::new(), BTreeMap::<String, Vec<usize>>::new());
        for (at, node) in graph.nodes.iter().enumerate() {
            for name in node.outputs.iter().filter(|name| !name.is_empty()) {
                makers.insert(name.clone(), at);
            }
            for name in node.inputs.iter().filter(|name| !name.is_empty()) {
                users.entry(name.clone()).or_default().push(at);
            }
        }
        Self { makers, users, outputs: graph.outputs.iter().cloned().collect() }
    }

    /// Returns the node that makes a value, if it is of this operator.
    fn maker(&self, graph: &Graph, name: &str, operator: &str) -> Option<usize> {
        let at = *self.makers.get(name)?;
        (graph.nodes[at].operator == operator).then_some(at)
    }

    /// Returns a weight or a constant by name.
    fn weight(&self, graph: &Graph, name: &str) -> Option<Tensor> {
        match graph.weights.get(name) {
            Some(weight) => Some(weight.shallow_clone()),
            None => graph.nodes[self.maker(graph, name, "Constant")?].attributes.tensor("value"),
        }
    }

    /// Returns the node that alone uses the first output of a node, if it is of this operator.
    fn only_user(&self, graph: &Graph, at: usize, operator: &str) -> Option<usize> {
        let name = graph.nodes[at].outputs.first()?;
        match self.users.get(name).map(Vec::as_slice) {
            Some([user])
                if !self.outputs.contains(name) && graph.nodes[*user].operator == operator =>
            {
                Some(*user)
            }
            _ => None,
        }
    }
}

/// A group of nodes, and the node that takes the place of the last of them.
struct Group {
    nodes: Vec<usize>,
    node: Node,
}

/// Replaces all groups.
pub(crate) fn fuse(graph: &mut Graph) {
    for find in [attention, gelu, linear] {
        let uses = Uses::of(graph);
        let mut replaced: BTreeMap<usize, Option<Node>> = BTreeMap::new();
        for at in 0..graph.nodes.len() {
            let Some(group) = find(graph, &uses, at) else { continue };
            if group.nodes.iter().any(|at| replaced.contains_key(at)) {
                continue;
            }
            let last = group.nodes.iter().max().copied().unwrap_or(at);
            replaced.extend(group.nodes.iter().map(|at| (*at, None)));
            replaced.insert(last, Some(group.node));
        }
        let nodes = std::mem::take(&mut graph.nodes);
        let kept =
            nodes.into_iter().enumerate().filter_map(|(at, node)| match replaced.remove(&at) {
                Some(other) => other,
                None => Some(node),
            });
        graph.nodes = kept.collect();
    }
    turn(graph);
}

/// Returns the only element of a weight of real numbers.
fn number(graph: &Graph, uses: &Uses, name: &str) -> Option<f64> {
    let weight = uses.weight(graph, name)?;
    if weight.numel() != 1 {
        return None;
    }
    let is_real = matches!(weight.kind(), Kind::Float | Kind::Double | Kind::Half | Kind::BFloat16);
    is_real.then(|| weight.reshape([-1]).double_value(&[0]))
}

/// Returns the other input of a node with two, if one is a number near `wanted`.
fn beside_number<'a>(graph: &'a Graph, uses: &Uses, at: usize, wanted: f64) -> Option<&'a str> {
    let [left, right] = graph.nodes[at].inputs.as_slice() else { return None };
    let is_it = |name: &str| {
        number(graph, uses, name).is_some_and(|found| (found - wanted).abs() <= 4e-3 * wanted.abs())
    };
    if is_it(right) {
        Some(left)
    } else if is_it(left) {
        Some(right)
    } else {
        None
    }
}

/// Returns the other of two inputs.
fn other<'a>(node: &'a Node, name: &str) -> Option<&'a str> {
    match node.inputs.as_slice() {
        [left, right] if left == name => Some(right),
        [left, right] if right == name => Some(left),
        _ => None,
    }
}

fn node(graph: &Graph, last: usize, operator: &str, inputs: Vec<String>) -> Node {
    let Node { name, outputs, .. } = &graph.nodes[last];
    Node {
        name: name.clone(),
        operator: operator.into(),
        inputs,
        outputs: outputs.clone(),
        attributes: Attributes::default(),
    }
}

/// `x W + b`, with a matrix and a bias that are weights.
fn linear(graph: &Graph, uses: &Uses, at: usize) -> Option<Group> {
    let product = &graph.nodes[at];
    let [x, matrix] = product.inputs.as_slice() else { return None };
    if product.operator != "MatMul" {
        return None;
    }
    let matrix_sizes = uses.weight(graph, matrix)?.size();
    let sum = uses.only_user(graph, at, "Add")?;
    let bias = other(&graph.nodes[sum], product.outputs.first()?)?;
    let bias_sizes = uses.weight(graph, bias)?.size();
    let fits = matches!((matrix_sizes.as_slice(), bias_sizes.as_slice()), ([_, width], [biases]) if width == biases);
    let inputs = vec![x.clone(), matrix.clone(), bias.to_owned()];
    fits.then(|| Group { nodes: vec![at, sum], node: node(graph, sum, LINEAR, inputs) })
}

/// Stores matrices of linear layers as PyTorch does, a row for each output. Otherwise each step of training would copy the
/// gradient of the turned matrix, and kernels would be those for another layout. A matrix that is used elsewhere stays.
fn turn(graph: &mut Graph) {
    let uses = Uses::of(graph);
    for node in graph.nodes.iter_mut().filter(|node| node.operator == LINEAR) {
        let Some(name) = node.inputs.get(1).cloned() else { continue };
        let is_alone = uses.users.get(&name).is_some_and(|users| users.len() == 1);
        if !is_alone || uses.outputs.contains(&name) {
            continue;
        }
        if let Some(matrix) = graph.weights.get_mut(&name) {
            *matrix = matrix.tr().contiguous();
            node.operator = TURNED_LINEAR.into();
        }
    }
}

/// `0.5 x (1 + erf(x / √2))`, in the orders in which exporters write it.
fn gelu(graph: &Graph, uses: &Uses, at: usize) -> Option<Group> {
    if graph.nodes[at].operator != "Erf" {
        return None;
    }
    let scaled = graph.nodes[at].inputs.first()?;
    let (scaling, x) = match uses.maker(graph, scaled, "Div") {
        Some(scaling) => (scaling, beside_number(graph, uses, scaling, std::f64::consts::SQRT_2)?),
        None => {
            let scaling = uses.maker(graph, scaled, "Mul")?;
            (scaling, beside_number(graph, uses, scaling, std::f64::consts::FRAC_1_SQRT_2)?)
        }
    };
    uses.only_user(graph, scaling, "Erf")?;
    let sum = uses.only_user(graph, at, "Add")?;
    beside_number(graph, uses, sum, 1.0)?;
    let product = uses.only_user(graph, sum, "Mul")?;
    let factor = other(&graph.nodes[product], graph.nodes[sum].outputs.first()?)?;
    let mut nodes = vec![scaling, at, sum, product];
    let last = if factor == x {
        // The half comes last.
        let half = uses.only_user(graph, product, "Mul")?;
        beside_number(graph, uses, half, 0.5)?;
        half
    } else {
        let half = uses.maker(graph, factor, "Mul")?;
        if beside_number(graph, uses, half, 0.5)? != x
            || uses.only_user(graph, half, "Mul")? != product
        {
            return None;
        }
        nodes.push(half);
        product
    };
    if !nodes.contains(&last) {
        nodes.push(last);
    }
    Some(Group { node: node(graph, last, GELU, vec![x.to_owned()]), nodes })
}

/// `softmax(scale · q kᵀ + bias) v`.
fn attention(graph: &Graph, uses: &Uses, at: usize) -> Option<Group> {
    let softmax = &graph.nodes[at];
    if softmax.operator != "Softmax" || softmax.attributes.integer("axis").unwrap_or(-1) != -1 {
        return None;
    }
    let mut nodes = vec![at];
    let mut scores = softmax.inputs.first()?.as_str();
    let mut bias = None;
    if let Some(sum) = uses.maker(graph, scores, "Add") {
        uses.only_user(graph, sum, "Softmax")?;
        let [left, right] = graph.nodes[sum].inputs.as_slice() else { return None };
        let is_scored = |name: &str| {
            ["MatMul", "Mul", "Div"]
                .iter()
                .any(|operator| uses.maker(graph, name, operator).is_some())
                && chain(graph, uses, name).is_some()
        };
        let (inner, added) = match (is_scored(left), is_scored(right)) {
            (true, _) => (left, right),
            (false, true) => (right, left),
            (false, false) => return None,
        };
        scores = inner;
        bias = Some(added.clone());
        nodes.push(sum);
    }
    let (product, scaling, scale) = chain(graph, uses, scores)?;
    nodes.extend([Some(product), scaling].into_iter().flatten());
    // Each of these is used by the next alone.
    let next = ["Mul", "Div", "Add", "Softmax"];
    next.iter().find_map(|operator| uses.only_user(graph, product, operator))?;
    if let Some(scaling) = scaling {
        next[2..].iter().find_map(|operator| uses.only_user(graph, scaling, operator))?;
    }
    let mixed = uses.only_user(graph, at, "MatMul")?;
    let [shares, v] = graph.nodes[mixed].inputs.as_slice() else { return None };
    if Some(shares) != softmax.outputs.first() {
        return None;
    }
    nodes.push(mixed);
    let [q, k] = graph.nodes[product].inputs.as_slice() else { return None };
    let mut inputs = vec![q.clone(), k.clone(), v.clone()];
    inputs.extend(bias);
    let mut node = node(graph, mixed, ATTENTION, inputs);
    node.attributes = Attributes::of_float("scale", scale as f32);
    Some(Group { nodes, node })
}

/// Returns the product of a score, the node that scales it, and the scale.
fn chain(graph: &Graph, uses: &Uses, name: &str) -> Option<(usize, Option<usize>, f64)> {
    if let Some(product) = uses.maker(graph, name, "MatMul") {
        return Some((product, None, 1.0));
    }
    let is_product = |name: &str| uses.maker(graph, name, "MatMul");
    if let Some(scaling) = uses.maker(graph, name, "Mul") {
        let [left, right] = graph.nodes[scaling].inputs.as_slice() else { return None };
        return match (is_product(left), number(graph, uses, right)) {
            (Some(product), Some(scale)) => Some((product, Some(scaling), scale)),
            _ => Some((is_product(right)?, Some(scaling), number(graph, uses, left)?)),
        };
    }
    let scaling = uses.maker(graph, name, "Div")?;
    let [left, right] = graph.nodes[scaling].inputs.as_slice() else { return None };
    Some((is_product(left)?, Some(scaling), 1.0 / number(graph, uses, right)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(operator: &str, inputs: &[&str], output: &str) -> Node {
        Node {
            name: output.into(),
            operator: operator.into(),
            inputs: inputs.iter().map(|name| (*name).to_owned()).collect(),
            outputs: vec![output.into()],
            attributes: Attributes::default(),
        }
    }

    fn graph(nodes: Vec<Node>, weights: &[(&str, Tensor)], outputs: &[&str]) -> Graph {
        let weights =
            weights.iter().map(|(name, weight)| ((*name).to_owned(), weight.shallow_clone()));
        Graph {
            opset: 18,
            nodes,
            weights: weights.collect(),
            inputs: vec!["x".into()],
            outputs: outputs.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    fn fused(mut graph: Graph) -> Vec<(String, Vec<String>)> {
        fuse(&mut graph);
        graph.nodes.into_iter().map(|node| (node.operator, node.inputs)).collect()
    }

    fn names(all: &[(String, Vec<String>)]) -> Vec<&str> {
        all.iter().map(|(operator, _)| operator.as_str()).collect()
    }

    fn number(value: f32) -> Tensor {
        Tensor::from_slice(&[value]).reshape([1_i64; 0])
    }

    #[test]
    fn a_product_with_weights_and_a_bias_are_one() {
        let weights = [
            ("w", Tensor::ones([4, 3], (Kind::Float, tch::Device::Cpu))),
            ("b", Tensor::ones([3], (Kind::Float, tch::Device::Cpu))),
            ("c", Tensor::ones([1], (Kind::Float, tch::Device::Cpu))),
        ];
        let nodes =
            |bias: &str| vec![node("MatMul", &["x", "w"], "p"), node("Add", &[bias, "p"], "y")];
        let found = fused(graph(nodes("b"), &weights, &["y"]));
        assert_eq!(found, [(TURNED_LINEAR.to_owned(), vec!["x".into(), "w".into(), "b".into()])]);
        let mut twice = nodes("b");
        twice.push(node("MatMul", &["y", "w"], "z"));
        assert_eq!(names(&fused(graph(twice, &weights, &["z"]))), [LINEAR, "MatMul"]);
        // Another width, and a value that is used elsewhere.
        assert_eq!(names(&fused(graph(nodes("c"), &weights, &["y"]))), ["MatMul", "Add"]);
        assert_eq!(names(&fused(graph(nodes("b"), &weights, &["y", "p"]))), ["MatMul", "Add"]);
    }

    #[test]
    fn gelu_is_found_in_both_orders() {
        let weights =
            [("r", number(std::f32::consts::SQRT_2)), ("1", number(1.0)), ("h", number(0.5))];
        let begin = || {
            vec![
                node("Div", &["x", "r"], "s"),
                node("Erf", &["s"], "e"),
                node("Add", &["e", "1"], "a"),
            ]
        };
        let mut last = begin();
        last.extend([node("Mul", &["x", "a"], "m"), node("Mul", &["m", "h"], "y")]);
        let mut first = begin();
        first.extend([node("Mul", &["x", "h"], "m"), node("Mul", &["m", "a"], "y")]);
        for nodes in [last, first] {
            let found = fused(graph(nodes, &weights, &["y"]));
            assert_eq!(found, [(GELU.to_owned(), vec!["x".into()])]);
        }
        let mut other = begin();
        other.extend([node("Mul", &["x", "a"], "m"), node("Mul", &["m", "1"], "y")]);
        assert_eq!(fused(graph(other, &weights, &["y"])).len(), 5);
    }

    #[test]
    fn attention_is_found_with_and_without_scale_and_bias() {
        let weights = [("r", number(0.125))];
        let end =
            |scores: &str| [node("Softmax", &[scores], "s"), node("MatMul", &["s", "v"], "y")];
        let mut all = vec![
            node("MatMul", &["q", "k"], "p"),
            node("Mul", &["p", "r"], "m"),
            node("Add", &["m", "bias"], "a"),
        ];
        all.extend(end("a"));
        let mut found = graph(all, &weights, &["y"]);
        fuse(&mut found);
        assert_eq!(found.nodes.len(), 1);
        assert_eq!(found.nodes[0].inputs, ["q", "k", "v", "bias"]);
        assert_eq!(found.nodes[0].attributes.float("scale"), Some(0.125));
        let mut plain = vec![node("MatMul", &["q", "k"], "p")];
        plain.extend(end("p"));
        assert_eq!(names(&fused(graph(plain, &weights, &["y"]))), [ATTENTION]);
        // The shares are an output too.
        let mut shown = vec![node("MatMul", &["q", "k"], "p")];
        shown.extend(end("p"));
        assert_eq!(fused(graph(shown, &weights, &["y", "s"])).len(), 3);
    }
}
