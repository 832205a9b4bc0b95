//! Runs: requests that read their inputs and write their outputs in place.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use plugin_api::backend::{
    DataType, Error, ErrorCode, Profile, ProfiledOperator, Result, Session, Tensor, View, ViewMut,
};

use crate::model::{Expected, Ready, run_error};
use crate::native::{self, Failure, PortInfo, Request};

/// A tensor in the host's memory.
#[derive(Debug)]
pub struct OpenvinoTensor {
    /// Unique id, which is never reused, unlike an address.
    id: u64,
    tensor: native::Tensor,
}

impl OpenvinoTensor {
    fn new(tensor: native::Tensor) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self { id: NEXT.fetch_add(1, Ordering::Relaxed), tensor }
    }

    fn zeros(dtype: DataType, shape: &[i64]) -> Result<native::Tensor> {
        native::Tensor::new(dtype, shape).map_err(|failure| {
            // Types that OpenVINO lacks, and tensors without memory.
            let message = format!("no tensor of {dtype} {shape:?}: {failure}");
            Error::new(crate::model::code_or(&failure, ErrorCode::OutOfMemory), message)
        })
    }

    pub(crate) fn from_view(view: &View<'_>) -> Result<Self> {
        let dtype = view.dtype();
        if !DataType::ALL.contains(&dtype) {
            let message = format!("OpenVINO has no elements of type {dtype}");
            return Err(Error::new(ErrorCode::Unsupported, message));
        }
        let bytes = view.contiguous()?;
        check_range(dtype, &bytes)?;
        let mut tensor = Self::zeros(dtype, view.shape())?;
        tensor.bytes_mut().copy_from_slice(&bytes);
        Ok(Self::new(tensor))
    }
}

/// Checks the range: OpenVINO computes with 32-bit integers if the model has wider ones, and truncates.
fn check_range(dtype: DataType, bytes: &[u8]) -> Result<()> {
    let too_wide = match dtype {
        DataType::I64 => {
            elements(bytes).map(|raw| i64::from_ne_bytes(raw).into()).find(is_too_wide)
        }
        DataType::U64 => {
            elements(bytes).map(|raw| u64::from_ne_bytes(raw).into()).find(is_too_wide)
        }
        DataType::U32 => {
            elements(bytes).map(|raw| u32::from_ne_bytes(raw).into()).find(is_too_wide)
        }
        _ => None,
    };
    let Some(value) = too_wide else { return Ok(()) };
    let message = format!("{value} does not fit into int32, in which OpenVINO computes {dtype}");
    Err(Error::new(ErrorCode::Unsupported, message))
}

fn elements<const SIZE: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; SIZE]> {
    bytes.as_chunks::<SIZE>().0.iter().copied()
}

fn is_too_wide(value: &i128) -> bool {
    i32::try_from(*value).is_err()
}

impl Tensor for OpenvinoTensor {
    fn dtype(&self) -> DataType {
        self.tensor.dtype()
    }

    fn shape(&self) -> &[i64] {
        self.tensor.shape()
    }

    fn read(&self, into: &mut ViewMut<'_>) -> Result<()> {
        into.write_bytes(self.tensor.bytes())
    }
}

/// An output of every run: type and shape, if the model fixes them.
type Output = Option<(DataType, Vec<i64>)>;

/// A model that is ready to run.
#[derive(Debug)]
pub struct OpenvinoSession {
    /// Declared before its parts, so that it is dropped first.
    run: Bound,
    /// Requests that are computing, the oldest first.
    started: Vec<Bound>,
    /// Started requests that are done.
    idle: Vec<Bound>,
    inputs: Vec<Expected>,
    shapes: Vec<Vec<i64>>,
    outputs: Vec<Output>,
    ready: Arc<Ready>,
}

/// A request with the tensors that it reads and writes, by their ids.
#[derive(Debug)]
struct Bound {
    request: Request,
    inputs: Vec<Option<u64>>,
    outputs: Vec<Option<u64>>,
}

impl Bound {
    fn new(ready: &Ready, inputs: usize, outputs: usize) -> Result<Self> {
        let request = ready.compiled.request().map_err(|failure| run_error(&failure))?;
        Ok(Self { request, inputs: vec![None; inputs], outputs: vec![None; outputs] })
    }

    fn wait(&mut self) -> Result<()> {
        self.request.wait().map_err(|failure| run_error(&failure))
    }

