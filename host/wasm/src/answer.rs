//! Checks on guests' answers, before any of them becomes a result.

use std::collections::{BTreeMap, BTreeSet};

use host_record::{
    Axis, Direction, Gap, GapKind, MetricValue, NotMeasured, Prediction, Recommendation,
    Unsupported, Views,
};
use semver::Version;

use crate::amounts;
use crate::bindings::{metric, recommender, run_metric};
use crate::description::Description;
use crate::error::shortened;

/// Limit on the values of one metric for one case, and on a recommender's pieces of advice. A guest that exceeds it
/// is faulty.
const MOST: usize = 10_000;

/// Limit on the columns that a metric may read, and on the bytes of each name.
const COLUMNS: usize = 256;
const COLUMN: usize = 200;

/// Limit on the options of a plugin.
const OPTIONS: usize = 100;

/// Limit on the attributes of a value or of advice.
const ATTRIBUTES: usize = 64;

/// Limit on the texts of a metric's values for one case, in bytes.
const CASE: usize = 64 << 10;

/// Limit on the texts of a recommender's advice, in bytes, without the addition for each case of the run.
const ADVICE: usize = 1 << 20;
const ADVICE_OF_CASE: usize = 1 << 10;

/// The result of a check, with the fault as text.
type Checked<T> = Result<T, String>;

/// Bytes left for the texts of an answer.
struct Budget {
    limit: usize,
    left: usize,
}

impl Budget {
    fn new(limit: usize) -> Self {
        Self { limit, left: limit }
    }

    /// Takes a text of at most `most` bytes.
    fn take(&mut self, what: &str, text: &str, most: usize) -> Checked<()> {
        within(what, text, most)?;
        self.left = self.left.checked_sub(text.len()).ok_or_else(|| {
            format!("its texts have more than {} bytes in all, the limit", self.limit)
        })?;
        Ok(())
    }
}

/// Checks the length of a text, in bytes.
fn within(what: &str, text: &str, most: usize) -> Checked<()> {
    if text.len() <= most {
        return Ok(());
    }
    Err(format!("the {what} {:?}… has {} bytes; the limit is {most}", shortened(text), text.len()))
}

/// Checks the names of the columns that a metric reads, and returns each once.
pub(crate) fn columns(names: Vec<String>) -> Checked<Vec<String>> {
    let mut columns: Vec<String> = Vec::new();
    let mut seen = BTreeSet::new();
    for name in names {
        within("column's name", &name, COLUMN)?;
        if seen.insert(name.clone()) {
            columns.push(name);
        }
        if columns.len() > COLUMNS {
            return Err(format!("it reads more than {COLUMNS} columns, the limit"));
        }
    }
    Ok(columns)
}

