//! A loaded plugin, its kind, and its description of itself.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use wasmtime::Engine;
use wasmtime::component::types::ComponentItem;
use wasmtime::component::{Component, HasSelf, Linker};

use crate::bindings::{metric, recommender, report, run_metric};
use crate::description::Description;
use crate::error::GuestErrorKind;
use crate::shape::{INTERFACE_VERSION, Interface, Shape};
use crate::state::State;
use crate::wasi;

/// Kinds of guests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Computes values for cases.
    Metric,
    /// Writes files about a run.
    Report,
    /// Gives advice about a run.
    Recommender,
}

impl Kind {
    /// Returns `metric`, `report` or `recommender`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Metric => "metric",
            Self::Report => "report",
            Self::Recommender => "recommender",
        }
    }
}

impl From<Interface> for Kind {
    fn from(interface: Interface) -> Self {
        match interface {
            Interface::Metric | Interface::RunMetric => Self::Metric,
            Interface::Report => Self::Report,
            Interface::Recommender => Self::Recommender,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// A plugin's kind and its description of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    pub(crate) interface: Interface,
    pub(crate) description: Description,
    pub(crate) columns: Vec<String>,
}

impl Profile {
    /// Returns its kind.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.interface.into()
    }

    /// Returns its description of itself.
    #[must_use]
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// Returns the names of the columns that a metric over a case reads, each once; empty for other
    /// plugins.
    #[must_use]
    pub fn columns(&self) -> &[String] {
        &self.columns
    }
}

/// A plugin that can be called.
#[derive(Clone)]
pub struct Plugin {
    pub(crate) path: PathBuf,
    pub(crate) sha256: String,
    pub(crate) shape: Shape,
    pub(crate) profile: Profile,
    pub(crate) world: World,
}

/// The component, its imports resolved, by its kind.
#[derive(Clone)]
pub(crate) enum World {
    Metric(metric::MetricPluginPre<State>),
    RunMetric(run_metric::RunMetricPluginPre<State>),
    Report(report::ReportPluginPre<State>),
    Recommender(recommender::RecommenderPluginPre<State>),
}

impl fmt::Debug for Plugin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Plugin")
            .field("kind", &self.kind())
            .field("description", self.description())
            .field("path", &self.path)
            .field("sha256", &self.sha256)
            .finish_non_exhaustive()
    }
}

impl Plugin {
    /// Returns its kind and its description of itself.
    #[must_use]
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Returns its kind.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.profile.kind()
    }

    /// Returns its description of itself.
    #[must_use]
    pub fn description(&self) -> &Description {
        &self.profile.description
    }

    /// Returns the file that it was loaded from.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the SHA-256 of that file, in hexadecimal.
    #[must_use]
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// Returns whether it is a metric over a whole run, for [`Sandbox::compute_run`].
    ///
    /// [`Sandbox::compute_run`]: crate::Sandbox::compute_run
    #[must_use]
    pub fn is_over_run(&self) -> bool {
        matches!(self.world, World::RunMetric(_))
    }

    /// Returns the names of the columns that a metric over a case reads, each once; empty for other
    /// plugins.
    #[must_use]
    pub fn columns(&self) -> &[String] {
        &self.profile.columns
    }
}

/// Resolves the imports of a component that exports this interface.
pub(crate) fn resolve(
    engine: &Engine,
    component: &Component,
    interface: Interface,
) -> Result<World, GuestErrorKind> {
    let linker = link(engine, component, interface)?;
    let mismatch = |error: wasmtime::Error| GuestErrorKind::Version {
        detail: format!(
            "its {} interface has other types than `tare:plugin@{INTERFACE_VERSION}`: {error:#}; build the plugin against the WIT files of this host",
            interface.name()
        ),
    };
    let pre = linker.instantiate_pre(component).map_err(mismatch)?;
    Ok(match interface {
        Interface::Metric => World::Metric(metric::MetricPluginPre::new(pre).map_err(mismatch)?),
        Interface::RunMetric => {
            World::RunMetric(run_metric::RunMetricPluginPre::new(pre).map_err(mismatch)?)
        }
        Interface::Report => World::Report(report::ReportPluginPre::new(pre).map_err(mismatch)?),
        Interface::Recommender => {
            World::Recommender(recommender::RecommenderPluginPre::new(pre).map_err(mismatch)?)
        }
    })
}

fn link(
    engine: &Engine,
    component: &Component,
    interface: Interface,
) -> Result<Linker<State>, GuestErrorKind> {
    let mut linker = Linker::new(engine);
    let host = |error: wasmtime::Error| GuestErrorKind::Host { detail: format!("{error:#}") };
    match interface {
        Interface::Metric => {
            use metric::tare::plugin::{log, other_columns};
            log::add_to_linker::<_, HasSelf<State>>(&mut linker, |state| state).and_then(|()| {
                other_columns::add_to_linker::<_, HasSelf<State>>(&mut linker, |state| state)
            })
        }
        Interface::RunMetric => {
            run_metric::RunMetricPlugin::add_to_linker::<_, HasSelf<State>>(&mut linker, |state| {
                state
            })
        }
        Interface::Report => {
            report::ReportPlugin::add_to_linker::<_, HasSelf<State>>(&mut linker, |state| state)
        }
        Interface::Recommender => {
            recommender::RecommenderPlugin::add_to_linker::<_, HasSelf<State>>(
                &mut linker,
                |state| state,
            )
        }
    }
    .map_err(host)?;

    // The names of the imports were checked before it was compiled.
    for (name, import) in component.component_type().imports(engine) {
        if let ComponentItem::ComponentInstance(instance) = &import.ty
            && name.starts_with("wasi:")
        {
            let mut place = linker.instance(name).map_err(host)?;
            wasi::define(engine, &mut place, name, instance)
                .map_err(|error| GuestErrorKind::NotAComponent { detail: format!("{error:#}") })?;
        }
    }
    Ok(linker)
}
