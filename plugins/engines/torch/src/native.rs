/*!
Functions of libtorch that the crate `tch` does not reach. `native.cpp` is the other side.
*/

use std::ffi::{CStr, c_char, c_int, c_void};

use tch::{Device, Kind, Tensor};

use crate::error::{Wrong, wrong};

/// A tensor of libtorch, behind the pointer that the crate `tch` has.
type Raw = *mut c_void;

unsafe extern "C" {
    fn tare_torch_free(message: *mut c_char);
    fn tare_torch_autocast_begin(device: c_int, kind: c_int) -> *mut c_char;
    fn tare_torch_autocast_end(device: c_int) -> *mut c_char;
    fn tare_torch_deterministic(on: bool) -> *mut c_char;
    fn tare_torch_tf32(on: bool) -> *mut c_char;
    fn tare_torch_channels_last(tensor: Raw, made: *mut Raw) -> *mut c_char;
    fn tare_torch_forget_gradient(tensor: Raw) -> *mut c_char;
    fn tare_torch_backward(outputs: *const Raw, gradients: *const Raw, n: usize) -> *mut c_char;
    fn tare_torch_add(tensors: *const Raw, others: *const Raw, count: usize) -> *mut c_char;
    fn tare_torch_copy(tensors: *const Raw, others: *const Raw, count: usize) -> *mut c_char;
    fn tare_torch_set_device(device: c_int) -> *mut c_char;
    fn tare_torch_scale(tensors: *const Raw, count: usize, factor: f64) -> *mut c_char;
    fn tare_torch_sgd(
        weights: *const Raw,
        gradients: *const Raw,
        momenta: *const Raw,
        count: usize,
        rate: f64,
        momentum: f64,
        decay: f64,
        found_infinity: Raw,
    ) -> *mut c_char;
    fn tare_torch_adam(
        weights: *const Raw,
        gradients: *const Raw,
        means: *const Raw,
        squares: *const Raw,
        steps: Raw,
        count: usize,
        rate: f64,
        decay: f64,
        decoupled: bool,
        found_infinity: Raw,
    ) -> *mut c_char;
    fn tare_torch_unscale(
        gradients: *const Raw,
        count: usize,
        found_infinity: Raw,
        inverse: Raw,
    ) -> *mut c_char;
    fn tare_torch_update_scale(scale: Raw, growth: Raw, found_infinity: Raw) -> *mut c_char;
    fn tare_torch_allocator(
        device: c_int,
        used: *mut u64,
        peak: *mut u64,
        reserved: *mut u64,
    ) -> *mut c_char;
    fn tare_torch_forget_peak(device: c_int) -> *mut c_char;
    fn tare_torch_count_begin() -> *mut c_char;
    fn tare_torch_counted(used: *mut i64, peak: *mut i64);
    fn tare_torch_count_end() -> *mut c_char;
    fn tare_torch_event(device: c_int, made: *mut Raw) -> *mut c_char;
    fn tare_torch_elapsed(first: Raw, last: Raw, milliseconds: *mut f64) -> *mut c_char;
    fn tare_torch_event_free(event: Raw);
    fn tare_torch_graph(device: c_int, made: *mut Raw) -> *mut c_char;
    fn tare_torch_graph_begin(graph: Raw) -> *mut c_char;
    fn tare_torch_graph_end(graph: Raw) -> *mut c_char;
    fn tare_torch_graph_replay(graph: Raw) -> *mut c_char;
    fn tare_torch_graph_free(graph: Raw) -> *mut c_char;
    fn tare_torch_sequence() -> u64;
    fn tare_torch_observe_begin(device: c_int) -> *mut c_char;
    fn tare_torch_observe_end(
        context: *mut c_void,
        each: extern "C" fn(*mut c_void, *const c_char, i64, i64, i64),
    ) -> *mut c_char;
}

/// Takes over a message.
fn done(message: *mut c_char) -> Result<(), Wrong> {
    if message.is_null() {
        return Ok(());
    }
    // SAFETY: a message is a C string of `strdup`, and this is its only owner.
    let text = unsafe {
        let text = CStr::from_ptr(message).to_string_lossy().into_owned();
        tare_torch_free(message);
        text
    };
    Err(tch::TchError::Torch(text).into())
}

