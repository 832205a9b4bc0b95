//! A file as a buffer that can skip: weights in it are passed over without being read.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use prost::bytes::{Buf, Bytes};

/// Bytes that are read at a time.
const PIECE: usize = 1 << 16;

/// Byte strings of up to this length are read; values of weights are longer, and shapes are not.
pub(crate) const LONGEST: usize = 1024;

/// A file as a buffer. A buffer cannot fail, so after an error it is at its end, and the error is kept.
pub(crate) struct SkippingFile {
    file: File,
    piece: Vec<u8>,
    /// Position in the piece.
    at: usize,
    /// Bytes of the file behind the piece.
    behind: u64,
    pub(crate) error: Option<io::Error>,
}

impl SkippingFile {
    pub(crate) fn new(file: File) -> io::Result<Self> {
        let behind = file.metadata()?.len();
        let mut new = Self { file, piece: Vec::new(), at: 0, behind, error: None };
        new.fill();
        Ok(new)
    }

    /// Reads the next piece.
    fn fill(&mut self) {
        let length = usize::try_from(self.behind).unwrap_or(usize::MAX).min(PIECE);
        self.at = 0;
        self.piece.resize(length, 0);
        match self.file.read_exact(&mut self.piece) {
            Ok(()) => self.behind -= length as u64,
            Err(error) => self.fail(error),
        }
    }

    fn fail(&mut self, error: io::Error) {
        self.error = Some(error);
        self.piece.clear();
        (self.at, self.behind) = (0, 0);
    }
}

impl Buf for SkippingFile {
    fn remaining(&self) -> usize {
        let left = (self.piece.len() - self.at) as u64 + self.behind;
        usize::try_from(left).unwrap_or(usize::MAX)
    }

    fn chunk(&self) -> &[u8] {
        &self.piece[self.at..]
    }

    /// Returns a byte string, or nothing in the place of a long one.
    fn copy_to_bytes(&mut self, length: usize) -> Bytes {
        if length > LONGEST {
            self.advance(length);
            return Bytes::new();
        }
        let mut bytes = vec![0; length];
        self.copy_to_slice(&mut bytes);
        bytes.into()
    }

    fn advance(&mut self, count: usize) {
        let here = self.piece.len() - self.at;
        if count < here {
            self.at += count;
            return;
        }
        let beyond = (count - here) as u64;
        assert!(beyond <= self.behind, "a buffer is not advanced beyond its end");
        match self.file.seek(SeekFrom::Current(beyond as i64)) {
            Ok(_) => {
                self.behind -= beyond;
                self.fill();
            }
            Err(error) => self.fail(error),
        }
    }
}
