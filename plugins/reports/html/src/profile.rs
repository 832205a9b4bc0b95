/*!
Where the time of cases goes: a flame graph for each that was profiled, from the whole run at the top down to nodes.

`host profile` writes flame graphs that can be enlarged, which takes scripts of their own; these are plain pictures, whose parts
say on hover what they are. Types of operators have colours, the longest first.
*/

use std::collections::BTreeMap;

use host_page::{humanise, significant};
use maud::{Markup, html};
use report_common::{Case, Labels, Node, Run};

/// Cases whose pictures are open at first.
const OPEN: usize = 2;
/// Types that have a row in the table, and a colour.
const TYPES: usize = 7;
/// Levels that are drawn.
const LEVELS: usize = 16;
/// Width of a picture, and height of a level.
const WIDTH: f64 = 1100.0;
const HEIGHT: f64 = 19.0;
/// Width of a character, and the narrowest part that is drawn.
const CHARACTER: f64 = 6.6;
const NARROWEST: f64 = 0.6;

/// The property that says what times of operators are, and its value for a device that works in the background.
const OPERATOR_TIMES: &str = "operator-times";
const QUEUEING: &str = "queueing";

const WORDS: &str = "One run of each case was profiled, after all that was timed, and is no part of a measurement. Above is \
    the whole run; below are the parts of the nodes' names, in the order in which they began, as wide as they took long. Colours are types of operators.";

/// Name of all operators that took little time.
const REST: &str = "operators that took less than a thousandth each";

pub(crate) fn section(run: &Run, labels: &Labels) -> Option<Markup> {
    let profiled: Vec<&Case> = run.cases.iter().filter(|case| whole(case) > 0).collect();
    let conditions =
        |case: &Case| matches!(&case.conditions()?.placement, Some(Ok(_))).then_some(());
    let all = run.cases.iter().filter(|case| conditions(case).is_some()).count();
    (!profiled.is_empty()).then(|| {
        html! {
            p { (WORDS) }
            @for (place, case) in profiled.iter().enumerate() {
                details open[place < OPEN] {
                    summary { (labels.label(case)) }
                    (picture(case))
                }
            }
            @if all > profiled.len() {
                p.quiet { (all - profiled.len()) " more cases were profiled: " code { "host profile RUN" } " draws all." }
            }
        }
    })
}

/// Returns the time of all operators.
fn whole(case: &Case) -> i64 {
    case.profile.iter().map(|node| node.duration_ns.max(0)).sum()
}

/// A part of the picture: its name, its time, its parts, and the type if it is a node of one.
#[derive(Default)]
struct Frame<'a> {
    time: i64,
    kind: Option<&'a str>,
    parts: Vec<(&'a str, Frame<'a>)>,
}

impl<'a> Frame<'a> {
    fn add(&mut self, path: &[&'a str], kind: Option<&'a str>, time: i64) {
        self.time += time;
        let Some((first, rest)) = path.split_first() else {
            self.kind = kind;
            return;
        };
        let place = self.parts.iter().position(|(name, _)| name == first).unwrap_or_else(|| {
            self.parts.push((first, Frame::default()));
            self.parts.len() - 1
        });
        self.parts[place].1.add(rest, kind, time);
    }
}

/// Returns the parts of a node's name, and its type unless the name ends so.
fn path(node: &Node) -> Vec<&str> {
    let Some(name) = &node.name else { return vec![REST] };
    let mut parts: Vec<&str> = name.split('/').filter(|part| !part.trim().is_empty()).collect();
    let kind = node.kind.as_deref().filter(|kind| !kind.is_empty()).unwrap_or("unknown");
    if parts.last() != Some(&kind) {
        parts.push(kind);
    }
    parts
}

/// A type of operators: its name, their number and their time.
type Share<'a> = (&'a str, i64, i64);

/// Returns the types, the longest first.
fn shares(case: &Case) -> Vec<Share<'_>> {
    let mut shares: BTreeMap<&str, (i64, i64)> = BTreeMap::new();
    for node in &case.profile {
        let kind = match (&node.name, node.kind.as_deref()) {
            (None, _) => REST,
            (_, None | Some("")) => "unknown",
            (_, Some(kind)) => kind,
        };
        let share = shares.entry(kind).or_default();
        *share = (share.0 + node.operators, share.1 + node.duration_ns);
    }
    let mut shares: Vec<Share<'_>> =
        shares.into_iter().map(|(kind, (count, time))| (kind, count, time)).collect();
    shares.sort_by_key(|(kind, _, time)| (std::cmp::Reverse(*time), *kind));
    shares
}

