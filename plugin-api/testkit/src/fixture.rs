//! A model with inputs and correct outputs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use plugin_api::client::{DataType, Dimension, ModelInfo, TensorData, element_count};
use serde::Deserialize;

/// Data for checking a backend. As a TOML file:
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
///
/// [external-data]            # may be left out: a model that keeps data in other files
/// model = "apart.scale"
/// files = ["apart.factor"]   # beside the model
///
/// [[external-data.input]]    # as above
/// …
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
    /// A model that keeps data in other files.
    #[serde(rename = "external-data")]
    pub external_data: Option<ExternalData>,
}

/// A model that keeps data in other files, prepared and run like the fixture's own.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExternalData {
    /// The model's file.
    pub model: PathBuf,
    /// Files that the model needs, all of them in its folder.
    pub files: Vec<PathBuf>,
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
    /// For an output: the largest accepted absolute difference.
    #[serde(default)]
    pub tolerance: f64,
}

/// A fixture cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {detail}", path.display())]
pub struct FixtureError {
    /// The fixture's file.
    pub path: PathBuf,
    /// The error.
    pub detail: String,
}

impl Fixture {
    /// Reads a fixture. The model's path is taken from the fixture's folder.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or is invalid.
    pub fn read(path: &Path) -> Result<Self, FixtureError> {
        let wrong = |detail: String| FixtureError { path: path.into(), detail };
        let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        let mut fixture: Self = toml::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        fixture.model = folder.join(&fixture.model);
        let mut all: Vec<_> = fixture.inputs.iter().chain(&fixture.outputs).collect();
        if let Some(external) = &mut fixture.external_data {
            external.model = folder.join(&external.model);
            for file in &mut external.files {
                *file = folder.join(&file);
            }
            all.extend(external.inputs.iter().chain(&external.outputs));
        }
        for values in all {
            values.encode().map_err(wrong)?;
        }
        Ok(fixture)
    }

    /// Writes a tiny ONNX model that recognises digits, in float32, for backends that read ONNX, into a
    /// folder. Returns the fixture's path.
    ///
    /// # Errors
    ///
    /// If a file cannot be written.
    pub fn write_digits(folder: &Path) -> std::io::Result<PathBuf> {
        // The files are laid out as in the repository, so that paths in the fixture are valid.
        let files: [(&str, &[u8]); 4] = [
            ("manifests/data/digits.onnx", include_bytes!("../fixtures/digits.onnx")),
            ("plugin-api/testkit/fixtures/apart.onnx", include_bytes!("../fixtures/apart.onnx")),
            ("plugin-api/testkit/fixtures/apart.data", include_bytes!("../fixtures/apart.data")),
            ("plugin-api/testkit/fixtures/digits.toml", include_bytes!("../fixtures/digits.toml")),
        ];
        let paths = files.map(|(path, bytes)| (folder.join(path), bytes));
        for (path, bytes) in &paths {
            std::fs::create_dir_all(path.parent().unwrap_or(folder))?;
            std::fs::write(path, bytes)?;
        }
        let [.., (fixture, _)] = paths;
        Ok(fixture)
    }

    /// Returns the model that keeps data in other files, as a separate fixture.
    pub(crate) fn of_external_data(&self) -> Option<(Self, &[PathBuf])> {
        let ExternalData { model, files, inputs, outputs } = self.external_data.as_ref()?;
        let fixture = Self {
            model: model.clone(),
            inputs: inputs.clone(),
            outputs: outputs.clone(),
            external_data: None,
            ..self.clone()
        };
        Some((fixture, files))
    }

    /// Returns the same model with everything repeated `times` along the first axis. It must be the
    /// same dynamic axis of all inputs and outputs, as the backend describes them; otherwise `None`.
    pub(crate) fn repeated(&self, info: &ModelInfo, times: usize) -> Option<Self> {
        let all: Vec<_> = info.inputs.iter().chain(&info.outputs).collect();
        let batch = all.iter().map(|tensor| match tensor.dimensions.as_deref()?.first()? {
            Dimension::Dynamic(name) => Some(name),
            Dimension::Fixed(_) => None,
        });
        let batch: Vec<&String> = batch.collect::<Option<_>>()?;
        if info.inputs.is_empty() || batch.windows(2).any(|names| names[0] != names[1]) {
            return None;
        }
        let mut fixture = self.clone();
        for values in fixture.inputs.iter_mut().chain(&mut fixture.outputs) {
            *values.shape.first_mut()? *= i64::try_from(times).ok()?;
            values.values = values.values.repeat(times);
        }
        Some(fixture)
    }

    /// Returns the bytes of all inputs.
    pub(crate) fn input_bytes(&self) -> Result<usize, String> {
        self.inputs.iter().map(|input| input.encode().map(|data| data.bytes.len())).sum()
    }
}

impl Values {
    /// Returns the elements as bytes.
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
        /// Returns numbers as elements; `None` for a type that Rust lacks.
        pub(crate) fn encode(dtype: DataType, values: &[f64]) -> Option<Vec<u8>> {
            match dtype {
                $(DataType::$dtype => {
                    let mut bytes = Vec::with_capacity(size_of_val(values));
                    for value in values {
                        bytes.extend_from_slice(&(*value as $type).to_ne_bytes());
                    }
                    Some(bytes)
                })+
                DataType::BOOL => Some(values.iter().map(|value| u8::from(*value != 0.0)).collect()),
                _ => None,
            }
        }

        /// Returns elements as numbers; `None` for a type that Rust lacks.
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
