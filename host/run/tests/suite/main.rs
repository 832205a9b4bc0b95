//! Running cases in workers, and workers that are not what they should be.

mod common;
mod hostile;
mod workers;
