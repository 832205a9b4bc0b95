//! Lines for the host's own log. In native tests they go to standard error.

/// Writes a line for debugging.
pub fn debug(text: &str) {
    line(Level::Debug, text);
}

/// Writes a line of general interest.
pub fn information(text: &str) {
    line(Level::Information, text);
}

/// Writes a line about something doubtful.
pub fn warning(text: &str) {
    line(Level::Warning, text);
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Level {
    Debug,
    Information,
    Warning,
}

#[cfg(target_arch = "wasm32")]
use crate::component::log_line as line;

#[cfg(not(target_arch = "wasm32"))]
#[expect(clippy::print_stderr, reason = "outside the sandbox there is no host to hand a line to")]
fn line(level: Level, text: &str) {
    eprintln!("{level:?}: {text}");
}
