//! WASM plugins through the command: compiled in a separate process, known without running, and named with their
//! advice.

use std::fs;
use std::path::PathBuf;

use end_to_end::{Place, built};

/// Returns a guest of the sandbox's tests.
fn test_guest(name: &str) -> PathBuf {
    built().with_file_name("guests").join(format!("wasm32-wasip2/release/{name}.wasm"))
}

fn manifest(recommender: &str) -> String {
    format!(
        "schema = 1\n[experiment]\nname = \"advised\"\n\
         [[model]]\nid = \"m\"\npath = \"any.model\"\n\
         [[backend]]\nid = \"b\"\nplugin = \"null\"\n\
         [matrix]\nbatch = [1]\n[measure]\nwarm-up = 10\nduration = \"10ms\"\nminimum-queries = 100\n\
         [[metric]]\nplugin = \"latency\"\n[[report]]\nplugin = \"json\"\n{recommender}"
    )
}

#[test]
fn a_recommender_without_limits_is_asked_and_named() {
    let place = Place::new();
    place.write("any.model", "anything");
    fs::copy(test_guest("hostile_recommender"), place.plugins().join("hostile-recommender.wasm"))
        .expect("a copy");
    let table = "[[recommend]]\nplugin = \"hostile-recommender\"\n";
    place.write(
        "limits.toml",
        &manifest(&format!(
            "{table}options = {{ title = \"Buy more.\", cases = [] }}\n\
             limits = [{{ metric = \"latency.p50\", at-most = \"1s\" }}]"
        )),
    );
    let refused = place.run(&["validate", "limits.toml"]).expect(3);
    assert!(refused.stderr.contains("has no option `limits`"), "{}", refused.stderr);

    place.write(
        "it.toml",
        &manifest(&format!("{table}options = {{ title = \"Buy more.\", cases = [] }}")),
    );
    let ran = place.run(&["run", "it.toml"]).expect(0);
    let said = format!("{}{}", ran.stdout, ran.stderr);
    assert!(said.contains("hostile-recommender: Buy more."), "{said}");
    let shown = place.run(&["results", "show", "latest", "--advice"]).expect(0).stdout;
    assert!(shown.contains("hostile-recommender: Buy more."), "{shown}");
}

#[test]
fn what_is_listed_is_compiled_once_by_another_process() {
    let place = Place::new();
    // This file is new: it contains the time of the test.
    let mut component = fs::read(test_guest("hostile_report")).expect("a guest");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a time");
    let name = format!("{:032}", now.as_nanos());
    component.extend([0, 33, 32]);
    component.extend(name.as_bytes());
    fs::write(place.plugins().join("mine.wasm"), &component).expect("a guest");
    let list = || {
        let output = place.host(&["-vv", "plugins", "list"]).output().expect("starting host");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains("hostile-report"), "{text}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let loaded = "loaded plugin=\"hostile-report\"";
    let first = list();
    assert!(first.contains(loaded), "{first}");
    let second = list();
    assert!(!second.contains(loaded), "its description is known: {second}");

    // The hidden command is for the host's own use only.
    let misused = place.run(&["compile-component"]).expect(70);
    assert!(misused.stderr.contains("is for the host's own use"), "{}", misused.stderr);
}
