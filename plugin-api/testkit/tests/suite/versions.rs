//! Hosts and backends of different minor versions work together: each reads and writes the fields that both know.
//!
//! The other versions are made from today's header: an older one without the fields that were appended since ABI 1.0,
//! and a newer one in which every struct has grown.

use std::ffi::{CStr, CString, c_char};
use std::fs;
use std::path::Path;

use crate::common::{FOLDER, INCLUDE, build, build_with, turn};
use crate::rust_example;
use plugin_api::abi::{self, LAYOUTS, Layout};
use plugin_testkit::{Fixture, Suite};

fn today() -> String {
    fs::read_to_string(Path::new(INCLUDE).join("plugin_api.h")).expect("the header")
}

/// Replaces the body of a struct, which is found by its beginning.
fn change_body(header: &str, name: &str, change: impl FnOnce(&str) -> String) -> String {
    let begin = ["typedef struct ", "struct "].iter().find_map(|word| {
        let line = format!("{word}{name} {{\n");
        header.find(&line).map(|at| at + line.len())
    });
    let begin = begin.unwrap_or_else(|| panic!("the header has `{name}`"));
    let end = begin + header[begin..].find("\n}").expect("it ends") + 1;
    format!("{}{}{}", &header[..begin], change(&header[begin..end]), &header[end..])
}

fn with_version(header: &str, minor: u32, size: impl Fn(&Layout) -> usize) -> String {
    let line = |minor| format!("#define TARE_ABI_MINOR {minor}\n");
    let mut header = header.replace(&line(abi::MINOR), &line(minor));
    for layout in LAYOUTS {
        let assertion = |size| format!("TARE_ASSERT_SIZE({}, {size});", layout.name);
        let known = assertion(layout.size);
        assert!(header.contains(&known), "{known}");
        header = header.replace(&known, &assertion(size(layout)));
    }
    header
}

/// Returns the header without the fields appended since ABI 1.0.
fn older() -> String {
    let mut header = today();
    let mut left_out = 0;
    for layout in LAYOUTS {
        let Some(v1_size) = layout.v1_size else { continue };
        let appended = layout.fields.iter().filter(|(_, offset)| *offset >= v1_size);
        for (field, _) in appended {
            header = change_body(&header, layout.name, |body| {
                let declares = |line: &str| {
                    let code = line.split("/*").next().unwrap_or_default();
                    code.contains(&format!(" {field};"))
                        || code.contains(&format!("*{field};"))
                        || code.contains(&format!("(*{field})("))
                };
                let kept: Vec<_> = body.lines().filter(|line| !declares(line)).collect();
                assert_eq!(kept.len() + 1, body.lines().count(), "{}.{field}", layout.name);
                kept.join("\n") + "\n"
            });
            left_out += 1;
        }
    }
    assert!(left_out > 0, "this test is about what was appended");
    with_version(&header, 0, |layout| layout.v1_size.unwrap_or(layout.size))
}

/// Returns the header of a version in which every struct has grown.
fn newer() -> String {
    let mut header = today();
    for layout in LAYOUTS.iter().filter(|layout| layout.v1_size.is_some()) {
        header =
            change_body(&header, layout.name, |body| format!("{body}    uint64_t newer[2];\n"));
    }
    let grown = |layout: &Layout| layout.size + if layout.v1_size.is_some() { 16 } else { 0 };
    with_version(&header, abi::MINOR + 1, grown)
}

/// Returns the folders with the headers of the other versions.
fn headers() -> Vec<(&'static str, tempfile::TempDir)> {
    [("older", older()), ("newer", newer())]
        .map(|(version, header)| {
            let folder = tempfile::tempdir().expect("a folder");
            fs::write(folder.path().join("plugin_api.h"), header).expect("it is writable");
            (version, folder)
        })
        .into()
}

/// Flags for code that does not initialise the fields of a newer version.
const LENIENT: &[&str] = &["-Wno-missing-field-initializers"];

#[test]
fn backends_of_other_versions_conform() {
    let _turn = turn();
    let fixture = Fixture::read(&Path::new(FOLDER).join("fixture.toml")).expect("a good fixture");
    for (version, header) in headers() {
        for source in ["scale.c", "extensions.c"] {
            let folder = tempfile::tempdir().expect("a folder");
            let library = build_with(source, folder.path(), LENIENT, header.path());
            // SAFETY: it is this test's library, and nothing else has loaded this copy.
            let suite = unsafe { Suite::open(&library) }.expect("a backend");
            let names = Suite::names().filter(|name| !name.contains("grow"));
            for name in names {
                let verdict = suite.check_one(name, &fixture).expect("a check");
                let fails = matches!(verdict, plugin_testkit::Verdict::Fails(_));
                assert!(!fails, "{version} {source}: {name}: {verdict:?}");
            }
        }
    }
}

/// `check_backend` of `host.c`.
type CheckBackend = unsafe extern "C" fn(entry: abi::Entry, path: *const c_char) -> *const c_char;

#[test]
fn hosts_of_other_versions_are_served() {
    let _turn = turn();
    let folder = tempfile::tempdir().expect("a folder");
    let in_c = build("scale.c", folder.path(), &[]);
    let in_cpp = build("scale.cpp", folder.path(), &[]);
    // SAFETY: they are this test's libraries, and nothing else has loaded these copies.
    let [in_c, in_cpp] =
        [in_c, in_cpp].map(|path| unsafe { libloading::Library::new(path) }.expect("a library"));
    // SAFETY: this is the entry points' type.
    let [c_entry, cpp_entry] = [&in_c, &in_cpp].map(|library| unsafe {
        *library.get::<abi::Entry>(abi::ENTRY_SYMBOL).expect("an entry point")
    });
    let backends: [(&str, abi::Entry); 3] =
        [("C", c_entry), ("C++", cpp_entry), ("Rust", rust_example::tare_backend_v1)];
    let path = CString::new(format!("{FOLDER}/three.scale")).expect("no zeros");
    let today = tempfile::tempdir().expect("a folder");
    fs::copy(Path::new(INCLUDE).join("plugin_api.h"), today.path().join("plugin_api.h"))
        .expect("it is writable");
    for (version, header) in headers().into_iter().chain([("today's", today)]) {
        let host = build_with("host.c", header.path(), LENIENT, header.path());
        // SAFETY: as above.
        let host = unsafe { libloading::Library::new(host) }.expect("a library");
        // SAFETY: this is the function's type.
        let check = unsafe { host.get::<CheckBackend>(b"check_backend\0") }.expect("the function");
        for (language, entry) in backends {
            // SAFETY: the entry point keeps the ABI, and the path ends in a zero.
            let message = unsafe { check(entry, path.as_ptr()) };
            // SAFETY: it is null or a message of the host's.
            let message = (!message.is_null()).then(|| unsafe { CStr::from_ptr(message) });
            assert_eq!(message, None, "{version} host, backend in {language}");
        }
    }
}
