//! `host doctor`.

use std::path::Path;

use host_machine::Machine;
use host_record::{Cell, Table};
use host_registry::Registry;
use host_runtime::Standing as RuntimeStanding;
use serde_json::json;

use crate::doctor::{Check, Standing, examine};
use crate::exit::Exit;
use crate::failure::Result;
use crate::platform;
use crate::printer::Printer;
use crate::settings::Settings;
use crate::style::Palette;
use crate::summary::wrapped;
use crate::{runtimes, units};

const INSTALLATION: &str = "installation";

pub(crate) fn doctor(settings: &Settings, printer: &Printer) -> Result<Exit> {
    let mut checks = examine(&Machine::this());
    checks.push(worker(settings));
    checks.extend(plugins(settings));
    checks.push(results(&settings.results(None)));
    checks.push(database());
    let shown = printer.machine(|| json!(checks), || table(&checks));
    if !shown {
        printer.show(human(&checks, printer.width(), printer.palette()));
    }
    let broken = checks.iter().any(|check| check.standing == Standing::Broken);
    Ok(if broken { Exit::Failure } else { Exit::Success })
}

fn worker(settings: &Settings) -> Check {
    const NAME: &str = "worker";
    let name = platform::worker_file_name();
    let path = settings.executable_folder().map(|folder| folder.join(&name));
    match path {
        Some(path) if path.is_file() => Check::ok(INSTALLATION, NAME, path.display().to_string()),
        _ => Check::ok(INSTALLATION, NAME, format!("{name} is not beside the executable"))
            .broken("install host and host-worker into the same folder"),
    }
}

fn plugins(settings: &Settings) -> Vec<Check> {
    let registry = settings.registry(&[]);
    let (backends, guests) = (registry.natives().len(), registry.guests().len());
    let evidence = format!(
        "{}, {}",
        units::count(backends as u64, "backend", "backends"),
        units::count(guests as u64, "WASM plugin", "WASM plugins")
    );
    let check = Check::ok(INSTALLATION, "plugins", evidence);
    let mut checks = vec![if backends == 0 || guests == 0 {
        check.broken(
            "put the folder `plugins` beside the executable, or name one with --plugins or \
             TARE_PLUGINS",
        )
    } else {
        check
    }];
    checks.extend(settings.search(&[]).folders.iter().map(|folder| {
        let missing = if folder.path.is_dir() { "" } else { ", which does not exist" };
        let evidence = format!("{} ({}{missing})", folder.path.display(), folder.origin);
        Check::ok(INSTALLATION, "plugin folder", evidence)
    }));
    checks.extend(registry.problems().iter().map(|problem| {
        Check::ok(INSTALLATION, "plugin", problem.to_string()).advise(problem.help())
    }));
    checks.extend(runtimes_of(settings, &registry));
    checks
}

/// The runtime of each plugin that takes one.
fn runtimes_of(settings: &Settings, registry: &Registry) -> Vec<Check> {
    const NAME: &str = "runtime";
    let known = match settings.runtimes(registry) {
        Ok(known) => known,
        Err(failure) => {
            let check = Check::ok(INSTALLATION, NAME, failure.to_string());
            return vec![
                check.advise("correct --runtime; `host runtimes list` shows who takes one"),
            ];
        }
    };
    let natives = registry.natives().iter();
    let check = |plugin: &host_registry::NativePlugin| {
        let need = plugin.metadata.runtime.as_ref()?;
        let id = &plugin.metadata.id;
        let title = format!("`{}` {} of `{id}`", need.name, need.version);
        Some(match known.find(plugin) {
            Ok(Some(RuntimeStanding::Ready(ready))) => {
                let evidence = format!("`{}` of `{id}`: {}", ready.name, ready.path.display());
                Check::ok(INSTALLATION, NAME, evidence)
            }
            Ok(Some(RuntimeStanding::Missing { reason })) if need.optional => {
                let command = runtimes::install_command(id);
                let evidence = format!("{title} {reason}, and is optional ({command})");
                Check::ok(INSTALLATION, NAME, evidence)
            }
            Ok(Some(RuntimeStanding::Missing { reason } | RuntimeStanding::Damaged { reason })) => {
                let check = Check::ok(INSTALLATION, NAME, format!("{title} {reason}"));
                check.advise(runtimes::install_command(id))
            }
            // It is no fault of this machine's that the backend is for another.
            Ok(Some(RuntimeStanding::Unavailable { reason })) => {
                Check::ok(INSTALLATION, NAME, format!("{title} {reason}"))
            }
            Ok(None) => return None,
            Err(error) => {
                let check = Check::ok(INSTALLATION, NAME, error.to_string());
                check.advise(error.help().unwrap_or_else(|| runtimes::install_command(id)))
            }
        })
    };
    natives.filter_map(check).collect()
}

/// Whether results can be written, by writing to the nearest folder that exists.
fn results(folder: &Path) -> Check {
    const NAME: &str = "results";
    let here = std::env::current_dir().unwrap_or_default().join(folder);
    let existing = here.ancestors().find(|path| path.is_dir()).unwrap_or(Path::new("/"));
    let evidence = here.display().to_string();
    match tempfile::NamedTempFile::new_in(existing) {
        Ok(_) => Check::ok(INSTALLATION, NAME, evidence),
        Err(error) => Check::ok(INSTALLATION, NAME, format!("{evidence}: {error}"))
            .broken("name a folder that you may write to with --results or TARE_RESULTS"),
    }
}

fn database() -> Check {
    const NAME: &str = "DuckDB";
    match host_store::database_library_version() {
        Ok(version) => Check::ok(INSTALLATION, NAME, version),
        Err(error) => Check::ok(INSTALLATION, NAME, error.to_string())
            .broken("install libduckdb beside the executable, of the version that came with it"),
    }
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
