//! Choosing the WASM plugins of an experiment, before anything is measured.

use std::collections::BTreeMap;

use host_manifest::{LimitMention, ManifestError, Mentions, PluginMention, suggestions};
use host_record::{MetricValue, PluginIdentity};
use host_registry::{GuestFile, Registry};
use host_store::{PluginRole, RunPlugin};
use host_wasm::{GuestError, GuestErrorKind, Kind, Plugin, Sandbox, SandboxOptions};
use semver::Version;
use serde_json::{Map, Value};

use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::platform;
use crate::printer::Printer;

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

/// Returns the sandbox, with its cache of compiled plugins in the user's cache folder.
pub(crate) fn sandbox() -> Result<Sandbox> {
    let options = SandboxOptions {
        cache: platform::cache_folder().map(|folder| folder.join("wasm")),
        ..SandboxOptions::default()
    };
    Sandbox::new(options).map_err(|error| {
        Failure::new(Exit::Failure, "the sandbox for WASM plugins cannot start").because(error)
    })
}

/// Errors in an experiment's guests.
#[derive(Default)]
pub(crate) struct Findings {
    /// Wrong in the manifest.
    pub(crate) wrong: Vec<ManifestError>,
    /// Named in the manifest, and missing or broken.
    pub(crate) missing: Vec<ManifestError>,
    /// Missing or broken ones that the manifest does not name.
    pub(crate) others: Vec<Failure>,
}

impl Findings {
    fn missing(&mut self, mention: &PluginMention, Missing { message, label, help }: Missing) {
        match &mention.place {
            Some(place) => self.missing.push(ManifestError {
                message,
                span: place.clone(),
                label: label.into(),
                hint: help,
            }),
            None => {
                let failure = Failure::new(Exit::Plugin, message);
                self.others.push(match help {
                    Some(help) => failure.help(help),
                    None => failure,
                });
            }
        }
    }
}

impl Chosen {
    /// Finds and compiles all guests that a manifest mentions, and tries their options and limits.
    /// All errors are reported at once.
    pub(crate) fn all(
        mentions: &Mentions,
        registry: &Registry,
        printer: &Printer,
    ) -> Result<(Self, Findings)> {
        let _span = tracing::debug_span!("choose guests").entered();
        let sandbox = sandbox()?;
        let mut findings = Findings::default();
        let mut stated = BTreeMap::new();
        let mut choose = |kind, mentions: &[PluginMention]| {
            let mut guests = Vec::new();
            for mention in mentions {
                let plugin = match find(&sandbox, registry, kind, mention) {
                    Ok(plugin) => plugin,
                    Err(missing) => {
                        findings.missing(mention, missing);
                        continue;
                    }
                };
                let Some(options) = &mention.options else { continue };
                match try_options(&sandbox, &plugin, mention, options, &mut findings.wrong) {
                    Ok(values) if kind == Kind::Metric => {
                        stated.insert(mention.id.clone(), values);
                    }
                    Ok(_) => {}
                    Err(error) => printer.warning(
                        format_args!(
                            "nothing is known of what `{}` will state: {error}",
                            mention.id
                        ),
                        Some("a metric answers with gaps where it has no columns"),
                    ),
                }
                let identity = identity(&plugin);
                guests.push(Guest { plugin, identity, options: options.clone() });
            }
            guests
        };
        let metrics = choose(Kind::Metric, &mentions.metrics);
        let reports = choose(Kind::Report, &mentions.reports);
        let recommenders = choose(Kind::Recommender, &mentions.recommenders);
        let limits = mentions.recommenders.iter().flat_map(|recommender| &recommender.limits);
        for limit in limits {
            findings.wrong.extend(check_limit(limit, &stated));
        }
        Ok((Self { sandbox, metrics, reports, recommenders }, findings))
    }

