//! Text for the nouns of a record.

use host_record::words::level;
use host_record::{
    Conditions, DeviceStates, HeldLatency, HeldRate, OutputParity, Placement, Quantity, RateCurve,
    RateSearch, Scheduling, Source, Verdict,
};
use host_statistics::{Interval, student_interval};

use crate::humanise;

/// A fact with its name.
pub(crate) type Fact = (&'static str, String);

/// Formats a value of a quantity, with its unit.
#[must_use]
pub fn quantity(quantity: &Quantity, value: f64) -> String {
    match quantity.unit {
        // A plain whole number is a count, any other number a share.
        "1" if matches!(quantity.source, Source::Whole(_)) => format!("{value:.0}"),
        "1" => format!("{:.1} %", 100.0 * value),
        "Hz" => format!("{} GHz", crate::significant(value / 1e9, 3)),
        "°C" | "W" => format!("{} {}", crate::significant(value, 3), quantity.unit),
        unit => humanise(value, unit),
    }
}

/// Returns the result of a search: `found: 412/s accepted, 430/s rejected; 9 probes`. If several processes searched,
/// their mean comes first, with its interval at this confidence, because it is the rate that tables show.
pub(crate) fn search(search: &RateSearch, confidence: f64) -> String {
    let accepted = search.accepted.map(|rate| format!("{} accepted", humanise(rate.get(), "1/s")));
    let rejected = search.rejected.map(|rate| format!("{} rejected", humanise(rate.get(), "1/s")));
    let rates: Vec<_> = accepted.into_iter().chain(rejected).collect();
    let end = search.end.name().replace('-', " ");
    let mut written = format!("{end}: {}; {} probes", rates.join(", "), search.probes.len());
    if search.rates.len() > 1 {
        let found: Vec<f64> = search.rates.iter().map(|rate| rate.get()).collect();
        let shown = |rate: f64| humanise(rate, "1/s");
        let mean = shown(found.iter().sum::<f64>() / found.len() as f64);
        let each: Vec<&[f64]> = found.chunks(1).collect();
        let interval = student_interval(&each, |rate| rate[0], confidence);
        let interval = interval.map_or_else(
            |_| String::new(),
            |Interval { low, high, .. }| {
                let level = level(confidence);
                format!(" ({level} interval of the mean: {} to {})", shown(low), shown(high))
            },
        );
        let rates: Vec<_> = found.iter().copied().map(shown).collect();
        written = format!(
            "mean of the rates that {} processes found: {mean}{interval}; each found {}; the first process: {written}",
            found.len(),
            rates.join(", ")
        );
    }
    if let Some(HeldRate { measurements, bound_ns, confidence, of, .. }) = &search.held {
        let bound = humanise(*bound_ns as f64, "ns");
        let level = level(*confidence);
        let of = match of {
            HeldLatency::Mean => "the latency",
            HeldLatency::Next => "that of the next one",
        };
        written.push_str(&format!(
            "; by {measurements} measurements {of} stays below {bound} with {level}"
        ));
    }
    if let Some(RateCurve { border, bound_by, shape, .. }) = &search.curve {
        let parts = [
            bound_by.map(|by| format!("bound by the {by}")),
            border.map(|rate| format!("the limit is reached at {}", humanise(rate.get(), "1/s"))),
            shape.map(|shape| format!("a {shape}")),
        ];
        for part in parts.into_iter().flatten() {
            written.push_str("; ");
            written.push_str(&part);
        }
    }
    written
}

/// Returns what public rules make of a result, and in what the measurement differs from them.
pub(crate) fn rules(verdict: &Verdict) -> Vec<(String, String)> {
    let Some(rules) = verdict.rules else { return Vec::new() };
    let estimate = verdict.early_stopping.and_then(|found| found.estimate_ns);
    let estimate = estimate.map(|estimate| {
        (
            format!("result by {rules}"),
            format!("{} (early stopping)", humanise(estimate as f64, "ns")),
        )
    });
    let departures: Vec<_> = verdict.departures.iter().map(|one| one.text()).collect();
    let differs =
        (!departures.is_empty()).then(|| (format!("differs from {rules}"), departures.join("; ")));
    estimate.into_iter().chain(differs).collect()
}

/// Returns the conditions of a case that are not numbers.
pub(crate) fn conditions(conditions: &Conditions) -> Vec<Fact> {
    [
        conditions.scheduling.as_ref().and_then(processors),
        measured(&conditions.placement).and_then(operators),
        measured(&conditions.device_state).and_then(slowed),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn measured<T, E>(found: &Option<Result<T, E>>) -> Option<&T> {
    found.as_ref()?.as_ref().ok()
}

fn processors(scheduling: &Scheduling) -> Option<Fact> {
    let pinned = if scheduling.pinned { "pinned" } else { "not pinned" };
    let processors = scheduling.processors.as_ref()?;
    Some(("processors", format!("{processors}, {pinned}")))
}

fn operators(placement: &Placement) -> Option<Fact> {
    let total: u64 = placement.providers.iter().map(|share| share.time_ns).sum();
    let shares: Vec<String> = placement
        .providers
        .iter()
        .map(|share| {
            let (provider, count) = (&share.provider, share.operators);
            if placement.providers.len() == 1 {
                return format!("{count} on {provider}");
            }
            let part = 100.0 * share.time_ns as f64 / total.max(1) as f64;
            format!("{count} on {provider} ({part:.1} % of the time)")
        })
        .collect();
    (!shares.is_empty()).then(|| ("where operators ran", shares.join(", ")))
}

/// Returns the causes that lowered the device's clocks, with their frequency.
fn slowed(states: &DeviceStates) -> Option<Fact> {
    let shares = states.slowed_by.as_ref()?.iter();
    let shares: Vec<String> = shares
        .map(|share| format!("{} in {} of {}", share.by.name(), share.readings, states.readings))
        .collect();
    let text = if shares.is_empty() { "nothing".to_owned() } else { shares.join(", ") };
    Some(("what slowed the device", text))
}

/// The figures of a comparison, as headings of columns.
pub const PARITY_HEADINGS: [&str; 5] =
    ["max. absolute error", "max. relative error", "cosine", "correlation", "top-1 the same"];

/// Returns the figures of an output's comparison, in the order of [`PARITY_HEADINGS`]. A figure that does not apply
/// is a dash.
#[must_use]
pub fn parity_figures(output: &OutputParity) -> [String; 5] {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "—".to_owned());
    [
        or_dash(output.max_absolute_error.map(|error| format!("{error:.1e}"))),
        or_dash(output.max_relative_error.map(|error| format!("{error:.1e}"))),
        or_dash(output.cosine.map(|cosine| format!("{cosine:.6}"))),
        or_dash(output.correlation.map(|correlation| format!("{correlation:.6}"))),
        or_dash(output.shown_top1().map(|share| format!("{:.1} %", 100.0 * share))),
    ]
}

#[cfg(test)]
mod tests {
    use host_record::{Gap, NotMeasured, ProviderShare, SlowedBy, SlowedShare};

    use super::*;

    #[test]
    fn facts_are_told_in_a_few_words() {
        let share = |provider: &str, operators, time_ns| ProviderShare {
            provider: provider.to_owned(),
            operators,
            time_ns,
        };
        let slowed = |by, readings| SlowedShare { by, readings };
        let found = conditions(&Conditions {
            placement: Some(Ok(Placement {
                requested: vec!["Gpu".to_owned()],
                providers: vec![share("Gpu", 120, 900), share("Cpu", 3, 100)],
                elsewhere: Vec::new(),
            })),
            device_state: Some(Ok(DeviceStates {
                readings: 40,
                slowed_by: Some(vec![slowed(SlowedBy::Power, 3), slowed(SlowedBy::Heat, 1)]),
                ..DeviceStates::of(1000, 5, &[])
            })),
            ..Conditions::default()
        });
        let facts: Vec<_> = found.iter().map(|(name, text)| (*name, text.as_str())).collect();
        assert_eq!(
            facts,
            [
                (
                    "where operators ran",
                    "120 on Gpu (90.0 % of the time), 3 on Cpu (10.0 % of the time)"
                ),
                ("what slowed the device", "power in 3 of 40, heat in 1 of 40"),
            ]
        );
    }

    #[test]
    fn gaps_and_old_records_say_nothing() {
        assert_eq!(conditions(&Conditions::default()), []);
        let gap: Gap = NotMeasured::ThreadPanicked.into();
        let gaps = Conditions { placement: Some(Err(gap)), ..Conditions::default() };
        assert_eq!(conditions(&gaps), []);
    }

    #[test]
    fn quantities_are_written_with_their_units() {
        let written = |id: &str, value| {
            let found = Quantity::named(id).expect("a quantity");
            quantity(found, value).replace('\u{202f}', " ")
        };
        assert_eq!(written("minor-faults", 140.0), "140");
        assert_eq!(written("device-utilisation", 0.931), "93.1 %");
        assert_eq!(written("frequency-start", 3.4e9), "3.40 GHz");
        assert_eq!(written("device-temperature", 54.0), "54.0 °C");
        assert_eq!(written("peak-memory", f64::from(3 << 20)), "3.00 MiB");
    }

    #[test]
    fn outputs_are_compared_with_all_figures() {
        let output = |figures: [Option<f64>; 5]| OutputParity {
            name: "a".to_owned(),
            values: 40,
            beyond: 0,
            far_beyond: 0,
            max_absolute_error: figures[0],
            max_relative_error: figures[1],
            scale: None,
            cosine: figures[2],
            correlation: figures[3],
            row_error: None,
            top1: figures[4],
            same_class: figures[4],
        };
        let all = output([Some(0.00012), Some(0.0034), Some(0.9999995), Some(0.98), Some(0.995)]);
        assert_eq!(parity_figures(&all), ["1.2e-4", "3.4e-3", "1.000000", "0.980000", "99.5 %"]);
        // The rows of another output are not classes.
        let map = OutputParity { same_class: None, ..all };
        assert_eq!(parity_figures(&map)[4], "—");
        let one = output([Some(0.0), None, None, None, None]);
        assert_eq!(parity_figures(&one), ["0.0e0", "—", "—", "—", "—"]);
    }
}
