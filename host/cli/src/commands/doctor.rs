//! `host doctor`.

use host_experiment::{Check, Settings, Standing, examine};
use host_record::{Cell, Table};
use serde_json::json;

use crate::exit::Exit;
use crate::failure::Result;
use crate::printer::Printer;
use crate::style::Palette;
use crate::visible::wrapped;

pub(crate) fn doctor(settings: &Settings, printer: &Printer) -> Result<Exit> {
    let checks = examine(settings);
    let shown = printer.machine(|| json!(checks), || table(&checks));
    if !shown {
        printer.show(human(&checks, printer.width(), printer.palette()));
    }
    let broken = checks.iter().any(|check| check.standing == Standing::Broken);
    Ok(if broken { Exit::Failure } else { Exit::Success })
}

fn table(checks: &[Check]) -> Table {
    let columns = ["topic", "check", "standing", "evidence", "advice"];
    let row = |check: &Check| {
        vec![
            Cell::Text(check.topic.into()),
            Cell::Text(check.name.into()),
            Cell::Text(check.standing.name().into()),
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
            let standing = format!("{:11}", check.standing.name());
            let standing = match check.standing {
                Standing::Ok => palette.good(standing),
                Standing::Advice => palette.warning(standing),
                Standing::Unknown => palette.faint(standing),
                Standing::Broken => palette.bad(standing),
            };
            let label = format!("{:18}", check.name);
            let indent = " ".repeat(2 + 11 + 1 + 18 + 1);
            let evidence = wrapped(&check.evidence, width, &indent);
            let evidence = evidence.trim_start();
            text.push_str(&format!("  {standing} {label} {evidence}\n"));
            if let Some(advice) = &check.advice {
                let arrow = format!("{}→ ", " ".repeat(14));
                let advice = wrapped(advice, width, &" ".repeat(16));
                text.push_str(&format!("{}{}\n", palette.faint(arrow), advice.trim_start()));
            }
        }
        text.push('\n');
    }
    let count = |standing| checks.iter().filter(|check| check.standing == standing).count() as u64;
    let mut parts = vec![format!("{} ok", count(Standing::Ok))];
    for (standing, word) in [
        (Standing::Advice, "with advice"),
        (Standing::Unknown, "cannot be told"),
        (Standing::Broken, "broken"),
    ] {
        if count(standing) > 0 {
            parts.push(format!("{} {word}", count(standing)));
        }
    }
    text.push_str(&parts.join(", "));
    text.push('\n');
    text
}
