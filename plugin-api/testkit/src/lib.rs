/*!
The conformance suite for backends.

Every backend, in any language, must pass the same checks. A [`Suite`] has the backend, a [`Fixture`] a model with
inputs and correct outputs, and [`Suite::check`] returns a [`Report`] with one line per check. The checks enforce the
contract in `plugin_api.h`: errors when required, correct outputs each time, work that is done when `run` returns, and
no growing memory.

In the tests of a backend in Rust, the entry point is linked in:

```no_run
# use plugin_api::abi::{BackendApi, HostApi};
# unsafe extern "C" fn tare_backend_v1(_: *const HostApi) -> *const BackendApi { std::ptr::null() }
use plugin_testkit::{Fixture, Suite};

let fixture = Fixture::read("tests/fixture.toml".as_ref()).expect("the fixture");
// SAFETY: this is the entry point of the backend under test, and no other test opens it.
let suite = unsafe { Suite::from_entry(tare_backend_v1) };
suite.check(&fixture).assert();
```

Any other backend is checked from the command line. Each check runs in a separate process, so a check that crashes or
hangs does not affect the others:

```sh
cargo run -p plugin-testkit -- path/to/libbackend.so path/to/fixture.toml
```

`host plugins test` starts that program for an installed plugin, with its runtime.
*/

mod checks;
mod fixture;
mod platform;

use std::fmt;
use std::path::{Path, PathBuf};

use plugin_api::abi;
use plugin_api::client::Backend;
use serde::{Deserialize, Serialize};

pub use fixture::{ExternalData, Fixture, FixtureError, Values};

/// The suite could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum SuiteError {
    /// The library cannot be loaded.
    #[error("{}: not a library that can be loaded: {source}", path.display())]
    Library {
        /// The library.
        path: PathBuf,
        /// The loader's error.
        source: libloading::Error,
    },
    /// The library has no entry point.
    #[error("{}: no entry point `tare_backend_v1`: {source}", path.display())]
    Entry {
        /// The library.
        path: PathBuf,
        /// The loader's error.
        source: libloading::Error,
    },
}

/// A backend to be checked.
#[derive(Debug)]
pub struct Suite {
    entry: abi::Entry,
    /// Keeps the entry point valid.
    _library: Option<libloading::Library>,
    /// File in which checks note their next step.
    notes: Option<PathBuf>,
}

impl Suite {
    /// Loads a library and looks up its entry point.
    ///
    /// # Errors
    ///
    /// If the library or the entry point is missing.
    ///
    /// # Safety
    ///
    /// The library's code is run. It must be safe to load and keep the ABI's rules of memory safety, and nothing else
    /// uses it in this process meanwhile.
    pub unsafe fn open(path: &Path) -> Result<Self, SuiteError> {
        // SAFETY: the caller guarantees the library.
        let library = unsafe { libloading::Library::new(path) }
            .map_err(|source| SuiteError::Library { path: path.into(), source })?;
        // SAFETY: a symbol of this name has this type.
        let entry = unsafe { library.get::<abi::Entry>(abi::ENTRY_SYMBOL) }
            .map_err(|source| SuiteError::Entry { path: path.into(), source })?;
        Ok(Self { entry: *entry, _library: Some(library), notes: None })
    }

    /// Takes an entry point that is linked in.
    ///
    /// # Safety
    ///
    /// The entry keeps the ABI's rules of memory safety, and nothing else uses it meanwhile.
    #[must_use]
    pub unsafe fn from_entry(entry: abi::Entry) -> Self {
        Self { entry, _library: None, notes: None }
    }

    /// Writes the current step of a check to a file, in case the process dies.
    #[must_use]
    pub fn with_notes(mut self, file: PathBuf) -> Self {
        self.notes = Some(file);
        self
    }

    /// Returns the names of all checks.
    pub fn names() -> impl ExactSizeIterator<Item = &'static str> {
        checks::ALL.iter().map(|(name, _)| *name)
    }

    /// Runs all checks, in this process.
    #[must_use]
    pub fn check(&self, fixture: &Fixture) -> Report {
        let checks =
            checks::ALL.iter().map(|(name, check)| Check { name, verdict: check(self, fixture) });
        Report { checks: checks.collect() }
    }

    /// Runs one check, in this process. `None` if there is no check of this name.
    #[must_use]
    pub fn check_one(&self, name: &str, fixture: &Fixture) -> Option<Verdict> {
        let (_, check) = checks::ALL.iter().find(|(known, _)| *known == name)?;
        Some(check(self, fixture))
    }

    /// Notes the next step.
    fn note(&self, what: impl fmt::Display) {
        if let Some(file) = &self.notes {
            // Without the note the finding is the same.
            let _ = std::fs::write(file, what.to_string());
        }
    }

    fn backend(&self) -> Result<Backend, String> {
        // SAFETY: the creator of the suite guarantees the entry point; each check drops its backend.
        unsafe { Backend::open(self.entry) }.map_err(|error| error.to_string())
    }
}

/// Result of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", content = "detail", rename_all = "kebab-case")]
pub enum Verdict {
    /// The statement holds.
    Holds,
    /// The check fails, with the finding.
    Fails(String),
    /// The check does not apply to this backend or fixture, with the reason.
    NotChecked(String),
}

impl From<Result<(), String>> for Verdict {
    fn from(outcome: Result<(), String>) -> Self {
        outcome.err().map_or(Self::Holds, Self::Fails)
    }
}

impl From<Result<Self, String>> for Verdict {
    fn from(outcome: Result<Self, String>) -> Self {
        outcome.unwrap_or_else(Self::Fails)
    }
}

/// A finished check. As text, a line, and another one for the finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// The checked statement.
    pub name: &'static str,
    /// Result of the check.
    pub verdict: Verdict,
}

impl fmt::Display for Check {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name;
        match &self.verdict {
            Verdict::Holds => write!(formatter, "ok      {name}"),
            Verdict::Fails(detail) => write!(formatter, "FAILED  {name}\n        {detail}"),
            Verdict::NotChecked(reason) => write!(formatter, "-       {name}\n        {reason}"),
        }
    }
}

/// Results of the suite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// All checks, in order.
    pub checks: Vec<Check>,
}

impl Report {
    /// Returns the checks that failed.
    pub fn failures(&self) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(|check| matches!(check.verdict, Verdict::Fails(_)))
    }

    /// Returns the numbers of checks, by result.
    #[must_use]
    pub fn summary(&self) -> String {
        let count = |wanted: fn(&Verdict) -> bool| {
            self.checks.iter().filter(|check| wanted(&check.verdict)).count()
        };
        let holding = count(|verdict| matches!(verdict, Verdict::Holds));
        let not_checked = count(|verdict| matches!(verdict, Verdict::NotChecked(_)));
        let all = self.checks.len();
        match not_checked {
            0 => format!("{holding} of {all} checks hold"),
            _ => format!("{holding} of {all} checks hold, {not_checked} do not apply"),
        }
    }

    /// Panics with the whole report if a check failed.
    ///
    /// # Panics
    ///
    /// If a check failed.
    pub fn assert(&self) {
        assert!(self.failures().next().is_none(), "the backend does not conform\n{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for check in &self.checks {
            writeln!(formatter, "{check}")?;
        }
        formatter.write_str(&self.summary())
    }
}
