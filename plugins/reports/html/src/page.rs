//! The page: its contents, and their order.

use std::collections::{BTreeMap, BTreeSet};

use maud::{DOCTYPE, Markup, PreEscaped, html};
use report_common::host_record::{Gap, Measured, Peaks};
use report_common::{
    Advice, Axis, AxisRole, Case, Configuration, Group, INPUT_HEADINGS, Labels, Outcome,
    PARITY_HEADINGS, QUANTITIES, Quantity, REASON, Run, Scenario, SummaryCell, Warning, class,
    configurations, excerpt, humanise, humanise_interval, humanise_metric, inputs, parity_figures,
    summary_columns,
};

use crate::chart::{self, MAXIMUM_SERIES};
use crate::{pairs, training};

/// Limit on the models for which charts are drawn.
const MAXIMUM_MODELS: usize = 6;

/// Limit on the lines of an explanation after the first that are shown initially.
const MAXIMUM_LINES: usize = 5;

/// Limit on the characters of a reason in a table's row; more is shown below the table.
const IN_ROW: usize = 300;

/// Limit on the cases of advice that are shown initially.
const MAXIMUM_LINKS: usize = 12;

/// Policy of the page: only its own style is allowed.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

pub(crate) fn page(run: &Run) -> Markup {
    let labels = Labels::new(&run.cases);
    let sections: Vec<(&str, &str, Markup)> = [
        ("recommendations", "Recommendations", recommendations(run, &labels)),
        ("results", "Results", results(run)),
        ("pairs", "Pairs", pairs::section(run, &labels)),
        ("distribution", "Latency distribution", distributions(run)),
        ("batch", "Latency and throughput against batch size", batches(run)),
        ("trade", "Throughput against latency", trades(run)),
        ("roofline", "Roofline", rooflines(run, &labels)),
        ("training", "Training", training::section(run, &labels)),
        ("warnings", "Warnings", warnings(run, &labels)),
        ("missing", "Not measured", missing(run, &labels)),
        ("parity", "Outputs compared with the reference's", parity(run, &labels)),
        ("inputs", "Inputs", used_inputs(run)),
        ("method", "How it was measured", method(run, &labels)),
        ("values", "All values", values(run, &labels)),
        ("machine", "Machine", machine(run)),
        ("plugins", "Plugins", plugins(run)),
    ]
    .into_iter()
    .filter_map(|(id, heading, content)| Some((id, heading, content?)))
    .collect();
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (run.experiment) " · Tare" }
                style { (PreEscaped(include_str!("style.css"))) }
            }
            body {
                (header(run))
                nav aria-label="Sections" {
                    ul { @for (id, heading, _) in &sections { li { a href={ "#" (id) } { (heading) } } } }
                }
                main {
                    @for (id, heading, content) in &sections {
                        section id=(id) aria-labelledby={ (id) "-heading" } {
                            h2 id={ (id) "-heading" } { (heading) }
                            (content)
                        }
                    }
                }
                footer {
                    "Written by the report plugin html " (env!("CARGO_PKG_VERSION"))
                    " for Tare " (run.host_version) ". This file is self-contained and runs no script."
                }
            }
        }
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
    let plain = |character: char| if character.is_ascii_alphanumeric() { character } else { '-' };
    format!("case-{}", case.id.chars().map(plain).collect::<String>())
}

fn link(case: &Case, labels: &Labels) -> Markup {
    html! { a href={ "#" (anchor(case)) } { (labels.label(case)) } }
}

fn links(cases: &[&Case], labels: &Labels) -> Markup {
    html! {
        @for (index, case) in cases.iter().enumerate() {
            @if index > 0 { "; " }
            (link(case, labels))
        }
    }
}

fn recommendations(run: &Run, labels: &Labels) -> Option<Markup> {
    let has_some = !run.advice.is_empty();
    has_some.then(|| {
        html! {
            @for advice in &run.advice { (recommendation(run, advice, labels)) }
        }
    })
}