fn number(device: Device) -> c_int {
    match device {
        Device::Cuda(index) => index as c_int,
        Device::Mps => -2,
        _ => -1,
    }
}

fn raw(tensor: &Tensor) -> Raw {
    tensor.as_ptr().cast_mut().cast()
}

fn all(tensors: &[Tensor]) -> Vec<Raw> {
    tensors.iter().map(raw).collect()
}

fn maybe(tensor: Option<&Tensor>) -> Raw {
    tensor.map_or(std::ptr::null_mut(), raw)
}

// SAFETY, for all calls below: pointers are those of tensors or events that live during the call, counts are those of
// the lists, and results are written to places of their types.

/// Computes something with products in another kind of numbers.
pub(crate) fn autocast<T>(
    device: Device,
    kind: Option<Kind>,
    work: impl FnOnce() -> Result<T, Wrong>,
) -> Result<T, Wrong> {
    let Some(kind) = kind else { return work() };
    // `c10::ScalarType`
    let code = if kind == Kind::Half { 5 } else { 15 };
    // SAFETY: as above.
    done(unsafe { tare_torch_autocast_begin(number(device), code) })?;
    let result = work();
    // SAFETY: as above.
    done(unsafe { tare_torch_autocast_end(number(device)) })?;
    result
}

/// Sets whether operators without a deterministic implementation are refused. The setting is the process's.
pub(crate) fn set_deterministic(on: bool) -> Result<(), Wrong> {
    // SAFETY: as above.
    done(unsafe { tare_torch_deterministic(on) })
}

/// Sets whether products of fp32 may be narrowed to TF32 on graphics processors. The setting is the process's.
pub(crate) fn set_tf32(on: bool) -> Result<(), Wrong> {
    // SAFETY: as above.
    done(unsafe { tare_torch_tf32(on) })
}

/// Returns the tensor with its channels next to each other in memory.
pub(crate) fn channels_last(tensor: &Tensor) -> Result<Tensor, Wrong> {
    let mut made = std::ptr::null_mut();
    // SAFETY: as above; the new tensor belongs to the caller.
    unsafe {
        done(tare_torch_channels_last(raw(tensor), &raw mut made))?;
        Ok(Tensor::from_ptr(made.cast()))
    }
}

/// Drops the gradients of weights.
pub(crate) fn forget_gradients(weights: &[Tensor]) -> Result<(), Wrong> {
    // SAFETY: as above.
    weights.iter().try_for_each(|weight| done(unsafe { tare_torch_forget_gradient(raw(weight)) }))
}

/// Computes the gradients of all leaves from those of the outputs.
pub(crate) fn backward(outputs: &[Tensor], gradients: &[Tensor]) -> Result<(), Wrong> {
    if outputs.len() != gradients.len() {
        return Err(wrong!("{} outputs have {} gradients", outputs.len(), gradients.len()));
    }
    // SAFETY: as above.
    done(unsafe {
        tare_torch_backward(all(outputs).as_ptr(), all(gradients).as_ptr(), outputs.len())
    })
}

fn both(tensors: &[Tensor], others: &[Tensor]) -> Result<usize, Wrong> {
    match tensors.len() == others.len() {
        true => Ok(tensors.len()),
        false => Err(wrong!("{} tensors go with {} others", tensors.len(), others.len())),
    }
}

/// Adds others to tensors in place.
pub(crate) fn add(tensors: &[Tensor], others: &[Tensor]) -> Result<(), Wrong> {
    let count = both(tensors, others)?;
    // SAFETY: as above.
    done(unsafe { tare_torch_add(all(tensors).as_ptr(), all(others).as_ptr(), count) })
}

/// Overwrites tensors with others.
pub(crate) fn copy(tensors: &[Tensor], others: &[Tensor]) -> Result<(), Wrong> {
    let count = both(tensors, others)?;
    // SAFETY: as above.
    done(unsafe { tare_torch_copy(all(tensors).as_ptr(), all(others).as_ptr(), count) })
}

/// Makes a graphics processor that of this thread.
pub(crate) fn set_device(device: Device) -> Result<(), Wrong> {
    // SAFETY: as above.
    done(unsafe { tare_torch_set_device(number(device)) })
}

/// Multiplies all in place.
pub(crate) fn scale(tensors: &[Tensor], factor: f64) -> Result<(), Wrong> {
    // SAFETY: as above.
    done(unsafe { tare_torch_scale(all(tensors).as_ptr(), tensors.len(), factor) })
}

