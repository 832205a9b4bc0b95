//! Loads the model, puts inputs on the device and prepares the session that is timed.

use std::collections::BTreeMap;
use std::path::Path;

use host_record::protocol::CaseFiles;
use host_record::{CaseSpec, Phase, PlacementRule};
use plugin_api::abi::OPTION_PLACEMENT;
use plugin_api::client::{Call, Description, Model, Session};

use super::context::Context;
use super::opening::Opened;
use crate::backend::{BackendTarget, tensors};
use crate::examples::Examples;
use crate::failure::{self, Stop};
use crate::{model, platform, reference};

/// A model that is ready to run, and what it is fed.
pub(super) struct Subject {
    pub(super) model: Model,
    pub(super) examples: Examples,
    /// Properties of the session, as it tells them: precision, threads, engine and others.
    pub(super) used: BTreeMap<String, String>,
    /// Part of the model's pages that were in memory before it was loaded.
    pub(super) model_cached: Option<f64>,
    /// Files of the model whose pages were dropped before.
    pub(super) dropped_files: Vec<String>,
    pub(super) load_ns: u64,
    pub(super) prepare_ns: u64,
}

/// A session with calls that are ready to run.
pub(super) struct Prepared {
    pub(super) subject: Subject,
    pub(super) session: Session,
    /// Calls that are timed, taken in turn.
    pub(super) calls: Vec<Call>,
    /// Calls whose outputs are compared with the reference's, if the case asks for that.
    pub(super) compared: Option<Vec<Call>>,
}

/// Makes a session and its calls.
pub(super) fn prepare(context: &mut Context<'_>, opened: &Opened<'_>) -> Result<Prepared, Stop> {
    let Context { case, files, interval, .. } = *context;
    let strict = [(OPTION_PLACEMENT, PlacementRule::Strict.name())];
    let placement = match case.placement {
        PlacementRule::Strict => &strict[..],
        PlacementRule::Any => &[],
    };
    let (model_cached, dropped_files) = pages(case, files);
    let (model, load_ns) =
        context.timed(Phase::Load, || model::load(&opened.backend, case, files, placement))?;

    context.connection.enter(Phase::Inputs)?;
    let mut examples = Examples::new(case, files, model.info())?;
    let mut resident = Vec::new();
    for index in 0..examples.resident_batches() {
        let inputs = tensors(&model, &examples.batch(index)?);
        resident.push(inputs.map_err(failure::backend(Phase::Inputs))?);
        context.connection.progress(interval)?;
    }

    let (session, prepare_ns) = context.timed(Phase::Prepare, || {
        let precision = case.key.precision.name();
        model.prepare(precision, &examples.shapes()).map_err(failure::backend(Phase::Prepare))
    })?;
    let used = used(&session, &opened.description);
    let calls: Result<Vec<Call>, _> =
        resident.into_iter().map(|inputs| session.call(inputs)).collect();
    let calls = calls.map_err(failure::backend(Phase::Prepare))?;
    let compared = match &case.check {
        Some(_) => Some(reference::calls(&model, &session, &examples.different_batches()?)?),
        None => None,
    };
    let subject =
        Subject { model, examples, used, model_cached, dropped_files, load_ns, prepare_ns };
    Ok(Prepared { subject, session, calls, compared })
}

/// Drops the pages of all files of the model if the case asks for it. Returns the part of all its pages that are in
/// memory, if the system tells it of every file, and the files whose pages were dropped.
fn pages(case: &CaseSpec, files: &CaseFiles) -> (Option<f64>, Vec<String>) {
    let folder = files.model.parent().unwrap_or(Path::new(""));
    let parts = case.model.parts.iter().map(|part| (part.name.clone(), folder.join(&part.name)));
    let own = std::iter::once((case.model.name.clone(), files.model.clone()));
    let mut dropped = Vec::new();
    let (mut cached, mut all) = (Some(0.0), 0.0);
    for (name, path) in own.chain(parts) {
        let Ok(file) = host_files::open(&path) else {
            cached = None;
            continue;
        };
        // The part that is left says whether all pages went.
        if case.measure.cold_cache && platform::drop_pages(&file).is_ok() {
            dropped.push(name);
        }
        let bytes = file.metadata().map_or(0.0, |metadata| metadata.len() as f64);
        // An empty file has no pages.
        if bytes > 0.0 {
            let part = platform::cached_part(&file);
            cached = cached.zip(part).map(|(cached, part)| cached + part * bytes);
            all += bytes;
        }
    }
    (cached.filter(|_| all > 0.0).map(|cached| cached / all), dropped)
}

/// Makes a session and a target for a model that has been measured in others.
pub(super) fn target(
    context: &mut Context<'_>,
    subject: &mut Subject,
) -> Result<BackendTarget, Stop> {
    context.connection.enter(Phase::Stages)?;
    let Subject { model, examples, .. } = subject;
    let session = model
        .prepare(context.case.key.precision.name(), &examples.shapes())
        .map_err(failure::backend(Phase::Prepare))?;
    let mut calls = Vec::new();
    for index in 0..examples.resident_batches() {
        let inputs = tensors(model, &examples.batch(index)?);
        let call = inputs.and_then(|inputs| session.call(inputs));
        calls.push(call.map_err(failure::backend(Phase::Prepare))?);
        context.connection.progress(context.interval)?;
    }
    let mut target = BackendTarget::new(session, calls);
    target.first_run().map_err(failure::backend(Phase::FirstRun))?;
    Ok(target)
}

/// Returns the session's properties, with the plugin's id and version. The library identifies itself and a
/// session cannot change that, but it may name the library's engine that runs this model.
fn used(session: &Session, description: &Description) -> BTreeMap<String, String> {
    let mut used: BTreeMap<_, _> = session.used().iter().cloned().collect();
    used.insert("plugin".to_owned(), description.id.clone());
    used.insert("plugin-version".to_owned(), description.version.clone());
    for (name, said) in
        [("engine", &description.engine), ("engine-version", &description.engine_version)]
    {
        used.entry(name.to_owned()).or_insert_with(|| said.clone());
    }
    used
}
