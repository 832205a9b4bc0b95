/*!
Training: a step computes outputs and a loss, and changes the weights.

A model in the mode `training` has one more input, `target`, unless its own output is the loss, and one more output,
`loss`. A session begins with the weights of the file, so that sessions with the same inputs have the same losses.
*/

use plugin_api::backend::{
    DataType, Dimension, Error, ErrorCode, ModelInfo, Options, Result, TensorInfo, ValueKind,
};
use tch::{COptimizer, Device, Kind, Reduction, Tensor};

use crate::error::{Wrong, wrong};
use crate::program::Program;

/// Options of this mode.
pub(crate) const OPTIONS: [&str; 6] =
    ["learning-rate", "loss", "momentum", "optimiser", "phases", "weight-decay"];

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
    Optimiser,
    /// Gradients are set to zero.
    Zeroing,
}

impl Part {
    pub(crate) const ALL: [(Self, &'static str); 6] = [
        (Self::Copy, "copy"),
        (Self::Forward, "forward"),
        (Self::Loss, "loss"),
        (Self::Backward, "backward"),
        (Self::Optimiser, "optimiser"),
        (Self::Zeroing, "zeroing"),
    ];
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loss {
    /// Of the first output's scores against the number of the right class.
    CrossEntropy,
    /// Of the first output against numbers of the same shape.
    MeanSquaredError,
    /// The mean of the first output is the loss.
    Output,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Optimiser {
    /// Stochastic gradient descent.
    Sgd {
        momentum: f64,
    },
    Adam,
    AdamW,
}

/// Settings of training.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Settings {
    loss: Loss,
    optimiser: Optimiser,
    learning_rate: f64,
    weight_decay: f64,
    /// Whether each part of a step is timed on its own.
    pub(crate) phases: bool,
}

fn invalid(message: String) -> Error {
    Error::new(ErrorCode::InvalidArgument, message)
}

/// Returns the value for one of several words.
fn choice<T: Copy>(options: &Options<'_>, key: &str, words: &[(&str, T)]) -> Result<T> {
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

impl Settings {
    /// Reads the options.
    pub(crate) fn of(options: &Options<'_>) -> Result<Self> {
        let loss = [
            ("cross-entropy", Loss::CrossEntropy),
            ("mean-squared-error", Loss::MeanSquaredError),
            ("output", Loss::Output),
        ];
        let momentum = number(options, "momentum", 0.9)?;
        let optimisers = [
            ("sgd", Optimiser::Sgd { momentum }),
            ("adam", Optimiser::Adam),
            ("adamw", Optimiser::AdamW),
        ];
        let optimiser = choice(options, "optimiser", &optimisers)?;
        let is_sgd = matches!(optimiser, Optimiser::Sgd { .. });
        if !is_sgd && options.get("momentum").is_some() {
            return Err(invalid("option `momentum` is for the optimiser `sgd`".into()));
        }
        let decay = if optimiser == Optimiser::AdamW { 0.01 } else { 0.0 };
        Ok(Self {
            loss: choice(options, "loss", &loss)?,
            optimiser,
            learning_rate: number(options, "learning-rate", if is_sgd { 0.01 } else { 0.001 })?,
            weight_decay: number(options, "weight-decay", decay)?,
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
        let optimiser = match self.optimiser {
            Optimiser::Sgd { .. } => "sgd",
            Optimiser::Adam => "adam",
            Optimiser::AdamW => "adamw",
        };
        let mut used = vec![
            ("loss".to_owned(), loss.to_owned()),
            ("optimiser".into(), optimiser.into()),
            ("learning-rate".into(), self.learning_rate.to_string()),
            ("weight-decay".into(), self.weight_decay.to_string()),
        ];
        if let Optimiser::Sgd { momentum } = self.optimiser {
            used.push(("momentum".into(), momentum.to_string()));
        }
        used
    }

    fn optimiser(&self) -> Result<COptimizer, tch::TchError> {
        let (rate, decay) = (self.learning_rate, self.weight_decay);
        // The rest are PyTorch's own defaults.
        match self.optimiser {
            Optimiser::Sgd { momentum } => COptimizer::sgd(rate, momentum, 0.0, decay, false),
            Optimiser::Adam => COptimizer::adam(rate, 0.9, 0.999, decay, 1e-8, false),
            Optimiser::AdamW => COptimizer::adamw(rate, 0.9, 0.999, decay, 1e-8, false),
        }
    }
}

/// A model that is trained.
pub(crate) struct Trainer {
    program: Program,
    settings: Settings,
    optimiser: COptimizer,
    device: Device,
    /// Values of the step under way.
    inputs: Vec<Tensor>,
    outputs: Vec<Tensor>,
    loss: Option<Tensor>,
}

impl Trainer {
    /// Begins with the weights of the file.
    pub(crate) fn new(
        program: &Program,
        settings: Settings,
        device: Device,
    ) -> Result<Self, Wrong> {
        let program = program.copy()?;
        if program.parameters().next().is_none() {
            return Err(wrong!("the model has no weights that could be trained"));
        }
        let mut optimiser = settings.optimiser()?;
        for parameter in program.parameters() {
            optimiser.add_parameters(parameter, 0)?;
        }
        let (inputs, outputs, loss) = (Vec::new(), Vec::new(), None);
        Ok(Self { program, settings, optimiser, device, inputs, outputs, loss })
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the number of trained weights.
    pub(crate) fn weights(&self) -> usize {
        self.program.parameters().map(Tensor::numel).sum()
    }

    /// Computes a part of a step. After the last, the results are there.
    pub(crate) fn run(&mut self, part: Part, inputs: &[&Tensor]) -> Result<(), Wrong> {
        match part {
            Part::Copy => {
                let copy = |input: &&Tensor| input.f_to(self.device);
                self.inputs = inputs.iter().map(copy).collect::<Result<_, _>>()?;
            }
            Part::Forward => {
                self.outputs = self.program.run(&self.own_inputs(), true)?;
            }
            Part::Loss => self.loss = Some(self.loss()?),
            Part::Backward => self.done()?.f_backward()?,
            Part::Optimiser => self.optimiser.step()?,
            Part::Zeroing => self.optimiser.zero_grad()?,
        }
        Ok(())
    }

    /// Computes outputs and loss as in inference, and changes nothing.
    pub(crate) fn evaluate(&mut self, inputs: &[&Tensor]) -> Result<Vec<Tensor>, Wrong> {
        self.run(Part::Copy, inputs)?;
        tch::no_grad(|| {
            self.outputs = self.program.run(&self.own_inputs(), false)?;
            self.loss = Some(self.loss()?);
            self.take()
        })
    }

    /// Returns the inputs of the step that are the model's own.
    fn own_inputs(&self) -> Vec<&Tensor> {
        let count = self.inputs.len() - usize::from(self.settings.loss != Loss::Output);
        self.inputs.iter().take(count).collect()
    }

    fn done(&self) -> Result<&Tensor, Wrong> {
        self.loss.as_ref().ok_or_else(|| wrong!("the loss was not computed"))
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
        let loss = self.loss.take().ok_or_else(|| wrong!("the loss was not computed"))?;
        let mut results = Vec::new();
        for output in self.outputs.drain(..) {
            results.push(output.f_detach()?);
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

    fn settings(optimiser: Optimiser) -> Settings {
        let (loss, learning_rate, weight_decay) = (Loss::CrossEntropy, 0.01, 0.0);
        Settings { loss, optimiser, learning_rate, weight_decay, phases: true }
    }

    fn digits() -> Program {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../manifests/data/digits.onnx");
        let graph = Graph::read(Path::new(path)).expect("the model");
        tch::no_grad(|| Program::new(graph, Device::Cpu, true)).expect("it is imported")
    }

    /// Returns the losses of the first steps on one batch, with classes that the model does not expect.
    fn losses(optimiser: Optimiser) -> Vec<f64> {
        let mut trainer =
            Trainer::new(&digits(), settings(optimiser), Device::Cpu).expect("a trainer");
        let count = 16 * 64;
        let pixels: Vec<f32> = (0..count).map(|at| (at * 37 % 97) as f32 / 97.0).collect();
        let images = Tensor::from_slice(&pixels).reshape([16, 1, 8, 8]);
        let classes: Vec<i64> = (0..16).map(|at| at * 7 % 10).collect();
        let target = Tensor::from_slice(&classes);
        (0..12)
            .map(|_| {
                for (part, _) in Part::ALL {
                    trainer.run(part, &[&images, &target]).expect("a part of a step");
                }
                let results = trainer.take().expect("results");
                assert_eq!(results[0].size(), [16, 10]);
                assert_eq!(results[1].size(), [16]);
                results[1].double_value(&[0])
            })
            .collect()
    }

    #[test]
    fn losses_fall_and_are_the_same_twice() {
        for optimiser in [Optimiser::Sgd { momentum: 0.9 }, Optimiser::Adam, Optimiser::AdamW] {
            let first = losses(optimiser);
            assert!(first[11] < 0.7 * first[0], "{optimiser:?}: {first:?}");
            assert_eq!(first, losses(optimiser), "{optimiser:?}");
        }
    }

    #[test]
    fn a_session_does_not_change_the_weights_of_the_next() {
        let program = digits();
        let sum = |program: &Program| -> f64 {
            program
                .parameters()
                .map(|weights| weights.abs().sum(Kind::Double).double_value(&[]))
                .sum()
        };
        let before = sum(&program);
        let settings = settings(Optimiser::Adam);
        let mut trainer = Trainer::new(&program, settings, Device::Cpu).expect("a trainer");
        let images = Tensor::ones([2, 1, 8, 8], (Kind::Float, Device::Cpu));
        let target = Tensor::from_slice(&[1_i64, 2]);
        for (part, _) in Part::ALL {
            trainer.run(part, &[&images, &target]).expect("a part of a step");
        }
        assert_eq!(sum(&program), before);
        assert_ne!(sum(&trainer.program), before);
    }

    #[test]
    fn evaluating_changes_nothing() {
        let settings = settings(Optimiser::Sgd { momentum: 0.9 });
        let mut trainer = Trainer::new(&digits(), settings, Device::Cpu).expect("a trainer");
        let images = Tensor::ones([2, 1, 8, 8], (Kind::Float, Device::Cpu));
        let target = Tensor::from_slice(&[1_i64, 2]);
        let batch = [&images, &target];
        let loss = |results: Vec<Tensor>| results[1].double_value(&[0]);
        let step = |trainer: &mut Trainer| {
            for (part, _) in Part::ALL {
                trainer.run(part, &batch).expect("a part of a step");
            }
            loss(trainer.take().expect("results"))
        };
        let first = loss(trainer.evaluate(&batch).expect("results"));
        assert_eq!(first, loss(trainer.evaluate(&batch).expect("results")));
        assert_eq!(first, step(&mut trainer), "the loss of a step is that before its update");
        let second = loss(trainer.evaluate(&batch).expect("results"));
        assert_ne!(second, first, "the step has changed the weights");
        assert_eq!(second, step(&mut trainer));
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
            Settings { loss, ..settings(Optimiser::Adam) }.info(&model).expect("it can be trained")
        };
        let scores = info(Loss::CrossEntropy);
        assert_eq!(scores.inputs[1].dtype, Some(DataType::I64));
        assert_eq!(scores.inputs[1].dimensions, Some(vec![batch.clone()]));
        assert_eq!(scores.outputs[1].dimensions, Some(vec![batch.clone()]));
        let numbers = info(Loss::MeanSquaredError);
        assert_eq!(numbers.inputs[1].dimensions, Some(vec![batch, ten]));
        assert_eq!(info(Loss::Output).inputs.len(), 1);
        let taken = ModelInfo { inputs: vec![tensor("target", &[])], ..model.clone() };
        assert!(settings(Optimiser::Adam).info(&taken).is_err());
    }
}
