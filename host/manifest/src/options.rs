//! Options of plugins: tables that are passed on as JSON.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value};
use toml::de::DeValue;

use crate::shape::{At, Node, Reader, Shape, json};

/// An option's place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionPlace {
    /// That of its name.
    pub key: Range<usize>,
    /// That of its value.
    pub value: Range<usize>,
}

/// A table that is passed to a plugin as JSON.
#[derive(Debug)]
pub(crate) struct Json {
    pub(crate) values: Map<String, Value>,
    /// Place of each option.
    pub(crate) places: BTreeMap<String, OptionPlace>,
}

impl Shape for Json {
    fn read(node: &Node<'_>, reader: &mut Reader) -> Option<Self> {
        let DeValue::Table(table) = node.get_ref() else {
            let hint = "write it as `{ name = value }`".to_owned();
            reader.wrong_type(node, "a table", hint);
            return None;
        };
        let place = |(key, value): (&At<Cow<'_, str>>, &Node<'_>)| {
            let place = OptionPlace { key: key.span(), value: value.span() };
            (key.get_ref().as_ref().to_owned(), place)
        };
        match json(node, reader) {
            Some(Value::Object(values)) => {
                Some(Self { values, places: table.iter().map(place).collect() })
            }
            _ => None,
        }
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object" })
    }
}
