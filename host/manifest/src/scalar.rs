//! Shapes of single values: names, counts, durations, sizes, versions.

use std::fmt;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use host_record::{
    Engine, Find, Mode, Order, PlacementRule, Precision, Rate, RuleSet, Scenario, Share, WarmUp,
};
use schemars::{Schema, SchemaGenerator, json_schema};
use semver::VersionReq;
use toml::de::DeValue;

use crate::experiment::DeviceChoice;
use crate::shape::{Node, Reader, Shape, integer, json};
use crate::suggestions::suggestion;

/// Returns the string in `node`, or records an error that names the expected value.
fn text<'node>(
    node: &'node Node<'_>,
    reader: &mut Reader,
    expected: &str,
    hint: Option<&str>,
) -> Option<&'node str> {
    let text = node.get_ref().as_str();
    if text.is_none() {
        reader.wrong_type(node, expected, hint.map(str::to_owned));
    }
    text
}

/// Any text.
impl Shape for String {
    fn read(node: &Node<'_>, reader: &mut Reader) -> Option<Self> {
        text(node, reader, "a string", Some("put it in quotes")).map(str::to_owned)
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string" })
    }
}

/// Text that says something.
#[derive(Debug)]
pub(crate) struct Title(pub(crate) String);

impl Shape for Title {
    fn read(node: &Node<'_>, reader: &mut Reader) -> Option<Self> {
        let text = text(node, reader, "a string", Some("put it in quotes"))?;
        if text.trim().is_empty() {
            reader.value_error(node, "the text is empty", "empty", None);
            return None;
        }
        Some(Self(text.to_owned()))
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": r"\S" })
    }
}

/// Id of a model or backend: what results call it by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Id(pub(crate) String);

impl fmt::Display for Id {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.0)
    }
}

impl Id {
    const PATTERN: &'static str = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$";

    fn fits(text: &str) -> bool {
        text.len() <= 64
            && text.starts_with(|first: char| first.is_ascii_alphanumeric())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
    }
}

impl Shape for Id {
    const NAME: &'static str = "Id";

    fn read(node: &Node<'_>, reader: &mut Reader) -> Option<Self> {
        let text = text(node, reader, "an id in quotes", None)?;
        if !Self::fits(text) {
            let hint = "use 1 to 64 letters, digits, `.`, `_` and `-`, beginning with a letter or \
                        digit";
            reader.value_error(node, "this is not a valid id", "not an id", hint.to_owned());
            return None;
        }
        Some(Self(text.to_owned()))
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": Self::PATTERN })
    }
}

/// Name of an environment variable.
#[derive(Debug)]
pub(crate) struct VariableName(pub(crate) String);

impl VariableName {
    const PATTERN: &'static str = "^[A-Za-z_][A-Za-z0-9_]*$";

    fn fits(text: &str) -> bool {
        text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && text.chars().all(|one| one.is_ascii_alphanumeric() || one == '_')
    }
}

impl Shape for VariableName {
    const NAME: &'static str = "VariableName";

    fn read(node: &Node<'_>, reader: &mut Reader) -> Option<Self> {
        let text = text(node, reader, "the name of an environment variable in quotes", None)?;
        if !Self::fits(text) {
            let message = format!("`{text}` is not the name of an environment variable");
            let hint = "give the name alone, such as `HF_HOME`; its value is the host's".to_owned();
            reader.value_error(node, message, "not a name", hint);
            return None;
        }
        Some(Self(text.to_owned()))
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": Self::PATTERN })
    }
}

/// Id of a plugin.
#[derive(Debug)]
pub(crate) struct PluginId(pub(crate) String);

impl PluginId {
    const PATTERN: &'static str = "^[a-z][a-z0-9]*(-[a-z0-9]+)*$";

    /// Returns whether a text can be the id of a plugin.
    pub(crate) fn fits(text: &str) -> bool {
        text.starts_with(|first: char| first.is_ascii_lowercase())
            && text.split('-').all(|word| {
                !word.is_empty()
                    && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
            })
    }

