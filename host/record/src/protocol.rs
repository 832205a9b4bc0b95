/*!
What the host and a worker say to each other.

The host writes one [`Request`] as a JSON line to the worker's standard input, which stays open: all
that may follow is the line [`CANCEL`], or, to a worker that is one side of a pair, [`Baton`] lines. The worker answers with frames: a byte for the kind, the payload's length as a little-endian `u32`,
and the payload. Control is JSON; samples and outputs are raw little-endian numbers, since there
can be millions. The worker moves its end of the pipe away from descriptor 1 before a plugin is
opened, so what a plugin prints goes to standard error and cannot break a frame.
*/

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::backend::DeviceInfo;
use crate::case::CaseSpec;
use crate::gap::Gap;
use crate::model::ModelStructure;
use crate::noise::NoiseProbe;
use crate::outcome::{Failure, WorkerReport};
use crate::peaks::Calibration;
use crate::phase::Phase;
use crate::sample::{
    Marks, OutputBlock, OutputValues, SampleBlock, SamplePhase, SampleTimes, ScheduledTimes,
};

/// Version of everything in this module. Host and worker are installed together; a mismatch means
/// a broken installation and is refused.
pub const PROTOCOL_VERSION: u32 = 8;

/// The line on a worker's standard input that asks it to end what is under way. The host says this only to a
/// worker that is [`Message::Cancellable`], before it ends it by force.
pub const CANCEL: &str = "cancel";

/// An answer of the host to a worker of a pair that waits for its turn: a JSON line on its standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Baton {
    /// Its turn.
    Turn(Turn),
    /// There are no more turns: the worker goes on alone.
    End,
}

/// A turn of one side of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Turn {
    /// Queries that belong to no block come first, until one ends this many nanoseconds or more after the turn's
    /// beginning; none if it is 0.
    pub lead_in_ns: u64,
    /// Blocks to measure.
    pub blocks: u32,
    /// A block ends with the first query that ends this many nanoseconds or more after the block's beginning.
    pub block_ns: u64,
}

/// Queries and their time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct BlockTime {
    /// Queries.
    pub queries: u64,
    /// Their time in nanoseconds.
    pub timed_ns: u64,
    /// Mean of the middle half of their times in nanoseconds; 0 if it is not known.
    pub usual_ns: f64,
}

/// End of a worker, as the process that oversees it tells it: a JSON line on the other side of what is the
/// worker's standard input, after the end of the worker and of all that it started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Remains {
    /// The worker's status as `wait` returns it; `None` if it was still running and was ended.
    pub status: Option<i32>,
    /// Processes that the worker had started, directly or not, and that nobody had waited for.
    pub processes: u64,
    /// Those of them that were still running, and were ended.
    pub running: u64,
}

/// A frame's payload may have at most this many bytes.
pub const FRAME_LIMIT: u32 = 64 << 20;

/// A request to a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case")]
pub enum Request {
    /// Open a plugin and say what it is and which devices it sees.
    Describe {
        /// [`PROTOCOL_VERSION`] of the host.
        protocol_version: u32,
        /// The plugin's library.
        library: PathBuf,
        /// SHA-256 of the admitted library; any other is refused. `None` if it is unknown.
        #[serde(default)]
        sha256: Option<String>,
    },
    /// Read the structure of a model's file, without a plugin.
    Inspect {
        /// [`PROTOCOL_VERSION`] of the host.
        protocol_version: u32,
        /// The model.
        model: PathBuf,
    },
    /// Check the files of inputs and labels of a case against its model's file, without a plugin.
    CheckInputs {
        /// [`PROTOCOL_VERSION`] of the host.
        protocol_version: u32,
        /// The case.
        case: Box<CaseSpec>,
        /// Its files on the worker's machine; the library is not opened.
        files: Box<CaseFiles>,
    },
    /// Measure what the processor can do at most, without a plugin, on the processors that a case may use.
    Calibrate {
        /// [`PROTOCOL_VERSION`] of the host.
        protocol_version: u32,
        /// The case.
        case: Box<CaseSpec>,
    },
    /// Repeat the same work, without a plugin, to see how far it takes a different time.
    Noise {
        /// [`PROTOCOL_VERSION`] of the host.
        protocol_version: u32,
        /// Time to repeat it for, in nanoseconds.
        duration_ns: u64,
    },
    /// Measure one case.
    Measure {
        /// [`PROTOCOL_VERSION`] of the host.
        protocol_version: u32,
        /// The case.
        case: Box<CaseSpec>,
        /// Its files on the worker's machine.
        files: Box<CaseFiles>,
        /// File with the reference's outputs, for a case that has a check.
        #[serde(default)]
        reference: Option<PathBuf>,
        /// Peaks of the processor, if it was calibrated.
        #[serde(default)]
        calibration: Option<Result<Calibration, Gap>>,
    },
    /// Run a case once for each of two batches, and keep the outputs.
    Reference {
        /// [`PROTOCOL_VERSION`] of the host.
        protocol_version: u32,
        /// The case of the reference.
        case: Box<CaseSpec>,
        /// Its files on the worker's machine.
        files: Box<CaseFiles>,
        /// File for its outputs.
        file: PathBuf,
    },
}

