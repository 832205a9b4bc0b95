//! Planning: laws and examples.

mod laws;
mod plan;
