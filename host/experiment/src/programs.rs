//! The origin of a run: the programs that take part (this one and the worker) and the commit of the user's repository.

use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use host_hash::sha256_of_file;
use host_store::Program;

use crate::settings::Settings;

/// Hashing of programs and asking `git`, which take up to a tenth of a second each, in parallel with other work.
pub(crate) struct Origin {
    programs: JoinHandle<Vec<Program>>,
    commit: JoinHandle<Option<String>>,
}

impl Origin {
    /// Starts to read the programs, and the commit of the repository around `folder`.
    pub(crate) fn start(settings: &Settings, folder: &Path) -> Self {
        let host = std::env::current_exe().ok();
        let name = host.as_deref().and_then(Path::file_stem);
        let name = name.map_or_else(|| "host".into(), |name| name.to_string_lossy().into_owned());
        let programs = [(name, host), ("host-worker".into(), settings.worker())];
        let folder = folder.to_owned();
        Self {
            programs: thread::spawn(move || programs.into_iter().filter_map(program).collect()),
            commit: thread::spawn(move || host_machine::git_commit(&folder)),
        }
    }

    /// Waits for the end. Returns the programs and the commit.
    pub(crate) fn finish(self) -> (Vec<Program>, Option<String>) {
        (self.programs.join().unwrap_or_default(), self.commit.join().unwrap_or_default())
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
