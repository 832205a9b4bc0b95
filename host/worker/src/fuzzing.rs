//! Doors to readers of strangers' files, for fuzzing only.

use std::path::Path;

use crate::npy::NpyFile;

/// Reads a file as examples and as labels.
pub fn npy(path: &Path) {
    if let Ok(mut file) = NpyFile::open(path) {
        let mut bytes = Vec::new();
        let _ = file.read(1, 3, &mut bytes);
    }
    if let Ok(file) = NpyFile::open(path) {
        let _ = file.labels();
    }
}
