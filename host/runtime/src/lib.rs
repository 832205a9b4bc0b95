/*!
Vendors' runtimes: ONNX Runtime with CUDA, OpenVINO and the like.

A backend plugin is small; the runtime that it drives is hundreds of megabytes of a vendor's
libraries, different for each version and machine. So plugins do not contain them. A plugin's `[runtime]` names its
runtime, its `runtime.lock` lists the packages, and this crate does the rest:

- [`Runtimes::find`] finds the runtime of a plugin: one that the user names (flag, environment,
  `path` in `plugin.toml`, in this order), else the installed one;
- [`Runtimes::install`] fetches the packages with the user's own pip, so that mirror, certificates,
  credentials and cache are the user's, checks them against the lock and unpacks the needed files;
- [`Runtimes::verify`] reads every byte of an installed one again, and [`Runtimes::remove`] removes it.

# Folders

`<user data>/runtimes/<name>-<version>/` holds `lib/` and `installed.json`, which lists packages and
the SHA-256 of every file. Such a folder is complete or absent: it is filled under a temporary name and
renamed. Names that begin with a dot belong to this crate: `.downloads/` keeps fetched wheels until the installation
has ended, so that an interrupted one can continue, and `.locks/` makes hosts that install the same runtime take
turns.

Nothing in a package is ever run: wheels are archives, and only files that the lock names are unpacked.
*/

mod error;
#[doc(hidden)]
pub mod fuzzing;
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
pub use runtimes::{Named, Ready, RuntimeStatus, Runtimes, platform_name, unavailable};
