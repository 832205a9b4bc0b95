//! The SDK is what the tool is built from.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use host_authoring::{Versions, is_sdk, write_sdk};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if !path.is_dir() {
            found.push(path);
        } else if !path.ends_with("tests") && !path.ends_with("target") {
            files(&path, found);
        }
    }
}

#[test]
fn every_file_is_that_of_the_sources() {
    let place = tempfile::tempdir().expect("a folder");
    let sdk = place.path().join("sdk");
    let written = write_sdk(&sdk).expect("the SDK");
    let folders = [
        ("plugin-api/native/include", "include"),
        ("plugin-api/wit", "wit"),
        ("plugin-api/native", "rust/tare-plugin-api"),
        ("plugin-api/guest", "rust/tare-plugin-guest"),
        ("plugin-api/testkit", "rust/tare-plugin-testkit"),
        ("host/statistics", "rust/tare-statistics"),
        ("host/descendants", "rust/tare-descendants"),
    ];
    let mut compared = 0;
    for (source, name) in folders {
        let mut sources = Vec::new();
        files(&root().join(source), &mut sources);
        for path in sources {
            let inside = path.strip_prefix(root().join(source)).expect("below the folder");
            let copy = sdk.join(name).join(inside);
            let same = fs::read(&copy).ok() == fs::read(&path).ok();
            assert!(same, "{} is not {}", copy.display(), path.display());
            compared += 1;
        }
    }
    assert!(compared > 80 && written > compared, "{compared} of {written}");
    for world in ["metric", "run-metric", "report", "recommender"] {
        let world = world.replace('-', "_");
        for end in ["_plugin.h", "_plugin.c", "_plugin_component_type.o"] {
            assert!(sdk.join("c").join(format!("{world}{end}")).is_file(), "{world}{end}");
        }
    }
    // A fixture finds its model.
    assert!(sdk.join("fixtures/digits.onnx").is_file());
    let fixture = fs::read_to_string(sdk.join("fixtures/digits.toml")).expect("a fixture");
    assert!(fixture.contains("model = \"digits.onnx\""), "{fixture}");
}

#[test]
fn an_sdk_is_replaced_and_no_other_folder_is() {
    let place = tempfile::tempdir().expect("a folder");
    let sdk = place.path().join("sdk");
    write_sdk(&sdk).expect("the SDK");
    assert!(is_sdk(&sdk));
    fs::write(sdk.join("wit/old.wit"), "of an older tool").expect("a file");
    fs::write(sdk.join("mine"), "kept").expect("a file");
    write_sdk(&sdk).expect("the SDK again");
    assert!(!sdk.join("wit/old.wit").exists() && sdk.join("mine").exists());
    let other = place.path().join("other");
    fs::create_dir(&other).expect("a folder");
    fs::write(other.join("mine"), "kept").expect("a file");
    assert!(write_sdk(&other).expect_err("a full folder").to_string().ends_with("is not empty"));
    let versions = Versions::of_this_program();
    let wit = fs::read_to_string(root().join("plugin-api/wit/plugin.wit")).expect("the package");
    assert!(wit.contains(&format!("package tare:plugin@{};", versions.wit)));
    assert!(versions.native_abi.starts_with("1."), "{versions:?}");
}

/// The workspace of the SDK asks for the same dependencies as the tool's.
#[test]
fn the_crates_have_the_dependencies_of_the_tool() {
    let read = |path: &Path| -> toml::Table {
        let text = fs::read_to_string(path).expect("a manifest");
        toml::from_str(&text).expect("TOML")
    };
    let ours = read(&root().join("Cargo.toml"));
    let sdk = read(&root().join("host/authoring/sdk/rust/Cargo.toml"));
    let table = |manifest: &toml::Table| -> BTreeMap<String, toml::Value> {
        let found = manifest["workspace"]["dependencies"].as_table().expect("a table");
        found.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    let all = table(&ours);
    for (name, mut value) in table(&sdk) {
        let mut expected = all[&name].clone();
        // Its crates lie elsewhere.
        for one in [&mut value, &mut expected] {
            if let Some(table) = one.as_table_mut() {
                table.remove("path");
            }
        }
        assert_eq!(value, expected, "{name}");
    }
    for key in ["version", "edition", "rust-version", "license"] {
        assert_eq!(sdk["workspace"]["package"][key], ours["workspace"]["package"][key], "{key}");
    }
}
