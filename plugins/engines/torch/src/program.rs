/*!
A graph as a list of steps on numbered values.

Names are resolved and attributes read when the graph is imported. What follows from constants alone is computed then,
and a value is dropped after its last use, as an interpreter of the framework would drop it.
*/

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::rc::Rc;

use tch::{Device, Kind, Tensor};

use crate::compute::Compute;
use crate::error::{Wrong, wrong};
use crate::fusion;
use crate::onnx::{Graph, Node};
use crate::operators::{self, Call, Known, OPSETS, Operation};

/// A pass through a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pass {
    Inference,
    /// Normalisations use the statistics of the batch, and follow them.
    Training,
    /// As [`Pass::Training`], for values that were dropped: statistics follow a batch once.
    Again,
}

/// Values of a run, by number.
pub(crate) struct Values(Vec<Option<Tensor>>);

impl Values {
    pub(crate) fn shallow_clone(&self) -> Self {
        Self(self.0.iter().map(|value| value.as_ref().map(Tensor::shallow_clone)).collect())
    }

    /// Returns values that follow from those of which `after` are copies, with the gradients of the copies.
    pub(crate) fn results_with_gradients_of(&self, after: &Self) -> (Vec<Tensor>, Vec<Tensor>) {
        let (mut results, mut gradients) = (Vec::new(), Vec::new());
        for (value, copy) in self.0.iter().zip(&after.0) {
            let (Some(value), Some(copy)) = (value, copy) else { continue };
            let gradient = copy.grad();
            if value.requires_grad() && gradient.defined() {
                results.push(value.shallow_clone());
                gradients.push(gradient);
            }
        }
        (results, gradients)
    }
}

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
    /// Values that stay in the host's memory.
    on_host: BTreeSet<usize>,
    /// Copies on the device of values that were computed in the host's memory, by step and input, if they are kept.
    moved: RefCell<Option<Moved>>,
}

/// Copies of values on the device, by the number of a step's first output and the position of the input.
type Moved = HashMap<(Option<usize>, usize), Tensor>;

pub(crate) struct Step {
    operation: Operation,
    operator: String,
    name: String,
    inputs: Vec<Option<usize>>,
    outputs: Vec<Option<usize>>,
    /// Inputs that stay in the host's memory.
    on_host: &'static [usize],
    /// Elements of constant inputs that are read as numbers.
    known: Vec<Option<Known>>,
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
    pub(crate) fn new(
        mut graph: Graph,
        device: Device,
        trained: bool,
        compute: Compute,
    ) -> Result<Self, Wrong> {
        if !OPSETS.contains(&graph.opset) {
            let (first, last) = (OPSETS.start(), OPSETS.end());
            return Err(wrong!(
                "the model uses version {} of the standard's operators; versions {first} to {last} are imported, and \
                 the package `onnx` converts between versions (`onnx.version_converter`)",
                graph.opset
            ));
        }
        unshare(&mut graph);
        // Operators that are not imported are named as the file has them.
        operations(&graph.nodes)?;
        if compute.fusion {
            fusion::fuse(&mut graph);
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
            let mut weight = compute.formatted(&weight.f_to(target)?)?;
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
            let mut step = Step {
                operation,
                operator: node.operator.clone(),
                name: node.name.clone(),
                inputs: node.inputs.iter().map(|name| names.maybe(name)).collect(),
                outputs: node.outputs.iter().map(|name| names.maybe(name)).collect(),
                on_host: operators::host_inputs(&node.operator),
                known: Vec::new(),
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
                let nothing = RefCell::new(None);
                let results = step.run(&constants, &[], device, Pass::Inference, &nothing)?;
                for (number, result) in step.outputs.iter().zip(results) {
                    if let Some(number) = number {
                        place(&mut constants, *number, Some(result));
                    }
                }
            } else {
                for at in operators::read_inputs(&node.operator) {
                    let number = step.inputs.get(*at).copied().flatten();
                    let number = number.filter(|number| !is_parameter.contains(number));
                    let constant = number.and_then(|number| constants.get(number)?.as_ref());
                    step.known.resize_with(at + 1, || None);
                    step.known[*at] = constant.map(Known::of).transpose()?.flatten();
                }
                steps.push(step);
            }
        }
        let outputs: Vec<usize> = graph.outputs.iter().map(|name| names.number(name)).collect();
        constants.resize_with(names.0.len(), || None);
        end_values(&mut steps, &outputs, &constants);
        let steps = steps.into();
        let on_host =
            on_host.iter().filter_map(|name| names.0.get(name.as_str())).copied().collect();
        let moved = RefCell::new(None);
        let program =
            Self { constants, steps, inputs, outputs, device, parameters, on_host, moved };
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
                        step.label(),
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

    /// Returns a copy on a device with weights and statistics of its own.
    pub(crate) fn copy(&self, device: Device) -> Result<Self, Wrong> {
        let own = |number: usize, constant: &Tensor| {
            let target = if self.on_host.contains(&number) { constant.device() } else { device };
            let moved = constant.f_detach()?.f_to(target)?;
            let mut own = moved.f_empty_like()?;
            own.f_copy_(&moved)?;
            Ok::<_, Wrong>(own)
        };
        let mut constants = Vec::new();
        for (number, constant) in self.constants.iter().enumerate() {
            let copied = constant.as_ref().map(|constant| tch::no_grad(|| own(number, constant)));
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
            device,
            parameters: self.parameters.clone(),
            on_host: self.on_host.clone(),
            moved: RefCell::new(None),
        })
    }

