//! `host plugins test`, from the view of a backend's author.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use end_to_end::{Ended, Place, built, root};
use serde_json::Value;

/// Returns a fixture for a backend of this repository that accepts any file as a model.
fn fixture(place: &Place, output: &str, options: &str) -> PathBuf {
    place.write("any.model", "anything");
    place.write(
        "fixture.toml",
        &format!(
            "model = \"any.model\"\nprecision = \"fp32\"\n{options}\n\
             [[input]]\ndtype = \"float32\"\nshape = [2, 1]\nvalues = [1.5, -2.0]\n\
             [[output]]\ndtype = \"float32\"\nshape = [2, 1]\nvalues = {output}\n"
        ),
    )
}

fn test(place: &Place, plugin: &str, fixture: &Path, more: &[&str]) -> Ended {
    let fixture = fixture.to_str().expect("UTF-8");
    let arguments = [&["plugins", "test", plugin, "--fixture", fixture], more].concat();
    place.run(&arguments)
}

/// Returns each check of a document, with its verdict and detail.
fn checks(document: &Value) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let checks = document["checks"].as_array().expect("a list of checks").iter();
    checks
        .map(|it| {
            assert!(it["seconds"].as_f64().is_some_and(|seconds| seconds > 0.0), "{it}");
            (text(&it["check"]), text(&it["verdict"]), text(&it["detail"]))
        })
        .collect()
}

/// Returns a folder `name` with this library as a plugin.
fn plugin(place: &Place, name: &str, library: &[u8], more: &str) -> PathBuf {
    let folder = place.path().join(name);
    fs::create_dir_all(&folder).expect("a folder");
    let text = format!(
        "schema = 1\nid = \"{name}\"\nversion = \"0.1.0\"\nkind = \"backend\"\nsummary = \"A test.\"\n\
         license = \"MIT\"\nlibrary = \"it\"\napi = \">=1.0, <2\"\nhardware = [\"cpu\"]\n\
         engine = \"none\"\n{more}"
    );
    fs::write(folder.join("plugin.toml"), text).expect("a description");
    fs::write(folder.join("libit.so"), library).expect("a library");
    folder
}

#[test]
fn the_null_backend_passes_the_whole_suite() {
    let place = Place::new();
    let fixture = fixture(&place, "[0.0, 0.0]", "");
    let ended = test(&place, "null", &fixture, &[]).expect(0);
    assert!(ended.stderr.contains("Testing null "), "{}", ended.stderr);
    let summary = ended.stderr.lines().find(|line| line.contains("Checked null "));
    let summary = summary.expect("a summary");
    assert!(summary.contains("checks hold") && !summary.contains("failed"), "{summary}");
    assert!(ended.stdout.contains("ok      outputs are right\n"), "{}", ended.stdout);
    assert!(!ended.stdout.contains("FAILED"), "{}", ended.stdout);
    let lines = ended.stdout.lines().filter(|line| line.starts_with("ok ")).count();
    assert!(lines > 20, "all checks are shown: {}", ended.stdout);
}

#[test]
fn a_plugins_own_fixture_is_found_and_another_is_named_as_the_reason() {
    let place = Place::new();
    for id in ["null", "fault"] {
        let folder = built().join("plugins").join(id);
        let folder = folder.to_str().expect("UTF-8");
        for target in [id, folder] {
            let only = ["plugins", "test", target, "--only", "outputs"];
            let ended = place.run(&only).expect(0);
            assert!(ended.stdout.contains("ok      outputs are right\n"), "{}", ended.stdout);
            assert!(ended.stderr.contains("fixture.toml"), "{}", ended.stderr);
        }
    }
    // The same library in a folder without a fixture.
    let library = fs::read(built().join("plugins/null/libbackend_null.so")).expect("the library");
    let bare = plugin(&place, "bare", &library, "");
    let ended = place.run(&[
        "plugins",
        "test",
        bare.to_str().expect("UTF-8"),
        "--only",
        "outputs are right",
    ]);
    let ended = ended.expect(4);
    let shown = ended.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        shown.contains("with a tiny ONNX model in fp32, since no fixture was given"),
        "{shown}"
    );
    assert!(shown.contains("--fixture FILE, or keep one as "), "{shown}");
    // With a given fixture, the missing one is not the reason.
    let wrong = fixture(&place, "[3.0, -4.0]", "");
    let ended = test(&place, "null", &wrong, &["--only", "outputs are right"]).expect(4);
    assert!(!ended.stderr.contains("no fixture was given"), "{}", ended.stderr);
}

