//! Reading a plugin's data: nothing is trusted before it is checked.
//!
//! A wild pointer cannot be distinguished from a valid one. These faults can be detected: null, misaligned, absurdly
//! many, absurdly long, not UTF-8, and structs smaller than their first version or that end within
//! a field.
//!
//! Names and values that are too long are refused. Messages are cut instead: the beginning of a message is more
//! useful than a refusal.

use std::collections::HashSet;

use crate::abi;
use crate::types::{
    Description, Device, Dimension, ModelInfo, ProfiledOperator, TensorInfo, ValueKind,
};

/// Longest accepted name or value, in bytes.
const LONGEST_NAME: usize = 16 << 10;
/// Longest accepted message, in bytes; most of it is not kept.
const LONGEST_MESSAGE: usize = 4 << 20;
/// Limit on the entries of a list.
const LONGEST_LIST: usize = 1 << 16;
/// Limit on the devices of a machine.
const MOST_DEVICES: usize = 1 << 10;
/// Limit on the attributes of a device or session.
const MOST_ATTRIBUTES: usize = 1 << 10;
/// Longest accepted device id, in bytes.
const LONGEST_DEVICE_ID: usize = 128;
/// Limit in bytes for showing a text that is not valid UTF-8.
const SHOWN: usize = 64;
/// Limit on the phases of a run.
const MOST_PHASES: usize = 16;
/// Limit on the axes of a tensor.
pub(super) const HIGHEST_RANK: usize = 64;

/// A result whose error continues a sentence that begins with the name of a call.
pub(super) type Result<T> = std::result::Result<T, String>;

/// # Safety
///
/// `raw` is null, or points to a struct as the ABI describes it.
pub(super) unsafe fn structure<T: abi::SizedStruct>(raw: *const T, what: &str) -> Result<T> {
    if raw.is_null() || !raw.is_aligned() {
        return Err(format!("returned {what} that is {}", nowhere(raw)));
    }
    // SAFETY: it is aligned, and the caller guarantees the rest.
    unsafe { abi::read_sized(raw) }.map_err(|error| format!("returned {what} that {error}"))
}

/// # Safety
///
/// `raw` is null, or points to `count` readable values that do not change during `'a`.
pub(super) unsafe fn list<'a, T>(raw: *const T, count: usize, what: &str) -> Result<&'a [T]> {
    // SAFETY: guaranteed by the caller.
    unsafe { list_of(raw, count, LONGEST_LIST, what) }
}

/// # Safety
///
/// As for [`list`].
unsafe fn list_of<'a, T>(raw: *const T, count: usize, most: usize, what: &str) -> Result<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    if count > most {
        return Err(format!("returned {count} {what}; at most {most} can be true"));
    }
    if raw.is_null() || !raw.is_aligned() {
        return Err(format!("returned {count} {what} at an address that is {}", nowhere(raw)));
    }
    // SAFETY: it is not null and aligned, the length is bounded, the caller guarantees the rest.
    Ok(unsafe { std::slice::from_raw_parts(raw, count) })
}

fn nowhere<T>(raw: *const T) -> &'static str {
    if raw.is_null() { "null" } else { "misaligned" }
}

/// Returns a name or a value.
///
/// # Safety
///
/// `raw.data` is null, or points to `raw.length` readable bytes.
pub(super) unsafe fn text(raw: abi::String, what: &str) -> Result<String> {
    // SAFETY: guaranteed by the caller.
    let bytes = unsafe { bytes(&raw, LONGEST_NAME, what) }?;
    let text = std::str::from_utf8(bytes).map_err(|error| not_utf8(bytes, what, &error))?;
    Ok(text.to_owned())
}

/// Returns a message, cut at `limit` bytes; the rest is counted.
///
/// # Safety
///
/// As for [`text`].
pub(super) unsafe fn message(raw: abi::String, limit: usize, what: &str) -> Result<String> {
    // SAFETY: guaranteed by the caller.
    let bytes = unsafe { bytes(&raw, LONGEST_MESSAGE, what) }?;
    let text = std::str::from_utf8(bytes).map_err(|error| not_utf8(bytes, what, &error))?;
    let kept = &text[..text.floor_char_boundary(limit)];
    Ok(match text.len() - kept.len() {
        0 => kept.to_owned(),
        left_out => format!("{kept} … {left_out} bytes left out"),
    })
}