    /// Keeps copies of values that are moved to the device while `work` runs, and returns them with its result. Inputs have
    /// the same shapes in all of its runs, from which such values follow, so a kept copy is right in each.
    pub(crate) fn keeping_moved<T>(
        &self,
        work: impl FnOnce() -> Result<T, Wrong>,
    ) -> Result<(T, Vec<Tensor>), Wrong> {
        *self.moved.borrow_mut() = Some(Moved::new());
        let result = work();
        let moved = self.moved.borrow_mut().take().unwrap_or_default();
        Ok((result?, moved.into_values().collect()))
    }

    /// Returns the weights that training changes.
    pub(crate) fn parameters(&self) -> impl Iterator<Item = &Tensor> {
        self.parameters.iter().filter_map(|number| self.constants[*number].as_ref())
    }

    /// Computes the outputs.
    pub(crate) fn run(&self, inputs: &[&Tensor], pass: Pass) -> Result<Vec<Tensor>, Wrong> {
        let mut values = self.begin(inputs);
        self.run_steps(&mut values, 0..self.steps.len(), pass)?;
        self.outputs(&values)
    }

    /// Returns the values before the first step.
    pub(crate) fn begin(&self, inputs: &[&Tensor]) -> Values {
        let mut values: Vec<Option<Tensor>> = Vec::new();
        values.resize_with(self.constants.len(), || None);
        for (number, input) in self.inputs.iter().zip(inputs) {
            values[*number] = Some(input.shallow_clone());
        }
        Values(values)
    }

    /// Computes some steps.
    pub(crate) fn run_steps(
        &self,
        values: &mut Values,
        steps: Range<usize>,
        pass: Pass,
    ) -> Result<(), Wrong> {
        self.steps[steps].iter().try_for_each(|step| self.run_step(values, step, pass))
    }

    #[inline]
    fn run_step(&self, values: &mut Values, step: &Step, pass: Pass) -> Result<(), Wrong> {
        let results = step.run(&self.constants, &values.0, self.device, pass, &self.moved)?;
        for (number, result) in step.outputs.iter().zip(results) {
            if let Some(number) = number {
                values.0[*number] = Some(result);
            }
        }
        for number in &step.ends {
            values.0[*number] = None;
        }
        Ok(())
    }

    /// Returns the outputs among the values.
    pub(crate) fn outputs(&self, values: &Values) -> Result<Vec<Tensor>, Wrong> {
        let output = |number: &usize| {
            let value = values.0[*number].as_ref().or(self.constants[*number].as_ref());
            let value = value.ok_or_else(|| wrong!("an output was not made"))?;
            Ok(value.f_to(self.device)?.f_contiguous()?)
        };
        self.outputs.iter().map(output).collect()
    }

