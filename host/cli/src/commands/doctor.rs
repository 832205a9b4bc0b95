//! `host doctor`.

use std::time::Duration;

use host_experiment::{Check, CheckStatus, Settings, examine, measure_noise, units};
use host_record::{Cell, Table};
use serde_json::json;

use crate::arguments::DoctorArguments;
use crate::exit::Exit;
use crate::failure::Result;
use crate::printer::Printer;
use crate::style::Palette;
use crate::visible::wrapped;

pub(crate) fn doctor(
    arguments: &DoctorArguments,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit> {
    if let Some(time) = arguments.noise {
        return noise(time, settings, printer);
    }
    let checks = examine(settings);
    let shown = printer.machine(|| json!(checks), || table(&checks));
    if !shown {
        printer.show(human(&checks, printer.width(), printer.palette()));
    }
    let broken = checks.iter().any(|check| check.status == CheckStatus::Broken);
    Ok(if broken { Exit::Failure } else { Exit::Success })
}

/// Measures the noise of this machine.
fn noise(time: Duration, settings: &Settings, printer: &Printer) -> Result<Exit> {
    printer.status(
        "Measuring",
        format_args!("noise, for {}", units::duration(time.as_nanos() as f64)),
    );
    let (noise, file) = measure_noise(time, settings, &mut |_| {})?;
    let shown = printer.machine(|| json!(noise), || crate::noise::table(&noise));
    if !shown {
        printer.show(crate::noise::human(&noise, printer.palette()));
    }
    if let Some(file) = file {
        printer.status("Kept", file.display());
    }
    Ok(Exit::Success)
}

fn table(checks: &[Check]) -> Table {
    let columns = ["topic", "check", "status", "evidence", "advice"];
    let row = |check: &Check| {
        vec![
            Cell::Text(check.topic.into()),
            Cell::Text(check.name.into()),
            Cell::Text(check.status.name().into()),
            Cell::Text(check.evidence.clone()),
            check.advice.clone().map_or(Cell::Null, Cell::Text),
        ]
    };
    Table { columns: columns.map(Into::into).into(), rows: checks.iter().map(row).collect() }
}

fn human(checks: &[Check], width: usize, palette: Palette) -> String {
    let mut text = String::new();
    let mut topics: Vec<_> = checks.iter().map(|check| check.topic).collect();
    topics.dedup();
    let mut seen = Vec::new();
    for topic in topics {
        if seen.contains(&topic) {
            continue;
        }
        seen.push(topic);
        text.push_str(&format!("{}\n", palette.heading(topic)));
        for check in checks.iter().filter(|check| check.topic == topic) {
            let status = format!("{:11}", check.status.name());
            let status = match check.status {
                CheckStatus::Ok => palette.good(status),
                CheckStatus::Advice => palette.warning(status),
                CheckStatus::Unknown => palette.faint(status),
                CheckStatus::Broken => palette.bad(status),
            };
            let label = format!("{:18}", check.name);
            let indent = " ".repeat(2 + 11 + 1 + 18 + 1);
            let evidence = wrapped(&check.evidence, width, &indent);
            let evidence = evidence.trim_start();
            text.push_str(&format!("  {status} {label} {evidence}\n"));
            if let Some(advice) = &check.advice {
                let arrow = format!("{}→ ", " ".repeat(14));
                let advice = wrapped(advice, width, &" ".repeat(16));
                text.push_str(&format!("{}{}\n", palette.faint(arrow), advice.trim_start()));
            }
        }
        text.push('\n');
    }
    let count = |status| checks.iter().filter(|check| check.status == status).count() as u64;
    let mut parts = vec![format!("{} ok", count(CheckStatus::Ok))];
    for (status, word) in [
        (CheckStatus::Advice, "with advice"),
        (CheckStatus::Unknown, "unknown"),
        (CheckStatus::Broken, "broken"),
    ] {
        if count(status) > 0 {
            parts.push(format!("{} {word}", count(status)));
        }
    }
    text.push_str(&parts.join(", "));
    text.push('\n');
    text
}