/// # Safety
///
/// As for [`text`]; the bytes do not change during `'a`.
unsafe fn bytes<'a>(raw: &'a abi::String, longest: usize, what: &str) -> Result<&'a [u8]> {
    if raw.length == 0 {
        return Ok(&[]);
    }
    if raw.data.is_null() {
        return Err(format!("returned {what} that is null"));
    }
    if raw.length > longest {
        return Err(format!(
            "returned {what} of {} bytes; at most {longest} are taken",
            raw.length
        ));
    }
    // SAFETY: not null, the length is bounded, and the caller guarantees the bytes.
    Ok(unsafe { std::slice::from_raw_parts(raw.data.cast::<u8>(), raw.length) })
}

/// Shows only the beginning, because escaped bytes take many times their size.
fn not_utf8(bytes: &[u8], what: &str, error: &std::str::Utf8Error) -> String {
    let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN)]);
    let rest = if bytes.len() > SHOWN { " and more" } else { "" };
    format!("returned {what} that is not UTF-8 ({error}): {shown:?}{rest}")
}

/// # Safety
///
/// As for [`text`].
unsafe fn filled_text(raw: abi::String, what: &str) -> Result<String> {
    // SAFETY: guaranteed by the caller.
    let text = unsafe { text(raw, what) }?;
    if text.is_empty() { Err(format!("returned {what} that is empty")) } else { Ok(text) }
}

/// # Safety
///
/// As for [`list`] and [`text`].
pub(super) unsafe fn attributes(
    raw: *const abi::Attribute,
    count: usize,
    what: &str,
) -> Result<Vec<(String, String)>> {
    // SAFETY: guaranteed by the caller.
    let raw = unsafe { list_of(raw, count, MOST_ATTRIBUTES, what) }?;
    raw.iter()
        .map(|attribute| {
            // SAFETY: guaranteed by the caller.
            unsafe { Ok((filled_text(attribute.key, what)?, text(attribute.value, what)?)) }
        })
        .collect()
}

/// # Safety
///
/// As for [`list`] and [`text`].
unsafe fn names(raw: *const abi::String, count: usize, what: &str) -> Result<Vec<String>> {
    // SAFETY: guaranteed by the caller.
    unsafe { list(raw, count, what)?.iter().map(|name| filled_text(*name, what)).collect() }
}

/// # Safety
///
/// As for [`structure`].
pub(super) unsafe fn description(raw: *const abi::Description) -> Result<Description> {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let raw = structure(raw, "a description")?;
        Ok(Description {
            id: filled_text(raw.id, "an id")?,
            version: filled_text(raw.version, "a version")?,
            engine: filled_text(raw.engine, "an engine's name")?,
            engine_version: text(raw.engine_version, "an engine's version")?,
            extensions: names(raw.extensions, raw.extension_count, "names of extensions")?,
            modes: names(raw.modes, raw.mode_count, "modes")?,
        })
    }
}

/// # Safety
///
/// As for [`list`] and [`structure`].
pub(super) unsafe fn devices(raw: *const *const abi::Device, count: usize) -> Result<Vec<Device>> {
    let mut devices: Vec<Device> = Vec::new();
    let mut ids = HashSet::new();
    // SAFETY: guaranteed by the caller.
    for raw in unsafe { list_of(raw, count, MOST_DEVICES, "devices") }? {
        // SAFETY: guaranteed by the caller.
        let device = unsafe { device(*raw) }?;
        if !ids.insert(device.id.clone()) {
            return Err(format!("returned two devices with the id `{}`", device.id));
        }
        devices.push(device);
    }
    Ok(devices)
}

/// Reads the names of phases, which become names of columns.
///
/// # Safety
///
/// As for [`list`] and [`text`].
pub(super) unsafe fn phases(raw: *const abi::String, count: usize) -> Result<Vec<String>> {
    // SAFETY: guaranteed by the caller.
    let raw = unsafe { list_of(raw, count, MOST_PHASES, "phases") }?;
    let mut phases: Vec<String> = Vec::new();
    for name in raw {
        // SAFETY: guaranteed by the caller.
        let name = unsafe { filled_text(*name, "the name of a phase") }?;
        let is_word = |part: &str| {
            !part.is_empty()
                && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        };
        if !name.split('-').all(is_word) || name.len() > SHOWN {
            let shown: String = name.chars().take(SHOWN).collect();
            return Err(format!(
                "returned the phase {shown:?}; a phase is named by lower-case words joined by \
                 hyphens"
            ));
        }
        if phases.contains(&name) {
            return Err(format!("returned two phases with the name `{name}`"));
        }
        phases.push(name);
    }
    Ok(phases)
}

