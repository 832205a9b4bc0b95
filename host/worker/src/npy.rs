//! NumPy's `.npy` files: rows are read on demand, so a data set may be larger than
//! memory.
//!
//! The format is a line of text before the numbers (see `numpy.lib.format`), and its reader is
//! here: crates that read it depend on a parser generator and a parser for Python,
//! twenty packages for three keys.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use host_record::Failure;
use plugin_api::client::DataType;

use crate::failure::input;

/// An open file whose first axis counts examples.
#[derive(Debug)]
pub(crate) struct NpyFile {
    path: PathBuf,
    file: File,
    data_start: u64,
    /// Element type.
    pub(crate) dtype: DataType,
    /// Number of examples; 1 for a single number.
    pub(crate) examples: u64,
    /// Size of each axis after the first.
    pub(crate) shape: Vec<u64>,
    example_bytes: u64,
    /// Whether it is a single number, without an axis.
    is_scalar: bool,
}

impl NpyFile {
    /// Opens a file and checks that its size fits its header.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let fail = |what: String| input(format!("{}: {what}", path.display()));
        let mut file = host_files::open(path).map_err(|error| fail(error.to_string()))?;
        let header = Header::read(&mut file)
            .map_err(|error| fail(format!("this is no .npy file: {error}")))?;
        let data_start = file.stream_position().map_err(|error| fail(error.to_string()))?;
        let dtype = data_type(&header.descr).ok_or_else(|| {
            fail(format!(
                "its elements are of the type {}; expected numbers or booleans in little-endian \
                 order, as of `array.astype(\"<f4\")`",
                header.descr
            ))
        })?;
        let is_scalar = header.shape.is_empty();
        let (&examples, shape) = header.shape.split_first().unwrap_or((&1, &[]));
        if header.fortran_order && shape.iter().any(|size| *size > 1) {
            let remedy = "save `numpy.ascontiguousarray(array)`";
            return Err(fail(format!("it is in Fortran order; {remedy}")));
        }
        let example_bytes = shape
            .iter()
            .try_fold(dtype.size() as u64, |bytes, size| bytes.checked_mul(*size))
            .ok_or_else(|| fail(format!("its shape {:?} is too large", header.shape)))?;
        let bytes = file.metadata().map_err(|error| fail(error.to_string()))?.len();
        let wanted = example_bytes
            .checked_mul(examples)
            .and_then(|bytes| bytes.checked_add(data_start))
            .ok_or_else(|| fail(format!("its shape {:?} is too large", header.shape)))?;
        if bytes < wanted {
            return Err(fail(format!(
                "it is cut off: its header promises {wanted} bytes, and it has {bytes}"
            )));
        }
        let shape = shape.to_vec();
        let path = path.into();
        Ok(Self { path, file, data_start, dtype, examples, shape, example_bytes, is_scalar })
    }

    /// Returns the size of each axis, examples included.
    pub(crate) fn whole_shape(&self) -> Vec<u64> {
        match self.is_scalar {
            true => Vec::new(),
            false => std::iter::once(self.examples).chain(self.shape.iter().copied()).collect(),
        }
    }

    /// Appends `count` examples from `first` on to `bytes`, going on with the first example after
    /// the last.
    pub(crate) fn read(
        &mut self,
        first: u64,
        count: u64,
        bytes: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        if self.examples == 0 && count > 0 {
            return Err(input(format!("{}: it has no example to read", self.path.display())));
        }
        let mut position = first % self.examples.max(1);
        let mut remaining = count;
        while remaining > 0 {
            let part = remaining.min(self.examples - position);
            let start = self.data_start + position * self.example_bytes;
            let length = part * self.example_bytes;
            let before = bytes.len() as u64;
            self.file
                .seek(SeekFrom::Start(start))
                .and_then(|_| (&self.file).take(length).read_to_end(bytes))
                .map_err(|error| input(format!("{}: {error}", self.path.display())))?;
            if bytes.len() as u64 - before != length {
                return Err(input(format!("{}: it was cut off meanwhile", self.path.display())));
            }
            position = 0;
            remaining -= part;
        }
        Ok(())
    }

    /// Returns all examples as class labels: one whole number each.
    pub(crate) fn labels(mut self) -> Result<Vec<i64>, Failure> {
        let fail = |path: &Path, what: String| input(format!("labels {}: {what}", path.display()));
        if !self.shape.is_empty() {
            let shape = [&[self.examples], self.shape.as_slice()].concat();
            let what = format!("its shape is {shape:?}; expected one whole number per example");
            return Err(fail(&self.path, what));
        }
        let mut bytes = Vec::new();
        self.read(0, self.examples, &mut bytes)?;
        macro_rules! decode {
            ($type:ty) => {
                bytes
                    .as_chunks()
                    .0
                    .iter()
                    .map(|bytes| i64::try_from(<$type>::from_le_bytes(*bytes)).ok())
                    .collect::<Option<Vec<i64>>>()
            };
        }
        let labels = match self.dtype {
            DataType::I64 => decode!(i64),
            DataType::I32 => decode!(i32),
            DataType::I16 => decode!(i16),
            DataType::I8 => decode!(i8),
            DataType::U64 => decode!(u64),
            DataType::U32 => decode!(u32),
            DataType::U16 => decode!(u16),
            DataType::U8 => decode!(u8),
            other => {
                let what = format!("its elements are {other}; expected whole numbers");
                return Err(fail(&self.path, what));
            }
        };
        labels.ok_or_else(|| fail(&self.path, "a label is larger than 2⁶³ − 1".into()))
    }
}

