//! Contradictions within a model's file, which every engine would meet in its own words, or silently compute with.
//!
//! Values have the sizes that their types and shapes need, every value that is read is made, by one node, and no value
//! needs itself. Nodes in another order than that in which they are computed are no contradiction: engines sort them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::messages::{Attribute, Function, Graph, Model, Node};
use crate::names::operator;
use crate::tensor::Tensor;

/// Returns the first contradiction of a model in one sentence, if there is one.
pub(crate) fn of(model: &Model, graph: &Graph) -> Option<String> {
    let functions = model.functions.iter().map(of_function);
    std::iter::once(of_graph(graph, &Scope::default())).chain(functions).find_map(Result::err)
}

/// Names of values that a graph can read: its own, and those of the graph around it.
#[derive(Default)]
struct Scope<'a> {
    own: BTreeSet<&'a str>,
    around: Option<&'a Scope<'a>>,
}

impl Scope<'_> {
    fn has(&self, name: &str) -> bool {
        self.own.contains(name) || self.around.is_some_and(|around| around.has(name))
    }
}

fn of_graph(graph: &Graph, around: &Scope<'_>) -> Result<(), String> {
    graph.initializers.iter().try_for_each(|tensor| of_tensor(&tensor.name, tensor))?;
    let outputs = graph.outputs.iter().map(|output| output.name.as_str());
    of_nodes(&graph.nodes, given(graph), outputs, around)
}

/// Returns the names of a graph's inputs and weights.
fn given(graph: &Graph) -> BTreeSet<&str> {
    let inputs = graph.inputs.iter().map(|input| input.name.as_str());
    let weights = graph.initializers.iter().map(|tensor| tensor.name.as_str());
    let sparse = graph.sparse_initializers.iter();
    let sparse = sparse.filter_map(|tensor| Some(tensor.values.as_ref()?.name.as_str()));
    inputs.chain(weights).chain(sparse).collect()
}

fn of_function(function: &Function) -> Result<(), String> {
    let given = function.inputs.iter().map(String::as_str).collect();
    let outputs = function.outputs.iter().map(String::as_str);
    let flaw = of_nodes(&function.nodes, given, outputs, &Scope::default());
    flaw.map_err(|flaw| format!("in its function `{}`: {flaw}", function.name))
}

fn of_nodes<'a>(
    nodes: &'a [Node],
    given: BTreeSet<&'a str>,
    mut outputs: impl Iterator<Item = &'a str>,
    around: &Scope<'_>,
) -> Result<(), String> {
    let mut own = given;
    for node in nodes {
        for output in node.outputs.iter().map(String::as_str).filter(|name| !name.is_empty()) {
            if !own.insert(output) {
                let by = shown(node);
                return Err(format!("{by} makes `{output}`, which is there already"));
            }
        }
    }
    let scope = Scope { own, around: Some(around) };
    for node in nodes {
        let missing = node.inputs.iter().find(|name| !name.is_empty() && !scope.has(name));
        if let Some(missing) = missing {
            return Err(format!("{} reads `{missing}`, which nothing makes", shown(node)));
        }
        for attribute in &node.attributes {
            for tensor in tensors(attribute) {
                let name = node.outputs.first().map_or("", String::as_str);
                of_tensor(name, tensor)?;
            }
            attribute
                .graph
                .iter()
                .chain(&attribute.graphs)
                .try_for_each(|it| of_graph(it, &scope))?;
        }
    }
    if let Some(missing) = outputs.find(|name| !scope.has(name)) {
        return Err(format!("nothing makes its output `{missing}`"));
    }
    match order(nodes) {
        Ok(_) => Ok(()),
        Err(cycle) => {
            let names: Vec<_> = cycle.iter().take(4).map(|name| format!("`{name}`")).collect();
            let more = if cycle.len() > names.len() { " and others" } else { "" };
            Err(match names.len() {
                1 => format!("its value {} needs itself", names[0]),
                _ => format!("its values {}{more} need each other in a circle", names.join(", ")),
            })
        }
    }
}