    /// Rule for a plugin's id, in words.
    pub(crate) const RULE: &'static str =
        "plugin ids are lower-case words and digits joined by hyphens, such as `latency`";
}

impl Shape for PluginId {
    const NAME: &'static str = "PluginId";

    fn read(node: &Node<'_>, reader: &mut Reader) -> Option<Self> {
        let text = text(node, reader, "a plugin's id in quotes", None)?;
        if !Self::fits(text) {
            let message = format!("`{text}` is not a valid plugin id");
            reader.value_error(node, message, "not a plugin id", Self::RULE.to_owned());
            return None;
        }
        Some(Self(text.to_owned()))
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": Self::PATTERN })
    }
}

/// A path, as written.
impl Shape for PathBuf {
    fn read(node: &Node<'_>, reader: &mut Reader) -> Option<Self> {
        let text = text(node, reader, "a path in quotes", None)?;
        if text.trim().is_empty() || text.contains('\0') {
            let hint = "paths are relative to the manifest's folder".to_owned();
            reader.value_error(node, "this is not a valid path", "not a path", hint);
            return None;
        }
        Some(text.into())
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": r"\S" })
    }
}

/// Returns an integer within bounds, or records an error that states them.
fn bounded(
    node: &Node<'_>,
    reader: &mut Reader,
    expected: &str,
    minimum: u64,
    maximum: u64,
) -> Option<u64> {
    if !node.get_ref().is_integer() {
        reader.wrong_type(node, expected, None);
        return None;
    }
    let value = integer(node.get_ref()).and_then(|value| u64::try_from(value).ok());
    let value = value.filter(|value| (minimum..=maximum).contains(value));
    if value.is_none() {
        let message = format!("expected {expected}, found {}", written(node));
        let hint = format!("it may be {minimum} to {maximum}");
        reader.value_error(node, message, "out of range", hint);
    }
    value
}

fn written(node: &Node<'_>) -> String {
    node.get_ref().as_integer().map_or_else(|| "something else".to_owned(), ToString::to_string)
}

/// TOML's integers end here.
const INTEGER_MAXIMUM: u64 = i64::MAX.unsigned_abs();

/// The version of the manifest's format that this crate reads.
pub const SCHEMA_VERSION: u32 = 1;

/// The manifest's `schema` number, once it is known to be [`SCHEMA_VERSION`].
#[derive(Debug)]
pub(crate) struct SchemaVersion;

impl SchemaVersion {
    /// Returns whether a number is of a later format than this crate reads.
    pub(crate) fn is_newer(node: &Node<'_>) -> bool {
        integer(node.get_ref()).is_some_and(|number| number > i64::from(SCHEMA_VERSION))
    }
}

impl Shape for SchemaVersion {
    fn read(node: &Node<'_>, reader: &mut Reader) -> Option<Self> {
        let hint = format!("write `schema = {SCHEMA_VERSION}`");
        if !node.get_ref().is_integer() {
            reader.wrong_type(node, "an integer", hint);
            return None;
        }
        if integer(node.get_ref()) == Some(SCHEMA_VERSION.into()) {
            return Some(Self);
        }
        if Self::is_newer(node) {
            let message = format!(
                "the manifest has schema {}, but this version of the host reads schema \
                 {SCHEMA_VERSION}",
                written(node),
            );
            let hint =
                format!("update the host, or rewrite the manifest for schema {SCHEMA_VERSION}");
            reader.error(node.span(), message, "newer than this host", hint);
        } else {
            let message = format!("there is no schema {}", written(node));
            reader.error(node.span(), message, "no such schema", hint);
        }
        None
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "const": SCHEMA_VERSION })
    }
}

/// A count of at least one that fits 32 bits.
/// The greatest count: the database has columns of 32 bits with a sign.
const LARGEST_COUNT: u32 = i32::MAX as u32;

