//! Required and forbidden contents of the page.

use std::collections::{BTreeMap, BTreeSet};

use plugin_guest::{Cell, NoOptions, Recommender, Report};
use recommender_hardware::{Hardware, Options};
use report_common::made_up::{self, COMPARISON, HUGE, LARGE, QUICKSTART, SINGLE, Shape, Tables};

use crate::{FILE, Html};

fn rendered(tables: &Tables) -> String {
    let mut files = BTreeMap::new();
    let names = Html::render(tables, &mut files, NoOptions {}).expect("a report");
    assert_eq!(names, [FILE]);
    let page = String::from_utf8(files.remove(FILE).expect("the named file")).expect("UTF-8");
    check(&page);
    page
}

fn advised(shape: &Shape<'_>) -> Tables {
    let mut tables = made_up::tables(shape);
    for advice in Hardware::recommend(&tables, Options::default()).expect("advice") {
        made_up::advise(&mut tables, &advice);
    }
    tables
}

#[test]
fn profiled_cases_have_a_flame_graph() {
    let page = rendered(&advised(&QUICKSTART)).replace('\u{202f}', " ");
    let (_, section) = page.split_once("<section id=\"profile\"").expect("a section");
    let (section, _) = section.split_once("</section>").expect("its end");
    assert_eq!(section.matches("<figure>").count(), 3, "{section}");
    for text in
        ["<title>layer.0: ", ", 62.5 %</title>", "<title>Conv: ", "less than a thousandth each"]
    {
        assert!(section.contains(text), "{text}: {section}");
    }
    assert!(section.contains("11 operators take "), "{section}");
    assert!(section.contains("of the measured median of "), "{section}");
}

/// Returns all values of an attribute.
fn attributes<'a>(page: &'a str, name: &str) -> Vec<&'a str> {
    let start = format!(" {name}=\"");
    page.split(&start).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

/// Checks rules for every page.
fn check(whole: &str) {
    assert!(whole.starts_with("<!DOCTYPE html>"));
    let data = "<script type=\"application/json\" id=\"data\">";
    let (page, rest) = whole.split_once(data).expect("the data");
    assert!(!page.contains("http:") && !page.contains("https:"), "nothing is fetched");
    assert!(!page.contains("<script") && !page.contains("<img"), "nothing runs or loads");
    let (data, scripts) = rest.split_once("</script>").expect("the end of the data");
    let data: serde_json::Value = serde_json::from_str(data).expect("JSON");
    let scripts: Vec<&str> = scripts.split("<script>").skip(1).collect();
    let own = [host_page::LIBRARY, host_page::SCRIPT];
    let own = if data["figures"] == serde_json::json!([]) { &own[1..] } else { &own };
    let ended: Vec<_> = scripts.iter().filter_map(|it| it.split("</script>").next()).collect();
    assert_eq!(
        ended.iter().map(|it| it.len()).collect::<Vec<_>>(),
        own.iter().map(|it| it.len()).collect::<Vec<_>>()
    );
    assert!(ended.iter().zip(own).all(|(one, other)| one == other), "no other script");
    // Every case has one entry in each column.
    let cases = data["cases"].as_array().expect("cases").len();
    for metric in data["metrics"].as_array().expect("metrics") {
        assert_eq!(metric["of"].as_array().expect("a column").len(), cases, "{}", metric["name"]);
    }
    for element in
        ["svg", "table", "tr", "td", "th", "section", "details", "ul", "p", "path", "text"]
    {
        let opened = page.matches(&format!("<{element} ")).count()
            + page.matches(&format!("<{element}>")).count();
        assert_eq!(opened, page.matches(&format!("</{element}>")).count(), "{element}");
    }
    let ids = attributes(page, "id");
    let unique: BTreeSet<_> = ids.iter().copied().collect();
    assert_eq!(ids.len(), unique.len(), "an id is there once");
    for target in attributes(page, "href") {
        let id = target.strip_prefix('#').expect("links stay on the page");
        assert!(unique.contains(id), "{target} leads nowhere");
    }
    for name in ["d", "x", "y", "x1", "x2", "y1", "y2", "width", "height"] {
        for value in attributes(page, name) {
            assert!(!value.contains("NaN") && !value.contains("inf"), "{name}={value}");
        }
    }
}

