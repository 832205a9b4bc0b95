//! Cards of models: costs of a pass, peaks of the processor, and the use of them.

use end_to_end::onnx::{FLOAT, Weights, model};
use end_to_end::{Place, root};
use serde_json::Value;

fn manifest(place: &Place, model: &str, metric: &str) {
    let text = format!(
        "schema = 1\nexperiment = {{ name = \"card\" }}\n[[model]]\nid = \"m\"\npath = \"{model}\"\n\
         [[backend]]\nid = \"cpu\"\nthreads = 1\n[matrix]\nbatch = [1, 8]\n[measure]\nwarm-up = 1\n\
         duration = \"10ms\"\nminimum-queries = 10\n[[metric]]\nplugin = \"throughput\"\n[[metric]]\n\
         plugin = \"model\"\n{metric}\n[[report]]\nplugin = \"html\"\n[[report]]\nplugin = \"csv\"\n\
         [[report]]\nplugin = \"json\"\n[[report]]\nplugin = \"markdown\"\n"
    );
    place.write("it.toml", &text);
}

/// Returns the values and gaps of the metric, in the order of the plan.
fn values(place: &Place) -> Vec<Value> {
    let sql = "SELECT c.batch, r.metric, r.value, r.unit, r.gap_reason, r.attributes \
               FROM benchmark_results r JOIN benchmark_cases c USING (case_id) \
               WHERE r.metric LIKE 'model.%' ORDER BY c.batch, r.metric";
    let found = place.run(&["--format", "json", "results", "query", sql]).expect(0).json();
    found.as_array().expect("rows").clone()
}

fn of<'a>(values: &'a [Value], batch: u64, metric: &str) -> &'a Value {
    let is_it = |row: &&Value| row["batch"] == batch && row["metric"] == metric;
    values.iter().find(is_it).unwrap_or_else(|| panic!("{metric} of batch {batch}: {values:?}"))
}

#[test]
fn a_case_says_how_much_of_the_processor_it_uses() {
    let place = Place::new();
    manifest(&place, &root().join("manifests/data/digits.onnx").display().to_string(), "");
    let _ = place.run(&["run", "it.toml"]).expect(0);
    let values = values(&place);
    let real = |batch, metric: &str| {
        let row = of(&values, batch, metric);
        row["value"].as_f64().unwrap_or_else(|| panic!("{row}"))
    };
    assert_eq!(real(8, "model.operations"), 8.0 * real(1, "model.operations"));
    assert_eq!(real(8, "model.parameters"), real(1, "model.parameters"));
    assert!(real(8, "model.intensity") > real(1, "model.intensity"), "weights are read once");
    let units =
        ["size B", "operations FLOP", "intensity FLOP/B", "compute FLOP/s", "bandwidth B/s"];
    for (metric, unit) in units.iter().filter_map(|it| it.split_once(' ')) {
        assert_eq!(of(&values, 1, &format!("model.{metric}"))["unit"], unit);
    }
    // Other processors than these two have no kernel, and their peak is a gap.
    if cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        let (used, peak) = (real(8, "model.flops-utilisation"), real(8, "model.peak-compute"));
        assert!((used - real(8, "model.compute") / peak).abs() < 1e-9 * used, "{used}");
        let attributes = of(&values, 8, "model.flops-utilisation")["attributes"].to_string();
        assert!(attributes.contains("calibrated with "), "{attributes}");
        let record = &place.lines("journal.jsonl")[0]["outcome"]["conditions"]["peaks"]["Ok"];
        assert_eq!(record["source"]["kind"], "calibrated");
        assert_eq!(record["format"], "fp32");
        let page = std::fs::read_to_string(place.run_folder().join("reports/html/report.html"));
        let page = page.expect("a report");
        assert!(page.contains("id=\"roofline\"") && page.contains("arithmetic intensity"));
    }
    let stated = [
        ("csv/results.csv", "model.flops-utilisation"),
        ("json/results.json", "model.flops-utilisation"),
        ("markdown/report.md", "MFU"),
    ];
    for (report, said) in stated {
        let text = std::fs::read_to_string(place.run_folder().join("reports").join(report));
        assert!(text.expect(report).contains(said), "{report}");
    }
}

#[test]
fn without_utilisation_nothing_is_calibrated() {
    let place = Place::new();
    let digits = root().join("manifests/data/digits.onnx").display().to_string();
    manifest(&place, &digits, "options = { utilisation = false }");
    let _ = place.run(&["run", "it.toml"]).expect(0);
    let record = &place.lines("journal.jsonl")[0]["outcome"]["conditions"];
    assert!(record["peaks"].is_null(), "{record}");
    assert!(record["model"]["card"]["Ok"]["cost"]["flops"]["Ok"].is_u64(), "{record}");
    assert!(values(&place).iter().all(|row| !row["metric"].to_string().contains("peak")));
}

#[test]
fn a_model_with_an_operator_without_a_formula_has_a_gap_that_names_it() {
    let place = Place::new();
    let axes: &[&str] = &["batch", "2"];
    let weights = Weights { name: "w", sizes: &[2], file: None };
    let nodes: &[(&str, &[&str], &str)] = &[("Add", &["x", "w"], "z"), ("Twice", &["z"], "y")];
    let bytes = model(nodes, &[("x", FLOAT, axes)], &[("y", FLOAT, axes)], &[weights]);
    std::fs::write(place.path().join("m.onnx"), bytes).expect("the folder is writable");
    let found = place.run(&["--format", "json", "inspect", "m.onnx"]).expect(0).json();
    let gap = &found["cost"]["flops"]["Err"];
    assert_eq!(gap["cause"], "no-formula", "{found}");
    assert_eq!(gap["without-formula"][0], "Twice", "{found}");
}
