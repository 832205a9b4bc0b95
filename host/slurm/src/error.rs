//! Errors of Slurm's commands.

/// A command of Slurm that failed.
#[derive(Debug, thiserror::Error)]
pub enum SlurmError {
    /// The command is not installed.
    #[error("`{program}` was not found: this machine cannot submit to Slurm")]
    NotFound {
        /// The command.
        program: &'static str,
    },
    /// The command could not be started.
    #[error("`{program}` could not be started")]
    NotStarted {
        /// The command.
        program: &'static str,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// The controller does not answer, or the authentication with it fails.
    #[error("Slurm does not answer: {message}")]
    Unreachable {
        /// The command's message.
        message: String,
    },
    /// The command refused.
    #[error("`{program}` refused: {message}")]
    Refused {
        /// The command.
        program: &'static str,
        /// Its message.
        message: String,
    },
    /// The command wrote something else than its manual says.
    #[error("`{program}` answered with {answer:?}, which is not {expected}")]
    Answer {
        /// The command.
        program: &'static str,
        /// The line.
        answer: String,
        /// What was expected.
        expected: &'static str,
    },
}

impl SlurmError {
    /// Returns what to do, if it is known.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NotFound { .. } => {
                Some("run this on a login node of the cluster, or put Slurm's commands on PATH")
            }
            Self::Unreachable { .. } => Some(
                "`scontrol ping` tells whether the controller is up; authentication needs a running `munged` on this \
                 machine",
            ),
            _ => None,
        }
    }

    /// Returns whether the same command may succeed later.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Unreachable { .. })
    }
}