impl Shape for NonZeroU32 {
    fn read(node: &Node<'_>, reader: &mut Reader) -> Option<Self> {
        let value = bounded(node, reader, "a positive integer", 1, LARGEST_COUNT.into())?;
        u32::try_from(value).ok().and_then(Self::new)
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": 1, "maximum": LARGEST_COUNT })
    }
}

/// A count of at least one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Positive(pub(crate) u64);

impl Shape for Positive {
    fn read(node: &Node<'_>, reader: &mut Reader) -> Option<Self> {
        bounded(node, reader, "a positive integer", 1, INTEGER_MAXIMUM).map(Self)
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": 1, "maximum": INTEGER_MAXIMUM })
    }
}

/// An integer of at least zero.
impl Shape for u64 {
    fn read(node: &Node<'_>, reader: &mut Reader) -> Option<Self> {
        bounded(node, reader, "an integer of 0 or more", 0, INTEGER_MAXIMUM)
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": 0, "maximum": INTEGER_MAXIMUM })
    }
}

/// Yes or no.
impl Shape for bool {
    fn read(node: &Node<'_>, reader: &mut Reader) -> Option<Self> {
        let DeValue::Boolean(value) = node.get_ref() else {
            reader.wrong_type(node, "`true` or `false`", None);
            return None;
        };
        Some(*value)
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "boolean" })
    }
}

/// A finite number.
impl Shape for f64 {
    fn read(node: &Node<'_>, reader: &mut Reader) -> Option<Self> {
        if !matches!(node.get_ref(), DeValue::Integer(_) | DeValue::Float(_)) {
            reader.wrong_type(node, "a number", None);
            return None;
        }
        json(node, reader)?.as_f64()
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number" })
    }
}

/// Names of a closed set of values.
macro_rules! names {
    ($($type:ident $article:literal;)+) => {$(
        impl Shape for $type {
            const NAME: &'static str = stringify!($type);

            fn read(node: &Node<'_>, reader: &mut Reader) -> Option<Self> {
                let known: Vec<_> = Self::ALL.iter().map(|value| value.name()).collect();
                let hint = suggestion("", &known, "known values are");
                let text = text(node, reader, concat!($article, " in quotes"), Some(&hint))?;
                let value = text.parse().ok();
                if value.is_none() {
                    reader.value_error(
                        node,
                        format!(concat!("`{}` is not ", $article), text),
                        "unknown",
                        suggestion(text, &known, "known values are"),
                    );
                }
                value
            }

            fn schema(_: &mut SchemaGenerator) -> Schema {
                let known: Vec<_> = Self::ALL.iter().map(|value| value.name()).collect();
                json_schema!({ "type": "string", "enum": known })
            }
        }
    )+};
}

names! {
    Precision "a precision";
    Mode "a mode";
    Scenario "a scenario";
    RuleSet "a set of rules";
    Find "a search target";
    Order "an order";
    Engine "an engine";
    PlacementRule "a placement";
}

/// Returns the number in `node`, converted by a function that may refuse it.
fn number<T>(
    node: &Node<'_>,
    reader: &mut Reader,
    make: impl FnOnce(f64) -> Result<T, String>,
    label: &str,
    hint: &str,
) -> Option<T> {
    let number = f64::read(node, reader)?;
    let made = make(number);
    if let Err(message) = &made {
        reader.value_error(node, message, label, hint.to_owned());
    }
    made.ok()
}

/// A rate of queries per second.
impl Shape for Rate {
    const NAME: &'static str = "QueriesPerSecond";

    fn read(node: &Node<'_>, reader: &mut Reader) -> Option<Self> {
        let hint = "write a number of queries per second, such as `500`";
        number(node, reader, Self::per_second, "not a rate", hint)
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "exclusiveMinimum": 0, "maximum": 1e9 })
    }
}

/// A percentile, such as 99 or 99.9.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Percentile(pub(crate) Share);

