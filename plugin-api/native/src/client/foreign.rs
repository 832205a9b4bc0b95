//! Reading what a plugin hands out: nothing is believed before it is checked.
//!
//! Pointers that are wild cannot be told from good ones. What can be told is: null, misaligned,
//! absurdly many, absurdly long, not UTF-8, and structs smaller than they ever were.

use crate::abi;
use crate::types::{Description, Device, Dimension, ModelInfo, TensorInfo};

/// No text may be longer, in bytes.
const LONGEST_TEXT: usize = 4 << 20;
/// No list may have more entries.
const LONGEST_LIST: usize = 1 << 16;
/// No tensor may have more axes.
pub(super) const HIGHEST_RANK: usize = 64;

/// What is wrong, in words that go after the name of a call.
pub(super) type Result<T> = std::result::Result<T, String>;

/// # Safety
///
/// `raw` is null, or points to a struct as the ABI describes it.
pub(super) unsafe fn structure<T: abi::SizedStruct>(raw: *const T, what: &str) -> Result<T> {
    if raw.is_null() || !raw.is_aligned() {
        return Err(format!("returned {what} that is {}", nowhere(raw)));
    }
    // SAFETY: it is aligned, and the caller vouches for the rest.
    unsafe { abi::read_sized(raw) }.map_err(|abi::SizeError { given, least }| {
        format!("returned {what} that claims {given} bytes; ABI 1.0 has {least}")
    })
}

/// # Safety
///
/// `raw` is null, or points to `count` readable values that stay as they are during `'a`.
pub(super) unsafe fn list<'a, T>(raw: *const T, count: usize, what: &str) -> Result<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    if count > LONGEST_LIST {
        return Err(format!("returned {count} {what}; at most {LONGEST_LIST} can be true"));
    }
    if raw.is_null() || !raw.is_aligned() {
        return Err(format!("returned {count} {what} at an address that is {}", nowhere(raw)));
    }
    // SAFETY: it is not null and aligned, the length is bounded, the caller vouches for the rest.
    Ok(unsafe { std::slice::from_raw_parts(raw, count) })
}

fn nowhere<T>(raw: *const T) -> &'static str {
    if raw.is_null() { "null" } else { "misaligned" }
}

/// # Safety
///
/// `raw.data` is null, or points to `raw.length` readable bytes.
pub(super) unsafe fn text(raw: abi::String, what: &str) -> Result<String> {
    if raw.length == 0 {
        return Ok(String::new());
    }
    if raw.data.is_null() {
        return Err(format!("returned {what} that is null"));
    }
    if raw.length > LONGEST_TEXT {
        return Err(format!("returned {what} of {} bytes", raw.length));
    }
    // SAFETY: not null, the length is bounded, and the caller vouches for the bytes.
    let bytes = unsafe { std::slice::from_raw_parts(raw.data.cast::<u8>(), raw.length) };
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let lossy = String::from_utf8_lossy(bytes);
        format!("returned {what} that is not UTF-8 ({error}): {lossy:?}")
    })?;
    Ok(text.to_owned())
}

/// # Safety
///
/// As for [`text`].
unsafe fn filled_text(raw: abi::String, what: &str) -> Result<String> {
    // SAFETY: passed on.
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
    // SAFETY: passed on.
    let raw = unsafe { list(raw, count, what) }?;
    raw.iter()
        .map(|attribute| {
            // SAFETY: passed on.
            unsafe { Ok((filled_text(attribute.key, what)?, text(attribute.value, what)?)) }
        })
        .collect()
}

/// # Safety
///
/// As for [`list`] and [`text`].
unsafe fn names(raw: *const abi::String, count: usize, what: &str) -> Result<Vec<String>> {
    // SAFETY: passed on.
    unsafe { list(raw, count, what)?.iter().map(|name| filled_text(*name, what)).collect() }
}

/// # Safety
///
/// As for [`structure`].
pub(super) unsafe fn description(raw: *const abi::Description) -> Result<Description> {
    // SAFETY: passed on.
    unsafe {
        let raw = structure(raw, "a description")?;
        Ok(Description {
            id: filled_text(raw.id, "an id")?,
            version: filled_text(raw.version, "a version")?,
            engine: filled_text(raw.engine, "an engine's name")?,
            engine_version: text(raw.engine_version, "an engine's version")?,
            extensions: names(raw.extensions, raw.extension_count, "names of extensions")?,
        })
    }
}

/// # Safety
///
/// As for [`list`] and [`structure`].
pub(super) unsafe fn devices(raw: *const *const abi::Device, count: usize) -> Result<Vec<Device>> {
    let mut devices: Vec<Device> = Vec::new();
    // SAFETY: passed on.
    for raw in unsafe { list(raw, count, "devices") }? {
        // SAFETY: passed on.
        let device = unsafe { device(*raw) }?;
        if devices.iter().any(|other| other.id == device.id) {
            return Err(format!("returned two devices with the id `{}`", device.id));
        }
        devices.push(device);
    }
    Ok(devices)
}

/// # Safety
///
/// As for [`structure`].
unsafe fn device(raw: *const abi::Device) -> Result<Device> {
    // SAFETY: passed on.
    unsafe {
        let raw = structure(raw, "a device")?;
        let id = filled_text(raw.id, "a device's id")?;
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
    // SAFETY: passed on.
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
    // SAFETY: passed on.
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
        Ok(TensorInfo { name, dtype, dimensions })
    }
}

/// # Safety
///
/// As for [`text`].
unsafe fn dimension(raw: abi::Dimension, of: &str) -> Result<Dimension> {
    match raw.size {
        // SAFETY: passed on.
        abi::DYNAMIC => Ok(Dimension::Dynamic(unsafe { text(raw.name, "an axis's name") }?)),
        size => u64::try_from(size)
            .map(Dimension::Fixed)
            .map_err(|_| format!("returned an axis of size {size} for `{of}`")),
    }
}
