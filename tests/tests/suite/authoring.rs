//! From nothing to a plugin in use, with the built tool and the language's usual tools alone.

use std::fs;
use std::path::Path;

use end_to_end::{Ended, Place};

/// Returns whether programs are installed. In CI they must be.
#[expect(clippy::print_stderr, reason = "what is missing is for whoever reads the test's output")]
fn has(programs: &[&str]) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there =
        |program: &str| std::env::split_paths(&path).any(|it| it.join(program).is_file());
    let missing = programs.iter().find(|program| !is_there(program));
    if let Some(missing) = missing {
        let text = format!("`{missing}` is not installed, so this test has nothing to build with");
        assert!(std::env::var_os("CI").is_none(), "{text}");
        eprintln!("skipped: {text}");
    }
    missing.is_none()
}

/// Returns whether clang can build WebAssembly with a C library. In CI it must.
fn has_c_for_wasm() -> bool {
    has(&["make", "clang", "wasm-ld"]) && {
        let is_there = Path::new("/usr/include/wasm32-wasi/stdlib.h").is_file();
        assert!(is_there || std::env::var_os("CI").is_none(), "wasi-libc is not installed");
        is_there
    }
}

/// Builds a project. Compilers of Rust are in the user's own home, not in the test's.
fn build(place: &Place, name: &str) -> Ended {
    let arguments = ["plugins", "build", name];
    let mut host = place.host(&arguments);
    let home = std::env::home_dir().unwrap_or_default();
    for (variable, folder) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
        if std::env::var_os(variable).is_none() {
            host.env(variable, home.join(folder));
        }
    }
    Ended::new(&arguments, &host.output().expect("starting host"))
}

/// Starts a project, builds it, checks it, adds it, and asks for it by its id.
fn from_nothing_to_use(kind: &str, language: &str) -> (Place, String) {
    let place = Place::new();
    let name = format!("my-{kind}-1");
    let folder = format!("./{name}");
    let _ = place.run(&["plugins", "new", kind, &name, "--lang", language]).expect(0);
    let built = build(&place, &name).expect(0);
    assert!(built.stderr.contains(&format!("Building {kind} `{name}`: ")), "{}", built.stderr);
    let tested = place.run(&["plugins", "test", &folder]).expect(0);
    assert!(tested.stderr.contains("checks hold"), "{}", tested.stderr);
    assert!(!tested.stdout.contains("FAILED"), "{}", tested.stdout);
    let _ = place.run(&["plugins", "add", &folder]).expect(0);
    let info = place.run(&["plugins", "info", &name, "--format", "json"]).expect(0).json();
    assert_eq!((&info[0]["kind"], &info[0]["version"]), (&kind.into(), &"0.1.0".into()), "{info}");
    assert!(info[0]["bytes"].as_u64().is_some_and(|bytes| bytes > 1000), "{info}");
    (place, name)
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Checks every WASM plugin once it is in use.
fn a_guest(kind: &str, language: &str) {
    let (place, name) = from_nothing_to_use(kind, language);
    let folder = format!("./{name}");
    // Accepted answers are compared from then on.
    let _ = place.run(&["plugins", "test", &folder, "--accept"]).expect(0);
    let expected = place.path().join(&name).join("expected.json");
    let accepted = text(&expected);
    let again = place.run(&["plugins", "test", &folder, "--only", "accepted"]).expect(0);
    assert!(
        again.stdout.starts_with("ok      the answers are the accepted ones"),
        "{}",
        again.stdout
    );
    fs::write(&expected, "{}").expect("other answers");
    let other = place.run(&["plugins", "test", &folder, "--only", "accepted"]).expect(4);
    let words = other.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("is new; if it should be, --accept keeps it"), "{words}");
    fs::write(&expected, accepted).expect("the answers");
    // It is recorded, and removed with its record.
    let lock = place.path().join("configuration/tare/plugins.lock");
    assert!(text(&lock).contains(&format!("file = \"{name}.wasm\"")), "{}", text(&lock));
    let _ = place.run(&["plugins", "remove", &name]).expect(0);
    assert!(!text(&lock).contains(&name), "{}", text(&lock));
    let gone = place.run(&["plugins", "info", &name]).expect(4);
    assert!(gone.stderr.contains(&format!("no plugin `{name}` is installed")), "{}", gone.stderr);
}

/// Checks every backend once it is in use.
fn a_backend(language: &str) {
    let (place, name) = from_nothing_to_use("backend", language);
    let installed = place.plugins().join(&name);
    assert!(!installed.join("sdk").exists() && !installed.join("src").exists(), "sources stay");
    let lock = place.path().join("configuration/tare/plugins.lock");
    assert!(text(&lock).contains(&format!("id = \"{name}\"")), "{}", text(&lock));
    let model = format!("{name}/three.scale");
    let run = ["bench", &model, "--backend", &name, "--duration", "50ms", "--metric", "latency"];
    let ran = place.run(&run).expect(0);
    assert!(ran.stdout.contains("1 measured"), "{ran:?}");
    let _ = place.run(&["plugins", "remove", &name]).expect(0);
    assert!(!installed.exists());
}

