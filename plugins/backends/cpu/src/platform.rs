//! Differences between operating systems and processors.

/// Returns the number of threads that this process may run at once.
pub(crate) fn threads() -> u32 {
    std::thread::available_parallelism().map_or(1, |count| count.get() as u32)
}

/// Returns the processor's full name.
pub(crate) fn processor_name() -> String {
    let name = std::fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| name_in(&text));
    name.unwrap_or_else(|| format!("{} processor", std::env::consts::ARCH))
}

/// Returns the machine's memory in bytes.
pub(crate) fn memory_bytes() -> Option<u64> {
    memory_in(&std::fs::read_to_string("/proc/meminfo").ok()?)
}

/// Returns the vector instructions that the engine may use.
pub(crate) fn instructions() -> Vec<&'static str> {
    let mut found = Vec::new();
    macro_rules! detect {
        ($detected:ident: $($name:tt),+) => {
            $(if std::arch::$detected!($name) { found.push($name); })+
        };
    }
    #[cfg(target_arch = "x86_64")]
    detect!(is_x86_feature_detected: "sse4.2", "avx2", "fma", "avx512f", "avx512vnni");
    #[cfg(target_arch = "aarch64")]
    detect!(is_aarch64_feature_detected: "neon", "dotprod", "i8mm", "sve");
    found
}

/// Returns the value of the first line `name : value`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name && !value.trim().is_empty()).then_some(value.trim())
    })
}

/// Returns the processor's name in the text of `/proc/cpuinfo`. Arm processors have no name there, but numbers for
/// designer and part.
fn name_in(text: &str) -> Option<String> {
    if let Some(name) = field(text, "model name").or_else(|| field(text, "Model")) {
        return Some(name.to_owned());
    }
    let (implementer, part) = (field(text, "CPU implementer")?, field(text, "CPU part")?);
    let name = match (implementer, part) {
        ("0x41", "0xd08") => "Arm Cortex-A72",
        ("0x41", "0xd0b") => "Arm Cortex-A76",
        ("0x41", "0xd0c") => "Arm Neoverse N1",
        ("0x41", "0xd40") => "Arm Neoverse V1",
        ("0x41", "0xd49") => "Arm Neoverse N2",
        ("0x41", "0xd4f") => "Arm Neoverse V2",
        ("0xc0", "0xac3" | "0xac4") => "Ampere-1",
        _ => return Some(format!("processor of implementer {implementer}, part {part}")),
    };
    Some(name.to_owned())
}

fn memory_in(text: &str) -> Option<u64> {
    let kibibytes: u64 = field(text, "MemTotal")?.strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_on_each_architecture() {
        let x86 = "processor\t: 0\nmodel\t\t: 1\nmodel name\t: AMD EPYC 7763 64-Core Processor\n";
        assert_eq!(name_in(x86).as_deref(), Some("AMD EPYC 7763 64-Core Processor"));
        let graviton = "CPU implementer\t: 0x41\nCPU part\t: 0xd40\n";
        assert_eq!(name_in(graviton).as_deref(), Some("Arm Neoverse V1"));
        let unknown = "CPU implementer\t: 0x99\nCPU part\t: 0x1\n";
        let name = name_in(unknown).expect("a name");
        assert_eq!(name, "processor of implementer 0x99, part 0x1");
        assert_eq!(name_in("processor : 0\n"), None);
    }

    #[test]
    fn memory_is_in_bytes() {
        assert_eq!(memory_in("MemTotal:       16384 kB\nMemFree: 1 kB\n"), Some(16_777_216));
        assert_eq!(memory_in("MemTotal: lots\n"), None);
    }
}
