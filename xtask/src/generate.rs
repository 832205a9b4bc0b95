/*!
The generated files: the manifest's JSON Schema, the command-line reference and the man pages.

Each is generated from the code that it describes. CI runs `--check`, which fails on a difference, so a stale file is
noticed.
*/

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::layout::{self, Profile};
use crate::setup;
use crate::shell::{At, Failed, command, root, say};

pub(crate) fn generate(only_check: bool) -> Result<(), Failed> {
    setup::setup()?;
    let program = layout::build(Profile::Debug)?.join("host");
    let host = |arguments: &[&str]| command(&program).args(arguments).read();
    let reference = root().join("docs/reference");
    let mut files = BTreeMap::new();
    files.insert(reference.join("cli.md"), host(&["generate", "reference"])?);
    files.insert(reference.join("manifest.schema.json"), host(&["generate", "schema"])?);
    let pages = std::env::temp_dir().join(format!("tare-man-{}", std::process::id()));
    host(&["generate", "man", &pages.to_string_lossy()])?;
    for (name, text) in read_folder(&pages)? {
        files.insert(reference.join("man").join(name), text);
    }
    fs::remove_dir_all(&pages).at(&pages)?;

    let mut stale = Vec::new();
    for (path, text) in &files {
        if fs::read_to_string(path).is_ok_and(|old| old == *text) {
            continue;
        }
        stale.push(crate::shell::relative(path));
        if !only_check {
            fs::create_dir_all(path.parent().expect("a file lies in a folder")).at(path)?;
            fs::write(path, text).at(path)?;
            say(&format!("generate: wrote {}", crate::shell::relative(path)));
        }
    }
    for name in read_folder(&reference.join("man")).unwrap_or_default().into_keys() {
        let path = reference.join("man").join(name);
        if !files.contains_key(&path) {
            stale.push(format!("{} (no longer generated)", crate::shell::relative(&path)));
            if !only_check {
                fs::remove_file(&path).at(&path)?;
            }
        }
    }
    if only_check && !stale.is_empty() {
        return Err(Failed::new(format!(
            "generated files are out of date: {}\n  help: run `cargo xtask generate` and commit the result",
            stale.join(", ")
        )));
    }
    Ok(())
}

fn read_folder(folder: &Path) -> Result<BTreeMap<String, String>, Failed> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder).at(folder)? {
        let path: PathBuf = entry.at(folder)?.path();
        let name = path.file_name().expect("an entry has a name").to_string_lossy().into_owned();
        files.insert(name, fs::read_to_string(&path).at(&path)?);
    }
    Ok(files)
}
