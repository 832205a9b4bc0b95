//! Paths in a run folder.

use std::path::PathBuf;

/// Paths in a run folder.
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

    /// The folder of parts that tasks of a cluster write.
    pub(crate) fn parts(&self) -> PathBuf {
        self.root.join("parts")
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

    /// Returns the files of one process of a case, which are named by its part.
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

/// The folders of [`Layout::case_files`].
pub(crate) const CASE_FOLDERS: [&str; 6] =
    ["samples", "outputs", "labels", "profiles", "device-states", "stderr"];
