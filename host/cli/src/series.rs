//! Series of results over runs in words, for the terminal and for pages.

use host_experiment::{Point, Series, short, units};
use host_statistics::{Drift, LEAST_VALUES, LevelChange, Undefined};

pub(crate) fn none() -> String {
    "—".to_owned()
}

pub(crate) fn newest(series: &Series) -> Option<String> {
    let value = series.points.iter().rev().find_map(|point| point.value.as_ref().ok())?;
    Some(shown(series, *value))
}

pub(crate) fn shown(series: &Series, value: f64) -> String {
    units::metric(&series.metric, value, &series.unit)
}

/// The newest change, or the drift after it.
enum Newest {
    Change(LevelChange),
    Drift(Drift),
    Nothing,
    CannotTell(String),
}

fn newest_change(series: &Series) -> Newest {
    match &series.found {
        Err(reason) => Newest::CannotTell(reason_shown(*reason)),
        Ok(found) => match (found.drift, found.changes.last()) {
            (Some(drift), _) => Newest::Drift(drift),
            (None, Some(change)) => Newest::Change(*change),
            (None, None) => Newest::Nothing,
        },
    }
}

pub(crate) fn reason_shown(reason: Undefined) -> String {
    match reason {
        Undefined::TooFew(too_few) => {
            let values = units::count(too_few.has as u64, "value", "values");
            format!("{values}, and a change needs {LEAST_VALUES}")
        }
        Undefined::NotPositive => "a value is not above zero".into(),
        other => other.to_string(),
    }
}

pub(crate) fn ratio_shown(ratio: f64, low: f64, high: f64) -> String {
    let percent = |ratio: f64| format!("{:+.1}", 100.0 * (ratio - 1.0));
    format!("{} % ({} to {} %)", percent(ratio), percent(low), percent(high))
}

pub(crate) fn change_shown(series: &Series) -> String {
    match newest_change(series) {
        Newest::Change(LevelChange { ratio, low, high, .. })
        | Newest::Drift(Drift { ratio, low, high, .. }) => ratio_shown(ratio, low, high),
        Newest::Nothing | Newest::CannotTell(_) => none(),
    }
}

pub(crate) fn verdict_shown(series: &Series) -> String {
    match newest_change(series) {
        Newest::Change(change) => series.verdict(change.ratio).to_owned(),
        Newest::Drift(drift) => format!("slowly {}", series.verdict(drift.ratio)),
        Newest::Nothing => "no change found".into(),
        Newest::CannotTell(reason) => format!("cannot tell: {reason}"),
    }
}

pub(crate) fn since(series: &Series) -> String {
    let index = match newest_change(series) {
        Newest::Change(change) => change.index,
        Newest::Drift(drift) => drift.from,
        Newest::Nothing | Newest::CannotTell(_) => return String::new(),
    };
    series.points.get(series.place(index)).map_or_else(String::new, place_shown)
}

/// Returns the date and the commit of a run.
pub(crate) fn place_shown(point: &Point) -> String {
    let commit = point.commit.as_deref().map(commit_shown);
    [Some(date(point).to_owned()), commit].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

pub(crate) fn date(point: &Point) -> &str {
    point.started_at.get(..10).unwrap_or(&point.started_at)
}

pub(crate) fn commit_shown(commit: &str) -> String {
    match commit.strip_suffix("-dirty") {
        Some(commit) => format!("{}-dirty", short(commit)),
        None => short(commit).to_owned(),
    }
}
