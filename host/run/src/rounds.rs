//! The rounds of a pair: whose turn it is, how long blocks are, when there are enough, and what they say.
//!
//! One side makes a block, the other two, the first two again, and so on: A BB AA BB A. Four blocks A B B A in a row are
//! a round. A block counts by the usual time of its queries, the mean of the middle half: on a busy machine, other work
//! interrupts many blocks and few queries. A drift that is as steady as a straight line falls on both sides of a round alike.

use std::time::Duration;

use host_record::protocol::{BlockTime, Turn};
use host_statistics::{interquartile_mean, median};

/// Shortest block, and the length of the first ones.
const SHORTEST_BLOCK: Duration = Duration::from_millis(2);

/// Longest block, unless a query takes longer.
const LONGEST_BLOCK: Duration = Duration::from_millis(50);

/// A block is at least this many times as long as the handover. A turn has two, so a fifth of the time is lost at most;
/// and blocks are longer on a machine that makes processes wait.
const HANDOVERS: f64 = 2.0;

/// Turns after which the length of blocks is chosen anew, and how often.
const TURNS_OF_A_LENGTH: usize = 8;
const LENGTHS: usize = 4;

/// Part of a block that a side makes queries for before the first block of a turn: its caches are full of the other's
/// data, and threads of the other may still look for work.
const LEAD_IN: f64 = 0.25;

/// A side whose queries take longer than this needs no lead-in: the rest of a query is long enough.
const LONG_QUERY: Duration = Duration::from_millis(10);

/// Least number of rounds.
const LEAST_ROUNDS: usize = 2;

/// The rounds of two processes, as they are made.
#[derive(Debug)]
pub(crate) struct Rounds {
    /// The side that begins, 0 or 1.
    first: usize,
    /// Time to measure each side for, in nanoseconds.
    wanted_ns: u64,
    /// Time after which no round begins, pauses counted.
    longest: Duration,
    /// Time per query of each side in nanoseconds, from its warm-up.
    typical_ns: [f64; 2],
    block_ns: u64,
    /// Turns that were given.
    turns: usize,
    /// Blocks of the round in progress: one of the first side, and two of the other.
    open: Vec<BlockTime>,
    /// Logarithm of each round's ratio: time per query of side 1 by that of side 0.
    logarithms: Vec<f64>,
    /// All blocks of each side.
    all: [BlockTime; 2],
    elapsed: Duration,
    handovers_ns: Vec<u64>,
}

/// Result of the rounds of two processes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PairRounds {
    /// Time per query of side 1 by that of side 0: the mean of the middle half of the rounds' logarithms, as a ratio.
    pub ratio: f64,
    /// The same over all blocks together.
    pub total_ratio: f64,
    /// Rounds A B B A.
    pub rounds: u64,
    /// Least duration of a block in the last rounds, in nanoseconds.
    pub block_ns: u64,
    /// Time from the end of a turn to the beginning of the next one, in nanoseconds: the median.
    pub handover_ns: u64,
}

impl Rounds {
    /// Creates rounds that this side begins, 0 or 1.
    pub(crate) fn new(first: usize, wanted_ns: u64, longest: Duration) -> Self {
        Self {
            first,
            wanted_ns,
            longest,
            typical_ns: [0.0; 2],
            block_ns: SHORTEST_BLOCK.as_nanos() as u64,
            turns: 0,
            open: Vec::new(),
            logarithms: Vec::new(),
            all: [BlockTime::default(); 2],
            elapsed: Duration::ZERO,
            handovers_ns: Vec::new(),
        }
    }

    /// Returns the side that begins.
    pub(crate) fn first(&self) -> usize {
        self.first
    }

    /// Takes the warm-up of a side.
    pub(crate) fn warmed_up(&mut self, side: usize, warm_up: BlockTime) {
        self.typical_ns[side] = per_query(warm_up).unwrap_or(0.0);
    }

