//! The reference's outputs: made by a worker of their own, kept in a file, and read by the workers of
//! the cases that are compared with them.
//!
//! The file is a line of JSON with the names and shapes of each batch's outputs,
//! then their elements, one after the other, and finally the SHA-256 of all that.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use host_hash::{Digest as _, Sha256};
use host_record::protocol::CaseFiles;
use host_record::{CaseSpec, Failure, Phase};
use plugin_api::client::{Call, DataType, Model, Session, TensorData, TensorInfo, element_count};
use serde::{Deserialize, Serialize};

use crate::backend::tensors;
use crate::connection::Connection;
use crate::examples::Examples;
use crate::failure::{self, Stop, input};
use crate::library::{Library, nonempty_hash};
use crate::{cancel, model, varying};

/// Outputs of each batch, in the model's order.
pub(crate) type Batches = Vec<Outputs>;

/// Of one batch, by name.
pub(crate) type Outputs = Vec<(String, TensorData)>;

#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    name: String,
    dtype: String,
    shape: Vec<i64>,
}

/// Limit of the line; a longer one is not ours.
const HEADER_LIMIT: u64 = 16 << 20;

/// Bytes of the hash at the file's end.
const SEAL: usize = 32;

/// Runs the reference, twice, and keeps its outputs in `file`, which is complete or absent.
pub(crate) fn make(
    connection: &mut Connection,
    case: &CaseSpec,
    files: &CaseFiles,
    file: &Path,
) -> Result<(), Stop> {
    let interval = Duration::from_nanos(case.measure.timeout_ns / 10);
    connection.enter(Phase::Open)?;
    let library = Library::check(&files.library, nonempty_hash(&case.plugin.sha256))?;
    model::check(connection, case, files, interval)?;
    let backend = library.open(connection.reporter(interval)?)?;
    cancel::listen(connection, &backend)?;
    connection.enter(Phase::Load)?;
    let model = model::load(&backend, case, files, &[])?;
    connection.enter(Phase::Inputs)?;
    let mut examples = Examples::new(case, files, model.info())?;
    let batches = examples.different_batches()?;
    connection.enter(Phase::Prepare)?;
    let session = model
        .prepare(case.key.precision.name(), &examples.shapes())
        .map_err(failure::backend(Phase::Prepare))?;
    connection.enter(Phase::Check)?;
    let outputs = answers(&model, calls(&model, &session, &batches)?)?;
    let again = answers(&model, calls(&model, &session, &batches)?)?;
    varying::check(case.key.precision, &outputs, &again)?;
    write(file, &outputs).map_err(|error| input(format!("{}: {error}", file.display())).into())
}

/// Returns a call for each batch.
pub(crate) fn calls(
    model: &Model,
    session: &Session,
    batches: &[Vec<TensorData>],
) -> Result<Vec<Call>, Failure> {
    let call = |batch: &Vec<TensorData>| session.call(tensors(model, batch)?);
    batches.iter().map(call).collect::<Result<_, _>>().map_err(failure::backend(Phase::Check))
}

/// Runs each call once, and reads all of its outputs.
pub(crate) fn answers(model: &Model, calls: Vec<Call>) -> Result<Batches, Failure> {
    let outputs = &model.info().outputs;
    let answer = |mut call: Call| {
        call.run()?;
        let read =
            |(index, info): (usize, &TensorInfo)| Ok((info.name.clone(), call.read_output(index)?));
        outputs.iter().enumerate().map(read).collect::<Result<Vec<_>, _>>()
    };
    calls.into_iter().map(answer).collect::<Result<_, _>>().map_err(failure::backend(Phase::Check))
}

/// Returns the reference's outputs, from the host's file.
pub(crate) fn expected(file: Option<&Path>) -> Result<Batches, Failure> {
    let file = file.ok_or_else(|| Failure::NoReference {
        detail: "the host did not say where the reference's outputs are".into(),
    })?;
    read(file)
        .map_err(|error| Failure::NoReference { detail: format!("{}: {error}", file.display()) })
}

fn partial(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".partial");
    name.into()
}

