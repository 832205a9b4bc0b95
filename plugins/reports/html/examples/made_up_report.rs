//! Writes reports of made-up runs into the given folder, to look at the
//! layout: `cargo run -p report-html --example made_up_report -- FOLDER`.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::PathBuf;

use plugin_guest::{NoOptions, Report};
use report_common::made_up::{self, COMPARISON, HUGE, LARGE, QUICKSTART, SINGLE, Shape};
use report_html::Html;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("name a folder to write to")?;
    let hostile = Shape {
        models: &[
            "<script>alert(1)</script> \"quoted\" & a name that is much longer than any name should be",
        ],
        backends: &["</title><img src=x onerror=alert(2)>", "gpu"],
        ..COMPARISON
    };
    let shapes = [
        ("quickstart", QUICKSTART),
        ("comparison", COMPARISON),
        (
            "sixty",
            Shape { models: &["resnet-50", "bert-base"], batches: &[1, 8, 32, 64], ..COMPARISON },
        ),
        ("large", LARGE),
        ("huge", HUGE),
        ("single", SINGLE),
        ("hostile", hostile),
    ];
    for (name, shape) in shapes {
        let mut tables = made_up::tables(&shape);
        advise(&mut tables)?;
        made_up::set_roof(&mut tables, 4);
        made_up::count_devices(&mut tables);
        let mut files = BTreeMap::new();
        Html::render(&tables, &mut files, NoOptions {})?;
        for contents in files.values() {
            std::fs::write(PathBuf::from(&folder).join(format!("{name}.html")), contents)?;
        }
    }
    Ok(())
}

/// Adds the advice of the recommender `hardware` for the tables.
fn advise(tables: &mut made_up::Tables) -> Result<(), Box<dyn Error>> {
    use plugin_guest::Recommender;
    let options = r#"{"limits": [{"metric": "latency.p99", "at-most": "5ms"}]}"#;
    let options =
        plugin_guest::parse_options(&recommender_hardware::Hardware::describe(), options)?;
    for advice in recommender_hardware::Hardware::recommend(tables, options)? {
        made_up::advise(tables, &advice);
    }
    Ok(())
}
