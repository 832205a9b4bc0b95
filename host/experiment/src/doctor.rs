/*!
What on a machine will disturb a measurement, and what to do about it.

Each [`Check`] states what was seen before it says what that means. What the machine does not tell
is [`CheckStatus::Unknown`], with the reason; silence is never taken for good news.
*/

use std::path::{Path, PathBuf};

use host_machine::{Machine, Power, ThermalPressure};
use host_record::Limit;
use host_registry::{NativePlugin, Registry, Trust};
use host_runtime::RuntimeStatus;
use host_wasm::Seen;
use serde::Serialize;

use crate::advice::advice;
use crate::guests::sandbox;
use crate::runtimes::install_command;
use crate::settings::Settings;
use crate::{platform, units};

/// Result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CheckStatus {
    /// Nothing to do.
    Ok,
    /// Measurements will be disturbed; something can be done.
    Advice,
    /// The machine does not say.
    Unknown,
    /// The tool itself cannot work like this.
    Broken,
}

impl CheckStatus {
    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Advice => "advice",
            Self::Unknown => "cannot tell",
            Self::Broken => "broken",
        }
    }
}

/// A check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Check {
    /// The group that it is shown in.
    pub topic: &'static str,
    /// Subject of the check.
    pub name: &'static str,
    /// The result.
    pub status: CheckStatus,
    /// The evidence.
    pub evidence: String,
    /// The remedy.
    pub advice: Option<String>,
}

impl Check {
    fn ok(topic: &'static str, name: &'static str, evidence: impl Into<String>) -> Self {
        Self { topic, name, status: CheckStatus::Ok, evidence: evidence.into(), advice: None }
    }

    fn unknown(topic: &'static str, name: &'static str, evidence: impl Into<String>) -> Self {
        Self { status: CheckStatus::Unknown, ..Self::ok(topic, name, evidence) }
    }

    fn advise(self, advice: impl Into<String>) -> Self {
        Self { status: CheckStatus::Advice, advice: Some(advice.into()), ..self }
    }

    fn broken(self, advice: impl Into<String>) -> Self {
        Self { status: CheckStatus::Broken, advice: Some(advice.into()), ..self }
    }
}

const PROCESSOR: &str = "processor";
const MEMORY: &str = "memory";
const SYSTEM: &str = "system";
const INSTALLATION: &str = "installation";

/// Looks at the machine and at the installation.
#[must_use]
pub fn examine(settings: &Settings) -> Vec<Check> {
    let mut checks = examine_machine(&Machine::this());
    checks.push(worker(settings));
    checks.extend(plugins(settings));
    checks.push(results(&settings.results(None)));
    checks.push(database());
    checks
}

/// Looks at everything about the machine.
fn examine_machine(machine: &Machine) -> Vec<Check> {
    let mut checks = vec![
        processors(machine),
        governor(machine),
        turbo(machine),
        multithreading(machine),
        throttling(machine),
        quota(machine),
        load(machine),
        available_memory(machine),
        swap(machine),
    ];
    checks.extend(memory_nodes(machine));
    checks.extend([clock(machine), virtualisation(machine), power(machine), energy(machine)]);
    checks
}

fn processors(machine: &Machine) -> Check {
    let allowed = machine.allowed_processors().map(|processors| processors.len() as u32);
    let (Some(count), Some(allowed)) = (machine.processor_count(), allowed) else {
        return Check::unknown(PROCESSOR, "processors", "the system does not list them");
    };
    let evidence = if allowed < count {
        format!("this process may use {allowed} of {count}")
    } else {
        units::count(count.into(), "processor", "processors")
    };
    let check = Check::ok(PROCESSOR, "processors", evidence);
    if allowed.min(count) < 2 {
        return check.advise(
            "the system and the measured model share one processor; expect a long tail, and compare \
             medians",
        );
    }
    check
}

