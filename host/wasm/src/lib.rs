/*!
The sandbox for metrics, reports and recommenders.

These plugins are small programs that may be untrusted, and their answers become results. So they run as WebAssembly
components, each call in a separate store, under limits, and see only their arguments: a metric the columns of one
case, a report and a recommender the host's fixed views. Their clock stands still, their random numbers are a fixed
sequence, and they have no files and no network; the module on WASI says what a guest's standard library gets, and why.

A call can end in five ways, none of which costs the host more than the call's answer: the guest
returns, refuses, traps, exceeds its [`Limits`], or is cancelled by its [`Cancel`]. Both fuel and a deadline bound it. Fuel counts
instructions of the guest, so that the result does not depend on other load on the machine. The
deadline covers what fuel does not count: time in the host's own functions, and the user's waiting
time. Each failure is a [`GuestError`] with the plugin, the call, the reason, and the end of the
guest's standard error, which contains the message of a panic.

An answer is checked before it is used: names, units, directions, finite and possible values, intervals
that enclose their value, advice that rests on cases of this run, files that stay in their folder, and the length of
every text. A metric may state only the values of its trial.

Compiling is the most expensive step, and the plugin's author decides how expensive. So a file's kind is read from its
names first, and it is compiled in a separate process with limits; its code, its description or its failure are kept
on disk.
*/

mod advice;
mod amounts;
mod answer;
mod bindings;
mod cache;
mod command;
mod compiler;
mod console;
mod description;
mod engine;
mod error;
#[doc(hidden)]
pub mod fuzzing;
mod ledger;
mod limits;
mod lines;
mod load;
mod output;
mod platform;
mod plugin;
mod sandbox;
mod shape;
mod stand_ins;
mod state;
mod wasi;

pub use advice::{Advice, Grant, MoreCases};
pub use compiler::{CompilerLimits, compiler_process};
pub use console::Listener;
pub use description::Description;
pub use error::{GuestError, GuestErrorKind};
pub use limits::{Cancel, Limits};
pub use load::{Compiling, Seen};
pub use output::Rendered;
pub use plugin::{Allowance, Kind, Plugin, Profile};
pub use sandbox::{Sandbox, SandboxOptions, Used};
pub use shape::{INTERFACE_VERSION, Names, Permission};