impl Shape for Percentile {
    const NAME: &'static str = "Percentile";

    fn read(node: &Node<'_>, reader: &mut Reader) -> Option<Self> {
        // The digits that were written, and none that division leaves behind.
        let share = |percentile: f64| {
            let wrong = |_| format!("{percentile} is not a percentile above 0 and below 100");
            Share::new((percentile * 1e6).round() / 1e8).map_err(wrong)
        };
        number(node, reader, share, "not a percentile", "write a number, such as `99`").map(Self)
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 100 })
    }
}

/// A nice value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Nice(pub(crate) i32);

impl Shape for Nice {
    const NAME: &'static str = "Nice";

    fn read(node: &Node<'_>, reader: &mut Reader) -> Option<Self> {
        if !node.get_ref().is_integer() {
            reader.wrong_type(node, "an integer", None);
            return None;
        }
        let found = integer(node.get_ref()).and_then(|value| i32::try_from(value).ok());
        let nice = found.filter(|value| (-20..=19).contains(value)).map(Self);
        if nice.is_none() {
            let message = format!("must be between -20 and 19, got {}", written(node));
            let hint = "-20 is the highest priority, 19 the lowest".to_owned();
            reader.value_error(node, message, "out of range", hint);
        }
        nice
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": -20, "maximum": 19 })
    }
}

/// A level of confidence, such as 0.99.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Level(pub(crate) Share);

impl Shape for Level {
    const NAME: &'static str = "ConfidenceLevel";

    fn read(node: &Node<'_>, reader: &mut Reader) -> Option<Self> {
        let hint = "write a number such as `0.95` or `0.99`";
        let level = |level: f64| {
            let wrong = |_| format!("{level} is not a level of confidence from 0.5 to below 1");
            Share::new(level)
                .map_err(wrong)
                .and_then(|share| if level < 0.5 { Err(wrong(String::new())) } else { Ok(share) })
        };
        number(node, reader, level, "not a level of confidence", hint).map(Self)
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "minimum": 0.5, "exclusiveMaximum": 1 })
    }
}

/// A relative value in per cent, such as `"1%"`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PerCent(pub(crate) Share);

impl Shape for PerCent {
    const NAME: &'static str = "PerCent";

    fn read(node: &Node<'_>, reader: &mut Reader) -> Option<Self> {
        let hint = "write a percentage in quotes, such as `\"1%\"`";
        let text = text(node, reader, "a percentage", Some(hint))?;
        let number = text.strip_suffix('%').map(str::trim).and_then(|text| text.parse().ok());
        let share = number.and_then(|number: f64| Share::new((number * 1e6).round() / 1e8).ok());
        if share.is_none() {
            let message = format!("`{text}` is not a percentage above 0 % and below 100 %");
            reader.value_error(node, message, "not a percentage", hint.to_owned());
        }
        share.map(Self)
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": r"^[0-9]+(\.[0-9]+)? *%$",
            "examples": ["1%", "0.5%"],
        })
    }
}

impl Shape for DeviceChoice {
    const NAME: &'static str = "Device";

    fn read(node: &Node<'_>, reader: &mut Reader) -> Option<Self> {
        let hint = "write `\"auto\"`, or an id that `host devices` lists, such as `\"cpu:0\"`";
        let text = text(node, reader, "a device in quotes", Some(hint))?;
        if text.is_empty() || text.contains(|c: char| c.is_whitespace() || c.is_control()) {
            reader.value_error(node, "this cannot be a device", "not a device", hint.to_owned());
            return None;
        }
        Some(if text == Self::AUTO { Self::Auto } else { Self::Id(text.to_owned()) })
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": r"^\S+$" })
    }
}

/// A range of versions.
impl Shape for VersionReq {
    const NAME: &'static str = "VersionRange";

