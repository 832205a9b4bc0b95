//! The report in a real browser: it draws, fits, fetches nothing and logs no error.

use std::process::Command;

use end_to_end::{Place, root};

fn chromium() -> &'static str {
    ["chromium", "chromium-browser", "google-chrome"]
        .into_iter()
        .find(|name| Command::new(name).arg("--version").output().is_ok())
        .expect("there is no Chromium: install it, such as with `apt-get install chromium`")
}

#[test]
fn the_report_of_the_quickstart_draws_without_a_network() {
    let place = Place::new();
    let manifest = std::fs::read_to_string(root().join("manifests/quickstart.toml"))
        .expect("the quickstart")
        .replace("data/", &format!("{}/", root().join("manifests/data").display()))
        .replace("\"2s\"", "\"100ms\"")
        .replace("\"200ms\"", "\"20ms\"");
    place.write("quick.toml", &manifest);
    let _ = place.run(&["run", "quick.toml"]).expect(0);
    let report = place.run_folder().join("reports/html/report.html");

    // After layout, the browser reports what a reader would see.
    let probe = "<script>addEventListener('load', () => {\
                 const wide = document.documentElement.scrollWidth > innerWidth + 1;\
                 const charts = [...document.querySelectorAll('svg')];\
                 const drawn = charts.filter(c => c.getBoundingClientRect().height > 50);\
                 document.title = 'probe wide=' + wide + ' charts=' + drawn.length +\
                 ' fetched=' + performance.getEntriesByType('resource').length;\
                 });</script></body>";
    let text = std::fs::read_to_string(&report).expect("the report");
    // The report allows only its own scripts; the inspected copy allows others.
    assert!(text.contains("Content-Security-Policy"), "the report states what it may load");
    let text = text.replace("http-equiv=\"Content-Security-Policy\"", "name=\"left-out\"");
    let probed = place.write("probed.html", &text.replacen("</body>", probe, 1));
    for size in ["1280,900", "420,900"] {
        let output = Command::new(chromium())
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--enable-logging=stderr",
                "--v=0",
            ])
            .arg(format!("--user-data-dir={}", place.path().join("browser").display()))
            .arg(format!("--window-size={size}"))
            .args(["--virtual-time-budget=2000", "--dump-dom"])
            .arg(format!("file://{}", probed.display()))
            .output()
            .expect("starting the browser");
        let page = String::from_utf8_lossy(&output.stdout);
        let title = page.split("<title>").nth(1).and_then(|rest| rest.split("</title>").next());
        let title = title.unwrap_or_else(|| panic!("no title in\n{page}"));
        assert!(title.starts_with("probe wide=false"), "at {size}: {title}");
        assert!(title.ends_with("fetched=0"), "at {size}: {title}");
        let charts = title.split("charts=").nth(1).and_then(|rest| rest.split(' ').next());
        let charts: u32 = charts.and_then(|count| count.parse().ok()).expect("a count");
        assert!(charts >= 3, "at {size}: {title}");
        let log = String::from_utf8_lossy(&output.stderr);
        let complaints: Vec<&str> = log.lines().filter(|line| line.contains(":CONSOLE")).collect();
        assert!(complaints.is_empty(), "{complaints:?}");
    }
}
