/*!
Readings of macOS through system calls that need no SDK: `sysctl`, Mach's host statistics, `libproc` and `notify`.

Other readings are gaps on macOS: frequencies, turbo, governors, counters of energy, memory nodes, control groups,
stolen time, counts of out-of-memory kills, and which processors a thread runs on. `docs/design/platforms.md` lists
them with the reasons.
*/

#[cfg(target_os = "macos")]
mod calls;
#[cfg(target_os = "macos")]
mod mac;
mod names;

#[cfg(target_os = "macos")]
pub(crate) use mac::Mac;