/// Returns whether a text can be a device's id: it must be easy to type into a manifest and a shell, and be one word
/// in every table, because it is part of each case's name. The full name of a device is a separate field.
fn is_device_id(id: &str) -> bool {
    id.len() <= LONGEST_DEVICE_ID
        && id.starts_with(|first: char| first.is_ascii_alphanumeric())
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._:/-".contains(&byte))
}

/// # Safety
///
/// As for [`structure`].
unsafe fn device(raw: *const abi::Device) -> Result<Device> {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let raw = structure(raw, "a device")?;
        let id = filled_text(raw.id, "a device's id")?;
        if !is_device_id(&id) {
            let shown: String = id.chars().take(SHOWN).collect();
            return Err(format!(
                "returned the device id {shown:?}; an id has up to {LONGEST_DEVICE_ID} of the \
                 characters A-Z a-z 0-9 . _ : / - and begins with a letter or digit"
            ));
        }
        let precisions = names(raw.precisions, raw.precision_count, "precisions")?;
        if precisions.is_empty() {
            return Err(format!("returned the device `{id}` without any precision"));
        }
        Ok(Device {
            kind: filled_text(raw.kind, "a device's kind")?,
            name: filled_text(raw.name, "a device's name")?,
            memory_bytes: (raw.memory_bytes != 0).then_some(raw.memory_bytes),
            attributes: attributes(raw.attributes, raw.attribute_count, "attributes of a device")?,
            id,
            precisions,
        })
    }
}

/// # Safety
///
/// As for [`structure`].
pub(super) unsafe fn model_info(raw: *const abi::ModelInfo) -> Result<ModelInfo> {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let raw = structure(raw, "a model's information")?;
        let tensors = |raw, count, what| -> Result<Vec<TensorInfo>> {
            list(raw, count, what)?.iter().map(|raw| tensor_info(*raw, what)).collect()
        };
        let info = ModelInfo {
            inputs: tensors(raw.inputs, raw.input_count, "inputs")?,
            outputs: tensors(raw.outputs, raw.output_count, "outputs")?,
        };
        if info.outputs.is_empty() {
            return Err("returned a model without outputs".into());
        }
        Ok(info)
    }
}

/// # Safety
///
/// As for [`structure`].
unsafe fn tensor_info(raw: *const abi::TensorInfo, what: &str) -> Result<TensorInfo> {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let raw = structure(raw, &format!("information on {what}"))?;
        let name = text(raw.name, &format!("a name among the {what}"))?;
        let dtype = crate::types::DataType::from_abi(raw.dtype);
        if dtype.is_none() && raw.dtype.bits != 0 {
            let abi::DType { code, bits, lanes } = raw.dtype;
            return Err(format!(
                "returned `{name}` among the {what} with an impossible element type: \
                 code {code}, {bits} bits, {lanes} lanes"
            ));
        }
        let dimensions = match usize::try_from(raw.rank) {
            Err(_) => None,
            Ok(rank) if rank > HIGHEST_RANK => {
                return Err(format!("returned `{name}` among the {what} with {rank} axes"));
            }
            Ok(rank) => {
                let axes = list(raw.dimensions, rank, "axes")?;
                Some(axes.iter().map(|axis| dimension(*axis, &name)).collect::<Result<_>>()?)
            }
        };
        Ok(TensorInfo { name, dtype, dimensions, kind: ValueKind::from_abi(raw.kind) })
    }
}

/// # Safety
///
/// As for [`text`].
unsafe fn dimension(raw: abi::Dimension, of: &str) -> Result<Dimension> {
    match raw.size {
        // SAFETY: guaranteed by the caller.
        abi::DYNAMIC => Ok(Dimension::Dynamic(unsafe { text(raw.name, "an axis's name") }?)),
        size => u64::try_from(size)
            .map(Dimension::Fixed)
            .map_err(|_| format!("returned an axis of size {size} for `{of}`")),
    }
}

/// # Safety
///
/// As for [`list`] and [`structure`].
pub(super) unsafe fn operators(
    raw: *const *const abi::Operator,
    count: usize,
) -> Result<Vec<ProfiledOperator>> {
    // SAFETY: guaranteed by the caller.
    let raw = unsafe { list(raw, count, "operators") }?;
    raw.iter()
        .map(|raw| {
            // SAFETY: guaranteed by the caller.
            unsafe {
                let raw = structure(*raw, "an operator")?;
                Ok(ProfiledOperator {
                    name: text(raw.name, "an operator's name")?,
                    kind: text(raw.kind, "an operator's kind")?,
                    provider: filled_text(raw.provider, "an operator's provider")?,
                    start_ns: raw.start_ns,
                    duration_ns: raw.duration_ns,
                })
            }
        })
        .collect()
}
