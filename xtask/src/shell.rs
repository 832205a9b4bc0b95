//! Running programs and printing. This is the only module of this crate that prints.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A task failed; the message names the failure and the remedy.
#[derive(Debug, Clone)]
pub(crate) struct Failed {
    message: String,
    code: u8,
}

impl Failed {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: 1 }
    }

    pub(crate) fn code(&self) -> u8 {
        self.code
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

/// Turns an I/O error into a failure that names the path.
pub(crate) trait At<T> {
    fn at(self, path: &Path) -> Result<T, Failed>;
}

impl<T> At<T> for std::io::Result<T> {
    fn at(self, path: &Path) -> Result<T, Failed> {
        self.map_err(|error| Failed::new(format!("{}: {error}", path.display())))
    }
}

/// Prints a message for the user on standard error.
#[expect(clippy::print_stderr, reason = "this is the one door for it")]
pub(crate) fn say(text: &str) {
    eprintln!("{text}");
}

/// Prints data on standard output.
#[expect(clippy::print_stdout, reason = "this is the one door for it")]
pub(crate) fn print(text: &str) {
    print!("{text}");
}

/// Returns the checkout in which `cargo xtask` was called, even if this program was built in another one and its
/// target folder was copied.
pub(crate) fn root() -> PathBuf {
    let called_in = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let xtask = called_in.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    xtask.parent().expect("xtask lies in the checkout").to_owned()
}

/// Formats a path for a reader: relative if it is below the current folder.
pub(crate) fn relative(path: &Path) -> String {
    let current = std::env::current_dir().unwrap_or_default();
    path.strip_prefix(&current).unwrap_or(path).display().to_string()
}

/// Returns whether a program can be started.
pub(crate) fn has(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// A program to run.
pub(crate) struct Program(Command);

pub(crate) fn command(program: impl AsRef<OsStr>) -> Program {
    Program(Command::new(program))
}

/// Returns the cargo that runs this program, in the checkout.
pub(crate) fn cargo() -> Program {
    let mut program = command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    program.0.current_dir(root());
    // Variables that `cargo run` set for xtask must not reach the builds that it starts.
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("CARGO_PKG_")) {
            program.0.env_remove(name);
        }
    }
    // Development builds are not yet beside DuckDB's library.
    let mut folders = vec![crate::setup::duckdb_folder()];
    folders.extend(std::env::var_os("LD_LIBRARY_PATH").iter().flat_map(std::env::split_paths));
    if let Ok(folders) = std::env::join_paths(folders) {
        program.0.env("LD_LIBRARY_PATH", folders);
    }
    program.0.env_remove("CARGO_MANIFEST_DIR").env_remove("CARGO_MANIFEST_PATH");
    program
}

impl Program {
    pub(crate) fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.0.arg(argument);
        self
    }

    pub(crate) fn args(mut self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.0.args(arguments);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.0.env(name, value);
        self
    }

    pub(crate) fn without(mut self, name: impl AsRef<OsStr>) -> Self {
        self.0.env_remove(name);
        self
    }

    /// Sets the folder in which it runs.
    pub(crate) fn folder(mut self, folder: &Path) -> Self {
        self.0.current_dir(folder);
        self
    }

    pub(crate) fn into_command(self) -> Command {
        self.0
    }

    fn line(&self) -> String {
        let words = std::iter::once(self.0.get_program()).chain(self.0.get_args());
        words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    /// Runs it to its end, with this program's standard streams.
    pub(crate) fn run(mut self) -> Result<(), Failed> {
        let line = self.line();
        match self.0.status() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(Failed::new(format!("`{line}` failed: {status}"))),
            Err(error) => Err(Failed::new(format!("`{line}` could not be started: {error}"))),
        }
    }

    /// Runs it to its end and returns whether it succeeded; its output is dropped.
    pub(crate) fn quietly(mut self) -> bool {
        let status =
            self.0.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    }

    /// Runs it to its end and returns its standard output.
    pub(crate) fn read(mut self) -> Result<String, Failed> {
        let line = self.line();
        let output = self.0.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
        let output = output
            .map_err(|error| Failed::new(format!("`{line}` could not be started: {error}")))?;
        if !output.status.success() {
            return Err(Failed::new(format!("`{line}` failed: {}", output.status)));
        }
        String::from_utf8(output.stdout)
            .map_err(|_| Failed::new(format!("`{line}` printed something other than text")))
    }

    /// Replaces this process by the program, which then gets signals and sets the exit code.
    pub(crate) fn replace(mut self) -> Result<(), Failed> {
        #[cfg(unix)]
        {
            use std::os::unix::process::CommandExt;
            let error = self.0.exec();
            Err(Failed::new(format!("`{}` could not be started: {error}", self.line())))
        }
        #[cfg(not(unix))]
        {
            self.run()
        }
    }
}
