//! A loaded plugin, its kind, and its description of itself.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use wasmtime::component::types::ComponentItem;
use wasmtime::component::{Component, HasSelf, Linker};
use wasmtime::{Engine, InstancePre};

use crate::bindings::{metric, recommender, report, run_metric};
use crate::command::{self, Process};
use crate::description::Description;
use crate::engine::Compiled;
use crate::error::GuestErrorKind;
use crate::limits::Limits;
use crate::shape::{INTERFACE_VERSION, Interface, Shape, newest};
use crate::state::State;
use crate::wasi;

/// Prefix of the name of a column that a metric reads in pages.
const PAGED: &str = "paged:";

/// Kinds of guests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
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

    /// Returns the kind of a plugin with this interface, as far as that tells.
    pub(crate) fn of(interface: Interface) -> Option<Self> {
        match interface {
            Interface::Metric | Interface::RunMetric => Some(Self::Metric),
            Interface::Report => Some(Self::Report),
            Interface::Recommender => Some(Self::Recommender),
            Interface::Command => None,
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
    pub(crate) kind: Kind,
    pub(crate) description: Description,
    pub(crate) columns: Vec<String>,
    /// Views that a report reads, if it is a classic module, which gets them beforehand.
    pub(crate) views: Vec<String>,
}

impl Profile {
    /// Returns its kind.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
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
    pub(crate) columns: Columns,
    pub(crate) world: World,
    pub(crate) allowance: Allowance,
}

/// Limits of one plugin's calls; what is absent is as for every plugin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Allowance {
    /// Bytes of memory.
    pub memory_bytes: Option<u64>,
    /// Time. The instructions of a call grow with it.
    pub time: Option<Duration>,
}

impl Allowance {
    /// Returns a call's limits with this allowance.
    pub(crate) fn of(self, mut limits: Limits) -> Limits {
        if let Some(bytes) = self.memory_bytes {
            limits.memory_bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        }
        if let Some(time) = self.time {
            let factor = time.as_secs_f64() / limits.deadline.as_secs_f64();
            limits.fuel = (limits.fuel as f64 * factor) as u64;
            limits.deadline = time;
        }
        limits
    }
}

/// The columns that a metric over a case reads.
#[derive(Clone)]
pub(crate) struct Columns {
    /// All of them.
    all: Vec<String>,
    /// Those that are passed to it.
    pub(crate) whole: Vec<String>,
    /// Those that it reads in pages.
    pub(crate) paged: Vec<String>,
}

impl Columns {
    /// Reads the names that a metric has stated.
    pub(crate) fn of(stated: &[String]) -> Self {
        let (mut all, mut whole, mut paged) = (Vec::new(), Vec::new(), Vec::new());
        for name in stated {
            let name = match name.strip_prefix(PAGED) {
                Some(name) => {
                    paged.push(name.to_owned());
                    name
                }
                None => {
                    whole.push(name.clone());
                    name
                }
            };
            if !all.iter().any(|known| known == name) {
                all.push(name.to_owned());
            }
        }
        Self { all, whole, paged }
    }
}

/// The component, its imports resolved, by its kind.
#[derive(Clone)]
pub(crate) enum World {
    Metric(metric::MetricPluginPre<State>),
    RunMetric(run_metric::RunMetricPluginPre<State>),
    Report(report::ReportPluginPre<State>),
    Recommender(recommender::RecommenderPluginPre<State>),
    Command(InstancePre<Process>),
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

    /// Sets the limits of its calls.
    #[must_use]
    pub fn allowed(self, allowance: Allowance) -> Self {
        Self { allowance, ..self }
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
        &self.columns.all
    }
}

/// Resolves the imports of a component that exports this interface.
pub(crate) fn resolve(
    engine: &Engine,
    compiled: &Compiled,
    interface: Interface,
) -> Result<World, GuestErrorKind> {
    let component = match compiled {
        Compiled::Component(component) => component,
        Compiled::Module(module) => return command::resolve(engine, module).map(World::Command),
    };
    let linker = link(engine, component, interface)?;
    let kind = component.component_type();
    let names = kind.imports(engine).chain(kind.exports(engine)).map(|(name, _)| name);
    let newest = newest(names);
    let host_is_older = newest.as_ref().is_some_and(|version| *version > INTERFACE_VERSION);
    let newest = newest.map_or_else(String::new, |version| version.to_string());
    let mismatch = |error: wasmtime::Error| {
        let interface = interface.name();
        let detail = if host_is_older {
            format!(
                "the plugin was built for `tare:plugin` {newest}, and this host has {INTERFACE_VERSION}, which lacks what its {interface} interface uses: {error:#}; update the host"
            )
        } else {
            format!(
                "its {interface} interface has other types than `tare:plugin@{INTERFACE_VERSION}`: {error:#}; build the plugin again with the SDK of this host"
            )
        };
        GuestErrorKind::Version { detail, host_is_older }
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
        Interface::Command => {
            return Err(GuestErrorKind::Host {
                detail: "a module was compiled as a component".into(),
            });
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
            use metric::tare::plugin::{log, other_columns, paged_columns};
            log::add_to_linker::<_, HasSelf<State>>(&mut linker, |state| state)
                .and_then(|()| {
                    other_columns::add_to_linker::<_, HasSelf<State>>(&mut linker, |state| state)
                })
                .and_then(|()| {
                    paged_columns::add_to_linker::<_, HasSelf<State>>(&mut linker, |state| state)
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
        Interface::Command => Ok(()),
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