#[test]
fn the_quickstart_has_every_section() {
    let page = rendered(&advised(&QUICKSTART));
    for id in [
        "recommendations",
        "results",
        "distribution",
        "batch",
        "timeline",
        "history",
        "warnings",
        "method",
        "machine",
        "plugins",
    ] {
        assert!(page.contains(&format!("<section id=\"{id}\"")), "{id}");
    }
    assert!(page.contains("<h3>digits: use batch 1: lowest p99 latency"));
    assert!(page.contains("href=\"#case-5eed000000000000\""));
    assert!(
        page.contains("9f86d081884c7d65") || page.contains(&"a".repeat(64)),
        "hashes are there"
    );
    assert!(page.contains("minimum queries"));
    assert!(page.contains("CLOCK_MONOTONIC"));
}

#[test]
fn what_a_case_was_measured_under_is_shown() {
    let mut tables = advised(&QUICKSTART);
    made_up::open_loop(&mut tables, 0);
    let page = rendered(&tables).replace('\u{202f}', " ");
    assert!(page.contains("<th class=\"number\" scope=\"col\">copy out</th>"));
    assert!(page.contains("<td class=\"number\">3.40 GHz</td><td class=\"number\">3.40 GHz</td>"));
    assert!(!page.contains("thermal throttles"), "no machine has told");
    assert!(page.contains("<dt>processors</dt><dd>0-15, not pinned</dd>"));
    let search = "<td>mean of the rates that 2 processes found: 398/s (95 % interval of the mean: 366/s to 429/s); each \
                  found 400/s, 395/s; the first process: found: 400/s accepted, 410/s rejected; 2 probes; by 6 measurements the latency stays below 4.80 ms with 95 %; bound by \
                  the latency; the limit is reached at 410/s; a slope</td>";
    assert!(page.contains(search), "{page}");
    assert!(page.contains("<td>5.30 µs</td>"), "the generator's lateness");
}

#[test]
fn few_processes_are_named() {
    let mut tables = advised(&QUICKSTART);
    assert!(!rendered(&tables).contains("an interval over processes needs"));
    let table = tables.get_mut("results").expect("a view");
    let attributes = r#"{"process-values":"1 2","few-processes":"needs 5 processes, has 2"}"#;
    table.rows[0][9] = Cell::Text(attributes.into());
    assert!(rendered(&tables).contains("an interval over processes needs 5 processes, has 2"));
}

