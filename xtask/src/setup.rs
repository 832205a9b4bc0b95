/*!
Prerequisites of the build that may be missing.

There are three: a C compiler, the standard library for `wasm32-wasip2`, and `libduckdb`. The last comes from the
machine if its version fits, else prebuilt from a registry package, because building it from source costs over an hour
of processor time. Everything that is fetched is checked against a hash that is committed here, unpacked under a
temporary name and renamed, so an interrupted set-up leaves nothing incomplete.
*/

use std::fs;
use std::path::{Path, PathBuf};

use crate::layout;
use crate::shell::{At, Failed, command, has, root, say};

/// The library that the crate `duckdb` in Cargo.toml is paired with.
pub(crate) const DUCKDB_VERSION: &str = "1.5.6";

/// The npm packages that contain it prebuilt, with the integrity strings that npm checks.
struct Prebuilt {
    package: &'static str,
    /// Name of the library in the package.
    file: &'static str,
    /// SHA-512 of the package's archive, in Base64, as npm writes it.
    integrity: &'static str,
}

const PREBUILT_VERSION: &str = "1.5.6-r.1";

fn prebuilt() -> Option<Prebuilt> {
    match (std::env::consts::OS, std::env::consts::ARCH) {
        ("linux", "x86_64") => Some(Prebuilt {
            package: "@duckdb/node-bindings-linux-x64",
            file: "libduckdb.so",
            integrity: "sha512-IXcrZJE6kEqM0Z4wwdVnGBHX/frOS33VPNAwDXQ/Q+Fs84b058Qe94chrCCIcNJlG8Y3UHIUU4eBeCQxW5mN1Q==",
        }),
        ("linux", "aarch64") => Some(Prebuilt {
            package: "@duckdb/node-bindings-linux-arm64",
            file: "libduckdb.so",
            integrity: "sha512-3jnUaDil1BrF/6vAZwVaInJ1xoBaWGHB4PDiUnzJWKCo8a8TLx9j7/gPyPl/UGRBftrYIuTihRZSfF4mWMgtWA==",
        }),
        _ => None,
    }
}

const MACOS: Prebuilt = Prebuilt {
    package: "@duckdb/node-bindings-darwin-arm64",
    file: "libduckdb.dylib",
    integrity: "sha512-KFT/J/pyouuAD1jftAIfcWVRdorg+c/yVR/BJL8LJKrST+mYC4d7QSuQ+iXSYbFpHENUAeZUagXrMPtZT8Xzsg==",
};

/// Installs missing prerequisites and reports them; silent if there is nothing to do.
pub(crate) fn setup() -> Result<(), Failed> {
    if layout::prebuilt().is_some() {
        return Ok(());
    }
    compiler()?;
    guest_target()?;
    duckdb()
}

fn compiler() -> Result<(), Failed> {
    if has("cc") {
        return Ok(());
    }
    Err(Failed::new(
        "there is no C compiler `cc`, which linking needs\n  \
         help: install one, such as with `apt-get install gcc`",
    ))
}

fn guest_target() -> Result<(), Failed> {
    rust_target("wasm32-wasip2", "for which the WASM plugins are built")
}

/// Adds a target's standard library if it is missing.
pub(crate) fn rust_target(target: &str, purpose: &str) -> Result<(), Failed> {
    let folder = command("rustc").args(["--print", "target-libdir", "--target", target]).read()?;
    if Path::new(folder.trim()).is_dir() {
        return Ok(());
    }
    say(&format!("setup: adding the Rust target {target}, {purpose}"));
    if !has("rustup") {
        return Err(Failed::new(format!(
            "the Rust target {target} is missing, and so is rustup to add it\n  \
             help: install rustup, or your distribution's package of the target"
        )));
    }
    command("rustup").args(["target", "add", target]).run()
}

/// Returns the folder that `.cargo/config.toml` passes to the build.
pub(crate) fn duckdb_folder() -> PathBuf {
    match std::env::var_os("DUCKDB_LIB_DIR") {
        Some(folder) => PathBuf::from(folder),
        None => root().join("target/duckdb"),
    }
}

