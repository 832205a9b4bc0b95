//! Collects the files that authors get: the SDK from its sources, C bindings of the worlds, and the templates.

use std::fs;
use std::path::{Path, PathBuf};

use wit_bindgen_core::Files;
use wit_bindgen_core::wit_parser::Resolve;

/// Folders of the checkout, and their names in the SDK.
const FOLDERS: &[(&str, &str)] = &[
    ("plugin-api/native/include", "include"),
    ("plugin-api/wit", "wit"),
    ("plugin-api/testkit/fixtures", "fixtures"),
    ("plugin-api/native", "rust/tare-plugin-api"),
    ("plugin-api/guest", "rust/tare-plugin-guest"),
    ("plugin-api/testkit", "rust/tare-plugin-testkit"),
    ("host/statistics", "rust/tare-statistics"),
    ("host/descendants", "rust/tare-descendants"),
    ("host/authoring/sdk", ""),
];

/// Folders of those crates that authors do not get.
const LEFT_OUT: &[&str] = &["tests", "target"];

/// Backends that the templates begin as.
const EXAMPLES: &[(&str, &str)] = &[
    ("tests/c-backend/scale.c", "scale.c"),
    ("tests/c-backend/scale.cpp", "scale.cpp"),
    ("tests/c-backend/fixture.toml", "fixture.toml"),
    ("tests/c-backend/three.scale", "three.scale"),
    ("plugin-api/native/examples/scale.rs", "scale.rs"),
];

const WORLDS: &[&str] =
    &["metric-plugin", "run-metric-plugin", "report-plugin", "recommender-plugin"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let here = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    let root = here.join("../..");
    let mut sdk = Vec::new();
    for (folder, name) in FOLDERS {
        collect(&root.join(folder), name, &mut sdk);
    }
    bindings(&root.join("plugin-api/wit"), &out.join("c"), &mut sdk);
    let mut templates = Vec::new();
    collect(&here.join("templates"), "", &mut templates);
    let mut examples = Vec::new();
    for (path, name) in EXAMPLES {
        let path = root.join(path);
        println!("cargo::rerun-if-changed={}", path.display());
        examples.push(((*name).to_owned(), path));
    }
    let mut text = String::new();
    for (name, files) in [("SDK", sdk), ("TEMPLATES", templates), ("EXAMPLES", examples)] {
        text += &format!("pub(crate) static {name}: &[(&str, &[u8])] = &[\n");
        for (name, path) in files {
            let path = path.canonicalize().expect("a file of the checkout");
            text += &format!("    ({name:?}, include_bytes!({:?})),\n", path.display().to_string());
        }
        text += "];\n";
    }
    fs::write(out.join("files.rs"), text).expect("writing the list of files");
}

/// Adds the files of a folder, under a name, in order. Links count as what they lead to.
fn collect(folder: &Path, name: &str, files: &mut Vec<(String, PathBuf)>) {
    println!("cargo::rerun-if-changed={}", folder.display());
    let entries = fs::read_dir(folder).expect("a folder of the checkout");
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| entry.expect("an entry of a folder").path()).collect();
    paths.sort();
    for path in paths {
        let last = path.file_name().expect("a name").to_str().expect("names in UTF-8");
        let inside = if name.is_empty() { last.to_owned() } else { format!("{name}/{last}") };
        if !path.is_dir() {
            files.push((inside, path));
        } else if !LEFT_OUT.contains(&last) || name.is_empty() {
            collect(&path, &inside, files);
        }
    }
}

/// Writes the C bindings of each world.
fn bindings(wit: &Path, folder: &Path, files: &mut Vec<(String, PathBuf)>) {
    fs::create_dir_all(folder).expect("a folder for the bindings");
    for world in WORLDS {
        let mut resolve = Resolve::default();
        let (package, _) = resolve.push_path(wit).expect("the WIT package is right");
        let world = resolve.select_world(&[package], Some(world)).expect("a world of the package");
        let mut made = Files::default();
        let mut generator = wit_bindgen_c::Opts::default().build();
        generator.generate(&mut resolve, world, &mut made).expect("bindings of a world");
        for (name, bytes) in made.iter() {
            let path = folder.join(name);
            fs::write(&path, bytes).expect("writing the bindings");
            files.push((format!("c/{name}"), path));
        }
    }
}
