//! Guests of all versions of `tare:plugin`, with this host: those of its series run, and a newer one is told that the host
//! must be updated if it needs what this host lacks.
//!
//! Guests of earlier and later versions are built against WIT files of those versions, which are beside them and do not
//! change.

use super::*;

/// A metric of the first version gets its columns.
fn computes(plugin: &Plugin, sandbox: &Sandbox) {
    assert_eq!(plugin.kind(), Kind::Metric);
    let columns = case(vec![column("latency", "ns", 1, ColumnData::U64(vec![1, 2, 3]))]);
    let found = sandbox.compute(plugin, &columns, &Value::Null).expect("values");
    assert_eq!(found[0].metric, "old.queries");
    assert_eq!(found[0].value, Ok(3.0));
    assert_eq!(found[0].attributes["case"], columns.case_id);
}

#[test]
fn a_guest_of_0_1_0_runs() {
    let sandbox = sandbox(small());
    computes(&load(&sandbox, "old_metric"), &sandbox);
}

#[test]
fn a_guest_of_0_1_1_runs() {
    let sandbox = sandbox(small());
    let plugin = load(&sandbox, "old_run_metric");
    assert!(plugin.is_over_run());
    let found = sandbox.compute_run(&plugin, Rc::new(ThreeCases), &Value::Null).expect("values");
    assert_eq!(found.keys().collect::<Vec<_>>(), ["aa", "cc"]);
    assert_eq!(found["cc"][0].metric, "old-run.rows");
    assert_eq!(found["cc"][0].value, Ok(3.0));
}

#[test]
fn a_guest_of_this_version_runs() {
    let sandbox = sandbox(small());
    let file = fs::read(components().join("hostile_metric.wasm")).expect("it is built");
    let name = format!("tare:plugin/paged-columns@{}", host_wasm::INTERFACE_VERSION);
    assert!(file.windows(name.len()).any(|part| part == name.as_bytes()), "it is of this version");
    load(&sandbox, "hostile_metric");
}

#[test]
fn a_guest_of_a_later_version_that_needs_more_is_told_to_update_the_host() {
    let sandbox = sandbox(small());
    let path = components().join("too_new_metric.wasm");
    let refusal = sandbox.load(&path).expect_err("this host has no weather");
    assert!(matches!(*refusal.kind, GuestErrorKind::Version { .. }), "{refusal}");
    insta::assert_snapshot!(refusal, @"plugin `too_new_metric.wasm`: version mismatch: the plugin was built for `tare:plugin` 0.1.99 and imports `tare:plugin/weather@0.1.99`, which this host, of 0.1.4, does not know; update the host");
    // It says so before it compiles anything.
    assert_eq!(sandbox.look(&path).expect_err("the same").to_string(), refusal.to_string());
}

#[test]
fn a_guest_of_a_later_version_that_needs_no_more_runs() {
    let file = fs::read(components().join("old_metric.wasm")).expect("it is built");
    let mut later = file.clone();
    let (version, next) = (b"@0.1.0", b"@0.1.9");
    let is_ours = |file: &[u8], at: usize| {
        file[..at].ends_with(b"tare:plugin/metric")
            || file[..at].ends_with(b"tare:plugin/types")
            || file[..at].ends_with(b"tare:plugin/log")
    };
    for at in 0..file.len() - version.len() {
        if file[at..].starts_with(version) && is_ours(&file, at) {
            later[at..at + next.len()].copy_from_slice(next);
        }
    }
    assert_ne!(file, later);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("later.wasm");
    fs::write(&path, later).expect("a file");
    let sandbox = sandbox(small());
    computes(&sandbox.load(&path).expect("a plugin"), &sandbox);
}

#[test]
fn a_kind_of_a_later_version_is_told_to_update_the_host() {
    let component = |name: &str| {
        format!(
            r#"(component (component $c) (instance $i (instantiate $c)) (export "{name}" (instance $i)))"#
        )
    };
    let refusal = text_component(&component("tare:plugin/oracle@0.1.9")).expect_err("unknown");
    insta::assert_snapshot!(refusal, @"plugin `plugin.wasm`: version mismatch: the plugin was built for `tare:plugin` 0.1.9 and exports `tare:plugin/oracle@0.1.9`, which this host, of 0.1.4, does not know; update the host");
    // Of this version it is an error of the plugin.
    let name = format!("tare:plugin/oracle@{}", host_wasm::INTERFACE_VERSION);
    let refusal = text_component(&component(&name)).expect_err("unknown");
    assert!(matches!(*refusal.kind, GuestErrorKind::UnknownWorld { .. }), "{refusal}");
}

#[test]
fn types_that_differ_say_which_side_is_older() {
    let component = |version: &str| {
        let name = format!("tare:plugin/metric@{version}");
        text_component(&format!(
            r#"(component (component $c) (instance $i (instantiate $c)) (export "{name}" (instance $i)))"#
        ))
    };
    let detail = |version: &str| component(version).expect_err("other types").to_string();
    assert!(detail("0.1.0").contains("build the plugin again with the SDK"), "{}", detail("0.1.0"));
    assert!(detail("0.1.9").contains("update the host"), "{}", detail("0.1.9"));
}
