/*!
What authors of plugins get from the tool.

An author has the built tool and no checkout. So the program carries what a plugin is built on: the C headers, the WIT
package with bindings for C, the Rust crates, and fixtures ([`write_sdk`]); and projects to start from, one for each kind
and language that is offered ([`Project`]). They are collected from their sources when this crate is built, so they cannot
differ from what the program itself uses.

A project says in the table `[build]` of its `plugin.toml` how it is built and where the result is. [`Build`] runs that
command, makes a component of a core module, and puts the result beside `plugin.toml`: the project's folder is then a
plugin's folder, which `host plugins test .` and `--plugins .` take as it is.

This crate knows neither the sandbox nor runs: it writes files and starts compilers.
*/

mod build;
mod component;
mod error;
mod files;
mod language;
mod project;
mod sdk;

pub use build::{Build, Built, MissingTool};
pub use component::is_component;
pub use error::{Error, Result};
pub use language::{Kind, Language, OFFERED, offered};
pub use project::{Project, check_name};
pub use sdk::{Versions, is_sdk, write_sdk};