#[test]
fn a_backend_that_goes_wrong_fails_with_its_figures() {
    let place = Place::new();
    let wrong = fixture(&place, "[3.0, -4.0]", "options = { fault = \"wrong\" }");
    let only = ["--only", "outputs are right"];
    let ended = test(&place, "fault", &wrong, &only).expect(4);
    let figures = "element 0 of output 0 is 3.3";
    assert!(ended.stdout.starts_with("FAILED  outputs are right\n        "), "{}", ended.stdout);
    assert!(ended.stdout.contains(figures), "{}", ended.stdout);
    assert!(ended.stderr.contains("0 of 1 checks hold, 1 failed"), "{}", ended.stderr);

    let json = test(&place, "fault", &wrong, &[&only[..], &["--format", "json"]].concat());
    let document = json.expect(4).json();
    assert_eq!((&document["plugin"], &document["version"]), (&"fault".into(), &"0.1.0".into()));
    let found = checks(&document);
    assert_eq!((&*found[0].0, &*found[0].1), ("outputs are right", "fails"));
    assert!(found[0].2.contains(figures) && found.len() == 1, "{found:?}");
    let table = test(&place, "fault", &wrong, &[&only[..], &["--format", "csv"]].concat());
    let table = table.expect(4).stdout;
    assert!(table.starts_with("check,verdict,detail,seconds\noutputs are right,fails,"), "{table}");

    // A crash costs only its own check, and the next one runs.
    let dying = fixture(&place, "[3.0, -4.0]", "options = { fault = \"segfault\" }");
    let ended = test(&place, "fault", &dying, &["--only", "a run ", "--format", "json"]);
    let mut found = checks(&ended.expect(4).json());
    // The backend has no phases that make up a run.
    found.retain(|(_, verdict, _)| verdict != "not-checked");
    assert_eq!(found.len(), 2, "{found:?}");
    for (check, verdict, detail) in found {
        assert_eq!(verdict, "fails", "{check}");
        assert!(detail.contains("signal: 11"), "{check}: {detail}");
    }

    let unknown = place.run(&["plugins", "test", "falt"]).expect(4);
    assert!(unknown.stderr.contains("did you mean `fault`?"), "{}", unknown.stderr);

    let right = fixture(&place, "[3.0, -4.0]", "");
    let ended = test(&place, "fault", &right, &["--only", "outputs"]).expect(0);
    assert!(!ended.stdout.contains("FAILED"), "{}", ended.stdout);
    let nothing = test(&place, "fault", &right, &["--only", "frobnicate"]).expect(4);
    assert!(
        nothing.stderr.contains("`fault` could not be checked: no check has `frobnicate` in its"),
        "{}",
        nothing.stderr
    );
    let nowhere = test(&place, "fault", &place.path().join("absent.toml"), &[]).expect(4);
    assert!(nowhere.stderr.contains("absent.toml: No such file"), "{}", nowhere.stderr);
}

/// Returns the processes that have this folder in their command line and are not waiting to be reaped.
fn processes(folder: &Path) -> Vec<String> {
    let folder = folder.to_str().expect("UTF-8");
    let processes = fs::read_dir("/proc").expect("Linux tells").filter_map(Result::ok);
    let command = |process: fs::DirEntry| {
        let line = fs::read(process.path().join("cmdline")).ok()?;
        Some(String::from_utf8_lossy(&line).replace('\0', " "))
    };
    processes.filter_map(command).filter(|line| line.contains(folder)).collect()
}