    /// Returns whether a run with other tensors must wait for this one.
    fn blocks(&self, inputs: &[&OpenvinoTensor], outputs: &[Option<Box<OpenvinoTensor>>]) -> bool {
        let writes = |id: u64| self.outputs.contains(&Some(id));
        let reads = |id: u64| self.inputs.contains(&Some(id));
        inputs.iter().any(|tensor| writes(tensor.id))
            || outputs.iter().flatten().any(|tensor| writes(tensor.id) || reads(tensor.id))
    }
}

impl OpenvinoSession {
    pub(crate) fn new(
        ready: Arc<Ready>,
        inputs: Vec<Expected>,
        shapes: Vec<Vec<i64>>,
    ) -> Result<Self> {
        let fixed = |port: &PortInfo| Some((port.dtype?, port.shape()?));
        let outputs: Vec<Output> = ready.outputs.iter().map(fixed).collect();
        let run = Bound::new(&ready, inputs.len(), outputs.len())?;
        Ok(Self { run, started: Vec::new(), idle: Vec::new(), inputs, shapes, outputs, ready })
    }
}

/// Sets the tensors of a run in a request, if they have changed.
fn bind(
    bound: &mut Bound,
    expected: (&[Expected], &[Vec<i64>]),
    inputs: &[&OpenvinoTensor],
    outputs: &[Option<Box<OpenvinoTensor>>],
) -> Result<()> {
    for (at, input) in inputs.iter().enumerate() {
        if bound.inputs[at] != Some(input.id) {
            check(&expected.0[at], &expected.1[at], input)?;
            bound.inputs[at] = None;
            bound.request.set_input(at, &input.tensor).map_err(refused)?;
            bound.inputs[at] = Some(input.id);
        }
    }
    for (at, output) in outputs.iter().enumerate() {
        if let Some(output) = output
            && bound.outputs[at] != Some(output.id)
        {
            bound.outputs[at] = None;
            bound.request.set_output(at, &output.tensor).map_err(refused)?;
            bound.outputs[at] = Some(output.id);
        }
    }
    Ok(())
}

fn refused(failure: Failure) -> Error {
    Error::new(ErrorCode::InvalidArgument, failure.message)
}

fn check(expected: &Expected, shape: &[i64], input: &OpenvinoTensor) -> Result<()> {
    let (dtype, given) = (input.tensor.dtype(), input.tensor.shape());
    let right = expected.dtype.is_none_or(|wanted| wanted == dtype) && given == shape;
    if right {
        return Ok(());
    }
    let wanted = expected.dtype.map_or(String::new(), |wanted| format!("{wanted} "));
    let name = &expected.name;
    let message = format!("input `{name}` is {dtype} {given:?}, expected {wanted}{shape:?}");
    Err(Error::new(ErrorCode::InvalidArgument, message))
}

impl OpenvinoSession {
    /// Creates missing outputs; outputs with a variable shape are created later.
    fn make_outputs(&self, outputs: &mut [Option<Box<OpenvinoTensor>>]) -> Result<()> {
        for (output, fixed) in outputs.iter_mut().zip(&self.outputs) {
            if let (None, Some((dtype, shape))) = (&output, fixed) {
                let tensor = OpenvinoTensor::zeros(*dtype, shape)?;
                *output = Some(Box::new(OpenvinoTensor::new(tensor)));
            }
        }
        Ok(())
    }

    fn all_fixed(&self) -> bool {
        self.outputs.iter().all(Option::is_some)
    }

    /// Copies the outputs whose shape is known only now, from the request's own memory.
    fn take_outputs(&mut self, outputs: &mut [Option<Box<OpenvinoTensor>>]) -> Result<()> {
        for (at, fixed) in self.outputs.iter().enumerate() {
            if fixed.is_none() {
                let tensor =
                    self.run.request.copy_output(at).map_err(|failure| run_error(&failure))?;
                outputs[at] = Some(Box::new(OpenvinoTensor::new(tensor)));
            }
        }
        Ok(())
    }

    /// Waits for the requests that meet a condition, and keeps the first error.
    fn wait_for(&mut self, mut condition: impl FnMut(&Bound) -> bool) -> Result<()> {
        let mut result = Ok(());
        let mut at = 0;
        while at < self.started.len() {
            if condition(&self.started[at]) {
                let mut bound = self.started.remove(at);
                result = result.and(bound.wait());
                self.idle.push(bound);
            } else {
                at += 1;
            }
        }
        result
    }

    /// Returns a free request.
    fn free(&mut self) -> Result<Bound> {
        if let Some(bound) = self.idle.pop() {
            return Ok(bound);
        }
        if self.started.len() < self.ready.requests {
            return Bound::new(&self.ready, self.inputs.len(), self.outputs.len());
        }
        let mut oldest = self.started.remove(0);
        match oldest.wait() {
            Ok(()) => Ok(oldest),
            Err(error) => {
                self.idle.push(oldest);
                Err(error)
            }
        }
    }
}