    /// Returns the guests, as the run folder records them.
    pub(crate) fn run_plugins(&self) -> impl Iterator<Item = RunPlugin> + '_ {
        let role = |role| {
            move |guest: &Guest| RunPlugin { role, identity: guest.identity.clone(), runtime: None }
        };
        self.metrics
            .iter()
            .map(role(PluginRole::Metric))
            .chain(self.reports.iter().map(role(PluginRole::Report)))
            .chain(self.recommenders.iter().map(role(PluginRole::Recommender)))
    }
}

/// Returns the identity of a guest for results.
pub(crate) fn identity(plugin: &Plugin) -> PluginIdentity {
    let description = plugin.description();
    PluginIdentity {
        id: description.id.clone(),
        version: description.version.clone(),
        sha256: plugin.sha256().to_owned(),
    }
}

/// Tries options, and returns the values that a metric would state. An error in the options is
/// underlined; any other error is the plugin's own and not about the manifest.
fn try_options(
    sandbox: &Sandbox,
    plugin: &Plugin,
    mention: &PluginMention,
    options: &Value,
    wrong: &mut Vec<ManifestError>,
) -> std::result::Result<Vec<MetricValue>, GuestError> {
    let id = &mention.id;
    let mut taken = options.as_object().cloned().unwrap_or_default();
    let known: Vec<_> =
        plugin.description().options.iter().map(|(name, _)| name.as_str()).collect();
    // Every recommender is given limits, be they none; one that knows none says so itself.
    let unknown = |name: &String| !known.contains(&&**name) && name != "limits";
    for name in taken.keys().filter(|name| unknown(name)) {
        wrong.extend(unknown_option(plugin.kind().name(), mention, name, &known));
    }
    taken.retain(|name, _| !unknown(name));
    let rehearse =
        |options: &Map<String, Value>| sandbox.rehearse(plugin, &Value::Object(options.clone()));
    let error = match rehearse(&taken) {
        Err(error) if matches!(*error.kind, GuestErrorKind::Refused { .. }) => error,
        answer => return answer,
    };
    // The plugin's words do not say where the option stands: it is the one that is refused alone.
    let alone = taken.iter().find_map(|(name, value)| {
        let refusal = rehearse(&Map::from_iter([(name.clone(), value.clone())])).err()?;
        let refused = matches!(*refusal.kind, GuestErrorKind::Refused { .. });
        let place = mention.option_places.get(name)?.value.clone();
        refused.then_some((place, refusal))
    });
    let places = mention.option_places.values();
    let start = places.clone().map(|place| place.key.start).min();
    let end = places.map(|place| place.value.end).max();
    let whole = start.zip(end).map(|(start, end)| start..end);
    let (place, error) = match (alone, whole.or_else(|| mention.place.clone())) {
        (Some(found), _) => found,
        (None, Some(place)) => (place, error),
        (None, None) => return Err(error),
    };
    let reason = error.kind.to_string();
    wrong.push(ManifestError {
        message: format!(
            "the {} plugin `{id}` refuses its options: {}",
            plugin.kind(),
            reason.strip_prefix("options: ").unwrap_or(&reason)
        ),
        span: place,
        label: "refused".into(),
        hint: Some(format!("`host plugins info {id}` says what it takes")),
    });
    // What it would state is not known then.
    Ok(Vec::new())
}

/// Returns the error for an unknown option of a plugin.
pub(crate) fn unknown_option(
    kind: &str,
    mention: &PluginMention,
    name: &str,
    known: &[&str],
) -> Option<ManifestError> {
    let place = mention.option_places.get(name)?;
    let id = &mention.id;
    Some(ManifestError {
        message: format!("the {kind} plugin `{id}` has no option `{name}`"),
        span: place.key.clone(),
        label: "unknown option".into(),
        hint: Some(if known.is_empty() {
            format!("remove it: `{id}` takes no options")
        } else {
            suggestions(name, known, "it takes")
        }),
    })
}

