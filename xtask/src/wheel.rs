/*!
The Python package as a wheel, and its tests.

A wheel is a zip archive of a package folder, with a list of its files. Cargo has built all that is compiled, so the
archive is written here: a Python build tool would start a build of its own, with other features of shared
dependencies.
*/

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use crate::layout::{self, Profile};
use crate::python;
use crate::setup;
use crate::shell::{At, Failed, command, root, say};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Builds the tool and packs it as a wheel, whose path is returned.
pub(crate) fn wheel(profile: Profile) -> Result<PathBuf, Failed> {
    let system = std::env::consts::OS;
    if system != "linux" {
        let message = format!(
            "a wheel can be built on Linux only, and this is {system}: the package names its libraries as Linux does"
        );
        return Err(Failed::new(message));
    }
    setup::setup()?;
    let built = layout::build(profile)?;
    let files = files(&built, profile)?;
    let folder = layout::target_folder()?.join("wheels");
    fs::create_dir_all(&folder).at(&folder)?;
    let path = folder.join(format!("tare-{VERSION}-{}.whl", tag()));
    say(&format!("wheel: packing {} files", files.len()));
    let partial = path.with_extension("partial");
    pack(&files, &partial, profile)
        .map_err(|error| Failed::new(format!("{}: {error}", partial.display())))?;
    fs::rename(&partial, &path).at(&path)?;
    let megabytes = fs::metadata(&path).at(&path)?.len() / 1_000_000;
    say(&format!("wheel: {} ({megabytes} MB)", path.display()));
    Ok(path)
}

/// Returns the tag: one module for all versions of Python from 3.10 on, for Linux and this processor.
///
/// It is not a tag of `manylinux`, which promises to run with older C libraries than this machine's.
fn tag() -> String {
    format!("cp310-abi3-linux_{}", std::env::consts::ARCH)
}

/// A file of the archive.
struct Packed {
    name: String,
    source: PathBuf,
    is_program: bool,
}

fn files(built: &Path, profile: Profile) -> Result<Vec<Packed>, Failed> {
    let mut files = Vec::new();
    let mut add = |name: String, source: PathBuf, is_program| {
        files.push(Packed { name, source, is_program });
    };
    let sources = root().join("python/tare");
    for path in below(&sources)? {
        let name = relative(&path, &sources);
        if !name.contains("__pycache__") {
            add(format!("tare/{name}"), path, false);
        }
    }
    let binaries = [
        ("lib_tare.so", "_tare.abi3.so", false),
        ("host", "host", true),
        ("host-worker", "host-worker", true),
        ("plugin-testkit", "plugin-testkit", true),
        ("libduckdb.so", "libduckdb.so", false),
    ];
    for (source, name, is_program) in binaries {
        add(format!("tare/{name}"), stripped(&built.join(source), profile)?, is_program);
    }
    let plugins = built.join("plugins");
    for path in below(&plugins)? {
        let name = relative(&path, &plugins);
        let is_library = path.extension().is_some_and(|extension| extension == "so");
        let source = if is_library { stripped(&path, profile)? } else { path };
        add(format!("tare/plugins/{name}"), source, false);
    }
    for name in ["LICENSE-MIT", "LICENSE-APACHE"] {
        add(format!("{}/licenses/{name}", information()), root().join(name), false);
    }
    files.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(files)
}

/// Returns the file without what debuggers read, which is most of a development build.
fn stripped(path: &Path, profile: Profile) -> Result<PathBuf, Failed> {
    if profile == Profile::Release {
        return Ok(path.to_owned());
    }
    let folder = layout::target_folder()?.join("wheels/stripped");
    fs::create_dir_all(&folder).at(&folder)?;
    let name = path.file_name().expect("a file has a name");
    let target = folder.join(name);
    let changed = |path: &Path| fs::metadata(path).and_then(|facts| facts.modified());
    let is_new = changed(&target).and_then(|after| Ok(after > changed(path)?)).unwrap_or(false);
    if !is_new {
        command("strip").arg("--strip-debug").arg("-o").arg(&target).arg(path).run()?;
    }
    Ok(target)
}

/// Returns all files in a folder and in those below it.
fn below(folder: &Path) -> Result<Vec<PathBuf>, Failed> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).at(folder)? {
        let path = entry.at(folder)?.path();
        if path.is_dir() {
            files.extend(below(&path)?);
        } else {
            files.push(path);
        }
    }
    Ok(files)
}

fn relative(path: &Path, folder: &Path) -> String {
    path.strip_prefix(folder).expect("a file lies in its folder").display().to_string()
}

/// Returns the folder of the archive that describes it.
fn information() -> String {
    format!("tare-{VERSION}.dist-info")
}

