//! Quantities of a case as columns of metrics, and why one is missing.

use host_record::{CaseRecord, ColumnData, Gap, Outcome, Quantity, Source, column};

/// Returns a quantity as a column of one row; `None` if the case has no value.
pub(super) fn column(quantity: &Quantity, record: &CaseRecord) -> Option<ColumnData> {
    Some(match quantity.source {
        Source::Whole(of) => ColumnData::U64(vec![of(record)?.ok()?]),
        Source::Real(of) => ColumnData::F64(vec![of(record)?.ok()?]),
    })
}

/// Returns why nobody can tell how many samples a query has, if so.
pub(super) fn no_samples(record: &CaseRecord) -> Option<&Gap> {
    match &record.outcome {
        Outcome::Finished(report) => report.conditions.model.as_ref()?.samples.as_ref().err(),
        Outcome::Failed { .. } | Outcome::Gap { .. } => None,
    }
}

/// Returns why columns are missing, if known: `missing.NAME`, and the reason.
pub(super) fn missing(record: &CaseRecord, names: &[impl AsRef<str>]) -> Vec<(String, String)> {
    let reason = |name: &str| match name {
        column::ITEMS => no_samples(record).cloned(),
        _ => Quantity::named(name)?.of(record)?.err(),
    };
    names
        .iter()
        .map(AsRef::as_ref)
        .filter_map(|name| Some((format!("missing.{name}"), reason(name)?.to_string())))
        .collect()
}
