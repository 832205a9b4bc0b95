/*!
What the host and a worker say to each other.

The host writes one [`Request`] as a JSON line to the worker's standard input and closes it. The
worker answers with frames: a byte for the kind, the payload's length as a little-endian `u32`,
and the payload. Control is JSON; samples and outputs are raw little-endian numbers, since there
can be millions. The worker moves its end of the pipe away from descriptor 1 before a plugin is
opened, so what a plugin prints goes to standard error and cannot break a frame.
*/

use std::io::{self, Read, Write};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::case::{CaseSpec, DeviceInfo};
use crate::outcome::{Failure, Phase, WorkerReport};
use crate::sample::{OutputBlock, SampleBlock, SamplePhase};

/// Version of everything in this module. Host and worker are installed together; a mismatch means
/// a broken installation and is refused.
pub const PROTOCOL_VERSION: u32 = 1;

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
    },
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
        Control::Failed(failure) => Message::Failed(failure),
    })
}

fn encode_samples(block: &SampleBlock) -> Vec<u8> {
    let mut payload = Vec::with_capacity(9 + 8 * block.edges_ns.len());
    payload.push(match block.phase {
        SamplePhase::WarmUp => 0,
        SamplePhase::Measured => 1,
    });
    payload.extend_from_slice(&block.items_per_query.to_le_bytes());
    for edge in &block.edges_ns {
        payload.extend_from_slice(&edge.to_le_bytes());
    }
    payload
}

fn decode_samples(payload: &[u8]) -> io::Result<SampleBlock> {
    let (phase, rest) = payload.split_first().ok_or_else(|| invalid("an empty sample block"))?;
    let phase = match phase {
        0 => SamplePhase::WarmUp,
        1 => SamplePhase::Measured,
        other => return Err(invalid(format!("{other} is no sample phase"))),
    };
    let (words, remainder) = rest.as_chunks::<8>();
    let Some((items, edges)) = words.split_first().filter(|_| remainder.is_empty()) else {
        return Err(invalid("a sample block of a fractional length"));
    };
    if edges.is_empty() {
        return Err(invalid("a sample block without clock readings"));
    }
    let edges_ns: Vec<u64> = edges.iter().map(|word| u64::from_le_bytes(*word)).collect();
    if !edges_ns.is_sorted() {
        return Err(invalid("a sample block whose clock goes back"));
    }
    if edges_ns.last().is_some_and(|last| *last > LAST_NS) {
        return Err(invalid("a sample block from beyond the end of the clock"));
    }
    Ok(SampleBlock { phase, items_per_query: u64::from_le_bytes(*items), edges_ns })
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
            edges_ns: vec![5, 9, LAST_NS],
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
            Message::Samples(block),
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
        for edges_ns in [vec![7, 6], vec![0, u64::MAX]] {
            refused(&Message::Samples(SampleBlock {
                phase: SamplePhase::Measured,
                items_per_query: 1,
                edges_ns,
            }));
        }
    }
}
