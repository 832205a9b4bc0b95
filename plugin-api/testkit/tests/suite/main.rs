//! The conformance suite on backends in C and C++, and on broken ones.

mod broken;
mod c_backend;
mod careless;
mod common;