fn recommendation(run: &Run, advice: &Advice, labels: &Labels) -> Markup {
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
                [first, rest @ ..] if rest.len() > MAXIMUM_LINES => {
                    p { (first) }
                    details {
                        summary { "The figures, in " (rest.len()) " lines" }
                        ul { @for line in rest { li { (line) } } }
                    }
                }
                lines => ul { @for line in lines { li { (line) } } },
            }
            @if !cases.is_empty() {
                @if cases.len() <= MAXIMUM_LINKS {
                    p.rests { span.quiet { "Rests on: " } (links(&cases, labels)) }
                } @else {
                    details.rests {
                        summary { "Rests on " (cases.len()) " cases" }
                        p { (links(&cases, labels)) }
                    }
                }
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

fn results(run: &Run) -> Option<Markup> {
    if run.cases.is_empty() {
        return Some(html! { p { "The plan has no case." } });
    }
    let (coordinates, same) = coordinates(&run.cases);
    let columns = summary_columns(run);
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
                " Of several processes, it is that of their mean; where another process will lie, is among all values below."
            }
            @if let Some(few) = run.few_processes() {
                " At this confidence, an interval over processes " (few) ": with fewer, it rests on the assumption that processes are normally distributed."
            }
        }
        div.scroll tabindex="0" role="group" aria-label="Table of results" {
            table.wide {
                thead { tr {
                    @for axis in &coordinates {
                        th scope="col" class=[axis.is_number().then_some("number")] { (axis.heading()) }
                    }
                    @for column in &columns { th.number scope="col" { (column.heading) } }
                    th scope="col" { "warnings" }
                } }
                tbody { @for case in &run.cases { (result_row(case, &coordinates, &columns)) } }
            }
        }
        @if offline {
            p.quiet {
                "A single-stream query is one batch. An offline query is many batches at once, so its latency is not that of a batch, and its throughput is what the backend does when nobody waits."
            }
        }
    })
}

fn result_row(
    case: &Case,
    coordinates: &[Axis],
    columns: &[report_common::SummaryColumn],
) -> Markup {
    let (class, word) = match &case.record.outcome {
        Outcome::Finished(_) => (None, ""),
        Outcome::Failed { .. } => (Some("failed"), "Failed"),
        Outcome::Gap { .. } => (Some("gap"), "Not possible"),
    };
    html! {
        tr id=(anchor(case)) class=[class] {
            @for (index, axis) in coordinates.iter().enumerate() {
                @let value = coordinate(*axis, case);
                @let class = if axis.is_number() { "number" } else { name_class(&value) };
                @if index == 0 { th scope="row" class=(class) { (value) } }
                @else { td class=(class) { (value) } }
            }
            @if let Some((kind, reason)) = case.reason() {
                td.reason colspan=(columns.len() + 1) { b { (word) } " (" (kind) "): " (excerpt(&reason, IN_ROW)) }
            } @else {
                @for column in columns {
                    td.number { @match column.cell(case) {
                        SummaryCell::Value { value, interval } => {
                            (value)
                            @if let Some(interval) = interval { span.interval { (interval) } }
                        }
                        SummaryCell::Gap(reason) => span.missing title=(excerpt(&reason, IN_ROW)) { "gap" },
                        SummaryCell::Nothing => span.missing { "—" },
                    } }
                }
                td {
                    @for kind in case.warnings.iter().map(Warning::kind).collect::<BTreeSet<_>>() {
                        a.tag href="#warnings" { (kind.name()) } " "
                    }
                }
            }
        }
    }
}

/// Returns the class of a cell with a name. Names stay on one line, unless they are too long for a column.
fn name_class(name: &str) -> &'static str {
    if name.chars().count() > 28 { "name long" } else { "name" }
}

