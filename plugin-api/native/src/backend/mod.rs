/*!
Writing a backend in Rust.

A backend is four traits: a [`Backend`] finds devices and loads a [`Model`]; a model makes [`Tensor`]s
on its device and a [`Session`] for concrete shapes; a session runs.
[`export_backend!`](crate::export_backend) turns the first of them into a plugin's entry point. This module connects
them with the C table: it checks arguments, turns a panic into an internal error, and keeps information alive as long
as the header promises.

The crate that implements them is built as a `cdylib`, with a `plugin.toml` beside its `Cargo.toml`.
The guide, `docs/guide/backend-rust.md`, goes through a complete one; the backend `null` is the smallest
real one.

```
use plugin_api::backend::{
    Backend, Description, Device, Error, ErrorCode, Host, LoadRequest, NoModel, Result,
};

struct Nothing;

impl Backend for Nothing {
    type Model = NoModel;

    fn new(_host: &Host) -> Result<Self, String> {
        Ok(Self)
    }

    fn description(&self) -> Description {
        Description {
            id: "nothing".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            engine: "none".into(),
            engine_version: String::new(),
            extensions: Vec::new(),
            modes: Vec::new(),
        }
    }

    fn devices(&self) -> Result<Vec<Device>> {
        Ok(Vec::new())
    }

    fn load(&self, request: &LoadRequest<'_>) -> Result<NoModel> {
        Err(Error::new(ErrorCode::NotFound, format!("there is no device `{}`", request.device)))
    }
}

plugin_api::export_backend!(Nothing);
# fn main() {}
```
*/

mod extensions;
mod glue;
mod no_model;
mod options;
mod progress;
mod storage;
mod view;

use std::ffi::c_void;
use std::path::Path;
use std::ptr::NonNull;

pub use extensions::{
    Allocator, Cancel, DeviceEnergy, DeviceMemory, DeviceState, DeviceTimer, Mark, Marks,
    MemoryUse, PhaseMemory, PhaseUse, Profile, StageTimes, Stages, Training, allocator, cancel,
    device_energy, device_memory, device_state, device_timer, marks, phase_memory, profile,
    stage_times, training,
};
pub use glue::{enter, threads};
pub use no_model::NoModel;
pub use options::Options;
pub use progress::Progress;
pub use view::{Element, HostTensor, View, ViewMut};

pub use crate::types::{
    AllocatorUse, DataType, Description, Device, DeviceReading, Dimension, ErrorCode, ModelInfo,
    ProfiledOperator, ShapesServed, TensorInfo, ValueKind, element_count,
};

/// The result of a backend's call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a backend.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} ({code})")]
pub struct Error {
    /// Kind of the error.
    pub code: ErrorCode,
    /// One sentence: what is wrong, and where.
    pub message: String,
    /// Further text: a list of operators, a driver's log. May be empty.
    pub details: String,
}

impl Error {
    /// Creates an error without details.
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), details: String::new() }
    }

    /// Adds details.
    #[must_use]
    pub fn with_details(mut self, details: impl Into<String>) -> Self {
        self.details = details.into();
        self
    }
}

/// The host's own description.
#[derive(Debug, Clone)]
pub struct Host {
    /// Major and minor version of its ABI.
    pub abi: (u32, u32),
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Reports the progress of long calls.
    pub progress: Progress,
}

/// Request of [`Backend::load`].
#[derive(Debug)]
pub struct LoadRequest<'a> {
    /// The model's file.
    pub path: &'a Path,
    /// Id of the device.
    pub device: &'a str,
    /// Processor threads to compute with; `None` leaves it to the backend.
    pub threads: Option<u32>,
    /// Options from the manifest. See [`Options::only`].
    pub options: Options<'a>,
    /// Mode to run the model in: one of the description's modes.
    pub mode: &'a str,
}

/// Request of [`Model::prepare`].
#[derive(Debug)]
pub struct PrepareRequest<'a> {
    /// The precision, such as `fp32`.
    pub precision: &'a str,
    /// One shape for each input; checked against [`ModelInfo`] before the model sees it.
    pub shapes: &'a [&'a [i64]],
    /// Bounds of the shapes of calls, if not all have the shapes above. A session that serves them declares this by
    /// [`Session::shapes_served`].
    pub bounds: Option<ShapeBounds<'a>>,
}

/// Bounds of shapes, axis by axis; checked against [`ModelInfo`] before the model sees them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShapeBounds<'a> {
    /// The least size of each axis of each input.
    pub least: &'a [&'a [i64]],
    /// The greatest size of each axis of each input.
    pub greatest: &'a [&'a [i64]],
}

