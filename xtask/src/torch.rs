/*!
Building the engine of the backend `torch`.

It is linked against libtorch, whose C++ headers take minutes to compile, so it is a workspace of its own and no part of
`cargo xtask build`. What linking needs is put into one folder of the cache: headers, three libraries, and a stub for
`libtorch.so`, which in a wheel for CUDA would bring gigabytes of other libraries. Which libtorch runs is decided when
the plugin is opened.
*/

use std::fs;
use std::path::{Path, PathBuf};

use crate::layout;
use crate::setup::{cache_folder, place};
use crate::shell::{At, Failed, cargo, command, has, relative, root, say};

/// The version of PyTorch that the crate `tch` is made for.
const VERSION: &str = "2.11.0";

const USAGE: &str = "usage: cargo xtask build torch [--release] [--pytorch FOLDER]";

/// The engine's folder in the checkout.
const ENGINE: &str = "plugins/engines/torch";

/// Libraries that the engine is linked against, or that these need.
const LIBRARIES: &[&str] = &["libtorch_cpu.so", "libc10.so", "libgomp.so.1"];

/// Takes headers and libraries out of a wheel. Arguments: the wheel and the target folder.
const UNPACK: &str = "\
import os, sys, zipfile
wheel, target, names = sys.argv[1], sys.argv[2], sys.argv[3:]
with zipfile.ZipFile(wheel) as archive:
    for name in archive.namelist():
        if name.startswith('torch/include/') or name in ['torch/lib/' + one for one in names]:
            archive.extract(name, target)
";

/// Builds the engine, and puts it beside the plugin.
pub(crate) fn build(arguments: &[String]) -> Result<(), Failed> {
    let (mut release, mut pytorch) = (false, None);
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--release" => release = true,
            "--pytorch" => {
                let folder = arguments.next().ok_or_else(|| Failed::new(USAGE))?;
                pytorch = Some(PathBuf::from(folder));
            }
            _ => return Err(Failed::new(USAGE)),
        }
    }
    if (std::env::consts::OS, std::env::consts::ARCH) != ("linux", "x86_64") {
        return Err(Failed::new("the engine for libtorch is built for Linux on x86-64 only"));
    }
    if !has("c++") {
        return Err(Failed::new(
            "there is no C++ compiler `c++`, which libtorch's headers need\n  \
             help: install one, such as with `apt-get install g++`",
        ));
    }
    let libtorch = cache_folder()?.join(format!("libtorch-{VERSION}"));
    match pytorch {
        Some(folder) => link_from(&folder, &libtorch)?,
        None if is_complete(&libtorch) => {}
        None => fetch(&libtorch)?,
    }
    stub(&libtorch)?;
    // The crate `torch-sys` compares it with its own.
    let version = libtorch.join("build-version");
    fs::write(&version, VERSION).at(&version)?;

    let target = layout::target_folder()?;
    let built = target.join("torch");
    say(&format!("build: engine for libtorch {VERSION}, which takes minutes when it is new"));
    let mut line = cargo()
        .args(["build", "--locked", "--manifest-path"])
        .arg(root().join(ENGINE).join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&built)
        .env("LIBTORCH", &libtorch);
    for other in ["LIBTORCH_USE_PYTORCH", "LIBTORCH_INCLUDE", "LIBTORCH_LIB", "LIBTORCH_STATIC"] {
        line = line.without(other);
    }
    if release {
        line = line.arg("--release");
    }
    line.run()?;
    let profile = if release { "release" } else { "debug" };
    let name = "libengine_torch.so";
    let plugin = target.join(profile).join("plugins/torch").join(name);
    place(&built.join(profile).join(name), &plugin)?;
    say(&format!(
        "built {}; `host runtimes install torch` brings libtorch, and `cargo xtask build` the rest of the tool",
        relative(&plugin)
    ));
    Ok(())
}

fn is_complete(libtorch: &Path) -> bool {
    libtorch.join("include/torch/csrc/api/include").is_dir()
        && LIBRARIES.iter().all(|name| libtorch.join("lib").join(name).is_file())
}

