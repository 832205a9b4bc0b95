//! `host results compare`: what became of each case from one run to another.

use std::collections::BTreeSet;

use host_experiment::{
    CONFIDENCE, Change, Compared, Comparison, Doubt, FALSE_DISCOVERIES, Figure, LATENCY,
    MetricChange, POWER, RATE, Spread, Superiority,
};
use host_record::{Cell, Table};
use host_statistics::Undefined;
use host_store::RunFolder;
use serde_json::{Value, json};

use crate::axes::Common;
use crate::exit::Exit;
use crate::failure::Result;
use crate::printer::Printer;
use crate::table::{self, Column};
use crate::visible;
use host_experiment::units;

/// Compares two runs, and shows the change of each case that both have measured.
pub(crate) fn compare(first: &RunFolder, second: &RunFolder, printer: &Printer) -> Result<Exit> {
    let Comparison { first, second, cases, alone } = host_experiment::compare(first, second)?;
    let document = || {
        json!({
            "first": first,
            "second": second,
            "confidence": CONFIDENCE,
            "false-discovery-rate": FALSE_DISCOVERIES,
            "power": POWER,
            "cases": cases.iter().map(document_of).collect::<Vec<_>>(),
            "in-one-run-only": alone,
        })
    };
    if !printer.machine(document, || rows(&cases)) && !cases.is_empty() {
        let common = Common::of(cases.iter().map(|case| &case.key));
        let heading = common.heading().join(" · ");
        let heading = printer.palette().heading(visible::line(&heading));
        let (drawn, note) = table::fit(columns(&cases, &common), printer.table_width());
        printer.show(format_args!("{heading}\n\n{}", printer.headed(&drawn)));
        if let Some(note) = note {
            printer.status("Left out", note);
        }
        show_others(&cases, &common, printer);
        let remedies: BTreeSet<_> =
            cases.iter().filter_map(|case| remedy(case.main.change)).collect();
        remedies.into_iter().for_each(|remedy| printer.status("To tell", remedy));
        let disturbed = |run: usize| cases.iter().filter(|case| case.disturbed[run]).count();
        if let [first, second] = [disturbed(0), disturbed(1)]
            && first + second > 0
        {
            printer.warning(
                format_args!(
                    "{first} of these cases have warnings about the figure in the first run and {second} in the \
                     second, so a difference may be theirs"
                ),
                Some("`host results show RUN --warnings` has the evidence"),
            );
        }
    }
    if cases.is_empty() {
        printer.warning(
            "the runs have no case in common that both have measured",
            Some("a case has the same id in two runs if model, inputs, options and settings are the same"),
        );
    }
    if alone > 0 {
        let cases = units::count(alone as u64, "case", "cases");
        printer.status("Left out", format_args!("{cases} that only one of the runs has measured"));
    }
    Ok(Exit::Success)
}

/// Shows the metrics that changed besides the main figures.
fn show_others(cases: &[Compared], common: &Common, printer: &Printer) {
    let others = || cases.iter().flat_map(|case| case.others.iter().map(move |one| (case, one)));
    let is_change = |one: &MetricChange| matches!(one.change, Change::Larger | Change::Smaller);
    let changed: Vec<_> = others().filter(|(_, one)| is_change(one)).collect();
    let compared = others().filter(|(_, one)| one.ratio.is_some() || one.is_exact).count();
    let unknown = others().count() - compared;
    if compared == 0 {
        return;
    }
    if !changed.is_empty() {
        let written = |write: &dyn Fn(&Compared, &MetricChange) -> String| {
            changed.iter().map(|(case, one)| write(case, one)).collect()
        };
        let columns = vec![
            Column::new("case", written(&|case, _| common.rest(&case.key))),
            Column::new("metric", written(&|_, one| visible::line(&one.metric).into_owned())),
            Column { right: true, ..Column::new("change", written(&|_, one| change_shown(one))) },
            Column::new("verdict", written(&|_, one| one.verdict().to_owned())),
            Column {
                gives_way: 1,
                ..Column::new("first", written(&|_, one| value_shown(one, &one.before)))
            },
            Column {
                gives_way: 2,
                ..Column::new("second", written(&|_, one| value_shown(one, &one.after)))
            },
        ];
        let heading = printer.palette().heading("Other metrics that changed");
        let (drawn, _) = table::fit(columns, printer.width());
        printer.show(format_args!("\n{heading}\n\n{}", printer.headed(&drawn)));
    }
    let changed = changed.len();
    let unknown = match unknown {
        0 => String::new(),
        some => format!(", and {some} could not be"),
    };
    printer.status(
        "Compared",
        format_args!(
            "{compared} other figures, of which {changed} changed{unknown}; `--format json` has all"
        ),
    );
}

