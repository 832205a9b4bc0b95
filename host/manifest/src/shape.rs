//! Shapes: how one kind of value is read from the TOML tree, and what it is in JSON Schema.
//!
//! A type implements [`Shape`] once for both. Tables are declared with the macro
//! [`table!`], which makes the struct, the reader and the schema from one list of keys.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;
use std::ops::Range;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::Value;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use crate::error::ManifestError;
use crate::suggestions::{nearest, suggestion};

/// A value with its place in the text.
pub(crate) type At<T> = Spanned<T>;

/// A value of the TOML tree with its place in the text.
pub(crate) type Node<'text> = At<DeValue<'text>>;

/// Collects the errors, and knows the way from the root to the value being read.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) errors: Vec<ManifestError>,
    path: Vec<String>,
    /// Length of the path to the last table whose name is free.
    named: Option<usize>,
    /// The header under which a key belongs, for a key that stands elsewhere.
    home: fn(&str) -> Option<&'static str>,
}

impl Reader {
    /// Creates a reader at the root of a document. `home` maps a misplaced key to its table.
    pub(crate) fn new(home: fn(&str) -> Option<&'static str>) -> Self {
        Self { errors: Vec::new(), path: Vec::new(), named: None, home }
    }

    /// Records an error.
    pub(crate) fn error(
        &mut self,
        span: Range<usize>,
        message: impl Into<String>,
        label: impl Into<String>,
        hint: impl Into<Option<String>>,
    ) {
        self.errors.push(ManifestError {
            message: message.into(),
            span,
            label: label.into(),
            hint: hint.into(),
        });
    }

    /// Records an error about the value being read; the message begins with the way to it.
    pub(crate) fn value_error(
        &mut self,
        node: &Node<'_>,
        what: impl AsRef<str>,
        label: impl Into<String>,
        hint: impl Into<Option<String>>,
    ) {
        let message = match self.path.join(".") {
            path if path.is_empty() => what.as_ref().to_owned(),
            path => format!("`{path}`: {}", what.as_ref()),
        };
        self.error(node.span(), message, label, hint);
    }

    /// Records that a value has the wrong type.
    pub(crate) fn wrong_type(
        &mut self,
        node: &Node<'_>,
        expected: &str,
        hint: impl Into<Option<String>>,
    ) {
        let found = type_name(node.get_ref());
        self.value_error(node, format!("expected {expected}, found {found}"), found, hint);
    }

    /// Reads a value under one more step of the way.
    pub(crate) fn step<T>(&mut self, name: &str, read: impl FnOnce(&mut Self) -> T) -> T {
        self.path.push(name.to_owned());
        let value = read(self);
        self.path.pop();
        value
    }

    /// Returns the table in `node`, with every key among `keys`; otherwise records errors.
    pub(crate) fn table<'node, 'text>(
        &mut self,
        node: &'node Node<'text>,
        keys: &[&str],
    ) -> Option<&'node DeTable<'text>> {
        let DeValue::Table(table) = node.get_ref() else {
            let hint = match &self.path[..] {
                [name] => format!("write it under a header: `[{name}]`"),
                _ => "write it as `{ key = value }`".to_owned(),
            };
            self.wrong_type(node, "a table", hint);
            return None;
        };
        for key in table.keys().filter(|key| !keys.contains(&key.get_ref().as_ref())) {
            let name = key.get_ref();
            self.error(
                key.span(),
                format!("unknown key `{name}` in {}", self.place()),
                "unknown key",
                match (nearest(name, keys), (self.home)(name)) {
                    _ if self.named == Some(self.path.len())
                        && matches!(table[key].get_ref(), DeValue::Table(_)) =>
                    {
                        self.quoted(name, &table[key], keys)
                    }
                    (None, Some(home)) => format!("`{name}` belongs under `{home}`"),
                    _ => suggestion(name, keys, "the keys here are"),
                },
            );
        }
        Some(table)
    }

    /// Returns advice for a name with a dot, which TOML takes for a table within a table.
    fn quoted(&self, name: &str, mut value: &Node<'_>, keys: &[&str]) -> String {
        let [above @ .., first] = &self.path[..] else { return String::new() };
        let mut whole = format!("{first}.{name}");
        while let DeValue::Table(table) = value.get_ref()
            && let [(key, inner)] = &table.iter().collect::<Vec<_>>()[..]
            && !keys.contains(&key.get_ref().as_ref())
            && matches!(inner.get_ref(), DeValue::Table(_))
        {
            whole = format!("{whole}.{}", key.get_ref());
            value = inner;
        }
        format!("if the name has a dot, quote it: `[{}.\"{whole}\"]`", above.join("."))
    }

