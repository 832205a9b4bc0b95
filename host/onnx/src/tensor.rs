//! Tensors of a file: weights and constants, with few of their values and the length of the others.

use prost::bytes::{Buf, BufMut, Bytes};
use prost::encoding::{
    DecodeContext, WireType, bytes, check_wire_type, decode_varint, double, float, int32, int64,
    message, skip_field, string, uint64,
};
use prost::{DecodeError, Message};

use crate::element::element;
use crate::skipping::LONGEST;

/// `StringStringEntryProto`
#[derive(Clone, PartialEq, prost::Message)]
pub struct Entry {
    /// The key.
    #[prost(string, tag = "1")]
    pub key: String,
    /// The value.
    #[prost(string, tag = "2")]
    pub value: String,
}

impl Entry {
    /// Returns an entry.
    #[must_use]
    pub fn new(key: &str, value: impl ToString) -> Self {
        Self { key: key.to_owned(), value: value.to_string() }
    }
}

/// `TensorProto`
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tensor {
    /// Sizes of its axes.
    pub sizes: Vec<i64>,
    /// Number of its element type (`DataType`).
    pub element: i32,
    /// Values, if they are 32-bit floating-point numbers. Empty if they are many, as are all lists of values that are
    /// read from a file.
    pub floats: Vec<f32>,
    /// Values, if they are integers of up to 32 bits, truth values, or floating-point numbers of up to 16 bits by their
    /// bits.
    pub small: Vec<i32>,
    /// Values, if they are 64-bit integers.
    pub integers: Vec<i64>,
    /// Its name.
    pub name: String,
    /// Values as bytes, the lowest first.
    pub raw: Option<Bytes>,
    /// Values, if they are 64-bit floating-point numbers.
    pub doubles: Vec<f64>,
    /// Values, if they are unsigned integers of 32 or 64 bits.
    pub unsigned: Vec<u64>,
    /// Place of the values in another file.
    pub external: Vec<Entry>,
    /// `DataLocation`: 1 if the values lie in another file.
    pub location: Option<i32>,
    /// Lengths of the values that were read from a file.
    pub found: Lengths,
}

/// Lengths of the values of a tensor in a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lengths {
    raw: u64,
    floats: u64,
    small: u64,
    integers: u64,
    doubles: u64,
    unsigned: u64,
    /// Their number, not their bytes.
    texts: u64,
}

/// Longest list of values that is kept, in bytes.
const LONGEST_LIST: u64 = 1 << 15;

/// Tags of the lists in `onnx.proto`.
const FLOATS: u32 = 4;
const SMALL: u32 = 5;
const TEXTS: u32 = 6;
const INTEGERS: u32 = 7;
const DOUBLES: u32 = 10;
const UNSIGNED: u32 = 11;

impl Message for Tensor {
    fn encode_raw(&self, buf: &mut impl BufMut) {
        int64::encode_repeated(1, &self.sizes, buf);
        if self.element != 0 {
            int32::encode(2, &self.element, buf);
        }
        float::encode_packed(FLOATS, &self.floats, buf);
        int32::encode_packed(SMALL, &self.small, buf);
        int64::encode_packed(INTEGERS, &self.integers, buf);
        if !self.name.is_empty() {
            string::encode(8, &self.name, buf);
        }
        if let Some(raw) = &self.raw {
            bytes::encode(9, raw, buf);
        }
        double::encode_packed(DOUBLES, &self.doubles, buf);
        uint64::encode_packed(UNSIGNED, &self.unsigned, buf);
        message::encode_repeated(13, &self.external, buf);
        if let Some(location) = &self.location {
            int32::encode(14, location, buf);
        }
    }