pub(crate) fn description(description: Description) -> Checked<Description> {
    let Description { id, version, summary, license, options } = &description;
    for (what, text, most) in [
        ("id", id, 64),
        ("version", version, 64),
        ("summary", summary, 500),
        ("licence", license, 200),
    ] {
        within(what, text, most)?;
    }
    if options.len() > OPTIONS {
        return Err(format!("it has {} options; the limit is {OPTIONS}", options.len()));
    }
    for (name, explanation) in options {
        within("option's name", name, 64)?;
        within("option's explanation", explanation, 2000)?;
    }
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

/// Checks values for cases of a run: those of the outline, once for each finished case.
pub(crate) fn of_run(
    plugin: &str,
    found: Vec<run_metric::exports::tare::plugin::run_metric::CaseMeasurement>,
    outline: &[MetricValue],
    views: &dyn Views,
) -> Checked<BTreeMap<String, Vec<MetricValue>>> {
    let finished = cases(views, Some("finished"))?;
    let most = finished.len().saturating_mul(outline.len());
    if found.len() > most {
        return Err(format!("{} values, where {most} were outlined", found.len()));
    }
    let mut by_case: BTreeMap<_, Vec<_>> = finished.into_iter().map(|id| (id, vec![])).collect();
    for one in found {
        let Some(values) = by_case.get_mut(&one.case_id) else {
            return Err(format!(
                "a value for the case {:?}, which is no finished case of this run",
                shortened(&one.case_id)
            ));
        };
        values.push(one.measurement);
    }
    let checked = by_case.into_iter().map(|(case, values)| {
        let values = run_measurements(plugin, values)?;
        let names = |values: &[MetricValue]| -> BTreeSet<(String, String, Direction)> {
            let name = |one: &MetricValue| (one.metric.clone(), one.unit.clone(), one.direction);
            values.iter().map(name).collect()
        };
        if let Some((name, unit, direction)) =
            names(&values).symmetric_difference(&names(outline)).next()
        {
            return Err(format!(
                "`{name}` ({unit}, {direction}) is either outlined and not stated for the case \
                 {case}, or stated and not outlined"
            ));
        }
        Ok((case, values))
    });
    checked.collect()
}

pub(crate) fn run_measurements(
    plugin: &str,
    values: Vec<run_metric::tare::plugin::types::Measurement>,
) -> Checked<Vec<MetricValue>> {
    measurements(plugin, values.into_iter().map(same).collect())
}

/// Converts a world's own type to the same interface's type in another world.
fn same(
    one: run_metric::tare::plugin::types::Measurement,
) -> metric::tare::plugin::types::Measurement {
    use metric::tare::plugin::types::{AttributeResult, Gap, Measure, Measurement};
    use run_metric::tare::plugin::types::Measure as OfRun;

    let attribute = |item: run_metric::tare::plugin::types::Attribute| AttributeResult {
        name: item.name,
        value: item.value,
    };
    Measurement {
        metric: one.metric,
        measure: match one.measure {
            OfRun::Value(value) => Measure::Value(value),
            OfRun::Gap(gap) => Measure::Gap(Gap { kind: gap.kind, reason: gap.reason }),
        },
        interval: one.interval,
        unit: one.unit,
        direction: one.direction,
        attributes: one.attributes.into_iter().map(attribute).collect(),
    }
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
    let mut budget = Budget::new(CASE);
    for one in measurements {
        let name = one.metric.clone();
        let value = measurement(plugin, one, &mut budget)
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
    budget: &mut Budget,
) -> Checked<MetricValue> {
    use metric::tare::plugin::types::Measure;

    budget.take("name", &one.metric, 200)?;
    budget.take("unit", &one.unit, 32)?;
    budget.take("direction", &one.direction, 32)?;
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
        Measure::Gap(gap) => {
            budget.take("gap's reason", &gap.reason, 1000)?;
            Err(self::gap(&gap.kind, gap.reason)?)
        }
    };
    if let Some((low, high)) = one.interval {
        let Ok(value) = value else { return Err("an interval around a gap".into()) };
        // Comparisons with NaN are false, so that it is refused as well.
        if !(low <= value && value <= high && low.is_finite() && high.is_finite()) {
            return Err(format!("the interval from {low} to {high} is not around {value}"));
        }
    }
    let attributes = one.attributes.into_iter().map(|item| (item.name, item.value));
    let attributes = self::attributes(attributes, 16 << 10, budget)?;
    if let Ok(value) = value
        && let Some(fault) =
            amounts::impossible(&one.metric, value, one.interval, &one.unit, &attributes)
    {
        return Err(fault);
    }
    Ok(MetricValue {
        metric: one.metric,
        value,
        interval: one.interval,
        unit: one.unit,
        direction,
        attributes,
    })
}

/// Reads a gap. A metric may state that something was not measured or is unsupported; the other kinds are reserved
/// for the host.
fn gap(kind: &str, reason: String) -> Checked<Gap> {
    let metric_message = self::reason(reason)?;
    if kind == GapKind::NotMeasured.name() {
        Ok(NotMeasured::Metric { metric_message }.into())
    } else if kind == GapKind::Unsupported.name() {
        Ok(Gap::Unsupported(Unsupported::Metric { metric_message }))
    } else {
        Err(format!(
            "the gap's kind {:?} is neither `not-measured` nor `unsupported`",
            shortened(kind)
        ))
    }
}

fn reason(reason: String) -> Checked<String> {
    if reason.trim().is_empty() || reason.chars().any(char::is_control) {
        return Err(format!("the gap's reason {:?} is not one line of text", shortened(&reason)));
    }
    Ok(reason)
}

/// Takes attributes, each value with at most `most` bytes.
fn attributes(
    items: impl ExactSizeIterator<Item = (String, String)>,
    most: usize,
    budget: &mut Budget,
) -> Checked<BTreeMap<String, String>> {
    if items.len() > ATTRIBUTES {
        return Err(format!("{} attributes; the limit is {ATTRIBUTES}", items.len()));
    }
    let mut attributes = BTreeMap::new();
    for (name, value) in items {
        budget.take("attribute's name", &name, 100)?;
        budget.take("attribute's value", &value, most)?;
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
    let known = cases(views, None)?;
    let most = ADVICE.saturating_add(known.len().saturating_mul(ADVICE_OF_CASE));
    let mut budget = Budget::new(most);
    recommendations
        .into_iter()
        .map(|one| {
            budget.take("title", &one.title, 1000)?;
            budget.take("explanation", &one.explanation, most)?;
            for case in &one.cases {
                budget.take("case's id", case, 200)?;
            }
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
                attributes: self::attributes(attributes, most, &mut budget)?,
            })
        })
        .collect()
}

