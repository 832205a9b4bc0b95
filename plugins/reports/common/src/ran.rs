//! What the view `cases` says of where a case ran, in a few words, and of how its outputs compared.

use serde::Deserialize;
use serde_json::Value;

/// How the outputs of a case compared with those of the reference, before it was timed and after.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Parity {
    /// The reference in words: `cpu 0.1.0 on cpu:0 in fp32`.
    pub reference: String,
    /// What was allowed.
    pub tolerance: Tolerance,
    /// Different batches that were compared.
    pub batches: u64,
    /// Each output.
    pub outputs: Vec<OutputParity>,
}

/// How far an output may be from the reference's: |output − reference| ≤ `absolute` + `relative` ·
/// |reference|, and a cosine of at least `cosine`.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub struct Tolerance {
    /// What a value may be off by, whatever its size.
    pub absolute: f64,
    /// What it may be off by besides, as a part of the reference's value.
    pub relative: f64,
    /// The least cosine of the angle between output and reference.
    pub cosine: f64,
}

/// How one output compared, over all batches. What is infinite, not a number or not defined is `None`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct OutputParity {
    /// The output's name.
    pub name: String,
    /// Greatest difference.
    pub max_absolute_error: Option<f64>,
    /// Greatest difference as a part of the reference's value.
    pub max_relative_error: Option<f64>,
    /// Cosine of the angle between output and reference.
    pub cosine: Option<f64>,
    /// Share of rows whose greatest value is in the same place, 0 to 1.
    pub top1: Option<f64>,
}

impl Tolerance {
    /// In words: `1e-4 + 1e-3 of the value, cosine 0.9999`.
    #[must_use]
    pub fn written(&self) -> String {
        let Self { absolute, relative, cosine } = self;
        format!("{absolute:e} + {relative:e} of the value, cosine {cosine}")
    }
}

impl OutputParity {
    /// The figures in words, in the order of [`Self::HEADINGS`]. What there is none of is a dash.
    #[must_use]
    pub fn written(&self) -> [String; 4] {
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "—".to_owned());
        [
            or_dash(self.max_absolute_error.map(|error| format!("{error:.1e}"))),
            or_dash(self.max_relative_error.map(|error| format!("{error:.1e}"))),
            or_dash(self.cosine.map(|cosine| format!("{cosine:.6}"))),
            or_dash(self.top1.map(|share| format!("{:.1} %", 100.0 * share))),
        ]
    }

    /// What the figures are, as headings of columns.
    pub const HEADINGS: [&'static str; 4] =
        ["max. absolute error", "max. relative error", "cosine", "top-1 the same"];
}

/// How outputs compared, from the column `conditions`.
pub(crate) fn parity(conditions: Option<&str>) -> Option<Parity> {
    let mut conditions: Value = serde_json::from_str(conditions?).ok()?;
    serde_json::from_value(conditions["parity"].take()).ok()
}

/// Facts from the column `conditions`, each with its name.
pub(crate) fn facts(conditions: Option<&str>) -> Vec<(&'static str, String)> {
    let conditions: Value =
        conditions.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let measured = |name: &str| conditions[name].get("Ok").cloned();
    let mut facts = Vec::new();
    facts.extend(measured("device-time").and_then(|times| device_time(&times)));
    facts.extend(measured("placement").and_then(|placement| operators(&placement)));
    facts.extend(allocator(&conditions["memory"]["allocator"]["Ok"]));
    facts.extend(measured("device-state").and_then(|states| device_state(&states)));
    facts
}

fn device_time(times: &Value) -> Option<(&'static str, String)> {
    let time = |name: &str| Some(crate::humanise(times[name].as_f64()?, "ns"));
    let text = format!("{} of {} by the clock", time("device-ns")?, time("wall-ns")?);
    Some(("device's time for a run", text))
}

fn operators(placement: &Value) -> Option<(&'static str, String)> {
    let providers = placement["providers"].as_array()?;
    let time = |share: &Value| share["time-ns"].as_f64().unwrap_or(0.0);
    let total: f64 = providers.iter().map(time).sum();
    let shares: Vec<String> = providers
        .iter()
        .filter_map(|share| {
            let (provider, count) = (share["provider"].as_str()?, share["operators"].as_u64()?);
            Some(match providers.len() {
                1 => format!("{count} on {provider}"),
                _ => {
                    let part = if total > 0.0 { 100.0 * time(share) / total } else { 0.0 };
                    format!("{count} on {provider} ({part:.1} % of the time)")
                }
            })
        })
        .collect();
    (!shares.is_empty()).then(|| ("where operators ran", shares.join(", ")))
}

fn allocator(used: &Value) -> Option<(&'static str, String)> {
    let name = used["name"].as_str()?;
    let bytes = |key: &str| Some(crate::humanise(used[key].as_f64()?, "B"));
    let mut text = format!("{name}: {} in use", bytes("used-bytes")?);
    if let Some(peak) = bytes("peak-bytes") {
        text += &format!(", {peak} at most");
    }
    if let Some(reserved) = bytes("reserved-bytes") {
        text += &format!(", {reserved} held");
    }
    Some(("memory by the engine's allocator", text))
}

