//! Which operators ran where, from a profile that the backend makes after measuring.

use std::time::{Duration, Instant};

use host_record::{
    Doubt, Failure, Fallback, Gap, NotMeasured, Placement, PlacementRule, ProfiledOperator,
};
use plugin_api::client::{self, Error, Model, Session, TensorData};

use crate::backend::tensors;
use crate::surroundings::{not_offered, refused};

/// Limit of names in bytes; longer ones are not more useful.
const LONGEST_NAME: usize = 200;

/// Limits on the profiles that are made: one run alone may have been disturbed.
const MOST_PROFILES: usize = 5;
const LONGEST: Duration = Duration::from_secs(1);

/// Profiles runs, and returns the one whose operators take the median time together. Making a profile may prepare the
/// model again, so it is skipped if that took so long that the case might run into its time-out, unless placement must be
/// checked.
///
/// # Errors
///
/// A gap with the backend's error: earlier measurements stay valid.
pub(crate) fn operators(
    model: &Model,
    session: &Session,
    batch: &[TensorData],
) -> Result<Vec<ProfiledOperator>, Gap> {
    let refused = |error: Error| refused(&error);
    let mut call = session.call(tensors(model, batch).map_err(refused)?).map_err(refused)?;
    let begun = Instant::now();
    let mut profiles = Vec::new();
    while profiles.len() < MOST_PROFILES && (profiles.is_empty() || begun.elapsed() < LONGEST) {
        let profile = call.profile().ok_or_else(|| not_offered(plugin_api::abi::PROFILE))?;
        profiles.push(profile.map_err(refused)?);
    }
    Ok(middle(profiles)
        .into_iter()
        .map(|operator| ProfiledOperator {
            name: cut(operator.name),
            kind: cut(operator.kind),
            provider: cut(operator.provider),
            start_ns: operator.start_ns,
            duration_ns: operator.duration_ns,
        })
        .collect())
}

/// Returns the profile whose operators take the median time together, the shorter of two.
fn middle(mut profiles: Vec<Vec<client::ProfiledOperator>>) -> Vec<client::ProfiledOperator> {
    profiles.sort_by_key(|operators| {
        operators.iter().map(|operator| u128::from(operator.duration_ns)).sum::<u128>()
    });
    let at = profiles.len().saturating_sub(1) / 2;
    profiles.into_iter().nth(at).unwrap_or_default()
}

fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(LONGEST_NAME));
    text
}

/// Returns why no profile is made of a model that takes so long to prepare.
pub(crate) fn takes_too_long(prepare_ns: u64, timeout_ns: u64) -> Option<Gap> {
    (prepare_ns > timeout_ns / 4)
        .then(|| NotMeasured::PrepareTooLong { prepare_ns, timeout_ns }.into())
}

/// Returns the providers that a session says it uses: one, or several joined by commas.
pub(crate) fn requested_providers(provider: Option<&String>) -> Vec<String> {
    let names = provider.into_iter().flat_map(|names| names.split(','));
    names.map(|name| cut(name.trim().to_owned())).filter(|name| !name.is_empty()).collect()
}

/// Judges the placement of operators: a failure if placement is strict, otherwise a doubt.
///
/// # Errors
///
/// Returns [`Failure::Misplaced`] if operators fell back, or if placement is unknown.
pub(crate) fn judge(rule: PlacementRule, placement: &Placement) -> Result<Option<Doubt>, Failure> {
    match (rule, fallback(placement)) {
        (PlacementRule::Strict, Some(fallback)) => {
            Err(Failure::Misplaced { fallback: Some(fallback) })
        }
        (PlacementRule::Strict, None) if placement.requested.is_empty() => {
            Err(Failure::Misplaced { fallback: None })
        }
        (PlacementRule::Any, Some(fallback)) => Ok(Some(Doubt::FellBack { fallback })),
        (_, None) => Ok(None),
    }
}

fn fallback(placement: &Placement) -> Option<Fallback> {
    let elsewhere: Vec<_> = placement.not_wanted().cloned().collect();
    (!elsewhere.is_empty()).then(|| Fallback {
        requested: placement.requested.clone(),
        operators: placement.providers.iter().map(|share| share.operators).sum(),
        time_ns: placement.providers.iter().map(|share| share.time_ns).sum(),
        elsewhere,
        names: placement.elsewhere.clone(),
    })
}

#[cfg(test)]
mod tests {
    use host_record::ProviderShare;

    use super::*;

    fn placement(wanted: &str, providers: &[&str]) -> Placement {
        let operator = |(index, provider): (usize, &&str)| ProfiledOperator {
            name: format!("node{index}"),
            kind: "Conv".into(),
            provider: (*provider).to_owned(),
            start_ns: 0,
            duration_ns: 10,
        };
        let operators: Vec<_> = providers.iter().enumerate().map(operator).collect();
        Placement::of(super::requested_providers(Some(&wanted.to_owned())), &operators)
    }

    #[test]
    fn operators_that_fell_back_are_reported() {
        let mixed = placement("Gpu", &["Gpu", "Cpu", "Gpu", "Cpu"]);
        let elsewhere = vec![ProviderShare { provider: "Cpu".into(), operators: 2, time_ns: 20 }];
        let fallback = Fallback {
            requested: vec!["Gpu".into()],
            operators: 4,
            time_ns: 40,
            elsewhere,
            names: vec!["node1".into(), "node3".into()],
        };
        let doubt = Doubt::FellBack { fallback: fallback.clone() };
        assert_eq!(judge(PlacementRule::Any, &mixed), Ok(Some(doubt)));
        let failure = judge(PlacementRule::Strict, &mixed).expect_err("strict");
        assert_eq!(failure, Failure::Misplaced { fallback: Some(fallback) });
    }

    #[test]
    fn where_all_ran_on_the_device_nothing_is_reported() {
        for rule in [PlacementRule::Any, PlacementRule::Strict] {
            assert_eq!(judge(rule, &placement("Gpu", &["Gpu"])), Ok(None));
            // Two providers of one device.
            assert_eq!(judge(rule, &placement("Trt, Gpu", &["Gpu", "Trt"])), Ok(None));
        }
        let unsaid = placement("", &["Gpu", "Cpu"]);
        assert_eq!(judge(PlacementRule::Any, &unsaid), Ok(None));
        judge(PlacementRule::Strict, &unsaid).expect_err("nothing can be told");
    }

    #[test]
    fn the_profile_of_the_median_is_kept() {
        let profile = |durations: &[u64]| -> Vec<client::ProfiledOperator> {
            let operator = |duration_ns: &u64| client::ProfiledOperator {
                name: "n".into(),
                kind: String::new(),
                provider: String::new(),
                start_ns: 0,
                duration_ns: *duration_ns,
            };
            durations.iter().map(operator).collect()
        };
        let times = |found: Vec<client::ProfiledOperator>| -> Vec<u64> {
            found.iter().map(|operator| operator.duration_ns).collect()
        };
        assert_eq!(times(middle(vec![profile(&[9, 9]), profile(&[1]), profile(&[2, 3])])), [2, 3]);
        assert_eq!(times(middle(vec![profile(&[9, 9]), profile(&[1])])), [1]);
        assert_eq!(times(middle(Vec::new())), [0; 0]);
    }

    #[test]
    fn names_are_cut() {
        assert_eq!(cut("é".repeat(150)).len(), 200);
        assert_eq!(cut("short".into()), "short");
    }
}
