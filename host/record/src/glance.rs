/*!
The part of a case's journal line that comparisons need, read without the rest.

A line has some five kilobytes for each process, and comparing two runs reads all of them. Most is about how the case was
measured. Types that name only what is needed let the reader skip the rest, without an allocation, and without the copy
that an enumeration with an internal tag makes of all its fields before it knows which value it is.

A test holds this form against the whole record.
*/

use std::collections::HashMap;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::backend::DeviceInfo;
use crate::gap::Gap;
use crate::key::CaseKey;
use crate::number::Rate;
use crate::outcome::{CaseRecord, Failure};
use crate::warning::WarningKind;

/// Fields of an ended case that comparisons need, all its processes together.
#[derive(Debug, Clone, PartialEq)]
pub struct CaseGlance {
    /// The case's id.
    pub case_id: String,
    /// Its coordinates.
    pub key: CaseKey,
    /// The device as its backend described it when the plan was made; `None` of a gap.
    pub device: Option<DeviceInfo>,
    /// Measurements, or the reason why the case did not finish.
    pub outcome: Result<FinishedGlance, String>,
}

/// Fields of a finished case that comparisons need.
#[derive(Debug, Clone, PartialEq)]
pub struct FinishedGlance {
    /// Its processes.
    pub processes: usize,
    /// The rates that its processes found and were measured at, in their order; empty if no rate was searched.
    pub searched_rates: Vec<Rate>,
    /// Whether its backend says that the figures are simulated.
    pub is_simulated: bool,
    /// Whether no process was judged invalid.
    pub is_valid: bool,
    /// Kinds of the warnings of all processes.
    pub warnings: Vec<WarningKind>,
}

impl From<&CaseRecord> for CaseGlance {
    fn from(record: &CaseRecord) -> Self {
        let reports = || record.reports();
        let outcome = match record.reason() {
            Some((_, reason)) => Err(reason),
            None => Ok(FinishedGlance {
                processes: reports().count(),
                searched_rates: record.searched_rates(),
                is_simulated: reports().any(|report| report.used.contains_key("simulated")),
                is_valid: reports()
                    .all(|report| report.verdict.as_ref().is_none_or(|it| it.is_valid())),
                // The first report has those of all processes.
                warnings: record
                    .report()
                    .iter()
                    .flat_map(|report| report.warnings.iter().map(|warning| warning.kind()))
                    .collect(),
            }),
        };
        Self {
            case_id: record.case_id.clone(),
            key: record.key.clone(),
            device: record.spec.as_ref().map(|spec| spec.device.clone()),
            outcome,
        }
    }
}

/// A line of the journal: one process of a case.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct GlancedLine {
    /// Version of the writer.
    pub record_version: u32,
    /// The case's id.
    pub case_id: String,
    /// The process of the case, from 0.
    #[serde(default)]
    pub process: u32,
    key: CaseKey,
    #[serde(default)]
    spec: Option<SpecPart>,
    outcome: OutcomePart,
}

#[derive(Debug, Deserialize)]
struct SpecPart {
    device: DeviceInfo,
    measure: MeasurePart,
}

#[derive(Debug, Deserialize)]
struct MeasurePart {
    #[serde(default = "one")]
    processes: u32,
}

fn one() -> u32 {
    1
}

/// The fields of all three outcomes: their names differ.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct OutcomePart {
    outcome: OutcomeName,
    #[serde(default)]
    warnings: Vec<WarningPart>,
    #[serde(default)]
    used: UsedPart,
    #[serde(default)]
    pace: Option<PacePart>,
    #[serde(default)]
    search: Option<IgnoredAny>,
    #[serde(default)]
    verdict: Option<VerdictPart>,
    #[serde(default)]
    paired: Option<PairedPart>,
    #[serde(default)]
    failure: Option<Failure>,
    #[serde(default)]
    gap: Option<Gap>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum OutcomeName {
    Finished,
    Failed,
    Gap,
}

