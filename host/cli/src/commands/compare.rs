//! `host compare`: what became of each case from one run to another.

use host_experiment::{
    CONFIDENCE, Change, Compared, Comparison, FALSE_DISCOVERIES, Figure, LATENCY, MetricChange,
    POWER, RATE, RunFigures, Settings, between as sides_of, compare as compared,
};
use host_record::{Cell, Table};
use host_store::ResultsFolder;
use serde_json::{Value, json};

use crate::arguments::CompareArguments;
use crate::axes::Common;
use crate::changes::{
    change_shown, conditions_document, document_of_change, doubt_shown, figure_shown, most,
    percent, remedy, show_conditions, value_shown, verdict_shown,
};
use crate::exit::Exit;
use crate::failure::Result;
use crate::printer::Printer;
use crate::table::{self, Column};
use crate::visible;
use host_experiment::units;

/// Compares two runs or baselines, and shows the change of each case that both have measured.
pub(crate) fn compare(
    arguments: &CompareArguments,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit> {
    let results = ResultsFolder::new(settings.results(None));
    let CompareArguments { first, second, between, efficiency, margin } = arguments;
    let second = second.as_deref().unwrap_or(if between.is_some() { first } else { "latest" });
    let [mut before, mut after] = RunFigures::find_both([first, second], &results)?;
    if let Some(sides) = between {
        let took_turns = before.took_turns();
        [before, after] = sides_of(&before, &after, sides)?;
        let names = [&sides.first, &sides.second].map(|value| visible::line(value).into_owned());
        let [first, second] = names;
        printer.status("Between", format_args!("first: {} {first}, second: {second}", sides.axis));
        if before.run == after.run && took_turns == Some(false) {
            printer.warning(
                "the cases of the two sides were measured one after the other, so a machine that drifted meanwhile is a \
                 difference between them",
                Some("measure with `order = \"interleaved\"` under [measure]"),
            );
        }
    }
    let comparison = compared(&before, &after, *margin);
    if !printer.machine(|| document(&comparison, *margin), || rows(&comparison.cases)) {
        show(&comparison, *margin, *efficiency || between.is_some(), printer);
    }
    if comparison.cases.is_empty() {
        printer.warning(
            "the runs have no case in common that both have measured",
            Some(
                "cases are matched by their definition, or else by model, backend, device, precision, batch, sequence \
                 length, mode and scenario",
            ),
        );
    }
    if comparison.alone > 0 {
        let cases = units::count(comparison.alone as u64, "case", "cases");
        printer.status("Left out", format_args!("{cases} that only one of the runs has measured"));
    }
    Ok(Exit::Success)
}

fn document(comparison: &Comparison, margin: f64) -> Value {
    let Comparison { first, second, conditions, cases, alone, speed_up } = comparison;
    let case = |case: &Compared| {
        let mut document = document_of_change(&case.main, margin);
        document["case"] = json!(case.id);
        document["name"] = json!(case.key.to_string());
        document["redefined"] = json!(case.is_redefined);
        document["disturbed"] = json!({ "first": case.disturbed[0], "second": case.disturbed[1] });
        document["metrics"] =
            case.others.iter().map(|change| document_of_change(change, margin)).collect();
        document["efficiency"] =
            case.efficiency.iter().map(|change| document_of_change(change, margin)).collect();
        document
    };
    json!({
        "first": first.run,
        "first-commit": first.commit,
        "second": second.run,
        "second-commit": second.commit,
        "confidence": CONFIDENCE,
        "false-discovery-rate": FALSE_DISCOVERIES,
        "power": POWER,
        "margin": margin,
        "conditions": conditions_document(conditions),
        "speed-up": speed_up.map(|(ratio, cases)| json!({
            "geometric-mean": ratio.value, "interval": [ratio.low, ratio.high], "cases": cases,
        })),
        "cases": cases.iter().map(case).collect::<Vec<_>>(),
        "in-one-run-only": alone,
    })
}

fn show(comparison: &Comparison, margin: f64, shows_efficiency: bool, printer: &Printer) {
    let cases = comparison.cases.as_slice();
    show_conditions(&comparison.conditions, printer);
    if cases.is_empty() {
        return;
    }
    let common = Common::of(cases.iter().map(|case| &case.key));
    let heading = common.heading().join(" · ");
    let heading = printer.palette().heading(visible::line(&heading));
    let (drawn, note) = table::fit(columns(cases, &common, margin), printer.table_width());
    let gap = if comparison.conditions.is_empty() { "" } else { "\n" };
    printer.show(format_args!("{gap}{heading}\n\n{}", printer.headed(&drawn)));
    if let Some(note) = note {
        printer.status("Left out", note);
    }
    show_others(cases, &common, margin, printer);
    if shows_efficiency {
        show_efficiency(cases, &common, margin, printer);
    }
    if let Some((ratio, count)) = &comparison.speed_up {
        let cases = units::count(*count as u64, "case", "cases");
        printer.status(
            "Speed-up",
            format_args!(
                "the second run is {:.3} times as fast ({:.3} to {:.3}), by the geometric mean over {cases}",
                ratio.value, ratio.low, ratio.high
            ),
        );
    }
    if let Some(needed) = cases.iter().filter_map(|case| case.main.needed(margin)).reduce(most) {
        printer
            .status("To tell", format_args!("a change of {}, {}", percent(margin), remedy(needed)));
    }
    warn(cases, printer);
}

/// Warns of what may be taken for a change.
fn warn(cases: &[Compared], printer: &Printer) {
    let redefined = cases.iter().filter(|case| case.is_redefined).count();
    if redefined > 0 {
        printer.warning(
            format_args!(
                "{redefined} of these cases are defined in another way in the second run: another model, other inputs, \
                 options or settings"
            ),
            Some("they were matched by their coordinates; compare the manifests of the two runs"),
        );
    }
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

/// Shows the metrics that changed besides the main figures.
fn show_others(cases: &[Compared], common: &Common, margin: f64, printer: &Printer) {
    let others = || cases.iter().flat_map(|case| case.others.iter().map(move |one| (case, one)));
    let is_change = |one: &MetricChange| matches!(one.change, Change::Larger | Change::Smaller);
    let changed: Vec<_> = others().filter(|(_, one)| is_change(one)).collect();
    let compared = others().filter(|(_, one)| one.ratio.is_some() || one.is_exact).count();
    let unknown = others().count() - compared;
    if compared == 0 {
        return;
    }
    show_changes("Other metrics that changed", &changed, common, margin, printer);
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

/// Shows samples for each joule, gigabyte and unit of price.
fn show_efficiency(cases: &[Compared], common: &Common, margin: f64, printer: &Printer) {
    let all: Vec<(&Compared, &MetricChange)> =
        cases.iter().flat_map(|case| case.efficiency.iter().map(move |one| (case, one))).collect();
    show_changes("Efficiency", &all, common, margin, printer);
    if all.is_empty() {
        printer.status(
            "Efficiency",
            "unknown: it needs energy or memory and throughput of both sides, or a `[[price]]` in the manifest",
        );
    }
}

/// Shows changes of figures as a table.
fn show_changes(
    heading: &str,
    changes: &[(&Compared, &MetricChange)],
    common: &Common,
    margin: f64,
    printer: &Printer,
) {
    if changes.is_empty() {
        return;
    }
    let written = |write: &dyn Fn(&Compared, &MetricChange) -> String| {
        changes.iter().map(|(case, one)| write(case, one)).collect()
    };
    let columns = vec![
        Column::new("case", written(&|case, _| common.rest(&case.key))),
        Column::new("metric", written(&|_, one| visible::line(&one.metric).into_owned())),
        Column { right: true, ..Column::new("change", written(&|_, one| change_shown(one))) },
        Column::new("verdict", written(&|_, one| verdict_shown(one, margin))),
        Column {
            gives_way: 1,
            ..Column::new("first", written(&|_, one| figure_shown(one.before.as_ref())))
        },
        Column {
            gives_way: 2,
            ..Column::new("second", written(&|_, one| figure_shown(one.after.as_ref())))
        },
    ];
    let heading = printer.palette().heading(heading);
    let (drawn, _) = table::fit(columns, printer.width());
    printer.show(format_args!("\n{heading}\n\n{}", printer.headed(&drawn)));
}

/// Formats the smallest change that could have been found.
fn detectable_shown(of: &MetricChange) -> String {
    let shown = |ratio: f64| format!("{:+.1} %", 100.0 * (ratio - 1.0));
    of.detectable().map_or_else(|| "—".to_owned(), shown)
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
        "redefined",
    ];
    let real = |value: Option<f64>| value.map_or(Cell::Null, Cell::Real);
    let text = |value: Option<&str>| value.map_or(Cell::Null, |text| Cell::Text(text.to_owned()));
    let figure = |of: &Option<Figure>, metric: &str| {
        let of = of.as_ref().filter(|figure| figure.metric == metric);
        let interval = of.and_then(|figure| figure.interval().ok().flatten());
        [
            real(of.map(|figure| figure.value)),
            real(interval.map(|(low, _)| low)),
            real(interval.map(|(_, high)| high)),
        ]
    };
    let over =
        |of: &Option<Figure>| text(of.as_ref().map(|figure| figure.unit_of_interval().name()));
    let row = |case: &Compared| {
        let main = &case.main;
        let mut row = vec![Cell::Text(case.id.clone()), Cell::Text(case.key.to_string())];
        for of in [&main.before, &main.after] {
            row.extend(figure(of, LATENCY));
            row.push(over(of));
        }
        row.extend([
            real(main.part()),
            text(Some(main.verdict())),
            text(match main.change {
                Change::CannotTell(doubt) => Some(doubt_shown(doubt)),
                _ => None,
            }),
        ]);
        for of in [&main.before, &main.after] {
            row.extend(figure(of, RATE));
        }
        row.extend([
            real(main.ratio.map(|ratio| ratio.value)),
            real(main.ratio.map(|ratio| ratio.low)),
            real(main.ratio.map(|ratio| ratio.high)),
            real(main.detectable()),
            real(main.ratio.map(|ratio| ratio.probability)),
            real(main.false_discovery_rate),
            Cell::Boolean(case.is_redefined),
        ]);
        row
    };
    Table { columns: columns.map(str::to_owned).into(), rows: cases.iter().map(row).collect() }
}

/// Returns the table for people.
fn columns(cases: &[Compared], common: &Common, margin: f64) -> Vec<Column> {
    let written = |write: &dyn Fn(&Compared) -> String| cases.iter().map(write).collect();
    let none = || "—".to_owned();
    let interval = |of: &Option<Figure>| {
        let Some((figure, (low, high))) =
            of.as_ref().and_then(|it| Some((it, it.interval().ok()??)))
        else {
            return none();
        };
        let within = if figure.processes.len() > 1 { "" } else { "within: " };
        let shown = |value| value_shown(&figure.metric, value, &figure.unit);
        format!("{within}{} to {}", shown(low), shown(high))
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
        right(first, 2, written(&|case| figure_shown(case.main.before.as_ref()))),
        right(second, 3, written(&|case| figure_shown(case.main.after.as_ref()))),
        right("change", 0, written(&|case| change_shown(&case.main))),
        Column::new("verdict", written(&|case| verdict_shown(&case.main, margin))),
        right("could be seen", 1, written(&|case| detectable_shown(&case.main))),
        right(
            "false discovery",
            4,
            written(&|case| {
                let rate = case.main.false_discovery_rate;
                rate.map_or_else(none, |rate| format!("{:.1} %", 100.0 * rate))
            }),
        ),
        right("first interval", 6, written(&|case| interval(&case.main.before))),
        right("second interval", 5, written(&|case| interval(&case.main.after))),
    ]
}

#[cfg(test)]
mod tests {
    use host_experiment::{Doubt, Needed};
    use host_record::{CaseKey, Direction};
    use host_statistics::{Undefined, ratio};

    use super::*;

    fn case(metric: &str, values: [f64; 2], change: Change) -> Compared {
        let unit = if metric == RATE { "1/s" } else { "ns" };
        let direction = if metric == RATE { Direction::Higher } else { Direction::Lower };
        let figure = |value| {
            Some(Figure {
                metric: metric.into(),
                unit: unit.into(),
                direction,
                value,
                processes: vec![value],
                interval: Some((value, value + 9.0)),
                confidence: CONFIDENCE,
                outcomes: None,
            })
        };
        Compared {
            id: "id".into(),
            key: CaseKey::new("m", "b", "d:0"),
            is_redefined: false,
            main: MetricChange {
                metric: metric.into(),
                unit: unit.into(),
                direction,
                before: figure(values[0]),
                after: figure(values[1]),
                ratio: None,
                false_discovery_rate: None,
                comparisons: 0,
                is_exact: false,
                paired: None,
                change,
            },
            others: Vec::new(),
            efficiency: Vec::new(),
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
            "first interval",
            "second interval",
            "false discovery",
            "second median",
            "first median",
            "could be seen",
        ];
        let mut fewest = 0;
        for width in [300, 200, 160, 125, 100, 80] {
            let (drawn, note) =
                table::fit(columns(std::slice::from_ref(&one), &common, 0.05), width);
            assert!(drawn.contains("cannot tell: needs 5 processes"), "{width}: {drawn}");
            let gone = note.as_deref().map_or(String::new(), |note| {
                let start = format!("{width} columns have no room for ");
                note.strip_prefix(&start).expect("what is left out").to_owned()
            });
            let gone: Vec<&str> = gone.split(", ").filter(|name| !name.is_empty()).collect();
            assert_eq!(gone, order[..gone.len()], "{width}: {drawn}");
            assert!(gone.len() >= fewest && (width < 300 || gone.is_empty()), "{width}: {gone:?}");
            fewest = gone.len();
        }
        assert!(fewest > 2, "a narrow terminal has no room for all: {fewest}");
        for width in [20, 30, 40, 60] {
            let (drawn, _) = table::fit(columns(std::slice::from_ref(&one), &common, 0.05), width);
            let words: Vec<&str> = drawn.split_whitespace().collect();
            for word in ["verdict", "cannot", "tell:", "processes", "+199.2"] {
                assert!(words.contains(&word), "{width}: {word}: {drawn}");
            }
        }
    }

    #[test]
    fn rates_are_named_as_rates() {
        let faster = case(RATE, [500.0, 900.0], Change::Larger);
        let common = Common::of([&faster.key].into_iter());
        let (drawn, _) = table::fit(columns(std::slice::from_ref(&faster), &common, 0.05), 200);
        for shown in ["first rate", "second rate", "500.0/s", "900.0/s", "+80.0 %", "faster"] {
            assert!(drawn.contains(shown), "{shown}: {drawn}");
        }
        let document = document_of_change(&faster.main, 0.05);
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
        let of = |change| case(LATENCY, [1.0, 2.0], change).main;
        let one = of(Change::CannotTell(Doubt::OneProcess));
        assert_eq!(one.needed(0.05), Some(Needed::Processes(5)));
        let document = document_of_change(&one, 0.05);
        assert_eq!(
            (&document["reason"], &document["needed-processes"]),
            (&json!("a run of one process"), &json!(5))
        );
        assert!(document["remedy"].as_str().is_some_and(|text| text.contains("`processes = 5`")));
        let same = of(Change::CannotTell(Doubt::Undefined(Undefined::NoSpread)));
        let shown = verdict_shown(&same, 0.05);
        assert_eq!(shown, "cannot tell: all processes of each run say the same");
        let simulated = of(Change::CannotTell(Doubt::Simulated));
        assert_eq!(verdict_shown(&simulated, 0.05), "cannot tell: the device is simulated");
        assert_eq!(document_of_change(&of(Change::Larger), 0.05)["remedy"], Value::Null);
        assert_eq!(verdict_shown(&of(Change::Larger), 0.05), "slower");
        // A bound is not rounded down.
        assert_eq!(verdict_shown(&of(Change::Within(0.03201)), 0.05), "same within 3.3 %");
    }

    #[test]
    fn a_ratio_is_shown_with_its_interval_and_what_could_be_seen() {
        let found = ratio(&[1.0, 1.1, 1.2], &[2.0, 2.6, 2.1, 2.4], CONFIDENCE).expect("a ratio");
        let one = case(LATENCY, [1.1, 2.275], Change::Larger).main;
        let (ratio, false_discovery_rate) = (Some(found), Some(0.003));
        let one = MetricChange { ratio, false_discovery_rate, comparisons: 1, ..one };
        assert_eq!(change_shown(&one), "+106.3 % (+67.9 to +153.4 %)");
        assert!(detectable_shown(&one).ends_with(" %"), "{}", detectable_shown(&one));
        let document = document_of_change(&one, 0.05);
        assert_eq!(document["ratio"], found.value);
        assert_eq!(document["ratio-interval"][1], found.high);
        assert_eq!(document["false-discovery-rate"], 0.003);
        assert_eq!(
            (&document["verdict"], &document["metric"]),
            (&json!("slower"), &json!(LATENCY))
        );
    }
}
