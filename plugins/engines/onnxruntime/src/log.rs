//! ONNX Runtime's log, kept for errors: it has details that messages lack.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use ort::logging::{LogLevel, LoggerFunction};

/// Limit on the kept lines.
const MOST_LINES: usize = 40;

static LINES: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());

/// Returns a logger that keeps warnings and errors. ONNX Runtime would print them otherwise.
pub(crate) fn keeper() -> LoggerFunction {
    Arc::new(|level: LogLevel, _: &str, _: &str, _: &str, message: &str| {
        if level < LogLevel::Warning {
            return;
        }
        let level = if level == LogLevel::Warning { "warning" } else { "error" };
        let mut lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == MOST_LINES {
            lines.pop_front();
        }
        lines.push_back(format!("{level}: {}", message.trim()));
    })
}

/// Takes the log since the last call, with lines such as `warning: …` or `error: …`.
#[must_use]
pub fn taken() -> String {
    let mut lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
    lines.drain(..).collect::<Vec<_>>().join("\n")
}
