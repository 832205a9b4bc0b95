/*!
The files of a report.

They are held until the guest has returned, and only then written: a report that traps half-way
leaves what was there before. Names are checked when the guest gives them, and links are checked
when the files are written, since only then is it known what lies in the folder.
*/

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::error::{GuestErrorKind, shortened};
use crate::limits::{MemoryLimit, Meter};
use crate::platform;

/// Files that wait for the guest to return.
#[derive(Debug)]
pub(crate) struct Staged {
    files: BTreeMap<String, Vec<u8>>,
    bytes: usize,
    byte_limit: usize,
    file_limit: usize,
}

/// Reason why a file is refused. The guest gets it, and usually passes it on.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("`{name}` is not a valid name for a report's file: {reason}")]
    Name { name: String, reason: &'static str },
    #[error("the report's files would have {bytes} bytes; the limit is {limit}")]
    TooLarge { bytes: usize, limit: usize },
    #[error("the report has more than {limit} files")]
    TooMany { limit: usize },
    #[error("the report's files and its memory would have {requested} bytes; the limit is {limit}")]
    Memory { requested: usize, limit: usize },
}

impl Staged {
    pub(crate) fn new(byte_limit: usize, file_limit: usize) -> Self {
        Self { files: BTreeMap::new(), bytes: 0, byte_limit, file_limit }
    }

    /// Takes a file, which counts in `meter`.
    pub(crate) fn write(
        &mut self,
        name: String,
        contents: Vec<u8>,
        meter: &mut Meter,
    ) -> Result<(), Refusal> {
        if let Err(reason) = check_name(&name) {
            // The name is the guest's: it is shown shortened, and without control characters.
            let name = name.chars().take(80).map(|c| if c.is_control() { '\u{fffd}' } else { c });
            return Err(Refusal::Name { name: name.collect(), reason });
        }
        let replaced = self.files.get(&name).map_or(0, Vec::len);
        let bytes = self.bytes - replaced + contents.len();
        if bytes > self.byte_limit {
            return Err(Refusal::TooLarge { bytes, limit: self.byte_limit });
        }
        if self.files.len() == self.file_limit && !self.files.contains_key(&name) {
            return Err(Refusal::TooMany { limit: self.file_limit });
        }
        meter
            .hold(bytes)
            .map_err(|MemoryLimit { requested, limit }| Refusal::Memory { requested, limit })?;
        self.bytes = bytes;
        self.files.insert(name, contents);
        Ok(())
    }

    /// Writes the files into `folder` and returns the paths of those that the report named, which
    /// must be among them.
    pub(crate) fn store(
        self,
        folder: &Path,
        named: Vec<String>,
    ) -> Result<Vec<PathBuf>, GuestErrorKind> {
        for name in &named {
            if !self.files.contains_key(name) {
                return Err(GuestErrorKind::InvalidAnswer {
                    detail: format!(
                        "it names the file {:?}, and has not written it",
                        shortened(name)
                    ),
                });
            }
        }
        if named.len() > self.files.len() {
            return Err(GuestErrorKind::InvalidAnswer {
                detail: format!("it names {} files, and wrote {}", named.len(), self.files.len()),
            });
        }
        if named.is_empty() {
            return Err(GuestErrorKind::InvalidAnswer {
                detail: "it names no file, where the main one has to come first".into(),
            });
        }
        let target = platform::Folder::create(folder)
            .map_err(|error| GuestErrorKind::Output { path: folder.to_owned(), error })?;
        for (name, contents) in &self.files {
            target
                .write(name, contents)
                .map_err(|error| GuestErrorKind::Output { path: folder.join(name), error })?;
        }
        Ok(named.into_iter().map(|name| folder.join(name)).collect())
    }
}

