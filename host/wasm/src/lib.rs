//! The sandbox for WASM plugins: engine, limits, and adapters for the three worlds.
