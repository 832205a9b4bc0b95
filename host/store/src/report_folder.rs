/*!
The folder of one report.

A report's plugin may be untrusted, and `--report-dir .` may name a place with the user's own files. So each report
has its own folder, which is new or empty, or which the host made before: then it has the file `files.sha256`, a list
of the files that the host wrote there. Only a file that is in the list and unchanged since is replaced, or removed if
the report no longer has it. Anything else in the way is an error that costs only this report.

The list is written before the first file and after the last one, so that after a host is killed in between, its files
are still known. `sha256sum -c files.sha256` checks them.
*/

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use host_hash::{sha256, sha256_of_file};
use host_record::PluginIdentity;

use crate::error::StoreError;
use crate::platform;

/// Limit on the size of a list, in bytes.
const LONGEST_LIST: u64 = 1 << 20;

/// Beginning and end of the names of files that are being written.
const TEMPORARY: [&str; 2] = [".tare-", ".partial"];

const RULE: &str =
    "# The host replaces or removes only files that are listed here and have not changed.";

/// The folder of one report of one run.
#[derive(Debug)]
pub struct ReportFolder {
    path: PathBuf,
    /// The first line of the list that the host writes.
    heading: String,
    /// The first line of the existing list.
    found: Option<String>,
    /// Hashes and names in the existing list. A name can be listed with an older and a newer hash.
    listed: Vec<(String, String)>,
}

impl ReportFolder {
    /// Name of the list, which no file of a report may have.
    pub const LIST: &'static str = "files.sha256";

    /// Opens the folder for a report of the run `run_id` by `plugin`, in `parent`, named by the plugin's id. Neither
    /// need exist.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotOurs`] if the folder has contents and the host did not make it; also if it cannot be
    /// read.
    pub fn open(parent: &Path, plugin: &PluginIdentity, run_id: &str) -> Result<Self, StoreError> {
        let PluginIdentity { id, version, sha256 } = plugin;
        let heading = format!(
            "# Report `{id}` {version} (SHA-256 {sha256}) of the run {run_id}, by the host."
        );
        let path = parent.join(id);
        let mut folder = Self { path, heading, found: None, listed: Vec::new() };
        match metadata(&folder.path)? {
            None => return Ok(folder),
            Some(found) if found.is_dir() => {}
            Some(_) => return Err(StoreError::NotOurs { path: folder.path }),
        }
        let list = folder.path.join(Self::LIST);
        match metadata(&list)? {
            None if has_contents(&folder.path)? => {
                return Err(StoreError::NotOurs { path: folder.path });
            }
            None => return Ok(folder),
            Some(found) if found.is_file() && found.len() <= LONGEST_LIST => {}
            Some(_) => return Err(StoreError::NotOurs { path: list }),
        }
        let bytes = host_files::read(&list, LONGEST_LIST).map_err(StoreError::io("read", &list))?;
        let text = String::from_utf8_lossy(&bytes);
        folder.found = text.lines().next().map(str::to_owned);
        folder.listed = entries(&text);
        Ok(folder)
    }

    /// Returns the names of the files that the host wrote into a report's folder, the main one first; none if it has no
    /// list that can be read.
    #[must_use]
    pub fn files_of(folder: &Path) -> Vec<String> {
        let list = folder.join(Self::LIST);
        let is_plain_file =
            metadata(&list).is_ok_and(|found| found.is_some_and(|found| found.is_file()));
        let Some(bytes) =
            is_plain_file.then(|| host_files::read(&list, LONGEST_LIST).ok()).flatten()
        else {
            return Vec::new();
        };
        entries(&String::from_utf8_lossy(&bytes)).into_iter().map(|(_, name)| name).collect()
    }

    /// Returns the files of the report, the main one first, if this plugin wrote it for this run and it is complete.
    ///
    /// # Errors
    ///
    /// If a file cannot be read.
    pub fn whole(&self) -> Result<Option<Vec<PathBuf>>, StoreError> {
        let names: BTreeMap<_, _> = self.listed.iter().map(|(hash, name)| (name, hash)).collect();
        if self.found.as_ref() != Some(&self.heading)
            || self.listed.is_empty()
            || names.len() != self.listed.len()
        {
            return Ok(None);
        }
        for (_, name) in &self.listed {
            if !self.is_ours(name)? {
                return Ok(None);
            }
        }
        Ok(Some(self.listed.iter().map(|(_, name)| self.path.join(name)).collect()))
    }

