//! Reading Parquet files that may be damaged or hostile: the library panics on some of them.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use parquet::errors::{ParquetError, Result};

thread_local! {
    /// Whether a panic on this thread is an error of the file that is being read.
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Reads, and returns an error if the library panics. The panic is not printed.
pub(super) fn guarded<T>(read: impl FnOnce() -> Result<T>) -> Result<T> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let report = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !IS_GUARDED.get() {
                report(panic);
            }
        }));
    });
    let was_guarded = IS_GUARDED.replace(true);
    // Everything read so far is dropped.
    let result = panic::catch_unwind(AssertUnwindSafe(read));
    IS_GUARDED.set(was_guarded);
    result.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        Err(ParquetError::General(format!("the file is damaged: {text}")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_the_library_is_an_error() {
        let error = guarded::<()>(|| panic!("no dictionary")).expect_err("it panics");
        assert_eq!(error.to_string(), "Parquet error: the file is damaged: no dictionary");
        assert_eq!(guarded(|| Ok(1)).ok(), Some(1));
        assert!(!IS_GUARDED.get());
    }
}
