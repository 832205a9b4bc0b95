/*!
Training: a step computes outputs and a loss, and changes the weights.

A model in the mode `training` has one more input, `target`, unless its own output is the loss, and one more output,
`loss`. A session begins with the weights of the file, so that sessions with the same inputs have the same losses.
*/

use plugin_api::backend::{
    DataType, Dimension, Error, ErrorCode, ModelInfo, Options, Result, TensorInfo, ValueKind,
};
use tch::{Device, Kind, Reduction, Tensor};

use crate::compute::{self, Compute};
use crate::error::{Wrong, wrong};
use crate::native;
use crate::optimiser::{LossScale, Optimiser, Plan, Rule};
use crate::program::{Edge, Pass, Program, Step, Values};
use crate::replicas::Team;

/// Options of this mode.
pub(crate) const OPTIONS: [&str; 11] = [
    "accumulation-steps",
    "checkpoint-segments",
    "learning-rate",
    "loss",
    "loss-scale",
    "momentum",
    "optimiser",
    "phases",
    "replicas",
    "warm-up-steps",
    "weight-decay",
];

/// The additional input and output.
const TARGET: &str = "target";
const LOSS: &str = "loss";

/// Parts of a step, each timed on its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Inputs from the host's memory to the device.
    Copy,
    Forward,
    Loss,
    Backward,
    /// Forward, loss and backward of one part of the batch after the other, if gradients are accumulated.
    MicroBatches,
    /// Gradients are averaged over replicas.
    Exchange,
    Optimiser,
    /// Gradients are dropped.
    Zeroing,
}

/// Parts of a step, with their names.
const PARTS: &[(Part, &str)] = &[
    (Part::Copy, "copy"),
    (Part::Forward, "forward"),
    (Part::Loss, "loss"),
    (Part::Backward, "backward"),
    (Part::Optimiser, "optimiser"),
    (Part::Zeroing, "zeroing"),
];

/// Parts of a step on several devices.
const EXCHANGING: &[(Part, &str)] = &[
    (Part::Copy, "copy"),
    (Part::Forward, "forward"),
    (Part::Loss, "loss"),
    (Part::Backward, "backward"),
    (Part::Exchange, "exchange"),
    (Part::Optimiser, "optimiser"),
    (Part::Zeroing, "zeroing"),
];

/// The same, with gradients that are accumulated over parts of the batch.
const BOTH: &[(Part, &str)] = &[
    (Part::Copy, "copy"),
    (Part::MicroBatches, "micro-batches"),
    (Part::Exchange, "exchange"),
    (Part::Optimiser, "optimiser"),
    (Part::Zeroing, "zeroing"),
];

/// Parts of a step whose gradients are accumulated over parts of its batch.
const ACCUMULATING: &[(Part, &str)] = &[
    (Part::Copy, "copy"),
    (Part::MicroBatches, "micro-batches"),
    (Part::Optimiser, "optimiser"),
    (Part::Zeroing, "zeroing"),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loss {
    /// Of the first output's scores against the number of the right class.
    CrossEntropy,
    /// Of the first output against numbers of the same shape.
    MeanSquaredError,
    /// The mean of the first output is the loss.
    Output,
}

/// Settings of training.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Settings {
    loss: Loss,
    plan: Plan,
    /// Parts of a batch whose gradients are summed before the weights change.
    accumulation_steps: i64,
    /// Parts of the model whose inner values are computed again in the backward pass; 1 keeps all.
    checkpoint_segments: usize,
    /// Devices, or groups of threads of a processor, that train together.
    pub(crate) replicas: usize,
    /// Whether each part of a step is timed on its own.
    pub(crate) phases: bool,
}

fn invalid(message: String) -> Error {
    Error::new(ErrorCode::InvalidArgument, message)
}

/// Returns the value for one of several words, the first by default.
pub(crate) fn choice<T: Copy>(options: &Options<'_>, key: &str, words: &[(&str, T)]) -> Result<T> {
    let Some(word) = options.get(key) else { return Ok(words[0].1) };
    let known = words.iter().find(|(known, _)| *known == word);
    known.map(|(_, value)| *value).ok_or_else(|| {
        let words: Vec<&str> = words.iter().map(|(known, _)| *known).collect();
        invalid(format!("option `{key}` cannot be `{word}`: it is {}", words.join(" or ")))
    })
}

