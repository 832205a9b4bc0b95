//! Two runs of one manifest, side by side; and the tables and views that `host results query` lists.

use std::collections::BTreeSet;
use std::fs;

use end_to_end::{Place, root};

/// Returns a manifest with the quickstart's model on the processor, because simulated cases are
/// left out.
fn manifest(batch: u32, processes: u32) -> String {
    let model = root().join("manifests/data/digits.onnx");
    format!(
        r#"schema = 1
[experiment]
name = "compare"
[[model]]
id = "digits"
path = {:?}
[model.inputs.image]
low = 0
high = 1
[[backend]]
id = "cpu"
[matrix]
batch = [{batch}]
[measure]
warm-up = 1
duration = "200ms"
minimum-queries = 1
processes = {processes}
[[metric]]
plugin = "latency"
[[report]]
plugin = "json"
"#,
        model.display().to_string()
    )
}

/// Two variants of a model that answer the same labelled examples, within one run.
#[test]
fn variants_are_compared_within_a_run_and_by_their_examples() {
    let place = Place::new();
    let data = root().join("manifests/data");
    let file = |name: &str| format!("{:?}", data.join(name).display().to_string());
    let model = |id: &str, path: &str| {
        format!(
            "[[model]]\nid = \"{id}\"\npath = {}\n[model.data]\ninputs = {{ image = {} }}\nlabels = {}\n",
            file(path),
            file("digits-test-images.npy"),
            file("digits-test-labels.npy")
        )
    };
    let (trained, untrained) =
        (model("good", "digits.onnx"), model("bad", "digits-untrained.onnx"));
    place.write(
        "it.toml",
        &format!(
            "schema = 1\nexperiment = {{ name = \"variants\" }}\n{trained}{untrained}[[backend]]\nid = \"cpu\"\n\
             [measure]\nwarm-up = 1\nduration = \"20ms\"\nminimum-queries = 5\nprocesses = 2\n\
             [[metric]]\nplugin = \"latency\"\n[[metric]]\nplugin = \"throughput\"\n[[metric]]\nplugin = \"memory\"\n\
             [[metric]]\nplugin = \"accuracy\"\n[[report]]\nplugin = \"json\"\n\
             [[price]]\nbackend = \"cpu\"\nper-hour = 0.17\n"
        ),
    );
    let _ = place.run(&["run", "it.toml"]).expect(0);
    let compare = |sides: &str| {
        let line = ["--format", "json", "compare", "latest", "--between", sides];
        place.run(&line).expect(0).json()
    };
    let found = compare("model=good,bad");
    let cases = found["cases"].as_array().expect("cases");
    assert_eq!((cases.len(), &found["in-one-run-only"]), (1, &0.into()));
    assert_eq!(
        (&cases[0]["redefined"], &found["conditions"]),
        (&false.into(), &serde_json::json!([]))
    );
    let named = |list: &serde_json::Value, name: &str| {
        let all = list.as_array().expect("a list").iter();
        all.clone().find(|one| one["metric"] == name).expect(name).clone()
    };
    let accuracy = named(&cases[0]["metrics"], "accuracy.top1");
    assert_eq!((&accuracy["verdict"], &accuracy["exact"]), (&"worse".into(), &true.into()));
    let paired = &accuracy["paired"];
    assert!(paired["probability"].as_f64().expect("one") < 1e-6, "{paired}");
    let [first, second] = ["only-first-right", "only-second-right"].map(|it| paired[it].as_u64());
    assert!(first > second, "{paired}");
    for name in ["efficiency.per-memory", "efficiency.per-price"] {
        assert!(named(&cases[0]["efficiency"], name)["ratio"].as_f64().is_some(), "{name}");
    }
    // Exchanging the sides mirrors it.
    let back = compare("model=bad,good");
    let mirrored = named(&back["cases"][0]["metrics"], "accuracy.top1");
    assert_eq!(mirrored["verdict"], "better");
    assert_eq!(mirrored["paired"]["only-first-right"], paired["only-second-right"]);
    let shown = place.run(&["compare", "latest", "--between", "model=good,bad"]).expect(0);
    let text = shown.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("Efficiency") && text.contains("McNemar's p below 0.001"), "{text}");
    assert!(shown.stderr.contains("order = \"interleaved\""), "{}", shown.stderr);
    let wrong = place.run(&["compare", "latest", "--between", "model=good,ugly"]).expect(7);
    assert!(
        wrong.stderr.contains("no case with model `ugly`; it has: bad, good"),
        "{}",
        wrong.stderr
    );
    let wrong = place.run(&["compare", "latest", "--between", "colour=red,blue"]).expect(2);
    assert!(wrong.stderr.contains("is none of: model, backend"), "{}", wrong.stderr);
}

