//! Which operators ran where, from a profile that the backend makes after measuring.

use host_record::{
    Failure, Gap, GapKind, Placement, PlacementRule, ProfiledOperator, Warning, WarningKind,
};
use plugin_api::client::{Error, Model, Session, TensorData};

use crate::backend::tensors;
use crate::surroundings::{not_offered, refused};

/// Names are cut to this many bytes; what is behind it tells nobody anything.
const LONGEST_NAME: usize = 200;

/// Profiles one run. Making a profile may prepare the model again, so it is left out where that took so
/// long that the case might run into its time-out, unless placement has to be checked.
///
/// # Errors
///
/// A gap with what the backend said: what was measured before stays true.
pub(crate) fn operators(
    model: &Model,
    session: &Session,
    batch: &[TensorData],
) -> Result<Vec<ProfiledOperator>, Gap> {
    let refused = |error: Error| refused(&error);
    let mut call = session.call(tensors(model, batch).map_err(refused)?).map_err(refused)?;
    let profile = call.profile().ok_or_else(|| not_offered(plugin_api::abi::PROFILE))?;
    Ok(profile
        .map_err(refused)?
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

fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(LONGEST_NAME));
    text
}

/// Why no profile is made of a model that takes so long to prepare.
pub(crate) fn takes_too_long(prepare_ns: u64, timeout_ns: u64) -> Option<Gap> {
    (prepare_ns > timeout_ns / 4).then(|| Gap {
        kind: GapKind::NotMeasured,
        reason: format!(
            "preparing the model took {:.1} s, and a profile may prepare it again; a `timeout` of more \
             than four times that allows it",
            prepare_ns as f64 / 1e9
        ),
    })
}

/// The providers that a session says it uses: one, or several joined by commas.
pub(crate) fn wanted(provider: Option<&String>) -> Vec<String> {
    let names = provider.into_iter().flat_map(|names| names.split(','));
    names.map(|name| cut(name.trim().to_owned())).filter(|name| !name.is_empty()).collect()
}

/// What follows from where operators ran: a failure where placement is strict, else a warning.
///
/// # Errors
///
/// [`Failure::Misplaced`], where operators fell back, or where that cannot be told.
pub(crate) fn judge(
    rule: PlacementRule,
    placement: &Placement,
) -> Result<Option<Warning>, Failure> {
    let fell_back = fallback(placement);
    match (rule, fell_back) {
        (PlacementRule::Strict, Some(detail)) => Err(Failure::Misplaced { detail }),
        (PlacementRule::Strict, None) if placement.wanted.is_empty() => {
            let detail = "the session does not say which provider it uses, so where operators should \
                          have run is not known";
            Err(Failure::Misplaced { detail: detail.into() })
        }
        (PlacementRule::Any, Some(evidence)) => {
            Ok(Some(Warning { kind: WarningKind::FellBack, evidence }))
        }
        (_, None) => Ok(None),
    }
}

fn fallback(placement: &Placement) -> Option<String> {
    let total: u64 = placement.providers.iter().map(|share| share.operators).sum();
    let time: f64 = placement.providers.iter().map(|share| share.time_ns as f64).sum();
    let shares: Vec<String> = placement
        .not_wanted()
        .map(|share| {
            let part = if time > 0.0 { 100.0 * share.time_ns as f64 / time } else { 0.0 };
            format!("{} on {} ({part:.1} % of the time)", share.operators, share.provider)
        })
        .collect();
    if shares.is_empty() {
        return None;
    }
    let count: u64 = placement.not_wanted().map(|share| share.operators).sum();
    let more = count.saturating_sub(placement.elsewhere.len() as u64);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    Some(format!(
        "Of {total} operators, {count} ran elsewhere than on {}: {}: {}{more}.",
        placement.wanted.join(" or "),
        shares.join(", "),
        placement.elsewhere.join(", "),
    ))
}

#[cfg(test)]
mod tests {
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
        Placement::of(super::wanted(Some(&wanted.to_owned())), &operators)
    }

    #[test]
    fn operators_that_fell_back_are_told() {
        let mixed = placement("Gpu", &["Gpu", "Cpu", "Gpu", "Cpu"]);
        let warning = judge(PlacementRule::Any, &mixed).expect("a warning").expect("one");
        assert_eq!(warning.kind, WarningKind::FellBack);
        insta::assert_snapshot!(warning.evidence, @"Of 4 operators, 2 ran elsewhere than on Gpu: 2 on Cpu (50.0 % of the time): node1, node3.");
        let failure = judge(PlacementRule::Strict, &mixed).expect_err("strict");
        assert_eq!(failure, Failure::Misplaced { detail: warning.evidence });
    }

    #[test]
    fn where_all_ran_on_the_device_nothing_is_said() {
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
    fn names_are_cut() {
        assert_eq!(cut("é".repeat(150)).len(), 200);
        assert_eq!(cut("short".into()), "short");
    }
}
