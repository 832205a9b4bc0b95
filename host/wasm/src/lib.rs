/*!
The sandbox for metrics, reports and recommenders.

These plugins are small programs that strangers may have written, and their answers become
results. So they run as WebAssembly components, each call in a store of its own, under limits, and
see nothing but what they are handed: a metric the columns of one case, a report and a recommender
the host's fixed views. No clock, no random numbers, no files, no network; the module on WASI says
what a guest's standard library gets instead, and why.

A call can end in four ways that cost the host nothing but the call's answer: the guest returns,
says that it cannot, traps, or is ended for using more than its [`Limits`]. Both fuel and a
deadline bound it. Fuel is counted in the guest's code, so that whether an answer comes does not
depend on what else the machine is doing; the deadline catches what fuel does not count, which is
time in the host's own functions, and what the user waits. Every one of these is a [`GuestError`]
that says which plugin, in which call, why, and what the guest last wrote to its standard error,
where the message of a panic is.

An answer is checked before it is believed: names, units, directions, finite values, intervals
that enclose their value, advice that rests on cases of this run, and files that stay in their
folder.
*/

mod answer;
mod bindings;
mod cache;
mod console;
mod error;
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
