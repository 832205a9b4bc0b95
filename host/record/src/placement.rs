//! Busy time of the device for a run, and places of operators.

use serde::{Deserialize, Serialize};

/// Runs that were made after the measured part, timed by the device's own events and by the clock.
/// Medians in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct DeviceTime {
    /// Number of runs of each kind.
    pub runs: u64,
    /// Busy time of the device for a run, by its own events.
    pub device_ns: f64,
    /// Wall-clock time of those same runs.
    pub wall_ns: f64,
    /// Wall-clock time of plain runs, made in turn with them.
    pub plain_ns: f64,
}

/// Which operators of a run ran where, from a profile that was made after the measured part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Placement {
    /// Provider of the session, or several of one device. Empty if it does not say.
    pub requested: Vec<String>,
    /// Places of operators, the longest time first.
    pub providers: Vec<ProviderShare>,
    /// Names of operators that ran elsewhere than wanted, the longest first, limited to a readable
    /// number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub elsewhere: Vec<String>,
}

/// Operators on one provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ProviderShare {
    /// The provider, such as `CUDAExecutionProvider`.
    pub provider: String,
    /// Number of operators.
    pub operators: u64,
    /// Their own time in nanoseconds, all together.
    pub time_ns: u64,
}

impl Placement {
    /// Names that are kept.
    const MOST_NAMES: usize = 20;

    /// Counts a profile.
    #[must_use]
    pub fn of(requested: Vec<String>, operators: &[ProfiledOperator]) -> Self {
        let mut providers: Vec<ProviderShare> = Vec::new();
        for operator in operators {
            let known = providers.iter().position(|share| share.provider == operator.provider);
            let share = match known {
                Some(place) => &mut providers[place],
                None => {
                    let provider = operator.provider.clone();
                    providers.push(ProviderShare { provider, operators: 0, time_ns: 0 });
                    providers.last_mut().expect("one was pushed")
                }
            };
            share.operators += 1;
            share.time_ns = share.time_ns.saturating_add(operator.duration_ns);
        }
        providers.sort_by_key(|share| std::cmp::Reverse(share.time_ns));
        let mut elsewhere: Vec<&ProfiledOperator> = match requested.is_empty() {
            true => Vec::new(),
            false => operators
                .iter()
                .filter(|operator| !requested.contains(&operator.provider))
                .collect(),
        };
        elsewhere.sort_by_key(|operator| std::cmp::Reverse(operator.duration_ns));
        let named = elsewhere.iter().take(Self::MOST_NAMES).map(|operator| operator.name.clone());
        Self { elsewhere: named.collect(), requested, providers }
    }

    /// Returns the shares of unwanted providers; none if the session does not say which are wanted.
    pub fn not_wanted(&self) -> impl Iterator<Item = &ProviderShare> {
        let names_provider = !self.requested.is_empty();
        self.providers
            .iter()
            .filter(move |share| names_provider && !self.requested.contains(&share.provider))
    }
}

/// An operator in one run: after fusion, so it may stand for several of the model's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ProfiledOperator {
    /// The node's name, as the engine calls it.
    pub name: String,
    /// Its kind, such as `Conv`; empty if unknown.
    pub kind: String,
    /// Its provider.
    pub provider: String,
    /// Start in nanoseconds since the run began.
    pub start_ns: u64,
    /// Its own time, in nanoseconds.
    pub duration_ns: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operator(name: &str, provider: &str, duration_ns: u64) -> ProfiledOperator {
        let (name, kind, provider) = (name.into(), String::new(), provider.into());
        ProfiledOperator { name, kind, provider, start_ns: 0, duration_ns }
    }

    #[test]
    fn operators_are_counted_where_they_ran() {
        let ran = [
            operator("a", "Gpu", 5),
            operator("b", "Cpu", 7),
            operator("c", "Gpu", 4),
            operator("d", "Cpu", 8),
        ];
        let placement = Placement::of(vec!["Gpu".into()], &ran);
        let share = |provider: &str, operators, time_ns| ProviderShare {
            provider: provider.into(),
            operators,
            time_ns,
        };
        assert_eq!(placement.providers, [share("Cpu", 2, 15), share("Gpu", 2, 9)]);
        assert_eq!(placement.elsewhere, ["d", "b"]);
        assert_eq!(placement.not_wanted().collect::<Vec<_>>(), [&share("Cpu", 2, 15)]);
        let both = Placement::of(vec!["Gpu".into(), "Cpu".into()], &ran);
        assert_eq!((both.not_wanted().count(), both.elsewhere.len()), (0, 0));
        // A missing statement is not guessed.
        assert_eq!(Placement::of(Vec::new(), &ran).not_wanted().count(), 0);
        let many: Vec<_> = (0..50).map(|_| operator("x", "Cpu", 1)).collect();
        assert_eq!(Placement::of(vec!["Gpu".into()], &many).elsewhere.len(), 20);
    }
}
