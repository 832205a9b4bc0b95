//! Weights in files that the engine does not open by itself. It only takes names such as `model.onnx_data`, beside
//! the model, and weights that say where they begin and how long they are; the format allows every name below the
//! model's folder, and has defaults for both. Such a model is handed over in memory, with names and places that the
//! engine takes.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Component, Path};

use onnx_file::OnnxFile;
use rten::ModelOptions;
use rten_onnx::onnx::{
    DataLocation, DataType, GraphProto, ModelProto, StringStringEntryProto, TensorProto,
};

/// Returns whether the engine opens a file with weights of this name.
fn is_opened_by_engine(name: &str) -> bool {
    let ending = Path::new(name).extension().and_then(|ending| ending.to_str());
    let is_usual = ending.is_some_and(|it| it.starts_with("data") || it.starts_with("onnx_data"));
    let mut parts = Path::new(name).components();
    let is_beside = matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None));
    is_usual && is_beside
}

/// Returns whether the engine opens the weights of a model.
pub(crate) fn are_opened_by_engine(file: &OnnxFile) -> bool {
    file.weights().all(is_opened_by_engine) && !file.facts().lacks_places
}

/// Returns the model with its files of weights renamed and placed, and puts their contents into the options.
///
/// # Errors
///
/// The reason why a file cannot be read, in one sentence.
pub(crate) fn renamed(
    model: &Path,
    file: &OnnxFile,
    options: &mut ModelOptions,
) -> Result<Vec<u8>, String> {
    let folder = model.parent().unwrap_or(Path::new(""));
    let mut names = BTreeMap::new();
    for (number, name) in file.weights().enumerate() {
        let path = folder.join(name);
        let bytes = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let new_name = format!("{number}.data");
        options.external_data(&new_name, bytes);
        names.insert(name, new_name);
    }
    let opened = File::open(model).map_err(|error| error.to_string())?;
    let mut proto = ModelProto::parse_file(opened).map_err(|error| error.to_string())?;
    if let Some(graph) = &mut proto.graph {
        rename(graph, &names);
    }
    proto.write_buf().map_err(|error| error.to_string())
}

fn rename(graph: &mut GraphProto, names: &BTreeMap<&str, String>) {
    let of_tensor = |tensor: &mut TensorProto| {
        for entry in &mut tensor.external_data {
            if entry.key.as_deref() == Some("location")
                && let Some(name) = entry.value.as_deref().and_then(|name| names.get(name))
            {
                entry.value = Some(name.clone());
            }
        }
        place(tensor);
    };
    graph.initializer.iter_mut().for_each(of_tensor);
    for attribute in graph.node.iter_mut().flat_map(|node| &mut node.attribute) {
        attribute.t.iter_mut().for_each(of_tensor);
        attribute.g.iter_mut().for_each(|graph| rename(graph, names));
    }
}

/// Adds the format's defaults for weights in another file that do not say where they begin, or how long they are.
fn place(tensor: &mut TensorProto) {
    if tensor.data_location != Some(DataLocation::EXTERNAL) {
        return;
    }
    let Some(length) = length(tensor) else { return };
    for (key, default) in [("offset", "0".to_owned()), ("length", length.to_string())] {
        if !tensor.external_data.iter().any(|entry| entry.key.as_deref() == Some(key)) {
            let (key, value) = (Some(key.to_owned()), Some(default));
            tensor.external_data.push(StringStringEntryProto { key, value });
        }
    }
}

/// Returns the bytes of a tensor, if its type is one that the engine has.
fn length(tensor: &TensorProto) -> Option<u64> {
    let size = match tensor.data_type? {
        DataType::DOUBLE | DataType::INT64 => 8,
        DataType::FLOAT | DataType::INT32 => 4,
        DataType::FLOAT16 => 2,
        DataType::BOOL | DataType::INT8 | DataType::UINT8 => 1,
        _ => return None,
    };
    let mut sizes = tensor.dims.iter().map(|size| u64::try_from(*size).ok());
    sizes.try_fold(size, |length: u64, size| length.checked_mul(size?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_the_engine_takes_are_known() {
        for name in ["model.onnx_data", "model.onnx_data_1", "w.data", "w.data2"] {
            assert!(is_opened_by_engine(name), "{name}");
        }
        for name in ["weights.bin", "sub/w.data", "./w.data", ".data", "weights"] {
            assert!(!is_opened_by_engine(name), "{name}");
        }
    }
}
