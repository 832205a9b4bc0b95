//! Facts in a model's file that OpenVINO does not report: names of dynamic axes, and whether the
//! model is quantised.

use std::path::Path;

use onnx_file::OnnxFile;
use plugin_api::backend::{DataType, Dimension, Error, ErrorCode, Result};

/// A model's file.
#[derive(Debug)]
pub(crate) enum ModelFile {
    Onnx(OnnxFile),
    /// OpenVINO's own format: the graph as XML, and the weights in a `.bin` beside it.
    Representation {
        quantised: bool,
        /// Element types that it names.
        types: Vec<DataType>,
    },
}

impl ModelFile {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// If it does not exist, or is certainly not a model. Messages name the file.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("onnx") => OnnxFile::read(path).map(Self::Onnx),
            Some("xml") => representation(path),
            _ => {
                let metadata = std::fs::metadata(path);
                let what = "is neither ONNX nor OpenVINO's IR: its name ends neither in `.onnx` nor in \
                            `.xml`";
                Err(metadata.map_or_else(
                    |error| file_error(path, ErrorCode::NotFound, &error.to_string()),
                    |_| file_error(path, ErrorCode::InvalidModel, what),
                ))
            }
        }
    }

    /// Returns whether the model computes with 8-bit integers.
    pub(crate) fn is_quantised(&self) -> bool {
        match self {
            Self::Onnx(file) => file.precision() == Some("int8"),
            Self::Representation { quantised, .. } => *quantised,
        }
    }

    /// Returns whether the model has weights or values of a type.
    pub(crate) fn has(&self, dtype: DataType) -> bool {
        match self {
            Self::Onnx(file) => file.has(dtype),
            Self::Representation { types, .. } => types.contains(&dtype),
        }
    }

    /// Returns the name of a dynamic axis; empty if it has none.
    pub(crate) fn axis_name(&self, tensor: &str, axis: usize) -> String {
        let Self::Onnx(file) = self else { return String::new() };
        let info = file.info();
        let mut tensors = info.inputs.iter().chain(&info.outputs);
        let dimensions =
            tensors.find(|one| one.name == tensor).and_then(|one| one.dimensions.as_ref());
        match dimensions.and_then(|dimensions| dimensions.get(axis)) {
            Some(Dimension::Dynamic(name)) => name.clone(),
            _ => String::new(),
        }
    }
}

/// Element types that are narrowed, by their names in OpenVINO's IR.
const TYPES: &[(&str, DataType)] = &[
    ("i64", DataType::I64),
    ("u64", DataType::U64),
    ("u32", DataType::U32),
    ("f64", DataType::F64),
];

fn file_error(path: &Path, code: ErrorCode, what: &str) -> Error {
    Error::new(code, format!("{}: {what}", path.display()))
}

fn representation(path: &Path) -> Result<ModelFile> {
    let text = std::fs::read_to_string(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => file_error(path, ErrorCode::NotFound, &error.to_string()),
        _ => file_error(path, ErrorCode::InvalidModel, &error.to_string()),
    })?;
    if !text.contains("<net ") {
        return Err(file_error(
            path,
            ErrorCode::InvalidModel,
            "is not OpenVINO's IR: it has no `<net`",
        ));
    }
    let weights = path.with_extension("bin");
    // Without the weights' file, OpenVINO reads the graph with undefined weights.
    if let Some(needed) = weights_needed(&text) {
        let found = std::fs::metadata(&weights).map_err(|error| {
            let what = format!("its weights are in {}: {error}", weights.display());
            file_error(path, ErrorCode::NotFound, &what)
        })?;
        if found.len() < needed {
            let what = format!(
                "its weights are truncated: {} has {} bytes of {needed}",
                weights.display(),
                found.len()
            );
            return Err(file_error(path, ErrorCode::InvalidModel, &what));
        }
    }
    let types = TYPES.iter().filter(|(name, _)| text.contains(&format!("\"{name}\"")));
    Ok(ModelFile::Representation {
        quantised: text.contains("\"FakeQuantize\""),
        types: types.map(|(_, dtype)| *dtype).collect(),
    })
}

/// Returns the required length of the weights' file: each constant states its offset and length.
fn weights_needed(text: &str) -> Option<u64> {
    let number = |tag: &str, name: &str| -> Option<u64> {
        let rest = &tag[tag.find(&format!(" {name}=\""))? + name.len() + 3..];
        rest[..rest.find('"')?].parse().ok()
    };
    let ends = text.split("<data ").skip(1).filter_map(|rest| {
        let tag = format!(" {}", &rest[..rest.find('>')?]);
        number(&tag, "offset")?.checked_add(number(&tag, "size")?)
    });
    ends.max()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NET: &str = r#"<?xml version="1.0"?>
<net name="m" version="11"><layers>
<layer id="0" name="w" type="Const"><data element_type="f32" shape="2" offset="0" size="8" /></layer>
<layer id="1" name="v" type="Const"><data element_type="f32" shape="4" offset="8" size="16"/></layer>
<layer id="2" name="p" type="Parameter"><data shape="1,2" element_type="f32"/></layer>
</layers></net>"#;

    #[test]
    fn the_length_of_the_weights_is_that_of_the_last_constant() {
        assert_eq!(weights_needed(NET), Some(24));
        assert_eq!(weights_needed("<net name=\"m\"><data shape=\"1\"/></net>"), None);
        assert_eq!(weights_needed("<data offset=\"7\" size"), None);
    }

    #[test]
    fn weights_that_are_missing_or_cut_off_are_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("model.xml");
        std::fs::write(&path, NET).expect("the folder is writable");
        let error = ModelFile::read(&path).expect_err("no weights");
        assert_eq!(error.code, ErrorCode::NotFound);
        assert!(error.message.contains("model.xml: its weights are in"), "{error}");
        std::fs::write(folder.path().join("model.bin"), [0; 23]).expect("the folder is writable");
        let error = ModelFile::read(&path).expect_err("one byte is missing");
        assert_eq!(error.code, ErrorCode::InvalidModel);
        assert!(error.message.ends_with("model.bin has 23 bytes of 24"), "{error}");
        std::fs::write(folder.path().join("model.bin"), [0; 24]).expect("the folder is writable");
        let file = ModelFile::read(&path).expect("a model");
        assert!(!file.is_quantised());
        let quantised = NET.replace("\"Parameter\"", "\"FakeQuantize\"");
        std::fs::write(&path, quantised).expect("the folder is writable");
        assert!(ModelFile::read(&path).expect("a model").is_quantised());
    }

    #[test]
    fn what_is_no_model_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let text = folder.path().join("model.txt");
        let error = ModelFile::read(&text).expect_err("no file");
        assert_eq!(error.code, ErrorCode::NotFound);
        std::fs::write(&text, "text").expect("the folder is writable");
        let error = ModelFile::read(&text).expect_err("no model");
        assert_eq!(error.code, ErrorCode::InvalidModel);
        assert!(error.message.contains("ends neither in `.onnx` nor in `.xml`"), "{error}");
        let xml = folder.path().join("page.xml");
        std::fs::write(&xml, "<html/>").expect("the folder is writable");
        let error = ModelFile::read(&xml).expect_err("no model");
        assert!(
            error.message.ends_with("page.xml: is not OpenVINO's IR: it has no `<net`"),
            "{error}"
        );
        let error = ModelFile::read(folder.path()).expect_err("a folder");
        assert_eq!(error.code, ErrorCode::InvalidModel);
    }
}
