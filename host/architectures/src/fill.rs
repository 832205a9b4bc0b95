//! Values of weights: how they are drawn, and in which format they are stored.

use std::fmt;
use std::io::{self, Write};

use half::{bf16, f16};
use host_hash::{Digest, Sha256};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};

/// Number format of a model's weights and activations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Element {
    /// 32 bits, IEEE 754.
    Fp32,
    /// 16 bits, IEEE 754.
    Fp16,
    /// The upper half of the 32 bits.
    Bf16,
    /// Whole numbers of 8 bits for weights and for inputs of products, with fp32 between them.
    Int8,
}

impl Element {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Fp32, Self::Fp16, Self::Bf16, Self::Int8];

    /// Returns its name in manifests.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fp32 => "fp32",
            Self::Fp16 => "fp16",
            Self::Bf16 => "bf16",
            Self::Int8 => "int8",
        }
    }

    /// Returns its number in ONNX (`TensorProto.DataType`).
    pub(crate) fn code(self) -> i32 {
        match self {
            Self::Fp32 => 1,
            Self::Int8 => INT8,
            Self::Fp16 => 10,
            Self::Bf16 => 16,
        }
    }

    /// Appends a number to `bytes`, rounded to this format.
    pub(crate) fn append(self, value: f32, bytes: &mut Vec<u8>) {
        match self {
            Self::Fp32 => bytes.extend_from_slice(&value.to_le_bytes()),
            Self::Fp16 => bytes.extend_from_slice(&f16::from_f32(value).to_le_bytes()),
            Self::Bf16 => bytes.extend_from_slice(&bf16::from_f32(value).to_le_bytes()),
            Self::Int8 => bytes.push((value.round() as i8).cast_unsigned()),
        }
    }
}

/// Number of 8-bit integers in ONNX (`TensorProto.DataType`).
pub(crate) const INT8: i32 = 3;

/// Number of 32-bit integers.
const INT32: i32 = 6;

/// How weights are stored.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Stored {
    /// As they are, in a format.
    As(Element),
    /// Divided by a scale and rounded, in 8 bits.
    Int8 {
        /// The scale.
        scale: f32,
    },
    /// The same in 32 bits.
    Int32 {
        /// The scale.
        scale: f32,
    },
}

impl Stored {
    /// Returns the number of the element type in ONNX.
    pub(crate) fn code(self) -> i32 {
        match self {
            Self::As(element) => element.code(),
            Self::Int8 { .. } => INT8,
            Self::Int32 { .. } => INT32,
        }
    }

    /// Returns the size of an element.
    pub(crate) fn bytes(self) -> u64 {
        match self {
            Self::As(Element::Fp32) | Self::Int32 { .. } => 4,
            Self::As(Element::Fp16 | Element::Bf16) => 2,
            Self::As(Element::Int8) | Self::Int8 { .. } => 1,
        }
    }

    fn append(self, value: f32, bytes: &mut Vec<u8>) {
        match self {
            Self::As(element) => element.append(value, bytes),
            Self::Int8 { scale } => {
                Element::Int8.append((value / scale).clamp(-127.0, 127.0), bytes)
            }
            Self::Int32 { scale } => {
                bytes.extend_from_slice(&((value / scale).round() as i32).to_le_bytes());
            }
        }
    }
}

/// Values of a tensor of weights.
pub(crate) enum Fill {
    /// Drawn uniformly from `centre - spread` to `centre + spread`.
    Uniform {
        /// The middle.
        centre: f32,
        /// Half the width.
        spread: f32,
    },
    /// Computed from the index of the element, in the order of rows.
    Computed(Box<dyn Fn(u64) -> f32>),
}

impl fmt::Debug for Fill {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform { centre, spread } => write!(formatter, "{centre} ± {spread}"),
            Self::Computed(_) => formatter.write_str("computed"),
        }
    }
}

impl Fill {
    /// Drawn around zero with this standard deviation.
    pub(crate) fn deviation(deviation: f32) -> Self {
        // A uniform distribution's half width is √3 standard deviations.
        Self::Uniform { centre: 0.0, spread: deviation * 3.0_f32.sqrt() }
    }

    /// Drawn so that a sum over `inputs` products with inputs of unit variance has the standard deviation
    /// `gain` (He et al. 2015, section 2.2).
    pub(crate) fn fan_in(gain: f32, inputs: u64) -> Self {
        Self::deviation(gain / (inputs as f32).sqrt())
    }

    /// Drawn near a value.
    pub(crate) fn near(centre: f32, spread: f32) -> Self {
        Self::Uniform { centre, spread }
    }
}

/// Elements that are made at a time.
const PIECE: u64 = 1 << 16;

/// Writes `count` values of a tensor. Each tensor has a generator of its own, seeded by its name, so that its
/// values do not depend on what else the model has.
pub(crate) fn write(
    fill: &Fill,
    (seed, name): (u64, &str),
    count: u64,
    stored: Stored,
    writer: &mut dyn Write,
    progress: &mut dyn FnMut(u64),
) -> io::Result<()> {
    let mut hash = Sha256::new();
    hash.update(seed.to_le_bytes());
    hash.update(name.as_bytes());
    let hash = hash.finalize();
    let mut of_generator = [0; 16];
    of_generator.copy_from_slice(&hash[..16]);
    let mut generator = Pcg64Mcg::from_seed(of_generator);
    let mut bytes = Vec::new();
    let mut at = 0;
    while at < count {
        let end = count.min(at + PIECE);
        bytes.clear();
        match fill {
            Fill::Uniform { centre, spread } => {
                // Twice the spread for 2⁻²⁴ of the range of 24 bits.
                let step = spread * 2.0 / (1_u32 << 24) as f32;
                let lowest = centre - spread;
                for _ in at..end {
                    let unit = (generator.next_u64() >> 40) as f32;
                    stored.append(lowest + unit * step, &mut bytes);
                }
            }
            Fill::Computed(value) => {
                (at..end).for_each(|index| stored.append(value(index), &mut bytes));
            }
        }
        writer.write_all(&bytes)?;
        progress(bytes.len() as u64);
        at = end;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(fill: &Fill, name: &str, count: u64) -> Vec<f32> {
        let mut bytes = Vec::new();
        write(fill, (7, name), count, Stored::As(Element::Fp32), &mut bytes, &mut |_| {})
            .expect("memory");
        bytes.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().expect("4"))).collect()
    }

    #[test]
    fn weights_have_the_deviation_that_keeps_sums_at_unit_variance() {
        let values = drawn(&Fill::fan_in(1.0, 64), "w", 200_000);
        let count = values.len() as f64;
        let mean = values.iter().map(|value| f64::from(*value)).sum::<f64>() / count;
        let square = values.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>() / count;
        assert!(mean.abs() < 0.001, "{mean}");
        assert!((square * 64.0 - 1.0).abs() < 0.01, "{square}");
    }

    #[test]
    fn a_tensors_values_depend_on_its_name_and_not_on_its_length() {
        let fill = Fill::deviation(1.0);
        let long = drawn(&fill, "w", PIECE + 3);
        assert_eq!(drawn(&fill, "w", 5), long[..5]);
        assert_ne!(drawn(&fill, "v", 5), long[..5]);
        let computed = Fill::Computed(Box::new(|index| index as f32));
        assert_eq!(drawn(&computed, "w", 3), [0.0, 1.0, 2.0]);
    }
}
