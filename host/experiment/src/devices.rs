//! What installed backends see.

use std::collections::BTreeSet;

use host_record::DeviceInfo;
use host_registry::Registry;
use host_run::{Interrupt, LocalExecutor, LocalPlugin};
use host_runtime::{Runtimes, Standing};

use crate::backends::{describe, executor, nothing_found, wants_runtime};
use crate::error::Result;
use crate::here::Here;
use crate::runtimes;
use crate::settings::Settings;
use crate::shadow::Shadow;

/// What a backend sees, or why that cannot be told.
#[derive(Debug)]
pub struct Seen {
    /// The plugin's id.
    pub backend: String,
    /// Its version, where it is known.
    pub version: Option<String>,
    /// The devices, or why there are none.
    pub devices: Result<Vec<DeviceInfo>, String>,
    /// The built-in plugin that it is used instead of, if any.
    pub shadow: Option<Shadow>,
}

/// Asks every installed backend, all at the same time.
///
/// # Errors
///
/// If there is no worker, or a runtime is named for a plugin that takes none.
pub fn devices(settings: &Settings) -> Result<Vec<Seen>> {
    let registry = settings.registry(&[]);
    let runtimes = settings.runtimes(&registry)?;
    let executor = executor(settings, Here::default())?;
    let ids: BTreeSet<&str> =
        registry.natives().iter().map(|plugin| plugin.metadata.id.as_str()).collect();
    let ids: Vec<_> = ids.into_iter().collect();
    let mut seen = see(&ids, &registry, &runtimes, &executor);
    seen.extend(registry.problems().iter().filter_map(|problem| {
        let backend = problem.id()?.to_owned();
        let devices = Err(format!("{problem} ({})", problem.help()));
        Some(Seen { backend, version: None, devices, shadow: None })
    }));
    Ok(seen)
}

/// Asks these backends, all at the same time.
pub(crate) fn see(
    ids: &[&str],
    registry: &Registry,
    runtimes: &Runtimes,
    executor: &LocalExecutor,
) -> Vec<Seen> {
    let ask = |id: &str| {
        let plugin = match registry.backend(id, None) {
            Ok(plugin) => plugin,
            Err(error) => {
                let help = error.help().map(|help| format!(" ({help})")).unwrap_or_default();
                let devices = Err(format!("{error}{help}"));
                return Seen { backend: id.into(), version: None, devices, shadow: None };
            }
        };
        let library = plugin.plugin.library.clone();
        let runtime = match runtimes.find(&plugin.plugin) {
            Ok(Some(Standing::Ready(ready))) => Some(ready.path),
            // The plugin says what it misses.
            _ => None,
        };
        let local = LocalPlugin { library, runtime, missing_runtime: None };
        let devices = describe(&plugin, &local, executor, &Interrupt::new()).map_err(|error| {
            let nothing = nothing_found(&error);
            let (looked, wants) = (nothing.is_some(), wants_runtime(&error));
            let said = nothing.unwrap_or_else(|| error.to_string());
            let found = runtimes.find(&plugin.plugin);
            runtimes::explained(said, looked, wants, &plugin.plugin, found)
        });
        // One that can do without a runtime has devices all the same, and not those that were meant.
        let devices = devices.and_then(|devices| match runtimes.find(&plugin.plugin) {
            Err(error) => Err(error.to_string()),
            Ok(_) => Ok(devices),
        });
        let shadow = Shadow::of_backend(&plugin);
        Seen { backend: id.into(), version: Some(plugin.identity.version), devices, shadow }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = ids.iter().map(|id| scope.spawn(move || ask(id))).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    })
}
