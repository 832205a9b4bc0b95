//! Batteries, and the energy counters that Linux shows for Intel and AMD (RAPL).

use super::files::Files;
use crate::system::{EnergyCounter, NoEnergy, Power};

const FOLDER: &str = "sys/class/powercap";

pub(super) fn counters(files: &Files) -> Result<Vec<EnergyCounter>, NoEnergy> {
    let name = |zone: &str| read(files, &format!("{FOLDER}/{zone}/name"));
    let mut counters = Vec::new();
    for zone in files.names(FOLDER, "intel-rapl:") {
        // `intel-rapl:0:1` is a part of `intel-rapl:0`.
        let domain = match zone.rsplit_once(':') {
            Some((parent, _)) if parent.contains(':') => {
                format!("{}/{}", name(parent)?, name(&zone)?)
            }
            _ => name(&zone)?,
        };
        counters.push(EnergyCounter { domain, zone: format!("{FOLDER}/{zone}") });
    }
    if counters.is_empty() {
        return Err(NoEnergy::NoCounters { folder: format!("/{FOLDER}") });
    }
    Ok(counters)
}

fn read(files: &Files, file: &str) -> Result<String, NoEnergy> {
    files.read(file).map_err(|error| NoEnergy::Unreadable { file: format!("/{file}"), error })
}

pub(super) fn count(files: &Files, file: &str) -> Result<u64, NoEnergy> {
    let text = read(files, file)?;
    text.parse().map_err(|_| NoEnergy::NotACount { file: format!("/{file}"), text })
}

pub(super) fn power(files: &Files) -> Option<Power> {
    const FOLDER: &str = "sys/class/power_supply";
    if !files.exists(FOLDER) {
        return None;
    }
    let supplies = files.names(FOLDER, "");
    let kind = |name: &String| files.text(&format!("{FOLDER}/{name}/type"));
    let has_battery = supplies.iter().any(|name| {
        kind(name).as_deref() == Some("Battery")
            // Mice and pens have batteries as well.
            && files.text(&format!("{FOLDER}/{name}/scope")).as_deref() != Some("Device")
    });
    if !has_battery {
        return Some(Power::NoBattery);
    }
    let feeds = |name: &&String| matches!(kind(name).as_deref(), Some("Mains" | "USB"));
    let online: Vec<bool> = supplies
        .iter()
        .filter(feeds)
        .filter_map(|name| files.flag(&format!("{FOLDER}/{name}/online")))
        .collect();
    match online.as_slice() {
        [] => None,
        some if some.contains(&true) => Some(Power::Mains),
        _ => Some(Power::Battery),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;

    #[test]
    fn counters_are_named_with_what_they_are_part_of() {
        let files = fake::Files::new(&[
            ("sys/class/powercap/intel-rapl/enabled", "1\n"),
            ("sys/class/powercap/intel-rapl:0/name", "package-0\n"),
            ("sys/class/powercap/intel-rapl:0/energy_uj", "262143000000\n"),
            ("sys/class/powercap/intel-rapl:0/max_energy_range_uj", "262143328850\n"),
            ("sys/class/powercap/intel-rapl:0:0/name", "dram\n"),
            ("sys/class/powercap/intel-rapl:0:0/energy_uj", "much\n"),
            ("sys/class/powercap/intel-rapl-mmio:0/name", "package-0\n"),
        ]);
        let machine = files.machine();
        let counters = machine.energy_counters().expect("counters");
        let domains: Vec<_> = counters.iter().map(|counter| counter.domain.as_str()).collect();
        assert_eq!(domains, ["package-0", "package-0/dram"]);
        assert_eq!(machine.energy(&counters[0]).expect("a count"), 262_143_000_000);
        assert_eq!(machine.energy_range(&counters[0]).expect("a count"), 262_143_328_850);
        let error = machine.energy(&counters[1]).expect_err("no count");
        assert!(matches!(error, NoEnergy::NotACount { text, .. } if text == "much"));
        let error = machine.energy_range(&counters[1]).expect_err("no file");
        let file = "/sys/class/powercap/intel-rapl:0:0/max_energy_range_uj";
        assert!(matches!(error, NoEnergy::Unreadable { file: lost, .. } if lost == file));
        files.remove("sys/class/powercap/intel-rapl:0/name");
        assert!(matches!(machine.energy_counters(), Err(NoEnergy::Unreadable { .. })));
        let none = fake::Files::new(&[("sys/class/powercap/dtpm/enabled", "1\n")]);
        let error = none.machine().energy_counters().expect_err("no counters");
        assert!(
            matches!(error, NoEnergy::NoCounters { folder } if folder == "/sys/class/powercap")
        );
    }

    #[test]
    fn a_battery_counts_if_it_is_the_machines() {
        let supply = "sys/class/power_supply";
        let files = fake::Files::new(&[
            ("sys/class/power_supply/mouse/type", "Battery\n"),
            ("sys/class/power_supply/mouse/scope", "Device\n"),
        ]);
        assert_eq!(files.machine().power(), Some(Power::NoBattery));
        files.write(&format!("{supply}/BAT0/type"), "Battery\n");
        assert_eq!(files.machine().power(), None, "nothing says what feeds it");
        files.write(&format!("{supply}/AC/type"), "Mains\n");
        files.write(&format!("{supply}/AC/online"), "0\n");
        assert_eq!(files.machine().power(), Some(Power::Battery));
        files.write(&format!("{supply}/AC/online"), "1\n");
        assert_eq!(files.machine().power(), Some(Power::Mains));
    }
}
