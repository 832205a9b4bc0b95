//! Options that every backend over the engine has.

use std::collections::BTreeMap;

use ort::session::builder::GraphOptimizationLevel;
use plugin_api::abi::OPTION_PLACEMENT;
use plugin_api::backend::{Error, ErrorCode, Options, Result};

use crate::ProviderOptions;
use crate::library::is_at_least;

/// Options that every backend over the engine has.
const OPTIONS: &[&str] = &["allow-spinning", "graph-optimisation", OPTION_PLACEMENT, "session.*"];

/// The options of the execution provider, for backends that have one.
pub const PROVIDER_OPTIONS: &str = "provider.*";

const PROVIDER: &str = "provider.";
const SESSION: &str = "session.";

/// ONNX Runtime's names that the manifest cannot set, each with the setting that determines it.
pub type ReservedOptions = [(&'static str, &'static str)];

/// Session configuration entries that the engine sets.
const TAKEN: &ReservedOptions = &[
    ("session.disable_cpu_ep_fallback", "`placement` of the backend"),
    ("session.intra_op.allow_spinning", "the option `allow-spinning`"),
];

/// Checks the options of a backend, which are the engine's and `own`, before anything is searched.
/// `taken` are options of its provider that it sets itself.
///
/// # Errors
///
/// Names an option that is unknown, has an impossible value, or has another setting.
pub fn check_options(options: &Options<'_>, own: &[&str], taken: &ReservedOptions) -> Result<()> {
    options.only(&[OPTIONS, own].concat())?;
    let common = Common::read(options)?;
    let named = |key: &String| taken.iter().find(|(taken, _)| *taken == key.as_str());
    match common.provider.keys().find_map(|key| Some((key, named(key)?))) {
        Some((key, (_, by))) => Err(is_taken(&format!("{PROVIDER}{key}"), by)),
        None => Ok(()),
    }
}

fn is_taken(option: &str, by: &str) -> Error {
    Error::new(ErrorCode::InvalidArgument, format!("`{option}` is set by {by}"))
}

/// Checks an entry: ONNX Runtime silently accepts unknown ones, such as one with `session.` twice.
fn session_entry(key: &str) -> Result<String> {
    let option = format!("{SESSION}{key}");
    let entry = format!("{SESSION}{}", key.trim_start_matches(SESSION));
    if let Some((_, by)) = TAKEN.iter().find(|(taken, _)| *taken == entry) {
        return Err(is_taken(&option, by));
    }
    if option == entry {
        return Ok(entry);
    }
    let message = format!("there is no option `{option}`; ONNX Runtime calls it `{entry}`");
    Err(Error::new(ErrorCode::InvalidArgument, message))
}

/// The parsed options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Common {
    pub(crate) optimisation: Optimisation,
    pub(crate) spinning: bool,
    pub(crate) strict: bool,
    pub(crate) provider: ProviderOptions,
    pub(crate) session: BTreeMap<String, String>,
}

/// Levels of ONNX Runtime's graph optimisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Optimisation {
    Disable,
    Basic,
    Extended,
    Layout,
    All,
}

impl Optimisation {
    const ALL: [Self; 5] = [Self::Disable, Self::Basic, Self::Extended, Self::Layout, Self::All];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Disable => "disable",
            Self::Basic => "basic",
            Self::Extended => "extended",
            Self::Layout => "layout",
            Self::All => "all",
        }
    }

    /// Refuses levels that a version of ONNX Runtime does not know. ONNX Runtime itself would only report a wrong
    /// number.
    pub(crate) fn check(self, version: &str) -> Result<()> {
        if self != Self::Layout || is_at_least(version, 23) {
            return Ok(());
        }
        let message = format!(
            "option `graph-optimisation` cannot be `layout` with ONNX Runtime {version}: 1.23 and later \
             know it as a level of its own; `all` contains it in every version"
        );
        Err(Error::new(ErrorCode::Unsupported, message))
    }

    pub(crate) const fn level(self) -> GraphOptimizationLevel {
        match self {
            Self::Disable => GraphOptimizationLevel::Disable,
            Self::Basic => GraphOptimizationLevel::Level1,
            Self::Extended => GraphOptimizationLevel::Level2,
            Self::Layout => GraphOptimizationLevel::Level3,
            Self::All => GraphOptimizationLevel::All,
        }
    }
}

