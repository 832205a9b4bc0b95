//! Progress over bytes: while a runtime is installed, verified or removed, and while a model is written.

use host_runtime::{Observer, Step};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::printer::Printer;
use host_experiment::units;

/// Shows how an installation, or the writing of a model, goes on.
pub(crate) struct Watch<'printer> {
    printer: &'printer Printer,
    bar: ProgressBar,
}

impl<'printer> Watch<'printer> {
    pub(crate) fn new(printer: &'printer Printer) -> Self {
        Self { printer, bar: ProgressBar::hidden() }
    }

    /// Takes the bar away.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }

    /// Shows a progress bar for a known number of bytes.
    pub(crate) fn begin(&mut self, verb: &str, what: &str, bytes: u64) {
        let target = if self.printer.shows_progress() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        self.bar = ProgressBar::with_draw_target(Some(bytes), target);
        let template = "{prefix} [{bar:20}] {bytes}/{total_bytes} {wide_msg}";
        let style = ProgressStyle::with_template(template);
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        self.bar.set_style(style.progress_chars("━╸ "));
        self.bar.set_prefix(self.printer.status_palette().verb(format_args!("{verb:>11}")));
        self.bar.set_message(what.to_owned());
    }
}

impl Observer for Watch<'_> {
    fn step(&mut self, step: Step<'_>) {
        self.clear();
        match step {
            Step::Waiting => self.printer.status("Waiting", "another host is at this runtime"),
            Step::Fetching { package, bytes, number, count } => self.printer.status(
                "Fetching",
                format_args!("{number}/{count} {package}, {}", units::bytes(bytes as f64)),
            ),
            Step::Checking { package, bytes } => self.begin("Checking", package, bytes),
            Step::Unpacking { package, bytes } => self.begin("Unpacking", package, bytes),
            Step::Verifying { bytes } => self.begin("Verifying", "", bytes),
        }
    }

    fn advanced(&mut self, bytes: u64) {
        self.bar.inc(bytes);
    }

    fn shows_pip(&self) -> bool {
        self.printer.shows_progress()
    }
}