    /// Returns the value of a key of a table: as written, the default, or nothing.
    pub(crate) fn field<T: Shape>(
        &mut self,
        node: &Node<'_>,
        table: &DeTable<'_>,
        keys: &[&str],
        key: &str,
        need: Presence,
    ) -> Option<At<T>> {
        match (table.get(key), need) {
            (Some(value), _) => {
                let read = self.step(key, |reader| T::read(value, reader))?;
                Some(At::new(value.span(), read))
            }
            (None, Presence::Optional) => None,
            (None, Presence::Default(text)) => {
                let value = DeValue::parse(text).expect("a default is valid TOML");
                Some(At::new(node.span(), T::read(&value, self)?))
            }
            (None, Presence::Required(example)) => {
                let mistyped = |name: &str| {
                    !keys.contains(&name) && nearest(name, keys).is_some_and(|near| near == key)
                };
                if table.keys().any(|name| mistyped(name.get_ref())) {
                    // It is there under another name, which was reported.
                    return None;
                }
                self.error(
                    node.span(),
                    format!("{} lacks `{key}`", self.place()),
                    format!("`{key}` is missing"),
                    format!("add `{example}`"),
                );
                None
            }
        }
    }

    /// Returns the name of the current table, as a reader of the manifest would call it.
    fn place(&self) -> String {
        if self.path.is_empty() {
            "the manifest".to_owned()
        } else {
            format!("`{}`", self.path.join("."))
        }
    }
}

/// Whether a key is required, and its default otherwise.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Presence {
    /// The key is required; an example of it, for the error.
    Required(&'static str),
    /// The key may be absent.
    Optional,
    /// Optional, with this default in TOML.
    Default(&'static str),
}

/// One kind of value.
pub(crate) trait Shape: Sized {
    /// Name among the schema's definitions; empty for a shape that is written inline.
    const NAME: &'static str = "";

    /// Reads a value, or records why it cannot be one.
    fn read(node: &Node<'_>, reader: &mut Reader) -> Option<Self>;

    /// Returns the schema of accepted values. It may accept more than [`Shape::read`] if JSON
    /// Schema cannot express a rule, never less.
    fn schema(generator: &mut SchemaGenerator) -> Schema;
}

/// Passes a [`Shape`] to schemars, which then keeps the definitions.
pub(crate) struct Described<T>(PhantomData<T>);

impl<T: Shape> JsonSchema for Described<T> {
    fn inline_schema() -> bool {
        T::NAME.is_empty()
    }

    fn schema_name() -> Cow<'static, str> {
        T::NAME.into()
    }

    fn schema_id() -> Cow<'static, str> {
        std::any::type_name::<T>().into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::schema(generator)
    }
}

/// Returns the schema of a key: its shape's, with the key's own description and default.
pub(crate) fn field_schema<T: Shape>(
    generator: &mut SchemaGenerator,
    description: &str,
    need: Presence,
) -> Schema {
    let mut schema = generator.subschema_for::<Described<T>>();
    if schema.get("$ref").is_some() {
        // Draft 7 ignores everything beside a `$ref`.
        schema = json_schema!({ "allOf": [schema] });
    }
    schema.insert("description".to_owned(), description.into());
    if let Presence::Default(text) = need {
        let value = DeValue::parse(text).expect("a default is valid TOML");
        let value = json(&value, &mut Reader::new(|_| None)).expect("a default can be JSON");
        schema.insert("default".to_owned(), value);
    }
    schema
}

/// Returns the text of doc comments, as one paragraph.
pub(crate) fn paragraph(lines: &[&str]) -> String {
    lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ").trim().to_owned()
}

