//! The page: its contents, and their order.

use std::collections::{BTreeMap, BTreeSet};

use host_page::{Cell, Column, Figure, Page, Row, Scripts, Section, Table, anchor as anchor_of};
use maud::{Markup, html};
use report_common::host_record::{Measured, Parity, by_kind};
use report_common::{
    Advice, Axis, Case, Coordinate, Drawing, Group, INPUT_HEADINGS, Labels, Outcome,
    PARITY_HEADINGS, QUANTITIES, Quantity, REASON, Run, Scenario, SummaryCell, Warning, class,
    excerpt, humanise, humanise_interval, humanise_metric, inputs, parity_figures, summary_columns,
};

use crate::data::{RESULTS, data, place_of_kind};
use crate::{pairs, profile};

/// Cases up to which each has its rows in all tables. Of more, scripts show them.
const MOST_IN_TABLES: usize = 60;

/// Limit on the lines of an explanation after the first that are shown initially.
const MAXIMUM_LINES: usize = 5;

/// Limit on the lines of an explanation.
const MOST_LINES: usize = 10;

/// Pieces of advice up to which all are shown with their figures.
const FEW_PIECES: usize = 4;

/// Limit on the pieces of advice that are shown initially.
const MOST_PIECES: usize = 6;

/// Limit on the characters of a reason in a table's row; more is shown below the table.
const IN_ROW: usize = 300;

/// Limit on the cases that are named beside advice, warnings and gaps.
const MAXIMUM_LINKS: usize = 4;

/// Limit on the warnings of a kind that are listed, the gravest first.
const MAXIMUM_OF_KIND: usize = 5;

pub(crate) fn page(run: &Run) -> Markup {
    let drawing = Drawing::new(run);
    let labels = drawing.labels();
    let charts: [(&str, &str, &str, Vec<Figure>); 9] = [
        ("distribution", "Latency distribution", DISTRIBUTION, drawing.distributions()),
        ("batch", "Against batch size", BATCH, drawing.batches()),
        ("trade", "Throughput against latency", TRADE, drawing.trades()),
        ("hardware", "Hardware", HARDWARE, drawing.hardware()),
        ("architecture", "Architectures", ARCHITECTURE, drawing.architectures()),
        ("roofline", "Roofline", ROOFLINE, drawing.rooflines()),
        ("training", "Training", TRAINING, drawing.training()),
        ("timeline", "Over the time of a case", TIMELINE, drawing.timelines()),
        ("history", "Over runs", HISTORY, drawing.histories()),
    ];
    let mut sections: Vec<Section> = Vec::new();
    let mut add = |id, heading, content: Option<Markup>| {
        sections.extend(content.map(|content| Section::new(id, heading, content)));
    };
    add("results", "Results", results(run, labels));
    add("pairs", "Pairs", pairs::section(run, labels));
    add("recommendations", "Recommendations", recommendations(run, &drawing));
    for (id, heading, words, figures) in &charts {
        let content =
            html! { p { (words) @if *id == "distribution" { (left_out(run)) } } (draw(figures)) };
        add(id, heading, (!figures.is_empty()).then_some(content));
    }
    add("profile", "Where the time goes", profile::section(run, labels));
    add("warnings", "Warnings", warnings(run, &drawing));
    add("missing", "Not measured", missing(run, &drawing));
    add("parity", "Outputs compared with the reference's", parity(run, labels));
    add("inputs", "Inputs", used_inputs(run));
    add("method", "How it was measured", method(run, labels));
    add("values", "All values", values(run, labels));
    add("machine", "Machine", machine(run));
    add("plugins", "Plugins", plugins(run));
    let all: Vec<&Figure> = charts.iter().flat_map(|(.., figures)| figures).collect();
    let page = Page {
        title: &run.experiment,
        header: html! { (header(run)) (glance(run, &drawing)) },
        sections,
        footer: html! {
            "Written by the report plugin html " (env!("CARGO_PKG_VERSION")) " for Tare " (run.host_version)
            ". This file is self-contained: it loads nothing and sends nothing. Charts are drawn by Apache ECharts."
        },
        data: data(run, labels, &all),
        scripts: Scripts::Inside,
    };
    page.draw()
}

const DISTRIBUTION: &str = "How long a query takes, from the fastest to the slowest. Every step to the right leaves a tenth as many queries above: the flatter a line stays, the steadier the case. Points mark the stated percentiles, bars their intervals, and each line ends with its sample.";
const BATCH: &str = "Latency is that of single-stream queries, one batch each. Throughput is offline solid, single-stream dashed. Bars are intervals.";
const TRADE: &str = "Up and to the left is better. The dashed line joins what nothing else beats in both. Both figures of a point are of the same single-stream case, so that they can be had at once. Numbers are batch sizes; a ring marks what is recommended.";
const HARDWARE: &str = "The best that each backend reaches, over all batch sizes and loads. Two bars can be of different batch sizes: the values name their cases.";
const ARCHITECTURE: &str =
    "The best that each model reaches on each backend, over all batch sizes and loads.";