fn governor(machine: &Machine) -> Check {
    const NAME: &str = "frequency governor";
    let governors = machine.governors();
    if governors.is_empty() {
        return Check::unknown(
            PROCESSOR,
            NAME,
            "the system shows no frequency control, as is usual in a virtual machine",
        );
    }
    let list = governors.iter().cloned().collect::<Vec<_>>().join(", ");
    let check = Check::ok(PROCESSOR, NAME, list);
    if governors.iter().all(|name| name == "performance") {
        return check;
    }
    check.advise(
        "frequencies rise only after load has come, which slows short measurements: \
         sudo cpupower frequency-set --governor performance",
    )
}

fn turbo(machine: &Machine) -> Check {
    const NAME: &str = "turbo";
    let Some(turbo) = machine.turbo() else {
        return Check::unknown(PROCESSOR, NAME, "the system shows no switch for it");
    };
    if !turbo.on {
        return Check::ok(PROCESSOR, NAME, "off");
    }
    Check::ok(PROCESSOR, NAME, "on").advise(format!(
        "frequencies depend on heat and on what other cores do; for figures that repeat, turn it \
         off: echo {} | sudo tee {}",
        turbo.off, turbo.file
    ))
}

fn multithreading(machine: &Machine) -> Check {
    const NAME: &str = "multithreading";
    match machine.multithreading() {
        None => Check::unknown(PROCESSOR, NAME, "the system does not say"),
        Some(false) => Check::ok(PROCESSOR, NAME, "one thread on each core"),
        Some(true) => Check::ok(PROCESSOR, NAME, "two or more threads share each core").advise(
            "give the backend no more threads than there are cores (`threads` in the manifest), or \
             turn sharing off: echo off | sudo tee /sys/devices/system/cpu/smt/control",
        ),
    }
}

fn throttling(machine: &Machine) -> Check {
    const NAME: &str = "throttling";
    match machine.processor().thermal_throttles {
        None => thermal_pressure(machine).unwrap_or_else(|| {
            Check::unknown(PROCESSOR, NAME, "the processor shows no counters of it")
        }),
        Some(0) => Check::ok(PROCESSOR, NAME, "never since the machine started"),
        Some(count) => Check::ok(
            PROCESSOR,
            NAME,
            format!(
                "slowed down by heat {} since the machine started",
                units::count(count, "time", "times")
            ),
        )
        .advise("see to the cooling, and look for the warnings `throttled` and `drift` in results"),
    }
}

/// Checks the thermal pressure, on systems without throttle counters.
fn thermal_pressure(machine: &Machine) -> Option<Check> {
    let pressure = machine.thermal_pressure()?;
    let evidence = match pressure {
        ThermalPressure::Nominal => "none now",
        ThermalPressure::Moderate => "moderate thermal pressure now",
        ThermalPressure::Heavy => "heavy thermal pressure now",
        ThermalPressure::Trapping => "the machine is about to shut down because of heat",
        ThermalPressure::Sleeping => "the machine goes to sleep because of heat",
    };
    let check = Check::ok(PROCESSOR, "throttling", evidence);
    Some(if pressure == ThermalPressure::Nominal {
        check
    } else {
        check.advise("wait until the machine has cooled down, and see to its cooling")
    })
}

fn quota(machine: &Machine) -> Check {
    const NAME: &str = "container quota";
    match machine.processor_quota() {
        None => Check::unknown(PROCESSOR, NAME, "no control group shows a limit"),
        Some(Limit::No(_)) => Check::ok(PROCESSOR, NAME, "none"),
        Some(Limit::At(quota)) => Check::ok(PROCESSOR, NAME, format!("{} processors' worth of time", units::number(quota)))
            .advise(
                "whoever uses it up is stopped until the next period, which shows as a long tail: \
                 pin the container to processors (--cpuset-cpus) instead of limiting its time (--cpus)",
            ),
    }
}

fn load(machine: &Machine) -> Check {
    const NAME: &str = "load";
    let Some(load) = machine.load_average() else {
        return Check::unknown(SYSTEM, NAME, "the system does not say");
    };
    let pressure = machine.pressure("cpu");
    let mut evidence = format!("{load} processes on average over one minute");
    if let Some(pressure) = pressure {
        evidence.push_str(&format!("; work waited for a processor {pressure} % of the last 10 s"));
    }
    let check = Check::ok(SYSTEM, NAME, evidence);
    if load >= 0.5 || pressure.is_some_and(|pressure| pressure >= 5.0) {
        return check.advise("end what else is running, or wait until it is done: top");
    }
    check
}