/// Declares a table: the struct, its reader and its schema.
///
/// Each key has its name, the field that holds it, its shape, and `required` with an example of
/// it, `optional`, or `default` with the default in TOML.
macro_rules! table {
    (
        $(#[doc = $doc:literal])+
        $name:ident {
            $(
                $(#[doc = $field_doc:literal])+
                $key:literal $field:ident: $shape:ty, $need:ident $($given:literal)?;
            )+
        }
    ) => {
        $(#[doc = $doc])+
        #[derive(Debug)]
        pub(crate) struct $name {
            $(
                $(#[doc = $field_doc])+
                pub(crate) $field: Option<$crate::shape::At<$shape>>,
            )+
        }

        impl $name {
            /// The names of the keys.
            pub(crate) const KEYS: &'static [&'static str] = &[$($key),+];
        }

        impl $crate::shape::Shape for $name {
            const NAME: &'static str = stringify!($name);

            fn read(
                node: &$crate::shape::Node<'_>,
                reader: &mut $crate::shape::Reader,
            ) -> Option<Self> {
                let table = reader.table(node, Self::KEYS)?;
                Some(Self {
                    $($field: reader.field(
                        node,
                        table,
                        Self::KEYS,
                        $key,
                        $crate::shape::need!($need $($given)?),
                    )),+
                })
            }

            fn schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let mut properties = serde_json::Map::new();
                let mut required: Vec<&str> = Vec::new();
                $(
                    let need = $crate::shape::need!($need $($given)?);
                    if matches!(need, $crate::shape::Presence::Required(_)) {
                        required.push($key);
                    }
                    let description = $crate::shape::paragraph(&[$($field_doc),+]);
                    let schema =
                        $crate::shape::field_schema::<$shape>(generator, &description, need);
                    properties.insert($key.to_owned(), schema.to_value());
                )+
                let mut schema = schemars::json_schema!({
                    "type": "object",
                    "description": $crate::shape::paragraph(&[$($doc),+]),
                    "additionalProperties": false,
                    "properties": properties,
                });
                if !required.is_empty() {
                    schema.insert("required".to_owned(), required.into());
                }
                schema
            }
        }
    };
}
pub(crate) use table;

macro_rules! need {
    (required $example:literal) => {
        $crate::shape::Presence::Required($example)
    };
    (optional) => {
        $crate::shape::Presence::Optional
    };
    (default $text:literal) => {
        $crate::shape::Presence::Default($text)
    };
}
pub(crate) use need;

/// A single value, or a list of different values; empty only if an error says why.
#[derive(Debug)]
pub(crate) struct Axis<T> {
    pub(crate) values: Vec<At<T>>,
    /// Whether every value could be read; if not, a missing one proves nothing.
    pub(crate) complete: bool,
}

impl<T: Shape + Clone + Ord> Shape for Axis<T> {
    fn read(node: &Node<'_>, reader: &mut Reader) -> Option<Self> {
        let DeValue::Array(array) = node.get_ref() else {
            let value = T::read(node, reader).map(|value| At::new(node.span(), value));
            let complete = value.is_some();
            return Some(Self { values: value.into_iter().collect(), complete });
        };
        if array.is_empty() {
            reader.value_error(
                node,
                "the list is empty, so there would be no cell",
                "empty",
                "give at least one value, or leave the key out".to_owned(),
            );
            return Some(Self { values: Vec::new(), complete: false });
        }
        let mut values = Vec::with_capacity(array.len());
        let mut complete = true;
        let mut seen = BTreeSet::new();
        for element in array.iter() {
            let Some(value) = T::read(element, reader) else {
                complete = false;
                continue;
            };
            if seen.insert(value.clone()) {
                values.push(At::new(element.span(), value));
            } else {
                let hint = "remove one of them".to_owned();
                reader.value_error(element, "a value is listed twice", "again", hint);
            }
        }
        Some(Self { values, complete })
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<Described<T>>();
        json_schema!({
            "anyOf": [
                one,
                { "type": "array", "items": one, "minItems": 1, "uniqueItems": true },
            ]
        })
    }
}

/// A list that may be empty.
#[derive(Debug)]
pub(crate) struct List<T> {
    pub(crate) values: Vec<At<T>>,
    /// Whether every value could be read.
    pub(crate) complete: bool,
}

/// Returns the elements that can be read, and whether those are all.
fn elements<T: Shape>(array: &DeArray<'_>, reader: &mut Reader) -> (Vec<At<T>>, bool) {
    let read = |element: &Node<'_>| Some(At::new(element.span(), T::read(element, reader)?));
    let values: Vec<_> = array.iter().filter_map(read).collect();
    let complete = values.len() == array.len();
    (values, complete)
}

impl<T: Shape> Shape for List<T> {
    fn read(node: &Node<'_>, reader: &mut Reader) -> Option<Self> {
        let DeValue::Array(array) = node.get_ref() else {
            reader.wrong_type(node, "a list", "put it in square brackets: `[…]`".to_owned());
            return None;
        };
        let (values, complete) = elements(array, reader);
        Some(Self { values, complete })
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<Described<T>>();
        json_schema!({ "type": "array", "items": one })
    }
}

/// A list of tables, written `[[name]]`; empty only if an error says why.
#[derive(Debug)]
pub(crate) struct Tables<T> {
    pub(crate) values: Vec<At<T>>,
    /// Whether every table could be read; if not, a missing name proves nothing.
    pub(crate) complete: bool,
}

impl<T: Shape> Shape for Tables<T> {
    fn read(node: &Node<'_>, reader: &mut Reader) -> Option<Self> {
        let DeValue::Array(array) = node.get_ref() else {
            let name = reader.path.last().map_or("name", String::as_str);
            let hint = format!("write the header with two brackets: `[[{name}]]`");
            reader.wrong_type(node, "a list of tables", hint);
            return Some(Self { values: Vec::new(), complete: false });
        };
        if array.is_empty() {
            let hint = "give at least one, or leave the key out".to_owned();
            reader.value_error(node, "the list is empty", "empty", hint);
            return Some(Self { values: Vec::new(), complete: false });
        }
        let (values, complete) = elements(array, reader);
        Some(Self { values, complete })
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<Described<T>>();
        json_schema!({ "type": "array", "items": one, "minItems": 1 })
    }
}

/// A table whose keys are free.
#[derive(Debug)]
pub(crate) struct Named<T> {
    pub(crate) values: BTreeMap<String, At<T>>,
    /// Place of each key that was read.
    pub(crate) keys: BTreeMap<String, Range<usize>>,
}

impl<T: Shape> Shape for Named<T> {
    fn read(node: &Node<'_>, reader: &mut Reader) -> Option<Self> {
        let DeValue::Table(table) = node.get_ref() else {
            let hint = "write it as `{ name = value }`".to_owned();
            reader.wrong_type(node, "a table", hint);
            return None;
        };
        let mut values = BTreeMap::new();
        let mut keys = BTreeMap::new();
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            let outer = reader.named.replace(reader.path.len() + 1);
            let read = reader.step(name, |reader| T::read(value, reader));
            reader.named = outer;
            if let Some(read) = read {
                values.insert(name.to_owned(), At::new(value.span(), read));
                keys.insert(name.to_owned(), key.span());
            }
        }
        Some(Self { values, keys })
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<Described<T>>();
        json_schema!({ "type": "object", "additionalProperties": one })
    }
}

/// Converts a TOML value to JSON, with an error for each part that JSON cannot hold. Dates become
/// text.
pub(crate) fn json(node: &Node<'_>, reader: &mut Reader) -> Option<Value> {
    Some(match node.get_ref() {
        DeValue::String(text) => text.as_ref().into(),
        DeValue::Integer(_) => match integer(node.get_ref()) {
            Some(integer) => integer.into(),
            None => {
                reader.value_error(node, "the integer does not fit 64 bits", "too large", None);
                return None;
            }
        },
        DeValue::Float(float) => {
            let number = float.as_str().parse().ok().and_then(serde_json::Number::from_f64);
            if number.is_none() {
                reader.value_error(node, "expected a finite number", "not finite", None);
            }
            Value::Number(number?)
        }
        DeValue::Boolean(boolean) => (*boolean).into(),
        DeValue::Datetime(datetime) => datetime.to_string().into(),
        DeValue::Array(array) => {
            let values: Vec<_> = array.iter().map(|element| json(element, reader)).collect();
            Value::Array(values.into_iter().collect::<Option<_>>()?)
        }
        DeValue::Table(table) => {
            let values: Vec<_> = table
                .iter()
                .map(|(key, value)| {
                    let name = key.get_ref().as_ref();
                    let value = reader.step(name, |reader| json(value, reader))?;
                    Some((name.to_owned(), value))
                })
                .collect();
            Value::Object(values.into_iter().collect::<Option<_>>()?)
        }
    })
}

/// Returns the value of an integer; `None` for another type, or if it does not fit.
pub(crate) fn integer(value: &DeValue<'_>) -> Option<i64> {
    let integer = value.as_integer()?;
    i64::from_str_radix(integer.as_str(), integer.radix()).ok()
}

/// Returns the name of a value's type, with its article.
fn type_name(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a floating-point number",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
