/*!
Readings of Linux from `/proc`, `/sys` and `/etc`.

All of them are text files below a root, so this module is compiled on every system and a test can read the files of
any machine.
*/

mod container;
mod control_group;
mod energy;
mod files;
mod processor;
mod times;

use std::collections::{BTreeMap, BTreeSet};

use host_record::{Container, ControlGroup, Limit, Processor, processors_of_list};

pub(crate) use self::files::Files;
use self::files::field;
use crate::process;
use crate::system::{
    Activity, EnergyCounter, Memory, NoEnergy, Place, Power, ProcessMemory, ProcessorActivity,
    QuotaThrottling, System, Turbo,
};

impl System for Files {
    fn processor(&self) -> Processor {
        processor::processor(self)
    }

    fn processor_count(&self) -> Option<u32> {
        u32::try_from(processor::online(self)?.len()).ok()
    }

    fn allowed_processors(&self) -> Option<Vec<u32>> {
        processors_of_list(&self.own_status("Cpus_allowed_list")?)
    }

    fn places(&self, processors: &[u32]) -> Option<Vec<Place>> {
        processor::places(self, processors)
    }

    fn cache_bytes(&self) -> Option<u64> {
        processor::cache_bytes(self)
    }

    fn governors(&self) -> BTreeSet<String> {
        processor::governors(self)
    }

    fn turbo(&self) -> Option<Turbo> {
        processor::turbo(self)
    }

    fn multithreading(&self) -> Option<bool> {
        self.flag("sys/devices/system/cpu/smt/active")
    }

    fn thermal_throttles(&self, processors: &[u32]) -> Option<u64> {
        processor::thermal_throttles(self, processors)
    }

    fn highest_frequency(&self, processors: &[u32]) -> Option<u64> {
        let hertz = |number: &u32| processor::frequency(self, *number);
        processors.iter().filter_map(hertz).max()
    }

    fn invariant_counter(&self) -> Option<bool> {
        processor::invariant_counter(&self.text("proc/cpuinfo")?)
    }

    fn memory(&self) -> Option<Memory> {
        let information = self.text("proc/meminfo")?;
        let bytes = |name| kibibytes(&information, name);
        Some(Memory {
            total: bytes("MemTotal")?,
            available: bytes("MemAvailable")?,
            swap_total: bytes("SwapTotal").unwrap_or(0),
            swap_free: bytes("SwapFree").unwrap_or(0),
        })
    }

    fn available_memory(&self) -> Option<u64> {
        let machine = self.memory().map(|memory| memory.available);
        machine.into_iter().chain(control_group::memory_left(self)).min()
    }

    fn memory_nodes(&self) -> BTreeMap<u32, Vec<u32>> {
        const FOLDER: &str = "sys/devices/system/node";
        let processors = |node: &u32| {
            // A node may have memory and no processors.
            let list = self.read(&format!("{FOLDER}/node{node}/cpulist")).ok()?;
            if list.is_empty() { Some(Vec::new()) } else { processors_of_list(&list) }
        };
        let nodes = self.numbered(FOLDER, "node").into_iter();
        nodes.filter_map(|node| Some((node, processors(&node)?))).collect()
    }

    fn balances_memory_nodes(&self) -> Option<bool> {
        self.flag("proc/sys/kernel/numa_balancing")
    }

    fn allowed_memory_nodes(&self) -> Option<String> {
        self.own_status("Mems_allowed_list")
    }

    fn control_group(&self) -> ControlGroup {
        control_group::control_group(self)
    }

    fn processor_quota(&self) -> Option<Limit> {
        control_group::processor_quota(self)
    }

    fn quota_throttling(&self) -> Option<QuotaThrottling> {
        control_group::quota_throttling(self)
    }

    fn out_of_memory_kills(&self) -> Option<u64> {
        control_group::out_of_memory_kills(self)
    }

    fn container(&self) -> Option<Container> {
        container::container(self)
    }

    fn operating_system(&self) -> Option<String> {
        let release = self.text("etc/os-release").or_else(|| self.text("usr/lib/os-release"))?;
        let name = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
        Some(name.trim().trim_matches(['"', '\'']).to_owned())
    }

    fn kernel(&self) -> Option<String> {
        let name = self.text("proc/sys/kernel/ostype")?;
        Some(format!("{name} {}", self.text("proc/sys/kernel/osrelease")?))
    }

