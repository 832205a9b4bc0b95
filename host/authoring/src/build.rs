//! Building a project: its command, and the result put beside `plugin.toml`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};

use host_registry::{Recipe, library_file_name};
use serde::Deserialize;

use crate::component::component;
use crate::error::{Error, Result};
use crate::files::write;
use crate::language::Kind;
use crate::project::{Project, check_name};

const DESCRIPTION: &str = "plugin.toml";

/// Limit on the length of `plugin.toml`.
const LARGEST_TEXT: u64 = 4 << 20;

/// Limit on the size of a component.
const LARGEST_COMPONENT: u64 = 256 << 20;

/// The keys of `plugin.toml` that building needs. The registry checks the others.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Described {
    id: String,
    kind: String,
    library: Option<String>,
    build: Option<Recipe>,
}

/// A project that can be built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Build {
    /// Its folder.
    pub folder: PathBuf,
    /// The plugin's id.
    pub id: String,
    /// The plugin's kind.
    pub kind: Kind,
    /// The command: a program and its arguments.
    pub command: Vec<String>,
    /// Programs, or files of the project, that the command needs, and how to install each.
    pub needs: BTreeMap<String, String>,
    /// Output of the command, in the folder.
    result: PathBuf,
    /// The plugin's file, in the folder.
    place: PathBuf,
}

/// A plugin that was built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Built {
    /// Its file, beside `plugin.toml`.
    pub file: PathBuf,
    /// Its size in bytes.
    pub bytes: u64,
}

/// A program, or a file of the project, that is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingTool {
    /// Its name.
    pub program: String,
    /// How to install it.
    pub install: String,
}

impl Build {
    /// Reads how a project is built: from `[build]` of its `plugin.toml`, or else by the files in it.
    ///
    /// # Errors
    ///
    /// If it is not a project, or does not say how it is built.
    pub fn read(folder: &Path) -> Result<Self> {
        let file = folder.join(DESCRIPTION);
        if !file.is_file() {
            return Err(Error::NotAProject { folder: folder.to_owned() });
        }
        let fails = |message: String| Error::Description { file: file.clone(), message };
        let text = host_files::read_to_string(&file, LARGEST_TEXT)
            .map_err(|source| Error::io("read", &file, source))?;
        let described: Described =
            toml::from_str(&text).map_err(|error| fails(error.message().trim().to_owned()))?;
        let Described { id, kind: kind_name, library, build } = described;
        check_name(&id).map_err(|error| fails(error.to_string()))?;
        let kind = Kind::of_name(&kind_name).ok_or_else(|| {
            fails(format!(
                "`kind` is `{kind_name}`; there are backend, metric, report and recommender"
            ))
        })?;
        let place = match (kind, library) {
            (Kind::Backend, Some(library)) => PathBuf::from(library_file_name(&library)),
            (Kind::Backend, None) => return Err(fails("`library` is missing".into())),
            _ => PathBuf::from(format!("{id}.wasm")),
        };
        let Recipe { command, result, needs } = match build {
            Some(build) => build,
            None => detected(folder, &place, kind).ok_or_else(|| {
                fails(
                    "it has no [build], and there is neither a Cargo.toml nor a Makefile beside it"
                        .into(),
                )
            })?,
        };
        if command.is_empty() {
            return Err(fails("`command` under [build] is empty".into()));
        }
        // What is built is the project's own; a path out of it would be somebody else's.
        if result.is_absolute() || result.components().any(|part| part == Component::ParentDir) {
            return Err(fails("`result` under [build] leads out of the project's folder".into()));
        }
        Ok(Self { folder: folder.to_owned(), id, kind, command, needs, result, place })
    }

    /// Returns the command as it would be typed.
    #[must_use]
    pub fn line(&self) -> String {
        let quoted = |word: &String| match word
            .contains(|one: char| one.is_whitespace() || "'\"$".contains(one))
        {
            true => format!("'{word}'"),
            false => word.clone(),
        };
        self.command.iter().map(quoted).collect::<Vec<_>>().join(" ")
    }

    /// Returns what is needed and not there.
    #[must_use]
    pub fn missing(&self) -> Vec<MissingTool> {
        let program = (
            self.command[0].clone(),
            format!("install `{}` and see that it is in PATH", self.command[0]),
        );
        let mut needs = self.needs.clone();
        needs.entry(program.0).or_insert(program.1);
        let is_missing = |name: &str| match name.contains('/') {
            true => !self.folder.join(name).exists(),
            false => !is_in_path(name),
        };
        let missing = needs.into_iter().filter(|(name, _)| is_missing(name));
        missing.map(|(program, install)| MissingTool { program, install }).collect()
    }

    /// Writes the SDK if it is missing, runs the command, whose output is shown as it comes, and puts the result beside
    /// `plugin.toml`.
    ///
    /// # Errors
    ///
    /// If a program is missing, the command fails, or its result is missing or no component.
    pub fn run(&self) -> Result<Built> {
        if let Some(MissingTool { program, install }) = self.missing().into_iter().next() {
            return Err(Error::NoTool { program, install });
        }
        Project::complete(&self.folder)?;
        let folder =
            self.folder.canonicalize().map_err(|source| Error::io("open", &self.folder, source))?;
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]).current_dir(&folder).stdin(Stdio::null());
        // Standard output is for data.
        command.stdout(std::io::stderr());
        let status = command.status().map_err(|source| Error::Io {
            action: "run",
            path: PathBuf::from(&self.command[0]),
            source,
        })?;
        if !status.success() {
            return Err(Error::Failed { command: self.line(), status: status.to_string() });
        }
        let mut result = self.folder.join(&self.result);
        // The library's name differs between systems, so a folder is named.
        if result.is_dir() {
            result = result.join(&self.place);
        }
        if !result.is_file() {
            return Err(Error::NoResult { command: self.line(), result });
        }
        let file = self.folder.join(&self.place);
        match self.kind {
            Kind::Backend => {
                // A library that is loaded somewhere must not change below it, so it is replaced and not overwritten.
                let beside = file.with_extension("new");
                fs::copy(&result, &beside).map_err(|source| Error::io("copy", &result, source))?;
                fs::rename(&beside, &file).map_err(|source| Error::io("write", &file, source))?;
            }
            _ => {
                let bytes = host_files::read(&result, LARGEST_COMPONENT)
                    .map_err(|source| Error::io("read", &result, source))?;
                write(&file, &component(&result, bytes)?)?;
            }
        }
        let bytes = fs::metadata(&file).map_err(|source| Error::io("read", &file, source))?.len();
        Ok(Built { file, bytes })
    }
}

/// Returns the usual command for a project whose `plugin.toml` does not say one.
fn detected(folder: &Path, place: &Path, kind: Kind) -> Option<Recipe> {
    let words = |text: &str| text.split(' ').map(str::to_owned).collect();
    let needs = BTreeMap::new();
    if folder.join("Cargo.toml").is_file() {
        let (command, result) = match kind {
            Kind::Backend => ("cargo build --release --target-dir target", "target/release".into()),
            _ => {
                let name = place.to_string_lossy().replace('-', "_");
                let result = Path::new("target/wasm32-wasip2/release").join(name);
                ("cargo build --release --target wasm32-wasip2 --target-dir target", result)
            }
        };
        return Some(Recipe { command: words(command), result, needs });
    }
    if folder.join("Makefile").is_file() {
        return Some(Recipe { command: words("make"), result: "build".into(), needs });
    }
    None
}

fn is_in_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