fn available_memory(machine: &Machine) -> Check {
    const NAME: &str = "available";
    let Some(memory) = machine.memory() else {
        return Check::unknown(MEMORY, NAME, "the system does not say");
    };
    let evidence = format!(
        "{} of {}",
        units::bytes(memory.available as f64),
        units::bytes(memory.total as f64)
    );
    let check = Check::ok(MEMORY, NAME, evidence);
    if memory.available < memory.total / 10 {
        return check.advise("less than a tenth is free; end what else is using it");
    }
    match machine.pressure("memory") {
        Some(pressure) if pressure >= 1.0 => check.advise(format!(
            "work waited for memory {pressure} % of the last 10 s; end what else is using it"
        )),
        _ => check,
    }
}

fn swap(machine: &Machine) -> Check {
    const NAME: &str = "swap";
    let Some(memory) = machine.memory() else {
        return Check::unknown(MEMORY, NAME, "the system does not say");
    };
    if memory.swap_total == 0 {
        return Check::ok(MEMORY, NAME, "none");
    }
    let used = memory.swap_total.saturating_sub(memory.swap_free);
    let evidence = format!(
        "{} of {} in use",
        units::bytes(used as f64),
        units::bytes(memory.swap_total as f64)
    );
    let check = Check::ok(MEMORY, NAME, evidence);
    if used > memory.total / 100 {
        return check.advise(
            "memory that was moved out slows whoever needs it next: sudo swapoff --all while measuring",
        );
    }
    check
}

fn memory_nodes(machine: &Machine) -> Option<Check> {
    let nodes = machine.memory_nodes().len();
    if nodes < 2 {
        return None;
    }
    let check = Check::ok(MEMORY, "nodes", format!("{nodes} memory nodes"));
    Some(if machine.balances_memory_nodes() == Some(true) {
        check.advise(
            "the kernel moves memory between nodes while the model runs: \
             echo 0 | sudo tee /proc/sys/kernel/numa_balancing",
        )
    } else {
        check
    })
}

fn clock(machine: &Machine) -> Check {
    const NAME: &str = "clock source";
    let Some(current) = machine.clock_source() else {
        return Check::unknown(SYSTEM, NAME, "the system does not say");
    };
    // These are read without entering the kernel.
    let fast = ["tsc", "arch_sys_counter", "kvm-clock", "hyperv_clocksource_tsc_page"];
    let check = Check::ok(SYSTEM, NAME, current.clone());
    if fast.contains(&current.as_str()) {
        return check;
    }
    let better = machine.clock_sources().into_iter().find(|name| fast.contains(&name.as_str()));
    check.advise(match better {
        Some(better) => format!(
            "each reading is a slow call into the kernel: echo {better} | sudo tee \
             /sys/devices/system/clocksource/clocksource0/current_clocksource"
        ),
        None => {
            "each reading is a slow call into the kernel, which shows where a query takes only \
                 microseconds; the kernel's log says why it does not trust a faster one: \
                 sudo dmesg | grep -i clocksource"
                .into()
        }
    })
}

fn virtualisation(machine: &Machine) -> Check {
    const NAME: &str = "virtualisation";
    let Some(hypervisor) = machine.virtualisation() else {
        return Check::unknown(SYSTEM, NAME, "neither processor nor firmware says");
    };
    let Some(name) = hypervisor else {
        return Check::ok(SYSTEM, NAME, "none");
    };
    let mut evidence = format!("a virtual machine ({name})");
    if let Some(share) = machine.stolen_share() {
        evidence.push_str(&format!(
            "; {} % of its processor time went to others since it started",
            (share * 1e4).round() / 100.0
        ));
    }
    Check::ok(SYSTEM, NAME, evidence).advise(
        "other machines share this hardware, and frequencies and heat cannot be seen; measure on \
         hardware of your own, or repeat at other times and compare",
    )
}