/// Checks the reason for a wish: one line that is not too long.
pub(crate) fn wish_reason(text: &str) -> Checked<&str> {
    within("reason", text, 300)?;
    let text = text.trim();
    if text.is_empty() || text.chars().any(char::is_control) {
        return Err(format!("the reason {:?} is not one line of text", shortened(text)));
    }
    Ok(text)
}

/// Checks predictions, of which `known` were stated before in the same call.
pub(crate) fn predictions(
    predictions: Vec<recommender::tare::plugin::predictions::Prediction>,
    known: usize,
    views: Option<&dyn Views>,
) -> Checked<Vec<Prediction>> {
    if known.saturating_add(predictions.len()) > MOST {
        return Err(format!("more than {MOST} predictions, the limit"));
    }
    let cases = match views {
        Some(views) => cases(views, None)?,
        None => BTreeSet::new(),
    };
    let check = |one: recommender::tare::plugin::predictions::Prediction| {
        let mut budget = Budget::new(CASE);
        budget.take("metric", &one.metric, 200)?;
        budget.take("unit", &one.unit, 32)?;
        if one.metric.trim().is_empty() {
            return Err("a prediction names no metric".to_owned());
        }
        let wrong =
            |what: &str| Err(format!("the prediction of `{}` {what}", shortened(&one.metric)));
        let (low, high) = one.interval;
        if ![one.value, low, high].iter().all(|number| number.is_finite()) {
            return wrong("has a value that is not a finite number");
        }
        if !(low <= one.value && one.value <= high) {
            return wrong("lies outside of its interval");
        }
        if !(one.confidence > 0.0 && one.confidence < 1.0) {
            return wrong("has a confidence that is not between 0 and 1");
        }
        for case in &one.cases {
            budget.take("case's id", case, 200)?;
            if !cases.contains(case) {
                return wrong(&format!("rests on {:?}, which is not in this run", shortened(case)));
            }
        }
        let mut coordinates = BTreeMap::new();
        for item in one.coordinates {
            budget.take("coordinate", &item.value, 200)?;
            if item.name.parse::<Axis>().is_err() {
                return Err(format!("{:?} is not an axis of the matrix", shortened(&item.name)));
            }
            coordinates.insert(item.name, item.value);
        }
        let attributes = one.attributes.into_iter().map(|item| (item.name, item.value));
        Ok(Prediction {
            coordinates,
            metric: one.metric,
            value: one.value,
            interval: one.interval,
            confidence: one.confidence,
            unit: one.unit,
            cases: one.cases,
            attributes: self::attributes(attributes, CASE, &mut budget)?,
        })
    };
    predictions.into_iter().map(check).collect()
}