fn write(path: &Path, batches: &Batches) -> io::Result<()> {
    let beside = partial(path);
    let mut writer = BufWriter::new(File::create(&beside)?);
    let entry = |(name, data): &(String, TensorData)| Entry {
        name: name.clone(),
        dtype: data.dtype.to_string(),
        shape: data.shape.clone(),
    };
    let header: Vec<Vec<Entry>> =
        batches.iter().map(|outputs| outputs.iter().map(entry).collect()).collect();
    let mut header = serde_json::to_vec(&header)?;
    header.push(b'\n');
    let mut seal = Sha256::new();
    let elements = batches.iter().flatten().map(|(_, data)| &*data.bytes);
    for bytes in [&*header].into_iter().chain(elements) {
        seal.update(bytes);
        writer.write_all(bytes)?;
    }
    writer.write_all(&seal.finalize())?;
    writer.into_inner()?.sync_all()?;
    fs::rename(beside, path)
}

/// Reads the file of the reference's worker.
///
/// # Errors
///
/// If it cannot be read, or is not such a file.
fn read(path: &Path) -> io::Result<Batches> {
    let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let file = host_files::open(path)?;
    let length = file.metadata()?.len().checked_sub(SEAL as u64);
    let length = length.ok_or_else(|| invalid("it is too short"))?;
    let mut reader = BufReader::new(Sealed { file: file.take(length), seal: Sha256::new() });
    let mut line = Vec::new();
    reader.by_ref().take(HEADER_LIMIT).read_until(b'\n', &mut line)?;
    let header: Vec<Vec<Entry>> = serde_json::from_slice(&line)?;
    let mut tensor = |Entry { name, dtype, shape }: Entry| {
        let dtype =
            DataType::from_name(&dtype).ok_or_else(|| invalid("an unknown element type"))?;
        let bytes = element_count(&shape).and_then(|count| count.checked_mul(dtype.size()));
        let bytes = bytes.filter(|bytes| *bytes as u64 <= length);
        let bytes = bytes.ok_or_else(|| invalid("a shape that does not fit into the file"))?;
        let mut data = TensorData { dtype, shape, bytes: vec![0; bytes] };
        reader.read_exact(&mut data.bytes)?;
        Ok((name, data))
    };
    let batches: io::Result<Batches> =
        header.into_iter().map(|outputs| outputs.into_iter().map(&mut tensor).collect()).collect();
    let batches = batches?;
    let rest = io::copy(&mut reader, &mut io::sink())?;
    let Sealed { file, seal } = reader.into_inner();
    let mut written = [0; SEAL];
    file.into_inner().read_exact(&mut written)?;
    if rest > 0 || seal.finalize()[..] != written {
        return Err(invalid("it is damaged: its SHA-256 is not the one that it ends with"));
    }
    Ok(batches)
}

/// Hashes what is read.
struct Sealed {
    file: io::Take<File>,
    seal: Sha256,
}

impl Read for Sealed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.seal.update(&buffer[..count]);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("outputs");
        let data = |dtype: DataType, shape: &[i64], bytes: &[u8]| TensorData {
            dtype,
            shape: shape.into(),
            bytes: bytes.into(),
        };
        let batches = vec![
            vec![
                ("logits\n".to_owned(), data(DataType::F16, &[1, 2], &[1, 2, 3, 4])),
                ("none".to_owned(), data(DataType::F32, &[0, 7], &[])),
            ],
            vec![("scalar".to_owned(), data(DataType::BF16, &[], &[b'\n', 0]))],
        ];
        write(&path, &batches).expect("the folder is writable");
        assert_eq!(read(&path).expect("what was written"), batches);
        assert!(!partial(&path).exists());

        let bytes = fs::read(&path).expect("the file");
        fs::write(&path, &bytes[..bytes.len() - 1]).expect("the folder is writable");
        assert_eq!(read(&path).expect_err("cut").kind(), io::ErrorKind::UnexpectedEof);
        let mut changed = bytes.clone();
        let last_element = bytes.len() - SEAL - 1;
        changed[last_element] ^= 1;
        fs::write(&path, changed).expect("the folder is writable");
        let error = read(&path).expect_err("changed").to_string();
        assert_eq!(error, "it is damaged: its SHA-256 is not the one that it ends with");
        let mut huge = br#"[[{"name":"x","dtype":"float32","shape":[1000000,1000000]}]]"#.to_vec();
        huge.extend([0; SEAL]);
        fs::write(&path, huge).expect("the folder is writable");
        assert_eq!(read(&path).expect_err("huge").kind(), io::ErrorKind::InvalidData);
        fs::write(&path, b"[]\n").expect("the folder is writable");
        assert_eq!(read(&path).expect_err("short").to_string(), "it is too short");
    }
}
