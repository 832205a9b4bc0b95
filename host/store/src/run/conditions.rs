//! Quantities of a case as columns of metrics, and reasons for missing ones.

use host_record::{CaseRecord, ColumnData, Gap, Outcome, Quantity, Source, column};

/// Returns a quantity as a column of a row for each process; `None` if a process has no value.
pub(super) fn column(quantity: &Quantity, record: &CaseRecord) -> Option<ColumnData> {
    let processes = record.each_process();
    Some(match quantity.source {
        Source::Whole(of) => {
            ColumnData::U64(processes.iter().map(|one| of(one)?.ok()).collect::<Option<_>>()?)
        }
        Source::Real(of) => {
            ColumnData::F64(processes.iter().map(|one| of(one)?.ok()).collect::<Option<_>>()?)
        }
    })
}

/// Returns why the number of samples in a query is unknown, if it is.
pub(super) fn no_samples(record: &CaseRecord) -> Option<&Gap> {
    match &record.outcome {
        Outcome::Finished(report) => report.conditions.model.as_ref()?.samples.as_ref().err(),
        Outcome::Failed { .. } | Outcome::Gap { .. } => None,
    }
}

/// Returns why columns are missing, if known: `missing.NAME`, and the reason.
pub(super) fn missing(record: &CaseRecord, names: &[impl AsRef<str>]) -> Vec<(String, String)> {
    let processes = record.each_process();
    let reason = |name: &str| match name {
        column::ITEMS => no_samples(record).cloned(),
        column::STEP_LOSS
        | column::EPOCH_LOSS
        | column::EPOCH_TIME
        | column::EPOCH_READING
        | column::EPOCH_ACCURACY
        | column::EPOCH_EXAMPLES => {
            record.report()?.conditions.learning.as_ref()?.as_ref().err().cloned()
        }
        column::PHASE_MEMORY => {
            record.report()?.conditions.phase_memory.as_ref()?.as_ref().err().cloned()
        }
        _ => {
            let quantity = Quantity::named(name)?;
            processes.iter().find_map(|process| quantity.of(process)?.err())
        }
    };
    names
        .iter()
        .map(AsRef::as_ref)
        .filter_map(|name| Some((format!("missing.{name}"), reason(name)?.to_string())))
        .collect()
}