impl Request {
    /// Returns the plugin's library; `None` if no plugin is opened.
    #[must_use]
    pub fn library(&self) -> Option<&Path> {
        match self {
            Self::Describe { library, .. } => Some(library),
            Self::Inspect { .. }
            | Self::CheckInputs { .. }
            | Self::Calibrate { .. }
            | Self::Noise { .. } => None,
            Self::Measure { files, .. } | Self::Reference { files, .. } => Some(&files.library),
        }
    }
}

/// The files of a case on the machine of its worker. The host has found them by their
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

/// A plugin's description, and its devices.
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

/// A message from a worker.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// First message: the worker has started, with this version of the protocol.
    Hello {
        /// [`PROTOCOL_VERSION`] of the worker.
        protocol_version: u32,
        /// The worker's process, if it is not the one that the host has started.
        process: Option<u32>,
    },
    /// The worker has entered a phase.
    Entered(Phase),
    /// Sign of progress. Sent at most once in a tenth of the time-out, and never
    /// from the timed part.
    Progress,
    /// Its backend says within a call that the work goes on. Sent at most once in a tenth of the time-out.
    Working {
        /// Part of the call that is done, 0 to 1, if that is known.
        part: Option<f64>,
        /// Current activity; may be empty.
        doing: String,
    },
    /// Its backend can be asked to end what is under way: [`CANCEL`] on standard input does.
    Cancellable,
    /// The worker is one side of a pair, and waits for a [`Baton`].
    Waiting {
        /// Queries before the blocks: of the turn's lead-in, or of the warm-up before the first turn.
        before: BlockTime,
        /// Blocks of the turn; none before the first turn.
        blocks: Vec<BlockTime>,
    },
    /// Answer to [`Request::Describe`].
    Described(Box<BackendDescription>),
    /// Answer to [`Request::Inspect`].
    Inspected(Box<ModelStructure>),
    /// Answer to [`Request::CheckInputs`]: they fit, or the model's file does not tell.
    Fits,
    /// Answer to [`Request::Calibrate`].
    Calibrated(Box<Calibration>),
    /// Answer to [`Request::Noise`].
    Noise(Box<NoiseProbe>),
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
    Hello { protocol_version: u32, process: Option<u32> },
    Entered(Phase),
    Progress,
    Working { part: Option<f64>, doing: String },
    Cancellable,
    Waiting { before: BlockTime, blocks: Vec<BlockTime> },
    Described(Box<BackendDescription>),
    Inspected(Box<ModelStructure>),
    Calibrated(Box<Calibration>),
    Noise(Box<NoiseProbe>),
    Finished(Box<WorkerReport>),
    Kept,
    Fits,
    Failed(Failure),
}

/// The clock counts from the worker's start, so no reading comes near this value, which is also
/// the largest signed number.
const LAST_NS: u64 = i64::MAX as u64;

const CONTROL: u8 = b'C';
const SAMPLES: u8 = b'S';
const OUTPUTS: u8 = b'O';