pub(crate) fn duckdb_library() -> PathBuf {
    duckdb_folder().join("libduckdb.so")
}

/// Returns the folder in which fetched files are kept between checkouts.
pub(crate) fn cache_folder() -> Result<PathBuf, Failed> {
    let base = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| std::env::home_dir().map(|home| home.join(".cache")));
    let base = base.ok_or_else(|| Failed::new("there is no home folder; set XDG_CACHE_HOME"))?;
    Ok(base.join("tare"))
}

fn duckdb() -> Result<(), Failed> {
    let library = duckdb_library();
    let mark = duckdb_folder().join(format!("version-{DUCKDB_VERSION}"));
    if library.is_file() && mark.is_file() {
        return Ok(());
    }
    if library.is_file() && check_version(&library)? == DUCKDB_VERSION {
        return fs::write(&mark, "").at(&mark).or(Ok(()));
    }
    let source = match system_library()? {
        Some(found) => {
            say(&format!(
                "setup: using the machine's libduckdb {DUCKDB_VERSION} ({})",
                found.display()
            ));
            found
        }
        None => fetched_library()?,
    };
    let found = check_version(&source)?;
    if found != DUCKDB_VERSION {
        return Err(Failed::new(format!(
            "{} is DuckDB {found}; {DUCKDB_VERSION} was expected",
            source.display()
        )));
    }
    place(&source, &library)?;
    fs::write(&mark, "").at(&mark)
}

/// Copies a file to its place atomically.
pub(crate) fn place(source: &Path, target: &Path) -> Result<(), Failed> {
    let folder = target.parent().expect("a file lies in a folder");
    fs::create_dir_all(folder).at(folder)?;
    let name = target.file_name().expect("a file has a name").to_string_lossy();
    let partial = folder.join(format!(".{name}.{}", std::process::id()));
    fs::copy(source, &partial).at(source)?;
    fs::rename(&partial, target).at(target)
}

/// Returns a libduckdb that the linker finds, if it has the right version.
fn system_library() -> Result<Option<PathBuf>, Failed> {
    let answer = command("cc").arg("-print-file-name=libduckdb.so").read()?;
    let path = PathBuf::from(answer.trim());
    // Without one, the compiler repeats the bare name.
    if !path.is_absolute() {
        return Ok(None);
    }
    let version = check_version(&path)?;
    if version == DUCKDB_VERSION {
        return Ok(Some(path));
    }
    say(&format!(
        "setup: the machine's libduckdb is version {version}; {DUCKDB_VERSION} is needed, so it is left alone"
    ));
    Ok(None)
}

/// Links a program of three lines with the library, and returns the version that it prints.
fn check_version(library: &Path) -> Result<String, Failed> {
    let folder = std::env::temp_dir().join(format!("tare-duckdb-{}", std::process::id()));
    fs::create_dir_all(&folder).at(&folder)?;
    let source = folder.join("version.c");
    let program = folder.join("version");
    let text = "#include <stdio.h>\n\
                extern const char *duckdb_library_version(void);\n\
                int main(void) { return puts(duckdb_library_version()) < 0; }\n";
    fs::write(&source, text).at(&source)?;
    let directory = library.parent().expect("a library lies in a folder");
    let version = command("cc")
        .arg(&source)
        .arg(library)
        .arg("-o")
        .arg(&program)
        .arg(format!("-Wl,-rpath,{}", directory.display()))
        .run()
        .and_then(|()| command(&program).read());
    fs::remove_dir_all(&folder).at(&folder)?;
    Ok(version?.trim().trim_start_matches('v').to_owned())
}

const OTHERWISE: &str = "help: install DuckDB's C library yourself and name its folder in \
                         DUCKDB_LIB_DIR, or build it with `--features host-cli/bundled`, \
                         which takes over an hour";

/// Returns the library for Macs, to link with.
pub(crate) fn duckdb_for_macos() -> Result<PathBuf, Failed> {
    fetched(&MACOS, &cache_folder()?.join(format!("duckdb-macos-{PREBUILT_VERSION}")))
}

