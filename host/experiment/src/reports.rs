/*!
Reports of a run: written at its end, or later.

Each report has a folder of its own, named by its plugin, in `reports/` of the run folder or in a folder
that the caller names. A manifest names a plugin once, so the names differ. What the host did not write is
never replaced; see [`ReportFolder`].
*/

use std::path::{Path, PathBuf};
use std::rc::Rc;

use host_record::{PluginIdentity, Views};
use host_store::{
    EmptyViews, Past, PluginRole, ReportFolder, ResultsFolder, RunFolder, RunViews, StoreError,
};
use host_wasm::{GuestError, GuestErrorKind, Sandbox};
use serde_json::Map;

use crate::error::{Change, Error, Result};
use crate::guests::{Guest, GuestWish, Guests, Wishes};
use crate::history;
use crate::observer::{Notice, Observer};
use crate::policy;
use crate::results::registry_of;
use crate::settings::Settings;

/// A report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenReport {
    /// The id of its plugin.
    pub plugin: String,
    /// Its files, the main one first.
    pub files: Vec<PathBuf>,
}

/// Whose fault it is that a guest's output is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuestFailure {
    /// The plugin's.
    Plugin,
    /// The file system's, which did not take a report.
    FileSystem,
}

/// The reports of a run.
#[derive(Debug, Default)]
pub struct Reports {
    /// Those that are there.
    pub written: Vec<WrittenReport>,
    /// Plugins whose reports were not written because the user asked to stop.
    pub missing: Vec<String>,
    /// The last failure of a report, which is missing then.
    pub failure: Option<GuestFailure>,
}

/// Selection of an old run's reports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReportOptions {
    /// The report plugins, which the run need not have had; all of the run's if empty.
    pub reports: Vec<String>,
    /// The folder that reports are written to; `None`: into the run folder.
    pub to: Option<PathBuf>,
}

/// Writes the reports of a run, to a folder or into the run folder.
///
/// # Errors
///
/// If the run folder cannot be read.
pub fn report(
    run: &RunFolder,
    guests: &Guests,
    to: Option<&Path>,
    observer: &mut dyn Observer,
) -> Result<Reports> {
    write(run, guests, to, false, None, &past(run)?, observer)
}

/// Writes reports of an old run, with the plugins found now. `path` is the run's folder.
///
/// # Errors
///
/// If the run folder cannot be read, another host is writing it, or a plugin is missing or broken.
pub fn report_again(
    path: &Path,
    options: &ReportOptions,
    settings: &Settings,
    observer: &mut dyn Observer,
) -> Result<(RunFolder, Reports)> {
    // Another host may be writing the same reports, unless they go elsewhere.
    let lock = match options.to {
        Some(_) => None,
        None => Some(RunFolder::open_to_amend(path)?),
    };
    let run = match &lock {
        Some(writer) => writer.folder().clone(),
        None => RunFolder::open(path)?,
    };
    let mentions = host_manifest::read(&run.manifest_text()?).mentions;
    // The current plugins, regardless of the versions in the manifest.
    let mut wishes: Vec<GuestWish> = mentions
        .reports
        .iter()
        .filter_map(|mention| {
            Some(GuestWish::new(&*mention.id, mention.options.as_ref()?.as_object()?.clone()))
        })
        .collect();
    for id in &options.reports {
        if !wishes.iter().any(|wish| wish.id == *id) {
            wishes.push(GuestWish::new(&**id, Map::new()));
        }
    }
    if !options.reports.is_empty() {
        wishes.retain(|wish| options.reports.contains(&wish.id));
    }
    let wishes = Wishes { reports: wishes, ..Wishes::default() };
    let registry = registry_of(&run, &mentions, settings);
    let (guests, problems) = Guests::choose(&wishes, &registry, settings, observer)?;
    let missing = problems.into_iter().filter(|problem| problem.is_missing);
    if let Some(error) = Error::all(missing.map(Box::new).map(Error::Guest)) {
        return Err(error);
    }
    for Guest { identity, .. } in &guests.reports {
        let then =
            run.header().plugins.iter().find(|plugin| {
                plugin.role == PluginRole::Report && plugin.identity.id == identity.id
            });
        if let Some(then) = then.map(|plugin| &plugin.identity).filter(|then| *then != identity) {
            let change = Change::Plugin { then: then.clone(), now: identity.clone() };
            observer.notice(Notice::OtherReport(&change));
        }
    }
    let past = past(&run)?;
    let reports = write(&run, &guests, options.to.as_deref(), false, None, &past, observer)?;
    Ok((run, reports))
}