    fn encoded_len(&self) -> usize {
        let of_element = if self.element == 0 { 0 } else { int32::encoded_len(2, &self.element) };
        let of_name = if self.name.is_empty() { 0 } else { string::encoded_len(8, &self.name) };
        int64::encoded_len_repeated(1, &self.sizes)
            + of_element
            + float::encoded_len_packed(FLOATS, &self.floats)
            + int32::encoded_len_packed(SMALL, &self.small)
            + int64::encoded_len_packed(INTEGERS, &self.integers)
            + of_name
            + self.raw.as_ref().map_or(0, |raw| bytes::encoded_len(9, raw))
            + double::encoded_len_packed(DOUBLES, &self.doubles)
            + uint64::encoded_len_packed(UNSIGNED, &self.unsigned)
            + message::encoded_len_repeated(13, &self.external)
            + self.location.as_ref().map_or(0, |location| int32::encoded_len(14, location))
    }

    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        buf: &mut impl Buf,
        ctx: DecodeContext,
    ) -> Result<(), DecodeError> {
        let found = &mut self.found;
        match tag {
            1 => int64::merge_repeated(wire_type, &mut self.sizes, buf, ctx),
            2 => int32::merge(wire_type, &mut self.element, buf, ctx),
            FLOATS => {
                let kind = WireType::ThirtyTwoBit;
                list(kind, wire_type, (&mut self.floats, &mut found.floats), buf, ctx, float::merge)
            }
            SMALL => {
                let kind = WireType::Varint;
                list(kind, wire_type, (&mut self.small, &mut found.small), buf, ctx, int32::merge)
            }
            TEXTS => {
                found.texts += 1;
                skip_field(wire_type, tag, buf, ctx)
            }
            INTEGERS => {
                let (kind, into) = (WireType::Varint, (&mut self.integers, &mut found.integers));
                list(kind, wire_type, into, buf, ctx, int64::merge)
            }
            8 => string::merge(wire_type, &mut self.name, buf, ctx),
            9 => {
                check_wire_type(WireType::LengthDelimited, wire_type)?;
                found.raw = length(buf, &ctx)?;
                self.raw = Some(match found.raw > LONGEST as u64 {
                    true => {
                        buf.advance(found.raw as usize);
                        Bytes::new()
                    }
                    false => buf.copy_to_bytes(found.raw as usize),
                });
                Ok(())
            }
            DOUBLES => {
                let (kind, into) =
                    (WireType::SixtyFourBit, (&mut self.doubles, &mut found.doubles));
                list(kind, wire_type, into, buf, ctx, double::merge)
            }
            UNSIGNED => {
                let (kind, into) = (WireType::Varint, (&mut self.unsigned, &mut found.unsigned));
                list(kind, wire_type, into, buf, ctx, uint64::merge)
            }
            13 => message::merge_repeated(wire_type, &mut self.external, buf, ctx),
            14 => int32::merge(wire_type, self.location.get_or_insert_default(), buf, ctx),
            _ => skip_field(wire_type, tag, buf, ctx),
        }
    }

    fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Reads the length of a byte string, which is in the buffer.
fn length(buf: &mut impl Buf, ctx: &DecodeContext) -> Result<u64, DecodeError> {
    let length = decode_varint(buf)?;
    if length > buf.remaining() as u64 {
        // The library has no other way to make its error of a buffer that ends.
        skip_field(WireType::SixtyFourBit, 1, &mut &b""[..], ctx.clone())?;
    }
    Ok(length)
}

/// Reads a list of numbers, as one packed string or as single numbers. A long one is measured and skipped.
fn list<T: Default, B: Buf>(
    kind: WireType,
    found: WireType,
    (values, bytes): (&mut Vec<T>, &mut u64),
    buf: &mut B,
    ctx: DecodeContext,
    one: fn(WireType, &mut T, &mut B, DecodeContext) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    let before = buf.remaining();
    let packed = match found {
        WireType::LengthDelimited => length(buf, &ctx)?,
        _ => {
            let mut value = T::default();
            one(found, &mut value, buf, ctx)?;
            values.push(value);
            *bytes += (before - buf.remaining()) as u64;
            return Ok(());
        }
    };
    *bytes += packed;
    if *bytes > LONGEST_LIST {
        values.clear();
        buf.advance(packed as usize);
        return Ok(());
    }
    let end = buf.remaining() - packed as usize;
    while buf.remaining() > end {
        let mut value = T::default();
        one(kind, &mut value, buf, ctx.clone())?;
        values.push(value);
    }
    match buf.remaining() == end {
        true => Ok(()),
        // A number reaches beyond the list.
        false => skip_field(WireType::SixtyFourBit, 1, &mut &b""[..], ctx),
    }
}

impl Tensor {
    /// Returns the value of an entry about the place of the values in another file.
    pub(crate) fn place(&self, key: &str) -> Option<&str> {
        let entry = self.external.iter().find(|entry| entry.key == key);
        entry.map(|entry| entry.value.as_str())
    }

    /// Returns whether the values lie in another file.
    pub(crate) fn is_external(&self) -> bool {
        self.location == Some(1)
    }