    fn load_average(&self) -> Option<f64> {
        self.text("proc/loadavg")?.split_whitespace().next()?.parse().ok()
    }

    fn pressure(&self, resource: &str) -> Option<f64> {
        let text = self.text(&format!("proc/pressure/{resource}"))?;
        let some = text.lines().find(|line| line.starts_with("some"))?;
        let average = some.split_whitespace().find_map(|word| word.strip_prefix("avg10="))?;
        average.parse().ok()
    }

    fn virtualisation(&self) -> Option<Option<String>> {
        container::virtualisation(self)
    }

    fn clock_source(&self) -> Option<String> {
        self.text("sys/devices/system/clocksource/clocksource0/current_clocksource")
    }

    fn clock_sources(&self) -> Vec<String> {
        let file = "sys/devices/system/clocksource/clocksource0/available_clocksource";
        self.text(file).unwrap_or_default().split_whitespace().map(str::to_owned).collect()
    }

    fn power(&self) -> Option<Power> {
        energy::power(self)
    }

    fn energy_counters(&self) -> Result<Vec<EnergyCounter>, NoEnergy> {
        energy::counters(self)
    }

    fn energy(&self, counter: &EnergyCounter) -> Result<u64, NoEnergy> {
        energy::count(self, &format!("{}/energy_uj", counter.zone))
    }

    fn energy_range(&self, counter: &EnergyCounter) -> Result<u64, NoEnergy> {
        energy::count(self, &format!("{}/max_energy_range_uj", counter.zone))
    }

    fn least_nice(&self) -> Option<i32> {
        /// Bit of `CAP_SYS_NICE` in a set of capabilities: capabilities(7).
        const MAY_BE_LESS_NICE: u32 = 23;
        let capabilities = u64::from_str_radix(&self.own_status("CapEff")?, 16).ok()?;
        if capabilities >> MAY_BE_LESS_NICE & 1 == 1 {
            return Some(-20);
        }
        // Fields after the program's name, which may have spaces and brackets: proc_pid_stat(5).
        let stat = self.text("proc/self/stat")?;
        let (_, fields) = stat.rsplit_once(')')?;
        let own: i32 = fields.split_whitespace().nth(16)?.parse().ok()?;
        // The soft limit is 20 less the value: getrlimit(2).
        let limits = self.text("proc/self/limits")?;
        let limit = limits.lines().find_map(|line| line.strip_prefix("Max nice priority"))?;
        let limit = limit.split_whitespace().next()?;
        let allowed = limit.parse::<i32>().map_or(-20, |limit| 20 - limit);
        Some(own.min(allowed.max(-20)))
    }

    fn activity(&self, host: &[u32]) -> Activity {
        Activity {
            own_ns: process::usage().processor_ns,
            host_ns: host.iter().map(|process| times::of_process(self, *process)).sum(),
            machine: times::of_machine(self),
        }
    }

    fn activity_of(&self, processors: &[u32]) -> Option<ProcessorActivity> {
        times::of_processors(self, processors)
    }

    fn stolen_share(&self) -> Option<f64> {
        times::stolen_share(self)
    }

    fn memory_of(&self, process: u32) -> Option<ProcessMemory> {
        let status = self.text(&format!("proc/{process}/status"))?;
        Some(ProcessMemory {
            resident: kibibytes(&status, "VmRSS")?,
            kept: kibibytes(&status, "RssAnon")? + kibibytes(&status, "RssShmem").unwrap_or(0),
        })
    }

    fn resident_memory(&self) -> Option<u64> {
        kibibytes(&self.text("proc/self/status")?, "VmRSS")
    }

    fn peak_memory(&self) -> Option<u64> {
        kibibytes(&self.text("proc/self/status")?, "VmHWM")
    }

    fn forget_peak_memory(&self) -> bool {
        // proc_pid_clear_refs(5): "5" resets the peak resident set size.
        self.write("proc/self/clear_refs", "5").is_ok()
    }

    fn proportional_memory(&self) -> Option<u64> {
        kibibytes(&self.text("proc/self/smaps_rollup")?, "Pss")
    }
}

