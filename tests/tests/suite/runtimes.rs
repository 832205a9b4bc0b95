//! A run on a runtime: what `--install` installs, what is recorded, and what a resumed run must match.

use std::fs::{self, File};
use std::io::Write as _;

use end_to_end::{Ended, Place, built};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

const MANIFEST: &str = r#"schema = 1
[experiment]
name = "runtime"
[[model]]
id = "any"
path = "any.model"
[[backend]]
id = "null"
threads = 1
[measure]
warm-up = 10
duration = "5ms"
minimum-queries = 100
[[metric]]
plugin = "latency"
[[report]]
plugin = "json"
"#;

const WHEEL: &str = "demo-1.0-py3-none-any.whl";

/// Creates folders whose backend `null` uses a runtime, which is in a local package index.
fn place() -> Place {
    place_with("null", "")
}

/// As [`place`], for another backend, with more lines about the runtime.
fn place_with(id: &str, more: &str) -> Place {
    let place = Place::new();
    place.write("any.model", "anything");
    place.write("it.toml", MANIFEST);
    fs::create_dir(place.path().join("index")).expect("a folder");
    let path = place.path().join("index").join(WHEEL);
    let mut writer = ZipWriter::new(File::create(&path).expect("a file"));
    for (file, text) in [
        ("demo/libdemo.so.1", "code"),
        ("demo-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n"),
        ("demo-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n"),
        ("demo-1.0.dist-info/RECORD", ""),
    ] {
        writer.start_file(file, SimpleFileOptions::default()).expect("an entry");
        writer.write_all(text.as_bytes()).expect("an entry");
    }
    writer.finish().expect("a wheel");
    let wheel = fs::read(&path).expect("a wheel");
    let sha256: String = Sha256::digest(&wheel).iter().map(|byte| format!("{byte:02x}")).collect();

    let plugin = place.plugins().join(id);
    fs::create_dir(&plugin).expect("a folder");
    let from = built().join("plugins").join(id);
    for entry in fs::read_dir(&from).expect("the plugin's folder") {
        let entry = entry.expect("an entry");
        fs::copy(entry.path(), plugin.join(entry.file_name())).expect("copying the plugin");
    }
    let mut description = fs::OpenOptions::new()
        .append(true)
        .open(plugin.join("plugin.toml"))
        .expect("the description");
    let runtime =
        format!("\n[runtime]\nname = \"demo\"\nversion = \"1.0\"\nsummary = \"A demo.\"\n{more}");
    description.write_all(runtime.as_bytes()).expect("writing");
    let lock = format!(
        "schema = 1\n[[package]]\nplatform = \"{}-{}\"\nname = \"demo\"\nversion = \"1.0\"\n\
         file = \"{WHEEL}\"\nsha256 = \"{sha256}\"\nbytes = {}\nunpack = [\"demo/lib*\"]\n",
        std::env::consts::OS,
        std::env::consts::ARCH,
        wheel.len()
    );
    fs::write(plugin.join("runtime.lock"), lock).expect("a lock");
    place
}

/// Options with which the backend `fault` needs its runtime, and reports that it is missing.
const NEEDS: &str = r#"options = { fault = "error", fault-phase = "load", fault-code = "runtime-missing", fault-message = "libdemo.so is nowhere; install it with `host runtimes install fault`" }"#;

/// Returns a place whose backend `fault` has a runtime that only those options need.
fn optional() -> Place {
    let place = place_with("fault", "optional = true\nneeded-by = { fault-phase = \"load\" }\n");
    place.write("it.toml", &MANIFEST.replace("id = \"null\"", "id = \"fault\""));
    place.write(
        "needs.toml",
        &MANIFEST.replace("id = \"null\"", &format!("id = \"needs\"\nplugin = \"fault\"\n{NEEDS}")),
    );
    place
}

#[test]
fn an_optional_runtime_is_installed_only_where_options_need_it() {
    let place = optional();
    let run = |manifest: &str| {
        let arguments = ["run", "--install", manifest];
        let output = place
            .host(&arguments)
            .env("PIP_NO_INDEX", "1")
            .env("PIP_FIND_LINKS", place.path().join("index"))
            .output()
            .expect("starting host");
        Ended::new(&arguments, &output)
    };
    let installed = place.path().join("data/tare/runtimes/demo-1.0");
    let without = run("it.toml").expect(0);
    assert!(!installed.exists(), "{}", without.stderr);
    // The backend's error is then a failure: the host knows that it has a runtime.
    let with = run("needs.toml").expect(6);
    assert!(with.stderr.contains("demo 1.0 for `fault`"), "{}", with.stderr);
    assert!(installed.join("installed.json").is_file());
}