    fn read(node: &Node<'_>, reader: &mut Reader) -> Option<Self> {
        let hint = "write a range such as `\"^0.1\"`, `\">=1.2, <2\"` or `\"*\"`";
        let text = text(node, reader, "a range of versions in quotes", Some(hint))?;
        match text.parse() {
            Ok(range) => Some(range),
            Err(error) => {
                let message = format!("`{text}` is not a range of versions: {error}");
                reader.value_error(node, message, "not a range of versions", hint.to_owned());
                None
            }
        }
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": r"^\s*([*xX]|(=|>|>=|<|<=|~|\^)?\s*[0-9])",
            "examples": ["^0.1", ">=1.2, <2", "*"],
        })
    }
}

/// A unit and what it is in the smallest one.
type Unit = (&'static str, u64);

const TIMES: &[Unit] = &[
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

const SIZES: &[Unit] = &[
    ("B", 1),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

const TIME_PATTERN: &str = r"^[0-9]+(\.[0-9]+)? ?(ns|us|µs|ms|s|min|h)$";
const SIZE_PATTERN: &str = r"^[0-9]+(\.[0-9]+)? ?(B|kB|MB|GB|TB|KiB|MiB|GiB|TiB)$";

/// Reads a decimal number and a unit, exactly.
///
/// The error says what is wrong, and gives a hint.
fn quantity(text: &str, units: &[Unit]) -> Result<u64, (String, String)> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, rest) = text.split_at(split);
    let name = rest.strip_prefix(' ').unwrap_or(rest);
    let names: Vec<_> = units.iter().map(|(name, _)| *name).collect();
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if whole.is_empty() || fraction.is_empty() || fraction.contains('.') {
        let hint = format!("write a number and a unit, such as `5 {}`", names[names.len() / 2]);
        return Err(("it does not begin with a number".to_owned(), hint));
    }
    let Some((_, factor)) = units.iter().find(|(unit, _)| *unit == name) else {
        let hint = match name {
            "" => suggestion("", &names, "the units are"),
            "m" => "write `min` for minutes or `ms` for milliseconds".to_owned(),
            _ => suggestion(name, &names, "the units are"),
        };
        let what = if name.is_empty() {
            "the unit is missing".to_owned()
        } else {
            format!("`{name}` is not a unit")
        };
        return Err((what, hint));
    };
    let large =
        || ("it is too large".to_owned(), format!("at most {INTEGER_MAXIMUM} {}", names[0]));
    let fraction = fraction.trim_end_matches('0');
    let digits: u128 = format!("{whole}{fraction}").parse().map_err(|_| large())?;
    let scale = u32::try_from(fraction.len())
        .ok()
        .and_then(|places| 10_u128.checked_pow(places))
        .ok_or_else(large)?;
    let product = digits.checked_mul((*factor).into()).ok_or_else(large)?;
    if product % scale != 0 {
        let hint = format!("the smallest step is 1 {}", names[0]);
        return Err((format!("it is no whole number of {}", names[0]), hint));
    }
    let value = u64::try_from(product / scale).map_err(|_| large())?;
    if value > INTEGER_MAXIMUM { Err(large()) } else { Ok(value) }
}

/// Reads a duration as a manifest has it, such as `200ms` or `1.5 min`.
///
/// # Errors
///
/// If it is not a number and a unit, with a hint.
pub fn duration(text: &str) -> Result<Duration, String> {
    quantity(text, TIMES)
        .map(Duration::from_nanos)
        .map_err(|(what, hint)| format!("{what}; {hint}"))
}

/// Reads a size such as `2 GiB` in bytes.
///
/// # Errors
///
/// If it is not a number and a unit, with a hint.
pub fn size(text: &str) -> Result<u64, String> {
    quantity(text, SIZES).map_err(|(what, hint)| format!("{what}; {hint}"))
}

/// A duration in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Nanoseconds(pub(crate) u64);

impl Shape for Nanoseconds {
    const NAME: &'static str = "Duration";

    fn read(node: &Node<'_>, reader: &mut Reader) -> Option<Self> {
        let hint = "write a number and a unit in quotes, such as `\"200ms\"`";
        let text = text(node, reader, "a duration", Some(hint))?;
        match quantity(text, TIMES) {
            Ok(value) => Some(Self(value)),
            Err((what, hint)) => {
                let message = format!("`{text}` is not a duration: {what}");
                reader.value_error(node, message, "not a duration", hint);
                None
            }
        }
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": TIME_PATTERN, "examples": ["200ms", "1.5s"] })
    }
}

/// A size in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bytes(pub(crate) u64);

impl Shape for Bytes {
    const NAME: &'static str = "Size";

    fn read(node: &Node<'_>, reader: &mut Reader) -> Option<Self> {
        let hint = "write a number and a unit in quotes, such as `\"2 GiB\"`";
        let text = text(node, reader, "a size", Some(hint))?;
        match quantity(text, SIZES) {
            Ok(value) => Some(Self(value)),
            Err((what, hint)) => {
                let message = format!("`{text}` is not a size: {what}");
                reader.value_error(node, message, "not a size", hint);
                None
            }
        }
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": SIZE_PATTERN, "examples": ["2 GiB", "500MB"] })
    }
}

/// A duration, a number of queries, or `auto`.
impl Shape for WarmUp {
    const NAME: &'static str = "WarmUp";

    fn read(node: &Node<'_>, reader: &mut Reader) -> Option<Self> {
        match node.get_ref() {
            DeValue::Integer(_) => u64::read(node, reader).map(Self::Iterations),
            DeValue::String(text) if text == "auto" => Some(Self::Auto),
            DeValue::String(text) if !text.chars().any(|one| one.is_ascii_digit()) => {
                let message = format!("`{text}` is neither a duration nor `auto`");
                let known = "write a duration such as `\"200ms\"`, a number of queries, or";
                let hint = suggestion(text, &["auto"], known);
                reader.value_error(node, message, "not a warm-up", hint);
                None
            }
            DeValue::String(_) => {
                Nanoseconds::read(node, reader).map(|Nanoseconds(value)| Self::Nanoseconds(value))
            }
            _ => {
                let hint =
                    "write a duration such as `\"200ms\"`, a number of queries, or `\"auto\"`";
                let expected = "a duration, a number of queries or `auto`";
                reader.wrong_type(node, expected, hint.to_owned());
                None
            }
        }
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [
                u64::schema(generator),
                Nanoseconds::schema(generator),
                { "type": "string", "const": "auto" },
            ],
        })
    }
}

