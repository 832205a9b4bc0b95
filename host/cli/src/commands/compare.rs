//! `host results compare`: what became of each case from one run to another.

use std::collections::BTreeSet;

use host_experiment::{
    CONFIDENCE, Change, Compared, Comparison, Doubt, Figure, Quantity, Spread, Superiority,
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
        let remedies: BTreeSet<_> = cases.iter().filter_map(|case| remedy(case.change)).collect();
        remedies.into_iter().for_each(|remedy| printer.status("To tell", remedy));
        let disturbed = |run: usize| cases.iter().filter(|case| case.disturbed[run]).count();
        if let [first, second] = [disturbed(0), disturbed(1)]
            && first + second > 0
        {
            printer.warning(
                format_args!(
                    "other work or heat disturbed {first} of these cases in the first run and {second} in the \
                     second, so a difference may be theirs"
                ),
                Some("measure both on a quiet machine; `host results show RUN` has the evidence"),
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

/// Formats a value of a figure's quantity for people.
fn shown(figure: &Figure, value: f64) -> String {
    match figure.quantity {
        Quantity::Latency => units::duration(value),
        Quantity::Rate => format!("{value:.1}/s"),
    }
}

fn document_of_figure(figure: &Figure) -> Value {
    let [value, interval] = match figure.quantity {
        Quantity::Latency => ["median-ns", "interval-ns"],
        Quantity::Rate => ["rate-per-second", "interval-per-second"],
    };
    json!({
        value: figure.value,
        interval: figure.interval(),
        "interval-over": figure.unit().name(),
        "processes": figure.processes,
    })
}

/// Returns the reason why the change of a case is unknown.
fn reason(change: Change) -> Option<&'static str> {
    let Change::CannotTell(doubt) = change else { return None };
    Some(match doubt {
        Doubt::OneProcess => "a run of one process",
        Doubt::Overlap => "the intervals overlap",
        Doubt::NoInterval(Undefined::NoSpread) => "all processes of a run say the same",
        Doubt::NoInterval(_) => "processes of a run differ too much",
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
        Doubt::NoInterval(Undefined::BelowZero) => {
            Some("measure both runs with more `processes` under [measure], on a quiet machine")
        }
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
    json!({
        "case": case.id,
        "name": case.key.to_string(),
        "first": case.before.as_ref().map(document_of_figure),
        "second": case.after.as_ref().map(document_of_figure),
        "change": case.part(),
        "verdict": case.change.name(),
        "reason": reason(case.change),
        "remedy": remedy(case.change),
        "mann-whitney": case.larger.as_ref().map(document_of_larger),
        "disturbed": { "first": case.disturbed[0], "second": case.disturbed[1] },
    })
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
    ];
    let real = |value: Option<f64>| value.map_or(Cell::Null, Cell::Real);
    let text = |value: Option<&str>| value.map_or(Cell::Null, |text| Cell::Text(text.to_owned()));
    let figure = |of: &Option<Figure>, quantity: Quantity| {
        let of = of.as_ref().filter(|figure| figure.quantity == quantity);
        let interval = of.and_then(Figure::interval);
        [
            real(of.map(|figure| figure.value)),
            real(interval.map(|(low, _)| low)),
            real(interval.map(|(_, high)| high)),
        ]
    };
    let over = |of: &Option<Figure>| text(of.as_ref().map(|figure| figure.unit().name()));
    let row = |case: &Compared| {
        let mut row = vec![Cell::Text(case.id.clone()), Cell::Text(case.key.to_string())];
        for of in [&case.before, &case.after] {
            row.extend(figure(of, Quantity::Latency));
            row.push(over(of));
        }
        row.extend([
            real(case.part()),
            text(Some(case.change.name())),
            text(reason(case.change)),
            text(case.larger.map(|larger| larger.of.name())),
            real(case.larger.and_then(|larger| larger.probability).map(|(found, _)| found)),
            real(case.larger.and_then(|larger| larger.probability).map(|(_, least)| least)),
            real(case.larger.map(|larger| larger.part)),
        ]);
        for of in [&case.before, &case.after] {
            row.extend(figure(of, Quantity::Rate));
        }
        row
    };
    Table { columns: columns.map(str::to_owned).into(), rows: cases.iter().map(row).collect() }
}

/// Returns the table for people.
fn columns(cases: &[Compared], common: &Common) -> Vec<Column> {
    let written = |write: &dyn Fn(&Compared) -> String| cases.iter().map(write).collect();
    let none = || "—".to_owned();
    let figure =
        |of: &Option<Figure>| of.as_ref().map_or_else(none, |figure| shown(figure, figure.value));
    let interval = |of: &Option<Figure>| {
        let Some((figure, (low, high))) = of.as_ref().and_then(|it| Some((it, it.interval()?)))
        else {
            return none();
        };
        let within = match figure.spread {
            Spread::Processes(_) => "",
            Spread::Within(_) => "within: ",
        };
        format!("{within}{} to {}", shown(figure, low), shown(figure, high))
    };
    let right = |heading, gives_way, cells| Column {
        right: true,
        gives_way,
        ..Column::new(heading, cells)
    };
    let is_rate = |of: &Option<Figure>| of.as_ref().is_some_and(|it| it.quantity == Quantity::Rate);
    let rates = cases.iter().filter(|case| is_rate(&case.before)).count();
    let [first, second] = match rates {
        0 => ["first median", "second median"],
        all if all == cases.len() => ["first rate", "second rate"],
        _ => ["first median or rate", "second median or rate"],
    };
    vec![
        Column::new("case", written(&|case| common.rest(&case.key))),
        right(first, 1, written(&|case| figure(&case.before))),
        right(second, 2, written(&|case| figure(&case.after))),
        right(
            "change",
            0,
            written(&|case| {
                case.part().map_or("—".to_owned(), |part| format!("{:+.1} %", 100.0 * part))
            }),
        ),
        Column::new(
            "verdict",
            written(&|case| match reason(case.change) {
                Some(reason) => format!("cannot tell: {reason}"),
                None => case.change.name().to_owned(),
            }),
        ),
        right("first interval", 4, written(&|case| interval(&case.before))),
        right("second interval", 3, written(&|case| interval(&case.after))),
        right("second larger", 5, written(&|case| case.larger.map_or_else(none, larger_shown))),
    ]
}

#[cfg(test)]
mod tests {
    use host_experiment::Unit;
    use host_record::CaseKey;

    use super::*;

    fn case(quantity: Quantity, values: [f64; 2], change: Change) -> Compared {
        let figure = |value| {
            Some(Figure {
                quantity,
                value,
                spread: Spread::Within(Some((value, value + 9.0))),
                processes: 1,
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
            before: figure(values[0]),
            after: figure(values[1]),
            change,
            larger: Some(Superiority { part: 1.0, of: Unit::Queries, probability: None }),
            disturbed: [false, false],
        }
    }

    #[test]
    fn the_verdict_is_the_last_to_give_way() {
        let doubt = Change::CannotTell(Doubt::OneProcess);
        let one = case(Quantity::Latency, [1004.0, 3004.0], doubt);
        let common = Common::of([&one.key].into_iter());
        for (width, gone) in [
            (200, None),
            (160, Some("second larger")),
            (125, Some("second larger, first interval")),
            (100, Some("second larger, first interval, second interval")),
            (
                80,
                Some("second larger, first interval, second interval, second median, first median"),
            ),
        ] {
            let (drawn, note) = table::fit(columns(std::slice::from_ref(&one), &common), width);
            assert!(drawn.contains("cannot tell: a run of one process"), "{width}: {drawn}");
            let gone = gone.map(|gone| format!("{width} columns have no room for {gone}"));
            assert_eq!(note, gone, "{drawn}");
        }
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
        let faster = case(Quantity::Rate, [500.0, 900.0], Change::Faster);
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
        let wide = doubt(Doubt::NoInterval(Undefined::BelowZero));
        assert_eq!(reason(wide), Some("processes of a run differ too much"));
        assert!(remedy(wide).is_some());
        let same = doubt(Doubt::NoInterval(Undefined::NoSpread));
        assert_eq!(reason(same), Some("all processes of a run say the same"));
        assert_eq!(reason(doubt(Doubt::Simulated)), Some("the device is simulated"));
        assert_eq!((reason(Change::Slower), remedy(Change::Slower)), (None, None));
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
