/*!
What the host and a worker say to each other.

The host writes one [`Request`] as a JSON line to the worker's standard input and closes it. The
worker answers with frames: a byte for the kind, the payload's length as a little-endian `u32`,
and the payload. Control is JSON; samples and outputs are raw little-endian numbers, since there
can be millions. The worker moves its end of the pipe away from descriptor 1 before a plugin is
opened, so what a plugin prints goes to standard error and cannot break a frame.
*/

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::backend::DeviceInfo;
use crate::case::CaseSpec;
use crate::outcome::{Failure, Phase, WorkerReport};
use crate::sample::{OutputBlock, SampleBlock, SamplePhase, SampleTimes, ScheduledTimes};

/// Version of everything in this module. Host and worker are installed together; a mismatch means
/// a broken installation and is refused.
pub const PROTOCOL_VERSION: u32 = 3;

/// A frame's payload may have at most this many bytes.
pub const FRAME_LIMIT: u32 = 64 << 20;

/// What the host wants of a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case")]
pub enum Request {
    /// Open a plugin and say what it is and which devices it sees.
    Describe {
        /// [`PROTOCOL_VERSION`] of the host.
        protocol_version: u32,
        /// The plugin's library.
        library: PathBuf,
        /// SHA-256 of the library that was admitted; any other is refused. `None`: nothing is known.
        #[serde(default)]
        sha256: Option<String>,
    },
    /// Measure one case.
    Measure {
        /// [`PROTOCOL_VERSION`] of the host.
        protocol_version: u32,
        /// The case.
        case: Box<CaseSpec>,
        /// Its files on the worker's machine.
        files: Box<CaseFiles>,
        /// Where the reference's outputs are, for a case that has a check.
        #[serde(default)]
        reference: Option<PathBuf>,
    },
    /// Run a case once for each of two batches, and keep the outputs.
    Reference {
        /// [`PROTOCOL_VERSION`] of the host.
        protocol_version: u32,
        /// The case of the reference.
        case: Box<CaseSpec>,
        /// Its files on the worker's machine.
        files: Box<CaseFiles>,
        /// Where to put its outputs.
        file: PathBuf,
    },
}

/// The files of a case on the machine of its worker. Whoever starts the worker has found them by their
/// content; a case itself holds no path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct CaseFiles {
    /// The plugin's library.
    pub library: PathBuf,
    /// The model.
    pub model: PathBuf,
    /// Data files by the input's name.
    #[serde(default)]
    pub inputs: BTreeMap<String, PathBuf>,
    /// The file with the labels.
    #[serde(default)]
    pub labels: Option<PathBuf>,
}

/// What a plugin says of itself, and the devices that it sees.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct BackendDescription {
    /// The plugin's id.
    pub id: String,
    /// Its version.
    pub version: String,
    /// The engine that it drives, such as `rten`.
    pub engine: String,
    /// The engine's version.
    pub engine_version: String,
    /// ABI major and minor version that it was built for.
    pub abi: (u32, u32),
    /// Names of the extensions that it offers.
    pub extensions: Vec<String>,
    /// Devices.
    pub devices: Vec<DeviceInfo>,
}

/// What a worker says.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// First of all: the worker is there, and speaks this version of the protocol.
    Hello {
        /// [`PROTOCOL_VERSION`] of the worker.
        protocol_version: u32,
    },
    /// It has entered a phase.
    Entered(Phase),
    /// It is alive and making progress. Sent at most once in a tenth of the time-out, and never
    /// from the timed part.
    Progress,
    /// Answer to [`Request::Describe`].
    Described(Box<BackendDescription>),
    /// Samples.
    Samples(SampleBlock),
    /// Outputs.
    Outputs(OutputBlock),
    /// The case is finished.
    Finished(Box<WorkerReport>),
    /// Answer to [`Request::Reference`]: the outputs are in their file.
    Kept,
    /// The case or the description failed.
    Failed(Failure),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Control {
    Hello { protocol_version: u32 },
    Entered(Phase),
    Progress,
    Described(Box<BackendDescription>),
    Finished(Box<WorkerReport>),
    Kept,
    Failed(Failure),
}

/// The clock counts from the worker's start, so that no reading comes near this one, which is also
/// the last that signed numbers can say.
const LAST_NS: u64 = i64::MAX as u64;

const CONTROL: u8 = b'C';
const SAMPLES: u8 = b'S';
const OUTPUTS: u8 = b'O';