const ROOFLINE: &str = "A case computes at most what the line allows: on its slope the memory is the limit, on its level part the arithmetic units are. The intensity counts the fewest bytes that a pass can move, so a case that moves more lies too far to the right. A case above the slope keeps its data in caches.";
const TRAINING: &str = "A measured step waits for the device after each of its phases, in this order. The step without marks is timed apart, in turns with marked ones; it is the cost of training as it usually runs.";
const TIMELINE: &str = "The first process of a case, from its warm-up on, in parts of equal time: the median of a part solid, its slowest query dashed. A level that changes, or a clock that falls, is a reason to distrust the case. Cases with more than five million queries are left out.";
const HISTORY: &str = "The main figure of each case in this run and in earlier ones of the same experiment on the same machine. Rings mark where a change was found.";

/// Says that offline cases are not drawn, if others are.
fn left_out(run: &Run) -> &'static str {
    let is_offline = |case: &&Case| case.key.scenario == Scenario::Offline;
    let finished = || run.cases.iter().filter(|case| case.is_finished());
    match finished().any(|case| is_offline(&case)) && !finished().all(|case| is_offline(&case)) {
        true => " Offline cases are left out, since their query is many batches at once.",
        false => "",
    }
}

/// Draws the figures of a section, and says which are left out without scripts.
fn draw(figures: &[Figure]) -> Markup {
    let left = figures.iter().filter(|figure| !figure.is_static).count();
    html! {
        @for figure in figures { (figure.draw()) }
        @if left > 0 { p.quiet.unscripted { (left) " more figures need scripts; the tables have their values." } }
    }
}

fn header(run: &Run) -> Markup {
    let count = |wanted: fn(&Outcome) -> bool| {
        run.cases.iter().filter(|case| wanted(&case.record.outcome)).count()
    };
    let finished = count(|outcome| matches!(outcome, Outcome::Finished(_)));
    let failed = count(|outcome| matches!(outcome, Outcome::Failed { .. }));
    let gaps = count(|outcome| matches!(outcome, Outcome::Gap { .. }));
    html! {
        header {
            p.eyebrow { "Benchmark report" }
            h1 { (run.experiment) }
            @if !run.description.is_empty() { p.lead { (run.description) } }
            dl {
                dt { "Measured" } dd {
                    (run.started())
                    @if run.finished_at.is_none() { " · " span.tag { "not finished" } }
                }
                dt { "Machine" } dd { (run.machine()) }
                dt { "Cases" } dd {
                    (finished) " finished"
                    @if failed > 0 { " · " (failed) " failed" }
                    @if gaps > 0 { " · " (gaps) " not possible here" }
                }
                dt { "Host" } dd { "Tare " (run.host_version) }
                @if let Some(commit) = &run.git_commit { dt { "Commit" } dd.mono { (commit) } }
                dt { "Run" } dd.mono { (run.id) }
            }
        }
    }
}

/// Returns the anchor of a case: an identifier for any id.
fn anchor(case: &Case) -> String {
    anchor_of("case", &case.id)
}

fn link(case: &Case, labels: &Labels) -> Markup {
    html! { a href={ "#" (anchor(case)) } { (labels.label(case)) } }
}

/// Names a few cases, or counts many; scripts show these in the table.
fn links(cases: &[&Case], drawing: &Drawing<'_>) -> Markup {
    if cases.len() > MAXIMUM_LINKS {
        let places: Vec<String> =
            cases.iter().filter_map(|case| Some(drawing.place(&case.id)?.to_string())).collect();
        return html! {
            (cases.len()) " cases "
            button.link type="button" hidden data-cases=(places.join(" ")) { "show them in the table" }
        };
    }
    html! {
        @for (index, case) in cases.iter().enumerate() {
            @if index > 0 { "; " }
            (link(case, drawing.labels()))
        }
    }
}

/// Returns what a reader wants to know first: what was asked, what to choose, and what to distrust.
fn glance(run: &Run, drawing: &Drawing<'_>) -> Markup {
    html! {
        div.glance {
            div.asked { h2 { "What was asked" } (asked(run)) }
            div.choose { h2 { "What to choose" } (choose(run)) }
            div.distrust { h2 { "What to distrust" } (distrust(run, drawing)) }
        }
    }
}

/// Lists the values of each axis on which cases differ, a few by name.
fn asked(run: &Run) -> Markup {
    const NAMED: usize = 6;
    let axes: Vec<(&str, Vec<String>)> = Axis::shown()
        .filter_map(|axis| {
            let mut values: Vec<String> = Vec::new();
            for value in run.cases.iter().filter_map(|case| axis.shown_value(&case.key)) {
                if !values.contains(&value) {
                    values.push(value);
                }
            }
            (values.len() > 1 || axis == Axis::Model).then(|| (axis.heading(), values))
        })
        .collect();
    let count = run.cases.len();
    html! {
        p { (count) @if count == 1 { " case" } @else { " cases" } @if !axes.is_empty() { ":" } }
        ul { @for (heading, values) in &axes {
            li {
                (heading) ": " (values.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", "))
                @if values.len() > NAMED { " and " (values.len() - NAMED) " more" }
            }
        } }
    }
}

