/*!
Shared code of recommenders: predictions with a roofline's shape, from what was measured.

This is an ordinary library and not a plugin.
*/

pub mod limit;
pub mod observation;
pub mod roofline;

use std::collections::BTreeMap;

use plugin_guest::Recommendation;

/// Adds what a recommendation says of itself: its kind, its confidence in words, and the command that checks it.
#[must_use]
pub fn recommendation(
    kind: &str,
    title: String,
    lines: &[String],
    cases: Vec<String>,
    confidence: &str,
    check: String,
) -> Recommendation {
    let mut seen = std::collections::BTreeSet::new();
    let attributes: BTreeMap<String, String> =
        [("kind", kind.to_owned()), ("confidence", confidence.to_owned()), ("check", check)]
            .map(|(name, value)| (name.to_owned(), value))
            .into();
    Recommendation {
        title,
        explanation: lines.join("\n"),
        cases: cases.into_iter().filter(|case| seen.insert(case.clone())).collect(),
        attributes,
    }
}
