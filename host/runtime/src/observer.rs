//! Observers of an installation.

/// The current step. Sizes are in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step<'a> {
    /// Another host works on this runtime; this one waits for its turn.
    Waiting,
    /// pip fetches a package.
    Fetching {
        /// Its name and version.
        package: &'a str,
        /// Its size.
        bytes: u64,
        /// Its place among the packages, from 1.
        number: usize,
        /// Number of packages.
        count: usize,
    },
    /// The hash of a package is checked. It was fetched now, or by an earlier, interrupted installation.
    Checking {
        /// Its name and version.
        package: &'a str,
        /// Its size.
        bytes: u64,
    },
    /// A package is unpacked.
    Unpacking {
        /// Its name and version.
        package: &'a str,
        /// Size of its unpacked files.
        bytes: u64,
    },
    /// Installed files are read again.
    Verifying {
        /// Its size.
        bytes: u64,
    },
}

/// Observer of an installation.
pub trait Observer {
    /// Reports that a step begins and the previous one has ended.
    fn step(&mut self, step: Step<'_>);

    /// Reports that this many more bytes of the step are done.
    fn advanced(&mut self, bytes: u64);

    /// Returns whether pip may write to standard error while it fetches.
    fn shows_pip(&self) -> bool;
}

/// Ignores all steps.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Observer for Silent {
    fn step(&mut self, _: Step<'_>) {}

    fn advanced(&mut self, _: u64) {}

    fn shows_pip(&self) -> bool {
        false
    }
}