/// Returns the advice, choices first.
fn ordered(run: &Run) -> Vec<&Advice> {
    let is_choice = |advice: &&Advice| {
        let kind = advice.recommendation.attributes.get("kind").map(String::as_str);
        matches!(kind, None | Some("choice" | "tie"))
    };
    let (choices, others): (Vec<&Advice>, Vec<&Advice>) = run.advice.iter().partition(is_choice);
    choices.into_iter().chain(others).collect()
}

/// Lists the titles of advice, a few of them, choices first.
fn choose(run: &Run) -> Markup {
    const MOST: usize = 5;
    let ordered = ordered(run);
    html! {
        @if run.advice.is_empty() {
            p { "No recommender was asked. The table below sorts by any figure." }
        } @else {
            ul { @for advice in ordered.iter().take(MOST) { li { (advice.recommendation.title) } } }
            @if run.advice.len() > MOST {
                p { a href="#recommendations" { (run.advice.len() - MOST) " more pieces of advice" } }
            }
        }
    }
}

/// Counts failures, gaps, invalid results and warnings by kind.
fn distrust(run: &Run, drawing: &Drawing<'_>) -> Markup {
    let of = |wanted: &dyn Fn(&Case) -> bool| -> Vec<&Case> {
        run.cases.iter().filter(|case| wanted(case)).collect()
    };
    let failed = of(&|case| matches!(case.record.outcome, Outcome::Failed { .. }));
    let gaps = of(&|case| matches!(case.record.outcome, Outcome::Gap { .. }));
    let invalid = of(&|case| case.valid() == Some(false));
    let all = run
        .cases
        .iter()
        .flat_map(|case| case.warnings.iter().map(move |warning| (&*case.id, warning)));
    let groups = by_kind(all);
    let few = run.few_processes();
    let is_sound = failed.is_empty() && invalid.is_empty() && groups.is_empty() && few.is_none();
    html! {
        ul {
            @if !failed.is_empty() { li { "Failed: " (links(&failed, drawing)) } }
            @if !invalid.is_empty() { li { "Invalid by its rules: " (links(&invalid, drawing)) } }
            @for group in &groups {
                li {
                    b { (group.kind.name()) } " in " (group.places) @if group.places == 1 { " case" } @else { " cases" }
                    ", the worst: " (excerpt(&group.worst.1.to_string(), IN_ROW)) " "
                    button.link type="button" hidden data-kind=(place_of_kind(run, group.kind)) { "show" }
                }
            }
            @if let Some(few) = few { li { "Intervals over processes: one " (few) "." } }
            @if !gaps.is_empty() { li { "Not possible here: " (links(&gaps, drawing)) } }
        }
        @if is_sound && run.cases.iter().any(Case::is_finished) {
            p { "Nothing was found that makes a measurement doubtful." }
        }
    }
}

fn recommendations(run: &Run, drawing: &Drawing<'_>) -> Option<Markup> {
    let has_some = !run.advice.is_empty();
    has_some.then(|| {
        let ordered = ordered(run);
        html! {
            @for advice in ordered.iter().take(MOST_PIECES) { (recommendation(run, advice, drawing)) }
            @if ordered.len() > MOST_PIECES {
                details {
                    summary { (ordered.len() - MOST_PIECES) " more pieces of advice" }
                    @for advice in &ordered[MOST_PIECES..] { (recommendation(run, advice, drawing)) }
                }
            }
        }
    })
}

fn recommendation(run: &Run, advice: &Advice, drawing: &Drawing<'_>) -> Markup {
    let Advice { plugin, recommendation: advice } = advice;
    let attribute = |name: &str| advice.attributes.get(name).map(String::as_str);
    let kind = match attribute("kind") {
        Some("front") => " front",
        Some("closest") => " closest",
        Some("not-judged") => " not-judged",
        _ if attribute("certain") == Some("no") => " uncertain",
        _ => "",
    };
    let cases: Vec<_> = advice.cases.iter().filter_map(|id| run.case(id)).collect();
    let lines: Vec<_> = advice.explanation.lines().collect();
    html! {
        article class={ "advice" (kind) } {
            h3 { (advice.title) }
            @match lines.as_slice() {
                [] => {}
                [line] => p { (line) },
                [first, rest @ ..] if rest.len() > MAXIMUM_LINES || run.advice.len() > FEW_PIECES => {
                    p { (first) }
                    details {
                        summary { "The figures, in " (rest.len()) " lines" }
                        ul { @for line in rest.iter().take(MOST_LINES) { li { (line) } } }
                        @if rest.len() > MOST_LINES {
                            p.quiet { (rest.len() - MOST_LINES) " more lines: " code { "host results show RUN --advice" } " has all." }
                        }
                    }
                }
                lines => ul { @for line in lines { li { (line) } } },
            }
            @if !cases.is_empty() {
                p.rests { span.quiet { "Rests on: " } (links(&cases, drawing)) }
            }
            p.rests.quiet { "From the recommender " (plugin) }
        }
    }
}

/// Returns the text of a coordinate in a table.
fn coordinate(axis: Axis, case: &Case) -> String {
    axis.shown_value(&case.key).unwrap_or_else(|| "—".to_owned())
}

