//! The machine that answers queries.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;

#[cfg(target_os = "macos")]
use crate::darwin;
use crate::linux;
use crate::system::System;

/// A machine, which answers queries about itself.
#[derive(Debug, Clone)]
pub struct Machine(Arc<dyn System>);

impl Machine {
    /// Returns the machine that this process runs on.
    #[must_use]
    pub fn this() -> Self {
        #[cfg(target_os = "macos")]
        return Self(Arc::new(darwin::Mac));
        #[cfg(not(target_os = "macos"))]
        Self::at("/")
    }

    /// Returns a Linux machine whose `/proc`, `/sys` and `/etc` are below `root`.
    #[must_use]
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self(Arc::new(linux::Files::at(root)))
    }
}

impl Deref for Machine {
    type Target = dyn System;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}
