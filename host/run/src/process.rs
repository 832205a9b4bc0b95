//! One worker process: its pipes, the threads that read them, and its end.

use std::collections::VecDeque;
use std::io::{self, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use host_record::protocol::{CANCEL, Frame, Message, Remains, read_frame};

use crate::platform;

/// Limit on the kept end of a worker's standard error, which contains the reason of a failure.
const STANDARD_ERROR_LIMIT: usize = 64 << 10;

/// Frames that may wait for the host before the worker must wait.
const FRAMES_IN_FLIGHT: usize = 64;

/// Time for a worker's overseer to end all processes that the worker started.
const OVERSEER_GRACE: Duration = Duration::from_secs(10);

/// Time to wait for the last output of an ended process. It only matters without an overseer, if a process that left
/// the group kept a pipe.
const LAST_WORDS_GRACE: Duration = Duration::from_millis(500);

/// Events of a worker.
pub(crate) enum Event {
    /// A frame.
    Frame(Message),
    /// The pipe could not be read, or the data is not a frame.
    Broken(io::Error),
    /// The worker closed its end of the pipe.
    Closed,
}

/// End of a worker.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) status: ExitStatus,
    /// The end of its standard error.
    pub(crate) standard_error: String,
    /// The processes that it left.
    pub(crate) remains: Remains,
}

/// A worker process, which does not outlive this value.
pub(crate) struct Worker {
    child: Child,
    /// The other side of its standard input.
    stdin: UnixStream,
    /// Receives a value once the request has been written.
    written: Receiver<()>,
    events: Receiver<Event>,
    /// Whether a received frame is still being decoded.
    decoding: Arc<AtomicBool>,
    standard_error: StandardError,
    reaped: bool,
}

impl Worker {
    /// Starts `executable` in a separate process group, with the environment for a plugin on this runtime and with
    /// these variables of the host, and sends it the request.
    pub(crate) fn start(
        executable: &Path,
        runtime: Option<&Path>,
        variables: &[String],
        request: Vec<u8>,
    ) -> io::Result<Self> {
        let mut command = Command::new(executable);
        crate::environment::set_environment(&mut command, runtime, variables);
        let (stdin, theirs) = UnixStream::pair()?;
        stdin.set_read_timeout(Some(LAST_WORDS_GRACE))?;
        let mut writer = stdin.try_clone()?;
        command.stdin(OwnedFd::from(theirs)).stdout(Stdio::piped()).stderr(Stdio::piped());
        platform::separate(&mut command);
        let mut child = command.spawn()?;
        // Only the worker keeps its side.
        drop(command);
        let stdout = child.stdout.take().expect("it is piped");
        let stderr = child.stderr.take().expect("it is piped");
        platform::widen(&stdout);

        let (sender, events) = sync_channel(FRAMES_IN_FLIGHT);
        let decoding = Arc::new(AtomicBool::new(false));
        let at_work = Arc::clone(&decoding);
        let (done, written) = channel();
        thread::spawn(move || {
            // A worker that does not read its request is detected by its silence, and a dead one by its end, so an
            // error here adds nothing.
            let _ = writer.write_all(&request);
            let _ = done.send(());
            read_frames(BufReader::new(stdout), &sender, &at_work);
        });
        let standard_error = StandardError::read(stderr);
        Ok(Self { child, stdin, written, events, decoding, standard_error, reaped: false })
    }

    /// Asks the worker to cancel the call in progress, and waits for some time. Its messages are discarded meanwhile.
    pub(crate) fn cancel(&self, limit: Duration) {
        let deadline = Instant::now() + limit;
        if self.written.try_recv().is_err() || writeln!(&self.stdin, "{CANCEL}").is_err() {
            return;
        }
        // Frames are taken so that the worker does not wait for room in the pipe.
        while let Some(Event::Frame(_)) =
            self.next_event(deadline.saturating_duration_since(Instant::now()))
        {}
        self.wait_for_end(deadline.saturating_duration_since(Instant::now()));
    }

    /// Returns the other side of its standard input, to answer it from another thread.
    pub(crate) fn answers(&self) -> io::Result<UnixStream> {
        self.stdin.try_clone()
    }

    /// Returns the process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the next event, if one comes in time.
    pub(crate) fn next_event(&self, limit: Duration) -> Option<Event> {
        match self.events.recv_timeout(limit) {
            Ok(event) => Some(event),
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => None,
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => Some(Event::Closed),
        }
    }

