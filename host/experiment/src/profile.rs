/*!
Where the time of a case goes: its operators, in one form for every engine that profiles.

A profile is one run that the worker makes after all timed ones (`tare/profile/1`), so it never is a part of a
measurement. Engines differ in what the time of an operator is, which [`OperatorTimes`] says.

Operators are shown by their type and by their place in the graph: names of nodes are paths in most exports, such as
`/encoder/layer.0/attention/MatMul`, and so are those of a training step, which begin with `forward` or `backward`. Folded
stacks are lines that flame graphs are made of (Gregg 2016), and a trace is a file for Perfetto or Chrome.
*/

use std::collections::BTreeMap;

use host_record::{CaseKey, CaseRecord, ColumnData, ProfiledOperator, column};
use host_statistics::median;
use host_store::RunFolder;
use serde_json::{Value, json};

use crate::error::{Error, Result};

/// Property of a session that says what the times of its operators are.
const OPERATOR_TIMES: &str = "operator-times";

/// Meaning of an operator's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperatorTimes {
    /// The time of the call that computed it.
    Calls,
    /// The time on the device, by the device's own events.
    Device,
    /// The time in which it was queued on a device that works in the background. It says nothing of the work.
    Queueing,
}

impl OperatorTimes {
    /// Returns its name in documents.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Calls => "calls",
            Self::Device => "device",
            Self::Queueing => "queueing",
        }
    }

    /// Returns it in words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Calls => "times of calls",
            Self::Device => "times between events of the device",
            Self::Queueing => "times of queueing, which say nothing of the device's work",
        }
    }
}

/// Groups of operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grouping {
    /// The type, then the node.
    Kind,
    /// The parts of the node's path.
    Node,
}

impl Grouping {
    /// All groupings.
    pub const ALL: [Self; 2] = [Self::Kind, Self::Node];

    /// Returns the name of its files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Kind => "by-type",
            Self::Node => "by-node",
        }
    }
}

/// Operators of one type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KindShare {
    /// The type, such as `Conv`.
    pub kind: String,
    /// Number of operators.
    pub operators: u64,
    /// Their own time in nanoseconds, all together.
    pub time_ns: u64,
}

/// The profile of a case.
#[derive(Debug, Clone, PartialEq)]
pub struct CaseProfile {
    /// The case's id.
    pub case_id: String,
    /// Its place in the matrix.
    pub key: CaseKey,
    /// The operators, in order of start.
    pub operators: Vec<ProfiledOperator>,
    /// Meaning of their times.
    pub times: OperatorTimes,
    /// Median latency of the measured queries in nanoseconds; `None` if it has none.
    pub latency_ns: Option<f64>,
}

/// Profiles of a run, and the cases that have none, with the reason.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Profiles {
    /// Cases with a profile, in the order in which they ended.
    pub cases: Vec<CaseProfile>,
    /// Cases without: their place in the matrix, and why.
    pub without: Vec<(CaseKey, String)>,
}

impl Profiles {
    /// Reads the profiles of a run, or of the case whose id begins with `case`.
    ///
    /// # Errors
    ///
    /// If no case has such an id, or the run cannot be read.
    pub fn read(folder: &RunFolder, case: Option<&str>) -> Result<Self> {
        let mut all = Self::default();
        let mut known = Vec::new();
        for record in folder.records()? {
            let record = record?;
            if record.process > 0 {
                continue;
            }
            known.push(record.case_id.clone());
            if case.is_some_and(|case| !record.case_id.starts_with(case)) {
                continue;
            }
            match why_not(&record) {
                Some(reason) => all.without.push((record.shown_key(), reason)),
                None => all.cases.push(CaseProfile::of(folder, &record)?),
            }
        }
        match case {
            Some(case) if all.cases.is_empty() && all.without.is_empty() => {
                let (case, run) = (case.to_owned(), folder.run_id().to_owned());
                Err(Error::NoSuchCase { case, run, known })
            }
            _ => Ok(all),
        }
    }
}

/// Returns why a case has no profile.
fn why_not(record: &CaseRecord) -> Option<String> {
    let Some(report) = record.report() else {
        return Some("it did not finish".into());
    };
    match &report.conditions.placement {
        Some(Ok(_)) => None,
        Some(Err(gap)) => Some(gap.to_string()),
        None => Some("it was not profiled".into()),
    }
}

