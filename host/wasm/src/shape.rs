/*!
A component's imports, exports and size, read without compiling it.

Compiling can take minutes and gigabytes, so a file is inspected first: the names at its top level show whether it is
a plugin, of which kind, and for which version of `tare:plugin`. Of the modules inside, only the functions and globals
are counted, which cost the host memory in each instance. The whole is validated when it is compiled.
*/

use semver::Version;
use serde::{Deserialize, Serialize};
use wasmparser::{Chunk, ComponentTypeRef, Parser, Payload};

use crate::error::{GuestErrorKind, shortened};

/// Version of the package `tare:plugin` in this host.
pub const INTERFACE_VERSION: Version = Version::new(0, 1, 4);

/// The module of the functions of WASI that a classic module imports.
pub(crate) const PREVIEW_1: &str = "wasi_snapshot_preview1";

/// The export of a classic module that runs it.
pub(crate) const START: &str = "_start";

/// Limit on the names at the top level of a component. A file with more is not a plugin.
const NAMES: usize = 200;

/// Limit on the functions and globals of all modules of a component. A Python interpreter with its libraries has
/// about ten thousand.
const ITEMS: usize = 200_000;

/// Limit on the core instances of a component.
pub(crate) const INSTANCES: usize = 64;

/// Bytes of an instance for each function and global.
const ITEM: usize = 32;

/// Exports of a plugin. There are two kinds of metrics: over one case, and over a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Interface {
    Metric,
    RunMetric,
    Report,
    Recommender,
    /// A classic module. Its kind is what it says when it is asked.
    Command,
}

impl Interface {
    pub(crate) const ALL: [Self; 4] =
        [Self::Metric, Self::RunMetric, Self::Report, Self::Recommender];

    /// Returns its name in the package.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Metric => "metric",
            Self::RunMetric => "run-metric",
            Self::Report => "report",
            Self::Recommender => "recommender",
            Self::Command => "command",
        }
    }

    /// Interfaces of `tare:plugin` that its world imports.
    fn offered(self) -> &'static [&'static str] {
        match self {
            Self::Metric => &["types", "log", "other-columns", "paged-columns"],
            Self::Report => &["types", "log", "views", "view-parts", "output"],
            Self::RunMetric => &["types", "log", "views", "view-parts"],
            Self::Recommender => {
                &["types", "log", "views", "view-parts", "more-cases", "predictions"]
            }
            Self::Command => &[],
        }
    }
}

/// A plugin's external properties.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Shape {
    pub(crate) interface: Interface,
    /// Limit on the bytes that its instances cost the host, without their memories and tables.
    pub(crate) instance_bytes: usize,
}

/// Contents of a component.
#[derive(Debug, Default)]
struct Contents {
    /// Names at the top level.
    exports: Vec<String>,
    /// Names of imports, each with whether it is an instance.
    imports: Vec<(String, bool)>,
    /// Functions and globals of all modules.
    items: usize,
}

/// Something that a plugin may do only if its component imports the interface for it, and a manifest grants it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permission {
    /// Measure cases beyond the matrix. A manifest grants it with `ask`.
    MoreCases,
}

impl Permission {
    /// All permissions.
    pub const ALL: [Self; 1] = [Self::MoreCases];

    /// Returns the interface of `tare:plugin` that is its declaration, which is also its name.
    #[must_use]
    pub fn interface(self) -> &'static str {
        match self {
            Self::MoreCases => "more-cases",
        }
    }

    /// Returns the key of the manifest that grants it.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::MoreCases => "ask",
        }
    }
}

/// Facts at the top level of a component, read without compiling it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    /// Its world, such as `metric-plugin`.
    pub world: String,
    /// The version of `tare:plugin` that it was built for.
    pub version: String,
    /// Its imports.
    pub imports: Vec<String>,
    /// The size of its file.
    pub bytes: u64,
}

impl Names {
    /// Returns the permissions that it declares by its imports.
    pub fn permissions(&self) -> impl Iterator<Item = Permission> + '_ {
        let imports = |permission: &Permission| {
            self.imports.iter().any(|import| {
                let name = import.strip_prefix("tare:plugin/").unwrap_or_default();
                name.split('@').next() == Some(permission.interface())
            })
        };
        Permission::ALL.into_iter().filter(imports)
    }
}

