//! Structure of a model's file: inputs and outputs, files with weights, and legal values of inputs.

use std::path::Path;

use host_record::{Failure, LegalValues, ModelStructure, Phase, Port, PortAxis, Signature};
use onnx_file::OnnxFile;
use plugin_api::client::{Dimension, ModelInfo, TensorInfo};

use crate::failure;

/// Reads a model's file without an engine. Only ONNX tells inputs and outputs; OpenVINO's own format has its
/// weights beside the graph; any other file is known to its engine alone.
pub(crate) fn structure(model: &Path) -> Result<ModelStructure, Failure> {
    match model.extension().and_then(|extension| extension.to_str()) {
        Some("onnx") => of_onnx(model),
        Some("xml") => Ok(ModelStructure {
            weights: beside(model, "bin").into_iter().collect(),
            ..ModelStructure::default()
        }),
        _ => Ok(ModelStructure::default()),
    }
}

fn of_onnx(model: &Path) -> Result<ModelStructure, Failure> {
    let file = OnnxFile::read(model).map_err(|error| Failure::Backend {
        phase: Phase::Load,
        call: "inspect".into(),
        code: failure::code(error.code),
        message: error.message,
        details: String::new(),
    })?;
    let values = file.legal_values().into_iter().map(|(input, values)| (input, legal(values)));
    Ok(ModelStructure {
        signature: Some(signature(&file.info())),
        weights: file.weights().map(str::to_owned).collect(),
        values: values.collect(),
    })
}

fn legal(values: onnx_file::LegalValues) -> LegalValues {
    match values {
        onnx_file::LegalValues::Index { entries, operator } => {
            LegalValues::Index { entries, operator }
        }
        onnx_file::LegalValues::Below { entries, operator } => {
            LegalValues::Below { entries, operator }
        }
        onnx_file::LegalValues::Computed { entries, operator } => {
            LegalValues::Computed { entries, operator }
        }
        onnx_file::LegalValues::Ones => LegalValues::Ones,
        onnx_file::LegalValues::Positions { entries } => LegalValues::Positions { entries },
        onnx_file::LegalValues::Steers => LegalValues::Steers,
    }
}

/// Returns the name of the file with another extension, if there is one.
fn beside(model: &Path, extension: &str) -> Option<String> {
    let other = model.with_extension(extension);
    let name = other.file_name()?.to_str()?.to_owned();
    other.is_file().then_some(name)
}

/// Returns inputs and outputs as rules for axes take them.
pub(crate) fn signature(info: &ModelInfo) -> Signature {
    let axis = |dimension: &Dimension| match dimension {
        Dimension::Fixed(size) => PortAxis::Fixed(*size),
        Dimension::Dynamic(symbol) => PortAxis::Dynamic(symbol.clone()),
    };
    let port = |info: &TensorInfo| Port {
        name: info.name.clone(),
        axes: info.dimensions.as_ref().map(|axes| axes.iter().map(axis).collect()),
    };
    Signature {
        inputs: info.inputs.iter().map(port).collect(),
        outputs: info.outputs.iter().map(port).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_tells_depends_on_its_format() {
        let digits = concat!(env!("CARGO_MANIFEST_DIR"), "/../../manifests/data/digits.onnx");
        let found = structure(digits.as_ref()).expect("a model");
        let signature = found.signature.expect("its inputs");
        assert_eq!((signature.inputs.len(), found.weights), (1, Vec::new()));
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, "<net ").expect("the folder is writable");
            path
        };
        path("m.bin");
        let found = structure(&path("m.xml")).expect("a graph");
        assert_eq!((found.signature, found.weights), (None, vec!["m.bin".to_owned()]));
        assert_eq!(structure(&path("other.xml")).expect("a graph"), ModelStructure::default());
        assert_eq!(structure(&path("m.pt")).expect("any file"), ModelStructure::default());
        let failure = structure(&path("m.onnx")).expect_err("no model");
        assert!(failure.to_string().contains("is not an ONNX model"), "{failure}");
    }
}
