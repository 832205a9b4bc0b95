/*!
The door to libtorch.

The engine `engine-torch` is linked against libtorch, so the loader refuses it without libtorch. This library is not:
it opens the user's libtorch by its path, then the engine beside itself, and passes the host on to it. If one of them
is missing, a backend without devices answers in its place, and says what to do.

Building the engine takes minutes and needs PyTorch's headers, so it is not part of the default build:
`cargo xtask build torch` makes it.
*/

mod absent;
mod libraries;

use plugin_api::abi;

pub use absent::AbsentBackend;

/// The plugin's entry point.
///
/// # Safety
///
/// As `plugin_api.h` says: `host` is valid until the backend is destroyed, and no other backend from this library is
/// alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tare_backend_v1(host: *const abi::HostApi) -> *const abi::BackendApi {
    match libraries::engine() {
        // SAFETY: the caller's promise is passed on.
        Ok(entry) => unsafe { entry(host) },
        Err(reason) => {
            absent::remember(reason);
            // SAFETY: as above.
            unsafe { plugin_api::backend::enter::<AbsentBackend>(host) }
        }
    }
}
