//! Choosing WASM plugins, before anything is measured.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;
use std::{panic, thread};

use host_manifest::{Ask, LimitMention, Mentions, OptionPlace, PluginMention, suggestions};
use host_record::{MetricValue, PluginIdentity};
use host_registry::{GuestFile, Registry};
use host_store::{PluginRole, RunPlugin};
use host_wasm::{
    Allowance, Cancel, Compiling, Description, GuestError, GuestErrorKind, Kind, Permission,
    Plugin, Sandbox, SandboxOptions, Seen,
};
use semver::{Version, VersionReq};
use serde_json::{Map, Value};

use crate::advice::advice;
use crate::error::{Error, Result};
use crate::observer::{Notice, Observer};
use crate::platform;
use crate::problem::GuestProblem;
use crate::settings::Settings;
use crate::shadow::{PassedOver, Shadow};

/// The option by which a recommender gets the limits of the manifest.
const LIMITS: &str = "limits";

/// The option by which a recommender gets the prices of the manifest.
const PRICES: &str = "prices";

/// A guest with its options.
pub struct Guest {
    /// The compiled plugin.
    pub plugin: Plugin,
    /// Its identity in results.
    pub identity: PluginIdentity,
    /// Its options.
    pub options: Value,
    /// Cases beyond the matrix that a recommender may ask for.
    pub ask: Option<Ask>,
    /// The built-in plugin that it is used instead of, if any.
    pub shadow: Option<Shadow>,
}

impl Guest {
    /// Returns whether a metric computes with the peaks of devices, for which processors are calibrated.
    pub(crate) fn takes_peaks(&self) -> bool {
        self.identity.id == "model" && self.options["utilisation"] != Value::Bool(false)
    }
}

/// A guest that is wanted.
#[derive(Debug, Clone, PartialEq)]
pub struct GuestWish {
    /// The plugin's id.
    pub id: String,
    /// The versions that will do.
    pub version: VersionReq,
    /// Its options, an object; `None` if they are wrong, which is an error elsewhere.
    pub options: Option<Value>,
    /// Cases beyond the matrix that a recommender may ask for.
    pub ask: Option<Ask>,
    /// Its limits in the sandbox.
    pub allowance: Allowance,
    /// Positions in the manifest.
    pub spans: WishSpans,
}

/// Positions of a guest in the manifest. All are empty without a manifest.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WishSpans {
    /// Its id.
    pub id: Option<Range<usize>>,
    /// Its options, by their names.
    pub options: BTreeMap<String, OptionPlace>,
    /// The limits that a recommender is given.
    pub limits: Vec<LimitMention>,
}

impl GuestWish {
    /// Creates a wish for any version of a plugin, with these options.
    #[must_use]
    pub fn new(id: impl Into<String>, options: Map<String, Value>) -> Self {
        Self {
            id: id.into(),
            version: VersionReq::STAR,
            options: Some(Value::Object(options)),
            ask: None,
            allowance: Allowance::default(),
            spans: WishSpans::default(),
        }
    }
}

impl From<&PluginMention> for GuestWish {
    fn from(mention: &PluginMention) -> Self {
        let PluginMention { id, place, version, options, option_places, limits, ask, allowance } =
            mention.clone();
        let allowance = Allowance {
            memory_bytes: allowance.memory_bytes,
            time: allowance.time_ns.map(Duration::from_nanos),
        };
        Self {
            id,
            version,
            options,
            ask,
            allowance,
            spans: WishSpans { id: place, options: option_places, limits },
        }
    }
}

/// The guests that an experiment wants.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Wishes {
    /// Metrics.
    pub metrics: Vec<GuestWish>,
    /// Reports.
    pub reports: Vec<GuestWish>,
    /// Recommenders.
    pub recommenders: Vec<GuestWish>,
    /// Limits on the metrics that a run is checked by.
    pub alerts: Vec<LimitMention>,
}

impl From<&Mentions> for Wishes {
    fn from(mentions: &Mentions) -> Self {
        let all = |mentions: &[PluginMention]| mentions.iter().map(GuestWish::from).collect();
        Self {
            metrics: all(&mentions.metrics),
            reports: all(&mentions.reports),
            recommenders: all(&mentions.recommenders),
            alerts: mentions.alerts.clone(),
        }
    }
}