    /// Returns whether a received frame is still being decoded; then an event will follow even if the process has
    /// ended.
    pub(crate) fn is_decoding(&self) -> bool {
        self.decoding.load(Ordering::Acquire)
    }

    /// Returns whether the process has ended.
    pub(crate) fn has_ended(&self) -> bool {
        platform::has_ended(&self.child)
    }

    /// Waits for the process to end by itself. Returns whether it did.
    pub(crate) fn wait_for_end(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        let mut pause = Duration::from_micros(100);
        while !self.has_ended() {
            if Instant::now() >= deadline {
                return false;
            }
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
        true
    }

    /// Ends the process and everything that it started, and returns its end.
    pub(crate) fn end(mut self) -> io::Result<End> {
        let status = self.kill_and_reap()?;
        let standard_error = self.standard_error.finish(LAST_WORDS_GRACE);
        let remains = self.remains().unwrap_or_default();
        let status = remains.status.map_or(status, platform::status);
        Ok(End { status, standard_error, remains })
    }

    /// Returns the report of the worker's overseer, if there is one.
    fn remains(&self) -> Option<Remains> {
        const LONGEST: u64 = 4096;
        let mut text = String::new();
        (&self.stdin).take(LONGEST).read_to_string(&mut text).ok()?;
        serde_json::from_str(text.lines().next_back()?).ok()
    }

    fn kill_and_reap(&mut self) -> io::Result<ExitStatus> {
        // An overseer ends the worker's processes before it exits.
        platform::ask_to_end(&self.child);
        self.wait_for_end(OVERSEER_GRACE);
        // The process is reaped after its group is killed, so the group's id is still valid.
        platform::kill_group(&self.child);
        let status = self.child.wait();
        self.reaped = true;
        status
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if !self.reaped {
            let _ = self.kill_and_reap();
        }
    }
}

fn read_frames(mut reader: impl Read, sender: &SyncSender<Event>, decoding: &AtomicBool) {
    loop {
        let event = match read_frame(&mut reader) {
            Ok(Some(frame)) => {
                decoding.store(true, Ordering::Release);
                Frame::decode(frame).map_or_else(Event::Broken, Event::Frame)
            }
            Ok(None) => Event::Closed,
            Err(error) => Event::Broken(error),
        };
        let last = !matches!(event, Event::Frame(_));
        // The receiver is gone once the host has decided about this worker.
        let received = sender.send(event).is_ok();
        decoding.store(false, Ordering::Release);
        if last || !received {
            return;
        }
    }
}

/// The end of a process's standard error, read by a thread so that the process
/// never waits for it.
struct StandardError {
    kept: Arc<Mutex<VecDeque<u8>>>,
    done: Receiver<()>,
}

impl StandardError {
    fn read(mut reader: impl Read + Send + 'static) -> Self {
        let kept = Arc::new(Mutex::new(VecDeque::new()));
        let (sender, done) = sync_channel(1);
        let shared = Arc::clone(&kept);
        thread::spawn(move || {
            let mut buffer = [0; 8 << 10];
            while let Ok(count @ 1..) = reader.read(&mut buffer) {
                let mut kept = shared.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend(&buffer[..count]);
                let excess = kept.len().saturating_sub(STANDARD_ERROR_LIMIT);
                kept.drain(..excess);
            }
            let _ = sender.send(());
        });
        Self { kept, done }
    }

    fn finish(&self, limit: Duration) -> String {
        let _ = self.done.recv_timeout(limit);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = kept.make_contiguous();
        // If the beginning was cut off, the text starts at the first whole character.
        let cut = bytes.len() >= STANDARD_ERROR_LIMIT;
        let start = bytes.iter().position(|byte| !cut || byte & 0xC0 != 0x80).unwrap_or(0);
        String::from_utf8_lossy(&bytes[start..]).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_standard_error_is_kept() {
        let text = "é".repeat(STANDARD_ERROR_LIMIT) + "!";
        let standard_error = StandardError::read(io::Cursor::new(text.into_bytes()));
        let kept = standard_error.finish(Duration::from_secs(60));
        assert_eq!(kept.len(), STANDARD_ERROR_LIMIT - 1);
        assert!(kept.starts_with("éé") && kept.ends_with("é!"));
    }
}
