/*!
Discovery of plugins, and trust.

Two kinds of plugin are found in the same folders. A **native plugin** (a backend) is a folder with a `plugin.toml`
and a library; it has all rights of the user, so it needs trust. A **guest** (a metric, report or recommender) is a
`.wasm` file, directly in a plugin folder or one folder deeper; it runs in a sandbox, so it needs none. Scanning reads
`plugin.toml` files and names, and loads nothing.

# Search order

The first plugin that fits wins; those that it hides are reported as shadowed:

| [`Origin`] | folder | native plugins there |
|---|---|---|
| `Flag` | `--plugins DIR` | recorded on first use |
| `Environment` | each folder in `TARE_PLUGINS` | recorded on first use |
| `User` | `$XDG_DATA_HOME/tare/plugins`, else `~/.local/share/tare/plugins` | recorded on first use |
| `Installed` | `plugins/` beside the executable | as trusted as the executable itself |
| `Manifest` | folders that a manifest names | refused until the user trusts them |

The command's folders come before the user's setup, which comes before the installed program. A manifest can come from
someone else, so its folders come last: they can add a plugin but never replace one. The current directory is not
searched, and a relative entry in `TARE_PLUGINS` is refused because it would change that.

# Trust

[`LockFile`] keeps one SHA-256 for each native plugin that the user has used, by its folder. It covers
`plugin.toml`, `runtime.lock` and the library, which together decide what code runs; none of them may be
a link out of the folder. The first use of a plugin that the user installed is recorded; a plugin that
has changed since is refused until `host plugins trust ID`. A manifest's folder does not count as first
use: the manifest's author is not the user. For the same reason a plugin there may not name a runtime on
this machine. The hash does not cover the libraries that the plugin links to.

Guests need no trust: the sandbox protects against them, and every result records the hash of the guest that computed
it. One that the user has added is recorded in the same file, with its hash, so that a later change is told.
*/

mod error;
mod limits;
mod lock;
mod metadata;
mod origin;
mod platform;
mod registry;
mod runtime;
mod search;
mod strict;

pub use error::{MetadataError, Problem, RegistryError};
pub use lock::{LockError, LockFile, Locked};
pub use metadata::{Kind, Metadata, Recipe};
pub use origin::Origin;
pub use platform::library_file_name;
pub use registry::{BackendPlugin, GuestFile, NativePlugin, Registry, Seal, Trust, Trusted};
pub use runtime::{LockedPackage, RuntimeLock, RuntimeNeed};
pub use search::{Folder, Places, Search};

/// Version of this host's native ABI, which must fit the range `api` in `plugin.toml`.
pub const HOST_ABI: semver::Version = semver::Version::new(1, 1, 0);