fn power(machine: &Machine) -> Check {
    const NAME: &str = "power";
    match machine.power() {
        None => Check::unknown(SYSTEM, NAME, "the system does not say"),
        Some(Power::NoBattery) => Check::ok(SYSTEM, NAME, "no battery"),
        Some(Power::Mains) => Check::ok(SYSTEM, NAME, "mains"),
        Some(Power::Battery) => Check::ok(SYSTEM, NAME, "battery")
            .advise("plug it in; processors run slower on battery"),
    }
}

fn energy(machine: &Machine) -> Check {
    const NAME: &str = "energy counters";
    let Ok(counters) = machine.energy_counters() else {
        return Check::unknown(
            SYSTEM,
            NAME,
            "the system shows none, as is usual in a virtual machine and on processors other than \
             Intel's and AMD's; results have no energy",
        );
    };
    let names: Vec<_> = counters.iter().map(|counter| counter.domain.as_str()).collect();
    let check = Check::ok(SYSTEM, NAME, names.join(", "));
    if counters.iter().all(|counter| machine.energy(counter).is_ok()) {
        return check;
    }
    check.advise(
        "only root may read them, so results have no energy: \
         sudo chmod a+r /sys/class/powercap/intel-rapl:*/energy_uj, until the machine starts again",
    )
}

fn worker(settings: &Settings) -> Check {
    const NAME: &str = "worker";
    let name = platform::worker_file_name();
    let path = settings.executable_folder().map(|folder| folder.join(&name));
    match path {
        Some(path) if path.is_file() => Check::ok(INSTALLATION, NAME, path.display().to_string()),
        _ => Check::ok(INSTALLATION, NAME, format!("{name} is not beside the executable"))
            .broken("install host and host-worker into the same folder"),
    }
}

fn plugins(settings: &Settings) -> Vec<Check> {
    let registry = settings.registry(&[]);
    let (backends, guests) = (registry.natives().len(), registry.guests().len());
    let evidence = format!(
        "{}, {}",
        units::count(backends as u64, "backend", "backends"),
        units::count(guests as u64, "WASM plugin", "WASM plugins")
    );
    let check = Check::ok(INSTALLATION, "plugins", evidence);
    let mut checks = vec![if backends == 0 || guests == 0 {
        check.broken(
            "put the folder `plugins` beside the executable, or name one with --plugins or \
             TARE_PLUGINS",
        )
    } else {
        check
    }];
    checks.extend(settings.search(&[]).folders.iter().map(|folder| {
        let missing = if folder.path.is_dir() { "" } else { ", which does not exist" };
        let evidence = format!("{} ({}{missing})", folder.path.display(), folder.origin);
        Check::ok(INSTALLATION, "plugin folder", evidence)
    }));
    checks.extend(registry.problems().iter().map(|problem| {
        Check::ok(INSTALLATION, "plugin", problem.to_string()).advise(problem.help())
    }));
    checks.extend(broken_guests(settings, &registry));
    checks.extend(registry.natives().iter().filter_map(|plugin| trust(plugin, &registry)));
    checks.extend(shadows(&registry));
    checks.extend(runtimes_of(settings, &registry));
    checks
}

/// Reports WASM plugins that cannot be loaded.
fn broken_guests(settings: &Settings, registry: &Registry) -> Vec<Check> {
    let check = |evidence: String| Check::ok(INSTALLATION, "plugin", evidence);
    let sandbox = match sandbox(settings) {
        Ok(sandbox) => sandbox,
        Err(error) => {
            return vec![check(error.to_string()).broken(
                "WASM plugins cannot be used on this machine: no metric is computed, and no report written",
            )];
        }
    };
    let broken = registry.guests().iter().filter_map(|file| {
        let seen = sandbox.look(&file.path).and_then(|seen| match seen {
            Seen::Known(_) => Ok(()),
            Seen::New(_) => sandbox.load(&file.path).map(drop),
        });
        let error = seen.err()?;
        let advice = advice(&error, &file.path);
        Some(check(format!("{}: {error}", file.path.display())).advise(advice))
    });
    broken.collect()
}

