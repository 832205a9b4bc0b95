//! Which runtime each plugin uses, and installing one.

use host_record::{Gap, RuntimeState};
use host_registry::NativePlugin;
use host_runtime::{Outcome, RuntimeError, RuntimeStatus, Runtimes};

use crate::error::Result;
use crate::observer::{Notice, Observer, OfInstallation, Progress};

/// Returns the command that installs a plugin's runtime.
#[must_use]
pub fn install_command(id: &str) -> String {
    format!("host runtimes install {id}")
}

/// Returns the hint that names a runtime already on this machine.
pub(crate) fn naming(id: &str) -> String {
    format!("if this machine has one already, name it with --runtime {id}=PATH")
}

/// Returns the gap of a runtime that cannot be used; `None` if it can, or if the plugin needs none.
pub(crate) fn missing(plugin: &NativePlugin, status: Option<&RuntimeStatus>) -> Option<Gap> {
    let (need, status) = (plugin.metadata.runtime.as_ref()?, status?);
    let (state, reason) = match status {
        RuntimeStatus::Ready(_) => return None,
        RuntimeStatus::Missing { reason } => (RuntimeState::Missing, reason),
        RuntimeStatus::Damaged { reason } => (RuntimeState::Damaged, reason),
        RuntimeStatus::Unavailable { reason } => (RuntimeState::Unavailable, reason),
    };
    Some(Gap::RuntimeMissing {
        plugin: plugin.metadata.id.clone(),
        runtime: need.name.clone(),
        version: need.version.clone(),
        state,
        reason: reason.clone(),
    })
}

/// Returns the message of a plugin that could not list its devices, with the state of its runtime.
/// `found_nothing` is whether it searched for devices and found none, as opposed to a failure. `wants` is
/// whether it reported that its runtime is missing.
pub(crate) fn explained(
    message: String,
    found_nothing: bool,
    wants: bool,
    plugin: &NativePlugin,
    found: Result<Option<RuntimeStatus>, RuntimeError>,
) -> String {
    let missing = match &found {
        // It searched for its device first, and this machine has none.
        Ok(Some(RuntimeStatus::Unavailable { .. })) if found_nothing && !wants => None,
        Ok(status) => missing(plugin, status.as_ref()).map(|gap| gap.to_string()),
        Err(error) => Some(error.to_string()),
    };
    match missing {
        // The host knows why the plugin was given none, and whether that command brings it.
        Some(missing) if wants => missing,
        Some(missing) => format!("{message} ({missing})"),
        None => message,
    }
}

/// Installs the runtime of a plugin.
///
/// # Errors
///
/// If it cannot be installed on this machine, or not now.
pub fn install(
    runtimes: &Runtimes,
    plugin: &NativePlugin,
    observer: &mut dyn Observer,
) -> Result<Outcome> {
    let outcome = runtimes.install(plugin, &mut OfInstallation(observer));
    observer.progress(Progress::InstallationEnded);
    let outcome = outcome?;
    let notice = Notice::RuntimeInstalled { plugin: &plugin.metadata.id, outcome: &outcome };
    observer.notice(notice);
    Ok(outcome)
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
        let nowhere = "libdemo.so is nowhere; install it with `host runtimes install demo`";
        let device = "there is no NPU";
        let named = || {
            Err(RuntimeError::NamedMissing {
                id: "demo".into(),
                origin: RuntimeOrigin::Environment,
                path: "/nonexistent".into(),
            })
        };
        let damaged = || Ok(Some(RuntimeStatus::Damaged { reason: "is damaged".into() }));
        let other = || Ok(Some(RuntimeStatus::Unavailable { reason: "is not for this".into() }));
        let explained_as = |message: &str, found_nothing, found| {
            explained(message.into(), found_nothing, message == nowhere, &plugin, found)
        };
        let lines = [
            explained_as(nowhere, true, named()),
            explained_as(device, true, named()),
            explained_as(nowhere, true, damaged()),
            explained_as(nowhere, true, other()),
            explained_as(device, true, other()),
            explained_as("killed", false, other()),
            explained_as(nowhere, true, Ok(None)),
        ];
        insta::assert_snapshot!(lines.join("\n"), @r"
        the runtime that TARE_RUNTIME_DEMO names for plugin `demo` does not exist: /nonexistent
        there is no NPU (the runtime that TARE_RUNTIME_DEMO names for plugin `demo` does not exist: /nonexistent)
        runtime `demo` 1.0 is damaged; repair it with `host runtimes install demo`
        runtime `demo` 1.0 is not for this; if this machine has one already, name it with --runtime demo=PATH
        there is no NPU
        killed (runtime `demo` 1.0 is not for this; if this machine has one already, name it with --runtime demo=PATH)
        libdemo.so is nowhere; install it with `host runtimes install demo`
        ");
    }
}
