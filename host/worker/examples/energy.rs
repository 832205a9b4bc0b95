//! Step of a device's energy counter, as a worker measures it beside each case.
//!
//! `energy LIBRARY DEVICE` prints one JSON line for each of five measurements: `step_seconds`, and
//! `least_window_seconds`, below which the metric `energy` makes a gap of the device's energy. The device is only asked
//! for its counter, so no runtime and no model are needed.

use std::path::PathBuf;

use host_measure::SystemClock;

/// Steps of the counter that a window must have, as the metric `energy` states it.
const LEAST_STEPS: f64 = 100.0;

#[expect(clippy::print_stdout, reason = "the lines are what this example is for")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    const USAGE: &str = "usage: energy LIBRARY DEVICE";
    let mut arguments = std::env::args().skip(1);
    let library = PathBuf::from(arguments.next().ok_or(USAGE)?);
    let device = arguments.next().ok_or(USAGE)?;
    let backend = host_worker::open(&library)?;
    let clock = SystemClock::new();
    // Without a counter, this is the reason.
    backend.device_energy(&device).ok_or("the backend has no energy counter")??;
    for _ in 0..5 {
        let read = || backend.device_energy(&device)?.ok();
        let step = host_worker::counter_step(&clock, host_worker::DEVICE_STEP_NS, read);
        let step = step.ok_or("the counter cannot be read any more")?;
        let line = serde_json::json!({
            "device": device,
            "step_seconds": step,
            "least_window_seconds": LEAST_STEPS * step,
        });
        println!("{line}");
    }
    Ok(())
}
