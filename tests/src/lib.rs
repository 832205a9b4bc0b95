/*!
Shared code of the tests of the whole tool.

They run `host` as installed: from a folder that holds the executable, the worker, the database's library and the
plugins. `cargo xtask test` builds that folder and names it in `TARE_BUILT`; without it these tests fail, and are not
skipped. Each test has its own folders for results, plugins and configuration, so that no user files are read or
changed. All share one cache of compiled WASM plugins, beside that folder, since compiling them takes longer than most
tests.
*/

pub mod onnx;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

/// Returns the checkout.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests lie in the checkout").to_owned()
}

/// Returns the folder of the installed tool.
///
/// # Panics
///
/// If `TARE_BUILT` is not set.
#[must_use]
pub fn built() -> PathBuf {
    let folder = std::env::var_os("TARE_BUILT").map(PathBuf::from);
    folder.expect("TARE_BUILT names no folder: run these tests with `cargo xtask test`")
}

/// Returns the component of a guest that misbehaves on request, such as `hostile_report`.
#[must_use]
pub fn hostile(name: &str) -> PathBuf {
    built().with_file_name("guests/wasm32-wasip2/release").join(name).with_extension("wasm")
}

/// Folders of one test.
pub struct Place {
    folder: TempDir,
    host: PathBuf,
}

impl Default for Place {
    fn default() -> Self {
        Self::new()
    }
}

impl Place {
    /// Creates empty folders with the built tool.
    #[must_use]
    pub fn new() -> Self {
        Self::with_host(built().join("host"))
    }

    /// Creates folders with one finished run of `it.toml`, whose model is `any.model`.
    ///
    /// # Panics
    ///
    /// If the run fails.
    #[must_use]
    pub fn measured(manifest: &str) -> Self {
        let place = Self::new();
        place.write("any.model", "anything");
        place.write("it.toml", manifest);
        let _ = place.run(&["run", "it.toml"]).expect(0);
        place
    }

    /// Creates empty folders with another copy of the tool.
    #[must_use]
    pub fn with_host(host: PathBuf) -> Self {
        Self { folder: tempfile::tempdir().expect("a temporary folder"), host }
    }

    /// Returns the folder, which is also the current folder of every command.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the user's plugin folder.
    #[must_use]
    pub fn plugins(&self) -> PathBuf {
        let folder = self.path().join("data/tare/plugins");
        std::fs::create_dir_all(&folder).expect("creating the plugin folder");
        folder
    }

    /// Writes a file and returns its path.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, text).expect("writing a file of the test");
        path
    }

    /// Returns `host` with the place's folders and no colours.
    #[must_use]
    pub fn host(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.host);
        command.args(arguments).current_dir(self.path());
        for (name, folder) in
            [("XDG_DATA_HOME", "data"), ("XDG_CONFIG_HOME", "configuration"), ("HOME", "home")]
        {
            command.env(name, self.path().join(folder));
        }
        command.env("XDG_CACHE_HOME", built().with_file_name("cache-of-tests"));
        for name in ["COLUMNS", "TARE_PLUGINS", "TARE_RESULTS", "LD_LIBRARY_PATH", "RUST_LOG"] {
            command.env_remove(name);
        }
        command.env("NO_COLOR", "1").env("RUST_BACKTRACE", "0");
        command
    }

    /// Runs `host` to its end.
    pub fn run(&self, arguments: &[&str]) -> Ended {
        let output = self.host(arguments).output().expect("starting host");
        Ended::new(arguments, &output)
    }

    /// Returns the only run folder below `results/`.
    #[must_use]
    pub fn run_folder(&self) -> PathBuf {
        let runs = self.path().join("results/runs");
        let mut folders: Vec<_> = std::fs::read_dir(&runs)
            .expect("the folder of runs")
            .map(|entry| entry.expect("an entry").path())
            .collect();
        assert_eq!(folders.len(), 1, "one run was expected: {folders:?}");
        folders.remove(0)
    }

    /// Returns the lines of a file in the run folder, as JSON.
    #[must_use]
    pub fn lines(&self, name: &str) -> Vec<Value> {
        let path = self.run_folder().join(name);
        let text = std::fs::read_to_string(&path).expect("reading a file of the run folder");
        text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
    }
}

/// Result of a command.
#[derive(Debug)]
pub struct Ended {
    /// The command, for messages.
    pub command: String,
    /// Its exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Ended {
    /// Converts a command's output.
    #[must_use]
    pub fn new(arguments: &[&str], output: &Output) -> Self {
        Self {
            command: arguments.join(" "),
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Asserts the exit code, and shows everything if it differs.
    #[track_caller]
    #[must_use]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(
            self.code,
            Some(code),
            "`host {}`\n--- stdout\n{}\n--- stderr\n{}",
            self.command,
            self.stdout,
            self.stderr
        );
        self
    }

    /// Returns standard output as JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("no JSON ({error}):\n{}\n{}", self.stdout, self.stderr))
    }
}
