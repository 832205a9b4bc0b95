//! Colours and weights of text. Without them, text is unchanged.

use std::fmt::Display;

use clap::builder::styling::{AnsiColor, Style};

/// Styles, on or off.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Palette {
    on: bool,
}

impl Palette {
    pub(crate) fn new(on: bool) -> Self {
        Self { on }
    }

    pub(crate) fn is_on(self) -> bool {
        self.on
    }

    fn paint(self, style: Style, text: impl Display) -> String {
        if self.on { format!("{style}{text}{style:#}") } else { text.to_string() }
    }

    /// Styles a step of the host.
    pub(crate) fn verb(self, text: impl Display) -> String {
        self.paint(AnsiColor::Green.on_default().bold(), text)
    }

    /// Styles a heading.
    pub(crate) fn heading(self, text: impl Display) -> String {
        self.paint(Style::new().bold(), text)
    }

    /// Styles something good.
    pub(crate) fn good(self, text: impl Display) -> String {
        self.paint(AnsiColor::Green.on_default(), text)
    }

    /// Styles a warning.
    pub(crate) fn warning(self, text: impl Display) -> String {
        self.paint(AnsiColor::Yellow.on_default().bold(), text)
    }

    /// Styles a failure.
    pub(crate) fn bad(self, text: impl Display) -> String {
        self.paint(AnsiColor::Red.on_default().bold(), text)
    }

    /// Styles less important text.
    pub(crate) fn faint(self, text: impl Display) -> String {
        self.paint(Style::new().dimmed(), text)
    }
}
