//! Pairs: two cases that are measured in turns, so that what the machine does falls on both alike.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::names::names;
use crate::number::Share;
use crate::words;

names! {
    /// The coordinate in which the two cases of a pair differ.
    PairAxis {
        /// Two models.
        Model = "model",
        /// Two backends: two plugins, two builds of one, or one with two sets of options.
        Backend = "backend",
        /// Two precisions.
        Precision = "precision",
    }
}

/// The pair of an experiment whose order is [`crate::Order::Paired`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Pair {
    /// The coordinate in which the sides differ.
    pub axis: PairAxis,
    /// Value of that coordinate on the first side and on the second.
    pub sides: [String; 2],
    /// Confidence of the ratio's interval, at all looks together.
    pub level: Share,
    /// Half of the interval's width, as a share of the ratio, that is narrow enough.
    pub half_width: Share,
}

impl Pair {
    /// Processes below which no interval of a ratio exists at 95 %; more are needed at higher levels.
    pub const LEAST_PROCESSES: u32 = 7;
    /// Most processes of each side, if the manifest sets no number.
    pub const USUAL_PROCESSES: u32 = 60;
}

names! {
    /// Side of a pair.
    Side {
        /// The first: what the other is compared with.
        First = "first",
        /// The second: what is compared.
        Second = "second",
    }
}

impl Side {
    /// Returns the side at a position of a pair, 0 or 1.
    #[must_use]
    pub fn at(position: usize) -> Self {
        if position == 0 { Self::First } else { Self::Second }
    }
}

names! {
    /// Reason why a pair has enough processes.
    PairEnd {
        /// The interval of the ratio excludes 1.
        Differs = "differs",
        /// The interval is as narrow as asked.
        Narrow = "narrow",
        /// There are as many processes as are allowed.
        MostProcesses = "most-processes",
    }
}

/// One process of a case that was measured in turns with the process of another case, and what all such pairs of
/// processes up to this one say together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Paired {
    /// Id of the other case.
    pub with: String,
    /// The side of the pair that this case is.
    pub side: Side,
    /// Time per query of this side by that of the other, in these two processes: the mean of the middle half of the rounds,
    /// as a ratio.
    pub ratio: f64,
    /// The same over all blocks together, including those that something disturbed.
    pub total_ratio: f64,
    /// Rounds A B B A that were measured.
    pub rounds: u64,
    /// Duration of a block in nanoseconds, at least; the first rounds may have had other ones.
    pub block_ns: u64,
    /// Time from the end of one side's turn to the beginning of the other's, in nanoseconds: the median.
    pub handover_ns: u64,
    /// The result of all pairs of processes up to this one.
    pub result: PairResult,
}

/// The ratio of two sides, over pairs of processes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct PairResult {
    /// Pairs of processes.
    pub processes: u32,
    /// Time per query of this side by that of the other: the geometric mean over processes.
    pub ratio: f64,
    /// Interval of the ratio; `None` while there are too few processes for any.
    pub interval: Option<(f64, f64)>,
    /// Standard deviation of the logarithm of the ratio from one pair of processes to the next; `None` of a single one.
    pub deviation: Option<f64>,
    /// Confidence of the interval, at all looks together.
    pub level: f64,
    /// Half of the interval's width, as a share of the ratio, that is narrow enough.
    pub half_width: f64,
    /// Why these are enough processes; `None` if more were to follow.
    pub end: Option<PairEnd>,
    /// Number of processes that would probably tell, if these do not and it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needed: Option<u32>,
}

/// Answer of a pair.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PairVerdict {
    /// The time per query of this side is shorter.
    Faster,
    /// It is longer.
    Slower,
    /// If the sides differ, then by no more than this: 0.01 is 1 %.
    SameWithin(f64),
    /// The processes are too few for their spread. With the number that would tell, if it is known.
    Unknown(Option<u32>),
}

