/*!
What depends on the operating system: reading what it says of the machine.

[`Machine`] reads Linux's `/proc` and `/sys` below a root, so that tests can give it the files of
another machine. Whatever is not there is `None`; nothing is guessed. On other systems all of it is
`None` until their own readings are added here.
*/

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use host_record::processors_of_list;

/// The user's cache folder of this program, by the XDG base directory specification.
pub(crate) fn cache_folder() -> Option<PathBuf> {
    let named = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let base = named.filter(|path| path.is_absolute()).or_else(|| {
        let home = std::env::home_dir().filter(|home| home.is_absolute())?;
        Some(home.join(".cache"))
    })?;
    Some(base.join("tare"))
}

/// Name of the executable that checks backends.
pub(crate) fn testkit_file_name() -> String {
    format!("plugin-testkit{}", std::env::consts::EXE_SUFFIX)
}

/// Name of the worker's executable.
pub(crate) fn worker_file_name() -> String {
    format!("host-worker{}", std::env::consts::EXE_SUFFIX)
}

/// Memory in use, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Memory {
    /// All of it.
    pub(crate) total: u64,
    /// What can still be had without swapping.
    pub(crate) available: u64,
    /// Swap space.
    pub(crate) swap_total: u64,
    /// Swap space that is free.
    pub(crate) swap_free: u64,
}

/// Shares of processor time since the machine started.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Stolen {
    /// Share that the hypervisor gave to other machines, from 0 to 1.
    pub(crate) share: f64,
}

/// What feeds the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Power {
    /// It has no battery.
    NoBattery,
    /// The mains.
    Mains,
    /// Its battery.
    Battery,
}

/// A machine, by its files.
#[derive(Debug, Clone)]
pub(crate) struct Machine {
    root: PathBuf,
}

impl Machine {
    /// This machine.
    pub(crate) fn this() -> Self {
        Self::at("/")
    }

    /// The machine whose `/proc` and `/sys` lie below `root`.
    pub(crate) fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    fn text(&self, path: &str) -> Option<String> {
        Some(fs::read_to_string(self.path(path)).ok()?.trim().to_owned())
    }

    fn number<T: std::str::FromStr>(&self, path: &str) -> Option<T> {
        self.text(path)?.parse().ok()
    }

