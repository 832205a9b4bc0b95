//! Cancelling a backend's calls from another thread.

use std::sync::{Arc, Mutex, PoisonError};

use super::{Backend, Error, Result, extensions};
use crate::abi;

/// A backend that can be cancelled while it lives.
#[derive(Clone, Copy)]
struct Target {
    cancel: abi::Call<abi::CancelArgs>,
    handle: *mut abi::Backend,
}

// SAFETY: the function may be called on any thread and at any time while the backend lives. The caller holds the lock
// that the backend's end must take.
unsafe impl Send for Target {}

/// State that a backend and its cancellers share.
#[derive(Clone, Default)]
pub(super) struct Shared(Arc<Mutex<Option<Target>>>);

impl Shared {
    /// Forgets the backend, which is about to end.
    pub(super) fn end(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Cancels a backend's calls in progress, from any thread. It may outlive the backend.
#[derive(Clone)]
pub struct Canceller(Shared);

impl Canceller {
    /// Asks the backend to cancel. Calls then fail with [`ErrorCode::Cancelled`](super::ErrorCode::Cancelled)
    /// soon. Does nothing for a backend that has ended.
    ///
    /// # Errors
    ///
    /// Returns the backend's error.
    pub fn cancel(&self) -> Result<()> {
        let target = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Target { cancel, handle }) = *target else { return Ok(()) };
        let mut args =
            abi::CancelArgs { struct_size: size_of::<abi::CancelArgs>(), backend: handle };
        // SAFETY: the arguments are whole, and the backend lives as long as the lock is held.
        unsafe { extensions::invoke(abi::CANCEL, cancel, &mut args) }
    }
}

impl std::fmt::Debug for Canceller {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Canceller").finish_non_exhaustive()
    }
}

impl Backend {
    /// Returns a canceller of this backend's calls; `None` if the backend cannot cancel.
    ///
    /// # Errors
    ///
    /// If the table of the extension breaks the rules.
    #[must_use]
    pub fn canceller(&self) -> Option<Result<Canceller, Error>> {
        let cancel = self.inner.function(abi::CANCEL, |table: &abi::Cancel| table.cancel)?;
        Some(cancel.map(|cancel| {
            let shared = self.inner.canceller.clone();
            let target = Target { cancel, handle: self.inner.handle };
            *shared.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(target);
            Canceller(shared)
        }))
    }
}
