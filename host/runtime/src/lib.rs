/*!
Vendors' runtimes: ONNX Runtime with CUDA, OpenVINO and the like.

A backend plugin is small; the runtime that it drives is hundreds of megabytes of somebody else's
libraries, and another one for each version and machine. So plugins do not carry them. A plugin's
`[runtime]` says which one it is made for, its `runtime.lock` which packages that consists of, and
this room does the rest:

- [`Runtimes::find`] says which runtime a plugin uses: one that the user names (flag, environment,
  `path` in `plugin.toml`, in this order), else the installed one;
- [`Runtimes::install`] fetches the packages with the user's own pip, so that mirror, certificates,
  credentials and cache are the user's, checks them against the lock and unpacks what the plugin needs;
- [`Runtimes::verify`] counts every byte of an installed one again, and [`Runtimes::remove`] removes it.

# What lies where

`<user data>/runtimes/<name>-<version>/` holds `lib/` and `installed.json`, which lists packages and
the SHA-256 of every file. Such a folder is whole or not there: it is filled beside its place and
renamed. Names that begin with a dot are ours: `.downloads/` keeps wheels that have arrived until the
install has ended, so that one that was cut short goes on where it was, and `.locks/` makes hosts that
install the same runtime take turns.

Nothing is ever run from a package: wheels are archives, and only files that the lock names are taken
out of them.
*/

mod error;
mod install;
mod installed;
mod observer;
mod pip;
mod platform;
mod runtimes;
mod wheel;

pub use error::{Flaw, PipFault, RuntimeError};
pub use install::Outcome;
pub use installed::{Installed, InstalledFile, InstalledPackage};
pub use observer::{Observer, Silent, Step};
pub use runtimes::{Named, Ready, Runtimes, Standing, platform_name, unavailable};