/// Writes one frame.
///
/// # Errors
///
/// Where the pipe fails, or the payload is larger than [`FRAME_LIMIT`].
pub fn write_message(writer: &mut impl Write, message: &Message) -> io::Result<()> {
    let (kind, payload) = match message {
        Message::Samples(block) => (SAMPLES, encode_samples(block)),
        Message::Outputs(block) => (OUTPUTS, encode_outputs(block)?),
        other => (CONTROL, encode_control(other)?),
    };
    let length = u32::try_from(payload.len()).ok().filter(|length| *length <= FRAME_LIMIT);
    let length = length.ok_or_else(|| {
        invalid(format!("a frame of {} bytes is larger than {FRAME_LIMIT}", payload.len()))
    })?;
    let mut header = [kind, 0, 0, 0, 0];
    header[1..].copy_from_slice(&length.to_le_bytes());
    writer.write_all(&header)?;
    writer.write_all(&payload)?;
    writer.flush()
}

/// A frame that has arrived whole and is not understood yet.
#[derive(Debug)]
pub struct Frame {
    kind: u8,
    payload: Vec<u8>,
}

impl Frame {
    /// What it says. This can take seconds where there are millions of numbers.
    ///
    /// # Errors
    ///
    /// `InvalidData` where the payload is not of this protocol, or cannot be true.
    pub fn decode(self) -> io::Result<Message> {
        match self.kind {
            SAMPLES => decode_samples(&self.payload).map(Message::Samples),
            OUTPUTS => decode_outputs(&self.payload).map(Message::Outputs),
            _ => decode_control(&self.payload),
        }
    }
}

/// Reads one frame; `None` at the end of the stream.
///
/// # Errors
///
/// `InvalidData` where the bytes are not of this protocol, `UnexpectedEof` where the stream ends
/// inside a frame, or what the pipe says.
pub fn read_frame(reader: &mut impl Read) -> io::Result<Option<Frame>> {
    let mut header = [0; 5];
    match reader.read(&mut header[..1])? {
        0 => return Ok(None),
        _ => reader.read_exact(&mut header[1..])?,
    }
    let length = u32::from_le_bytes([header[1], header[2], header[3], header[4]]);
    if !matches!(header[0], CONTROL | SAMPLES | OUTPUTS) || length > FRAME_LIMIT {
        return Err(invalid(format!("{header:?} does not begin a frame")));
    }
    let mut payload = Vec::new();
    reader.take(u64::from(length)).read_to_end(&mut payload)?;
    if payload.len() != length as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(Frame { kind: header[0], payload }))
}

/// Reads one frame and decodes it; `None` at the end of the stream.
///
/// # Errors
///
/// As [`read_frame`] and [`Frame::decode`].
pub fn read_message(reader: &mut impl Read) -> io::Result<Option<Message>> {
    read_frame(reader)?.map(Frame::decode).transpose()
}

fn invalid(detail: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, detail.into())
}

fn encode_control(message: &Message) -> io::Result<Vec<u8>> {
    let control = match message.clone() {
        Message::Hello { protocol_version } => Control::Hello { protocol_version },
        Message::Entered(phase) => Control::Entered(phase),
        Message::Progress => Control::Progress,
        Message::Described(description) => Control::Described(description),
        Message::Finished(report) => Control::Finished(report),
        Message::Kept => Control::Kept,
        Message::Failed(failure) => Control::Failed(failure),
        Message::Samples(_) | Message::Outputs(_) => {
            return Err(invalid("blocks are not control messages"));
        }
    };
    Ok(serde_json::to_vec(&control)?)
}

fn decode_control(payload: &[u8]) -> io::Result<Message> {
    let control = serde_json::from_slice(payload).map_err(|error| invalid(error.to_string()))?;
    Ok(match control {
        Control::Hello { protocol_version } => Message::Hello { protocol_version },
        Control::Entered(phase) => Message::Entered(phase),
        Control::Progress => Message::Progress,
        Control::Described(description) => Message::Described(description),
        Control::Finished(report) => Message::Finished(report),
        Control::Kept => Message::Kept,
        Control::Failed(failure) => Message::Failed(failure),
    })
}

const CHAIN: u8 = 0;
const SCHEDULED: u8 = 1;

