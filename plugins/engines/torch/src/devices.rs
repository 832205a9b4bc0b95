//! Devices that libtorch can compute on.

use std::ffi::{CStr, c_char, c_void};
use std::path::{Path, PathBuf};

use plugin_api::backend::{Device, Error, ErrorCode};

use crate::error::{Wrong, wrong};

type Result<T, E = Error> = std::result::Result<T, E>;

/// Precisions of devices. A model computes in that of its own weights.
const PRECISIONS: [&str; 3] = ["fp32", "fp16", "bf16"];

/// Libraries with the functions of graphics processors: NVIDIA's, or AMD's.
const ACCELERATED: [(&str, &str); 2] =
    [("libtorch_cuda.so", "libcuda.so.1"), ("libtorch_hip.so", "libamdhip64.so")];

/// A C function of libtorch itself, as opposed to those compiled into this library.
const OF_LIBTORCH: &CStr = c"aoti_torch_abi_version";

/// Returns the folder of the libtorch that is in use.
fn folder() -> Option<PathBuf> {
    let mut found = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    // SAFETY: the symbol is only searched for, and its file asked for; the name is a C string of the loader's.
    unsafe {
        let symbol: *mut c_void = libc::dlsym(libc::RTLD_DEFAULT, OF_LIBTORCH.as_ptr());
        if symbol.is_null() || libc::dladdr(symbol, &raw mut found) == 0 {
            return None;
        }
        let name: *const c_char = found.dli_fname;
        let path = CStr::from_ptr(name).to_str().ok()?;
        Some(Path::new(path).parent()?.to_owned())
    }
}

/// Opens the library for graphics processors, if this PyTorch and this machine have one.
///
/// # Errors
///
/// The reason why there is none, as text that follows `CUDA is not there: `.
pub(crate) fn open_cuda() -> Result<(), String> {
    let folder = folder().ok_or("the folder of libtorch was not found")?;
    let present = ACCELERATED.iter().find(|(library, _)| folder.join(library).is_file());
    let Some((library, driver)) = present else {
        return Err(format!("this PyTorch has no {}", ACCELERATED[0].0));
    };
    let open = |path: &Path| {
        // SAFETY: this is a library of the driver or of the PyTorch that the user has named.
        let opened = unsafe { libloading::Library::new(path) };
        let failed = |error: libloading::Error| {
            let source = std::error::Error::source(&error).map(ToString::to_string);
            source.unwrap_or_else(|| error.to_string())
        };
        // It stays open until the process ends.
        opened.map(std::mem::forget).map_err(failed)
    };
    // Without the driver, opening gigabytes would only cost memory.
    open(Path::new(driver))?;
    open(&folder.join(library))
}

/// Returns the devices.
pub(crate) fn list(without_cuda: Option<&str>) -> Vec<Device> {
    let precisions = PRECISIONS.map(str::to_owned).to_vec();
    let mut attributes = vec![
        ("threads".to_owned(), tch::get_num_threads().to_string()),
        ("mkldnn".to_owned(), tch::utils::has_mkldnn().to_string()),
        ("runtime".to_owned(), crate::TORCH.to_owned()),
    ];
    attributes.extend(without_cuda.map(|reason| ("without-cuda".to_owned(), reason.to_owned())));
    let mut devices = vec![Device {
        id: "cpu:0".into(),
        kind: "cpu".into(),
        name: processor_name(),
        memory_bytes: memory_bytes(),
        precisions: precisions.clone(),
        attributes,
    }];
    let kind = if tch::utils::has_hip() { "rocm" } else { "cuda" };
    for index in 0..cuda_count() {
        let (name, memory_bytes) = described(kind, index as i32);
        devices.push(Device {
            id: format!("{kind}:{index}"),
            kind: "gpu".into(),
            name: name.unwrap_or_else(|| format!("graphics processor {index}")),
            memory_bytes,
            precisions: precisions.clone(),
            attributes: vec![("runtime".into(), crate::TORCH.into())],
        });
    }
    if tch::utils::has_mps() {
        devices.push(Device {
            id: "mps:0".into(),
            kind: "gpu".into(),
            name: "Apple's graphics processor, through Metal".into(),
            memory_bytes: memory_bytes(),
            precisions,
            attributes: vec![("runtime".into(), crate::TORCH.into())],
        });
    }
    devices
}

