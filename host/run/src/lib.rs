/*!
Runs a plan: starts workers, watches them, and records how each case ended.

Each case gets a worker process of its own, because a backend is foreign native code: it may
crash, hang, leak or be killed, and must not cost more than its case. This room is the other side
of that boundary. It owns four things:

- **Every way to die becomes a [`host_record::Failure`].** A worker that exits, is ended by a
  signal, goes silent, exhausts the machine's memory, breaks the protocol or never
  starts: each is distinguished, and the case is recorded with the reason and the worker's last
  standard error. No worker can make the host wait for ever.
- **Nothing that a worker starts outlives it.** Its processes count in its memory and end with it.
- **The host stays quiet while the clock runs.** Samples that arrive during a measurement are held
  back, and go to the [`Recorder`](host_record::Recorder) when it is over.
- **An [`Interrupt`] costs at most the case in progress,** which is left unrecorded so that a
  resumed run repeats it.

Nothing is printed here; pass an [`Observer`] to show progress.
*/

mod death;
mod environment;
mod error;
mod executor;
mod interrupt;
mod local;
mod observer;
mod platform;
mod process;
mod reference;
mod resolver;
mod runner;
mod supervise;
mod tree;

pub use environment::set_environment;
pub use error::RunError;
pub use executor::{Ended, Events, Execution, Executor};
pub use interrupt::Interrupt;
pub use local::{DescribeError, LocalExecutor};
pub use observer::{Observer, Silent};
pub use resolver::{LocalPlugin, Resolver};
pub use runner::{RunSummary, run};
