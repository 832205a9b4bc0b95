//! ONNX Runtime's profile of a run.

use std::ffi::CStr;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use ort::AsPointer;
use ort::session::Session;
use plugin_api::backend::{Error, ErrorCode, ProfiledOperator, Result};
use serde_json::Value;

use crate::tensor::{check, host_allocator};

/// Returns the path for a profile; ONNX Runtime adds the time and an extension.
pub(crate) fn path() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("tare-profile-{}-{next}", std::process::id()))
}

/// Ends profiling, and returns the profile's path.
pub(crate) fn end(session: &Session) -> Result<PathBuf> {
    let allocator = host_allocator()?;
    let mut name = ptr::null_mut();
    let api = ort::api();
    // SAFETY: the session is valid, and the call fills in a string that this side frees.
    unsafe {
        let session = session.ptr().cast_mut();
        check((api.SessionEndProfiling)(session, allocator, &raw mut name))?;
        let path = PathBuf::from(CStr::from_ptr(name).to_string_lossy().into_owned());
        check((api.AllocatorFree)(allocator, name.cast()))?;
        Ok(path)
    }
}

/// Returns the operators of the last run in a profile, and removes it.
pub(crate) fn read(path: &Path) -> Result<Vec<ProfiledOperator>> {
    let wrong = |what: String| {
        let message = format!("ONNX Runtime's profile {} cannot be read: {what}", path.display());
        Error::new(ErrorCode::Internal, message)
    };
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    // It is in the folder for temporary files.
    let _ = std::fs::remove_file(path);
    operators(&text).map_err(wrong)
}

/// Returns the operators of the last run in the text of a profile, in the order of their start. The
/// profiler counts microseconds. For a device with a queue, an operator's time is the
/// time to queue it.
fn operators(text: &str) -> Result<Vec<ProfiledOperator>, String> {
    let events: Vec<Value> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let number = |event: &Value, key: &str| event[key].as_u64();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let run = events
        .iter()
        .filter(|event| event["cat"] == "Session" && event["name"] == "model_run")
        .filter_map(|event| Some((number(event, "ts")?, number(event, "dur")?)))
        .max()
        .ok_or("there is no run in it")?;
    let (begin, end) = (run.0, run.0 + run.1);
    let mut operators: Vec<ProfiledOperator> = events
        .iter()
        .filter(|event| event["cat"] == "Node")
        .filter_map(|event| {
            let name = event["name"].as_str()?.strip_suffix("_kernel_time")?;
            let (start, duration) = (number(event, "ts")?, number(event, "dur")?);
            let arguments = &event["args"];
            (begin..=end).contains(&start).then(|| ProfiledOperator {
                name: name.to_owned(),
                kind: text(&arguments["op_name"]),
                provider: text(&arguments["provider"]),
                start_ns: (start - begin) * 1000,
                duration_ns: duration * 1000,
            })
        })
        .collect();
    operators.sort_by_key(|operator| operator.start_ns);
    Ok(operators)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_are_those_of_the_last_run() {
        let event = |category: &str, name: &str, start: u64, duration: u64| {
            serde_json::json!({
                "cat": category, "name": name, "ts": start, "dur": duration, "ph": "X",
                "args": { "op_name": "Conv", "provider": "CPUExecutionProvider" },
            })
        };
        let text = serde_json::json!([
            event("Session", "model_run", 100, 50),
            event("Node", "conv1_kernel_time", 110, 30),
            event("Session", "model_run", 200, 40),
            event("Node", "conv2_kernel_time", 225, 5),
            event("Node", "conv1_fence_before", 204, 0),
            event("Node", "conv1_kernel_time", 205, 20),
        ]);
        let operator = |name: &str, start_ns, duration_ns| ProfiledOperator {
            name: name.into(),
            kind: "Conv".into(),
            provider: "CPUExecutionProvider".into(),
            start_ns,
            duration_ns,
        };
        assert_eq!(
            operators(&text.to_string()),
            Ok(vec![operator("conv1", 5_000, 20_000), operator("conv2", 25_000, 5_000)])
        );
        assert_eq!(operators("[]"), Err("there is no run in it".into()));
        operators("[").expect_err("cut off");
    }
}
