//! Reports: files about the current run.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;

use crate::{Description, Error, Views};

/// Writes files about the current run.
pub trait Report {
    /// Type of the plugin's options. [`NoOptions`](crate::NoOptions) if it has none.
    type Options: DeserializeOwned;

    /// Returns the plugin's description.
    fn describe() -> Description;

    /// Writes the report and returns the names of its files, the main one first.
    ///
    /// Check the options before the first view is read: before anything is measured, the host calls
    /// this with views that cannot be read, and shows an earlier error as an error in the
    /// manifest.
    ///
    /// # Errors
    ///
    /// If the options are invalid, a view cannot be read or a file cannot be written.
    fn render(
        views: &dyn Views,
        output: &mut dyn Output,
        options: Self::Options,
    ) -> Result<Vec<String>, Error>;
}

/// The granted output folder. A map from name to contents is one too, for tests.
pub trait Output {
    /// Creates or replaces a file. Names are relative, without `..`.
    ///
    /// # Errors
    ///
    /// If the name is not allowed, or the host cannot write.
    fn write(&mut self, name: &str, contents: &[u8]) -> Result<(), Error>;
}

impl Output for BTreeMap<String, Vec<u8>> {
    fn write(&mut self, name: &str, contents: &[u8]) -> Result<(), Error> {
        self.insert(name.to_owned(), contents.to_vec());
        Ok(())
    }
}