/// Phase, form of the times, lane (four bytes), samples in a query (eight bytes), then the times.
fn encode_samples(block: &SampleBlock) -> Vec<u8> {
    let mut payload = Vec::with_capacity(14 + block.bytes());
    payload.push(block.phase as u8);
    payload.push(match block.times {
        SampleTimes::Chain(_) => CHAIN,
        SampleTimes::Scheduled(_) => SCHEDULED,
    });
    payload.extend_from_slice(&block.lane.to_le_bytes());
    payload.extend_from_slice(&block.items_per_query.to_le_bytes());
    match &block.times {
        SampleTimes::Chain(edges) => put(&mut payload, edges.iter().map(|edge| [*edge])),
        SampleTimes::Scheduled(queries) => {
            let times =
                |query: &ScheduledTimes| [query.scheduled_ns, query.begun_ns, query.ended_ns];
            put(&mut payload, queries.iter().map(times));
        }
    }
    payload
}

/// Appends numbers. Room is made once, and not looked for at each: this is done for every query.
fn put<const N: usize>(payload: &mut Vec<u8>, rows: impl ExactSizeIterator<Item = [u64; N]>) {
    let begin = payload.len();
    payload.resize(begin + rows.len() * N * 8, 0);
    let (words, _) = payload[begin..].as_chunks_mut::<8>();
    for (words, row) in words.chunks_exact_mut(N).zip(rows) {
        for (word, number) in words.iter_mut().zip(row) {
            *word = number.to_le_bytes();
        }
    }
}

fn decode_samples(payload: &[u8]) -> io::Result<SampleBlock> {
    let Some((&[phase, form, a, b, c, d], rest)) = payload.split_first_chunk() else {
        return Err(invalid("a sample block without its beginning"));
    };
    let phase = SamplePhase::ALL.get(usize::from(phase)).copied();
    let phase = phase.ok_or_else(|| invalid("a sample block of no phase that there is"))?;
    let (words, remainder) = rest.as_chunks::<8>();
    let Some((items, words)) = words.split_first().filter(|_| remainder.is_empty()) else {
        return Err(invalid("a sample block of a fractional length"));
    };
    let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
    if words.iter().any(|time| *time > LAST_NS) {
        return Err(invalid("a sample block from beyond the end of the clock"));
    }
    let times = match form {
        CHAIN => chain(words)?,
        SCHEDULED => scheduled(&words)?,
        other => return Err(invalid(format!("{other} is no form of times"))),
    };
    let items_per_query = u64::from_le_bytes(*items);
    Ok(SampleBlock { phase, items_per_query, lane: u32::from_le_bytes([a, b, c, d]), times })
}

fn chain(edges: Vec<u64>) -> io::Result<SampleTimes> {
    if edges.is_empty() {
        return Err(invalid("a sample block without clock readings"));
    }
    if !edges.is_sorted() {
        return Err(invalid("a sample block whose clock goes back"));
    }
    Ok(SampleTimes::Chain(edges))
}

fn scheduled(words: &[u64]) -> io::Result<SampleTimes> {
    let (queries, remainder) = words.as_chunks::<3>();
    if !remainder.is_empty() {
        return Err(invalid("a sample block of a fractional length"));
    }
    if queries.iter().any(|times| !times.is_sorted()) {
        return Err(invalid("a query that began before it was due, or ended before it began"));
    }
    // One lane serves one query after the other.
    if queries.windows(2).any(|pair| pair[1][1] < pair[0][2]) {
        return Err(invalid("a sample block whose clock goes back"));
    }
    let times = queries.iter().map(|&[scheduled_ns, begun_ns, ended_ns]| ScheduledTimes {
        scheduled_ns,
        begun_ns,
        ended_ns,
    });
    Ok(SampleTimes::Scheduled(times.collect()))
}

#[derive(Serialize, Deserialize)]
struct OutputHeader {
    name: String,
    first_example: u64,
    width: u64,
}

fn encode_outputs(block: &OutputBlock) -> io::Result<Vec<u8>> {
    let header = OutputHeader {
        name: block.name.clone(),
        first_example: block.first_example,
        width: block.width,
    };
    let mut payload = serde_json::to_vec(&header)?;
    payload.push(b'\n');
    for value in &block.values {
        payload.extend_from_slice(&value.to_le_bytes());
    }
    Ok(payload)
}

