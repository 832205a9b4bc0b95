//! Formatting of numbers: three significant digits, in a suitable unit.

/// Significant digits of a measured value. More would be noise in nearly every case.
const DIGITS: i32 = 3;

/// A non-breaking narrow space, between groups of three digits and before a unit.
const THIN: char = '\u{202f}';

/// Returns the quantity of a unit's symbol, and the number of smallest units in it.
fn known(unit: &str) -> Option<(Family, f64)> {
    Some(match unit {
        "ns" => (Family::Time, 1.0),
        "us" | "µs" => (Family::Time, 1e3),
        "ms" => (Family::Time, 1e6),
        "s" => (Family::Time, 1e9),
        "B" => (Family::Bytes, 1.0),
        "KiB" => (Family::Bytes, 1024.0),
        "MiB" => (Family::Bytes, 1024.0 * 1024.0),
        "GiB" => (Family::Bytes, 1024.0 * 1024.0 * 1024.0),
        "1/s" => (Family::Rate, 1.0),
        "nJ" => (Family::Energy, 1.0),
        "uJ" | "µJ" => (Family::Energy, 1e3),
        "mJ" => (Family::Energy, 1e6),
        "J" => (Family::Energy, 1e9),
        "FLOP" => (Family::Operations, 1.0),
        "FLOP/s" => (Family::OperationRate, 1.0),
        "B/s" => (Family::Bandwidth, 1.0),
        "Hz" => (Family::Frequency, 1.0),
        _ => return None,
    })
}

/// Parses a user's number, such as `5ms` or `95%`, in a metric's unit. A bare number is in that unit already.
///
/// # Errors
///
/// If a part cannot be read, or the units measure different quantities.
pub fn parse_quantity(text: &str, unit: &str) -> Result<f64, String> {
    let text = text.trim();
    let is_number = |character: char| character.is_ascii_digit() || "+-.eE_".contains(character);
    // The longest start that is a number; `e` can begin an exponent as well as a unit.
    let end = (0..=text.len())
        .rev()
        .filter(|end| text.is_char_boundary(*end) && text[..*end].chars().all(is_number))
        .find(|end| text[..*end].replace('_', "").parse::<f64>().is_ok())
        .ok_or_else(|| format!("`{text}` does not begin with a number; write one such as `5ms`"))?;
    let number: f64 = text[..end].replace('_', "").parse().map_err(|_| format!("`{text}`"))?;
    let suffix = text[end..].trim_start();
    let (written, wanted) = match suffix {
        "" => return Ok(number),
        "%" if unit == "1" => return Ok(number / 100.0),
        "%" if unit == "%" => return Ok(number),
        "/s" => (known("1/s"), known(unit)),
        "μs" => (known("µs"), known(unit)),
        "μJ" => (known("µJ"), known(unit)),
        suffix => (known(suffix), known(unit)),
    };
    match (written, wanted) {
        (Some((family, size)), Some((same, unit_size))) if family == same => {
            Ok(number * size / unit_size)
        }
        (Some(_), _) => Err(format!("`{text}` does not fit a value in `{unit}`")),
        (None, _) => Err(format!(
            "`{suffix}` is no unit known here; there are ns, us, ms, s, B, KiB, MiB, GiB, nJ, uJ, mJ, J, \
             1/s and %"
        )),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Time,
    Bytes,
    Rate,
    Energy,
    Operations,
    OperationRate,
    Bandwidth,
    Frequency,
}

impl Family {
    fn steps(self) -> &'static [(f64, &'static str)] {
        match self {
            Self::Time => &[(1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s")],
            Self::Bytes => &[
                (1.0, "B"),
                (1024.0, "KiB"),
                (1024.0 * 1024.0, "MiB"),
                (1024.0 * 1024.0 * 1024.0, "GiB"),
                (1024.0 * 1024.0 * 1024.0 * 1024.0, "TiB"),
            ],
            Self::Rate => &[(1.0, "/s")],
            Self::Operations => &[
                (1.0, "FLOP"),
                (1e3, "kFLOP"),
                (1e6, "MFLOP"),
                (1e9, "GFLOP"),
                (1e12, "TFLOP"),
                (1e15, "PFLOP"),
            ],
            Self::OperationRate => &[
                (1.0, "FLOP/s"),
                (1e3, "kFLOP/s"),
                (1e6, "MFLOP/s"),
                (1e9, "GFLOP/s"),
                (1e12, "TFLOP/s"),
                (1e15, "PFLOP/s"),
            ],
            Self::Bandwidth => {
                &[(1.0, "B/s"), (1e3, "kB/s"), (1e6, "MB/s"), (1e9, "GB/s"), (1e12, "TB/s")]
            }
            Self::Frequency => &[(1.0, "Hz"), (1e3, "kHz"), (1e6, "MHz"), (1e9, "GHz")],
            Self::Energy => &[(1.0, "nJ"), (1e3, "µJ"), (1e6, "mJ"), (1e9, "J")],
        }
    }
}

/// A unit for values, so that compared values have the same one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale<'a> {
    divisor: f64,
    symbol: &'a str,
}

