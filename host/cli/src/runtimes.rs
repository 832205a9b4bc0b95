//! What the commands share about runtimes: which each plugin uses, and progress while one is installed.

use std::collections::BTreeMap;
use std::path::PathBuf;

use host_registry::{NativePlugin, Registry};
use host_runtime::{Observer, Outcome, Runtimes, Standing, Step};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::failure::{Failure, Result};
use crate::printer::Printer;
use crate::units;

/// The command that installs a plugin's runtime.
pub(crate) fn install_command(id: &str) -> String {
    format!("host runtimes install {id}")
}

/// Why a plugin's runtime cannot be used, and what installs it; nothing where it can, or where the
/// plugin takes none.
pub(crate) fn missing(plugin: &NativePlugin, standing: Option<&Standing>) -> Option<String> {
    let (Some(need), Some(Standing::Missing { reason })) = (&plugin.metadata.runtime, standing)
    else {
        return None;
    };
    let command = install_command(&plugin.metadata.id);
    Some(format!("runtime `{}` {} {reason}; `{command}` installs it", need.name, need.version))
}

/// The runtime of each plugin that has one, by the plugin's library. What cannot be used is left out;
/// the plugin then says what it misses.
pub(crate) fn paths(runtimes: &Runtimes, registry: &Registry) -> BTreeMap<PathBuf, PathBuf> {
    let natives = registry.natives().iter();
    natives
        .filter_map(|plugin| match runtimes.find(plugin) {
            Ok(Some(Standing::Ready(ready))) => Some((plugin.library.clone(), ready.path)),
            _ => None,
        })
        .collect()
}

/// Installs the runtime of a plugin, and says what is done.
pub(crate) fn install(
    runtimes: &Runtimes,
    plugin: &NativePlugin,
    printer: &Printer,
) -> Result<Outcome> {
    let mut watch = Watch::new(printer);
    let outcome = runtimes.install(plugin, &mut watch);
    watch.clear();
    let outcome = outcome.map_err(Failure::from)?;
    let verb = if outcome.was_there { "Verified" } else { "Installed" };
    let size = units::bytes(outcome.installed.bytes() as f64);
    let (name, version) = (&outcome.installed.name, &outcome.installed.version);
    printer.status(
        verb,
        format_args!(
            "{name} {version} for `{}`: {size} in {}",
            plugin.metadata.id,
            outcome.folder.display()
        ),
    );
    Ok(outcome)
}

/// Shows how an installation goes on.
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

    /// A bar for something of which the size in bytes is known.
    fn begin(&mut self, verb: &str, what: &str, bytes: u64) {
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
