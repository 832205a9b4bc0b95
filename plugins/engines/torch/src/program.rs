/*!
A graph as a list of steps on numbered values.

Names are resolved and attributes read when the graph is imported. What follows from constants alone is computed then,
and a value is dropped after its last use, as an interpreter of the framework would drop it.
*/

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use tch::{Device, Tensor};

use crate::error::{Wrong, wrong};
use crate::onnx::{Graph, Node};
use crate::operators::{self, Call, OPSETS, Operation};

/// A graph that can be run.
pub(crate) struct Program {
    /// Values that do not change between runs, by number.
    constants: Vec<Option<Tensor>>,
    steps: Rc<[Step]>,
    inputs: Vec<usize>,
    outputs: Vec<usize>,
    device: Device,
    /// Weights that training changes, by their numbers among the constants.
    parameters: Vec<usize>,
}

struct Step {
    operation: Operation,
    /// For messages.
    name: String,
    inputs: Vec<Option<usize>>,
    outputs: Vec<Option<usize>>,
    /// Inputs that stay in the host's memory.
    on_host: &'static [usize],
    /// Values that no later step uses.
    ends: Vec<usize>,
}

/// Numbers of values by name.
#[derive(Default)]
struct Names<'a>(HashMap<&'a str, usize>);

impl<'a> Names<'a> {
    fn number(&mut self, name: &'a str) -> usize {
        let next = self.0.len();
        *self.0.entry(name).or_insert(next)
    }

    fn maybe(&mut self, name: &'a str) -> Option<usize> {
        (!name.is_empty()).then(|| self.number(name))
    }
}

impl Program {
    /// Imports a graph. With `trained`, weights are parameters, and nothing is computed from them in advance.
    pub(crate) fn new(graph: Graph, device: Device, trained: bool) -> Result<Self, Wrong> {
        if !OPSETS.contains(&graph.opset) {
            let (first, last) = (OPSETS.start(), OPSETS.end());
            return Err(wrong!(
                "the model uses version {} of the standard's operators; versions {first} to {last} are imported, and \
                 the package `onnx` converts between versions (`onnx.version_converter`)",
                graph.opset
            ));
        }
        let operations = operations(&graph.nodes)?;
        let mut names = Names::default();
        let inputs: Vec<usize> = graph.inputs.iter().map(|name| names.number(name)).collect();
        let trainable = if trained { trainable(&graph) } else { BTreeSet::new() };
        let mut constants: Vec<Option<Tensor>> = Vec::new();
        let place = |constants: &mut Vec<Option<Tensor>>, number: usize, value| {
            if constants.len() <= number {
                constants.resize_with(number + 1, || None);
            }
            constants[number] = value;
        };
        let on_host = on_host(&graph);
        let mut parameters = Vec::new();
        let mut is_parameter = BTreeSet::new();
        for (name, weight) in &graph.weights {
            let target = if on_host.contains(name.as_str()) { Device::Cpu } else { device };
            let mut weight = weight.f_to(target)?;
            let number = names.number(name);
            if trainable.contains(name.as_str()) {
                weight = weight.f_set_requires_grad(true)?;
                parameters.push(number);
                is_parameter.insert(number);
            }
            place(&mut constants, number, Some(weight));
        }
        let mut steps = Vec::new();
        for (node, operation) in graph.nodes.iter().zip(operations) {
            let step = Step {
                operation,
                name: format!("{} `{}`", node.operator, node.name),
                inputs: node.inputs.iter().map(|name| names.maybe(name)).collect(),
                outputs: node.outputs.iter().map(|name| names.maybe(name)).collect(),
                on_host: operators::host_inputs(&node.operator),
                ends: Vec::new(),
            };
            let known = |number: &Option<usize>| {
                number.is_none_or(|number| {
                    let is_there = constants.get(number).is_some_and(Option::is_some);
                    // Values that follow from a parameter change with it; statistics change with the batches.
                    is_there && !is_parameter.contains(&number)
                })
            };
            let can_be_folded = !(trained && node.operator == "BatchNormalization");
            if can_be_folded && step.inputs.iter().all(known) {
                let results = step.run(&constants, &[], device, false)?;
                for (number, result) in step.outputs.iter().zip(results) {
                    if let Some(number) = number {
                        place(&mut constants, *number, Some(result));
                    }
                }
            } else {
                steps.push(step);
            }
        }
        let outputs: Vec<usize> = graph.outputs.iter().map(|name| names.number(name)).collect();
        constants.resize_with(names.0.len(), || None);
        end_values(&mut steps, &outputs, &constants);
        let steps = steps.into();
        let program = Self { constants, steps, inputs, outputs, device, parameters };
        program.check(&names)?;
        Ok(program)
    }