/// Returns the element type for NumPy's, such as `<f4`.
fn data_type(descr: &str) -> Option<DataType> {
    Some(match descr {
        "<f8" => DataType::F64,
        "<f4" => DataType::F32,
        "<f2" => DataType::F16,
        "<i8" => DataType::I64,
        "<i4" => DataType::I32,
        "<i2" => DataType::I16,
        "|i1" => DataType::I8,
        "<u8" => DataType::U64,
        "<u4" => DataType::U32,
        "<u2" => DataType::U16,
        "|u1" => DataType::U8,
        "|b1" => DataType::BOOL,
        _ => return None,
    })
}

/// Contents of the header before the numbers.
#[derive(Debug, PartialEq, Eq)]
struct Header {
    /// Element type, such as `<f4`; for a structured one, its description.
    descr: String,
    /// Whether the first axis varies fastest.
    fortran_order: bool,
    /// Size of each axis.
    shape: Vec<u64>,
}

impl Header {
    /// No header is longer; NumPy itself warns from 10,000 on.
    const LIMIT: u32 = 1 << 20;

    /// Reads up to the start of the numbers.
    fn read(reader: &mut impl Read) -> io::Result<Self> {
        let invalid = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
        let mut start = [0; 8];
        reader.read_exact(&mut start)?;
        let length = match start {
            [0x93, b'N', b'U', b'M', b'P', b'Y', 1, _] => {
                let mut length = [0; 2];
                reader.read_exact(&mut length)?;
                u16::from_le_bytes(length).into()
            }
            [0x93, b'N', b'U', b'M', b'P', b'Y', 2 | 3, _] => {
                let mut length = [0; 4];
                reader.read_exact(&mut length)?;
                u32::from_le_bytes(length)
            }
            [0x93, b'N', b'U', b'M', b'P', b'Y', major, minor] => {
                return Err(invalid(format!("version {major}.{minor} of the format is unknown")));
            }
            _ => return Err(invalid("it does not begin with NumPy's mark".into())),
        };
        if length > Self::LIMIT {
            return Err(invalid(format!("a header of {length} bytes")));
        }
        let mut text = vec![0; length as usize];
        reader.read_exact(&mut text)?;
        let text = String::from_utf8_lossy(&text);
        Self::parse(&text).ok_or_else(|| invalid(format!("its header is {:?}", text.trim_end())))
    }

    /// Parses `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }`.
    fn parse(text: &str) -> Option<Self> {
        let mut rest = Literal(text);
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        rest.expect("{")?;
        while rest.expect("}").is_none() {
            let key = rest.string()?;
            rest.expect(":")?;
            match key {
                "descr" => descr = Some(rest.string().or_else(|| rest.list())?.to_owned()),
                "fortran_order" => {
                    let yes = rest.expect("True").is_some();
                    fortran_order = Some(yes || rest.expect("False").map(|()| false)?);
                }
                "shape" => shape = Some(rest.tuple()?),
                _ => return None,
            }
            if rest.expect(",").is_none() {
                rest.expect("}")?;
                break;
            }
        }
        rest.0.trim().is_empty().then_some(())?;
        Some(Self { descr: descr?, fortran_order: fortran_order?, shape: shape? })
    }
}