    /// Writes the files of the report, by their names, and removes those of an earlier one. `first` are the
    /// names that come first in the list. Returns the paths in the order of the list.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotOurs`] if a file or folder that the host did not write is in the way; then nothing is
    /// written. Also if the file system refuses.
    pub fn write(
        &self,
        files: &BTreeMap<String, Vec<u8>>,
        first: &[String],
    ) -> Result<Vec<PathBuf>, StoreError> {
        for name in files.keys() {
            self.check_folders(name)?;
            let path = self.path.join(name);
            if metadata(&path)?.is_some() && !self.is_ours(name)? {
                return Err(StoreError::NotOurs { path });
            }
        }
        fs::create_dir_all(&self.path).map_err(StoreError::io("create", &self.path))?;
        let mut names: Vec<&String> = Vec::new();
        for name in first.iter().filter(|name| files.contains_key(*name)).chain(files.keys()) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let entries: Vec<(String, String)> =
            names.iter().map(|name| (sha256(&files[*name]), (*name).clone())).collect();
        self.write_list(self.listed.iter().chain(&entries))?;
        for name in &names {
            self.write_file(name, &files[*name])?;
        }
        for (_, name) in self.listed.iter().filter(|(_, name)| !files.contains_key(name)) {
            if self.check_folders(name).is_ok() && self.is_ours(name)? {
                let path = self.path.join(name);
                fs::remove_file(&path).map_err(StoreError::io("remove", &path))?;
            }
        }
        self.write_list(entries.iter())?;
        Ok(names.into_iter().map(|name| self.path.join(name)).collect())
    }

    /// Returns whether a file exists, is listed, and has not changed since.
    fn is_ours(&self, name: &str) -> Result<bool, StoreError> {
        let path = self.path.join(name);
        let listed = || self.listed.iter().filter(|(_, listed)| listed == name);
        if listed().next().is_none() || !metadata(&path)?.is_some_and(|found| found.is_file()) {
            return Ok(false);
        }
        let hash = sha256_of_file(&path).map_err(StoreError::io("read", &path))?;
        Ok(listed().any(|(listed, _)| *listed == hash))
    }

    /// Refuses a name if one of its folders exists as something else, such as a link.
    fn check_folders(&self, name: &str) -> Result<(), StoreError> {
        for path in folders(name).map(|folder| self.path.join(folder)) {
            if metadata(&path)?.is_some_and(|found| !found.is_dir()) {
                return Err(StoreError::NotOurs { path });
            }
        }
        Ok(())
    }

    fn write_file(&self, name: &str, contents: &[u8]) -> Result<(), StoreError> {
        for path in folders(name).map(|folder| self.path.join(folder)) {
            match fs::create_dir(&path) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                    return Err(StoreError::io("create", &path)(error));
                }
                _ => {}
            }
        }
        self.check_folders(name)?;
        let path = self.path.join(name);
        let written = temporary(&path, contents)?;
        let settled = match self.is_ours(name)? {
            true => written.persist(&path),
            false => written.persist_noclobber(&path),
        };
        match settled.map_err(|refused| refused.error) {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                Err(StoreError::NotOurs { path })
            }
            Err(error) => Err(StoreError::io("write", &path)(error)),
        }
    }

    fn write_list<'a>(
        &self,
        entries: impl Iterator<Item = &'a (String, String)>,
    ) -> Result<(), StoreError> {
        let mut text = format!("{}\n{RULE}\n", self.heading);
        for (hash, name) in entries {
            text.push_str(&format!("{hash}  {name}\n"));
        }
        let path = self.path.join(Self::LIST);
        let written = temporary(&path, text.as_bytes())?;
        written.persist(&path).map_err(|refused| StoreError::io("write", &path)(refused.error))?;
        Ok(())
    }
}

/// Returns the hashes and names in a list.
fn entries(list: &str) -> Vec<(String, String)> {
    let entry = |line: &str| {
        let (hash, name) = line.split_once("  ")?;
        let is_hash = hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
        (is_hash && is_plain(name)).then(|| (hash.to_owned(), name.to_owned()))
    };
    list.lines().filter_map(entry).collect()
}

/// Writes a temporary file beside the final one, to stable storage.
fn temporary(path: &Path, contents: &[u8]) -> Result<tempfile::NamedTempFile, StoreError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    builder.prefix(TEMPORARY[0]).suffix(TEMPORARY[1]);
    platform::for_everybody(&mut builder);
    let write = || -> io::Result<_> {
        let mut file = builder.tempfile_in(folder)?;
        file.write_all(contents)?;
        file.as_file().sync_all()?;
        Ok(file)
    };
    write().map_err(StoreError::io("write", path))
}

