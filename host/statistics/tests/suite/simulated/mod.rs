//! What holds on samples and series that are made up, most of them at random from a fixed seed.

mod coverage;
mod samples;
mod steady_state;
mod synthetic;