/// Returns the axes on which cases differ, which get columns, and the common coordinates, which are shown
/// once.
fn coordinates(cases: &[Case]) -> (Vec<Axis>, Vec<(&'static str, String)>) {
    let (mut columns, mut same) = (Vec::new(), Vec::new());
    for axis in Axis::shown() {
        let values: BTreeSet<_> = cases.iter().map(|case| axis.shown_value(&case.key)).collect();
        match values.len() {
            0 => {}
            1 => same.extend(values.into_iter().flatten().map(|value| (axis, value))),
            _ => columns.push(axis),
        }
    }
    // If each backend has one device, its column would only repeat the backend's.
    let places: BTreeSet<_> =
        cases.iter().map(|case| (&case.key.backend, &case.key.device)).collect();
    let backends: BTreeSet<_> = cases.iter().map(|case| &case.key.backend).collect();
    if places.len() == backends.len() && columns.contains(&Axis::Device) {
        columns.retain(|axis| *axis != Axis::Device);
        let devices = places.iter().map(|(backend, device)| format!("{backend} on {device}"));
        same.push((Axis::Device, devices.collect::<Vec<_>>().join(", ")));
    }
    if columns.is_empty() {
        columns.push(Axis::Model);
        same.retain(|(axis, _)| *axis != Axis::Model);
    }
    (columns, same.into_iter().map(|(axis, value)| (axis.heading(), value)).collect())
}

/// Returns the name of the run's intervals, with their confidence if it is the same for all.
fn intervals(run: &Run, several: bool) -> String {
    let word = if several { "intervals" } else { "interval" };
    run.confidence().map_or(word.to_owned(), |level| format!("{level} {word}"))
}

/// Returns whether a value states where another process will lie.
fn predicted(run: &Run) -> bool {
    run.cases.iter().flat_map(|case| &case.results).any(|result| result.prediction().is_some())
}

fn results(run: &Run, labels: &Labels) -> Option<Markup> {
    if run.cases.is_empty() {
        return Some(html! { p { "The plan has no case." } });
    }
    let (coordinates, same) = coordinates(&run.cases);
    let offline = run.cases.iter().any(|case| case.key.scenario == Scenario::Offline);
    Some(html! {
        p.quiet {
            @if !same.is_empty() {
                "In every case: "
                @for (index, (name, value)) in same.iter().enumerate() {
                    @if index > 0 { ", " }
                    (name) " " b { (value) }
                }
                ". "
            }
            "Below a value: its " (intervals(run, false)) ", where the metric states one."
            @if predicted(run) {
                " Of several processes, it is that of their mean; where another process will lie, is among all values of the case."
            }
            @if let Some(few) = run.few_processes() {
                " At this confidence, an interval over processes " (few) ": with fewer, it rests on the assumption that processes are normally distributed."
            }
        }
        (table(run, labels, &coordinates).draw())
        @if offline {
            p.quiet {
                "A single-stream query is one batch. An offline query is many batches at once, so its latency is not that of a batch, and its throughput is what the backend does when nobody waits."
            }
        }
    })
}

/// Returns the table of cases: their coordinates, and the columns of the summary.
fn table(run: &Run, labels: &Labels, coordinates: &[Axis]) -> Table {
    let columns = summary_columns(run);
    let names = coordinates.iter().map(|axis| Column {
        is_number: axis.is_number(),
        title: axis.definition().to_owned(),
        ..Column::name(axis.heading())
    });
    let figures = columns.iter().map(|column| Column {
        title: column.metric.clone(),
        is_lesser: column.gives_way >= LESSER,
        ..Column::number(column.heading)
    });
    Table {
        id: RESULTS.to_owned(),
        label: "Table of results".to_owned(),
        rows_are: "case".to_owned(),
        columns: names.chain(figures).chain([Column::text("warnings")]).collect(),
        rows: run
            .cases
            .iter()
            .enumerate()
            .map(|(place, case)| row(place, case, labels, coordinates, &columns))
            .collect(),
    }
}

/// Order of giving way from which a column has no room on a narrow screen.
const LESSER: u8 = 3;

fn row(
    place: usize,
    case: &Case,
    labels: &Labels,
    coordinates: &[Axis],
    columns: &[report_common::SummaryColumn],
) -> Row {
    let (class, word) = match &case.record.outcome {
        Outcome::Finished(_) => (None, ""),
        Outcome::Failed { .. } => (Some("failed"), "Failed"),
        Outcome::Gap { .. } => (Some("gap"), "Not possible"),
    };
    let mut cells: Vec<Cell> = coordinates
        .iter()
        .map(|axis| {
            let text = coordinate(*axis, case);
            let long = (!axis.is_number() && text.chars().count() > LONG).then_some("long");
            Cell { value: number(axis.of(&case.key)), class: long, ..Cell::text(text) }
        })
        .collect();
    if let Some((kind, reason)) = case.reason() {
        cells.push(Cell {
            content: html! { b { (word) } " (" (kind) "): " (excerpt(&reason, IN_ROW)) },
            class: Some("reason"),
            ..Cell::default()
        });
    } else {
        cells.extend(columns.iter().map(|column| match column.cell(case) {
            SummaryCell::Value { value, interval } => {
                Cell { below: interval, value: column.value(case), ..Cell::text(value) }
            }
            SummaryCell::Gap(reason) => {
                Cell::missing("gap", Some(excerpt(&reason, IN_ROW).into_owned()))
            }
            SummaryCell::Nothing => Cell::missing("—", None),
        }));
        let kinds: BTreeSet<_> = case.warnings.iter().map(Warning::kind).collect();
        let tags = html! { @for kind in kinds { a.tag href="#warnings" { (kind.name()) } " " } };
        cells.push(Cell { content: tags, ..Cell::default() });
    }
    Row {
        id: Some(anchor(case)),
        name: html! { (labels.label(case)) },
        class,
        case: Some(place),
        cells,
    }
}

/// Returns the number of a coordinate.
fn number(coordinate: Coordinate<'_>) -> Option<f64> {
    match coordinate {
        Coordinate::Count(count) => Some(count.into()),
        Coordinate::Number(number) => Some(number),
        Coordinate::None | Coordinate::Text(_) => None,
    }
}

/// Characters from which a name is too long for one line.
const LONG: usize = 28;

/// Lists why values of the table above are missing: first whole cases, then single values. Cases
/// with the same reason share a line.
fn missing(run: &Run, drawing: &Drawing<'_>) -> Option<Markup> {
    let columns = summary_columns(run);
    let (mut cases, mut values) = (Vec::new(), Vec::new());
    for case in &run.cases {
        let reason = case.reason().map(|(_, reason)| reason).unwrap_or_default();
        match &case.record.outcome {
            Outcome::Failed { .. } => {
                add(&mut cases, format!("Failed: {}", excerpt(&reason, REASON)), case);
            }
            Outcome::Gap { .. } => {
                add(&mut cases, format!("Not possible: {}", excerpt(&reason, REASON)), case);
            }
            Outcome::Finished(_) => {
                let gaps = columns.iter().filter_map(|column| match column.cell(case) {
                    SummaryCell::Gap(reason) => {
                        Some(format!("{}: {}", column.heading, excerpt(&reason, REASON)))
                    }
                    _ => None,
                });
                let gaps = gaps.collect::<Vec<_>>().join("; ");
                if !gaps.is_empty() {
                    add(&mut values, gaps, case);
                }
            }
        }
    }
    if cases.is_empty() && values.is_empty() {
        return None;
    }
    let list = |reasons: &[(String, Vec<&Case>)]| {
        html! {
            ul.plain { @for (reason, cases) in reasons {
                li { (reason) " " span.quiet { "— " (links(cases, drawing)) } }
            } }
        }
    };
    let lacking: usize = values.iter().map(|(_, cases)| cases.len()).sum();
    Some(html! {
        p { "A missing value is not a zero. Each has a reason:" }
        @if !cases.is_empty() { (list(&cases)) }
        (last_words(run, drawing.labels()))
        @if lacking > MAXIMUM_LINKS {
            details { summary { (lacking) " cases that finished and lack a value" } (list(&values)) }
        } @else if lacking > 0 {
            (list(&values))
        }
    })
}

/// Limit on the failed cases whose standard error is shown.
const MAXIMUM_LAST_WORDS: usize = 20;

/// Shows the last standard error of cases that failed.
fn last_words(run: &Run, labels: &Labels) -> Markup {
    let said: Vec<_> =
        run.cases.iter().filter(|case| !case.record.standard_error.is_empty()).collect();
    html! {
        @if !said.is_empty() {
            details { summary { "Last standard error of the cases that failed" }
                @for case in said.iter().take(MAXIMUM_LAST_WORDS) {
                    p { (link(case, labels)) }
                    pre { (case.record.standard_error) }
                }
                @if said.len() > MAXIMUM_LAST_WORDS {
                    p.quiet { (said.len() - MAXIMUM_LAST_WORDS) " more cases are in the folder " code { "stderr" } " of the run." }
                }
            }
        }
    }
}

fn add<'a>(reasons: &mut Vec<(String, Vec<&'a Case>)>, reason: String, case: &'a Case) {
    match reasons.iter_mut().find(|(known, _)| *known == reason) {
        Some((_, cases)) => cases.push(case),
        None => reasons.push((reason, vec![case])),
    }
}