/// Returns a number from 0 on.
fn number(options: &Options<'_>, key: &str, default: f64) -> Result<f64> {
    let number = options.parse::<f64>(key)?.unwrap_or(default);
    match number.is_finite() && number >= 0.0 {
        true => Ok(number),
        false => {
            Err(invalid(format!("option `{key}` cannot be `{number}`: it is a number from 0 on")))
        }
    }
}

/// Returns a whole number from `least` to `most`.
fn count(options: &Options<'_>, key: &str, default: u64, least: u64, most: u64) -> Result<u64> {
    let number = options.parse::<u64>(key)?.unwrap_or(default);
    match (least..=most).contains(&number) {
        true => Ok(number),
        false => Err(invalid(format!(
            "option `{key}` cannot be `{number}`: it is a whole number from {least} to {most}"
        ))),
    }
}

/// Most parts that a batch or a model is divided into, and most steps of a warm-up.
const MOST_PARTS: u64 = 1024;
const MOST_STEPS: u64 = 1 << 40;

/// Returns the scale of the loss: without the option, none unless products are computed in fp16.
fn loss_scale(options: &Options<'_>, compute: Compute) -> Result<Option<LossScale>> {
    match options.get("loss-scale") {
        None => Ok((compute.autocast == Some(Kind::Half)).then_some(LossScale::Dynamic)),
        Some("none") => Ok(None),
        Some("dynamic") => Ok(Some(LossScale::Dynamic)),
        Some(text) => match text.parse::<f64>() {
            Ok(scale) if scale.is_finite() && scale > 0.0 => Ok(Some(LossScale::Fixed(scale))),
            _ => Err(invalid(format!(
                "option `loss-scale` cannot be `{text}`: it is none, dynamic, or a number above 0"
            ))),
        },
    }
}

impl Settings {
    /// Reads the options.
    pub(crate) fn of(options: &Options<'_>, compute: Compute) -> Result<Self> {
        let loss = [
            ("cross-entropy", Loss::CrossEntropy),
            ("mean-squared-error", Loss::MeanSquaredError),
            ("output", Loss::Output),
        ];
        let momentum = number(options, "momentum", 0.9)?;
        let optimisers =
            [("sgd", Rule::Sgd { momentum }), ("adam", Rule::Adam), ("adamw", Rule::AdamW)];
        let rule = choice(options, "optimiser", &optimisers)?;
        let is_sgd = matches!(rule, Rule::Sgd { .. });
        if !is_sgd && options.get("momentum").is_some() {
            return Err(invalid("option `momentum` is for the optimiser `sgd`".into()));
        }
        let decay = if rule == Rule::AdamW { 0.01 } else { 0.0 };
        let plan = Plan {
            rule,
            learning_rate: number(options, "learning-rate", if is_sgd { 0.01 } else { 0.001 })?,
            weight_decay: number(options, "weight-decay", decay)?,
            warm_up_steps: count(options, "warm-up-steps", 0, 0, MOST_STEPS)?,
            loss_scale: loss_scale(options, compute)?,
        };
        let parts = |key| count(options, key, 1, 1, MOST_PARTS);
        Ok(Self {
            loss: choice(options, "loss", &loss)?,
            plan,
            accumulation_steps: parts("accumulation-steps")? as i64,
            checkpoint_segments: parts("checkpoint-segments")? as usize,
            replicas: parts("replicas")? as usize,
            phases: choice(options, "phases", &[("each", true), ("none", false)])?,
        })
    }