/// The guests of an experiment, with the sandbox that they run in.
pub struct Guests {
    /// The sandbox.
    pub sandbox: Sandbox,
    /// Metrics.
    pub metrics: Vec<Guest>,
    /// Reports.
    pub reports: Vec<Guest>,
    /// Recommenders.
    pub recommenders: Vec<Guest>,
}

/// Creates the sandbox, with its cache of compiled plugins in the user's cache folder. The program `host` of the
/// installation compiles plugins, in processes of its own; without it, this process does. Calls and compiling end
/// when the settings' `interrupt` is asked.
///
/// # Errors
///
/// If it cannot start.
pub fn sandbox(settings: &Settings) -> Result<Sandbox> {
    let options = SandboxOptions {
        cache: platform::cache_folder().map(|folder| folder.join("wasm")),
        compiler: settings.host().filter(|path| path.is_file()),
        ..SandboxOptions::default()
    };
    let mut sandbox = Sandbox::new(options).map_err(Error::Sandbox)?;
    let interrupt = settings.interrupt.clone();
    sandbox.heed(Cancel::when(move || interrupt.is_interrupted()));
    Ok(sandbox)
}

impl Guests {
    /// Finds and compiles all guests that are wanted, and tries their options and limits. All
    /// problems are returned at once, beside the guests that were found.
    ///
    /// # Errors
    ///
    /// If the sandbox cannot start.
    pub fn choose(
        wishes: &Wishes,
        registry: &Registry,
        settings: &Settings,
        observer: &mut dyn Observer,
    ) -> Result<(Self, Vec<GuestProblem>)> {
        let _span = tracing::debug_span!("choose guests").entered();
        let sandbox = sandbox(settings)?;
        let mut problems = Vec::new();
        let mut stated = BTreeMap::new();
        let (mut shadows, mut passed_over) = (Vec::new(), Vec::new());
        let kinds = [
            (Kind::Metric, &wishes.metrics),
            (Kind::Report, &wishes.reports),
            (Kind::Recommender, &wishes.recommenders),
        ];
        let (mut metrics, mut reports, mut recommenders) = (Vec::new(), Vec::new(), Vec::new());
        for (kind, wish, found) in find_all(&sandbox, registry, kinds, observer) {
            let Found { plugin, options, values, problems: refused, shadow, broken } = match found {
                Ok(found) => found,
                Err(problem) => {
                    problems.push(*problem);
                    continue;
                }
            };
            problems.extend(refused);
            let Some(options) = options else { continue };
            match values {
                Ok(values) if kind == Kind::Metric => {
                    stated.insert(wish.id.clone(), values);
                }
                Ok(_) => {}
                Err(error) => {
                    observer.notice(Notice::Unstated { plugin: &wish.id, error: &error });
                }
            }
            let guests = match kind {
                Kind::Metric => &mut metrics,
                Kind::Report => &mut reports,
                Kind::Recommender => &mut recommenders,
            };
            // One plugin can be wanted several times, with other options each time.
            if let Some(shadow) = &shadow
                && !shadows.contains(shadow)
            {
                observer.notice(Notice::Shadow(shadow));
                shadows.push(shadow.clone());
            }
            for broken in broken {
                if !passed_over.contains(&broken) {
                    observer.notice(Notice::PassedOver(&broken));
                    passed_over.push(broken);
                }
            }
            let (identity, ask) = (identity(&plugin), wish.ask);
            guests.push(Guest { identity, plugin, options, ask, shadow });
        }
        let limits = wishes.recommenders.iter().flat_map(|wish| &wish.spans.limits);
        for limit in limits.chain(&wishes.alerts) {
            problems.extend(check_limit(limit, &stated));
        }
        Ok((Self { sandbox, metrics, reports, recommenders }, problems))
    }