/// Formats a value of a figure for people.
fn shown(of: &MetricChange, value: f64) -> String {
    match &*of.metric {
        RATE => format!("{value:.1}/s"),
        _ => units::metric(&of.metric, value, &of.unit),
    }
}

fn value_shown(of: &MetricChange, figure: &Option<Figure>) -> String {
    figure.as_ref().map_or_else(|| "—".to_owned(), |figure| shown(of, figure.value))
}

/// Formats a change with its interval: `+20.1 % (+4.9 to +37.4 %)`.
fn change_shown(of: &MetricChange) -> String {
    let percent = |ratio: f64| format!("{:+.1}", 100.0 * (ratio - 1.0));
    match (of.ratio, of.part()) {
        (Some(ratio), _) => format!(
            "{} % ({} to {} %)",
            percent(ratio.value),
            percent(ratio.low),
            percent(ratio.high)
        ),
        (None, Some(part)) if of.is_exact => format!("{} % (exact)", percent(1.0 + part)),
        (None, Some(part)) => format!("{} %", percent(1.0 + part)),
        (None, None) => "—".to_owned(),
    }
}

/// Formats the smallest change that could have been found.
fn detectable_shown(of: &MetricChange) -> String {
    of.detectable.map_or_else(|| "—".to_owned(), |ratio| format!("{:+.1} %", 100.0 * (ratio - 1.0)))
}

fn document_of_figure(of: &MetricChange, figure: &Figure) -> Value {
    let [value, interval] = match &*of.metric {
        LATENCY => ["median-ns", "interval-ns"],
        RATE => ["rate-per-second", "interval-per-second"],
        _ => ["value", "interval"],
    };
    json!({
        value: figure.value,
        interval: figure.interval(),
        "interval-over": figure.unit().name(),
        "interval-confidence": figure.confidence,
        "processes": figure.processes.len(),
    })
}

/// Returns what a comparison found, for machines.
fn document_of_change(of: &MetricChange) -> Value {
    let document =
        |figure: &Option<Figure>| figure.as_ref().map(|figure| document_of_figure(of, figure));
    json!({
        "metric": of.metric,
        "unit": of.unit,
        "direction": of.direction.name(),
        "first": document(&of.before),
        "second": document(&of.after),
        "change": of.part(),
        "ratio": of.ratio.map(|ratio| ratio.value),
        "ratio-interval": of.ratio.map(|ratio| (ratio.low, ratio.high)),
        "detectable-ratio": of.detectable,
        "probability": of.ratio.map(|ratio| ratio.probability),
        "false-discovery-rate": of.false_discovery_rate,
        "exact": of.is_exact,
        "verdict": of.verdict(),
        "reason": reason(of.change),
        "remedy": remedy(of.change),
    })
}

/// Returns the reason why the change of a case is unknown.
fn reason(change: Change) -> Option<&'static str> {
    let Change::CannotTell(doubt) = change else { return None };
    Some(match doubt {
        Doubt::OneProcess => "a run of one process",
        Doubt::NoProcessValues => "the metric has no value for each process",
        Doubt::NotFound => "no difference found",
        Doubt::Undefined(Undefined::NoSpread) => "all processes of each run say the same",
        Doubt::Undefined(_) => "a value is not above zero",
        Doubt::NoQueries => "the queries of a run are lost",
        Doubt::Invalid => "a result is invalid",
        Doubt::Simulated => "the device is simulated",
    })
}