/// Links headers and libraries of a Python package `torch`.
fn link_from(package: &Path, libtorch: &Path) -> Result<(), Failed> {
    let package = package.canonicalize().at(package)?;
    let file = package.join("version.py");
    let text = fs::read_to_string(&file).at(&file)?;
    let found = version_in(&text).unwrap_or("of an unknown version");
    if found != VERSION {
        return Err(Failed::new(format!(
            "{} is PyTorch {found}; the engine is for {VERSION}\n  \
             help: `python3 -m pip install torch=={VERSION}`, or leave `--pytorch` out",
            package.display()
        )));
    }
    let link = |source: PathBuf, target: PathBuf| {
        if target.symlink_metadata().is_ok_and(|target| !target.is_symlink()) {
            // They were unpacked from a wheel of the same version.
            return Ok(());
        }
        drop(fs::remove_file(&target));
        std::os::unix::fs::symlink(&source, &target).at(&target)
    };
    let libraries = libtorch.join("lib");
    fs::create_dir_all(&libraries).at(&libraries)?;
    link(package.join("include"), libtorch.join("include"))?;
    for name in LIBRARIES {
        link(package.join("lib").join(name), libraries.join(name))?;
    }
    match is_complete(libtorch) {
        true => Ok(()),
        false => Err(Failed::new(format!(
            "{} lacks headers or libraries of PyTorch: {} and `include` were expected",
            package.display(),
            LIBRARIES.join(", ")
        ))),
    }
}

/// Returns the version in `version.py`, without its local part.
fn version_in(text: &str) -> Option<&str> {
    let line = text.lines().find(|line| line.starts_with("__version__"))?;
    line.split('\'').nth(1)?.split('+').next()
}

/// Fetches the wheel that the plugin's `runtime.lock` names, and unpacks what linking needs.
fn fetch(libtorch: &Path) -> Result<(), Failed> {
    let lock = root().join("plugins/backends/torch/runtime.lock");
    let text = fs::read_to_string(&lock).at(&lock)?;
    let (file, sha256) = wheel_in(&text).ok_or_else(|| {
        Failed::new(format!("{} names no wheel of torch {VERSION}", lock.display()))
    })?;
    let work = libtorch.with_extension(format!("partial-{}", std::process::id()));
    fs::create_dir_all(&work).at(&work)?;
    say(&format!("build: fetching {file} (531 MB) with pip, for its headers"));
    let fetched = (|| {
        let requirement = work.join("requirement.txt");
        fs::write(&requirement, format!("torch=={VERSION} --hash=sha256:{sha256}\n"))
            .at(&requirement)?;
        command("python3")
            .args(["-I", "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--quiet"])
            .args(["--ignore-requires-python", "--python-version=312", "--implementation=cp"])
            .args(["--abi=cp312", "--platform=manylinux_2_28_x86_64", "--dest"])
            .arg(&work)
            .arg("--requirement")
            .arg(&requirement)
            .run()?;
        command("python3")
            .args(["-I", "-c", UNPACK])
            .arg(work.join(file))
            .arg(&work)
            .args(LIBRARIES)
            .run()?;
        fs::create_dir_all(libtorch).at(libtorch)?;
        for name in ["include", "lib"] {
            let target = libtorch.join(name);
            // Left over from a package that was named, and is gone.
            drop(fs::remove_file(&target));
            drop(fs::remove_dir_all(&target));
            fs::rename(work.join("torch").join(name), &target).at(&target)?;
        }
        Ok(())
    })();
    fs::remove_dir_all(&work).at(&work)?;
    fetched
}

/// Returns name and SHA-256 of torch's wheel in a lock.
fn wheel_in(lock: &str) -> Option<(&str, &str)> {
    let entry = lock.split("[[package]]").find(|entry| {
        entry.contains("name = \"torch\"\n") && entry.contains(&format!("version = \"{VERSION}\""))
    })?;
    let value = |key: &str| {
        let line = entry.lines().find(|line| line.split(" = ").next() == Some(key))?;
        line.split('"').nth(1)
    };
    Some((value("file")?, value("sha256")?))
}

/// Makes an empty `libtorch.so`: what it stands for is in the other libraries.
fn stub(libtorch: &Path) -> Result<(), Failed> {
    let target = libtorch.join("lib/libtorch.so");
    if target.is_file() {
        return Ok(());
    }
    let source = libtorch.join("stub.c");
    fs::write(&source, "\n").at(&source)?;
    command("cc").args(["-shared", "-Wl,-soname,libtorch.so", "-o"]).arg(&target).arg(&source).run()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_tells_its_version() {
        assert_eq!(version_in("from x import y\n__version__ = '2.11.0+cu130'\n"), Some("2.11.0"));
        assert_eq!(version_in("debug = False\n"), None);
    }

    #[test]
    fn the_lock_names_the_wheel_of_this_version() {
        let lock = fs::read_to_string(root().join("plugins/backends/torch/runtime.lock"));
        let lock = lock.expect("the lock");
        let (file, sha256) = wheel_in(&lock).expect("a wheel");
        assert!(file.starts_with(&format!("torch-{VERSION}-cp312-cp312-")), "{file}");
        assert_eq!(sha256.len(), 64);
    }
}
