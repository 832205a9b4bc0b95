//! Nothing in a worker sends telemetry, for any environment of the user.

#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::fs;
use std::process::Stdio;

use end_to_end::Place;

const MANIFEST: &str = r#"schema = 1
[experiment]
name = "telemetry"
[[model]]
id = "any"
path = "any.model"
[[backend]]
id = "fault"
options = { fault = "slow", fault-milliseconds = 50 }
[measure]
warm-up = 1
duration = "2s"
minimum-queries = 1
[[metric]]
plugin = "latency"
"#;

/// Returns the workers among a process's children, each with its initial environment, from before any library was
/// loaded.
fn workers(host: u32) -> BTreeMap<String, Vec<String>> {
    let threads = fs::read_dir(format!("/proc/{host}/task")).into_iter().flatten().flatten();
    let lists =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let lists: Vec<String> = lists.collect();
    let children = lists.iter().flat_map(|list| list.split_whitespace());
    let worker = |child: &str| {
        // Before it becomes a worker, a child is a copy of the host.
        let program = fs::read_link(format!("/proc/{child}/exe")).ok()?;
        (program.file_name()? == "host-worker").then_some(())?;
        let environment = fs::read(format!("/proc/{child}/environ")).ok()?;
        let entries = environment.split(|byte| *byte == 0).filter(|entry| !entry.is_empty());
        let entries: Vec<_> =
            entries.map(|entry| String::from_utf8_lossy(entry).into_owned()).collect();
        // An ended process has no environment.
        (!entries.is_empty()).then(|| (child.to_owned(), entries))
    };
    children.filter_map(worker).collect()
}

#[test]
fn every_worker_is_told_before_any_library_is_loaded() {
    let place = Place::new();
    place.write("any.model", "anything");
    place.write("telemetry.toml", MANIFEST);
    let mut host = place
        .host(&["run", "telemetry.toml"])
        .env("ORT_DISABLE_TELEMETRY", "0")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("starting host");
    let mut seen = BTreeMap::new();
    let status = loop {
        seen.extend(workers(host.id()));
        if let Some(status) = host.try_wait().expect("waiting for host") {
            break status;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    };
    assert!(status.success(), "{status}");
    assert!(!seen.is_empty(), "no worker was seen");
    for (worker, environment) in seen {
        let variables: Vec<_> = environment
            .iter()
            .filter(|entry| entry.starts_with("ORT_DISABLE_TELEMETRY="))
            .collect();
        assert_eq!(variables, ["ORT_DISABLE_TELEMETRY=1"], "worker {worker}");
    }
}
