/*!
Files of JSON lines: appended one line at a time, read one line at a time.

A line is written with its newline in one call. So a crash can only leave a last line without a newline: such a *torn*
line is skipped by readers, and cut off before more is appended. An unreadable line with its newline was damaged
later, which is an error. So is a line that is longer than any that is written: a damaged file may have no end.
*/

use std::fs::{File, OpenOptions};
use std::io::{BufReader, BufWriter, ErrorKind, Read, Seek, SeekFrom, Write};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use host_record::protocol::FRAME_LIMIT;
use host_record::{CaseRecord, GlancedLine, RECORD_VERSION, earlier};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::durable::{partial, settle};
use super::glanced::GlancedResult;
use super::header::{PlanLine, RecommendationRecord, ResultRecord};
use crate::error::StoreError;

/// Greatest length of a line: of a whole report of a worker, and of as much again that the host adds.
const LONGEST_LINE: u64 = 2 * FRAME_LIMIT as u64;

/// A last line truncated by a crash.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a crash truncated line {line} of `{}`; the line is skipped", .path.display())]
pub struct TornLine {
    /// The file.
    pub path: PathBuf,
    /// The line, from 1.
    pub line: u64,
    /// Number of its bytes that exist.
    pub bytes: u64,
}

/// A record with a version; lines of `plan.jsonl` have the version of the run's header.
pub(crate) trait Line {
    /// Returns the version of the writer; `None` if the line has no version.
    fn record_version(&self) -> Option<u32>;

    /// Returns the ids in the line that name files: of its case, and of the case's reference.
    fn names(&self) -> impl Iterator<Item = &str>;
}

/// Rule for ids of cases, for messages.
pub(crate) const CASE_ID_RULE: &str =
    "an id is up to 64 letters, digits, `-` and `_`, since it names files";

/// Returns whether a case may have this id. It names files, so a path must not pass.
pub(crate) fn is_case_id(id: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    !id.is_empty() && id.len() <= 64 && id.bytes().all(plain)
}

impl Line for CaseRecord {
    fn record_version(&self) -> Option<u32> {
        Some(self.record_version)
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        let check = self.spec.as_ref().and_then(|spec| spec.check.as_ref());
        [&*self.case_id].into_iter().chain(check.map(|check| &*check.id))
    }
}

impl Line for GlancedLine {
    fn record_version(&self) -> Option<u32> {
        Some(self.record_version)
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        [&*self.case_id].into_iter()
    }
}

impl Line for GlancedResult {
    fn record_version(&self) -> Option<u32> {
        Some(self.record_version)
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        [&*self.case_id].into_iter()
    }
}

impl Line for ResultRecord {
    fn record_version(&self) -> Option<u32> {
        Some(self.record_version)
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        [&*self.case_id].into_iter()
    }
}

impl Line for RecommendationRecord {
    fn record_version(&self) -> Option<u32> {
        Some(self.record_version)
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::empty()
    }
}

impl Line for PlanLine {
    fn record_version(&self) -> Option<u32> {
        None
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        [&*self.case_id].into_iter()
    }
}

/// Reads a file of JSON lines; a file that does not exist has none.
#[derive(Debug)]
pub(crate) struct Lines<T> {
    reader: Option<BufReader<File>>,
    path: PathBuf,
    line: u64,
    complete_bytes: u64,
    torn: Option<TornLine>,
    buffer: Vec<u8>,
    record: PhantomData<fn() -> T>,
}

impl<T> Lines<T> {
    pub(crate) fn open(path: PathBuf) -> Result<Self, StoreError> {
        let reader = existing(&path)?.map(|file| BufReader::with_capacity(1 << 16, file));
        Ok(Self {
            reader,
            path,
            line: 0,
            complete_bytes: 0,
            torn: None,
            buffer: Vec::new(),
            record: PhantomData,
        })
    }

    /// Returns the torn last line, once it has been read.
    pub(crate) fn torn(&self) -> Option<&TornLine> {
        self.torn.as_ref()
    }

