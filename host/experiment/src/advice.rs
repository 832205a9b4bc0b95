/*!
Advice about a guest that cannot be used, in terms of the language that it was written in.

Compilers leave their names in components, so the file itself tells which command its author would use.
*/

use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

use host_wasm::{GuestError, GuestErrorKind};

/// Bytes at the beginning and at the end of a component that are searched for the names of compilers.
const SEARCHED: u64 = 2 << 20;

/// Names that compilers leave, and how their components are built. Runtimes of interpreted languages contain code
/// of compiled ones, so these come last.
const LANGUAGES: [(&str, &str); 5] = [
    ("componentize-py", "with componentize-py and the WIT that `host plugins sdk FOLDER` writes"),
    ("StarlingMonkey", "with `jco componentize` and the WIT that `host plugins sdk FOLDER` writes"),
    ("TinyGo", "with TinyGo for `wasip2` and the WIT that `host plugins sdk FOLDER` writes"),
    ("rustc", "for `wasm32-wasip2` with the crates that `host plugins sdk FOLDER` writes"),
    ("wasi-sdk", "with wasi-sdk and the WIT that `host plugins sdk FOLDER` writes"),
];

const UNKNOWN: &str = "as a component, with the WIT that `host plugins sdk FOLDER` writes";

/// Returns advice about a guest that cannot be loaded from a file.
pub(crate) fn advice(error: &GuestError, file: &Path) -> String {
    match &*error.kind {
        GuestErrorKind::Unreadable { .. } => {
            format!("make {} readable, or remove it", file.display())
        }
        GuestErrorKind::Host { .. } => "`host doctor` checks the installation".into(),
        GuestErrorKind::Version { host_is_older: true, .. } => {
            format!("update the host, or remove {}", file.display())
        }
        _ => format!("build it again {}, or remove {}", how(file), file.display()),
    }
}

/// Returns how components are built in the language of a file.
fn how(file: &Path) -> &'static str {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = host_files::open(file)?;
        let length = file.metadata()?.len();
        let mut bytes = Vec::new();
        (&file).take(SEARCHED).read_to_end(&mut bytes)?;
        if length > SEARCHED {
            file.seek(SeekFrom::Start((length - SEARCHED).max(SEARCHED)))?;
            file.take(SEARCHED).read_to_end(&mut bytes)?;
        }
        Ok(bytes)
    };
    let text = read().unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let language = LANGUAGES.iter().find(|(name, _)| text.contains(name));
    language.map_or(UNKNOWN, |(_, how)| how)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advice_is_that_of_the_language() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("it.wasm");
        let how_for = |contents: &[u8]| {
            std::fs::write(&file, contents).expect("a file");
            how(&file)
        };
        assert!(how_for(b"\0asm\x0d\0\x01\0\xff rustc 1.95").contains("wasm32-wasip2"));
        assert!(how_for(b"rustc, clang, componentize-py").contains("componentize-py"));
        assert_eq!(how_for(b"hello"), UNKNOWN);
        let mut long = vec![0; 5 << 20];
        long.extend(b"componentize-py");
        assert!(how_for(&long).contains("componentize-py"));
        std::fs::remove_file(&file).expect("removing it");
        assert_eq!(how(&file), UNKNOWN);
    }
}
