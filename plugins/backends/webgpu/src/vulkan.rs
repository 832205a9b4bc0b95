//! The GPU that ONNX Runtime's WebGPU provider will choose, found through Vulkan.
//!
//! The provider ends the process if it finds no suitable Vulkan driver. So the plugin first searches for the loader,
//! the files that name drivers, and their devices.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use ash::{Entry, vk};
use plugin_api::backend::{Error, ErrorCode, Result};

/// The loader.
const LOADER: &str = "libvulkan.so.1";

/// A GPU that Vulkan offers.
#[derive(Clone)]
pub(crate) struct Gpu {
    pub(crate) name: String,
    pub(crate) kind: vk::PhysicalDeviceType,
    pub(crate) driver: String,
    pub(crate) vulkan: String,
    pub(crate) memory_bytes: u64,
    /// Whether shaders and buffers support 16-bit floats.
    pub(crate) half: bool,
}

impl Gpu {
    /// Returns whether it is a software device.
    pub(crate) fn is_software(&self) -> bool {
        self.kind == vk::PhysicalDeviceType::CPU
    }

    /// Returns the device that the provider chooses: it asks for high performance.
    pub(crate) fn find() -> Result<Self> {
        let drivers = drivers();
        // SAFETY: the loader is a library of the system, and loading it runs its own start-up.
        let entry = unsafe { Entry::load_from(LOADER) }.map_err(|error| {
            not_found(&format!("{LOADER}, the Vulkan loader, cannot be opened: {error}"))
        })?;
        let drivers = drivers.map_err(|why| not_found(&why))?;
        let all = all(&entry).map_err(|error| {
            let files: Vec<_> = drivers.iter().map(|file| file.display().to_string()).collect();
            not_found(&format!("the Vulkan drivers {} do not work: {error}", files.join(", ")))
        })?;
        let names = all.iter().map(|gpu| gpu.name.clone()).collect::<Vec<_>>().join(", ");
        // The provider rejects it, and ends the process.
        let usable = all.into_iter().filter(|gpu| !gpu.name.starts_with("llvmpipe"));
        usable.min_by_key(|gpu| rank(gpu.kind)).ok_or_else(|| match names.as_str() {
            "" => not_found("the Vulkan drivers offer no device"),
            names => not_found(&format!(
                "of the Vulkan devices {names} the provider can use none; SwiftShader is a software \
                 device that it can use"
            )),
        })
    }
}

fn not_found(what: &str) -> Error {
    Error::new(ErrorCode::NotFound, format!("there is no GPU for WebGPU: {what}"))
}

/// Returns the provider's order of preference.
fn rank(kind: vk::PhysicalDeviceType) -> u32 {
    match kind {
        vk::PhysicalDeviceType::DISCRETE_GPU => 0,
        vk::PhysicalDeviceType::INTEGRATED_GPU => 1,
        vk::PhysicalDeviceType::VIRTUAL_GPU => 2,
        vk::PhysicalDeviceType::CPU => 4,
        _ => 3,
    }
}

/// Returns all devices of all drivers.
fn all(entry: &Entry) -> Result<Vec<Gpu>, vk::Result> {
    let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_1);
    let wanted = vk::InstanceCreateInfo::default().application_info(&application);
    // SAFETY: the structures are valid, and the instance is destroyed after its last use.
    unsafe {
        let instance = entry.create_instance(&wanted, None)?;
        let devices = instance.enumerate_physical_devices();
        let gpus = devices
            .map(|devices| devices.into_iter().map(|device| describe(&instance, device)).collect());
        instance.destroy_instance(None);
        gpus
    }
}

