//! Standard output and error of a guest.

use std::fmt;
use std::sync::Arc;

/// Number of the last bytes of standard output and standard error that are kept.
pub(crate) const KEPT: usize = 4 << 10;

/// Takes a plugin's id and bytes that it has written.
type Hear = dyn Fn(&str, &[u8]) + Send + Sync;

/// Gets what a guest writes to its standard streams, as it comes, in pieces: the plugin's id and the bytes.
#[derive(Clone)]
pub struct Listener(Arc<Hear>);

impl Listener {
    /// Calls `hear` with each piece, on the thread of the call.
    #[must_use]
    pub fn new(hear: impl Fn(&str, &[u8]) + Send + Sync + 'static) -> Self {
        Self(Arc::new(hear))
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Listener").finish_non_exhaustive()
    }
}

/// Output of a guest to its standard streams.
#[derive(Debug, Default)]
pub(crate) struct Console {
    text: Vec<u8>,
    /// Who listens, and the plugin that writes.
    listener: Option<(Listener, String)>,
}

impl Console {
    /// Creates a console whose output somebody listens to.
    pub(crate) fn of(plugin: &str, listener: Option<&Listener>) -> Self {
        let listener = listener.map(|listener| (listener.clone(), plugin.to_owned()));
        Self { listener, ..Self::default() }
    }

    /// Appends to the output.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        if let Some((Listener(hear), plugin)) = &self.listener {
            hear(plugin, bytes);
        }
        let bytes = &bytes[bytes.len().saturating_sub(KEPT)..];
        let excess = (self.text.len() + bytes.len()).saturating_sub(KEPT);
        self.text.drain(..excess);
        self.text.extend_from_slice(bytes);
    }

    /// Returns the end of the output. Control characters except line ends are replaced, because
    /// they could reach a terminal.
    pub(crate) fn text(&self) -> String {
        let text = String::from_utf8_lossy(&self.text);
        text.chars()
            .map(|character| match character {
                '\n' | '\t' => character,
                control if control.is_control() => char::REPLACEMENT_CHARACTER,
                other => other,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_console_keeps_the_end() {
        let mut console = Console::default();
        console.write(&vec![b'a'; KEPT]);
        console.write(b"end\x1b[31m");
        let text = console.text();
        assert_eq!(text.chars().count(), KEPT);
        assert!(text.ends_with("aend\u{fffd}[31m"), "{}", &text[KEPT - 20..]);
        console.write(&vec![b'b'; 2 * KEPT]);
        assert_eq!(console.text(), "b".repeat(KEPT));
    }
}
