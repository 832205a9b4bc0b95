//! Limits on the files that are read.

/// Greatest length of a text file of a plugin, and of the lock file.
pub(crate) const LARGEST_TEXT: u64 = 4 << 20;
/// Greatest length of a plugin's library, which is hashed at each use.
pub(crate) const LARGEST_LIBRARY: u64 = 4 << 30;
