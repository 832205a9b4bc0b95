//! Runs.
//!
//! A run is one call of ONNX Runtime's `Run` on existing tensors: inputs in the provider's memory, and outputs of an
//! earlier run, which are reused. Nothing is allocated. ONNX Runtime creates only outputs that are new or whose shape
//! depends on the data; on a device with its own memory, a binding creates them there.

use std::collections::HashMap;
use std::ffi::{CString, c_char};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use ort::AsPointer;
use ort::sys::{OrtIoBinding, OrtRunOptions, OrtValue};
use plugin_api::backend::{
    Allocator, AllocatorUse, DataType, DeviceTimer, Dimension, Error, ErrorCode, Profile,
    ProfiledOperator, Result, Session, Tensor, TensorInfo,
};

use crate::allocator;
use crate::model::{CreatedSession, Purpose};
use crate::profile;
use crate::tensor::{MemoryInfo, Value, check, host_allocator};
use crate::{Accelerator, Carrier, OrtTensor};

/// A model that is ready to run.
pub struct OrtSession {
    made: Arc<CreatedSession>,
    purpose: Purpose,
    inputs: Vec<Input>,
    outputs: Vec<Output>,
    /// Names of inputs and outputs, which point into the model's information.
    names: Names,
    /// Arguments for ONNX Runtime in each run, kept so that a run allocates nothing.
    given: Vec<*const OrtValue>,
    made_values: Vec<*mut OrtValue>,
    /// For runs that do not wait for the device.
    no_wait: RunOptions,
    graphs: Option<Graphs>,
}

// SAFETY: the pointers point into the session itself, or are only used during a run; ONNX Runtime allows using a
// session from any thread.
unsafe impl Send for OrtSession {}

struct Input {
    name: CString,
    dtype: Option<DataType>,
    shape: Vec<i64>,
}

struct Output {
    name: CString,
    /// Shape in the model's information for these inputs, until an output differs from it.
    shape: Option<Vec<i64>>,
}

struct Names {
    inputs: Vec<*const c_char>,
    outputs: Vec<*const c_char>,
}

fn c_string(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| {
        Error::new(ErrorCode::InvalidModel, format!("the name {text:?} has a zero byte in it"))
    })
}

impl OrtSession {
    pub(crate) fn new(
        made: Arc<CreatedSession>,
        purpose: Purpose,
        shapes: &[&[i64]],
    ) -> Result<Self> {
        let info = made.source.info();
        let input = |(info, shape): (&TensorInfo, &&[i64])| {
            let name = c_string(&info.name)?;
            Ok(Input { name, dtype: info.dtype, shape: shape.to_vec() })
        };
        let inputs: Vec<_> = info.inputs.iter().zip(shapes).map(input).collect::<Result<_>>()?;
        let output = |info: &TensorInfo| {
            let shape = promised(info.dimensions.as_deref(), &purpose.sizes);
            Ok(Output { name: c_string(&info.name)?, shape })
        };
        let outputs: Vec<_> = info.outputs.iter().map(output).collect::<Result<_>>()?;
        let names = Names {
            inputs: inputs.iter().map(|input| input.name.as_ptr()).collect(),
            outputs: outputs.iter().map(|output| output.name.as_ptr()).collect(),
        };
        let graphs = Graphs::of(&made)?;
        Ok(Self {
            given: vec![ptr::null(); inputs.len()],
            made_values: vec![ptr::null_mut(); outputs.len()],
            no_wait: RunOptions::new(&[(NO_WAIT, c"1")])?,
            made,
            purpose,
            inputs,
            outputs,
            names,
            graphs,
        })
    }

    fn accelerator(&self) -> Option<&Arc<dyn Accelerator>> {
        self.made.source.accelerator()
    }

