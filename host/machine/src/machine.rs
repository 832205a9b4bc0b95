//! The machine that is asked.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;

#[cfg(target_os = "macos")]
use crate::darwin;
use crate::linux;
use crate::system::System;

/// A machine, which answers with what it says about itself.
#[derive(Debug, Clone)]
pub struct Machine(Arc<dyn System>);

impl Machine {
    /// The machine that this process runs on.
    #[must_use]
    pub fn this() -> Self {
        #[cfg(target_os = "macos")]
        return Self(Arc::new(darwin::Mac));
        #[cfg(not(target_os = "macos"))]
        Self::at("/")
    }

    /// A Linux machine whose `/proc`, `/sys` and `/etc` lie below `root`.
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