    /// Returns the number of the line that was read last, from 1.
    pub(crate) fn line(&self) -> u64 {
        self.line
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the bytes of the complete lines so far.
    pub(crate) fn complete_bytes(&self) -> u64 {
        self.complete_bytes
    }
}

impl<T: DeserializeOwned + Line> Iterator for Lines<T> {
    type Item = Result<T, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        let reader = self.reader.as_mut()?;
        self.line += 1;
        let read = match read_line(reader, &mut self.buffer, &self.path, self.line) {
            Ok(read) => read,
            Err(error) => {
                self.reader = None;
                return Some(Err(error));
            }
        };
        if read == 0 {
            self.line -= 1;
            self.reader = None;
            return None;
        }
        let Some(text) = self.buffer.strip_suffix(b"\n") else {
            self.reader = None;
            let torn = TornLine { path: self.path.clone(), line: self.line, bytes: read as u64 };
            // Readers call `RunFolder::flaws`; a warning here would be repeated at each reading.
            tracing::debug!(%torn);
            self.torn = Some(torn);
            return None;
        };
        self.complete_bytes += read as u64;
        Some(parse(&self.path, self.line, text))
    }
}

/// Opens a file of lines; `None` if it does not exist.
fn existing(path: &Path) -> Result<Option<File>, StoreError> {
    match host_files::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StoreError::unread(path)(error)),
    }
}

/// Reads the line of this number with its newline, if it has one. Returns its bytes; 0 at the end of the file.
fn read_line(
    reader: &mut BufReader<File>,
    buffer: &mut Vec<u8>,
    path: &Path,
    line: u64,
) -> Result<usize, StoreError> {
    host_files::read_line(reader, buffer, LONGEST_LINE).map_err(|error| match error.kind() {
        ErrorKind::FileTooLarge => {
            StoreError::Malformed { path: path.to_owned(), line, detail: error.to_string() }
        }
        _ => StoreError::io("read", path)(error),
    })
}

/// Returns the torn last line of a file, without reading a file that has none.
pub(crate) fn torn_line(path: PathBuf) -> Result<Option<TornLine>, StoreError> {
    let Some(mut file) = existing(&path)? else { return Ok(None) };
    let mut last = [0];
    let ends_well = file.seek(SeekFrom::End(0)).and_then(|length| {
        if length == 0 {
            return Ok(true);
        }
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
        file.seek(SeekFrom::Start(0))?;
        Ok(last == *b"\n")
    });
    if ends_well.map_err(StoreError::io("read", &path))? {
        return Ok(None);
    }
    let mut reader = BufReader::with_capacity(1 << 16, file);
    let (mut line, mut buffer) = (0, Vec::new());
    loop {
        line += 1;
        let read = read_line(&mut reader, &mut buffer, &path, line)?;
        if read == 0 {
            return Ok(None);
        }
        if !buffer.ends_with(b"\n") {
            return Ok(Some(TornLine { path, line, bytes: read as u64 }));
        }
    }
}

/// Removes lines from a file, including a torn one, by replacing it. The other lines are not changed. Does nothing if
/// the file does not exist.
pub(crate) fn retain<T: DeserializeOwned>(
    path: &Path,
    keep: impl Fn(&T) -> bool,
) -> Result<(), StoreError> {
    let Some(file) = existing(path)? else { return Ok(()) };
    let mut reader = BufReader::with_capacity(1 << 16, file);
    let beside = partial(path);
    let written = File::create(&beside).map_err(StoreError::io("create", &beside))?;
    let mut writer = BufWriter::with_capacity(1 << 16, written);
    let (mut line, mut buffer) = (0, Vec::new());
    loop {
        line += 1;
        read_line(&mut reader, &mut buffer, path, line)?;
        let Some(text) = buffer.strip_suffix(b"\n") else { break };
        let parsed = earlier::read::<T>(text).map_err(|error| {
            let detail = error.to_string();
            StoreError::Malformed { path: path.to_owned(), line, detail }
        })?;
        if keep(&parsed) {
            writer.write_all(&buffer).map_err(StoreError::io("write", &beside))?;
        }
    }
    writer.flush().map_err(StoreError::io("write", &beside))?;
    settle(path)
}