    /// Runs the model on tensors inside other types. Returns when the device is done, or, if `wait` is false and the
    /// provider can queue, when all work is queued.
    ///
    /// # Errors
    ///
    /// If an input does not fit or the device fails.
    pub fn run_carried<T: Carrier>(
        &mut self,
        inputs: &[&T],
        outputs: &mut [Option<Box<T>>],
        wait: bool,
    ) -> Result<()> {
        for ((input, given), tensor) in self.inputs.iter().zip(&mut self.given).zip(inputs) {
            let tensor = tensor.carried();
            input.check(tensor)?;
            *given = tensor.pointer();
        }
        let mut fresh = false;
        for (index, (output, tensor)) in self.outputs.iter().zip(&*outputs).enumerate() {
            let tensor = tensor.as_ref().map(|tensor| tensor.carried());
            let again = tensor.filter(|tensor| output.can_be_written_again(tensor));
            self.made_values[index] = again.map_or(ptr::null_mut(), OrtTensor::pointer);
            fresh |= again.is_none();
        }
        let on_device = self.accelerator().is_some();
        let options = match &mut self.graphs {
            Some(graphs) => graphs.options(inputs, outputs, fresh)?,
            None if wait || !on_device => ptr::null(),
            None => self.no_wait.pointer(),
        };
        if fresh && on_device {
            self.run_bound(options)?;
        } else {
            self.run_plain(options)?;
        }
        // The outputs of this run, in the model's order.
        for (index, tensor) in outputs.iter_mut().enumerate() {
            let output = &mut self.outputs[index];
            let pointer = std::mem::replace(&mut self.made_values[index], ptr::null_mut());
            if tensor.as_ref().is_some_and(|tensor| tensor.carried().pointer() == pointer) {
                continue;
            }
            // SAFETY: it differs from the given one, so the run has created it for this side to own.
            let value = unsafe { Value::new(pointer) }.ok_or_else(|| {
                let message = format!("the model gave nothing for output {:?}", output.name);
                Error::new(ErrorCode::Unsupported, message)
            })?;
            let made = OrtTensor::made(value, self.made.source.accelerator())?;
            if output.shape.as_deref().is_some_and(|promised| promised != made.shape()) {
                output.shape = None;
            }
            *tensor = Some(Box::new(T::carry(made)));
        }
        match self.accelerator() {
            Some(accelerator) if wait => accelerator.synchronise(),
            _ => Ok(()),
        }
    }

    /// Runs on values without a binding. Null outputs are created in the host's memory.
    fn run_plain(&mut self, options: *const OrtRunOptions) -> Result<()> {
        // SAFETY: the counts of names and values are correct, and they are valid during the call. The caller has
        // exclusive access to written values.
        let status = unsafe {
            (ort::api().Run)(
                self.made.session.ptr().cast_mut(),
                options,
                self.names.inputs.as_ptr(),
                self.given.as_ptr(),
                self.given.len(),
                self.names.outputs.as_ptr(),
                self.made_values.len(),
                self.made_values.as_mut_ptr(),
            )
        };
        check(status)
    }

    /// Runs with a binding, which creates null outputs on the device.
    fn run_bound(&mut self, options: *const OrtRunOptions) -> Result<()> {
        let api = ort::api();
        let session = self.made.session.ptr().cast_mut();
        let Some(accelerator) = self.made.source.accelerator() else {
            return self.run_plain(options);
        };
        let device = MemoryInfo::new(accelerator.memory())?;
        let binding = Binding::new(session)?;
        // SAFETY: binding, names, values and places are valid, and live until the run is done.
        unsafe {
            for (name, value) in self.names.inputs.iter().zip(&self.given) {
                check((api.BindInput)(binding.0.as_ptr(), *name, *value))?;
            }
            for (name, value) in self.names.outputs.iter().zip(&self.made_values) {
                check(if value.is_null() {
                    (api.BindOutputToDevice)(binding.0.as_ptr(), *name, device.0.as_ptr())
                } else {
                    (api.BindOutput)(binding.0.as_ptr(), *name, *value)
                })?;
            }
            check((api.RunWithBinding)(session, options, binding.0.as_ptr()))?;
        }
        let allocator = host_allocator()?;
        let (mut values, mut count) = (ptr::null_mut(), 0);
        // SAFETY: the call fills in a list of values, which this side owns, in the order of binding.
        unsafe {
            let get = api.GetBoundOutputValues;
            check(get(binding.0.as_ptr(), allocator, &raw mut values, &raw mut count))?;
            for index in 0..count {
                let value = *values.add(index);
                let place = &mut self.made_values[index];
                if place.is_null() {
                    *place = value;
                } else {
                    // It is another handle of the given tensor.
                    drop(Value::new(value));
                }
            }
            check((api.AllocatorFree)(allocator, values.cast()))
        }
    }

