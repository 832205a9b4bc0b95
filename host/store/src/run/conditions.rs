//! Columns of what a case was measured under, and why one is missing.

use host_record::{Conditions, DomainEnergy, Gap, GapKind, column};

/// Why an energy is not known although its counters were read.
fn gap(reason: &str) -> Gap {
    Gap { kind: GapKind::NotMeasured, reason: reason.into() }
}

/// The most bytes that the engine's allocator counted on the device.
pub(super) fn allocator_peak(conditions: &Conditions) -> Result<u64, Gap> {
    let found = conditions.memory.as_ref().and_then(|memory| memory.allocator.as_ref());
    let found = found.ok_or_else(|| gap("the record predates the allocator's figures"))?;
    let found = found.as_ref().map_err(Clone::clone)?;
    found
        .peak_bytes
        .ok_or_else(|| gap(&format!("the allocator `{}` does not report its peak", found.name)))
}

/// Joules of what a column of energy is about.
pub(super) fn energy(conditions: &Conditions, name: &str) -> Result<f64, Gap> {
    let energy = conditions.energy.as_ref();
    let energy = energy.ok_or_else(|| gap("the record predates energy counting"))?;
    if name == column::DEVICE_ENERGY {
        return energy.device.as_ref().map(|one| one.joules).map_err(Clone::clone);
    }
    let domains = energy.processor.as_ref().map_err(Clone::clone)?;
    let sum = |domains: Vec<&DomainEnergy>, what: &str| match domains[..] {
        [] => Err(gap(what)),
        _ => Ok(domains.iter().map(|one| one.joules).sum()),
    };
    if name == column::PACKAGE_ENERGY {
        sum(energy.packages().collect(), "the processor has no package energy counter")
    } else {
        let memory = domains.iter().filter(|one| one.domain.ends_with("/dram")).collect();
        sum(memory, "the processor has no separate energy counter for memory")
    }
}

/// Seconds that energy was counted for: by the processor, or else by the device.
pub(super) fn energy_time(conditions: &Conditions) -> Option<f64> {
    let energy = conditions.energy.as_ref()?;
    let processor = energy.processor.as_deref().unwrap_or_default().first();
    Some(processor.or(energy.device.as_ref().ok())?.seconds)
}

/// Why columns are missing, as far as it is known: `missing.NAME`, and the reason.
pub(super) fn missing(conditions: &Conditions, names: &[impl AsRef<str>]) -> Vec<(String, String)> {
    let reason = |name: &str| {
        let gap = match name {
            column::PACKAGE_ENERGY | column::MEMORY_ENERGY | column::DEVICE_ENERGY => {
                energy(conditions, name).err()
            }
            column::DEVICE_MEMORY => {
                conditions.memory.as_ref()?.device_peak_bytes.as_ref()?.as_ref().err().cloned()
            }
            column::DEVICE_ALLOCATOR => allocator_peak(conditions).err(),
            column::COPY_IN_TIME | column::COMPUTE_TIME | column::COPY_OUT_TIME => {
                conditions.stages.as_ref()?.as_ref().err().cloned()
            }
            column::AVERAGE_MEMORY => {
                let memory = conditions.memory.as_ref()?;
                let short = "it was over before the host looked at the worker's memory, which it \
                             does ten times a second";
                (memory.average_of == 0).then(|| gap(short))
            }
            _ => None,
        };
        Some(gap?.reason)
    };
    names
        .iter()
        .map(AsRef::as_ref)
        .filter_map(|name| Some((format!("missing.{name}"), reason(name)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use host_record::Energy;

    use super::*;

    fn domain(name: &str, joules: f64) -> DomainEnergy {
        DomainEnergy { domain: name.into(), joules, seconds: 2.0 }
    }

    fn conditions(processor: Result<Vec<DomainEnergy>, Gap>) -> Conditions {
        let device = Err(gap("no extension"));
        Conditions { energy: Some(Energy { processor, device }), ..Conditions::default() }
    }

    #[test]
    fn packages_are_added_up_and_nothing_is_counted_twice() {
        let all = conditions(Ok(vec![
            domain("package-0", 10.0),
            domain("package-0/core", 4.0),
            domain("package-0/dram", 1.0),
            domain("package-1", 20.0),
            domain("package-1/dram", 2.0),
            domain("psys", 99.0),
        ]));
        assert_eq!(energy(&all, column::PACKAGE_ENERGY), Ok(30.0));
        assert_eq!(energy(&all, column::MEMORY_ENERGY), Ok(3.0));
        assert_eq!(energy_time(&all), Some(2.0));
        let names = [column::PACKAGE_ENERGY, column::DEVICE_ENERGY, column::AVERAGE_MEMORY];
        let expected = ("missing.device-energy".to_owned(), "no extension".to_owned());
        assert_eq!(missing(&all, &names), [expected]);
    }

    #[test]
    fn what_is_missing_says_why() {
        let psys = conditions(Ok(vec![domain("psys", 99.0)]));
        let gap = energy(&psys, column::PACKAGE_ENERGY).expect_err("no package");
        assert_eq!(gap.reason, "the processor has no package energy counter");
        let none = conditions(Err(gap.clone()));
        assert_eq!(energy(&none, column::MEMORY_ENERGY), Err(gap));
        assert_eq!(energy_time(&none), None);
        let old = energy(&Conditions::default(), column::DEVICE_ENERGY).expect_err("an old record");
        assert_eq!(old.reason, "the record predates energy counting");
    }
}
