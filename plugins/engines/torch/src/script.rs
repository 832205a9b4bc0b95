/*!
TorchScript archives.

An archive has code and weights, and says neither names nor shapes of its inputs. The options `inputs` and `outputs`
state them, in one line: `image: float32[batch, 3, 224, 224]; mask: bool[batch]`.
*/

use std::path::Path;

use plugin_api::backend::{
    DataType, Dimension, Error, ErrorCode, ModelInfo, Result, TensorInfo, ValueKind,
};
use tch::{CModule, Device, IValue, Tensor};

use crate::error::{Wrong, wrong};

/// An archive, loaded.
#[derive(Debug)]
pub(crate) struct Script {
    module: CModule,
    outputs: usize,
}

impl Script {
    /// Loads an archive.
    pub(crate) fn load(path: &Path, device: Device, outputs: usize) -> Result<Self> {
        let module = CModule::load_on_device(path, device).map_err(|error| {
            let Wrong { what, .. } = error.into();
            let first =
                what.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim();
            let path = path.display();
            Error::new(
                ErrorCode::InvalidModel,
                format!("{path} is not a TorchScript archive: {first}"),
            )
            .with_details(what.clone())
        })?;
        let mut script = Self { module, outputs };
        script.module.f_set_eval().map_err(|error| Wrong::from(error).of_model())?;
        Ok(script)
    }

