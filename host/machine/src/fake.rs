//! Machines that are made of files, for tests of this crate and its users.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::{env, fs, process};

use crate::Machine;

/// A temporary folder with the files of a Linux machine. Dropping it removes the folder.
#[derive(Debug)]
pub struct Files {
    root: PathBuf,
}

impl Files {
    /// Creates a folder with these files, by their paths without a leading slash.
    ///
    /// # Panics
    ///
    /// If the folder or a file cannot be written.
    #[must_use]
    pub fn new(files: &[(&str, &str)]) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let root = env::temp_dir().join(format!("fake-machine-{}-{number}", process::id()));
        fs::create_dir(&root).expect("making a folder for a fake machine");
        let made = Self { root };
        for (path, text) in files {
            made.write(path, text);
        }
        made
    }

    /// Writes or replaces a file.
    ///
    /// # Panics
    ///
    /// If it cannot be written.
    pub fn write(&self, path: &str, text: &str) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().expect("a file has a folder")).expect("making a folder");
        fs::write(path, text).expect("writing a file");
    }

    /// Removes a file.
    ///
    /// # Panics
    ///
    /// If it does not exist.
    pub fn remove(&self, path: &str) {
        fs::remove_file(self.root.join(path)).expect("removing a file");
    }

    /// Returns the root folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the machine that these files describe. It reads them again for each query.
    #[must_use]
    pub fn machine(&self) -> Machine {
        Machine::at(&self.root)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        // A leftover in the temporary folder is not a reason to panic.
        let _ = fs::remove_dir_all(&self.root);
    }
}
