//! The native plugin ABI: its mirror in Rust, a safe SDK for backends, and the host's side.
