/*!
The sandbox for metrics, reports and recommenders.

These plugins are small programs that strangers may have written, and their answers become results.
So they run as WebAssembly components, each call in a store of its own, under limits, and see only
their arguments: a metric the columns of one case, a report and a recommender the host's fixed
views. They have no clock, no random numbers, no files and no network; the module on WASI says what
a guest's standard library gets instead, and why.

A call can end in four ways, none of which costs the host more than the call's answer: the guest
returns, refuses, traps, or exceeds its [`Limits`]. Both fuel and a deadline bound it. Fuel counts
instructions of the guest, so that the result does not depend on other load on the machine. The
deadline covers what fuel does not count: time in the host's own functions, and the user's waiting
time. Each failure is a [`GuestError`] with the plugin, the call, the reason, and the end of the
guest's standard error, which contains the message of a panic.

An answer is checked before it is used: names, units, directions, finite values, intervals
that enclose their value, advice that rests on cases of this run, and files that stay in their
folder.
*/

mod answer;
mod bindings;
mod cache;
mod console;
mod error;
#[doc(hidden)]
pub mod fuzzing;
mod limits;
mod output;
mod platform;
mod plugin;
mod sandbox;
mod state;
mod wasi;

pub use error::{GuestError, GuestErrorKind};
pub use limits::Limits;
pub use plugin::{Description, INTERFACE_VERSION, Kind, Plugin};
pub use sandbox::{Sandbox, SandboxOptions};
