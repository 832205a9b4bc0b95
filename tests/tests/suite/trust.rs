//! Untrusted folders: nothing in them runs, and nothing outside them is removed, unless the user allows it.

#![cfg(unix)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use end_to_end::{Place, built, root};
use serde_json::Value;

/// Returns a manifest with this backend, this metric table and these plugin folders.
fn manifest(backend: &str, metric: &str, folders: &str) -> String {
    format!(
        "schema = 1\n[experiment]\nname = \"trust\"\nplugins = [{folders}]\n\
         [[model]]\nid = \"m\"\npath = \"any.model\"\n\
         [[backend]]\nid = \"b\"\nplugin = \"{backend}\"\n\
         [matrix]\nbatch = [1]\n[measure]\nwarm-up = 10\nduration = \"10ms\"\nminimum-queries = 100\n\
         [[metric]]\n{metric}\n[[report]]\nplugin = \"json\"\n"
    )
}

/// Compiles a shared library from C.
fn compile(source: &str, library: &Path, more: &[&str]) {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let built = Command::new(&compiler)
        .args(["-std=gnu11", "-O1", "-shared", "-fPIC", "-I"])
        .arg(root().join("plugin-api/native/include"))
        .arg(source)
        .arg("-o")
        .arg(library)
        .args(more)
        .output()
        .unwrap_or_else(|error| panic!("the compiler `{compiler}` must be installed: {error}"));
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
}

/// A user with a trusted plugin `scale`, whose library needs `libpart.so` beside it. An attacker has another
/// `libpart.so`, which writes a file if it is loaded.
struct Victim {
    place: Place,
    ran: PathBuf,
}

impl Victim {
    fn new() -> Self {
        let place = Place::new();
        place.write("any.model", "scale 2\n");
        let ran = place.path().join("ran");
        let source = |name: &str, text: &str| {
            let path = place.write(name, text);
            path.to_str().expect("UTF-8").to_owned()
        };
        let user = place.plugins().join("scale");
        let stranger = place.path().join("stranger/evil/rt");
        fs::create_dir_all(&user).expect("a folder");
        fs::create_dir_all(&stranger).expect("a folder");
        let honest = source("honest.c", "int part(void) { return 0; }\n");
        compile(&honest, &user.join("libpart.so"), &[]);
        let trap = format!(
            "#include <stdio.h>\nint part(void) {{ return 0; }}\n\
             __attribute__((constructor)) static void run(void) {{\n\
             FILE *file = fopen(\"{}\", \"w\"); if (file) fclose(file); }}\n",
            ran.display()
        );
        compile(&source("trap.c", &trap), &stranger.join("libpart.so"), &[]);
        let scale = root().join("tests/c-backend/scale.c");
        let folder = format!("-L{}", user.display());
        compile(
            scale.to_str().expect("UTF-8"),
            &user.join("libit.so"),
            &[&folder, "-Wl,--no-as-needed", "-lpart", "-Wl,--enable-new-dtags,-rpath,$ORIGIN"],
        );
        let victim = Self { place, ran };
        victim.describe(&user, "");
        victim
    }

    /// Writes the `plugin.toml` of the plugin in a folder.
    fn describe(&self, folder: &Path, more: &str) {
        let text = format!(
            "schema = 1\nid = \"scale\"\nversion = \"0.1.0\"\nkind = \"backend\"\n\
             summary = \"A test.\"\nlicense = \"MIT\"\nlibrary = \"it\"\napi = \">=1.0, <2\"\n\
             hardware = [\"cpu\"]\nengine = \"none\"\n{more}"
        );
        fs::write(folder.join("plugin.toml"), text).expect("a description");
    }

    /// Runs `host`, and returns its exit code and everything that it printed.
    fn run(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let output = self.place.host(arguments).output().expect("starting host");
        let shown = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        // Long lines are broken.
        (output.status.code(), shown.split_whitespace().collect::<Vec<_>>().join(" "))
    }

    /// Removes the user's plugin and puts a link to its library into the attacker's.
    fn strangers_link(&self, more: &str) -> PathBuf {
        let kept = self.place.path().join("kept");
        fs::rename(self.place.plugins().join("scale"), &kept).expect("moving it");
        let evil = self.place.path().join("stranger/evil");
        symlink(kept.join("libit.so"), evil.join("libit.so")).expect("a link");
        self.describe(&evil, more);
        evil
    }
}

const RUNTIME: &str = "[runtime]\nname = \"r\"\nversion = \"1\"\nsummary = \"R.\"\npath = \"rt\"\n";

