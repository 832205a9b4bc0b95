//! Targets that read a text or a stream.

use std::path::Path;

use host_record::protocol::{read_message, write_message};
use host_registry::{Metadata, RuntimeLock};

/// Parses a manifest. Its errors must point into its text, or they could not be shown.
pub(crate) fn manifest(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let reading = host_manifest::read(text);
    for error in reading.experiment.err().into_iter().flat_map(|errors| errors.errors) {
        assert!(text.get(error.span.clone()).is_some(), "{:?} is not in the text", error.span);
    }
}

/// Parses a `plugin.toml`.
pub(crate) fn plugin_toml(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let _ = Metadata::parse(text, Path::new("plugin.toml"));
}

/// Parses a `runtime.lock`.
pub(crate) fn runtime_lock(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let _ = RuntimeLock::parse(text, Path::new("runtime.lock"));
}

/// Reads a worker's messages. A message that was read can be written, and reading it again gives the same.
pub(crate) fn protocol(data: &[u8]) {
    let mut rest = data;
    while let Ok(Some(message)) = read_message(&mut rest) {
        let mut written = Vec::new();
        write_message(&mut written, &message).expect("what was read can be written");
        let again = read_message(&mut written.as_slice()).expect("what was written can be read");
        let same =
            again.as_ref().is_some_and(|again| format!("{again:?}") == format!("{message:?}"));
        assert!(same, "{message:?} became {again:?}");
    }
}

/// Checks a metric's answer, for a plugin with the id `latency`.
pub(crate) fn guest_answer(data: &[u8]) {
    host_wasm::fuzzing::answer(data);
}
