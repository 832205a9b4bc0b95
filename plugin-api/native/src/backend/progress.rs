//! Progress of a long call.

use std::cell::Cell;
use std::ffi::c_void;
use std::fmt;
use std::rc::Rc;

use crate::abi;

type Function = unsafe extern "C" fn(*mut c_void, *const abi::Progress);

/// Reports progress from within a call, so that a long call does not look like a hang. It may be kept, and cloned for
/// models and sessions. After the backend has ended, or if the host does not listen, it does nothing.
#[derive(Clone, Default)]
pub struct Progress {
    host: Rc<Cell<Option<(Function, *mut c_void)>>>,
}

impl Progress {
    /// # Safety
    ///
    /// The host stays valid until [`Progress::end`].
    pub(super) unsafe fn new(host: &abi::HostApi) -> Self {
        let host = host.progress.map(|progress| (progress, host.context));
        Self { host: Rc::new(Cell::new(host)) }
    }

    /// Disconnects from the host.
    pub(super) fn end(&self) {
        self.host.set(None);
    }

    /// Reports the part of the call that is done, from 0 to 1, if known, and the current activity, such as
    /// `compiling kernels`.
    pub fn report(&self, part: Option<f64>, doing: &str) {
        let Some((progress, context)) = self.host.get() else { return };
        let report = abi::Progress {
            struct_size: size_of::<abi::Progress>(),
            part: part.unwrap_or(f64::NAN),
            doing: abi::String::borrow(doing),
        };
        // SAFETY: the host is valid, and this is the thread of the entry point: this type is not `Send`.
        unsafe { progress(context, &raw const report) };
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Progress").finish_non_exhaustive()
    }
}