    /// Returns the guests, as the run folder records them.
    pub(crate) fn run_plugins(&self) -> impl Iterator<Item = RunPlugin> + '_ {
        let role = |role| {
            move |guest: &Guest| RunPlugin {
                role,
                identity: guest.identity.clone(),
                runtime: None,
                hides: guest.shadow.as_ref().map(|shadow| shadow.hidden.display().to_string()),
            }
        };
        self.metrics
            .iter()
            .map(role(PluginRole::Metric))
            .chain(self.reports.iter().map(role(PluginRole::Report)))
            .chain(self.recommenders.iter().map(role(PluginRole::Recommender)))
    }
}

/// A guest that was found, and the result of trying its options.
struct Found {
    plugin: Plugin,
    /// The options that it gets; `None` if they are wrong.
    options: Option<Value>,
    /// The values that a metric would state with these options.
    values: Result<Vec<MetricValue>, GuestError>,
    /// Problems with its options.
    problems: Vec<GuestProblem>,
    /// The built-in plugin that it is used instead of, if any.
    shadow: Option<Shadow>,
    /// Files of its name that are broken.
    broken: Vec<PassedOver>,
}

/// Files that cannot be used, with the reasons.
type BrokenFiles = Vec<(PathBuf, GuestError)>;

/// A wish of a kind, and the guest for it.
type FoundFor<'wish> = (Kind, &'wish GuestWish, Result<Found, Box<GuestProblem>>);

/// Finds, loads and tries all guests, each on its own thread, and returns them in the order of the
/// wishes: loading ten of them in turn would take most of the time before the first sample.
fn find_all<'wish>(
    sandbox: &Sandbox,
    registry: &Registry,
    kinds: [(Kind, &'wish Vec<GuestWish>); 3],
    observer: &mut dyn Observer,
) -> Vec<FoundFor<'wish>> {
    let span = tracing::Span::current();
    let find_one = &|kind, wish: &GuestWish, tell: &mut dyn FnMut(Compiling)| {
        let _span = span.enter();
        let (file, plugin, broken) = find(sandbox, registry, kind, wish, tell)?;
        let plugin = plugin.allowed(wish.allowance);
        let broken = broken.into_iter().map(|(path, error)| PassedOver {
            kind: kind.name(),
            id: wish.id.clone(),
            reason: format!("{}: {error}", path.display()),
            used: file.path.clone(),
            hint: advice(&error, &path),
        });
        let broken = broken.collect();
        let known = &plugin.description().options;
        let options = wish.options.clone().map(|options| without_additions(known, options));
        let mut problems = Vec::new();
        let values = match &options {
            Some(options) => try_options(sandbox, &plugin, wish, options, &mut problems),
            None => Ok(Vec::new()),
        };
        problems.extend(needless_grant(sandbox, file, wish));
        let hidden = registry.guest_hidden_by(file, &wish.id);
        let shadow = hidden.map(|hidden| Shadow {
            kind: kind.name(),
            id: wish.id.clone(),
            version: plugin.description().version.clone(),
            path: file.path.clone(),
            hidden: hidden.path.clone(),
        });
        Ok::<_, Box<GuestProblem>>(Found { plugin, options, values, problems, shadow, broken })
    };
    let (tell, told) = mpsc::channel();
    thread::scope(|scope| {
        let wishes = kinds
            .into_iter()
            .flat_map(|(kind, wishes)| wishes.iter().map(move |wish| (kind, wish)));
        let start = |(kind, wish)| {
            let tell = tell.clone();
            let mut tell = move |compiling| {
                // Who listens goes on until all are found.
                let _ = tell.send(compiling);
            };
            (kind, wish, scope.spawn(move || find_one(kind, wish, &mut tell)))
        };
        let threads: Vec<_> = wishes.map(start).collect();
        drop(tell);
        // It ends with the last of the threads.
        for compiling in told {
            observer.notice(Notice::Compiling(&compiling));
        }
        let found = threads.into_iter().map(|(kind, wish, thread)| {
            let found = thread.join().unwrap_or_else(|panic| panic::resume_unwind(panic));
            (kind, wish, found)
        });
        found.collect()
    })
}

