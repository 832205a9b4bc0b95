//! Numbers that are checked when they are made.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use serde::{Deserialize, Serialize};

/// Traits for a checked positive number that is stored, compared and hashed: it is never NaN and never
/// a negative zero, so equal bits are equal numbers.
macro_rules! number {
    ($type:ident, $checked:ident) => {
        impl TryFrom<f64> for $type {
            type Error = String;

            fn try_from(number: f64) -> Result<Self, String> {
                Self::$checked(number)
            }
        }

        impl From<$type> for f64 {
            fn from(number: $type) -> Self {
                number.0
            }
        }

        impl PartialEq for $type {
            fn eq(&self, other: &Self) -> bool {
                self.0.to_bits() == other.0.to_bits()
            }
        }

        impl Eq for $type {}

        impl Hash for $type {
            fn hash<H: Hasher>(&self, state: &mut H) {
                self.0.to_bits().hash(state);
            }
        }
    };
}

/// A rate of queries per second: above 0 and at most one per nanosecond.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Rate(f64);

impl Rate {
    /// The highest rate: one query per nanosecond.
    pub const HIGHEST: Self = Self(1e9);

    /// Creates a rate in queries per second.
    ///
    /// # Errors
    ///
    /// If it is not above zero, or is more than one per nanosecond, the clock's resolution.
    pub fn per_second(queries: f64) -> Result<Self, String> {
        if queries > 0.0 && queries <= 1e9 {
            Ok(Self(queries))
        } else {
            Err(format!("{queries} queries per second is not above 0 and at most 1,000,000,000"))
        }
    }

    /// Returns queries per second.
    #[must_use]
    pub fn get(self) -> f64 {
        self.0
    }

    /// Returns queries per second to four digits, as a person would write them.
    pub(crate) fn rounded(self) -> f64 {
        let scale = 10_f64.powi((3.0 - self.0.log10().floor()) as i32);
        let rounded = (self.0 * scale).round() / scale;
        // A whole number is kept as it was chosen.
        if self.0.fract() == 0.0 { self.0 } else { rounded }
    }
}

number!(Rate, per_second);

impl PartialOrd for Rate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Every rate is a positive number, so the total order is the usual one.
impl Ord for Rate {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl fmt::Display for Rate {
    /// Writes the number alone.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, formatter)
    }
}

/// A percentile as a share, above 0 and below 1: 0.99 is the 99th. Also a level of confidence.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Share(f64);

impl Share {
    /// Creates a share.
    ///
    /// # Errors
    ///
    /// If it is not above 0 and below 1.
    pub fn new(share: f64) -> Result<Self, String> {
        if share > 0.0 && share < 1.0 {
            Ok(Self(share))
        } else {
            Err(format!("{share} is not a share above 0 and below 1"))
        }
    }

    /// Returns the share.
    #[must_use]
    pub fn get(self) -> f64 {
        self.0
    }
}

number!(Share, new);

impl fmt::Display for Share {
    /// Writes a percentage without binary rounding: `99.9 %` of 0.999.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} %", (self.0 * 1e8).round() / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_positive_and_finite() {
        for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY, 1.1e9] {
            assert!(Rate::per_second(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn rates_are_written_as_a_person_would() {
        let shown = |rate: f64| Rate::per_second(rate).expect("a rate").rounded().to_string();
        assert_eq!(shown(24.799_588_326_833_774), "24.8");
        assert_eq!(shown(0.012_345_6), "0.01235");
        assert_eq!(shown(123_456.7), "123500");
        assert_eq!(shown(150_001.0), "150001");
        assert_eq!(shown(0.5), "0.5");
    }
}
