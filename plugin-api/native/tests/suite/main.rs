//! Tests of both sides of the ABI.

mod client;
mod contract;
mod layout;