    /// Returns inputs and outputs of a model that is trained.
    pub(crate) fn info(&self, model: &ModelInfo) -> Result<ModelInfo> {
        let mut info = model.clone();
        let taken = |tensors: &[TensorInfo], name| tensors.iter().any(|tensor| tensor.name == name);
        if taken(&info.inputs, TARGET) || taken(&info.outputs, LOSS) {
            let message = format!(
                "the model has an input `{TARGET}` or an output `{LOSS}`, which are names that training adds"
            );
            return Err(Error::new(ErrorCode::Unsupported, message));
        }
        let first = info.outputs.first();
        let first =
            first.ok_or_else(|| Error::new(ErrorCode::Unsupported, "the model has no output"))?;
        let axes = first.dimensions.clone().filter(|axes| !axes.is_empty());
        let named = |dtype, dimensions| TensorInfo {
            name: TARGET.into(),
            dtype: Some(dtype),
            dimensions,
            kind: ValueKind::Tensor,
        };
        let batch: Option<Vec<Dimension>> = axes.as_ref().map(|axes| vec![axes[0].clone()]);
        let target = match self.loss {
            Loss::CrossEntropy => {
                let places = axes.map(|mut axes| {
                    axes.pop();
                    axes
                });
                Some(named(DataType::I64, places))
            }
            Loss::MeanSquaredError => Some(named(first.dtype.unwrap_or(DataType::F32), axes)),
            Loss::Output => None,
        };
        let dtype = first.dtype;
        info.inputs.extend(target);
        info.outputs.push(TensorInfo {
            name: LOSS.into(),
            dtype,
            dimensions: batch,
            kind: ValueKind::Tensor,
        });
        Ok(info)
    }

    /// Returns the settings as they are recorded.
    pub(crate) fn used(&self) -> Vec<(String, String)> {
        let loss = match self.loss {
            Loss::CrossEntropy => "cross-entropy",
            Loss::MeanSquaredError => "mean-squared-error",
            Loss::Output => "output",
        };
        let Plan { rule, learning_rate, weight_decay, warm_up_steps, loss_scale } = self.plan;
        let optimiser = match rule {
            Rule::Sgd { .. } => "sgd",
            Rule::Adam => "adam",
            Rule::AdamW => "adamw",
        };
        let mut used = vec![
            ("loss".to_owned(), loss.to_owned()),
            ("optimiser".into(), optimiser.into()),
            ("learning-rate".into(), learning_rate.to_string()),
            ("weight-decay".into(), weight_decay.to_string()),
        ];
        if let Rule::Sgd { momentum } = rule {
            used.push(("momentum".into(), momentum.to_string()));
        }
        if warm_up_steps > 0 {
            used.push(("warm-up-steps".into(), warm_up_steps.to_string()));
        }
        match loss_scale {
            None => {}
            Some(LossScale::Dynamic) => used.push(("loss-scale".into(), "dynamic".into())),
            Some(LossScale::Fixed(scale)) => used.push(("loss-scale".into(), scale.to_string())),
        }
        if self.accumulation_steps > 1 {
            used.push(("accumulation-steps".into(), self.accumulation_steps.to_string()));
        }
        if self.replicas > 1 {
            used.push(("replicas".into(), self.replicas.to_string()));
        }
        if self.checkpoint_segments > 1 {
            used.push(("checkpoint-segments".into(), self.checkpoint_segments.to_string()));
        }
        used
    }

    /// Returns whether inner values are kept for the backward pass.
    pub(crate) fn keeps_all(&self) -> bool {
        self.checkpoint_segments == 1
    }

    /// Returns the parts of a step.
    pub(crate) fn parts(&self) -> &'static [(Part, &'static str)] {
        match (self.accumulation_steps > 1, self.replicas > 1) {
            (false, false) => PARTS,
            (true, false) => ACCUMULATING,
            (false, true) => EXCHANGING,
            (true, true) => BOTH,
        }
    }
}

/// A model that is trained.
pub(crate) struct Trainer {
    program: Program,
    settings: Settings,
    compute: Compute,
    optimiser: Optimiser,
    device: Device,
    /// Values of the step under way.
    inputs: Vec<Tensor>,
    outputs: Vec<Tensor>,
    loss: Option<Tensor>,
    /// Values at the beginning of each part of the model, if inner values are computed again.
    kept: Vec<Values>,
    /// The other replicas.
    team: Option<Team>,
}

impl Trainer {
    /// Begins with the weights of the file.
    pub(crate) fn new(
        program: &Program,
        settings: Settings,
        compute: Compute,
        device: Device,
    ) -> Result<Self, Wrong> {
        let program = program.copy(device)?;
        if program.parameters().next().is_none() {
            return Err(wrong!("the model has no weights that could be trained"));
        }
        let optimiser = Optimiser::new(settings.plan, program.parameters(), device)?;
        let (inputs, outputs, loss, kept) = (Vec::new(), Vec::new(), None, Vec::new());
        let team = None;
        Ok(Self {
            program,
            settings,
            compute,
            optimiser,
            device,
            inputs,
            outputs,
            loss,
            kept,
            team,
        })
    }

