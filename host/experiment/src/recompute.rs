/*!
Metrics of an old run from its recorded samples, with the plugins found now.

What is recomputed are the metrics of the run, with the options that it gave them, or those that are
named, with the run's options where it had them. Nothing is measured, and nothing that was reported is
taken away: see the module `compute`.
*/

use std::path::Path;

use host_store::{CALLERS_METRIC, LostFile, RunFolder};
use serde_json::{Map, Value};

use crate::compute::{Extent, compute};
use crate::computed::{Computed, State};
use crate::error::{Error, Result};
use crate::guests::{GuestWish, Guests, Wishes};
use crate::observer::{Notice, Observer};
use crate::results::{index, record_result, registry_of, results_of};
use crate::settings::Settings;

/// Selection of metrics, reports and advice to recompute.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecomputeOptions {
    /// The metric plugins, which the run need not have had; all of the run's if empty.
    pub metrics: Vec<String>,
    /// Change nothing.
    pub dry_run: bool,
}

/// A run that was recomputed.
pub struct Recomputed {
    /// The run.
    pub folder: RunFolder,
    /// Every metric of every finished case.
    pub all: Vec<Computed>,
    /// Files of the run that are lost.
    pub lost: Vec<LostFile>,
    /// Whether a plugin failed.
    pub has_failed: bool,
    /// Whether values were kept that could not be recomputed because files are lost.
    pub has_kept: bool,
    /// Whether the run has reports or advice from earlier values.
    pub has_older: bool,
}

/// Recomputes metrics of a run, and stores new values.
///
/// # Errors
///
/// If the run folder cannot be read or written, or a plugin is missing.
pub fn recompute(
    path: &Path,
    options: &RecomputeOptions,
    settings: &Settings,
    observer: &mut dyn Observer,
) -> Result<Recomputed> {
    // Reading takes no lock.
    let mut writer = match options.dry_run {
        true => None,
        false => Some(RunFolder::open_to_amend(path)?),
    };
    let folder = match &writer {
        Some(writer) => writer.folder().clone(),
        None => RunFolder::open(path)?,
    };
    let guests = choose(&folder, &options.metrics, settings, observer)?;
    let lost = folder.lost_files()?;
    let mut all: Vec<Computed> = Vec::new();
    let (mut has_failed, mut has_kept) = (false, false);
    let mut on_result = |computed: Computed| {
        match (&computed.now.error, &computed.state) {
            (Some(_), _) => has_failed = true,
            (None, State::Kept(_)) => has_kept = true,
            (None, _) => {}
        }
        tell(&computed, all.last(), observer);
        if computed.is_news()
            && let Some(writer) = &mut writer
            && !record_result(writer, &computed.now, observer)?
        {
            has_failed = true;
        }
        all.push(computed);
        Ok(())
    };
    compute(&guests.sandbox, &guests.metrics, &folder, &lost, Extent::All, &mut on_result)?;
    let mut has_older = false;
    if let Some(writer) = &writer {
        writer.sync_results()?;
        if all.iter().any(Computed::is_news) {
            index(&results_of(path, settings), &folder, observer);
            has_older =
                !folder.recommendations()?.is_empty() || folder.path().join("reports").exists();
        }
    }
    Ok(Recomputed { folder, all, lost, has_failed, has_kept, has_older })
}

/// Tells why a metric failed or is kept, unless the one before said the same.
pub(crate) fn tell(computed: &Computed, before: Option<&Computed>, observer: &mut dyn Observer) {
    let Computed { key, is_over_run, now, state, .. } = computed;
    let plugin = &*now.plugin.id;
    if let Some(error) = &now.error {
        let reported = before.filter(|before| *is_over_run && before.is_over_run);
        let reported = reported.filter(|before| before.now.plugin.id == plugin);
        if reported.and_then(|before| before.now.error.as_ref()) != Some(error) {
            let case = (!is_over_run).then_some(key);
            let stays = matches!(state, State::Kept(_));
            observer.notice(Notice::MetricFailed { plugin, case, error, stays });
        }
    } else if let State::Kept(reason) = state {
        observer.notice(Notice::MetricKept { plugin, case: key, reason });
    }
}

/// Returns the plugins with their options: all of the run's metrics, or those that are named.
fn choose(
    folder: &RunFolder,
    named: &[String],
    settings: &Settings,
    observer: &mut dyn Observer,
) -> Result<Guests> {
    let manifest = host_manifest::read(&folder.manifest_text()?).mentions;
    let mut metrics: Vec<GuestWish> = Vec::new();
    let mut add = |id: &str, options: &Value| {
        // The current plugins, regardless of the versions in the manifest.
        let wish = GuestWish::new(id, options.as_object().cloned().unwrap_or_default());
        if !metrics.contains(&wish) {
            metrics.push(wish);
        }
    };
    for metric in &manifest.metrics {
        if let Some(options) = &metric.options {
            add(&metric.id, options);
        }
    }
    // Those that were asked for later, by this command. Functions of a caller are not to be found here.
    for result in folder.results()? {
        if !result.plugin.id.starts_with(CALLERS_METRIC) {
            add(&result.plugin.id, &result.options);
        }
    }
    if !named.is_empty() {
        metrics.retain(|metric| named.contains(&metric.id));
        for id in named {
            if !metrics.iter().any(|metric| metric.id == *id) {
                metrics.push(GuestWish::new(id, Map::new()));
            }
        }
    }
    let registry = registry_of(folder, &manifest, settings);
    let wishes = Wishes { metrics, ..Wishes::default() };
    let (guests, problems) = Guests::choose(&wishes, &registry, settings, observer)?;
    // Options that fitted then need not fit the plugin of now: it says so itself, case by case.
    let missing =
        problems.into_iter().filter(|problem| problem.is_missing).map(Box::new).map(Error::Guest);
    match Error::all(missing) {
        Some(error) => Err(error),
        None => Ok(guests),
    }
}
