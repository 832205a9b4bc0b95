//! Tests on made-up samples and series, most of them random from a fixed seed.

mod comparison;
mod coverage;
mod history;
mod planted;
mod samples;
mod steady_state;
mod synthetic;
