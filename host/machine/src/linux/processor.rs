//! Processors: names, topology, frequencies and heat.

use std::collections::{BTreeMap, BTreeSet};

use host_record::{Processor, processors_of_list};

use super::files::{Files, field};
use crate::system::{Place, System as _, Turbo};

const FOLDER: &str = "sys/devices/system/cpu";

pub(super) fn processor(files: &Files) -> Processor {
    let information = files.text("proc/cpuinfo").unwrap_or_default();
    let online = online(files);
    let logical = online.as_ref().and_then(|online| u32::try_from(online.len()).ok());
    let cores = online.as_ref().and_then(|online| {
        let mut cores: BTreeMap<(u64, u64), u32> = BTreeMap::new();
        for number in online {
            *cores.entry(core(files, *number)?).or_insert(0) += 1;
        }
        Some(cores)
    });
    let sockets = cores.as_ref().map(|cores| {
        let packages: BTreeSet<_> = cores.keys().map(|(package, _)| package).collect();
        packages.len() as u32
    });
    let frequency_hertz = frequency(files, 0).or_else(|| {
        let megahertz: f64 = field(&information, "cpu MHz")?.parse().ok()?;
        Some((megahertz * 1e6) as u64)
    });
    let all: Vec<u32> = files.numbered(FOLDER, "cpu").into_iter().collect();
    Processor {
        name: name(&information),
        architecture: std::env::consts::ARCH.into(),
        logical,
        physical: cores.as_ref().map(|cores| cores.len() as u32),
        governor: files.text(&format!("{FOLDER}/cpu0/cpufreq/scaling_governor")),
        frequency_hertz,
        turbo: turbo(files).map(|turbo| turbo.on),
        simultaneous_multithreading: files.multithreading(),
        sockets,
        threads_per_core: cores.as_ref().and_then(|cores| cores.values().copied().max()),
        thermal_throttles: thermal_throttles(files, &all),
        invariant_counter: invariant_counter(&information),
    }
}

/// Returns the processors that the scheduler uses.
pub(super) fn online(files: &Files) -> Option<Vec<u32>> {
    processors_of_list(&files.text(&format!("{FOLDER}/online"))?)
}

/// Returns the package and the core of a processor.
fn core(files: &Files, processor: u32) -> Option<(u64, u64)> {
    let read = |file| files.number(&format!("{FOLDER}/cpu{processor}/topology/{file}"));
    Some((read("physical_package_id")?, read("core_id")?))
}

pub(super) fn places(files: &Files, processors: &[u32]) -> Option<Vec<Place>> {
    let nodes = files.memory_nodes();
    let node = |number: &u32| nodes.iter().find(|(_, list)| list.contains(number));
    let place = |number: &u32| {
        Some(Place {
            number: *number,
            // A kernel without nodes counts as one node.
            node: node(number).map_or(0, |(node, _)| *node),
            core: core(files, *number)?,
        })
    };
    processors.iter().map(place).collect()
}

/// Returns the size of the caches of the highest level. Processors that share one show it each.
pub(super) fn cache_bytes(files: &Files) -> Option<u64> {
    let mut caches = BTreeMap::new();
    for number in files.numbered(FOLDER, "cpu") {
        let folder = format!("{FOLDER}/cpu{number}/cache");
        for index in files.numbered(&folder, "index") {
            let text = |name: &str| files.text(&format!("{folder}/index{index}/{name}"));
            let (Some(level), Some(size)) = (text("level"), text("size")) else { continue };
            let kibibytes = size.strip_suffix('K').and_then(|size| size.parse::<u64>().ok());
            let shared = text("shared_cpu_list").unwrap_or_else(|| number.to_string());
            if let (Ok(level), Some(kibibytes)) = (level.parse::<u32>(), kibibytes) {
                caches.insert((level, shared), kibibytes.saturating_mul(1024));
            }
        }
    }
    let last = caches.keys().map(|(level, _)| *level).max()?;
    Some(caches.iter().filter(|((level, _), _)| *level == last).map(|(_, bytes)| bytes).sum())
}

pub(super) fn governors(files: &Files) -> BTreeSet<String> {
    let numbers = files.numbered(FOLDER, "cpu").into_iter();
    let file = |number| format!("{FOLDER}/cpu{number}/cpufreq/scaling_governor");
    numbers.filter_map(|number| files.text(&file(number))).collect()
}

pub(super) fn turbo(files: &Files) -> Option<Turbo> {
    const INTEL: &str = "/sys/devices/system/cpu/intel_pstate/no_turbo";
    const OTHER: &str = "/sys/devices/system/cpu/cpufreq/boost";
    if let Some(is_off) = files.flag(&INTEL[1..]) {
        return Some(Turbo { on: !is_off, file: INTEL, off: 1 });
    }
    Some(Turbo { on: files.flag(&OTHER[1..])?, file: OTHER, off: 0 })
}

/// Returns the current frequency of a processor in hertz.
pub(super) fn frequency(files: &Files, processor: u32) -> Option<u64> {
    let file = format!("{FOLDER}/cpu{processor}/cpufreq/scaling_cur_freq");
    files.number(&file)?.checked_mul(1000)
}