    /// Trains with others.
    pub(crate) fn with_team(self, team: Team) -> Self {
        Self { team: Some(team), ..self }
    }

    pub(crate) fn device(&self) -> Device {
        self.device
    }

    /// Returns the gradients of all weights that have one.
    pub(crate) fn gradients(&self) -> Vec<Tensor> {
        self.optimiser.gradients()
    }

    /// Waits for the devices of the other replicas.
    pub(crate) fn wait_for_others(&self) -> Result<(), Wrong> {
        self.team.as_ref().map_or(Ok(()), Team::wait)
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns what averages gradients, if there are several replicas.
    pub(crate) fn exchange(&self) -> Option<String> {
        self.team.as_ref().map(Team::described)
    }

    /// Returns the number of trained weights.
    pub(crate) fn weights(&self) -> usize {
        self.program.parameters().map(Tensor::numel).sum()
    }

    /// Returns the bytes of weights, other constants, and the optimiser's state.
    pub(crate) fn bytes(&self) -> u64 {
        self.program.bytes() + self.optimiser.state_bytes()
    }

    /// Computes a part of a step. After the last, the results are there.
    pub(crate) fn run(&mut self, part: Part, inputs: &[&Tensor]) -> Result<(), Wrong> {
        let Some(team) = self.team.take() else { return self.run_own(part, inputs) };
        let result = match part {
            Part::Copy => team.divide(inputs).and_then(|own| {
                let own: Vec<&Tensor> = own.iter().collect();
                let result = self.run_own(part, &own);
                team.end().and(result)
            }),
            Part::Exchange => team.exchange(&self.gradients(), self.device),
            part => team.begin(part).and_then(|()| {
                let result = self.run_own(part, inputs);
                team.end().and(result)
            }),
        };
        self.team = Some(team);
        result
    }

    fn run_own(&mut self, part: Part, inputs: &[&Tensor]) -> Result<(), Wrong> {
        match part {
            Part::Copy => {
                let copy = |input: &&Tensor| self.compute.formatted(&input.f_to(self.device)?);
                self.inputs = inputs.iter().map(copy).collect::<Result<_, _>>()?;
            }
            Part::Forward => self.forward()?,
            Part::Loss => self.loss = Some(self.loss()?),
            Part::Backward => self.backward(1)?,
            Part::MicroBatches => self.accumulate()?,
            // A replica alone has the mean.
            Part::Exchange => {}
            Part::Optimiser => self.optimiser.step()?,
            Part::Zeroing => self.optimiser.zero()?,
        }
        Ok(())
    }

    /// Computes the forward pass as [`Part::Forward`] does, and tells of each node before and after it.
    pub(crate) fn forward_observed(
        &mut self,
        observe: impl FnMut(&Step, Edge) -> Result<(), Wrong>,
    ) -> Result<(), Wrong> {
        let run = || self.program.run_observed(&self.own_inputs(), Pass::Training, observe);
        let outputs = self.compute.autocast(self.device, run)?;
        self.outputs = compute::in_fp32(outputs, self.compute)?;
        Ok(())
    }

    fn forward(&mut self) -> Result<(), Wrong> {
        let (compute, device) = (self.compute, self.device);
        let segments = self.program.segments(self.settings.checkpoint_segments);
        let mut values = self.program.begin(&self.own_inputs());
        let mut kept = Vec::new();
        let outputs = compute.autocast(device, || {
            for (at, steps) in segments.iter().enumerate() {
                let is_last = at + 1 == segments.len();
                if segments.len() > 1 {
                    kept.push(values.shallow_clone());
                }
                match is_last {
                    false => tch::no_grad(|| {
                        self.program.run_steps(&mut values, steps.clone(), Pass::Training)
                    })?,
                    true => {
                        if segments.len() > 1 {
                            values = self.program.leaves(&values)?;
                            kept[at] = values.shallow_clone();
                        }
                        self.program.run_steps(&mut values, steps.clone(), Pass::Training)?;
                    }
                }
            }
            self.program.outputs(&values)
        })?;
        self.kept = kept;
        self.outputs = compute::in_fp32(outputs, compute)?;
        Ok(())
    }

    /// Computes gradients of the loss, as one of `parts` of a batch.
    fn backward(&mut self, parts: i64) -> Result<(), Wrong> {
        let loss = self.loss.as_ref().ok_or_else(|| wrong!("the loss was not computed"))?;
        let mut scaled = self.optimiser.scaled(loss)?;
        if parts > 1 {
            scaled = scaled.f_div_scalar(parts as f64)?;
        }
        scaled.f_backward()?;
        let segments = self.program.segments(self.settings.checkpoint_segments);
        let mut kept = std::mem::take(&mut self.kept);
        let Some(mut after) = kept.pop() else { return Ok(()) };
        // From the last part but one to the first: its inner values again, then gradients from those of its results.
        for (steps, values) in segments.iter().zip(kept).rev() {
            let leaves = self.program.leaves(&values)?;
            let mut values = leaves.shallow_clone();
            self.compute.autocast(self.device, || {
                self.program.run_steps(&mut values, steps.clone(), Pass::Again)
            })?;
            let (results, gradients) = values.results_with_gradients_of(&after);
            native::backward(&results, &gradients)?;
            after = leaves;
        }
        Ok(())
    }

    /// Computes the gradients of a batch in parts.
    fn accumulate(&mut self) -> Result<(), Wrong> {
        let parts = self.settings.accumulation_steps;
        let whole = std::mem::take(&mut self.inputs);
        let divided = |input: &Tensor| {
            match input.size().first() {
            Some(size) if size % parts == 0 && *size > 0 => Ok(input.f_chunk(parts, 0)?),
            _ => Err(wrong!(
                "the option `accumulation-steps` is {parts}, and an input of the shape {:?} cannot be divided into as \
                 many parts along its first axis",
                input.size()
            )
            .of_request()),
        }
        };
        let mut chunks: Vec<std::vec::IntoIter<Tensor>> = Vec::new();
        for input in &whole {
            chunks.push(divided(input)?.into_iter());
        }
        let (mut outputs, mut losses): (Vec<Vec<Tensor>>, Vec<Tensor>) = (Vec::new(), Vec::new());
        for _ in 0..parts {
            self.inputs = chunks.iter_mut().filter_map(Iterator::next).collect();
            self.forward()?;
            let loss = self.loss()?;
            self.loss = Some(loss.shallow_clone());
            self.backward(parts)?;
            losses.push(loss.f_detach()?);
            let detached = self.outputs.drain(..).map(|output| output.f_detach());
            outputs.push(detached.collect::<Result<_, _>>()?);
        }
        for at in 0..outputs.first().map_or(0, Vec::len) {
            let parts: Vec<&Tensor> = outputs.iter().map(|outputs| &outputs[at]).collect();
            self.outputs.push(match parts[0].dim() {
                0 => parts[0].shallow_clone(),
                _ => Tensor::f_cat(&parts, 0)?,
            });
        }
        self.loss = Some(Tensor::f_stack(&losses, 0)?.f_mean(None::<Kind>)?);
        self.inputs = whole;
        Ok(())
    }

    /// Computes outputs and loss as in inference, and changes nothing.
    pub(crate) fn evaluate(&mut self, inputs: &[&Tensor]) -> Result<Vec<Tensor>, Wrong> {
        // All replicas have the same weights.
        self.run_own(Part::Copy, inputs)?;
        tch::no_grad(|| {
            let run = || self.program.run(&self.own_inputs(), Pass::Inference);
            let outputs = self.compute.autocast(self.device, run)?;
            self.outputs = compute::in_fp32(outputs, self.compute)?;
            self.loss = Some(self.loss()?);
            self.take_own()
        })
    }

    /// Returns the inputs of the step that are the model's own.
    fn own_inputs(&self) -> Vec<&Tensor> {
        let count = self.inputs.len() - usize::from(self.settings.loss != Loss::Output);
        self.inputs.iter().take(count).collect()
    }

    fn loss(&self) -> Result<Tensor, Wrong> {
        let output = self.outputs.first().ok_or_else(|| wrong!("the model gave no output"))?;
        let target = || self.inputs.last().ok_or_else(|| wrong!("the target is missing"));
        Ok(match self.settings.loss {
            Loss::CrossEntropy => {
                let classes = output.size().last().copied().unwrap_or(1);
                let none: Option<&Tensor> = None;
                let (scores, target) =
                    (output.f_reshape([-1, classes])?, target()?.f_reshape([-1])?);
                scores.f_cross_entropy_loss(&target, none, Reduction::Mean, -100, 0.0)?
            }
            Loss::MeanSquaredError => output.f_mse_loss(target()?, Reduction::Mean)?,
            Loss::Output => output.f_mean(None::<Kind>)?,
        })
    }

    /// Takes the outputs of the step, and its loss once for each example.
    pub(crate) fn take(&mut self) -> Result<Vec<Tensor>, Wrong> {
        let own = self.take_own()?;
        let Some(team) = &self.team else { return Ok(own) };
        let others = team.take()?;
        let mut results = Vec::new();
        for (at, mine) in own.iter().enumerate() {
            let mut parts = vec![mine.shallow_clone()];
            for other in &others {
                parts.push(other[at].f_to(self.device)?);
            }
            let is_loss = at + 1 == own.len();
            results.push(match mine.dim() {
                0 => Tensor::f_stack(&parts, 0)?.f_mean(None::<Kind>)?,
                _ if is_loss => {
                    // The same for each example: the mean over all parts.
                    let whole = Tensor::f_cat(&parts, 0)?;
                    whole.f_mean(None::<Kind>)?.f_expand(whole.size(), false)?.f_contiguous()?
                }
                _ => Tensor::f_cat(&parts, 0)?,
            });
        }
        Ok(results)
    }

    fn take_own(&mut self) -> Result<Vec<Tensor>, Wrong> {
        let loss = self.loss.take().ok_or_else(|| wrong!("the loss was not computed"))?;
        let mut results = Vec::new();
        for output in self.outputs.drain(..) {
            results.push(output.f_detach()?.f_contiguous()?);
        }
        let batch = results.first().and_then(|output| output.size().first().copied());
        let loss = loss.f_detach()?;
        results.push(match batch {
            Some(batch) => loss.f_expand([batch], false)?.f_contiguous()?,
            None => loss,
        });
        self.inputs.clear();
        Ok(results)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::onnx::Graph;

    fn settings(rule: Rule) -> Settings {
        let (learning_rate, weight_decay, warm_up_steps, loss_scale) = (0.01, 0.0, 0, None);
        Settings {
            loss: Loss::CrossEntropy,
            plan: Plan { rule, learning_rate, weight_decay, warm_up_steps, loss_scale },
            accumulation_steps: 1,
            checkpoint_segments: 1,
            replicas: 1,
            phases: true,
        }
    }

    const SGD: Rule = Rule::Sgd { momentum: 0.9 };

    fn digits(compute: Compute) -> Program {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../manifests/data/digits.onnx");
        let graph = Graph::read(Path::new(path)).expect("the model");
        tch::no_grad(|| Program::new(graph, Device::Cpu, true, compute)).expect("it is imported")
    }

    fn trainer(settings: Settings, compute: Compute) -> Trainer {
        Trainer::new(&digits(compute), settings, compute, Device::Cpu).expect("a trainer")
    }

    /// Returns 16 images, and classes that the model does not expect.
    fn batch() -> [Tensor; 2] {
        let pixels: Vec<f32> = (0..16 * 64).map(|at| (at * 37 % 97) as f32 / 97.0).collect();
        let classes: Vec<i64> = (0..16).map(|at| at * 7 % 10).collect();
        [Tensor::from_slice(&pixels).reshape([16, 1, 8, 8]), Tensor::from_slice(&classes)]
    }

    fn step(trainer: &mut Trainer, batch: &[Tensor; 2]) -> f64 {
        let inputs: Vec<&Tensor> = batch.iter().collect();
        for (part, _) in trainer.settings().parts() {
            trainer.run(*part, &inputs).expect("a part of a step");
        }
        let results = trainer.take().expect("results");
        assert_eq!(results[0].size(), [16, 10]);
        assert_eq!(results[1].size(), [16]);
        assert_eq!(results[0].kind(), Kind::Float);
        results[1].double_value(&[0])
    }

    /// Returns the losses of the first steps on one batch.
    fn losses(settings: Settings, compute: Compute) -> Vec<f64> {
        let (mut trainer, batch) = (trainer(settings, compute), batch());
        (0..12).map(|_| step(&mut trainer, &batch)).collect()
    }

    fn assert_near(left: &[f64], right: &[f64], tolerance: f64) {
        let is_near = |(left, right): (&f64, &f64)| (left - right).abs() <= tolerance * right.abs();
        assert!(left.iter().zip(right).all(is_near), "{left:?}\n{right:?}");
    }

    #[test]
    fn losses_fall_and_are_the_same_twice() {
        for rule in [SGD, Rule::Adam, Rule::AdamW] {
            let first = losses(settings(rule), Compute::default());
            assert!(first[11] < 0.7 * first[0], "{rule:?}: {first:?}");
            assert_eq!(first, losses(settings(rule), Compute::default()), "{rule:?}");
        }
    }

    #[test]
    fn a_divided_batch_makes_the_same_steps() {
        let whole = losses(settings(SGD), Compute::default());
        for accumulation_steps in [2, 4, 16] {
            let parts = Settings { accumulation_steps, ..settings(SGD) };
            assert_near(&losses(parts, Compute::default()), &whole, 1e-4);
        }
    }

    #[test]
    fn a_batch_that_cannot_be_divided_is_refused() {
        let mut trainer =
            trainer(Settings { accumulation_steps: 3, ..settings(SGD) }, Compute::default());
        let batch = batch();
        let inputs: Vec<&Tensor> = batch.iter().collect();
        trainer.run(Part::Copy, &inputs).expect("a copy");
        let wrong = trainer.run(Part::MicroBatches, &inputs).expect_err("16 is not 3 times");
        assert_eq!(wrong.clone().of_run().code, ErrorCode::InvalidArgument);
        let what = wrong.what;
        assert!(what.starts_with("the option `accumulation-steps` is 3"), "{what}");
    }

    #[test]
    fn replicas_train_as_one() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../manifests/data/digits.onnx");
        let compute = Compute::default();
        let whole = losses(settings(SGD), compute);
        for replicas in [2, 4] {
            let settings = Settings { replicas, ..settings(SGD) };
            let trained = || {
                let devices = vec![Device::Cpu; replicas];
                let team = Team::start(Path::new(path), settings, compute, &devices);
                let mut trainer = trainer(settings, compute).with_team(team.expect("replicas"));
                let batch = batch();
                (0..12).map(|_| step(&mut trainer, &batch)).collect::<Vec<_>>()
            };
            let first = trained();
            assert_near(&first, &whole, 1e-3);
            assert_eq!(first, trained(), "the order of sums is fixed");
        }
    }

    #[test]
    fn a_batch_that_replicas_cannot_share_is_refused() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../manifests/data/digits.onnx");
        let (settings, compute) = (Settings { replicas: 3, ..settings(SGD) }, Compute::default());
        let team = Team::start(Path::new(path), settings, compute, &[Device::Cpu; 3]);
        let mut trainer = trainer(settings, compute).with_team(team.expect("replicas"));
        let batch = batch();
        let inputs: Vec<&Tensor> = batch.iter().collect();
        let wrong = trainer.run(Part::Copy, &inputs).expect_err("16 is not 3 times");
        assert_eq!(wrong.clone().of_run().code, ErrorCode::InvalidArgument);
        let what = wrong.what;
        assert!(what.starts_with("the option `replicas` is 3"), "{what}");
    }