/// Returns the ids of the run's cases: all, or those with an outcome.
fn cases(views: &dyn Views, outcome: Option<&str>) -> Checked<BTreeSet<String>> {
    use host_record::Cell;

    let table = views.read("cases")?;
    let place = |name: &str| {
        let place = table.columns.iter().position(|column| column == name);
        place.ok_or_else(|| format!("the view `cases` has no column `{name}` to check by"))
    };
    let id = place("case_id")?;
    let outcome =
        outcome.map(|outcome| Ok::<_, String>((place("outcome")?, outcome))).transpose()?;
    let is_such = |row: &&Vec<Cell>| {
        outcome.is_none_or(|(place, outcome)| {
            matches!(row.get(place), Some(Cell::Text(found)) if found == outcome)
        })
    };
    let ids = table.rows.iter().filter(is_such).filter_map(|row| match row.get(id) {
        Some(Cell::Text(id)) => Some(id.clone()),
        _ => None,
    });
    Ok(ids.collect())
}

/// Returns whether the text is lower-case letters and digits in words joined by single hyphens.
fn is_words(text: &str) -> bool {
    text.split('-').all(|word| {
        !word.is_empty()
            && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use host_record::{Cell, Table};

    use super::*;
    use crate::bindings::metric::tare::plugin::types::{
        AttributeResult, Gap as GuestGap, Measure, Measurement,
    };

    fn good() -> Measurement {
        Measurement {
            metric: "latency.p99.9".into(),
            measure: Measure::Value(3.0),
            interval: Some((3.0, 4.0)),
            unit: "ns".into(),
            direction: "lower".into(),
            attributes: vec![],
        }
    }

    /// Returns the fault that is found in a valid measurement after a change.
    fn fault(change: impl FnOnce(&mut Measurement)) -> String {
        let mut changed = good();
        change(&mut changed);
        measurements("latency", vec![changed]).expect_err("a bad answer")
    }

    #[test]
    fn a_good_answer_is_taken_as_it_is() {
        let mut with_gap = good();
        with_gap.metric = "latency.mean".into();
        with_gap.measure =
            Measure::Gap(GuestGap { kind: "not-measured".into(), reason: "no query".into() });
        with_gap.interval = None;
        let values = measurements("latency", vec![good(), with_gap]).expect("a good answer");
        assert_eq!(values[0].value, Ok(3.0));
        assert_eq!(values[0].interval, Some((3.0, 4.0)));
        assert_eq!(values[0].direction, Direction::Lower);
        let gap = Gap::from(NotMeasured::Metric { metric_message: "no query".into() });
        assert_eq!(values[1].value, Err(gap));
    }

    #[test]
    fn names_begin_with_the_plugins_id() {
        insta::assert_snapshot!(
            fault(|one| one.metric = "throughput.p99".into()),
            @"`throughput.p99`: the name has to begin with the plugin's id, `latency.`, and to go on in lower-case words"
        );
        for name in
            ["latency", "latency.", "latencyp99", "latency.P99", "latency.a b", "latency.a..b"]
        {
            assert!(fault(|one| one.metric = name.into()).contains("has to begin"), "{name}");
        }
        let twice = measurements("latency", vec![good(), good()]).expect_err("a name twice");
        insta::assert_snapshot!(twice, @"`latency.p99.9` is stated twice");
    }

    #[test]
    fn values_are_finite_and_lie_in_their_interval() {
        insta::assert_snapshot!(
            fault(|one| one.measure = Measure::Value(f64::NAN)),
            @"`latency.p99.9`: the value is NaN; what cannot be computed is a gap"
        );
        insta::assert_snapshot!(
            fault(|one| one.measure = Measure::Value(f64::NEG_INFINITY)),
            @"`latency.p99.9`: the value is -inf; what cannot be computed is a gap"
        );
        insta::assert_snapshot!(
            fault(|one| one.interval = Some((4.0, 2.0))),
            @"`latency.p99.9`: the interval from 4 to 2 is not around 3"
        );
        insta::assert_snapshot!(
            fault(|one| one.interval = Some((4.0, 5.0))),
            @"`latency.p99.9`: the interval from 4 to 5 is not around 3"
        );
        insta::assert_snapshot!(
            fault(|one| one.interval = Some((f64::NAN, 5.0))),
            @"`latency.p99.9`: the interval from NaN to 5 is not around 3"
        );
        insta::assert_snapshot!(
            fault(|one| one.interval = Some((1.0, f64::INFINITY))),
            @"`latency.p99.9`: the interval from 1 to inf is not around 3"
        );
    }

    #[test]
    fn words_that_have_a_meaning_are_known() {
        insta::assert_snapshot!(
            fault(|one| one.direction = "up".into()),
            @"`latency.p99.9`: the direction `up` is none of: lower, higher, neutral"
        );
        insta::assert_snapshot!(
            fault(|one| one.unit = "".into()),
            @r#"`latency.p99.9`: the unit "" is no symbol; a plain ratio has the unit `1`"#
        );
        let gap = |kind: &str, reason: &str| {
            let gap = GuestGap { kind: kind.into(), reason: reason.into() };
            fault(|one| {
                one.measure = Measure::Gap(gap);
                one.interval = None;
            })
        };
        insta::assert_snapshot!(
            gap("plugin-missing", "why not"),
            @r#"`latency.p99.9`: the gap's kind "plugin-missing" is neither `not-measured` nor `unsupported`"#
        );
        insta::assert_snapshot!(
            gap("unsupported", " "),
            @r#"`latency.p99.9`: the gap's reason " " is not one line of text"#
        );
        insta::assert_snapshot!(
            fault(|one| {
                one.measure = Measure::Gap(GuestGap { kind: "unsupported".into(), reason: "x".into() });
            }),
            @"`latency.p99.9`: an interval around a gap"
        );
        let attribute = AttributeResult { name: "a".into(), value: "b".into() };
        insta::assert_snapshot!(
            fault(|one| one.attributes = vec![attribute.clone(), attribute]),
            @r#"`latency.p99.9`: the attribute "a" is given twice, first as "b""#
        );
        let many = vec![good(); MOST + 1];
        insta::assert_snapshot!(
            measurements("latency", many).expect_err("too many"),
            @"10001 values, where at most 10000 are taken"
        );
    }

    #[test]
    fn texts_are_bounded_one_by_one_and_in_all() {
        let long = |count: usize| "x".repeat(count);
        insta::assert_snapshot!(
            fault(|one| one.unit = long(33)),
            @r#"`latency.p99.9`: the unit "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"… has 33 bytes; the limit is 32"#
        );
        let name = fault(|one| one.metric = format!("latency.{}", long(200)));
        assert!(name.ends_with("has 208 bytes; the limit is 200"), "{name}");
        let gap = GuestGap { kind: "unsupported".into(), reason: long(1001) };
        let reason = fault(|one| one.measure = Measure::Gap(gap));
        assert!(reason.contains("the gap's reason") && reason.ends_with("is 1000"), "{reason}");
        let attribute =
            |name: &str, bytes| AttributeResult { name: name.into(), value: long(bytes) };
        let value = fault(|one| one.attributes = vec![attribute("a", (16 << 10) + 1)]);
        assert!(value.ends_with("has 16385 bytes; the limit is 16384"), "{value}");
        let name = fault(|one| one.attributes = vec![attribute(&long(101), 1)]);
        assert!(name.ends_with("has 101 bytes; the limit is 100"), "{name}");
        let many = (0..65).map(|index| attribute(&index.to_string(), 1)).collect();
        insta::assert_snapshot!(
            fault(|one| one.attributes = many),
            @"`latency.p99.9`: 65 attributes; the limit is 64"
        );
        let all = (0..5).map(|index| attribute(&index.to_string(), 16 << 10)).collect();
        insta::assert_snapshot!(
            fault(|one| one.attributes = all),
            @"`latency.p99.9`: its texts have more than 65536 bytes in all, the limit"
        );
    }

    #[test]
    fn columns_are_read_once_and_are_few() {
        let names = vec!["latency".to_owned(); 20_000];
        assert_eq!(columns(names).expect("one column"), ["latency"]);
        let names = ["start", "latency", "start"].map(str::to_owned).to_vec();
        assert_eq!(columns(names).expect("two columns"), ["start", "latency"]);
        let names = (0..20_000).map(|index| format!("output.{index}")).collect();
        insta::assert_snapshot!(
            columns(names).expect_err("too many"),
            @"it reads more than 256 columns, the limit"
        );
        let long = columns(vec!["x".repeat(201)]).expect_err("too long");
        assert!(long.ends_with("has 201 bytes; the limit is 200"), "{long}");
    }

    #[test]
    fn impossible_values_are_refused() {
        insta::assert_snapshot!(
            fault(|one| {
                one.measure = Measure::Value(-3.0);
                one.interval = None;
            }),
            @"`latency.p99.9`: -3 ns is impossible: an amount in `ns` is not negative; a difference has the attribute `difference`"
        );
        let mut difference = good();
        difference.measure = Measure::Value(-3.0);
        difference.interval = None;
        difference.attributes =
            vec![AttributeResult { name: "difference".into(), value: "to batch 1".into() }];
        assert!(measurements("latency", vec![difference]).is_ok());
    }

    #[test]
    fn a_plugin_says_what_it_is() {
        let good = Description {
            id: "tail-latency2".into(),
            version: "0.1.0-beta.2".into(),
            summary: "The tail.".into(),
            license: "MIT".into(),
            options: vec![],
        };
        let fault = |change: fn(&mut Description)| {
            let mut changed = good.clone();
            change(&mut changed);
            description(changed).expect_err("a bad description")
        };
        assert_eq!(description(good.clone()), Ok(good.clone()));
        insta::assert_snapshot!(
            fault(|one| one.id = "Tail Latency".into()),
            @r#"the id "Tail Latency" is not made of lower-case words and digits joined by hyphens"#
        );
        for id in ["", "-", "a-", "a--b", "a.b", "../a", "ä"] {
            let changed = Description { id: id.into(), ..good.clone() };
            assert!(description(changed).is_err(), "{id}");
        }
        insta::assert_snapshot!(
            fault(|one| one.version = "1".into()),
            @r#"the version "1" is not a semantic version: unexpected end of input while parsing major version number"#
        );
        insta::assert_snapshot!(
            fault(|one| one.license = "".into()),
            @r#"the licence "" is not one line of text"#
        );
    }

    struct OneCase;

    impl Views for OneCase {
        fn names(&self) -> Vec<String> {
            vec!["cases".into()]
        }

        fn read(&self, _: &str) -> Result<Table, String> {
            Ok(Table {
                columns: vec!["case_index".into(), "case_id".into()],
                rows: vec![vec![Cell::Integer(0), Cell::Text("c0ffee".into())]],
            })
        }
    }

    #[test]
    fn advice_rests_on_cases_of_the_run() {
        use recommender::exports::tare::plugin::recommender::Recommendation;

        let advice = |title: &str, case: &str| {
            let one = Recommendation {
                title: title.into(),
                explanation: String::new(),
                cases: vec![case.into()],
                attributes: vec![],
            };
            recommendations(vec![one], &OneCase)
        };
        assert_eq!(advice("Use batch 8.", "c0ffee").expect("it is there")[0].cases, ["c0ffee"]);
        insta::assert_snapshot!(
            advice("Use batch 8.", "decaf").expect_err("no such case"),
            @r#""Use batch 8." rests on the case "decaf", which is not in this run"#
        );
        insta::assert_snapshot!(
            advice("\n", "c0ffee").expect_err("no title"),
            @r#"the title "\n" is not one line of text"#
        );
    }
}
