//! The lock of a run folder: one host writes at a time.

use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::time::Duration;

use super::layout::Layout;
use crate::error::StoreError;

/// Takes the lock. It is held until the file is dropped.
pub(super) fn lock(layout: &Layout) -> Result<File, StoreError> {
    let path = layout.lock();
    let lock = File::create(&path).map_err(StoreError::io("create", &path))?;
    // A list of runs holds the lock for a moment to test whether it is free.
    let mut attempts = 0;
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(lock),
            Err(TryLockError::WouldBlock) if attempts < 5 => {
                attempts += 1;
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(TryLockError::WouldBlock) => {
                return Err(StoreError::RunLocked { path: layout.root.clone() });
            }
            Err(TryLockError::Error(error)) => {
                return Err(StoreError::io("lock", &path)(error));
            }
        }
    }
}

/// Returns whether a host is writing the run now.
pub(crate) fn is_locked(layout: &Layout) -> Result<bool, StoreError> {
    let path = layout.lock();
    let lock = match host_files::open(&path) {
        Ok(lock) => lock,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(StoreError::unread(&path)(error)),
    };
    match lock.try_lock_shared() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(StoreError::io("lock", &path)(error)),
    }
}
