//! Dependencies between rooms point one way, as `docs/design/rooms.md` says.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

/// This workspace's packages that each package may depend on, except in tests.
const ALLOWED: &[(&str, &[&str])] = &[
    ("host-architectures", &["host-files", "host-hash", "host-onnx"]),
    ("tare-descendants", &[]),
    ("host-files", &[]),
    ("host-hash", &["host-files"]),
    ("host-record", &[]),
    ("tare-statistics", &[]),
    ("host-machine", &["host-record"]),
    ("host-manifest", &["host-record"]),
    ("host-measure", &["host-record"]),
    ("host-model", &["host-record"]),
    ("host-onnx", &["host-record"]),
    ("host-peaks", &["host-machine", "host-record"]),
    ("host-page", &["host-record"]),
    ("host-plan", &["host-hash", "host-manifest", "host-model", "host-record"]),
    ("host-registry", &["host-files", "host-hash", "host-record"]),
    ("host-authoring", &["host-files", "host-registry"]),
    ("host-runtime", &["host-files", "host-hash", "host-record", "host-registry"]),
    (
        "host-worker",
        &[
            "tare-descendants",
            "host-files",
            "host-hash",
            "host-machine",
            "host-measure",
            "host-model",
            "host-onnx",
            "host-peaks",
            "host-record",
            "tare-statistics",
            "onnx-file",
            "tare-plugin-api",
        ],
    ),
    (
        "host-run",
        &["tare-descendants", "host-machine", "host-plan", "host-record", "tare-statistics"],
    ),
    ("host-wasm", &["host-files", "host-hash", "host-record"]),
    ("host-serve", &[]),
    ("host-slurm", &[]),
    ("host-store", &["host-files", "host-hash", "host-record", "tare-statistics"]),
    (
        "host-experiment",
        &[
            "host-architectures",
            "host-files",
            "host-hash",
            "host-machine",
            "host-manifest",
            "host-model",
            "host-onnx",
            "host-plan",
            "host-record",
            "host-registry",
            "host-run",
            "host-runtime",
            "host-slurm",
            "tare-statistics",
            "host-store",
            "host-wasm",
        ],
    ),
    (
        "host-cli",
        &[
            "host-authoring",
            "host-experiment",
            "host-hash",
            "host-machine",
            "host-manifest",
            "host-model",
            "host-onnx",
            "host-page",
            "host-plan",
            "host-record",
            "host-registry",
            "host-run",
            "host-runtime",
            "host-serve",
            "tare-statistics",
            "host-store",
            "host-wasm",
        ],
    ),
    // A front end like the command line, whose words it takes.
    (
        "tare-python",
        &[
            "host-cli",
            "host-experiment",
            "host-hash",
            "host-manifest",
            "host-plan",
            "host-record",
            "host-store",
        ],
    ),
    ("tare-plugin-api", &[]),
    ("tare-plugin-guest", &["tare-statistics"]),
    ("tare-plugin-testkit", &["tare-descendants", "tare-plugin-api"]),
    ("onnx-file", &["host-onnx", "host-record", "tare-plugin-api"]),
    ("engine-onnxruntime", &["onnx-file", "tare-plugin-api"]),
    ("backend-cpu", &["engine-onnxruntime", "onnx-file", "tare-plugin-api"]),
    ("backend-cuda", &["engine-onnxruntime", "tare-plugin-api"]),
    ("backend-rocm", &["engine-onnxruntime", "tare-plugin-api"]),
    ("backend-mps", &["engine-onnxruntime", "tare-plugin-api"]),
    ("backend-qnn", &["engine-onnxruntime", "tare-plugin-api"]),
    ("backend-webgpu", &["engine-onnxruntime", "tare-plugin-api"]),
    ("backend-openvino", &["onnx-file", "tare-plugin-api"]),
    // Its engine, `engine-torch`, is not in the workspace: linking it needs PyTorch.
    ("backend-torch", &["tare-plugin-api"]),
    ("backend-null", &["tare-plugin-api"]),
    ("backend-fault", &["tare-plugin-api"]),
    ("end-to-end", &[]),
    (
        "fuzz",
        &[
            "host-experiment",
            "host-manifest",
            "host-onnx",
            "host-record",
            "host-registry",
            "host-runtime",
            "host-store",
            "host-wasm",
            "host-worker",
            "onnx-file",
            "tare-plugin-api",
        ],
    ),
    ("xtask", &[]),
];