    /// Checks that each value is made before it is used.
    fn check(&self, names: &Names<'_>) -> Result<(), Wrong> {
        let mut made: BTreeSet<usize> = self.inputs.iter().copied().collect();
        let is_constant = |number: &usize| self.constants[*number].is_some();
        let name = |number: usize| {
            names.0.iter().find(|(_, other)| **other == number).map_or("?", |(name, _)| name)
        };
        for step in self.steps.iter() {
            for number in step.inputs.iter().flatten() {
                if !made.contains(number) && !is_constant(number) {
                    return Err(wrong!(
                        "{}: `{}` is used before it is made",
                        step.name,
                        name(*number)
                    ));
                }
            }
            made.extend(step.outputs.iter().flatten());
        }
        match self.outputs.iter().find(|number| !made.contains(number) && !is_constant(number)) {
            Some(number) => Err(wrong!("the output `{}` is made by no node", name(*number))),
            None => Ok(()),
        }
    }

    /// Returns a copy with weights and statistics of its own.
    pub(crate) fn copy(&self) -> Result<Self, Wrong> {
        let own = |constant: &Tensor| {
            let mut own = constant.f_detach()?.f_empty_like()?;
            own.f_copy_(&constant.f_detach()?)?;
            Ok::<_, Wrong>(own)
        };
        let mut constants = Vec::new();
        for (number, constant) in self.constants.iter().enumerate() {
            let copied = constant.as_ref().map(|constant| tch::no_grad(|| own(constant)));
            let copied =
                copied.transpose()?.map(|copied| match self.parameters.contains(&number) {
                    true => copied.f_set_requires_grad(true),
                    false => Ok(copied),
                });
            constants.push(copied.transpose()?);
        }
        Ok(Self {
            constants,
            steps: Rc::clone(&self.steps),
            inputs: self.inputs.clone(),
            outputs: self.outputs.clone(),
            device: self.device,
            parameters: self.parameters.clone(),
        })
    }

    /// Returns the weights that training changes.
    pub(crate) fn parameters(&self) -> impl Iterator<Item = &Tensor> {
        self.parameters.iter().filter_map(|number| self.constants[*number].as_ref())
    }

    /// Computes the outputs.
    pub(crate) fn run(&self, inputs: &[&Tensor], training: bool) -> Result<Vec<Tensor>, Wrong> {
        let mut values: Vec<Option<Tensor>> = Vec::new();
        values.resize_with(self.constants.len(), || None);
        for (number, input) in self.inputs.iter().zip(inputs) {
            values[*number] = Some(input.shallow_clone());
        }
        for step in self.steps.iter() {
            let results = step.run(&self.constants, &values, self.device, training)?;
            for (number, result) in step.outputs.iter().zip(results) {
                if let Some(number) = number {
                    values[*number] = Some(result);
                }
            }
            for number in &step.ends {
                values[*number] = None;
            }
        }
        let output = |number: &usize| {
            let value = values[*number].as_ref().or(self.constants[*number].as_ref());
            let value = value.ok_or_else(|| wrong!("an output was not made"))?;
            Ok(value.f_to(self.device)?.f_contiguous()?)
        };
        self.outputs.iter().map(output).collect()
    }
}