    /// Returns the next turn, and whose it is; `None` if there are enough rounds.
    pub(crate) fn next(&mut self) -> Option<(usize, Turn)> {
        // Only a turn that closes the last round opens no other.
        if self.turns > 0 && self.open.is_empty() {
            return None;
        }
        let is_of_first = self.turns.is_multiple_of(2);
        let side = if is_of_first { self.first } else { 1 - self.first };
        let is_enough = self.is_enough();
        let blocks = match (is_of_first, self.turns) {
            (true, 0) => 1,
            // It closes the last round.
            (true, _) if is_enough => 1,
            _ => 2,
        };
        self.turns += 1;
        let is_long = self.typical_ns.iter().any(|time| *time >= LONG_QUERY.as_nanos() as f64);
        let lead_in_ns = if is_long { 0 } else { (LEAD_IN * self.block_ns as f64) as u64 };
        Some((side, Turn { lead_in_ns, blocks, block_ns: self.block_ns }))
    }

    /// Takes the blocks of the last turn. It took so long from the moment at which it was given.
    pub(crate) fn made(&mut self, before: BlockTime, blocks: &[BlockTime], elapsed: Duration) {
        let side = if self.turns % 2 == 1 { self.first } else { 1 - self.first };
        let mut timed_ns = before.timed_ns;
        for block in blocks {
            self.all[side].queries += block.queries;
            self.all[side].timed_ns += block.timed_ns;
            timed_ns += block.timed_ns;
            self.open.push(*block);
            if let &[one, two, three, four] = self.open.as_slice() {
                let sum = |one, other| Some(usual(one)? + usual(other)?);
                if let (Some(own), Some(others)) = (sum(one, four), sum(two, three)) {
                    let logarithm = (others / own).ln();
                    self.logarithms.push(if self.first == 0 { logarithm } else { -logarithm });
                }
                self.open.clear();
            }
        }
        self.elapsed += elapsed;
        let handover = elapsed.saturating_sub(Duration::from_nanos(timed_ns));
        self.handovers_ns.push(handover.as_nanos() as u64);
        if self.turns.is_multiple_of(TURNS_OF_A_LENGTH) && self.turns <= LENGTHS * TURNS_OF_A_LENGTH
        {
            self.block_ns = self.best_block_ns();
        }
    }

    fn best_block_ns(&self) -> u64 {
        let handover_ns = self.handover_ns();
        let bounds = [SHORTEST_BLOCK, LONGEST_BLOCK].map(|time| time.as_nanos() as f64);
        (HANDOVERS * handover_ns).clamp(bounds[0], bounds[1]) as u64
    }

    fn handover_ns(&self) -> f64 {
        median(&self.handovers_ns).unwrap_or(0.0)
    }

    /// Returns whether the round in progress is the last one.
    fn is_enough(&self) -> bool {
        let rounds = self.logarithms.len() + usize::from(!self.open.is_empty());
        let measured = self.all.iter().all(|side| side.timed_ns >= self.wanted_ns);
        rounds >= LEAST_ROUNDS && (measured || self.elapsed >= self.longest)
    }

    /// Returns the result; `None` without a round.
    pub(crate) fn result(&self) -> Option<PairRounds> {
        let [first, second] = self.all.map(per_query);
        Some(PairRounds {
            ratio: interquartile_mean(&self.logarithms)?.exp(),
            total_ratio: second? / first?,
            rounds: self.logarithms.len() as u64,
            block_ns: self.block_ns,
            handover_ns: self.handover_ns() as u64,
        })
    }
}

/// Returns the usual time of a block's queries in nanoseconds.
fn usual(block: BlockTime) -> Option<f64> {
    if block.usual_ns > 0.0 { Some(block.usual_ns) } else { per_query(block) }
}

