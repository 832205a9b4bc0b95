//! Packages for plugin authors: whether what would be published is whole.

use std::fs;
use std::path::{Path, PathBuf};

use crate::layout;
use crate::setup;
use crate::shell::{At, Failed, cargo, command, root, say};

/// What an author of plugins depends on, and what that depends on.
const PACKAGES: [&str; 5] = [
    "tare-statistics",
    "tare-descendants",
    "tare-plugin-api",
    "tare-plugin-guest",
    "tare-plugin-testkit",
];

/// Packs the packages, unpacks them elsewhere, and builds a backend and a metric on them, as an author would. The
/// suite of the unpacked `tare-plugin-testkit` then checks the backend.
pub(crate) fn check_packages() -> Result<(), Failed> {
    setup::rust_target("wasm32-wasip2", "for which the WASM plugins are built")?;
    let target = layout::target_folder()?;
    let folder = std::env::temp_dir().join(format!("tare-packages-{}", std::process::id()));
    let result = build_elsewhere(&target, &folder);
    // What could not be removed lies in a folder for such things.
    let _ = fs::remove_dir_all(&folder);
    result
}

fn build_elsewhere(target: &Path, folder: &Path) -> Result<(), Failed> {
    say("package: packing");
    // A checkout that is being worked on can be packed too; in CI it is clean.
    let line = cargo().args(["package", "--quiet", "--no-verify", "--allow-dirty"]);
    line.args(PACKAGES.iter().flat_map(|name| ["--package", name])).run()?;
    let unpacked: Vec<PathBuf> =
        PACKAGES.iter().map(|name| unpack(target, folder, name)).collect::<Result<_, _>>()?;
    let patches: String = PACKAGES
        .iter()
        .zip(&unpacked)
        .map(|(name, path)| format!("{name} = {{ path = {:?} }}\n", path.display().to_string()))
        .collect();
    let manifest = |name: &str, dependency: &str| {
        format!(
            "[package]\nname = {name:?}\nversion = \"0.1.0\"\nedition = \"2024\"\n\n\
             [lib]\ncrate-type = [\"cdylib\"]\n\n\
             [dependencies]\n{dependency} = \"0.1.0\"\nserde = {{ version = \"1.0\", features = [\"derive\"] }}\n\n\
             [workspace]\n\n[patch.crates-io]\n{patches}"
        )
    };
    // Shared, so that what both use is compiled once.
    let built = target.join("packages");
    let build = |project: &Path| {
        let line = cargo().args(["build", "--quiet", "--release", "--manifest-path"]);
        line.arg(project.join("Cargo.toml")).arg("--target-dir").arg(&built)
    };

    say("package: a backend on the packed tare-plugin-api");
    let backend = folder.join("backend-scale");
    write(&backend.join("Cargo.toml"), &manifest("backend-scale", "tare-plugin-api"))?;
    let source = unpacked[2].join("examples/scale.rs");
    write(&backend.join("src/lib.rs"), &fs::read_to_string(&source).at(&source)?)?;
    build(&backend).run()?;

    say("package: a metric on the packed tare-plugin-guest");
    let metric = folder.join("metric-interquartile-range");
    let name = "metric-interquartile-range";
    write(&metric.join("Cargo.toml"), &manifest(name, "tare-plugin-guest"))?;
    let source = root().join("plugins/examples").join(name).join("src/lib.rs");
    write(&metric.join("src/lib.rs"), &fs::read_to_string(&source).at(&source)?)?;
    build(&metric).args(["--target", "wasm32-wasip2"]).run()?;

    say("package: the packed tare-plugin-testkit on that backend");
    let testkit = &unpacked[4];
    let mut text = fs::read_to_string(testkit.join("Cargo.toml")).at(testkit)?;
    text.push_str(&format!("\n[workspace]\n\n[patch.crates-io]\n{patches}"));
    write(&testkit.join("Cargo.toml"), &text)?;
    // The lock file in a package names the registry for its siblings, which are not there yet.
    fs::remove_file(testkit.join("Cargo.lock")).at(testkit)?;
    build(testkit).run()?;
    command(built.join("release/plugin-testkit"))
        .arg(built.join("release/libbackend_scale.so"))
        .arg(root().join("tests/c-backend/fixture.toml"))
        .read()?;
    Ok(())
}

/// Unpacks a packed package, and returns its folder.
fn unpack(target: &Path, folder: &Path, name: &str) -> Result<PathBuf, Failed> {
    let whole = format!("{name}-{}", env!("CARGO_PKG_VERSION"));
    let archive = target.join("package").join(format!("{whole}.crate"));
    fs::create_dir_all(folder).at(folder)?;
    command("tar").arg("-xzf").arg(&archive).arg("-C").arg(folder).run()?;
    Ok(folder.join(whole))
}

fn write(path: &Path, text: &str) -> Result<(), Failed> {
    let folder = path.parent().expect("a file lies in a folder");
    fs::create_dir_all(folder).at(folder)?;
    fs::write(path, text).at(path)
}
