//! Tests of the whole tool in one program, since linking is most of their build time.

mod asking;
mod browser;
mod card;
mod check;
mod circles;
mod compare;
mod directions;
mod early;
mod exit_codes;
mod faults;
mod features;
mod gate;
mod guests;
mod history;
mod manifests;
mod models;
mod pairs;
mod plugins_test;
mod profile;
mod quickstart;
mod recompute;
mod reports;
mod results;
mod runtimes;
mod telemetry;
mod trust;
