/*!
Trying a plugin's file on a run that exists, without storing anything in the run.

The plugin need not be installed: its author names the component. It gets the data that it would get at the end of the run, by
the same code, and what it writes to its standard streams is passed on as it comes.
*/

use std::path::{Path, PathBuf};
use std::rc::Rc;

use host_record::Views;
use host_store::{RunFolder, RunViews};
use host_wasm::{Advice, Compiling, Kind, Listener, Sandbox};
use serde_json::{Map, Value};

use crate::advice::advice;
use crate::compute::{Extent, compute};
use crate::computed::Computed;
use crate::error::{Error, Result};
use crate::guests::{Guest, Guests, identity, sandbox};
use crate::observer::{Notice, Observer};
use crate::reports::{Reports, past, write};
use crate::settings::Settings;

/// A plugin's file with its options, loaded.
pub struct Trial {
    sandbox: Sandbox,
    guest: Guest,
}

impl Trial {
    /// Loads a plugin from a file. `listener` gets what it writes to its standard streams.
    ///
    /// # Errors
    ///
    /// If it cannot be used, is of another kind than `wanted`, or refuses its options.
    pub fn new(
        file: &Path,
        wanted: Option<Kind>,
        options: Map<String, Value>,
        listener: Option<Listener>,
        settings: &Settings,
        observer: &mut dyn Observer,
    ) -> Result<Self> {
        let mut sandbox = sandbox(settings)?;
        if let Some(listener) = listener {
            sandbox.hear(listener);
        }
        let mut tell = |compiling: Compiling| observer.notice(Notice::Compiling(&compiling));
        let unusable = |error| Error::UnusableGuest {
            hint: advice(&error, file),
            path: file.to_owned(),
            error: Box::new(error),
        };
        let plugin = sandbox.load_telling(file, &mut tell).map_err(unusable)?;
        if let Some(wanted) = wanted.filter(|wanted| *wanted != plugin.kind()) {
            return Err(Error::OtherKind { path: file.to_owned(), found: plugin.kind(), wanted });
        }
        let known = &plugin.description().options;
        if let Some(unknown) =
            options.keys().find(|name| !known.iter().any(|(known, _)| known == *name))
        {
            return Err(Error::NoSuchOption {
                plugin: plugin.description().id.clone(),
                option: unknown.clone(),
                known: known.iter().map(|(name, _)| name.clone()).collect(),
            });
        }
        let options = Value::Object(options);
        sandbox.rehearse(&plugin, &options).map_err(|error| Error::UnusableGuest {
            hint: "correct its options or its code; what it wrote to standard error is above"
                .into(),
            path: file.to_owned(),
            error: Box::new(error),
        })?;
        let guest = Guest { identity: identity(&plugin), plugin, options, ask: None, shadow: None };
        Ok(Self { sandbox, guest })
    }

    /// Returns the plugin.
    #[must_use]
    pub fn guest(&self) -> &Guest {
        &self.guest
    }

    /// Computes a metric on the finished cases of a run.
    ///
    /// # Errors
    ///
    /// If the run cannot be read.
    pub fn compute(&self, run: &RunFolder) -> Result<Vec<Computed>> {
        let mut all = Vec::new();
        let lost = run.lost_files()?;
        let guests = std::slice::from_ref(&self.guest);
        compute(&self.sandbox, guests, run, &lost, Extent::All, &mut |computed| {
            all.push(computed);
            Ok(())
        })?;
        Ok(all)
    }

    /// Writes a report of a run, into a folder of its id below `to`.
    ///
    /// # Errors
    ///
    /// If the run cannot be read.
    pub fn report(
        self,
        run: &RunFolder,
        to: &Path,
        observer: &mut dyn Observer,
    ) -> Result<Reports> {
        let guests = Guests {
            sandbox: self.sandbox,
            metrics: Vec::new(),
            reports: vec![self.guest],
            recommenders: Vec::new(),
        };
        write(run, &guests, Some(to), false, None, &past(run)?, observer)
    }

    /// Asks a recommender for its advice on a run. Nothing beyond the run's cases is granted.
    ///
    /// # Errors
    ///
    /// If the run cannot be read, or the plugin fails.
    pub fn recommend(&self, run: &RunFolder, path: &Path) -> Result<Advice> {
        let views: Rc<dyn Views> = Rc::new(RunViews::open(run)?);
        let Guest { plugin, options, .. } = &self.guest;
        self.sandbox.recommend(plugin, views, None, options).map_err(|error| Error::UnusableGuest {
            hint: advice(&error, path),
            path: path.to_owned(),
            error: Box::new(error),
        })
    }
}

/// The state of a file by which a change is seen: its length and the time of its last change.
#[must_use]
pub fn stamp(file: &Path) -> Option<(u64, std::time::SystemTime)> {
    let metadata = file.metadata().ok()?;
    Some((metadata.len(), metadata.modified().ok()?))
}

/// Returns where a plugin's component is: the file itself, or in a folder the one that its project makes.
///
/// # Errors
///
/// If there is none, or there are several.
pub fn component_of(path: &Path) -> Result<PathBuf> {
    if !path.is_dir() {
        return Ok(path.to_owned());
    }
    let fails = |reason: &str| Error::NothingToAdd { path: path.to_owned(), reason: reason.into() };
    let io = |error| Error::io("read", path, error);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path).map_err(io)? {
        let entry = entry.map_err(io)?.path();
        if entry.extension().is_some_and(|extension| extension == "wasm") {
            found.push(entry);
        }
    }
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => Err(fails("it has no .wasm file: `host plugins build` makes it")),
        _ => Err(fails("it has several .wasm files: name one of them")),
    }
}