/// The rest of a Python literal.
struct Literal<'a>(&'a str);

impl<'a> Literal<'a> {
    fn expect(&mut self, token: &str) -> Option<()> {
        self.0 = self.0.trim_start().strip_prefix(token)?;
        Some(())
    }

    fn string(&mut self) -> Option<&'a str> {
        let text = self.0.trim_start();
        let quote = text.chars().next().filter(|quote| matches!(quote, '\'' | '"'))?;
        let (string, rest) = text[1..].split_once(quote)?;
        self.0 = rest;
        Some(string)
    }

    /// Skips a list: the description of a structured type.
    fn list(&mut self) -> Option<&'a str> {
        let text = self.0.trim_start();
        let mut depth = 0_i32;
        for (index, character) in text.char_indices() {
            match character {
                '[' => depth += 1,
                ']' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                let end = index + character.len_utf8();
                self.0 = &text[end..];
                return (end > 1).then(|| &text[..end]);
            }
        }
        None
    }

    fn tuple(&mut self) -> Option<Vec<u64>> {
        let mut numbers = Vec::new();
        self.expect("(")?;
        while self.expect(")").is_none() {
            let text = self.0.trim_start();
            let end = text.find(|character: char| !character.is_ascii_digit())?;
            numbers.push(text[..end].parse().ok()?);
            self.0 = &text[end..];
            if self.expect(",").is_none() {
                self.expect(")")?;
                break;
            }
        }
        Some(numbers)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Writes a file in version 1.0 of the format, as NumPy does.
    pub(crate) fn write(
        folder: &Path,
        name: &str,
        dtype: &str,
        shape: &str,
        data: &[u8],
    ) -> PathBuf {
        write_in_order(folder, name, dtype, "False", shape, data)
    }

    fn write_in_order(
        folder: &Path,
        name: &str,
        dtype: &str,
        fortran: &str,
        shape: &str,
        data: &[u8],
    ) -> PathBuf {
        let mut header =
            format!("{{'descr': '{dtype}', 'fortran_order': {fortran}, 'shape': {shape}, }}");
        while (10 + header.len() + 1) % 64 != 0 {
            header.push(' ');
        }
        header.push('\n');
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(data);
        let path = folder.join(name);
        std::fs::write(&path, bytes).expect("writing a file");
        path
    }

    #[test]
    fn headers_are_read() {
        let header = |text: &str| {
            Header::parse(text).map(|header| (header.descr, header.fortran_order, header.shape))
        };
        let floats = || "<f4".to_owned();
        assert_eq!(
            header("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }   \n"),
            Some((floats(), false, vec![3, 2]))
        );
        assert_eq!(
            header(r#"{"shape":(),"fortran_order":True,"descr":"<f4"}"#),
            Some((floats(), true, vec![]))
        );
        assert_eq!(
            header(
                "{'descr': [('a', '<f4', (2,)), ('b', '|u1')], 'fortran_order': False, 'shape': (1,)}"
            ),
            Some(("[('a', '<f4', (2,)), ('b', '|u1')]".into(), false, vec![1]))
        );
        for bad in [
            "",
            "{",
            "{'descr': '<f4', 'fortran_order': False}",
            "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} more",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1 2)}",
            "{'descr': '<f4' 'fortran_order': False, 'shape': (1,)}",
            "{'descr': [('a', 'fortran_order': False, 'shape': (1,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
        ] {
            assert_eq!(header(bad), None, "{bad}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_header_is_too_strange(bytes: Vec<u8>, text in "[{}\\[\\]():,'\" a-z0-9é]{0,60}") {
            let _ = Header::read(&mut bytes.as_slice());
            let _ = Header::parse(&text);
        }
    }

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().expect("a temporary folder")
    }

    #[test]
    fn rows_are_read_and_wrap_around() {
        let folder = folder();
        let path = write(folder.path(), "a.npy", "|u1", "(3, 2)", &[1, 2, 3, 4, 5, 6]);
        let mut file = NpyFile::open(&path).expect("a good file");
        assert_eq!((file.examples, file.shape.as_slice(), file.dtype), (3, &[2][..], DataType::U8));
        let mut read = |first, count| {
            let mut bytes = Vec::new();
            file.read(first, count, &mut bytes).expect("reading");
            bytes
        };
        assert_eq!(read(1, 1), [3, 4]);
        assert_eq!(read(2, 2), [5, 6, 1, 2]);
        assert_eq!(read(0, 7), [1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6, 1, 2]);
        assert_eq!(read(5, 1), [5, 6]);
    }

    #[test]
    fn labels_may_be_any_whole_numbers() {
        let folder = folder();
        let labels = |dtype: &str, shape: &str, data: &[u8]| {
            NpyFile::open(&write(folder.path(), "l.npy", dtype, shape, data))
                .and_then(NpyFile::labels)
                .map_err(|failure| {
                    failure.to_string().replace(folder.path().to_str().expect("UTF-8"), "")
                })
        };
        assert_eq!(labels("|u1", "(2,)", &[7, 255]), Ok(vec![7, 255]));
        assert_eq!(labels("|i1", "(2,)", &[7, 255]), Ok(vec![7, -1]));
        assert_eq!(labels("<i2", "(2,)", &[1, 1, 0, 128]), Ok(vec![257, -32768]));
        assert_eq!(labels("<i8", "(1,)", &[255; 8]), Ok(vec![-1]));
        insta::assert_snapshot!(
            labels("<u8", "(1,)", &[255; 8]).expect_err("too large"),
            @"input: labels /l.npy: a label is larger than 2⁶³ − 1"
        );
        insta::assert_snapshot!(
            labels("<f4", "(1,)", &[0; 4]).expect_err("not whole"),
            @"input: labels /l.npy: its elements are float32; expected whole numbers"
        );
        insta::assert_snapshot!(
            labels("|u1", "(2, 1)", &[0; 2]).expect_err("not one per example"),
            @"input: labels /l.npy: its shape is [2, 1]; expected one whole number per example"
        );
    }

    #[test]
    fn a_single_number_has_no_axis() {
        let folder = folder();
        let path = write(folder.path(), "scalar.npy", "<f4", "()", &[1, 2, 3, 4]);
        let mut file = NpyFile::open(&path).expect("a file");
        assert_eq!((file.examples, file.whole_shape()), (1, Vec::new()));
        let mut bytes = Vec::new();
        file.read(0, file.examples, &mut bytes).expect("its number");
        assert_eq!(bytes, [1, 2, 3, 4]);
    }

    #[test]
    fn files_that_cannot_be_used_say_why() {
        let folder = folder();
        let error = |path: &Path| {
            let failure = NpyFile::open(path).expect_err("a bad file");
            failure.to_string().replace(folder.path().to_str().expect("UTF-8"), "")
        };
        let big_endian = write(folder.path(), "big.npy", ">f4", "(1,)", &[0; 4]);
        insta::assert_snapshot!(error(&big_endian), @r#"input: /big.npy: its elements are of the type >f4; expected numbers or booleans in little-endian order, as of `array.astype("<f4")`"#);
        let cut = write(folder.path(), "cut.npy", "<f4", "(2,)", &[0; 7]);
        insta::assert_snapshot!(error(&cut), @"input: /cut.npy: it is cut off: its header promises 136 bytes, and it has 135");
        let fortran = write_in_order(folder.path(), "f.npy", "<f4", "True", "(2, 2)", &[0; 16]);
        insta::assert_snapshot!(error(&fortran), @"input: /f.npy: it is in Fortran order; save `numpy.ascontiguousarray(array)`");
        let huge = write(folder.path(), "huge.npy", "<f4", "(4294967296, 4294967296)", &[]);
        assert!(error(&huge).starts_with("input: /huge.npy: "));
        let text = folder.path().join("text.npy");
        std::fs::write(&text, "label\n1\n").expect("writing a file");
        assert!(error(&text).starts_with("input: /text.npy: this is no .npy file: "));
        assert!(
            error(&folder.path().join("none.npy")).starts_with("input: /none.npy: No such file")
        );
    }
}
