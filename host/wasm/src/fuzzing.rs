//! Access to the checks on guests' answers, for fuzzing only.

use crate::answer;
use crate::bindings::metric::tare::plugin::types::{AttributeResult, Gap, Measure, Measurement};

/// Checks an answer that is made from these bytes. An accepted answer can become a result.
pub fn answer(data: &[u8]) {
    let mut rest = data.iter().copied();
    let mut measurements = Vec::new();
    while rest.len() > 0 {
        let metric = text(&mut rest, "latency.");
        let measure = match rest.next().unwrap_or(0) % 4 {
            0 => Measure::Gap(Gap { kind: text(&mut rest, "not-"), reason: text(&mut rest, "") }),
            _ => Measure::Value(number(&mut rest)),
        };
        let interval = rest
            .next()
            .unwrap_or(0)
            .is_multiple_of(2)
            .then(|| (number(&mut rest), number(&mut rest)));
        let attributes = (0..rest.next().unwrap_or(0) % 4)
            .map(|_| AttributeResult { name: text(&mut rest, ""), value: text(&mut rest, "") })
            .collect();
        let unit = text(&mut rest, "");
        let direction = text(&mut rest, "");
        measurements.push(Measurement { metric, measure, interval, unit, direction, attributes });
    }
    if let Ok(values) = answer::measurements("latency", measurements) {
        for value in values {
            let written = serde_json::to_string(&value).expect("it can be written");
            let read = serde_json::from_str(&written);
            assert!(read.is_ok_and(|read: host_record::MetricValue| read == value), "{written}");
        }
    }
}

/// Takes a text, which begins with `start` for half of all first bytes.
fn text(rest: &mut impl Iterator<Item = u8>, start: &str) -> String {
    const WORDS: [&str; 8] = ["p50", "measured", "ns", "lower", "higher", "1", "unsupported", ""];
    let kind = rest.next().unwrap_or(0);
    let start = if kind.is_multiple_of(2) { start } else { "" };
    if kind < 200 {
        return format!("{start}{}", WORDS[usize::from(kind / 2) % WORDS.len()]);
    }
    let length = usize::from(rest.next().unwrap_or(0));
    let bytes: Vec<u8> = rest.by_ref().take(length).collect();
    format!("{start}{}", String::from_utf8_lossy(&bytes))
}

fn number(rest: &mut impl Iterator<Item = u8>) -> f64 {
    match rest.next().unwrap_or(0) {
        255 => {
            f64::from_bits(u64::from_le_bytes(std::array::from_fn(|_| rest.next().unwrap_or(0))))
        }
        small => f64::from(small),
    }
}