impl Step {
    fn run(
        &self,
        constants: &[Option<Tensor>],
        values: &[Option<Tensor>],
        device: Device,
        training: bool,
    ) -> Result<Vec<Tensor>, Wrong> {
        let value = |number: &usize| {
            let value = values.get(*number).and_then(Option::as_ref);
            value.or_else(|| constants.get(*number).and_then(Option::as_ref))
        };
        let mut inputs: Vec<Option<&Tensor>> =
            self.inputs.iter().map(|number| number.as_ref().and_then(value)).collect();
        let moved;
        if device != Device::Cpu {
            moved = self.together(&inputs, device)?;
            for (input, moved) in inputs.iter_mut().zip(&moved) {
                *input = moved.as_ref().or(*input);
            }
        }
        (self.operation)(&Call { inputs: &inputs, training })
            .map_err(|error| wrong!("{}: {error}", self.name))
    }

    /// Copies inputs to the device if others are there: shapes are computed in the host's memory, and sometimes used as
    /// numbers.
    fn together(
        &self,
        inputs: &[Option<&Tensor>],
        device: Device,
    ) -> Result<Vec<Option<Tensor>>, Wrong> {
        let free = |at: usize| !self.on_host.contains(&at);
        let there = |input: &Option<&Tensor>| input.is_some_and(|input| input.device() == device);
        let any = inputs.iter().enumerate().any(|(at, input)| free(at) && there(input));
        let copy = |(at, input): (usize, &Option<&Tensor>)| match input {
            Some(input) if any && free(at) && input.device() != device => {
                Ok(Some(input.f_to(device)?))
            }
            _ => Ok(None),
        };
        inputs.iter().enumerate().map(copy).collect()
    }
}

/// Notes after which step each value is dropped.
fn end_values(steps: &mut [Step], outputs: &[usize], constants: &[Option<Tensor>]) {
    let mut last: BTreeMap<usize, usize> = BTreeMap::new();
    for (at, step) in steps.iter().enumerate() {
        for number in step.inputs.iter().chain(&step.outputs).flatten() {
            last.insert(*number, at);
        }
    }
    for (number, at) in last {
        if !outputs.contains(&number) && constants[number].is_none() {
            steps[at].ends.push(number);
        }
    }
}

/// Returns the function of each node.
///
/// # Errors
///
/// Names all operators that are not imported, with how often they occur.
fn operations(nodes: &[Node]) -> Result<Vec<Operation>, Wrong> {
    let mut found = Vec::new();
    let mut missing: BTreeMap<&str, usize> = BTreeMap::new();
    for node in nodes {
        let operation = operators::operation(node)
            .map_err(|error| wrong!("{} `{}`: {error}", node.operator, node.name))?;
        match operation {
            Some(operation) => found.push(operation),
            None => *missing.entry(&node.operator).or_default() += 1,
        }
    }
    if missing.is_empty() {
        return Ok(found);
    }
    let times = |(operator, count): (&&str, &usize)| match count {
        1 => format!("{operator} (once)"),
        2 => format!("{operator} (twice)"),
        _ => format!("{operator} ({count} times)"),
    };
    let missing: Vec<String> = missing.iter().map(times).collect();
    Err(wrong!("the model has operators that are not imported: {}", missing.join(", ")))
}

/// Returns the names of values that are used in the host's memory alone.
fn on_host(graph: &Graph) -> BTreeSet<&str> {
    let (mut host, mut device) = (BTreeSet::new(), BTreeSet::new());
    for node in &graph.nodes {
        let positions = operators::host_inputs(&node.operator);
        for (at, name) in node.inputs.iter().enumerate() {
            match positions.contains(&at) {
                true => host.insert(name.as_str()),
                false => device.insert(name.as_str()),
            };
        }
    }
    host.difference(&device).copied().collect()
}

/// Returns the names of the weights that training changes: all real numbers with at least one axis, except the running
/// statistics of normalisations.
fn trainable(graph: &Graph) -> BTreeSet<&str> {
    let batch_norms = graph.nodes.iter().filter(|node| node.operator == "BatchNormalization");
    let statistics: BTreeSet<&str> =
        batch_norms.flat_map(|node| node.inputs.iter().skip(3)).map(String::as_str).collect();
    let is_trained = |(name, weight): &(&String, &Tensor)| {
        use tch::Kind::{BFloat16, Double, Float, Half};
        matches!(weight.kind(), Float | Double | Half | BFloat16)
            && weight.dim() > 0
            && !statistics.contains(name.as_str())
    };
    graph.weights.iter().filter(is_trained).map(|(name, _)| name.as_str()).collect()
}