    #[test]
    fn inner_values_that_are_computed_again_make_the_same_steps() {
        let whole = losses(settings(Rule::AdamW), Compute::default());
        for checkpoint_segments in [2, 3, 5, 1000] {
            let parts = Settings { checkpoint_segments, ..settings(Rule::AdamW) };
            assert_near(&losses(parts, Compute::default()), &whole, 1e-5);
            let both = Settings { accumulation_steps: 2, ..parts };
            assert_near(&losses(both, Compute::default()), &whole, 1e-3);
        }
    }

    #[test]
    fn products_in_bf16_train_as_well() {
        let exact = losses(settings(SGD), Compute::default());
        let compute = Compute { autocast: Some(Kind::BFloat16), ..Compute::default() };
        let found = losses(settings(SGD), compute);
        assert_near(&found, &exact, 0.05);
        assert_ne!(found, exact, "something is computed in bf16");
        let plan = Plan { loss_scale: Some(LossScale::Dynamic), ..settings(SGD).plan };
        assert_near(&losses(Settings { plan, ..settings(SGD) }, compute), &exact, 0.05);
    }

    #[test]
    fn memory_formats_and_groups_of_nodes_change_nothing() {
        let exact = losses(settings(SGD), Compute::default());
        for (channels_last, fusion) in [(true, false), (false, true), (true, true)] {
            let compute = Compute { channels_last, fusion, ..Compute::default() };
            assert_near(&losses(settings(SGD), compute), &exact, 1e-3);
        }
    }

