//! Outputs are compared and placement is checked before and after timing, from a manifest to the report.

use std::fs;

use end_to_end::Place;

const MANIFEST: &str = r#"schema = 1
[experiment]
name = "check"
[[model]]
id = "any"
path = { fp32 = "any.model", int8 = "other.model" }
[[backend]]
id = "well"
plugin = "fault"
options = { fault-offers = "profile, device-timer", fault = "slow", fault-milliseconds = 2 }
[[backend]]
id = "zeros"
plugin = "fault"
options = { fault = "zeros" }
[[backend]]
id = "stale"
plugin = "fault"
options = { fault = "stale" }
[[backend]]
id = "elsewhere"
plugin = "fault"
placement = "strict"
options = { fault-offers = "profile", fault = "fallback" }
[check]
reference = "fault"
[measure]
warm-up = 1
duration = "20ms"
minimum-queries = 1
[[metric]]
plugin = "latency"
[[report]]
plugin = "html"
"#;

#[test]
fn what_differs_from_the_reference_and_what_ran_elsewhere_fails_with_figures() {
    let place = Place::new();
    place.write("any.model", "anything");
    place.write("other.model", "something else");
    place.write("check.toml", MANIFEST);
    let run = place.run(&["run", "check.toml"]).expect(6);
    let journal = place.lines("journal.jsonl");
    let outcome = |backend: &str| {
        let record = journal.iter().find(|record| record["key"]["backend"] == backend);
        record.unwrap_or_else(|| panic!("no case of {backend}"))["outcome"].clone()
    };
    let well = outcome("well");
    assert_eq!(well["outcome"], "finished", "{well}");
    assert_eq!(well["conditions"]["parity"]["outputs"][0]["beyond"], 0, "{well}");
    assert_eq!(well["conditions"]["placement"]["Ok"]["wanted"][0], "FaultProvider", "{well}");
    for backend in ["zeros", "stale"] {
        let failure = &outcome(backend)["failure"];
        assert_eq!(
            (&failure["kind"], &failure["difference"]),
            (&"differs".into(), &backend.into())
        );
        assert_eq!(failure["parity"]["batches"], 2, "the figures: {failure}");
    }
    assert_eq!(outcome("elsewhere")["failure"]["kind"], "misplaced");
    assert!(run.stdout.contains("1 on OtherProvider"), "{}", run.stdout);

    let folder = place.run_folder();
    assert!(!folder.join("references").exists(), "they can be large");
    let page = fs::read_to_string(folder.join("reports/report.html")).expect("the report");
    assert!(page.contains("2 on FaultProvider"), "where the operators ran");
    assert!(page.contains("outputs compared"));
    let asked = "SELECT name, provider FROM operators ORDER BY start_ns";
    let table = place.run(&["results", "query", asked, "--format", "csv"]).expect(0);
    assert_eq!(table.stdout, "name,provider\ncopied,FaultProvider\nsum,FaultProvider\n");
}