/// Weights with their gradients, and whether one of these was found not to be finite.
pub(crate) struct Update<'a> {
    pub(crate) weights: &'a [Tensor],
    pub(crate) gradients: &'a [Tensor],
    pub(crate) rate: f64,
    pub(crate) decay: f64,
    pub(crate) found_infinity: Option<&'a Tensor>,
}

/// Makes a step of stochastic gradient descent. `momenta` are as many as the weights, unless the momentum is 0.
pub(crate) fn sgd(update: &Update<'_>, momenta: &[Tensor], momentum: f64) -> Result<(), Wrong> {
    let Update { weights, gradients, rate, decay, found_infinity } = *update;
    // SAFETY: as above.
    done(unsafe {
        tare_torch_sgd(
            all(weights).as_ptr(),
            all(gradients).as_ptr(),
            all(momenta).as_ptr(),
            weights.len(),
            rate,
            momentum,
            decay,
            maybe(found_infinity),
        )
    })
}

/// Makes a step of Adam, or of AdamW, whose decay is decoupled from the gradients.
pub(crate) fn adam(
    update: &Update<'_>,
    [means, squares]: [&[Tensor]; 2],
    steps: &Tensor,
    decoupled: bool,
) -> Result<(), Wrong> {
    let Update { weights, gradients, rate, decay, found_infinity } = *update;
    // SAFETY: as above.
    done(unsafe {
        tare_torch_adam(
            all(weights).as_ptr(),
            all(gradients).as_ptr(),
            all(means).as_ptr(),
            all(squares).as_ptr(),
            raw(steps),
            weights.len(),
            rate,
            decay,
            decoupled,
            maybe(found_infinity),
        )
    })
}

/// Multiplies gradients by the inverse of the loss's scale, and sets `found_infinity` to 1 if one is not finite.
pub(crate) fn unscale(
    gradients: &[Tensor],
    found_infinity: &Tensor,
    inverse: &Tensor,
) -> Result<(), Wrong> {
    let (count, found) = (gradients.len(), raw(found_infinity));
    // SAFETY: as above.
    done(unsafe { tare_torch_unscale(all(gradients).as_ptr(), count, found, raw(inverse)) })
}

/// Halves the scale after gradients that are not finite, and doubles it after 2000 steps with finite ones.
pub(crate) fn update_scale(
    scale: &Tensor,
    growth: &Tensor,
    found_infinity: &Tensor,
) -> Result<(), Wrong> {
    // SAFETY: as above.
    done(unsafe { tare_torch_update_scale(raw(scale), raw(growth), raw(found_infinity)) })
}

/// Figures of an allocator in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Memory {
    pub(crate) used: u64,
    pub(crate) peak: u64,
    pub(crate) reserved: u64,
}

/// Returns the figures of a graphics processor's allocator.
pub(crate) fn allocator(device: Device) -> Result<Memory, Wrong> {
    let (mut used, mut peak, mut reserved) = (0, 0, 0);
    // SAFETY: as above.
    done(unsafe {
        tare_torch_allocator(number(device), &raw mut used, &raw mut peak, &raw mut reserved)
    })?;
    Ok(Memory { used, peak, reserved })
}

/// Makes the peak of a graphics processor's allocator what is in use now.
pub(crate) fn forget_peak(device: Device) -> Result<(), Wrong> {
    // SAFETY: as above.
    done(unsafe { tare_torch_forget_peak(number(device)) })
}

/// Counts what this thread allocates on the processor while it exists.
#[derive(Debug)]
pub(crate) struct Counting(());

impl Counting {
    /// Begins at zero.
    pub(crate) fn begin() -> Result<Self, Wrong> {
        // SAFETY: as above.
        done(unsafe { tare_torch_count_begin() })?;
        Ok(Self(()))
    }

    /// Returns the bytes in use, and the most since the last call, both relative to the beginning.
    pub(crate) fn read(&self) -> (i64, i64) {
        let (mut used, mut peak) = (0, 0);
        // SAFETY: as above.
        unsafe { tare_torch_counted(&raw mut used, &raw mut peak) };
        (used, peak)
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        // SAFETY: as above. An error would mean that it was not begun.
        drop(done(unsafe { tare_torch_count_end() }));
    }
}