fn of_tensor(name: &str, tensor: &Tensor) -> Result<(), String> {
    tensor
        .flaw()
        .map_or(Ok(()), |flaw| Err(format!("its weight or constant `{name}` is broken: {flaw}")))
}

fn tensors(attribute: &Attribute) -> impl Iterator<Item = &Tensor> {
    attribute.tensor.iter().chain(&attribute.tensors)
}

fn shown(node: &Node) -> String {
    match node.name.as_str() {
        "" => format!("a node `{}`", operator(node)),
        name => format!("the node `{name}` (`{}`)", operator(node)),
    }
}

/// Returns an order in which nodes can be computed, which is theirs if that is one.
///
/// # Errors
///
/// The names of values that need each other in a circle.
pub(crate) fn order(nodes: &[Node]) -> Result<Vec<usize>, Vec<String>> {
    let mut makers: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, node) in nodes.iter().enumerate() {
        let outputs = node.outputs.iter().filter(|name| !name.is_empty());
        makers.extend(outputs.map(|name| (name.as_str(), index)));
    }
    let needs: Vec<BTreeSet<usize>> = nodes
        .iter()
        .map(|node| {
            let mut names = BTreeSet::new();
            read(node, &mut names);
            names.into_iter().filter_map(|name| makers.get(name).copied()).collect()
        })
        .collect();
    // The usual case needs no queue.
    if needs.iter().enumerate().all(|(index, needs)| needs.iter().all(|need| *need < index)) {
        return Ok((0..nodes.len()).collect());
    }
    let mut left: Vec<usize> = needs.iter().map(BTreeSet::len).collect();
    let mut followers = vec![Vec::new(); nodes.len()];
    for (index, needs) in needs.iter().enumerate() {
        needs.iter().for_each(|need| followers[*need].push(index));
    }
    let mut ready: VecDeque<usize> = (0..nodes.len()).filter(|index| left[*index] == 0).collect();
    let mut order = Vec::with_capacity(nodes.len());
    while let Some(index) = ready.pop_front() {
        order.push(index);
        for &follower in &followers[index] {
            left[follower] -= 1;
            if left[follower] == 0 {
                ready.push_back(follower);
            }
        }
    }
    let Some(mut at) = left.iter().position(|left| *left > 0) else { return Ok(order) };
    // Each node that is left needs one that is left, so a walk comes back to where it was.
    let mut walk = Vec::new();
    while !walk.contains(&at) {
        walk.push(at);
        at = *needs[at].iter().find(|need| left[**need] > 0).unwrap_or(&at);
    }
    let begin = walk.iter().position(|index| *index == at).unwrap_or(0);
    let name = |index: &usize| nodes[*index].outputs.first().cloned().unwrap_or_default();
    Err(walk[begin..].iter().map(name).collect())
}

