//! Plans a million cases and prints, as one JSON line, how long it took and the most memory that
//! the process had: `cargo xtask bench` reads it.

use std::error::Error;
use std::io::Write;
use std::time::Instant;

use host_manifest::parse;
use host_plan::{BackendFacts, Facts, ModelFacts, Plan};
use host_record::{DeviceInfo, FileId, PluginIdentity, Precision};

fn main() -> Result<(), Box<dyn Error>> {
    let numbers = |count: u32| (1..=count).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
    // 1000 batch sizes × 250 lengths × 2 precisions × 2 scenarios, with exclusions and an include
    // that repeats cells, so that every rule is at work.
    let text = format!(
        r#"
schema = 1
experiment = {{ name = "million" }}
model = [{{ id = "model", path = "model.onnx" }}]
backend = [{{ id = "cpu", threads = 1, options = {{ key = "value" }} }}]
[matrix]
batch = [{}, 1001]
sequence-length = [{}]
precision = ["fp32", "fp16"]
scenario = ["single-stream", "offline"]
include = [{{ batch = [1, 2, 3] }}]
exclude = [{{ batch = 1001 }}]
"#,
        numbers(1000),
        numbers(250),
    );
    let backend = BackendFacts::Ready {
        plugin: PluginIdentity {
            id: "cpu".to_owned(),
            version: "0.1.0".to_owned(),
            sha256: "0".repeat(64),
        },
        devices: vec![DeviceInfo {
            id: "cpu:0".to_owned(),
            kind: "cpu".to_owned(),
            name: "a processor".to_owned(),
            memory_bytes: None,
            modes: vec![host_record::Mode::Inference],
            precisions: vec![Precision::Fp32, Precision::Fp16],
            attributes: [("engine".to_owned(), "none".to_owned())].into(),
        }],
        lacks: None,
    };
    let model = ModelFacts::All(FileId {
        name: "model.onnx".into(),
        sha256: "0".repeat(64),
        ..FileId::default()
    });

    let start = Instant::now();
    let experiment = parse(&text)?;
    let facts = Facts {
        models: [("model".to_owned(), model)].into(),
        backends: [("cpu".to_owned(), backend)].into(),
        ..Facts::default()
    };
    let plan = Plan::new(&experiment, facts).map_err(|mut errors| errors.remove(0))?;
    // Every item is made and looked at, as `host plan` does.
    let cases = plan.items().filter(|item| item.id().len() == 16).count();
    let seconds = start.elapsed().as_secs_f64();

    let line = serde_json::json!({
        "bench": "plan-million",
        "cases": cases,
        "seconds": seconds,
        "peak_memory_bytes": peak_memory(),
    });
    writeln!(std::io::stdout(), "{line}")?;
    Ok(())
}

/// Returns the peak resident memory of this process, if the system reports it (Linux).
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}
