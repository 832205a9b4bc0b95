/*!
Building the tool, and laying it out as installed.

`host-worker`, `plugin-testkit`, `libduckdb.so` and `plugins/` are beside the executable `host`. Cargo puts the first
three there; the rest is copied, each file atomically, and only if it changed, so a second call does nothing.
*/

use std::fs;
use std::path::{Path, PathBuf};

use crate::setup::{duckdb_library, place};
use crate::shell::{At, Failed, cargo, command, root, say};

/// The native plugins that come with the tool: package, plugin id and cargo's name of the library.
const BACKENDS: &[&str] =
    &["cpu", "cuda", "fault", "mps", "null", "openvino", "qnn", "rocm", "torch", "webgpu"];

/// The kinds of guests, by the folder below `plugins/` and the prefix of the package's name.
const GUESTS: &[(&str, &[&str])] = &[
    (
        "metric",
        &[
            "latency",
            "throughput",
            "memory",
            "energy",
            "accuracy",
            "startup",
            "stability",
            "scaling",
            "model",
            "training",
        ],
    ),
    ("report", &["html", "markdown", "csv", "json", "junit", "prometheus", "svg"]),
    ("recommender", &["hardware", "batch-and-precision", "next-experiment", "predict"]),
];

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    Debug,
    Release,
}

impl Profile {
    fn folder(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Release => "release",
        }
    }
}

/// Returns the folder into which cargo builds.
pub(crate) fn target_folder() -> Result<PathBuf, Failed> {
    if let Some(folder) = prebuilt() {
        return Ok(folder);
    }
    let answer = cargo().args(["metadata", "--format-version", "1", "--no-deps"]).read()?;
    let answer: serde_json::Value = serde_json::from_str(&answer)
        .map_err(|error| Failed::new(format!("the answer of `cargo metadata`: {error}")))?;
    let folder = answer["target_directory"].as_str();
    Ok(PathBuf::from(folder.ok_or_else(|| Failed::new("cargo names no target folder"))?))
}

/// Returns the target folder that was built elsewhere and brought to this machine, which needs no Rust then. It has the
/// release build and the benches' examples.
pub(crate) fn prebuilt() -> Option<PathBuf> {
    std::env::var_os("TARE_PREBUILT").map(PathBuf::from)
}

/// Builds an example of a package for release, and returns the program.
pub(crate) fn build_example(package: &str, example: &str) -> Result<PathBuf, Failed> {
    if prebuilt().is_none() {
        let line = cargo().args(["build", "--quiet", "--release", "--package", package]);
        line.args(["--example", example]).run()?;
    }
    Ok(target_folder()?.join("release/examples").join(example))
}

/// Builds all parts of the installed tool, and returns its folder.
pub(crate) fn build(profile: Profile) -> Result<PathBuf, Failed> {
    let target = target_folder()?;
    let folder = target.join(profile.folder());
    if prebuilt().is_some() {
        return Ok(folder);
    }
    say(&format!("build: host, worker and native plugins ({})", profile.folder()));
    let selection: Vec<String> = match profile {
        // The whole workspace is built, since cargo unites the features of packages that it builds together. Tests
        // and lints cover the whole workspace, and then find all dependencies built with the same features.
        Profile::Debug => vec!["--workspace".to_owned()],
        Profile::Release => {
            let backends = BACKENDS.iter().map(|id| format!("--package=backend-{id}"));
            let programs = ["host-cli", "host-worker", "tare-plugin-testkit", "tare-python"]
                .map(|name| format!("--package={name}"));
            ["--release".to_owned()].into_iter().chain(programs).chain(backends).collect()
        }
    };
    cargo().arg("build").args(&selection).run()?;

    say("build: WASM plugins");
    let guests = build_guests("plugins/Cargo.toml")?;

    copy_if_changed(&duckdb_library(), &folder.join("libduckdb.so"))?;
    for id in BACKENDS {
        let plugin = folder.join("plugins").join(id);
        let library = format!("libbackend_{id}.so");
        copy_if_changed(&folder.join(&library), &plugin.join(&library))?;
        let source = root().join("plugins/backends").join(id);
        for name in ["plugin.toml", "README.md"] {
            copy_if_changed(&source.join(name), &plugin.join(name))?;
        }
        for name in ["runtime.lock", "fixture.toml"] {
            if source.join(name).is_file() {
                copy_if_changed(&source.join(name), &plugin.join(name))?;
            }
        }
    }
    for (kind, ids) in GUESTS {
        for id in *ids {
            let component = guests.join(format!("{kind}_{}.wasm", id.replace('-', "_")));
            copy_if_changed(&component, &folder.join(format!("plugins/{id}.wasm")))?;
        }
    }
    Ok(folder)
}

/// Builds a workspace of WASM plugins, by the manifest's path in the checkout, and returns the folder with the
/// components.
pub(crate) fn build_guests(manifest: &str) -> Result<PathBuf, Failed> {
    // Guests have a separate target folder; otherwise the two workspaces would wait for each other's lock.
    let target = target_folder()?.join("guests");
    cargo()
        .args(["build", "--release", "--target", "wasm32-wasip2", "--workspace", "--manifest-path"])
        .arg(root().join(manifest))
        .arg("--target-dir")
        .arg(&target)
        .run()?;
    Ok(target.join("wasm32-wasip2/release"))
}

fn copy_if_changed(source: &Path, target: &Path) -> Result<(), Failed> {
    let new = fs::read(source).at(source)?;
    if fs::read(target).is_ok_and(|old| old == new) {
        return Ok(());
    }
    place(source, target)
}

/// Copies the installed layout out of cargo's folder.
pub(crate) fn copy_to(built: &Path, target: &Path) -> Result<(), Failed> {
    fs::create_dir_all(target).at(target)?;
    for name in ["host", "host-worker", "plugin-testkit", "libduckdb.so"] {
        place(&built.join(name), &target.join(name))?;
    }
    for name in ["LICENSE-MIT", "LICENSE-APACHE"] {
        place(&root().join(name), &target.join(name))?;
    }
    second_name(target)?;
    command("cp").arg("-r").arg(built.join("plugins")).arg(target).run()?;
    say(&format!("packaged into {}", target.display()));
    Ok(())
}

/// Adds the command under the tool's own name: `host` is another program on many machines.
fn second_name(folder: &Path) -> Result<(), Failed> {
    let tare = folder.join("tare");
    if tare.symlink_metadata().is_ok() {
        fs::remove_file(&tare).at(&tare)?;
    }
    // A link without a folder stays valid when the package is moved.
    #[cfg(unix)]
    return std::os::unix::fs::symlink("host", &tare).at(&tare);
    #[cfg(not(unix))]
    return fs::copy(folder.join("host"), &tare).map(drop).at(&tare);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_has_two_names_for_its_command_also_when_moved() {
        let here = std::env::temp_dir().join(format!("tare-package-{}", std::process::id()));
        let built = here.join("built");
        fs::create_dir_all(built.join("plugins")).expect("a folder");
        for name in ["host", "host-worker", "plugin-testkit", "libduckdb.so"] {
            fs::write(built.join(name), name).expect("a file");
        }
        let package = here.join("package");
        // An earlier package is replaced.
        for _ in 0..2 {
            copy_to(&built, &package).expect("a package");
        }
        let moved = here.join("moved");
        fs::rename(&package, &moved).expect("moving the package");
        assert_eq!(fs::read_to_string(moved.join("tare")).expect("the second name"), "host");
        fs::remove_dir_all(&here).expect("removing what was made");
    }
}