impl CaseProfile {
    fn of(folder: &RunFolder, record: &CaseRecord) -> Result<Self> {
        let columns = folder.columns(record, &[column::LATENCY])?;
        let latency_ns = columns.columns.first().and_then(|column| match &column.data {
            ColumnData::U64(latencies) => median(latencies),
            _ => None,
        });
        let used = record.report().map(|report| &report.used);
        let times = match used.and_then(|used| used.get(OPERATOR_TIMES)).map(String::as_str) {
            Some("queueing") => OperatorTimes::Queueing,
            Some("device") => OperatorTimes::Device,
            _ => OperatorTimes::Calls,
        };
        Ok(Self {
            case_id: record.case_id.clone(),
            key: record.shown_key(),
            operators: folder.operators(record)?,
            times,
            latency_ns,
        })
    }

    /// Returns the time of all operators in nanoseconds.
    #[must_use]
    pub fn time_ns(&self) -> u64 {
        self.operators.iter().fold(0, |sum, operator| sum.saturating_add(operator.duration_ns))
    }

    /// Returns the time of all operators by the median latency, if that means anything.
    #[must_use]
    pub fn of_latency(&self) -> Option<f64> {
        let latency = self.latency_ns.filter(|latency| *latency > 0.0)?;
        (self.times != OperatorTimes::Queueing).then(|| self.time_ns() as f64 / latency)
    }

    /// Returns the types of operators, the longest time first.
    #[must_use]
    pub fn kinds(&self) -> Vec<KindShare> {
        let mut shares: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for operator in &self.operators {
            let share = shares.entry(kind(operator)).or_default();
            share.0 += 1;
            share.1 = share.1.saturating_add(operator.duration_ns);
        }
        let mut shares: Vec<KindShare> = shares
            .into_iter()
            .map(|(kind, (operators, time_ns))| KindShare { kind: kind.into(), operators, time_ns })
            .collect();
        shares.sort_by_key(|share| std::cmp::Reverse(share.time_ns));
        shares
    }

    /// Returns folded stacks: names joined by semicolons, a space, and nanoseconds. Sorted, each stack once.
    #[must_use]
    pub fn folded(&self, grouping: Grouping) -> Vec<String> {
        let mut stacks: BTreeMap<String, u64> = BTreeMap::new();
        for operator in &self.operators {
            let parts: Vec<String> = match grouping {
                Grouping::Kind => vec![frame(kind(operator)), frame(&operator.name)],
                Grouping::Node => path(operator),
            };
            let time = stacks.entry(parts.join(";")).or_default();
            *time = time.saturating_add(operator.duration_ns);
        }
        stacks.into_iter().map(|(stack, time)| format!("{stack} {time}")).collect()
    }

    /// Draws a flame graph as an SVG.
    ///
    /// # Errors
    ///
    /// If all operators took no time, so that there is nothing to draw.
    pub fn flame_graph(&self, grouping: Grouping, title: &str) -> Result<Vec<u8>> {
        use inferno::flamegraph::{Options, TextTruncateDirection, from_lines};
        let mut options = Options::default();
        options.title = title.to_owned();
        options.subtitle = Some(format!("One profiled run; {}", self.times.words()));
        options.count_name = "ns".into();
        options.deterministic = true;
        options.text_truncate_direction = TextTruncateDirection::Right;
        let lines = self.folded(grouping);
        let mut svg = Vec::new();
        from_lines(&mut options, lines.iter().map(String::as_str), &mut svg)
            .map_err(|source| Error::FlameGraph { case: self.case_id.clone(), source })?;
        Ok(svg)
    }

    /// Returns a trace in the format of Chrome, which Perfetto reads: a line for each provider, times in microseconds.
    #[must_use]
    pub fn trace(&self, process: &str) -> Value {
        let mut providers: Vec<&str> = Vec::new();
        let mut events = vec![json!({
            "ph": "M", "name": "process_name", "pid": 1, "args": { "name": process },
        })];
        for operator in &self.operators {
            let known = providers.iter().position(|provider| *provider == operator.provider);
            let thread = known.unwrap_or_else(|| {
                providers.push(&operator.provider);
                providers.len() - 1
            });
            events.push(json!({
                "ph": "X",
                "name": operator.name,
                "cat": kind(operator),
                "pid": 1,
                "tid": thread + 1,
                "ts": operator.start_ns as f64 / 1e3,
                "dur": operator.duration_ns as f64 / 1e3,
                "args": { "type": kind(operator) },
            }));
        }
        events.extend(providers.iter().enumerate().map(|(thread, provider)| {
            let name = if provider.is_empty() { "operators" } else { provider };
            json!({
                "ph": "M", "name": "thread_name", "pid": 1, "tid": thread + 1, "args": { "name": name },
            })
        }));
        json!({ "displayTimeUnit": "ns", "traceEvents": events })
    }
}