/// What the device did: means, and for what should not change the least and the most.
fn device_state(states: &Value) -> Option<(&'static str, String)> {
    let of = |name: &str, which: &str| states[name][which].as_f64();
    let mut said = Vec::new();
    if let Some(busy) = of("utilisation", "mean") {
        said.push(format!("busy {:.0} % of the time", 100.0 * busy));
    }
    let clock = of("clock-hertz", "minimum").zip(of("clock-hertz", "maximum"));
    if let Some((least, most)) = clock {
        said.push(match least < most {
            true => format!("clock {:.0} to {:.0} MHz", least / 1e6, most / 1e6),
            false => format!("clock {:.0} MHz", most / 1e6),
        });
    }
    if let Some(degrees) = of("temperature-celsius", "maximum") {
        said.push(format!("{degrees:.0} °C at most"));
    }
    if let Some(watts) = of("power-watts", "mean") {
        said.push(format!("{watts:.0} W"));
    }
    let looks = states["looks"].as_u64()?;
    if let Some(slowed) = states["slowed-by"].as_array() {
        let shares: Vec<String> = slowed
            .iter()
            .filter_map(|share| {
                let (by, times) = (share["by"].as_str()?, share["looks"].as_u64()?);
                Some(format!("{by} in {times}"))
            })
            .collect();
        said.push(match shares.is_empty() {
            true => "nothing slowed it".to_owned(),
            false => format!("slowed by {}", shares.join(", by ")),
        });
    }
    Some(("what the device did", format!("{} ({looks} looks)", said.join(", "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_told_in_a_few_words() {
        let conditions = r#"{
            "device-time": { "Ok": { "runs": 10, "device-ns": 1500000.0, "wall-ns": 1600000.0, "plain-ns": 1.0 } },
            "placement": { "Ok": { "wanted": ["Gpu"], "providers": [
                { "provider": "Gpu", "operators": 120, "time-ns": 900 },
                { "provider": "Cpu", "operators": 3, "time-ns": 100 }
            ] } },
            "memory": { "allocator": { "Ok": {
                "name": "Cuda", "used-bytes": 1048576, "peak-bytes": 3145728, "reserved-bytes": null
            } } },
            "device-state": { "Ok": {
                "looks": 40, "utilisation": { "minimum": 0.5, "mean": 0.93, "maximum": 1.0 },
                "clock-hertz": { "minimum": 1.2e9, "mean": 1.9e9, "maximum": 1.98e9 },
                "temperature-celsius": { "minimum": 40.0, "mean": 50.0, "maximum": 54.0 },
                "slowed-by": [{ "by": "power", "looks": 3 }, { "by": "heat", "looks": 1 }]
            } }
        }"#;
        let facts = facts(Some(conditions));
        let facts: Vec<_> = facts.iter().map(|(name, text)| (*name, text.as_str())).collect();
        assert_eq!(
            facts,
            [
                ("device's time for a run", "1.50\u{202f}ms of 1.60\u{202f}ms by the clock"),
                (
                    "where operators ran",
                    "120 on Gpu (90.0 % of the time), 3 on Cpu (10.0 % of the time)"
                ),
                (
                    "memory by the engine's allocator",
                    "Cuda: 1.00\u{202f}MiB in use, 3.00\u{202f}MiB at most"
                ),
                (
                    "what the device did",
                    "busy 93 % of the time, clock 1200 to 1980 MHz, 54 °C at most, slowed by power in 3, \
                     by heat in 1 (40 looks)"
                ),
            ]
        );
    }

    #[test]
    fn gaps_and_old_records_say_nothing() {
        let gap = r#"{ "placement": { "Err": { "kind": "not-measured", "reason": "x" } } }"#;
        for conditions in [None, Some(""), Some("{}"), Some(gap)] {
            assert_eq!(facts(conditions), []);
            assert_eq!(parity(conditions), None);
        }
    }

    #[test]
    fn what_outputs_were_compared_with_is_told_with_all_figures() {
        let conditions = r#"{ "parity": {
            "reference": "cpu 0.1.0 on cpu:0 in fp32", "batches": 4,
            "tolerance": { "absolute": 0.0001, "relative": 0.001, "cosine": 0.9999 },
            "outputs": [
                { "name": "a", "values": 40, "beyond": 0, "max-absolute-error": 0.00012,
                  "max-relative-error": 0.0034, "cosine": 0.9999995, "top1": 0.995 },
                { "name": "b", "values": 4, "beyond": 0, "max-absolute-error": 0.0,
                  "max-relative-error": null, "cosine": null, "top1": null }
            ]
        } }"#;
        let parity = parity(Some(conditions)).expect("a comparison");
        assert_eq!((&*parity.reference, parity.batches), ("cpu 0.1.0 on cpu:0 in fp32", 4));
        assert_eq!(parity.tolerance.written(), "1e-4 + 1e-3 of the value, cosine 0.9999");
        assert_eq!(parity.outputs[0].written(), ["1.2e-4", "3.4e-3", "1.000000", "99.5 %"]);
        assert_eq!(parity.outputs[1].written(), ["0.0e0", "—", "—", "—"]);
    }
}
