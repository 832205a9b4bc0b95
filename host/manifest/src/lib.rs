/*!
The manifest: TOML in, typed experiment with source spans out.

A typo must not silently change a benchmark. So an unknown key is an error, a name that refers to
nothing is an error, an `exclude` that cannot match anything is an error. All errors in a file are
found in one pass, each with its place in the text and a hint.

Three layers:

- `shape` reads one kind of value from the TOML tree, and describes it in JSON Schema; a type does
  both in one place, so the schema and the parser cannot diverge;
- `document` lists every table and key of a manifest, once, as such shapes;
- `resolve` turns a document into an [`Experiment`]: references between parts, and rules that
  concern more than one value.

The crate is pure: it sees the text and touches no file.
*/

mod axes;
mod document;
mod error;
mod experiment;
mod mentions;
mod options;
mod pin;
mod precisions;
mod resolve;
mod scalar;
mod shape;
mod suggestions;

use schemars::generate::SchemaSettings;
use toml::de::{DeTable, DeValue};

use crate::document::Manifest;
pub use crate::error::{ManifestError, ManifestErrors};
pub use crate::experiment::{
    Allowance, Ask, Backend, Bound, DeviceChoice, Execution, Experiment, Limit, Matrix, Model,
    OutputCheck, PartialCell, PluginUse, Price, Recommender,
};
pub use crate::mentions::{
    ArchitectureMention, FileMention, LimitMention, Mentions, PluginMention,
};
pub use crate::options::OptionPlace;
pub use crate::precisions::PerPrecision;
use crate::scalar::SchemaVersion;
pub use crate::scalar::{SCHEMA_VERSION, duration, size};
use crate::shape::{At, Described, Reader, Shape};
pub use crate::suggestions::{nearest, suggestions};

/// A commented manifest to begin with: what `host init` writes.
pub const TEMPLATE: &str = include_str!("template.toml");

/// Reads a manifest.
///
/// # Errors
///
/// All errors, in the order of the text. If the text is not TOML, or is written for a later version
/// of the format, only that.
pub fn parse(text: &str) -> Result<Experiment, ManifestErrors> {
    read(text).experiment
}

/// A manifest that was read, be it right or wrong.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// The experiment, or all errors as [`parse`] returns them.
    pub experiment: Result<Experiment, ManifestErrors>,
    /// Everything that the manifest mentions, as far as it could be read.
    pub mentions: Mentions,
}

/// Reads a manifest, and everything it mentions even if it has errors.
#[must_use]
pub fn read(text: &str) -> Reading {
    let _span = tracing::debug_span!("manifest", bytes = text.len()).entered();
    let mut reader = Reader::new(document::home);
    let (experiment, mentions) = read_document(text, &mut reader);
    let mut errors = reader.errors;
    errors.sort_by_key(|error| error.span.start);
    let experiment = match experiment {
        Some(experiment) if errors.is_empty() => {
            tracing::debug!(experiment = experiment.name, "the manifest is good");
            Ok(experiment)
        }
        _ => {
            assert!(!errors.is_empty(), "a manifest that cannot be resolved has an error");
            tracing::debug!(errors = errors.len(), "the manifest is refused");
            Err(ManifestErrors { errors })
        }
    };
    Reading { experiment, mentions }
}

fn read_document(text: &str, reader: &mut Reader) -> (Option<Experiment>, Mentions) {
    let nothing = || (None, Mentions::default());
    let (root, syntax) = DeTable::parse_recoverable(text);
    for error in &syntax {
        let span = error.span().unwrap_or(0..0);
        reader.error(span, format!("this is not TOML: {}", error.message()), "here", None);
    }
    if !syntax.is_empty() {
        return nothing();
    }
    if let Some(node) = root.get_ref().get("schema")
        && SchemaVersion::is_newer(node)
    {
        SchemaVersion::read(node, reader);
        return nothing();
    }
    // A key that the whole file lacks is reported at its beginning.
    let root = At::new(0..0, DeValue::Table(root.into_inner()));
    match Manifest::read(&root, reader) {
        Some(manifest) => resolve::resolve(&manifest, reader),
        None => nothing(),
    }
}

/// Returns the JSON Schema (draft 7, which TOML editors read) of a manifest.
///
/// It is made from the same declarations as the parser. It accepts every manifest that [`parse`]
/// accepts; some rules, such as references between parts, only [`parse`] knows.
#[must_use]
pub fn json_schema() -> serde_json::Value {
    let generator = SchemaSettings::draft07().into_generator();
    let mut schema = generator.into_root_schema_for::<Described<Manifest>>();
    schema.insert("title".to_owned(), "Tare experiment manifest".into());
    schema.to_value()
}
