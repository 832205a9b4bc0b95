//! Changes between runs in words, for `compare` and `check`.

use host_experiment::{
    Change, Difference, Doubt, Figure, LATENCY, MetricChange, Needed, RATE, units,
};
use host_record::{Cell, Table};
use host_statistics::{PairedOutcomes, Ratio, Undefined};
use serde_json::{Value, json};

use crate::printer::Printer;
use crate::table::{self, Column};
use crate::visible;

/// Conditions that are shown; machines get all.
const CONDITIONS: usize = 12;

/// Formats a value of a figure for people.
pub(crate) fn value_shown(metric: &str, value: f64, unit: &str) -> String {
    match metric {
        RATE => format!("{value:.1}/s"),
        _ => units::metric(metric, value, unit),
    }
}

/// Formats a figure of a change.
pub(crate) fn figure_shown(figure: Option<&Figure>) -> String {
    let shown = |figure: &Figure| value_shown(&figure.metric, figure.value, &figure.unit);
    figure.map_or_else(|| "—".to_owned(), shown)
}

/// Formats a ratio as a change with its interval: `+20.1 % (+4.9 to +37.4 %)`.
fn ratio_shown(ratio: &Ratio) -> String {
    let percent = |ratio: f64| format!("{:+.1}", 100.0 * (ratio - 1.0));
    let [value, low, high] = [ratio.value, ratio.low, ratio.high].map(percent);
    format!("{value} % ({low} to {high} %)")
}

/// Formats a change with its interval.
pub(crate) fn change_shown(of: &MetricChange) -> String {
    match (&of.ratio, of.part()) {
        (Some(ratio), _) => ratio_shown(ratio),
        (None, Some(part)) if of.is_exact => format!("{:+.1} % (exact)", 100.0 * part),
        (None, Some(part)) => format!("{:+.1} %", 100.0 * part),
        (None, None) => "—".to_owned(),
    }
}

/// Formats a part, such as a limit on changes.
pub(crate) fn percent(part: f64) -> String {
    // A part is a percentage that was divided.
    let text = format!("{:.2}", 100.0 * part);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

/// Returns the reason why a change is unknown.
pub(crate) fn doubt_shown(doubt: Doubt) -> &'static str {
    match doubt {
        Doubt::OneProcess => "a run of one process",
        Doubt::NoProcessValues => "the metric has no value for each process",
        Doubt::NotFound => "no difference found",
        Doubt::Undefined(Undefined::NoSpread) => "all processes of each run say the same",
        Doubt::Undefined(_) => "a value is not above zero",
        Doubt::NoQueries => "the queries of a run are lost",
        Doubt::Invalid => "a result is invalid",
        Doubt::Simulated => "the device is simulated",
    }
}

/// Formats the number of processes that would tell.
pub(crate) fn needed_shown(needed: Needed) -> String {
    match needed {
        Needed::Processes(count) => {
            format!("needs {}", units::count(count as u64, "process", "processes"))
        }
        Needed::More => "needs more than 1000 processes".to_owned(),
    }
}

/// Returns why something cannot be told: how many processes would tell, or else the reason.
pub(crate) fn unknown_shown(doubt: Doubt, needed: Option<Needed>) -> String {
    match needed {
        Some(needed) => needed_shown(needed),
        None => doubt_shown(doubt).to_owned(),
    }
}

/// Formats a verdict for people.
pub(crate) fn verdict_shown(of: &MetricChange, margin: f64) -> String {
    match of.change {
        // Rounded up, since the bound is a promise.
        Change::Within(part) => format!("same within {}", percent((part * 1e3).ceil() / 1e3)),
        Change::CannotTell(doubt) => {
            format!("cannot tell: {}", unknown_shown(doubt, of.needed(margin)))
        }
        _ => match &of.paired {
            Some(paired) if paired.difference != 0.0 => {
                format!("{} ({})", of.verdict(), paired_shown(paired))
            }
            _ => of.verdict().to_owned(),
        },
    }
}

/// Formats how likely other examples would show a difference of accuracy too.
fn paired_shown(paired: &PairedOutcomes) -> String {
    let PairedOutcomes { examples, only_first, only_second, probability, .. } = paired;
    format!(
        "of {examples} examples only the first has {only_first} right, only the second {only_second}: McNemar's p {}",
        match *probability {
            ..0.001 => "below 0.001".to_owned(),
            ..=0.05 => format!("{probability:.3}"),
            _ => format!("{probability:.2}, which may be chance"),
        }
    )
}

