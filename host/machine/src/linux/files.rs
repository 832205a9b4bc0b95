//! The files in which Linux describes itself.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::{fs, io};

/// The files of a system.
#[derive(Debug)]
pub(crate) struct Files {
    root: PathBuf,
}

impl Files {
    pub(crate) fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    pub(super) fn read(&self, path: &str) -> io::Result<String> {
        let mut text = fs::read_to_string(self.root.join(path))?;
        // Firmware ends its strings with a zero.
        let end = |character: char| character.is_whitespace() || character == '\0';
        text.truncate(text.trim_end_matches(end).len());
        text.drain(..text.len() - text.trim_start_matches(end).len());
        Ok(text)
    }

    pub(super) fn write(&self, path: &str, text: &str) -> io::Result<()> {
        fs::write(self.root.join(path), text)
    }

    pub(super) fn text(&self, path: &str) -> Option<String> {
        self.read(path).ok().filter(|text| !text.is_empty())
    }

    pub(super) fn number(&self, path: &str) -> Option<u64> {
        self.text(path)?.parse().ok()
    }

    pub(super) fn flag(&self, path: &str) -> Option<bool> {
        Some(self.number(path)? != 0)
    }

    pub(super) fn exists(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }

    /// Returns the names in a folder that begin with `prefix`, sorted.
    pub(super) fn names(&self, folder: &str, prefix: &str) -> BTreeSet<String> {
        let entries = fs::read_dir(self.root.join(folder)).into_iter().flatten().flatten();
        entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| name.starts_with(prefix))
            .collect()
    }

    /// Returns the numbers behind `prefix` in names such as `cpu0`, sorted.
    pub(super) fn numbered(&self, folder: &str, prefix: &str) -> BTreeSet<u32> {
        let names = self.names(folder, prefix);
        names.iter().filter_map(|name| name[prefix.len()..].parse().ok()).collect()
    }

    /// Returns the value behind `name` in this process's status.
    pub(super) fn own_status(&self, name: &str) -> Option<String> {
        field(&self.text("proc/self/status")?, name).map(str::to_owned)
    }
}

/// Returns the value behind `name` in lines such as `model name : Something`.
pub(super) fn field<'text>(text: &'text str, name: &str) -> Option<&'text str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim()).filter(|value| !value.is_empty())
    })
}
