//! The programs that take part in a run: this one, and the worker.

use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use host_hash::sha256_of_file;
use host_store::Program;

use crate::settings::Settings;

/// Programs whose files are being hashed, which takes a tenth of a second, in parallel with other
/// work.
pub(crate) struct Hashing(JoinHandle<Vec<Program>>);

impl Hashing {
    /// Starts to read the programs' versions.
    pub(crate) fn start(settings: &Settings) -> Self {
        let host = std::env::current_exe().ok();
        let name = host.as_deref().and_then(Path::file_stem);
        let name = name.map_or_else(|| "host".into(), |name| name.to_string_lossy().into_owned());
        let programs = [(name, host), ("host-worker".into(), settings.worker())];
        Self(thread::spawn(move || programs.into_iter().filter_map(program).collect()))
    }

    /// Waits for the end.
    pub(crate) fn finish(self) -> Vec<Program> {
        self.0.join().unwrap_or_default()
    }
}

/// Returns the program's facts. Host and worker have the same version, or they refuse each other.
fn program((name, path): (String, Option<PathBuf>)) -> Option<Program> {
    Some(Program {
        name,
        version: env!("CARGO_PKG_VERSION").into(),
        sha256: sha256_of_file(&path?).ok()?,
    })
}
