//! Faulty plugins cost one case each, with a reason.

use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use end_to_end::{Place, built, root};

/// Returns a manifest with one model and the backends given as TOML.
fn manifest(backends: &str, measure: &str) -> String {
    format!(
        r#"schema = 1
[experiment]
name = "faults"
[[model]]
id = "any"
path = "any.model"
{backends}
[matrix]
batch = [1]
[measure]
warm-up = 1
duration = "20ms"
minimum-queries = 1
{measure}
[[metric]]
plugin = "latency"
[[report]]
plugin = "json"
"#
    )
}

fn backend(id: &str, plugin: &str, fault: &str) -> String {
    format!(
        "[[backend]]\nid = \"{id}\"\nplugin = \"{plugin}\"\n{}\n",
        if fault.is_empty() {
            String::new()
        } else {
            format!("options = {{ fault = \"{fault}\" }}")
        }
    )
}

#[test]
fn each_way_to_die_is_a_row_with_its_reason_and_the_others_go_on() {
    let place = Place::new();
    place.write("any.model", "anything");
    // Option of the fault backend → expected text in the journal.
    let ways = [
        ("segfault", "signal"),
        ("abort", "signal"),
        ("exit", "exit-code"),
        ("hang", "timed-out"),
        ("leak", "out-of-memory"),
        ("panic", "backend"),
    ];
    let mut backends = backend("well", "null", "");
    for (fault, _) in ways {
        let text = backend(fault, "fault", fault);
        // Enough to exceed the limit, and slowly enough to be seen from outside.
        backends += &text.replace("\"leak\" }", "\"leak\", fault-bytes = 4194304 }");
    }
    backends += &backend("last", "null", "");
    let text = manifest(
        &backends,
        "timeout = \"1s\"\nmemory-limit = \"400 MiB\"\nmaximum-duration = \"20s\"",
    )
    .replace("minimum-queries = 1\n", "minimum-queries = 400\n");
    place.write("faults.toml", &text);

    let run = place.run(&["run", "faults.toml"]).expect(6);
    let journal = place.lines("journal.jsonl");
    assert_eq!(journal.len(), ways.len() + 2);
    for record in &journal {
        let backend = record["key"]["backend"].as_str().expect("a backend");
        let outcome = &record["outcome"];
        match ways.iter().find(|(fault, _)| *fault == backend) {
            Some((_, kind)) => {
                assert_eq!(outcome["failure"]["kind"], *kind, "{backend}: {outcome}");
            }
            None => assert_eq!(outcome["outcome"], "finished", "{backend}: {outcome}"),
        }
    }
    for word in ["SIGSEGV", "SIGABRT"] {
        assert!(run.stdout.contains(word), "{word} is missing from\n{}", run.stdout);
    }
}

#[test]
fn what_a_plugin_says_does_nothing_to_a_terminal_and_is_kept() {
    let place = Place::new();
    place.write("any.model", "anything");
    let printed = "\u{1b}[2J\u{7}=red\u{1b}[31m\u{0}\r\nlast: \u{9b}1A\u{202e}";
    let in_toml: String = printed.chars().map(|one| format!("\\U{:08X}", u32::from(one))).collect();
    let error = |id: &str, message: &str| {
        format!(
            "[[backend]]\nid = \"{id}\"\nplugin = \"fault\"\n\
             options = {{ fault = \"error\", fault-message = \"{message}\" }}\n"
        )
    };
    let backends = error("odd", &in_toml) + &error("long", &"A gigantic message. ".repeat(5000));
    let text = manifest(&backends, "")
        + "[[report]]\nplugin = \"html\"\n[[report]]\nplugin = \"csv\"\n[[report]]\nplugin = \"markdown\"\n";
    place.write("odd.toml", &text);
    // With colours, the tool's own styles pass and a plugin's do not.
    for (color, styles) in [("never", false), ("always", true)] {
        let run = place.run(&["run", "odd.toml", "--color", color]).expect(6);
        for stream in [&run.stdout, &run.stderr] {
            assert!(stream.contains("␛[2J␇=red␛[31m␀"), "{stream}");
            assert!(!stream.contains("\u{1b}[2J"), "{stream}");
            assert_eq!(stream.contains('\u{1b}'), styles, "{stream}");
            let plain = |one: char| one == '\n' || one == '\u{1b}' || !one.is_control();
            assert!(stream.chars().all(plain) && !stream.contains('\u{202e}'), "{stream:?}");
        }
        let bytes = run.stdout.len() + run.stderr.len();
        assert!(bytes < 10_000, "{bytes} bytes for a message of a megabyte");
        if color == "never" {
            let folder = place.run_folder();
            let journal = place.lines("journal.jsonl");
            let failure = &journal[0]["outcome"]["failure"];
            assert_eq!([&failure["call"], &failure["message"]], ["run", printed]);
            let message = journal[1]["outcome"]["failure"]["message"].as_str().expect("a message");
            assert!(message.ends_with(" … 95904 bytes left out"), "{message}");
            for report in ["html/report.html", "csv/results.csv", "markdown/report.md"] {
                let text = std::fs::read_to_string(folder.join("reports").join(report));
                let text = text.expect("a report");
                assert!(text.contains("␛[2J␇") || text.contains(r"␛\[2J␇"), "{report}");
                let plain = |one: char| "\r\n".contains(one) || !one.is_control();
                assert!(text.chars().all(plain) && !text.contains('\u{202e}'), "{report}");
                assert!(text.contains(r"\u{202e}") || text.contains(r"\\u{202e}"), "{report}");
            }
            let shown = place.run(&["results", "show", "--format", "json"]).expect(0);
            assert!(!shown.stdout.contains(['\u{1b}', '\u{9b}', '\u{7}']), "{}", shown.stdout);
            let reason = &shown.json()["cases"][0]["failure"]["message"];
            assert_eq!(*reason, printed, "machines are told the truth");
        }
    }
}

