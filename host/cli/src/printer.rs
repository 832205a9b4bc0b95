/*!
The one door for printing.

Data goes to standard output, and everything else to standard error. A reader that has closed its
end (`host results list | head -1`) is not an error: the rest is dropped. Data that is lost in any
other way, as on a full disk, is remembered and fails the command at its end. No other module
prints.

Much of the output contains text of plugins and files. For people, characters that a
terminal obeys are made visible (see [`visible`]); only line breaks and the tool's own styles pass.
Machine formats keep every character, escaped in JSON.
*/

use std::fmt::Display;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use miette::{GraphicalReportHandler, GraphicalTheme};
use textwrap::{WordSeparator, WordSplitter};

use crate::arguments::{ColorChoice, Format, GlobalArguments};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::style::Palette;
use crate::{table, terminal, visible};

/// Width of tables that no screen bounds.
const UNBOUNDED: usize = u16::MAX as usize;
/// Width of lines if the terminal's width is unknown.
const USUAL_WIDTH: usize = 100;

/// Characters before the text of a status line.
pub(crate) const STATUS: usize = 12;

/// Prints.
#[derive(Debug, Clone)]
pub(crate) struct Printer {
    format: Format,
    quiet: bool,
    verbose: bool,
    /// Styles of standard output.
    out: Palette,
    /// Styles of standard error.
    err: Palette,
    out_is_terminal: bool,
    err_is_terminal: bool,
    width: usize,
    /// Whether a line that is longer than that has no room.
    is_bounded: bool,
    /// The first error of standard output.
    lost: Arc<OnceLock<io::Error>>,
    /// Lines that are kept for a caller instead of going to standard error.
    kept: Option<Arc<Mutex<String>>>,
}

/// Checks that data was written. A reader that has closed the pipe is not a failure.
pub(crate) fn written(outcome: io::Result<()>) -> Result<()> {
    match outcome {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::new(
            Exit::Failure,
            "cannot write to standard output, so that data is missing there",
        )
        .because(error)),
        _ => Ok(()),
    }
}

/// Returns the width that `COLUMNS` asks for.
fn declared_width() -> Option<usize> {
    let columns = std::env::var("COLUMNS").ok()?;
    columns.parse().ok().filter(|columns| *columns > 0)
}