/// Reports a plugin that commands would refuse, because it has changed or cannot be read.
fn trust(plugin: &NativePlugin, registry: &Registry) -> Option<Check> {
    let id = &plugin.metadata.id;
    let check = |evidence: String| Check::ok(INSTALLATION, "plugin", evidence);
    match registry.trust_of(plugin) {
        Ok((Trust::Changed { .. }, _)) => Some(
            check(format!(
                "`{id}` in {} has changed since it was first used",
                plugin.folder.display()
            ))
            .advise(format!("if you rebuilt or updated it: host plugins trust {id}")),
        ),
        Ok((Trust::Installed | Trust::Recorded | Trust::New | Trust::Untrusted, _)) => None,
        Err(error) => {
            Some(check(error.to_string()).advise(error.help().unwrap_or_else(|| {
                format!("make the files in {} readable", plugin.folder.display())
            })))
        }
    }
}

/// Reports plugins that are used instead of built-in ones.
fn shadows(registry: &Registry) -> Vec<Check> {
    let natives = registry.natives().iter();
    let natives = natives.filter(|plugin| registry.shadowed_by(plugin).is_none());
    let natives = natives.filter_map(|plugin| {
        Some((&plugin.metadata.id, &plugin.folder, &registry.hidden_by(plugin)?.folder))
    });
    let guests = registry.guests().iter().filter_map(|guest| {
        Some((&guest.name, &guest.path, &registry.guest_hidden_by(guest, &guest.name)?.path))
    });
    let check = |(id, path, hidden): (&String, &PathBuf, &PathBuf)| {
        let (path, hidden) = (path.display(), hidden.display());
        Check::ok(
            INSTALLATION,
            "plugin",
            format!("`{id}` in {path} is used instead of the built-in one in {hidden}"),
        )
        .advise(format!("to use the built-in one, remove or rename {path}"))
    };
    natives.chain(guests).map(check).collect()
}

/// Checks the runtime of each plugin that needs one.
fn runtimes_of(settings: &Settings, registry: &Registry) -> Vec<Check> {
    const NAME: &str = "runtime";
    let known = match settings.runtimes(registry) {
        Ok(known) => known,
        Err(error) => {
            let check = Check::ok(INSTALLATION, NAME, error.to_string());
            return vec![
                check.advise("correct --runtime; `host runtimes list` shows who takes one"),
            ];
        }
    };
    let natives = registry.natives().iter();
    let check = |plugin: &NativePlugin| {
        let need = plugin.metadata.runtime.as_ref()?;
        let id = &plugin.metadata.id;
        let title = format!("`{}` {} of `{id}`", need.name, need.version);
        Some(match known.find(plugin) {
            Ok(Some(RuntimeStatus::Ready(ready))) => {
                let evidence = format!("`{}` of `{id}`: {}", ready.name, ready.path.display());
                Check::ok(INSTALLATION, NAME, evidence)
            }
            Ok(Some(RuntimeStatus::Missing { reason })) if need.optional => {
                let command = install_command(id);
                let evidence = format!("{title} {reason}, and is optional ({command})");
                Check::ok(INSTALLATION, NAME, evidence)
            }
            Ok(Some(RuntimeStatus::Missing { reason } | RuntimeStatus::Damaged { reason })) => {
                let check = Check::ok(INSTALLATION, NAME, format!("{title} {reason}"));
                check.advise(install_command(id))
            }
            // A backend for other machines is not this machine's fault.
            Ok(Some(RuntimeStatus::Unavailable { reason })) => {
                Check::ok(INSTALLATION, NAME, format!("{title} {reason}"))
            }
            Ok(None) => return None,
            Err(error) => {
                let check = Check::ok(INSTALLATION, NAME, error.to_string());
                check.advise(error.help().unwrap_or_else(|| install_command(id)))
            }
        })
    };
    natives.filter_map(check).collect()
}