#[test]
fn the_folders_that_are_looked_in_are_named() {
    let place = Place::new();
    let missing = place.run(&["plugins", "list"]).expect(0);
    let user = place.path().join("data/tare/plugins");
    let named = format!("{} (user, which does not exist)", user.display());
    assert!(missing.stderr.contains(&named), "{}", missing.stderr);
    let there = place.plugins();
    assert_eq!(user, there);
    let named = format!("{} (user)", there.canonicalize().expect("a folder").display());
    let listed = place.run(&["plugins", "list"]).expect(0);
    assert!(listed.stderr.contains(&named), "{}", listed.stderr);
    let doctor = place.run(&["doctor", "--format", "json"]);
    let checks = doctor.json();
    let checks = checks.as_array().expect("a list of checks");
    assert!(checks.iter().any(|check| check["evidence"] == named), "{checks:?}");
}

#[test]
fn a_library_or_model_that_is_swapped_during_a_run_is_not_measured() {
    let place = Place::new();
    let model = place.write("any.model", "anything");
    let plugin = place.plugins().join("null");
    std::fs::create_dir_all(&plugin).expect("creating the plugin's folder");
    for name in ["plugin.toml", "libbackend_null.so"] {
        std::fs::copy(built().join("plugins/null").join(name), plugin.join(name)).expect("copying");
    }
    // The second case may begin before the files are swapped, and takes long.
    let backends = backend("first", "null", "")
        + &backend("second", "null", "")
        + &backend("other", "fault", "")
        + &backend("changed", "null", "");
    let text = manifest(&backends, "").replace("\"20ms\"", "\"1s\"");
    place.write("swap.toml", &text);
    let child = place
        .host(&["run", "swap.toml"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starting host");
    wait_for_the_first_case(&place);
    // The file is replaced as an installer does it: another file takes the name.
    let library = plugin.join("libbackend_null.so");
    let mut bytes = std::fs::read(&library).expect("reading the library");
    bytes.push(0);
    std::fs::write(plugin.join("new"), bytes).expect("writing a library");
    std::fs::rename(plugin.join("new"), &library).expect("replacing the library");
    std::fs::write(&model, "something else").expect("writing the model");
    let output = child.wait_with_output().expect("waiting for host");
    assert_eq!(output.status.code(), Some(6), "{}", String::from_utf8_lossy(&output.stderr));
    let journal = place.lines("journal.jsonl");
    let failure = |index: usize| journal[index]["outcome"]["failure"].clone();
    assert_eq!(journal[0]["outcome"]["outcome"], "finished");
    assert_eq!(failure(2)["kind"], "input", "{}", failure(2));
    assert!(failure(2)["detail"].as_str().is_some_and(|printed| printed.contains("has changed")));
    assert_eq!(failure(3)["kind"], "plugin-changed", "{}", failure(3));
}

#[test]
fn what_is_not_a_plugin_is_said_to_be_none() {
    let place = Place::new();
    place.write("any.model", "anything");
    let folder = place.plugins();
    let description = |id: &str| {
        format!(
            "schema = 1\nid = \"{id}\"\nversion = \"0.1.0\"\nkind = \"backend\"\nsummary = \"A test.\"\n\
             license = \"MIT\"\nlibrary = \"it\"\napi = \">=1.0, <2\"\nhardware = [\"cpu\"]\nengine = \"none\"\n"
        )
    };
    // An ELF header of a 64-bit shared library for another processor than this machine's.
    let mut foreign = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0".to_vec();
    foreign.extend(if cfg!(target_arch = "x86_64") { [0xb7, 0] } else { [0x3e, 0] });
    foreign.resize(64, 0);
    // A library of the system: it can be opened, and has no entry point.
    let plain = std::fs::read("/proc/self/maps").expect("the map of this process");
    let plain = String::from_utf8_lossy(&plain)
        .lines()
        .filter_map(|line| line.split_whitespace().nth(5))
        .find(|path| path.contains("/libc.so") || path.contains("/libc-"))
        .map(|path| std::fs::read(path).expect("reading the C library"))
        .expect("this test is linked with the C library");
    let plugins: [(&str, Vec<u8>); 3] =
        [("text", b"hello".to_vec()), ("foreign", foreign), ("plain", plain)];
    let mut backends = backend("well", "null", "");
    for (id, bytes) in &plugins {
        let plugin = folder.join(id);
        std::fs::create_dir_all(&plugin).expect("creating the plugin's folder");
        std::fs::write(plugin.join("plugin.toml"), description(id)).expect("writing plugin.toml");
        std::fs::write(plugin.join("libit.so"), bytes).expect("writing the library");
        backends += &backend(id, id, "");
    }
    place.write("broken.toml", &manifest(&backends, ""));
    let run = place.run(&["run", "broken.toml"]).expect(6);
    for reason in ["not a plugin", "wrong architecture", "missing symbol"] {
        assert!(run.stdout.contains(reason), "`{reason}` is missing from\n{}", run.stdout);
    }
    assert!(run.stdout.contains("well"), "{}", run.stdout);
}

/// Waits until the journal of a run in progress has a line.
fn wait_for_the_first_case(place: &Place) {
    let deadline = Instant::now() + Duration::from_secs(60);
    let finished = || {
        let runs = std::fs::read_dir(place.path().join("results/runs")).ok()?;
        let folder = runs.filter_map(Result::ok).next()?.path();
        Some(std::fs::read_to_string(folder.join("journal.jsonl")).ok()?.lines().count())
    };
    while finished() != Some(1) {
        assert!(Instant::now() < deadline, "the first case never finished");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_run_that_is_to_outlive_its_terminal_ignores_the_hang_up() {
    let place = Place::new();
    place.write("any.model", "anything");
    let backends = backend("first", "null", "") + &backend("last", "null", "");
    place.write("m.toml", &manifest(&backends, "").replace("\"20ms\"", "\"1s\""));
    // This is what `nohup` does.
    let ignoring = place.host(&[]);
    let child = std::process::Command::new("sh")
        .args(["-c", "trap '' HUP; exec \"$0\" run m.toml"])
        .arg(ignoring.get_program())
        .current_dir(place.path())
        .envs(ignoring.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("starting host");
    wait_for_the_first_case(&place);
    let process = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(process, rustix::process::Signal::HUP).expect("hanging up");
    let output = child.wait_with_output().expect("waiting for host");
    assert_eq!(output.status.code(), Some(0), "{:?}", output.status.signal());
    assert_eq!(place.lines("journal.jsonl").len(), 2);
}

#[test]
fn an_interrupted_run_keeps_what_is_finished_and_is_resumed() {
    let place = Place::new();
    place.write("any.model", "anything");
    let mut backends = backend("first", "null", "");
    backends += "[[backend]]\nid = \"slow\"\nplugin = \"fault\"\n\
                 options = { fault = \"slow\", fault-milliseconds = 300 }\n";
    backends += &backend("last", "null", "");
    let text = manifest(&backends, "timeout = \"20s\"").replace("\"20ms\"", "\"2s\"");
    place.write("slow.toml", &text);

    let child = place
        .host(&["run", "slow.toml"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starting host");
    wait_for_the_first_case(&place);
    std::thread::sleep(Duration::from_millis(300));
    let process = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(process, rustix::process::Signal::INT)
        .expect("interrupting host");
    let output = child.wait_with_output().expect("waiting for host");
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(130), "{:?}\n{printed}", output.status.signal());
    assert!(printed.contains("--resume"), "{printed}");
    let listed = place.run(&["--format", "json", "results", "list"]).expect(0).json();
    assert_eq!((&listed[0]["cases"], &listed[0]["finished"]), (&3.into(), &1.into()), "{listed}");
    assert_eq!(place.lines("journal.jsonl").len(), 1);
    let query = "SELECT count(*) AS cases FROM benchmark_cases";
    let indexed = place.run(&["--format", "json", "results", "query", query]).expect(0).json();
    assert_eq!(indexed[0]["cases"], 1, "the finished case is in the database");

    let first = place.lines("journal.jsonl");
    let _ = place.run(&["run", "--resume", "latest"]).expect(0);
    let journal = place.lines("journal.jsonl");
    assert_eq!(journal.len(), 3);
    assert_eq!(journal[0], first[0], "the finished case was kept as it was");
    // Nothing is left to do, which is not a failure.
    let _ = place.run(&["run", "--resume", "latest"]).expect(0);
    assert_eq!(place.lines("journal.jsonl").len(), 3);
}

#[test]
fn a_guest_that_is_dropped_in_is_used() {
    let place = Place::new();
    place.write("any.model", "anything");
    let component = built().join("plugins/throughput.wasm");
    let plugins = place.path().join("more");
    std::fs::create_dir_all(&plugins).expect("creating a folder");
    // The installation lacks this metric.
    let installation = place.path().join("installation");
    std::fs::create_dir_all(installation.join("plugins")).expect("creating a folder");
    for name in ["host", "host-worker", "libduckdb.so"] {
        std::fs::copy(built().join(name), installation.join(name)).expect("copying the tool");
    }
    for name in ["null", "latency.wasm", "json.wasm"] {
        let status = std::process::Command::new("cp")
            .arg("-r")
            .arg(built().join("plugins").join(name))
            .arg(installation.join("plugins"))
            .status()
            .expect("starting cp");
        assert!(status.success());
    }
    let place = Place::with_host(installation.join("host"));
    place.write("any.model", "anything");
    let text = manifest(&backend("well", "null", ""), "")
        .replace("plugin = \"latency\"", "plugin = \"throughput\"");
    place.write("it.toml", &text);
    let refused = place.run(&["run", "it.toml"]).expect(4);
    assert!(refused.stderr.contains("throughput"), "{}", refused.stderr);
    std::fs::copy(component, place.plugins().join("throughput.wasm")).expect("dropping it in");
    let _ = place.run(&["run", "it.toml"]).expect(0);
    let results = std::fs::read_to_string(place.run_folder().join("results.jsonl"));
    assert!(results.expect("results").contains("throughput.samples"));
}

#[test]
fn a_changed_native_plugin_is_refused_until_it_is_trusted() {
    let place = Place::new();
    place.write("any.model", "anything");
    let plugin = place.plugins().join("mine");
    std::fs::create_dir_all(&plugin).expect("creating the plugin's folder");
    let description = std::fs::read_to_string(built().join("plugins/null/plugin.toml"))
        .expect("reading plugin.toml")
        .replace("id = \"null\"", "id = \"mine\"");
    std::fs::write(plugin.join("plugin.toml"), description).expect("writing plugin.toml");
    let library = plugin.join("libbackend_null.so");
    std::fs::copy(built().join("plugins/null/libbackend_null.so"), &library).expect("copying");
    place.write("mine.toml", &manifest(&backend("mine", "mine", ""), ""));

    // A plugin.toml that contradicts its library is not trusted.
    let first = place.run(&["run", "mine.toml"]);
    assert_ne!(first.code, Some(0), "{}", first.stderr);
    assert!((first.stdout.clone() + &first.stderr).contains("null"), "{}", first.stdout);

    let mut bytes = std::fs::read(&library).expect("reading the library");
    bytes.push(0);
    std::fs::write(&library, bytes).expect("changing the library");
    let refused = place.run(&["run", "mine.toml"]).expect(4);
    assert!(refused.stderr.contains("host plugins trust mine"), "{}", refused.stderr);
    let _ = place.run(&["plugins", "trust", "mine"]).expect(0);
    let trusted = place.run(&["run", "mine.toml"]);
    assert!(!trusted.stderr.contains("plugins trust"), "{}", trusted.stderr);
}

#[test]
fn a_manifest_with_many_mistakes_is_answered_once() {
    let place = Place::new();
    let text = "schema = 1\n[experiment]\nname = \"x\"\n[[model]]\nid = \"m\"\npath = \"m.onnx\"\n\
                [[backend]]\nid = \"cpu\"\n[matrix]\nbacth = [1]\nprecision = [\"fp31\"]\n\
                [measure]\nduration = \"1 fortnight\"\n";
    place.write("wrong.toml", text);
    let ended = place.run(&["validate", "wrong.toml"]).expect(3);
    for part in ["bacth", "batch", "fp31", "fp32", "fortnight"] {
        assert!(ended.stderr.contains(part), "`{part}` is missing from\n{}", ended.stderr);
    }
    assert_eq!(ended.stdout, "", "errors are no data");
    let quickstart = root().join("manifests/quickstart.toml");
    let _ = place.run(&["validate", quickstart.to_str().expect("UTF-8")]).expect(0);
}
