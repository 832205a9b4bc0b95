/*!
Which plugins there are, and which of them may be used.

Two kinds of plugin are found in the same folders. A **native plugin** (a backend) is a folder
with a `plugin.toml` and a library; it can do whatever the user can do, so it needs trust. A
**guest** (a metric, report or recommender) is a `.wasm` file, directly in a plugin folder or one
folder deeper; it runs in a sandbox, so it needs none. Scanning reads `plugin.toml` files and
names, and loads nothing.

# Where plugins are looked for

In this order; the first that fits wins, and what it hides is reported as shadowed:

| [`Origin`] | folder | native plugins there |
|---|---|---|
| `Flag` | `--plugins DIR` | recorded on first use |
| `Environment` | each folder in `TARE_PLUGINS` | recorded on first use |
| `User` | `$XDG_DATA_HOME/tare/plugins`, else `~/.local/share/tare/plugins` | recorded on first use |
| `Installed` | `plugins/` beside the executable | as trusted as the executable itself |
| `Manifest` | folders that a manifest names | refused until the user trusts them |

What the user says now comes before what the user said earlier, and that before what came with
the program. A manifest can be from someone else, so its folders come last: they can add a plugin
and never replace one. The current directory is no such place, and a relative entry in
`TARE_PLUGINS` is refused because it would make it one.

# Trust

[`LockFile`] keeps the SHA-256 of each native library that the user has used, by its path. The
first use of one that the user brought in is recorded; a library that has changed since is
refused until `host plugins trust ID`. A manifest's folder is no first use: whoever wrote the
manifest is not the user. The hash covers the library itself; what it links to is the system's.

Guests are not locked: the sandbox is what protects from them, and the hash of each guest is kept
beside every result that it computed.
*/

mod error;
mod lock;
mod metadata;
mod platform;
mod registry;
mod runtime;
mod search;
mod strict;

pub use error::{MetadataError, Problem, RegistryError};
pub use lock::{LockError, LockFile, Locked};
pub use metadata::{Kind, Metadata};
pub use registry::{
    BackendPlugin, GuestFile, NativePlugin, Registry, Seal, Trust, Trusted, sha256_of_file,
};
pub use runtime::{LockedPackage, RuntimeLock, RuntimeNeed};
pub use search::{Folder, Origin, Places, Search};

/// The native ABI that this host speaks: major and minor version, as `plugin.toml`'s `api` range
/// sees it.
pub const HOST_ABI: semver::Version = semver::Version::new(1, 0, 0);