    /// Computes the outputs.
    pub(crate) fn run(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>, Wrong> {
        let inputs: Vec<IValue> =
            inputs.iter().map(|input| IValue::Tensor(input.shallow_clone())).collect();
        let mut outputs = Vec::new();
        flatten(self.module.forward_is(&inputs)?, &mut outputs)?;
        if outputs.len() == self.outputs {
            return Ok(outputs);
        }
        Err(wrong!(
            "the archive gives {} tensors, and the option `outputs` names {}",
            outputs.len(),
            self.outputs
        ))
    }
}

/// Adds the tensors in a value.
fn flatten(value: IValue, tensors: &mut Vec<Tensor>) -> Result<(), Wrong> {
    match value {
        IValue::Tensor(tensor) => tensors.push(tensor),
        IValue::TensorList(list) => tensors.extend(list),
        IValue::Tuple(values) | IValue::GenericList(values) => {
            for value in values {
                flatten(value, tensors)?;
            }
        }
        IValue::GenericDict(entries) => {
            for (_, value) in entries {
                flatten(value, tensors)?;
            }
        }
        IValue::None => {}
        other => return Err(wrong!("the archive gives {other:?}, which is not a tensor")),
    }
    Ok(())
}

/// Reads inputs and outputs from the options.
///
/// # Errors
///
/// If one is not as this module's page says.
pub(crate) fn info(inputs: Option<&str>, outputs: Option<&str>) -> Result<ModelInfo> {
    let inputs = inputs.ok_or_else(|| {
        let message = "a TorchScript archive does not say which inputs it takes; state them in the backend's options, \
                       such as `inputs = \"image: float32[batch, 3, 224, 224]\"`, in the order of `forward`";
        Error::new(ErrorCode::InvalidArgument, message)
    })?;
    let inputs = list(inputs, input).map_err(|what| option("inputs", &what))?;
    let output = |name: &str| {
        let name = name.to_owned();
        Ok(TensorInfo { name, dtype: None, dimensions: None, kind: ValueKind::Tensor })
    };
    let outputs = list(outputs.unwrap_or("output"), output);
    Ok(ModelInfo { inputs, outputs: outputs.map_err(|what| option("outputs", &what))? })
}

fn option(name: &str, what: &str) -> Error {
    Error::new(ErrorCode::InvalidArgument, format!("option `{name}`: {what}"))
}

fn list(
    text: &str,
    one: impl Fn(&str) -> Result<TensorInfo, String>,
) -> Result<Vec<TensorInfo>, String> {
    let parts = text.split(';').map(str::trim).filter(|part| !part.is_empty());
    let found: Vec<TensorInfo> = parts.map(one).collect::<Result<_, _>>()?;
    match found.is_empty() {
        true => Err("it names nothing".into()),
        false => Ok(found),
    }
}

/// Reads `NAME: TYPE[AXIS, …]`.
fn input(text: &str) -> Result<TensorInfo, String> {
    let wrong = || format!("`{text}` is not like `image: float32[batch, 3, 224, 224]`");
    let (name, rest) = text.split_once(':').ok_or_else(wrong)?;
    let (dtype, axes) = rest.trim().split_once('[').ok_or_else(wrong)?;
    let axes = axes.strip_suffix(']').ok_or_else(wrong)?;
    let dtype = DataType::from_name(dtype.trim()).ok_or_else(|| {
        let known: Vec<String> = DataType::ALL.iter().map(ToString::to_string).collect();
        format!("`{}` is not an element type; there are: {}", dtype.trim(), known.join(", "))
    })?;
    let axis = |axis: &str| match axis.parse() {
        Ok(size) => Dimension::Fixed(size),
        Err(_) => Dimension::Dynamic(axis.to_owned()),
    };
    let axes = axes.split(',').map(str::trim).filter(|axis| !axis.is_empty()).map(axis);
    Ok(TensorInfo {
        name: name.trim().to_owned(),
        dtype: Some(dtype),
        dimensions: Some(axes.collect()),
        kind: ValueKind::Tensor,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_stated_in_one_line() {
        let info =
            info(Some("image: float32[batch, 3, 8, 8]; flag: bool[]"), Some("logits; hidden"));
        let info = info.expect("a good line");
        assert_eq!(info.inputs.len(), 2);
        assert_eq!(
            (info.inputs[0].name.as_str(), info.inputs[0].dtype),
            ("image", Some(DataType::F32))
        );
        let axes = info.inputs[0].dimensions.clone().expect("axes");
        assert_eq!(axes[..2], [Dimension::Dynamic("batch".into()), Dimension::Fixed(3)]);
        assert_eq!(info.inputs[1].dimensions, Some(Vec::new()));
        assert_eq!(info.outputs[1].name, "hidden");
    }

    /// `scripts/archives.py` writes the archive.
    #[test]
    fn nested_answers_become_outputs_in_their_order() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/nested.pt");
        let script = Script::load(path.as_ref(), Device::Cpu, 2).expect("an archive");
        let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0]).reshape([2, 2]);
        let keep = Tensor::from_slice(&[true, true, false, true]).reshape([2, 2]);
        let outputs = script.run(&[&x, &keep]).expect("outputs");
        let numbers = |at: usize| Vec::<f32>::try_from(outputs[at].reshape([-1])).expect("floats");
        assert_eq!((numbers(0), numbers(1)), (vec![3.0, 5.0, 1.0, 9.0], vec![3.0, 4.0]));
        let other = Script::load(path.as_ref(), Device::Cpu, 1).expect("an archive");
        let Wrong { what, .. } = other.run(&[&x, &keep]).expect_err("another number of outputs");
        assert_eq!(what, "the archive gives 2 tensors, and the option `outputs` names 1");
        let error = Script::load(Path::new("Cargo.toml"), Device::Cpu, 1).expect_err("no archive");
        assert!(error.message.starts_with("Cargo.toml is not a TorchScript archive"), "{error:?}");
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        let refused = |inputs| info(inputs, None).expect_err("it is wrong").message;
        assert!(refused(None).contains("inputs = \"image: float32"));
        assert!(refused(Some("image")).starts_with("option `inputs`: `image` is not like"));
        assert!(
            refused(Some("x: real[2]"))
                .contains("`real` is not an element type; there are: float64")
        );
        assert_eq!(refused(Some(" ; ")), "option `inputs`: it names nothing");
    }
}