impl Session for OpenvinoSession {
    type Tensor = OpenvinoTensor;

    fn used(&self) -> Vec<(String, String)> {
        self.ready.used.clone()
    }

    #[inline]
    fn run(
        &mut self,
        inputs: &[&OpenvinoTensor],
        outputs: &mut [Option<Box<OpenvinoTensor>>],
    ) -> Result<()> {
        self.synchronise()?;
        self.make_outputs(outputs)?;
        if !self.all_fixed() {
            // Data of an earlier run is not overwritten.
            for (output, fixed) in outputs.iter_mut().zip(&self.outputs) {
                if fixed.is_none() {
                    *output = None;
                }
            }
        }
        bind(&mut self.run, (&self.inputs, &self.shapes), inputs, outputs)?;
        self.run.request.infer().map_err(|failure| run_error(&failure))?;
        self.take_outputs(outputs)
    }

    fn enqueue(
        &mut self,
        inputs: &[&OpenvinoTensor],
        outputs: &mut [Option<Box<OpenvinoTensor>>],
    ) -> Result<()> {
        if !self.all_fixed() {
            // Outputs exist only after the run is done.
            return self.run(inputs, outputs);
        }
        self.make_outputs(outputs)?;
        // Requests run concurrently, except those that share tensors, which run in order.
        self.wait_for(|bound| bound.blocks(inputs, outputs))?;
        let mut bound = self.free()?;
        let started = bind(&mut bound, (&self.inputs, &self.shapes), inputs, outputs)
            .and_then(|()| bound.request.start().map_err(|failure| run_error(&failure)));
        match &started {
            Ok(()) => self.started.push(bound),
            Err(_) => self.idle.push(bound),
        }
        started
    }

    fn synchronise(&mut self) -> Result<()> {
        if self.started.is_empty() {
            return Ok(());
        }
        self.wait_for(|_| true)
    }
}

impl Profile for OpenvinoSession {
    /// OpenVINO reports how long each operator took, to a microsecond and in the order of execution,
    /// without start times: an operator is assumed to start when the previous one ends.
    fn profile(&mut self, inputs: &[&OpenvinoTensor]) -> Result<Vec<ProfiledOperator>> {
        self.synchronise()?;
        let compiled = self.ready.profiled()?;
        let mut request = compiled.request().map_err(|failure| run_error(&failure))?;
        for (at, input) in inputs.iter().enumerate() {
            check(&self.inputs[at], &self.shapes[at], input)?;
            request.set_input(at, &input.tensor).map_err(refused)?;
        }
        // One-time work of the first run is not profiled.
        request.infer().map_err(|failure| run_error(&failure))?;
        request.infer().map_err(|failure| run_error(&failure))?;
        let provider = self.ready.device();
        let mut start_ns = 0;
        let operators = request.profile().map_err(|failure| run_error(&failure))?;
        let operators = operators.into_iter().map(|operator| {
            let duration_ns = operator.microseconds.unsigned_abs() * 1000;
            let begun = start_ns;
            start_ns += duration_ns;
            ProfiledOperator {
                name: operator.name,
                kind: operator.kind,
                provider: provider.into(),
                start_ns: begun,
                duration_ns,
            }
        });
        Ok(operators.collect())
    }
}

impl Drop for OpenvinoSession {
    fn drop(&mut self) {
        // Callers that need errors have already synchronised.
        let _ = self.wait_for(|_| true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_that_do_not_fit_are_found() {
        let bytes = |values: &[i64]| -> Vec<u8> {
            values.iter().flat_map(|value| value.to_ne_bytes()).collect()
        };
        check_range(DataType::I64, &bytes(&[0, i64::from(i32::MIN), i64::from(i32::MAX)]))
            .expect("they fit");
        let error = check_range(DataType::I64, &bytes(&[1, 1 << 31])).expect_err("too wide");
        assert_eq!(error.code, ErrorCode::Unsupported);
        let message = "2147483648 does not fit into int32, in which OpenVINO computes int64";
        assert_eq!(error.message, message);
        check_range(DataType::U32, &u32::MAX.to_ne_bytes()).expect_err("too wide");
        check_range(DataType::U64, &u64::MAX.to_ne_bytes()).expect_err("too wide");
        check_range(DataType::F64, &u64::MAX.to_ne_bytes()).expect("not an integer");
    }
}
