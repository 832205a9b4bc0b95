//! Files with weights of a model, which must lie in the model's folder: whatever they hold can come out of the
//! model again.

use std::io;
use std::path::{Component, Path, PathBuf};

/// Returns whether a name stays below the folder that it is relative to.
pub(crate) fn is_below(location: &str) -> bool {
    let is_inside = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    Path::new(location).components().all(is_inside)
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Checks whether a file with weights is in the folder of its model and long enough.
pub(crate) fn check(model: &Path, location: &str, needed: u64) -> io::Result<()> {
    if !is_below(location) {
        return Err(damaged(&format!(
            "names weights outside of its folder: `{location}`, and only paths below the model's folder \
             are allowed"
        )));
    }
    let folder = folder(model);
    let path = folder.join(location);
    let told = |error: io::Error| {
        io::Error::new(error.kind(), format!("its weights are in {}: {error}", path.display()))
    };
    let size = std::fs::metadata(&path).map_err(told)?.len();
    let target = path.canonicalize().map_err(told)?;
    // A cache of models has links for all of a model's files, which lead to one folder.
    let of_target = model.canonicalize().map(|model| self::folder(&model).to_owned());
    let allowed = [folder.canonicalize().ok(), of_target.ok()];
    if !allowed.iter().flatten().any(|folder: &PathBuf| target.starts_with(folder)) {
        return Err(damaged(&format!(
            "its weights are a link out of its folder: {} leads to {}",
            path.display(),
            target.display()
        )));
    }
    if size < needed {
        let path = path.display();
        return Err(damaged(&format!(
            "its weights are truncated: {path} has {size} bytes of {needed}"
        )));
    }
    Ok(())
}

fn folder(model: &Path) -> &Path {
    match model.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the message for a location, in a folder that has `inside`, beside one that has `outside`.
    fn refusal(location: &str) -> String {
        let above = tempfile::tempdir().expect("a folder");
        let folder = above.path().join("model");
        std::fs::create_dir_all(folder.join("sub")).expect("the folder is writable");
        for name in ["outside", "model/inside", "model/sub/w.data"] {
            std::fs::write(above.path().join(name), [0; 4]).expect("the folder is writable");
        }
        #[cfg(unix)]
        for (target, link) in [("../outside", "out"), ("inside", "in")] {
            std::os::unix::fs::symlink(target, folder.join(link)).expect("a link");
        }
        let model = folder.join("m.onnx");
        std::fs::write(&model, []).expect("the folder is writable");
        let error = check(&model, location, 4).err().map(|error| error.to_string());
        error.map_or_else(String::new, |error| {
            error
                .replace(&above.path().canonicalize().expect("a folder").display().to_string(), "…")
        })
    }

    #[test]
    fn weights_outside_of_the_folder_are_refused() {
        for allowed in ["inside", "./inside", "sub/w.data"] {
            assert_eq!(refusal(allowed), "");
        }
        for location in ["../outside", "sub/../../outside", "/etc/hostname"] {
            let refused = refusal(location);
            assert!(refused.starts_with("names weights outside of its folder"), "{refused}");
        }
        assert!(refusal("absent").starts_with("its weights are in "));
    }

    #[cfg(unix)]
    #[test]
    fn links_out_of_the_folder_are_refused() {
        assert_eq!(refusal("in"), "");
        let refused = refusal("out");
        assert!(refused.starts_with("its weights are a link out of its folder"), "{refused}");
        assert!(refused.ends_with("leads to …/outside"), "{refused}");
    }

    /// As a cache of models keeps them: contents under their hashes, and links with names.
    #[cfg(unix)]
    #[test]
    fn links_that_go_where_the_model_goes_are_followed() {
        let above = tempfile::tempdir().expect("a folder");
        let (blobs, snapshot) = (above.path().join("blobs"), above.path().join("snapshot"));
        for folder in [&blobs, &snapshot] {
            std::fs::create_dir(folder).expect("the folder is writable");
        }
        for (blob, name) in [("1", "m.onnx"), ("2", "m.onnx_data")] {
            std::fs::write(blobs.join(blob), [0; 4]).expect("the folder is writable");
            let target = Path::new("../blobs").join(blob);
            std::os::unix::fs::symlink(target, snapshot.join(name)).expect("a link");
        }
        check(&snapshot.join("m.onnx"), "m.onnx_data", 4).expect("beside the model");
    }
}