fn picture(case: &Case) -> Markup {
    let shares = shares(case);
    let whole = whole(case).max(1);
    let mut root = Frame::default();
    for node in &case.profile {
        root.add(&path(node), node.kind.as_deref(), node.duration_ns.max(0));
    }
    let mut drawn = Vec::new();
    draw("all operators", &root, (0.0, WIDTH), 0, &mut drawn);
    let levels = drawn.iter().map(|part| part.level + 1).max().unwrap_or(1);
    let height = levels as f64 * HEIGHT;
    let percent = |time: i64| format!("{} %", significant(time as f64 / whole as f64 * 100.0, 3));
    html! {
        figure {
            div.scroll tabindex="0" {
                svg viewBox={ "0 0 " (WIDTH) " " (height) } width=(WIDTH) height=(height) role="img" {
                    @for part in &drawn {
                        @let y = part.level as f64 * HEIGHT;
                        g {
                            title { (part.name) ": " (humanise(part.time as f64, "ns")) ", " (percent(part.time)) }
                            rect.part.rest[part.kind.is_none()] .(colour(part.kind, &shares)) x=(format!("{:.2}", part.x)) y=(y)
                                width=(format!("{:.2}", part.width)) height=(HEIGHT - 1.0) {}
                            @if let Some(text) = shown(part) {
                                text class=(if part.kind.is_some() { "inside" } else { "tick" }) x=(format!("{:.2}", part.x + 3.0)) y=(y + 13.0) { (text) }
                            }
                        }
                    }
                }
            }
            figcaption { (sentence(case)) }
            table {
                thead { tr {
                    th scope="col" { "type" } th.number scope="col" { "operators" } th.number scope="col" { "time" } th.number scope="col" { "share" }
                } }
                tbody {
                    @for (kind, count, time) in shares.iter().take(TYPES) {
                        tr {
                            th scope="row" {
                                @if *kind != REST {
                                    svg width="11" height="11" aria-hidden="true" { rect .(colour(Some(kind), &shares)) width="11" height="11" {} } " "
                                }
                                (kind)
                            }
                            td.number { (count) } td.number { (humanise(*time as f64, "ns")) } td.number { (percent(*time)) }
                        }
                    }
                    @if let Some(rest) = shares.get(TYPES..).filter(|rest| !rest.is_empty()) {
                        tr {
                            th scope="row" { (rest.len()) " other types" }
                            td.number { (rest.iter().map(|(_, count, _)| count).sum::<i64>()) }
                            td.number { (humanise(rest.iter().map(|(.., time)| time).sum::<i64>() as f64, "ns")) }
                            td.number { (percent(rest.iter().map(|(.., time)| time).sum())) }
                        }
                    }
                }
            }
        }
    }
}

/// Returns how the sum of the operators compares with the measured median.
fn sentence(case: &Case) -> String {
    let count: i64 = case.profile.iter().map(|node| node.operators).sum();
    let time = whole(case);
    let used = case.report().and_then(|report| report.used.get(OPERATOR_TIMES));
    let times = match used.map(String::as_str) {
        Some(QUEUEING) => "times of queueing, which say nothing of the device's work",
        Some("device") => "times between events of the device",
        _ => "times of calls",
    };
    let median = case.quantiles.iter().find(|(quantile, _)| *quantile >= 0.5).map(|(_, ns)| *ns);
    let of = match median {
        Some(median) if median > 0 && used.is_none_or(|used| used != QUEUEING) => format!(
            ", {} % of the measured median of {}",
            significant(time as f64 / median as f64 * 100.0, 4),
            humanise(median as f64, "ns")
        ),
        _ => String::new(),
    };
    let operators = if count == 1 { "operator takes" } else { "operators take" };
    format!("{count} {operators} {} in the profiled run{of}; {times}.", humanise(time as f64, "ns"))
}

/// A rectangle.
struct Part<'a> {
    name: &'a str,
    kind: Option<&'a str>,
    time: i64,
    x: f64,
    width: f64,
    level: usize,
}

fn draw<'a>(
    name: &'a str,
    frame: &Frame<'a>,
    (x, width): (f64, f64),
    level: usize,
    drawn: &mut Vec<Part<'a>>,
) {
    if width < NARROWEST || level >= LEVELS {
        return;
    }
    drawn.push(Part { name, kind: frame.kind, time: frame.time, x, width, level });
    let mut at = x;
    for (name, part) in &frame.parts {
        let room = width * part.time as f64 / frame.time.max(1) as f64;
        draw(name, part, (at, room), level + 1, drawn);
        at += room;
    }
}

/// Returns the text that fits into a part.
fn shown(part: &Part<'_>) -> Option<String> {
    let room = ((part.width - 6.0) / CHARACTER) as usize;
    let length = part.name.chars().count();
    match (length <= room, room >= 4) {
        (true, _) => Some(part.name.to_owned()),
        (false, true) => {
            let begin: String = part.name.chars().take(room - 1).collect();
            Some(format!("{begin}…"))
        }
        _ => None,
    }
}

/// Returns the class with the colour of a type.
fn colour(kind: Option<&str>, shares: &[Share<'_>]) -> String {
    let Some(kind) = kind else { return "none".into() };
    let named = shares.iter().filter(|(name, ..)| *name != REST);
    let place = named.take(TYPES).position(|(name, ..)| *name == kind);
    format!("c{}", place.unwrap_or(TYPES))
}
