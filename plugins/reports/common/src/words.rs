//! How the nouns of a record are written for people.

use host_record::{
    AllocatorUse, Conditions, DeviceStates, DeviceTime, OutputParity, Pace, Placement, RateSearch,
    Scheduling,
};

use crate::humanise;

/// A fact with its name.
pub(crate) type Fact = (&'static str, String);

/// How an open loop kept to its schedule.
pub(crate) fn pace(pace: &Pace) -> Vec<Fact> {
    let rate = |name, rate: Option<f64>| rate.map(|rate| (name, humanise(rate, "1/s")));
    let late = |name, time: Option<u64>| time.map(|time| (name, humanise(time as f64, "ns")));
    let lateness = pace.lateness;
    [
        rate("rate asked for", Some(pace.asked.get())),
        rate("rate offered", pace.offered_per_second),
        rate("rate achieved", pace.achieved_per_second),
        (pace.unserved > 0).then(|| ("queries never begun", pace.unserved.to_string())),
        late("generator's lateness, median", lateness.map(|late| late.median_ns)),
        late("generator's lateness, p99", lateness.map(|late| late.p99_ns)),
        late("generator's lateness, maximum", lateness.map(|late| late.maximum_ns)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The result of a search: `found: 412/s is fine, 430/s is too much; 9 measurements`.
pub(crate) fn search(search: &RateSearch) -> String {
    let fine = search.fine.map(|rate| format!("{} is fine", humanise(rate.get(), "1/s")));
    let too_much =
        search.too_much.map(|rate| format!("{} is too much", humanise(rate.get(), "1/s")));
    let rates: Vec<_> = fine.into_iter().chain(too_much).collect();
    let end = search.end.name().replace('-', " ");
    let mut written = format!("{end}: {}; {} measurements", rates.join(", "), search.probes.len());
    if search.rates.len() > 1 {
        let rates: Vec<_> = search.rates.iter().map(|rate| humanise(rate.get(), "1/s")).collect();
        written.push_str(&format!("; the processes found {}", rates.join(", ")));
    }
    written
}

/// Facts from what a case was measured under.
pub(crate) fn conditions(conditions: &Conditions) -> Vec<Fact> {
    let allocator = conditions.memory.as_ref().and_then(|memory| memory.allocator.as_ref());
    [
        conditions.scheduling.as_ref().and_then(processors),
        measured(&conditions.device_time).map(device_time),
        measured(&conditions.placement).and_then(operators),
        allocator.and_then(|found| found.as_ref().ok()).map(allocated),
        measured(&conditions.device_state).map(device_state),
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

fn device_time(times: &DeviceTime) -> Fact {
    let [device, wall] = [times.device_ns, times.wall_ns].map(|time| humanise(time, "ns"));
    ("device's time for a run", format!("{device} of {wall} by the clock"))
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

fn allocated(used: &AllocatorUse) -> Fact {
    let bytes = |bytes: u64| humanise(bytes as f64, "B");
    let mut text = format!("{}: {} in use", used.name, bytes(used.used_bytes));
    if let Some(peak) = used.peak_bytes {
        text += &format!(", {} at most", bytes(peak));
    }
    if let Some(reserved) = used.reserved_bytes {
        text += &format!(", {} held", bytes(reserved));
    }
    ("memory by the engine's allocator", text)
}

/// What the device did: means, and of what should not change the least and the most.
fn device_state(states: &DeviceStates) -> Fact {
    let mut said = Vec::new();
    if let Some(busy) = states.utilisation {
        said.push(format!("busy {:.0} % of the time", 100.0 * busy.mean));
    }
    if let Some(clock) = states.clock_hertz {
        let (least, most) = (clock.minimum / 1e6, clock.maximum / 1e6);
        said.push(match least < most {
            true => format!("clock {least:.0} to {most:.0} MHz"),
            false => format!("clock {most:.0} MHz"),
        });
    }
    if let Some(degrees) = states.temperature_celsius {
        said.push(format!("{:.0} °C at most", degrees.maximum));
    }
    if let Some(watts) = states.power_watts {
        said.push(format!("{:.0} W", watts.mean));
    }
    if let Some(slowed) = &states.slowed_by {
        let shares: Vec<String> =
            slowed.iter().map(|share| format!("{} in {}", share.by.name(), share.looks)).collect();
        said.push(match shares.is_empty() {
            true => "nothing slowed it".to_owned(),
            false => format!("slowed by {}", shares.join(", by ")),
        });
    }
    ("what the device did", format!("{} ({} looks)", said.join(", "), states.looks))
}

/// The figures of a comparison, as headings of columns.
pub const PARITY_HEADINGS: [&str; 4] =
    ["max. absolute error", "max. relative error", "cosine", "top-1 the same"];

/// The figures of how an output compared, in the order of [`PARITY_HEADINGS`]. A figure that does not
/// apply is a dash.
#[must_use]
pub fn parity_figures(output: &OutputParity) -> [String; 4] {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "—".to_owned());
    [
        or_dash(output.max_absolute_error.map(|error| format!("{error:.1e}"))),
        or_dash(output.max_relative_error.map(|error| format!("{error:.1e}"))),
        or_dash(output.cosine.map(|cosine| format!("{cosine:.6}"))),
        or_dash(output.top1.map(|share| format!("{:.1} %", 100.0 * share))),
    ]
}

#[cfg(test)]
mod tests {
    use host_record::{Gap, GapKind, MemoryUse, ProviderShare, SlowedBy, SlowedShare, Spread};

    use super::*;

    #[test]
    fn facts_are_told_in_a_few_words() {
        let share = |provider: &str, operators, time_ns| ProviderShare {
            provider: provider.to_owned(),
            operators,
            time_ns,
        };
        let spread = |minimum, mean, maximum| Some(Spread { minimum, mean, maximum });
        let slowed = |by, looks| SlowedShare { by, looks };
        let found = conditions(&Conditions {
            device_time: Some(Ok(DeviceTime {
                runs: 10,
                device_ns: 1.5e6,
                wall_ns: 1.6e6,
                plain_ns: 1.0,
            })),
            placement: Some(Ok(Placement {
                wanted: vec!["Gpu".to_owned()],
                providers: vec![share("Gpu", 120, 900), share("Cpu", 3, 100)],
                elsewhere: Vec::new(),
            })),
            memory: Some(MemoryUse {
                allocator: Some(Ok(AllocatorUse {
                    name: "Cuda".to_owned(),
                    used_bytes: 1 << 20,
                    peak_bytes: Some(3 << 20),
                    reserved_bytes: None,
                })),
                ..MemoryUse::default()
            }),
            device_state: Some(Ok(DeviceStates {
                looks: 40,
                utilisation: spread(0.5, 0.93, 1.0),
                clock_hertz: spread(1.2e9, 1.9e9, 1.98e9),
                temperature_celsius: spread(40.0, 50.0, 54.0),
                slowed_by: Some(vec![slowed(SlowedBy::Power, 3), slowed(SlowedBy::Heat, 1)]),
                ..DeviceStates::of(1000, 5, &[])
            })),
            ..Conditions::default()
        });
        let facts: Vec<_> = found.iter().map(|(name, text)| (*name, text.as_str())).collect();
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
        assert_eq!(conditions(&Conditions::default()), []);
        let gap = Gap { kind: GapKind::NotMeasured, reason: "x".to_owned() };
        let gaps = Conditions { placement: Some(Err(gap)), ..Conditions::default() };
        assert_eq!(conditions(&gaps), []);
    }

    #[test]
    fn outputs_are_compared_with_all_figures() {
        let output = |figures: [Option<f64>; 4]| OutputParity {
            name: "a".to_owned(),
            values: 40,
            beyond: 0,
            max_absolute_error: figures[0],
            max_relative_error: figures[1],
            cosine: figures[2],
            top1: figures[3],
        };
        let all = output([Some(0.00012), Some(0.0034), Some(0.9999995), Some(0.995)]);
        assert_eq!(parity_figures(&all), ["1.2e-4", "3.4e-3", "1.000000", "99.5 %"]);
        let one = output([Some(0.0), None, None, None]);
        assert_eq!(parity_figures(&one), ["0.0e0", "—", "—", "—"]);
    }
}
