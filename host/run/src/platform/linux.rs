//! What Linux says in `/proc`, `/sys` and `/etc`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use host_record::{
    Container, ControlGroup, Limit, Processor, list_of_processors, processors_of_list,
};

/// The files of a system; tests look at a made-up one.
#[derive(Debug)]
pub(crate) struct System {
    root: PathBuf,
}

impl System {
    /// The system that runs.
    pub(crate) fn this() -> Self {
        Self { root: "/".into() }
    }

    fn text(&self, path: &str) -> Option<String> {
        let text = fs::read_to_string(self.root.join(path)).ok()?;
        let text =
            text.trim_matches(|character: char| character.is_whitespace() || character == '\0');
        (!text.is_empty()).then(|| text.to_owned())
    }

    fn number(&self, path: &str) -> Option<u64> {
        self.text(path)?.parse().ok()
    }

    pub(crate) fn processor(&self) -> Processor {
        let information = self.text("proc/cpuinfo").unwrap_or_default();
        let field = |name| field(&information, name);
        let online =
            self.text("sys/devices/system/cpu/online").and_then(|text| processors_of_list(&text));
        let logical = online.as_ref().and_then(|online| u32::try_from(online.len()).ok());
        let cores = online.as_ref().and_then(|online| self.cores(online));
        let sockets = cores.as_ref().map(|cores| {
            let packages: BTreeSet<_> = cores.keys().map(|(package, _)| package).collect();
            packages.len() as u32
        });
        let physical = cores.as_ref().map(|cores| cores.len() as u32);
        let threads_per_core = cores.as_ref().and_then(|cores| cores.values().copied().max());
        let frequency = "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq";
        let frequency_hertz =
            self.number(frequency).map(|kilohertz| kilohertz * 1000).or_else(|| {
                let megahertz: f64 = field("cpu MHz")?.parse().ok()?;
                Some((megahertz * 1e6) as u64)
            });
        let no_turbo = self.number("sys/devices/system/cpu/intel_pstate/no_turbo");
        let boost = self.number("sys/devices/system/cpu/cpufreq/boost");
        let threads = self.number("sys/devices/system/cpu/smt/active");
        Processor {
            name: processor_name(&information),
            architecture: std::env::consts::ARCH.into(),
            logical,
            physical,
            governor: self.text("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            frequency_hertz,
            turbo: no_turbo.map(|off| off == 0).or(boost.map(|on| on != 0)),
            simultaneous_multithreading: threads.map(|on| on != 0),
            sockets,
            threads_per_core,
            thermal_throttles: self.thermal_throttles(),
            invariant_counter: field("flags").and_then(invariant_counter),
        }
    }

    /// The cores of these processors, by package and number, and how many processors share each.
    fn cores(&self, processors: &[u32]) -> Option<BTreeMap<(String, String), u32>> {
        let mut cores = BTreeMap::new();
        for index in processors {
            let topology = format!("sys/devices/system/cpu/cpu{index}/topology");
            let package = self.text(&format!("{topology}/physical_package_id"))?;
            let core = self.text(&format!("{topology}/core_id"))?;
            *cores.entry((package, core)).or_insert(0) += 1;
        }
        Some(cores)
    }

    /// How often heat has slowed a core or a package since the machine started. Each processor of a
    /// core or a package shows the same count for it, so this is a sign and no exact number.
    fn thermal_throttles(&self) -> Option<u64> {
        let names = self.names("sys/devices/system/cpu", "cpu");
        let counts: Vec<u64> = names
            .iter()
            .flat_map(|name| {
                ["core_throttle_count", "package_throttle_count"].map(|file| {
                    self.number(&format!("sys/devices/system/cpu/{name}/thermal_throttle/{file}"))
                })
            })
            .flatten()
            .collect();
        (!counts.is_empty()).then(|| counts.iter().sum())
    }

    /// Names in a folder that begin with `prefix`, sorted.
    fn names(&self, folder: &str, prefix: &str) -> BTreeSet<String> {
        let entries = fs::read_dir(self.root.join(folder)).into_iter().flatten().flatten();
        entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| name.starts_with(prefix))
            .collect()
    }

