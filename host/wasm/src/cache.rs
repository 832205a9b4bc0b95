/*!
Compiled components on disk.

Compiling a component takes a tenth of a second, loading compiled code a millisecond. But compiled
code runs outside any sandbox, so its owner matters: the folder and each file in it must belong to
this user and be writable by nobody else, no link is followed, and files are read through the
descriptors that were checked. A checksum detects damage from a full or broken disk. Files that fail
a check are compiled again; an unusable cache costs only time.

An entry is named by the component's SHA-256 and all dependencies of the compiled code:
wasmtime's version, its settings, the processor's features.
*/

use std::hash::{Hash, Hasher};
use std::io;
use std::path::Path;

use host_hash::{Digest, Sha256, hexadecimal};
use wasmtime::Engine;
use wasmtime::component::Component;

use crate::platform::Folder;

/// Start of an entry; the payload's SHA-256 and the payload follow.
const MAGIC: &[u8] = b"tare compiled component 1\n";

/// Entries that are kept, of about a megabyte each.
const ENTRIES: usize = 64;

#[derive(Debug)]
pub(crate) struct Cache {
    folder: Folder,
    compatibility: String,
}

impl Cache {
    pub(crate) fn open(path: &Path, engine: &Engine) -> io::Result<Self> {
        let mut hasher = ShaHasher(Sha256::new());
        engine.precompile_compatibility_hash().hash(&mut hasher);
        let compatibility = hexadecimal(&hasher.0.finalize()[..8]);
        Ok(Self { folder: Folder::private(path)?, compatibility })
    }

    fn name(&self, sha256: &str) -> String {
        format!("{sha256}-{}", self.compatibility)
    }

    pub(crate) fn load(&self, engine: &Engine, sha256: &str) -> Option<Component> {
        let name = self.name(sha256);
        let refused = |reason: &dyn std::fmt::Display| {
            tracing::warn!(
                entry = name,
                "compiling again, since the cached code is unusable: {reason}"
            );
        };
        let contents =
            self.folder.read_private(&name).inspect_err(|error| refused(error)).ok()??;
        let Some(compiled) = payload(&contents) else {
            refused(&"its checksum does not match");
            return None;
        };
        // SAFETY: `deserialize` needs bytes that `serialize` gave and nobody changed. They were
        // written by `store`, since the folder and the file belong to this user and nobody else
        // can write to them, and the checksum says that they are whole.
        unsafe { Component::deserialize(engine, compiled) }.inspect_err(|error| refused(error)).ok()
    }

    pub(crate) fn store(&self, sha256: &str, component: &Component) {
        let written =
            component.serialize().map_err(|error| error.to_string()).and_then(|compiled| {
                self.folder
                    .write(&self.name(sha256), &entry(&compiled))
                    .and_then(|()| self.folder.prune(ENTRIES))
                    .map_err(|error| error.to_string())
            });
        if let Err(error) = written {
            tracing::warn!("the compiled component is not kept: {error}");
        }
    }
}

fn entry(compiled: &[u8]) -> Vec<u8> {
    let mut entry = Vec::with_capacity(MAGIC.len() + 32 + compiled.len());
    entry.extend_from_slice(MAGIC);
    entry.extend_from_slice(&Sha256::digest(compiled));
    entry.extend_from_slice(compiled);
    entry
}

fn payload(entry: &[u8]) -> Option<&[u8]> {
    let (checksum, compiled) = entry.strip_prefix(MAGIC)?.split_first_chunk::<32>()?;
    (Sha256::digest(compiled).as_slice() == checksum).then_some(compiled)
}

/// The standard library's hash functions are not promised to stay the same.
struct ShaHasher(Sha256);

impl Hasher for ShaHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        u64::from_le_bytes(self.0.clone().finalize()[..8].try_into().expect("eight bytes"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_entries_are_taken() {
        let entry = entry(b"code");
        assert_eq!(payload(&entry), Some(b"code".as_slice()));
        for cut in 0..entry.len() {
            assert_eq!(payload(&entry[..cut]), None, "cut to {cut}");
        }
        for position in 0..entry.len() {
            let mut changed = entry.clone();
            changed[position] ^= 1;
            assert_eq!(payload(&changed), None, "changed at {position}");
        }
    }
}
