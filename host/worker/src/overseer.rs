/*!
The worker's other half, which outlives it.

A plugin may start processes, leave them behind, or take the worker down with it. So the process that the host starts
splits in two before it does anything else. One half is the worker. The other, its overseer, has no plugin in it,
waits until the worker ends or the host asks for the end, then ends every process below itself, and tells the host how
the worker ended and what it left (see [`Remains`]).

It also stands between the plugin and the standard error that the host keeps. What is written to the
worker's standard output and standard error passes through it and is counted, so that output of timed code is
found, and the last words of a worker that crashes are not lost. It sleeps in the kernel while nothing is
written.
*/

use std::io::{self, PipeReader, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use host_descendants::Signals;
use host_record::Doubt;
use host_record::protocol::Remains;
use rustix::process::{Pid, WaitOptions, WaitStatus};

use crate::platform::{self, Outputs};

/// Time for processes that the worker leaves behind to end by themselves.
const GRACE: Duration = Duration::from_millis(200);

/// Time that the worker waits for an answer. It is not waiting for anything that is timed.
const ANSWER: Duration = Duration::from_secs(1);

/// Bytes written so far by the worker and what it started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) standard_output: u64,
    pub(crate) standard_error: u64,
}

impl Written {
    /// Returns the doubt if more was written until a later moment.
    pub(crate) fn doubt(self, later: Self) -> Option<Doubt> {
        let standard_output_bytes = later.standard_output.saturating_sub(self.standard_output);
        let standard_error_bytes = later.standard_error.saturating_sub(self.standard_error);
        (standard_output_bytes + standard_error_bytes > 0)
            .then_some(Doubt::OutputWritten { standard_output_bytes, standard_error_bytes })
    }
}

/// The overseer as the worker knows it.
struct Known {
    /// The host and the overseer.
    processes: Vec<u32>,
    questions: Mutex<UnixStream>,
}

static OVERSEER: OnceLock<Known> = OnceLock::new();

/// Returns the processes that take and store what this worker measures: the host and the overseer.
pub(crate) fn host() -> Vec<u32> {
    match OVERSEER.get() {
        Some(known) => known.processes.clone(),
        None => parent().map(number).into_iter().collect(),
    }
}

/// Returns how much has been written until now; `None` without an overseer.
pub(crate) fn written() -> Option<Written> {
    let mut stream = OVERSEER.get()?.questions.lock().unwrap_or_else(PoisonError::into_inner);
    let mut answer = [0; 16];
    stream.write_all(b"?").and_then(|()| stream.read_exact(&mut answer)).ok()?;
    let (first, second) = answer.as_chunks().0.split_first()?;
    Some(Written {
        standard_output: u64::from_ne_bytes(*first),
        standard_error: u64::from_ne_bytes(*second.first()?),
    })
}

/// Splits this process, which must have one thread, and returns in the half that is the worker.
///
/// # Errors
///
/// If the system has no room for another process or for pipes. The worker is then on its own.
pub(crate) fn split() -> io::Result<Outputs> {
    let host = parent();
    let (output, standard_output) = io::pipe()?;
    let (errors, standard_error) = io::pipe()?;
    let (ours, theirs) = UnixStream::pair()?;
    theirs.set_read_timeout(Some(ANSWER))?;
    let overseer = std::process::id();
    // SAFETY: this is the only thread, so that no lock is held and no memory is half written.
    let worker = match unsafe { libc::fork() } {
        -1 => return Err(io::Error::last_os_error()),
        0 => None,
        worker => Pid::from_raw(worker),
    };
    let Some(worker) = worker else {
        drop((output, errors, ours));
        platform::lead_a_group();
        let processes = host.map(number).into_iter().chain([overseer]).collect();
        // This half has just begun, and nobody else has set it.
        let _ = OVERSEER.set(Known { processes, questions: Mutex::new(theirs) });
        return Ok(Outputs { standard_output, standard_error });
    };
    drop((standard_output, standard_error, theirs));
    let streams = [Stream::new(output), Stream::new(errors)];
    Overseer { host, worker, streams, questions: Some(ours) }.serve()
}

fn parent() -> Option<Pid> {
    rustix::process::getppid()
}

fn number(process: Pid) -> u32 {
    process.as_raw_nonzero().get().unsigned_abs()
}