impl<'a> Scale<'a> {
    /// Returns the scale for one value of a unit: the largest step that leaves at least one before
    /// the point. An unknown unit is used unchanged.
    #[must_use]
    pub fn for_value(unit: &'a str, value: f64) -> Self {
        let Some((family, size)) = known(unit) else {
            return Self { divisor: 1.0, symbol: if unit == "1" { "" } else { unit } };
        };
        let base = value.abs() * size;
        let steps = family.steps();
        // A value that rounds up to the next unit is written in the next unit.
        let step = steps.iter().rev().find(|(step, _)| base * 1.0005 >= *step);
        let (step, symbol) = step.unwrap_or(&steps[0]);
        Self { divisor: step / size, symbol }
    }

    /// Returns the scale for values that are compared with each other: the one that suits their
    /// median.
    #[must_use]
    pub fn for_values(unit: &'a str, values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> =
            values.into_iter().filter(|value| value.is_finite()).map(f64::abs).collect();
        values.sort_by(f64::total_cmp);
        Self::for_value(unit, values.get(values.len() / 2).copied().unwrap_or(0.0))
    }

    /// Returns the unit's symbol; empty for a plain number.
    #[must_use]
    pub fn symbol(&self) -> &'a str {
        self.symbol
    }

    /// Returns a value in this scale, as a bare number.
    #[must_use]
    pub fn apply(&self, value: f64) -> f64 {
        value / self.divisor
    }

    /// Returns a value in this scale, without its unit.
    #[must_use]
    pub fn number(&self, value: f64) -> String {
        significant(self.apply(value), DIGITS)
    }

    /// Returns a value in this scale, with its unit.
    #[must_use]
    pub fn with_unit(&self, value: f64) -> String {
        let number = self.number(value);
        match self.symbol {
            "" => number,
            per if per.starts_with('/') => format!("{number}{per}"),
            symbol => format!("{number}{THIN}{symbol}"),
        }
    }
}

/// Returns a value with its unit, in a suitable scale: `45.2 µs`.
#[must_use]
pub fn humanise(value: f64, unit: &str) -> String {
    Scale::for_value(unit, value).with_unit(value)
}

/// Returns a value of a metric with its unit. Accuracies are ratios, and are written as percentages
/// with two digits after the point, because their differences matter. So are parts of peaks, with one digit.
#[must_use]
pub fn humanise_metric(metric: &str, value: f64, unit: &str) -> String {
    if unit == "1" && (metric.starts_with("accuracy.") || metric.ends_with("accuracy")) {
        return format!("{}{THIN}%", fixed(value * 100.0, 2));
    }
    if unit == "1" && metric.ends_with("-utilisation") {
        return format!("{}{THIN}%", fixed(value * 100.0, 1));
    }
    humanise(value, unit)
}

/// Returns the interval around a value of a metric, in the value's unit, written once: `113 to 119 µs`.
#[must_use]
pub fn humanise_interval(metric: &str, value: f64, (low, high): (f64, f64), unit: &str) -> String {
    let percent = format!("{THIN}%");
    let written = humanise_metric(metric, low, unit);
    if let Some(low) = written.strip_suffix(&percent) {
        return format!("{low} to {}", humanise_metric(metric, high, unit));
    }
    let scale = Scale::for_value(unit, value);
    format!("{} to {}", scale.number(low), scale.with_unit(high))
}

/// Formats a number with this many significant digits. Digits before the point are never replaced by
/// zeros, and are grouped from five on.
#[must_use]
pub fn significant(value: f64, digits: i32) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if !value.is_finite() {
        return value.to_string();
    }
    let decimals =
        |value: f64| usize::try_from(digits - 1 - value.abs().log10().floor() as i32).unwrap_or(0);
    let rounded = rounded(value, decimals(value));
    let shown = if rounded == 0.0 { value } else { rounded };
    group(&fixed(shown, decimals(shown)))
}

/// Formats a number with this many digits after the point. Halves go away from zero. The script of a page computes the
/// same product and quotient, and so writes the same digits.
fn fixed(value: f64, decimals: usize) -> String {
    format!("{:.decimals$}", rounded(value, decimals))
}

fn rounded(value: f64, decimals: usize) -> f64 {
    let power = 10_f64.powi(i32::try_from(decimals).unwrap_or(i32::MAX));
    let rounded = (value * power).round() / power;
    // Without the sign of a zero.
    if rounded.is_finite() { rounded + 0.0 } else { value }
}

