//! Measuring in turns: blocks of queries are made when someone else says so.

use host_record::protocol::{BlockTime, Turn};

use crate::block::{Block, Times};
use crate::clock::Clock;
use crate::closed::time_block;
use crate::error::{MeasureError, between, chain_in_order};
use crate::stop::Summary;

/// Says when a target is measured, and takes its samples. Called between blocks only.
pub trait Turns {
    /// Error of the observer.
    type Error;

    /// Waits for the next turn; `None` if there is none. Gets the queries before the blocks of the last turn, and the
    /// blocks; before the first turn there are none.
    ///
    /// # Errors
    ///
    /// Returns the observer's error, which ends the loop.
    fn next(
        &mut self,
        before: BlockTime,
        blocks: &[BlockTime],
    ) -> Result<Option<Turn>, Self::Error>;

    /// Takes queries of a block, or those before the first block of a turn. A block may come in several parts.
    ///
    /// # Errors
    ///
    /// As for [`Turns::next`].
    fn queries(&mut self, block: Block<'_>, is_before: bool) -> Result<(), Self::Error>;
}

/// Makes queries of one client on this thread, turn by turn.
pub(crate) fn run<C: Clock, E, T: Turns>(
    clock: &C,
    edges: &mut [u64],
    turns: &mut T,
    mut query: impl FnMut() -> Result<(), E>,
) -> Result<Summary, MeasureError<E, T::Error>> {
    let origin = clock.now();
    let mut summary = Summary::default();
    let mut before = BlockTime::default();
    let mut blocks: Vec<BlockTime> = Vec::new();
    loop {
        let Some(turn) = turns.next(before, &blocks).map_err(MeasureError::Sink)? else {
            summary.elapsed_ns = between(origin, clock.now())?;
            summary.enough = true;
            return Ok(summary);
        };
        blocks.clear();
        let mut make =
            |duration_ns: u64, is_before: bool| -> Result<BlockTime, MeasureError<E, T::Error>> {
                let mut made = BlockTime::default();
                loop {
                    let left_ns = duration_ns.saturating_sub(made.timed_ns);
                    let (count, result) = time_block(clock, edges, left_ns, &mut query);
                    let edges = &edges[..=count];
                    chain_in_order(edges)?;
                    if count > 0 {
                        let block = Block { lane: 0, times: Times::Chain(edges) };
                        turns.queries(block, is_before).map_err(MeasureError::Sink)?;
                    }
                    result.map_err(MeasureError::Target)?;
                    made.queries += count as u64;
                    made.timed_ns += edges[count] - edges[0];
                    if made.timed_ns >= duration_ns {
                        return Ok(made);
                    }
                }
            };
        before = match turn.lead_in_ns {
            0 => BlockTime::default(),
            lead_in_ns => make(lead_in_ns, true)?,
        };
        for _ in 0..turn.blocks {
            let block = make(turn.block_ns, false)?;
            summary.queries += block.queries;
            summary.timed_ns += block.timed_ns;
            blocks.push(block);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use crate::testing::{NO_LIMIT, Steps, VirtualClock};
    use crate::{Meter, Pattern};

    /// Gives these turns, and keeps what comes back.
    struct Given<'a> {
        clock: &'a VirtualClock,
        turns: std::vec::IntoIter<Turn>,
        said: Vec<(BlockTime, Vec<BlockTime>)>,
        queries: Vec<(bool, usize)>,
    }

    impl Turns for Given<'_> {
        type Error = Infallible;

        fn next(
            &mut self,
            before: BlockTime,
            blocks: &[BlockTime],
        ) -> Result<Option<Turn>, Infallible> {
            self.said.push((before, blocks.to_vec()));
            // Waiting is charged to no query.
            self.clock.pass(1000);
            Ok(self.turns.next())
        }

        fn queries(&mut self, block: Block<'_>, is_before: bool) -> Result<(), Infallible> {
            self.queries.push((is_before, block.times.len()));
            self.clock.pass(100);
            Ok(())
        }
    }

    #[test]
    fn blocks_are_as_long_as_the_turn_says() {
        let clock = VirtualClock::default();
        let mut target = Steps::constant(&clock, 10);
        let turns = vec![
            Turn { lead_in_ns: 15, blocks: 1, block_ns: 30 },
            Turn { lead_in_ns: 0, blocks: 2, block_ns: 45 },
        ];
        let (said, queries) = (Vec::new(), Vec::new());
        let mut given = Given { clock: &clock, turns: turns.into_iter(), said, queries };
        // Blocks are longer than the memory for readings.
        let summary = Meter::new(&clock, 2, NO_LIMIT)
            .take_turns(&mut target, Pattern::SingleStream, &mut given)
            .expect("nothing fails");
        let block = |queries: u64| {
            let timed_ns = 10 * queries;
            BlockTime { queries, timed_ns, ..BlockTime::default() }
        };
        assert_eq!(
            given.said,
            [
                (BlockTime::default(), vec![]),
                (block(2), vec![block(3)]),
                (BlockTime::default(), vec![block(5), block(5)]),
            ]
        );
        let parts = [2, 2, 1, 2, 2, 1, 2, 2, 1].map(|count| (false, count));
        assert_eq!(given.queries[0], (true, 2));
        assert_eq!(given.queries[1..], parts[1..]);
        let (queries, timed_ns, elapsed_ns) = (13, 130, 150 + 9 * 100 + 3 * 1000);
        let expected = Summary { queries, timed_ns, elapsed_ns, enough: true, pace: None };
        assert_eq!(summary, expected);
    }

    #[test]
    fn queries_before_a_failure_are_kept() {
        let clock = VirtualClock::default();
        let mut target = Steps::new(&clock, [Some(10), Some(10), None]);
        let turns = vec![Turn { lead_in_ns: 0, blocks: 1, block_ns: 100 }];
        let (said, queries) = (Vec::new(), Vec::new());
        let mut given = Given { clock: &clock, turns: turns.into_iter(), said, queries };
        let error = Meter::new(&clock, 8, NO_LIMIT)
            .take_turns(&mut target, Pattern::SingleStream, &mut given)
            .expect_err("the third query fails");
        assert_eq!(error, MeasureError::Target("broken"));
        assert_eq!(given.queries, [(false, 2)]);
    }
}
