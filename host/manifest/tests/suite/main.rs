//! The manifest: errors, examples and the schema.

mod errors;
mod examples;
mod schema;
