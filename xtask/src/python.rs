//! Pythons with packages, each in a folder of its own.

use std::path::{Path, PathBuf};

use crate::layout;
use crate::shell::{At, Failed, command, say};

/// Returns a Python with the packages, created in a folder if it is not there. With a prebuilt tool, this is
/// the machine's own, which must have them.
pub(crate) fn with_packages(folder: &Path, packages: &[&str]) -> Result<PathBuf, Failed> {
    if layout::prebuilt().is_some() {
        let found = command("python3").args(["-c", "import sys; print(sys.executable)"]).read()?;
        return Ok(found.trim().into());
    }
    let python = folder.join("bin/python");
    let marker = folder.join("packages");
    let wanted = packages.join("\n");
    if std::fs::read_to_string(&marker).is_ok_and(|installed| installed == wanted) {
        return Ok(python);
    }
    say(&format!("installing {} into a folder of its own", packages.join(", ")));
    command("python3").args(["-m", "venv"]).arg(folder).run()?;
    command(&python).args(["-m", "pip", "install", "--quiet"]).args(packages).run()?;
    std::fs::write(&marker, wanted).at(&marker)?;
    Ok(python)
}
