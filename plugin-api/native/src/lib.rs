/*!
The native plugin ABI.

- [`abi`] mirrors `include/plugin_api.h`, which is the contract.
- [`backend`] is for authors of a backend in Rust: a few traits, and [`export_backend!`](crate::export_backend).
- [`client`] is the host's side over a plugin's entry point.

The header explains ownership, growth, errors and threads; this crate does not repeat it.
*/

pub mod abi;
pub mod backend;
pub mod client;
mod types;