/// Parses one record, and distinguishes a newer version from damage.
pub(crate) fn parse<T: DeserializeOwned + Line>(
    path: &Path,
    line: u64,
    text: &[u8],
) -> Result<T, StoreError> {
    match earlier::read::<T>(text) {
        Ok(record) => {
            check_version(path, record.record_version())?;
            if let Some(name) = record.names().find(|name| !is_case_id(name)) {
                let detail =
                    format!("{name:?} is not the id of a case or reference: {CASE_ID_RULE}");
                return Err(StoreError::Malformed { path: path.to_owned(), line, detail });
            }
            Ok(record)
        }
        Err(error) => {
            check_version(path, declared_version(text))?;
            Err(StoreError::Malformed { path: path.to_owned(), line, detail: error.to_string() })
        }
    }
}

/// Returns the version in a record, even if the rest of it cannot be parsed.
pub(crate) fn declared_version(text: &[u8]) -> Option<u32> {
    #[derive(Deserialize)]
    #[serde(rename_all = "kebab-case")]
    struct Version {
        record_version: u32,
    }
    serde_json::from_slice::<Version>(text).ok().map(|version| version.record_version)
}

pub(crate) fn check_version(path: &Path, version: Option<u32>) -> Result<(), StoreError> {
    match version {
        Some(found) if found > RECORD_VERSION => {
            Err(StoreError::NewerRecord { path: path.to_owned(), found, supported: RECORD_VERSION })
        }
        _ => Ok(()),
    }
}

/// Appends lines to a file.
#[derive(Debug)]
pub(crate) struct Appender {
    file: File,
    path: PathBuf,
    length: u64,
    buffer: Vec<u8>,
}

impl Appender {
    /// Opens or creates the file, and cuts it to its `complete_bytes`, after the last whole line.
    pub(crate) fn open(path: PathBuf, complete_bytes: u64) -> Result<Self, StoreError> {
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(StoreError::io("open", &path))?;
        file.set_len(complete_bytes)
            .and_then(|()| file.seek(SeekFrom::End(0)))
            .map_err(StoreError::io("write", &path))?;
        Ok(Self { file, path, length: complete_bytes, buffer: Vec::new() })
    }

    /// Appends one line. If that fails, the part that was written is cut off again, so that a full
    /// disk leaves no torn line in the middle of the file.
    pub(crate) fn append(&mut self, record: &impl Serialize) -> Result<(), StoreError> {
        self.buffer.clear();
        serde_json::to_writer(&mut self.buffer, record)
            .map_err(|error| StoreError::io("write", &self.path)(error.into()))?;
        self.buffer.push(b'\n');
        if self.buffer.len() as u64 > LONGEST_LINE {
            let error = std::io::Error::new(
                ErrorKind::FileTooLarge,
                format!("a line of {} bytes is longer than {LONGEST_LINE}", self.buffer.len()),
            );
            return Err(StoreError::io("write", &self.path)(error));
        }
        if let Err(error) = self.file.write_all(&self.buffer) {
            let cut = self.file.set_len(self.length);
            let cut = cut.and_then(|()| self.file.seek(SeekFrom::End(0)));
            if let Err(error) = cut {
                // The error below reports the failed write; the next reader finds the torn line.
                tracing::debug!(file = %self.path.display(), %error, "cannot cut off a torn line");
            }
            return Err(StoreError::io("write", &self.path)(error));
        }
        self.length += self.buffer.len() as u64;
        Ok(())
    }

