/*!
Checks that the tool builds and links for macOS, from Linux and without Apple's SDK.

Zig has the symbols of libSystem and a linker that writes Mach-O; `cargo-zigbuild` passes it to cargo. Nothing is run,
since that needs a Mac. So nothing is optimised either, with a profile for this task only, and the results are in a
separate folder.
*/

use std::fs;
use std::path::{Path, PathBuf};

use crate::layout;
use crate::setup;
use crate::shell::{At, Failed, cargo, command, has, say};

const TARGET: &str = "aarch64-apple-darwin";

/// A profile that inherits from `release`, since `dev` names dependencies to optimise.
const PROFILE: &str = "link-only";
const SETTINGS: &[&str] = &["inherits=\"release\"", "opt-level=0", "strip=\"none\""];

/// Packages that people run: the command, the worker, the suite for backends, and the backends for a Mac.
const PACKAGES: &[&str] =
    &["host-cli", "host-worker", "tare-plugin-testkit", "backend-cpu", "backend-mps"];

/// Links the tool for macOS with the backends `cpu` and `mps`, and checks the results.
pub(crate) fn check_macos() -> Result<(), Failed> {
    setup::setup()?;
    setup::rust_target(TARGET, "for which this task links")?;
    let zig = zig()?;
    let duckdb = setup::duckdb_for_macos()?;
    let target = layout::target_folder()?.join("macos");
    say(&format!("check-macos: linking {} for {TARGET}", PACKAGES.join(", ")));
    let frameworks = frameworks(&target)?;
    let packages = PACKAGES.iter().flat_map(|package| ["--package", package]);
    let path = std::env::join_paths(
        std::iter::once(zig.join("bin"))
            .chain(std::env::var_os("PATH").iter().flat_map(std::env::split_paths)),
    );
    cargo()
        .args(["zigbuild", "--locked", "--target", TARGET, "--target-dir"])
        .arg(&target)
        .args(["--profile", PROFILE])
        .args(
            SETTINGS.iter().flat_map(|setting| {
                ["--config".to_owned(), format!("profile.{PROFILE}.{setting}")]
            }),
        )
        .arg("--config")
        .arg(format!(
            "target.{TARGET}.rustflags=[{:?}]",
            format!("-Clink-arg=-F{}", frameworks.display())
        ))
        .args(packages)
        .env("PATH", path.map_err(|error| Failed::new(error.to_string()))?)
        .env("CARGO_ZIGBUILD_ZIG_PATH", zig.join("ziglang/zig"))
        .env("DUCKDB_LIB_DIR", duckdb.parent().expect("a library lies in a folder"))
        .run()?;
    let folder = target.join(TARGET).join(PROFILE);
    for name in ["host", "host-worker", "libbackend_cpu.dylib", "libbackend_mps.dylib"] {
        is_mach(&folder.join(name))?;
    }
    Ok(())
}

/// Symbols of `CoreFoundation` that the tool needs: `iana-time-zone` asks for the name of the time zone.
const CORE_FOUNDATION: &str = "--- !tapi-tbd
tbd-version: 4
targets: [ arm64-macos ]
install-name: '/System/Library/Frameworks/CoreFoundation.framework/Versions/A/CoreFoundation'
exports:
  - targets: [ arm64-macos ]
    symbols: [ _CFRelease, _CFStringGetBytes, _CFStringGetCStringPtr, _CFStringGetLength,
               _CFTimeZoneCopySystem, _CFTimeZoneGetName ]
...
";

/// Returns a folder with the parts of Apple's frameworks that linking needs and Zig lacks.
fn frameworks(target: &Path) -> Result<PathBuf, Failed> {
    let frameworks = target.join("frameworks");
    let framework = frameworks.join("CoreFoundation.framework");
    fs::create_dir_all(&framework).at(&framework)?;
    let stub = framework.join("CoreFoundation.tbd");
    fs::write(&stub, CORE_FOUNDATION).at(&stub)?;
    Ok(frameworks)
}

/// Checks that a file is a 64-bit Mach-O file for Arm.
fn is_mach(path: &Path) -> Result<(), Failed> {
    const START: [u8; 8] = [0xcf, 0xfa, 0xed, 0xfe, 0x0c, 0x00, 0x00, 0x01];
    let bytes = fs::read(path).at(path)?;
    if bytes.starts_with(&START) {
        return Ok(());
    }
    Err(Failed::new(format!("{} is not a Mach-O file for Arm", path.display())))
}

const ZIG_VERSION: &str = "0.17.1";

/// Requirements file of pip that installs Zig and `cargo-zigbuild`.
const REQUIREMENTS: &str = "ziglang==0.17.1 \\
    --hash=sha256:ea6cc5d87b033cf0aedfbc8f9549a908cae6c50ac31f1698188fa48a74524b54 \\
    --hash=sha256:b7c5f02fccd40f89b999ee16a1f5ddced56e6182370f8affe494bcf8a28cf07e
cargo-zigbuild==0.24.1 \\
    --hash=sha256:238a1ab54a95053a4eadc34775c81f795a8ad75f80bfed63f3f445f518102375 \\
    --hash=sha256:07c5e3dcddf208500462ec927c556bb306cca2b533b0abe29446bffb63767b85
";

/// Returns the folder of both, and fetches them if missing.
fn zig() -> Result<PathBuf, Failed> {
    let folder = setup::cache_folder()?.join(format!("zig-{ZIG_VERSION}"));
    if folder.is_dir() {
        return Ok(folder);
    }
    if !has("python3") {
        return Err(Failed::new(
            "linking for macOS needs Zig, which pip fetches: install Python 3",
        ));
    }
    say(&format!("check-macos: fetching Zig {ZIG_VERSION} (100 MB) and cargo-zigbuild"));
    let partial = folder.with_extension(format!("partial-{}", std::process::id()));
    fs::create_dir_all(&partial).at(&partial)?;
    let requirements = partial.join("requirements.txt");
    fs::write(&requirements, REQUIREMENTS).at(&requirements)?;
    let installed = command("python3")
        .args(["-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:"])
        .args(["--require-hashes", "--no-compile", "--target"])
        .arg(&partial)
        .arg("--requirement")
        .arg(&requirements)
        .run();
    if installed.is_ok() && fs::rename(&partial, &folder).is_err() && !folder.is_dir() {
        return Err(Failed::new(format!("{} cannot be put in its place", folder.display())));
    }
    if partial.is_dir() {
        fs::remove_dir_all(&partial).at(&partial)?;
    }
    installed.map(|()| folder)
}
