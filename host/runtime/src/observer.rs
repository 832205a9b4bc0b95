//! Who hears of an installation's progress.

/// What is being done. Sizes are in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step<'a> {
    /// Another host is at this runtime; this one waits for its turn.
    Waiting,
    /// pip fetches a package.
    Fetching {
        /// Its name and version.
        package: &'a str,
        /// Its size.
        bytes: u64,
        /// Its place among the packages, from 1.
        number: usize,
        /// How many packages there are.
        count: usize,
    },
    /// A package has arrived, now or in an installation that was cut short, and is held against its
    /// hash.
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
        /// How large what is unpacked of it is.
        bytes: u64,
    },
    /// What is installed is read again.
    Verifying {
        /// Its size.
        bytes: u64,
    },
}

/// Whoever looks on.
pub trait Observer {
    /// Something begins, and what went before has ended.
    fn step(&mut self, step: Step<'_>);

    /// This many bytes of it have been done.
    fn advanced(&mut self, bytes: u64);

    /// Whether pip may write to standard error while it fetches.
    fn shows_pip(&self) -> bool;
}

/// Nobody looks on.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Observer for Silent {
    fn step(&mut self, _: Step<'_>) {}

    fn advanced(&mut self, _: u64) {}

    fn shows_pip(&self) -> bool {
        false
    }
}