#[test]
fn a_backend_in_c() {
    if has(&["make", "cc"]) {
        a_backend("c");
    }
}

#[test]
fn a_backend_in_cpp() {
    if has(&["make", "c++"]) {
        a_backend("cpp");
    }
}

#[test]
fn a_backend_in_rust() {
    if has(&["cargo"]) {
        a_backend("rust");
    }
}

#[test]
fn a_metric_in_rust() {
    if has(&["cargo"]) {
        a_guest("metric", "rust");
    }
}

#[test]
fn a_report_in_rust() {
    if has(&["cargo"]) {
        a_guest("report", "rust");
    }
}

#[test]
fn a_recommender_in_rust() {
    if has(&["cargo"]) {
        a_guest("recommender", "rust");
    }
}

#[test]
fn a_metric_in_c() {
    if has_c_for_wasm() {
        a_guest("metric", "c");
    }
}

#[test]
fn a_report_in_c() {
    if has_c_for_wasm() {
        a_guest("report", "c");
    }
}

#[test]
fn a_recommender_in_c() {
    if has_c_for_wasm() {
        a_guest("recommender", "c");
    }
}

#[test]
#[ignore = "needs componentize-py in PATH, and compiles a Python interpreter for a minute each"]
fn plugins_in_python() {
    for kind in ["metric", "report", "recommender"] {
        a_guest(kind, "python");
    }
}

#[test]
#[ignore = "needs npm, which fetches jco for each project"]
fn plugins_in_javascript() {
    for kind in ["metric", "report", "recommender"] {
        let place = Place::new();
        let name = format!("my-{kind}-1");
        let _ = place.run(&["plugins", "new", kind, &name, "--lang", "js"]).expect(0);
        let folder = place.path().join(&name);
        let npm = |arguments: &[&str]| {
            let status =
                std::process::Command::new("npm").args(arguments).current_dir(&folder).status();
            assert!(status.expect("npm").success(), "npm {arguments:?}");
        };
        npm(&["install"]);
        npm(&["test"]);
        let _ = place.run(&["plugins", "build", &name]).expect(0);
        let tested = place.run(&["plugins", "test", &format!("./{name}")]).expect(0);
        assert!(!tested.stdout.contains("FAILED"), "{}", tested.stdout);
    }
}

fn refused(place: &Place, arguments: &[&str], code: i32) -> String {
    let Ended { stderr, .. } = place.run(arguments).expect(code);
    stderr.split_whitespace().filter(|word| *word != "│").collect::<Vec<_>>().join(" ")
}

#[test]
fn bad_input_gets_one_error_that_says_what_to_do() {
    let place = Place::new();
    let told =
        |arguments: &[&str], code| refused(&place, &[&["plugins"], arguments].concat(), code);
    let no_go = told(&["new", "metric", "it", "--lang", "go"], 2);
    assert!(no_go.contains("there is no metric in Go to start from"), "{no_go}");
    assert!(no_go.contains("metric in rust, c, python, js"), "{no_go}");
    let name = told(&["new", "metric", "My_Metric", "--lang", "rust"], 2);
    assert!(name.contains("`My_Metric` cannot be a plugin's name"), "{name}");
    let taken = told(&["new", "metric", "latency", "--lang", "rust"], 2);
    assert!(taken.contains("`latency` is the id of a plugin that you have"), "{taken}");
    place.write("file", "it is mine");
    let full = told(&["new", "metric", "it", "--lang", "rust", "--folder", "."], 2);
    assert!(full.contains("the folder . is not empty"), "{full}");
    let file = told(&["new", "metric", "it", "--lang", "rust", "--folder", "file"], 2);
    assert!(file.contains("file is a file, not a folder"), "{file}");
    let none = told(&["build", "."], 2);
    assert!(none.contains("has no plugin.toml"), "{none}");
    place.write("broken.wasm", "no module");
    for command in [&["test"][..], &["info"], &["add"]] {
        let broken = told(&[command, &["./broken.wasm"]].concat(), 4);
        assert!(broken.contains("it does not begin as WebAssembly does"), "{broken}");
        assert!(broken.contains("build it again"), "{broken}");
    }
    let odd = told(&["add", "file"], 4);
    assert!(odd.contains("it is neither a folder, a .wasm file, nor an archive"), "{odd}");
    let gone = told(&["add", "nowhere"], 4);
    assert!(gone.contains("there is no such file or folder"), "{gone}");
    let builtin = told(&["remove", "latency"], 2);
    assert!(builtin.contains("`latency` is not in your plugin folder but at "), "{builtin}");
    // A tool that is missing is named with the package that has it.
    let _ = place.run(&["plugins", "new", "metric", "it", "--lang", "c"]).expect(0);
    let mut without = place.host(&["plugins", "build", "it"]);
    let output = without.env("PATH", place.path()).output().expect("starting host");
    let ended = Ended::new(&["plugins", "build", "it"], &output).expect(1);
    assert!(ended.stderr.contains("is not installed, and building needs it"), "{}", ended.stderr);
    assert!(ended.stderr.contains("apt install"), "{}", ended.stderr);
    // A command that fails is shown, and so is one that makes nothing.
    let description = place.path().join("it/plugin.toml");
    let before = text(&description);
    let change = |command: &str| {
        let text = before.replace("command = [\"make\"]", &format!("command = {command}"));
        fs::write(&description, text.split("[build.needs]").next().unwrap_or_default())
            .expect("writing");
    };
    change("[\"false\"]");
    let failed = told(&["build", "it"], 4);
    assert!(failed.contains("`false` failed: exit status: 1"), "{failed}");
    change("[\"true\"]");
    let nothing = told(&["build", "it"], 4);
    assert!(nothing.contains("`true` ended well, but it/build/it.wasm is not there"), "{nothing}");
}

