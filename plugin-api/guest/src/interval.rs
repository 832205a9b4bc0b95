/*!
Rules for when an interval is stated.

An interval shows how wrong a value can be. If there is too little data, an interval only reflects the assumptions of
its formula, so it is not stated, and the attribute `interval` says why. There are two such cases:

- **The effective size is below [`LEAST_EFFECTIVE_SIZE`].** Most of the width of an interval by Student's
  *t* then comes from the unknown spread (factor 12.7 for two values, 4.3 for three and 2.8 for five), and
  the data cannot show whether a correlated series is worth two values or three. From ten on the factor is
  2.3 and hardly changes. Simulated for lognormal values with a standard deviation of half the mean,
  independent and correlated, at 95 %: half the width is 1.0 to 2.7 times the mean for an effective size of
  2 to 5, 0.8 to 0.9 for 5 to 7, 0.5 for 7 to 10, and below 0.4 from 10 on. Such intervals do not miss more
  often, but they are so wide that minimum and maximum are more informative. Ten values do not make an interval safe
  either: if latencies are skewed, correlated and few, it misses more often than stated, below ten and above. The rule
  applies to effective sizes. Values that are counted and independent by construction, such as processes, have an
  interval from two on, and distribution-free intervals have their own minimum sizes.
- **It reaches below zero, for a quantity that cannot.** The assumed distribution then does not describe the
  quantity. Cutting the interval at zero would hide that, and keep the other bound, which is equally wrong.
*/

use crate::Measurement;

/// Minimum effective size for an interval around a mean.
pub const LEAST_EFFECTIVE_SIZE: usize = 10;

/// Returns the reason why a value that cannot be negative has no interval if the method's interval reaches below
/// zero.
#[must_use]
pub fn below_zero(method: &str) -> String {
    format!("the spread is too wide for so few values: by {method} it would reach below zero")
}

impl Measurement {
    /// Adds an interval around a value that cannot be negative, such as a time, a rate, an amount of memory or
    /// energy, with its confidence and method. If the interval reaches below zero, it is left out, and the
    /// attribute `interval` says so.
    #[must_use]
    pub fn with_interval_from_zero(
        self,
        (low, high): (f64, f64),
        confidence: f64,
        method: &str,
    ) -> Self {
        if low < 0.0 {
            return self.without_interval(&below_zero(method));
        }
        self.with_interval(low, high)
            .with_attribute("confidence", confidence.to_string())
            .with_attribute("interval", method)
    }

    /// States in the attribute `interval` why there is none.
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