    /// Processors of each memory node.
    pub(crate) fn memory_nodes(&self) -> BTreeMap<String, String> {
        const FOLDER: &str = "sys/devices/system/node";
        let mut names = self.names(FOLDER, "node");
        names.retain(|name| name["node".len()..].parse::<u32>().is_ok());
        names
            .into_iter()
            .filter_map(|name| {
                let list = processors_of_list(&self.text(&format!("{FOLDER}/{name}/cpulist"))?)?;
                Some((name, list_of_processors(&list)))
            })
            .collect()
    }

    pub(crate) fn clock_source(&self) -> Option<String> {
        self.text("sys/devices/system/clocksource/clocksource0/current_clocksource")
    }

    /// What the control groups around us allow: the tightest limit of each kind.
    pub(crate) fn control_group(&self) -> ControlGroup {
        let tightest = |limits: Vec<Limit>| {
            limits.into_iter().reduce(|one, other| match (one, other) {
                (Limit::At(one), Limit::At(other)) => Limit::At(one.min(other)),
                (at @ Limit::At(_), _) | (_, at) => at,
            })
        };
        let version_2 = self.groups("");
        let processors = self.groups("cpu");
        let memory = self.groups("memory");
        let sets = self.groups("cpuset");
        let quota = |folder: &String| {
            if let Some(text) = self.text(&format!("{folder}/cpu.max")) {
                let (allowed, period) = text.split_once(' ')?;
                return match allowed {
                    "max" => Some(Limit::NONE),
                    _ => ratio(allowed.parse().ok()?, period.trim().parse().ok()?),
                };
            }
            let allowed: i64 = self.text(&format!("{folder}/cpu.cfs_quota_us"))?.parse().ok()?;
            let period = self.number(&format!("{folder}/cpu.cfs_period_us"))?;
            // Version 1 says −1 where there is none.
            if allowed < 0 { Some(Limit::NONE) } else { ratio(allowed as f64, period as f64) }
        };
        let bytes = |folder: &String| {
            if let Some(text) = self.text(&format!("{folder}/memory.max")) {
                return match text.as_str() {
                    "max" => Some(Limit::NONE),
                    _ => text.parse().ok().map(Limit::At),
                };
            }
            let bytes = self.number(&format!("{folder}/memory.limit_in_bytes"))?;
            // Version 1 says the largest number of whole pages where there is none.
            Some(if bytes >= i64::MAX as u64 - 65_535 {
                Limit::NONE
            } else {
                Limit::At(bytes as f64)
            })
        };
        let set = |kind: &str| {
            let files = [format!("cpuset.{kind}.effective"), format!("cpuset.effective_{kind}")];
            let mut folders = version_2.iter().chain(&sets);
            let list = folders.find_map(|folder| {
                files.iter().find_map(|file| self.text(&format!("{folder}/{file}")))
            })?;
            Some(list_of_processors(&processors_of_list(&list)?))
        };
        ControlGroup {
            processor_quota: tightest(processors.iter().filter_map(quota).collect()),
            memory_bytes: tightest(memory.iter().filter_map(bytes).collect()),
            processors: set("cpus"),
            memory_nodes: set("mems"),
        }
    }

    /// The container that holds us. Engines leave a file behind or name themselves to the first
    /// process; where neither is so, and the first process is the machine's own, there is none.
    pub(crate) fn container(&self) -> Option<Container> {
        let told = |kind: &str, by: &str| {
            Some(Container { kind: kind.to_owned(), told_by: format!("/{by}") })
        };
        let exists = |path: &str| self.root.join(path).exists();
        if exists(".dockerenv") {
            return told("docker", ".dockerenv");
        }
        const PODMAN: &str = "run/.containerenv";
        if exists(PODMAN) {
            return told("podman", PODMAN);
        }
        // systemd writes the name here, be it in a container that it manages or in one it runs in.
        const SYSTEMD: &str = "run/systemd/container";
        if let Some(kind) = self.text(SYSTEMD) {
            return told(&kind, SYSTEMD);
        }
        // Readable by root only, where it is the first process of the machine.
        const FIRST: &str = "proc/1/environ";
        if let Some(environment) = self.text(FIRST) {
            let name = environment.split('\0').find_map(|entry| entry.strip_prefix("container="));
            if let Some(kind) = name.filter(|kind| !kind.is_empty()) {
                return told(kind, FIRST);
            }
        }
        const GROUPS: &str = "proc/1/cgroup";
        let groups = self.text(GROUPS)?;
        let known = [
            ("docker", "docker"),
            ("libpod", "podman"),
            ("kubepods", "kubernetes"),
            ("lxc", "lxc"),
        ];
        if let Some((_, kind)) = known.iter().find(|(word, _)| groups.contains(word)) {
            return told(kind, GROUPS);
        }
        // A group of its own makes the first process look as if it were at the root, and then the
        // mounts tell: a container's root is an overlay.
        const MOUNTS: &str = "proc/1/mounts";
        let mounts = self.text(MOUNTS)?;
        let root = mounts.lines().rev().find(|line| line.split(' ').nth(1) == Some("/"))?;
        match root.split(' ').nth(2)? {
            "overlay" => None,
            _ => told("none", MOUNTS),
        }
    }