impl PairVerdict {
    /// Returns the verdict in one word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::SameWithin(_) => "same",
            Self::Unknown(_) => "unknown",
        }
    }
}

impl fmt::Display for PairVerdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Faster | Self::Slower => formatter.write_str(self.name()),
            Self::SameWithin(bound) => write!(formatter, "same within {}", percent(*bound)),
            Self::Unknown(None) => formatter.write_str("cannot tell"),
            Self::Unknown(Some(needed)) => {
                write!(formatter, "cannot tell: needs {needed} processes")
            }
        }
    }
}

impl PairResult {
    /// Returns the answer.
    #[must_use]
    pub fn verdict(&self) -> PairVerdict {
        match self.interval {
            Some((low, _)) if low > 1.0 => PairVerdict::Slower,
            Some((_, high)) if high < 1.0 => PairVerdict::Faster,
            Some((low, high)) if (high / low).sqrt() <= 1.0 + self.half_width => {
                PairVerdict::SameWithin(high.max(1.0 / low) - 1.0)
            }
            _ => PairVerdict::Unknown(self.needed),
        }
    }

    /// Returns the result with the sides exchanged.
    #[must_use]
    pub fn mirrored(&self) -> Self {
        let interval = self.interval.map(|(low, high)| (1.0 / high, 1.0 / low));
        Self { ratio: 1.0 / self.ratio, interval, ..*self }
    }
}

impl fmt::Display for PairResult {
    /// Writes the change, its interval, and the answer: `+1.8 % (+1.2 to +2.4 %, 99.5 %), slower, 12 processes`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", ratio_change(self.ratio))?;
        if let Some((low, high)) = self.interval {
            let (low, level) = (ratio_change(low), words::level(self.level));
            write!(
                formatter,
                " ({} to {}, {level})",
                low.trim_end_matches(" %"),
                ratio_change(high)
            )?;
        }
        let processes = words::count(self.processes.into(), "process", "processes");
        write!(formatter, ", {}, {processes}", self.verdict())
    }
}

/// Returns a ratio as a change in per cent, with its sign.
#[must_use]
pub fn ratio_change(ratio: f64) -> String {
    let percent = 100.0 * (ratio - 1.0);
    let digits = if percent.abs() < 9.95 { 2 } else { 0 };
    let text = format!("{percent:+.digits$} %");
    // A minus sign before nothing but zeros says nothing.
    if text.bytes().any(|byte| (b'1'..=b'9').contains(&byte)) {
        text
    } else {
        text.replace(['+', '-'], "")
    }
}

fn percent(share: f64) -> String {
    format!("{:.2} %", 100.0 * share)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(ratio: f64, interval: Option<(f64, f64)>) -> PairResult {
        let end = Some(PairEnd::Differs);
        let (level, half_width, deviation) = (0.995, 0.01, Some(0.004));
        let (processes, needed) = (12, Some(40));
        PairResult { processes, ratio, interval, deviation, level, half_width, end, needed }
    }

    #[test]
    fn a_verdict_follows_from_the_interval_and_mirrors() {
        let slower = result(1.018, Some((1.012, 1.024)));
        assert_eq!(slower.verdict(), PairVerdict::Slower);
        assert_eq!(slower.mirrored().verdict(), PairVerdict::Faster);
        assert_eq!(slower.to_string(), "+1.80 % (+1.20 to +2.40 %, 99.5 %), slower, 12 processes");
        let same = result(1.0, Some((0.995, 1.004)));
        assert_eq!(
            same.to_string(),
            "0.00 % (-0.50 to +0.40 %, 99.5 %), same within 0.50 %, 12 processes"
        );
        assert_eq!(same.mirrored().verdict(), same.verdict());
        let wide = result(1.0, Some((0.9, 1.2)));
        assert_eq!(wide.verdict(), PairVerdict::Unknown(Some(40)));
        let none = PairResult { needed: None, ..result(1.2, None) };
        assert_eq!(none.to_string(), "+20 %, cannot tell, 12 processes");
    }
}
