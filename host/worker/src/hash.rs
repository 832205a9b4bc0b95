//! Files by what is in them.

use std::fmt::Write as _;
use std::io::{self, Read};

use sha2::{Digest as _, Sha256};

/// SHA-256 in hexadecimal, as the host writes it, or why the file cannot be read.
///
/// # Errors
///
/// Only what `progress` says, which is called every so many bytes.
pub(crate) fn sha256<E>(
    file: &mut impl Read,
    mut progress: impl FnMut() -> Result<(), E>,
) -> Result<io::Result<String>, E> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 18];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => hasher.update(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Ok(Err(error)),
        }
        progress()?;
    }
    let mut text = String::with_capacity(64);
    for byte in hasher.finalize() {
        let _ = write!(text, "{byte:02x}");
    }
    Ok(Ok(text))
}

/// A hash that there is.
pub(crate) fn known(sha256: &str) -> Option<&str> {
    Some(sha256).filter(|sha256| !sha256.is_empty())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    #[test]
    fn the_hash_is_the_standards() {
        let Ok(hash) = sha256::<Infallible>(&mut b"abc".as_slice(), || Ok(()));
        assert_eq!(
            hash.expect("memory"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