fn pack(files: &[Packed], path: &Path, profile: Profile) -> zip::result::ZipResult<()> {
    let mut archive = ZipWriter::new(BufWriter::new(File::create(path)?));
    let level = if profile == Profile::Release { 9 } else { 1 };
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        .compression_level(Some(level));
    let mut record = String::new();
    let mut add = |name: &str, bytes: &[u8], mode: u32| -> zip::result::ZipResult<()> {
        archive.start_file(name, options.unix_permissions(mode))?;
        archive.write_all(bytes)?;
        let digest = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(bytes));
        record.push_str(&format!("{name},sha256={digest},{}\n", bytes.len()));
        Ok(())
    };
    for file in files {
        let mode = if file.is_program { 0o755 } else { 0o644 };
        add(&file.name, &fs::read(&file.source)?, mode)?;
    }
    let readme = fs::read_to_string(root().join("python/README.md"))?;
    let information = information();
    add(&format!("{information}/METADATA"), metadata(&readme).as_bytes(), 0o644)?;
    add(&format!("{information}/WHEEL"), about_wheel().as_bytes(), 0o644)?;
    add(&format!("{information}/entry_points.txt"), ENTRY_POINTS.as_bytes(), 0o644)?;
    // The list comes last, and has no hash of itself.
    let name = format!("{information}/RECORD");
    record.push_str(&format!("{name},,\n"));
    archive.start_file(&name, options.unix_permissions(0o644))?;
    archive.write_all(record.as_bytes())?;
    archive.finish()?.flush()?;
    Ok(())
}

/// The command, under both of its names.
const ENTRY_POINTS: &str =
    "[console_scripts]\nhost = tare.__main__:main\ntare = tare.__main__:main\n";

fn about_wheel() -> String {
    format!(
        "Wheel-Version: 1.0\nGenerator: tare-xtask {VERSION}\nRoot-Is-Purelib: false\nTag: {}\n",
        tag()
    )
}

fn metadata(readme: &str) -> String {
    format!(
        "Metadata-Version: 2.4\n\
         Name: tare\n\
         Version: {VERSION}\n\
         Summary: Measures machine-learning models on hardware, and says how sure it is\n\
         License-Expression: MIT OR Apache-2.0\n\
         License-File: LICENSE-MIT\n\
         License-File: LICENSE-APACHE\n\
         Requires-Python: >=3.10\n\
         Provides-Extra: frames\n\
         Requires-Dist: pyarrow; extra == \"frames\"\n\
         Requires-Dist: pandas; extra == \"frames\"\n\
         Requires-Dist: polars; extra == \"frames\"\n\
         Provides-Extra: notebook\n\
         Requires-Dist: tqdm; extra == \"notebook\"\n\
         Requires-Dist: ipywidgets; extra == \"notebook\"\n\
         Description-Content-Type: text/markdown\n\n{readme}"
    )
}

/// The libraries that the tests use beside the package.
const LIBRARIES: &[&str] = &[
    "pytest==9.2.0",
    "pyarrow==26.0.1",
    "pandas==3.1.1",
    "polars==2.1.0",
    "matplotlib==3.11.2",
    "tqdm==4.70.1",
];

/// Builds the wheel, installs it into a virtual environment without anything else and runs the quickstart there; then
/// runs the tests in one that also has the libraries for frames and plots.
pub(crate) fn check_python(filters: &[String]) -> Result<(), Failed> {
    let wheel = wheel(Profile::Debug)?;
    let target = layout::target_folder()?;
    let cache = target.join("cache-of-tests");
    // Cargo names its own folders in `LD_LIBRARY_PATH`, and a wheel must find its libraries without them.
    let install = |python: &Path| {
        command(python)
            .args(["-m", "pip", "install", "--quiet", "--force-reinstall", "--no-deps"])
            .args(["--disable-pip-version-check", "--no-compile"])
            .arg(&wheel)
            .run()
    };
    if filters.is_empty() {
        say("check-python: the quickstart, in a virtual environment with nothing but the wheel");
        let clean = target.join("python/clean");
        if clean.is_dir() {
            fs::remove_dir_all(&clean).at(&clean)?;
        }
        command("python3").args(["-m", "venv"]).arg(&clean).run()?;
        let program = clean.join("bin/python");
        install(&program)?;
        let results = target.join("python/results");
        command(&program)
            .arg(root().join("python/examples/quickstart.py"))
            .arg(&results)
            .env("XDG_CACHE_HOME", &cache)
            .without("PYTHONPATH")
            .without("LD_LIBRARY_PATH")
            .run()?;
    }
    say("check-python: the tests");
    let program = python::with_packages(&target.join("python/tests"), LIBRARIES)?;
    install(&program)?;
    command(&program)
        .args(["-m", "pytest", "-q", "-p", "no:cacheprovider"])
        .arg(root().join("python/tests"))
        .args(filters.iter().flat_map(|filter| ["-k", filter]))
        .env("XDG_CACHE_HOME", &cache)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("MPLBACKEND", "agg")
        .without("PYTHONPATH")
        .without("LD_LIBRARY_PATH")
        .run()
}