fn fetched_library() -> Result<PathBuf, Failed> {
    let Some(prebuilt) = prebuilt() else {
        return Err(Failed::new(format!(
            "no prebuilt libduckdb is known for {} on {}\n  {OTHERWISE}",
            std::env::consts::OS,
            std::env::consts::ARCH
        )));
    };
    fetched(&prebuilt, &cache_folder()?.join(format!("duckdb-{PREBUILT_VERSION}")))
}

fn fetched(prebuilt: &Prebuilt, folder: &Path) -> Result<PathBuf, Failed> {
    let package = prebuilt.package;
    let library = folder.join(prebuilt.file);
    if library.is_file() {
        say(&format!("setup: using libduckdb {DUCKDB_VERSION} from {}", folder.display()));
        return Ok(library);
    }
    say(&format!(
        "setup: fetching libduckdb {DUCKDB_VERSION} prebuilt (24 MB), from the npm package {package}"
    ));
    npm(OTHERWISE)?;
    let partial = folder.with_extension(format!("partial-{}", std::process::id()));
    fs::create_dir_all(&partial).at(&partial)?;
    let unpacked = unpack(&partial, prebuilt);
    if unpacked.is_ok() {
        // Another set-up may have been faster; its result is equivalent.
        if let Err(error) = fs::rename(&partial, folder)
            && !library.is_file()
        {
            return Err(Failed::new(format!("{}: {error}", folder.display())));
        }
    }
    if partial.is_dir() {
        fs::remove_dir_all(&partial).at(&partial)?;
    }
    unpacked.map(|()| library)
}

fn unpack(folder: &Path, prebuilt: &Prebuilt) -> Result<(), Failed> {
    let Prebuilt { package, file, integrity } = prebuilt;
    let specification = format!("{package}@{PREBUILT_VERSION}");
    let answer = command("npm")
        .args(["pack", "--json", "--silent", "--pack-destination"])
        .arg(folder)
        .arg(&specification)
        .read()?;
    let answer: serde_json::Value = serde_json::from_str(&answer)
        .map_err(|error| Failed::new(format!("npm's answer for {specification}: {error}")))?;
    let name = answer[0]["filename"].as_str().unwrap_or_default();
    // Older versions of npm put the scope's slash into the name that they report.
    let archive = folder.join(name.trim_start_matches('@').replace('/', "-"));
    let found = sha512_base64(&archive)?;
    if format!("sha512-{found}") != *integrity {
        return Err(Failed::new(format!(
            "{specification} is not the package that was committed: its integrity is \
             sha512-{found}, {integrity} was expected"
        )));
    }
    command("tar")
        .arg("-xzf")
        .arg(&archive)
        .arg("-C")
        .arg(folder)
        .args(["--strip-components=1", &format!("package/{file}"), "package/LICENSE"])
        .run()?;
    fs::remove_file(&archive).at(&archive)
}

fn sha512_base64(path: &Path) -> Result<String, Failed> {
    use base64::Engine as _;
    use sha2::Digest as _;
    let bytes = fs::read(path).at(path)?;
    Ok(base64::engine::general_purpose::STANDARD.encode(sha2::Sha512::digest(bytes)))
}

fn npm(otherwise: &str) -> Result<(), Failed> {
    if has("npm") {
        return Ok(());
    }
    let install = ["apt-get", "install", "--yes", "--no-install-recommends", "npm"];
    if has("apt-get") {
        let root = command("id").arg("-u").read()?.trim() == "0";
        let sudo = !root && command("sudo").args(["-n", "true"]).run().is_ok();
        if root || sudo {
            say("setup: installing npm, which fetches the package");
            let prefix: &[&str] = if sudo { &["sudo", "-n"] } else { &[] };
            let run = |words: &[&str]| {
                let line: Vec<&str> = prefix.iter().chain(words).copied().collect();
                command(line[0]).args(&line[1..]).run()
            };
            return run(&["apt-get", "update"]).and_then(|()| run(&install));
        }
    }
    Err(Failed::new(format!(
        "npm is needed to fetch libduckdb and is not installed\n  \
         help: `{}` as root\n  {otherwise}",
        install.join(" ")
    )))
}
