//! Calls of functions that a model itself defines, replaced by what they compute.

use std::collections::BTreeMap;

use crate::flaws::order;
use crate::messages::{Function, Graph, Node};
use crate::names::domain;

/// The most nodes that a graph may grow to. Functions that call functions can multiply.
const MOST: usize = 200_000;

/// Functions within functions that are followed.
const DEEPEST: usize = 32;

/// Returns the nodes in the order in which they are computed, with the nodes of functions in the place of calls. A call
/// of a function that calls itself, or that would make the graph too large, stays.
pub(crate) fn inlined(nodes: Vec<Node>, functions: &[Function]) -> Vec<Node> {
    let mut inliner = Inliner { functions, nodes: Vec::new(), calls: 0 };
    for node in sorted(nodes) {
        inliner.add(node, 0);
    }
    inliner.nodes
}

fn sorted(nodes: Vec<Node>) -> Vec<Node> {
    match order(&nodes) {
        Ok(order) if order.iter().enumerate().any(|(index, at)| index != *at) => {
            order.into_iter().map(|at| nodes[at].clone()).collect()
        }
        _ => nodes,
    }
}

struct Inliner<'a> {
    functions: &'a [Function],
    nodes: Vec<Node>,
    calls: usize,
}

impl Inliner<'_> {
    fn add(&mut self, node: Node, depth: usize) {
        let called = self.functions.iter().find(|function| {
            function.name == node.operator
                && domain(&function.domain) == domain(&node.domain)
                && function.overload == node.overload
        });
        let Some(function) = called.filter(|function| {
            let nodes = self.nodes.len().saturating_add(function.nodes.len());
            depth < DEEPEST && nodes <= MOST && self.calls < MOST
        }) else {
            return self.nodes.push(node);
        };
        self.calls += 1;
        let mut names = Names { call: self.calls, of_call: BTreeMap::new() };
        let given = |names: &[String], index: usize| names.get(index).cloned().unwrap_or_default();
        for (index, input) in function.inputs.iter().enumerate() {
            names.of_call.insert(input, given(&node.inputs, index));
        }
        for (index, output) in function.outputs.iter().enumerate() {
            let name = given(&node.outputs, index);
            // An output that the call leaves out may be read within.
            if !name.is_empty() {
                names.of_call.insert(output, name);
            }
        }
        for inner in sorted(function.nodes.clone()) {
            self.add(names.renamed(inner, &node, function), depth + 1);
        }
    }
}

/// Names of a function's values in the graph around it.
struct Names<'a> {
    /// The number of the call, which tells its inner values from those of others.
    call: usize,
    of_call: BTreeMap<&'a str, String>,
}

