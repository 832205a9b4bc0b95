//! What the view `cases` says of where a case ran and of how its outputs compared, in a few words.

use serde_json::Value;

/// Facts from the column `conditions`, each with its name.
pub(crate) fn facts(conditions: Option<&str>) -> Vec<(&'static str, String)> {
    let conditions: Value =
        conditions.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let measured = |name: &str| conditions[name].get("Ok").cloned();
    let mut facts = Vec::new();
    facts.extend(measured("device-time").and_then(|times| device_time(&times)));
    facts.extend(measured("placement").and_then(|placement| operators(&placement)));
    facts.extend(parity(&conditions["parity"]));
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

fn parity(parity: &Value) -> Option<(&'static str, String)> {
    let reference = parity["reference"].as_str()?;
    let outputs = parity["outputs"].as_array()?;
    let worst =
        |name: &str| outputs.iter().filter_map(|output| output[name].as_f64()).reduce(f64::max);
    let least =
        |name: &str| outputs.iter().filter_map(|output| output[name].as_f64()).reduce(f64::min);
    let mut text = format!("with {reference}");
    if let Some(error) = worst("max-absolute-error") {
        text += &format!(": off by {error:.1e} at most");
    }
    if let Some(cosine) = least("cosine") {
        text += &format!(", cosine {cosine:.6}");
    }
    if let Some(share) = least("top1") {
        text += &format!(", top-1 the same in {:.1} %", 100.0 * share);
    }
    Some(("outputs compared", text))
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
            "parity": { "reference": "cpu 0.1.0 on cpu:0 in fp32", "outputs": [
                { "max-absolute-error": 0.00012, "cosine": 0.9999995, "top1": null },
                { "max-absolute-error": 0.00002, "cosine": 0.99999, "top1": 0.995 }
            ] }
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
                    "outputs compared",
                    "with cpu 0.1.0 on cpu:0 in fp32: off by 1.2e-4 at most, cosine 0.999990, top-1 \
                     the same in 99.5 %"
                ),
            ]
        );
    }

    #[test]
    fn gaps_and_old_records_say_nothing() {
        let gap = r#"{ "placement": { "Err": { "kind": "not-measured", "reason": "x" } } }"#;
        for conditions in [None, Some(""), Some("{}"), Some(gap)] {
            assert_eq!(facts(conditions), []);
        }
    }
}
