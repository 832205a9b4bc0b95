//! Facts about a machine and its devices as names and texts: `processor.name` → `AMD EPYC`.

use std::collections::BTreeMap;

use host_record::{DeviceInfo, Environment};
use serde_json::Value as Json;

/// Facts by name; `None` if the machine does not report one.
pub type Facts = BTreeMap<String, Option<String>>;

/// Returns the facts about a machine. The commit belongs to the repository, and not to the machine.
#[must_use]
pub fn machine_facts(environment: Environment) -> Facts {
    let mut facts = Facts::new();
    let mut json = serde_json::to_value(environment).unwrap_or_default();
    if let Some(object) = json.as_object_mut() {
        object.remove("git-commit");
        object.remove("git-dirty");
    }
    flatten("", &json, &mut facts);
    facts
}

/// Adds the facts about a backend's device, below `device.BACKEND.DEVICE`.
pub fn device_facts(backend: &str, device: &DeviceInfo, facts: &mut Facts) {
    let json = serde_json::to_value(device).unwrap_or_default();
    flatten(&format!("device.{backend}.{}", device.id), &json, facts);
}

fn flatten(prefix: &str, value: &Json, into: &mut Facts) {
    let text = match value {
        Json::Object(fields) => {
            for (name, value) in fields {
                let name =
                    if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
                flatten(&name, value, into);
            }
            return;
        }
        Json::Null => None,
        Json::String(text) => Some(text.clone()),
        Json::Array(values) if values.iter().all(Json::is_string) => {
            let words: Vec<_> = values.iter().filter_map(Json::as_str).collect();
            Some(words.join(", "))
        }
        other => Some(other.to_string()),
    };
    into.insert(prefix.to_owned(), text);
}
