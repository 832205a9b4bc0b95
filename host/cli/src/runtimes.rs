//! What the commands share about runtimes: which each plugin uses, and progress while one is installed.

use std::collections::BTreeMap;
use std::path::PathBuf;

use host_record::{Gap, RuntimeState};
use host_registry::{NativePlugin, Registry};
use host_runtime::{Observer, Outcome, RuntimeError, Runtimes, Standing, Step};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::failure::{Failure, Result};
use crate::printer::Printer;
use crate::units;

/// The command that installs a plugin's runtime.
pub(crate) fn install_command(id: &str) -> String {
    format!("host runtimes install {id}")
}

/// How a runtime is named that is on this machine already.
pub(crate) fn naming(id: &str) -> String {
    format!("one that is on this machine already is named with --runtime {id}=PATH")
}

/// The gap of a plugin's runtime that cannot be used; `None` if it can, or if the plugin takes none.
pub(crate) fn missing(plugin: &NativePlugin, standing: Option<&Standing>) -> Option<Gap> {
    let (need, standing) = (plugin.metadata.runtime.as_ref()?, standing?);
    let (state, reason) = match standing {
        Standing::Ready(_) => return None,
        Standing::Missing { reason } => (RuntimeState::Missing, reason),
        Standing::Damaged { reason } => (RuntimeState::Damaged, reason),
        Standing::Unavailable { reason } => (RuntimeState::Unavailable, reason),
    };
    Some(Gap::RuntimeMissing {
        plugin: plugin.metadata.id.clone(),
        runtime: need.name.clone(),
        version: need.version.clone(),
        state,
        reason: reason.clone(),
    })
}

/// The message of a plugin that could not list its devices, with what the host knows of its runtime.
/// `looked` says whether that is an answer and not a failure: it looked for something and found nothing.
/// `wants` says whether it reported that its runtime is missing.
pub(crate) fn explained(
    said: String,
    looked: bool,
    wants: bool,
    plugin: &NativePlugin,
    found: std::result::Result<Option<Standing>, RuntimeError>,
) -> String {
    let missing = match &found {
        // It looked for its device first, and this is no machine for it.
        Ok(Some(Standing::Unavailable { .. })) if looked && !wants => None,
        Ok(standing) => missing(plugin, standing.as_ref()).map(|gap| gap.to_string()),
        Err(error) => Some(error.to_string()),
    };
    match missing {
        // The host knows why the plugin was given none, and whether that command brings it.
        Some(missing) if wants => missing,
        Some(missing) => format!("{said} ({missing})"),
        None => said,
    }
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use host_record::RuntimeOrigin;

    use super::*;

    #[test]
    fn what_a_plugin_says_of_its_runtime_gives_way_to_what_the_host_knows() {
        let text = "schema = 1\nid = \"demo\"\nversion = \"0.1.0\"\nkind = \"backend\"\n\
                    summary = \"A test.\"\nlicense = \"MIT\"\nlibrary = \"backend_demo\"\n\
                    api = \">=1.0\"\nhardware = [\"npu\"]\nengine = \"none\"\n[runtime]\n\
                    name = \"demo\"\nversion = \"1.0\"\nsummary = \"A demo.\"\n";
        let plugin = NativePlugin {
            metadata: host_registry::Metadata::parse(text, Path::new("plugin.toml"))
                .expect("a good file"),
            folder: "/plugins/demo".into(),
            library: "/plugins/demo/libbackend_demo.so".into(),
            origin: host_registry::Origin::User,
        };
        let nowhere = "libdemo.so is nowhere; `host runtimes install demo` installs it";
        let device = "there is no NPU";
        let named = || {
            Err(RuntimeError::NamedMissing {
                id: "demo".into(),
                origin: RuntimeOrigin::Environment,
                path: "/nonexistent".into(),
            })
        };
        let damaged = || Ok(Some(Standing::Damaged { reason: "is damaged".into() }));
        let other = || Ok(Some(Standing::Unavailable { reason: "is not for this".into() }));
        let told = |said: &str, looked, found| {
            explained(said.into(), looked, said == nowhere, &plugin, found)
        };
        let lines = [
            told(nowhere, true, named()),
            told(device, true, named()),
            told(nowhere, true, damaged()),
            told(nowhere, true, other()),
            told(device, true, other()),
            told("killed", false, other()),
            told(nowhere, true, Ok(None)),
        ];
        insta::assert_snapshot!(lines.join("\n"), @r"
        the runtime that TARE_RUNTIME_DEMO names for plugin `demo` is not there: /nonexistent
        there is no NPU (the runtime that TARE_RUNTIME_DEMO names for plugin `demo` is not there: /nonexistent)
        runtime `demo` 1.0 is damaged; `host runtimes install demo` puts it right
        runtime `demo` 1.0 is not for this; one that is on this machine already is named with --runtime demo=PATH
        there is no NPU
        killed (runtime `demo` 1.0 is not for this; one that is on this machine already is named with --runtime demo=PATH)
        libdemo.so is nowhere; `host runtimes install demo` installs it
        ");
    }
}