#[test]
fn the_trap_works_for_a_user_who_sets_it_himself() {
    let victim = Victim::new();
    let (code, shown) = victim.run(&["devices"]);
    assert!(code == Some(0) && shown.contains("scale:0"), "{shown}");
    assert!(!victim.ran.exists(), "the user's own part does nothing");
    let user = victim.place.plugins().join("scale");
    fs::rename(victim.place.path().join("stranger/evil/rt"), user.join("rt")).expect("moving it");
    victim.describe(&user, RUNTIME);
    let (_, shown) = victim.run(&["devices"]);
    assert!(!victim.ran.exists() && shown.contains("has changed since"), "{shown}");
    let (_, shown) = victim.run(&["doctor"]);
    assert!(shown.contains("has changed since"), "{shown}");
    let (code, shown) = victim.run(&["plugins", "trust", "scale"]);
    let lock = victim.place.path().join("configuration/tare/plugins.lock");
    assert!(code == Some(0) && shown.contains(&lock.display().to_string()), "{shown}");
    let (code, shown) = victim.run(&["devices"]);
    assert!(code == Some(0) && victim.ran.exists(), "{shown}");
}

#[test]
fn a_strangers_folder_cannot_borrow_a_known_library() {
    for more in ["", RUNTIME] {
        let victim = Victim::new();
        let (code, shown) = victim.run(&["devices"]);
        assert!(code == Some(0) && shown.contains("scale:0"), "{shown}");
        let evil = victim.strangers_link(more);
        let text = manifest("scale", "plugin = \"latency\"", "\"stranger\"");
        victim.place.write("m.toml", &text);
        for command in ["validate", "plan", "run"] {
            let (code, shown) = victim.run(&[command, "m.toml"]);
            assert!(!victim.ran.exists(), "`{command}` ran a stranger's code: {shown}");
            assert_eq!(code, Some(4), "{shown}");
            assert!(shown.contains("outside the plugin's folder"), "{shown}");
        }
        // A user who names the folder gets the same error, and nothing is run either.
        let evil = evil.to_str().expect("UTF-8");
        for command in ["devices", "doctor"] {
            let (_, shown) = victim.run(&[command, "--plugins", evil]);
            assert!(!victim.ran.exists(), "`{command}` ran a stranger's code: {shown}");
            assert!(shown.contains("outside the plugin's folder"), "{command}: {shown}");
        }
        let (code, shown) = victim.run(&["plugins", "trust", "scale", "--plugins", evil]);
        assert!(code == Some(4) && shown.contains("outside the plugin's folder"), "{shown}");
        assert!(!victim.ran.exists());
    }
}

#[test]
fn a_manifests_plugin_cannot_choose_its_libraries() {
    let victim = Victim::new();
    let evil = victim.strangers_link(RUNTIME);
    fs::remove_file(evil.join("libit.so")).expect("removing the link");
    for part in ["libit.so", "libpart.so"] {
        fs::copy(victim.place.path().join("kept").join(part), evil.join(part)).expect("a copy");
    }
    let text = manifest("scale", "plugin = \"latency\"", "\"stranger\"");
    victim.place.write("m.toml", &text);
    let refused = |reason: &str| {
        for command in ["validate", "plan", "run"] {
            let (code, shown) = victim.run(&[command, "m.toml"]);
            assert!(!victim.ran.exists(), "`{command}` ran a stranger's code: {shown}");
            assert!(code == Some(4) && shown.contains(reason), "{command}: {shown}");
        }
    };
    refused("sets `runtime.path`");
    // Without that key it is a plugin that the user may trust, once for each state of its files.
    victim.describe(&evil, "");
    refused("that you have not trusted");
    let evil = evil.to_str().expect("UTF-8");
    assert_eq!(victim.run(&["plugins", "trust", "scale", "--plugins", evil]).0, Some(0));
    let (code, shown) = victim.run(&["plan", "m.toml"]);
    assert!(code == Some(0) && !victim.ran.exists(), "{shown}");
    victim.describe(Path::new(evil), "permissions = [\"everything\"]\n");
    refused("has changed since");
}

#[test]
fn a_journal_cannot_name_files_outside_its_run() {
    let place = Place::measured(&manifest("null", "plugin = \"latency\"", ""));
    place.write("thesis.txt", "three years");
    let run = place.run_folder();
    fs::remove_file(run.join("finished.json")).expect("an interrupted run");
    let journal = run.join("journal.jsonl");
    let text = fs::read_to_string(&journal).expect("the journal");
    let line: Value = serde_json::from_str(&text).expect("one line of JSON");
    let id = line["case-id"].as_str().expect("an id");
    let path = place.path().join("thesis");
    fs::write(&journal, text.replace(id, path.to_str().expect("UTF-8"))).expect("a journal");
    let name = run.file_name().and_then(|name| name.to_str()).expect("UTF-8");
    let refused = place.run(&["run", "--resume", name]);
    assert_ne!(refused.code, Some(0), "{}", refused.stderr);
    assert!(refused.stderr.contains("is not the id of a case"), "{}", refused.stderr);
    assert_eq!(fs::read_to_string(path.with_extension("txt")).expect("the file"), "three years");
}

/// Copies a folder without subfolders.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        fs::copy(entry.path(), to.join(entry.file_name())).expect("a copy");
    }
}

