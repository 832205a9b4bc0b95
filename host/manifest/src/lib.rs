//! The manifest: TOML in, typed experiment with source spans out.
