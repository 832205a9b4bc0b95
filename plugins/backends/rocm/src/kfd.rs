//! AMD GPUs, from the Linux driver's files.

use std::collections::BTreeMap;
use std::path::Path;

use engine_onnxruntime::loader_says;
use plugin_api::backend::{Error, ErrorCode, Result};

/// Device file of the driver.
const DRIVER: &str = "/dev/kfd";
/// Topology in the driver's files: a folder for each processor.
const TOPOLOGY: &str = "/sys/class/kfd/kfd/topology/nodes";

/// Libraries that the providers need, in addition to ONNX Runtime's own.
const HIP: &[&str] = &["libamdhip64.so.7", "libamdhip64.so.6"];
const MIGRAPHX: &[&str] = &["libmigraphx_c.so.3"];

/// A GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Gpu {
    /// HIP's number, which counts GPUs in the order of their nodes.
    pub(crate) ordinal: i32,
    pub(crate) name: String,
    /// The architecture, such as `gfx942`.
    pub(crate) architecture: String,
    pub(crate) memory_bytes: Option<u64>,
}

impl Gpu {
    /// Returns all GPUs, or an error that lists what was searched for.
    pub(crate) fn all(needs_migraphx: bool) -> Result<Vec<Self>> {
        let mut missing = Vec::new();
        if !Path::new(DRIVER).exists() {
            missing.push(format!("{DRIVER}, which the driver amdgpu creates, does not exist"));
        }
        let wanted = [("HIP", HIP), ("MIGraphX", MIGRAPHX)];
        for (what, names) in wanted.into_iter().take(1 + usize::from(needs_migraphx)) {
            if let Err(error) = open_any(names) {
                missing.push(format!("{what} cannot be opened: {error}"));
            }
        }
        let gpus = in_topology(Path::new(TOPOLOGY));
        if gpus.is_empty() && missing.is_empty() {
            missing.push(format!("{TOPOLOGY} shows no GPU"));
        }
        if missing.is_empty() {
            return Ok(gpus);
        }
        let message = format!("there is no usable AMD GPU: {}", missing.join("; "));
        Err(Error::new(ErrorCode::NotFound, message))
    }
}

/// Checks that one of the libraries can be opened; else returns the loader's error for the first.
fn open_any(names: &[&str]) -> Result<(), String> {
    let mut first = None;
    for name in names {
        // SAFETY: these are the vendor's libraries, which ONNX Runtime opens next.
        match unsafe { libloading::Library::new(*name) } {
            Ok(library) => {
                std::mem::forget(library);
                return Ok(());
            }
            Err(error) => first = first.or_else(|| Some(loader_says(&error))),
        }
    }
    Err(first.unwrap_or_default())
}

/// Returns the GPUs among the nodes; the others are processors.
fn in_topology(nodes: &Path) -> Vec<Gpu> {
    let numbered = |entry: std::fs::DirEntry| {
        Some((entry.file_name().to_str()?.parse::<u32>().ok()?, entry.path()))
    };
    let entries = std::fs::read_dir(nodes).into_iter().flatten().flatten();
    let folders: BTreeMap<_, _> = entries.filter_map(numbered).collect();
    let gpus = folders.values().filter_map(|folder| {
        let node = properties(&folder.join("properties"));
        (node.get("simd_count")? > &0).then(|| {
            let target = node.get("gfx_target_version").copied().unwrap_or(0);
            let architecture = architecture(target);
            let name = std::fs::read_to_string(folder.join("name")).unwrap_or_default();
            let name = match name.trim() {
                "" => format!("AMD GPU {architecture}"),
                name => format!("AMD {name}"),
            };
            (name, architecture, memory(&folder.join("mem_banks")))
        })
    });
    (0..)
        .zip(gpus)
        .map(|(ordinal, (name, architecture, memory_bytes))| Gpu {
            ordinal,
            name,
            architecture,
            memory_bytes,
        })
        .collect()
}

/// Reads a file of names and numbers.
fn properties(file: &Path) -> BTreeMap<String, u64> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let line = |line: &str| {
        let (name, number) = line.split_once(' ')?;
        Some((name.to_owned(), number.trim().parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

/// Returns the architecture: 90402 is gfx942; the last two parts are hexadecimal digits.
fn architecture(target: u64) -> String {
    let (major, minor, stepping) = (target / 10_000, target / 100 % 100, target % 100);
    format!("gfx{major}{minor:x}{stepping:x}")
}

/// Returns the size of a GPU's own memory.
fn memory(banks: &Path) -> Option<u64> {
    /// The driver's numbers for the GPU's own memory, visible to the host or not.
    const OWN: [u64; 2] = [1, 2];
    let entries = std::fs::read_dir(banks).ok()?.flatten();
    let banks = entries.map(|bank| properties(&bank.path().join("properties")));
    let own = banks.filter(|bank| bank.get("heap_type").is_some_and(|heap| OWN.contains(heap)));
    let sum: u64 = own.filter_map(|bank| bank.get("size_in_bytes").copied()).sum();
    (sum > 0).then_some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_are_distinguished_from_processors() {
        let nodes = tempfile::tempdir().expect("a folder");
        let write = |path: &str, text: &str| {
            let path = nodes.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("it is writable");
            std::fs::write(path, text).expect("it is writable");
        };
        write("0/properties", "cpu_cores_count 96\nsimd_count 0\n");
        write("10/properties", "simd_count 416\ngfx_target_version 110001\n");
        write("2/properties", "cpu_cores_count 0\nsimd_count 1216\ngfx_target_version 90402\n");
        write("2/name", "ip discovery\n");
        write("2/mem_banks/0/properties", "heap_type 1\nsize_in_bytes 206141652992\n");
        let gpus = in_topology(nodes.path());
        assert_eq!(gpus.len(), 2);
        assert_eq!(gpus[0].architecture, "gfx942");
        assert_eq!(gpus[0].name, "AMD ip discovery");
        assert_eq!(gpus[0].memory_bytes, Some(206_141_652_992));
        assert_eq!((gpus[1].ordinal, gpus[1].name.as_str()), (1, "AMD GPU gfx1101"));
        assert_eq!(gpus[1].memory_bytes, None);
        assert_eq!(in_topology(&nodes.path().join("nowhere")), []);
    }
}