/// Dependencies that a package must not link, even indirectly.
const FORBIDDEN: &[(&str, &[&str])] = &[
    // The worker is small and fast to start, and holds no parts of the host that a plugin could break.
    ("host-worker", &["wasmtime", "duckdb", "libduckdb-sys", "parquet", "clap"]),
    // The application never opens a native plugin; workers do.
    ("host-experiment", &["tare-plugin-api", "host-worker", "host-measure"]),
    ("host-cli", &["tare-plugin-api", "host-worker", "host-measure"]),
    ("tare-python", &["tare-plugin-api", "host-worker", "host-measure"]),
    // Authors of a backend need no other crate.
    ("tare-plugin-api", &["host-record", "serde", "serde_json", "tracing"]),
];

/// Crates that know a terminal: arguments, tables, bars, colours, signals and the rendering of errors.
const TERMINAL: &[&str] = &[
    "clap",
    "comfy-table",
    "indicatif",
    "miette",
    "signal-hook",
    "textwrap",
    "tracing-subscriber",
];

fn metadata() -> Value {
    let cargo = std::env::var_os("CARGO").expect("cargo names itself to tests");
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--locked"])
        .current_dir(end_to_end::root())
        .output()
        .expect("starting cargo");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON")
}

/// Returns each package's dependencies by name, except those of tests only.
fn graph(metadata: &Value) -> BTreeMap<String, BTreeSet<String>> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let names: BTreeMap<String, String> = list(&metadata["packages"])
        .iter()
        .map(|package| {
            let text = |name: &str| package[name].as_str().expect("a string").to_owned();
            (text("id"), text("name"))
        })
        .collect();
    let mut graph = BTreeMap::new();
    for node in list(&metadata["resolve"]["nodes"]) {
        let dependencies = list(&node["deps"]).into_iter().filter(|dependency| {
            list(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"].is_null())
        });
        let dependencies = dependencies
            .map(|dependency| names[dependency["pkg"].as_str().expect("an id")].clone());
        let name = names[node["id"].as_str().expect("an id")].clone();
        graph.entry(name).or_insert_with(BTreeSet::new).extend(dependencies);
    }
    graph
}

#[test]
fn rooms_depend_only_on_rooms_before_them() {
    let metadata = metadata();
    let graph = graph(&metadata);
    let ours: BTreeSet<String> = metadata["packages"]
        .as_array()
        .expect("packages")
        .iter()
        .filter(|package| {
            let members = metadata["workspace_members"].as_array().expect("members");
            members.contains(&package["id"])
        })
        .map(|package| package["name"].as_str().expect("a name").to_owned())
        .collect();
    let allowed: BTreeMap<&str, &[&str]> = ALLOWED.iter().copied().collect();
    for name in &ours {
        let Some(allowed) = allowed.get(name.as_str()) else {
            panic!("{name} is new: say in this test what it may depend on");
        };
        for dependency in graph[name].intersection(&ours) {
            assert!(
                allowed.contains(&dependency.as_str()),
                "{name} must not depend on {dependency}: the arrow points the other way"
            );
        }
    }
}

#[test]
fn nothing_heavy_or_dangerous_is_linked_where_it_must_not_be() {
    let graph = graph(&metadata());
    for (package, forbidden) in FORBIDDEN {
        let mut reached = BTreeSet::new();
        let mut open = vec![*package];
        while let Some(name) = open.pop() {
            for dependency in graph.get(name).into_iter().flatten() {
                if reached.insert(dependency.as_str()) {
                    open.push(dependency);
                }
            }
        }
        for name in *forbidden {
            assert!(!reached.contains(name), "{package} must not be linked with {name}");
        }
    }
}

/// DuckDB's own dependencies include a crate for tables, so the test checks the direct dependencies of this
/// workspace's packages.
#[test]
fn only_the_command_line_knows_terminals() {
    let graph = graph(&metadata());
    for (package, _) in ALLOWED {
        let named: Vec<_> =
            TERMINAL.iter().filter(|name| graph[*package].contains(**name)).collect();
        match *package {
            "host-cli" => {
                assert_eq!(named.len(), TERMINAL.len(), "the list names what is not used")
            }
            _ => assert!(named.is_empty(), "{package} must not know a terminal: {named:?}"),
        }
    }
}
