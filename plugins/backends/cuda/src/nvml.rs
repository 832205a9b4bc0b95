//! Facts about GPUs from the driver, through NVML.

use std::ffi::OsStr;
use std::sync::OnceLock;

use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Nvml, cuda_driver_version_major, cuda_driver_version_minor};
use plugin_api::abi;
use plugin_api::backend::{Device, DeviceReading, Error, ErrorCode, Result};

/// The library comes with the driver.
const LIBRARY: &str = if cfg!(windows) { "nvml.dll" } else { "libnvidia-ml.so.1" };

/// Returns NVML, which is opened at the first call.
pub(crate) fn nvml() -> Result<&'static Nvml> {
    static OPENED: OnceLock<Nvml> = OnceLock::new();
    if let Some(nvml) = OPENED.get() {
        return Ok(nvml);
    }
    let nvml = Nvml::builder().lib_path(OsStr::new(LIBRARY)).init().map_err(|error| {
        let message = match error {
            NvmlError::LibloadingError(error) => format!(
                "no NVIDIA driver was found: {LIBRARY}, which comes with it, cannot be opened: \
                 {error}"
            ),
            error => format!("the NVIDIA driver does not answer: {error}"),
        };
        Error::new(ErrorCode::NotFound, message)
    })?;
    Ok(OPENED.get_or_init(|| nvml))
}

/// A GPU as this process sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Gpu {
    /// NVML's number, which counts all GPUs of the machine in the order of their bus addresses.
    pub(crate) index: u32,
    /// CUDA's number, which counts the GPUs that this process may use.
    pub(crate) ordinal: i32,
}

impl Gpu {
    /// Returns the device's id.
    pub(crate) fn id(&self) -> String {
        format!("cuda:{}", self.index)
    }

    /// Returns the GPU of an id.
    pub(crate) fn find(id: &str) -> Result<Self> {
        let all = Self::all()?;
        let ids = || all.iter().map(Self::id).collect::<Vec<_>>().join(", ");
        all.iter().find(|gpu| gpu.id() == id).cloned().ok_or_else(|| {
            let message = format!("there is no device `{id}`; there are: {}", ids());
            Error::new(ErrorCode::NotFound, message)
        })
    }

    /// Returns all GPUs that this process may use.
    pub(crate) fn all() -> Result<Vec<Self>> {
        let nvml = nvml()?;
        let count = nvml.device_count().map_err(|error| failed("counting GPUs", &error))?;
        let uuids: Vec<String> = (0..count)
            .map(|index| nvml.device_by_index(index).and_then(|gpu| gpu.uuid()).unwrap_or_default())
            .collect();
        let visible = std::env::var("CUDA_VISIBLE_DEVICES").ok();
        Ok(visible_of(visible.as_deref(), &uuids))
    }