#[test]
fn a_run_is_held_against_another() {
    let place = Place::measured(&manifest(1, 1));
    let first = place.run_folder();
    let _ = place.run(&["run", "it.toml"]).expect(0);
    let id = first.file_name().and_then(|name| name.to_str()).expect("a run's id");

    let compared = place.run(&["--format", "json", "compare", id]).expect(0).json();
    assert_eq!((&compared["first"], &compared["in-one-run-only"]), (&id.into(), &0.into()));
    let cases = compared["cases"].as_array().expect("a list");
    assert_eq!(cases.len(), 1);
    for run in ["first", "second"] {
        let median = cases[0][run]["median-ns"].as_f64().expect("a median");
        assert!(median > 0.0, "{median}");
    }
    // For any values, one process of each run is not enough.
    assert_eq!(cases[0]["verdict"], "cannot-tell", "{}", cases[0]);
    assert_eq!(cases[0]["reason"], "a run of one process");
    assert_eq!(cases[0]["first"]["interval-over"], "queries");
    let remedy = cases[0]["remedy"].as_str().expect("what to do");
    assert!(remedy.contains("`processes = 5`"), "{remedy}");

    // A run compared with itself.
    let same = place.run(&["--format", "json", "compare", id, id]).expect(0).json();
    let case = &same["cases"][0];
    assert_eq!((&case["change"], &case["verdict"]), (&0.0.into(), &"cannot-tell".into()));
    assert_eq!(same["conditions"].as_array().map(Vec::len), Some(0), "{same}");

    let shown = place.run(&["compare", id, id]).expect(0);
    assert!(shown.stdout.contains("cannot tell: needs 5 processes"), "{}", shown.stdout);
    assert!(shown.stderr.contains("`processes = 5` under [measure]"), "{}", shown.stderr);
}

/// Returns the verdict that follows from the ratio and its false-discovery rate.
fn expected(case: &serde_json::Value) -> &'static str {
    let found = case["false-discovery-rate"].as_f64().is_some_and(|rate| rate <= 0.05);
    match case["ratio"].as_f64() {
        Some(ratio) if found && ratio > 1.0 => "slower",
        Some(_) if found => "faster",
        Some(_) if !case["within"].is_null() => "same",
        _ => "cannot-tell",
    }
}

/// Two runs of the quickstart, shortened: five processes of each case, and a verdict that follows from their
/// ratio. The outcome depends on the machine, so the test prints it.
#[test]
#[expect(clippy::print_stderr, reason = "what was seen is for whoever reads the test's output")]
fn two_runs_of_the_quickstart_are_told_apart_by_their_ratio_alone() {
    let text =
        fs::read_to_string(root().join("manifests/quickstart.toml")).expect("the quickstart");
    let data = format!("{:?}", root().join("manifests/data/").display().to_string());
    let data = data.trim_end_matches('"');
    let short = [
        ("\"data/", data),
        ("warm-up = \"100ms\"", "warm-up = 2"),
        ("duration = \"500ms\"", "duration = \"50ms\""),
        ("minimum-queries = 80", "minimum-queries = 30"),
        ("batch = [1, 8, 64]", "batch = [1]"),
    ];
    let manifest = short.iter().fold(text, |text, (long, short)| {
        assert!(text.contains(long), "the quickstart has {long}");
        text.replace(long, short)
    });
    let place = Place::measured(&manifest);
    let first = place.run_folder();
    let _ = place.run(&["run", "it.toml"]).expect(0);
    let id = first.file_name().and_then(|name| name.to_str()).expect("a run's id");
    let compared = place.run(&["--format", "json", "compare", id]).expect(0).json();
    let cases = compared["cases"].as_array().expect("a list");
    assert_eq!(cases.len(), 2);
    for case in cases {
        for run in ["first", "second"] {
            assert_eq!(case[run]["interval-over"], "processes", "{case}");
        }
        assert_eq!(case["verdict"], expected(case), "{case}");
        assert!(case["detectable-ratio"].as_f64().is_some_and(|ratio| ratio > 1.0), "{case}");
        // Every metric of both runs is compared, also those that are not latencies.
        let metrics = case["metrics"].as_array().expect("a list");
        let throughput = metrics.iter().find(|one| one["metric"] == "throughput.samples");
        let throughput = throughput.expect("the quickstart has it");
        assert!(throughput["ratio"].as_f64().is_some_and(|ratio| ratio > 0.0), "{throughput}");
        eprintln!("{}: {} ({})", case["name"], case["verdict"], case["change"]);
    }
}