/// A plugin's root: finds devices and loads models.
pub trait Backend: Sized + 'static {
    /// Its models.
    type Model: Model;

    /// Creates the backend. Must be quick, and not search for devices yet.
    ///
    /// # Errors
    ///
    /// Returns the reason why this host is not supported and which side must be updated, in one sentence.
    fn new(host: &Host) -> Result<Self, String>;

    /// Returns the backend's description.
    fn description(&self) -> Description;

    /// Returns the current devices. None is a valid answer.
    ///
    /// # Errors
    ///
    /// If the search fails.
    fn devices(&self) -> Result<Vec<Device>>;

    /// Loads a model onto a device.
    ///
    /// # Errors
    ///
    /// If there is no such device or file, the file is not a model, or an option is unknown.
    fn load(&self, request: &LoadRequest<'_>) -> Result<Self::Model>;

    /// Returns the table of an extension, which stays valid as long as the backend lives. For those that Tare
    /// defines, [`device_energy`], [`device_memory`], [`device_state`], [`allocator`], [`stage_times`],
    /// [`device_timer`], [`profile`], [`cancel`], [`marks`], [`training`], [`phase_memory`] and [`threads`] make it.
    fn extension(&self, name: &str) -> Option<NonNull<c_void>> {
        let _ = name;
        None
    }
}

/// A model on a device.
pub trait Model: 'static {
    /// A tensor on that device.
    type Tensor: Tensor;
    /// Its sessions.
    type Session: Session<Tensor = Self::Tensor>;

    /// Returns the model's inputs and outputs. Called once, right after loading.
    fn info(&self) -> ModelInfo;

    /// Makes the model ready to run. Work that can be done here must not be left to the first run.
    ///
    /// # Errors
    ///
    /// If the model cannot compute in this precision or with these shapes.
    fn prepare(&self, request: &PrepareRequest<'_>) -> Result<Self::Session>;

    /// Copies elements to the device, and returns when that is done.
    ///
    /// # Errors
    ///
    /// If the device does not take such elements, or has no room.
    fn tensor(&self, view: &View<'_>) -> Result<Self::Tensor>;
}

/// Elements on a device.
pub trait Tensor: 'static {
    /// Returns the element type.
    fn dtype(&self) -> DataType;

    /// Returns the size of each axis.
    fn shape(&self) -> &[i64];

    /// Copies the elements into host memory of the same type and shape.
    ///
    /// # Errors
    ///
    /// If the device fails.
    fn read(&self, into: &mut ViewMut<'_>) -> Result<()>;

    /// Returns the elements of a tensor of [`DataType::STRING`], in C order. Replaces [`Tensor::read`] for
    /// text.
    fn texts(&self) -> Option<&[String]> {
        None
    }

    /// Returns the kind of value. Nothing else is called for values that are not tensors.
    fn kind(&self) -> ValueKind {
        ValueKind::Tensor
    }
}

/// A model that is ready to run with given shapes.
pub trait Session: 'static {
    /// Type of its inputs and outputs.
    type Tensor;

    /// Returns the settings in use, as opposed to those requested: at least `precision`, and
    /// `threads` if that has a meaning. Called once, right after preparing.
    fn used(&self) -> Vec<(String, String)>;

    /// Returns the shapes that its calls may have, if [`PrepareRequest::bounds`] were given. Called once,
    /// right after preparing.
    fn shapes_served(&self) -> ShapesServed {
        ShapesServed::One
    }

    /// Runs once and returns when the device is done. Inputs are in the order of [`ModelInfo`], and so
    /// are outputs: each is `None`, or the tensor of an earlier run, to be reused. On return
    /// each must be `Some`, with a shape that [`ModelInfo`] promises. Inputs must stay as they are.
    ///
    /// # Errors
    ///
    /// If an input does not fit or the device fails.
    fn run(
        &mut self,
        inputs: &[&Self::Tensor],
        outputs: &mut [Option<Box<Self::Tensor>>],
    ) -> Result<()>;

    /// Does the same as [`Session::run`], but may return as soon as the work is queued. A backend that
    /// cannot queue keeps this default.
    ///
    /// # Errors
    ///
    /// As for [`Session::run`].
    fn enqueue(
        &mut self,
        inputs: &[&Self::Tensor],
        outputs: &mut [Option<Box<Self::Tensor>>],
    ) -> Result<()> {
        self.run(inputs, outputs)
    }

    /// Returns when all queued work is done.
    ///
    /// # Errors
    ///
    /// The first error of that work.
    fn synchronise(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Makes a type that implements [`Backend`](crate::backend::Backend) this library's plugin. Used once,
/// at the root of the crate.
#[macro_export]
macro_rules! export_backend {
    ($backend:ty) => {
        /// The plugin's entry point.
        ///
        /// # Safety
        ///
        /// As `plugin_api.h` says: `host` is valid until the backend is destroyed, and no other
        /// backend from this library is alive.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn tare_backend_v1(
            host: *const $crate::abi::HostApi,
        ) -> *const $crate::abi::BackendApi {
            // SAFETY: the caller's promise is passed on.
            unsafe { $crate::backend::enter::<$backend>(host) }
        }
    };
}