/// Returns the names of a plugin.
///
/// # Errors
///
/// If the bytes are not a plugin of this host's version.
pub(crate) fn names(bytes: &[u8]) -> Result<Names, GuestErrorKind> {
    let interface = shape(bytes)?.interface;
    let contents = contents(bytes)?;
    let mut exports = contents.exports.iter().filter_map(|name| ours(name));
    let version = exports.find(|(name, _)| *name == interface.name());
    Ok(Names {
        world: format!("{}-plugin", interface.name()),
        version: version.map(|(_, version)| version.to_owned()).unwrap_or_default(),
        imports: contents.imports.into_iter().map(|(name, _)| name).collect(),
        bytes: bytes.len() as u64,
    })
}

/// Returns the shape of a plugin: the interface that it exports, if its imports are available to such a
/// plugin, and its size.
///
/// # Errors
///
/// If the bytes are not a plugin of this host's version.
pub(crate) fn shape(bytes: &[u8]) -> Result<Shape, GuestErrorKind> {
    let is_module = check_header(bytes)? == Format::Module;
    let names = contents(bytes)?;
    if is_module {
        return command_shape(&names);
    }
    let mut found = Vec::new();
    for export in &names.exports {
        if let Some((name, version)) = ours(export)
            && let Some(interface) = Interface::ALL.into_iter().find(|known| known.name() == name)
        {
            check_version(version)?;
            found.push(interface);
        }
    }
    let all = names.exports.iter().chain(names.imports.iter().map(|(name, _)| name));
    let newest = newest(all.map(String::as_str)).filter(|version| *version > INTERFACE_VERSION);
    let [interface] = found[..] else {
        let unknown = |name: &&String| ours(name).is_some_and(|(name, _)| !is_known(name));
        return Err(match (newest, names.exports.iter().find(unknown)) {
            (Some(version), Some(export)) => {
                too_new(&version, "exports", std::slice::from_ref(export))
            }
            _ => GuestErrorKind::UnknownWorld { exports: names.exports },
        });
    };
    let mut unknown = Vec::new();
    for (name, is_instance) in names.imports {
        let is_available = match ours(&name) {
            Some((imported, version)) => {
                check_version(version)?;
                interface.offered().contains(&imported)
            }
            None => is_instance && name.starts_with("wasi:"),
        };
        if !is_available {
            unknown.push(name);
        }
    }
    let of_later: Vec<_> = unknown.iter().filter(|name| ours(name).is_some()).cloned().collect();
    match newest {
        // A later version may offer it to this world.
        Some(version) if !of_later.is_empty() => Err(too_new(&version, "imports", &of_later)),
        _ if !unknown.is_empty() => {
            Err(GuestErrorKind::Import { imports: unknown, world: interface.name() })
        }
        _ => Ok(Shape { interface, instance_bytes: INSTANCES * ITEM * names.items }),
    }
}

/// Returns whether a name is an export of a plugin.
fn is_known(name: &str) -> bool {
    Interface::ALL.into_iter().any(|known| known.name() == name)
}

/// Returns the latest version of `tare:plugin` that imports and exports name.
pub(crate) fn newest<'a>(names: impl Iterator<Item = &'a str>) -> Option<Version> {
    names.filter_map(|name| Version::parse(ours(name)?.1).ok()).max()
}

/// Returns the error for a plugin that needs more than this host has, of the same series.
fn too_new(version: &Version, verb: &str, names: &[String]) -> GuestErrorKind {
    let names: Vec<_> =
        names.iter().take(10).map(|name| format!("`{}`", shortened(name))).collect();
    GuestErrorKind::Version {
        detail: format!(
            "the plugin was built for `tare:plugin` {version} and {verb} {}, which this host, of {INTERFACE_VERSION}, does not know; update the host",
            names.join(", ")
        ),
        host_is_older: true,
    }
}

/// Returns the shape of a classic module, if it is a command that needs nothing but WASI.
fn command_shape(names: &Contents) -> Result<Shape, GuestErrorKind> {
    let other: Vec<_> =
        names.imports.iter().map(|(name, _)| name).filter(|name| *name != PREVIEW_1).collect();
    if !names.exports.iter().any(|name| name == START) {
        return Err(GuestErrorKind::NotAComponent {
            detail: "it is a WebAssembly module that is no command; build a program for `wasm32-wasip1`, or a component for `wasm32-wasip2`".into(),
        });
    }
    if !other.is_empty() {
        let mut imports: Vec<_> = other.into_iter().cloned().collect();
        imports.dedup();
        return Err(GuestErrorKind::Import { imports, world: "command" });
    }
    Ok(Shape { interface: Interface::Command, instance_bytes: ITEM * names.items })
}