/// Returns name and memory of a graphics processor, as its driver states them.
fn described(kind: &str, index: i32) -> (Option<String>, Option<u64>) {
    type Get = unsafe extern "C" fn(*mut i32, i32) -> i32;
    type Name = unsafe extern "C" fn(*mut c_char, i32, i32) -> i32;
    type Memory = unsafe extern "C" fn(*mut usize, i32) -> i32;
    let (library, get, name, memory): (_, &[u8], &[u8], &[u8]) = match kind {
        "rocm" => {
            (ACCELERATED[1].1, b"hipDeviceGet\0", b"hipDeviceGetName\0", b"hipDeviceTotalMem\0")
        }
        _ => (ACCELERATED[0].1, b"cuDeviceGet\0", b"cuDeviceGetName\0", b"cuDeviceTotalMem_v2\0"),
    };
    let mut text = [0 as c_char; 256];
    let (mut device, mut bytes) = (0, 0);
    // SAFETY: this is the driver that libtorch has opened, whose functions of these names have these types; results are
    // written to places of their types, and a name ends within the length that is stated.
    unsafe {
        let Ok(driver) = libloading::Library::new(library) else { return (None, None) };
        let Ok(get) = driver.get::<Get>(get) else { return (None, None) };
        if get(&raw mut device, index) != 0 {
            return (None, None);
        }
        let name = driver
            .get::<Name>(name)
            .ok()
            .filter(|name| name(text.as_mut_ptr(), text.len() as i32, device) == 0);
        let name = name.map(|_| CStr::from_ptr(text.as_ptr()).to_string_lossy().into_owned());
        let memory = driver.get::<Memory>(memory).ok();
        let memory = memory.filter(|memory| memory(&raw mut bytes, device) == 0);
        (name, memory.map(|_| bytes as u64))
    }
}

/// Returns the number of devices that CUDA, or ROCm in its place, has.
pub(crate) fn cuda_count() -> i64 {
    if tch::Cuda::is_available() { tch::Cuda::device_count() } else { 0 }
}

/// Returns as many devices as there are replicas, beginning with one: graphics processors that follow it, or the
/// processor again and again.
///
/// # Errors
///
/// If there are fewer.
pub(crate) fn following(first: tch::Device, replicas: usize) -> Result<Vec<tch::Device>, Wrong> {
    match first {
        tch::Device::Cuda(index) => {
            let there = usize::try_from(cuda_count()).unwrap_or(0);
            match index + replicas <= there {
                true => Ok((index..index + replicas).map(tch::Device::Cuda).collect()),
                false => Err(wrong!(
                    "the option `replicas` is {replicas}, and there are {} graphics processors from number {index} on",
                    there.saturating_sub(index)
                )
                .of_request()),
            }
        }
        tch::Device::Cpu => Ok(vec![first; replicas]),
        _ if replicas == 1 => Ok(vec![first]),
        _ => Err(wrong!("the option `replicas` is for processors, CUDA and ROCm").of_support()),
    }
}

/// Returns libtorch's device for an id.
///
/// # Errors
///
/// If it is not there; names those that are.
pub(crate) fn find(id: &str, without_cuda: Option<&str>) -> Result<tch::Device> {
    let devices = list(without_cuda);
    if devices.iter().any(|device| device.id == id) {
        let (kind, index) = id.split_once(':').unwrap_or((id, "0"));
        return Ok(match kind {
            "cuda" | "rocm" => tch::Device::Cuda(index.parse().unwrap_or(0)),
            "mps" => tch::Device::Mps,
            _ => tch::Device::Cpu,
        });
    }
    let there: Vec<String> = devices.iter().map(|device| format!("`{}`", device.id)).collect();
    let mut message = format!("there is no device `{id}`; there is {}", there.join(", "));
    if let (true, Some(reason)) = (id.starts_with("cuda") || id.starts_with("rocm"), without_cuda) {
        message += &format!("; libtorch finds no graphics processor: {reason}");
    }
    Err(Error::new(ErrorCode::NotFound, message))
}

/// Returns the value of the first line `name : value` of a file.
fn field(path: &str, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

fn processor_name() -> String {
    let name = field("/proc/cpuinfo", "model name").filter(|name| !name.is_empty());
    name.unwrap_or_else(|| format!("{} processor", std::env::consts::ARCH))
}

fn memory_bytes() -> Option<u64> {
    let kibibytes = field("/proc/meminfo", "MemTotal")?;
    kibibytes.strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}