    /// Returns the figures of ONNX Runtime's allocator for the provider's memory, since ONNX Runtime's session was
    /// created, for all sessions of a model that share it. Memory that a backend allocates for tensors itself is not
    /// included.
    ///
    /// # Errors
    ///
    /// Unsupported if the library is older than 1.23, if the allocator does not count, or if the
    /// provider has no known allocator.
    pub fn allocator(&self) -> Result<AllocatorUse> {
        let source = &self.made.source;
        let memory = source.provider.memory().ok_or_else(|| {
            let provider = source.provider.name();
            let message =
                format!("{provider} has no allocator that ONNX Runtime could be asked about");
            Error::new(ErrorCode::Unsupported, message)
        })?;
        allocator::used(source.library, &self.made.session, &MemoryInfo::new(memory)?)
    }

    /// Returns the operators of one run, with their place and time, from ONNX Runtime's profiler. The profiler costs
    /// time, so a separate session is created for it.
    ///
    /// # Errors
    ///
    /// As for creating a session and for a run; also if the profile cannot be read.
    pub fn profile_carried<T: Carrier>(&self, inputs: &[&T]) -> Result<Vec<ProfiledOperator>> {
        let source = &self.made.source;
        let made = source.make(&self.purpose, Some(&profile::path()))?;
        let shapes: Vec<&[i64]> = self.inputs.iter().map(|input| &*input.shape).collect();
        let mut session = Self::new(Arc::new(made), self.purpose.clone(), &shapes)?;
        let mut outputs: Vec<Option<Box<T>>> = Vec::new();
        outputs.resize_with(session.outputs.len(), || None);
        // One-time work of the first run is not part of a run.
        let runs = (0..2).try_for_each(|_| session.run_carried(inputs, &mut outputs, true));
        let file = profile::end(&session.made.session);
        runs?;
        profile::read(&file?)
    }
}

/// Returns the shape of an output, if the model states it for every axis.
fn promised(dimensions: Option<&[Dimension]>, sizes: &[(String, i64)]) -> Option<Vec<i64>> {
    let size = |dimension: &Dimension| match dimension {
        Dimension::Fixed(size) => i64::try_from(*size).ok(),
        Dimension::Dynamic(name) => {
            sizes.iter().find(|(known, _)| known == name).map(|(_, size)| *size)
        }
    };
    dimensions?.iter().map(size).collect()
}

impl Input {
    #[inline]
    fn check(&self, tensor: &OrtTensor) -> Result<()> {
        let right = self.dtype.is_none_or(|dtype| dtype == tensor.dtype());
        if right && self.shape == tensor.shape() { Ok(()) } else { Err(self.wrong(tensor)) }
    }

    #[cold]
    fn wrong(&self, tensor: &OrtTensor) -> Error {
        let wanted = self.dtype.map(|dtype| format!("{dtype} ")).unwrap_or_default();
        let message = format!(
            "input `{}` is {} {:?}, expected {wanted}{:?}",
            self.name.to_string_lossy(),
            tensor.dtype(),
            tensor.shape(),
            self.shape
        );
        Error::new(ErrorCode::InvalidArgument, message)
    }
}

impl Output {
    #[inline]
    fn can_be_written_again(&self, tensor: &OrtTensor) -> bool {
        self.shape.as_deref() == Some(tensor.shape())
    }
}

/// An owned binding.
struct Binding(NonNull<OrtIoBinding>);

impl Binding {
    fn new(session: *mut ort::sys::OrtSession) -> Result<Self> {
        let mut binding = ptr::null_mut();
        // SAFETY: the session is valid, and the call fills in a pointer.
        check(unsafe { (ort::api().CreateIoBinding)(session, &raw mut binding) })?;
        let binding = NonNull::new(binding);
        binding.map(Self).ok_or_else(|| Error::new(ErrorCode::Internal, "a binding is null"))
    }
}

impl Drop for Binding {
    fn drop(&mut self) {
        // SAFETY: it is owned and not used again.
        unsafe { (ort::api().ReleaseIoBinding)(self.0.as_ptr()) };
    }
}

/// ONNX Runtime's name for a run that does not wait for the device.
const NO_WAIT: &std::ffi::CStr = c"disable_synchronize_execution_providers";
/// ONNX Runtime's name for the number of a run's captured graph; -1 captures none.
const GRAPH: &std::ffi::CStr = c"gpu_graph_id";

/// Owned options of a run.
struct RunOptions(NonNull<OrtRunOptions>);

