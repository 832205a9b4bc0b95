/*!
How operators are computed, in every mode: in which kind of numbers products are, how images lie in memory, and whether
the same inputs must give the same results.
*/

use plugin_api::backend::{Options, Result};
use tch::{Device, Kind, Tensor};

use crate::error::Wrong;
use crate::native;
use crate::training::choice;

/// Options of every mode.
pub(crate) const OPTIONS: [&str; 6] =
    ["autocast", "cuda-graphs", "deterministic", "fusion", "memory-format", "tf32"];

/// Settings of every mode.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Compute {
    /// Kind of numbers of products, such as convolutions; everything else stays in that of the weights.
    pub(crate) autocast: Option<Kind>,
    /// Whether the channels of a pixel lie next to each other.
    pub(crate) channels_last: bool,
    /// Whether operators without a deterministic implementation are refused.
    pub(crate) deterministic: bool,
    /// Whether groups of nodes are replaced by a function of libtorch that computes the same.
    pub(crate) fusion: bool,
    /// Whether products of fp32 may be narrowed to TF32 on a graphics processor.
    pub(crate) tf32: bool,
    /// Whether the kernels of a run are recorded once, and queued as one afterwards.
    pub(crate) graphs: bool,
}

impl Compute {
    /// Reads the options.
    pub(crate) fn of(options: &Options<'_>) -> Result<Self> {
        let kinds = [("none", None), ("bf16", Some(Kind::BFloat16)), ("fp16", Some(Kind::Half))];
        let formats = [("contiguous", false), ("channels-last", true)];
        Ok(Self {
            autocast: choice(options, "autocast", &kinds)?,
            channels_last: choice(options, "memory-format", &formats)?,
            deterministic: choice(options, "deterministic", &[("false", false), ("true", true)])?,
            fusion: choice(options, "fusion", &[("true", true), ("false", false)])?,
            tf32: choice(options, "tf32", &[("false", false), ("true", true)])?,
            graphs: choice(options, "cuda-graphs", &[("false", false), ("true", true)])?,
        })
    }

    /// Returns the settings as they are recorded.
    pub(crate) fn used(self, device: Device) -> Vec<(String, String)> {
        let mut used = Vec::new();
        if matches!(device, Device::Cuda(_)) {
            used.push(("tf32".to_owned(), self.tf32.to_string()));
            // Those of a profile.
            used.push(("operator-times".into(), "device".into()));
        }
        if self.autocast.is_some() {
            used.push(("weights".to_owned(), "fp32".to_owned()));
        }
        if self.channels_last {
            used.push(("memory-format".into(), "channels-last".into()));
        }
        if self.deterministic {
            used.push(("deterministic".into(), "true".into()));
        }
        if self.graphs {
            used.push(("cuda-graphs".into(), "true".into()));
        }
        if !self.fusion {
            used.push(("fusion".into(), "false".into()));
        }
        used
    }

    /// Returns the precision in which products are computed, if it is not that of the weights.
    pub(crate) fn precision(self) -> Option<&'static str> {
        match self.autocast? {
            Kind::Half => Some("fp16"),
            _ => Some("bf16"),
        }
    }

    /// Applies the settings that are the process's.
    pub(crate) fn apply(self) -> Result<(), Wrong> {
        native::set_deterministic(self.deterministic)?;
        native::set_tf32(self.tf32)
    }

    /// Computes something with the products in the kind of numbers that was chosen.
    pub(crate) fn autocast<T>(
        self,
        device: Device,
        work: impl FnOnce() -> Result<T, Wrong>,
    ) -> Result<T, Wrong> {
        native::autocast(device, self.autocast, work)
    }

    /// Returns an input as it is computed with.
    pub(crate) fn formatted(self, input: &Tensor) -> Result<Tensor, Wrong> {
        match self.channels_last && input.dim() == 4 {
            true => native::channels_last(input),
            false => Ok(input.shallow_clone()),
        }
    }
}

/// Returns outputs in the kind of numbers that the model declares: those of products were converted.
pub(crate) fn in_fp32(outputs: Vec<Tensor>, compute: Compute) -> Result<Vec<Tensor>, Wrong> {
    if compute.autocast.is_none() {
        return Ok(outputs);
    }
    let convert = |output: Tensor| match output.f_kind()? {
        Kind::Half | Kind::BFloat16 => Ok(output.f_to_kind(Kind::Float)?),
        _ => Ok(output),
    };
    outputs.into_iter().map(convert).collect()
}
