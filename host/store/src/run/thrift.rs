/*!
A walk over Parquet's metadata before the library reads it.

The metadata is in Thrift's compact protocol. The library trusts the length of a list: it allocates that many elements,
and it skips a list of booleans in an unknown field without reading a byte, so a few bytes buy 2³¹ steps. Parquet's
footer and page headers have no lists of booleans, and every other element takes at least a byte.

Source: the Thrift compact protocol,
<https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md>.
*/

use std::io::{self, Read, Seek};

use parquet::errors::{ParquetError, Result};

/// Greatest depth of structs and lists, which is the library's.
const DEPTH: usize = 64;

const STOP: u8 = 0;
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
const I32: u8 = 5;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const STRUCT: u8 = 12;

/// Walks metadata of at most `left` bytes.
pub(super) struct Walk<R> {
    reader: R,
    left: u64,
}

impl<R: Read> Walk<R> {
    pub(super) fn new(reader: R, left: u64) -> Self {
        Self { reader, left }
    }

    /// Returns the number of bytes that are left.
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    /// Walks a struct, and returns the value of its field `number` if that is a 32-bit integer.
    pub(super) fn integer_of_struct(&mut self, number: i64) -> Result<Option<i64>> {
        let (mut id, mut found) = (0_i64, None);
        loop {
            let header = self.byte()?;
            let kind = header & 0x0f;
            if kind == STOP {
                return Ok(found);
            }
            id = match header >> 4 {
                0 => zig_zag(self.varint()?),
                delta => id.saturating_add(i64::from(delta)),
            };
            if kind == I32 && id == number {
                found = Some(zig_zag(self.varint()?));
            } else if kind != TRUE && kind != FALSE {
                self.value(kind, DEPTH)?;
            }
        }
    }

    fn skip(&mut self, bytes: u64) -> Result<()> {
        self.left = self.left.checked_sub(bytes).ok_or_else(cut)?;
        match io::copy(&mut self.reader.by_ref().take(bytes), &mut io::sink())? {
            skipped if skipped == bytes => Ok(()),
            _ => Err(cut()),
        }
    }

    fn value(&mut self, kind: u8, depth: usize) -> Result<()> {
        let Some(depth) = depth.checked_sub(1) else {
            return Err(damaged("its metadata is nested too deeply"));
        };
        match kind {
            BYTE => self.byte().map(drop),
            I16 | I32 | I64 => self.varint().map(drop),
            DOUBLE => self.skip(8),
            BINARY => {
                let length = self.varint()?;
                self.skip(length)
            }
            STRUCT => loop {
                let header = self.byte()?;
                let kind = header & 0x0f;
                if kind == STOP {
                    return Ok(());
                }
                if header >> 4 == 0 {
                    self.varint()?;
                }
                if kind != TRUE && kind != FALSE {
                    self.value(kind, depth)?;
                }
            },
            LIST => self.list(depth),
            kind => Err(damaged(&format!("its metadata has a value of type {kind}"))),
        }
    }

    fn list(&mut self, depth: usize) -> Result<()> {
        let header = self.byte()?;
        let elements = match header >> 4 {
            15 => self.varint()?,
            elements => u64::from(elements),
        };
        let kind = header & 0x0f;
        if elements > 0 && (kind == TRUE || kind == FALSE) {
            return Err(damaged("its metadata has a list of booleans"));
        }
        if elements > self.left {
            let left = self.left;
            return Err(damaged(&format!("a list of {elements} elements has {left} bytes")));
        }
        (0..elements).try_for_each(|_| self.value(kind, depth))
    }

    fn byte(&mut self) -> Result<u8> {
        self.left = self.left.checked_sub(1).ok_or_else(cut)?;
        let mut byte = [0];
        self.reader.read_exact(&mut byte).map_err(|_| cut())?;
        Ok(byte[0])
    }

    fn varint(&mut self) -> Result<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(damaged("an integer of its metadata has more than 64 bits"))
    }
}

impl<R: Read + Seek> Walk<R> {
    /// Passes over bytes that are not metadata, without reading them.
    pub(super) fn pass_over(&mut self, bytes: u64) -> Result<()> {
        self.left = self.left.checked_sub(bytes).ok_or_else(cut)?;
        let bytes = i64::try_from(bytes).map_err(|_| cut())?;
        Ok(self.reader.seek_relative(bytes)?)
    }
}

fn zig_zag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

fn cut() -> ParquetError {
    damaged("its metadata ends too early")
}

pub(super) fn damaged(what: &str) -> ParquetError {
    ParquetError::General(format!("the file is damaged: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(bytes: &[u8]) -> std::result::Result<Option<i64>, String> {
        let mut walk = Walk::new(bytes, bytes.len() as u64);
        let found = walk.integer_of_struct(3).map_err(|error| error.to_string())?;
        assert_eq!(walk.left(), 0);
        Ok(found)
    }

    #[test]
    fn a_field_is_found_between_others() {
        // 1: true, 2: list of two i64, 3: -3, 4: binary of two bytes, 5: struct with a double.
        let double = [0; 8];
        let mut bytes = vec![0x11, 0x19, 0x26, 1, 2, 0x15, 5, 0x18, 2, 7, 7, 0x1c, 0x17];
        bytes.extend(double);
        bytes.extend([0, 0]);
        assert_eq!(walk(&bytes), Ok(Some(-3)));
    }

    #[test]
    fn a_list_cannot_claim_more_than_there_is() {
        let claimed = |kind| [0x19, 0xf0 | kind, 0xff, 0xff, 0xff, 0xff, 7, 0];
        let error = walk(&claimed(I64)).expect_err("a lie");
        assert!(error.contains("a list of 2147483647 elements has 1 bytes"), "{error}");
        for boolean in [TRUE, FALSE] {
            let error = walk(&claimed(boolean)).expect_err("a trap");
            assert!(error.contains("a list of booleans"), "{error}");
        }
    }

    #[test]
    fn what_is_cut_or_too_deep_is_refused() {
        assert!(walk(&[0x15]).is_err());
        assert!(walk(&[0x18, 9, 1, 0]).is_err());
        assert!(walk(&[0x1c; 100]).is_err());
        assert!(
            walk(&[0x15, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0]).is_err()
        );
    }
}