/// Returns the remedy for an unknown change.
fn remedy(change: Change) -> Option<&'static str> {
    let Change::CannotTell(doubt) = change else { return None };
    match doubt {
        Doubt::OneProcess => Some(
            "measure both runs with `processes = 5` under [measure]: processes differ by more than \
             the queries of one do, and a single one does not show by how much",
        ),
        Doubt::NotFound => Some(
            "if a smaller change matters than could be seen, measure both runs with more `processes` under \
             [measure], on a quiet machine",
        ),
        _ => None,
    }
}

fn document_of_larger(larger: &Superiority) -> Value {
    json!({
        "of": larger.of.name(),
        "second-larger": larger.part,
        "probability": larger.probability.map(|(probability, _)| probability),
        "least-probability": larger.probability.map(|(_, least)| least),
    })
}

fn larger_shown(larger: Superiority) -> String {
    let percent = 100.0 * larger.part;
    let tested = larger
        .probability
        .map(|(probability, least)| format!(" (p = {probability:.2}, at the least {least:.2})"));
    format!("in {percent:.0} % of {}{}", larger.of.name(), tested.unwrap_or_default())
}

fn document_of(case: &Compared) -> Value {
    let mut document = document_of_change(&case.main);
    document["case"] = json!(case.id);
    document["name"] = json!(case.key.to_string());
    document["mann-whitney"] = json!(case.larger.as_ref().map(document_of_larger));
    document["disturbed"] = json!({ "first": case.disturbed[0], "second": case.disturbed[1] });
    document["metrics"] = case.others.iter().map(document_of_change).collect();
    document
}

fn rows(cases: &[Compared]) -> Table {
    let columns = [
        "case",
        "name",
        "first_ns",
        "first_low_ns",
        "first_high_ns",
        "first_over",
        "second_ns",
        "second_low_ns",
        "second_high_ns",
        "second_over",
        "change",
        "verdict",
        "reason",
        "mann_whitney_of",
        "mann_whitney_probability",
        "mann_whitney_least_probability",
        "second_larger",
        "first_rate",
        "first_rate_low",
        "first_rate_high",
        "second_rate",
        "second_rate_low",
        "second_rate_high",
        "ratio",
        "ratio_low",
        "ratio_high",
        "detectable_ratio",
        "probability",
        "false_discovery_rate",
    ];
    let real = |value: Option<f64>| value.map_or(Cell::Null, Cell::Real);
    let text = |value: Option<&str>| value.map_or(Cell::Null, |text| Cell::Text(text.to_owned()));
    let figure = |case: &Compared, of: &Option<Figure>, metric: &str| {
        let of = of.as_ref().filter(|_| case.main.metric == metric);
        let interval = of.and_then(Figure::interval);
        [
            real(of.map(|figure| figure.value)),
            real(interval.map(|(low, _)| low)),
            real(interval.map(|(_, high)| high)),
        ]
    };
    let over = |of: &Option<Figure>| text(of.as_ref().map(|figure| figure.unit().name()));
    let row = |case: &Compared| {
        let main = &case.main;
        let mut row = vec![Cell::Text(case.id.clone()), Cell::Text(case.key.to_string())];
        for of in [&main.before, &main.after] {
            row.extend(figure(case, of, LATENCY));
            row.push(over(of));
        }
        row.extend([
            real(main.part()),
            text(Some(main.verdict())),
            text(reason(main.change)),
            text(case.larger.map(|larger| larger.of.name())),
            real(case.larger.and_then(|larger| larger.probability).map(|(found, _)| found)),
            real(case.larger.and_then(|larger| larger.probability).map(|(_, least)| least)),
            real(case.larger.map(|larger| larger.part)),
        ]);
        for of in [&main.before, &main.after] {
            row.extend(figure(case, of, RATE));
        }
        row.extend([
            real(main.ratio.map(|ratio| ratio.value)),
            real(main.ratio.map(|ratio| ratio.low)),
            real(main.ratio.map(|ratio| ratio.high)),
            real(main.detectable),
            real(main.ratio.map(|ratio| ratio.probability)),
            real(main.false_discovery_rate),
        ]);
        row
    };
    Table { columns: columns.map(str::to_owned).into(), rows: cases.iter().map(row).collect() }
}

