//! Comparison of two answers to each of the same examples.

use crate::distribution::{incomplete_beta, normal_quantile};

/// Two sets of answers to the same examples, compared by those that only one of them has right.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PairedOutcomes {
    /// Examples.
    pub examples: usize,
    /// Examples that only the first has right.
    pub only_first: usize,
    /// Examples that only the second has right.
    pub only_second: usize,
    /// Two-sided *p*: how often two sets of answers that are equally often right would differ so much.
    pub probability: f64,
    /// Part of examples that the second has right, less that of the first.
    pub difference: f64,
    /// Lower bound of its interval.
    pub low: f64,
    /// Upper bound of its interval.
    pub high: f64,
}

/// Compares two sets of answers, each right or wrong, to the same examples. `None` if their numbers differ, or there is no
/// example.
///
/// The probability is that of the exact test of Q. McNemar ("Note on the Sampling Error of the Difference between Correlated
/// Proportions or Percentages", *Psychometrika* 12, 1947): of the examples that only one has right, each is as likely to be the
/// first's as the second's. Examples that both have right, or both wrong, say nothing of the difference, which is why this
/// finds differences that two intervals, each over all examples, do not.
///
/// The interval of the difference is the adjusted one of D. G. Bonett and R. M. Price ("Adjusted Wald Confidence Interval for a
/// Difference of Binomial Proportions Based on Paired Data", *Journal of Educational and Behavioral Statistics* 37(4), 2012).
///
/// # Panics
///
/// If `confidence` is not strictly between 0 and 1.
#[must_use]
pub fn paired_outcomes(first: &[bool], second: &[bool], confidence: f64) -> Option<PairedOutcomes> {
    assert!(confidence > 0.0 && confidence < 1.0, "a confidence lies between 0 and 1");
    if first.len() != second.len() || first.is_empty() {
        return None;
    }
    let count = |wanted: (bool, bool)| {
        first.iter().zip(second).filter(|(one, other)| (**one, **other) == wanted).count()
    };
    let (only_first, only_second) = (count((true, false)), count((false, true)));
    let examples = first.len();
    let adjusted = |count: usize| (count as f64 + 1.0) / (examples as f64 + 2.0);
    let (one, other) = (adjusted(only_first), adjusted(only_second));
    let middle = other - one;
    let error = ((one + other - middle * middle) / (examples as f64 + 2.0)).sqrt();
    let half = normal_quantile(0.5 + confidence / 2.0) * error;
    let difference = (only_second as f64 - only_first as f64) / examples as f64;
    Some(PairedOutcomes {
        examples,
        only_first,
        only_second,
        probability: exact(only_first, only_second),
        difference,
        // The adjustment draws it to zero: it contains the difference itself.
        low: (middle - half).max(-1.0).min(difference),
        high: (middle + half).min(1.0).max(difference),
    })
}

/// Writes outcomes as hexadecimal digits, four in each, the first in the highest bit.
#[must_use]
pub fn outcomes_text(outcomes: impl IntoIterator<Item = bool>) -> String {
    let outcomes: Vec<bool> = outcomes.into_iter().collect();
    let digit = |four: &[bool]| {
        let bits = (0..4).map(|place| u32::from(four.get(place).copied().unwrap_or(false)));
        let value = bits.fold(0, |value, bit| 2 * value + bit);
        char::from_digit(value, 16).unwrap_or('0')
    };
    outcomes.chunks(4).map(digit).collect()
}

/// Reads outcomes of so many examples, as [`outcomes_text`] writes them. `None` if the text is of another number.
#[must_use]
pub fn outcomes_of_text(text: &str, examples: usize) -> Option<Vec<bool>> {
    if text.len() != examples.div_ceil(4) {
        return None;
    }
    let digits: Vec<u32> = text.chars().map(|digit| digit.to_digit(16)).collect::<Option<_>>()?;
    let bit = |example: usize| (digits[example / 4] >> (3 - example % 4)) & 1 == 1;
    Some((0..examples).map(bit).collect())
}

