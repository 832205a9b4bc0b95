//! Runs a manifest, and prints each case's median latency with its interval.
//!
//! `cargo run -p host-experiment --example quickstart [MANIFEST]`, after `cargo xtask build`. The worker
//! and the plugins are looked for in `TARE_BUILT`, or else in the folder above the example's.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::env;
use std::path::{Path, PathBuf};

use host_experiment::{Draft, Error, RunOptions, RunResults, Settings, Silent, run};

fn main() -> Result<(), Error> {
    let manifest = env::args_os().nth(1).unwrap_or_else(|| "manifests/quickstart.toml".into());
    let mut settings = Settings::of_this_process();
    let above = settings.executable_folder().and_then(Path::parent).map(Path::to_owned);
    settings.places.executable_folder = env::var_os("TARE_BUILT").map(PathBuf::from).or(above);

    let draft = Draft::read(Path::new(&manifest))?;
    let ran = run(draft, &RunOptions::default(), &settings, &mut Silent)?;
    for case in RunResults::read(&ran.folder)?.cases {
        let Some(p50) = case.metric("latency.p50") else { continue };
        match (&p50.value, p50.interval) {
            (Ok(value), Some((low, high))) => {
                println!("{}: {value:.0} {} ({low:.0} to {high:.0})", case.record.key, p50.unit);
            }
            (Ok(value), None) => println!("{}: {value:.0} {}", case.record.key, p50.unit),
            (Err(gap), _) => println!("{}: {}", case.record.key, gap),
        }
    }
    Ok(())
}
