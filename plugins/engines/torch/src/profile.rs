/*!
Times of operators.

On a processor an operator's time is that of the call. A graphics processor works in the background, so there it is the
time between two events of the device around the operator, which contains gaps in which the device waits for the next
kernel. The backward pass consists of functions of libtorch; each carries the number of the operator of the forward pass
to which it belongs, and so is shown with that operator's node.
*/

use std::time::Instant;

use plugin_api::backend::ProfiledOperator;
use tch::{Device, Tensor};

use crate::compute::Compute;
use crate::error::Wrong;
use crate::native::{self, Event};
use crate::program::{Edge, Pass, Program, Step};
use crate::training::{Part, Trainer};

/// Name of the device as a provider of operators.
pub(crate) fn provider(device: Device) -> &'static str {
    match device {
        Device::Cuda(_) if tch::utils::has_hip() => "ROCm",
        Device::Cuda(_) => "CUDA",
        Device::Mps => "MPS",
        _ => "CPU",
    }
}

/// A moment of the host or of a device.
enum Moment {
    Host(Instant),
    Device(Event),
}

impl Moment {
    fn now(device: Device) -> Result<Self, Wrong> {
        Ok(match device {
            Device::Cuda(_) => Self::Device(Event::record(device)?),
            _ => Self::Host(Instant::now()),
        })
    }

    fn until(&self, later: &Self) -> Result<u64, Wrong> {
        match (self, later) {
            (Self::Host(earlier), Self::Host(later)) => {
                Ok(later.saturating_duration_since(*earlier).as_nanos() as u64)
            }
            (Self::Device(earlier), Self::Device(later)) => earlier.until(later),
            _ => Ok(0),
        }
    }
}

/// Operators, as they come.
struct Recorder {
    device: Device,
    origin: Moment,
    found: Vec<(String, String, Moment, Option<Moment>)>,
}

impl Recorder {
    fn new(device: Device) -> Result<Self, Wrong> {
        Ok(Self { device, origin: Moment::now(device)?, found: Vec::new() })
    }

    fn edge(&mut self, names: (&str, &str), prefix: &str, edge: Edge) -> Result<(), Wrong> {
        match edge {
            Edge::Begin => {
                let (kind, name) = names;
                let begun = Moment::now(self.device)?;
                self.found.push((kind.to_owned(), format!("{prefix}{name}"), begun, None));
            }
            Edge::End => {
                let end = Moment::now(self.device)?;
                if let Some(last) = self.found.last_mut() {
                    last.3 = Some(end);
                }
            }
        }
        Ok(())
    }

    /// Times something as one operator.
    fn whole<T>(
        &mut self,
        name: &str,
        work: impl FnOnce() -> Result<T, Wrong>,
    ) -> Result<T, Wrong> {
        self.edge((name, name), "", Edge::Begin)?;
        let result = work()?;
        self.edge((name, name), "", Edge::End)?;
        Ok(result)
    }

    fn operators(self) -> Result<Vec<ProfiledOperator>, Wrong> {
        let provider = provider(self.device);
        let mut all = Vec::new();
        for (kind, name, begun, end) in &self.found {
            let Some(end) = end else { continue };
            all.push(ProfiledOperator {
                name: name.clone(),
                kind: kind.clone(),
                provider: provider.into(),
                start_ns: self.origin.until(begun)?,
                duration_ns: begun.until(end)?,
            });
        }
        Ok(all)
    }
}

/// Profiles a pass of inference.
pub(crate) fn of_inference(
    program: &Program,
    compute: Compute,
    inputs: &[&Tensor],
    device: Device,
) -> Result<Vec<ProfiledOperator>, Wrong> {
    let mut recorder = Recorder::new(device)?;
    let observe = |step: &Step, edge| recorder.edge(step.names(), "", edge);
    compute.autocast(device, || {
        tch::no_grad(|| program.run_observed(inputs, Pass::Inference, observe))
    })?;
    recorder.operators()
}

/// Profiles a step of training, which changes the weights as any other.
pub(crate) fn of_step(
    trainer: &mut Trainer,
    inputs: &[&Tensor],
    device: Device,
) -> Result<Vec<ProfiledOperator>, Wrong> {
    let mut recorder = Recorder::new(device)?;
    // The operators of the forward pass, by their numbers.
    let mut numbers: Vec<(u64, String)> = Vec::new();
    let mut backward = Vec::new();
    for (part, name) in trainer.settings().parts() {
        match part {
            Part::Forward if trainer.settings().keeps_all() => {
                let observe = |step: &Step, edge| {
                    if edge == Edge::Begin {
                        numbers.push((native::next_sequence(), step.names().1.to_owned()));
                    }
                    recorder.edge(step.names(), "forward/", edge)
                };
                trainer.forward_observed(observe)?;
                numbers.push((native::next_sequence(), "loss".into()));
            }
            Part::Backward if trainer.settings().keeps_all() => {
                let begun = Moment::now(device)?;
                let functions =
                    native::observe_backward(device, || trainer.run(Part::Backward, inputs))?;
                backward.push((recorder.origin.until(&begun)?, functions));
            }
            part => recorder.whole(name, || trainer.run(*part, inputs))?,
        }
    }
    let mut all = recorder.operators()?;
    for (begun, functions) in backward {
        for function in functions {
            let node = function.sequence.and_then(|sequence| {
                let after = numbers.partition_point(|(first, _)| *first <= sequence);
                numbers.get(after.checked_sub(1)?).map(|(_, name)| name.as_str())
            });
            let node = node.unwrap_or(&function.name);
            all.push(ProfiledOperator {
                name: format!("backward/{node}"),
                kind: function.name.clone(),
                provider: provider(device).into(),
                start_ns: begun + function.start_ns,
                duration_ns: function.duration_ns,
            });
        }
    }
    all.sort_by_key(|operator| operator.start_ns);
    trainer.take()?;
    Ok(all)
}
