//! The machine of a measurement as text, without its name.

use std::fs;

/// Current facts about the machine.
pub(super) struct Machine {
    processor: String,
    processors: usize,
    kernel: String,
}

impl Machine {
    pub(super) fn here() -> Self {
        let information = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self {
            processor: named(&information, "model name").unwrap_or("an unnamed processor").into(),
            processors: std::thread::available_parallelism().map_or(1, Into::into),
            kernel: kernel.trim().into(),
        }
    }

    /// Returns one sentence, with the load before and after.
    pub(super) fn sentence(&self, before: Option<f64>, after: Option<f64>) -> String {
        let load = |load: Option<f64>| load.map_or("unknown".into(), |load| format!("{load:.1}"));
        format!(
            "Measured on {}, {} processors for this process, {} {}; load of the last minute {} before \
             and {} after.",
            self.processor,
            self.processors,
            std::env::consts::OS,
            self.kernel,
            load(before),
            load(after)
        )
    }
}

/// Returns the average number of running and waiting processes over the last minute.
pub(super) fn load() -> Option<f64> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    text.split_whitespace().next()?.parse().ok()
}

fn named<'a>(information: &'a str, name: &str) -> Option<&'a str> {
    information.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_is_named_by_the_kernel() {
        let information = "processor\t: 0\nmodel name\t: A Processor @ 2 GHz\n\nprocessor\t: 1\n";
        assert_eq!(named(information, "model name"), Some("A Processor @ 2 GHz"));
        assert_eq!(named("", "model name"), None);
    }
}