/// Writes reports, with earlier values of the cases; if `only_missing`, those that this run has not written yet.
pub(crate) fn write(
    run: &RunFolder,
    guests: &Guests,
    to: Option<&Path>,
    only_missing: bool,
    mut begun: Option<EmptyViews>,
    past: &[Past],
    observer: &mut dyn Observer,
) -> Result<Reports> {
    let parent = to.map_or_else(|| run.reports_folder(), Path::to_owned);
    let mut reports = Reports::default();
    let mut views: Option<Rc<dyn Views>> = None;
    for guest in &guests.reports {
        let id = &guest.identity.id;
        let written = match found(run, &parent, &guest.identity, only_missing) {
            Ok((_, Some(files))) => Ok(files),
            Ok((folder, None)) => {
                let views = match &views {
                    Some(views) => Rc::clone(views),
                    None => {
                        Rc::clone(views.insert(Rc::new(with_history(begun.take(), run, past)?)))
                    }
                };
                write_one(&guests.sandbox, guest, views, &folder)
            }
            Err(error) => Err(Unwritten::Store(error)),
        };
        match written {
            Ok(files) => reports.written.push(WrittenReport { plugin: id.clone(), files }),
            Err(Unwritten::Guest(error)) if matches!(*error.kind, GuestErrorKind::Cancelled) => {
                reports.missing.push(id.clone());
            }
            Err(Unwritten::Guest(error)) => {
                reports.failure = Some(GuestFailure::Plugin);
                observer.notice(Notice::ReportFailed { plugin: id, error: &error });
            }
            Err(Unwritten::Store(error)) => {
                reports.failure = Some(GuestFailure::FileSystem);
                observer.notice(Notice::ReportNotKept { plugin: id, error: &error });
            }
        }
    }
    Ok(reports)
}

/// Returns earlier values of a run's cases, from the database of its results folder.
pub(crate) fn past(run: &RunFolder) -> Result<Vec<Past>> {
    // The run's folder is `runs/RUN` of its results.
    match run.path().parent().and_then(Path::parent) {
        Some(results) => history::of_run(run, &ResultsFolder::new(results.to_owned())),
        None => Ok(Vec::new()),
    }
}

fn with_history(begun: Option<EmptyViews>, run: &RunFolder, past: &[Past]) -> Result<RunViews> {
    let views = RunViews::open_in(begun, run)?;
    views.set_history(past)?;
    Ok(views)
}

/// Returns a report's folder, and its files if they are wanted and all there.
fn found(
    run: &RunFolder,
    parent: &Path,
    plugin: &PluginIdentity,
    wants_files: bool,
) -> Result<(ReportFolder, Option<Vec<PathBuf>>), StoreError> {
    let folder = ReportFolder::open(parent, plugin, run.run_id())?;
    let whole = if wants_files { folder.whole()? } else { None };
    Ok((folder, whole))
}

/// Why a report was not written.
enum Unwritten {
    Guest(GuestError),
    Store(StoreError),
}

fn write_one(
    sandbox: &Sandbox,
    guest: &Guest,
    views: Rc<dyn Views>,
    folder: &ReportFolder,
) -> Result<Vec<PathBuf>, Unwritten> {
    let Guest { plugin, identity, options, .. } = guest;
    let mut rendered = sandbox.render(plugin, views, options).map_err(Unwritten::Guest)?;
    policy::apply(&mut rendered.files).map_err(|detail| {
        Unwritten::Guest(GuestError {
            plugin: identity.id.clone(),
            call: Some("render"),
            kind: Box::new(GuestErrorKind::InvalidAnswer { detail }),
            standard_error: String::new(),
        })
    })?;
    folder.write(&rendered.files, &rendered.named).map_err(Unwritten::Store)
}