    /// Returns the number of its elements; `None` if a size is negative, or the number absurd.
    pub(crate) fn count(&self) -> Option<u64> {
        let mut sizes = self.sizes.iter().map(|size| u64::try_from(*size).ok());
        sizes.try_fold(1_u64, |count, size| count.checked_mul(size?))
    }

    /// Returns all values as whole numbers, if they are known and whole.
    pub(crate) fn whole(&self) -> Option<Vec<i64>> {
        let (name, _) = element(self.element);
        let whole: Vec<i64> = match (name, self.raw.as_deref().filter(|raw| !raw.is_empty())) {
            ("int64", None) => self.integers.clone(),
            ("uint32" | "uint64", None) => {
                self.unsigned.iter().map(|it| i64::try_from(*it).ok()).collect::<Option<_>>()?
            }
            ("int8" | "int16" | "int32" | "uint8" | "uint16" | "bool", None) => {
                self.small.iter().map(|it| i64::from(*it)).collect()
            }
            ("int64", Some(raw)) => numbers(raw, i64::from_le_bytes)?,
            ("uint64", Some(raw)) => {
                let all = numbers(raw, u64::from_le_bytes)?;
                all.into_iter().map(|it| i64::try_from(it).ok()).collect::<Option<_>>()?
            }
            ("int32", Some(raw)) => numbers(raw, |it| i32::from_le_bytes(it).into())?,
            ("uint32", Some(raw)) => numbers(raw, |it| u32::from_le_bytes(it).into())?,
            ("int16", Some(raw)) => numbers(raw, |it| i16::from_le_bytes(it).into())?,
            ("uint16", Some(raw)) => numbers(raw, |it| u16::from_le_bytes(it).into())?,
            ("int8", Some(raw)) => numbers(raw, |it| i8::from_le_bytes(it).into())?,
            ("uint8" | "bool", Some(raw)) => numbers(raw, |it| u8::from_le_bytes(it).into())?,
            _ => return None,
        };
        self.if_all(whole)
    }

    /// Returns all values as floating-point numbers, if they are known and of such a type.
    pub(crate) fn real(&self) -> Option<Vec<f32>> {
        let (name, _) = element(self.element);
        let real: Vec<f32> = match (name, self.raw.as_deref().filter(|raw| !raw.is_empty())) {
            ("fp32", None) => self.floats.clone(),
            ("fp64", None) => self.doubles.iter().map(|it| *it as f32).collect(),
            ("fp16", None) => self.small.iter().map(|bits| of_half(*bits as u16)).collect(),
            ("bf16", None) => self.small.iter().map(|bits| of_brain(*bits as u16)).collect(),
            ("fp32", Some(raw)) => numbers(raw, f32::from_le_bytes)?,
            ("fp64", Some(raw)) => numbers(raw, |it| f64::from_le_bytes(it) as f32)?,
            ("fp16", Some(raw)) => numbers(raw, |it| of_half(u16::from_le_bytes(it)))?,
            ("bf16", Some(raw)) => numbers(raw, |it| of_brain(u16::from_le_bytes(it)))?,
            _ => return None,
        };
        self.if_all(real)
    }

    /// Returns the values, if they are as many as the tensor has elements.
    fn if_all<T>(&self, values: Vec<T>) -> Option<Vec<T>> {
        (self.count() == Some(values.len() as u64)).then_some(values)
    }

