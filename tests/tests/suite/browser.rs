//! The report in a real browser: it sorts, filters and draws, fits, fetches nothing and logs no error.

use std::path::Path;
use std::process::Command;

use end_to_end::{Place, root};
use serde_json::Value;

fn chromium() -> &'static str {
    ["chromium", "chromium-browser", "google-chrome"]
        .into_iter()
        .find(|name| Command::new(name).arg("--version").output().is_ok())
        .expect("there is no Chromium: install it, such as with `apt-get install chromium`")
}

/// Opens a page, and returns the document after its scripts ran. The log must have no complaint.
fn opened(place: &Place, page: &Path, size: &str, scheme: &str) -> String {
    let output = Command::new(chromium())
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--v=0"])
        .arg(format!("--user-data-dir={}", place.path().join("browser").display()))
        .arg(format!("--window-size={size}"))
        // 0 is dark, 1 is light.
        .arg(format!("--blink-settings=preferredColorScheme={scheme}"))
        .args(["--virtual-time-budget=4000", "--dump-dom"])
        .arg(format!("file://{}", page.display()))
        .output()
        .expect("starting the browser");
    let log = String::from_utf8_lossy(&output.stderr);
    let complaints: Vec<&str> = log.lines().filter(|line| line.contains(":CONSOLE")).collect();
    assert!(complaints.is_empty(), "{complaints:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Opens a copy of a page with a script that acts as a reader would, and returns what that saw.
fn probed(place: &Place, page: &Path, size: &str, scheme: &str) -> Value {
    let text = std::fs::read_to_string(page).expect("the page");
    assert!(text.contains("Content-Security-Policy"), "the page states what it may load");
    // The page allows only its own scripts; the inspected copy allows others.
    let text = text.replace("http-equiv=\"Content-Security-Policy\"", "name=\"left-out\"");
    let end = text.rfind("</body>").expect("a body");
    let probe = format!("<script>{}</script>", include_str!("probe.js"));
    let copy = place.write("probed.html", &format!("{}{probe}{}", &text[..end], &text[end..]));
    let document = opened(place, &copy, size, scheme);
    let title = document.split("<title>").nth(1).and_then(|rest| rest.split("</title>").next());
    let title = title.unwrap_or_else(|| panic!("no title in\n{document:.2000}"));
    let seen =
        title.strip_prefix("probe ").unwrap_or_else(|| panic!("the probe did not end: {title}"));
    let seen = seen
        .replace("&amp;", "&")
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&nbsp;", "\u{a0}");
    serde_json::from_str(&seen).unwrap_or_else(|error| panic!("{error}: {seen}"))
}

fn check_report(place: &Place, report: &Path, rows: u64, charts: usize) {
    // As it is, with its policy.
    let document = opened(place, report, "1280,900", "1");
    assert!(document.contains(" data-ready=\""), "the page's own script ran");
    for (size, scheme) in [("1280,900", "1"), ("1280,900", "0"), ("390,844", "1")] {
        let seen = probed(place, report, size, scheme);
        let what = format!("at {size}, scheme {scheme}: {seen:#}");
        assert_eq!(seen["errors"], Value::Array(Vec::new()), "{what}");
        assert_eq!(seen["wide"], false, "{what}");
        assert_eq!(seen["rows"], rows, "{what}");
        assert_eq!(seen["sorted"], true, "{what}");
        assert!(seen["filtered"].is_null() || seen["filtered"] == true, "{what}");
        assert_eq!(seen["numbers"], Value::Array(Vec::new()), "{what}");
        assert_eq!(seen["linked"], true, "{what}");
        assert!(seen["details"].as_u64().is_some_and(|count| count > 10), "{what}");
        assert!(seen["columns"].is_null() || seen["columns"] == true, "{what}");
        let drawn = seen["charts"].as_array().expect("charts");
        assert!(drawn.len() >= charts, "{what}");
        for chart in drawn {
            assert!(
                chart[1].as_u64().is_some_and(|marks| marks > 3),
                "{chart} has no marks: {what}"
            );
        }
        assert_eq!(seen["onScreen"].as_array().map(Vec::len), Some(3), "key columns: {what}");
        assert_eq!(seen["contrast"], Value::Array(Vec::new()), "{what}");
        assert_eq!(seen["unnamed"], 0, "{what}");
        assert_eq!(seen["fetched"], 0, "{what}");
    }
}

#[test]
fn the_report_of_the_quickstart_works_without_a_network() {
    let place = Place::new();
    let manifest = std::fs::read_to_string(root().join("manifests/quickstart.toml"))
        .expect("the quickstart")
        .replace("data/", &format!("{}/", root().join("manifests/data").display()))
        .replace("\"2s\"", "\"100ms\"")
        .replace("\"200ms\"", "\"20ms\"");
    place.write("quick.toml", &manifest);
    let _ = place.run(&["run", "quick.toml"]).expect(0);
    check_report(&place, &place.run_folder().join("reports/html/report.html"), 6, 4);
}

#[test]
fn a_report_of_many_cases_and_the_pages_over_runs_work() {
    let place = Place::new();
    place.write("any.model", "anything");
    place.write("other.model", "anything else");
    let manifest = "schema = 1\n[experiment]\nname = \"many\"\n\
         [[model]]\nid = \"any\"\npath = \"any.model\"\n[[model]]\nid = \"other\"\npath = \"other.model\"\n\
         [[backend]]\nid = \"null\"\n[[backend]]\nid = \"second\"\nplugin = \"null\"\n\
         [matrix]\nbatch = [1, 4]\nscenario = [\"single-stream\", \"offline\"]\n\
         [measure]\nwarm-up = 1\nduration = \"20ms\"\nminimum-queries = 400\nprocesses = 2\n\
         [[metric]]\nplugin = \"latency\"\n[[metric]]\nplugin = \"throughput\"\n[[metric]]\nplugin = \"memory\"\n\
         [[recommend]]\nplugin = \"hardware\"\n\
         [[report]]\nplugin = \"html\"\n[[report]]\nplugin = \"svg\"\n[[report]]\nplugin = \"junit\"\n\
         [[report]]\nplugin = \"prometheus\"\n";
    place.write("many.toml", manifest);
    for _ in 0..2 {
        let _ = place.run(&["run", "many.toml"]).expect(0);
    }
    let runs = place.run(&["--format", "json", "results", "list"]).expect(0).json();
    let [first, second] =
        [0, 1].map(|index| runs[index]["run_id"].as_str().expect("a run").to_owned());
    let reports = place.path().join("results/runs").join(&second).join("reports");
    check_report(&place, &reports.join("html/report.html"), 16, 8);
    assert!(reports.join("svg/latency-distribution-of-any.svg").is_file());
    let junit = std::fs::read_to_string(reports.join("junit/junit.xml")).expect("the report");
    assert!(junit.contains("tests=\"16\" failures=\"0\""), "{junit:.300}");
    assert!(reports.join("prometheus/metrics.prom").is_file());

    let compare = ["report", "--compare", &first, &second, "--to", "compared.html"];
    let _ = place.run(&compare).expect(0);
    let refused = place.run(&compare).expect(1);
    assert!(refused.stderr.contains("--force"), "{}", refused.stderr);
    let _ = place.run(&["history", "any", "--html", "history.html"]).expect(0);
    for (name, rows) in [("compared.html", 16), ("history.html", 8)] {
        let page = place.path().join(name);
        let document = opened(&place, &page, "1280,900", "1");
        assert!(document.contains(" data-ready=\""), "{name}: the page's own script ran");
        for (size, scheme) in [("1280,900", "0"), ("390,844", "1")] {
            let seen = probed(&place, &page, size, scheme);
            let what = format!("{name} at {size}: {seen:#}");
            assert_eq!((&seen["wide"], &seen["rows"]), (&false.into(), &rows.into()), "{what}");
            assert_eq!(seen["contrast"], Value::Array(Vec::new()), "{what}");
            for chart in seen["charts"].as_array().expect("charts") {
                assert!(
                    chart[1].as_u64().is_some_and(|marks| marks > 3),
                    "{chart} has no marks: {what}"
                );
            }
        }
    }
}