/// Writes one frame.
///
/// # Errors
///
/// If the pipe fails, or the payload is larger than [`FRAME_LIMIT`].
pub fn write_message(writer: &mut impl Write, message: &Message) -> io::Result<()> {
    let (kind, payload) = match message {
        Message::Samples(block) => (SAMPLES, encode_samples(block)?),
        Message::Outputs(block) => (OUTPUTS, encode_outputs(block)?),
        other => (CONTROL, encode_control(other)?),
    };
    let mut header = [kind, 0, 0, 0, 0];
    header[1..].copy_from_slice(&frame_length(payload.len())?.to_le_bytes());
    writer.write_all(&header)?;
    writer.write_all(&payload)?;
    writer.flush()
}

/// Writes a block of a closed loop that has no marks, as [`write_message`] writes its [`Message::Samples`], but straight
/// from the loop's readings: no copy of them is made except the one that is written, and it is made in `buffer`, which
/// the caller keeps, in one call of the writer. This is done for every query.
///
/// # Errors
///
/// As [`write_message`].
pub fn write_chain(
    writer: &mut impl Write,
    buffer: &mut Vec<u8>,
    block: ChainBlock<'_>,
) -> io::Result<()> {
    const BEGINNING: usize = 5 + 14;
    let ChainBlock { phase, items_per_query, lane, edges } = block;
    let length = BEGINNING + 8 * edges.len();
    // Its contents are overwritten.
    buffer.resize(length, 0);
    let (beginning, words) = buffer.split_at_mut(BEGINNING);
    beginning[0] = SAMPLES;
    beginning[1..5].copy_from_slice(&frame_length(length - 5)?.to_le_bytes());
    (beginning[5], beginning[6]) = (phase as u8, CHAIN);
    beginning[7..11].copy_from_slice(&lane.to_le_bytes());
    beginning[11..].copy_from_slice(&items_per_query.to_le_bytes());
    let (words, _) = words.as_chunks_mut::<8>();
    for (word, edge) in words.iter_mut().zip(edges) {
        *word = edge.to_le_bytes();
    }
    writer.write_all(buffer)?;
    writer.flush()
}

/// A block of a closed loop, borrowed from the loop: see [`SampleBlock`].
#[derive(Debug, Clone, Copy)]
pub struct ChainBlock<'a> {
    /// Phase of the case.
    pub phase: SamplePhase,
    /// Items of each query.
    pub items_per_query: u64,
    /// The client that made the queries.
    pub lane: u32,
    /// The chain of readings: see [`SampleTimes::Chain`].
    pub edges: &'a [u64],
}

fn frame_length(bytes: usize) -> io::Result<u32> {
    let length = u32::try_from(bytes).ok().filter(|length| *length <= FRAME_LIMIT);
    length.ok_or_else(|| invalid(format!("a frame of {bytes} bytes is larger than {FRAME_LIMIT}")))
}

/// A frame that has arrived whole and is not understood yet.
#[derive(Debug)]
pub struct Frame {
    kind: u8,
    payload: Vec<u8>,
}

impl Frame {
    /// Decodes the message. This can take seconds for millions of numbers.
    ///
    /// # Errors
    ///
    /// `InvalidData` if the payload is not of this protocol, or is impossible.
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
/// `InvalidData` if the bytes are not of this protocol, `UnexpectedEof` if the stream ends
/// inside a frame, or the pipe's error.
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
        Message::Hello { protocol_version, process } => {
            Control::Hello { protocol_version, process }
        }
        Message::Entered(phase) => Control::Entered(phase),
        Message::Progress => Control::Progress,
        Message::Working { part, doing } => Control::Working { part, doing },
        Message::Cancellable => Control::Cancellable,
        Message::Waiting { before, blocks } => Control::Waiting { before, blocks },
        Message::Described(description) => Control::Described(description),
        Message::Inspected(structure) => Control::Inspected(structure),
        Message::Calibrated(calibration) => Control::Calibrated(calibration),
        Message::Noise(probe) => Control::Noise(probe),
        Message::Finished(report) => Control::Finished(report),
        Message::Kept => Control::Kept,
        Message::Fits => Control::Fits,
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
        Control::Hello { protocol_version, process } => {
            Message::Hello { protocol_version, process }
        }
        Control::Entered(phase) => Message::Entered(phase),
        Control::Progress => Message::Progress,
        Control::Working { part, doing } => Message::Working { part, doing },
        Control::Cancellable => Message::Cancellable,
        Control::Waiting { before, blocks } => Message::Waiting { before, blocks },
        Control::Described(description) => Message::Described(description),
        Control::Inspected(structure) => Message::Inspected(structure),
        Control::Calibrated(calibration) => Message::Calibrated(calibration),
        Control::Noise(probe) => Message::Noise(probe),
        Control::Finished(report) => Message::Finished(report),
        Control::Kept => Message::Kept,
        Control::Fits => Message::Fits,
        Control::Failed(failure) => Message::Failed(failure),
    })
}

