/*!
The manifest: TOML in, typed experiment with source spans out.

A typo must not silently change a benchmark. So an unknown key is an error, a name that refers to
nothing is an error, an `exclude` that can match nothing is an error, and all errors of a file are
found in one go, each with its place in the text and what to do about it.

Three layers:

- `shape` reads one kind of value from the TOML tree, and says in JSON Schema what it accepts; a
  type does both in one place, so that the schema and the parser cannot drift apart;
- `document` lists every table and key of a manifest, once, as such shapes;
- `resolve` turns a document into an [`Experiment`]: defaults, references between parts, and rules
  that concern more than one value.

The crate is pure: it sees the text and touches no file.
*/

mod error;
mod experiment;

pub use error::{ManifestError, ManifestErrors};
pub use experiment::{
    Backend, Bound, DeviceChoice, Experiment, Limit, Matrix, Model, PartialCell, PluginUse,
    Recommender,
};
