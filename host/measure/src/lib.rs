/*!
The timing loop: load scenarios, warm-up and stopping rules, generic over one trait.

The loop keeps one promise: between two clock readings there is the query, and no avoidable work of
ours. It therefore reads the clock once per query, since the reading that
ends a query also begins the next; it writes readings into a buffer that was allocated before;
and it decides whether to stop from the reading that it has anyway. Longer work happens between
blocks, when no query is being timed: samples are handed to an observer, the full rule is checked,
and the chain of readings starts anew.

In an open loop queries arrive by a schedule, whether or not the target is ready. There the promise
is that a latency counts from the scheduled time, so that waiting behind a slow query is part of
it. The schedule is generated between blocks, and it stands still while a block is handed on.

A [`Clock`] times a [`Target`], a [`Pattern`] defines a query and when it is issued, a [`StopRule`]
decides when there are enough, and an [`Observer`] takes the samples and may judge them. Warming up and measuring are the same loop under two rules. A
[`Meter`] runs the loop on the caller's thread; a [`Crew`] runs it with several targets, each on
a thread of its own. [`find_max_rate`] searches for the highest rate within a latency limit, and
[`Turns`] make a target wait for its turn beside another one; and
[`Rules`] judge whether a result is valid. Nothing here does I/O or knows of plugins: the tests run
on a virtual clock.
*/

mod block;
mod calibration;
mod clients;
mod clock;
mod closed;
mod crew;
mod error;
mod feed;
mod lane_channel;
mod meter;
mod open;
mod pace;
mod pattern;
mod probe;
mod rules;
mod schedule;
mod search;
mod servers;
mod stop;
mod target;
#[cfg(test)]
mod testing;
mod turns;

pub use block::{Block, ScheduledQuery, Times};
pub use calibration::{Calibration, CalibrationError, calibrate};
pub use clock::{Anchor, Clock, SystemClock};
pub use crew::Crew;
pub use error::MeasureError;
pub use meter::Meter;
pub use pattern::Pattern;
pub use probe::{ProbeDuration, ProbeResult};
pub use rules::{Evidence, Judgement, KeepUp, Rules};
pub use schedule::{Arrivals, Schedule};
pub use search::{Bracket, Held, MaxRate, Search, find_max_rate, hold, within};
pub use stop::{Observer, StopRule, Summary};
pub use target::Target;
pub use turns::Turns;
