//! A model with inputs, and the outputs that are right for them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use plugin_api::client::{DataType, TensorData, element_count};
use serde::Deserialize;

/// What a backend is checked with. As a TOML file:
///
/// ```toml
/// model = "three.scale"      # beside this file
/// precision = "fp32"
/// threads = 1                # may be left out
///
/// [options]                  # may be left out
///
/// [[input]]                  # in the model's order
/// dtype = "float32"
/// shape = [2, 1]
/// values = [1.0, -2.5]
///
/// [[output]]                 # in the model's order
/// dtype = "float32"
/// shape = [2, 1]
/// values = [3.0, -7.5]
/// tolerance = 0.0            # largest absolute difference; 0 if left out
/// ```
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fixture {
    /// The model's file.
    pub model: PathBuf,
    /// The device; the first that the backend lists if left out.
    pub device: Option<String>,
    /// The precision to prepare for.
    pub precision: String,
    /// Threads to compute with.
    pub threads: Option<u32>,
    /// Options of the backend.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
    /// Inputs, in the model's order.
    #[serde(rename = "input", default)]
    pub inputs: Vec<Values>,
    /// Outputs, in the model's order.
    #[serde(rename = "output")]
    pub outputs: Vec<Values>,
}

/// Elements of an input or output.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Values {
    /// Element type by NumPy's name.
    pub dtype: String,
    /// Size of each axis.
    pub shape: Vec<i64>,
    /// Elements in C order.
    pub values: Vec<f64>,
    /// For an output: the largest absolute difference that is still right.
    #[serde(default)]
    pub tolerance: f64,
}

/// A fixture cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {detail}", path.display())]
pub struct FixtureError {
    /// The fixture's file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub detail: String,
}

impl Fixture {
    /// Reads a fixture. The model's path is taken from the fixture's folder.
    ///
    /// # Errors
    ///
    /// Where the file cannot be read, or says something impossible.
    pub fn read(path: &Path) -> Result<Self, FixtureError> {
        let wrong = |detail: String| FixtureError { path: path.into(), detail };
        let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        let mut fixture: Self = toml::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        fixture.model = path.parent().unwrap_or(Path::new("")).join(&fixture.model);
        for values in fixture.inputs.iter().chain(&fixture.outputs) {
            values.encode().map_err(wrong)?;
        }
        Ok(fixture)
    }
}

impl Values {
    /// The elements as bytes.
    pub(crate) fn encode(&self) -> Result<TensorData, String> {
        let Self { dtype, shape, values, .. } = self;
        let known = DataType::from_name(dtype);
        let known = known.ok_or_else(|| format!("`{dtype}` is not an element type"))?;
        let (wanted, given) = (element_count(shape), values.len());
        if wanted != Some(given) {
            return Err(format!("{given} values do not fill the shape {shape:?}"));
        }
        let bytes = encode(known, values)
            .ok_or_else(|| format!("a fixture cannot have elements of type {dtype}"))?;
        Ok(TensorData { dtype: known, shape: shape.clone(), bytes })
    }
}

macro_rules! numbers {
    ($($dtype:ident: $type:ty),+) => {
        /// Numbers as elements; `None` for a type that Rust has not.
        pub(crate) fn encode(dtype: DataType, values: &[f64]) -> Option<Vec<u8>> {
            match dtype {
                $(DataType::$dtype =>
                    Some(values.iter().flat_map(|value| (*value as $type).to_ne_bytes()).collect()),)+
                DataType::BOOL => Some(values.iter().map(|value| u8::from(*value != 0.0)).collect()),
                _ => None,
            }
        }

        /// Elements as numbers; `None` for a type that Rust has not.
        pub(crate) fn decode(data: &TensorData) -> Option<Vec<f64>> {
            match data.dtype {
                $(DataType::$dtype => Some(
                    data.bytes
                        .chunks_exact(size_of::<$type>())
                        .map(|bytes| <$type>::from_ne_bytes(bytes.try_into().expect("the size")) as f64)
                        .collect(),
                ),)+
                DataType::BOOL => Some(data.bytes.iter().map(|byte| f64::from(*byte)).collect()),
                _ => None,
            }
        }
    };
}
numbers!(
    F64: f64, F32: f32, I64: i64, I32: i32, I16: i16, I8: i8, U64: u64, U32: u32, U16: u16, U8: u8
);
