//! Tests each row of the table of exit codes in `host --help` with real commands.

#![cfg(unix)]

use std::fs;

use end_to_end::{Ended, Place, built, hostile};

/// Returns a manifest with these tables.
fn manifest(tables: &str) -> String {
    format!(
        "schema = 1\n[experiment]\nname = \"codes\"\n[[model]]\nid = \"any\"\npath = \"any.model\"\n\
         [matrix]\nbatch = [1]\n[measure]\nwarm-up = 1\nduration = \"20ms\"\nminimum-queries = 1\n{tables}"
    )
}

const BACKEND: &str = "[[backend]]\nid = \"null\"\n";
const METRIC: &str = "[[metric]]\nplugin = \"latency\"\n";
const REPORT: &str = "[[report]]\nplugin = \"json\"\n";

/// Returns the output as one line, because long lines are wrapped.
fn joined(ended: &Ended) -> String {
    let shown = format!("{} {}", ended.stdout, ended.stderr);
    shown.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Checks, plans and runs a manifest, and returns the output of each.
#[track_caller]
fn checked(place: &Place, tables: &str, codes: [i32; 3]) -> [String; 3] {
    place.write("any.model", "anything");
    place.write("m.toml", &manifest(tables));
    let mut codes = codes.into_iter();
    ["validate", "plan", "run"].map(|command| {
        let code = codes.next().expect("three codes");
        joined(&place.run(&[command, "m.toml"]).expect(code))
    })
}

/// Writes the folder of a backend that is described by this text.
fn describe(place: &Place, folder: &str, text: &str) {
    let folder = place.plugins().join(folder);
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("plugin.toml"), text).expect("a description");
    fs::write(folder.join("libit.so"), "not a library").expect("a file");
}

const DESCRIPTION: &str = "schema = 1\nid = \"mine\"\nversion = \"0.1.0\"\nkind = \"backend\"\n\
    summary = \"A test.\"\nlicense = \"MIT\"\nlibrary = \"it\"\napi = \">=1.0, <2\"\nhardware = [\"cpu\"]\n\
    engine = \"none\"\n";

#[test]
fn success_and_a_backend_that_is_not_installed_beside_others() {
    let place = Place::new();
    let other = "[[backend]]\nid = \"absent\"\n";
    let shown = checked(&place, &[BACKEND, other, METRIC, REPORT].concat(), [0, 0, 0]);
    for shown in shown {
        assert!(shown.contains("no backend plugin `absent` is installed"), "{shown}");
    }
}

#[test]
fn files_that_cannot_be_written() {
    let place = Place::new();
    let _ = checked(&place, &[BACKEND, METRIC, REPORT].concat(), [0, 0, 0]);
    place.write("json", "a file in the place of a report's folder");
    let ended = place.run(&["run", "m.toml", "--report-dir", "."]).expect(1);
    assert!(joined(&ended).contains("json` is in the way"), "{}", ended.stderr);
    let _ = place.run(&["run", "m.toml", "--results", "json"]).expect(1);
}

#[test]
fn the_command_line_and_the_manifest() {
    let place = Place::new();
    let _ = place.run(&["run"]).expect(2);
    let _ = place.run(&["validate", "m.toml", "--nonsense"]).expect(2);
    let _ = checked(&place, &[BACKEND, "[[metrics]]\n"].concat(), [3, 3, 3]);
    // An error in the manifest comes before a missing plugin.
    let both = [BACKEND, "[[metrics]]\n[[metric]]\nplugin = \"latensy\"\n"].concat();
    let _ = checked(&place, &both, [3, 3, 3]);
    place.write("m.toml", &manifest(BACKEND).replace("any.model", "absent.model"));
    for command in ["validate", "plan", "run"] {
        let _ = place.run(&[command, "m.toml"]).expect(3);
    }
}

#[test]
fn a_backend_that_is_there_and_cannot_be_used() {
    let typo = DESCRIPTION.replace("summary", "sumary");
    for (text, folder, table, says) in [
        (&*typo, "mine-0.1", "", "plugin.toml:5: unknown key `sumary`; did you mean `summary`?"),
        (&DESCRIPTION.replace("<2", "<1"), "mine", "", "needs native ABI"),
        (
            &DESCRIPTION.replace("\"it\"", "\"gone\""),
            "mine",
            "",
            "libgone.so of plugin `mine` 0.1.0 is missing",
        ),
        (DESCRIPTION, "mine", "version = \"^0.2\"\n", "no version of plugin `mine` fits `^0.2`"),
    ] {
        let place = Place::new();
        describe(&place, folder, text);
        let tables = format!("{BACKEND}[[backend]]\nid = \"mine\"\n{table}{METRIC}{REPORT}");
        for shown in checked(&place, &tables, [4, 4, 4]) {
            assert!(shown.contains(says) && shown.contains("help:"), "{says} in {shown}");
            assert!(!shown.contains("is installed"), "{shown}");
        }
        assert!(!place.path().join("results").exists(), "nothing was begun");
        if table.is_empty() {
            for (command, code) in [
                (&["plugins", "info", "mine"][..], 4),
                (&["plugins", "test", "mine"], 4),
                (&["plugins", "list"], 0),
                (&["devices"], 0),
                (&["doctor"], 0),
            ] {
                let shown = joined(&place.run(command).expect(code));
                // A table breaks lines within words.
                let (shown, says) = (shown.replace(' ', ""), says.replace(' ', ""));
                assert!(shown.contains(&says), "`{command:?}`: {says} in {shown}");
            }
        }
    }
}