    fn device(&self) -> Result<nvml_wrapper::Device<'static>> {
        nvml()?.device_by_index(self.index).map_err(|error| failed("opening the GPU", &error))
    }

    /// Returns its constant facts.
    pub(crate) fn describe(&self, runtime: &str) -> Result<Device> {
        let (nvml, gpu) = (nvml()?, self.device()?);
        let mut attributes = vec![("onnxruntime".to_owned(), runtime.to_owned())];
        let mut say = |key: &str, value: Result<String, NvmlError>| {
            // Values that a GPU does not report are left out.
            attributes.extend(value.ok().map(|value| (key.to_owned(), value)));
        };
        let capability = gpu.cuda_compute_capability();
        let capability = capability.map(|version| (version.major, version.minor));
        say("driver", nvml.sys_driver_version());
        say(
            "cuda-driver",
            nvml.sys_cuda_driver_version().map(|version| {
                let major = cuda_driver_version_major(version);
                format!("{major}.{}", cuda_driver_version_minor(version))
            }),
        );
        say("uuid", gpu.uuid());
        say("pci", gpu.pci_info().map(|pci| pci.bus_id));
        say("max-sm-clock-mhz", gpu.max_clock_info(Clock::SM).map(|clock| clock.to_string()));
        let memory_clock = gpu.max_clock_info(Clock::Memory);
        say("max-memory-clock-mhz", memory_clock.map(|clock| clock.to_string()));
        say("power-limit-w", gpu.enforced_power_limit().map(watts));
        say("persistence", gpu.is_in_persistent_mode().map(|on| on.to_string()));
        say("ecc", gpu.is_ecc_enabled().map(|ecc| ecc.currently_enabled.to_string()));
        if let Ok((major, minor)) = capability {
            attributes.push(("compute-capability".into(), format!("{major}.{minor}")));
        }
        Ok(Device {
            id: self.id(),
            kind: "gpu".into(),
            name: gpu.name().map_err(|error| failed("asking for the GPU's name", &error))?,
            memory_bytes: gpu.memory_info().ok().map(|memory| memory.total),
            precisions: precisions(capability.unwrap_or_default()),
            attributes,
        })
    }

    /// Returns its current state: clocks, temperature, power, and throttle reasons.
    pub(crate) fn state(&self) -> Vec<(String, String)> {
        let Ok(gpu) = self.device() else { return Vec::new() };
        let mut state = Vec::new();
        let mut say = |key: &str, value: Result<String, NvmlError>| {
            state.extend(value.ok().map(|value| (format!("gpu.{key}"), value)));
        };
        say("sm-clock-mhz", gpu.clock_info(Clock::SM).map(|clock| clock.to_string()));
        say("memory-clock-mhz", gpu.clock_info(Clock::Memory).map(|clock| clock.to_string()));
        let temperature = gpu.temperature(TemperatureSensor::Gpu);
        say("temperature-c", temperature.map(|degrees| degrees.to_string()));
        say("power-w", gpu.power_usage().map(watts));
        say("utilisation-percent", gpu.utilization_rates().map(|rates| rates.gpu.to_string()));
        say("performance-state", gpu.performance_state().map(|state| format!("{state:?}")));
        say(
            "throttle-reasons",
            gpu.current_throttle_reasons().map(|reasons| {
                let names: Vec<_> = reasons.iter_names().map(|(name, _)| name).collect();
                if names.is_empty() { "none".to_owned() } else { names.join(" ") }
            }),
        );
        state
    }

    /// Returns the energy since the driver was loaded, in microjoules.
    pub(crate) fn microjoules(&self) -> Result<u64> {
        let energy = self.device()?.total_energy_consumption();
        let millijoules = energy.map_err(|error| failed("reading the energy counter", &error))?;
        Ok(millijoules.saturating_mul(1000))
    }

    /// Returns the processes that compute on it, with the memory of each.
    pub(crate) fn processes(&self) -> Result<Vec<(u32, u64)>> {
        let processes = self.device()?.running_compute_processes();
        let processes = processes.map_err(|error| failed("listing the GPU's processes", &error))?;
        let known = processes.into_iter().filter_map(|process| match process.used_gpu_memory {
            UsedGpuMemory::Used(bytes) => Some((process.pid, bytes)),
            UsedGpuMemory::Unavailable => None,
        });
        Ok(known.collect())
    }

    /// Returns the memory in use on the whole GPU, by all processes.
    pub(crate) fn memory_in_use(&self) -> Result<u64> {
        let memory = self.device()?.memory_info();
        Ok(memory.map_err(|error| failed("reading the GPU's memory", &error))?.used)
    }
}

/// Returns the current state of a GPU. It is called repeatedly while queries are timed, so it makes no unnecessary
/// calls to the driver.
pub(crate) fn reading(id: &str) -> Result<DeviceReading> {
    let index = id.strip_prefix("cuda:").and_then(|index| index.parse().ok());
    let found = index.map(|index| {
        nvml()?.device_by_index(index).map_err(|error| failed("opening the GPU", &error))
    });
    let gpu = match found {
        Some(Ok(gpu)) => gpu,
        // It lists the available ones.
        _ => Gpu::find(id)?.device()?,
    };
    let hertz = |clock| gpu.clock_info(clock).ok().map(|megahertz| 1e6 * f64::from(megahertz));
    let utilisation = gpu.utilization_rates().ok();
    Ok(DeviceReading {
        utilisation: utilisation.as_ref().map(|rates| f64::from(rates.gpu) / 100.0),
        memory_utilisation: utilisation.as_ref().map(|rates| f64::from(rates.memory) / 100.0),
        clock_hertz: hertz(Clock::SM),
        memory_clock_hertz: hertz(Clock::Memory),
        temperature_celsius: gpu.temperature(TemperatureSensor::Gpu).ok().map(f64::from),
        power_watts: gpu.power_usage().ok().map(|milliwatts| f64::from(milliwatts) / 1000.0),
        slowed_by: gpu.current_throttle_reasons().ok().map(slowed_by),
    })
}

