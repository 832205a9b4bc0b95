/*!
Runs a plan: starts workers, watches them, and records how each case ended.

Each case gets a separate worker process, because a backend is foreign native code: it may crash, hang, leak or be
killed, and must not cost more than its case. This crate is the host's side of that boundary. It guarantees four
things:

- **Every abnormal end becomes a [`host_record::Failure`].** A worker may exit, be ended by a signal, go silent,
  exhaust the machine's memory, break the protocol or never start. These are distinguished, and the case is recorded
  with the reason and the worker's last standard error. No worker can make the host wait for ever.
- **Nothing that a worker starts outlives it.** Its processes count towards its memory and end with it.
- **The host stays quiet while the clock runs.** Samples that arrive during a measurement are held
  back, and go to the [`Recorder`](host_record::Recorder) when it is over.
- **An [`Interrupt`] costs at most the case in progress,** which is left unrecorded so that a
  resumed run repeats it.

This crate prints nothing; an [`Observer`] can show progress.
*/

mod death;
mod environment;
mod error;
mod executor;
mod interrupt;
mod local;
mod observer;
mod pair;
mod pairs;
mod platform;
mod process;
mod reference;
mod resolver;
mod rounds;
mod runner;
mod supervise;
mod tree;

pub use environment::set_environment;
pub use error::RunError;
pub use executor::{Ended, EndedSide, Events, Execution, Executor, PairExecution};
pub use interrupt::Interrupt;
pub use local::{DescribeError, LocalExecutor};
pub use observer::{Observer, Silent};
pub use pairs::{UnfinishedPair, run_pairs};
pub use resolver::{LocalPlugin, Resolver};
pub use rounds::PairRounds;
pub use runner::{RunSummary, run};