    /// Divides the steps into parts of about the same length, at places that few values cross.
    pub(crate) fn segments(&self, count: usize) -> Vec<Range<usize>> {
        let length = self.steps.len();
        if count <= 1 || length < 2 {
            return std::iter::once(0..length).collect();
        }
        // The number of values that are made before each step and used from it on.
        let mut crossing = Vec::with_capacity(length);
        let mut alive = 0_usize;
        for step in self.steps.iter() {
            crossing.push(alive);
            alive = (alive + step.outputs.iter().flatten().count()).saturating_sub(step.ends.len());
        }
        let reach = length / (4 * count);
        let mut begins = vec![0];
        for part in 1..count {
            let ideal = part * length / count;
            let last = begins.last().copied().unwrap_or(0);
            let range = ideal.saturating_sub(reach).max(last + 1)..(ideal + reach + 1).min(length);
            let best = range.min_by_key(|at| (crossing[*at], at.abs_diff(ideal)));
            begins.extend(best);
        }
        let ends = begins.iter().skip(1).copied().chain([length]);
        begins.iter().copied().zip(ends).map(|(begin, end)| begin..end).collect()
    }

    /// Returns copies of values for which gradients are computed: of real numbers that are not the program's inputs.
    pub(crate) fn leaves(&self, values: &Values) -> Result<Values, Wrong> {
        let leaf = |(number, value): (usize, &Option<Tensor>)| {
            let Some(value) = value else { return Ok(None) };
            let detached = value.f_detach()?;
            let is_real = matches!(
                detached.f_kind()?,
                Kind::Float | Kind::Double | Kind::Half | Kind::BFloat16
            );
            Ok(Some(match is_real && !self.inputs.contains(&number) {
                true => detached.f_set_requires_grad(true)?,
                false => detached,
            }))
        };
        Ok(Values(values.0.iter().enumerate().map(leaf).collect::<Result<_, Wrong>>()?))
    }

    /// Computes the outputs, and tells of each step before and after it.
    pub(crate) fn run_observed(
        &self,
        inputs: &[&Tensor],
        pass: Pass,
        mut observe: impl FnMut(&Step, Edge) -> Result<(), Wrong>,
    ) -> Result<Vec<Tensor>, Wrong> {
        let mut values = self.begin(inputs);
        for step in self.steps.iter() {
            observe(step, Edge::Begin)?;
            self.run_step(&mut values, step, pass)?;
            observe(step, Edge::End)?;
        }
        self.outputs(&values)
    }

    /// Returns the bytes of weights and other constants.
    pub(crate) fn bytes(&self) -> u64 {
        let bytes = |tensor: &Tensor| (tensor.numel() * tensor.kind().elt_size_in_bytes()) as u64;
        self.constants.iter().flatten().map(bytes).sum()
    }
}

/// Beginning or end of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Edge {
    Begin,
    End,
}

impl Step {
    /// Returns the operator and the node's name, as shown in profiles.
    pub(crate) fn names(&self) -> (&str, &str) {
        (&self.operator, &self.name)
    }

    /// For messages.
    fn label(&self) -> String {
        format!("{} `{}`", self.operator, self.name)
    }

    fn run(
        &self,
        constants: &[Option<Tensor>],
        values: &[Option<Tensor>],
        device: Device,
        pass: Pass,
        kept: &RefCell<Option<Moved>>,
    ) -> Result<Vec<Tensor>, Wrong> {
        let value = |number: &usize| {
            let value = values.get(*number).and_then(Option::as_ref);
            value.or_else(|| constants.get(*number).and_then(Option::as_ref))
        };
        let mut inputs: Vec<Option<&Tensor>> =
            self.inputs.iter().map(|number| number.as_ref().and_then(value)).collect();
        let moved;
        if device != Device::Cpu {
            moved = self.together(&inputs, device, kept)?;
            for (input, moved) in inputs.iter_mut().zip(&moved) {
                *input = moved.as_ref().or(*input);
            }
        }
        let (training, follows) = (pass != Pass::Inference, pass == Pass::Training);
        (self.operation)(&Call { inputs: &inputs, known: &self.known, training, follows })
            .map_err(|error| wrong!("{}: {error}", self.label()))
    }