impl Common {
    pub(crate) fn read(options: &Options<'_>) -> Result<Self> {
        let optimisation = options.get("graph-optimisation").unwrap_or("all");
        let optimisation = Optimisation::ALL
            .into_iter()
            .find(|known| known.name() == optimisation)
            .ok_or_else(|| {
                let known = Optimisation::ALL.map(Optimisation::name).join(", ");
                unknown("graph-optimisation", optimisation, &known)
            })?;
        Ok(Self {
            optimisation,
            spinning: options.parse("allow-spinning")?.unwrap_or(false),
            strict: options.strict_placement()?,
            provider: (options.under(PROVIDER))
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect(),
            session: (options.under(SESSION))
                .map(|(key, value)| Ok((session_entry(key)?, value.to_owned())))
                .collect::<Result<_>>()?,
        })
    }

    /// Returns the provider's options: those of the manifest, and those that the backend sets.
    ///
    /// # Errors
    ///
    /// If the two conflict, and the backend has not named the setting that determines an option.
    pub(crate) fn provider_options(&self, set: ProviderOptions) -> Result<ProviderOptions> {
        let differs = |(key, value): &(&String, &String)| {
            self.provider.get(*key).is_some_and(|other| other != *value)
        };
        if let Some((key, value)) = set.iter().find(differs) {
            let by = format!("the backend, to `{value}`");
            return Err(is_taken(&format!("{PROVIDER}{key}"), &by));
        }
        let mut options = self.provider.clone();
        options.extend(set);
        Ok(options)
    }
}

fn unknown(option: &str, value: &str, known: &str) -> Error {
    let message = format!("option `{option}` cannot be `{value}`; it can be: {known}");
    Error::new(ErrorCode::InvalidArgument, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn common(provider: &[(&str, &str)]) -> Common {
        Common {
            optimisation: Optimisation::All,
            spinning: false,
            strict: false,
            provider: options(provider),
            session: BTreeMap::new(),
        }
    }

    fn options(entries: &[(&str, &str)]) -> ProviderOptions {
        entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn an_entry_that_is_set_in_another_way_is_refused_with_that_way() {
        for (entry, by) in TAKEN {
            let key = entry.strip_prefix(SESSION).expect("all begin so");
            // The second is written if `session.` is taken for a prefix of Tare only.
            for option in [key, entry] {
                let error = session_entry(option).expect_err(option);
                assert_eq!(error.code, ErrorCode::InvalidArgument);
                assert_eq!(error.message, format!("`session.{option}` is set by {by}"));
            }
        }
    }

    #[test]
    fn other_entries_pass_by_their_own_names() {
        for key in ["disable_prepacking", "intra_op_thread_affinities", "force_spinning_stop"] {
            assert_eq!(session_entry(key), Ok(format!("session.{key}")));
        }
        let error = session_entry("session.disable_prepacking").expect_err("it would do nothing");
        assert_eq!(error.code, ErrorCode::InvalidArgument);
        assert!(error.message.ends_with("calls it `session.disable_prepacking`"), "{error}");
    }

    #[test]
    fn the_manifest_adds_to_what_a_backend_sets_and_replaces_none_of_it() {
        let set = options(&[("device_id", "0")]);
        let both = common(&[("other", "1")]).provider_options(set.clone());
        assert_eq!(both, Ok(options(&[("device_id", "0"), ("other", "1")])));
        assert_eq!(common(&[("device_id", "0")]).provider_options(set.clone()), Ok(set.clone()));
        let error = common(&[("device_id", "1")]).provider_options(set).expect_err("another");
        assert_eq!(error.code, ErrorCode::InvalidArgument);
        assert_eq!(error.message, "`provider.device_id` is set by the backend, to `0`");
    }

    #[test]
    fn a_level_that_the_library_does_not_know_is_refused_by_name() {
        for level in Optimisation::ALL {
            assert_eq!(level.check("1.23.0"), Ok(()));
            assert_eq!(level.check("1.28.0"), Ok(()));
            if level != Optimisation::Layout {
                assert_eq!(level.check("1.22.1"), Ok(()), "{level:?}");
            }
        }
        let error = Optimisation::Layout.check("1.22.1").expect_err("it came later");
        assert_eq!(error.code, ErrorCode::Unsupported);
        assert!(error.message.contains("`layout` with ONNX Runtime 1.22.1: 1.23"), "{error}");
    }
}