/// Returns the table for people.
fn columns(cases: &[Compared], common: &Common) -> Vec<Column> {
    let written = |write: &dyn Fn(&Compared) -> String| cases.iter().map(write).collect();
    let none = || "—".to_owned();
    let interval = |case: &Compared, of: &Option<Figure>| {
        let Some((figure, (low, high))) = of.as_ref().and_then(|it| Some((it, it.interval()?)))
        else {
            return none();
        };
        let within = match figure.spread {
            Spread::Processes(_) => "",
            Spread::Within(_) => "within: ",
            Spread::Examples(_) => "over examples: ",
        };
        format!("{within}{} to {}", shown(&case.main, low), shown(&case.main, high))
    };
    let right = |heading, gives_way, cells| Column {
        right: true,
        gives_way,
        ..Column::new(heading, cells)
    };
    let rates = cases.iter().filter(|case| case.main.metric == RATE).count();
    let [first, second] = match rates {
        0 => ["first median", "second median"],
        all if all == cases.len() => ["first rate", "second rate"],
        _ => ["first median or rate", "second median or rate"],
    };
    vec![
        Column::new("case", written(&|case| common.rest(&case.key))),
        right(first, 2, written(&|case| value_shown(&case.main, &case.main.before))),
        right(second, 3, written(&|case| value_shown(&case.main, &case.main.after))),
        right("change", 0, written(&|case| change_shown(&case.main))),
        Column::new(
            "verdict",
            written(&|case| match reason(case.main.change) {
                Some(reason) => format!("cannot tell: {reason}"),
                None => case.main.verdict().to_owned(),
            }),
        ),
        right("could be seen", 1, written(&|case| detectable_shown(&case.main))),
        right(
            "false discovery",
            4,
            written(&|case| {
                let rate = case.main.false_discovery_rate;
                rate.map_or_else(none, |rate| format!("{:.1} %", 100.0 * rate))
            }),
        ),
        right("first interval", 6, written(&|case| interval(case, &case.main.before))),
        right("second interval", 5, written(&|case| interval(case, &case.main.after))),
        right("second larger", 7, written(&|case| case.larger.map_or_else(none, larger_shown))),
    ]
}

#[cfg(test)]
mod tests {
    use host_experiment::Unit;
    use host_record::{CaseKey, Direction};
    use host_statistics::ratio;

    use super::*;

    fn case(metric: &str, values: [f64; 2], change: Change) -> Compared {
        let figure = |value| {
            Some(Figure {
                value,
                spread: Spread::Within(Some((value, value + 9.0))),
                confidence: CONFIDENCE,
                processes: vec![value],
            })
        };
        Compared {
            id: "id".into(),
            key: CaseKey {
                model: "m".into(),
                backend: "b".into(),
                device: "d:0".into(),
                precision: host_record::Precision::Fp32,
                batch: 1,
                sequence_length: None,
                mode: host_record::Mode::Inference,
                scenario: host_record::Scenario::SingleStream,
                rate: None,
                clients: None,
            },
            main: MetricChange {
                metric: metric.into(),
                unit: if metric == RATE { "1/s" } else { "ns" }.into(),
                direction: if metric == RATE { Direction::Higher } else { Direction::Lower },
                before: figure(values[0]),
                after: figure(values[1]),
                ratio: None,
                false_discovery_rate: None,
                detectable: None,
                is_exact: false,
                change,
            },
            others: Vec::new(),
            larger: Some(Superiority { part: 1.0, of: Unit::Queries, probability: None }),
            disturbed: [false, false],
        }
    }