/// Lists why values of the table above are missing: first whole cases, then single values. Cases
/// with the same reason share a line.
fn missing(run: &Run, labels: &Labels) -> Option<Markup> {
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
                li { (reason) " " span.quiet { "— " (links(cases, labels)) } }
            } }
        }
    };
    let lacking: usize = values.iter().map(|(_, cases)| cases.len()).sum();
    Some(html! {
        p { "A missing value is not a zero. Each has a reason:" }
        @if !cases.is_empty() { (list(&cases)) }
        (last_words(run, labels))
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

/// Returns the models of a run that have charts, in the order of the plan, and the number of all
/// models.
fn models(run: &Run) -> (Vec<&str>, usize) {
    let mut models: Vec<&str> = Vec::new();
    for case in &run.cases {
        if !models.contains(&&*case.key.model) {
            models.push(&case.key.model);
        }
    }
    let count = models.len();
    models.truncate(MAXIMUM_MODELS);
    (models, count)
}

fn left_out(count: usize) -> Markup {
    html! {
        @if count > MAXIMUM_MODELS {
            p.quiet { "Charts are drawn for the first " (MAXIMUM_MODELS) " of " (count) " models; the tables have them all." }
        }
    }
}

/// Returns the ids of the cases that a recommender chose, without those it compared them with.
fn chosen(run: &Run) -> BTreeSet<&str> {
    let texts =
        run.advice.iter().filter_map(|advice| advice.recommendation.attributes.get("chosen"));
    texts.flat_map(|ids| ids.split(' ')).collect()
}

fn distributions(run: &Run) -> Option<Markup> {
    let drawable =
        |case: &&Case| case.is_finished() && case.quantiles.iter().any(|(_, latency)| *latency > 0);
    let cases: Vec<_> = run.cases.iter().filter(drawable).collect();
    let queries_are_batches = |case: &&Case| case.key.scenario != Scenario::Offline;
    let any_batches = cases.iter().any(queries_are_batches);
    let of_batches: Vec<_> =
        cases.iter().copied().filter(|case| !any_batches || queries_are_batches(case)).collect();
    if of_batches.is_empty() {
        return None;
    }
    let (models, count) = models(run);
    let chosen = chosen(run);
    let charts = models.iter().filter_map(|model| {
        let of_model: Vec<_> =
            of_batches.iter().copied().filter(|case| case.key.model == *model).collect();
        let labels = Labels::new(of_model.iter().copied());
        let shown = select(&of_model, &chosen);
        let named: Vec<_> = shown.iter().map(|case| (*case, labels.label(case))).collect();
        (!named.is_empty()).then_some((model, of_model.len(), named))
    });
    Some(html! {
        p {
            "How long a query takes, from the fastest to the slowest. Every step to the right leaves a tenth as many queries above: the flatter a line stays, the steadier the case. Points mark the stated percentiles, bars their " (intervals(run, true)) ", and each line ends where its sample ends."
            @if any_batches && of_batches.len() < cases.len() {
                " Offline cases are left out, since their query is many batches at once."
            }
        }
        @for (model, all, named) in charts {
            figure {
                @if count > 1 { h3 { (model) } }
                (chart::distribution(&format!("Latency distribution of {model}"), &named))
                @if named.len() < all {
                    figcaption {
                        (named.len()) " of " (all) " cases: those that are recommended first, then those with the lowest median."
                    }
                }
            }
        }
        (left_out(count))
    })
}

/// Returns the cases that one chart shows, in the order of the plan.
fn select<'a>(cases: &[&'a Case], chosen: &BTreeSet<&str>) -> Vec<&'a Case> {
    let mut order: Vec<usize> = (0..cases.len()).collect();
    let median = |case: &Case| {
        let above = case.quantiles.iter().find(|(quantile, _)| *quantile >= 0.5);
        above.map_or(i64::MAX, |(_, latency)| *latency)
    };
    order.sort_by_key(|index| {
        let case = cases[*index];
        (!chosen.contains(&*case.id), median(case))
    });
    order.truncate(MAXIMUM_SERIES);
    order.sort_unstable();
    order.into_iter().map(|index| cases[index]).collect()
}

/// Returns whether two cases belong to one series of a chart: they are equal except for batch size and load.
fn is_same_series(one: &Case, other: &Case) -> bool {
    let axes = Axis::ALL.iter().filter(|axis| axis.role() != AxisRole::Load);
    axes.filter(|axis| **axis != Axis::Batch).all(|axis| axis.of(&one.key) == axis.of(&other.key))
}

/// Returns a model's finished cases in series, as many as one chart can show, and their number.
fn series<'a>(run: &'a Run, model: &str) -> (Vec<chart::Series<'a>>, usize) {
    let finished = run.cases.iter().filter(|case| case.key.model == model && case.is_finished());
    let mut groups: Vec<Vec<&Case>> = Vec::new();
    for case in finished {
        match groups.iter_mut().find(|group| is_same_series(group[0], case)) {
            Some(group) => group.push(case),
            None => groups.push(vec![case]),
        }
    }
    let labels = Labels::new(groups.iter().map(|group| group[0]))
        .without(Axis::Batch)
        .without(Axis::Scenario);
    let count = groups.len();
    groups.truncate(MAXIMUM_SERIES);
    let series = groups
        .into_iter()
        .map(|cases| chart::Series { name: labels.label(cases[0]), cases })
        .collect();
    (series, count)
}