/// Collects the names that a node reads, and those that graphs within it read from around them.
fn read<'a>(node: &'a Node, names: &mut BTreeSet<&'a str>) {
    names.extend(node.inputs.iter().map(String::as_str).filter(|name| !name.is_empty()));
    for graph in node.attributes.iter().flat_map(|it| it.graph.iter().chain(&it.graphs)) {
        let mut within = BTreeSet::new();
        graph.nodes.iter().for_each(|node| read(node, &mut within));
        within.extend(graph.outputs.iter().map(|output| output.name.as_str()));
        let mut own = given(graph);
        own.extend(graph.nodes.iter().flat_map(|node| &node.outputs).map(String::as_str));
        names.extend(within.difference(&own));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::{SparseTensor, ValueInfo};

    fn node(operator: &str, inputs: &[&str], outputs: &[&str]) -> Node {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let operator = operator.to_owned();
        Node { operator, inputs: names(inputs), outputs: names(outputs), ..Node::default() }
    }

    fn value(name: &str) -> ValueInfo {
        ValueInfo { name: name.to_owned(), kind: None }
    }

    /// A graph from `x` to `y`.
    fn graph(nodes: Vec<Node>) -> Graph {
        Graph { nodes, inputs: vec![value("x")], outputs: vec![value("y")], ..Graph::default() }
    }

    fn flaw(graph: &Graph) -> String {
        of(&Model::default(), graph).unwrap_or_default()
    }

    fn with(graph: Graph, mut node: Node) -> Node {
        node.attributes.push(Attribute { graph: Some(graph), ..Attribute::default() });
        node
    }

    #[test]
    fn a_graph_in_any_order_has_no_flaw() {
        let nodes = vec![node("Relu", &["a"], &["y"]), node("Clip", &["x", "", "x"], &["a", ""])];
        assert_eq!(order(&nodes), Ok(vec![1, 0]));
        assert_eq!(flaw(&graph(nodes)), "");
        // A branch reads what is around it, may return it, and may reuse names.
        let branch = Graph { inputs: Vec::new(), ..graph(vec![node("Relu", &["later"], &["y"])]) };
        let other = Graph { outputs: vec![value("x")], ..Graph::default() };
        let both = with(other, with(branch, node("If", &["x"], &["y"])));
        let nodes = vec![both, node("Abs", &["x"], &["later"])];
        assert_eq!(order(&nodes), Ok(vec![1, 0]), "the branch needs it");
        assert_eq!(flaw(&graph(nodes)), "");
        let values = Tensor { name: "w".into(), ..Tensor::default() };
        let sparse = SparseTensor { values: Some(values), ..SparseTensor::default() };
        let reads = graph(vec![node("MatMul", &["x", "w"], &["y"])]);
        assert_eq!(flaw(&Graph { sparse_initializers: vec![sparse], ..reads }), "");
    }

    #[test]
    fn what_nothing_makes_is_named() {
        let nodes = vec![node("Add", &["x", "absent"], &["y"])];
        assert_eq!(flaw(&graph(nodes)), "a node `Add` reads `absent`, which nothing makes");
        let mut named = node("Add", &["x", "absent"], &["y"]);
        (named.name, named.domain) = ("sum".into(), "com.example".into());
        let told = "the node `sum` (`com.example.Add`) reads `absent`, which nothing makes";
        assert_eq!(flaw(&graph(vec![named])), told);
        let nodes = vec![node("Relu", &["x"], &["z"])];
        assert_eq!(flaw(&graph(nodes)), "nothing makes its output `y`");
        let branch = graph(vec![node("Relu", &["absent"], &["y"])]);
        let nodes = vec![with(branch, node("If", &["x"], &["y"]))];
        assert_eq!(flaw(&graph(nodes)), "a node `Relu` reads `absent`, which nothing makes");
        let nodes = vec![node("Relu", &["x"], &["y"]), node("Abs", &["x"], &["y"])];
        assert_eq!(flaw(&graph(nodes)), "a node `Abs` makes `y`, which is there already");
    }

    #[test]
    fn a_circle_is_named() {
        let nodes = vec![
            node("Relu", &["a"], &["y"]),
            node("Add", &["x", "b"], &["a"]),
            node("Relu", &["c"], &["b"]),
            node("Relu", &["a"], &["c"]),
        ];
        let told = "its values `a`, `b`, `c` need each other in a circle";
        assert_eq!(flaw(&graph(nodes)), told);
        let nodes = vec![node("Add", &["x", "y"], &["y"])];
        assert_eq!(flaw(&graph(nodes)), "its value `y` needs itself");
    }

    #[test]
    fn functions_are_looked_into() {
        let function = Function {
            name: "f".into(),
            inputs: vec!["a".into()],
            outputs: vec!["b".into()],
            nodes: vec![node("Add", &["a", "c"], &["b"])],
            ..Function::default()
        };
        let model = Model { functions: vec![function], ..Model::default() };
        let told = "in its function `f`: a node `Add` reads `c`, which nothing makes";
        assert_eq!(of(&model, &graph(vec![node("f", &["x"], &["y"])])), Some(told.into()));
    }
}
