//! The folders and plugins that the package works with.

use std::path::PathBuf;

use host_experiment::Settings;

/// Returns the settings: those of the environment, and the installation that the package carries.
pub(crate) fn settings(
    installation: &str,
    results: Option<PathBuf>,
    plugins: Vec<PathBuf>,
) -> Settings {
    let mut settings = Settings { results, plugins, ..Settings::of_this_process() };
    settings.places.executable_folder = Some(installation.into());
    settings
}
