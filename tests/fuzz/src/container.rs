//! Several files in one input: for each, the number of its name, its length in three bytes, and its bytes.

use std::fs;
use std::io;
use std::path::Path;

/// Files of a run folder. A case has the id [`CASE`].
pub(crate) const NAMES: [&str; 12] = [
    "run.json",
    "manifest.toml",
    "plan.jsonl",
    "journal.jsonl",
    "results.jsonl",
    "recommendations.jsonl",
    "finished.json",
    "samples/CASE.parquet",
    "outputs/CASE.parquet",
    "labels/CASE.parquet",
    "profiles/CASE.parquet",
    "device-states/CASE.parquet",
];

/// The number of a case's samples.
pub(crate) const SAMPLES: u8 = 7;

/// Placeholder for the id of the only case with files.
const CASE: &str = "CASE";

/// Packs a run folder with the files of the case `case`.
///
/// # Errors
///
/// If a file cannot be read. A missing one is left out.
pub fn pack(folder: &Path, case: &str) -> io::Result<Vec<u8>> {
    let mut packed = Vec::new();
    for (number, name) in NAMES.iter().enumerate() {
        let contents = match fs::read(folder.join(name.replace(CASE, case))) {
            Ok(contents) => contents,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        packed.push(u8::try_from(number).expect("there are few names"));
        packed.extend_from_slice(
            &u32::try_from(contents.len()).expect("a small file").to_le_bytes()[..3],
        );
        packed.extend_from_slice(&contents);
    }
    Ok(packed)
}

/// Unpacks into a folder. The case's id is the first in the journal, if there is one.
pub(crate) fn unpack(mut packed: &[u8], folder: &Path) -> io::Result<()> {
    let mut files = Vec::new();
    while let Some((head, rest)) = packed.split_first_chunk::<4>() {
        let [number, length @ ..] = *head;
        let length = u32::from_le_bytes([length[0], length[1], length[2], 0]) as usize;
        let (contents, rest) = rest.split_at(length.min(rest.len()));
        files.push((NAMES[usize::from(number) % NAMES.len()], contents));
        packed = rest;
    }
    let journal = files.iter().find(|(name, _)| *name == "journal.jsonl");
    let id = journal.and_then(|(_, contents)| case_id(contents)).unwrap_or(CASE);
    for (name, contents) in files {
        let path = folder.join(name.replace(CASE, id));
        fs::create_dir_all(path.parent().expect("it lies in a folder"))?;
        fs::write(path, contents)?;
    }
    Ok(())
}

/// Returns the first case id of a journal, if it can be part of a file's name.
fn case_id(journal: &[u8]) -> Option<&str> {
    let text = str::from_utf8(journal).ok()?;
    let (_, rest) = text.split_once("\"case-id\":\"")?;
    let (id, _) = rest.split_once('"')?;
    let is_name = (1..80).contains(&id.len())
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    is_name.then_some(id)
}