#[derive(Debug, Deserialize)]
struct WarningPart {
    kind: WarningKind,
}

#[derive(Debug, Default, Deserialize)]
struct UsedPart {
    #[serde(default)]
    simulated: Option<IgnoredAny>,
}

#[derive(Debug, Deserialize)]
struct PacePart {
    asked: Rate,
}

#[derive(Debug, Deserialize)]
struct PairedPart {
    result: PairResultPart,
}

#[derive(Debug, Deserialize)]
struct PairResultPart {
    processes: u32,
    #[serde(default)]
    end: Option<IgnoredAny>,
}

#[derive(Debug, Deserialize)]
struct VerdictPart {
    #[serde(default)]
    reasons: Vec<IgnoredAny>,
}

/// Puts the lines of a case's processes together, as [`Processes`](crate::Processes) does with whole records.
#[derive(Debug, Default)]
pub struct Glances {
    waiting: HashMap<String, Vec<GlancedLine>>,
}

impl Glances {
    /// Takes the line of a process; returns the case once it is complete.
    pub fn add(&mut self, line: GlancedLine) -> Option<CaseGlance> {
        let planned = line.spec.as_ref().map_or(1, |spec| spec.measure.processes);
        // The processes of a pair are as many as were needed.
        let paired = line.outcome.paired.as_ref().map(|paired| &paired.result);
        let count = paired.filter(|it| it.end.is_some()).map_or(planned, |it| it.processes);
        if line.outcome.outcome != OutcomeName::Finished {
            self.waiting.remove(&line.case_id);
            return Some(unfinished(line));
        }
        if count <= 1 {
            return Some(finished(vec![line]));
        }
        let known = self.waiting.entry(line.case_id.clone()).or_default();
        known.push(line);
        if known.len() < count as usize {
            return None;
        }
        let id = known[0].case_id.clone();
        self.waiting.remove(&id).map(finished)
    }
}

fn unfinished(line: GlancedLine) -> CaseGlance {
    let reason = match (&line.outcome.failure, &line.outcome.gap) {
        (Some(failure), _) => failure.to_string(),
        (None, Some(gap)) => gap.to_string(),
        (None, None) => "it did not finish".to_owned(),
    };
    let device = line.spec.map(|spec| spec.device);
    CaseGlance { case_id: line.case_id, key: line.key, device, outcome: Err(reason) }
}

