/*!
SHA-256 of bytes, files and streams, as this program writes it: in lower-case hexadecimal digits.

Such hashes identify plugins, models, runtimes, manifests and cases. Rooms compare them as text, also with files that
people read, so one function writes the digits.
*/

use std::convert::Infallible;
use std::io::{self, Read};
use std::path::Path;

pub use sha2::{Digest, Sha256};

/// Bytes that are read at a time.
const PIECE: usize = 1 << 18;

/// Returns the bytes as lower-case hexadecimal digits, two for each.
#[must_use]
pub fn hexadecimal(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Returns the SHA-256 of bytes.
#[must_use]
pub fn sha256(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

/// Returns the SHA-256 of a file, which is read in pieces, so it may be large.
///
/// # Errors
///
/// If it cannot be read or is not a regular file.
pub fn sha256_of_file(path: &Path) -> io::Result<String> {
    let Ok(hash) = sha256_of_reader(&mut host_files::open(path)?, |_| Ok::<_, Infallible>(()));
    hash
}

/// Returns the SHA-256 of the rest of a reader. Each piece is also passed to `each`, which may copy it or report
/// progress.
///
/// # Errors
///
/// The first error of `each`.
pub fn sha256_of_reader<E>(
    reader: &mut impl Read,
    mut each: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<io::Result<String>, E> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; PIECE];
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => return Ok(Ok(hexadecimal(&hasher.finalize()))),
            Ok(count) => {
                hasher.update(&buffer[..count]);
                each(&buffer[..count])?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Ok(Err(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OF_ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn digits_are_lower_case_and_two_for_each_byte() {
        assert_eq!(hexadecimal(&[0x00, 0x0f, 0xa5, 0xff]), "000fa5ff");
        assert_eq!(hexadecimal(&[]), "");
    }

    #[test]
    fn the_hash_is_the_standards() {
        // FIPS 180-2, appendix B.1.
        assert_eq!(sha256(b"abc"), OF_ABC);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("abc");
        std::fs::write(&file, "abc").expect("the folder is writable");
        assert_eq!(sha256_of_file(&file).expect("it can be read"), OF_ABC);
        sha256_of_file(folder.path()).expect_err("a folder");
    }

    #[test]
    fn a_stream_is_hashed_and_handed_on_piece_by_piece() {
        let bytes: Vec<u8> = (0..2 * PIECE + 17).map(|index| index as u8).collect();
        let mut copied = Vec::new();
        let Ok(hash) = sha256_of_reader(&mut &bytes[..], |piece| {
            copied.extend_from_slice(piece);
            Ok::<_, Infallible>(())
        });
        assert_eq!(hash.expect("memory can be read"), sha256(&bytes));
        assert_eq!(copied, bytes);
        let stopped = sha256_of_reader(&mut &bytes[..], |piece| Err(piece.len()));
        assert_eq!(stopped.expect_err("the first piece"), PIECE);
    }

    #[test]
    fn reading_goes_on_after_an_interruption_and_ends_with_an_error() {
        struct Broken(Vec<io::ErrorKind>);
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                self.0.pop().map_or(Ok(0), |kind| Err(kind.into()))
            }
        }
        let each = |_: &[u8]| Ok::<_, Infallible>(());
        let Ok(hash) = sha256_of_reader(&mut Broken(vec![io::ErrorKind::Interrupted]), each);
        assert_eq!(hash.expect("the end"), sha256(b""));
        let Ok(hash) = sha256_of_reader(&mut Broken(vec![io::ErrorKind::NotFound]), each);
        assert_eq!(hash.expect_err("an error").kind(), io::ErrorKind::NotFound);
    }
}
