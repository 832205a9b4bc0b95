//! Models that the engine does not read as they are. Such a model is handed over in memory, adapted.
//!
//! - *Weights in files that it does not open.* It only takes names such as `model.onnx_data`, beside the model, and
//!   weights that say where they begin and how long they are; the format allows every name below the model's folder, and
//!   has defaults for both.
//! - *Attributes that are left to the format's defaults.* It does not know how many strides, dilations and pads a
//!   convolution has that leaves out these and `kernel_shape`, and how many strides a pooling.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Component, Path};

use onnx_file::OnnxFile;
use rten::ModelOptions;
use rten_onnx::onnx::{
    AttributeProto, AttributeType, DataLocation, DataType, GraphProto, ModelProto, NodeProto,
    StringStringEntryProto, TensorProto,
};

/// Returns whether the engine opens a file with weights of this name.
fn is_opened_by_engine(name: &str) -> bool {
    let ending = Path::new(name).extension().and_then(|ending| ending.to_str());
    let is_usual = ending.is_some_and(|it| it.starts_with("data") || it.starts_with("onnx_data"));
    let mut parts = Path::new(name).components();
    let is_beside = matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None));
    is_usual && is_beside
}

/// Returns whether the engine reads a model as it is.
pub(crate) fn is_read_by_engine(file: &OnnxFile) -> bool {
    let facts = file.facts();
    file.weights().all(is_opened_by_engine) && !facts.lacks_places && !facts.lacks_attributes
}

/// Returns the model with its files of weights renamed and placed, and with attributes in the place of defaults. Puts
/// the contents of these files into the options.
///
/// # Errors
///
/// The reason why a file cannot be read, in one sentence.
pub(crate) fn adapted(
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
        add_attributes(graph, &BTreeMap::new());
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

/// Adds attributes with the format's defaults to operators over windows that lack them. `around` has the ranks of values
/// of the graphs around this one.
fn add_attributes(graph: &mut GraphProto, around: &BTreeMap<String, usize>) {
    let mut ranks = around.clone();
    for value in graph.input.iter().chain(&graph.value_info).chain(&graph.output) {
        let tensor = value.r#type.as_ref().and_then(|kind| kind.tensor_type.as_ref());
        let rank = tensor.and_then(|tensor| tensor.shape.as_ref()).map(|shape| shape.dim.len());
        ranks.extend(value.name.clone().zip(rank));
    }
    for tensor in &graph.initializer {
        ranks.extend(tensor.name.clone().map(|name| (name, tensor.dims.len())));
    }
    for node in &graph.node {
        let is_constant = node.op_type.as_deref() == Some("Constant");
        let tensor = node.attribute.iter().find_map(|attribute| attribute.t.as_ref());
        if let (true, Some(name), Some(tensor)) = (is_constant, node.output.first(), tensor) {
            ranks.insert(name.clone(), tensor.dims.len());
        }
    }
    for node in &mut graph.node {
        add_attributes_of(node, &ranks);
        for graph in node.attribute.iter_mut().filter_map(|attribute| attribute.g.as_mut()) {
            add_attributes(graph, &ranks);
        }
    }
}

fn add_attributes_of(node: &mut NodeProto, ranks: &BTreeMap<String, usize>) {
    if !matches!(node.domain.as_deref(), None | Some("" | "ai.onnx")) {
        return;
    }
    let attribute = |name: &str| node.attribute.iter().find(|it| it.name.as_deref() == Some(name));
    let listed = |name: &str| attribute(name).map(|attribute| attribute.ints.len());
    // The engine knows the other attributes of a pooling.
    let is_pool = matches!(node.op_type.as_deref(), Some("AveragePool" | "MaxPool"));
    let axes = match node.op_type.as_deref() {
        _ if is_pool => listed("kernel_shape"),
        Some("Conv" | "ConvInteger" | "ConvTranspose") if attribute("kernel_shape").is_none() => {
            let of_values = node.input.iter().take(2).filter_map(|name| ranks.get(name));
            let of_values = of_values.copied().next().and_then(|rank| rank.checked_sub(2));
            let of_pads = || listed("pads").map(|pads| pads / 2);
            of_values.or_else(|| listed("strides")).or_else(|| listed("dilations")).or_else(of_pads)
        }
        _ => None,
    };
    let Some(axes) = axes else { return };
    let is_same = attribute("auto_pad").and_then(|it| it.s.as_deref());
    let is_same = is_same.is_some_and(|padding| padding.starts_with("SAME"));
    let defaults =
        [("strides", vec![1; axes]), ("dilations", vec![1; axes]), ("pads", vec![0; 2 * axes])];
    let missing: Vec<_> = defaults
        .into_iter()
        // A list of pads beside a rule for them would contradict it.
        .filter(|(name, _)| attribute(name).is_none() && !(*name == "pads" && is_same))
        .filter(|(name, _)| *name == "strides" || !is_pool)
        .map(|(name, ints)| AttributeProto {
            name: Some(name.to_owned()),
            r#type: Some(AttributeType::INTS),
            ints,
            ..AttributeProto::default()
        })
        .collect();
    node.attribute.extend(missing);
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
    fn attributes_are_added_for_the_rank_of_the_window() {
        let node = |operator: &str, attributes: &[(&str, &[i64])]| NodeProto {
            op_type: Some(operator.into()),
            input: vec!["x".into(), "w".into()],
            attribute: attributes
                .iter()
                .map(|(name, ints)| AttributeProto {
                    name: Some((*name).into()),
                    ints: ints.to_vec(),
                    ..AttributeProto::default()
                })
                .collect(),
            ..NodeProto::default()
        };
        let added = |mut node: NodeProto, rank: Option<usize>| {
            let ranks = rank.map(|rank| ("w".to_owned(), rank)).into_iter().collect();
            add_attributes_of(&mut node, &ranks);
            let shown = |it: &AttributeProto| {
                format!("{}={:?}", it.name.as_deref().unwrap_or_default(), it.ints)
            };
            node.attribute.iter().map(shown).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(added(node("Conv", &[]), Some(3)), "strides=[1] dilations=[1] pads=[0, 0]");
        let strided = node("ConvTranspose", &[("strides", &[2, 2])]);
        assert_eq!(added(strided, None), "strides=[2, 2] dilations=[1, 1] pads=[0, 0, 0, 0]");
        let known = node("Conv", &[("kernel_shape", &[3])]);
        assert_eq!(added(known, Some(3)), "kernel_shape=[3]", "the engine knows the rest");
        let pool = node("MaxPool", &[("kernel_shape", &[3])]);
        assert_eq!(added(pool, None), "kernel_shape=[3] strides=[1]");
        assert_eq!(added(node("Conv", &[]), None), "", "the rank is not known");
        assert_eq!(added(node("Relu", &[]), Some(3)), "");
        let mut same = node("Conv", &[]);
        let name = Some("auto_pad".to_owned());
        let s = Some("SAME_UPPER".to_owned());
        same.attribute.push(AttributeProto { name, s, ..AttributeProto::default() });
        assert_eq!(added(same, Some(3)), "auto_pad=[] strides=[1] dilations=[1]");
    }

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