    /// Returns the contradiction between the values in the file and the tensor's type and shape, if there is one.
    pub(crate) fn flaw(&self) -> Option<String> {
        let (name, bits) = element(self.element);
        let of_shape = format!("its shape {:?} of {name}", self.sizes);
        let Some(count) = self.count() else {
            return Some(format!("{of_shape} is impossible"));
        };
        // Whether the type is known, and the length of a value.
        let bytes = match name {
            "unknown" => return None,
            "string" => None,
            _ => Some(u128::from(count) * u128::from(bits)).map(|bits| bits.div_ceil(8)),
        };
        if self.is_external() {
            let length = self.place("length").and_then(|length| length.parse::<u128>().ok());
            return match (length, bytes) {
                (Some(length), Some(bytes)) if length != bytes => Some(format!(
                    "it has {length} bytes in another file, and {of_shape} needs {bytes}"
                )),
                _ => None,
            };
        }
        let found = self.found;
        if let Some(bytes) = bytes.filter(|_| found.raw > 0) {
            let wrong = u128::from(found.raw) != bytes;
            let raw = found.raw;
            return wrong
                .then(|| format!("it has {raw} bytes of values, and {of_shape} needs {bytes}"));
        }
        let (needed, is_possible, found) = match name {
            "fp32" => (count, found.floats == count.saturating_mul(4), found.floats / 4),
            "complex64" => {
                (count.saturating_mul(2), found.floats == count.saturating_mul(8), found.floats / 4)
            }
            "fp64" => (count, found.doubles == count.saturating_mul(8), found.doubles / 8),
            "complex128" => (
                count.saturating_mul(2),
                found.doubles == count.saturating_mul(16),
                found.doubles / 8,
            ),
            "string" => (count, found.texts == count, found.texts),
            "int64" => varints(count, found.integers, self.integers.len()),
            "uint64" | "uint32" => varints(count, found.unsigned, self.unsigned.len()),
            "uint4" | "int4" | "fp4" => varints(count.div_ceil(2), found.small, self.small.len()),
            _ => varints(count, found.small, self.small.len()),
        };
        (!is_possible).then(|| match found {
            0 => format!("it has no values, and {of_shape} needs {needed}"),
            found => format!("it has {found} values, and {of_shape} needs {needed}"),
        })
    }
}

/// Returns the number of varints that a list needs, whether it can have them, and how many it has. A long list has not
/// been counted: each takes one to ten bytes.
fn varints(needed: u64, bytes: u64, kept: usize) -> (u64, bool, u64) {
    match bytes > LONGEST_LIST {
        true => (needed, (needed..=needed.saturating_mul(10)).contains(&bytes), bytes),
        false => (needed, kept as u64 == needed, kept as u64),
    }
}

/// Converts numbers of N bytes each; nothing if some are left over.
fn numbers<T, const N: usize>(raw: &[u8], of: impl Fn([u8; N]) -> T) -> Option<Vec<T>> {
    let (chunks, rest) = raw.as_chunks::<N>();
    rest.is_empty().then(|| chunks.iter().map(|chunk| of(*chunk)).collect())
}

/// Returns a number of 16 bits of IEEE 754.
fn of_half(bits: u16) -> f32 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f32::from(bits & 0x3ff) / 1024.0);
    sign * match exponent {
        0 => fraction * 2_f32.powi(-14),
        31 if fraction == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        _ => (1.0 + fraction) * 2_f32.powi(exponent - 15),
    }
}