fn wait_for_processes(place: &Place, what: &str, done: impl Fn(&[String]) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let found = processes(place.path());
        if done(&found) {
            return;
        }
        assert!(Instant::now() < deadline, "{what}: {found:#?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_backend_that_starts_processes_leaves_none() {
    let place = Place::new();
    let leaves = fixture(&place, "[3.0, -4.0]", "options = { fault = \"orphan\" }");
    let ended = test(&place, "fault", &leaves, &["--only", "outputs"]).expect(4);
    let shown = ended.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        shown.contains("it holds, but left 1 process running, which had to be ended"),
        "{shown}"
    );
    assert_eq!(processes(place.path()), [""; 0]);
    // A copy of the checking process reports nothing, and does not stay.
    let forks = fixture(&place, "[3.0, -4.0]", "options = { fault = \"fork\" }");
    let ended = test(&place, "fault", &forks, &["--only", "outputs"]);
    assert!(ended.stdout.contains("outputs are right"), "{}\n{}", ended.stdout, ended.stderr);
    assert_eq!(processes(place.path()), [""; 0]);
}

#[test]
fn a_check_that_hangs_is_ended_by_the_limit_and_all_of_it_by_a_signal() {
    use rustix::process::{Pid, Signal, kill_process};

    let place = Place::new();
    let hangs = fixture(&place, "[3.0, -4.0]", "options = { fault = \"hang\" }");
    let only = ["--only", "outputs are right"];
    let ended = test(&place, "fault", &hangs, &[&only[..], &["--timeout", "1s"]].concat());
    assert!(ended.expect(4).stdout.contains("it was not done after 1 s"));
    let refused = test(&place, "fault", &hangs, &["--timeout", "soon"]).expect(2);
    assert!(refused.stderr.contains("it does not begin with a number"), "{}", refused.stderr);

    let hangs = hangs.to_str().expect("UTF-8");
    for signal in [Signal::TERM, Signal::INT, Signal::KILL] {
        let arguments = [&["plugins", "test", "fault", "--fixture", hangs], &only[..]].concat();
        let mut host = place.host(&arguments);
        host.stdout(Stdio::null()).stderr(Stdio::null());
        let mut host = host.spawn().expect("starting host");
        wait_for_processes(&place, "the check hangs", |found| {
            found.iter().any(|line| line.contains("--child"))
        });
        kill_process(Pid::from_child(&host), signal).expect("a signal");
        host.wait().expect("waiting for host");
        wait_for_processes(&place, "something is left", <[String]>::is_empty);
    }
}

