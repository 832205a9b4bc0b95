//! Runs.

use std::fmt;
use std::rc::Rc;

use plugin_api::backend::{
    Allocator, AllocatorUse, DataType, DeviceTimer, Error, ErrorCode, Mark, Marks, ModelInfo,
    PhaseMemory, PhaseUse, Profile, ProfiledOperator, Result, Session, ShapesServed, Tensor as _,
    Training,
};
use tch::{Device, Tensor};

use crate::compute::Compute;
use crate::error::Wrong;
use crate::model::{Network, Recorded};
use crate::native::{self, Counting, Event};
use crate::profile;
use crate::tensor::TorchTensor;
use crate::training::Trainer;

/// A model that is ready to run.
pub struct TorchSession {
    network: Rc<Network>,
    inputs: Vec<Input>,
    /// Whether calls may have other shapes than those that were prepared.
    ranges: bool,
    device: Device,
    precision: &'static str,
    compute: Compute,
    /// In the mode `training`.
    trainer: Option<Trainer>,
    /// The kernels of a run, with the option `cuda-graphs`, after the first one.
    recorded: Option<Recorded>,
    /// Memory of tensors on a processor, from the first phase of a counted run to the last.
    counting: Option<Counting>,
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
        compute: Compute,
    ) -> Self {
        let input = |(info, shape): (&plugin_api::backend::TensorInfo, Vec<i64>)| Input {
            name: info.name.clone(),
            dtype: info.dtype,
            shape,
        };
        let inputs = info.inputs.iter().zip(shapes).map(input).collect();
        let (trainer, recorded, counting) = (None, None, None);
        Self { network, inputs, ranges, device, precision, compute, trainer, recorded, counting }
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
        let precision = self.compute.precision().unwrap_or(self.precision);
        let mut used = vec![
            ("precision".to_owned(), precision.to_owned()),
            ("provider".into(), profile::provider(self.device).into()),
        ];
        used.extend(self.compute.used(self.device));
        if self.device == Device::Cpu {
            used.push(("threads".into(), tch::get_num_threads().to_string()));
        }
        if let Some(trainer) = &self.trainer {
            used.extend(trainer.settings().used());
            used.extend(trainer.exchange().map(|how| ("exchange".to_owned(), how)));
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
            None if self.compute.graphs => self.replay(&inputs),
            None => self.network.infer(&inputs, self.compute, self.device),
            Some(trainer) => (trainer.settings().parts().iter())
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
    /// Runs what was recorded, which is done first if need be.
    fn replay(&mut self, inputs: &[&Tensor]) -> Result<Vec<Tensor>, Wrong> {
        let recorded = match &mut self.recorded {
            Some(recorded) => recorded,
            none => none.insert(self.network.record(inputs, self.compute, self.device)?),
        };
        recorded.run(inputs)
    }

    /// Returns when the device is done.
    fn wait(&self) -> Result<()> {
        if let Some(trainer) = &self.trainer {
            trainer.wait_for_others().map_err(Wrong::of_run)?;
        }
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
                trainer.settings().parts().iter().map(|(_, name)| (*name).to_owned()).collect()
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
        self.part(phase, inputs, outputs)
    }
}

impl TorchSession {
    /// Computes a phase of a run, and returns when the device is done.
    fn part(
        &mut self,
        phase: usize,
        inputs: &[&TorchTensor],
        outputs: &mut [Option<Box<TorchTensor>>],
    ) -> Result<()> {
        let Some(trainer) = self.trainer.as_mut().filter(|trainer| trainer.settings().phases)
        else {
            return self.run(inputs, outputs);
        };
        let tensors: Vec<&Tensor> = inputs.iter().map(|input| input.torch()).collect();
        let parts = trainer.settings().parts();
        let (part, _) = parts[phase];
        trainer.run(part, &tensors).map_err(Wrong::of_run)?;
        if phase + 1 == parts.len() {
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

impl Profile for TorchSession {
    fn profile(&mut self, inputs: &[&TorchTensor]) -> Result<Vec<ProfiledOperator>> {
        self.check(inputs)?;
        self.alone("profiled")?;
        let tensors: Vec<&Tensor> = inputs.iter().map(|input| input.torch()).collect();
        let (compute, device) = (self.compute, self.device);
        let found = match (&mut self.trainer, &*self.network) {
            (Some(trainer), _) => profile::of_step(trainer, &tensors, device),
            (None, Network::Onnx(program)) => {
                profile::of_inference(program, compute, &tensors, device)
            }
            (None, Network::Script(_)) => {
                let message = "TorchScript archives are not profiled, only ONNX models";
                return Err(Error::new(ErrorCode::Unsupported, message));
            }
        };
        self.wait()?;
        found.map_err(Wrong::of_run)
    }
}

impl DeviceTimer for TorchSession {
    fn run_timed(
        &mut self,
        inputs: &[&TorchTensor],
        outputs: &mut [Option<Box<TorchTensor>>],
    ) -> Result<u64> {
        if !matches!(self.device, Device::Cuda(_)) {
            let message = "only graphics processors of CUDA and ROCm time by events of their own";
            return Err(Error::new(ErrorCode::Unsupported, message));
        }
        let begun = Event::record(self.device).map_err(Wrong::of_run)?;
        self.enqueue(inputs, outputs)?;
        let ended = Event::record(self.device).map_err(Wrong::of_run)?;
        self.wait()?;
        begun.until(&ended).map_err(Wrong::of_run)
    }
}

impl Allocator for TorchSession {
    fn allocator_use(&mut self) -> Result<AllocatorUse> {
        if !matches!(self.device, Device::Cuda(_)) {
            let message = "libtorch's allocator counts on graphics processors only";
            return Err(Error::new(ErrorCode::Unsupported, message));
        }
        let memory = native::allocator(self.device).map_err(Wrong::of_run)?;
        Ok(AllocatorUse {
            name: "libtorch".into(),
            used_bytes: memory.used,
            peak_bytes: Some(memory.peak),
            reserved_bytes: Some(memory.reserved),
        })
    }
}

impl PhaseMemory for TorchSession {
    fn run_phase_counted(
        &mut self,
        phase: usize,
        inputs: &[&TorchTensor],
        outputs: &mut [Option<Box<TorchTensor>>],
    ) -> Result<PhaseUse> {
        self.alone("counted")?;
        match self.device {
            Device::Cuda(_) => {
                self.wait()?;
                native::forget_peak(self.device).map_err(Wrong::of_run)?;
                self.part(phase, inputs, outputs)?;
                let memory = native::allocator(self.device).map_err(Wrong::of_run)?;
                Ok(PhaseUse { peak_bytes: memory.peak, used_bytes: memory.used })
            }
            Device::Cpu => self.run_phase_on_processor(phase, inputs, outputs),
            _ => {
                let message = "libtorch does not tell what tensors take on this device";
                Err(Error::new(ErrorCode::Unsupported, message))
            }
        }
    }
}

impl TorchSession {
    /// Refuses what is known of a single replica.
    fn alone(&self, what: &str) -> Result<()> {
        match self.trainer.as_ref().map(|trainer| trainer.settings().replicas) {
            Some(2..) => {
                let message = format!("steps of several replicas are not {what}");
                Err(Error::new(ErrorCode::Unsupported, message))
            }
            _ => Ok(()),
        }
    }

    /// Counts allocations of a phase on a processor. The allocator there has no figures, so what was there before a run
    /// are weights, other constants and the optimiser's state, by their sizes.
    fn run_phase_on_processor(
        &mut self,
        phase: usize,
        inputs: &[&TorchTensor],
        outputs: &mut [Option<Box<TorchTensor>>],
    ) -> Result<PhaseUse> {
        let loaded = match &*self.network {
            Network::Onnx(program) => program.bytes(),
            Network::Script(_) => {
                let message = "what an archive of TorchScript takes on a processor is not known";
                return Err(Error::new(ErrorCode::Unsupported, message));
            }
        };
        let before = loaded + self.trainer.as_ref().map_or(0, Trainer::bytes);
        let phases = self.phases().len().max(1);
        if phase == 0 {
            outputs.iter_mut().for_each(|output| *output = None);
            self.counting = None;
            self.counting = Some(Counting::begin().map_err(Wrong::of_run)?);
        }
        let result = self.part(phase, inputs, outputs);
        let (used, peak) = self.counting.as_ref().map_or((0, 0), Counting::read);
        if phase + 1 == phases || result.is_err() {
            self.counting = None;
        }
        result?;
        let whole = |relative: i64| before.saturating_add_signed(relative);
        Ok(PhaseUse { peak_bytes: whole(peak), used_bytes: whole(used) })
    }
}