/// Returns the options without what the manifest adds for every recommender, if the plugin does not take it: an empty list of
/// limits, and prices. Limits that were written are an unknown option then.
fn without_additions(known: &[(String, String)], mut options: Value) -> Value {
    let takes = |option: &str| known.iter().any(|(name, _)| name == option);
    let is_empty = |limits: &Value| limits.as_array().is_some_and(Vec::is_empty);
    if let Value::Object(options) = &mut options {
        if !takes(LIMITS) && options.get(LIMITS).is_some_and(is_empty) {
            options.remove(LIMITS);
        }
        if !takes(PRICES) {
            options.remove(PRICES);
        }
    }
    options
}

/// Returns the problem of a grant that the plugin does not ask for. A permission needs both: an import of the component, and a
/// grant in the manifest.
fn needless_grant(sandbox: &Sandbox, file: &GuestFile, wish: &GuestWish) -> Option<GuestProblem> {
    wish.ask?;
    let names = sandbox.names(&file.path).ok()?;
    if names.permissions().any(|permission| permission == Permission::MoreCases) {
        return None;
    }
    let id = &wish.id;
    Some(GuestProblem {
        plugin: id.clone(),
        is_missing: false,
        message: format!(
            "`ask` lets the recommender `{id}` measure more cases, but it does not ask for any: its component does not \
             import `{}`",
            Permission::MoreCases.interface()
        ),
        span: wish.spans.id.clone(),
        label: "asks for no cases".into(),
        hint: Some(
            "remove `ask`, or use a recommender that asks, such as `batch-and-precision`".into(),
        ),
    })
}

/// Returns the identity of a guest in results.
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
    wish: &GuestWish,
    options: &Value,
    problems: &mut Vec<GuestProblem>,
) -> Result<Vec<MetricValue>, GuestError> {
    let (id, spans) = (&wish.id, &wish.spans);
    let mut taken = options.as_object().cloned().unwrap_or_default();
    let known: Vec<_> =
        plugin.description().options.iter().map(|(name, _)| name.as_str()).collect();
    let unknown = |name: &String| !known.contains(&&**name);
    for name in taken.keys().filter(|name| unknown(name)) {
        problems.push(unknown_option(plugin.kind().name(), id, &spans.options, name, &known));
    }
    taken.retain(|name, _| !unknown(name));
    let rehearse =
        |options: &Map<String, Value>| sandbox.rehearse(plugin, &Value::Object(options.clone()));
    let error = match rehearse(&taken) {
        Err(error) if matches!(*error.kind, GuestErrorKind::Refused { .. }) => error,
        answer => return answer,
    };
    // The plugin's words do not say which option it is: the one that is refused alone.
    let alone = taken.iter().find_map(|(name, value)| {
        let refusal = rehearse(&Map::from_iter([(name.clone(), value.clone())])).err()?;
        let refused = matches!(*refusal.kind, GuestErrorKind::Refused { .. });
        let place = spans.options.get(name).map(|place| place.value.clone());
        refused.then_some((place, refusal))
    });
    let places = spans.options.values();
    let start = places.clone().map(|place| place.key.start).min();
    let end = places.map(|place| place.value.end).max();
    let whole = start.zip(end).map(|(start, end)| start..end).or_else(|| spans.id.clone());
    let (place, error) = alone.unwrap_or((None, error));
    let reason = error.kind.to_string();
    problems.push(GuestProblem {
        plugin: id.clone(),
        is_missing: false,
        message: format!(
            "the {} plugin `{id}` refuses its options: {}",
            plugin.kind(),
            reason.strip_prefix("options: ").unwrap_or(&reason)
        ),
        span: place.or(whole),
        label: "refused".into(),
        hint: Some(format!("`host plugins info {id}` says what it takes")),
    });
    // Its values are unknown then.
    Ok(Vec::new())
}

/// Returns the error for an unknown option of a plugin.
pub(crate) fn unknown_option(
    kind: &str,
    id: &str,
    places: &BTreeMap<String, OptionPlace>,
    name: &str,
    known: &[&str],
) -> GuestProblem {
    GuestProblem {
        plugin: id.to_owned(),
        is_missing: false,
        message: format!("the {kind} plugin `{id}` has no option `{name}`"),
        span: places.get(name).map(|place| place.key.clone()),
        label: "unknown option".into(),
        hint: Some(if known.is_empty() {
            format!("remove it: `{id}` takes no options")
        } else {
            suggestions(name, known, "it takes")
        }),
    }
}

