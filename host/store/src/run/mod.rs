//! One run's folder: what lies in it, who writes it and who reads it.

mod conditions;
mod device_states;
mod flaws;
mod folder;
mod header;
mod lines;
mod outputs;
mod profile;
mod references;
mod samples;
mod writer;

pub use flaws::{CaseFile, Flaw, Loss, LostFile};
pub use folder::{Records, RunFolder};
pub use header::{
    Counts, NewRun, PlanLine, PluginRole, Program, RecommendationRecord, ResultRecord, RunFinished,
    RunHeader, RunPlugin,
};
pub use lines::TornLine;
pub use references::LostReference;
pub use writer::{PlanWriter, RunWriter};

pub(crate) use device_states::NUMBERS as DEVICE_STATE_NUMBERS;
pub(crate) use flaws::{Inspection, without_samples};
pub(crate) use folder::hexadecimal;
pub(crate) use samples::SampleColumn;

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::error::StoreError;
use crate::platform::sync_folder;

/// Where things lie in a run folder.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub(crate) root: PathBuf,
}

impl Layout {
    pub(crate) fn header(&self) -> PathBuf {
        self.root.join("run.json")
    }

    pub(crate) fn manifest(&self) -> PathBuf {
        self.root.join("manifest.toml")
    }

    pub(crate) fn plan(&self) -> PathBuf {
        self.root.join("plan.jsonl")
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.root.join("journal.jsonl")
    }

    pub(crate) fn results(&self) -> PathBuf {
        self.root.join("results.jsonl")
    }

    pub(crate) fn recommendations(&self) -> PathBuf {
        self.root.join("recommendations.jsonl")
    }

    pub(crate) fn finished(&self) -> PathBuf {
        self.root.join("finished.json")
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.root.join("lock")
    }

    pub(crate) fn reports(&self) -> PathBuf {
        self.root.join("reports")
    }

    pub(crate) fn references(&self) -> PathBuf {
        self.root.join("references")
    }

    pub(crate) fn samples(&self, part: &str) -> PathBuf {
        self.root.join("samples").join(format!("{part}.parquet"))
    }

    pub(crate) fn outputs(&self, part: &str) -> PathBuf {
        self.root.join("outputs").join(format!("{part}.parquet"))
    }

    pub(crate) fn labels(&self, part: &str) -> PathBuf {
        self.root.join("labels").join(format!("{part}.parquet"))
    }

    pub(crate) fn profile(&self, part: &str) -> PathBuf {
        self.root.join("profiles").join(format!("{part}.parquet"))
    }

    pub(crate) fn device_states(&self, part: &str) -> PathBuf {
        self.root.join("device-states").join(format!("{part}.parquet"))
    }

    pub(crate) fn standard_error(&self, part: &str) -> PathBuf {
        self.root.join("stderr").join(format!("{part}.txt"))
    }

    /// The files that belong to one process of a case, which are named by its part.
    pub(crate) fn case_files(&self, part: &str) -> [PathBuf; 6] {
        [
            self.samples(part),
            self.outputs(part),
            self.labels(part),
            self.profile(part),
            self.device_states(part),
            self.standard_error(part),
        ]
    }
}

impl Layout {
    /// Refuses a run folder in which something is a link, as one from a stranger may be: what is read and
    /// removed must lie in the folder.
    pub(crate) fn refuse_links(&self) -> Result<(), StoreError> {
        let within = CASE_FOLDERS.iter().map(|name| self.root.join(name));
        for folder in [self.root.clone(), self.references()].into_iter().chain(within) {
            let entries = match fs::read_dir(&folder) {
                Ok(entries) => entries,
                Err(error) if is_absent(&error) => continue,
                Err(error) => return Err(StoreError::io("read", &folder)(error)),
            };
            for entry in entries {
                let entry = entry.map_err(StoreError::io("read", &folder))?;
                let path = entry.path();
                if entry.file_type().map_err(StoreError::io("read", &path))?.is_symlink() {
                    return Err(StoreError::Link { path });
                }
            }
        }
        Ok(())
    }
}

/// Whether an error says that there is no such file or folder.
pub(crate) fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// The folders of [`Layout::case_files`].
pub(crate) const CASE_FOLDERS: [&str; 6] =
    ["samples", "outputs", "labels", "profiles", "device-states", "stderr"];

/// The name under which a file is written before it is complete.
pub(crate) fn partial(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".partial");
    name.into()
}

/// Puts a complete `.partial` file on stable storage and in its place.
pub(crate) fn settle(path: &Path) -> Result<(), StoreError> {
    let beside = partial(path);
    // For writing, since Windows flushes no file that is open for reading.
    fs::OpenOptions::new()
        .write(true)
        .open(&beside)
        .and_then(|file| file.sync_all())
        .map_err(StoreError::io("write", &beside))?;
    fs::rename(&beside, path).map_err(StoreError::io("write", path))?;
    let folder = path.parent().unwrap_or(Path::new("."));
    sync_folder(folder).map_err(StoreError::io("write", folder))
}

/// Writes a small file so that it is either there whole or not at all.
pub(crate) fn write_whole(path: &Path, contents: &[u8]) -> Result<(), StoreError> {
    let beside = partial(path);
    fs::File::create(&beside)
        .and_then(|mut file| file.write_all(contents))
        .map_err(StoreError::io("write", &beside))?;
    settle(path)
}

/// Makes a folder of a run folder, durably; it may exist.
pub(crate) fn make_folder(path: &Path) -> Result<(), StoreError> {
    match fs::create_dir(path) {
        Ok(()) => {
            let parent = path.parent().unwrap_or(Path::new("."));
            sync_folder(parent).map_err(StoreError::io("write", parent))
        }
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(StoreError::io("create", path)(error)),
    }
}