    #[test]
    fn a_session_does_not_change_the_weights_of_the_next() {
        let program = digits(Compute::default());
        let sum = |program: &Program| -> f64 {
            program
                .parameters()
                .map(|weights| weights.abs().sum(Kind::Double).double_value(&[]))
                .sum()
        };
        let before = sum(&program);
        let settings = settings(Rule::Adam);
        let mut trainer =
            Trainer::new(&program, settings, Compute::default(), Device::Cpu).expect("a trainer");
        step(&mut trainer, &batch());
        assert_eq!(sum(&program), before);
        assert_ne!(sum(&trainer.program), before);
    }

    #[test]
    fn evaluating_changes_nothing() {
        let (mut trainer, batch) = (trainer(settings(SGD), Compute::default()), batch());
        let evaluated = |trainer: &mut Trainer| {
            let inputs: Vec<&Tensor> = batch.iter().collect();
            trainer.evaluate(&inputs).expect("results")[1].double_value(&[0])
        };
        let first = evaluated(&mut trainer);
        assert_eq!(first, evaluated(&mut trainer));
        let stepped = step(&mut trainer, &batch);
        assert_eq!(first, stepped, "the loss of a step is that before its update");
        let second = evaluated(&mut trainer);
        assert_ne!(second, first, "the step has changed the weights");
        assert_eq!(second, step(&mut trainer, &batch));
    }