/// Returns the metadata at a path without following links; `None` if nothing exists there.
fn metadata(path: &Path) -> Result<Option<Metadata>, StoreError> {
    match fs::symlink_metadata(path) {
        Ok(found) => Ok(Some(found)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(StoreError::io("read", path)(error)),
    }
}

/// Returns whether a folder contains anything except temporary files of a killed host.
fn has_contents(path: &Path) -> Result<bool, StoreError> {
    for entry in fs::read_dir(path).map_err(StoreError::io("read", path))? {
        let name = entry.map_err(StoreError::io("read", path))?.file_name();
        let name = name.to_string_lossy();
        if !(name.starts_with(TEMPORARY[0]) && name.ends_with(TEMPORARY[1])) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the folders of a name, the outermost first: `a` and `a/b` of `a/b/c.txt`.
fn folders(name: &str) -> impl Iterator<Item = &str> {
    name.match_indices('/').map(|(end, _)| &name[..end])
}

/// Returns whether a listed name stays in the folder and is not the list itself.
fn is_plain(name: &str) -> bool {
    let is_part = |part: &str| !part.is_empty() && !part.starts_with('.');
    name != ReportFolder::LIST && !name.contains('\\') && name.split('/').all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(parent: &Path, run_id: &str) -> Result<ReportFolder, StoreError> {
        let plugin =
            PluginIdentity { id: "html".into(), version: "0.1.0".into(), sha256: "5eed".into() };
        ReportFolder::open(parent, &plugin, run_id)
    }

    fn files(files: &[(&str, &str)]) -> BTreeMap<String, Vec<u8>> {
        files.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec())).collect()
    }

    fn write(parent: &Path, these: &[(&str, &str)]) -> Result<Vec<PathBuf>, StoreError> {
        open(parent, "run")?.write(&files(these), &["report.html".into()])
    }

    /// Returns all files below a folder with their contents.
    fn contents(folder: &Path) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        let mut folders = vec![folder.to_owned()];
        while let Some(next) = folders.pop() {
            for entry in fs::read_dir(next).expect("a folder") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let name = path.strip_prefix(folder).expect("below it").display().to_string();
                    found.insert(name, fs::read_to_string(&path).expect("text"));
                }
            }
        }
        found
    }

    #[track_caller]
    fn refused<T: std::fmt::Debug>(outcome: Result<T, StoreError>, at: &Path) {
        match outcome {
            Err(StoreError::NotOurs { path }) => assert_eq!(path, at),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_report_replaces_its_own_files_and_removes_those_that_it_no_longer_has() {
        let place = tempfile::tempdir().expect("a folder");
        let parent = place.path().join("out/deep");
        let paths =
            write(&parent, &[("data/a.csv", "1"), ("report.html", "one")]).expect("written");
        let folder = parent.join("html");
        assert_eq!(paths, [folder.join("report.html"), folder.join("data/a.csv")]);
        insta::assert_snapshot!(contents(&folder)[ReportFolder::LIST], @r"
        # Report `html` 0.1.0 (SHA-256 5eed) of the run run, by the host.
        # The host replaces or removes only files that are listed here and have not changed.
        7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed  report.html
        6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b  data/a.csv
        ");
        assert_eq!(open(&parent, "run").expect("ours").whole().expect("read"), Some(paths));
        assert_eq!(open(&parent, "other").expect("ours").whole().expect("read"), None);
        fs::write(folder.join("notes.txt"), "mine").expect("a file");
        write(&parent, &[("report.html", "two")]).expect("written again");
        let now = contents(&folder);
        assert_eq!(now.keys().collect::<Vec<_>>(), ["files.sha256", "notes.txt", "report.html"]);
        assert_eq!((&*now["report.html"], &*now["notes.txt"]), ("two", "mine"));
        let lost = open(&parent, "run").expect("ours");
        fs::remove_file(folder.join("report.html")).expect("losing it");
        assert_eq!(lost.whole().expect("read"), None);
    }

    #[test]
    fn what_the_host_did_not_write_is_neither_replaced_nor_joined() {
        let place = tempfile::tempdir().expect("a folder");
        let (parent, folder) = (place.path(), place.path().join("html"));
        // The user has a folder of this name, with or without a file in the way.
        fs::create_dir(&folder).expect("a folder");
        fs::write(folder.join("main.rs"), "mine").expect("a file");
        refused(write(parent, &[("report.html", "new")]), &folder);
        // A file is in place of the folder.
        fs::remove_dir_all(&folder).expect("removing it");
        fs::write(&folder, "mine").expect("a file");
        refused(write(parent, &[("report.html", "new")]), &folder);
        fs::remove_file(&folder).expect("removing it");

        write(parent, &[("report.html", "one"), ("a.txt", "a"), ("b.txt", "b")]).expect("written");
        // A file was changed, one was added, and a folder is in the way.
        let report = folder.join("report.html");
        fs::write(&report, "edited").expect("a file");
        refused(write(parent, &[("report.html", "two"), ("a.txt", "new")]), &report);
        fs::write(folder.join("added.txt"), "mine").expect("a file");
        refused(write(parent, &[("added.txt", "new")]), &folder.join("added.txt"));
        refused(write(parent, &[("added.txt/x", "new")]), &folder.join("added.txt"));
        fs::create_dir(folder.join("sub")).expect("a folder");
        refused(write(parent, &[("sub", "new")]), &folder.join("sub"));
        // Nothing was written, and an edited file is not removed either.
        write(parent, &[("a.txt", "newer")]).expect("written");
        let mut now = contents(&folder);
        now.remove(ReportFolder::LIST);
        let now: Vec<_> = now.iter().map(|(name, text)| (&**name, &**text)).collect();
        assert_eq!(now, [("a.txt", "newer"), ("added.txt", "mine"), ("report.html", "edited")]);
    }

    #[test]
    fn a_host_that_was_killed_still_knows_its_files() {
        let place = tempfile::tempdir().expect("a folder");
        let folder = place.path().join("html");
        // The host was killed before it wrote the list.
        fs::create_dir(&folder).expect("a folder");
        fs::write(folder.join(".tare-x1.partial"), "half").expect("a file");
        write(place.path(), &[("report.html", "one"), ("a.txt", "a")]).expect("written");
        // The host was killed between the first list and the last one: an old and a new file.
        let list = folder.join(ReportFolder::LIST);
        let old = fs::read_to_string(&list).expect("the list");
        let entry = |text: &str, name: &str| format!("{}  {name}\n", sha256(text.as_bytes()));
        fs::write(&list, format!("{old}{}{}", entry("two", "report.html"), entry("b", "a.txt")))
            .expect("the first list");
        fs::write(folder.join("report.html"), "two").expect("a new file");
        let ours = open(place.path(), "run").expect("ours");
        assert_eq!(ours.whole().expect("read"), None);
        ours.write(&files(&[("report.html", "two"), ("a.txt", "b")]), &[]).expect("written");
        let whole = open(place.path(), "run").expect("ours").whole().expect("read");
        assert_eq!(whole.map(|paths| paths.len()), Some(2));
    }

    #[cfg(unix)]
    #[test]
    fn links_do_not_lead_out_of_the_folder_and_a_forged_list_names_nothing_outside() {
        use std::os::unix::fs::symlink;

        let place = tempfile::tempdir().expect("a folder");
        let outside = place.path().join("outside");
        fs::create_dir(&outside).expect("a folder");
        fs::write(outside.join("precious"), "kept").expect("a file");
        let parent = place.path().join("checkout");
        let folder = parent.join("html");
        fs::create_dir(&parent).expect("a folder");
        symlink(&outside, &folder).expect("a link");
        refused(write(&parent, &[("new", "x")]), &folder);
        fs::remove_file(&folder).expect("removing it");

        // An untrusted checkout has a list that claims the user's files, and links to them.
        fs::create_dir(&folder).expect("a folder");
        let hash = sha256(b"kept");
        let list = format!("{hash}  ../../outside/precious\n{hash}  link\n{hash}  data/precious\n");
        fs::write(folder.join(ReportFolder::LIST), list).expect("a forged list");
        symlink(outside.join("precious"), folder.join("link")).expect("a link");
        symlink(&outside, folder.join("data")).expect("a link");
        refused(write(&parent, &[("link", "x")]), &folder.join("link"));
        refused(write(&parent, &[("data/precious", "x")]), &folder.join("data"));
        write(&parent, &[("report.html", "x")]).expect("written");
        let kept = contents(&outside);
        assert_eq!(kept.into_iter().collect::<Vec<_>>(), [("precious".into(), "kept".into())]);
        assert!(folder.join("link").is_symlink() && folder.join("data").is_symlink());
    }
}
