//! Runs.

use std::fmt;
use std::rc::Rc;

use plugin_api::backend::{
    DataType, Error, ErrorCode, Mark, Marks, ModelInfo, Result, Session, ShapesServed, Tensor as _,
    Training,
};
use tch::{Device, Tensor};

use crate::error::Wrong;
use crate::model::Network;
use crate::tensor::TorchTensor;
use crate::training::{Part, Trainer};

/// A model that is ready to run.
pub struct TorchSession {
    network: Rc<Network>,
    inputs: Vec<Input>,
    /// Whether calls may have other shapes than those that were prepared.
    ranges: bool,
    device: Device,
    precision: &'static str,
    /// In the mode `training`.
    trainer: Option<Trainer>,
}

struct Input {
    name: String,
    dtype: Option<DataType>,
    shape: Vec<i64>,
}

impl fmt::Debug for TorchSession {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TorchSession").field("device", &self.device).finish_non_exhaustive()
    }
}

impl TorchSession {
    pub(crate) fn new(
        network: Rc<Network>,
        info: &ModelInfo,
        shapes: Vec<Vec<i64>>,
        ranges: bool,
        device: Device,
        precision: &'static str,
    ) -> Self {
        let input = |(info, shape): (&plugin_api::backend::TensorInfo, Vec<i64>)| Input {
            name: info.name.clone(),
            dtype: info.dtype,
            shape,
        };
        let inputs = info.inputs.iter().zip(shapes).map(input).collect();
        Self { network, inputs, ranges, device, precision, trainer: None }
    }

    /// Makes each run a step of training.
    pub(crate) fn trained(self, trainer: Trainer) -> Self {
        Self { trainer: Some(trainer), ..self }
    }

    /// Hands results to the caller.
    fn give(results: Vec<Tensor>, outputs: &mut [Option<Box<TorchTensor>>]) -> Result<()> {
        for (output, result) in outputs.iter_mut().zip(results) {
            *output = Some(Box::new(TorchTensor::new(result)?));
        }
        Ok(())
    }

    fn check(&self, inputs: &[&TorchTensor]) -> Result<()> {
        for (expected, found) in self.inputs.iter().zip(inputs) {
            let Input { name, dtype, shape } = expected;
            if !self.ranges && found.shape() != shape {
                let message = format!(
                    "the input `{name}` is {:?}, and {shape:?} was prepared",
                    found.shape()
                );
                return Err(Error::new(ErrorCode::InvalidArgument, message));
            }
            if let Some(dtype) = dtype.filter(|dtype| *dtype != found.dtype()) {
                let message =
                    format!("the input `{name}` is {}, and the model takes {dtype}", found.dtype());
                return Err(Error::new(ErrorCode::InvalidArgument, message));
            }
        }
        Ok(())
    }
}

impl Session for TorchSession {
    type Tensor = TorchTensor;

    fn used(&self) -> Vec<(String, String)> {
        let mut used = vec![("precision".to_owned(), self.precision.to_owned())];
        if self.device == Device::Cpu {
            used.push(("threads".into(), tch::get_num_threads().to_string()));
        }
        if let Some(trainer) = &self.trainer {
            used.extend(trainer.settings().used());
            used.push(("trained-weights".into(), trainer.weights().to_string()));
        }
        used
    }

    fn shapes_served(&self) -> ShapesServed {
        ShapesServed::Any
    }

    fn run(
        &mut self,
        inputs: &[&TorchTensor],
        outputs: &mut [Option<Box<TorchTensor>>],
    ) -> Result<()> {
        self.enqueue(inputs, outputs)?;
        self.synchronise()
    }

    fn enqueue(
        &mut self,
        inputs: &[&TorchTensor],
        outputs: &mut [Option<Box<TorchTensor>>],
    ) -> Result<()> {
        self.check(inputs)?;
        let inputs: Vec<&Tensor> = inputs.iter().map(|input| input.torch()).collect();
        // Memory of an earlier run's outputs can be used again for those of this one.
        outputs.iter_mut().for_each(|output| *output = None);
        let results = match &mut self.trainer {
            None => self.network.infer(&inputs),
            Some(trainer) => Part::ALL
                .iter()
                .try_for_each(|(part, _)| trainer.run(*part, &inputs))
                .and_then(|()| trainer.take()),
        };
        Self::give(results.map_err(Wrong::of_run)?, outputs)
    }

    fn synchronise(&mut self) -> Result<()> {
        self.wait()
    }
}

impl TorchSession {
    /// Returns when the device is done.
    fn wait(&self) -> Result<()> {
        match self.device {
            Device::Cuda(index) => tch::Cuda::synchronize(index as i64),
            Device::Cpu => {}
            // Reading an element waits for all that was queued before.
            device => {
                let last = Tensor::f_zeros([1], (tch::Kind::Float, device));
                let read = last.and_then(|last| last.f_double_value(&[0]));
                read.map_err(|error| Wrong::from(error).of_run())?;
            }
        }
        Ok(())
    }
}

impl Marks for TorchSession {
    fn phases(&self) -> Vec<String> {
        match &self.trainer {
            Some(trainer) if trainer.settings().phases => {
                Part::ALL.iter().map(|(_, name)| (*name).to_owned()).collect()
            }
            _ => Vec::new(),
        }
    }

    fn run_phase(
        &mut self,
        phase: usize,
        inputs: &[&TorchTensor],
        outputs: &mut [Option<Box<TorchTensor>>],
        _mark: &mut Mark<'_>,
    ) -> Result<()> {
        let Some(trainer) = self.trainer.as_mut().filter(|trainer| trainer.settings().phases)
        else {
            return self.run(inputs, outputs);
        };
        let tensors: Vec<&Tensor> = inputs.iter().map(|input| input.torch()).collect();
        let (part, _) = Part::ALL[phase];
        trainer.run(part, &tensors).map_err(Wrong::of_run)?;
        if phase + 1 == Part::ALL.len() {
            let results = trainer.take().map_err(Wrong::of_run)?;
            Self::give(results, outputs)?;
        } else if phase == 0 {
            self.check(inputs)?;
            outputs.iter_mut().for_each(|output| *output = None);
        }
        self.wait()
    }
}

impl Training for TorchSession {
    fn evaluate(
        &mut self,
        inputs: &[&TorchTensor],
        outputs: &mut [Option<Box<TorchTensor>>],
    ) -> Result<()> {
        self.check(inputs)?;
        let Some(trainer) = &mut self.trainer else {
            let message = "a model is evaluated in the mode `training` only";
            return Err(Error::new(ErrorCode::InvalidArgument, message));
        };
        let tensors: Vec<&Tensor> = inputs.iter().map(|input| input.torch()).collect();
        outputs.iter_mut().for_each(|output| *output = None);
        let results = trainer.evaluate(&tensors).map_err(Wrong::of_run)?;
        Self::give(results, outputs)?;
        self.wait()
    }
}
