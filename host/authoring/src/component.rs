//! Core WebAssembly modules, as compilers of C make them, into components.

use std::path::Path;

use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
};
use wit_component::ComponentEncoder;

use crate::error::{Error, Result};

/// Returns whether bytes begin as a component does, and not as a core module.
#[must_use]
pub fn is_component(bytes: &[u8]) -> bool {
    matches!(bytes, [0, b'a', b's', b'm', _, _, 1, 0, ..])
}

/// Returns whether bytes begin as a core module does.
fn is_module(bytes: &[u8]) -> bool {
    matches!(bytes, [0, b'a', b's', b'm', 1, 0, 0, 0, ..])
}

/// Returns the component for a compiler's output. A component stays as it is.
pub(crate) fn component(path: &Path, bytes: Vec<u8>) -> Result<Vec<u8>> {
    if is_component(&bytes) {
        return Ok(bytes);
    }
    let fails = |reason: String| Error::NoComponent { path: path.to_owned(), reason };
    if !is_module(&bytes) {
        return Err(fails("it does not begin as WebAssembly does".into()));
    }
    let encode = || {
        ComponentEncoder::default()
            .validate(true)
            .module(&bytes)?
            .adapter(WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER)?
            .encode()
    };
    encode().map_err(|error| fails(format!("{error:#}")))
}