/// A bound on a metric: a plain number, a duration or a size.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BoundValue {
    /// The value, in `unit`, or else in the metric's own unit.
    pub(crate) value: f64,
    /// `ns` or `B`.
    pub(crate) unit: Option<&'static str>,
}

impl Shape for BoundValue {
    const NAME: &'static str = "Bound";

    fn read(node: &Node<'_>, reader: &mut Reader) -> Option<Self> {
        let hint = "write a number in the metric's unit, a duration such as `\"5ms\"`, or a size \
                    such as `\"2 GiB\"`";
        match node.get_ref() {
            DeValue::Integer(_) | DeValue::Float(_) => {
                f64::read(node, reader).map(|value| Self { value, unit: None })
            }
            DeValue::String(text) => {
                let time = quantity(text, TIMES).map(|value| (value, "ns"));
                let size = || quantity(text, SIZES).map(|value| (value, "B"));
                let Ok((value, unit)) = time.or_else(|_| size()) else {
                    let message = format!("`{text}` is neither a duration nor a size");
                    reader.value_error(node, message, "not a bound", hint.to_owned());
                    return None;
                };
                Some(Self { value: value as f64, unit: Some(unit) })
            }
            _ => {
                reader.wrong_type(node, "a bound", hint.to_owned());
                None
            }
        }
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [
                { "type": "number" },
                { "type": "string", "pattern": TIME_PATTERN },
                { "type": "string", "pattern": SIZE_PATTERN },
            ],
            "examples": ["5ms", "2 GiB", 0.95],
        })
    }
}

