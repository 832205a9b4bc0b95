//! Errors with a guest, with messages that help its user and its author.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// A guest could not be loaded, or a call into it failed. This costs only the guest's answer.
#[derive(Debug, thiserror::Error)]
pub struct GuestError {
    /// The plugin's id, or the name of its file until its id is known.
    pub plugin: String,
    /// The export that was called, such as `compute`; `None` while loading.
    pub call: Option<&'static str>,
    /// The error.
    #[source]
    pub kind: Box<GuestErrorKind>,
    /// The end of the guest's standard error, which contains the message of a panic.
    pub standard_error: String,
}

impl fmt::Display for GuestError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "plugin `{}`", self.plugin)?;
        if let Some(call) = self.call {
            write!(formatter, " in `{call}`")?;
        }
        write!(formatter, ": {}", self.kind)?;
        let last_words = self.standard_error.trim();
        if !last_words.is_empty() {
            write!(formatter, "; it wrote: {last_words}")?;
        }
        Ok(())
    }
}

/// Kinds of errors with a guest.
#[derive(Debug, thiserror::Error)]
pub enum GuestErrorKind {
    /// The file cannot be read.
    #[error("cannot read {path}: {error}", path = path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        error: io::Error,
    },
    /// The file is not a WebAssembly component.
    #[error("not a WebAssembly component: {detail}")]
    NotAComponent {
        /// The kind of file.
        detail: String,
    },
    /// The component exceeds the limits of compiling it, or shows a fault of the compiler.
    #[error("it cannot be compiled: {reason}")]
    NotCompiled {
        /// The limit or the fault.
        reason: String,
    },
    /// The component failed less than a day ago, and is not tried again until then.
    #[error(
        "{reason}; this was {} ago, and is not tried again for a day: to try at once, remove {file}",
        hours(*age),
        file = file.display()
    )]
    Remembered {
        /// The error at that time.
        reason: String,
        /// Time since then.
        age: Duration,
        /// The file that keeps it.
        file: PathBuf,
    },
    /// The component has none of the exports that make a plugin, or more than one.
    #[error(
        "not one of the worlds `metric-plugin`, `run-metric-plugin`, `report-plugin` and `recommender-plugin`: it exports {}",
        list(exports)
    )]
    UnknownWorld {
        /// Its exports.
        exports: Vec<String>,
    },
    /// Plugin and host use different versions of `tare:plugin`.
    #[error("version mismatch: {detail}")]
    Version {
        /// The version of each side, and which must be updated.
        detail: String,
        /// Whether the host is the older side.
        host_is_older: bool,
    },
    /// The component imports something that this world does not offer.
    #[error("it imports {}, which is not available to a {world} plugin", list(imports))]
    Import {
        /// Its imports.
        imports: Vec<String>,
        /// `metric`, `run-metric`, `report` or `recommender`.
        world: &'static str,
    },
    /// The guest asked for a capability that the sandbox does not grant.
    #[error("the sandbox does not grant `{function}`: plugins have {without}")]
    Denied {
        /// The function that was called.
        function: String,
        /// The missing ability, and what to do instead.
        without: &'static str,
    },
    /// The guest trapped.
    #[error("trap: {reason}{}", backtrace_suffix(backtrace))]
    Trap {
        /// Why.
        reason: String,
        /// Functions on the guest's stack, innermost first, if they have names.
        backtrace: Vec<String>,
    },
    /// The guest used up its instructions.
    #[error("out of fuel: it ran more than {limit} instructions, the limit of a call")]
    OutOfFuel {
        /// The limit.
        limit: u64,
    },
    /// The guest took too long.
    #[error("it took longer than {} s, the limit of a call", limit.as_secs_f64())]
    Deadline {
        /// The limit.
        limit: Duration,
    },
    /// The guest ran out of time with these options before, so it is not called again.
    #[error("it ran out of time in `{call}` before, and is not called again in this run")]
    OutOfTime {
        /// The call that did not end.
        call: &'static str,
    },
    /// The guest requested more memory than allowed. Files that a report wrote count as well.
    #[error("out of memory: it asked for {requested} bytes; the limit is {limit}")]
    Memory {
        /// The memory that it would have had, in bytes.
        requested: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// The guest passed too much data in one call.
    #[error("it passed more than {limit} bytes, the limit of a call")]
    Transfer {
        /// The limit in bytes.
        limit: usize,
    },
    /// The guest returned an error.
    #[error("{message}")]
    Refused {
        /// The guest's message.
        message: String,
    },
    /// The options are not a JSON object.
    #[error("options must be a table, not {found}")]
    Options {
        /// Actual type of the options.
        found: String,
    },
    /// The guest's answer is impossible or unusable.
    #[error("invalid answer: {detail}")]
    InvalidAnswer {
        /// The error, and the expectation.
        detail: String,
    },
    /// A plugin of another kind was needed.
    #[error("it is a {found} plugin, but a {expected} plugin is needed")]
    WrongKind {
        /// Its kind.
        found: &'static str,
        /// The required kind.
        expected: &'static str,
    },
    /// The user asked to stop.
    #[error("it was interrupted")]
    Cancelled,
    /// The host itself cannot run guests here.
    #[error("the sandbox does not work here: {detail}")]
    Host {
        /// Why.
        detail: String,
    },
}

/// Limit on the names shown of a list, and on the characters of each.
const SHOWN: usize = 10;
const SHOWN_OF_NAME: usize = 80;

/// Returns a guest's text, short enough to be quoted in an error.
pub(crate) fn shortened(text: &str) -> String {
    text.chars().take(SHOWN_OF_NAME).collect()
}

fn list(names: &[String]) -> String {
    if names.is_empty() {
        return "nothing".into();
    }
    let shown: Vec<_> = names
        .iter()
        .take(SHOWN)
        .map(|name| format!("`{}`", shortened(name).escape_debug()))
        .collect();
    match names.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

fn backtrace_suffix(backtrace: &[String]) -> String {
    let names: Vec<_> = backtrace.iter().map(|name| shortened(name)).collect();
    if names.is_empty() { String::new() } else { format!(" in {}", names.join(" < ")) }
}

fn hours(age: Duration) -> String {
    match age.as_secs() / 60 {
        0 => "less than a minute".into(),
        1 => "1 minute".into(),
        minutes @ ..120 => format!("{minutes} minutes"),
        minutes => format!("{} hours", minutes / 60),
    }
}
