//! The guest SDK for WASM plugins.
