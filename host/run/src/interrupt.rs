//! A request to stop, from any source.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// A handle to stop a run; clones are the same handle.
///
/// [`Interrupt::interrupt`] may be called from any thread, such as that of a handler for Ctrl-C. An interrupted
/// handle stays interrupted.
#[derive(Debug, Clone, Default)]
pub struct Interrupt {
    state: Arc<(Mutex<bool>, Condvar)>,
}

impl Interrupt {
    /// Creates a handle that is not interrupted.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks to stop. Returns whether this was the first time.
    pub fn interrupt(&self) -> bool {
        let (flag, changed) = &*self.state;
        let mut flag = flag.lock().unwrap_or_else(PoisonError::into_inner);
        changed.notify_all();
        !std::mem::replace(&mut *flag, true)
    }

    /// Returns whether a stop was requested.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        *self.state.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the run is interrupted or the time is over. Returns whether it was interrupted.
    #[must_use]
    pub fn wait(&self, limit: Duration) -> bool {
        let (flag, changed) = &*self.state;
        let flag = flag.lock().unwrap_or_else(PoisonError::into_inner);
        let result = changed.wait_timeout_while(flag, limit, |interrupted| !*interrupted);
        *result.unwrap_or_else(PoisonError::into_inner).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_reaches_every_clone_and_stays() {
        let interrupt = Interrupt::new();
        let other = interrupt.clone();
        assert!(!interrupt.wait(Duration::ZERO));
        let waiting = std::thread::spawn(move || other.wait(Duration::from_secs(60)));
        assert!(interrupt.interrupt());
        assert!(!interrupt.interrupt());
        assert!(waiting.join().expect("the thread ends"));
        assert!(interrupt.is_interrupted());
    }
}
