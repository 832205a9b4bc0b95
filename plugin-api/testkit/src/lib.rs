/*!
The conformance suite for backends.

Every backend, whoever wrote it and in whatever language, goes through the same checks. A [`Suite`] has the
backend, a [`Fixture`] a model with inputs and the outputs that are right for them, and
[`Suite::check`] gives a [`Report`] with one line per check. The checks hold a backend to what
`plugin_api.h` says: errors where errors are due, the right outputs each time, work that is done when
`run` returns, and nothing that grows.

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

For any other backend the same is done from the command line:

```sh
cargo run -p plugin-testkit -- path/to/libbackend.so path/to/fixture.toml
```
*/

mod checks;
mod fixture;
mod platform;

use std::fmt;
use std::path::{Path, PathBuf};

use plugin_api::abi;
use plugin_api::client::Backend;

pub use fixture::{Fixture, FixtureError, Values};

/// The suite could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum SuiteError {
    /// The library cannot be loaded.
    #[error("{}: not a library that can be loaded: {source}", path.display())]
    Library {
        /// The library.
        path: PathBuf,
        /// What the loader says.
        source: libloading::Error,
    },
    /// The library has no entry point.
    #[error("{}: no entry point `tare_backend_v1`: {source}", path.display())]
    Entry {
        /// The library.
        path: PathBuf,
        /// What the loader says.
        source: libloading::Error,
    },
}

/// A backend to be checked.
#[derive(Debug)]
pub struct Suite {
    entry: abi::Entry,
    /// Keeps the entry point valid.
    _library: Option<libloading::Library>,
}

impl Suite {
    /// Loads a library and looks up its entry point.
    ///
    /// # Errors
    ///
    /// Where the library or the entry point is missing.
    ///
    /// # Safety
    ///
    /// The library's code is run. It must be safe to load, and to keep the ABI as far as memory safety
    /// goes; nobody else uses it in this process meanwhile.
    pub unsafe fn open(path: &Path) -> Result<Self, SuiteError> {
        // SAFETY: the caller vouches for the library.
        let library = unsafe { libloading::Library::new(path) }
            .map_err(|source| SuiteError::Library { path: path.into(), source })?;
        // SAFETY: a symbol of this name has this type.
        let entry = unsafe { library.get::<abi::Entry>(abi::ENTRY_SYMBOL) }
            .map_err(|source| SuiteError::Entry { path: path.into(), source })?;
        Ok(Self { entry: *entry, _library: Some(library) })
    }

    /// Takes an entry point that is linked in.
    ///
    /// # Safety
    ///
    /// It keeps the ABI as far as memory safety goes, and nobody else uses it meanwhile.
    #[must_use]
    pub unsafe fn from_entry(entry: abi::Entry) -> Self {
        Self { entry, _library: None }
    }

    /// Goes through all checks.
    #[must_use]
    pub fn check(&self, fixture: &Fixture) -> Report {
        let checks = checks::ALL
            .iter()
            .map(|(name, check)| Check { name, failure: check(self, fixture).err() });
        Report { checks: checks.collect() }
    }

    fn backend(&self) -> Result<Backend, String> {
        // SAFETY: whoever made the suite vouches for the entry point; each check drops its backend.
        unsafe { Backend::open(self.entry) }.map_err(|error| error.to_string())
    }
}

/// One check, done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What was checked, as a statement that should hold.
    pub name: &'static str,
    /// What was found instead.
    pub failure: Option<String>,
}

/// What the suite has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// All checks, in order.
    pub checks: Vec<Check>,
}

impl Report {
    /// The checks that failed.
    pub fn failures(&self) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(|check| check.failure.is_some())
    }

    /// Panics with the whole report if a check failed.
    ///
    /// # Panics
    ///
    /// As said.
    pub fn assert(&self) {
        assert!(self.failures().next().is_none(), "the backend does not conform\n{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Check { name, failure } in &self.checks {
            match failure {
                None => writeln!(formatter, "ok      {name}")?,
                Some(failure) => writeln!(formatter, "FAILED  {name}\n        {failure}")?,
            }
        }
        let (failed, all) = (self.failures().count(), self.checks.len());
        write!(formatter, "{} of {all} checks hold", all - failed)
    }
}
