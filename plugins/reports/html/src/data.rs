/*!
The run as data of the page's script: every value of every case once, with texts that repeat named by their places.

Five hundred cases with forty metrics fit into half a megabyte, a tenth of what a table of them takes.
*/

use std::collections::BTreeMap;

use host_page::{Figure, humanise_metric, number_with};
use report_common::{
    Axis, Case, Group, Labels, QUANTITIES, REASON, Run, WarningKind, class, excerpt,
};
use serde_json::{Value, json};

/// Id of the table of cases.
pub(crate) const RESULTS: &str = "cases";

/// Digits of a value. If rounding to fewer would show other digits than the page does, the value is written whole.
const DIGITS: usize = 9;

/// Texts, each with its place.
#[derive(Default)]
struct Texts {
    places: BTreeMap<String, usize>,
    all: Vec<String>,
}

impl Texts {
    fn place(&mut self, text: String) -> usize {
        *self.places.entry(text).or_insert_with_key(|text| {
            self.all.push(text.clone());
            self.all.len() - 1
        })
    }
}

/// Returns the data of the page: its table, its cases and its figures.
pub(crate) fn data(run: &Run, labels: &Labels, figures: &[&Figure]) -> Value {
    let mut gaps = Texts::default();
    let mut metrics = metrics(run, &mut gaps);
    metrics.extend(quantities(run, &mut gaps));
    json!({
        "table": RESULTS,
        "cases": run.cases.iter().map(|case| &case.id).collect::<Vec<_>>(),
        "labels": run.cases.iter().map(|case| labels.label(case)).collect::<Vec<_>>(),
        "outcomes": run.cases.iter().map(|case| case.record.outcome.name()).collect::<Vec<_>>(),
        "axes": axes(run),
        "reasons": run.cases.iter().map(|case| Some(excerpt(&case.reason()?.1, REASON).into_owned())).collect::<Vec<_>>(),
        "kinds": WarningKind::ALL.iter().filter(|kind| is_warned(run, **kind)).map(|kind| kind.name()).collect::<Vec<_>>(),
        "warnings": warnings(run),
        "facts": facts(run),
        "metrics": metrics,
        "gaps": gaps.all,
        "figures": figures.iter().map(|figure| figure.json()).collect::<Vec<_>>(),
    })
}

fn is_warned(run: &Run, kind: WarningKind) -> bool {
    run.cases.iter().flat_map(|case| &case.warnings).any(|warning| warning.kind() == kind)
}

/// Returns the place of a kind among those of the run's warnings.
pub(crate) fn place_of_kind(run: &Run, kind: WarningKind) -> usize {
    let kinds = WarningKind::ALL.iter().filter(|kind| is_warned(run, **kind));
    kinds.take_while(|known| **known != kind).count()
}

fn warnings(run: &Run) -> Vec<Value> {
    let kinds: Vec<WarningKind> =
        WarningKind::ALL.iter().copied().filter(|kind| is_warned(run, *kind)).collect();
    let of = |case: &Case| -> Value {
        let all = case.warnings.iter().map(|warning| {
            json!([kinds.iter().position(|kind| *kind == warning.kind()), warning.to_string()])
        });
        all.collect()
    };
    run.cases.iter().map(of).collect()
}

/// Returns names of cases by place: the names, and for each case the place of its own.
fn named(name: &str, values: impl Iterator<Item = Option<String>>) -> Value {
    let mut texts = Texts::default();
    let of: Vec<Option<usize>> = values.map(|value| Some(texts.place(value?))).collect();
    json!({ "name": name, "heading": name, "names": texts.all, "of": of })
}

fn axes(run: &Run) -> Vec<Value> {
    Axis::shown()
        .map(|axis| {
            let value =
                |case: &Case| Some(axis.shown_value(&case.key).unwrap_or_else(|| "—".to_owned()));
            named(axis.heading(), run.cases.iter().map(value))
        })
        .collect()
}