    /// Copies inputs to the device if others are there: shapes are computed in the host's memory, and sometimes used as
    /// numbers.
    fn together(
        &self,
        inputs: &[Option<&Tensor>],
        device: Device,
        kept: &RefCell<Option<Moved>>,
    ) -> Result<Vec<Option<Tensor>>, Wrong> {
        let free = |at: usize| !self.on_host.contains(&at);
        let there = |input: &Option<&Tensor>| input.is_some_and(|input| input.device() == device);
        let any = inputs.iter().enumerate().any(|(at, input)| free(at) && there(input));
        let copy = |(at, input): (usize, &Option<&Tensor>)| match input {
            Some(input) if any && free(at) && input.device() != device => {
                let mut kept = kept.borrow_mut();
                let Some(kept) = &mut *kept else { return Ok(Some(input.f_to(device)?)) };
                let key = (self.outputs.first().copied().flatten(), at);
                if let Some(copy) = kept.get(&key) {
                    return Ok(Some(copy.shallow_clone()));
                }
                let copy = input.f_to(device)?;
                kept.insert(key, copy.shallow_clone());
                Ok(Some(copy))
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

/// Makes a weight of each `Identity` of one. Exporters store equal weights once: a new model's scales and variances are all
/// ones. They are weights of their own in the model that was exported, and have to be in training.
fn unshare(graph: &mut Graph) {
    let nodes = std::mem::take(&mut graph.nodes);
    for node in nodes {
        let weight = match (node.operator.as_str(), node.inputs.as_slice()) {
            ("Identity", [name]) => graph.weights.get(name).map(Tensor::shallow_clone),
            _ => None,
        };
        match (weight, node.outputs.first().cloned()) {
            (Some(weight), Some(name)) => {
                graph.weights.insert(name, weight);
            }
            _ => graph.nodes.push(node),
        }
    }
}

/// Returns the names of values that are used in the host's memory alone: shapes, and what they are computed from.
fn on_host(graph: &Graph) -> BTreeSet<String> {
    let mut on_device: BTreeSet<&str> = graph.outputs.iter().map(String::as_str).collect();
    let mut all: BTreeSet<&str> = BTreeSet::new();
    for node in graph.nodes.iter().rev() {
        let positions = operators::host_inputs(&node.operator);
        let result_is_on_host = !node.outputs.iter().any(|name| on_device.contains(name.as_str()));
        for (at, name) in node.inputs.iter().enumerate() {
            all.insert(name);
            if !result_is_on_host && !positions.contains(&at) {
                on_device.insert(name);
            }
        }
        all.extend(node.outputs.iter().map(String::as_str));
    }
    all.difference(&on_device).map(|name| (*name).to_owned()).collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::onnx::Attributes;

    fn node(operator: &str, inputs: &[&str], output: &str) -> Node {
        Node {
            name: output.into(),
            operator: operator.into(),
            inputs: inputs.iter().map(|name| (*name).to_owned()).collect(),
            outputs: vec![output.into()],
            attributes: Attributes::default(),
        }
    }

    /// A normalisation whose scale and variance are one weight of ones, and whose bias and mean are one of zeros.
    #[test]
    fn weights_that_are_stored_once_are_trained_apart() {
        let full = |value: f64| Tensor::full([2], value, (Kind::Float, Device::Cpu));
        let graph = Graph {
            opset: 17,
            nodes: vec![
                node("Identity", &["ones"], "variance"),
                node("Identity", &["zeros"], "mean"),
                node("BatchNormalization", &["x", "ones", "zeros", "mean", "variance"], "y"),
            ],
            weights: [("ones".to_owned(), full(1.0)), ("zeros".to_owned(), full(0.0))].into(),
            inputs: vec!["x".into()],
            outputs: vec!["y".into()],
        };
        let program = tch::no_grad(|| Program::new(graph, Device::Cpu, true, Compute::default()));
        let program = program.expect("it is imported").copy(Device::Cpu).expect("a copy");
        assert_eq!(program.parameters().count(), 2);
        let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 6.0]).reshape([2, 2]);
        let outputs = program.run(&[&x], Pass::Training).expect("outputs");
        outputs[0].pow_tensor_scalar(3).sum(Kind::Float).backward();
        for parameter in program.parameters() {
            assert!(parameter.grad().defined());
            // The statistics have followed the batch, and the weights have not.
            let values = Vec::<f32>::try_from(parameter.detach()).expect("numbers");
            assert!(values == [1.0, 1.0] || values == [0.0, 0.0], "{values:?}");
        }
    }
}