#[test]
fn a_metric_is_defined_once() {
    let mut tables = advised(&QUICKSTART);
    let table = tables.get_mut("results").expect("a view");
    let mut intervals = ["order statistics", "none: needs 36", "Student's t"].into_iter().cycle();
    for row in table.rows.iter_mut().filter(|row| row[1] == Cell::Text("latency.p90".into())) {
        let interval = intervals.next().expect("one after the other");
        let attributes = format!(r#"{{"definition":"nearest rank","interval":"{interval}"}}"#);
        row[9] = Cell::Text(attributes);
    }
    let page = rendered(&tables);
    let definitions = &page[page.find("<h3>Definitions").expect("there are some")..];
    let definitions = &definitions[..definitions.find("</dl>").expect("their end")];
    insta::assert_snapshot!(definitions, @r#"<h3>Definitions</h3><dl class="facts"><dt>latency.p90</dt><dd>definition: nearest rank · interval: order statistics, or Student's t</dd>"#);
}

#[test]
fn what_is_missing_has_its_reason_and_no_number() {
    let page = rendered(&advised(&COMPARISON));
    let row = |id: u64| {
        let start = page.find(&format!("<tr id=\"case-{}\"", made_up::case_id(id))).expect("a row");
        let rest = &page[start..];
        &rest[..rest.find("</tr>").expect("its end")]
    };
    assert!(row(30).contains("<b>Failed</b> (out-of-memory): out of memory in phase prepare"));
    assert!(row(24).contains(
        "<b>Not possible</b> (precision-unsupported): the backend `gpu` does not support int8"
    ));
    for id in [24, 30] {
        assert!(!row(id).contains("/s</td>") && !row(id).contains("MiB</td>"));
    }
    // Too few queries for a p99 are noted in the row and explained below.
    assert!(row(6).contains("title=\"needs 368 queries, has 203\">gap"));
    assert!(page.contains("<a class=\"tag\" href=\"#warnings\">drift</a>"));
}

#[test]
fn no_name_becomes_markup() {
    let hostile =
        "</title><script>alert(1)</script><img src=x onerror=alert(2)>\" onload=\"alert(3)";
    let shape = Shape { models: &[hostile, "plain"], backends: &[hostile], ..COMPARISON };
    let mut tables = advised(&shape);
    made_up::append_to_texts(&mut tables, hostile);
    for table in tables.values_mut() {
        for row in &mut table.rows {
            for cell in row {
                // All other texts as well, except those that the page interprets.
                if let Cell::Text(text) = cell
                    && [" ", "µ", "Example", "aaaa"].iter().any(|part| text.contains(part))
                    && !text.starts_with('[')
                    && !text.starts_with('{')
                {
                    text.push_str(hostile);
                }
            }
        }
    }
    let page = rendered(&tables);
    assert!(page.contains("&lt;script&gt;alert(1)"));
    assert!(!page.contains(" onload=\"alert"));
}

#[test]
fn control_characters_are_seen_and_long_reasons_cut() {
    let mut tables = advised(&Shape {
        models: &["a\x1b[2J\0\u{9b}<b>\u{202e}\u{2067}"],
        troubled: true,
        ..COMPARISON
    });
    made_up::give_reason(&mut tables, &format!("\x07{}", "x".repeat(2999)));
    let page = rendered(&tables);
    assert!(page.contains(r"a␛[2J␀\u{9b}&lt;b&gt;\u{202e}\u{2067}"));
    let acts = |one| report_common::host_record::visible::acts(one) && one != '\n';
    assert!(!page.contains(acts), "HTML forbids them, or they turn the direction of writing");
    assert!(page.contains("x … 1000 characters left out"));
    assert!(page.contains("x … 2700 characters left out"));
    assert!(!page.contains(&"x".repeat(2000)));
}

#[test]
fn one_case_has_no_empty_charts() {
    let page = rendered(&advised(&SINGLE));
    assert!(page.contains("<section id=\"distribution\""));
    for id in ["batch", "trade", "hardware", "architecture"] {
        assert!(!page.contains(&format!("<section id=\"{id}\"")), "{id}");
    }
}

#[test]
fn many_cases_are_drawn_in_part_and_listed_in_full() {
    let page = rendered(&advised(&LARGE));
    assert!(page.contains("The first 8 of "));
    assert_eq!(page.matches("<tr id=\"case-").count(), 192);
}

#[test]
fn five_hundred_cases_are_a_page_that_opens() {
    let page = rendered(&advised(&HUGE));
    let own = host_page::LIBRARY.len() + host_page::SCRIPT.len() + host_page::STYLE.len();
    assert!(own < 1_500_000, "{own} bytes before data");
    assert!(page.len() - own < 2_500_000, "{} bytes of data", page.len() - own);
    for id in ["hardware", "architecture", "timeline", "history"] {
        assert!(page.contains(&format!("<section id=\"{id}\"")), "{id}");
    }
    // Many cases are counted, not named.
    let advice = page.split("<article").skip(1).filter_map(|rest| rest.split("</article>").next());
    for piece in advice {
        assert!(piece.matches("href=\"#case-").count() <= 4, "{piece}");
    }
    assert!(page.contains("show them in the table"));
}

#[test]
fn extreme_figures_are_drawn_too() {
    let mut tables = advised(&QUICKSTART);
    for (case, latency) in [(0, 0), (2, 1), (4, i64::MAX)] {
        for row in &mut tables.get_mut("latency_quantiles").expect("a view").rows {
            if row[0] == Cell::Text(made_up::case_id(case)) {
                row[2] = Cell::Integer(latency);
            }
        }
        let value = Some(latency as f64);
        for metric in ["latency.p50", "latency.p99"] {
            made_up::set_value(
                &mut tables,
                case,
                metric,
                value,
                Some((latency as f64, f64::INFINITY)),
            );
        }
        made_up::set_value(&mut tables, case, "throughput.samples", Some(0.0), None);
    }
    rendered(&tables);
}

#[test]
fn a_run_without_cases_is_a_page() {
    let mut tables = made_up::tables(&SINGLE);
    for (name, table) in &mut tables {
        if name != "run" {
            table.rows.clear();
        }
    }
    assert!(rendered(&tables).contains("The plan has no case."));
}

#[test]
fn what_devices_count_has_columns_where_there_is_any() {
    let mut tables = advised(&COMPARISON);
    assert!(!rendered(&tables).contains(">device memory<"));
    made_up::count_devices(&mut tables);
    let page = rendered(&tables).replace('\u{202f}', " ");
    for heading in ["device memory", "device energy per sample", "processor energy per sample"] {
        assert!(page.contains(&format!(">{heading}</th>")), "{heading}");
    }
    assert!(page.contains("732 MiB") && page.contains("12.5 mJ") && page.contains("31.0 mJ"));
    assert!(page.contains("device memory: the backend does not count it"));
}

#[test]
fn cases_are_drawn_under_the_roof_of_their_device() {
    let mut tables = advised(&COMPARISON);
    assert!(!rendered(&tables).contains("id=\"roofline\""));
    made_up::set_roof(&mut tables, 3);
    let page = rendered(&tables).replace('\u{202f}', " ");
    let start = page.find("id=\"roofline\"").expect("a section");
    let section = &page[start..start + page[start..].find("</section>").expect("its end")];
    for said in [
        "operations per second in GFLOP/s, logarithmic",
        "arithmetic intensity (FLOP/B), logarithmic",
        "peak 154 GFLOP/s",
        ">41.0 GB/s</text>",
        "40 % of the roof",
        "Peaks are calibrated with 2 threads (AVX-512 FMA; reads of 128 MiB).",
    ] {
        assert!(section.contains(said), "{said}: {section}");
    }
    assert_eq!(section.matches("class=\"curve none thin\"").count(), 1);
    assert_eq!(section.matches("% of the roof").count(), 3, "a point for each case");
    assert!(page.contains(">MFU</th>") && page.contains("21.4 %"), "{page}");
}

#[test]
fn inputs_are_told_with_shape_and_origin() {
    let mut tables = advised(&COMPARISON);
    assert!(!rendered(&tables).contains("id=\"inputs\""));
    made_up::use_input(&mut tables, 2);
    let page = rendered(&tables);
    assert!(page.contains("id=\"inputs\""));
    let row = "<td>ids</td><td>int64</td><td>[8, 128]</td><td>drawn from 0 to 30521 (Gather)</td>";
    assert!(page.contains(row), "{page}");
}

#[test]
fn outputs_that_were_compared_are_told_with_all_figures() {
    let mut tables = advised(&COMPARISON);
    assert!(!rendered(&tables).contains("id=\"parity\""));
    made_up::compare_outputs(&mut tables, 2);
    let page = rendered(&tables);
    assert!(page.contains("id=\"parity\""));
    for said in [
        "<td>logits</td><td>cpu 0.1.0 on cpu:0 in fp32</td>",
        ">3.4e-3</td>",
        ">5.6e-3</td>",
        ">0.999987</td>",
        ">97.5 %</td>",
        ">0.999981</td>",
        "1e-2 of the scale + 2e-2 of the value, cosine 0.999, top-1 95 %",
    ] {
        assert!(page.contains(said), "{said}");
    }
}

#[test]
fn a_trained_case_has_its_phases_and_its_curves() {
    let mut tables = advised(&QUICKSTART);
    assert!(!rendered(&tables).contains("<section id=\"training\""));
    let results = tables.get_mut("results").expect("a view");
    let row = results.rows[0].clone();
    let mut add = |metric: &str, unit: &str, value: f64| {
        let mut row = row.clone();
        (row[1], row[2]) = (Cell::Text(metric.into()), Cell::Real(value));
        for column in [5, 6] {
            row[column] = Cell::Null;
        }
        let place = results.columns.iter().position(|column| column == "unit").expect("a column");
        row[place] = Cell::Text(unit.into());
        results.rows.push(row);
    };
    add("training.phase.forward", "ns", 3e6);
    add("training.phase.backward", "ns", 6e6);
    add("training.explained", "%", 90.0);
    add("training.cost-of-looking", "%", 5.0);
    made_up::change_report(&mut tables, 0, |report| {
        let epoch = |loss, right| report_common::host_record::Epoch {
            loss: Some(loss),
            right: Some(right),
            test_loss: Some(loss * 2.0),
            ..Default::default()
        };
        report.conditions.learning = Some(Ok(report_common::host_record::Learning {
            steps: 2,
            batch: 8,
            test_examples: 10,
            losses: vec![Some(2.0), Some(1.0), None, Some(0.01)],
            epochs: vec![epoch(1.5, 4), epoch(0.01, 9)],
            ..Default::default()
        }));
    });
    let page = rendered(&tables).replace('\u{202f}', " ");
    assert!(page.contains("<section id=\"training\""));
    assert!(page.contains("forward 3.00 ms (30.0 %)</title>"), "{page}");
    assert!(page.contains("between 1.00 ms (10.0 %)</title>"), "what no phase explains");
    assert!(page.contains("Looking costs 5.0 % of a step."));
}

#[test]
fn pairs_have_a_table() {
    let mut tables = made_up::tables(&COMPARISON);
    made_up::pair(&mut tables, [0, 1]);
    let page = rendered(&tables);
    let row = "<td>+1.80 %</td><td>+1.20 % to +2.40 % (99.5 %)</td><td>slower, 12 processes</td>";
    assert!(page.contains(row) && page.contains("id=\"pairs\""), "{page}");
}