/// Returns what to do so that something can be told.
pub(crate) fn remedy(needed: Needed) -> String {
    match needed {
        Needed::Processes(count) => format!(
            "measure both with `processes = {count}` under [measure]: processes differ by more than the queries of one \
             do, and their number decides what can be told"
        ),
        Needed::More => {
            "it needs more than 1000 processes: measure on a quieter machine, or accept a larger change".to_owned()
        }
    }
}

/// Returns the larger of two numbers of processes.
pub(crate) fn most(one: Needed, other: Needed) -> Needed {
    match (one, other) {
        (Needed::Processes(one), Needed::Processes(other)) => Needed::Processes(one.max(other)),
        _ => Needed::More,
    }
}

/// Shows the conditions that differ. They come first, because they may explain all the rest.
pub(crate) fn show_conditions(differences: &[Difference], printer: &Printer) {
    if differences.is_empty() {
        return;
    }
    let shown = &differences[..differences.len().min(CONDITIONS)];
    let text = |value: &Option<String>| match value {
        Some(value) => visible::beginning(&visible::line(value), 60),
        None => "—".to_owned(),
    };
    let columns = vec![
        Column::new("condition", shown.iter().map(|one| visible::line(&one.name).into()).collect()),
        Column::new("first", shown.iter().map(|one| text(&one.first)).collect()),
        Column::new("second", shown.iter().map(|one| text(&one.second)).collect()),
    ];
    let heading = printer.palette().heading("Conditions that differ, which may explain changes");
    let (drawn, _) = table::fit(columns, printer.width());
    printer.show(format_args!("{heading}\n\n{}", printer.headed(&drawn)));
    if differences.len() > CONDITIONS {
        let left = differences.len() - CONDITIONS;
        printer.status("Left out", format_args!("{left} conditions; `--format json` has all"));
    }
}

/// Returns the conditions that differ, for machines.
pub(crate) fn conditions_document(differences: &[Difference]) -> Value {
    let one =
        |one: &Difference| json!({ "name": one.name, "first": one.first, "second": one.second });
    differences.iter().map(one).collect()
}

/// Returns the conditions that differ as a table.
pub(crate) fn conditions_table(differences: &[Difference]) -> Table {
    let text = |value: &Option<String>| value.clone().map_or(Cell::Null, Cell::Text);
    let row =
        |one: &Difference| vec![Cell::Text(one.name.clone()), text(&one.first), text(&one.second)];
    let columns = ["condition", "first", "second"].map(str::to_owned).into();
    Table { columns, rows: differences.iter().map(row).collect() }
}

fn document_of_figure(figure: &Figure) -> Value {
    let [value, interval] = match &*figure.metric {
        LATENCY => ["median-ns", "interval-ns"],
        RATE => ["rate-per-second", "interval-per-second"],
        _ => ["value", "interval"],
    };
    json!({
        value: figure.value,
        interval: figure.interval().ok().flatten(),
        "interval-over": figure.unit_of_interval().name(),
        "interval-confidence": figure.confidence,
        "processes": figure.processes.len(),
    })
}

/// Returns what a comparison found, for machines.
pub(crate) fn document_of_change(of: &MetricChange, margin: f64) -> Value {
    let document = |figure: &Option<Figure>| figure.as_ref().map(document_of_figure);
    let doubt = match of.change {
        Change::CannotTell(doubt) => Some(doubt),
        _ => None,
    };
    let needed = of.needed(margin);
    json!({
        "metric": of.metric,
        "unit": of.unit,
        "direction": of.direction.name(),
        "first": document(&of.before),
        "second": document(&of.after),
        "change": of.part(),
        "ratio": of.ratio.map(|ratio| ratio.value),
        "ratio-interval": of.ratio.map(|ratio| (ratio.low, ratio.high)),
        "detectable-ratio": of.detectable(),
        "probability": of.ratio.map(|ratio| ratio.probability),
        "false-discovery-rate": of.false_discovery_rate,
        "exact": of.is_exact,
        "paired": of.paired.map(|paired| json!({
            "test": "McNemar",
            "examples": paired.examples,
            "only-first-right": paired.only_first,
            "only-second-right": paired.only_second,
            "probability": paired.probability,
            "difference": paired.difference,
            "difference-interval": [paired.low, paired.high],
        })),
        "verdict": of.verdict(),
        "within": match of.change {
            Change::Within(part) => Some(part),
            _ => None,
        },
        "reason": doubt.map(doubt_shown),
        "needed-processes": match needed {
            Some(Needed::Processes(count)) => Some(count),
            _ => None,
        },
        "remedy": needed.map(remedy),
    })
}