fn group(text: &str) -> String {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let sign = if whole.starts_with('-') { 1 } else { 0 };
    let digits = whole.len() - sign;
    let mut grouped = String::with_capacity(text.len() + 8);
    for (position, character) in whole.chars().enumerate() {
        let left = whole.len() - position;
        if digits >= 5 && position > sign && left % 3 == 0 {
            grouped.push(THIN);
        }
        grouped.push(character);
    }
    if !fraction.is_empty() {
        grouped.push('.');
        grouped.push_str(fraction);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_are_written_as_a_person_would() {
        let written: Vec<_> = [
            (0.0, "ns"),
            (7.0, "ns"),
            (999.6, "ns"),
            (45_234.0, "ns"),
            (12_345_678.0, "ns"),
            (3.2e9, "ns"),
            (4.5e12, "ns"),
            (0.5, "s"),
            (512.0, "B"),
            (1023.9, "B"),
            (7.0 * 1024.0 * 1024.0, "B"),
            (123.456, "1/s"),
            (152_340.4, "1/s"),
            (0.971, "1"),
            (1234.0, "1"),
            (2.5, "J"),
            (0.000_456, "J"),
            (5263.9, "J"),
            (12.345, "%"),
            (f64::NAN, "ns"),
            (-45_234.0, "ns"),
        ]
        .iter()
        .map(|(value, unit)| humanise(*value, unit).replace(THIN, " "))
        .collect();
        insta::assert_snapshot!(written.join("; "), @"0 ns; 7.00 ns; 1.00 µs; 45.2 µs; 12.3 ms; 3.20 s; 4500 s; 500 ms; 512 B; 1.00 KiB; 7.00 MiB; 123/s; 152 340/s; 0.971; 1234; 2.50 J; 456 µJ; 5264 J; 12.3 %; NaN ns; -45.2 µs");
    }

    #[test]
    fn accuracies_are_percentages() {
        insta::assert_snapshot!(humanise_metric("accuracy.top1", 0.97219, "1").replace(THIN, " "), @"97.22 %");
        insta::assert_snapshot!(humanise_metric("latency.count", 0.97219, "1"), @"0.972");
        insta::assert_snapshot!(humanise_metric("accuracy", 0.96875 + 0.0125, "1").replace(THIN, " "), @"98.13 %");
        insta::assert_snapshot!(humanise_metric("accuracy", -1e-9, "1").replace(THIN, " "), @"0.00 %");
    }

    #[test]
    fn intervals_say_their_unit_once() {
        let written: Vec<_> = [
            ("latency.p50", 115_000.0, (113_000.0, 119_000.0), "ns"),
            ("latency.p50", 989_000.0, (954_000.0, 1_030_000.0), "ns"),
            ("latency.p50", 1_100_000.0, (1_000.0, 1_200_000.0), "ns"),
            ("throughput.samples", 9_500.0, (9_000.0, 10_100.0), "1/s"),
            ("accuracy.top1", 0.9766, (0.9723, 0.9805), "1"),
        ]
        .iter()
        .map(|(metric, value, interval, unit)| humanise_interval(metric, *value, *interval, unit))
        .collect();
        insta::assert_snapshot!(written.join("; ").replace(THIN, " "), @"113 to 119 µs; 954 to 1030 µs; 0.00100 to 1.20 ms; 9000 to 10 100/s; 97.23 to 98.05 %");
    }

    #[test]
    fn compared_values_share_a_unit() {
        let values = [45_234.0, 1_234_567.0, 9_870_000.0];
        let scale = Scale::for_values("ns", values);
        let written: Vec<_> = values.iter().map(|value| scale.number(*value)).collect();
        insta::assert_snapshot!(format!("{} in {}", written.join(", "), scale.symbol()), @"0.0452, 1.23, 9.87 in ms");
    }

    #[test]
    fn quantities_are_read_in_the_metrics_unit() {
        for (text, unit, expected) in [
            ("5ms", "ns", 5e6),
            ("5 ms", "ns", 5e6),
            ("2.5e-3s", "ns", 2.5e6),
            ("1_000", "ns", 1000.0),
            ("64MiB", "B", 67_108_864.0),
            ("95%", "1", 0.95),
            ("95 %", "%", 95.0),
            ("1000/s", "1/s", 1000.0),
            ("12µs", "ns", 12_000.0),
            ("40mJ", "J", 0.04),
            ("7 µJ", "J", 7e-6),
        ] {
            let read = parse_quantity(text, unit).expect("a quantity");
            assert!((read - expected).abs() < 1e-9 * expected, "{text} as {read}");
        }
        insta::assert_snapshot!(parse_quantity("5ms", "B").unwrap_err(), @"`5ms` does not fit a value in `B`");
        insta::assert_snapshot!(parse_quantity("5 parsecs", "ns").unwrap_err(), @"`parsecs` is no unit known here; there are ns, us, ms, s, B, KiB, MiB, GiB, nJ, uJ, mJ, J, 1/s and %");
        insta::assert_snapshot!(parse_quantity("fast", "ns").unwrap_err(), @"`fast` does not begin with a number; write one such as `5ms`");
    }

    proptest! {
        #[test]
        fn what_is_written_is_close_to_what_was_measured(value in 1e-6..1e15_f64) {
            let written: String =
                significant(value, 3).chars().filter(|character| *character != THIN).collect();
            let read: f64 = written.parse().expect("a number");
            prop_assert!((read - value).abs() <= value * 0.005_001, "{value} as {written}");
        }

        #[test]
        fn no_unit_is_written_with_four_digits_that_the_next_would_shorten(value in 1.0..1e11_f64) {
            let scale = Scale::for_value("ns", value);
            prop_assert!(scale.apply(value) < 1000.0 || scale.symbol() == "s");
        }
    }
}