/// Returns the type of an operator.
fn kind(operator: &ProfiledOperator) -> &str {
    if operator.kind.is_empty() { "unknown" } else { &operator.kind }
}

/// Returns a text as a frame of a folded stack.
fn frame(text: &str) -> String {
    let frame: String =
        text.chars().map(|one| if one == ';' || one.is_control() { ' ' } else { one }).collect();
    match frame.trim() {
        "" => "unnamed".into(),
        frame => frame.to_owned(),
    }
}

/// Returns the parts of a node's name, and its type at the end.
fn path(operator: &ProfiledOperator) -> Vec<String> {
    let parts = operator.name.split('/').filter(|part| !part.trim().is_empty());
    let mut parts: Vec<String> = parts.map(frame).collect();
    let kind = frame(kind(operator));
    if parts.last() != Some(&kind) {
        parts.push(kind);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operator(name: &str, kind: &str, start_ns: u64, duration_ns: u64) -> ProfiledOperator {
        let (name, kind, provider) = (name.into(), kind.into(), "CPU".into());
        ProfiledOperator { name, kind, provider, start_ns, duration_ns }
    }

    fn profile() -> CaseProfile {
        CaseProfile {
            case_id: "0123".into(),
            key: CaseKey::new("digits", "torch", "cpu:0"),
            operators: vec![
                operator("/layer.0/conv1/Conv", "Conv", 0, 60),
                operator("/layer.0/relu", "Relu", 60, 10),
                operator("/layer.1/conv1/Conv", "Conv", 70, 20),
                operator("a;b", "", 90, 5),
            ],
            times: OperatorTimes::Calls,
            latency_ns: Some(100.0),
        }
    }

    #[test]
    fn types_are_summed_the_longest_first() {
        let share =
            |kind: &str, operators, time_ns| KindShare { kind: kind.into(), operators, time_ns };
        assert_eq!(
            profile().kinds(),
            [share("Conv", 2, 80), share("Relu", 1, 10), share("unknown", 1, 5)]
        );
        assert_eq!((profile().time_ns(), profile().of_latency()), (95, Some(0.95)));
        let queued = CaseProfile { times: OperatorTimes::Queueing, ..profile() };
        assert_eq!(queued.of_latency(), None);
    }

    #[test]
    fn stacks_are_folded_by_type_and_by_node() {
        insta::assert_snapshot!(profile().folded(Grouping::Kind).join("\n"), @"
        Conv;/layer.0/conv1/Conv 60
        Conv;/layer.1/conv1/Conv 20
        Relu;/layer.0/relu 10
        unknown;a b 5
        ");
        insta::assert_snapshot!(profile().folded(Grouping::Node).join("\n"), @"
        a b;unknown 5
        layer.0;conv1;Conv 60
        layer.0;relu;Relu 10
        layer.1;conv1;Conv 20
        ");
    }

    #[test]
    fn a_flame_graph_is_a_picture_with_every_part() {
        let svg = profile().flame_graph(Grouping::Node, "digits").expect("a picture");
        let svg = String::from_utf8(svg).expect("text");
        assert!(
            svg.contains("<svg ") && svg.contains("layer.0") && svg.contains("times of calls"),
            "{svg}"
        );
        let empty = CaseProfile { operators: Vec::new(), ..profile() };
        let error = empty.flame_graph(Grouping::Kind, "digits").expect_err("nothing is drawn");
        assert!(error.to_string().contains("0123"), "{error}");
    }

    #[test]
    fn a_trace_has_an_event_for_each_operator() {
        let trace = profile().trace("digits");
        let events = trace["traceEvents"].as_array().expect("events");
        let spans: Vec<&Value> = events.iter().filter(|event| event["ph"] == "X").collect();
        assert_eq!(spans.len(), 4);
        assert_eq!(spans[1]["ts"], 0.06);
        assert_eq!((&spans[1]["dur"], &spans[1]["cat"]), (&json!(0.01), &json!("Relu")));
        assert!(
            events
                .iter()
                .any(|event| event["name"] == "thread_name" && event["args"]["name"] == "CPU")
        );
    }
}
