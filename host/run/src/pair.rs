//! Two workers at the same time, one of which works while the other waits.
//!
//! Each waits for its turn in a read of its standard input. So no more than one of them ever works, from the start of the
//! first to the end of the second: the second is started when the first is ready to be timed, and each examines its
//! measurement while the other waits. A fault costs both sides of the pair and nothing else, since each is a process of
//! its own. Turns are given on the threads that watch the workers, and no thread of this process works within a turn.

use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use host_record::protocol::{Baton, BlockTime};

use crate::rounds::{PairRounds, Rounds};
use crate::supervise::Seat;

/// Gives two workers their turns.
pub(crate) struct Conductor {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    rounds: Rounds,
    answers: [Option<UnixStream>; 2],
    waiting: [bool; 2],
    over: [bool; 2],
    stage: Stage,
    /// When the last turn was given.
    given: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The sides are loaded, one after the other.
    Loading,
    /// They take turns.
    Turns,
    /// There are no more turns; they end one after the other.
    Ending,
    /// One of them ended before the last turn.
    GivenUp,
}

impl Conductor {
    pub(crate) fn new(rounds: Rounds) -> Self {
        let state = State {
            rounds,
            answers: [None, None],
            waiting: [false; 2],
            over: [false; 2],
            stage: Stage::Loading,
            given: Instant::now(),
        };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a side is ready for its first turn. Returns whether it is; otherwise it has ended.
    pub(crate) fn wait_until_ready(&self, side: usize) -> bool {
        let is_loading = |state: &mut State| !state.waiting[side] && !state.over[side];
        let state = self.changed.wait_while(self.state(), is_loading);
        state.unwrap_or_else(PoisonError::into_inner).waiting[side]
    }

    /// Says that the worker of a side has ended.
    pub(crate) fn ended(&self, side: usize) {
        let mut state = self.state();
        (state.over[side], state.waiting[side]) = (true, false);
        match state.stage {
            Stage::Loading | Stage::Turns => state.stage = Stage::GivenUp,
            Stage::Ending if state.waiting[1 - side] => state.answer(1 - side, Baton::End),
            Stage::Ending | Stage::GivenUp => {}
        }
        self.changed.notify_all();
    }

    /// Returns what the rounds say; `None` if a side ended before the last of them.
    pub(crate) fn result(&self) -> Option<PairRounds> {
        let state = self.state();
        state.rounds.result().filter(|_| state.stage == Stage::Ending)
    }
}

impl State {
    fn waits(&mut self, side: usize, before: BlockTime, blocks: &[BlockTime]) {
        self.waiting[side] = true;
        match self.stage {
            Stage::Loading => {
                self.rounds.warmed_up(side, before);
                if self.waiting == [true; 2] {
                    self.stage = Stage::Turns;
                    self.give();
                }
            }
            Stage::Turns => {
                self.rounds.made(before, blocks, self.given.elapsed());
                self.give();
            }
            Stage::Ending | Stage::GivenUp => {}
        }
    }

    /// Gives the next turn, or lets one side go on alone.
    fn give(&mut self) {
        match self.rounds.next() {
            Some((side, turn)) => self.answer(side, Baton::Turn(turn)),
            None => {
                self.stage = Stage::Ending;
                self.answer(self.rounds.first(), Baton::End);
            }
        }
    }

    fn answer(&mut self, side: usize, baton: Baton) {
        self.waiting[side] = false;
        self.given = Instant::now();
        let line = serde_json::to_string(&baton).map(|line| line + "\n").unwrap_or_default();
        if let Some(answers) = &mut self.answers[side] {
            // If the worker has died, the thread that watches it knows.
            let _ = answers.write_all(line.as_bytes());
        }
    }
}

/// The seat of one side.
pub(crate) struct PairSeat<'a> {
    pub(crate) conductor: &'a Conductor,
    pub(crate) side: usize,
}

impl Seat for PairSeat<'_> {
    fn started(&self, answers: UnixStream) {
        self.conductor.state().answers[self.side] = Some(answers);
    }

    fn waits(&self, before: BlockTime, blocks: Vec<BlockTime>) {
        self.conductor.state().waits(self.side, before, &blocks);
        self.conductor.changed.notify_all();
    }

    fn is_waiting(&self) -> bool {
        self.conductor.state().waiting[self.side]
    }

    fn is_given_up(&self) -> bool {
        self.conductor.state().stage == Stage::GivenUp
    }
}