#[test]
fn a_case_whose_options_need_a_missing_runtime_is_a_gap_and_the_others_are_measured() {
    let place = optional();
    let both = MANIFEST.replace(
        "id = \"null\"\nthreads = 1",
        &format!("id = \"fault\"\n[[backend]]\nid = \"needs\"\nplugin = \"fault\"\n{NEEDS}"),
    );
    place.write("both.toml", &both);
    let ended = place.run(&["run", "both.toml"]).expect(0);
    let journal = place.lines("journal.jsonl");
    assert_eq!(journal[0]["outcome"]["outcome"], "finished", "{}", journal[0]);
    let gap = &journal[1]["outcome"]["gap"];
    assert_eq!(gap["kind"], "runtime-missing", "{}", journal[1]);
    let (runtime, state) = (&gap["runtime"], &gap["state"]);
    assert_eq!((runtime, state), (&"demo".into(), &"missing".into()), "{gap}");
    let shown = ended.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains("install it with `host runtimes install fault`"), "{shown}");
    // There are only gaps: nothing could be measured.
    let _ = place.run(&["run", "needs.toml"]).expect(5);
    let info = place.run(&["--format", "json", "plugins", "info", "fault"]).expect(0).json();
    assert_eq!(info[0]["runtime-needed-by"]["fault-phase"], "load", "{info}");
}

/// Returns the runtime that the run's header names.
fn recorded(place: &Place) -> Value {
    let text = fs::read_to_string(place.run_folder().join("run.json")).expect("the header");
    let header: Value = serde_json::from_str(&text).expect("JSON");
    let plugins = header["plugins"].as_array().expect("plugins").clone();
    plugins.into_iter().find(|it| it["id"] == "null").expect("the backend")["runtime"].clone()
}

#[test]
fn a_run_installs_when_it_is_told_to_and_records_what_it_used() {
    let place = place();
    let output = place
        .host(&["run", "--install", "it.toml"])
        .env("PIP_NO_INDEX", "1")
        .env("PIP_FIND_LINKS", place.path().join("index"))
        .output()
        .expect("starting host");
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}");
    assert!(printed.contains("demo 1.0 for `null`"), "{printed}");
    let runtime = recorded(&place);
    assert_eq!((&runtime["name"], &runtime["version"]), (&"demo".into(), &"1.0".into()));
    assert_eq!(runtime["origin"], "installed");
    let folder = place.path().join("data/tare/runtimes/demo-1.0");
    let record = fs::read(folder.join("installed.json")).expect("the record");
    let hash: String = Sha256::digest(record).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(runtime["sha256"], hash.as_str());

    let sql = "SELECT plugin_id, plugin_version, plugin_sha256 FROM benchmark_plugins \
               WHERE role = 'runtime'";
    let rows = place.run(&["--format", "json", "results", "query", sql]).expect(0).json();
    assert_eq!(rows[0]["plugin_id"], "demo");
    assert_eq!(rows[0]["plugin_sha256"], hash.as_str());
    let info = place.run(&["--format", "json", "plugins", "info", "null"]).expect(0).json();
    assert_eq!(info[0]["runtime-sha256"], hash.as_str());
}

#[test]
fn nothing_is_downloaded_unasked_and_a_named_runtime_is_used() {
    let place = place();
    let library = place.write("libdemo.so", "\x7fELF, theirs");
    let named = format!("null={}", library.display());
    let _ = place.run(&["run", "it.toml", "--runtime", &named]).expect(0);
    assert!(!place.path().join("data/tare/runtimes").exists());
    let runtime = recorded(&place);
    assert_eq!(runtime["path"], library.to_str().expect("UTF-8"));
    assert_eq!(runtime["origin"], "flag");
    assert_eq!(runtime["version"], Value::Null, "a path does not say");
    let listed = place.run(&["--format", "json", "runtimes", "list"]).expect(0).json();
    let all = listed.as_array().expect("a list");
    let missing = all.iter().find(|it| it["plugin"] == "null").expect("the plugin's");
    assert_eq!(missing["command"], "host runtimes install null");
}
