/*!
When an interval is stated, and when a value stands without one.

An interval claims to know how wrong a value can be. Where there is too little to know that by, it is made
of its formula's assumptions alone, so it is not stated, and the attribute `interval` says why. Two things
show that:

- **The values are worth fewer than [`LEAST_EFFECTIVE_SIZE`] independent ones.** Student's *t* allows for a
  spread that few values tell, but takes their number as known and the values as normal. The number is itself
  an estimate from the correlation of the same few values: of 5 that may as well be 3 the factor is 2.8 or
  4.3, and of 2 it is 12.7. From 10 on it is 2.3 and hardly moves, which leaves the spread, known to a
  quarter then (1 / √18). Latencies are skewed besides, and the mean of a few skewed values is not normal.
  This does not hold for what is independent by its making and counted: processes are, and for them
  Student's *t* keeps its word from two on. Distribution-free intervals have least sizes of their own.
- **It reaches below zero, for a quantity that cannot.** The normal distribution that it was made with then
  does not describe the quantity. To cut it at zero would hide that, and leave the other bound, which is as
  wrong.
*/

use crate::Measurement;

/// The effective size below which no interval around a mean is stated: how many independent values a series
/// has to be worth.
pub const LEAST_EFFECTIVE_SIZE: usize = 10;

impl Measurement {
    /// Adds an interval around a value that cannot be negative, such as a time, a rate, an amount of memory or
    /// energy, with the confidence and the method that it was found with. Where the interval reaches below
    /// zero, the value stands without it, and the attribute `interval` says so.
    #[must_use]
    pub fn with_interval_from_zero(
        self,
        (low, high): (f64, f64),
        confidence: f64,
        method: &str,
    ) -> Self {
        if low < 0.0 {
            return self.without_interval(&format!(
                "the spread is too wide for so few values: by {method} it would reach below zero"
            ));
        }
        self.with_interval(low, high)
            .with_attribute("confidence", confidence.to_string())
            .with_attribute("interval", method)
    }

    /// Says in the attribute `interval` why there is none.
    #[must_use]
    pub fn without_interval(mut self, reason: &str) -> Self {
        self.interval = None;
        self.with_attribute("interval", format!("none: {reason}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Direction;

    fn rate() -> Measurement {
        Measurement::new("throughput.queries", Ok(3.0), "1/s", Direction::Higher)
    }

    #[test]
    fn an_interval_comes_with_its_method() {
        let found = rate().with_interval_from_zero((0.0, 6.0), 0.95, "Student's t");
        assert_eq!(found.interval, Some((0.0, 6.0)));
        assert_eq!(found.attributes["interval"], "Student's t");
        assert_eq!(found.attributes["confidence"], "0.95");
    }

    #[test]
    fn an_interval_that_reaches_below_zero_is_not_stated() {
        let found = rate().with_interval_from_zero((-0.1, 6.1), 0.95, "Student's t");
        assert_eq!((found.value, found.interval), (Ok(3.0), None));
        assert_eq!(
            found.attributes["interval"],
            "none: the spread is too wide for so few values: by Student's t it would reach below zero"
        );
        assert!(!found.attributes.contains_key("confidence"));
    }
}
