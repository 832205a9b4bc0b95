//! Tests of the whole tool in one program: linking is most of what building them costs.

mod browser;
mod check;
mod circles;
mod compare;
mod directions;
mod early;
mod exit_codes;
mod faults;
mod features;
mod guests;
mod manifests;
mod models;
mod plugins_test;
mod quickstart;
mod recompute;
mod reports;
mod results;
mod runtimes;
mod telemetry;
mod trust;