/// Returns the time per query in nanoseconds.
fn per_query(time: BlockTime) -> Option<f64> {
    let is_known = time.queries > 0 && time.timed_ns > 0;
    is_known.then(|| time.timed_ns as f64 / time.queries as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: u64 = 1_000_000;

    /// Plays rounds in which a query of each side takes this long, and the machine gets slower by `drift` with each
    /// block. Returns the order of the sides' blocks too.
    fn play(rounds: &mut Rounds, query_ns: [f64; 2], drift: f64, handover: Duration) -> String {
        let mut order = String::new();
        let mut slow = 1.0;
        while let Some((side, turn)) = rounds.next() {
            let mut make = |duration_ns: u64| {
                let one = query_ns[side] * slow;
                slow += drift;
                let queries = (duration_ns as f64 / one).ceil();
                let timed_ns = (queries * one) as u64;
                BlockTime { queries: queries as u64, timed_ns, usual_ns: one }
            };
            let before =
                if turn.lead_in_ns > 0 { make(turn.lead_in_ns) } else { BlockTime::default() };
            let blocks: Vec<_> = (0..turn.blocks).map(|_| make(turn.block_ns)).collect();
            let timed: u64 = blocks.iter().map(|block| block.timed_ns).sum();
            rounds.made(before, &blocks, Duration::from_nanos(before.timed_ns + timed) + handover);
            order.push_str(&["A", "B"][side].repeat(blocks.len()));
        }
        order
    }

    #[test]
    fn blocks_alternate_until_both_sides_are_measured_for_long_enough() {
        let long = Duration::from_secs(60);
        let mut rounds = Rounds::new(0, 6 * MILLISECOND, long);
        let handover = Duration::from_micros(100);
        let order = play(&mut rounds, [1e5, 1.1e5], 0.0, handover);
        assert_eq!(order, "ABBAABBA");
        let result = rounds.result().expect("rounds");
        assert!((result.ratio / 1.1 - 1.0).abs() < 1e-3, "{result:?}");
        assert!((result.total_ratio / 1.1 - 1.0).abs() < 1e-3, "{result:?}");
        assert_eq!((result.rounds, result.block_ns), (2, 2 * MILLISECOND));
        assert!(result.handover_ns.abs_diff(100_000) <= 2, "{result:?}");

        // The other side begins; the ratio is the same.
        let mut rounds = Rounds::new(1, 20 * MILLISECOND, long);
        let order = play(&mut rounds, [1e5, 1.1e5], 0.0, handover);
        assert_eq!(order, "BAAB".repeat(6));
        assert!((rounds.result().expect("rounds").ratio / 1.1 - 1.0).abs() < 1e-3);
    }

    #[test]
    fn a_steady_drift_falls_on_both_sides() {
        let mut rounds = Rounds::new(0, 200 * MILLISECOND, Duration::from_secs(60));
        // 1 % slower with each block: a comparison of neighbours would find 1 %.
        play(&mut rounds, [1e4, 1e4], 0.01, Duration::ZERO);
        let result = rounds.result().expect("rounds");
        assert!((result.ratio - 1.0).abs() < 3e-3, "{result:?}");
    }

    #[test]
    fn blocks_are_longer_on_a_machine_that_makes_processes_wait() {
        let of = |handover: Duration| {
            let mut rounds = Rounds::new(0, 400 * MILLISECOND, Duration::from_secs(60));
            play(&mut rounds, [1e5, 1e5], 0.0, handover);
            rounds.result().expect("rounds").block_ns / MILLISECOND
        };
        let milliseconds = Duration::from_millis;
        assert_eq!([0, 1, 5, 100].map(|time| of(milliseconds(time))), [2, 2, 10, 50]);
    }

    #[test]
    fn a_slow_side_has_one_query_in_a_block_and_no_lead_in() {
        let mut rounds = Rounds::new(0, MILLISECOND, Duration::from_secs(60));
        let warm_up =
            BlockTime { queries: 10, timed_ns: 1000 * MILLISECOND, ..BlockTime::default() };
        rounds.warmed_up(1, warm_up);
        let (_, turn) = rounds.next().expect("a turn");
        assert_eq!((turn.lead_in_ns, turn.blocks), (0, 1));
        // Too little time for more than the fewest rounds.
        let mut rounds = Rounds::new(0, u64::MAX, Duration::from_millis(500));
        let order = play(&mut rounds, [1e8, 1e8], 0.0, Duration::ZERO);
        assert_eq!(order, "ABBAABBA");
    }

    #[test]
    fn a_disturbed_round_does_not_count() {
        let mut rounds = Rounds::new(0, 40 * MILLISECOND, Duration::from_secs(60));
        let mut turns = 0;
        while let Some((_, turn)) = rounds.next() {
            let timed_ns = 2 * MILLISECOND;
            let block = BlockTime { queries: 20, timed_ns, ..BlockTime::default() };
            let mut blocks = vec![block; turn.blocks as usize];
            turns += 1;
            if turns == 4 {
                blocks[0].timed_ns *= 10;
            }
            rounds.made(BlockTime::default(), &blocks, Duration::from_millis(4));
        }
        let result = rounds.result().expect("rounds");
        assert_eq!(result.ratio, 1.0);
        assert!(result.total_ratio > 1.1, "{result:?}");
    }
}