impl Printer {
    pub(crate) fn new(global: &GlobalArguments) -> Self {
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let colored = |terminal: bool| match global.color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => terminal && !no_color && !dumb,
        };
        let (out, err) = (io::stdout().is_terminal(), io::stderr().is_terminal());
        Self {
            format: global.format,
            quiet: global.quiet,
            verbose: global.verbose > 0,
            out: Palette::new(colored(out)),
            err: Palette::new(colored(err)),
            out_is_terminal: out,
            err_is_terminal: err,
            width: declared_width().or_else(terminal::terminal_width).unwrap_or(USUAL_WIDTH),
            is_bounded: out || declared_width().is_some(),
            lost: Arc::default(),
            kept: None,
        }
    }

    /// Returns a printer without styles that keeps its lines for [`Printer::take`] and prints none of them.
    pub(crate) fn keeping() -> Self {
        Self {
            format: Format::Human,
            quiet: false,
            verbose: false,
            out: Palette::new(false),
            err: Palette::new(false),
            out_is_terminal: false,
            err_is_terminal: false,
            width: USUAL_WIDTH,
            is_bounded: false,
            lost: Arc::default(),
            kept: Some(Arc::default()),
        }
    }

    /// Takes the lines that were kept so far.
    pub(crate) fn take(&self) -> String {
        let kept =
            self.kept.as_ref().map(|kept| kept.lock().unwrap_or_else(PoisonError::into_inner));
        kept.map(|mut kept| std::mem::take(&mut *kept)).unwrap_or_default()
    }

    pub(crate) fn format(&self) -> Format {
        self.format
    }

    /// Returns whether standard error is a terminal.
    pub(crate) fn shows_progress(&self) -> bool {
        // The log's lines and a bar would write over each other.
        self.err_is_terminal && !self.quiet && !self.verbose
    }

    /// Returns whether verbose output was requested.
    pub(crate) fn is_verbose(&self) -> bool {
        self.verbose
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Returns the number of columns that fit on a line.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// Returns the number of columns that a table has: as many as it needs, unless it is for a terminal or
    /// `COLUMNS` says otherwise.
    pub(crate) fn table_width(&self) -> usize {
        if self.is_bounded { self.width } else { UNBOUNDED }
    }

    /// Styles of standard output.
    pub(crate) fn palette(&self) -> Palette {
        self.out
    }

    /// Styles of standard error.
    pub(crate) fn status_palette(&self) -> Palette {
        self.err
    }

    /// Prints data for machines unchanged, with a line break if it has none. On a terminal, control
    /// characters are shown instead of obeyed.
    pub(crate) fn data(&self, text: impl Display) {
        let text = text.to_string();
        self.out(if self.out_is_terminal { visible::lines(&text).into_owned() } else { text });
    }

    /// Prints styled data for people.
    pub(crate) fn show(&self, text: impl Display) {
        self.out(visible::printed(&text.to_string(), self.out.is_on()).into_owned());
    }

    fn out(&self, mut text: String) {
        if text.is_empty() {
            return;
        }
        if !text.ends_with('\n') {
            text.push('\n');
        }
        let mut stdout = io::stdout().lock();
        if let Err(error) = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
            self.lost.get_or_init(|| error);
        }
    }

    /// Checks that all data reached standard output.
    ///
    /// # Errors
    ///
    /// If some was lost, unless the reader closed the pipe.
    pub(crate) fn check(&self) -> Result<()> {
        match self.lost.get() {
            Some(error) => written(Err(io::Error::new(error.kind(), error.to_string()))),
            None => Ok(()),
        }
    }

    /// Returns a table for people with its header styled.
    pub(crate) fn headed(&self, table: &str) -> String {
        match table.split_once('\n') {
            Some((header, rest)) => format!("{}\n{rest}", self.out.faint(header)),
            None => table.to_owned(),
        }
    }

    /// Prints data in one of the machine formats: `document` is the JSON form, `table` the source of the
    /// others. Returns `false` if the format is for people.
    pub(crate) fn machine(
        &self,
        document: impl FnOnce() -> serde_json::Value,
        table: impl FnOnce() -> host_record::Table,
    ) -> bool {
        match self.format {
            Format::Human => return false,
            Format::Json => self.data(visible::json(&format!("{:#}", document()))),
            Format::Jsonl => self.data(visible::json(&table::json_lines(&table()))),
            Format::Csv => self.data(table::csv(&table())),
            Format::Markdown => self.data(table::markdown(&table())),
        }
        true
    }

    /// Prints a line about the current activity, with its verb styled.
    pub(crate) fn status(&self, verb: &str, text: impl Display) {
        if !self.quiet {
            self.line(format_args!(
                "{} {}",
                self.err.verb(format_args!("{verb:>11}")),
                below(text)
            ));
        }
    }

    /// Prints a minor line below a [`Printer::status`] line.
    pub(crate) fn aside(&self, text: impl Display) {
        if !self.quiet {
            // Styled last: the text's own escape sequences are made visible.
            self.line(format_args!("{:>11} {}", "", self.err.faint(below(text))));
        }
    }

    /// Prints a line below a [`Printer::status`] line.
    pub(crate) fn detail(&self, text: impl Display) {
        if !self.quiet {
            self.line(format_args!("{:>11} {}", "", below(text)));
        }
    }

    /// Prints a warning and its remedy.
    pub(crate) fn warning(&self, text: impl Display, help: Option<&str>) {
        let word = self.err.warning(format_args!("{:>11}", "warning"));
        self.line(format_args!("{word} {}", below(text)));
        if let Some(help) = help {
            let word = self.err.faint(format_args!("{:>11}", "help"));
            self.line(format_args!("{word} {}", below(help)));
        }
    }

    /// Prints a line for the system that runs the command, which reads it from its first character on.
    pub(crate) fn annotation(&self, text: impl Display) {
        self.line(visible::line(&text.to_string()));
    }

    /// Prints a failure with its causes and hints.
    pub(crate) fn failure(&self, failure: &Failure) {
        let theme = match (self.err_is_terminal, self.err.is_on()) {
            (_, true) => GraphicalTheme::unicode(),
            (true, false) => GraphicalTheme::unicode_nocolor(),
            (false, false) => GraphicalTheme::none(),
        };
        let handler = GraphicalReportHandler::new_themed(theme)
            .with_width(self.width)
            .with_links(false)
            .with_context_lines(1)
            .with_wrap_lines(self.err_is_terminal)
            // Paths and commands are to be copied.
            .with_break_words(false)
            .with_word_separator(WordSeparator::AsciiSpace)
            .with_word_splitter(WordSplitter::NoHyphenation);
        let mut text = String::new();
        for report in failure.reports() {
            // Rendering into a string fails only if a source has no such span.
            if handler.render_report(&mut text, report).is_err() {
                text.push_str(&format!("error: {report}\n"));
            }
        }
        self.line(text.trim_end());
    }

    fn line(&self, text: impl Display) {
        let text = text.to_string();
        let shown = visible::printed(&text, self.err.is_on());
        match &self.kept {
            Some(kept) => {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.push_str(&shown);
                kept.push('\n');
            }
            None => drop(writeln!(io::stderr().lock(), "{shown}")),
        }
    }
}

/// Returns text beside a verb. Further lines are indented below the first, so that none can pass for a line
/// of the tool's own.
fn below(text: impl Display) -> String {
    let text = text.to_string();
    visible::lines(&visible::excerpt(&text)).replace('\n', &format!("\n{:>11} ", ""))
}

/// Writer of the libraries' log events to standard error.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Log {
    styles: bool,
}

impl Log {
    pub(crate) fn of(printer: &Printer) -> Self {
        Self { styles: printer.err.is_on() }
    }
}

impl io::Write for Log {
    /// Writes an event, which comes in one piece.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        io::stderr().lock().write_all(visible::printed(&text, self.styles).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

impl tracing_subscriber::fmt::MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        *self
    }
}