/// A single value that a backend gets as text.
#[derive(Debug)]
pub(crate) struct OptionText(pub(crate) String);

impl Shape for OptionText {
    const NAME: &'static str = "BackendOption";

    fn read(node: &Node<'_>, reader: &mut Reader) -> Option<Self> {
        if matches!(node.get_ref(), DeValue::Array(_) | DeValue::Table(_)) {
            let hint = "options of backends are single values".to_owned();
            reader.wrong_type(node, "a string, number or boolean", hint);
            return None;
        }
        Some(Self(match json(node, reader)? {
            serde_json::Value::String(text) => text,
            other => other.to_string(),
        }))
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "number", "boolean"] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_exact() {
        for (text, expected) in [
            ("200ms", 200_000_000),
            ("1.5 s", 1_500_000_000),
            ("0.000001ms", 1),
            ("1.0000000000s", 1_000_000_000),
            ("0s", 0),
            ("2h", 7_200_000_000_000),
            ("3µs", 3_000),
            ("3us", 3_000),
            ("9223372036854775807ns", INTEGER_MAXIMUM),
        ] {
            assert_eq!(quantity(text, TIMES), Ok(expected), "{text}");
        }
    }

    #[test]
    fn bad_quantities_say_what_to_do() {
        let answers: Vec<String> = [
            "",
            "ms",
            "5",
            "5m",
            "5sec",
            "5 MS",
            "1.s",
            ".5s",
            "1.2.3s",
            "0.1ns",
            "-5ms",
            "5  ms",
            "9223372036854775808ns",
            "99999999999999999999999999999999999999999h",
            "5 furlongs",
        ]
        .iter()
        .map(|text| {
            let (what, hint) = quantity(text, TIMES).unwrap_err();
            format!("{text:?}: {what}; {hint}")
        })
        .collect();
        insta::assert_snapshot!(answers.join("\n"), @r#"
    "": it does not begin with a number; write a number and a unit, such as `5 ms`
    "ms": it does not begin with a number; write a number and a unit, such as `5 ms`
    "5": the unit is missing; did you mean `s`?
    "5m": `m` is not a unit; write `min` for minutes or `ms` for milliseconds
    "5sec": `sec` is not a unit; the units are `ns`, `us`, `µs`, `ms`, `s`, `min`, `h`
    "5 MS": `MS` is not a unit; did you mean `ms`?
    "1.s": it does not begin with a number; write a number and a unit, such as `5 ms`
    ".5s": it does not begin with a number; write a number and a unit, such as `5 ms`
    "1.2.3s": it does not begin with a number; write a number and a unit, such as `5 ms`
    "0.1ns": it is no whole number of ns; the smallest step is 1 ns
    "-5ms": it does not begin with a number; write a number and a unit, such as `5 ms`
    "5  ms": ` ms` is not a unit; did you mean `ms`?
    "9223372036854775808ns": it is too large; at most 9223372036854775807 ns
    "99999999999999999999999999999999999999999h": it is too large; at most 9223372036854775807 ns
    "5 furlongs": `furlongs` is not a unit; the units are `ns`, `us`, `µs`, `ms`, `s`, `min`, `h`
    "#);
    }

    #[test]
    fn ids_and_their_patterns_agree_on_lengths() {
        assert!(Id::fits(&"a".repeat(64)));
        assert!(!Id::fits(&"a".repeat(65)));
        assert!(!Id::fits(""));
        assert!(!Id::fits("-a"));
        assert!(Id::fits("ResNet-50_v1.5"));
        assert!(PluginId::fits("onnx-runtime2"));
        for text in ["", "-", "a-", "a--b", "A", "2a", "a.b", "a_b"] {
            assert!(!PluginId::fits(text), "{text}");
        }
    }
}