    /// Puts everything appended so far on stable storage.
    pub(crate) fn sync(&self) -> Result<(), StoreError> {
        self.file.sync_data().map_err(StoreError::io("write", &self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use host_record::PluginIdentity;

    fn record(case_id: &str) -> ResultRecord {
        let plugin = PluginIdentity { id: "m".into(), version: "1.0.0".into(), sha256: "0".into() };
        ResultRecord::new(case_id, plugin, serde_json::Value::Null, Vec::new())
    }

    #[test]
    fn a_torn_end_is_left_out_and_cut_off_before_more_is_appended() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("lines.jsonl");
        let mut appender = Appender::open(path.clone(), 0).expect("a new file");
        appender.append(&record("a")).expect("an append");
        appender.append(&record("b")).expect("an append");
        drop(appender);
        let whole = std::fs::read(&path).expect("the file");
        let first = whole.iter().position(|byte| *byte == b'\n').expect("a line") + 1;

        // Tests every place at which a crash can cut the file.
        for cut in 0..=whole.len() {
            std::fs::write(&path, &whole[..cut]).expect("a cut file");
            let mut lines = Lines::<ResultRecord>::open(path.clone()).expect("an open file");
            let read: Vec<_> = lines.by_ref().map(|line| line.expect("a record")).collect();
            let expected = usize::from(cut >= first) + usize::from(cut == whole.len());
            assert_eq!(read.len(), expected, "cut at {cut}");
            let clean = cut == 0 || cut == first || cut == whole.len();
            assert_eq!(lines.torn().is_none(), clean, "cut at {cut}");

            let mut appender =
                Appender::open(path.clone(), lines.complete_bytes()).expect("a file to append to");
            appender.append(&record("c")).expect("an append");
            let read: Result<Vec<_>, _> =
                Lines::<ResultRecord>::open(path.clone()).expect("an open file").collect();
            assert_eq!(read.expect("whole lines").last().expect("a line").case_id, "c");
        }
    }

    #[test]
    fn a_line_without_an_end_is_damage_and_is_not_read_to_its_end() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("lines.jsonl");
        let mut appender = Appender::open(path.clone(), 0).expect("a new file");
        appender.append(&record("a")).expect("an append");
        let file = OpenOptions::new().write(true).open(&path).expect("the file");
        // Reading this needs more memory than any machine has.
        file.set_len(1 << 43).expect("a sparse file");
        let too_long = |error: StoreError| {
            assert!(error.to_string().ends_with("line 2: it is longer than 128 MiB"), "{error}");
        };
        let mut lines = Lines::<ResultRecord>::open(path.clone()).expect("an open file");
        lines.next().expect("a line").expect("a record");
        too_long(lines.next().expect("a line").expect_err("too long"));
        assert!(lines.next().is_none(), "the rest of the line is not a line");
        too_long(torn_line(path.clone()).expect_err("too long"));
        too_long(retain(&path, |_: &ResultRecord| true).expect_err("too long"));
    }

    #[test]
    fn a_line_that_could_not_be_read_again_is_not_written() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("lines.jsonl");
        let mut appender = Appender::open(path.clone(), 0).expect("a new file");
        let error = appender.append(&"x".repeat(LONGEST_LINE as usize)).expect_err("too long");
        assert!(error.to_string().contains("cannot write"), "{error}");
        assert_eq!(std::fs::metadata(&path).expect("the file").len(), 0);
    }

    #[test]
    fn damage_in_the_middle_names_file_and_line() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("lines.jsonl");
        let good = serde_json::to_string(&record("a")).expect("json");
        std::fs::write(&path, format!("{good}\n{}\n{good}\n", &good[..20])).expect("a file");
        let lines = Lines::<ResultRecord>::open(path.clone()).expect("an open file");
        let error = lines.last().expect("a last item").map(|_| ());
        assert!(error.is_ok(), "reading goes on after a damaged line");
        let mut lines = Lines::<ResultRecord>::open(path.clone()).expect("an open file");
        let error = lines.nth(1).expect("a second item").expect_err("a damaged line");
        assert!(matches!(&error, StoreError::Malformed { line: 2, path: at, .. } if *at == path));
        assert!(error.to_string().contains("lines.jsonl`, line 2: "), "{error}");
    }

    #[test]
    fn a_newer_record_is_refused_even_if_it_cannot_be_understood() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("lines.jsonl");
        for text in [r#"{"record-version":99,"new":[1]}"#.to_owned(), {
            let mut record = record("a");
            record.record_version = 99;
            serde_json::to_string(&record).expect("json")
        }] {
            std::fs::write(&path, format!("{text}\n")).expect("a file");
            let mut lines = Lines::<ResultRecord>::open(path.clone()).expect("an open file");
            let error = lines.next().expect("an item").expect_err("a newer record");
            assert!(
                matches!(error, StoreError::NewerRecord { found: 99, supported: 1, .. }),
                "{error}"
            );
            assert!(error.hint().expect("a hint").contains("update"));
        }
    }
}
