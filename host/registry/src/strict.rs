//! Strict reading of a plugin folder's TOML files: errors name the file, the line and the key.

use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::error::{MetadataError, nearest};

/// The text of a file.
#[derive(Clone, Copy)]
pub(crate) struct Text<'text> {
    pub(crate) text: &'text str,
    /// Named in errors.
    pub(crate) file: &'text Path,
}

impl Text<'_> {
    /// Parses the text. Checks `schema` first: a newer file may have unknown keys, and then its version is the
    /// reported reason.
    pub(crate) fn parse<T: DeserializeOwned>(self, newest: u32) -> Result<T, MetadataError> {
        #[derive(Deserialize)]
        struct Schema {
            schema: u32,
        }
        let syntax = |error| self.syntax(&error);
        let Schema { schema } = toml::from_str(self.text).map_err(syntax)?;
        if schema == 0 || schema > newest {
            return Err(self.at_key(
                "schema",
                format!(
                    "unknown schema {schema}; this host reads up to {newest} and may need an update"
                ),
            ));
        }
        toml::from_str(self.text).map_err(syntax)
    }

    /// Returns the error for the value of a top-level key.
    pub(crate) fn at_key(self, key: &str, message: String) -> MetadataError {
        self.at(offset_of_key(self.text, key), message)
    }

    fn at(self, offset: Option<usize>, message: String) -> MetadataError {
        MetadataError {
            file: self.file.to_owned(),
            line: offset.map(|offset| line_of(self.text, offset)),
            message,
        }
    }

    fn syntax(self, error: &toml::de::Error) -> MetadataError {
        let offset = error.span().map(|span| span.start);
        let message = error.message();
        if message.starts_with("missing field") {
            return self.at(None, message.replace("missing field", "missing key"));
        }
        if message.starts_with("unknown field") {
            return self.at(offset, unknown_key(message));
        }
        let key = offset.and_then(|offset| key_at(self.text, offset));
        self.at(offset, key.map_or(message.to_owned(), |key| format!("`{key}`: {message}")))
    }
}

/// Returns the unknown key and the nearest known one, since a typo is the most common reason. The message
/// lists them between backticks, the unknown one first.
fn unknown_key(message: &str) -> String {
    let mut keys = message.split('`').skip(1).step_by(2);
    let key = keys.next().unwrap_or_default();
    let meant = nearest(key, keys).map(|key| format!("; did you mean `{key}`?"));
    format!("unknown key `{key}`{}", meant.unwrap_or_default())
}

/// Returns the key that is assigned on the line of `offset`.
fn key_at(text: &str, offset: usize) -> Option<&str> {
    let line = text.lines().nth(line_of(text, offset) - 1)?;
    Some(line.split_once('=')?.0.trim())
}

fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}

/// Returns the start of the line that assigns the top-level `key`.
fn offset_of_key(text: &str, key: &str) -> Option<usize> {
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        let rest = line.trim_start().strip_prefix(key);
        if rest.is_some_and(|rest| rest.trim_start().starts_with('=')) {
            return Some(offset);
        }
        offset += line.len();
    }
    None
}

/// Returns whether the text can be shown in a table: it has no line breaks and no other control
/// characters.
pub(crate) fn is_line(text: &str) -> bool {
    !text.chars().any(char::is_control)
}