impl RunOptions {
    fn new(entries: &[(&std::ffi::CStr, &std::ffi::CStr)]) -> Result<Self> {
        let mut options = ptr::null_mut();
        // SAFETY: the call fills in a pointer.
        check(unsafe { (ort::api().CreateRunOptions)(&raw mut options) })?;
        let options = NonNull::new(options).map(Self);
        let options = options.ok_or_else(|| Error::new(ErrorCode::Internal, "options are null"))?;
        for (key, value) in entries {
            // SAFETY: both are C strings, which are copied.
            check(unsafe {
                (ort::api().AddRunConfigEntry)(options.0.as_ptr(), key.as_ptr(), value.as_ptr())
            })?;
        }
        Ok(options)
    }

    fn pointer(&self) -> *const OrtRunOptions {
        self.0.as_ptr()
    }
}

impl Drop for RunOptions {
    fn drop(&mut self) {
        // SAFETY: they are owned and not used again.
        unsafe { (ort::api().ReleaseRunOptions)(self.0.as_ptr()) };
    }
}

/// Captured graphs, if the provider captures them.
///
/// A captured graph reads and writes the memory that it was captured with, so each set of tensors has
/// its own graph, by a number. While an output is new, nothing is captured.
struct Graphs {
    none: RunOptions,
    captured: HashMap<Vec<u64>, RunOptions>,
    key: Vec<u64>,
}

impl Graphs {
    fn of(made: &CreatedSession) -> Result<Option<Self>> {
        let on = ["enable_cuda_graph", "enable_hip_graph", "trt_cuda_graph_enable"]
            .iter()
            .any(|key| made.provider_options.get(*key).is_some_and(|value| value == "1"));
        let none = RunOptions::new(&[(NO_WAIT, c"1"), (GRAPH, c"-1")])?;
        Ok(on.then(|| Self { none, captured: HashMap::new(), key: Vec::new() }))
    }

    /// Returns the options of a run on these tensors. The caller waits for the device itself.
    fn options<T: Carrier>(
        &mut self,
        inputs: &[&T],
        outputs: &[Option<Box<T>>],
        fresh: bool,
    ) -> Result<*const OrtRunOptions> {
        if fresh {
            return Ok(self.none.pointer());
        }
        self.key.clear();
        self.key.extend(inputs.iter().map(|tensor| tensor.carried().id()));
        self.key.extend(outputs.iter().flatten().map(|tensor| tensor.carried().id()));
        if let Some(options) = self.captured.get(&self.key) {
            return Ok(options.pointer());
        }
        let number = c_string(&(self.captured.len() + 1).to_string())?;
        let options = RunOptions::new(&[(NO_WAIT, c"1"), (GRAPH, &number)])?;
        let pointer = options.pointer();
        self.captured.insert(self.key.clone(), options);
        Ok(pointer)
    }
}

impl Session for OrtSession {
    type Tensor = OrtTensor;

    fn used(&self) -> Vec<(String, String)> {
        self.made.source.used(&self.purpose, &self.made.provider_options)
    }

    fn run(&mut self, inputs: &[&OrtTensor], outputs: &mut [Option<Box<OrtTensor>>]) -> Result<()> {
        self.run_carried(inputs, outputs, true)
    }

    fn enqueue(
        &mut self,
        inputs: &[&OrtTensor],
        outputs: &mut [Option<Box<OrtTensor>>],
    ) -> Result<()> {
        self.run_carried(inputs, outputs, false)
    }

    fn synchronise(&mut self) -> Result<()> {
        self.accelerator().map_or(Ok(()), |accelerator| accelerator.synchronise())
    }
}

impl Profile for OrtSession {
    fn profile(&mut self, inputs: &[&OrtTensor]) -> Result<Vec<ProfiledOperator>> {
        self.profile_carried(inputs)
    }
}

impl Allocator for OrtSession {
    fn allocator_use(&mut self) -> Result<AllocatorUse> {
        self.allocator()
    }
}

impl DeviceTimer for OrtSession {
    /// Measures the run from its first piece of work to its last, by the device's own clock.
    fn run_timed(
        &mut self,
        inputs: &[&OrtTensor],
        outputs: &mut [Option<Box<OrtTensor>>],
    ) -> Result<u64> {
        let Some(accelerator) = self.accelerator().cloned() else {
            let message = "the provider has no device of its own to be timed";
            return Err(Error::new(ErrorCode::Unsupported, message));
        };
        accelerator.begin_timing()?;
        self.run_carried(inputs, outputs, false)?;
        accelerator.end_timing()
    }
}

impl Drop for OrtSession {
    /// Waits for queued work, as ending a session must.
    fn drop(&mut self) {
        let _ = self.synchronise();
    }
}