/// Returns what differs in how cases were measured.
fn facts(run: &Run) -> Vec<Value> {
    let (_, differing) = run.method();
    let methods: Vec<BTreeMap<String, String>> = run.cases.iter().map(Case::method).collect();
    differing
        .iter()
        .map(|name| named(name, methods.iter().map(|method| method.get(name).cloned())))
        .collect()
}

/// Returns the metrics: for each case a list of the value, the bounds of its interval, those for another process, and its
/// class; or the place of the reason why there is none.
fn metrics(run: &Run, gaps: &mut Texts) -> Vec<Value> {
    let names = run.metrics();
    let mut columns: Vec<(Value, Vec<Value>)> = Vec::new();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for name in names {
        places.insert(name, columns.len());
        columns.push((Value::Null, vec![Value::Null; run.cases.len()]));
    }
    for (place, case) in run.cases.iter().enumerate() {
        for result in &case.results {
            let (head, column) = &mut columns[places[&*result.metric]];
            if head.is_null() {
                *head = json!({
                    "name": result.metric, "unit": result.unit, "better": result.direction.name(),
                });
            }
            column[place] = match &result.value {
                Err(gap) => json!(gaps.place(format!(
                    "{}: {}",
                    gap.kind(),
                    excerpt(&gap.to_string(), REASON)
                ))),
                Ok(value) => {
                    let (low, high) = result.interval.unzip();
                    let (from, to) = result.prediction().unzip();
                    let short = |value| short(&result.metric, value, &result.unit);
                    let number = |value: Option<f64>| value.map_or(Value::Null, short);
                    let mut all = vec![
                        short(*value),
                        number(low),
                        number(high),
                        number(from),
                        number(to),
                        json!(class(result)),
                    ];
                    while all.last().is_some_and(Value::is_null) {
                        all.pop();
                    }
                    Value::Array(all)
                }
            };
        }
    }
    let whole = columns.into_iter().map(|(mut head, column)| {
        head["of"] = Value::Array(column);
        head
    });
    whole.collect()
}

/// Returns the measured quantities, as metrics.
fn quantities(run: &Run, gaps: &mut Texts) -> Vec<Value> {
    let mut all = Vec::new();
    // The load and the clock are in what differs in the method.
    let kept = |group: Group| ![Group::Load, Group::Clock].contains(&group);
    for quantity in QUANTITIES.iter().filter(|quantity| kept(quantity.group)) {
        let found: Vec<_> = run.cases.iter().map(|case| quantity.of(&case.record)).collect();
        if !found.iter().any(|found| matches!(found, Some(Ok(_)))) {
            continue;
        }
        let column = found.into_iter().map(|found| match found {
            None => Value::Null,
            Some(Ok(value)) => json!([short(quantity.id, value, quantity.unit)]),
            Some(Err(gap)) => json!(gaps.place(excerpt(&gap.to_string(), REASON).into_owned())),
        });
        all.push(json!({
            "name": quantity.id,
            "heading": quantity.heading,
            "group": quantity.group.heading(),
            "unit": quantity.unit,
            "of": column.collect::<Vec<_>>(),
        }));
    }
    all
}

fn short(metric: &str, value: f64, unit: &str) -> Value {
    let short = number_with(value, DIGITS);
    let shown = |value| humanise_metric(metric, value, unit);
    match short.as_f64() {
        Some(rounded) if shown(rounded) == shown(value) => short,
        _ => json!(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortened_value_is_shown_as_the_value_itself() {
        let value = 34_486_252.46;
        assert_eq!(short("throughput.samples", value, "1/s"), json!(value));
        assert_eq!(short("throughput.samples", 34_486_252.44, "1/s"), json!(34_486_252.4));
        assert_eq!(short("latency.p50", 1_114.999_999_9, "ns"), json!(1_114.999_999_9));
    }
}