/// A moment on a device.
#[derive(Debug)]
pub(crate) struct Event(Raw);

impl Event {
    /// Records one after all that is queued.
    pub(crate) fn record(device: Device) -> Result<Self, Wrong> {
        let mut made = std::ptr::null_mut();
        // SAFETY: as above; the event belongs to the caller.
        done(unsafe { tare_torch_event(number(device), &raw mut made) })?;
        Ok(Self(made))
    }

    /// Waits for a later one, and returns the nanoseconds between both.
    pub(crate) fn until(&self, later: &Self) -> Result<u64, Wrong> {
        let mut milliseconds = 0.0;
        // SAFETY: as above.
        done(unsafe { tare_torch_elapsed(self.0, later.0, &raw mut milliseconds) })?;
        Ok((milliseconds * 1e6) as u64)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: this is its only owner.
        unsafe { tare_torch_event_free(self.0) };
    }
}

/// A graph of CUDA: the kernels of a run, which are queued again as one.
#[derive(Debug)]
pub(crate) struct CudaGraph(Raw);

impl CudaGraph {
    /// Records the kernels that `work` queues. Before that, `work` runs a few times, so that libraries have what they make
    /// on first use.
    pub(crate) fn record<T>(
        device: Device,
        mut work: impl FnMut() -> Result<T, Wrong>,
    ) -> Result<(Self, T), Wrong> {
        let mut made = std::ptr::null_mut();
        // SAFETY: as above; the graph belongs to the caller.
        done(unsafe { tare_torch_graph(number(device), &raw mut made) })?;
        let graph = Self(made);
        for _ in 0..3 {
            work()?;
        }
        // SAFETY: as above.
        done(unsafe { tare_torch_graph_begin(graph.0) })?;
        let result = work();
        // SAFETY: as above. After an error in between, ending fails as well, and says less.
        let ended = done(unsafe { tare_torch_graph_end(graph.0) });
        let result = result?;
        ended?;
        Ok((graph, result))
    }

    /// Queues what was recorded.
    #[inline]
    pub(crate) fn replay(&self) -> Result<(), Wrong> {
        // SAFETY: as above.
        done(unsafe { tare_torch_graph_replay(self.0) })
    }
}

impl Drop for CudaGraph {
    fn drop(&mut self) {
        // SAFETY: this is its only owner.
        drop(done(unsafe { tare_torch_graph_free(self.0) }));
    }
}

/// Returns the number that the next differentiable operator gets. Its function of the backward pass has the same.
pub(crate) fn next_sequence() -> u64 {
    // SAFETY: it reads a number of this thread.
    unsafe { tare_torch_sequence() }
}

/// A function of the backward pass, as it ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BackwardFunction {
    /// Such as `ConvolutionBackward0`.
    pub(crate) name: String,
    /// The number of the operator that it belongs to, if it has one.
    pub(crate) sequence: Option<u64>,
    /// In nanoseconds from the beginning of the observation.
    pub(crate) start_ns: u64,
    pub(crate) duration_ns: u64,
}

/// Observes the backward pass that `work` makes.
pub(crate) fn observe_backward(
    device: Device,
    work: impl FnOnce() -> Result<(), Wrong>,
) -> Result<Vec<BackwardFunction>, Wrong> {
    extern "C" fn keep(
        context: *mut c_void,
        name: *const c_char,
        sequence: i64,
        start: i64,
        duration: i64,
    ) {
        // SAFETY: the context is the list below, and the name a C string that lives during the call.
        let (found, name) = unsafe {
            (&mut *context.cast::<Vec<BackwardFunction>>(), CStr::from_ptr(name).to_string_lossy())
        };
        found.push(BackwardFunction {
            name: name.into_owned(),
            sequence: u64::try_from(sequence).ok(),
            start_ns: start.max(0) as u64,
            duration_ns: duration.max(0) as u64,
        });
    }
    // SAFETY: as above.
    done(unsafe { tare_torch_observe_begin(number(device)) })?;
    let result = work();
    let mut found: Vec<BackwardFunction> = Vec::new();
    // SAFETY: as above; the list lives during the call.
    done(unsafe { tare_torch_observe_end((&raw mut found).cast(), keep) })?;
    result?;
    Ok(found)
}