/// Returns the value in bytes behind `name` in lines such as `MemTotal:  16 kB`.
fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let value: u64 = field(text, name)?.strip_suffix("kB")?.trim().parse().ok()?;
    value.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;

    #[test]
    #[cfg(target_os = "linux")]
    fn the_peak_of_memory_can_be_forgotten() {
        let machine = crate::Machine::this();
        let much = vec![1_u8; 256 << 20];
        std::hint::black_box(&much);
        drop(much);
        let before = machine.peak_memory().expect("Linux tells");
        assert!(machine.forget_peak_memory(), "/proc/self/clear_refs is there");
        let after = machine.peak_memory().expect("Linux tells");
        assert!(after + (128 << 20) < before, "{after} of {before}");
    }

    #[test]
    fn a_machine_that_says_nothing_has_no_facts() {
        let files = fake::Files::new(&[]);
        let machine = files.machine();
        let architecture = std::env::consts::ARCH.into();
        assert_eq!(machine.processor(), Processor { architecture, ..Processor::default() });
        assert_eq!(machine.processor_count(), None);
        assert_eq!(machine.allowed_processors(), None);
        assert_eq!(machine.memory(), None);
        assert_eq!(machine.available_memory(), None);
        assert_eq!(machine.out_of_memory_kills(), None);
        assert_eq!(machine.operating_system(), None);
        assert_eq!(machine.kernel(), None);
        assert_eq!(machine.load_average(), None);
        assert_eq!(machine.pressure("cpu"), None);
        assert_eq!(machine.virtualisation(), None);
        assert_eq!(machine.control_group(), ControlGroup::default());
        assert_eq!(machine.quota_throttling(), None);
        assert_eq!(machine.container(), None);
        assert_eq!(machine.clock_source(), None);
        assert_eq!(machine.memory_nodes(), BTreeMap::new());
        assert_eq!(machine.power(), None);
        assert_eq!(machine.least_nice(), None);
        assert_eq!(machine.activity(&[]).machine, None);
        assert_eq!(machine.activity_of(&[0]), None);
        assert_eq!(machine.stolen_share(), None);
    }

    #[test]
    fn nodes_and_the_kernels_clock_are_read() {
        let files = fake::Files::new(&[
            ("sys/devices/system/node/node0/cpulist", "0-1\n"),
            ("sys/devices/system/node/node1/cpulist", "2,3\n"),
            ("sys/devices/system/node/node2/cpulist", "\n"),
            ("sys/devices/system/node/possible", "0-1\n"),
            ("sys/devices/system/clocksource/clocksource0/current_clocksource", "kvm-clock\n"),
            ("sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc hpet \n"),
        ]);
        let nodes = files.machine().memory_nodes();
        assert_eq!(nodes, [(0, vec![0, 1]), (1, vec![2, 3]), (2, vec![])].into());
        assert_eq!(files.machine().clock_source().as_deref(), Some("kvm-clock"));
        assert_eq!(files.machine().clock_sources(), ["tsc", "hpet"]);
    }

    #[test]
    fn systems_give_their_names() {
        let files = fake::Files::new(&[
            ("etc/os-release", "NAME=\"Debian\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n"),
            ("proc/sys/kernel/ostype", "Linux\n"),
            ("proc/sys/kernel/osrelease", "6.1.0-9-amd64\n"),
            ("proc/loadavg", "0.52 1.05 0.73 1/200 99\n"),
        ]);
        let machine = files.machine();
        assert_eq!(machine.operating_system().as_deref(), Some("Debian GNU/Linux 12 (bookworm)"));
        assert_eq!(machine.kernel().as_deref(), Some("Linux 6.1.0-9-amd64"));
        assert_eq!(machine.load_average(), Some(0.52));
    }

    #[test]
    fn the_least_nice_value_follows_from_capabilities_and_limits() {
        let least = |capabilities: &str, limit: &str| {
            let own_is_5 = "7 (a) b) R 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 25 5 1 0 100 1 1\n";
            let files = fake::Files::new(&[
                ("proc/self/status", &format!("Name:\thost\nCapEff:\t{capabilities}\n")),
                ("proc/self/stat", own_is_5),
                ("proc/self/limits", &format!("Max nice priority         {limit}   40\n")),
            ]);
            files.machine().least_nice()
        };
        assert_eq!(least("0000000000800000", "0"), Some(-20), "CAP_SYS_NICE");
        assert_eq!(least("0000000000000000", "0"), Some(5), "its own");
        assert_eq!(least("0000000000000000", "30"), Some(-10));
        assert_eq!(least("0000000000000000", "unlimited"), Some(-20));
    }
}