/// Returns a component that is cut off, and one that needs a newer interface, as if in Python.
fn broken_guests(of: &str) -> [(Vec<u8>, &'static str, &'static str); 2] {
    let whole =
        fs::read(built().join("plugins").join(of).with_extension("wasm")).expect("a plugin");
    let cut = whole[..whole.len() / 2].to_vec();
    // Versions of the interfaces are text in a component.
    let text = b"@0.1.";
    let mut newer = whole;
    let mut at = 0;
    while let Some(found) = newer[at..].windows(text.len()).position(|window| window == text) {
        at += found;
        newer[at + 1] = b'9';
    }
    [
        (cut, "not a WebAssembly component", "build it again"),
        (newer, "the plugin needs `tare:plugin` 9.1.", "update the host"),
    ]
}

#[test]
fn a_guest_that_is_there_and_cannot_be_used() {
    // Each kind, and each way to be broken.
    for (kind, of, table, way) in [
        ("metric", "latency", "metric", 0),
        ("report", "json", "report", 1),
        ("recommender", "hardware", "recommend", 1),
    ] {
        let (bytes, says, advises) = broken_guests(of)[way].clone();
        let place = Place::measured(&manifest(&[BACKEND, METRIC, REPORT].concat()));
        // The file is named as by cargo.
        fs::write(place.plugins().join(format!("{kind}_corrupt.wasm")), bytes).expect("a guest");
        let tables = format!("{BACKEND}[[{table}]]\nplugin = \"corrupt\"\n");
        let says_so = |shown: &str, what: &str| {
            // A table breaks lines within words.
            let plain = shown.replace(' ', "");
            assert!(plain.contains(&says.replace(' ', "")), "{what}: {says} in {shown}");
            assert!(plain.contains(&advises.replace(' ', "")), "{what}: {advises} in {shown}");
            assert!(!shown.contains("`corrupt` is installed"), "{what}: {shown}");
        };
        for shown in checked(&place, &tables, [4, 4, 4]) {
            says_so(&shown, kind);
        }
        for (command, code) in [
            (&["plugins", "info", "corrupt"][..], 4),
            (&["plugins", "test", "corrupt"], 4),
            (&["results", "recompute", "latest", "--metric", "corrupt"], 4),
            (&["report", "latest", "--report", "corrupt"], 4),
            (&["plugins", "list"], 0),
            (&["doctor"], 0),
        ] {
            says_so(&joined(&place.run(command).expect(code)), &command.join(" "));
        }
    }
}

#[test]
fn a_guest_that_is_not_installed_or_fails_after_measuring() {
    let place = Place::new();
    for table in ["metric", "report", "recommend"] {
        let tables = format!("{BACKEND}[[{table}]]\nplugin = \"absent\"\n");
        for shown in checked(&place, &tables, [4, 4, 4]) {
            assert!(shown.contains("plugin `absent` is installed"), "{shown}");
        }
        let version = format!(
            "{BACKEND}[[{table}]]\nplugin = \"{}\"\nversion = \"^7\"\n",
            match table {
                "metric" => "latency",
                "report" => "json",
                _ => "hardware",
            }
        );
        for shown in checked(&place, &version, [4, 4, 4]) {
            assert!(shown.contains("fits `^7`"), "{shown}");
        }
    }
    fs::copy(hostile("hostile_report"), place.plugins().join("hostile_report.wasm"))
        .expect("copying a guest");
    let panics =
        "[[report]]\nplugin = \"hostile-report\"\noptions = { view = \"run\", panic = true }\n";
    let [.., shown] = checked(&place, &[BACKEND, METRIC, panics].concat(), [0, 0, 4]);
    assert!(shown.contains("report `hostile-report` was not written"), "{shown}");
    // Plugins that are not backends.
    for shown in checked(&place, "[[backend]]\nid = \"latency\"\n", [4, 4, 4]) {
        assert!(shown.contains("`latency` is a WASM plugin and not a backend"), "{shown}");
    }
    let shown = joined(&place.run(&["plugins", "test", "latency"]).expect(0));
    assert!(shown.contains("7 of 8 checks hold"), "{shown}");
}

#[test]
fn nothing_to_measure_cases_that_fail_and_results_that_are_not_there() {
    let place = Place::new();
    let absent = ["[[backend]]\nid = \"absent\"\n", METRIC, REPORT].concat();
    let _ = checked(&place, &absent, [0, 0, 5]);
    describe(&place, "mine", DESCRIPTION);
    let mine = [BACKEND, "[[backend]]\nid = \"mine\"\n", METRIC, REPORT].concat();
    let [_, plan, run] = checked(&place, &mine, [0, 0, 6]);
    for shown in [plan, run] {
        assert!(shown.contains("not a plugin"), "{shown}");
    }
    let _ = place.run(&["results", "show", "nonesuch"]).expect(7);
    let _ = place.run(&["results", "query", "SELECT nonesuch"]).expect(7);
}
