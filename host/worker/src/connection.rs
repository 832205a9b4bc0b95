//! The worker's end of the pipe to the host.

use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

use host_record::Phase;
use host_record::protocol::{ChainBlock, Message, write_chain, write_message};
use plugin_api::client::{OnProgress, ProgressReport};

use crate::platform;

/// Sends frames to the host.
pub(crate) struct Connection {
    pipe: File,
    sent: Instant,
    /// Memory for frames of samples.
    buffer: Vec<u8>,
    /// The one process that sends frames.
    process: u32,
}

/// Ends a copy of the worker. A plugin that forks and returns in both processes makes one, which would go on
/// measuring and send its frames between the worker's.
fn end_copy(worker: u32) {
    if std::process::id() != worker {
        platform::end(1);
    }
}

impl Connection {
    pub(crate) fn new(pipe: File) -> Self {
        Self { pipe, sent: Instant::now(), buffer: Vec::new(), process: std::process::id() }
    }

    /// Passes on what a backend says of its progress from within a call, at most once in `interval`. This
    /// thread waits for the call meanwhile, so that no other frame is under way.
    pub(crate) fn reporter(&self, interval: Duration) -> io::Result<OnProgress> {
        let mut pipe = self.pipe.try_clone()?;
        let mut sent: Option<Instant> = None;
        let worker = self.process;
        Ok(Box::new(move |report| {
            if sent.is_some_and(|sent| sent.elapsed() < interval) {
                return;
            }
            end_copy(worker);
            let ProgressReport { part, doing } = report;
            // If the host is gone, the next frame of ours finds that out.
            let _ = write_message(&mut pipe, &Message::Working { part, doing });
            sent = Some(Instant::now());
        }))
    }

    /// Sends a frame.
    pub(crate) fn send(&mut self, message: &Message) -> io::Result<()> {
        end_copy(self.process);
        write_message(&mut self.pipe, message)?;
        self.sent = Instant::now();
        Ok(())
    }

    /// Sends the samples of a closed loop without marks.
    pub(crate) fn send_chain(&mut self, block: ChainBlock<'_>) -> io::Result<()> {
        end_copy(self.process);
        write_chain(&mut self.pipe, &mut self.buffer, block)?;
        self.sent = Instant::now();
        Ok(())
    }

    /// Says that a phase begins.
    pub(crate) fn enter(&mut self, phase: Phase) -> io::Result<()> {
        self.send(&Message::Entered(phase))
    }

    /// Says that work goes on, unless something was sent within `interval`. Never called from the
    /// timed part.
    pub(crate) fn progress(&mut self, interval: Duration) -> io::Result<()> {
        if self.sent.elapsed() < interval { Ok(()) } else { self.send(&Message::Progress) }
    }
}