/// Checks that results can be written, in the nearest folder that exists.
fn results(folder: &Path) -> Check {
    const NAME: &str = "results";
    let folder = std::env::current_dir().unwrap_or_default().join(folder);
    let existing = folder.ancestors().find(|path| path.is_dir()).unwrap_or(Path::new("/"));
    let evidence = folder.display().to_string();
    match tempfile::NamedTempFile::new_in(existing) {
        Ok(_) => Check::ok(INSTALLATION, NAME, evidence),
        Err(error) => Check::ok(INSTALLATION, NAME, format!("{evidence}: {error}"))
            .broken("name a folder that you may write to with --results or TARE_RESULTS"),
    }
}

fn database() -> Check {
    const NAME: &str = "DuckDB";
    match host_store::database_library_version() {
        Ok(version) => Check::ok(INSTALLATION, NAME, version),
        Err(error) => Check::ok(INSTALLATION, NAME, error.to_string())
            .broken("install libduckdb beside the executable, of the version that came with it"),
    }
}

#[cfg(test)]
mod tests {
    use host_machine::fake::Files;

    use super::*;

    /// Runs the checks on a machine made of these files.
    fn told(files: &Files) -> String {
        let line = |check: &Check| {
            let advice = check.advice.as_deref().unwrap_or("-");
            format!(
                "{} / {}: {}: {}\n    {advice}",
                check.topic,
                check.name,
                check.status.name(),
                check.evidence
            )
        };
        let checks = examine_machine(&files.machine());
        checks.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_noisy_laptop() {
        let files = Files::new(&[
            ("sys/devices/system/cpu/online", "0-2,5\n"),
            ("proc/self/status", "Name:\thost\nCpus_allowed_list:\t0-3,5\n"),
            ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n"),
            ("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "performance\n"),
            ("sys/devices/system/cpu/intel_pstate/no_turbo", "0\n"),
            ("sys/devices/system/cpu/smt/active", "1\n"),
            ("sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "3\n"),
            ("sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_count", "4\n"),
            ("proc/self/cgroup", "0::/user/tool\n"),
            ("sys/fs/cgroup/user/tool/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/user/cpu.max", "150000 100000\n"),
            ("proc/loadavg", "2.41 1.02 0.80 3/711 9999\n"),
            ("proc/pressure/cpu", "some avg10=12.50 avg60=0.00 avg300=0.00 total=1\n"),
            (
                "proc/meminfo",
                "MemTotal: 1000000 kB\nMemAvailable: 50000 kB\nSwapTotal: 800000 kB\nSwapFree: 300000 kB\n",
            ),
            ("sys/devices/system/node/node0/cpulist", "0-2\n"),
            ("sys/devices/system/node/node1/cpulist", "5\n"),
            ("proc/sys/kernel/numa_balancing", "1\n"),
            ("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n"),
            ("sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc hpet\n"),
            ("proc/cpuinfo", "processor: 0\nflags\t\t: fpu hypervisor sse\n"),
            ("sys/class/dmi/id/sys_vendor", "QEMU\n"),
            ("proc/stat", "cpu  50 0 20 20 0 0 0 10 0 0\ncpu0 1 1 1 1\n"),
            ("sys/class/power_supply/BAT0/type", "Battery\n"),
            ("sys/class/power_supply/AC/type", "Mains\n"),
            ("sys/class/power_supply/AC/online", "0\n"),
            ("sys/class/powercap/intel-rapl:0/name", "package-0\n"),
        ]);
        insta::assert_snapshot!(told(&files), @r#"
    processor / processors: ok: 4 processors
        -
    processor / frequency governor: advice: performance, powersave
        frequencies rise only after load has come, which slows short measurements: sudo cpupower frequency-set --governor performance
    processor / turbo: advice: on
        frequencies depend on heat and on what other cores do; for figures that repeat, turn it off: echo 1 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo
    processor / multithreading: advice: two or more threads share each core
        give the backend no more threads than there are cores (`threads` in the manifest), or turn sharing off: echo off | sudo tee /sys/devices/system/cpu/smt/control
    processor / throttling: advice: slowed down by heat 7 times since the machine started
        see to the cooling, and look for the warnings `throttled` and `drift` in results
    processor / container quota: advice: 1.50 processors' worth of time
        whoever uses it up is stopped until the next period, which shows as a long tail: pin the container to processors (--cpuset-cpus) instead of limiting its time (--cpus)
    system / load: advice: 2.41 processes on average over one minute; work waited for a processor 12.5 % of the last 10 s
        end what else is running, or wait until it is done: top
    memory / available: advice: 48.8 MiB of 977 MiB
        less than a tenth is free; end what else is using it
    memory / swap: advice: 488 MiB of 781 MiB in use
        memory that was moved out slows whoever needs it next: sudo swapoff --all while measuring
    memory / nodes: advice: 2 memory nodes
        the kernel moves memory between nodes while the model runs: echo 0 | sudo tee /proc/sys/kernel/numa_balancing
    system / clock source: advice: hpet
        each reading is a slow call into the kernel: echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource
    system / virtualisation: advice: a virtual machine (QEMU); 10 % of its processor time went to others since it started
        other machines share this hardware, and frequencies and heat cannot be seen; measure on hardware of your own, or repeat at other times and compare
    system / power: advice: battery
        plug it in; processors run slower on battery
    system / energy counters: advice: package-0
        only root may read them, so results have no energy: sudo chmod a+r /sys/class/powercap/intel-rapl:*/energy_uj, until the machine starts again
    "#);
    }

    #[test]
    fn a_quiet_server() {
        let files = Files::new(&[
            ("sys/devices/system/cpu/online", "0-63\n"),
            ("proc/self/status", "Cpus_allowed_list:\t0-63\n"),
            ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n"),
            ("sys/devices/system/cpu/cpufreq/boost", "0\n"),
            ("sys/devices/system/cpu/smt/active", "0\n"),
            ("sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "0\n"),
            ("proc/self/cgroup", "0::/\n"),
            ("sys/fs/cgroup/cpu.max", "max 100000\n"),
            ("proc/loadavg", "0.01 0.02 0.00 1/711 9999\n"),
            ("proc/meminfo", "MemTotal: 1000000 kB\nMemAvailable: 900000 kB\nSwapTotal: 0 kB\n"),
            ("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"),
            ("proc/cpuinfo", "flags\t\t: fpu sse\n"),
            ("sys/class/power_supply/mouse/type", "Battery\n"),
            ("sys/class/power_supply/mouse/scope", "Device\n"),
            ("sys/class/powercap/intel-rapl:0/name", "package-0\n"),
            ("sys/class/powercap/intel-rapl:0/energy_uj", "123456\n"),
            ("sys/class/powercap/intel-rapl:0:0/name", "dram\n"),
            ("sys/class/powercap/intel-rapl:0:0/energy_uj", "1234\n"),
        ]);
        let checks = examine_machine(&files.machine());
        for check in checks {
            assert_eq!(check.status, CheckStatus::Ok, "{check:?}");
        }
    }

    #[test]
    fn a_machine_that_says_nothing_is_not_called_well() {
        insta::assert_snapshot!(told(&Files::new(&[])), @r#"
    processor / processors: cannot tell: the system does not list them
        -
    processor / frequency governor: cannot tell: the system shows no frequency control, as is usual in a virtual machine
        -
    processor / turbo: cannot tell: the system shows no switch for it
        -
    processor / multithreading: cannot tell: the system does not say
        -
    processor / throttling: cannot tell: the processor shows no counters of it
        -
    processor / container quota: cannot tell: no control group shows a limit
        -
    system / load: cannot tell: the system does not say
        -
    memory / available: cannot tell: the system does not say
        -
    memory / swap: cannot tell: the system does not say
        -
    system / clock source: cannot tell: the system does not say
        -
    system / virtualisation: cannot tell: neither processor nor firmware says
        -
    system / power: cannot tell: the system does not say
        -
    system / energy counters: cannot tell: the system shows none, as is usual in a virtual machine and on processors other than Intel's and AMD's; results have no energy
        -
    "#);
    }
}
