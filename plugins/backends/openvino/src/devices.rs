//! Devices of OpenVINO's core, and AUTO, which chooses among them.

use plugin_api::backend::{Device, Error, ErrorCode, Result};

use crate::native::{Core, Failure};

/// The device that chooses among the others.
pub(crate) const AUTO: &str = "AUTO";

/// OpenVINO's names of capabilities, and the names of precisions.
const PRECISIONS: &[(&str, &str)] =
    &[("FP32", "fp32"), ("FP16", "fp16"), ("BF16", "bf16"), ("INT8", "int8")];

/// Properties that become attributes, if a device has them.
const ATTRIBUTES: &[(&str, &str)] = &[
    ("architecture", "DEVICE_ARCHITECTURE"),
    ("capabilities", "OPTIMIZATION_CAPABILITIES"),
    ("type", "DEVICE_TYPE"),
    ("uuid", "DEVICE_UUID"),
    ("execution-units", "GPU_EXECUTION_UNITS_COUNT"),
    ("driver", "NPU_DRIVER_VERSION"),
    ("compiler", "NPU_COMPILER_VERSION"),
];

/// Properties with a device's memory, in bytes.
const MEMORY: &[&str] = &["GPU_DEVICE_TOTAL_MEM_SIZE", "NPU_DEVICE_TOTAL_MEM_SIZE"];

/// The kinds of hardware that a package of OpenVINO may drive.
const KINDS: &[&str] = &["CPU", "GPU", "NPU"];

/// Requirements of each kind on Linux: the library that drives it, and the folder in which Intel's driver shows it.
/// OpenVINO does not always report that one of these is missing.
const NEEDED: &[(&str, &str, &str)] =
    &[("GPU", "libOpenCL.so.1", "/dev/dri"), ("NPU", "libze_loader.so.1", "/dev/accel")];

/// Returns OpenVINO's names of the devices.
pub(crate) fn names(core: &Core) -> Result<Vec<String>> {
    let mut names = core.devices().map_err(failed)?;
    // It is not listed, and can be queried only if its library exists.
    if core.property(AUTO, "FULL_DEVICE_NAME").is_ok() {
        names.push(AUTO.into());
    }
    Ok(names)
}

fn failed(failure: Failure) -> Error {
    Error::new(ErrorCode::Device, format!("OpenVINO cannot list its devices: {failure}"))
}

/// Returns the devices with their descriptions.
pub(crate) fn list(core: &Core, runtime: &str) -> Result<Vec<Device>> {
    names(core)?.iter().map(|name| device(core, runtime, name)).collect()
}

fn device(core: &Core, runtime: &str, name: &str) -> Result<Device> {
    let property = |key: &str| core.property(name, key).ok().filter(|value| !value.is_empty());
    let full_name = match name {
        // The attribute would only repeat the name.
        AUTO => "OpenVINO's choice among its devices".into(),
        _ => property("FULL_DEVICE_NAME").unwrap_or_else(|| name.into()),
    };
    let mut attributes = vec![("device".to_owned(), name.to_owned())];
    let described =
        ATTRIBUTES.iter().filter_map(|(ours, key)| Some(((*ours).to_owned(), property(key)?)));
    attributes.extend(described);
    attributes.push(("runtime".into(), runtime.into()));
    if let Ok(version) = core.device_version(name) {
        attributes.push(("plugin".into(), version));
    }
    if name == AUTO {
        attributes.extend(absent(core)?);
    }
    let memory = MEMORY.iter().find_map(|key| property(key)?.parse().ok());
    Ok(Device {
        id: id(name),
        kind: kind(name),
        name: full_name,
        memory_bytes: memory,
        precisions: precisions(core, name),
        attributes,
    })
}

/// Returns the kinds that were not found, with OpenVINO's reason.
fn absent(core: &Core) -> Result<Vec<(String, String)>> {
    let there = core.devices().map_err(failed)?;
    let missing = KINDS.iter().filter(|kind| !there.iter().any(|name| name.starts_with(**kind)));
    Ok(missing
        .map(|kind| (format!("without-{}", kind.to_lowercase()), reason(core, kind)))
        .collect())
}

