//! The programs that take part in a run: this one, and the worker that lies beside it.

use std::path::PathBuf;
use std::thread::{self, JoinHandle};

use host_hash::sha256_of_file;
use host_store::Program;

use crate::platform;
use crate::settings::Settings;

/// Programs whose files are being read, which takes a tenth of a second, beside other work.
pub(crate) struct Hashing(JoinHandle<Vec<Program>>);

impl Hashing {
    /// Begins.
    pub(crate) fn start(settings: &Settings) -> Self {
        let folder = settings.executable_folder();
        let worker = folder.map(|folder| folder.join(platform::worker_file_name()));
        let programs = [("host", std::env::current_exe().ok()), ("host-worker", worker)];
        Self(thread::spawn(move || programs.into_iter().filter_map(program).collect()))
    }

    /// Waits for the end.
    pub(crate) fn finish(self) -> Vec<Program> {
        self.0.join().unwrap_or_default()
    }
}

/// Host and worker are of one version: they refuse each other otherwise.
fn program((name, path): (&str, Option<PathBuf>)) -> Option<Program> {
    Some(Program {
        name: name.into(),
        version: env!("CARGO_PKG_VERSION").into(),
        sha256: sha256_of_file(&path?).ok()?,
    })
}
