//! Statistics: laws, reference values, and what holds on simulated samples.

mod laws;
mod reference;
mod simulated;