/// Returns the reason why a kind of device is missing: OpenVINO's message, and the missing requirements.
fn reason(core: &Core, kind: &str) -> String {
    let answer = match core.property(kind, "FULL_DEVICE_NAME") {
        Ok(_) => "OpenVINO does not list it".into(),
        Err(failure) => failure.message,
    };
    let needed = NEEDED.iter().filter(|needed| needed.0 == kind && cfg!(target_os = "linux"));
    let missing = needed.flat_map(|(_, library, folder)| {
        // SAFETY: the library is the system's, and opening it runs its own start-up.
        let library_is_there = unsafe { libloading::Library::new(*library) }.is_ok();
        let folder_is_there = std::path::Path::new(folder).exists();
        [(*library, library_is_there), (*folder, folder_is_there)]
    });
    let missing: Vec<_> = missing.filter(|(_, there)| !there).map(|(what, _)| what).collect();
    if missing.is_empty() { answer } else { format!("{answer}; not found: {}", missing.join(", ")) }
}

/// Returns the device id for OpenVINO's name: `CPU` is `cpu:0`, `GPU.1` is `gpu:1`.
pub(crate) fn id(name: &str) -> String {
    let (kind, number) = name.split_once('.').unwrap_or((name, "0"));
    format!("{}:{}", kind.to_lowercase(), number.to_lowercase())
}

fn kind(name: &str) -> String {
    id(name).split(':').next().unwrap_or_default().into()
}

/// Returns the precisions in which a device computes.
pub(crate) fn precisions(core: &Core, name: &str) -> Vec<String> {
    let capabilities = core.property(name, "OPTIMIZATION_CAPABILITIES").unwrap_or_default();
    precisions_in(&capabilities)
}

fn precisions_in(capabilities: &str) -> Vec<String> {
    let words: Vec<&str> = capabilities.split([' ', ',']).collect();
    let offered = PRECISIONS.iter().filter(|(theirs, _)| words.contains(theirs));
    offered.map(|(_, ours)| (*ours).to_owned()).collect()
}

/// Returns OpenVINO's name of a device.
///
/// # Errors
///
/// If it does not exist; names the existing ones, and why OpenVINO has no such kind.
pub(crate) fn find(core: &Core, wanted: &str) -> Result<String> {
    let names = names(core)?;
    if let Some(name) = names.iter().find(|name| id(name) == wanted) {
        return Ok(name.clone());
    }
    let there: Vec<String> = names.iter().map(|name| format!("`{}`", id(name))).collect();
    let mut message = format!("there is no device `{wanted}`; there is {}", there.join(", "));
    let kind = wanted.split(':').next().unwrap_or_default().to_uppercase();
    if KINDS.contains(&kind.as_str()) && !names.iter().any(|name| name.starts_with(&kind)) {
        message += &format!("; OpenVINO finds no {kind}: {}", reason(core, &kind));
    }
    Err(Error::new(ErrorCode::NotFound, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_a_kind_and_a_number() {
        for (theirs, ours) in
            [("CPU", "cpu:0"), ("GPU", "gpu:0"), ("GPU.1", "gpu:1"), ("NPU.3720", "npu:3720")]
        {
            assert_eq!(id(theirs), ours);
        }
        assert_eq!(kind("GPU.1"), "gpu");
        assert_eq!(id(AUTO), "auto:0");
    }

    #[test]
    fn precisions_are_what_the_capabilities_name() {
        assert_eq!(precisions_in("FP32 INT8 BIN EXPORT_IMPORT"), ["fp32", "int8"]);
        assert_eq!(precisions_in("BF16 FP16 FP32 WINOGRAD"), ["fp32", "fp16", "bf16"]);
        assert_eq!(precisions_in(""), [""; 0]);
    }
}