fn series_left_out(shown: usize, count: usize) -> Markup {
    html! {
        @if shown < count {
            figcaption { "The first " (shown) " of " (count) " series, in the order of the plan; the table of results has them all." }
        }
    }
}

fn batches(run: &Run) -> Option<Markup> {
    let (models, count) = models(run);
    let charts: Vec<_> = models
        .into_iter()
        .filter_map(|model| {
            let (series, all) = series(run, model);
            let chart = chart::batch(model, &series)?;
            Some((model, chart, series.len(), all))
        })
        .collect();
    if charts.is_empty() {
        return None;
    }
    Some(html! {
        p {
            "Latency is that of single-stream queries, one batch each: p99 solid, p50 dashed, with " (intervals(run, true)) ". Throughput is offline solid, single-stream dashed."
        }
        @for (model, chart, shown, all) in charts {
            figure {
                @if count > 1 { h3 { (model) } }
                (chart)
                (series_left_out(shown, all))
            }
        }
        (left_out(count))
    })
}

fn trades(run: &Run) -> Option<Markup> {
    let (models, count) = models(run);
    let chosen = chosen(run);
    let configurations = configurations(run);
    let charts: Vec<_> = models
        .into_iter()
        .filter_map(|model| {
            let (series, all) = series(run, model);
            let names: Vec<_> = series.iter().map(|series| series.name.clone()).collect();
            let points: Vec<_> = configurations
                .iter()
                .filter(|configuration| configuration.first().key.model == model)
                .filter_map(|configuration| point(configuration, &series, &chosen))
                .collect();
            let title = format!("Throughput against p99 latency of {model}");
            let any_chosen = points.iter().any(|point| point.chosen);
            Some((model, chart::trade(&title, &names, &points)?, names.len(), all, any_chosen))
        })
        .collect();
    if charts.is_empty() {
        return None;
    }
    let any_chosen = charts.iter().any(|(.., any_chosen)| *any_chosen);
    Some(html! {
        p {
            "Up and to the left is better. The dotted line joins what nothing else beats in both. Both figures of a point are of the same single-stream case, so that they can be had at once."
            @if any_chosen { " A ring marks what is recommended." }
        }
        @for (model, chart, shown, all, _) in charts {
            figure {
                @if count > 1 { h3 { (model) } }
                (chart)
                (series_left_out(shown, all))
            }
        }
        (left_out(count))
    })
}

