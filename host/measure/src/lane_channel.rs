//! Channels that carry blocks from the lanes' threads to the caller's.
//!
//! Each lane has two buffers: it fills one while the other is with the caller.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use crate::error::MeasureError;

/// Message from a lane.
#[derive(Debug)]
enum Message<R, E> {
    Block { lane: u32, buffer: Box<[R]>, count: usize },
    Failed(E),
    Ended { panicked: bool },
}

/// A lane's end of its channel.
#[derive(Debug)]
pub(crate) struct BlockSender<R, E> {
    lane: u32,
    pub(crate) buffer: Box<[R]>,
    full: Sender<Message<R, E>>,
    empty: Receiver<Box<[R]>>,
}

impl<R, E> BlockSender<R, E> {
    /// Sends the target's error.
    pub(crate) fn fail(&self, error: E) {
        let _ = self.full.send(Message::Failed(error));
    }

    /// Sends the first `count` entries of the buffer and continues with an empty one.
    pub(crate) fn give(&mut self, count: usize) {
        // The caller's thread outlives the loop: neither channel is closed before this ends.
        if let Ok(next) = self.empty.recv() {
            let buffer = std::mem::replace(&mut self.buffer, next);
            let _ = self.full.send(Message::Block { lane: self.lane, buffer, count });
        }
    }
}

impl<R, E> Drop for BlockSender<R, E> {
    fn drop(&mut self) {
        let _ = self.full.send(Message::Ended { panicked: thread::panicking() });
    }
}

/// The caller's end of all channels.
pub(crate) struct BlockReceiver<R, E> {
    full: Receiver<Message<R, E>>,
    empty: Vec<Sender<Box<[R]>>>,
}

/// Creates the channels of `lanes` lanes. Their buffers are filled, so that their pages are mapped.
pub(crate) fn channels<R: Copy, E>(
    lanes: usize,
    length: usize,
    fill: R,
) -> (BlockReceiver<R, E>, Vec<BlockSender<R, E>>) {
    let (sender, full) = channel();
    let buffer = || vec![fill; length].into_boxed_slice();
    let (empty, senders) = (0..lanes as u32)
        .map(|lane| {
            let (give_back, empty) = channel();
            let _ = give_back.send(buffer());
            (give_back, BlockSender { lane, buffer: buffer(), full: sender.clone(), empty })
        })
        .unzip();
    (BlockReceiver { full, empty }, senders)
}

impl<R, E> BlockReceiver<R, E> {
    /// Takes blocks until every lane has ended. After a failure of a target, blocks of completed queries are
    /// still taken; after any other failure, none is.
    pub(crate) fn take_all<S>(
        self,
        mut take: impl FnMut(u32, &[R]) -> Result<(), MeasureError<E, S>>,
        stop: impl Fn(),
        lane_ended: impl Fn(),
    ) -> Result<(), MeasureError<E, S>> {
        let Self { full, empty } = self;
        let mut failure = None;
        let mut panicked_target = false;
        for message in full {
            match message {
                Message::Block { lane, buffer, count } => {
                    if !matches!(
                        failure,
                        Some(MeasureError::Sink(_) | MeasureError::ClockWentBack { .. })
                    ) && let Err(error) = take(lane, &buffer[..count])
                    {
                        stop();
                        failure = Some(error);
                    }
                    // A lane that has ended needs no buffer.
                    let _ = empty[lane as usize].send(buffer);
                }
                Message::Failed(error) => {
                    stop();
                    failure.get_or_insert(MeasureError::Target(error));
                }
                Message::Ended { panicked: true } => {
                    stop();
                    panicked_target = true;
                }
                Message::Ended { panicked: false } => lane_ended(),
            }
        }
        assert!(!panicked_target, "a target panicked");
        failure.map_or(Ok(()), Err)
    }
}
