//! Names of axes: a symbol, or an input or output with a number.

use host_record::AxisName;
use schemars::{Schema, SchemaGenerator, json_schema};
use toml::de::DeValue;

use crate::shape::{At, Node, Reader, Shape, integer};

/// One axis, or a list of axes, which may be empty: then there are none.
#[derive(Debug)]
pub(crate) struct AxisNames(pub(crate) Vec<AxisName>);

const WAYS: &str =
    "write the axis's symbol, as in `\"batch_size\"`, or `{ input = \"…\", axis = 0 }`";

impl Shape for AxisNames {
    const NAME: &'static str = "AxisNames";

    fn read(node: &Node<'_>, reader: &mut Reader) -> Option<Self> {
        match node.get_ref() {
            DeValue::Array(array) => {
                let names: Vec<_> = array.iter().map(|one| name(one, reader)).collect();
                names.into_iter().collect::<Option<_>>().map(Self)
            }
            _ => name(node, reader).map(|name| Self(vec![name])),
        }
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        let axis = json_schema!({ "type": "integer", "minimum": 0, "maximum": u32::MAX });
        let of = |port: &str| {
            json_schema!({
                "type": "object",
                "additionalProperties": false,
                "properties": { port: { "type": "string" }, "axis": axis },
                "required": [port, "axis"],
            })
        };
        let one = json_schema!({
            "anyOf": [{ "type": "string", "minLength": 1 }, of("input"), of("output")],
        });
        json_schema!({ "anyOf": [one, { "type": "array", "items": one }] })
    }
}

fn name(node: &Node<'_>, reader: &mut Reader) -> Option<AxisName> {
    match node.get_ref() {
        DeValue::String(symbol) if !symbol.is_empty() => {
            Some(AxisName::Symbol(symbol.as_ref().to_owned()))
        }
        DeValue::Table(_) => {
            let table = reader.table(node, &["input", "output", "axis"])?;
            let text = |key: &str| match table.get(key).map(At::get_ref) {
                Some(DeValue::String(text)) => Some(text.as_ref().to_owned()),
                _ => None,
            };
            let axis = table.get("axis").and_then(|axis| integer(axis.get_ref()));
            let axis = axis.and_then(|axis| u32::try_from(axis).ok());
            match (text("input"), text("output"), axis) {
                (Some(input), None, Some(axis)) => Some(AxisName::Input { input, axis }),
                (None, Some(output), Some(axis)) => Some(AxisName::Output { output, axis }),
                _ => {
                    let what = "expected one of `input` and `output`, and the number `axis`";
                    reader.value_error(node, what, "not an axis", WAYS.to_owned());
                    None
                }
            }
        }
        _ => {
            reader.wrong_type(node, "an axis", WAYS.to_owned());
            None
        }
    }
}
