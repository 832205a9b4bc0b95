/*!
Answers and costs of a guest with its options in this run.

A sandbox lives for one run and keeps data between calls. A metric's answers must match its trial: limits and reports
rely on its names, units and directions. A guest that ran out of time would do so for every case, so it is not called
again. And the total of its answers is bounded, since a thousand cases at the limit for one case would be too much for
every report.
*/

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use host_record::{Direction, MetricValue};

/// Limit on the texts of a guest's answers, in bytes, without the addition for each answer.
const ALL: usize = 4 << 20;
const EACH: usize = 8 << 10;

/// A guest with its options: the component's SHA-256, and the options as text.
pub(crate) type Key = (String, String);

#[derive(Debug, Default)]
pub(crate) struct Ledger(Mutex<HashMap<Key, Account>>);

#[derive(Debug, Default)]
struct Account {
    out_of_time: Option<&'static str>,
    stated: Option<Vec<(String, String, Direction)>>,
    answers: usize,
    bytes: usize,
}

impl Ledger {
    fn accounts(&self) -> MutexGuard<'_, HashMap<Key, Account>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the call in which the guest ran out of time.
    pub(crate) fn out_of_time(&self, key: &Key) -> Option<&'static str> {
        self.accounts().get(key)?.out_of_time
    }

    /// Records that the guest ran out of time.
    pub(crate) fn runs_out_of_time(&self, key: Key, call: &'static str) {
        self.accounts().entry(key).or_default().out_of_time = Some(call);
    }

    /// Records the values that a metric stated when it was tried.
    pub(crate) fn states(&self, key: Key, values: &[MetricValue]) {
        let one = |value: &MetricValue| (value.metric.clone(), value.unit.clone(), value.direction);
        let stated = values.iter().map(one).collect();
        self.accounts().entry(key).or_default().stated = Some(stated);
    }

    /// Checks an answer against the metric's trial, if there was one, and counts it.
    pub(crate) fn takes(&self, key: Key, values: &[MetricValue]) -> Result<(), String> {
        let mut accounts = self.accounts();
        let account = accounts.entry(key).or_default();
        if let Some(stated) = &account.stated {
            values.iter().try_for_each(|value| held(value, stated))?;
        }
        account.answers += 1;
        account.bytes += values.iter().map(size).sum::<usize>();
        let limit = ALL + EACH * account.answers;
        if account.bytes > limit {
            return Err(format!(
                "the texts of its {} answers have {} bytes; the limit is {limit}",
                account.answers, account.bytes
            ));
        }
        Ok(())
    }
}

fn held(value: &MetricValue, stated: &[(String, String, Direction)]) -> Result<(), String> {
    let MetricValue { metric, unit, direction, .. } = value;
    match stated.iter().find(|(name, ..)| name == metric) {
        None => {
            let names: Vec<_> =
                stated.iter().take(20).map(|(name, ..)| format!("`{name}`")).collect();
            Err(format!(
                "`{metric}` was not stated when the metric was tried with these options; stated were {}",
                if names.is_empty() { "no values".into() } else { names.join(", ") }
            ))
        }
        Some((_, its_unit, its_direction)) if (its_unit, its_direction) != (unit, direction) => {
            Err(format!(
                "`{metric}` is `{unit}`, {direction}, and was `{its_unit}`, {its_direction} when the \
                 metric was tried with these options"
            ))
        }
        Some(_) => Ok(()),
    }
}

/// Returns the bytes of a value's texts.
fn size(value: &MetricValue) -> usize {
    let reason = value.value.as_ref().err().map_or(0, |gap| gap.to_string().len());
    let attributes = value.attributes.iter().map(|(name, value)| name.len() + value.len());
    value.metric.len() + value.unit.len() + reason + attributes.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(metric: &str, unit: &str, direction: Direction) -> MetricValue {
        MetricValue {
            metric: metric.into(),
            value: Ok(1.0),
            interval: None,
            unit: unit.into(),
            direction,
            attributes: std::collections::BTreeMap::new(),
        }
    }

    fn key(options: &str) -> Key {
        ("c0ffee".into(), options.into())
    }

    #[test]
    fn a_metric_is_held_to_what_it_stated() {
        let ledger = Ledger::default();
        let p50 = value("latency.p50", "ns", Direction::Lower);
        ledger.states(key("{}"), &[p50.clone(), value("latency.p99", "ns", Direction::Lower)]);
        let taken = |one: &MetricValue| ledger.takes(key("{}"), std::slice::from_ref(one));
        assert_eq!(taken(&p50), Ok(()));
        insta::assert_snapshot!(
            taken(&value("latency.p42", "ns", Direction::Lower)).expect_err("beyond"),
            @"`latency.p42` was not stated when the metric was tried with these options; stated were `latency.p50`, `latency.p99`"
        );
        insta::assert_snapshot!(
            taken(&value("latency.p50", "s", Direction::Lower)).expect_err("otherwise"),
            @"`latency.p50` is `s`, lower, and was `ns`, lower when the metric was tried with these options"
        );
        insta::assert_snapshot!(
            taken(&value("latency.p50", "ns", Direction::Higher)).expect_err("otherwise"),
            @"`latency.p50` is `ns`, higher, and was `ns`, lower when the metric was tried with these options"
        );
        // With other options it may state other values, and before its trial any.
        let other = value("latency.p42", "ns", Direction::Lower);
        assert_eq!(ledger.takes(key(r#"{"a":1}"#), &[other]), Ok(()));
    }

    #[test]
    fn answers_are_bounded_in_sum() {
        let ledger = Ledger::default();
        let mut large = value("latency.p50", "ns", Direction::Lower);
        large.attributes.insert("text".into(), "x".repeat(40 << 10));
        let answers = (0..1000).map_while(|_| ledger.takes(key("{}"), &[large.clone()]).ok());
        assert_eq!(answers.count(), 127);
        insta::assert_snapshot!(
            ledger.takes(key("{}"), &[large]).expect_err("too much"),
            @"the texts of its 129 answers have 5286033 bytes; the limit is 5251072"
        );
        // As much as the built-in plugins state, for any number of cases.
        let mut usual = value("latency.p50", "ns", Direction::Lower);
        usual.attributes.insert("text".into(), "x".repeat(8000));
        let answers = (0..10_000).map_while(|_| ledger.takes(key("usual"), &[usual.clone()]).ok());
        assert_eq!(answers.count(), 10_000);
    }
}
