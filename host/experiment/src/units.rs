//! Numbers with units, as people read them: three significant digits and the unit that fits. Rates
//! and accuracies are written as the reports write them.

/// Formats a value of a metric. Accuracies are ratios, and are written in per cent with two digits
/// after the point, because their differences matter. So are parts of peaks, with one digit.
#[must_use]
pub fn metric(name: &str, value: f64, unit: &str) -> String {
    if unit == "1" && name.starts_with("accuracy.") {
        return format!("{:.2} %", value * 100.0);
    }
    if unit == "1" && name.ends_with("-utilisation") {
        return format!("{:.1} %", value * 100.0);
    }
    quantity(value, unit)
}

/// Formats a value in `unit` (by its symbol, as metrics give it).
#[must_use]
pub fn quantity(value: f64, unit: &str) -> String {
    match unit {
        "ns" => duration(value),
        "B" => bytes(value),
        "1/s" => rate(value),
        "J" => energy(value),
        "FLOP" | "FLOP/s" | "B/s" => decimal(value, unit),
        "1" => number(value),
        other => format!("{} {other}", number(value)),
    }
}

/// Returns a bound that is given in `ns` or in `B` in the unit of a metric; `None` if it does not fit.
#[must_use]
pub fn in_unit(bound: f64, unit: &str, of_metric: &str) -> Option<f64> {
    let size = match (unit, of_metric) {
        ("ns", "ns") | ("B", "B") => 1.0,
        ("ns", "us" | "µs" | "μs") | ("B", "kB") => 1e3,
        ("ns", "ms") | ("B", "MB") => 1e6,
        ("ns", "s") | ("B", "GB") => 1e9,
        ("B", "TB") => 1e12,
        ("B", "KiB") => (1_u64 << 10) as f64,
        ("B", "MiB") => (1_u64 << 20) as f64,
        ("B", "GiB") => (1_u64 << 30) as f64,
        ("B", "TiB") => (1_u64 << 40) as f64,
        _ => return None,
    };
    Some(bound / size)
}

/// Formats a time in nanoseconds.
#[must_use]
pub fn duration(nanoseconds: f64) -> String {
    const UNITS: &[(f64, &str)] = &[(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")];
    if nanoseconds >= 120e9 {
        return long_duration(nanoseconds);
    }
    scaled(nanoseconds, UNITS, 1000.0)
}

/// Formats a time of minutes or hours.
fn long_duration(nanoseconds: f64) -> String {
    let seconds = (nanoseconds / 1e9).round();
    let (minutes, seconds) = ((seconds / 60.0).floor(), seconds % 60.0);
    if minutes < 60.0 {
        return format!("{minutes} min {seconds} s");
    }
    format!("{} h {} min", (minutes / 60.0).floor(), minutes % 60.0)
}

/// Formats a number of bytes, in binary multiples.
#[must_use]
pub fn bytes(value: f64) -> String {
    const UNITS: &[(f64, &str)] = &[
        ((1u64 << 40) as f64, "TiB"),
        ((1u64 << 30) as f64, "GiB"),
        ((1u64 << 20) as f64, "MiB"),
        ((1u64 << 10) as f64, "KiB"),
        (1.0, "B"),
    ];
    scaled(value, UNITS, 1024.0)
}

/// Formats an energy in joules.
fn energy(joules: f64) -> String {
    const UNITS: &[(f64, &str)] = &[(1.0, "J"), (1e-3, "mJ"), (1e-6, "µJ"), (1e-9, "nJ")];
    scaled(joules, UNITS, 1000.0)
}

/// Formats an amount with a decimal prefix.
fn decimal(value: f64, unit: &str) -> String {
    const PREFIXES: &[(f64, &str)] =
        &[(1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")];
    format!("{}{unit}", scaled(value, PREFIXES, 1000.0))
}

/// Formats a rate per second, without a prefix, because rates are compared with one another.
fn rate(value: f64) -> String {
    format!("{}/s", grouped(&significant(value)))
}

/// Returns a whole number with its digits in groups.
#[must_use]
pub fn whole(number: u64) -> String {
    grouped(&number.to_string())
}

/// Digits before the point in groups of three, from five on, with narrow spaces that do not break.
fn grouped(text: &str) -> String {
    let (whole, fraction) = text.split_at(text.find('.').unwrap_or(text.len()));
    let digits = whole.trim_start_matches('-').len();
    let mut grouped = String::with_capacity(text.len() + 8);
    for (character, left) in whole.chars().zip((0..=whole.len()).rev()) {
        if digits >= 5 && character != '-' && left < digits && left % 3 == 0 {
            grouped.push('\u{202f}');
        }
        grouped.push(character);
    }
    grouped + fraction
}

/// Formats a plain number.
#[must_use]
pub fn number(value: f64) -> String {
    if value != 0.0 && (value.abs() < 1e-4 || value.abs() >= 1e7) {
        return format!("{value:.2e}");
    }
    significant(value)
}

/// Formats a count with its noun.
#[must_use]
pub fn count(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

fn scaled(value: f64, units: &[(f64, &str)], step: f64) -> String {
    let Some(last) = units.len().checked_sub(1) else { return significant(value) };
    let mut index = units.iter().position(|(size, _)| value.abs() >= *size).unwrap_or(last);
    // 999.96 would be written as 1000: the next unit says it better.
    if index > 0 && (value / units[index].0).abs() >= step - 0.5 {
        index -= 1;
    }
    let (size, unit) = units[index];
    format!("{} {unit}", significant(value / size))
}

/// Formats three significant digits without an exponent; whole numbers of up to seven digits in
/// full.
fn significant(value: f64) -> String {
    let magnitude = value.abs();
    if value == value.trunc() && magnitude < 1e3 {
        return format!("{value}");
    }
    // The place of the last digit is that of the rounded value: 9.999 is 10.0.
    let rounded = format!("{magnitude:.2e}").parse().unwrap_or(magnitude);
    let decimals = match rounded {
        100.0.. => 0,
        10.0.. => 1,
        1.0.. => 2,
        0.1.. => 3,
        _ => 4,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_and_a_unit_that_fits() {
        let written = [
            duration(0.0),
            duration(37.0),
            duration(1234.0),
            duration(999_960.0),
            duration(12_345_678.0),
            duration(1.5e9),
            duration(125e9),
            duration(3.75e12),
            bytes(512.0),
            bytes(12_345_678.0),
            bytes(1024.0 * 1023.9),
            rate(12.0),
            rate(6502.0),
            rate(28_300_000.0),
            rate(-18_047.6),
            metric("accuracy.top1", 0.984_375, "1"),
            metric("startup.first-to-steady", 3.456, "1"),
            number(0.9694),
            number(1.0),
            number(1234567.0),
            number(0.000001),
            quantity(3.0, "J"),
            quantity(0.000_456, "J"),
            quantity(3.0, "W"),
            quantity(8.178e9, "FLOP"),
            quantity(77.0, "FLOP/s"),
            quantity(4.8e12, "B/s"),
        ];
        insta::assert_snapshot!(written.join("\n"), @r#"
    0 ns
    37 ns
    1.23 µs
    1.00 ms
    12.3 ms
    1.50 s
    2 min 5 s
    1 h 2 min
    512 B
    11.8 MiB
    1.00 MiB
    12/s
    6502/s
    28 300 000/s
    -18 048/s
    98.44 %
    3.46
    0.969
    1
    1234567
    1.00e-6
    3 J
    456 µJ
    3 W
    8.18 GFLOP
    77 FLOP/s
    4.80 TB/s
    "#);
    }
}