/// Checks a limit against the values that each metric would state.
fn check_limit(
    limit: &LimitMention,
    stated: &BTreeMap<String, Vec<MetricValue>>,
) -> Option<ManifestError> {
    let (plugin, _) = limit.metric.split_once('.').unwrap_or((&limit.metric, ""));
    // A plugin that is not used, missing or refuses its options was reported.
    let values = stated.get(plugin).filter(|values| !values.is_empty())?;
    let Some(value) = values.iter().find(|value| value.metric == limit.metric) else {
        let names: Vec<_> = values.iter().map(|value| value.metric.as_str()).collect();
        return Some(ManifestError {
            message: format!("the metric plugin `{plugin}` states no `{}`", limit.metric),
            span: limit.place.clone(),
            label: "unknown metric".into(),
            hint: Some(suggestions(&limit.metric, &names, "with these options it states")),
        });
    };
    let (what, fits): (_, fn(&str) -> bool) = match limit.unit? {
        "ns" => ("a duration", is_time),
        _ => ("a size", is_size),
    };
    // A unit that is not known here may well fit: the recommender decides.
    if fits(&value.unit) || !is_known(&value.unit) {
        return None;
    }
    Some(ManifestError {
        message: format!("`{}` is not {what}, but a value in `{}`", limit.metric, value.unit),
        span: limit.bound_place.clone(),
        label: format!("{what} is no limit for it"),
        hint: Some("write a plain number, which is in the metric's own unit".into()),
    })
}

fn is_time(unit: &str) -> bool {
    matches!(unit, "ns" | "us" | "µs" | "μs" | "ms" | "s")
}

fn is_size(unit: &str) -> bool {
    matches!(unit, "B" | "KiB" | "MiB" | "GiB" | "TiB" | "kB" | "MB" | "GB" | "TB")
}

fn is_known(unit: &str) -> bool {
    is_time(unit) || is_size(unit) || matches!(unit, "1" | "%" | "J" | "W") || unit.contains('/')
}

/// Reason why there is no such guest.
struct Missing {
    message: String,
    label: &'static str,
    help: Option<String>,
}

/// Finds the first guest of this kind, id and version: files named by the id come first; others
/// are examined only if there are none.
fn find(
    sandbox: &Sandbox,
    registry: &Registry,
    kind: Kind,
    mention: &PluginMention,
) -> std::result::Result<Plugin, Missing> {
    let PluginMention { id, version: requirement, .. } = mention;
    let (called, others): (Vec<&GuestFile>, Vec<_>) =
        registry.guests().iter().partition(|guest| guest.name == *id);
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
        if description.id != *id {
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
    let word = kind.name();
    let missing = |message, label, help| Missing { message, label, help };
    Err(if let Some((path, error)) = broken.into_iter().next() {
        let path = path.display();
        let message = format!("the {word} plugin `{id}` in {path} cannot be used: {error}");
        missing(message, "broken", None)
    } else if !versions.is_empty() {
        missing(
            format!(
                "no version of the {word} plugin `{id}` fits `{requirement}`: there is {}",
                versions.join(", ")
            ),
            "no version fits",
            Some("change `version` in the manifest, or install a version that fits".into()),
        )
    } else if let Some((path, found)) = other_kind {
        missing(
            format!("`{id}` is a {}, not a {word}: {}", found.name(), path.display()),
            "of another kind",
            Some(format!("name it in a [[{}]] table of the manifest", table(found))),
        )
    } else {
        // Only those of the kind are worth suggesting.
        let loaded = registry.guests().iter().filter_map(|file| sandbox.load(&file.path).ok());
        let ids: Vec<String> = loaded
            .filter(|plugin| plugin.kind() == kind)
            .map(|plugin| plugin.description().id.clone())
            .collect();
        let unknown = registry.unknown(word, id, ids.iter().map(String::as_str));
        missing(unknown.to_string(), "not installed", unknown.help())
    })
}

/// Returns the manifest's table for a kind of plugin.
fn table(kind: Kind) -> &'static str {
    match kind {
        Kind::Metric => "metric",
        Kind::Report => "report",
        Kind::Recommender => "recommend",
    }
}