fn warnings(run: &Run, drawing: &Drawing<'_>) -> Option<Markup> {
    let all: Vec<(&Case, &Warning)> = run
        .cases
        .iter()
        .flat_map(|case| case.warnings.iter().map(move |warning| (case, warning)))
        .collect();
    if all.is_empty() {
        return run.cases.iter().any(Case::is_finished).then(|| {
            html! {
                p { "Nothing was found that makes a measurement doubtful." }
            }
        });
    }
    let groups = by_kind(all.iter().map(|(case, warning)| (&*case.id, *warning)));
    let of_kind = |kind| {
        let mut own: Vec<_> = all.iter().filter(|(_, warning)| warning.kind() == kind).collect();
        own.sort_by(|one, other| other.1.doubt.severity().total_cmp(&one.1.doubt.severity()));
        own
    };
    Some(html! {
        div.scroll tabindex="0" role="group" aria-label="Table of warnings" {
            table.wide {
                thead { tr {
                    th scope="col" { "case" } th scope="col" { "warning" } th scope="col" { "figures" }
                } }
                tbody { @for group in &groups { @let own = of_kind(group.kind);
                    @for (case, warning) in own.iter().take(MAXIMUM_OF_KIND) { tr {
                        th scope="row" { (link(case, drawing.labels())) }
                        td { span.tag { (warning.kind().name()) } }
                        td { (warning.to_string()) }
                    } }
                    @if own.len() > MAXIMUM_OF_KIND { tr {
                        th scope="row" { (own.len() - MAXIMUM_OF_KIND) " more" }
                        td { span.tag { (group.kind.name()) } }
                        td {
                            "less grave; "
                            button.link type="button" hidden data-kind=(place_of_kind(run, group.kind)) { "show the cases in the table" }
                        }
                    } }
                } }
            }
        }
    })
}