impl Names<'_> {
    fn of(&self, name: &str) -> String {
        match self.of_call.get(name) {
            _ if name.is_empty() => String::new(),
            Some(name) => name.clone(),
            None => format!("{name} of call {}", self.call),
        }
    }

    /// Returns a node of the function with the names and attributes of the call.
    fn renamed(&self, mut node: Node, call: &Node, function: &Function) -> Node {
        node.inputs.iter_mut().chain(&mut node.outputs).for_each(|name| *name = self.of(name));
        node.attributes = node
            .attributes
            .into_iter()
            .filter_map(|mut attribute| {
                if !attribute.of_call.is_empty() {
                    let all = call.attributes.iter().chain(&function.defaults);
                    let given = all.into_iter().find(|given| given.name == attribute.of_call)?;
                    return Some(crate::messages::Attribute {
                        name: attribute.name,
                        ..given.clone()
                    });
                }
                for graph in attribute.graph.iter_mut().chain(&mut attribute.graphs) {
                    self.rename(graph, call, function);
                }
                Some(attribute)
            })
            .collect();
        node
    }

    /// Renames all values of a graph within the function.
    fn rename(&self, graph: &mut Graph, call: &Node, function: &Function) {
        let values = graph.inputs.iter_mut().chain(&mut graph.outputs).chain(&mut graph.values);
        values.for_each(|value| value.name = self.of(&value.name));
        graph.initializers.iter_mut().for_each(|tensor| tensor.name = self.of(&tensor.name));
        let nodes = std::mem::take(&mut graph.nodes);
        let nodes = nodes.into_iter().map(|node| self.renamed(node, call, function));
        graph.nodes = nodes.collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::Attribute;

    fn node(operator: &str, inputs: &[&str], outputs: &[&str]) -> Node {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let operator = operator.to_owned();
        Node { operator, inputs: names(inputs), outputs: names(outputs), ..Node::default() }
    }

    fn function(name: &str, inputs: &[&str], outputs: &[&str], nodes: Vec<Node>) -> Function {
        let Node { operator: name, inputs, outputs, .. } = node(name, inputs, outputs);
        Function { name, inputs, outputs, nodes, domain: "own".into(), ..Function::default() }
    }

    fn call(name: &str, inputs: &[&str], outputs: &[&str]) -> Node {
        Node { domain: "own".into(), ..node(name, inputs, outputs) }
    }

    fn shown(nodes: &[Node]) -> Vec<String> {
        let shown = |node: &Node| {
            format!("{} = {}({})", node.outputs.join(","), node.operator, node.inputs.join(","))
        };
        nodes.iter().map(shown).collect()
    }

    #[test]
    fn a_call_is_replaced_by_its_nodes_in_their_order() {
        let body = vec![node("Relu", &["inner"], &["b"]), node("Add", &["a", "bias"], &["inner"])];
        let functions = [function("f", &["a", "bias"], &["b"], body)];
        let nodes = vec![call("f", &["z", "w"], &["y"]), call("f", &["x"], &["z"])];
        let expected = [
            "inner of call 1 = Add(x,)",
            "z = Relu(inner of call 1)",
            "inner of call 2 = Add(z,w)",
            "y = Relu(inner of call 2)",
        ];
        assert_eq!(shown(&inlined(nodes, &functions)), expected);
    }

    #[test]
    fn attributes_come_from_the_call_or_from_the_function() {
        let attribute = |name: &str, of_call: &str, integer| Attribute {
            name: name.into(),
            of_call: of_call.into(),
            integer,
            ..Attribute::default()
        };
        let inner = Node {
            attributes: vec![attribute("axis", "along", None), attribute("keepdims", "keep", None)],
            ..node("ReduceSum", &["a"], &["b"])
        };
        let mut function = function("f", &["a"], &["b"], vec![inner]);
        function.defaults = vec![attribute("along", "", Some(0)), attribute("keep", "", Some(1))];
        let called =
            Node { attributes: vec![attribute("along", "", Some(2))], ..call("f", &["x"], &["y"]) };
        let found = inlined(vec![called], &[function]);
        let found: Vec<_> =
            found[0].attributes.iter().map(|it| (it.name.as_str(), it.integer)).collect();
        assert_eq!(found, [("axis", Some(2)), ("keepdims", Some(1))]);
    }

    #[test]
    fn functions_that_multiply_or_call_themselves_come_to_an_end() {
        let twice = |inner: &str| vec![call(inner, &["a"], &["c"]), call(inner, &["c"], &["b"])];
        let mut functions =
            vec![function("f0", &["a"], &["b"], vec![node("Relu", &["a"], &["b"])])];
        for level in 1..=30 {
            let body = twice(&format!("f{}", level - 1));
            functions.push(function(&format!("f{level}"), &["a"], &["b"], body));
        }
        let nodes = inlined(vec![call("f30", &["x"], &["y"])], &functions);
        assert!(nodes.len() <= 2 * MOST, "{}", nodes.len());
        functions[0].nodes.clear();
        assert!(inlined(vec![call("f30", &["x"], &["y"])], &functions).len() <= 2 * MOST);
        let own = [function("f", &["a"], &["b"], twice("f"))];
        assert!(inlined(vec![call("f", &["x"], &["y"])], &own).len() <= 2 * MOST);
    }
}
