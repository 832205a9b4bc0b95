//! Colours and weights of text. Where they are off, text stays as it is.

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

    /// A step that the host takes.
    pub(crate) fn verb(self, text: impl Display) -> String {
        self.paint(AnsiColor::Green.on_default().bold(), text)
    }

    /// A heading.
    pub(crate) fn heading(self, text: impl Display) -> String {
        self.paint(Style::new().bold(), text)
    }

    /// What is well.
    pub(crate) fn good(self, text: impl Display) -> String {
        self.paint(AnsiColor::Green.on_default(), text)
    }

    /// What is doubtful.
    pub(crate) fn warning(self, text: impl Display) -> String {
        self.paint(AnsiColor::Yellow.on_default().bold(), text)
    }

    /// What failed.
    pub(crate) fn bad(self, text: impl Display) -> String {
        self.paint(AnsiColor::Red.on_default().bold(), text)
    }

    /// What matters less.
    pub(crate) fn faint(self, text: impl Display) -> String {
        self.paint(Style::new().dimmed(), text)
    }
}