fn decode_outputs(payload: &[u8]) -> io::Result<OutputBlock> {
    let end = payload.iter().position(|byte| *byte == b'\n');
    let end = end.ok_or_else(|| invalid("an output block without a header"))?;
    let header: OutputHeader =
        serde_json::from_slice(&payload[..end]).map_err(|error| invalid(error.to_string()))?;
    let (words, remainder) = payload[end + 1..].as_chunks::<4>();
    if !remainder.is_empty() {
        return Err(invalid("an output block of a fractional length"));
    }
    let whole = usize::try_from(header.width)
        .is_ok_and(|width| width > 0 && words.len().is_multiple_of(width));
    if !whole {
        return Err(invalid(format!(
            "output `{}`: {} values are not whole examples of {} values",
            header.name,
            words.len(),
            header.width
        )));
    }
    Ok(OutputBlock {
        name: header.name,
        first_example: header.first_example,
        width: header.width,
        values: words.iter().map(|word| f32::from_le_bytes(*word)).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(message: &Message) -> Message {
        let mut bytes = Vec::new();
        write_message(&mut bytes, message).expect("writing to memory");
        read_message(&mut bytes.as_slice()).expect("reading what was written").expect("a frame")
    }

    #[test]
    fn what_is_written_is_read() {
        let block = SampleBlock {
            phase: SamplePhase::Measured,
            items_per_query: 8,
            lane: 0,
            times: SampleTimes::Chain(vec![5, 9, LAST_NS]),
        };
        let query = ScheduledTimes { scheduled_ns: 3, begun_ns: LAST_NS - 1, ended_ns: LAST_NS };
        let scheduled = SampleBlock {
            phase: SamplePhase::Search,
            lane: u32::MAX,
            times: SampleTimes::Scheduled(vec![query]),
            ..block.clone()
        };
        let outputs = OutputBlock {
            name: "a\nb".into(),
            first_example: 3,
            width: 2,
            values: vec![0.5, f32::INFINITY, -0.0, 1e-40],
        };
        let failure = Failure::TimedOut { phase: Phase::Load, limit_ns: 1 };
        for message in [
            Message::Hello { protocol_version: 1 },
            Message::Entered(Phase::WarmUp),
            Message::Progress,
            Message::Kept,
            Message::Samples(block),
            Message::Samples(scheduled),
            Message::Outputs(outputs),
            Message::Failed(failure),
        ] {
            assert_eq!(round_trip(&message), message);
        }
    }

    #[test]
    fn foreign_bytes_are_refused_and_a_clean_end_is_not() {
        assert_eq!(read_message(&mut [].as_slice()).expect("a clean end"), None);
        let error = read_message(&mut b"hello, world".as_slice()).expect_err("foreign bytes");
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        let error =
            read_message(&mut [CONTROL, 9, 0, 0, 0, 1].as_slice()).expect_err("a cut frame");
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        let huge = [CONTROL, 255, 255, 255, 255];
        let error = read_message(&mut huge.as_slice()).expect_err("a frame over the limit");
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn blocks_that_cannot_be_true_are_refused() {
        let refused = |message: &Message| {
            let mut bytes = Vec::new();
            write_message(&mut bytes, message).expect("writing to memory");
            let error = read_message(&mut bytes.as_slice()).expect_err("an impossible block");
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
            error.to_string()
        };
        let outputs = |width, values| {
            Message::Outputs(OutputBlock { name: "logits".into(), first_example: 0, width, values })
        };
        let said = refused(&outputs(2, vec![1.0; 3]));
        assert_eq!(said, "output `logits`: 3 values are not whole examples of 2 values");
        refused(&outputs(0, vec![]));
        let query =
            |scheduled_ns, begun_ns, ended_ns| ScheduledTimes { scheduled_ns, begun_ns, ended_ns };
        for times in [
            SampleTimes::Chain(vec![]),
            SampleTimes::Chain(vec![7, 6]),
            SampleTimes::Chain(vec![0, u64::MAX]),
            SampleTimes::Scheduled(vec![query(5, 4, 6)]),
            SampleTimes::Scheduled(vec![query(4, 6, 5)]),
            SampleTimes::Scheduled(vec![query(1, 2, 9), query(1, 3, 12)]),
            SampleTimes::Scheduled(vec![query(0, 0, u64::MAX)]),
        ] {
            refused(&Message::Samples(SampleBlock {
                phase: SamplePhase::Measured,
                items_per_query: 1,
                lane: 0,
                times,
            }));
        }
    }
}