/// Converts NVML's throttle reasons to those that all devices share.
fn slowed_by(reasons: ThrottleReasons) -> u32 {
    let shared = [
        (ThrottleReasons::GPU_IDLE, abi::slowed_by::IDLENESS),
        (ThrottleReasons::APPLICATIONS_CLOCKS_SETTING, abi::slowed_by::SETTING),
        (ThrottleReasons::DISPLAY_CLOCK_SETTING, abi::slowed_by::SETTING),
        (ThrottleReasons::SW_POWER_CAP, abi::slowed_by::POWER),
        (ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN, abi::slowed_by::POWER),
        (ThrottleReasons::SW_THERMAL_SLOWDOWN, abi::slowed_by::HEAT),
        (ThrottleReasons::HW_THERMAL_SLOWDOWN, abi::slowed_by::HEAT),
    ];
    let (known, bits) =
        shared.into_iter().fold((ThrottleReasons::empty(), 0), |(known, bits), (reason, bit)| {
            match reasons.contains(reason) {
                true => (known | reason, bits | bit),
                false => (known, bits),
            }
        });
    // A hardware slowdown also sets the reason of its cause, if known.
    let explained = bits & (abi::slowed_by::HEAT | abi::slowed_by::POWER) != 0;
    let rest = reasons - known;
    match rest - ThrottleReasons::HW_SLOWDOWN {
        rest if !rest.is_empty() => bits | abi::slowed_by::OTHER,
        _ if rest.contains(ThrottleReasons::HW_SLOWDOWN) && !explained => {
            bits | abi::slowed_by::OTHER
        }
        _ => bits,
    }
}

fn watts(milliwatts: u32) -> String {
    format!("{:.1}", f64::from(milliwatts) / 1000.0)
}

fn failed(doing: &str, error: &NvmlError) -> Error {
    Error::new(ErrorCode::Device, format!("{doing} failed: {error}"))
}

/// Returns the GPUs that `CUDA_VISIBLE_DEVICES` leaves, in CUDA's order: a list of numbers or of
/// prefixes of UUIDs, which ends at the first entry that is neither.
fn visible_of(visible: Option<&str>, uuids: &[String]) -> Vec<Gpu> {
    let count = uuids.len() as u32;
    let indices: Vec<u32> = match visible {
        None => (0..count).collect(),
        Some(list) => list
            .split(',')
            .map_while(|entry| {
                let entry = entry.trim();
                match entry.parse::<u32>() {
                    Ok(index) => (index < count).then_some(index),
                    Err(_) if entry.starts_with("GPU-") => uuids
                        .iter()
                        .position(|uuid| uuid.starts_with(entry))
                        .map(|index| index as u32),
                    Err(_) => None,
                }
            })
            .collect(),
    };
    (0..).zip(indices).map(|(ordinal, index)| Gpu { index, ordinal }).collect()
}

/// Returns the precisions of a GPU with a compute capability. A provider may support fewer.
fn precisions(capability: (i32, i32)) -> Vec<String> {
    let mut precisions = vec!["fp32"];
    if capability >= (5, 3) {
        precisions.push("fp16");
    }
    if capability >= (8, 0) {
        precisions.push("bf16");
    }
    if capability >= (6, 1) {
        precisions.push("int8");
    }
    precisions.into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_those_that_all_devices_share() {
        use abi::slowed_by::{HEAT, IDLENESS, OTHER, POWER};
        assert_eq!(slowed_by(ThrottleReasons::empty()), 0);
        assert_eq!(slowed_by(ThrottleReasons::GPU_IDLE), IDLENESS);
        assert_eq!(slowed_by(ThrottleReasons::SW_POWER_CAP), POWER);
        let hot = ThrottleReasons::HW_SLOWDOWN | ThrottleReasons::HW_THERMAL_SLOWDOWN;
        assert_eq!(slowed_by(hot), HEAT);
        assert_eq!(slowed_by(ThrottleReasons::HW_SLOWDOWN), OTHER);
        assert_eq!(slowed_by(ThrottleReasons::SYNC_BOOST | hot), OTHER | HEAT);
    }

    #[test]
    fn cuda_counts_those_that_are_visible() {
        let uuids = ["GPU-aa", "GPU-ab", "GPU-b"].map(str::to_owned);
        let visible = |list| {
            let gpus = visible_of(list, &uuids);
            gpus.into_iter().map(|gpu| (gpu.ordinal, gpu.index)).collect::<Vec<_>>()
        };
        assert_eq!(visible(None), [(0, 0), (1, 1), (2, 2)]);
        assert_eq!(visible(Some("2, 0")), [(0, 2), (1, 0)]);
        assert_eq!(visible(Some("GPU-b,GPU-ab")), [(0, 2), (1, 1)]);
        assert_eq!(visible(Some("1,-1,0")), [(0, 1)]);
        assert_eq!(visible(Some("7")), []);
        assert_eq!(visible(Some("")), []);
    }

    #[test]
    fn old_gpus_offer_less() {
        assert_eq!(precisions((9, 0)), ["fp32", "fp16", "bf16", "int8"]);
        assert_eq!(precisions((7, 5)), ["fp32", "fp16", "int8"]);
        assert_eq!(precisions((6, 0)), ["fp32", "fp16"]);
        assert_eq!(precisions((0, 0)), ["fp32"]);
    }
}