/// Returns the number of thermal throttles. Each processor of a core, and of a package, shows the same count.
pub(super) fn thermal_throttles(files: &Files, processors: &[u32]) -> Option<u64> {
    // Without topology, processors count as separate cores of one package.
    let place = |number| core(files, number).unwrap_or((0, u64::from(number)));
    let count =
        |number, file| files.number(&format!("{FOLDER}/cpu{number}/thermal_throttle/{file}"));
    let mut cores = BTreeMap::new();
    let mut packages = BTreeMap::new();
    for number in processors.iter().copied() {
        let core = place(number);
        if let Some(times) = count(number, "core_throttle_count") {
            cores.insert(core, times);
        }
        if let Some(times) = count(number, "package_throttle_count") {
            packages.insert(core.0, times);
        }
    }
    let is_shown = !cores.is_empty() || !packages.is_empty();
    is_shown.then(|| cores.values().chain(packages.values()).sum())
}

/// Returns whether the time-stamp counter is invariant; `None` without one, as on all processors other than
/// x86.
pub(super) fn invariant_counter(information: &str) -> Option<bool> {
    let flags = field(information, "flags")?;
    let has = |name| flags.split_whitespace().any(|flag| flag == name);
    has("tsc").then(|| has("constant_tsc") && has("nonstop_tsc"))
}

/// Returns the name on x86; on Arm, whose kernel gives no name, the codes of the vendor and part.
fn name(information: &str) -> Option<String> {
    let named = field(information, "model name").or_else(|| field(information, "Model"));
    named.map(str::to_owned).or_else(|| {
        let implementer = field(information, "CPU implementer")?;
        let part = field(information, "CPU part")?;
        Some(format!("Arm implementer {implementer}, part {part}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;

    #[test]
    fn an_x86_machine_is_read() {
        let files = fake::Files::new(&[
            (
                "proc/cpuinfo",
                "processor\t: 0\nmodel name\t: Example 9000\nflags\t\t: fpu sse\n\nprocessor\t: 1\n",
            ),
            ("sys/devices/system/cpu/online", "0-2,3\n"),
            ("sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "2400000\n"),
            ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n"),
            ("sys/devices/system/cpu/intel_pstate/no_turbo", "0\n"),
            ("sys/devices/system/cpu/smt/active", "1\n"),
            ("sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "3\n"),
            ("sys/devices/system/cpu/cpu1/thermal_throttle/package_throttle_count", "2\n"),
        ]);
        for number in 0..4 {
            let topology = format!("sys/devices/system/cpu/cpu{number}/topology");
            files.write(&format!("{topology}/physical_package_id"), "0\n");
            files.write(&format!("{topology}/core_id"), &format!("{}\n", number % 2));
        }
        assert_eq!(
            files.machine().processor(),
            Processor {
                name: Some("Example 9000".into()),
                architecture: std::env::consts::ARCH.into(),
                logical: Some(4),
                physical: Some(2),
                governor: Some("powersave".into()),
                frequency_hertz: Some(2_400_000_000),
                turbo: Some(true),
                simultaneous_multithreading: Some(true),
                sockets: Some(1),
                threads_per_core: Some(2),
                thermal_throttles: Some(5),
                invariant_counter: None,
            }
        );
        assert_eq!(files.machine().virtualisation(), Some(None));
    }

    #[test]
    fn an_arm_machine_is_read() {
        let information =
            "processor\t: 0\nBogoMIPS\t: 243.75\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n";
        let files = fake::Files::new(&[("proc/cpuinfo", information)]);
        let processor = files.machine().processor();
        assert_eq!(processor.name.as_deref(), Some("Arm implementer 0x41, part 0xd0c"));
        assert_eq!(processor.turbo, None);
        assert_eq!(files.machine().virtualisation(), None);
    }

    #[test]
    fn heat_is_counted_once_for_each_core_and_package() {
        let files = fake::Files::new(&[]);
        let cpu = |number| format!("sys/devices/system/cpu/cpu{number}");
        let heat = |number, core: &str, package: &str| {
            let folder = format!("{}/thermal_throttle", cpu(number));
            files.write(&format!("{folder}/core_throttle_count"), core);
            files.write(&format!("{folder}/package_throttle_count"), package);
        };
        heat(0, "3", "100");
        heat(1, "7", "100");
        heat(2, "7", "50");
        let machine = files.machine();
        assert_eq!(machine.thermal_throttles(&[0, 1]), Some(110), "without topology");
        for (number, package, core) in [(0, "0", "0"), (1, "0", "1"), (2, "0", "1"), (3, "1", "0")]
        {
            files.write(&format!("{}/topology/physical_package_id", cpu(number)), package);
            files.write(&format!("{}/topology/core_id", cpu(number)), core);
        }
        heat(2, "7", "100");
        heat(3, "1", "20");
        assert_eq!(machine.thermal_throttles(&[0, 1, 2]), Some(110), "1 and 2 are one core");
        assert_eq!(machine.thermal_throttles(&[0, 3]), Some(124));
        assert_eq!(machine.thermal_throttles(&[4]), None);
    }

    #[test]
    fn a_counter_is_invariant_by_its_flags() {
        let invariant =
            |flags: &str| invariant_counter(&format!("processor\t: 0\nflags\t\t: {flags}\n"));
        assert_eq!(invariant("fpu tsc constant_tsc nonstop_tsc"), Some(true));
        assert_eq!(invariant("fpu tsc constant_tsc"), Some(false));
        assert_eq!(invariant("fpu sse"), None);
    }
}