/// Twice the probability of at most the smaller of two counts, if each is as likely.
fn exact(one: usize, other: usize) -> f64 {
    let (all, fewer) = (one + other, one.min(other));
    if all == 0 || one == other {
        return 1.0;
    }
    // The binomial distribution by the incomplete beta function.
    (2.0 * incomplete_beta(0.5, (all - fewer) as f64, fewer as f64 + 1.0)).min(1.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Answers to `both` + `first` + `second` + `none` examples.
    fn answers(both: usize, first: usize, second: usize, none: usize) -> (Vec<bool>, Vec<bool>) {
        let counts = [(both, (true, true)), (first, (true, false)), (second, (false, true))];
        let counts = counts.into_iter().chain([(none, (false, false))]);
        counts.flat_map(|(count, pair)| std::iter::repeat_n(pair, count)).unzip()
    }

    #[test]
    fn probabilities_are_those_of_the_binomial_distribution() {
        for (first, second, expected) in [
            // scipy.stats.binomtest(min, n, 0.5).pvalue
            (0, 0, 1.0),
            (1, 0, 1.0),
            (5, 5, 1.0),
            (0, 5, 0.0625),
            (0, 6, 0.03125),
            (10, 2, 0.038_574_218_75),
            (40, 20, 0.013_489_293_731_191_86),
        ] {
            let (one, other) = answers(30, first, second, 7);
            let found = paired_outcomes(&one, &other, 0.95).expect("examples");
            assert!((found.probability - expected).abs() < 1e-9, "{found:?}");
            assert_eq!((found.only_first, found.only_second), (first, second));
        }
    }

    /// 95.0 % and 93.8 % of 1,000 examples: the intervals of both overlap, and the difference is real.
    #[test]
    fn a_small_difference_is_found_among_the_same_examples() {
        let (one, other) = answers(936, 14, 2, 48);
        let found = paired_outcomes(&one, &other, 0.95).expect("examples");
        assert!(found.probability < 0.005, "{found:?}");
        assert!((found.difference + 0.012).abs() < 1e-12 && found.high < 0.0, "{found:?}");
        let wilson = |right| crate::wilson_interval(right, 1000, 0.95).expect("a part");
        assert!(wilson(938).1 > wilson(950).0, "the intervals overlap");
    }

    #[test]
    fn outcomes_are_hexadecimal_digits() {
        assert_eq!(outcomes_text([true, false, true, false, true]), "a8");
        assert_eq!(outcomes_of_text("a8", 5), Some(vec![true, false, true, false, true]));
        assert_eq!(outcomes_of_text("ag", 5), None);
    }

    #[test]
    fn without_pairs_there_is_nothing_to_compare() {
        assert_eq!(paired_outcomes(&[], &[], 0.95), None);
        assert_eq!(paired_outcomes(&[true], &[true, false], 0.95), None);
    }

    proptest! {
        #[test]
        fn outcomes_are_read_as_they_were_written(
            outcomes in prop::collection::vec(any::<bool>(), 0..70),
        ) {
            let text = outcomes_text(outcomes.iter().copied());
            prop_assert_eq!(outcomes_of_text(&text, outcomes.len()), Some(outcomes.clone()));
            prop_assert_eq!(outcomes_of_text(&text, outcomes.len() + 4), None);
        }

        #[test]
        fn exchanging_the_answers_mirrors_the_result(
            answers in prop::collection::vec(any::<(bool, bool)>(), 1..200),
        ) {
            let (one, other): (Vec<_>, Vec<_>) = answers.into_iter().unzip();
            let there = paired_outcomes(&one, &other, 0.95).expect("examples");
            let back = paired_outcomes(&other, &one, 0.95).expect("examples");
            prop_assert_eq!(there.probability, back.probability);
            prop_assert!((there.low + back.high).abs() < 1e-12);
            prop_assert!(there.low <= there.difference && there.difference <= there.high);
        }
    }
}
