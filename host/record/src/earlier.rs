//! Records of earlier hosts, in today's form.
//!
//! A record is read as it is. Only if that fails is it changed to today's form, value by value, and read again: so current
//! records cost nothing more, and a fault in a record is told as it was found first.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::warning::WarningKind;

/// Reads a record of this host or of an earlier one.
///
/// # Errors
///
/// The error of reading it as a record of this host.
pub fn read<T: DeserializeOwned>(text: &[u8]) -> serde_json::Result<T> {
    let found = match serde_json::from_slice::<T>(text) {
        Ok(record) => return Ok(record),
        Err(found) => found,
    };
    let Ok(mut value) = serde_json::from_slice::<Value>(text) else { return Err(found) };
    bring_up(&mut value);
    serde_json::from_value(value).map_err(|_| found)
}

/// Changes a value and all in it.
fn bring_up(value: &mut Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(bring_up),
        Value::Object(fields) => {
            fields.values_mut().for_each(bring_up);
            told(fields);
            failure(fields);
            case(fields);
            rename(fields, "wanted", "requested", "providers");
            device_states(fields);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Until 2026-11-29, gaps and warnings were recorded in words, without figures.
fn told(fields: &mut Map<String, Value>) {
    let kind = fields.get("kind").and_then(Value::as_str).unwrap_or_default();
    if let (true, Ok(warning)) = (fields.contains_key("evidence"), kind.parse::<WarningKind>()) {
        fields.insert("warning".into(), warning.name().into());
        fields.insert("kind".into(), "earlier".into());
    } else if fields.contains_key("reason") && !fields.contains_key("cause") {
        match kind {
            "not-measured" | "unsupported" | "impossible" => {}
            // It named no precisions, backend and device.
            "precision-unsupported" => {
                fields.insert("kind".into(), "unsupported".into());
            }
            _ => return,
        }
        fields.insert("cause".into(), "told".into());
    }
}

/// Until 2026-11-29, the message of a backend began with the call.
fn failure(fields: &mut Map<String, Value>) {
    if fields.get("kind").is_some_and(|kind| kind == "backend")
        && !fields.contains_key("call")
        && let Some(Value::String(message)) = fields.get("message")
        && let Some((call, message)) = message.split_once(": ")
    {
        let (call, message) = (call.to_owned(), message.to_owned());
        fields.insert("call".into(), call.into());
        fields.insert("message".into(), message.into());
    }
}

/// Until 2026-11-29, a case had the path of its model and of its plugin's library.
fn case(fields: &mut Map<String, Value>) {
    let (Some(Value::String(path)), Some(sha256)) =
        (fields.get("model-path"), fields.get("model-sha256"))
    else {
        return;
    };
    let name = path.rsplit('/').next().unwrap_or(path);
    let model = json!({ "name": name, "sha256": sha256 });
    fields.insert("model".into(), model);
    for gone in ["model-path", "model-sha256", "plugin-library"] {
        fields.remove(gone);
    }
}

/// Until 2026-11-29, readings of a device's state were called looks, and had no number for each reason of low clocks.
fn device_states(fields: &mut Map<String, Value>) {
    rename(fields, "looks", "readings", "period-ns");
    rename(fields, "look-ns", "reading-ns", "period-ns");
}

/// Renames a field of an object that has another one.
fn rename(fields: &mut Map<String, Value>, from: &str, to: &str, beside: &str) {
    if fields.contains_key(beside)
        && !fields.contains_key(to)
        && let Some(value) = fields.remove(from)
    {
        fields.insert(to.into(), value);
    }
}
