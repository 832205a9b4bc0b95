//! Hints for mistyped names.

/// Returns the known name that is nearest to a mistyped one, if one is near.
#[must_use]
pub fn nearest<'known>(name: &str, known: &[&'known str]) -> Option<&'known str> {
    all_nearest(name, known).first().copied()
}

/// Returns the known names that are equally near to a mistyped one; empty if none is near.
fn all_nearest<'known>(name: &str, known: &[&'known str]) -> Vec<&'known str> {
    let plain = |text: &str| text.to_lowercase().replace('_', "-");
    let name = plain(name);
    let near: Vec<_> = known
        .iter()
        .map(|candidate| (strsim::osa_distance(&name, &plain(candidate)), *candidate))
        .filter(|(distance, candidate)| {
            *distance <= candidate.chars().count().max(name.chars().count()).div_ceil(3)
        })
        .collect();
    let least = near.iter().map(|(distance, _)| *distance).min();
    near.into_iter()
        .filter(|(distance, _)| Some(*distance) == least)
        .map(|(_, candidate)| candidate)
        .collect()
}

/// Returns a hint for a mistyped name: the nearest one, or all of them.
pub(crate) fn suggestion(name: &str, known: &[&str], introduction: &str) -> String {
    match nearest(name, known) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("{introduction} {}", quoted(known).join(", ")),
    }
}

/// Returns a hint for a mistyped name among similar names, such as `latency.p95` and
/// `latency.p99`: the nearest ones, or all of them after the introduction.
#[must_use]
pub fn suggestions(name: &str, known: &[&str], introduction: &str) -> String {
    match &all_nearest(name, known)[..] {
        [] => format!("{introduction} {}", quoted(known).join(", ")),
        [nearest] => format!("did you mean `{nearest}`?"),
        [others @ .., last] => format!("did you mean {} or `{last}`?", quoted(others).join(", ")),
    }
}

fn quoted(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| format!("`{name}`")).collect()
}
