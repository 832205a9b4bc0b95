//! Exit codes. They are an interface: a number never changes its meaning.

use std::process::ExitCode;

/// Exit codes of commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Success.
    Success,
    /// Something failed that has no code of its own: input or output, or an error of ours.
    Failure,
    /// The command line is invalid.
    Usage,
    /// The manifest is invalid, or a file that it names is missing.
    Manifest,
    /// A plugin that is needed cannot be used, which all commands find before anything is measured; or a metric,
    /// report or recommender failed after measuring, so that its output is missing.
    Plugin,
    /// Nothing could be measured: every case is a gap.
    NothingToRun,
    /// The run finished, but at least one case failed.
    CasesFailed,
    /// Results are not available: no such run, damaged or lost files, a busy database, an invalid query.
    Results,
    /// A figure is beyond its limit, outside the noise.
    Regressed,
    /// No figure is surely beyond its limit, and some are not surely within.
    CannotTell,
    /// Interrupted by the user; what was done is kept.
    Interrupted,
}

impl Exit {
    /// Every code, in the order of the numbers.
    pub const ALL: &'static [Self] = &[
        Self::Success,
        Self::Failure,
        Self::Usage,
        Self::Manifest,
        Self::Plugin,
        Self::NothingToRun,
        Self::CasesFailed,
        Self::Results,
        Self::Regressed,
        Self::CannotTell,
        Self::Interrupted,
    ];

    /// Returns the number.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failure => 1,
            Self::Usage => 2,
            Self::Manifest => 3,
            Self::Plugin => 4,
            Self::NothingToRun => 5,
            Self::CasesFailed => 6,
            Self::Results => 7,
            Self::Regressed => 10,
            Self::CannotTell => 11,
            // A shell reports this code for a process that SIGINT ended.
            Self::Interrupted => 130,
        }
    }

    /// Returns its meaning, for help texts, in lines.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => {
                "input or output failed, such as a full disk or a file in the way of a report; or an error\n\
                 of the host itself"
            }
            Self::Usage => "invalid command line",
            Self::Manifest => "the manifest is invalid, or a file that it names is missing",
            Self::Plugin => {
                "a plugin that is needed cannot be used: it is broken, not trusted, or of no version that\n\
                 fits, or it is a metric, report or recommender that is not installed; or one of these\n\
                 failed after measuring"
            }
            Self::NothingToRun => {
                "nothing could be measured: every case is a gap. A backend that is not installed makes its\n\
                 cases gaps, which is no failure while other cases are measured"
            }
            Self::CasesFailed => {
                "the run finished, but at least one case failed, also if a backend's library cannot be\n\
                 loaded or describes no devices"
            }
            Self::Results => {
                "no such run or baseline, damaged or lost results, no case in common, a busy database or\n\
                 an invalid query"
            }
            Self::Regressed => {
                "`host check`: at least one figure is worse than its limit allows, outside the noise"
            }
            Self::CannotTell => {
                "`host check`: none is, and at least one is not surely within its limit either"
            }
            Self::Interrupted => "interrupted; what was done is kept",
        }
    }
}

/// Order of the codes if several apply.
pub(crate) const PRECEDENCE: &str = "\
validate, plan and run find the reasons for 3 and 4 alike, before anything is measured; the code is
3 if both apply. After measuring, 130 comes before 6, then 5, 4 and 1.";

/// Ends the process here and now: for a user who will not wait.
pub(crate) fn at_once(exit: Exit) -> ! {
    #[expect(clippy::exit, reason = "a second Ctrl-C asks for this")]
    std::process::exit(exit.code().into())
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        exit.code().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_distinct_and_ordered() {
        assert!(Exit::ALL.is_sorted_by(|a, b| a.code() < b.code()));
    }
}
