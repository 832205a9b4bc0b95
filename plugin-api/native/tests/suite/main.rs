//! The ABI, from both of its sides.

mod client;
mod contract;
mod layout;
