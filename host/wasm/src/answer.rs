//! Checks on what guests say, before any of it becomes a result.

use std::collections::{BTreeMap, BTreeSet};

use host_record::{Direction, Gap, GapKind, MetricValue, Recommendation, Views};
use semver::Version;

use crate::bindings::{metric, recommender};
use crate::plugin::Description;

/// Values that one metric may state for one case, and pieces of advice that one recommender may
/// give. A guest that says more has lost its way.
const MOST: usize = 10_000;

/// Says what is wrong.
type Checked<T> = Result<T, String>;

pub(crate) fn description(description: Description) -> Checked<Description> {
    if !is_words(&description.id) {
        return Err(format!(
            "the id {:?} is not made of lower-case words and digits joined by hyphens",
            shortened(&description.id)
        ));
    }
    if let Err(error) = Version::parse(&description.version) {
        return Err(format!(
            "the version {:?} is not a semantic version: {error}",
            shortened(&description.version)
        ));
    }
    for (what, text) in [("summary", &description.summary), ("licence", &description.license)] {
        if text.trim().is_empty() || text.chars().any(char::is_control) {
            return Err(format!("the {what} {:?} is not one line of text", shortened(text)));
        }
    }
    Ok(description)
}

pub(crate) fn measurements(
    plugin: &str,
    measurements: Vec<metric::tare::plugin::types::Measurement>,
) -> Checked<Vec<MetricValue>> {
    if measurements.len() > MOST {
        return Err(format!("{} values, where at most {MOST} are taken", measurements.len()));
    }
    let mut seen = BTreeSet::new();
    let mut values = Vec::with_capacity(measurements.len());
    for one in measurements {
        let name = one.metric.clone();
        let value = measurement(plugin, one)
            .map_err(|fault| format!("`{}`: {fault}", shortened(&name).escape_debug()))?;
        if !seen.insert(name) {
            return Err(format!("`{}` is stated twice", value.metric));
        }
        values.push(value);
    }
    Ok(values)
}

fn measurement(
    plugin: &str,
    one: metric::tare::plugin::types::Measurement,
) -> Checked<MetricValue> {
    use metric::tare::plugin::types::Measure;

    let name = one.metric.strip_prefix(plugin).and_then(|rest| rest.strip_prefix('.'));
    if !name.is_some_and(|name| name.split('.').all(is_words)) {
        return Err(format!(
            "the name has to begin with the plugin's id, `{plugin}.`, and to go on in lower-case words"
        ));
    }
    if one.unit.is_empty() || one.unit.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(format!(
            "the unit {:?} is no symbol; a plain ratio has the unit `1`",
            shortened(&one.unit)
        ));
    }
    let direction: Direction =
        one.direction.parse().map_err(|error| format!("the direction {error}"))?;
    let value = match one.measure {
        Measure::Value(value) if value.is_finite() => Ok(value),
        Measure::Value(value) => {
            return Err(format!("the value is {value}; what cannot be computed is a gap"));
        }
        Measure::Gap(gap) => Err(Gap { kind: gap_kind(&gap.kind)?, reason: reason(gap.reason)? }),
    };
    if let Some((low, high)) = one.interval {
        let Ok(value) = value else { return Err("an interval around a gap".into()) };
        // Comparisons with NaN are false, so that it is refused as well.
        if !(low <= value && value <= high && low.is_finite() && high.is_finite()) {
            return Err(format!("the interval from {low} to {high} is not around {value}"));
        }
    }
    Ok(MetricValue {
        metric: one.metric,
        value,
        interval: one.interval,
        unit: one.unit,
        direction,
        attributes: attributes(one.attributes.into_iter().map(|item| (item.name, item.value)))?,
    })
}

/// A metric may say that something was not measured or cannot be; the other kinds are the host's.
fn gap_kind(name: &str) -> Checked<GapKind> {
    [GapKind::NotMeasured, GapKind::Unsupported]
        .into_iter()
        .find(|kind| kind.name() == name)
        .ok_or_else(|| {
            format!(
                "the gap's kind {:?} is neither `not-measured` nor `unsupported`",
                shortened(name)
            )
        })
}

fn reason(reason: String) -> Checked<String> {
    if reason.trim().is_empty() || reason.chars().any(char::is_control) {
        return Err(format!("the gap's reason {:?} is not one line of text", shortened(&reason)));
    }
    Ok(reason)
}

fn attributes(items: impl Iterator<Item = (String, String)>) -> Checked<BTreeMap<String, String>> {
    let mut attributes = BTreeMap::new();
    for (name, value) in items {
        if let Some(earlier) = attributes.insert(name.clone(), value) {
            return Err(format!(
                "the attribute {:?} is given twice, first as {:?}",
                shortened(&name),
                shortened(&earlier)
            ));
        }
    }
    Ok(attributes)
}

pub(crate) fn recommendations(
    recommendations: Vec<recommender::exports::tare::plugin::recommender::Recommendation>,
    views: &dyn Views,
) -> Checked<Vec<Recommendation>> {
    if recommendations.len() > MOST {
        return Err(format!(
            "{} pieces of advice, where at most {MOST} are taken",
            recommendations.len()
        ));
    }
    let known = known_cases(views)?;
    recommendations
        .into_iter()
        .map(|one| {
            if one.title.trim().is_empty() || one.title.chars().any(char::is_control) {
                return Err(format!(
                    "the title {:?} is not one line of text",
                    shortened(&one.title)
                ));
            }
            if let Some(case) = one.cases.iter().find(|case| !known.contains(*case)) {
                return Err(format!(
                    "{:?} rests on the case {:?}, which is not in this run",
                    shortened(&one.title),
                    shortened(case)
                ));
            }
            let attributes = one.attributes.into_iter().map(|item| (item.name, item.value));
            Ok(Recommendation {
                title: one.title,
                explanation: one.explanation,
                cases: one.cases,
                attributes: self::attributes(attributes)?,
            })
        })
        .collect()
}

fn known_cases(views: &dyn Views) -> Checked<BTreeSet<String>> {
    let table = views.read("cases")?;
    let column = table.columns.iter().position(|column| column == "case_id");
    let column = column.ok_or("the view `cases` has no column `case_id` to check the advice by")?;
    Ok(table
        .rows
        .into_iter()
        .filter_map(|row| match row.into_iter().nth(column) {
            Some(host_record::Cell::Text(id)) => Some(id),
            _ => None,
        })
        .collect())
}

/// Lower-case letters and digits in words joined by single hyphens.
fn is_words(text: &str) -> bool {
    text.split('-').all(|word| {
        !word.is_empty()
            && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    })
}

/// What a guest says, short enough to be quoted in an error.
fn shortened(text: &str) -> String {
    text.chars().take(80).collect()
}