    #[test]
    fn a_profile_of_a_step_names_nodes_of_both_passes() {
        let (mut trainer, batch) = (trainer(settings(SGD), Compute::default()), batch());
        let inputs: Vec<&Tensor> = batch.iter().collect();
        let found = crate::profile::of_step(&mut trainer, &inputs, Device::Cpu).expect("a profile");
        let kind_of = |name: &str| {
            found
                .iter()
                .find(|operator| operator.name == name)
                .map(|operator| operator.kind.as_str())
        };
        assert_eq!(kind_of("forward/conv2"), Some("Conv"), "{found:?}");
        assert_eq!(kind_of("backward/conv2"), Some("ConvolutionBackward0"), "{found:?}");
        assert!(kind_of("backward/loss").is_some(), "{found:?}");
        assert_eq!(kind_of("optimiser"), Some("optimiser"), "{found:?}");
        assert!(found.is_sorted_by_key(|operator| operator.start_ns));
    }

    #[test]
    fn a_trained_model_has_a_target_and_a_loss() {
        let tensor = |name: &str, axes: &[Dimension]| TensorInfo {
            name: name.into(),
            dtype: Some(DataType::F32),
            dimensions: Some(axes.to_vec()),
            kind: ValueKind::Tensor,
        };
        let (batch, ten) = (Dimension::Dynamic("batch".into()), Dimension::Fixed(10));
        let model = ModelInfo {
            inputs: vec![tensor("image", std::slice::from_ref(&batch))],
            outputs: vec![tensor("logits", &[batch.clone(), ten.clone()])],
        };
        let info = |loss| {
            Settings { loss, ..settings(Rule::Adam) }.info(&model).expect("it can be trained")
        };
        let scores = info(Loss::CrossEntropy);
        assert_eq!(scores.inputs[1].dtype, Some(DataType::I64));
        assert_eq!(scores.inputs[1].dimensions, Some(vec![batch.clone()]));
        assert_eq!(scores.outputs[1].dimensions, Some(vec![batch.clone()]));
        let numbers = info(Loss::MeanSquaredError);
        assert_eq!(numbers.inputs[1].dimensions, Some(vec![batch, ten]));
        assert_eq!(info(Loss::Output).inputs.len(), 1);
        let taken = ModelInfo { inputs: vec![tensor("target", &[])], ..model.clone() };
        assert!(settings(Rule::Adam).info(&taken).is_err());
    }
}
