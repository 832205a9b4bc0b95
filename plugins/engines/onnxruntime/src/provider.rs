//! An execution provider, set up by a plugin.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::ops::RangeInclusive;
use std::sync::Arc;

use ort::AsPointer;
use ort::session::builder::SessionBuilder;
use plugin_api::backend::Result;

use crate::Accelerator;

/// Options of an execution provider by ONNX Runtime's names.
pub type ProviderOptions = BTreeMap<String, String>;

/// An execution provider on a device.
pub trait Provider: Send + Sync + 'static {
    /// Returns ONNX Runtime's name for it, such as `CUDAExecutionProvider`.
    fn name(&self) -> &str;

    /// Returns the precisions in which it computes without implicit conversion.
    fn precisions(&self) -> &[&str];

    /// Returns the options for sessions of a precision. The manifest can add others, but not
    /// replace them.
    fn options(&self, precision: &str) -> ProviderOptions {
        let _ = precision;
        ProviderOptions::new()
    }

    /// Adds it to a session's builder.
    ///
    /// # Errors
    ///
    /// If it does not exist, or refuses the options.
    fn append(
        &self,
        builder: SessionBuilder,
        options: &ProviderOptions,
    ) -> ort::Result<SessionBuilder>;

    /// Returns whether it computes in `precision` with a model whose file has another one. ONNX
    /// Runtime itself never does.
    fn converts(&self, file: &str, precision: &str) -> bool {
        let _ = (file, precision);
        false
    }

    /// Returns whether sessions are created for the shapes and the precision that a model is prepared for. Such a
    /// session is created in `prepare`; otherwise one is created when the model is loaded, and shared.
    fn specialises(&self) -> bool {
        false
    }

    /// Returns the possible sizes of an axis. Beyond them a provider may end the process instead of
    /// refusing.
    fn axes(&self) -> RangeInclusive<i64> {
        0..=i64::MAX
    }

    /// Returns the same provider with a queue of its own, for a session that runs beside others; `None` if sessions can
    /// share what this one has.
    ///
    /// # Errors
    ///
    /// If sessions cannot run side by side, or the device gives no more queues.
    fn beside(&self) -> Result<Option<Box<dyn Provider>>> {
        Ok(None)
    }

    /// Returns the device's memory and queue, if tensors live there. Without it tensors live in the
    /// host's memory, and ONNX Runtime copies in each run as needed.
    fn accelerator(&self) -> Option<Arc<dyn Accelerator>> {
        None
    }

    /// Returns ONNX Runtime's name for the provider's memory, and the device's number, if it has an allocator for it.
    fn memory(&self) -> Option<(&'static CStr, i32)> {
        self.accelerator().map(|accelerator| accelerator.memory())
    }

    /// Returns other settings that a session uses, for the record.
    fn used(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// Checks the log of creating a session, for providers that report failures only there.
    ///
    /// # Errors
    ///
    /// The failure, in a sentence.
    fn check_log(&self, log: &str) -> Result<(), String> {
        let _ = log;
        Ok(())
    }
}

/// Adds a provider by its name.
///
/// # Errors
///
/// If the library has no such provider, or it refuses the options.
pub fn append_by_name(
    mut builder: SessionBuilder,
    name: &CStr,
    options: &ProviderOptions,
) -> ort::Result<SessionBuilder> {
    let strings = |texts: Vec<&String>| {
        texts.into_iter().map(|text| CString::new(text.as_str())).collect::<Result<Vec<_>, _>>()
    };
    let (keys, values) = (strings(options.keys().collect())?, strings(options.values().collect())?);
    let pointers = |strings: &[CString]| strings.iter().map(|it| it.as_ptr()).collect::<Vec<_>>();
    let (key_pointers, value_pointers) = (pointers(&keys), pointers(&values));
    // SAFETY: builder, name, keys and values are valid during the call, which copies them.
    unsafe {
        let append = ort::api().SessionOptionsAppendExecutionProvider;
        let (keys, values) = (key_pointers.as_ptr(), value_pointers.as_ptr());
        let status = append(builder.ptr_mut(), name.as_ptr(), keys, values, options.len());
        ort::Error::result_from_status(status)?;
    }
    Ok(builder)
}

/// The processor. The engine itself adds its provider.
#[derive(Debug)]
pub struct Cpu;

impl Cpu {
    /// ONNX Runtime's name.
    pub const NAME: &'static str = "CPUExecutionProvider";
}

impl Provider for Cpu {
    fn name(&self) -> &str {
        Self::NAME
    }

    /// Returns fp32 and int8. The processor has few operators in fp16 and bf16: ONNX Runtime puts casts
    /// around the others and computes in fp32, so neither is offered.
    fn precisions(&self) -> &[&str] {
        &["fp32", "int8"]
    }

    fn append(&self, builder: SessionBuilder, _: &ProviderOptions) -> ort::Result<SessionBuilder> {
        Ok(builder)
    }

    fn memory(&self) -> Option<(&'static CStr, i32)> {
        Some((c"Cpu", 0))
    }
}
