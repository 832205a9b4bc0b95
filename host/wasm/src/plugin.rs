//! A loaded plugin: its kind is determined from imports and exports before any of it runs.

use std::fmt;
use std::path::{Path, PathBuf};

use semver::Version;
use wasmtime::Engine;
use wasmtime::component::types::ComponentItem;
use wasmtime::component::{Component, HasSelf, Linker};

use crate::bindings::{metric, recommender, report, run_metric};
use crate::error::GuestErrorKind;
use crate::state::State;
use crate::wasi;

/// Version of the package `tare:plugin` that this host speaks.
pub const INTERFACE_VERSION: Version = Version::new(0, 1, 2);

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

/// Exports of a plugin. There are two kinds of metrics: over one case, and over a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Interface {
    Metric,
    RunMetric,
    Report,
    Recommender,
}

impl Interface {
    const ALL: [Self; 4] = [Self::Metric, Self::RunMetric, Self::Report, Self::Recommender];

    /// Returns its name in the package.
    fn name(self) -> &'static str {
        match self {
            Self::Metric => "metric",
            Self::RunMetric => "run-metric",
            Self::Report => "report",
            Self::Recommender => "recommender",
        }
    }

    /// Interfaces of `tare:plugin` that its world imports.
    fn offered(self) -> &'static [&'static str] {
        match self {
            Self::Metric => &["types", "log", "other-columns"],
            Self::Report => &["types", "log", "views", "output"],
            Self::RunMetric | Self::Recommender => &["types", "log", "views"],
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// A plugin's description of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// Lower-case words joined by hyphens; metric names begin with it.
    pub id: String,
    /// Semantic version.
    pub version: String,
    /// One sentence.
    pub summary: String,
    /// SPDX licence expression.
    pub license: String,
    /// Names and one-sentence explanations of the options that it takes.
    pub options: Vec<(String, String)>,
}

/// A plugin that can be called.
#[derive(Clone)]
pub struct Plugin {
    pub(crate) path: PathBuf,
    pub(crate) sha256: String,
    pub(crate) description: Description,
    pub(crate) columns: Vec<String>,
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
            .field("description", &self.description)
            .field("path", &self.path)
            .field("sha256", &self.sha256)
            .finish_non_exhaustive()
    }
}

impl Plugin {
    /// Returns its kind.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self.world {
            World::Metric(_) | World::RunMetric(_) => Kind::Metric,
            World::Report(_) => Kind::Report,
            World::Recommender(_) => Kind::Recommender,
        }
    }

    /// Returns its description of itself.
    #[must_use]
    pub fn description(&self) -> &Description {
        &self.description
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

    /// Returns whether it is a metric over a run as a whole, for [`Sandbox::compute_run`].
    ///
    /// [`Sandbox::compute_run`]: crate::Sandbox::compute_run
    #[must_use]
    pub fn is_over_run(&self) -> bool {
        matches!(self.world, World::RunMetric(_))
    }

    /// Returns the names of the columns that a metric over a case reads; empty for other plugins.
    #[must_use]
    pub fn columns(&self) -> &[String] {
        &self.columns
    }
}

/// Says what a file is that is not a component.
pub(crate) fn check_header(bytes: &[u8]) -> Result<(), GuestErrorKind> {
    let detail = match bytes {
        // The version and the layer of the binary format: layer 0 are modules, 1 components.
        [0, b'a', b's', b'm', _, _, 1, 0, ..] => return Ok(()),
        [0, b'a', b's', b'm', ..] => {
            "it is a core WebAssembly module; build it for the target `wasm32-wasip2`"
        }
        [] => "the file is empty",
        [0x7f, b'E', b'L', b'F', ..] => {
            "it is a native library; metrics, reports and recommenders are built for `wasm32-wasip2`"
        }
        _ => "it does not begin as WebAssembly does",
    };
    Err(GuestErrorKind::NotAComponent { detail: detail.into() })
}