/// Different options make a different case, which the first run does not have.
#[test]
fn what_only_one_run_has_measured_is_left_out() {
    let place = Place::measured(&manifest(1, 1));
    let first = place.run_folder();
    place.write("slower.toml", &manifest(2, 1));
    let _ = place.run(&["run", "slower.toml"]).expect(0);
    let id = first.file_name().and_then(|name| name.to_str()).expect("a run's id");
    let compared = place.run(&["compare", id, "latest"]).expect(0);
    assert!(compared.stderr.contains("no case in common"), "{}", compared.stderr);
    assert!(compared.stderr.contains("2 cases that only one"), "{}", compared.stderr);
}

/// Returns the names in the first column of the tables of a page whose first heading is one of these.
fn listed(page: &str, headings: &[&str]) -> BTreeSet<String> {
    let page = fs::read_to_string(root().join("docs/reference").join(page)).expect("the page");
    let mut names = BTreeSet::new();
    let mut is_listed = false;
    for line in page.lines() {
        let mut cells = line.split('|').map(str::trim).skip(1);
        match cells.next() {
            None => is_listed = false,
            Some(heading) if headings.contains(&heading) => is_listed = true,
            Some(name) if is_listed && name.starts_with('`') => {
                let _ = names.insert(name.trim_matches('`').to_owned());
            }
            Some(_) => {}
        }
    }
    names
}

/// The help, the page and the database name the same tables, and each can be queried.
#[test]
fn help_page_and_database_have_the_same_tables() {
    let place = Place::measured(&manifest(1, 1));
    let there =
        place.run(&["--format", "json", "results", "query", "SHOW TABLES"]).expect(0).json();
    let rows = there.as_array().expect("rows");
    let there: BTreeSet<String> =
        rows.iter().map(|row| row["name"].as_str().expect("a name").to_owned()).collect();
    assert!(there.len() > 8, "{there:?}");

    let help = place.run(&["results", "query", "--help"]).expect(0).stdout;
    let named = help.split("The tables are").nth(1).expect("a list");
    let named = named.split(", with the rows").next().expect("the list");
    let named: BTreeSet<String> = named
        .split(|one: char| !(one.is_ascii_lowercase() || one == '_'))
        .filter(|word| !["", "and"].contains(word))
        .map(str::to_owned)
        .collect();
    assert_eq!(named, there);
    assert_eq!(listed("tables.md", &["table"]), there);
    for table in there {
        let _ =
            place.run(&["results", "query", &format!("SELECT count(*) FROM {table}")]).expect(0);
    }
}

#[test]
fn a_comparison_leaves_nothing_out_unless_columns_bound_it() {
    let place = Place::measured(&manifest(1, 1));
    let first = place.run_folder();
    let first = first.file_name().and_then(|name| name.to_str()).expect("the id of a run");
    let _ = place.run(&["run", "it.toml"]).expect(0);
    let whole = place.run(&["compare", first]);
    for heading in ["first median", "second median", "second interval"] {
        assert!(whole.stdout.contains(heading), "{heading} in\n{}{}", whole.stdout, whole.stderr);
    }
    let output = place.host(&["compare", first]).env("COLUMNS", "60").output();
    let narrow = String::from_utf8(output.expect("starting host").stdout).expect("UTF-8");
    assert!(!narrow.contains("second interval"), "{narrow}");
}

/// The help, the page and the tool name the same views, and each can be exported.
#[test]
fn help_page_and_export_have_the_same_views() {
    let place = Place::measured(&manifest(1, 1));
    let help = place.run(&["results", "export", "--help"]).expect(0).stdout;
    let named = help.split("[possible values: ").nth(1).expect("a list");
    let named = named.split(']').next().expect("the list").replace('\n', " ");
    let named: BTreeSet<String> = named.split(',').map(|name| name.trim().to_owned()).collect();
    let mut there = listed("views.md", &["view", "export"]);
    assert!(there.remove("history"), "a view of other runs, which is not exported");
    assert!(there.remove("profile"), "`operators` has what it sums");
    assert_eq!(there, named);
    for view in named {
        let file = format!("{view}.jsonl");
        let _ = place.run(&["results", "export", "--view", &view, "--to", &file]).expect(0);
    }
}