/// Checks a limit against the values that each metric would state.
fn check_limit(
    limit: &LimitMention,
    stated: &BTreeMap<String, Vec<MetricValue>>,
) -> Option<GuestProblem> {
    let (plugin, _) = limit.metric.split_once('.').unwrap_or((&limit.metric, ""));
    // A plugin that is not used, missing or refuses its options was reported.
    let values = stated.get(plugin).filter(|values| !values.is_empty())?;
    let Some(value) = values.iter().find(|value| value.metric == limit.metric) else {
        let names: Vec<_> = values.iter().map(|value| value.metric.as_str()).collect();
        return Some(GuestProblem {
            plugin: plugin.to_owned(),
            is_missing: false,
            message: format!("the metric plugin `{plugin}` states no `{}`", limit.metric),
            span: Some(limit.place.clone()),
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
    Some(GuestProblem {
        plugin: plugin.to_owned(),
        is_missing: false,
        message: format!("`{}` is not {what}, but a value in `{}`", limit.metric, value.unit),
        span: Some(limit.bound_place.clone()),
        label: format!("{what} is no limit for it"),
        hint: Some(fitting_bound(limit, &value.unit)),
    })
}

/// Returns advice on how to write a bound in a metric's unit.
fn fitting_bound(limit: &LimitMention, unit: &str) -> String {
    // `5MB` is what a finger makes of `5ms`.
    let megabytes = limit.bound / 1e6;
    if limit.unit == Some("B")
        && is_time(unit)
        && (1.0..1000.0).contains(&megabytes)
        && megabytes.fract() == 0.0
    {
        return format!("write a duration, such as `\"{megabytes}ms\"`");
    }
    match unit {
        unit if is_time(unit) => "write a duration, such as `\"5ms\"`".into(),
        unit if is_size(unit) => "write a size, such as `\"2 GiB\"`".into(),
        _ => "write a plain number, which is in the metric's own unit".into(),
    }
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

/// Returns the guest of this kind and id whose version fits. Folders are searched in order, as for backends; of several
/// versions in one folder, the highest that fits is taken. Files that are named by the id come first, and only
/// if none of them fits are others looked into. A file that was loaded before is known by its hash, and of others
/// only those of this kind are compiled. Also returns the files of its name that cannot be used.
fn find<'a>(
    sandbox: &Sandbox,
    registry: &'a Registry,
    kind: Kind,
    wish: &GuestWish,
    tell: &mut dyn FnMut(Compiling),
) -> Result<(&'a GuestFile, Plugin, BrokenFiles), Box<GuestProblem>> {
    let GuestWish { id, version: requirement, spans, .. } = wish;
    let (called, others): (Vec<&GuestFile>, Vec<_>) =
        registry.guests().iter().partition(|guest| is_called(&guest.name, id));
    let mut broken = Vec::new();
    let mut versions = Vec::new();
    let mut other_kind = None;
    let mut others_ids = Vec::new();
    for (files, are_called) in [(called, true), (others, false)] {
        for folder in files.chunk_by(|a, b| a.folder == b.folder) {
            let mut highest: Option<(Version, &GuestFile, Option<Box<Plugin>>)> = None;
            for &file in folder {
                let (description, plugin) = match described(sandbox, file, kind, tell) {
                    Ok(Described::As(description, plugin)) => (description, plugin),
                    Ok(Described::OfKind(found, its_id)) => {
                        if its_id.map_or(are_called, |its_id| its_id == *id) {
                            other_kind = Some((file.path.clone(), found));
                        }
                        continue;
                    }
                    Err(error) => {
                        if are_called || file.is_named_like(id) {
                            broken.push((file.path.clone(), error));
                        }
                        continue;
                    }
                };
                if description.id != *id {
                    others_ids.push(description.id);
                    continue;
                }
                match Version::parse(&description.version) {
                    Ok(version) if requirement.matches(&version) => {
                        if highest.as_ref().is_none_or(|(highest, ..)| version > *highest) {
                            highest = Some((version, file, plugin));
                        }
                    }
                    Ok(version) => versions.push(version.to_string()),
                    Err(_) => {
                        versions.push(format!("`{}`, which is no version", description.version))
                    }
                }
            }
            let Some((_, file, plugin)) = highest else { continue };
            match plugin
                .map_or_else(|| sandbox.load_telling(&file.path, tell), |plugin| Ok(*plugin))
            {
                Ok(plugin) => return Ok((file, plugin, broken)),
                // Its code was lost, and cannot be made again.
                Err(error) => broken.push((file.path.clone(), error)),
            }
        }
    }
    let word = kind.name();
    let missing = |message, label: &str, hint| {
        Box::new(GuestProblem {
            plugin: id.clone(),
            is_missing: true,
            message,
            span: spans.id.clone(),
            label: label.into(),
            hint,
        })
    };
    Err(if let Some((path, error)) = broken.into_iter().next() {
        let shown = path.display();
        let message = format!("the {word} plugin `{id}` in {shown} cannot be used: {error}");
        missing(message, "broken", Some(advice(&error, &path)))
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
        let unknown = registry.unknown(word, id, others_ids.iter().map(String::as_str));
        missing(unknown.to_string(), "not installed", unknown.help())
    })
}

/// Description of a guest's file.
enum Described {
    /// It is of the kind, with this description. It was loaded if that was needed to know it.
    As(Description, Option<Box<Plugin>>),
    /// It is of another kind; its id, if it is known.
    OfKind(Kind, Option<String>),
}

/// Returns the description of a guest's file, which is loaded if it is of the kind and not known.
fn described(
    sandbox: &Sandbox,
    file: &GuestFile,
    kind: Kind,
    tell: &mut dyn FnMut(Compiling),
) -> Result<Described, GuestError> {
    Ok(match sandbox.look(&file.path)? {
        Seen::Known(profile) if profile.kind() == kind => {
            Described::As(profile.description().clone(), None)
        }
        Seen::Known(profile) => {
            Described::OfKind(profile.kind(), Some(profile.description().id.clone()))
        }
        Seen::New(found) if found == kind => {
            let plugin = sandbox.load_telling(&file.path, tell)?;
            Described::As(plugin.description().clone(), Some(Box::new(plugin)))
        }
        Seen::New(found) => Described::OfKind(found, None),
    })
}

/// Returns whether a file is named by a plugin's id, with or without a version: `latency` or `latency-0.2.0`.
pub(crate) fn is_called(name: &str, id: &str) -> bool {
    let Some(rest) = name.strip_prefix(id) else { return false };
    rest.is_empty()
        || rest
            .strip_prefix('-')
            .is_some_and(|rest| rest.starts_with(|it: char| it.is_ascii_digit()))
}

/// Returns the manifest's table for a kind of plugin.
fn table(kind: Kind) -> &'static str {
    match kind {
        Kind::Metric => "metric",
        Kind::Report => "report",
        Kind::Recommender => "recommend",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_recommender_without_limits_gets_none() {
        let known = |names: &[&str]| -> Vec<(String, String)> {
            names.iter().map(|name| ((*name).to_owned(), String::new())).collect()
        };
        let none = json!({ "limits": [], "loud": true });
        assert_eq!(without_additions(&known(&[]), none.clone()), json!({ "loud": true }));
        assert_eq!(without_additions(&known(&["limits"]), none.clone()), none);
        // Limits that were written are an unknown option.
        let some = json!({ "limits": [{ "metric": "latency.p99", "at-most": 1 }] });
        assert_eq!(without_additions(&known(&[]), some.clone()), some);
        let priced = json!({ "prices": [{ "backend": "cpu", "per-hour": 1.0 }] });
        assert_eq!(without_additions(&known(&[]), priced.clone()), json!({}));
        assert_eq!(without_additions(&known(&["prices"]), priced.clone()), priced);
    }
}
