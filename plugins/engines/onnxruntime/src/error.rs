//! ONNX Runtime's errors in the ABI's terms.

use ort::ErrorCode as Code;
use plugin_api::backend::{Error, ErrorCode};

/// The operation that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Creating a session from a model's file.
    Loading,
    /// Running a session, or handling tensors.
    Running,
}

/// Converts an error of ONNX Runtime, with its log.
#[must_use]
pub fn convert<R>(error: &ort::Error<R>, operation: Operation) -> Error {
    let message = error.message().trim();
    let (code, shown) = match without_kernel(message) {
        Some(shown) => (ErrorCode::Unsupported, shown),
        None => (code(error.code(), message, operation), first_line(message).to_owned()),
    };
    Error::new(code, shown).with_details({
        let log = crate::log::taken();
        match message.split_once('\n') {
            Some((_, rest)) => format!("{rest}\n{log}"),
            None => log,
        }
    })
}

/// Explains a failed assertion of ONNX Runtime for a node without a provider: "Provider type
/// for MaxPool node with name 'maxpool_2' is not set."
fn without_kernel(message: &str) -> Option<String> {
    let (_, rest) = message.split_once("Provider type for ")?;
    let (node, _) = rest.split_once(" is not set")?;
    Some(format!("no provider has a kernel for the {node}, in the element types that it has"))
}

fn first_line(message: &str) -> &str {
    message.lines().next().unwrap_or("ONNX Runtime failed without a message")
}

/// Messages about lack of memory, for which allocators have no error code.
const MEMORY: &[&str] = &[
    "bad_alloc",
    "CUDA_ERROR_OUT_OF_MEMORY",
    "CUDNN_STATUS_ALLOC_FAILED",
    "Failed to allocate memory",
    "hipErrorOutOfMemory",
    "out of memory",
    "Out of memory",
    "QNN_COMMON_ERROR_MEM_ALLOC",
];

/// Message if an operator would have to fall back to the processor, which is not allowed.
const FELL_BACK: &str = "fallback to CPU EP has been explicitly disabled";

/// Returns whether an error is about a fallback to the processor that is not allowed.
pub(crate) fn fell_back(error: &Error) -> bool {
    error.message.contains(FELL_BACK)
}

/// Messages about an unsupported operator, version or device.
const UNSUPPORTED: &[&str] = &[
    "Could not find an implementation for",
    "NOT_IMPLEMENTED",
    "No Op registered for",
    FELL_BACK,
    "is not a registered function/op",
    "is under development and support for this is limited",
    "Unsupported model IR version",
];

/// Messages of a device, among those of kernels that fail.
const OF_DEVICES: &[&str] =
    &["CUBLAS", "CUDA", "CUDNN", "HIP", "MIGraphX", "MIOPEN", "QNN", "WebGPU", "hipError"];

/// Returns a message without the path of the model, which is any text.
fn without_path(message: &str) -> &str {
    let rest = message.strip_prefix("Load model from ");
    rest.and_then(|rest| rest.split_once(" failed:")).map_or(message, |(_, rest)| rest)
}

fn code(code: Code, message: &str, operation: Operation) -> ErrorCode {
    let message = without_path(message);
    let mentions = |texts: &[&str]| texts.iter().any(|text| message.contains(text));
    if mentions(MEMORY) {
        return ErrorCode::OutOfMemory;
    }
    if mentions(UNSUPPORTED) {
        return ErrorCode::Unsupported;
    }
    match (code, operation) {
        (Code::NoSuchFile | Code::NotFound, _) => ErrorCode::NotFound,
        (Code::NotImplemented, _) => ErrorCode::Unsupported,
        (Code::ExecutionProviderFailure | Code::DeviceReset | Code::EngineError, _) => {
            ErrorCode::Device
        }
        (Code::NoModel | Code::InvalidProtobuf | Code::InvalidGraph, _) => ErrorCode::InvalidModel,
        (Code::InvalidArgument, Operation::Running) => ErrorCode::InvalidArgument,
        // A kernel that refuses its inputs: a shape or an index that does not fit.
        (_, Operation::Running)
            if message.starts_with("Non-zero status code returned while running")
                && !mentions(OF_DEVICES) =>
        {
            ErrorCode::InvalidArgument
        }
        // A provider's library that cannot be loaded, or lacks a dependency.
        _ if message.contains("Failed to load library")
            || message.contains("cannot open shared") =>
        {
            ErrorCode::RuntimeMissing
        }
        _ if message.contains("Error creating execution provider") => ErrorCode::Device,
        (_, Operation::Loading) => ErrorCode::InvalidModel,
        (_, Operation::Running) => ErrorCode::Device,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_tell_what_codes_do_not() {
        let of = |message| code(Code::GenericFailure, message, Operation::Loading);
        let cuda = "BFCArena::AllocateRawInternal Failed to allocate memory for requested buffer";
        assert_eq!(of(cuda), ErrorCode::OutOfMemory);
        let qnn =
            "Failed to finalize QNN graph. Error: QNN_COMMON_ERROR_MEM_ALLOC: Memory allocation …";
        assert_eq!(of(qnn), ErrorCode::OutOfMemory);
        assert_eq!(of("Frob(-1) is not a registered function/op"), ErrorCode::Unsupported);
        let library = "Failed to load library libonnxruntime_providers_cuda.so with error: …";
        assert_eq!(of(library), ErrorCode::RuntimeMissing);
        assert_eq!(of("Type Error: Type parameter (T) is bound twice"), ErrorCode::InvalidModel);
        let unset = "transformer_memcpy.cc:253 … Provider type for MaxPool node with name 'pool' is not set.";
        assert_eq!(
            without_kernel(unset).as_deref(),
            Some(
                "no provider has a kernel for the MaxPool node with name 'pool', in the element types \
                 that it has"
            )
        );
        assert_eq!(without_kernel("Provider type"), None);
        let run = code(Code::RuntimeException, "CUDA failure 700", Operation::Running);
        assert_eq!(run, ErrorCode::Device);
        let running = |message| code(Code::RuntimeException, message, Operation::Running);
        let kernel = "Non-zero status code returned while running Reshape node. Name:'' Status Message: \
                      core/providers/cpu/tensor/reshape_helper.h:49 …";
        assert_eq!(running(kernel), ErrorCode::InvalidArgument);
        let cuda = "Non-zero status code returned while running Conv node. Name:'' Status Message: CUDNN failure 4";
        assert_eq!(running(cuda), ErrorCode::Device);
        let path = "Load model from /models/out of memory/NOT_IMPLEMENTED.onnx failed:Node () Op (Split) …";
        assert_eq!(of(path), ErrorCode::InvalidModel);
    }
}
