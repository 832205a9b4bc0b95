//! A run whose arguments are laid out beforehand.

use std::ffi::c_void;
use std::ptr;
use std::rc::Rc;

use super::tensor::{self, Tensor, TensorData, TextData};
use super::{Error, Result, SessionInner, ShapeBounds};
use crate::abi;
use crate::types::{DataType, Dimension, ValueKind};

/// A run of a session that can be repeated: inputs stay on the device, outputs are
/// overwritten.
///
/// Several calls of one session may exist, each with its own inputs and outputs, and may be enqueued
/// one after another.
pub struct Call {
    run: abi::Call<abi::RunArgs>,
    pub(super) args: abi::RunArgs,
    pub(super) session: Rc<SessionInner>,
    inputs: Vec<Tensor>,
    /// Memory that `args` points to; never resized.
    input_handles: Vec<*mut abi::Tensor>,
    /// Memory that `args` points to; never resized.
    output_handles: Vec<*mut abi::Tensor>,
}

/// The function of a backend that makes runs phase by phase.
#[derive(Debug, Clone, Copy)]
pub struct MarkedRun {
    pub(super) run: abi::Call<abi::MarkedRunArgs>,
    /// The backend of this function.
    pub(super) backend: *mut abi::Backend,
}

impl Call {
    pub(super) fn new(session: &Rc<SessionInner>, inputs: Vec<Tensor>) -> Result<Self> {
        let (wanted, given) = (session.info.inputs.len(), inputs.len());
        if wanted != given {
            return Err(Error::argument("run", format!("{given} inputs given, {wanted} wanted")));
        }
        for (index, input) in inputs.iter().enumerate() {
            check(session, index, input)?;
        }
        let mut input_handles: Vec<_> = inputs.iter().map(|input| input.inner.handle).collect();
        let mut output_handles = vec![ptr::null_mut(); session.info.outputs.len()];
        let args = abi::RunArgs {
            struct_size: size_of::<abi::RunArgs>(),
            session: session.handle.as_ptr(),
            flags: 0,
            inputs: input_handles.as_mut_ptr(),
            input_count: input_handles.len(),
            outputs: output_handles.as_mut_ptr(),
            output_count: output_handles.len(),
        };
        Ok(Self {
            run: session.model.backend.functions.run,
            args,
            session: Rc::clone(session),
            inputs,
            input_handles,
            output_handles,
        })
    }

    /// Runs and waits until the device is done.
    ///
    /// # Errors
    ///
    /// The backend's error.
    #[inline]
    pub fn run(&mut self) -> Result<()> {
        self.args.flags = 0;
        self.invoke()
    }

    /// Runs and may return before the device is done. Enqueued calls run in order.
    ///
    /// # Errors
    ///
    /// The backend's error; errors of the work itself may come from [`super::Session::synchronise`].
    #[inline]
    pub fn enqueue(&mut self) -> Result<()> {
        self.args.flags = abi::RUN_ENQUEUE;
        self.session.queued.set(true);
        self.invoke()
    }

    /// Runs one phase, counted from 0, and returns when the device is done with it. All phases in order make a run.
    /// `on_mark` is called whenever a counted item, such as a token, is complete.
    ///
    /// # Errors
    ///
    /// Returns the backend's error.
    ///
    /// # Panics
    ///
    /// If `run` comes from another backend.
    #[inline]
    pub fn run_phase<F: FnMut()>(
        &mut self,
        run: MarkedRun,
        phase: u32,
        on_mark: &mut F,
    ) -> Result<()> {
        unsafe extern "C" fn mark<F: FnMut()>(context: *mut c_void) {
            // SAFETY: the backend passes the context that it was given, on the thread of the call, which has
            // it borrowed exclusively.
            unsafe { (*context.cast::<F>())() };
        }
        assert!(run.backend == self.session.model.backend.handle, "of another backend");
        self.args.flags = 0;
        let mut args = abi::MarkedRunArgs {
            struct_size: size_of::<abi::MarkedRunArgs>(),
            run: &raw mut self.args,
            phase,
            unused: 0,
            context: ptr::from_mut(on_mark).cast(),
            mark: Some(mark::<F>),
        };
        // SAFETY: as for `run`: session, inputs and outputs are alive and of one model, and laid out as the
        // ABI requires. The function is of the same backend.
        let error = unsafe { (run.run)(&raw mut args) };
        if error.is_null() {
            return Ok(());
        }
        // SAFETY: the call has just returned it.
        Err(unsafe { Error::take(abi::MARKS, error) })
    }