    pub(crate) fn memory(&self) -> Option<u64> {
        self.memory_information("MemTotal")
    }

    fn memory_information(&self, name: &str) -> Option<u64> {
        kibibytes(&self.text("proc/meminfo")?, name)
    }

    /// What the kernel could give to a process now, within the limits of our control group.
    pub(crate) fn available_memory(&self) -> Option<u64> {
        let machine = self.memory_information("MemAvailable");
        let group = self.group_memory();
        machine.into_iter().chain(group).min()
    }

    /// What is left of the tightest limit among our control group and those around it.
    fn group_memory(&self) -> Option<u64> {
        let left = self.groups("memory").into_iter().filter_map(|folder| {
            let read = |file: &str| self.number(&format!("{folder}/{file}"));
            let version_2 = || read("memory.max").zip(read("memory.current"));
            let version_1 = || read("memory.limit_in_bytes").zip(read("memory.usage_in_bytes"));
            let (limit, used) = version_2().or_else(version_1)?;
            // Pages of files are given back when they are needed.
            let statistics = self.text(&format!("{folder}/memory.stat")).unwrap_or_default();
            let inactive = ["total_inactive_file ", "inactive_file "].iter().find_map(|name| {
                let line = statistics.lines().find_map(|line| line.strip_prefix(name))?;
                line.trim().parse::<u64>().ok()
            });
            Some(limit.saturating_sub(used.saturating_sub(inactive.unwrap_or(0))))
        });
        left.min()
    }

    /// Folders of our control group and of those around it, for a controller of version 1 or for
    /// the one hierarchy of version 2.
    fn groups(&self, controller: &str) -> Vec<String> {
        let Some(membership) = self.text("proc/self/cgroup") else { return Vec::new() };
        let mut folders = Vec::new();
        for line in membership.lines() {
            let mut parts = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
            let root = if controllers.is_empty() {
                "sys/fs/cgroup".to_owned()
            } else if controllers.split(',').any(|name| name == controller) {
                format!("sys/fs/cgroup/{controller}")
            } else {
                continue;
            };
            // In a container the path may be that of the outside, and only the root be visible.
            for group in Path::new(path.trim_start_matches('/')).ancestors() {
                folders.push(format!("{root}/{}", group.display()));
            }
        }
        folders
    }

    /// How many processes the kernel has ended for want of memory: in our control group where it
    /// counts them, otherwise on the whole machine.
    fn out_of_memory_kills(&self) -> Option<u64> {
        let count = |file: &str| {
            let text = self.text(file)?;
            let value = text.lines().find_map(|line| line.strip_prefix("oom_kill "))?;
            value.trim().parse().ok()
        };
        let of_group = self.groups("memory").into_iter().find_map(|folder| {
            count(&format!("{folder}/memory.events"))
                .or_else(|| count(&format!("{folder}/memory.oom_control")))
        });
        of_group.or_else(|| count("proc/vmstat"))
    }

    pub(crate) fn operating_system(&self) -> Option<String> {
        let release = self.text("etc/os-release").or_else(|| self.text("usr/lib/os-release"))?;
        let name = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
        Some(name.trim().trim_matches(['"', '\'']).to_owned())
    }

    pub(crate) fn kernel(&self) -> Option<String> {
        let name = self.text("proc/sys/kernel/ostype")?;
        Some(format!("{name} {}", self.text("proc/sys/kernel/osrelease")?))
    }

    pub(crate) fn load_average(&self) -> Option<f64> {
        self.text("proc/loadavg")?.split_whitespace().next()?.parse().ok()
    }