const CHAIN: u8 = 0;
const SCHEDULED: u8 = 1;
/// Added to the form of the times where marks follow them.
const MARKED: u8 = 0x80;

/// Encodes a block: phase, encoding of the times, lane (four bytes), samples in a query (eight bytes), then
/// the times. In a block with marks, the number of words of the times comes before them. After them come the
/// number of words of the phases' names, the names as JSON padded with spaces to a whole word, and counts,
/// ends and times within.
fn encode_samples(block: &SampleBlock) -> io::Result<Vec<u8>> {
    let marked = block.marks.as_ref().map_or(0, |marks| 64 + 2 * marks.bytes());
    let mut payload = Vec::with_capacity(22 + block.bytes() + marked);
    payload.push(block.phase as u8);
    let form = match block.times {
        SampleTimes::Chain(_) => CHAIN,
        SampleTimes::Scheduled(_) => SCHEDULED,
    };
    payload.push(if block.marks.is_some() { form | MARKED } else { form });
    payload.extend_from_slice(&block.lane.to_le_bytes());
    payload.extend_from_slice(&block.items_per_query.to_le_bytes());
    if block.marks.is_some() {
        put(&mut payload, std::iter::once([(block.bytes() / 8) as u64]));
    }
    match &block.times {
        SampleTimes::Chain(edges) => put(&mut payload, edges.iter().map(|edge| [*edge])),
        SampleTimes::Scheduled(queries) => {
            let times =
                |query: &ScheduledTimes| [query.scheduled_ns, query.begun_ns, query.ended_ns];
            put(&mut payload, queries.iter().map(times));
        }
    }
    if let Some(Marks { phases, ends_ns, counts, within_ns }) = &block.marks {
        let mut names = serde_json::to_vec(phases)?;
        names.resize(names.len().next_multiple_of(8), b' ');
        put(&mut payload, std::iter::once([(names.len() / 8) as u64]));
        payload.extend_from_slice(&names);
        put(&mut payload, counts.iter().map(|count| [u64::from(*count)]));
        put(&mut payload, ends_ns.iter().map(|end| [*end]));
        put(&mut payload, within_ns.iter().map(|time| [*time]));
    }
    Ok(payload)
}

/// Appends numbers. Room is reserved once instead of for each number: this is done for every query.
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
    let is_marked = form & MARKED != 0;
    let (times, marked) = match is_marked {
        true => take_words(words).ok_or_else(|| invalid("a sample block without its times"))?,
        false => (words, &[][..]),
    };
    let words = numbers(times)?;
    let times = match form & !MARKED {
        CHAIN => chain(words)?,
        SCHEDULED => scheduled(&words)?,
        other => return Err(invalid(format!("{other} is no form of times"))),
    };
    let items_per_query = u64::from_le_bytes(*items);
    let lane = u32::from_le_bytes([a, b, c, d]);
    let block = SampleBlock { phase, items_per_query, lane, times, marks: None };
    let marks = is_marked.then(|| decode_marks(&block, marked)).transpose()?;
    Ok(SampleBlock { marks, ..block })
}

/// Decodes times and rejects those beyond the end of the clock.
fn numbers(words: &[[u8; 8]]) -> io::Result<Vec<u64>> {
    let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
    if words.iter().any(|time| *time > LAST_NS) {
        return Err(invalid("a sample block from beyond the end of the clock"));
    }
    Ok(words)
}

/// A number of eight bytes, little-endian.
type Word = [u8; 8];

/// Splits off as many words as the first one counts.
fn take_words(words: &[Word]) -> Option<(&[Word], &[Word])> {
    let (count, rest) = words.split_first()?;
    rest.split_at_checked(usize::try_from(u64::from_le_bytes(*count)).ok()?)
}