/// Shows the reference of each case's outputs, and their difference.
fn parity(run: &Run, labels: &Labels) -> Option<Markup> {
    let compared: Vec<_> = run
        .cases
        .iter()
        .filter_map(|case| Some((case, case.conditions()?.parity.as_ref()?)))
        .collect();
    if compared.is_empty() {
        return None;
    }
    let (compared, left) = gravest(compared);
    Some(html! {
        p {
            "The same inputs went through the reference, and each output was compared with its output, before the case was timed and again after. A case whose outputs are off by more than is allowed fails."
        }
        div.scroll tabindex="0" role="group" aria-label="Table of outputs compared" {
            table {
                thead { tr {
                    th scope="col" { "case" } th scope="col" { "output" }
                    th scope="col" { "compared with" }
                    @for heading in PARITY_HEADINGS { th.number scope="col" { (heading) } }
                    th.number scope="col" { "batches" } th scope="col" { "allowed" }
                } }
                tbody { @for (case, parity) in compared { @for output in &parity.outputs {
                    tr {
                        th scope="row" { (link(case, labels)) }
                        td { (output.name) }
                        td { (parity.reference) }
                        @for figure in parity_figures(output) { td.number { (figure) } }
                        td.number { (parity.batches) }
                        td { (parity.tolerance) }
                    }
                } } }
            }
        }
        @if left > 0 { p.quiet { "Of " (left) " more cases the outputs are nearer to the reference's." } }
    })
}

/// Cases whose outputs are listed; of more, those that are furthest from the reference, and the number of others.
fn gravest<'a>(mut compared: Vec<(&'a Case, &'a Parity)>) -> (Vec<(&'a Case, &'a Parity)>, usize) {
    let left = compared.len().saturating_sub(MOST_IN_TABLES);
    if left > 0 {
        let error = |parity: &Parity| {
            let errors = parity
                .outputs
                .iter()
                .filter_map(|output| output.row_error.or(output.max_relative_error));
            errors.fold(0.0, f64::max)
        };
        compared.sort_by(|one, other| error(other.1).total_cmp(&error(one.1)));
        compared.truncate(MOST_IN_TABLES);
    }
    (compared, left)
}

/// Shows shape and origin of the inputs.
fn used_inputs(run: &Run) -> Option<Markup> {
    let rows = inputs(run);
    (!rows.is_empty()).then(|| {
        html! {
            div.scroll tabindex="0" role="group" aria-label="Table of inputs" {
                table {
                    thead { tr { @for heading in INPUT_HEADINGS { th scope="col" { (heading) } } } }
                    tbody { @for row in &rows { tr { @for cell in row { td { (cell) } } } } }
                }
            }
        }
    })
}

fn method(run: &Run, labels: &Labels) -> Option<Markup> {
    let finished: Vec<_> = run.cases.iter().filter(|case| case.is_finished()).collect();
    if finished.is_empty() {
        return None;
    }
    let (shared, differing) = run.method();
    Some(html! {
        p {
            "Each case ran in a worker process of its own. A query ends when it is complete, with inputs and outputs resident on the device. In single-stream one query is one batch, and the next is issued when it completes: one clock reading ends a query and begins the next. In multi-stream and offline one query is several batches, issued back to back and waited for together. In closed-loop each of several clients issues a batch when its last one completes. In server and constant-rate one query is one batch that arrives by a schedule, ready or not, and its latency counts from the scheduled time. Warm-up queries are left out of every figure."
        }
        @if !shared.is_empty() {
            dl.facts { @for (name, value) in &shared { dt { (name) } dd { (value) } } }
        }
        (definitions(run))
        @if finished.len() > MOST_IN_TABLES {
            p.quiet.unscripted { "The tables for each case are left out of a run of this size; scripts show them as columns of the table of results." }
        } @else {
        h3 { "Per case" }
        p.quiet {
            "The cost of a clock reading and of an empty round of the measuring loop was measured in the same worker, before the backend was opened. The last column is that round as a share of the median query: what of a latency is ours."
        }
        (method_table(&finished, labels, &differing))
        @for group in Group::ALL { (quantities(*group, &finished, labels)) }
        }
    })
}