    pub(crate) fn virtualisation(&self) -> Option<String> {
        /// What firmware says, and the hypervisor that says so.
        const FIRMWARE: &[(&str, &str)] = &[
            ("amazon ec2", "Amazon EC2"),
            ("google compute engine", "Google Compute Engine"),
            ("microsoft corporation virtual machine", "Microsoft Hyper-V"),
            ("vmware", "VMware"),
            ("virtualbox", "VirtualBox"),
            ("parallels", "Parallels"),
            ("kvm", "KVM"),
            ("qemu", "QEMU"),
            ("xen", "Xen"),
        ];
        let firmware = ["sys_vendor", "product_name"]
            .map(|file| self.text(&format!("sys/class/dmi/id/{file}")).unwrap_or_default());
        let firmware = firmware.join(" ").to_lowercase();
        let known = FIRMWARE.iter().find(|(text, _)| firmware.contains(text));
        if let Some((_, name)) = known {
            return Some((*name).into());
        }
        if let Some(kind) = self.text("sys/hypervisor/type") {
            return Some(kind);
        }
        let information = self.text("proc/cpuinfo")?;
        let flags = field(&information, "flags")?;
        let guest = flags.split_whitespace().any(|flag| flag == "hypervisor");
        guest.then(|| "a hypervisor that does not give its name".into())
    }
}

/// What the kernel could give to a process now.
pub(crate) fn available_memory() -> Option<u64> {
    System::this().available_memory()
}

/// How many processes the kernel has ended for want of memory.
pub(crate) fn out_of_memory_kills() -> Option<u64> {
    System::this().out_of_memory_kills()
}

/// Memory of a process in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Memory {
    /// Resident memory.
    pub(crate) resident: u64,
    /// The same without the pages of files, which the kernel can drop and read again.
    pub(crate) kept: u64,
}

/// Memory of a process.
pub(crate) fn memory_of(id: u32) -> Option<Memory> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    Some(Memory {
        resident: kibibytes(&status, "VmRSS")?,
        kept: kibibytes(&status, "RssAnon")? + kibibytes(&status, "RssShmem").unwrap_or(0),
    })
}

/// The value behind `name` in lines such as `model name : Something`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim()).filter(|value| !value.is_empty())
    })
}

/// The value in bytes behind `name` in lines such as `MemTotal:  16 kB`.
fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let value: u64 = field(text, name)?.strip_suffix("kB")?.trim().parse().ok()?;
    value.checked_mul(1024)
}

fn ratio(allowed: f64, period: f64) -> Option<Limit> {
    (period > 0.0).then(|| Limit::At(allowed / period))
}

/// Whether an x86 processor's time-stamp counter keeps its rate and never stops; `None` without one.
fn invariant_counter(flags: &str) -> Option<bool> {
    let has = |name| flags.split_whitespace().any(|flag| flag == name);
    has("tsc").then(|| has("constant_tsc") && has("nonstop_tsc"))
}

/// The C library that this process runs on, and its version.
pub(crate) fn c_library() -> Option<String> {
    if cfg!(target_env = "gnu") {
        // SAFETY: it returns a string that lives as long as the process.
        let version = unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) };
        return Some(format!("glibc {}", version.to_str().ok()?));
    }
    // musl tells no version to a program.
    cfg!(target_env = "musl").then(|| "musl".to_owned())
}

