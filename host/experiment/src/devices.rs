//! Devices that installed backends find.

use std::collections::BTreeSet;

use host_record::DeviceInfo;
use host_registry::Registry;
use host_run::{Interrupt, LocalExecutor, LocalPlugin};
use host_runtime::{RuntimeStatus, Runtimes};

use crate::backends::{describe, executor, nothing_found, wants_runtime};
use crate::error::Result;
use crate::runtimes;
use crate::settings::Settings;
use crate::shadow::Shadow;

/// Devices that a backend finds, or the reason why it cannot list them.
#[derive(Debug)]
pub struct BackendDevices {
    /// The plugin's id.
    pub backend: String,
    /// Its version, if known.
    pub version: Option<String>,
    /// The devices, or the reason why there are none.
    pub devices: Result<Vec<DeviceInfo>, String>,
    /// The built-in plugin that it is used instead of, if any.
    pub shadow: Option<Shadow>,
}

/// Lists the devices of all installed backends, concurrently.
///
/// # Errors
///
/// If there is no worker, or a runtime is named for a plugin that needs none.
pub fn devices(settings: &Settings) -> Result<Vec<BackendDevices>> {
    let registry = settings.registry(&[]);
    let runtimes = settings.runtimes(&registry)?;
    let executor = executor(settings)?;
    let ids: BTreeSet<&str> =
        registry.natives().iter().map(|plugin| plugin.metadata.id.as_str()).collect();
    let ids: Vec<_> = ids.into_iter().collect();
    let mut found = list_devices(&ids, &registry, &runtimes, &executor, &settings.interrupt);
    found.extend(registry.problems().iter().filter_map(|problem| {
        let backend = problem.id()?.to_owned();
        let devices = Err(format!("{problem} ({})", problem.help()));
        Some(BackendDevices { backend, version: None, devices, shadow: None })
    }));
    Ok(found)
}

/// Lists the devices of these backends, concurrently.
pub(crate) fn list_devices(
    ids: &[&str],
    registry: &Registry,
    runtimes: &Runtimes,
    executor: &LocalExecutor,
    interrupt: &Interrupt,
) -> Vec<BackendDevices> {
    let ask = |id: &str| {
        let plugin = match registry.backend(id, None) {
            Ok(plugin) => plugin,
            Err(error) => {
                let help = error.help().map(|help| format!(" ({help})")).unwrap_or_default();
                let devices = Err(format!("{error}{help}"));
                return BackendDevices { backend: id.into(), version: None, devices, shadow: None };
            }
        };
        let library = plugin.plugin.library.clone();
        let variables = plugin.plugin.metadata.environment.clone();
        let runtime = match runtimes.find(&plugin.plugin) {
            Ok(Some(RuntimeStatus::Ready(ready))) => Some(ready.path),
            // The plugin reports that it is missing.
            _ => None,
        };
        let local = LocalPlugin { library, runtime, variables, missing_runtime: None };
        let devices = describe(&plugin, &local, executor, interrupt).map_err(|error| {
            let nothing = nothing_found(&error);
            let (found_nothing, wants) = (nothing.is_some(), wants_runtime(&error));
            let message = nothing.unwrap_or_else(|| error.to_string());
            let found = runtimes.find(&plugin.plugin);
            runtimes::explained(message, found_nothing, wants, &plugin.plugin, found)
        });
        // A plugin whose runtime is optional lists devices without it, but not the intended ones.
        let devices = devices.and_then(|devices| match runtimes.find(&plugin.plugin) {
            Err(error) => Err(error.to_string()),
            Ok(_) => Ok(devices),
        });
        let shadow = Shadow::of_backend(&plugin);
        BackendDevices {
            backend: id.into(),
            version: Some(plugin.identity.version),
            devices,
            shadow,
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = ids.iter().map(|id| scope.spawn(move || ask(id))).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    })
}