/// A stream of the worker's, on its way to standard error.
struct Stream {
    reader: Option<PipeReader>,
    written: u64,
}

impl Stream {
    fn new(reader: PipeReader) -> Self {
        Self { reader: Some(reader), written: 0 }
    }

    /// Passes on what can be read without waiting.
    fn forward(&mut self) {
        let mut bytes = [0; 16 << 10];
        while let Some(reader) = self.reader.as_mut().filter(is_readable) {
            match reader.read(&mut bytes) {
                Ok(0) | Err(_) => self.reader = None,
                Ok(count) => {
                    self.written += count as u64;
                    // Without a host, nobody reads it.
                    let _ = io::stderr().write_all(&bytes[..count]);
                }
            }
        }
    }
}

struct Overseer {
    host: Option<Pid>,
    worker: Pid,
    streams: [Stream; 2],
    questions: Option<UnixStream>,
}

impl Overseer {
    fn serve(mut self) -> ! {
        host_descendants::adopt_orphans();
        let signals = Signals::watch();
        platform::end_overseer_with_host();
        // The protocol's pipe is the worker's alone, so that its end is seen.
        let _ = rustix::stdio::dup2_stdout(rustix::stdio::stderr());
        let status = match &signals {
            Ok(signals) => self.watch(signals),
            Err(_) => self.wait(),
        };
        let running = status.is_none().then(|| number(self.worker));
        let grace = if running.is_some() { Duration::ZERO } else { GRACE };
        let left = host_descendants::end_all(running, grace);
        host_descendants::end_group(number(self.worker));
        self.streams.iter_mut().for_each(Stream::forward);
        let remains = Remains {
            status: status.map(WaitStatus::as_raw),
            processes: left.processes,
            running: left.running,
        };
        if let Ok(mut line) = serde_json::to_vec(&remains) {
            line.push(b'\n');
            // Whoever starts a worker by hand has another standard input than the host's.
            let _ = rustix::io::write(rustix::stdio::stdin(), &line);
        }
        let code = status.and_then(|status| {
            status.exit_status().or_else(|| status.terminating_signal().map(|signal| 128 + signal))
        });
        platform::end(code.unwrap_or(1))
    }

    /// Waits until the worker has ended and returns how, or until somebody asks for the end.
    fn watch(&mut self, signals: &Signals) -> Option<WaitStatus> {
        loop {
            // A worker that has ended by itself has ended by itself, whatever else happens.
            let ended = rustix::process::waitpid(Some(self.worker), WaitOptions::NOHANG);
            if let Ok(Some((_, status))) = ended {
                return Some(status);
            }
            if signals.take().is_some() || parent() != self.host {
                return None;
            }
            self.poll(signals);
            self.streams.iter_mut().for_each(Stream::forward);
            self.answer();
        }
    }

    /// Waits for the end of the worker and for nothing else.
    fn wait(&mut self) -> Option<WaitStatus> {
        self.streams.iter_mut().for_each(|stream| stream.reader = None);
        let ended = rustix::process::waitpid(Some(self.worker), WaitOptions::empty());
        ended.ok().flatten().map(|(_, status)| status)
    }

    /// Waits for something to do.
    fn poll(&self, signals: &Signals) {
        let readers = self.streams.iter().filter_map(|stream| stream.reader.as_ref());
        let questions = self.questions.iter().map(AsFd::as_fd);
        let all = readers.map(AsFd::as_fd).chain(questions).chain([signals.as_fd()]);
        let all: Vec<BorrowedFd<'_>> = all.collect();
        platform::wait_for_one(&all, None);
    }

    /// Answers the worker's question how much has been written, all of which has been read by now.
    fn answer(&mut self) {
        let Some(stream) = self.questions.as_mut().filter(is_readable) else {
            return;
        };
        if stream.read_exact(&mut [0]).is_err() {
            self.questions = None;
            return;
        }
        self.streams.iter_mut().for_each(Stream::forward);
        let counts = self.streams.each_ref().map(|stream| stream.written.to_ne_bytes());
        if stream.write_all(counts.as_flattened()).is_err() {
            self.questions = None;
        }
    }
}

/// Returns whether a read would not wait.
fn is_readable(source: &impl AsFd) -> bool {
    platform::wait_for_one(&[source.as_fd()], Some(Duration::ZERO))
}