/// # Safety
///
/// The device belongs to the instance.
unsafe fn describe(instance: &ash::Instance, device: vk::PhysicalDevice) -> Gpu {
    // SAFETY: the device is valid.
    let (properties, memory) = unsafe {
        (
            instance.get_physical_device_properties(device),
            instance.get_physical_device_memory_properties(device),
        )
    };
    let version = |raw: u32| {
        let (major, minor) = (vk::api_version_major(raw), vk::api_version_minor(raw));
        format!("{major}.{minor}.{}", vk::api_version_patch(raw))
    };
    let has_1_1 = properties.api_version >= vk::API_VERSION_1_1;
    let half = has_1_1 && {
        let mut arithmetic = vk::PhysicalDeviceShaderFloat16Int8Features::default();
        let mut storage = vk::PhysicalDevice16BitStorageFeatures::default();
        let mut features = vk::PhysicalDeviceFeatures2::default()
            .push_next(&mut arithmetic)
            .push_next(&mut storage);
        // SAFETY: the device is valid, and its version has the call.
        unsafe { instance.get_physical_device_features2(device, &mut features) };
        arithmetic.shader_float16 == vk::TRUE && storage.storage_buffer16_bit_access == vk::TRUE
    };
    let heaps = &memory.memory_heaps[..memory.memory_heap_count as usize];
    let local = heaps.iter().filter(|heap| heap.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL));
    let name = properties.device_name_as_c_str().unwrap_or_default();
    Gpu {
        name: name.to_string_lossy().into_owned(),
        kind: properties.device_type,
        driver: version(properties.driver_version),
        vulkan: version(properties.api_version),
        memory_bytes: local.map(|heap| heap.size).sum(),
        half,
    }
}

/// Returns the files that name drivers, from the loader's search path, or why none was found.
fn drivers() -> Result<Vec<PathBuf>, String> {
    for variable in ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"] {
        if let Some(list) = std::env::var_os(variable) {
            return named_drivers(variable, &list);
        }
    }
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let list = |variable: &str, default: &str| {
        let list = std::env::var_os(variable).unwrap_or_else(|| default.into());
        std::env::split_paths(&list).collect::<Vec<_>>()
    };
    let user = |variable: &str, default: &str| {
        let named = std::env::var_os(variable).map(PathBuf::from);
        named.or_else(|| Some(home.as_ref()?.join(default)))
    };
    let mut folders = Vec::new();
    folders.extend(user("XDG_CONFIG_HOME", ".config"));
    folders.extend(list("XDG_CONFIG_DIRS", "/etc/xdg"));
    folders.extend(["/usr/local/etc", "/etc"].map(PathBuf::from));
    folders.extend(user("XDG_DATA_HOME", ".local/share"));
    folders.extend(list("XDG_DATA_DIRS", "/usr/local/share:/usr/share"));
    let files = |folder: &PathBuf| {
        let entries = std::fs::read_dir(folder.join("vulkan/icd.d")).ok();
        entries.into_iter().flatten().flatten().map(|entry| entry.path())
    };
    let is_json = |file: &Path| file.extension().is_some_and(|extension| extension == "json");
    let drivers: Vec<_> = folders.iter().flat_map(files).filter(|file| is_json(file)).collect();
    if drivers.is_empty() {
        return Err(
            "no file names a Vulkan driver: VK_DRIVER_FILES is not set, and there is none in \
                    vulkan/icd.d of the system's and the user's folders for data"
                .into(),
        );
    }
    Ok(drivers)
}

/// Returns the existing files of a variable's list.
fn named_drivers(variable: &str, list: &OsStr) -> Result<Vec<PathBuf>, String> {
    let drivers: Vec<_> = std::env::split_paths(list).filter(|file| file.is_file()).collect();
    if drivers.is_empty() {
        let list = list.to_string_lossy();
        return Err(format!("{variable} is `{list}`, but there is no such file"));
    }
    Ok(drivers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_that_is_named_and_not_there_is_the_reason() {
        let here = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        let list = std::env::join_paths(["/nowhere/driver.json", here]).expect("no colons");
        assert_eq!(named_drivers("VK_DRIVER_FILES", &list), Ok(vec![PathBuf::from(here)]));
        for (variable, list) in
            [("VK_DRIVER_FILES", "/nowhere/driver.json"), ("VK_ICD_FILENAMES", "/a.json:/b.json")]
        {
            let why = named_drivers(variable, list.as_ref()).expect_err("nothing is there");
            assert_eq!(why, format!("{variable} is `{list}`, but there is no such file"));
        }
    }
}