/// The name on x86; on Arm, where the kernel tells no name, the codes of who made it.
fn processor_name(information: &str) -> Option<String> {
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

    fn system(files: &[(&str, &str)]) -> (tempfile::TempDir, System) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("making a folder");
            fs::write(path, text).expect("writing a file");
        }
        let root = folder.path().to_owned();
        (folder, System { root })
    }

    #[test]
    fn an_x86_machine_is_read() {
        let topology = "sys/devices/system/cpu/cpu";
        let mut files = vec![
            (
                "proc/cpuinfo".to_owned(),
                "processor\t: 0\nmodel name\t: Example 9000\nflags\t\t: fpu sse\n\nprocessor\t: 1\n",
            ),
            ("sys/devices/system/cpu/online".to_owned(), "0-2,3\n"),
            (format!("{topology}0/cpufreq/scaling_cur_freq"), "2400000\n"),
            (format!("{topology}0/cpufreq/scaling_governor"), "powersave\n"),
            ("sys/devices/system/cpu/intel_pstate/no_turbo".to_owned(), "0\n"),
            ("sys/devices/system/cpu/smt/active".to_owned(), "1\n"),
            (format!("{topology}0/thermal_throttle/core_throttle_count"), "3\n"),
            (format!("{topology}1/thermal_throttle/package_throttle_count"), "2\n"),
        ];
        for index in 0..4 {
            files.push((format!("{topology}{index}/topology/physical_package_id"), "0\n"));
            let core = if index % 2 == 0 { "0\n" } else { "1\n" };
            files.push((format!("{topology}{index}/topology/core_id"), core));
        }
        let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        let (_folder, system) = system(&files);
        assert_eq!(
            system.processor(),
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
        assert_eq!(system.virtualisation(), None);
    }

    #[test]
    fn an_arm_machine_is_read() {
        let information =
            "processor\t: 0\nBogoMIPS\t: 243.75\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n";
        let (_folder, system) = system(&[("proc/cpuinfo", information)]);
        let processor = system.processor();
        assert_eq!(processor.name.as_deref(), Some("Arm implementer 0x41, part 0xd0c"));
        assert_eq!(processor.turbo, None);
    }

    #[test]
    fn a_machine_that_says_nothing_has_no_facts() {
        let (_folder, system) = system(&[]);
        let architecture = std::env::consts::ARCH.into();
        assert_eq!(system.processor(), Processor { architecture, ..Processor::default() });
        assert_eq!(system.memory(), None);
        assert_eq!(system.available_memory(), None);
        assert_eq!(system.out_of_memory_kills(), None);
        assert_eq!(system.operating_system(), None);
        assert_eq!(system.kernel(), None);
        assert_eq!(system.load_average(), None);
        assert_eq!(system.virtualisation(), None);
        assert_eq!(system.control_group(), ControlGroup::default());
        assert_eq!(system.container(), None);
        assert_eq!(system.clock_source(), None);
        assert_eq!(system.memory_nodes(), BTreeMap::new());
    }

    #[test]
    fn the_tightest_control_group_counts() {
        let (_folder, both) = system(&[
            ("proc/self/cgroup", "0::/a/b\n"),
            ("sys/fs/cgroup/a/b/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/a/cpu.max", "150000 100000\n"),
            ("sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("sys/fs/cgroup/a/b/cpuset.cpus.effective", "0-1,3\n"),
            ("sys/fs/cgroup/cpuset.mems.effective", "0\n"),
        ]);
        let group = both.control_group();
        assert_eq!(group.processor_quota, Some(Limit::At(1.5)));
        assert_eq!(group.memory_bytes, Some(Limit::NONE));
        assert_eq!(group.processors.as_deref(), Some("0-1,3"));
        assert_eq!(group.memory_nodes.as_deref(), Some("0"));

        let (_folder, first) = system(&[
            ("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/outside\n3:cpuset:/\n"),
            ("sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "-1\n"),
            ("sys/fs/cgroup/cpu/x/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/cpuset/cpuset.effective_cpus", "0-7\n"),
        ]);
        let group = first.control_group();
        assert_eq!(group.processor_quota, Some(Limit::NONE));
        assert_eq!(group.memory_bytes, Some(Limit::NONE));
        assert_eq!(group.processors.as_deref(), Some("0-7"));
    }

    #[test]
    fn containers_are_told_by_what_they_leave() {
        let kind = |files: &[(&str, &str)]| {
            let (_folder, system) = system(files);
            system
                .container()
                .map(|container| format!("{} by {}", container.kind, container.told_by))
        };
        let is = |text: &str| Some(text.to_owned());
        assert_eq!(kind(&[(".dockerenv", "")]), is("docker by /.dockerenv"));
        assert_eq!(kind(&[("run/.containerenv", "")]), is("podman by /run/.containerenv"));
        assert_eq!(
            kind(&[("run/systemd/container", "systemd-nspawn\n")]),
            is("systemd-nspawn by /run/systemd/container")
        );
        assert_eq!(
            kind(&[("proc/1/environ", "PATH=/bin\0container=lxc\0")]),
            is("lxc by /proc/1/environ")
        );
        assert_eq!(
            kind(&[("proc/1/cgroup", "0::/kubepods.slice/pod1\n")]),
            is("kubernetes by /proc/1/cgroup")
        );
        let mounts = |kind: &str| format!("proc /proc proc rw 0 0\n/dev/x / {kind} rw 0 0\n");
        let machine = ("proc/1/cgroup", "0::/init.scope\n");
        assert_eq!(
            kind(&[machine, ("proc/1/mounts", &mounts("ext4"))]),
            is("none by /proc/1/mounts")
        );
        assert_eq!(kind(&[machine, ("proc/1/mounts", &mounts("overlay"))]), None);
        assert_eq!(kind(&[machine]), None);
    }

    #[test]
    fn nodes_and_the_kernels_clock_are_told() {
        let (_folder, system) = system(&[
            ("sys/devices/system/node/node0/cpulist", "0-1\n"),
            ("sys/devices/system/node/node1/cpulist", "2,3\n"),
            ("sys/devices/system/node/possible", "0-1\n"),
            ("sys/devices/system/clocksource/clocksource0/current_clocksource", "kvm-clock\n"),
            ("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu tsc constant_tsc nonstop_tsc\n"),
        ]);
        let nodes = system.memory_nodes();
        assert_eq!(nodes["node0"], "0-1");
        assert_eq!(nodes["node1"], "2-3");
        assert_eq!(system.clock_source().as_deref(), Some("kvm-clock"));
        assert_eq!(system.processor().invariant_counter, Some(true));
    }

    #[test]
    fn memory_is_bounded_by_the_control_group() {
        let (_folder, both) = system(&[
            ("proc/meminfo", "MemTotal:       1000 kB\nMemAvailable:    800 kB\n"),
            ("proc/self/cgroup", "0::/a/b\n"),
            ("sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("sys/fs/cgroup/a/b/memory.current", "1000\n"),
            ("sys/fs/cgroup/a/b/memory.events", "low 0\noom 3\noom_kill 2\n"),
            ("sys/fs/cgroup/a/memory.max", "600000\n"),
            ("sys/fs/cgroup/a/memory.current", "200000\n"),
            ("sys/fs/cgroup/a/memory.stat", "anon 5\ninactive_file 50000\n"),
        ]);
        assert_eq!(both.memory(), Some(1_024_000));
        assert_eq!(both.available_memory(), Some(450_000));
        assert_eq!(both.out_of_memory_kills(), Some(2));

        let (_folder, first) = system(&[
            ("proc/self/cgroup", "5:cpu:/x\n4:memory:/outside\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9000\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "4000\n"),
            ("sys/fs/cgroup/memory/memory.oom_control", "oom_kill_disable 0\noom_kill 7\n"),
            ("proc/vmstat", "nr_free_pages 1\noom_kill 9\n"),
        ]);
        assert_eq!(first.available_memory(), Some(5000));
        assert_eq!(first.out_of_memory_kills(), Some(7));

        let (_folder, none) = system(&[("proc/vmstat", "nr_free_pages 1\noom_kill 9\n")]);
        assert_eq!(none.out_of_memory_kills(), Some(9));
    }

    #[test]
    fn systems_and_hypervisors_give_their_names() {
        let (_folder, system) = system(&[
            ("etc/os-release", "NAME=\"Debian\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n"),
            ("proc/sys/kernel/ostype", "Linux\n"),
            ("proc/sys/kernel/osrelease", "6.1.0-9-amd64\n"),
            ("proc/loadavg", "0.52 1.05 0.73 1/200 99\n"),
            ("sys/class/dmi/id/sys_vendor", "QEMU\n"),
            ("sys/class/dmi/id/product_name", "Standard PC (Q35 + ICH9, 2009)\n"),
        ]);
        assert_eq!(system.operating_system().as_deref(), Some("Debian GNU/Linux 12 (bookworm)"));
        assert_eq!(system.kernel().as_deref(), Some("Linux 6.1.0-9-amd64"));
        assert_eq!(system.load_average(), Some(0.52));
        assert_eq!(system.virtualisation().as_deref(), Some("QEMU"));
    }

    #[test]
    fn this_process_uses_memory() {
        let used = memory_of(std::process::id()).expect("Linux tells");
        assert!(used.kept > 100_000 && used.resident >= used.kept, "{used:?}");
        assert!(available_memory().expect("Linux tells") > 1 << 20);
    }
}
