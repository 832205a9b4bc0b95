//! Options: from the text of a JSON object to a plugin's own type.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::{Description, Error};

/// For a plugin that takes no options.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoOptions {}

/// Parses options. A key that the description does not name is refused, whether or not the type
/// denies unknown fields, since a mistyped option must not silently change a result.
///
/// # Errors
///
/// Names the wrong option, and the expected value.
pub fn parse<T: DeserializeOwned>(description: &Description, text: &str) -> Result<T, Error> {
    let text = if text.trim().is_empty() { "{}" } else { text };
    let options: Map<String, Value> = serde_json::from_str(text)
        .map_err(|error| Error::Options(format!("not a JSON object: {error}")))?;
    for name in options.keys() {
        if !description.options.iter().any(|(known, _)| known == name) {
            return Err(unknown(description, name));
        }
    }
    serde_json::from_value(Value::Object(options))
        .map_err(|error| Error::Options(error.to_string()))
}

fn unknown(description: &Description, name: &str) -> Error {
    let id = description.id;
    if description.options.is_empty() {
        return Error::Options(format!("`{id}` takes no options, and was given `{name}`"));
    }
    let known: Vec<_> = description.options.iter().map(|(name, _)| format!("`{name}`")).collect();
    Error::Options(format!("`{id}` has no option `{name}`; it has: {}", known.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    struct Percentiles {
        #[serde(default)]
        percentiles: Vec<f64>,
    }

    const DESCRIPTION: Description =
        crate::describe!("latency", { "percentiles" => "Percentiles, 0 to 100." });

    fn error<T: DeserializeOwned + std::fmt::Debug>(
        description: &Description,
        text: &str,
    ) -> String {
        parse::<T>(description, text).expect_err("options that make no sense").to_string()
    }

    #[test]
    fn options_are_typed_and_may_be_left_out() {
        let parsed: Percentiles = parse(&DESCRIPTION, r#"{"percentiles": [50, 99.9]}"#).unwrap();
        assert_eq!(parsed.percentiles, [50.0, 99.9]);
        for nothing in ["{}", "", "  "] {
            let parsed: Percentiles = parse(&DESCRIPTION, nothing).unwrap();
            assert!(parsed.percentiles.is_empty());
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        insta::assert_snapshot!(
            error::<Percentiles>(&DESCRIPTION, r#"{"percentile": [50]}"#),
            @"options: `latency` has no option `percentile`; it has: `percentiles`"
        );
        insta::assert_snapshot!(
            error::<Percentiles>(&DESCRIPTION, r#"{"percentiles": "all"}"#),
            @r#"options: invalid type: string "all", expected a sequence"#
        );
        insta::assert_snapshot!(
            error::<Percentiles>(&DESCRIPTION, "[50]"),
            @"options: not a JSON object: invalid type: sequence, expected a map at line 1 column 0"
        );
        insta::assert_snapshot!(
            error::<NoOptions>(&crate::describe!("memory"), r#"{"swap": true}"#),
            @"options: `memory` takes no options, and was given `swap`"
        );
    }
}