/// Shows the metrics' definitions, if they have one. Differences among cases are listed together, so
/// that each metric appears once.
fn definitions(run: &Run) -> Markup {
    let mut metrics: BTreeMap<&str, [Vec<&str>; 3]> = BTreeMap::new();
    for result in run.cases.iter().flat_map(|case| &case.results) {
        let texts = metrics.entry(&result.metric).or_default();
        for (known, name) in texts.iter_mut().zip(DEFINED_BY) {
            let value = result.attributes.get(name).map(String::as_str);
            // The reason for a missing interval belongs to its case.
            let value = value.filter(|value| !value.starts_with("none: "));
            known.extend(value.filter(|value| !known.contains(value)));
        }
    }
    let mut definitions: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (metric, texts) in metrics {
        let texts: Vec<_> = texts
            .iter()
            .zip(DEFINED_BY)
            .filter(|(values, _)| !values.is_empty())
            .map(|(values, name)| format!("{name}: {}", values.join(", or ")))
            .collect();
        if !texts.is_empty() {
            definitions.entry(texts.join(" · ")).or_default().push(metric);
        }
    }
    html! {
        @if !definitions.is_empty() {
            h3 { "Definitions" }
            dl.facts { @for (text, metrics) in &definitions {
                dt { (metrics.join(", ")) } dd { (text) }
            } }
        }
    }
}

/// Attributes that define a value.
const DEFINED_BY: [&str; 3] = ["definition", "interval", "confidence"];

/// Returns the quantities of a group for which some case has a value or a reason. A case whose values are all missing
/// for the same reason shows the reason instead.
fn quantities(group: Group, finished: &[&Case], labels: &Labels) -> Markup {
    let found = |case: &Case, quantity: &Quantity| quantity.of(&case.record);
    let is_reported = |quantity: &&Quantity| {
        let has = |case: &&Case| found(case, quantity).is_some_and(|found| found.is_ok());
        quantity.group == group && finished.iter().any(has)
    };
    let columns: Vec<_> = QUANTITIES.iter().filter(is_reported).collect();
    let gap = |case: &Case| {
        let mut reasons =
            columns.iter().map(|quantity| Some(found(case, quantity)?.err()?.to_string()));
        let first = reasons.next()??;
        reasons.all(|reason| reason.as_ref() == Some(&first)).then_some(first)
    };
    html! {
        // The load is in the settings, and the clock in the table above.
        @if !columns.is_empty() && ![Group::Load, Group::Clock].contains(&group) {
            h3 { (group.heading()) }
            @if let Some(note) = note(group) { p.quiet { (note) } }
            div.scroll tabindex="0" role="group" aria-label=(group.heading()) {
                table {
                    thead { tr {
                        th scope="col" { "case" }
                        @for quantity in &columns { th.number scope="col" { (quantity.heading) } }
                    } }
                    tbody { @for case in finished { tr {
                        th scope="row" { (link(case, labels)) }
                        @if let Some(reason) = gap(case) {
                            td.missing colspan=(columns.len()) { (excerpt(&reason, IN_ROW)) }
                        } @else {
                            @for quantity in &columns { (cell(found(case, quantity), quantity)) }
                        }
                    } } }
                }
            }
        }
    }
}

fn cell(found: Measured<f64>, quantity: &Quantity) -> Markup {
    html! {
        @match found {
            Some(Ok(value)) => td.number { (report_common::quantity(quantity, value)) },
            Some(Err(gap)) => td.number { span.missing title=(excerpt(&gap.to_string(), IN_ROW)) { "gap" } },
            None => td.number { "—" },
        }
    }
}

/// Returns the note for readers of a group of quantities.
fn note(group: Group) -> Option<&'static str> {
    match group {
        Group::Copies => Some(
            "Means over a few queries made for this after measuring, from inputs to outputs in the host's memory. The latencies above are of the middle part.",
        ),
        Group::Disturbance => {
            Some("Counted by the kernel from the first measured query to the last.")
        }
        _ => None,
    }
}

fn gigahertz(hertz: u64) -> String {
    format!("{} GHz", report_common::significant(hertz as f64 / 1e9, 3))
}

fn method_table(finished: &[&Case], labels: &Labels, differing: &BTreeSet<String>) -> Markup {
    let time = |value: Option<f64>| value.map_or("—".to_owned(), |value| humanise(value, "ns"));
    html! {
        div.scroll tabindex="0" role="group" aria-label="Table of how each case was measured" {
            table {
                thead { tr {
                    th scope="col" { "case" }
                    th.number scope="col" { "queries" }
                    th.number scope="col" { "threads" }
                    th.number scope="col" { "took" }
                    @for name in differing { th scope="col" { (name) } }
                    th.number scope="col" { "clock reading" }
                    th.number scope="col" { "empty round" }
                    th.number scope="col" { "of the median" }
                } }
                tbody { @for case in finished { @let method = case.method(); tr {
                    th scope="row" { a href={ "#" (anchor(case)) } { (labels.label(case)) } }
                    td.number { (case.queries.map_or("—".to_owned(), |queries| queries.to_string())) }
                    td.number { (case.spec().and_then(|spec| spec.threads).map_or("—".to_owned(), |threads| threads.to_string())) }
                    td.number { (time(Some(case.record.elapsed_ns as f64))) }
                    @for name in differing {
                        td { (method.get(name).map_or("—", String::as_str)) }
                    }
                    td.number { (time(case.report().map(|report| report.clock.read_ns))) }
                    td.number { (time(case.report().map(|report| report.clock.loop_ns))) }
                    td.number { (share(case)) }
                } } }
            }
        }
    }
}

