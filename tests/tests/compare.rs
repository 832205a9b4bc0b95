//! Two runs of one manifest, side by side; and what `host results query` says that it can be asked.

use std::fs;

use end_to_end::{Place, root};

/// The quickstart's model on the processor: of what is simulated nothing is said.
fn manifest(batch: u32) -> String {
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
[[metric]]
plugin = "latency"
[[report]]
plugin = "json"
"#,
        model.display().to_string()
    )
}

#[test]
fn a_run_is_held_against_another() {
    let place = Place::measured(&manifest(1));
    let first = place.run_folder();
    let _ = place.run(&["run", "it.toml"]).expect(0);
    let id = first.file_name().and_then(|name| name.to_str()).expect("a run's id");

    let compared = place.run(&["--format", "json", "results", "compare", id]).expect(0).json();
    assert_eq!((&compared["first"], &compared["in-one-run-only"]), (&id.into(), &0.into()));
    let cases = compared["cases"].as_array().expect("a list");
    assert_eq!(cases.len(), 1);
    for run in ["first", "second"] {
        let median = cases[0][run]["median-ns"].as_f64().expect("a median");
        assert!(median > 0.0, "{median}");
    }
    let verdict = cases[0]["verdict"].as_str().expect("a word");
    let is_doubted = cases[0]["reason"].is_string();
    assert_eq!(verdict == "cannot-tell", is_doubted, "{}", cases[0]);
    assert!(["slower", "faster", "cannot-tell"].contains(&verdict), "{verdict}");
    assert_eq!(cases[0]["mann-whitney"]["of"], "queries");

    // A run against itself: its intervals overlap, where its few queries have any, and no value is larger
    // more often than smaller.
    let same = place.run(&["--format", "json", "results", "compare", id, id]).expect(0).json();
    let case = &same["cases"][0];
    assert_eq!((&case["change"], &case["verdict"]), (&0.0.into(), &"cannot-tell".into()));
    let reason = case["reason"].as_str().expect("a reason");
    assert!(["the intervals overlap", "too few independent queries"].contains(&reason), "{reason}");
    assert_eq!(case["mann-whitney"]["second-larger"], 0.5);

    let shown = place.run(&["results", "compare", id, id]).expect(0);
    assert!(shown.stdout.contains(&format!("cannot tell: {reason}")), "{}", shown.stdout);
}

/// Other options make another case, of which the first run knows nothing.
#[test]
fn what_only_one_run_has_measured_is_left_out() {
    let place = Place::measured(&manifest(1));
    let first = place.run_folder();
    place.write("slower.toml", &manifest(2));
    let _ = place.run(&["run", "slower.toml"]).expect(0);
    let id = first.file_name().and_then(|name| name.to_str()).expect("a run's id");
    let compared = place.run(&["results", "compare", id, "latest"]).expect(0);
    assert!(compared.stderr.contains("no case in common"), "{}", compared.stderr);
    assert!(compared.stderr.contains("2 cases that only one"), "{}", compared.stderr);
}

#[test]
fn a_slower_case_is_told() {
    let place = Place::measured(&manifest(1));
    let first = place.run_folder();
    let _ = place.run(&["run", "it.toml"]).expect(0);
    let id = first.file_name().and_then(|name| name.to_str()).expect("a run's id").to_owned();
    // The samples of a run whose queries take far longer, under the first case's name.
    place.write("slower.toml", &manifest(256));
    let _ = place.run(&["run", "slower.toml"]).expect(0);
    let mut runs: Vec<_> = fs::read_dir(place.path().join("results/runs"))
        .expect("the runs")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    runs.sort();
    let of = |run: &std::path::Path| {
        let mut files = fs::read_dir(run.join("samples")).expect("the samples");
        files.next().expect("a file").expect("an entry").path()
    };
    fs::copy(of(&runs[2]), of(&runs[1])).expect("copying samples");
    let second = runs[1].to_string_lossy().into_owned();
    let compared = place.run(&["--format", "json", "results", "compare", &id, &second]).expect(0);
    let case = &compared.json()["cases"][0];
    // On a busy machine so few queries may be worth too little for an interval.
    let verdict = case["verdict"].as_str().expect("a word");
    assert!(verdict == "slower" || case["reason"] == "too few independent queries", "{case}");
    assert!(case["change"].as_f64().is_some_and(|part| part > 0.5), "{case}");
    assert_eq!(case["mann-whitney"]["second-larger"], 1.0, "{case}");
}

#[test]
fn every_table_that_the_help_of_query_names_is_there() {
    let place = Place::measured(&manifest(1));
    let help = place.run(&["results", "query", "--help"]).expect(0).stdout;
    let mut named = help[help.find("The tables are").expect("a list")..].split("with the rows");
    let named = named.next().expect("the list");
    let words = named.split(|one: char| !(one.is_ascii_lowercase() || one == '_'));
    let tables: Vec<&str> =
        words.filter(|word| word.contains('_') || *word == "recommendations").collect();
    assert_eq!(tables.len(), 8, "{tables:?}");
    for table in tables {
        let _ =
            place.run(&["results", "query", &format!("SELECT count(*) FROM {table}")]).expect(0);
    }
}
