//! Options of `[backend.options]`, as properties of OpenVINO.

use plugin_api::abi::OPTION_PLACEMENT;
use plugin_api::backend::{Error, ErrorCode, Options, Result};

/// Prefix of options that name a property of OpenVINO directly.
const PROPERTY: &str = "property.";

const KNOWN: &[&str] = &[
    "cpu-pinning",
    "execution-mode",
    "hyper-threading",
    "performance-hint",
    OPTION_PLACEMENT,
    "streams",
    "property.*",
];

/// Properties that have other settings.
const TAKEN: &[(&str, &str)] = &[
    ("ENABLE_CPU_PINNING", "the option `cpu-pinning`"),
    ("ENABLE_HYPER_THREADING", "the option `hyper-threading`"),
    ("EXECUTION_MODE_HINT", "the option `execution-mode`"),
    ("INFERENCE_NUM_THREADS", "`threads` of the backend"),
    ("INFERENCE_PRECISION_HINT", "`precision` of the matrix"),
    ("NUM_STREAMS", "the option `streams`"),
    ("PERFORMANCE_HINT", "the option `performance-hint`"),
    ("PERF_COUNT", "the extension `tare/profile/1`"),
];

/// A property to set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) property: String,
    pub(crate) value: String,
    /// The option that requests it; `None` for a default, which a device may lack.
    pub(crate) option: Option<String>,
}

/// Returns the settings of the options, and the defaults of the others.
///
/// # Errors
///
/// Names an option that is unknown or has an impossible value.
pub(crate) fn settings(options: &Options<'_>) -> Result<Vec<Setting>> {
    options.only(KNOWN)?;
    // A model must be compiled for a single device.
    options.strict_placement()?;
    let hints = [
        ("latency", "LATENCY"),
        ("throughput", "THROUGHPUT"),
        ("cumulative-throughput", "CUMULATIVE_THROUGHPUT"),
    ];
    let modes = [("performance", "PERFORMANCE"), ("accuracy", "ACCURACY")];
    let switch = [("true", "YES"), ("false", "NO")];
    let streams = match options.get("streams") {
        None | Some("auto") => options.get("streams").map(|_| "AUTO".to_owned()),
        Some(_) => options.parse::<std::num::NonZeroU32>("streams")?.map(|count| count.to_string()),
    };
    let mut settings = vec![
        setting(
            "performance-hint",
            "PERFORMANCE_HINT",
            choice(options, "performance-hint", &hints)?,
        )
        .unwrap_or_else(|| default("PERFORMANCE_HINT", "LATENCY")),
        setting(
            "execution-mode",
            "EXECUTION_MODE_HINT",
            choice(options, "execution-mode", &modes)?,
        )
        .unwrap_or_else(|| default("EXECUTION_MODE_HINT", "PERFORMANCE")),
    ];
    settings.extend(setting("streams", "NUM_STREAMS", streams));
    for (option, property) in
        [("cpu-pinning", "ENABLE_CPU_PINNING"), ("hyper-threading", "ENABLE_HYPER_THREADING")]
    {
        settings.extend(setting(option, property, choice(options, option, &switch)?));
    }
    for (property, value) in options.under(PROPERTY) {
        let option = format!("{PROPERTY}{property}");
        if let Some((_, instead)) = TAKEN.iter().find(|(taken, _)| *taken == property) {
            let message = format!("option `{option}` cannot be set: {instead} sets it");
            return Err(Error::new(ErrorCode::InvalidArgument, message));
        }
        settings.push(Setting {
            property: property.into(),
            value: value.into(),
            option: Some(option),
        });
    }
    Ok(settings)
}

fn default(property: &str, value: &str) -> Setting {
    Setting { property: property.into(), value: value.into(), option: None }
}

fn setting(option: &str, property: &str, value: Option<impl Into<String>>) -> Option<Setting> {
    let value = value?.into();
    Some(Setting { property: property.into(), value, option: Some(option.into()) })
}

/// Returns the value for one of several names.
fn choice(
    options: &Options<'_>,
    key: &str,
    choices: &[(&str, &'static str)],
) -> Result<Option<&'static str>> {
    let Some(word) = options.get(key) else { return Ok(None) };
    if let Some((_, value)) = choices.iter().find(|(known, _)| *known == word) {
        return Ok(Some(value));
    }
    let known: Vec<&str> = choices.iter().map(|(known, _)| *known).collect();
    let message = format!("option `{key}` cannot be `{word}`: it is {}", known.join(" or "));
    Err(Error::new(ErrorCode::InvalidArgument, message))
}