/// Returns the harness's overhead as a share of the median query.
fn share(case: &Case) -> String {
    match (case.report().map(|report| report.clock.loop_ns), case.value("latency.p50")) {
        (Some(cost), Some(median)) if median > 0.0 => {
            let percent = cost / median * 100.0;
            if percent < 0.01 {
                "< 0.01 %".to_owned()
            } else {
                format!("{} %", report_common::significant(percent, 2))
            }
        }
        _ => "—".to_owned(),
    }
}

/// Cases up to which all values are in the page as a table as well as in its data.
const FEW: usize = 12;

fn values(run: &Run, labels: &Labels) -> Option<Markup> {
    let rows: usize = run.cases.iter().map(|case| case.results.len()).sum();
    if rows == 0 || run.cases.len() > FEW {
        return None;
    }
    let predicted = predicted(run);
    Some(html! {
        details {
            summary { "Every metric of every case: " (rows) " rows" }
            div.scroll tabindex="0" role="group" aria-label="Table of all values" {
                table {
                    thead { tr {
                        th scope="col" { "case" } th scope="col" { "metric" }
                        th.number scope="col" { "value" } th.number scope="col" { "interval" }
                        @if predicted { th.number scope="col" { "another process" } }
                        th scope="col" { "better" }
                    } }
                    tbody { @for case in &run.cases { @for result in &case.results {
                        @let written = |value| humanise_metric(&result.metric, value, &result.unit);
                        tr {
                            th scope="row" { (link(case, labels)) }
                            td { (result.metric) }
                            @match &result.value {
                                Ok(value) => {
                                    td.number {
                                        (written(*value))
                                        @if let Some(class) = class(result) { " (" (class) ")" }
                                    }
                                    td.number {
                                        @if let Some(interval) = result.interval {
                                            (humanise_interval(&result.metric, *value, interval, &result.unit))
                                        }
                                    }
                                    @if predicted { td.number {
                                        @if let Some(interval) = result.prediction() {
                                            (humanise_interval(&result.metric, *value, interval, &result.unit))
                                        }
                                    } }
                                }
                                Err(gap) => td.missing colspan=(if predicted { 3 } else { 2 }) {
                                    (gap.kind()) ": " (excerpt(&gap.to_string(), IN_ROW))
                                },
                            }
                            td.quiet { (result.direction.name()) }
                        }
                    } } }
                }
            }
        }
    })
}

fn machine(run: &Run) -> Option<Markup> {
    if run.hardware.is_empty() {
        return None;
    }
    let written = |name: &str, value: &str| match value.parse::<f64>() {
        Ok(number) if name.ends_with("-bytes") => humanise(number, "B"),
        Ok(number) if name.ends_with("-hertz") => gigahertz(number as u64),
        _ => value.to_owned(),
    };
    Some(html! {
        div.scroll tabindex="0" role="group" aria-label="Table of the machine" {
            table {
                thead { tr { th scope="col" { "fact" } th scope="col" { "value" } } }
                tbody { @for fact in &run.hardware { tr {
                    th scope="row" { (fact.name) }
                    td {
                        @match &fact.value {
                            Some(value) => { (written(&fact.name, value)) }
                            None => span.missing { "the machine does not say" },
                        }
                    }
                } } }
            }
        }
    })
}

fn plugins(run: &Run) -> Option<Markup> {
    let models: BTreeSet<_> = run
        .cases
        .iter()
        .filter_map(|case| Some((&case.key.model, case.spec()?.model.sha256.as_str())))
        .collect();
    if run.plugins.is_empty() && models.is_empty() {
        return None;
    }
    Some(html! {
        div.scroll tabindex="0" role="group" aria-label="Table of plugins and models" {
            table {
                caption { "What took part, so that two results can be told to come from the same code and the same model." }
                thead { tr {
                    th scope="col" { "what" } th scope="col" { "id" } th scope="col" { "version" }
                    th scope="col" { "SHA-256" }
                } }
                tbody {
                    @for plugin in &run.plugins { tr {
                        th scope="row" { (plugin.role) }
                        td { (plugin.id) }
                        td { (plugin.version) }
                        td.mono { (plugin.sha256.as_deref().unwrap_or("—")) }
                    } }
                    @for (model, hash) in models { tr {
                        th scope="row" { "model" }
                        td { (model) }
                        td { "—" }
                        td.mono { (hash) }
                    } }
                }
            }
        }
    })
}