/// Formats of a plugin's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Component,
    Module,
}

/// Returns the format of a file that may be a plugin; otherwise names its kind.
pub(crate) fn check_header(bytes: &[u8]) -> Result<Format, GuestErrorKind> {
    let detail = match bytes {
        // The version and the layer of the binary format: layer 0 are modules, 1 components.
        [0, b'a', b's', b'm', _, _, 1, 0, ..] => return Ok(Format::Component),
        [0, b'a', b's', b'm', 1, 0, 0, 0, ..] => return Ok(Format::Module),
        [0, b'a', b's', b'm', ..] => {
            "it is of a version of WebAssembly that this host does not know"
        }
        [] => "the file is empty",
        [0x7f, b'E', b'L', b'F', ..] => {
            "it is a native library; metrics, reports and recommenders are built for `wasm32-wasip2`"
        }
        _ => "it does not begin as WebAssembly does",
    };
    Err(GuestErrorKind::NotAComponent { detail: detail.into() })
}

fn contents(bytes: &[u8]) -> Result<Contents, GuestErrorKind> {
    let malformed = |error: wasmparser::BinaryReaderError| GuestErrorKind::NotAComponent {
        detail: error.to_string(),
    };
    let mut contents = Contents::default();
    let mut parser = Parser::new(0);
    let mut outside = Vec::new();
    let mut rest = bytes;
    loop {
        let (consumed, payload) = match parser.parse(rest, true).map_err(malformed)? {
            Chunk::Parsed { consumed, payload } => (consumed, payload),
            // It does not ask for more, since it knows that the input has ended.
            Chunk::NeedMoreData(_) => return Ok(contents),
        };
        rest = &rest[consumed..];
        match payload {
            Payload::ComponentImportSection(section) if outside.is_empty() => {
                for import in section {
                    let import = import.map_err(malformed)?;
                    let is_instance = matches!(import.ty, ComponentTypeRef::Instance(_));
                    contents.imports.push((import.name.name.to_owned(), is_instance));
                    contents.check()?;
                }
            }
            Payload::ComponentExportSection(section) if outside.is_empty() => {
                for export in section {
                    contents.exports.push(export.map_err(malformed)?.name.name.to_owned());
                    contents.check()?;
                }
            }
            Payload::ImportSection(section) if outside.is_empty() => {
                for import in section.into_imports() {
                    let import = import.map_err(malformed)?;
                    contents.imports.push((import.module.to_owned(), false));
                    contents.check()?;
                }
            }
            Payload::ExportSection(section) if outside.is_empty() => {
                for export in section {
                    contents.exports.push(export.map_err(malformed)?.name.to_owned());
                    contents.check()?;
                }
            }
            Payload::FunctionSection(section) => {
                contents.items = contents.items.saturating_add(section.count() as usize);
                contents.check()?;
            }
            Payload::GlobalSection(section) => {
                contents.items = contents.items.saturating_add(section.count() as usize);
                contents.check()?;
            }
            Payload::CodeSectionStart { size, .. } => {
                parser.skip_section();
                rest = rest.get(size as usize..).ok_or_else(|| GuestErrorKind::NotAComponent {
                    detail: "it ends in the middle of its code".into(),
                })?;
            }
            Payload::ModuleSection { parser: inside, .. }
            | Payload::ComponentSection { parser: inside, .. } => {
                outside.push(std::mem::replace(&mut parser, inside));
            }
            Payload::End(_) => match outside.pop() {
                Some(next) => parser = next,
                None => return Ok(contents),
            },
            _ => {}
        }
    }
}

