//! Running a command, and what its failure means.

use std::io::ErrorKind;
use std::process::{Command, Stdio};

use crate::error::SlurmError;

/// Parts of messages that say that the controller, or the authentication with it, is down.
const UNREACHABLE: &[&str] = &[
    "Unable to contact slurm controller",
    "Unable to establish",
    "Socket timed out",
    "Connection refused",
    "connect failure",
    "Protocol authentication error",
    "Invalid authentication credential",
    "Munge encode failed",
    "munge",
    "Unable to process configuration file",
    "Zero Bytes were transmitted",
    "in standby mode",
];

/// Runs a command of Slurm to its end and returns its standard output.
pub(crate) fn output(program: &'static str, arguments: &[String]) -> Result<String, SlurmError> {
    let ran = Command::new(program)
        .args(arguments)
        // Otherwise long lists of tasks end with dots.
        .env("SLURM_BITSTR_LEN", "0")
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output();
    let ran = ran.map_err(|source| match source.kind() {
        ErrorKind::NotFound => SlurmError::NotFound { program },
        _ => SlurmError::NotStarted { program, source },
    })?;
    let said = String::from_utf8_lossy(&ran.stderr);
    tracing::debug!(program, ?arguments, status = %ran.status, said = %said.trim(), "asked Slurm");
    if ran.status.success() {
        return Ok(String::from_utf8_lossy(&ran.stdout).into_owned());
    }
    let message = message(&said);
    Err(match UNREACHABLE.iter().any(|part| said.contains(part)) {
        true => SlurmError::Unreachable { message },
        false => SlurmError::Refused { program, message },
    })
}

/// Returns the lines of standard error without the names of the programs, the last of them first told.
fn message(said: &str) -> String {
    let lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
    let bare = lines.map(|line| {
        let line = line.split_once(": error: ").map_or(line, |(_, rest)| rest);
        line.split_once(" error: ").map_or(line, |(_, rest)| rest)
    });
    let mut told: Vec<&str> = Vec::new();
    for line in bare {
        if !told.contains(&line) {
            told.push(line);
        }
    }
    if told.is_empty() { "it said nothing".to_owned() } else { told.join("; ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_lose_the_names_of_programs() {
        assert_eq!(
            message(
                "sbatch: error: invalid partition specified: x\nsbatch: error: Batch job failed\n"
            ),
            "invalid partition specified: x; Batch job failed"
        );
        assert_eq!(
            message("slurm_load_jobs error: Unable to contact slurm controller (connect failure)"),
            "Unable to contact slurm controller (connect failure)"
        );
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = output("sbatch-that-is-not-there", &[]).expect_err("there is none");
        assert!(matches!(error, SlurmError::NotFound { .. }), "{error:?}");
    }
}
