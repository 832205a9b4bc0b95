/*!
Impossible values, by their unit and name.

A time, a size, a count, a rate, an energy, a power and a frequency are never negative, and an accuracy
is never above one. The unit identifies such values: the symbols below, and every rate of them, such as `1/s` or
`J/token`. Plain numbers and ratios in `1`, per cents and unknown units can have any value. So can a difference, such
as how much slower a case was than another: its attribute `difference` says what is subtracted.
*/

use std::collections::BTreeMap;

/// The attribute of a value that is a difference.
pub(crate) const DIFFERENCE: &str = "difference";

/// Symbols of amounts.
const AMOUNTS: &[&str] = &[
    "ns",
    "us",
    "µs",
    "μs",
    "ms",
    "s",
    "min",
    "h",
    "B",
    "kB",
    "MB",
    "GB",
    "TB",
    "KiB",
    "MiB",
    "GiB",
    "TiB",
    "uJ",
    "µJ",
    "μJ",
    "mJ",
    "J",
    "kJ",
    "Wh",
    "kWh",
    "mW",
    "W",
    "kW",
    "FLOP",
    "Hz",
    "kHz",
    "MHz",
    "GHz",
    "batches",
    "bytes",
    "calls",
    "cycles",
    "examples",
    "frames",
    "images",
    "instructions",
    "items",
    "queries",
    "requests",
    "samples",
    "steps",
    "tokens",
];

/// Largest error of an interval's bound by rounding.
const ROUNDING: f64 = 1e-9;

/// Returns the reason why a value is impossible, if it is.
pub(crate) fn impossible(
    metric: &str,
    value: f64,
    interval: Option<(f64, f64)>,
    unit: &str,
    attributes: &BTreeMap<String, String>,
) -> Option<String> {
    if attributes.contains_key(DIFFERENCE) {
        return None;
    }
    let (low, high) = interval.unwrap_or((value, value));
    let bounds = [(value, 0.0), (low, ROUNDING), (high, ROUNDING)];
    let outside = |least: f64, most: f64| {
        let mut bounds = bounds.into_iter();
        bounds.find(|(it, slack)| *it < least - slack || *it > most + slack).map(|(it, _)| it)
    };
    if is_amount(unit)
        && let Some(value) = outside(0.0, f64::INFINITY)
    {
        return Some(format!(
            "{value} {unit} is impossible: an amount in `{unit}` is not negative; a difference has \
             the attribute `{DIFFERENCE}`"
        ));
    }
    let most = match unit {
        "1" => 1.0,
        "%" => 100.0,
        _ => return None,
    };
    if is_accuracy(metric)
        && let Some(value) = outside(0.0, most)
    {
        return Some(format!(
            "{value} is impossible: an accuracy in `{unit}` lies between 0 and {most}; a difference \
             has the attribute `{DIFFERENCE}`"
        ));
    }
    None
}

/// Returns whether a unit belongs to an amount, or to a rate of amounts.
fn is_amount(unit: &str) -> bool {
    match unit.split_once('/') {
        Some((amount, _)) => amount == "1" || AMOUNTS.contains(&amount),
        None => AMOUNTS.contains(&unit),
    }
}

/// Returns whether a metric is an accuracy: `accuracy.top5`, or a name that ends in `accuracy`.
fn is_accuracy(metric: &str) -> bool {
    let last = metric.rsplit(['.', '-']).next().unwrap_or(metric);
    let is_top = last.strip_prefix("top").is_some_and(|count| {
        !count.is_empty() && count.bytes().all(|digit| digit.is_ascii_digit())
    });
    last == "accuracy" || metric.starts_with("accuracy.") && is_top
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(metric: &str, value: f64, interval: Option<(f64, f64)>, unit: &str) -> Option<String> {
        impossible(metric, value, interval, unit, &BTreeMap::new())
    }

    #[test]
    fn amounts_are_not_negative() {
        for unit in
            ["ns", "s", "B", "MiB", "J", "W", "Hz", "1/s", "tokens/s", "B/s", "FLOP/s", "J/token"]
        {
            assert!(fault("a.b", -1.0, None, unit).is_some(), "{unit}");
            assert!(fault("a.b", 1.0, Some((-0.5, 2.0)), unit).is_some(), "{unit}");
            assert_eq!(fault("a.b", 0.0, Some((0.0, 2.0)), unit), None, "{unit}");
        }
        // Values that may be negative, and unknown units.
        for unit in ["1", "%", "%/s", "°C", "dB", "points"] {
            assert_eq!(fault("a.b", -1.0, Some((-2.0, 0.0)), unit), None, "{unit}");
        }
        let difference = [(DIFFERENCE.to_owned(), "batch 8 less batch 1".to_owned())].into();
        assert_eq!(impossible("a.b", -1.0, None, "ns", &difference), None);
        insta::assert_snapshot!(
            fault("latency.p50", -1.0, None, "ns").expect("a fault"),
            @"-1 ns is impossible: an amount in `ns` is not negative; a difference has the attribute `difference`"
        );
    }

    #[test]
    fn an_accuracy_is_at_most_one() {
        for (metric, value, unit) in [
            ("accuracy.top1", 1.5, "1"),
            ("accuracy.top5", -0.1, "1"),
            ("mine.word-accuracy", 100.5, "%"),
            ("mine.accuracy", 2.0, "1"),
        ] {
            assert!(fault(metric, value, None, unit).is_some(), "{metric}");
        }
        for (metric, value, unit) in [
            ("accuracy.top1", 1.0, "1"),
            ("accuracy.loss", 7.0, "1"),
            ("mine.word-accuracy", 99.5, "%"),
            ("mine.top1", 2.0, "1"),
            ("mine.accuracy", 12.0, "correct"),
        ] {
            assert_eq!(fault(metric, value, None, unit), None, "{metric}");
        }
        // An interval moved by rounding.
        assert_eq!(fault("accuracy.top1", 1.0, Some((0.9, 1.0 + 1e-16)), "1"), None);
        insta::assert_snapshot!(
            fault("accuracy.top1", 0.5, Some((0.2, 1.2)), "1").expect("a fault"),
            @"1.2 is impossible: an accuracy in `1` lies between 0 and 1; a difference has the attribute `difference`"
        );
    }
}