    #[test]
    fn the_verdict_is_the_last_to_give_way() {
        let doubt = Change::CannotTell(Doubt::OneProcess);
        let one = case(LATENCY, [1004.0, 3004.0], doubt);
        let common = Common::of([&one.key].into_iter());
        // In the order in which they give way.
        let order = [
            "second larger",
            "first interval",
            "second interval",
            "false discovery",
            "second median",
            "first median",
            "could be seen",
        ];
        let mut fewest = 0;
        for width in [300, 200, 160, 125, 100, 80] {
            let (drawn, note) = table::fit(columns(std::slice::from_ref(&one), &common), width);
            assert!(drawn.contains("cannot tell: a run of one process"), "{width}: {drawn}");
            let gone = note.as_deref().map_or(String::new(), |note| {
                let start = format!("{width} columns have no room for ");
                note.strip_prefix(&start).expect("what is left out").to_owned()
            });
            let gone: Vec<&str> = gone.split(", ").filter(|name| !name.is_empty()).collect();
            assert_eq!(gone, order[..gone.len()], "{width}: {drawn}");
            assert!(gone.len() >= fewest && (width < 300 || gone.is_empty()), "{width}: {gone:?}");
            fewest = gone.len();
        }
        assert!(fewest > 3, "a narrow terminal has no room for all: {fewest}");
        for width in [20, 30, 40, 60] {
            let (drawn, _) = table::fit(columns(std::slice::from_ref(&one), &common), width);
            let words: Vec<&str> = drawn.split_whitespace().collect();
            for word in ["verdict", "cannot", "tell:", "process", "+199.2"] {
                assert!(words.contains(&word), "{width}: {word}: {drawn}");
            }
        }
    }

    #[test]
    fn rates_are_named_as_rates() {
        let faster = case(RATE, [500.0, 900.0], Change::Larger);
        let common = Common::of([&faster.key].into_iter());
        let (drawn, _) = table::fit(columns(std::slice::from_ref(&faster), &common), 200);
        for shown in ["first rate", "second rate", "500.0/s", "900.0/s", "+80.0 %", "faster"] {
            assert!(drawn.contains(shown), "{shown}: {drawn}");
        }
        let document = document_of(&faster);
        assert_eq!(document["second"]["rate-per-second"], 900.0);
        assert!(document["second"].get("median-ns").is_none(), "{document}");
        let Table { columns, rows } = rows(&[faster]);
        let cell = |name| {
            let place = columns.iter().position(|column| column == name).expect("a column");
            rows[0][place].clone()
        };
        assert_eq!([cell("first_ns"), cell("second_rate")], [Cell::Null, Cell::Real(900.0)]);
    }

    #[test]
    fn what_cannot_be_told_has_a_reason_and_may_have_a_remedy() {
        let doubt = |doubt| Change::CannotTell(doubt);
        let one = remedy(doubt(Doubt::OneProcess));
        assert!(one.is_some_and(|remedy| remedy.contains("`processes = 5`")));
        let none = doubt(Doubt::NotFound);
        assert_eq!(reason(none), Some("no difference found"));
        assert!(remedy(none).is_some());
        let same = doubt(Doubt::Undefined(Undefined::NoSpread));
        assert_eq!(reason(same), Some("all processes of each run say the same"));
        assert_eq!(reason(doubt(Doubt::Simulated)), Some("the device is simulated"));
        assert_eq!((reason(Change::Larger), remedy(Change::Larger)), (None, None));
    }

    #[test]
    fn a_ratio_is_shown_with_its_interval_and_what_could_be_seen() {
        let found = ratio(&[1.0, 1.1, 1.2], &[2.0, 2.6, 2.1, 2.4], CONFIDENCE).expect("a ratio");
        let one = case(LATENCY, [1.1, 2.275], Change::Larger).main;
        let (ratio, detectable) = (Some(found), Some(found.detectable(POWER, 1)));
        let one = MetricChange { ratio, detectable, false_discovery_rate: Some(0.003), ..one };
        assert_eq!(change_shown(&one), "+106.3 % (+67.9 to +153.4 %)");
        assert!(detectable_shown(&one).ends_with(" %"), "{}", detectable_shown(&one));
        let document = document_of_change(&one);
        assert_eq!(document["ratio"], found.value);
        assert_eq!(document["ratio-interval"][1], found.high);
        assert_eq!(document["false-discovery-rate"], 0.003);
        assert_eq!(
            (&document["verdict"], &document["metric"]),
            (&json!("slower"), &json!(LATENCY))
        );
    }

    #[test]
    fn how_often_the_second_is_larger_says_what_was_tested() {
        let larger =
            Superiority { part: 1.0, of: Unit::Processes, probability: Some((0.008, 0.008)) };
        assert_eq!(larger_shown(larger), "in 100 % of processes (p = 0.01, at the least 0.01)");
        let larger = Superiority { part: 1.0, of: Unit::Queries, probability: None };
        assert_eq!(larger_shown(larger), "in 100 % of queries");
    }
}