fn point(
    configuration: &Configuration<'_>,
    series: &[chart::Series<'_>],
    chosen: &BTreeSet<&str>,
) -> Option<chart::Point> {
    let first = configuration.first();
    let series = series.iter().position(|it| is_same_series(it.cases[0], first))?;
    let value = |metric: &str, unit: &str| {
        let (_, result) = configuration.result_in(Scenario::SingleStream, metric)?;
        let value = result.value.as_ref().ok().copied()?;
        (result.unit == unit && value > 0.0).then_some(value)
    };
    Some(chart::Point {
        label: first.key.batch.to_string(),
        name: name_of(configuration),
        series,
        latency: value("latency.p99", "ns")?,
        throughput: value("throughput.samples", "1/s")?,
        chosen: configuration.cases.iter().any(|case| chosen.contains(&*case.id)),
    })
}

/// Shows the cases under the roofs of their devices, a chart for each device and format of numbers.
fn rooflines(run: &Run, labels: &Labels) -> Option<Markup> {
    let mut roofs: Vec<(&Peaks, &str, Vec<&Case>)> = Vec::new();
    for case in &run.cases {
        let peaks =
            case.report().and_then(|report| report.conditions.peaks.as_ref()?.as_ref().ok());
        let device = case.spec().map_or("", |spec| spec.device.name.as_str());
        let Some(peaks) = peaks else { continue };
        match roofs.iter_mut().find(|(known, name, _)| *known == peaks && *name == device) {
            Some((.., cases)) => cases.push(case),
            None => roofs.push((peaks, device, vec![case])),
        }
    }
    let charts: Vec<_> = roofs
        .into_iter()
        .filter_map(|(peaks, device, cases)| {
            let title = format!("Roofline of {device} in {}", peaks.format);
            let (chart, shown, all) = roofline(&title, peaks, &cases, labels)?;
            Some((title, chart, peaks, shown, all))
        })
        .collect();
    if charts.is_empty() {
        return None;
    }
    Some(html! {
        p {
            "A case computes at most what the line allows: on its slope the memory is the limit, on its level part the arithmetic units are. The intensity counts the fewest bytes that a pass can move, so a case that moves more lies too far to the right. A case above the slope keeps its data in caches."
        }
        @for (title, chart, peaks, shown, all) in charts {
            figure {
                h3 { (title) }
                (chart)
                figcaption { "Peaks are " (peaks.source.to_string()) ". Numbers beside points are batch sizes." }
                (series_left_out(shown, all))
            }
        }
    })
}

/// Returns the chart, with the number of its series and of all.
fn roofline(
    title: &str,
    peaks: &Peaks,
    cases: &[&Case],
    labels: &Labels,
) -> Option<(Markup, usize, usize)> {
    let names = labels.clone().without(Axis::Batch);
    let mut series: Vec<String> = Vec::new();
    let mut loads = Vec::new();
    for case in cases {
        let values = (case.value("model.intensity"), case.value("model.compute"));
        let (Some(intensity), Some(compute)) = values else { continue };
        if intensity <= 0.0 || compute <= 0.0 {
            continue;
        }
        let name = names.label(case);
        let known = series.iter().position(|it| *it == name);
        let index = known.unwrap_or_else(|| {
            series.push(name);
            series.len() - 1
        });
        if index < MAXIMUM_SERIES {
            loads.push(chart::Load {
                label: case.key.batch.to_string(),
                name: labels.label(case),
                series: index,
                intensity,
                compute,
            });
        }
    }
    let all = series.len();
    series.truncate(MAXIMUM_SERIES);
    let known = |peak: &Result<f64, Gap>| peak.as_ref().ok().copied();
    let roof = chart::Roof {
        compute: known(&peaks.flops_per_second),
        bandwidth: known(&peaks.bytes_per_second),
    };
    Some((chart::roofline(title, &series, roof, &loads)?, series.len(), all))
}

/// Returns the name of a configuration, which has no load.
fn name_of(configuration: &Configuration<'_>) -> String {
    let key = &configuration.first().key;
    let axes =
        Axis::shown().filter(|axis| *axis != Axis::Scenario && !axis.goes_without_saying(key));
    let words: Vec<_> = axes.filter_map(|axis| axis.labelled(key)).collect();
    words.join(" · ")
}

fn warnings(run: &Run, labels: &Labels) -> Option<Markup> {
    let warned: Vec<_> = run.cases.iter().filter(|case| !case.warnings.is_empty()).collect();
    if warned.is_empty() {
        return run.cases.iter().any(Case::is_finished).then(|| {
            html! {
                p { "Nothing was found that makes a measurement doubtful." }
            }
        });
    }
    Some(html! {
        div.scroll tabindex="0" role="group" aria-label="Table of warnings" {
            table.wide {
                thead { tr {
                    th scope="col" { "case" } th scope="col" { "warning" } th scope="col" { "figures" }
                } }
                tbody { @for case in warned { @for warning in &case.warnings {
                    tr {
                        th scope="row" { (link(case, labels)) }
                        td { span.tag { (warning.kind().name()) } }
                        td { (warning.to_string()) }
                    }
                } } }
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
    })
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
        h3 { "Per case" }
        p.quiet {
            "The cost of a clock reading and of an empty round of the measuring loop was measured in the same worker, before the backend was opened. The last column is that round as a share of the median query: what of a latency is ours."
        }
        (method_table(&finished, labels, &differing))
        @for group in Group::ALL { (quantities(*group, &finished, labels)) }
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

fn values(run: &Run, labels: &Labels) -> Option<Markup> {
    let rows: usize = run.cases.iter().map(|case| case.results.len()).sum();
    if rows == 0 {
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