#[test]
fn a_plugin_is_added_from_an_archive_and_tried_on_a_run() {
    if !has_c_for_wasm() || !has(&["tar"]) {
        return;
    }
    let place = Place::new();
    for kind in ["backend", "metric", "report", "recommender"] {
        let name = format!("my-{kind}");
        let _ = place.run(&["plugins", "new", kind, &name, "--lang", "c"]).expect(0);
        let _ = place.run(&["plugins", "build", &name]).expect(0);
    }
    let manifest = "schema = 1\n[experiment]\nname = \"it\"\n[[model]]\nid = \"three\"\n\
                    path = \"my-backend/three.scale\"\n[[backend]]\nid = \"my-backend\"\n\
                    [measure]\nwarm-up = 1\nduration = \"1ms\"\n[[metric]]\nplugin = \"latency\"\n\
                    [[report]]\nplugin = \"my-report\"\n";
    place.write("it.toml", manifest);
    let folders = ["--plugins", "my-backend", "--plugins", "my-report"];
    let _ = place.run(&[&["run", "it.toml"], &folders[..]].concat()).expect(0);
    let before = place.lines("results.jsonl").len();
    let computed = place.run(&[
        "plugins",
        "compute",
        "latest",
        "my-metric/my-metric.wasm",
        "--format",
        "json",
    ]);
    let computed = computed.expect(0).json();
    let values = computed["results"][0]["values"].as_array().expect("values");
    assert_eq!(values[0]["metric"], "my-metric.slowest", "{computed}");
    assert!(values[0]["value"]["Ok"].as_f64().is_some_and(|value| value > 0.0), "{computed}");
    let _ = place.run(&["plugins", "report", "latest", "my-report", "--to", "pages"]).expect(0);
    let page = text(&place.path().join("pages/my-report/my-report.md"));
    assert!(page.contains("# Median latency") && page.contains(" ns |"), "{page}");
    let advice = place.run(&["plugins", "recommend", "latest", "my-recommender"]).expect(0);
    assert!(advice.stdout.contains("lowest latency.p50"), "{}", advice.stdout);
    assert_eq!(place.lines("results.jsonl").len(), before, "the run is not changed");
    // Another kind, or an option that it lacks, is told.
    let other = refused(&place, &["plugins", "compute", "latest", "my-report"], 2);
    assert!(other.contains("is a report plugin, and a metric plugin is needed"), "{other}");
    let option = ["plugins", "compute", "latest", "my-metric", "--option", "percentile=99"];
    let option = refused(&place, &option, 2);
    assert!(option.contains("my-metric has no option `percentile`"), "{option}");
    // An archive of a folder, as one is downloaded.
    let packed = std::process::Command::new("tar")
        .args(["-czf", "it.tar.gz", "my-metric/my-metric.wasm", "my-metric/plugin.toml"])
        .current_dir(place.path())
        .status();
    assert!(packed.expect("tar").success());
    let added = place.run(&["plugins", "add", "it.tar.gz", "--format", "json"]).expect(0).json();
    assert_eq!((&added["id"], &added["replaced"]), (&"my-metric".into(), &serde_json::Value::Null));
    let again = place.run(&["plugins", "add", "my-metric", "--format", "json"]).expect(0).json();
    assert_eq!(again["replaced"], "0.1.0");
}