    #[inline]
    fn invoke(&mut self) -> Result<()> {
        // SAFETY: session, inputs and outputs are alive and of one model, and laid out as the ABI
        // requires; `Call` is not `Send`, so this is the thread that prepared its session: that of the entry point,
        // or one of a backend that serves several.
        let error = unsafe { (self.run)(&raw mut self.args) };
        if error.is_null() {
            return Ok(());
        }
        // SAFETY: the call has just returned it.
        Err(unsafe { Error::take("run", error) })
    }

    /// Replaces the tensor of an input for later runs.
    ///
    /// # Errors
    ///
    /// As for [`super::Session::call`], or the error of [`super::Session::synchronise`], because
    /// nothing may be queued while inputs change.
    pub fn set_input(&mut self, index: usize, input: Tensor) -> Result<()> {
        if index >= self.inputs.len() {
            let count = self.inputs.len();
            return Err(Error::argument("run", format!("input {index} of {count} does not exist")));
        }
        check(&self.session, index, &input)?;
        self.wait()?;
        self.input_handles[index] = input.inner.handle;
        self.inputs[index] = input;
        Ok(())
    }

    /// Copies an output of the latest run into host memory, waiting for it if it was enqueued.
    ///
    /// # Errors
    ///
    /// If there is no such output or no run, or with the backend's error. The code is
    /// [`ErrorCode::Unsupported`](super::ErrorCode::Unsupported) if the output is not a tensor, or has texts.
    pub fn read_output(&mut self, index: usize) -> Result<TensorData> {
        let handle = self.output(index)?;
        let (dtype, shape) = tensor::describe(&self.session.model, handle)?;
        tensor::read(&self.session.model, handle, dtype, shape)
    }

    /// Copies an output of texts into host memory.
    ///
    /// # Errors
    ///
    /// As for [`Call::read_output`], or if it has numbers.
    pub fn read_texts(&mut self, index: usize) -> Result<TextData> {
        let handle = self.output(index)?;
        let (dtype, shape) = tensor::describe(&self.session.model, handle)?;
        tensor::read_texts(&self.session.model, handle, dtype, shape)
    }

    /// Returns the kind of an output of the latest run, and its element type if it is a tensor. Waits for the
    /// run if it was enqueued.
    ///
    /// # Errors
    ///
    /// If there is no such output or no run, or with the backend's error.
    pub fn output_kind(&mut self, index: usize) -> Result<(ValueKind, Option<DataType>)> {
        let handle = self.output(index)?;
        tensor::kind(&self.session.model, handle)
    }

    /// Takes an output of the latest run, for use as an input elsewhere; the next run makes a new one. Waits for the
    /// run if it was enqueued.
    ///
    /// # Errors
    ///
    /// If there is no such output or no run has been made, or the backend's error.
    pub fn take_output(&mut self, index: usize) -> Result<Tensor> {
        let handle = self.output(index)?;
        self.output_handles[index] = ptr::null_mut();
        Tensor::adopt(&self.session.model, handle)
    }

    /// Returns whether a run has left an output that was not taken.
    #[must_use]
    pub fn has_outputs(&self) -> bool {
        self.output_handles.iter().any(|handle| !handle.is_null())
    }