/// Merges the lines of a case that finished, of which there is at least one.
fn finished(mut lines: Vec<GlancedLine>) -> CaseGlance {
    lines.sort_by_key(|line| line.process);
    let parts = || lines.iter().map(|line| &line.outcome);
    let finished = FinishedGlance {
        processes: lines.len(),
        searched_rates: parts()
            .filter(|part| part.search.is_some())
            .filter_map(|part| part.pace.as_ref().map(|pace| pace.asked))
            .collect(),
        is_simulated: parts().any(|part| part.used.simulated.is_some()),
        is_valid: parts()
            .all(|part| part.verdict.as_ref().is_none_or(|verdict| verdict.reasons.is_empty())),
        warnings: parts().flat_map(|part| part.warnings.iter().map(|it| it.kind)).collect(),
    };
    let first = lines.swap_remove(0);
    let device = first.spec.map(|spec| spec.device);
    CaseGlance { case_id: first.case_id, key: first.key, device, outcome: Ok(finished) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Breach, CaseSpec, Doubt, InvalidReason, MeasureSettings, Outcome, Pace, Phase, Processes,
        RateSearch, SearchEnd, Verdict, Warning, WorkerReport,
    };

    fn record(case_id: &str, process: u32, processes: u32, outcome: Outcome) -> CaseRecord {
        let key = CaseKey::new("m", "b", "d");
        let measure = MeasureSettings { processes, ..MeasureSettings::default() };
        let spec = serde_json::json!({
            "id": case_id, "index": 0, "key": key, "model": { "name": "m", "sha256": "" },
            "threads": null, "plugin": { "id": "b", "version": "1.0.0", "sha256": "" },
            "device": {
                "id": "d", "kind": "cpu", "name": "it", "memory-bytes": 5, "precisions": ["fp32"],
                "attributes": { "driver": "1" }
            },
            "inputs": { "synthetic": {} }, "measure": measure, "seed": 0
        });
        let spec: CaseSpec = serde_json::from_value(spec).expect("a case");
        CaseRecord {
            record_version: crate::RECORD_VERSION,
            case_id: case_id.into(),
            key: spec.key.clone(),
            spec: Some(spec),
            process,
            started_at: String::new(),
            elapsed_ns: 1,
            outcome,
            standard_error: String::new(),
            environment: None,
            further: Vec::new(),
        }
    }

    fn finished(report: WorkerReport) -> Outcome {
        Outcome::Finished(Box::new(report))
    }

    /// Whatever a journal has, the short form says the same as the whole record.
    #[test]
    fn a_glance_sees_what_the_record_says() {
        let warning = |process| Warning {
            process,
            doubt: Doubt::Simulated { backend_message: "it is".into() },
        };
        let plain = WorkerReport::default;
        let search = RateSearch {
            end: SearchEnd::ALL[0],
            accepted: None,
            rejected: None,
            probes: Vec::new(),
            rates: Vec::new(),
            held: None,
            curve: None,
        };
        let pace = |asked| Pace {
            asked: Rate::per_second(asked).expect("a rate"),
            offered_per_second: None,
            achieved_per_second: None,
            unserved: 0,
            lateness: None,
        };
        let searched =
            |rate| WorkerReport { search: Some(search.clone()), pace: Some(pace(rate)), ..plain() };
        let verdict = |reasons| {
            Some(Verdict { rules: None, reasons, early_stopping: None, departures: Vec::new() })
        };
        let invalid = InvalidReason { process: 0, breach: Breach::CutShort };
        let lines = [
            record("simple", 0, 1, finished(plain())),
            record("given", 0, 1, finished(WorkerReport { pace: Some(pace(3.0)), ..plain() })),
            record(
                "late",
                1,
                2,
                finished(WorkerReport { warnings: vec![warning(0)], ..searched(5.0) }),
            ),
            record(
                "valid",
                0,
                1,
                finished(WorkerReport { verdict: verdict(Vec::new()), ..plain() }),
            ),
            record(
                "invalid",
                0,
                1,
                finished(WorkerReport { verdict: verdict(vec![invalid]), ..plain() }),
            ),
            record("late", 0, 2, finished(searched(7.0))),
            record(
                "simulated",
                0,
                1,
                finished(WorkerReport {
                    used: [("simulated".into(), "yes".into())].into(),
                    ..plain()
                }),
            ),
            record("cut-off", 0, 2, finished(plain())),
            record("half", 0, 2, finished(plain())),
            record(
                "half",
                1,
                2,
                Outcome::Failed { failure: Failure::ExitCode { code: 3, phase: Phase::Load } },
            ),
            CaseRecord {
                spec: None,
                ..record(
                    "gap",
                    0,
                    1,
                    Outcome::Gap { gap: Gap::PluginFailed { plugin_message: "no".into() } },
                )
            },
        ];
        let (mut whole, mut short) = (Processes::default(), Glances::default());
        let mut ended = 0;
        for line in lines {
            let text = serde_json::to_string(&line).expect("JSON");
            let glanced: GlancedLine = serde_json::from_str(&text).expect(&text);
            let found = short.add(glanced);
            let expected = whole.add(line).map(|record| CaseGlance::from(&record));
            assert_eq!(found, expected, "{text}");
            ended += usize::from(found.is_some());
        }
        assert_eq!(ended, 8);
    }
}