/// Tests a C backend that does not check its arguments, by its folder.
#[test]
fn a_careless_plugin_in_c_is_found_out_by_its_folder() {
    let place = Place::new();
    let sources = root().join("tests/c-backend");
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let library = place.path().join("libcareless.so");
    let built = std::process::Command::new(&compiler)
        .args(["-std=c11", "-O1", "-shared", "-fPIC", "-I"])
        .arg(root().join("plugin-api/native/include"))
        .arg(sources.join("careless.c"))
        .arg("-o")
        .arg(&library)
        .output()
        .unwrap_or_else(|error| panic!("the compiler `{compiler}` must be installed: {error}"));
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let library = fs::read(library).expect("the library");
    let folder = plugin(&place, "careless", &library, "environment = [\"CARELESS\"]\n");
    let folder = folder.to_str().expect("UTF-8");
    let fixture = sources.join("careless.toml");
    let fixture = fixture.to_str().expect("UTF-8");
    let run = |way: &str, only: &str| {
        let arguments = ["plugins", "test", folder, "--fixture", fixture, "--only", only];
        let output = place.host(&arguments).env("CARELESS", way).output().expect("starting host");
        Ended::new(&arguments, &output)
    };
    for (way, only, figures) in [
        ("any-type", "wrong element types", "int64 for float32 as input 0 was accepted"),
        ("crash-on-damage", "cut-off models", "a model cut off after 0 of 8 bytes"),
    ] {
        let _ = run("nothing", only).expect(0);
        let careless = run(way, only).expect(4);
        // Long lines are broken.
        let shown = careless.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(shown.contains(figures), "{way}: {shown}");
    }
    // Without a device all checks would fail with the same message, which is printed once.
    let without = place.write("without.toml", "device = \"scale:7\"\nprecision = \"fp32\"\n");
    let without = without.to_str().expect("UTF-8");
    for (way, fixture, why) in [
        ("find-nothing", fixture, "there is no scale"),
        ("list-nothing", fixture, "it finds no device"),
        ("nothing", without, "it finds no device `scale:7`, which the fixture names, only"),
    ] {
        let arguments = ["plugins", "test", folder, "--fixture", fixture];
        let output = place.host(&arguments).env("CARELESS", way).output().expect("starting host");
        let ended = Ended::new(&arguments, &output).expect(4);
        assert_eq!(ended.stdout, "", "nothing was checked");
        let shown = ended.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(shown.contains(&format!("`careless` could not be checked: {why}")), "{shown}");
    }
    // A user who names a folder wants to run its code: no trust is needed or recorded.
    assert!(!place.path().join("configuration/tare/plugins.lock").exists());
}

#[test]
fn a_library_that_cannot_be_opened_is_said_to_be_so() {
    let place = Place::new();
    // An ELF header of a 64-bit shared library for another processor than this machine's.
    let mut foreign = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0".to_vec();
    foreign.extend(if cfg!(target_arch = "x86_64") { [0xb7, 0] } else { [0x3e, 0] });
    foreign.resize(64, 0);
    for (name, library, message) in [
        ("foreign", foreign, "could not be checked: wrong architecture: the plugin is for "),
        ("text", b"hello".to_vec(), "could not be checked: not a plugin: "),
    ] {
        let folder = plugin(&place, name, &library, "");
        let ended = place.run(&["plugins", "test", folder.to_str().expect("UTF-8")]).expect(4);
        let shown = ended.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(shown.contains(&format!("`{name}` {message}")), "{shown}");
        assert_eq!(ended.stdout, "", "nothing was checked");
    }
}

#[test]
fn a_plugin_whose_runtime_is_missing_names_the_command_that_installs_it() {
    let place = Place::new();
    let runtime = "[runtime]\nname = \"demo\"\nversion = \"1.0\"\nsummary = \"A demo.\"\n";
    let library = fs::read(built().join("plugins/null/libbackend_null.so")).expect("a library");
    let folder = plugin(&place, "demo", &library, runtime);
    let lock = format!(
        "schema = 1\n[[package]]\nplatform = \"{}-{}\"\nname = \"demo\"\nversion = \"1.0\"\n\
         file = \"demo-1.0-py3-none-any.whl\"\nsha256 = \"{}\"\nbytes = 1\nunpack = [\"demo/*\"]\n",
        std::env::consts::OS,
        std::env::consts::ARCH,
        "0".repeat(64),
    );
    fs::write(folder.join("runtime.lock"), lock).expect("a lock");
    let folder = folder.to_str().expect("UTF-8");
    let ended = place.run(&["plugins", "test", folder]).expect(4);
    assert_eq!(ended.stdout, "", "nothing was checked");
    let message =
        "runtime `demo` 1.0 is not installed; install it with `host runtimes install demo`";
    let shown = ended.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains(message), "{shown}");
    // With a named fixture, it is checked.
    let named = place.write("libdemo.so", "\x7fELF, theirs");
    let named = format!("demo={}", named.display());
    let fixture = fixture(&place, "[0.0, 0.0]", "");
    let only = ["--only", "outputs are right", "--runtime", &named];
    let _ = test(&place, folder, &fixture, &only).expect(0);
}