/// Decodes the marks of a block's queries.
fn decode_marks(block: &SampleBlock, words: &[[u8; 8]]) -> io::Result<Marks> {
    let cut = || invalid("a sample block without its marks");
    let (names, words) = take_words(words).ok_or_else(cut)?;
    let phases: Vec<String> = serde_json::from_slice(names.as_flattened())
        .map_err(|error| invalid(format!("names of phases: {error}")))?;
    let (counts, words) = words.split_at_checked(block.len()).ok_or_else(cut)?;
    let ends = block.len().checked_mul(phases.len()).ok_or_else(cut)?;
    let (ends, within) = words.split_at_checked(ends).ok_or_else(cut)?;
    let counts = counts.iter().map(|word| u32::try_from(u64::from_le_bytes(*word)));
    let counts: Vec<u32> = counts
        .collect::<Result<_, _>>()
        .map_err(|_| invalid("a query with too many times within"))?;
    let marks = Marks { phases, ends_ns: numbers(ends)?, counts, within_ns: numbers(within)? };
    let counted: u64 = marks.counts.iter().map(|count| u64::from(*count)).sum();
    if counted != marks.within_ns.len() as u64 {
        return Err(invalid("a sample block with times within that belong to no query"));
    }
    for ((begun_ns, ended_ns), (ends, within)) in block.spans().zip(marks.queries()) {
        for times in [ends, within] {
            let inside = |time: &u64| (begun_ns..=ended_ns).contains(time);
            if !times.is_sorted() || !times.iter().all(inside) {
                return Err(invalid("a query with a mark that is not within it, or goes back"));
            }
        }
    }
    Ok(marks)
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
    values: ValueType,
}

/// Encoding of a block's values.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ValueType {
    /// Little-endian 32-bit floats.
    Numbers,
    /// A byte each.
    Booleans,
    /// A JSON array.
    Texts,
}

fn encode_outputs(block: &OutputBlock) -> io::Result<Vec<u8>> {
    let header = OutputHeader {
        name: block.name.clone(),
        first_example: block.first_example,
        width: block.width,
        values: match block.values {
            OutputValues::Numbers(_) => ValueType::Numbers,
            OutputValues::Booleans(_) => ValueType::Booleans,
            OutputValues::Texts(_) => ValueType::Texts,
        },
    };
    let mut payload = serde_json::to_vec(&header)?;
    payload.push(b'\n');
    match &block.values {
        OutputValues::Numbers(values) => {
            payload.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        }
        OutputValues::Booleans(values) => {
            payload.extend(values.iter().map(|value| u8::from(*value)));
        }
        OutputValues::Texts(values) => serde_json::to_writer(&mut payload, values)?,
    }
    Ok(payload)
}

