//! Figures in words: the one place where numbers of warnings, gaps and failures become text.
//!
//! Three significant digits, the unit that fits, a space before the unit and before `%`.

/// Formats a time in nanoseconds, such as `1.29 ms`.
#[must_use]
pub fn time(nanoseconds: f64) -> String {
    let (scale, unit) = unit_of(nanoseconds.abs());
    format!("{} {unit}", significant(nanoseconds / scale))
}

/// Formats a change of a time, such as `1.20 → 1.29 ms`, with two units if one does not fit both.
#[must_use]
pub fn time_change(from_ns: f64, to_ns: f64) -> String {
    let least = from_ns.abs().min(to_ns.abs());
    let (scale, unit) = unit_of(from_ns.abs().max(to_ns.abs()));
    if least < 0.1 * scale {
        return format!("{} → {}", time(from_ns), time(to_ns));
    }
    let digits = decimals(least / scale);
    format!("{:.digits$} → {:.digits$} {unit}", from_ns / scale, to_ns / scale)
}

/// Formats a change with its verb, such as `rose 7.5 %`.
#[must_use]
pub fn change(from: f64, to: f64) -> String {
    let verb = if to < from { "fell" } else { "rose" };
    format!("{verb} {}", percent((to - from).abs() / from))
}

/// Formats a ratio in per cent, such as `7.5 %`.
#[must_use]
pub fn percent(ratio: f64) -> String {
    let percent = 100.0 * ratio;
    let rounded = format!("{percent:.1}");
    match rounded.strip_suffix(".0") {
        Some(whole) => format!("{whole} %"),
        None if percent.abs() >= 10.0 => format!("{percent:.0} %"),
        None => format!("{rounded} %"),
    }
}

/// Formats a level of confidence in per cent with all its digits, such as `99.9 %`. Rounded to whole numbers it would be
/// a certainty.
#[must_use]
pub fn level(confidence: f64) -> String {
    // Eight decimals are what a manifest's share may have.
    format!("{} %", (confidence * 1e8).round() / 1e6)
}

/// Formats a rate per second, such as `41.5/s`.
#[must_use]
pub fn rate(per_second: f64) -> String {
    format!("{}/s", significant(per_second))
}

/// Formats operations for each second, such as `41.5 GFLOP/s`.
#[must_use]
pub fn flops(per_second: f64) -> String {
    const UNITS: [(f64, &str); 5] = [(1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    let unit = UNITS.iter().find(|(size, _)| per_second >= 0.9995 * size);
    let (size, prefix) = unit.unwrap_or(&(1.0, ""));
    format!("{} {prefix}FLOP/s", significant(per_second / size))
}

/// Formats a number of bytes in binary multiples, such as `1.50 GiB`.
#[must_use]
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{} {}", significant(value), UNITS[unit]) }
}

/// Formats a share of a distribution as a percentile, such as `p99.9`.
#[must_use]
pub fn percentile(share: f64) -> String {
    // Eight decimals are what a manifest's share may have.
    format!("p{}", (share * 1e8).round() / 1e6)
}

/// Formats a count with its noun, such as `1 query` or `12 queries`.
#[must_use]
pub fn count(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// Joins items with commas, and with a word before the last.
#[must_use]
pub fn list(items: &[String], word: &str) -> String {
    match items {
        [] => String::new(),
        [item] => item.clone(),
        [items @ .., last] => format!("{} {word} {last}", items.join(", ")),
    }
}

/// Formats a number of queries, with a decimal if it is small.
#[must_use]
pub fn about(queries: f64) -> String {
    let rounded = format!("{queries:.1}");
    match rounded.strip_suffix(".0") {
        None if queries < 10.0 => rounded,
        _ => format!("{queries:.0}"),
    }
}

fn unit_of(nanoseconds: f64) -> (f64, &'static str) {
    match nanoseconds {
        ns if ns < 999.5 => (1.0, "ns"),
        ns if ns < 999.5e3 => (1e3, "µs"),
        ns if ns < 999.5e6 => (1e6, "ms"),
        ns if ns < 600e9 => (1e9, "s"),
        _ => (60e9, "min"),
    }
}

/// Formats three significant digits; whole numbers below a thousand stay whole.
fn significant(value: f64) -> String {
    if value == value.trunc() && value.abs() < 1e3 {
        return format!("{value}");
    }
    let digits = decimals(value.abs());
    format!("{value:.digits$}")
}

/// Decimals that make three significant digits of a number.
fn decimals(magnitude: f64) -> usize {
    match magnitude {
        99.95.. => 0,
        9.995.. => 1,
        0.9995.. => 2,
        0.09995.. => 3,
        _ => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits_and_a_unit() {
        let times = [0.0, 7.0, 33.4, 999.6, 24_900.0, 1_290_000.0, 5e9, 60e9, 900e9];
        assert_eq!(
            times.map(time),
            ["0 ns", "7 ns", "33.4 ns", "1.00 µs", "24.9 µs", "1.29 ms", "5 s", "60 s", "15 min"]
        );
        assert_eq!(time_change(1.2e6, 1.29e6), "1.20 → 1.29 ms");
        assert_eq!(time_change(9.5e6, 10.2e6), "9.50 → 10.20 ms");
        assert_eq!(time_change(900.0, 2e6), "900 ns → 2 ms");
        assert_eq!(change(1.2, 1.29), "rose 7.5 %");
        assert_eq!(change(2.0, 1.5), "fell 25 %");
        assert_eq!([0.07, 0.0751, 0.5, 1.5].map(percent), ["7 %", "7.5 %", "50 %", "150 %"]);
        assert_eq!([41.46, 1234.5, 2.0].map(rate), ["41.5/s", "1234/s", "2/s"]);
        assert_eq!([7.0, 999.6e9, 41.5e9].map(flops), ["7 FLOP/s", "1.00 TFLOP/s", "41.5 GFLOP/s"]);
        assert_eq!([12, 1536, 3 << 30].map(bytes), ["12 B", "1.50 KiB", "3 GiB"]);
        assert_eq!([0.99, 0.999, 0.5].map(percentile), ["p99", "p99.9", "p50"]);
        assert_eq!([5.625, 2.5, 6.02, 12.5, 100.0].map(about), ["5.6", "2.5", "6", "12", "100"]);
        assert_eq!(count(1, "query", "queries"), "1 query");
        assert_eq!(list(&["a".into(), "b".into(), "c".into()], "and"), "a, b and c");
    }
}