impl Contents {
    fn check(&self) -> Result<(), GuestErrorKind> {
        let detail = if self.exports.len() + self.imports.len() > NAMES {
            format!("it has more than {NAMES} imports and exports")
        } else if self.items > ITEMS {
            format!("it has more than {ITEMS} functions and globals")
        } else {
            return Ok(());
        };
        Err(GuestErrorKind::NotAComponent { detail })
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
            host_is_older: false,
        });
    };
    let series = |version: &Version| match version {
        Version { major: 0, minor, .. } => (0, *minor),
        Version { major, .. } => (*major, 0),
    };
    if series(&version) == series(&host) {
        return Ok(());
    }
    let host_is_older = version > host;
    let remedy = if host_is_older {
        "install a newer host, or a build of the plugin for this one"
    } else {
        "build the plugin again with the SDK of this host"
    };
    Err(GuestErrorKind::Version {
        detail: format!(
            "the plugin needs `tare:plugin` {version}, but this host has {host}; {remedy}"
        ),
        host_is_older,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        shape(&wat::parse_str(text).expect("correct text")).expect_err("no plugin").to_string()
    }

    #[test]
    fn versions_of_one_series_fit() {
        assert!(check_version("0.1.0").is_ok());
        assert!(check_version("0.1.7").is_ok());
        let refusal = |version| check_version(version).expect_err("another series").to_string();
        insta::assert_snapshot!(
            refusal("0.2.0"),
            @"version mismatch: the plugin needs `tare:plugin` 0.2.0, but this host has 0.1.4; install a newer host, or a build of the plugin for this one"
        );
        insta::assert_snapshot!(
            refusal("0.0.9"),
            @"version mismatch: the plugin needs `tare:plugin` 0.0.9, but this host has 0.1.4; build the plugin again with the SDK of this host"
        );
        insta::assert_snapshot!(
            refusal(""),
            @"version mismatch: the plugin names no version of `tare:plugin`; this host has 0.1.4; build the plugin with the SDK"
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
        assert_eq!(check_header(b"\0asm\x0d\0\x01\0").expect("one"), Format::Component);
        assert_eq!(check_header(b"\0asm\x01\0\0\0").expect("one"), Format::Module);
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

    /// A component that exports an empty interface.
    fn exporting(name: &str, rest: &str) -> String {
        format!(
            r#"(component {rest} (component $c (core module (func (export "tare")))) (instance $i (instantiate $c))
               (export "{name}" (instance $i)))"#
        )
    }

    #[test]
    fn the_kind_is_known_by_names_alone() {
        for one in Interface::ALL {
            let text = exporting(&format!("tare:plugin/{}@0.1.0", one.name()), "(core module)");
            let bytes = wat::parse_str(text).expect("correct text");
            let found = shape(&bytes).expect("a plugin");
            assert_eq!(found.interface, one);
            assert_eq!(found.instance_bytes, INSTANCES * ITEM);
            // A truncated file is never reported as another kind.
            for end in 0..bytes.len() {
                let cut = shape(&bytes[..end]).ok();
                assert!(cut.is_none_or(|cut| cut.interface == one), "cut at {end}");
            }
        }
        insta::assert_snapshot!(
            refusal(&exporting("tare:plugin/metric@0.1.0", r#"(import "acme:telemetry/upload" (instance)) (import "wasi:cli/exit@0.2.0" (func))"#)),
            @"it imports `acme:telemetry/upload`, `wasi:cli/exit@0.2.0`, which is not available to a metric plugin"
        );
    }

    #[test]
    fn a_command_needs_nothing_but_wasi() {
        let of = |text: &str| shape(&wat::parse_str(text).expect("correct text"));
        let import =
            r#"(import "wasi_snapshot_preview1" "random_get" (func (param i32 i32) (result i32)))"#;
        let start = r#"(func (export "_start"))"#;
        let found = of(&format!("(module {import} {start})")).expect("a command");
        assert_eq!(found.interface, Interface::Command);
        insta::assert_snapshot!(of(&format!("(module {import})")).expect_err("none"), @"not a WebAssembly component: it is a WebAssembly module that is no command; build a program for `wasm32-wasip1`, or a component for `wasm32-wasip2`");
        let other = r#"(import "env" "abort" (func))"#;
        insta::assert_snapshot!(of(&format!("(module {other} {start})")).expect_err("none"), @"it imports `env`, which is not available to a command plugin");
    }

    #[test]
    fn a_flood_of_names_is_refused_and_is_not_repeated() {
        let exports: String =
            (0..2000).map(|index| format!(r#"(export "e{index}" (instance $i))"#)).collect();
        let text = format!("(component (component $c) (instance $i (instantiate $c)) {exports})");
        insta::assert_snapshot!(refusal(&text), @"not a WebAssembly component: it has more than 200 imports and exports");
        let exports: String = (0..20)
            .map(|index| format!(r#"(export "e{index}{}" (instance $i))"#, "x".repeat(1000)))
            .collect();
        let text = format!("(component (component $c) (instance $i (instantiate $c)) {exports})");
        assert!(refusal(&text).len() < 2000, "{}", refusal(&text));
    }
}
