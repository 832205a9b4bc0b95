//! Choosing the WASM plugins of an experiment, before anything is measured.

use host_manifest::Experiment;
use host_record::PluginIdentity;
use host_registry::{GuestFile, Registry};
use host_store::{PluginRole, RunPlugin};
use host_wasm::{Kind, Plugin, Sandbox, SandboxOptions};
use semver::{Version, VersionReq};
use serde_json::Value;

use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::platform;

/// A guest with the options that the manifest gives it.
pub(crate) struct Guest {
    pub(crate) plugin: Plugin,
    pub(crate) identity: PluginIdentity,
    pub(crate) options: Value,
}

/// The guests of an experiment.
pub(crate) struct Chosen {
    pub(crate) sandbox: Sandbox,
    pub(crate) metrics: Vec<Guest>,
    pub(crate) reports: Vec<Guest>,
    pub(crate) recommenders: Vec<Guest>,
}

/// The sandbox, with its cache of compiled plugins in the user's cache folder.
pub(crate) fn sandbox() -> Result<Sandbox> {
    let options = SandboxOptions {
        cache: platform::cache_folder().map(|folder| folder.join("wasm")),
        ..SandboxOptions::default()
    };
    Sandbox::new(options).map_err(|error| {
        Failure::new(Exit::Failure, "the sandbox for WASM plugins cannot start").because(error)
    })
}

impl Chosen {
    /// Finds and compiles all guests that an experiment names. Whatever is missing or does not
    /// fit is told at once.
    pub(crate) fn all(experiment: &Experiment, registry: &Registry) -> Result<Self> {
        let _span = tracing::debug_span!("choose guests").entered();
        let sandbox = sandbox()?;
        let mut failures = Vec::new();
        let mut choose = |kind, id: &str, version: &VersionReq, options: Value| match find(
            &sandbox, registry, kind, id, version,
        ) {
            Ok(plugin) => {
                let identity = identity(&plugin);
                Some(Guest { plugin, identity, options })
            }
            Err(failure) => {
                failures.push(failure);
                None
            }
        };
        let metrics = experiment.metrics.iter().filter_map(|wanted| {
            let options = Value::Object(wanted.options.clone());
            choose(Kind::Metric, &wanted.plugin, &wanted.version, options)
        });
        let metrics = metrics.collect();
        let reports = experiment.reports.iter().filter_map(|wanted| {
            let options = Value::Object(wanted.options.clone());
            choose(Kind::Report, &wanted.plugin, &wanted.version, options)
        });
        let reports = reports.collect();
        let recommenders = experiment.recommenders.iter().filter_map(|wanted| {
            let options = wanted.options_with_limits();
            choose(Kind::Recommender, &wanted.plugin, &wanted.version, options)
        });
        let recommenders = recommenders.collect();
        match Failure::all(failures) {
            Some(failure) => Err(failure),
            None => Ok(Self { sandbox, metrics, reports, recommenders }),
        }
    }

    /// The guests, as the run folder keeps them.
    pub(crate) fn run_plugins(&self) -> impl Iterator<Item = RunPlugin> + '_ {
        let role = |role| move |guest: &Guest| RunPlugin { role, identity: guest.identity.clone() };
        self.metrics
            .iter()
            .map(role(PluginRole::Metric))
            .chain(self.reports.iter().map(role(PluginRole::Report)))
            .chain(self.recommenders.iter().map(role(PluginRole::Recommender)))
    }
}

/// What results say of a guest.
pub(crate) fn identity(plugin: &Plugin) -> PluginIdentity {
    let description = plugin.description();
    PluginIdentity {
        id: description.id.clone(),
        version: description.version.clone(),
        sha256: plugin.sha256().to_owned(),
    }
}

/// The first guest of this kind, id and version: files that are called by the id come first, and
/// only where there are none are others looked into.
fn find(
    sandbox: &Sandbox,
    registry: &Registry,
    kind: Kind,
    id: &str,
    requirement: &VersionReq,
) -> Result<Plugin> {
    let (called, others): (Vec<&GuestFile>, Vec<_>) =
        registry.guests().iter().partition(|guest| guest.name == id);
    let mut broken = Vec::new();
    let mut versions = Vec::new();
    let mut other_kind = None;
    for (file, is_called) in
        called.iter().map(|file| (file, true)).chain(others.iter().map(|file| (file, false)))
    {
        if !is_called && (!broken.is_empty() || !versions.is_empty() || other_kind.is_some()) {
            break;
        }
        let plugin = match sandbox.load(&file.path) {
            Ok(plugin) => plugin,
            Err(error) => {
                if is_called {
                    broken.push((file.path.clone(), error));
                }
                continue;
            }
        };
        let description = plugin.description();
        if description.id != id {
            continue;
        }
        if plugin.kind() != kind {
            other_kind = Some((file.path.clone(), plugin.kind()));
            continue;
        }
        match Version::parse(&description.version) {
            Ok(version) if requirement.matches(&version) => return Ok(plugin),
            Ok(version) => versions.push(version.to_string()),
            Err(_) => versions.push(format!("`{}`, which is no version", description.version)),
        }
    }
    let failure = |message: String| Failure::new(Exit::Plugin, message);
    let word = kind.name();
    Err(if let Some((path, error)) = broken.into_iter().next() {
        failure(format!("the {word} plugin `{id}` in {} cannot be used", path.display()))
            .because(error)
    } else if !versions.is_empty() {
        failure(format!(
            "no version of the {word} plugin `{id}` fits `{requirement}`: there is {}",
            versions.join(", ")
        ))
        .help("change `version` in the manifest, or install a version that fits")
    } else if let Some((path, found)) = other_kind {
        failure(format!("`{id}` is a {}, not a {word}: {}", found.name(), path.display()))
            .help(format!("name it in a [[{}]] table of the manifest", table(found)))
    } else {
        registry.missing(word, id).into()
    })
}

/// The manifest's table for a kind of plugin.
fn table(kind: Kind) -> &'static str {
    match kind {
        Kind::Metric => "metric",
        Kind::Report => "report",
        Kind::Recommender => "recommend",
    }
}