/// Checks a file's name: a path of `/`-separated parts that means the same on every system.
fn check_name(name: &str) -> Result<(), &'static str> {
    if name.is_empty() {
        return Err("it is empty");
    }
    if name.len() > 200 {
        return Err("it is longer than 200 bytes");
    }
    if name.starts_with('/') {
        return Err("it is absolute, where names are relative to the report's folder");
    }
    if name.contains(['\\', ':']) || name.chars().any(char::is_control) {
        return Err("it has a backslash, a colon or a control character");
    }
    for part in name.split('/') {
        match part {
            "" => return Err("it has an empty part"),
            "." | ".." => return Err("it has a part `.` or `..`"),
            _ if part.ends_with(['.', ' ']) => {
                return Err("it has a part that ends in a dot or a space");
            }
            _ => {}
        }
    }
    if name.split('/').count() > 4 {
        return Err("it has more than three folders");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn write(staged: &mut Staged, name: &str, contents: Vec<u8>) -> Result<(), Refusal> {
        staged.write(name.into(), contents, &mut Meter::new(1000))
    }

    fn staged(files: &[(&str, &str)]) -> Staged {
        let mut staged = Staged::new(100, 3);
        for (name, contents) in files {
            write(&mut staged, name, contents.as_bytes().to_vec()).expect("a fine file");
        }
        staged
    }

    #[test]
    fn names_that_leave_the_folder_are_refused() {
        for name in ["index.html", "data/cases.csv", "a b.txt", "..a", "ü.html"] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        for name in [
            "",
            "/etc/passwd",
            "../up",
            "a/../../up",
            "a/..",
            ".",
            "a//b",
            "a/",
            "C:\\x",
            "c:x",
            "a\\..\\b",
            "a\nb",
            "a\0b",
            "nul.",
            "1/2/3/4/5",
        ] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
        assert!(check_name(&"x".repeat(201)).is_err());
    }

    #[test]
    fn size_and_number_are_limited_and_replacing_is_not_adding() {
        let mut staged = staged(&[("a", "1"), ("b", "2"), ("c", "3")]);
        assert_eq!(write(&mut staged, "d", vec![]), Err(Refusal::TooMany { limit: 3 }));
        assert_eq!(write(&mut staged, "a", vec![b'x'; 98]), Ok(()));
        assert_eq!(write(&mut staged, "a", vec![b'y'; 98]), Ok(()));
        assert_eq!(
            write(&mut staged, "b", vec![b'x'; 2]),
            Err(Refusal::TooLarge { bytes: 101, limit: 100 })
        );
    }

    #[test]
    fn files_are_stored_and_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let target = folder.path().join("reports/html");
        for contents in ["one", "two"] {
            let staged = staged(&[("index.html", contents), ("data/x.csv", "1")]);
            let paths = staged.store(&target, vec!["index.html".into()]).expect("they are stored");
            assert_eq!(paths, [target.join("index.html")]);
            assert_eq!(fs::read_to_string(&paths[0]).expect("it is there"), contents);
        }
        let mut names: Vec<_> = fs::read_dir(&target)
            .expect("it is there")
            .map(|entry| entry.expect("an entry").file_name())
            .collect();
        names.sort();
        assert_eq!(names, ["data", "index.html"]);
    }

    #[cfg(unix)]
    #[test]
    fn links_do_not_lead_out_of_the_folder() {
        use std::os::unix::fs::symlink;

        let base = tempfile::tempdir().expect("a folder");
        let (target, outside) = (base.path().join("report"), base.path().join("outside"));
        fs::create_dir_all(&target).expect("a folder");
        fs::create_dir_all(&outside).expect("a folder");
        fs::write(outside.join("precious"), "kept").expect("a file");

        // A linked folder is not entered.
        symlink(&outside, target.join("data")).expect("a link");
        let error = staged(&[("data/x.csv", "1")])
            .store(&target, vec!["data/x.csv".into()])
            .expect_err("a link out of the folder");
        assert!(matches!(error, GuestErrorKind::Output { .. }), "{error}");
        assert!(!outside.join("x.csv").exists());

        // A linked file is replaced, and what it led to is left alone.
        symlink(outside.join("precious"), target.join("index.html")).expect("a link");
        staged(&[("index.html", "new")])
            .store(&target, vec!["index.html".into()])
            .expect("the link is replaced");
        assert_eq!(fs::read_to_string(outside.join("precious")).expect("it is there"), "kept");
        assert_eq!(fs::read_to_string(target.join("index.html")).expect("it is there"), "new");
    }

    #[test]
    fn a_file_that_was_named_and_not_written_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let target = folder.path().join("out");
        for named in [vec![], vec!["other.html".to_owned()]] {
            let error = staged(&[("index.html", "x")]).store(&target, named).expect_err("no file");
            assert!(matches!(error, GuestErrorKind::InvalidAnswer { .. }), "{error}");
            assert!(!target.exists(), "nothing is written for an answer that is refused");
        }
    }
}