    /// Names in a folder that begin with `prefix`.
    fn names(&self, folder: &str, prefix: &str) -> BTreeSet<String> {
        let entries = fs::read_dir(self.path(folder)).into_iter().flatten().flatten();
        entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| name.starts_with(prefix))
            .collect()
    }

    /// Names of the processors, such as `cpu0`.
    fn processors(&self) -> BTreeSet<String> {
        let mut names = self.names("/sys/devices/system/cpu", "cpu");
        names.retain(|name| name["cpu".len()..].parse::<u32>().is_ok());
        names
    }

    fn per_processor(&self, file: &str) -> Vec<String> {
        let path = |name| format!("/sys/devices/system/cpu/{name}/{file}");
        self.processors().iter().filter_map(|name| self.text(&path(name))).collect()
    }

    /// Number of processors that the scheduler uses.
    pub(crate) fn processor_count(&self) -> Option<usize> {
        let online = self.text("/sys/devices/system/cpu/online")?;
        let mut count = 0;
        for range in online.split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            count += last.parse::<usize>().ok()?.checked_sub(first.parse().ok()?)? + 1;
        }
        Some(count)
    }

    /// The processors that this process may use.
    pub(crate) fn allowed_processors(&self) -> Option<Vec<u32>> {
        let status = self.text("/proc/self/status")?;
        processors_of_list(field(&status, "Cpus_allowed_list:")?)
    }

    /// The least nice value that this process may give itself or others of its own.
    pub(crate) fn least_nice(&self) -> Option<i32> {
        /// Bit of `CAP_SYS_NICE` in a set of capabilities: capabilities(7).
        const MAY_BE_LESS_NICE: u32 = 23;
        let status = self.text("/proc/self/status")?;
        let capabilities = u64::from_str_radix(field(&status, "CapEff:")?, 16).ok()?;
        if capabilities >> MAY_BE_LESS_NICE & 1 == 1 {
            return Some(-20);
        }
        // What follows the program's name, which may have spaces and brackets: proc_pid_stat(5).
        let stat = self.text("/proc/self/stat")?;
        let (_, fields) = stat.rsplit_once(')')?;
        let own: i32 = fields.split_whitespace().nth(16)?.parse().ok()?;
        // The soft limit is 20 less the value: getrlimit(2).
        let limits = self.text("/proc/self/limits")?;
        let limit = field(&limits, "Max nice priority")?.split_whitespace().next()?;
        let allowed = limit.parse::<i32>().map_or(-20, |limit| 20 - limit);
        Some(own.min(allowed.max(-20)))
    }

    /// The different frequency governors in use.
    pub(crate) fn governors(&self) -> BTreeSet<String> {
        self.per_processor("cpufreq/scaling_governor").into_iter().collect()
    }

    /// Whether frequencies above the nominal one are allowed, and the file that says so.
    pub(crate) fn turbo(&self) -> Option<(bool, &'static str)> {
        const INTEL: &str = "/sys/devices/system/cpu/intel_pstate/no_turbo";
        const OTHER: &str = "/sys/devices/system/cpu/cpufreq/boost";
        if let Some(off) = self.number::<u8>(INTEL) {
            return Some((off == 0, INTEL));
        }
        Some((self.number::<u8>(OTHER)? != 0, OTHER))
    }

    /// Whether two hardware threads share a core.
    pub(crate) fn multithreading(&self) -> Option<bool> {
        Some(self.number::<u8>("/sys/devices/system/cpu/smt/active")? != 0)
    }

    /// Average number of processes that ran or wanted to, over one minute.
    pub(crate) fn load(&self) -> Option<f64> {
        self.text("/proc/loadavg")?.split_whitespace().next()?.parse().ok()
    }

    /// Share of the last ten seconds in which something waited for `resource` (`cpu`, `memory`,
    /// `io`), in percent.
    pub(crate) fn pressure(&self, resource: &str) -> Option<f64> {
        let text = self.text(&format!("/proc/pressure/{resource}"))?;
        let some = text.lines().find(|line| line.starts_with("some"))?;
        let average = some.split_whitespace().find_map(|word| word.strip_prefix("avg10="))?;
        average.parse().ok()
    }

    /// Memory and swap.
    pub(crate) fn memory(&self) -> Option<Memory> {
        let text = self.text("/proc/meminfo")?;
        let kibibytes = |name| {
            let value = field(&text, name)?;
            Some(value.split_whitespace().next()?.parse::<u64>().ok()? << 10)
        };
        Some(Memory {
            total: kibibytes("MemTotal:")?,
            available: kibibytes("MemAvailable:")?,
            swap_total: kibibytes("SwapTotal:").unwrap_or(0),
            swap_free: kibibytes("SwapFree:").unwrap_or(0),
        })
    }

    /// Whether a hypervisor runs this machine; its name where it is known.
    pub(crate) fn hypervisor(&self) -> Option<Option<String>> {
        let processors = self.text("/proc/cpuinfo")?;
        let flags = processors.lines().find(|line| line.starts_with("flags"));
        let vendor = self.text("/sys/class/dmi/id/sys_vendor");
        let product = self.text("/sys/class/dmi/id/product_name");
        let name = || {
            let parts: Vec<_> = vendor.iter().chain(&product).map(String::as_str).collect();
            if parts.is_empty() { "of unknown make".to_owned() } else { parts.join(" ") }
        };
        match flags {
            Some(flags) => {
                Some(flags.split_whitespace().any(|flag| flag == "hypervisor").then(name))
            }
            // Processors other than x86 have no such flag; firmware may still name one.
            None => {
                let known = ["QEMU", "KVM", "Amazon EC2", "VMware", "Google", "Microsoft", "Xen"];
                let told = vendor.iter().chain(&product);
                let found = told.clone().any(|text| known.iter().any(|word| text.contains(word)));
                if found { Some(Some(name())) } else { None }
            }
        }
    }

    /// Processor time that the hypervisor gave to others.
    pub(crate) fn stolen(&self) -> Option<Stolen> {
        let text = self.text("/proc/stat")?;
        let times: Vec<f64> =
            field(&text, "cpu ")?.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        // The first eight are user, nice, system, idle, iowait, irq, softirq and steal; the guest
        // times after them are part of the first two.
        let total: f64 = times.iter().take(8).sum();
        let stolen = times.get(7)?;
        (total > 0.0).then(|| Stolen { share: stolen / total })
    }

    /// What feeds the machine; nothing where the system does not say.
    pub(crate) fn power(&self) -> Option<Power> {
        const FOLDER: &str = "/sys/class/power_supply";
        if !self.path(FOLDER).is_dir() {
            return None;
        }
        let supplies = self.names(FOLDER, "");
        let kind = |name: &String| self.text(&format!("{FOLDER}/{name}/type"));
        let battery = supplies.iter().any(|name| {
            kind(name).as_deref() == Some("Battery")
                // Mice and pens have batteries as well.
                && self.text(&format!("{FOLDER}/{name}/scope")).as_deref() != Some("Device")
        });
        if !battery {
            return Some(Power::NoBattery);
        }
        let feeds = |name: &&String| matches!(kind(name).as_deref(), Some("Mains" | "USB"));
        let online: Vec<u8> = supplies
            .iter()
            .filter(feeds)
            .filter_map(|name| self.number(&format!("{FOLDER}/{name}/online")))
            .collect();
        match online.as_slice() {
            [] => None,
            some if some.iter().any(|state| *state > 0) => Some(Power::Mains),
            _ => Some(Power::Battery),
        }
    }

    /// How often processors have slowed down because of heat since the machine started.
    pub(crate) fn throttled(&self) -> Option<u64> {
        let counts: Vec<u64> = ["core_throttle_count", "package_throttle_count"]
            .iter()
            .flat_map(|file| self.per_processor(&format!("thermal_throttle/{file}")))
            .filter_map(|text| text.parse().ok())
            .collect();
        (!counts.is_empty()).then(|| counts.iter().sum())
    }

    /// The processor's counters of energy by name, and whether this process may read each.
    pub(crate) fn energy_counters(&self) -> Vec<(String, bool)> {
        const FOLDER: &str = "/sys/class/powercap";
        let zones = self.names(FOLDER, "intel-rapl:");
        let counter = |zone: &String| {
            let name = self.text(&format!("{FOLDER}/{zone}/name"))?;
            Some((name, self.number::<u64>(&format!("{FOLDER}/{zone}/energy_uj")).is_some()))
        };
        zones.iter().filter_map(counter).collect()
    }

    /// What the kernel reads the time from, and what else it could.
    pub(crate) fn clock_source(&self) -> Option<(String, String)> {
        const FOLDER: &str = "/sys/devices/system/clocksource/clocksource0";
        let current = self.text(&format!("{FOLDER}/current_clocksource"))?;
        let available = self.text(&format!("{FOLDER}/available_clocksource"));
        Some((current, available.unwrap_or_default()))
    }

    /// The smallest number of processors' worth of time that a control group grants this process;
    /// infinite where none limits it.
    pub(crate) fn processor_quota(&self) -> Option<f64> {
        let groups = self.text("/proc/self/cgroup")?;
        let mut quota: Option<f64> = None;
        let mut limit = |value: f64| quota = Some(quota.map_or(value, |known| known.min(value)));
        for line in groups.lines() {
            let mut parts = line.splitn(3, ':');
            let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
            if controllers.is_empty() {
                for folder in ancestors("/sys/fs/cgroup", path) {
                    let Some(text) = self.text(&format!("{folder}/cpu.max")) else { continue };
                    let mut words = text.split_whitespace();
                    let (allowed, period) = (words.next(), words.next());
                    limit(ratio(allowed, period).unwrap_or(f64::INFINITY));
                }
            } else if controllers.split(',').any(|name| name == "cpu") {
                for folder in ancestors("/sys/fs/cgroup/cpu", path) {
                    let allowed = self.text(&format!("{folder}/cpu.cfs_quota_us"));
                    let period = self.text(&format!("{folder}/cpu.cfs_period_us"));
                    if let Some(value) = ratio(allowed.as_deref(), period.as_deref()) {
                        limit(if value > 0.0 { value } else { f64::INFINITY });
                    }
                }
            }
        }
        quota
    }

    /// Whether the kernel moves pages between memory nodes by itself, and the number of nodes.
    pub(crate) fn memory_nodes(&self) -> Option<(usize, bool)> {
        let nodes = self.names("/sys/devices/system/node", "node").len();
        let balancing = self.number::<u8>("/proc/sys/kernel/numa_balancing").unwrap_or(0) != 0;
        (nodes > 0).then_some((nodes, balancing))
    }
}

fn ratio(allowed: Option<&str>, period: Option<&str>) -> Option<f64> {
    Some(allowed?.parse::<f64>().ok()? / period?.parse::<f64>().ok()?)
}

/// The folder of a control group and of each one above it.
fn ancestors(mount: &str, path: &str) -> Vec<String> {
    let below = Path::new(path.trim_start_matches('/'));
    below.ancestors().map(|path| Path::new(mount).join(path).display().to_string()).collect()
}

/// The rest of the first line that begins with `name`.
fn field<'text>(text: &'text str, name: &str) -> Option<&'text str> {
    Some(text.lines().find_map(|line| line.strip_prefix(name))?.trim())
}