/// Returns a number of 16 bits that are the upper half of 32 bits.
fn of_brain(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FP32: i32 = 1;
    const UINT8: i32 = 2;
    const INT32: i32 = 6;
    const INT64: i32 = 7;
    const BOOL: i32 = 9;
    const FP16: i32 = 10;
    const FP64: i32 = 11;
    const UINT32: i32 = 12;
    const BF16: i32 = 16;
    const INT4: i32 = 22;

    fn tensor(element: i32, sizes: &[i64]) -> Tensor {
        Tensor { element, sizes: sizes.to_vec(), ..Tensor::default() }
    }

    fn raw(element: i32, sizes: &[i64], bytes: &[u8]) -> Tensor {
        Tensor { raw: Some(Bytes::copy_from_slice(bytes)), ..tensor(element, sizes) }
    }

    fn read(tensor: &Tensor) -> Tensor {
        Tensor::decode(&tensor.encode_to_vec()[..]).expect("it was written")
    }

    #[test]
    fn values_are_read_from_each_of_their_places() {
        let whole = |tensor: Tensor| read(&tensor).whole();
        assert_eq!(whole(Tensor { integers: vec![-7], ..tensor(INT64, &[]) }), Some(vec![-7]));
        assert_eq!(whole(Tensor { small: vec![7, -1], ..tensor(INT32, &[2]) }), Some(vec![7, -1]));
        assert_eq!(whole(Tensor { small: vec![200], ..tensor(UINT8, &[1]) }), Some(vec![200]));
        assert_eq!(whole(Tensor { small: vec![1], ..tensor(BOOL, &[]) }), Some(vec![1]));
        assert_eq!(whole(Tensor { unsigned: vec![9], ..tensor(UINT32, &[1]) }), Some(vec![9]));
        assert_eq!(whole(raw(INT32, &[1], &[255, 255, 255, 255])), Some(vec![-1]));
        assert_eq!(whole(raw(UINT8, &[2], &[1, 255])), Some(vec![1, 255]));
        assert_eq!(whole(Tensor { small: vec![7], ..tensor(INT32, &[2]) }), None, "one is missing");
        let real = |tensor: Tensor| read(&tensor).real();
        assert_eq!(real(Tensor { floats: vec![0.5], ..tensor(FP32, &[]) }), Some(vec![0.5]));
        assert_eq!(real(Tensor { doubles: vec![2.0], ..tensor(FP64, &[1]) }), Some(vec![2.0]));
        let half = Tensor { small: vec![0x3c00, 0xc000, 0x0001], ..tensor(FP16, &[3]) };
        assert_eq!(real(half), Some(vec![1.0, -2.0, 2_f32.powi(-24)]));
        assert_eq!(real(raw(FP16, &[1], &[0, 0x42])), Some(vec![3.0]));
        assert_eq!(real(Tensor { small: vec![0x3f80], ..tensor(BF16, &[1]) }), Some(vec![1.0]));
        assert_eq!(real(Tensor { small: vec![7], ..tensor(INT32, &[1]) }), None, "not real");
    }

    #[test]
    fn values_that_do_not_fill_the_shape_are_a_flaw() {
        let flaw = |tensor: Tensor| read(&tensor).flaw().unwrap_or_default();
        for whole in [
            raw(FP32, &[2, 2], &[0; 16]),
            raw(INT4, &[3], &[0; 2]),
            raw(FP32, &[0], &[]),
            raw(FP32, &[100, 100], &[0; 40_000]),
            Tensor { floats: vec![0.0; 50_000], ..tensor(FP32, &[50_000]) },
            Tensor { small: vec![300; 50_000], ..tensor(INT32, &[50_000]) },
            Tensor { small: vec![3, 4], ..tensor(INT4, &[3]) },
            tensor(99, &[4]),
        ] {
            assert_eq!(flaw(whole), "");
        }
        let short = "it has 20 bytes of values, and its shape [4, 4] of fp32 needs 64";
        assert_eq!(flaw(raw(FP32, &[4, 4], &[0; 20])), short);
        let list = Tensor { integers: vec![1, 2, 3], ..tensor(INT64, &[4]) };
        assert_eq!(flaw(list), "it has 3 values, and its shape [4] of int64 needs 4");
        let none = "it has no values, and its shape [] of fp32 needs 1";
        assert_eq!(flaw(tensor(FP32, &[])), none);
        let long = Tensor { floats: vec![0.0; 50_000], ..tensor(FP32, &[60_000]) };
        assert_eq!(flaw(long), "it has 50000 values, and its shape [60000] of fp32 needs 60000");
        let long = Tensor { small: vec![300; 50_000], ..tensor(INT32, &[9]) };
        assert!(flaw(long).ends_with("its shape [9] of int32 needs 9"));
        assert_eq!(flaw(tensor(FP32, &[-1])), "its shape [-1] of fp32 is impossible");
        let external = vec![Entry::new("location", "w"), Entry::new("length", 60)];
        let beside = Tensor { external, location: Some(1), ..tensor(FP32, &[4, 4]) };
        let told = "it has 60 bytes in another file, and its shape [4, 4] of fp32 needs 64";
        assert_eq!(flaw(beside), told);
    }

    #[test]
    fn single_numbers_are_a_list_too() {
        // `int64_data` and `float_data` with a key before each number.
        let bytes = [8, 2, 16, 7, 56, 5, 56, 6];
        let tensor = Tensor::decode(&bytes[..]).expect("a tensor");
        assert_eq!((tensor.whole(), tensor.flaw()), (Some(vec![5, 6]), None));
        let bytes = [&[8, 1, 16, 1, 37][..], &1.5_f32.to_le_bytes()].concat();
        let tensor = Tensor::decode(&bytes[..]).expect("a tensor");
        assert_eq!((tensor.real(), tensor.flaw()), (Some(vec![1.5]), None));
    }

    #[test]
    fn a_list_that_ends_too_early_is_refused() {
        for bytes in
            [&[34, 8, 0, 0, 0, 0][..], &[34, 6, 0, 0, 0, 0, 0, 0], &[74, 9, 1], &[58, 1, 128]]
        {
            Tensor::decode(bytes).expect_err("damaged");
        }
    }
}
