//! The shape of `measure.pin`.

use std::collections::BTreeSet;

use host_record::Pin;
use schemars::{Schema, SchemaGenerator, json_schema};
use toml::de::DeValue;

use crate::shape::{Node, Reader, Shape, integer};

const HINT: &str = "write `\"none\"`, `\"auto\"`, or a list of processors such as `[2, 3]`";

/// `"none"`, `"auto"`, or a list of processors.
impl Shape for Pin {
    const NAME: &'static str = "Pin";

    fn read(node: &Node<'_>, reader: &mut Reader) -> Option<Self> {
        let list = match node.get_ref() {
            DeValue::Array(list) => list,
            DeValue::String(text) => {
                return match text.as_ref() {
                    "none" => Some(Self::None),
                    "auto" => Some(Self::Auto),
                    other => {
                        let message = format!("`{other}` is not a way to pin");
                        reader.value_error(node, message, "neither", HINT.to_owned());
                        None
                    }
                };
            }
            _ => {
                reader.wrong_type(node, "a word or a list of processors", HINT.to_owned());
                return None;
            }
        };
        if list.is_empty() {
            let message = "the list is empty, so there would be nowhere to run";
            reader.value_error(node, message, "empty", HINT.to_owned());
            return None;
        }
        let mut processors = BTreeSet::new();
        let mut whole = true;
        for element in list.iter() {
            let number = integer(element.get_ref()).and_then(|number| u32::try_from(number).ok());
            let Some(number) = number else {
                let message = "this is not a processor number";
                let hint = "processors are numbered from 0: lscpu --extended";
                reader.value_error(element, message, "not a processor", hint.to_owned());
                whole = false;
                continue;
            };
            if !processors.insert(number) {
                let message = "a processor is listed twice";
                reader.value_error(element, message, "again", "remove one of them".to_owned());
                whole = false;
            }
        }
        whole.then(|| Self::Processors(processors.into_iter().collect()))
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [
                { "enum": ["none", "auto"] },
                {
                    "type": "array",
                    "items": { "type": "integer", "minimum": 0, "maximum": u32::MAX },
                    "minItems": 1,
                    "uniqueItems": true,
                },
            ]
        })
    }
}

#[cfg(test)]
mod tests {
    use host_record::MeasureSettings;

    use super::*;

    fn measure(line: &str) -> Result<MeasureSettings, String> {
        let text = format!(
            "schema = 1\n[experiment]\nname = \"x\"\n[[model]]\nid = \"m\"\npath = \"m\"\n\
             [[backend]]\nid = \"cpu\"\n[measure]\n{line}\n"
        );
        match crate::parse(&text) {
            Ok(experiment) => Ok(experiment.measure),
            Err(errors) => Err(errors.errors[0].message.clone()),
        }
    }

    fn pin(value: &str) -> Result<Pin, String> {
        measure(&format!("pin = {value}")).map(|measure| measure.pin)
    }

    #[test]
    fn words_and_lists_are_read_and_all_else_is_named() {
        assert_eq!(pin("\"none\""), Ok(Pin::None));
        assert_eq!(pin("\"auto\""), Ok(Pin::Auto));
        assert_eq!(pin("[3, 0]"), Ok(Pin::Processors(vec![0, 3])));
        insta::assert_debug_snapshot!(
            ["\"all\"", "[]", "[1, 1]", "[-1]", "[\"a\"]", "2"].map(|value| pin(value).unwrap_err()),
            @r#"
    [
        "`measure.pin`: `all` is not a way to pin",
        "`measure.pin`: the list is empty, so there would be nowhere to run",
        "`measure.pin`: a processor is listed twice",
        "`measure.pin`: this is not a processor number",
        "`measure.pin`: this is not a processor number",
        "`measure.pin`: expected a word or a list of processors, found an integer",
    ]
    "#
        );
    }

    #[test]
    fn nice_values_are_those_of_the_system() {
        let nice = |value: &str| measure(&format!("nice = {value}")).map(|measure| measure.nice);
        assert_eq!(measure("").map(|measure| measure.nice), Ok(None));
        assert_eq!(["-20", "0", "19"].map(nice), [-20, 0, 19].map(|value| Ok(Some(value))));
        for (value, expected) in [
            ("-21", "`measure.nice`: must be between -20 and 19, got -21"),
            ("20", "`measure.nice`: must be between -20 and 19, got 20"),
            ("\"high\"", "`measure.nice`: expected an integer, found a string"),
        ] {
            assert_eq!(nice(value), Err(expected.to_owned()));
        }
    }
}
