/*!
The files of a report.

They are held until the guest has returned: if a report traps half-way, earlier files stay. Names are checked when the
guest gives them. The host writes the files, since it knows the folder; the sandbox does not.
*/

use std::collections::BTreeMap;

use crate::error::{GuestErrorKind, shortened};
use crate::limits::{MemoryLimit, Meter};

/// The files of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// Contents by name: parts joined by `/`, none of which begins with a dot.
    pub files: BTreeMap<String, Vec<u8>>,
    /// The names that the report returned, the main one first; at least one, and all among the files.
    pub named: Vec<String>,
}

/// Files that wait for the guest to return.
#[derive(Debug)]
pub(crate) struct Staged {
    files: BTreeMap<String, Vec<u8>>,
    bytes: usize,
    byte_limit: usize,
    file_limit: usize,
}

/// Reason why a file is refused. The guest gets it, and usually returns it as its error.
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

    /// Returns the files with the names that the report returned, which must be among them.
    pub(crate) fn rendered(self, named: Vec<String>) -> Result<Rendered, GuestErrorKind> {
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
        Ok(Rendered { files: self.files, named })
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
            // Such as `..`, `.git` and `.bashrc`, which programs read without notice.
            _ if part.starts_with('.') => return Err("it has a part that begins with a dot"),
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
        for name in ["index.html", "data/cases.csv", "a b.txt", "a..b", "ü.html"] {
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
            ".git/config",
            "a/.b",
            "..a",
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
    fn a_file_that_was_named_and_not_written_is_refused() {
        for named in [vec![], vec!["other.html".to_owned()]] {
            let error = staged(&[("index.html", "x")]).rendered(named).expect_err("no file");
            assert!(matches!(error, GuestErrorKind::InvalidAnswer { .. }), "{error}");
        }
    }
}