    /// Checks that the latest run has left every output, with the shape in the model's information. Waits for the run
    /// if it was enqueued.
    ///
    /// An axis of a fixed size must have that size, and an axis with the name of an input's axis must have the size of
    /// that axis. Other axes can have any size.
    ///
    /// # Errors
    ///
    /// Names the first output that is missing or has another shape, or the backend's error.
    pub fn check_outputs(&self) -> Result<()> {
        let info = &self.session.info;
        for (index, promised) in info.outputs.iter().enumerate() {
            let handle = self.output(index)?;
            let Some(dimensions) = &promised.dimensions else { continue };
            if tensor::kind(&self.session.model, handle)?.0 != ValueKind::Tensor {
                continue;
            }
            let (_, shape) = tensor::describe(&self.session.model, handle)?;
            let keeps = |(size, dimension): (&i64, &Dimension)| {
                self.promised_size(dimension).is_none_or(|promised| promised == *size)
            };
            if shape.len() != dimensions.len() || !shape.iter().zip(dimensions).all(keeps) {
                let axis = |dimension: &Dimension| match (dimension, self.promised_size(dimension))
                {
                    (Dimension::Dynamic(name), Some(size)) => format!("{name} = {size}"),
                    (Dimension::Dynamic(_), None) => "any".to_owned(),
                    (Dimension::Fixed(size), _) => size.to_string(),
                };
                let axes: Vec<_> = dimensions.iter().map(axis).collect();
                let detail = format!(
                    "left output {index} (`{}`) with the shape {shape:?}; the model's information promises \
                     [{}]",
                    promised.name,
                    axes.join(", ")
                );
                return Err(Error::contract("run", detail));
            }
        }
        Ok(())
    }

    /// Returns the size of an axis, if the model's information defines it.
    fn promised_size(&self, dimension: &Dimension) -> Option<i64> {
        let name = match dimension {
            Dimension::Fixed(size) => return i64::try_from(*size).ok(),
            Dimension::Dynamic(name) if name.is_empty() => return None,
            Dimension::Dynamic(name) => name,
        };
        let inputs = self.session.info.inputs.iter().zip(&self.inputs);
        let mut axes =
            inputs.flat_map(|(info, input)| info.dimensions.iter().flatten().zip(input.shape()));
        let is_it = |axis: &Dimension| matches!(axis, Dimension::Dynamic(other) if other == name);
        axes.find(|(axis, _)| is_it(axis)).map(|(_, size)| *size)
    }

    /// Reads an input back from the device.
    ///
    /// # Errors
    ///
    /// As for [`Tensor::read`], or if there is no such input.
    pub fn read_input(&self, index: usize) -> Result<TensorData> {
        let count = self.inputs.len();
        let input = self.inputs.get(index).ok_or_else(|| {
            Error::argument("tensor_read", format!("input {index} of {count} does not exist"))
        })?;
        self.wait()?;
        input.read()
    }

    fn output(&self, index: usize) -> Result<*mut abi::Tensor> {
        self.wait()?;
        let count = self.output_handles.len();
        match self.output_handles.get(index) {
            None => {
                Err(Error::argument("run", format!("output {index} of {count} does not exist")))
            }
            Some(handle) if handle.is_null() => {
                let name = &self.session.info.outputs[index].name;
                Err(Error::contract("run", format!("left output {index} (`{name}`) null")))
            }
            Some(handle) => Ok(*handle),
        }
    }

    fn wait(&self) -> Result<()> {
        if self.session.queued.get() { self.session.synchronise() } else { Ok(()) }
    }
}

fn check(session: &Rc<SessionInner>, index: usize, input: &Tensor) -> Result<()> {
    let (name, prepared) = (&session.info.inputs[index].name, &session.shapes[index]);
    if !std::sync::Arc::ptr_eq(&input.inner.model, &session.model) {
        return Err(Error::argument("run", format!("input `{name}` belongs to another model")));
    }
    let within = |bounds: &ShapeBounds| {
        let (least, greatest) = (&bounds.least[index], &bounds.greatest[index]);
        let shape = input.shape();
        shape.len() == least.len()
            && shape.iter().zip(least).all(|(size, least)| size >= least)
            && shape.iter().zip(greatest).all(|(size, greatest)| size <= greatest)
    };
    if input.shape() != prepared && !session.bounds.as_ref().is_some_and(within) {
        let shape = input.shape();
        let message = format!("input `{name}` has shape {shape:?}, prepared was {prepared:?}");
        return Err(Error::argument("run", message));
    }
    Ok(())
}

impl Drop for Call {
    fn drop(&mut self) {
        // Inputs and outputs must not be dropped while they are in use. The caller had the chance to see the error.
        let _ = self.wait();
        for handle in self.output_handles.drain(..).filter(|handle| !handle.is_null()) {
            tensor::destroy(&self.session.model, handle);
        }
    }
}

impl std::fmt::Debug for Call {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Call").field("inputs", &self.inputs).finish_non_exhaustive()
    }
}
