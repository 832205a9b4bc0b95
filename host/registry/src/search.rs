//! Places to search for plugins.

use std::env;
use std::path::{Path, PathBuf};

use crate::error::Problem;
use crate::origin::Origin;
use crate::platform;

/// The places that do not depend on a command's arguments.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    /// The folder of the running executable.
    pub executable_folder: Option<PathBuf>,
    /// The user's data folder of this program.
    pub user_data: Option<PathBuf>,
    /// The user's configuration folder of this program.
    pub user_config: Option<PathBuf>,
    /// The folders that `TARE_PLUGINS` lists.
    pub environment: Vec<PathBuf>,
}

impl Places {
    /// Returns the places of this process, from its environment and its executable's path.
    #[must_use]
    pub fn of_this_process() -> Self {
        let executable = env::current_exe().ok();
        let environment = env::var_os("TARE_PLUGINS").unwrap_or_default();
        Self {
            executable_folder: executable.and_then(|path| Some(path.parent()?.to_owned())),
            user_data: platform::user_data_folder(),
            user_config: platform::user_config_folder(),
            // A shell takes an empty entry as the current directory; here it is ignored.
            environment: platform::split_paths(&environment)
                .into_iter()
                .filter(|path| !path.as_os_str().is_empty())
                .collect(),
        }
    }
}

/// A folder to search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    /// The folder.
    pub path: PathBuf,
    /// Its origin.
    pub origin: Origin,
}

/// Folders to search, in order, and the lock file for native plugins.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Search {
    /// Folders in the order of the search.
    pub folders: Vec<Folder>,
    /// The lock file; `None` if the user has no configuration folder.
    pub lock_file: Option<PathBuf>,
    pub(crate) problems: Vec<Problem>,
}

impl Search {
    /// Orders the folders. `flags` are as the user gave them, relative to the current
    /// directory or absolute; `manifest` are already absolute.
    #[must_use]
    pub fn new(places: &Places, flags: &[PathBuf], manifest: &[PathBuf]) -> Self {
        let mut search = Self {
            lock_file: places.user_config.as_ref().map(|folder| folder.join("plugins.lock")),
            ..Self::default()
        };
        let installed =
            places.executable_folder.as_ref().map(|folder| resolve(&folder.join("plugins")));
        for path in flags {
            // If a flag names the executable's own folder, it is searched first and stays trusted.
            let named = installed.as_ref() == Some(&resolve(path));
            search.push(if named { Origin::Installed } else { Origin::Flag }, path);
        }
        for path in &places.environment {
            if path.is_absolute() {
                search.push(Origin::Environment, path);
            } else {
                search.problems.push(Problem::RelativeFolder { folder: path.clone() });
            }
        }
        if let Some(data) = &places.user_data {
            search.push(Origin::User, &data.join("plugins"));
        }
        if let Some(folder) = &installed {
            search.push(Origin::Installed, folder);
        }
        for path in manifest {
            search.push(Origin::Manifest, path);
        }
        search
    }

    /// Adds a folder. A folder named twice keeps its first place and origin.
    fn push(&mut self, origin: Origin, path: &Path) {
        let path = resolve(path);
        if self.folders.iter().all(|folder| folder.path != path) {
            self.folders.push(Folder { path, origin });
        }
    }
}

/// Follows links if the folder exists, so that one folder has one name.
fn resolve(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places() -> Places {
        Places {
            executable_folder: Some("/opt/tare".into()),
            user_data: Some("/home/ada/.local/share/tare".into()),
            user_config: Some("/home/ada/.config/tare".into()),
            environment: vec!["/srv/plugins".into(), "plugins".into()],
        }
    }

    #[test]
    fn folders_are_searched_in_order_of_who_named_them() {
        let search = Search::new(&places(), &["/tmp/mine".into()], &["/work/theirs".into()]);
        let order: Vec<_> = search
            .folders
            .iter()
            .map(|folder| format!("{} {}", folder.origin, folder.path.display()))
            .collect();
        insta::assert_snapshot!(order.join("\n"), @r"
        flag /tmp/mine
        environment /srv/plugins
        user /home/ada/.local/share/tare/plugins
        installed /opt/tare/plugins
        manifest /work/theirs
        ");
        assert!(search.folders.is_sorted_by_key(|folder| folder.origin));
        assert_eq!(
            search.lock_file.as_deref(),
            Some("/home/ada/.config/tare/plugins.lock".as_ref())
        );
    }

    #[test]
    fn a_relative_entry_of_the_environment_is_refused() {
        let search = Search::new(&places(), &[], &[]);
        assert_eq!(search.problems, [Problem::RelativeFolder { folder: "plugins".into() }]);
    }

    #[test]
    fn naming_the_installed_folder_does_not_change_its_origin() {
        let installed = PathBuf::from("/opt/tare/plugins");
        let search = Search::new(&places(), std::slice::from_ref(&installed), &[]);
        assert_eq!(search.folders[0], Folder { path: installed, origin: Origin::Installed });
        let search = Search::new(&places(), &[], &["/opt/tare/plugins".into()]);
        let installed =
            search.folders.iter().filter(|folder| folder.path == Path::new("/opt/tare/plugins"));
        assert_eq!(installed.map(|folder| folder.origin).collect::<Vec<_>>(), [Origin::Installed]);
    }
}