fn decode_outputs(payload: &[u8]) -> io::Result<OutputBlock> {
    let end = payload.iter().position(|byte| *byte == b'\n');
    let end = end.ok_or_else(|| invalid("an output block without a header"))?;
    let header: OutputHeader =
        serde_json::from_slice(&payload[..end]).map_err(|error| invalid(error.to_string()))?;
    let body = &payload[end + 1..];
    let values = match header.values {
        ValueType::Numbers => {
            let (words, remainder) = body.as_chunks::<4>();
            if !remainder.is_empty() {
                return Err(invalid("an output block of a fractional length"));
            }
            OutputValues::Numbers(words.iter().map(|word| f32::from_le_bytes(*word)).collect())
        }
        ValueType::Booleans => OutputValues::Booleans(body.iter().map(|byte| *byte != 0).collect()),
        ValueType::Texts => OutputValues::Texts(
            serde_json::from_slice(body).map_err(|error| invalid(error.to_string()))?,
        ),
    };
    let whole = usize::try_from(header.width)
        .is_ok_and(|width| width > 0 && values.len().is_multiple_of(width));
    if !whole {
        return Err(invalid(format!(
            "output `{}`: {} values are not whole examples of {} values",
            header.name,
            values.len(),
            header.width
        )));
    }
    Ok(OutputBlock {
        name: header.name,
        first_example: header.first_example,
        width: header.width,
        values,
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
    fn a_chain_is_written_as_its_message_is() {
        let mut buffer = vec![7; 100];
        for edges in [vec![5, 9, u64::MAX], vec![1], vec![2; 40]] {
            let (phase, items_per_query, lane) = (SamplePhase::Search, 300, 7);
            let mut written = Vec::new();
            let block = ChainBlock { phase, items_per_query, lane, edges: &edges };
            write_chain(&mut written, &mut buffer, block).expect("memory");
            let times = SampleTimes::Chain(edges);
            let block = SampleBlock { phase, items_per_query, lane, times, marks: None };
            let mut expected = Vec::new();
            write_message(&mut expected, &Message::Samples(block)).expect("memory");
            assert_eq!(written, expected);
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let block = SampleBlock {
            phase: SamplePhase::Measured,
            items_per_query: 8,
            lane: 0,
            times: SampleTimes::Chain(vec![5, 9, LAST_NS]),
            marks: None,
        };
        let marked = SampleBlock {
            marks: Some(Marks {
                phases: vec!["prefill".into(), "decode".into()],
                ends_ns: vec![5, 9, 10, LAST_NS],
                counts: vec![0, 3],
                within_ns: vec![9, 9, LAST_NS],
            }),
            ..block.clone()
        };
        let unnamed = SampleBlock {
            marks: Some(Marks { counts: vec![1, 0], within_ns: vec![7], ..Marks::default() }),
            ..block.clone()
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
            values: vec![0.5, f32::INFINITY, -0.0, 1e-40].into(),
        };
        let booleans =
            OutputBlock { values: OutputValues::Booleans(vec![true, false]), ..outputs.clone() };
        let texts = OutputBlock {
            values: OutputValues::Texts(vec!["a\n\"b\"".into(), String::new()]),
            ..outputs.clone()
        };
        let failure = Failure::TimedOut { phase: Phase::Load, limit_ns: 1 };
        for message in [
            Message::Hello { protocol_version: 1, process: Some(7) },
            Message::Entered(Phase::WarmUp),
            Message::Progress,
            Message::Working { part: Some(0.5), doing: "compiling".into() },
            Message::Cancellable,
            Message::Waiting {
                before: BlockTime { queries: 3, timed_ns: 7, usual_ns: 0.0 },
                blocks: vec![BlockTime { queries: 30, timed_ns: 70, usual_ns: 2.25 }; 2],
            },
            Message::Kept,
            Message::Fits,
            Message::Samples(block),
            Message::Samples(marked),
            Message::Samples(unnamed),
            Message::Samples(scheduled),
            Message::Outputs(outputs),
            Message::Outputs(booleans),
            Message::Outputs(texts),
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
        let outputs = |width, values: Vec<f32>| {
            let (name, values) = ("logits".into(), values.into());
            Message::Outputs(OutputBlock { name, first_example: 0, width, values })
        };
        let message = refused(&outputs(2, vec![1.0; 3]));
        assert_eq!(message, "output `logits`: 3 values are not whole examples of 2 values");
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
                marks: None,
            }));
        }
        let phases = || vec!["forward".to_owned()];
        for marks in [
            Marks { phases: phases(), ends_ns: vec![4, 20], counts: vec![0, 0], within_ns: vec![] },
            Marks { phases: phases(), ends_ns: vec![5, 21], counts: vec![0, 0], within_ns: vec![] },
            Marks { phases: phases(), ends_ns: vec![5], counts: vec![0, 0], within_ns: vec![] },
            Marks { phases: phases(), ends_ns: vec![6, 12], counts: vec![0], within_ns: vec![] },
            Marks { counts: vec![1, 1], within_ns: vec![6, 7, 8], ..Marks::default() },
            Marks { counts: vec![2, 0], within_ns: vec![8, 7], ..Marks::default() },
            Marks { counts: vec![0, 1], within_ns: vec![8], ..Marks::default() },
        ] {
            refused(&Message::Samples(SampleBlock {
                phase: SamplePhase::Measured,
                items_per_query: 1,
                lane: 0,
                times: SampleTimes::Chain(vec![5, 10, 20]),
                marks: Some(marks),
            }));
        }
    }
}
