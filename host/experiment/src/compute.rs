/*!
Computing the metrics of a run from its folder.

Metrics over one case come first, then those over the run, which read the values of the others. A
replaced result stays in `results.jsonl`: lines are only appended, and the newest for a case, plugin
and options counts. A value is never replaced by none: if a plugin fails, or a file that it needs is
lost, its earlier value stays.
*/

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use host_record::{CaseKey, MetricValue, Outcome, Views};
use host_store::{CaseFile, LostFile, ResultRecord, RunFolder, RunViews};
use host_wasm::Sandbox;
use serde_json::Value;

use crate::computed::{Computed, KeptReason, State};
use crate::error::Result;
use crate::guests::Guest;

/// Metrics to compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Metrics that this build of the plugin has not computed.
    Missing,
    /// Everything.
    All,
}

/// Computes metrics, and reports each case as soon as it is done. `lost` are the run's lost files.
///
/// # Errors
///
/// If the run folder cannot be read, or the error of `on_result`.
pub fn compute(
    sandbox: &Sandbox,
    guests: &[Guest],
    folder: &RunFolder,
    lost: &[LostFile],
    extent: Extent,
    on_result: &mut dyn FnMut(Computed) -> Result<()>,
) -> Result<()> {
    let mut before = Before::read(folder)?;
    let (over_run, over_case): (Vec<_>, Vec<_>) =
        guests.iter().partition(|guest| guest.plugin.is_over_run());
    let mut finished = Vec::new();
    for record in folder.records()? {
        let record = record?;
        if !matches!(record.outcome, Outcome::Finished(_)) {
            continue;
        }
        for guest in &over_case {
            let case = record.case_id.as_str();
            if extent == Extent::Missing && before.is_done(case, guest) {
                continue;
            }
            let lost: Vec<&LostFile> = lost.iter().filter(|lost| lost.case_id == case).collect();
            let (names, lost): (Vec<&String>, Vec<_>) = {
                let is_lost = |name: &str| {
                    CaseFile::of_column(name)
                        .is_some_and(|file| lost.iter().any(|lost| lost.file == file))
                };
                guest.plugin.columns().iter().partition(|name| !is_lost(name))
            };
            // A file that was damaged meanwhile costs the metrics that read it.
            let values = match folder.columns(&record, &names) {
                Ok(columns) => {
                    let columns = Rc::new(columns);
                    let values = sandbox.compute(&guest.plugin, &columns, &guest.options);
                    values.map_err(|error| error.to_string())
                }
                Err(error) => Err(error.to_string()),
            };
            on_result(before.compare(case, &record.key, guest, values, &lost))?;
        }
        finished.push((record.case_id, record.key));
    }
    if finished.is_empty() || over_run.is_empty() {
        return Ok(());
    }
    let views: Rc<dyn Views> = Rc::new(RunViews::open(folder)?);
    for guest in over_run {
        let values = sandbox.compute_run(&guest.plugin, Rc::clone(&views), &guest.options);
        let mut values: Result<BTreeMap<String, Vec<MetricValue>>, String> =
            values.map_err(|error| error.to_string());
        for (case, key) in &finished {
            // The sandbox has seen to it that each finished case has its values.
            let values = match &mut values {
                Ok(values) => Ok(values.remove(case).unwrap_or_default()),
                Err(error) => Err(error.clone()),
            };
            on_result(before.compare(case, key, guest, values, &[]))?;
        }
    }
    Ok(())
}

/// Earlier results: by case, plugin id and options.
struct Before(HashMap<(String, String, String), ResultRecord>);

impl Before {
    fn read(folder: &RunFolder) -> Result<Self> {
        let key = |one: &ResultRecord| {
            (one.case_id.clone(), one.plugin.id.clone(), options_text(&one.options))
        };
        Ok(Self(folder.results()?.into_iter().map(|one| (key(&one), one)).collect()))
    }

    fn key(case: &str, guest: &Guest) -> (String, String, String) {
        (case.to_owned(), guest.identity.id.clone(), options_text(&guest.options))
    }

    fn is_done(&self, case: &str, guest: &Guest) -> bool {
        self.0.get(&Self::key(case, guest)).is_some_and(|before| {
            before.error.is_none() && before.plugin.sha256 == guest.identity.sha256
        })
    }

    fn compare(
        &mut self,
        case: &str,
        key: &CaseKey,
        guest: &Guest,
        values: Result<Vec<MetricValue>, String>,
        lost: &[&String],
    ) -> Computed {
        let before = self.0.remove(&Self::key(case, guest));
        let is_worth_keeping = before
            .as_ref()
            .is_some_and(|before| before.values.iter().any(|value| value.value.is_ok()));
        let (identity, options) = (guest.identity.clone(), guest.options.clone());
        let now = match values {
            Ok(values) => ResultRecord::new(case, identity, options, values),
            Err(error) => ResultRecord::failed(case, identity, options, error),
        };
        let state = match (&before, &now.error) {
            (Some(_), Some(error)) if is_worth_keeping => {
                State::Kept(KeptReason::Failed(error.clone()))
            }
            (Some(_), None) if is_worth_keeping && !lost.is_empty() => {
                State::Kept(KeptReason::Lost(lost.iter().map(|name| (*name).clone()).collect()))
            }
            (Some(before), _) if says_the_same(before, &now) => State::Unchanged,
            (Some(_), _) => State::Replaced,
            (None, _) => State::New,
        };
        let is_over_run = guest.plugin.is_over_run();
        Computed { key: key.clone(), is_over_run, now, before, state }
    }
}

fn says_the_same(before: &ResultRecord, now: &ResultRecord) -> bool {
    (&before.plugin, &before.values, &before.error) == (&now.plugin, &now.values, &now.error)
}

/// Returns options as text; none are an empty object.
fn options_text(options: &Value) -> String {
    match options {
        Value::Null => "{}".into(),
        options => options.to_string(),
    }
}