/// Finds the component's world, and resolves its imports.
pub(crate) fn resolve(engine: &Engine, component: &Component) -> Result<World, GuestErrorKind> {
    let interface = interface_of(engine, component)?;
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

fn interface_of(engine: &Engine, component: &Component) -> Result<Interface, GuestErrorKind> {
    let component_type = component.component_type();
    let exports: Vec<String> =
        component_type.exports(engine).map(|(name, _)| name.to_owned()).collect();
    let mut found = Vec::new();
    for export in &exports {
        if let Some((name, version)) = ours(export)
            && let Some(interface) = Interface::ALL.into_iter().find(|known| known.name() == name)
        {
            check_version(version)?;
            found.push(interface);
        }
    }
    match found[..] {
        [interface] => Ok(interface),
        _ => Err(GuestErrorKind::UnknownWorld { exports }),
    }
}

/// Returns interface and version of `tare:plugin/metric@0.1.0`.
fn ours(name: &str) -> Option<(&str, &str)> {
    let name = name.strip_prefix("tare:plugin/")?;
    Some(name.split_once('@').unwrap_or((name, "")))
}

/// Checks a version: it fits if the first part that is not zero is the same. A later version may
/// import more than this host offers, which the check of its imports detects.
fn check_version(text: &str) -> Result<(), GuestErrorKind> {
    let host = INTERFACE_VERSION;
    let Ok(version) = Version::parse(text) else {
        return Err(GuestErrorKind::Version {
            detail: format!(
                "the plugin names no version of `tare:plugin`; this host has {host}; build the plugin with the SDK"
            ),
        });
    };
    let series = |version: &Version| match version {
        Version { major: 0, minor, .. } => (0, *minor),
        Version { major, .. } => (*major, 0),
    };
    if series(&version) == series(&host) {
        return Ok(());
    }
    let remedy = if version > host {
        "install a newer host, or a build of the plugin for this one"
    } else {
        "build the plugin again with the SDK of this host"
    };
    Err(GuestErrorKind::Version {
        detail: format!(
            "the plugin needs `tare:plugin` {version}, but this host has {host}; {remedy}"
        ),
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

    let mut unknown = Vec::new();
    for (name, import) in component.component_type().imports(engine) {
        if let Some((imported, version)) = ours(name) {
            check_version(version)?;
            if !interface.offered().contains(&imported) {
                unknown.push(name.to_owned());
            }
        } else if let ComponentItem::ComponentInstance(instance) = &import.ty
            && name.starts_with("wasi:")
        {
            let mut place = linker.instance(name).map_err(host)?;
            wasi::define(engine, &mut place, name, instance).map_err(host)?;
        } else {
            unknown.push(name.to_owned());
        }
    }
    if unknown.is_empty() {
        Ok(linker)
    } else {
        Err(GuestErrorKind::Import { imports: unknown, world: interface.name() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_one_series_fit() {
        assert!(check_version("0.1.0").is_ok());
        assert!(check_version("0.1.7").is_ok());
        let refusal = |version| check_version(version).expect_err("another series").to_string();
        insta::assert_snapshot!(
            refusal("0.2.0"),
            @"version mismatch: the plugin needs `tare:plugin` 0.2.0, but this host has 0.1.2; install a newer host, or a build of the plugin for this one"
        );
        insta::assert_snapshot!(
            refusal("0.0.9"),
            @"version mismatch: the plugin needs `tare:plugin` 0.0.9, but this host has 0.1.2; build the plugin again with the SDK of this host"
        );
        insta::assert_snapshot!(
            refusal(""),
            @"version mismatch: the plugin names no version of `tare:plugin`; this host has 0.1.2; build the plugin with the SDK"
        );
    }

    #[test]
    fn the_version_is_that_of_the_wit_files() {
        let wit = include_str!("../../../plugin-api/wit/plugin.wit");
        assert!(wit.contains(&format!("package tare:plugin@{INTERFACE_VERSION};")));
    }

    #[test]
    fn what_is_not_a_component_is_told_what_it_is() {
        let detail = |bytes: &[u8]| check_header(bytes).expect_err("no component").to_string();
        assert!(check_header(b"\0asm\x0d\0\x01\0").is_ok());
        insta::assert_snapshot!(
            detail(b"\0asm\x01\0\0\0"),
            @"not a WebAssembly component: it is a core WebAssembly module; build it for the target `wasm32-wasip2`"
        );
        insta::assert_snapshot!(
            detail(b"\x7fELF"),
            @"not a WebAssembly component: it is a native library; metrics, reports and recommenders are built for `wasm32-wasip2`"
        );
        insta::assert_snapshot!(detail(b""), @"not a WebAssembly component: the file is empty");
        insta::assert_snapshot!(
            detail(b"hello"),
            @"not a WebAssembly component: it does not begin as WebAssembly does"
        );
    }
}
