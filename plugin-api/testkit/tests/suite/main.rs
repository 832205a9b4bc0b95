//! The conformance suite on backends in C and C++, and on broken ones.

mod broken;
mod c_backend;
mod careless;
mod common;
mod versions;

/// The example in Rust, once, since it exports a symbol.
#[path = "../../../native/examples/scale.rs"]
pub mod rust_example;
