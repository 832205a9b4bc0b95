/*!
The timing loop: load scenarios, warm-up and stopping rules, generic over one trait.

The loop owns one promise: between two clock readings there is the query and nothing else of
ours that could be left out. It therefore reads the clock once per query, since the reading that
ends a query also begins the next; it writes readings into a buffer that was allocated before;
and it decides whether to stop from the reading that it has anyway. Whatever takes longer happens
between blocks, when no query is being timed: samples are handed to a sink, the rule is looked at
in full, and the chain of readings starts anew.

A [`Target`] is what is timed, a [`Clock`] is what times it, a [`Scenario`] says what one query
is, a [`StopRule`] says when there are enough. Warming up and measuring are the same loop under
two rules. Nothing here does I/O, and nothing here knows of plugins: the tests run on a clock
that only moves when told to.
*/

mod calibration;
mod clock;
mod meter;

pub use calibration::{Calibration, CalibrationError, calibrate};
pub use clock::{Clock, SystemClock};
pub use meter::{MeasureError, Meter, Scenario, StopRule, Summary, Target};
