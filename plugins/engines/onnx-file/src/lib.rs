/*!
Contents of an ONNX file in the ABI's types, as opposed to what an engine makes of it: inputs and outputs, the
element types of everything, the precision of its weights, and the files that hold them.

Engines convert on loading without a record, and some read a damaged file silently. So the file is read once more, for
its structure alone, by `host-onnx`. This crate is the part of it that knows the SDK.
*/

use std::io::ErrorKind;
use std::path::Path;

use host_onnx::{Facts, Kind, OnnxError, Value};
use host_record::PortAxis;
use plugin_api::backend::{
    DataType, Dimension, Error, ErrorCode, ModelInfo, TensorInfo, ValueKind,
};

/// Element types by their names.
const TYPES: &[(&str, DataType)] = &[
    ("fp32", DataType::F32),
    ("fp64", DataType::F64),
    ("fp16", DataType::F16),
    ("bf16", DataType::BF16),
    ("int64", DataType::I64),
    ("int32", DataType::I32),
    ("int16", DataType::I16),
    ("int8", DataType::I8),
    ("uint64", DataType::U64),
    ("uint32", DataType::U32),
    ("uint16", DataType::U16),
    ("uint8", DataType::U8),
    ("bool", DataType::BOOL),
    ("string", DataType::STRING),
];

/// A model's file, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnnxFile {
    facts: Box<Facts>,
}

impl OnnxFile {
    /// Reads a file, and looks for its files of weights.
    ///
    /// # Errors
    ///
    /// Not found if the file or one of its weights' files is missing; an invalid model if it is
    /// damaged, truncated, contradicts itself, or is not a model. Messages name the file.
    pub fn read(path: &Path) -> Result<Self, Error> {
        if path.extension().is_none_or(|extension| extension != "onnx") {
            let reason = "its name does not end in `.onnx`";
            let message = format!("{} is not an ONNX model: {reason}", path.display());
            return Err(Error::new(ErrorCode::InvalidModel, message));
        }
        let facts = Facts::read(path).and_then(|facts| facts.check(path).map(|()| facts));
        let facts = facts.map_err(|error| {
            let code = match &error {
                OnnxError::Read { source: error, .. } | OnnxError::Weights { error, .. }
                    if error.kind() == ErrorKind::NotFound =>
                {
                    ErrorCode::NotFound
                }
                _ => ErrorCode::InvalidModel,
            };
            let message = match &error {
                OnnxError::Read { path, source } => format!("{}: {source}", path.display()),
                error => error.to_string(),
            };
            Error::new(code, message)
        })?;
        Ok(Self { facts: Box::new(facts) })
    }

    /// Returns the facts that do not depend on the SDK.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Returns the files that hold weights, relative to the model's folder. They lie in it, and are long enough.
    pub fn weights(&self) -> impl Iterator<Item = &str> {
        self.facts.files.iter().map(|file| file.location.as_str())
    }

    /// Returns the model's inputs and outputs, in its own types.
    #[must_use]
    pub fn info(&self) -> ModelInfo {
        ModelInfo {
            inputs: self.facts.inputs.iter().map(info).collect(),
            outputs: self.facts.outputs.iter().map(info).collect(),
        }
    }

    /// Returns the element type of an input.
    #[must_use]
    pub fn dtype_of_input(&self, name: &str) -> Option<DataType> {
        dtype(self.facts.inputs.iter().find(|input| input.name == name)?)
    }

    /// Returns whether the model has weights or values of a type.
    #[must_use]
    pub fn has(&self, wanted: DataType) -> bool {
        let mut types = TYPES.iter().filter(|(_, dtype)| *dtype == wanted);
        types.any(|(name, _)| self.facts.elements.contains(*name))
    }

    /// Returns the precision of an engine that uses the model's own types, as [`Facts::precision`] does.
    #[must_use]
    pub fn precision(&self) -> Option<&'static str> {
        self.facts.precision()
    }
}

fn info(value: &Value) -> TensorInfo {
    let axis = |axis: &PortAxis| match axis {
        PortAxis::Fixed(size) => Dimension::Fixed(*size),
        PortAxis::Dynamic(symbol) => Dimension::Dynamic(symbol.clone()),
    };
    TensorInfo {
        name: value.name.clone(),
        dtype: dtype(value),
        dimensions: value.axes.as_ref().map(|axes| axes.iter().map(axis).collect()),
        kind: match value.kind {
            Kind::Tensor => ValueKind::Tensor,
            Kind::Sequence => ValueKind::Sequence,
            Kind::Map => ValueKind::Map,
            Kind::Other => ValueKind::Other,
        },
    }
}

fn dtype(value: &Value) -> Option<DataType> {
    let element = value.element.as_deref()?;
    TYPES.iter().find(|(name, _)| *name == element).map(|(_, dtype)| *dtype)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digits_model_is_described() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../manifests/data/digits.onnx");
        let file = OnnxFile::read(path.as_ref()).expect("a good file");
        assert_eq!((file.precision(), file.weights().count()), (Some("fp32"), 0));
        let info = file.info();
        let batch = Dimension::Dynamic("batch".into());
        let fixed = Dimension::Fixed;
        assert_eq!(info.inputs.len(), 1);
        assert_eq!(info.inputs[0].name, "image");
        assert_eq!(info.inputs[0].dtype, Some(DataType::F32));
        let image = vec![batch.clone(), fixed(1), fixed(8), fixed(8)];
        assert_eq!(info.inputs[0].dimensions, Some(image));
        assert_eq!(info.outputs.len(), 1);
        assert_eq!(info.outputs[0].name, "logits");
        assert_eq!(info.outputs[0].dimensions, Some(vec![batch, fixed(10)]));
        assert_eq!(file.dtype_of_input("image"), Some(DataType::F32));
        assert!(file.has(DataType::F32) && !file.has(DataType::U8));
    }

    #[test]
    fn what_cannot_be_read_has_a_code_and_names_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let read = |name: &str| {
            let error = OnnxFile::read(&folder.path().join(name)).expect_err("no model");
            (error.code, error.message)
        };
        std::fs::write(folder.path().join("m.onnx"), "text").expect("writable");
        std::fs::create_dir(folder.path().join("folder.onnx")).expect("writable");
        for (name, code, reason) in [
            ("absent.onnx", ErrorCode::NotFound, "absent.onnx: No such file"),
            ("m.onnx", ErrorCode::InvalidModel, "m.onnx is not an ONNX model: "),
            ("folder.onnx", ErrorCode::InvalidModel, "folder.onnx: it is not a file"),
            ("m.txt", ErrorCode::InvalidModel, "its name does not end in `.onnx`"),
        ] {
            let (found, message) = read(name);
            assert_eq!(found, code, "{message}");
            assert!(message.contains(reason), "{message}");
        }
    }
}