#[test]
fn a_plugin_that_hides_a_built_in_one_is_named_by_every_command() {
    let place = Place::new();
    place.write("any.model", "anything");
    place.write("it.toml", &manifest("null", "plugin = \"latency\"", ""));
    fs::copy(built().join("plugins/latency.wasm"), place.plugins().join("latency.wasm"))
        .expect("a copy");
    copy(&built().join("plugins/null"), &place.plugins().join("null"));
    let metric = "the metric `latency` 0.1.0 in ";
    let backend = "the backend `null` 0.1.0 in ";
    let names = |arguments: &[&str], wanted: &[&str]| {
        let ended = place.run(arguments).expect(0);
        let said = |text: &&&str| {
            let line = ended.stderr.lines().find(|line| line.contains(**text));
            line.is_some_and(|line| line.contains("is used instead of the built-in one in "))
        };
        let count = wanted.iter().filter(said).count();
        assert_eq!(count, wanted.len(), "{arguments:?}: {}", ended.stderr);
    };
    names(&["validate", "it.toml"], &[metric, backend]);
    names(&["plan", "it.toml"], &[metric, backend]);
    names(&["run", "it.toml"], &[metric, backend]);
    names(&["results", "recompute", "latest"], &[metric]);
    names(&["devices"], &[backend]);
    let doctor = place.run(&["doctor"]).stdout;
    let doctor = doctor.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(doctor.matches("is used instead of the built-in one in").count(), 2, "{doctor}");
    // The run records it.
    let header = fs::read_to_string(place.run_folder().join("run.json")).expect("the header");
    let header: Value = serde_json::from_str(&header).expect("JSON");
    let hides: Vec<_> = header["plugins"]
        .as_array()
        .expect("plugins")
        .iter()
        .map(|plugin| (plugin["id"].as_str(), plugin["hides"].as_str().map(PathBuf::from)))
        .collect();
    let there = built().canonicalize().expect("the installation").join("plugins");
    assert!(hides.contains(&(Some("latency"), Some(there.join("latency.wasm")))), "{hides:?}");
    assert!(hides.contains(&(Some("null"), Some(there.join("null")))), "{hides:?}");
    assert!(hides.contains(&(Some("json"), None)), "{hides:?}");
}

#[test]
fn a_broken_plugin_is_passed_over_aloud() {
    let place = Place::new();
    place.write("any.model", "anything");
    place.write("it.toml", &manifest("null", "plugin = \"latency\"", ""));
    let guest = fs::read(built().join("plugins/latency.wasm")).expect("a plugin");
    fs::write(place.plugins().join("latency.wasm"), &guest[..guest.len() / 2]).expect("a file");
    copy(&built().join("plugins/null"), &place.plugins().join("null"));
    fs::write(place.plugins().join("null/plugin.toml"), "id = \"null\"\nversoin = 1\n")
        .expect("a file");
    for command in ["validate", "plan", "run"] {
        let ended = place.run(&[command, "it.toml"]).expect(0);
        let said = ended.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        for what in ["the metric `latency` in ", "the backend `null` in "] {
            let (_, rest) = said.split_once(what).unwrap_or_else(|| panic!("{command}: {said}"));
            assert!(rest.contains("is used, since another one is broken: "), "{command}: {said}");
        }
    }
}

#[test]
fn the_highest_version_that_fits_is_taken() {
    let place = Place::new();
    place.write("any.model", "anything");
    let guest = fs::read(built().join("plugins/latency.wasm")).expect("a guest");
    let version = |version: &[u8; 5], path: &str| {
        let path = place.plugins().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        let mut bytes = guest.clone();
        for start in 0..bytes.len() - 5 {
            if &bytes[start..start + 5] == b"0.1.0" {
                bytes[start..start + 5].copy_from_slice(version);
            }
        }
        fs::write(path, bytes).expect("a guest");
    };
    let taken = |wanted: &str| {
        let metric = format!("plugin = \"latency\"\nversion = \"{wanted}\"");
        place.write("it.toml", &manifest("null", &metric, ""));
        let ended = place.run(&["run", "it.toml"]).expect(0);
        let header = fs::read_to_string(place.run_folder().join("run.json")).expect("the header");
        fs::remove_dir_all(place.path().join("results")).expect("removing the run");
        let header: Value = serde_json::from_str(&header).expect("JSON");
        let plugins = header["plugins"].as_array().expect("plugins");
        let latency = plugins.iter().find(|plugin| plugin["id"] == "latency");
        let latency = latency.unwrap_or_else(|| panic!("no latency: {}", ended.stderr));
        latency["version"].as_str().expect("a version").to_owned()
    };
    version(b"0.1.0", "a/latency.wasm");
    version(b"0.2.0", "b/latency.wasm");
    assert_eq!(taken("^0.2"), "0.2.0");
    assert_eq!(taken("^0.1"), "0.1.0");
    assert_eq!(taken("*"), "0.2.0");
    // Files may also be named by their versions.
    version(b"0.2.3", "latency-0.2.3.wasm");
    assert_eq!(taken("^0.2"), "0.2.3");
    // Files whose names do not help are used only if no other fits.
    version(b"0.3.0", "mine.wasm");
    assert_eq!(taken(">=0.1"), "0.2.3");
    assert_eq!(taken("^0.3"), "0.3.0");
}
