//! Tests of running cases in workers, and of faulty workers.

mod common;
mod hostile;
mod workers;
