//! How good predictions are: measured cases of run folders are held out, predicted from the rest of their run, and compared
//! with what was measured. Prints a table in Markdown for each folder.
//!
//! Each case between a smaller and a larger batch of its family is held out by itself; and of families with known operations,
//! bytes and peaks, whole families. The intervals are made from the rest alone, so the held-out case has no part in them.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use host_record::{CaseRecord, MetricValue, Processes, earlier};
use recommender_common::observation::observation;
use recommender_common::roofline::{Observation, Predicted, Predictor, Refusal};
use report_common::Case;

fn main() -> Result<(), Box<dyn Error>> {
    let mut page = String::new();
    let mut folders: Vec<String> = std::env::args().skip(1).collect();
    // A small run has no interval of a high confidence.
    let mut confidence = 0.9;
    if folders.first().is_some_and(|first| first == "--confidence") {
        confidence = folders.get(1).ok_or("--confidence needs a part, such as 0.8")?.parse()?;
        folders.drain(..2);
    }
    let mut all: Vec<Vec<Observation>> = Vec::new();
    for folder in &folders {
        all.push(observations(Path::new(folder))?);
    }
    let _ = write!(
        page,
        "| run | held out | predicted | in the {:.0} % interval | median error | 90 % of errors at most | median half-width |\n\
         |---|---|--:|--:|--:|--:|--:|\n",
        100.0 * confidence
    );
    for (place, folder) in folders.iter().enumerate() {
        let name = Path::new(folder).file_name().unwrap_or_default().to_string_lossy().into_owned();
        let own = &all[place];
        // Errors of other runs say how far off predictions can be, if a run is too small for an interval of its own.
        let others: Vec<Observation> = all
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != place)
            .flat_map(|(_, run)| run.iter().cloned())
            .collect();
        row(&mut page, &name, "batches", &batches(own, &[], confidence));
        if batches(own, &[], confidence).found.is_empty() {
            row(
                &mut page,
                &name,
                "batches, with the errors of the other runs",
                &batches(own, &others, confidence),
            );
        }
        row(&mut page, &name, "families", &families(own, confidence));
    }
    #[expect(clippy::print_stdout, reason = "it is what this program is for")]
    {
        print!("{page}");
    }
    Ok(())
}

/// Reads the observations of a run folder.
fn observations(folder: &Path) -> Result<Vec<Observation>, Box<dyn Error>> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "kebab-case")]
    struct Line {
        case_id: String,
        #[serde(default)]
        values: Vec<MetricValue>,
    }
    let mut results: BTreeMap<String, Vec<MetricValue>> = BTreeMap::new();
    for line in fs::read_to_string(folder.join("results.jsonl"))?.lines() {
        let line: Line = earlier::read(line.as_bytes())?;
        results.entry(line.case_id).or_default().extend(line.values);
    }
    let mut processes = Processes::default();
    let mut observations = Vec::new();
    for line in fs::read_to_string(folder.join("journal.jsonl"))?.lines() {
        let record: CaseRecord = earlier::read(line.as_bytes())?;
        let Some(record) = processes.add(record) else { continue };
        let case = Case {
            id: record.case_id.clone(),
            key: record.shown_key(),
            results: results.remove(&record.case_id).unwrap_or_default(),
            record,
            queries: None,
            warnings: Vec::new(),
            quantiles: Vec::new(),
            histogram: Vec::new(),
            timeline: Vec::new(),
            profile: Vec::new(),
            history: Vec::new(),
        };
        observations.extend(observation(&case));
    }
    Ok(observations)
}

/// Predictions beside what was measured, and the reasons of refusals.
#[derive(Default)]
struct Outcomes {
    found: Vec<(Predicted, f64)>,
    refused: BTreeMap<String, usize>,
}

impl Outcomes {
    fn add(&mut self, predicted: Result<Predicted, Refusal>, seconds: f64) {
        match predicted {
            Ok(predicted) => self.found.push((predicted, seconds)),
            Err(refusal) => *self.refused.entry(refusal.to_string()).or_default() += 1,
        }
    }
}

/// Holds out each case that has a smaller and a larger batch beside it.
fn batches(own: &[Observation], others: &[Observation], confidence: f64) -> Outcomes {
    let mut outcomes = Outcomes::default();
    for out in own {
        let same = || own.iter().filter(|one| one.family == out.family);
        let is_inner =
            same().any(|one| one.batch < out.batch) && same().any(|one| one.batch > out.batch);
        if !is_inner {
            continue;
        }
        let rest = own.iter().chain(others).filter(|one| one.case != out.case).cloned();
        let found = Predictor::new(rest).between(&out.family, out.batch, confidence);
        outcomes.add(found, out.seconds);
    }
    outcomes
}

/// Holds out each family with ideal times.
fn families(own: &[Observation], confidence: f64) -> Outcomes {
    let mut outcomes = Outcomes::default();
    let names: BTreeSet<&String> =
        own.iter().filter(|one| one.ideal.is_some()).map(|one| &one.family).collect();
    for name in names {
        let rest = own.iter().filter(|one| one.family != *name).cloned();
        let predictor = Predictor::new(rest);
        for out in own.iter().filter(|one| one.family == *name) {
            let Some(ideal) = out.ideal else { continue };
            outcomes.add(predictor.elsewhere(&out.group, &ideal, confidence), out.seconds);
        }
    }
    outcomes
}

fn row(page: &mut String, run: &str, what: &str, outcomes: &Outcomes) {
    let Outcomes { found, refused } = outcomes;
    let all = found.len() + refused.values().sum::<usize>();
    if all == 0 {
        return;
    }
    let part = |values: &mut Vec<f64>, part: f64| {
        values.sort_by(f64::total_cmp);
        let rank = ((values.len() as f64 * part).ceil() as usize).clamp(1, values.len());
        format!("{:.1} %", 100.0 * values[rank - 1])
    };
    let _ = write!(page, "| `{run}` | {all} {what} | {} | ", found.len());
    if found.is_empty() {
        page.push_str("— | — | — | — |\n");
    } else {
        let held = found
            .iter()
            .filter(|(one, seconds)| (one.interval.0..=one.interval.1).contains(seconds))
            .count();
        let mut errors: Vec<f64> = found
            .iter()
            .map(|(one, seconds)| (one.seconds / seconds).ln().abs().exp_m1())
            .collect();
        let mut widths: Vec<f64> =
            found.iter().map(|(one, _)| (one.interval.1 / one.interval.0).sqrt() - 1.0).collect();
        let _ = writeln!(
            page,
            "{held} ({:.0} %) | {} | {} | {} |",
            100.0 * held as f64 / found.len() as f64,
            part(&mut errors, 0.5),
            part(&mut errors, 0.9),
            part(&mut widths, 0.5)
        );
    }
    for (reason, count) in refused {
        let _ = writeln!(page, "| | of these {count} refused: {reason} | | | | | |");
    }
}
