//! Exit codes. They are an interface: a number never changes its meaning.

use std::process::ExitCode;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// All was done.
    Success,
    /// Something failed that has no code of its own: input or output, or an error of ours.
    Failure,
    /// The command line makes no sense.
    Usage,
    /// The manifest is wrong, or a file that it names is missing.
    Manifest,
    /// A plugin is missing, broken, of the wrong version, or not trusted; or the run went to its end,
    /// and a metric, report or recommender failed, so that its output is missing. Where a case
    /// failed as well, the code is that of [`Exit::CasesFailed`].
    Plugin,
    /// Nothing could be measured: every case is a gap.
    NothingToRun,
    /// The run went to its end, and at least one case failed.
    CasesFailed,
    /// The results cannot be had: no such run, damaged or lost files, a busy database, a wrong query.
    Results,
    /// Interrupted by the user; what was finished is kept.
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
        Self::Interrupted,
    ];

    /// The number.
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
            // What a shell reports for a process that SIGINT ended.
            Self::Interrupted => 130,
        }
    }

    /// What it means, for help texts.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Success => "all was done",
            Self::Failure => "input or output failed, or an error of the host itself",
            Self::Usage => "the command line makes no sense",
            Self::Manifest => "the manifest is wrong, or a file that it names is missing",
            Self::Plugin => {
                "a plugin is missing, broken, of the wrong version, not trusted, or failed after measuring"
            }
            Self::NothingToRun => "nothing could be measured: every case is a gap",
            Self::CasesFailed => "the run went to its end, and at least one case failed",
            Self::Results => {
                "no such run, results that are damaged or lost, a busy database or a wrong query"
            }
            Self::Interrupted => "interrupted; what was finished is kept",
        }
    }
}

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
