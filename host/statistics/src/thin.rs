//! Fewer values of a series that is longer than a question needs.

use std::borrow::Cow;

use crate::random::Random;

/// Returns at most `most` values of a series, in order: one drawn from each of `most` parts of equal
/// length. A series that is not longer is returned unchanged.
///
/// Values are drawn, because a fixed stride *k* would see an event of period *k* always or never.
/// The seed is fixed: the same series gives the same values.
///
/// # Panics
///
/// If `most` is 0.
#[must_use]
pub fn thinned<T: Copy>(values: &[T], most: usize) -> Cow<'_, [T]> {
    assert!(most > 0, "no value is no series");
    if values.len() <= most {
        return Cow::Borrowed(values);
    }
    let mut random = Random::from_seed(0);
    let parts = values.chunks(values.len().div_ceil(most));
    parts.map(|part| part[random.below(part.len() as u64) as usize]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_each_part_in_their_order() {
        let values: Vec<u64> = (0..1003).collect();
        assert!(matches!(thinned(&values, 1003), Cow::Borrowed(all) if all == values));
        let few = thinned(&values, 100);
        // Parts of 11, the last of 2.
        assert_eq!(few.len(), 92);
        assert!(few.iter().zip(0..).all(|(value, part)| value / 11 == part));
        assert_eq!(few, thinned(&values, 100));
    }

    #[test]
    fn what_recurs_is_seen_as_often_as_it_is() {
        let values: Vec<u64> = (0..100_000).map(|index| u64::from(index % 10 == 9)).collect();
        let seen = thinned(&values, 10_000).iter().sum::<u64>();
        assert!((850..1150).contains(&seen), "{seen}");
    }
}
