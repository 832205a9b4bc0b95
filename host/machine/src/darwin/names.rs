//! Meaning of the kernel's named values.

use host_record::Processor;

use crate::system::ThermalPressure;

/// Values by name, as sysctl(3) returns them; tests define their own.
pub(super) trait Values {
    fn text(&self, name: &str) -> Option<String>;
    fn number(&self, name: &str) -> Option<u64>;
}

pub(super) fn processor_count(values: &impl Values) -> Option<u32> {
    u32::try_from(values.number("hw.logicalcpu")?).ok()
}

pub(super) fn processor(values: &impl Values) -> Processor {
    let count = |name| u32::try_from(values.number(name)?).ok();
    let logical = processor_count(values);
    let physical = count("hw.physicalcpu");
    let threads_per_core = logical.zip(physical).and_then(|(logical, physical)| {
        let threads = logical.checked_div(physical)?;
        (threads > 0).then_some(threads)
    });
    Processor {
        name: values.text("machdep.cpu.brand_string"),
        architecture: std::env::consts::ARCH.into(),
        logical,
        physical,
        // Apple silicon has no such value.
        frequency_hertz: values.number("hw.cpufrequency"),
        simultaneous_multithreading: threads_per_core.map(|threads| threads > 1),
        sockets: count("hw.packages"),
        threads_per_core,
        ..Processor::default()
    }
}

pub(super) fn memory(values: &impl Values) -> Option<u64> {
    values.number("hw.memsize")
}

pub(super) fn operating_system(values: &impl Values) -> Option<String> {
    Some(format!("macOS {}", values.text("kern.osproductversion")?))
}

pub(super) fn kernel(values: &impl Values) -> Option<String> {
    Some(format!("{} {}", values.text("kern.ostype")?, values.text("kern.osrelease")?))
}

pub(super) fn virtualisation(values: &impl Values) -> Option<Option<String>> {
    let is_guest = values.number("kern.hv_vmm_present")? != 0;
    let model = values.text("hw.model").unwrap_or_default();
    Some(is_guest.then(|| {
        if model.starts_with("VirtualMac") {
            "Apple's Virtualization framework".into()
        } else {
            "a hypervisor that does not give its name".into()
        }
    }))
}

/// Returns the level of a state, by `OSThermalNotification.h`.
pub(super) fn thermal_pressure(state: u64) -> Option<ThermalPressure> {
    Some(match state {
        0 => ThermalPressure::Nominal,
        1 => ThermalPressure::Moderate,
        2 => ThermalPressure::Heavy,
        3 => ThermalPressure::Trapping,
        4 => ThermalPressure::Sleeping,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Made(&'static [(&'static str, &'static str)]);

    impl Values for Made {
        fn text(&self, name: &str) -> Option<String> {
            let (_, value) = self.0.iter().find(|(known, _)| *known == name)?;
            Some((*value).to_owned())
        }

        fn number(&self, name: &str) -> Option<u64> {
            self.text(name)?.parse().ok()
        }
    }

    #[test]
    fn a_mac_is_read() {
        let values = Made(&[
            ("machdep.cpu.brand_string", "Apple M2 Pro"),
            ("hw.logicalcpu", "12"),
            ("hw.physicalcpu", "12"),
            ("hw.packages", "1"),
            ("hw.memsize", "34359738368"),
            ("hw.model", "Mac14,12"),
            ("kern.osproductversion", "15.1"),
            ("kern.ostype", "Darwin"),
            ("kern.osrelease", "24.1.0"),
            ("kern.hv_vmm_present", "0"),
        ]);
        assert_eq!(
            processor(&values),
            Processor {
                name: Some("Apple M2 Pro".into()),
                architecture: std::env::consts::ARCH.into(),
                logical: Some(12),
                physical: Some(12),
                simultaneous_multithreading: Some(false),
                sockets: Some(1),
                threads_per_core: Some(1),
                ..Processor::default()
            }
        );
        assert_eq!(memory(&values), Some(32 << 30));
        assert_eq!(operating_system(&values).as_deref(), Some("macOS 15.1"));
        assert_eq!(kernel(&values).as_deref(), Some("Darwin 24.1.0"));
        assert_eq!(virtualisation(&values), Some(None));
    }

    #[test]
    fn an_intel_mac_and_a_guest_are_read() {
        let intel = Made(&[
            ("hw.logicalcpu", "8"),
            ("hw.physicalcpu", "4"),
            ("hw.cpufrequency", "2400000000"),
        ]);
        let processor = processor(&intel);
        assert_eq!((processor.threads_per_core, processor.logical), (Some(2), Some(8)));
        assert_eq!(processor.simultaneous_multithreading, Some(true));
        assert_eq!(processor.frequency_hertz, Some(2_400_000_000));
        assert_eq!(virtualisation(&intel), None);
        let guest = Made(&[("kern.hv_vmm_present", "1"), ("hw.model", "VirtualMac2,1")]);
        let name = Some(Some("Apple's Virtualization framework".to_owned()));
        assert_eq!(virtualisation(&guest), name);
        let other = Made(&[("kern.hv_vmm_present", "1"), ("hw.model", "iMac20,1")]);
        let name = Some(Some("a hypervisor that does not give its name".to_owned()));
        assert_eq!(virtualisation(&other), name);
    }

    #[test]
    fn thermal_pressure_has_five_levels() {
        assert_eq!(thermal_pressure(0), Some(ThermalPressure::Nominal));
        assert_eq!(thermal_pressure(2), Some(ThermalPressure::Heavy));
        assert_eq!(thermal_pressure(5), None);
    }
}
