//! Which runtime each plugin uses, and installing one.

use host_registry::NativePlugin;
use host_runtime::{Outcome, RuntimeError, Runtimes, Standing};

use crate::error::Result;
use crate::observer::{Notice, Observer, OfInstallation, Progress};

/// The command that installs a plugin's runtime.
#[must_use]
pub fn install_command(id: &str) -> String {
    format!("host runtimes install {id}")
}

/// How a runtime is named that is on this machine already.
pub(crate) fn naming(id: &str) -> String {
    format!("one that is on this machine already is named with --runtime {id}=PATH")
}

/// Why a plugin's runtime cannot be used, and what to do about it; nothing where it can, or where the
/// plugin takes none.
pub(crate) fn missing(plugin: &NativePlugin, standing: Option<&Standing>) -> Option<String> {
    let (need, standing) = (plugin.metadata.runtime.as_ref()?, standing?);
    let id = &plugin.metadata.id;
    let advice = match standing {
        Standing::Ready(_) => return None,
        Standing::Missing { .. } => format!("`{}` installs it", install_command(id)),
        Standing::Damaged { .. } => format!("`{}` puts it right", install_command(id)),
        Standing::Unavailable { .. } => naming(id),
    };
    let reason = standing.reason()?;
    Some(format!("runtime `{}` {} {reason}; {advice}", need.name, need.version))
}

/// What a plugin said that could not list its devices, with what the host knows of its runtime.
/// `looked` says whether that is an answer, and no failure: it looked for something and found nothing.
pub(crate) fn explained(
    said: String,
    looked: bool,
    plugin: &NativePlugin,
    found: Result<Option<Standing>, RuntimeError>,
) -> String {
    let wants = said.contains(&install_command(&plugin.metadata.id));
    let missing = match &found {
        // It looked for its device first, and this is no machine for it.
        Ok(Some(Standing::Unavailable { .. })) if looked && !wants => None,
        Ok(standing) => missing(plugin, standing.as_ref()),
        Err(error) => Some(error.to_string()),
    };
    match missing {
        // The host knows why the plugin was given none, and whether that command brings it.
        Some(missing) if wants => missing,
        Some(missing) => format!("{said} ({missing})"),
        None => said,
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
        let told = |said: &str, looked, found| explained(said.into(), looked, &plugin, found);
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
