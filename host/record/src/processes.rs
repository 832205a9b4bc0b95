//! Cases that are measured in several processes.

use std::collections::HashMap;

use crate::load::InvalidReason;
use crate::outcome::{CaseRecord, Outcome};
use crate::warning::Warning;

/// Puts the records of a case's processes together.
///
/// A case is over when each of its processes has ended, or one of them did not finish. Until then
/// its records wait. The processes of a pair are as many as were needed: see [`crate::PairResult::end`].
#[derive(Debug, Default)]
pub struct Processes {
    waiting: HashMap<String, Vec<CaseRecord>>,
}

impl Processes {
    /// Takes the record of a process; returns that of the case once it is complete.
    pub fn add(&mut self, record: CaseRecord) -> Option<CaseRecord> {
        let count = record.processes();
        if count <= 1 {
            return Some(record);
        }
        let is_finished = matches!(record.outcome, Outcome::Finished(_));
        let case_id = record.case_id.clone();
        let known = self.waiting.entry(case_id.clone()).or_default();
        known.push(record);
        if is_finished && known.len() < count as usize {
            return None;
        }
        self.waiting.remove(&case_id).and_then(merge)
    }
}

/// Merges the records of a case. The result is that of its first process, with the reports of the
/// others, all warnings and reasons of invalidity, and the highest memory; or that of the process
/// that did not finish.
fn merge(mut records: Vec<CaseRecord>) -> Option<CaseRecord> {
    let unfinished =
        records.iter().position(|record| !matches!(record.outcome, Outcome::Finished(_)));
    if let Some(position) = unfinished {
        return Some(records.swap_remove(position));
    }
    records.sort_by_key(|record| record.process);
    let mut records = records.into_iter();
    let mut merged = records.next()?;
    let Outcome::Finished(report) = &mut merged.outcome else { return Some(merged) };
    for record in records {
        let Outcome::Finished(further) = record.outcome else { continue };
        merged.elapsed_ns = merged.elapsed_ns.saturating_add(record.elapsed_ns);
        if merged.standard_error.is_empty() {
            merged.standard_error = record.standard_error;
        }
        let process = record.process;
        if let (Some(paired), Some(last)) = (&mut report.paired, &further.paired) {
            paired.result = last.result;
        }
        report
            .warnings
            .extend(further.warnings.iter().cloned().map(|warning| Warning { process, ..warning }));
        if let (Some(verdict), Some(other)) = (&mut report.verdict, &further.verdict) {
            let reasons = other.reasons.iter().cloned();
            verdict.reasons.extend(reasons.map(|reason| InvalidReason { process, ..reason }));
        }
        merged.further.push(*further);
    }
    let rates = merged.searched_rates();
    if let Outcome::Finished(report) = &mut merged.outcome
        && let Some(search) = &mut report.search
    {
        search.rates = rates;
    }
    Some(merged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Doubt, Failure, Pace, Phase, Rate, RateSearch, SearchEnd, WarningKind, WorkerReport,
    };

    fn record(process: u32, outcome: Outcome) -> CaseRecord {
        let spec = serde_json::json!({
            "id": "c", "index": 0,
            "key": {
                "model": "m", "backend": "b", "device": "d", "precision": "fp32", "batch": 1,
                "mode": "inference", "scenario": "single-stream"
            },
            "model": { "name": "m", "sha256": "" }, "threads": null,
            "plugin": { "id": "b", "version": "1.0.0", "sha256": "" },
            "device": {
                "id": "d", "kind": "cpu", "name": "", "memory-bytes": null, "precisions": []
            },
            "inputs": { "synthetic": {} },
            "measure": {
                "warm-up": { "iterations": 1 }, "minimum-duration-ns": 1,
                "maximum-duration-ns": 1, "minimum-queries": 1, "timeout-ns": 1, "processes": 3
            },
            "seed": 0
        });
        let spec: crate::CaseSpec = serde_json::from_value(spec).expect("a case");
        CaseRecord {
            record_version: 1,
            case_id: spec.id.clone(),
            key: spec.key.clone(),
            spec: Some(spec),
            process,
            started_at: String::new(),
            elapsed_ns: 10,
            outcome,
            standard_error: String::new(),
            environment: None,
            further: Vec::new(),
        }
    }

    fn finished(process: u32, peak: u64) -> CaseRecord {
        let report = WorkerReport {
            peak_memory_bytes: Some(peak),
            warnings: vec![Doubt::Drift { from_ns: 1e6, to_ns: 1.1e6, scatter_ns: 5e3 }.into()],
            ..WorkerReport::default()
        };
        record(process, Outcome::Finished(Box::new(report)))
    }

    #[test]
    fn a_case_is_over_when_all_its_processes_are() {
        let mut processes = Processes::default();
        assert_eq!(processes.add(finished(1, 7)), None);
        assert_eq!(processes.add(finished(0, 5)), None);
        let case = processes.add(finished(2, 6)).expect("the last one");
        assert_eq!((case.process, case.elapsed_ns, case.further.len()), (0, 30, 2));
        let Outcome::Finished(report) = case.outcome else { panic!("{:?}", case.outcome) };
        // Each keeps its own peak, for intervals over processes.
        assert_eq!(report.peak_memory_bytes, Some(5));
        let warned: Vec<_> =
            report.warnings.iter().map(|warning| (warning.process, warning.kind())).collect();
        let kind = WarningKind::Drift;
        assert_eq!(warned, [(0, kind), (1, kind), (2, kind)]);
        assert!(report.warnings[1].to_string().starts_with("in process 2: p50 rose 10 %"));
    }

    #[test]
    fn all_rates_that_processes_found_are_kept() {
        let searched = |process: u32, rate: f64| {
            let rate = Rate::per_second(rate).expect("a rate");
            let report = WorkerReport {
                pace: Some(Pace {
                    asked: rate,
                    offered_per_second: None,
                    achieved_per_second: None,
                    unserved: 0,
                    lateness: None,
                }),
                search: Some(RateSearch {
                    end: SearchEnd::Found,
                    accepted: Some(rate),
                    rejected: None,
                    probes: Vec::new(),
                    rates: vec![rate],
                    held: None,
                    curve: None,
                }),
                ..WorkerReport::default()
            };
            record(process, Outcome::Finished(Box::new(report)))
        };
        let mut processes = Processes::default();
        assert_eq!(processes.add(searched(1, 400.0)), None);
        assert_eq!(processes.add(searched(2, 500.0)), None);
        let case = processes.add(searched(0, 450.0)).expect("the last one");
        let rates = [450.0, 400.0, 500.0];
        assert_eq!(case.searched_rates().into_iter().map(Rate::get).collect::<Vec<_>>(), rates);
        let Outcome::Finished(report) = case.outcome else { panic!("{:?}", case.outcome) };
        let search = report.search.expect("a search");
        assert_eq!(search.rates.into_iter().map(Rate::get).collect::<Vec<_>>(), rates);
        assert_eq!(search.accepted.map(Rate::get), Some(450.0));
        // A case at a given rate has no searched rate.
        assert_eq!(finished(0, 5).searched_rates(), []);
    }

    #[test]
    fn one_that_fails_ends_its_case() {
        let mut processes = Processes::default();
        processes.add(finished(0, 5));
        let failure = Failure::TimedOut { phase: Phase::Load, limit_ns: 1 };
        let failed = record(1, Outcome::Failed { failure });
        assert_eq!(processes.add(failed.clone()), Some(failed));
    }
}
