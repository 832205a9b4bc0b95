//! Inputs drawn from a seed, the same on every machine.

use half::{bf16, f16};
use host_record::InputOrigin;
use plugin_api::client::DataType;
use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;

/// Returns a generator for one input of one batch. The seed alone would give all inputs the same
/// values.
pub(crate) fn generator(seed: u64, input: &str, batch: u64) -> Pcg64 {
    // FNV-1a, which is short and will never change.
    let name = input.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    Pcg64::new(u128::from(seed) << 64 | u128::from(batch), u128::from(name))
}

/// Makes the elements of an input that no file has.
///
/// # Errors
///
/// The reason why there are no such values, in one sentence.
pub(crate) fn make(
    dtype: DataType,
    shape: &[i64],
    origin: &InputOrigin,
    generator: &mut Pcg64,
) -> Result<Vec<u8>, String> {
    let count = shape.iter().map(|size| usize::try_from(*size).unwrap_or(0)).product();
    let range = match origin {
        InputOrigin::Declared { low, high } => (*low, *high),
        InputOrigin::Index { entries, .. } => (0.0, entries.saturating_sub(1) as f64),
        InputOrigin::Ones => (1.0, 1.0),
        InputOrigin::Positions => return positions(dtype, shape, count),
        InputOrigin::Examples | InputOrigin::Whole | InputOrigin::Default => (0.0, 1.0),
    };
    draw(dtype, count, range, generator)
}

/// Returns 0, 1, 2, … along the last axis.
fn positions(dtype: DataType, shape: &[i64], count: usize) -> Result<Vec<u8>, String> {
    let length = shape.last().map_or(1, |length| usize::try_from(*length).unwrap_or(0));
    if greatest(dtype).is_none_or(|greatest| length as u64 > greatest.saturating_add(1)) {
        return Err(format!("there are no {length} positions of the type {dtype}"));
    }
    let position = |index: usize| (index % length.max(1)) as u128;
    // In two's complement the lowest bytes are those of the narrower number.
    let bytes = |index| position(index).to_le_bytes().into_iter().take(dtype.size());
    Ok((0..count).flat_map(bytes).collect())
}

/// Returns the greatest whole number of a type of whole numbers.
pub(crate) fn greatest(dtype: DataType) -> Option<u64> {
    whole_range(dtype).map(|(_, greatest)| greatest as u64)
}

/// Draws `count` elements uniformly between `low` and `high`, both included for whole numbers.
///
/// # Errors
///
/// The reason why the range does not exist, in one sentence.
pub(crate) fn draw(
    dtype: DataType,
    count: usize,
    (low, high): (f64, f64),
    generator: &mut Pcg64,
) -> Result<Vec<u8>, String> {
    if !(low <= high && low.is_finite() && high.is_finite()) {
        return Err(format!("there are no values from {low} to {high}"));
    }
    let mut unit = || (generator.next_u64() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64);
    let mut real = || low + (high - low) * unit();
    macro_rules! reals {
        ($convert:expr) => {
            (0..count).flat_map(|_| $convert(real()).to_le_bytes()).collect()
        };
    }
    Ok(match dtype {
        DataType::F64 => reals!(|value: f64| value),
        DataType::F32 => reals!(|value: f64| value as f32),
        DataType::F16 => reals!(f16::from_f64),
        DataType::BF16 => reals!(bf16::from_f64),
        _ => {
            let (least, most) = whole_range(dtype)
                .ok_or_else(|| format!("values of the type {dtype} cannot be drawn"))?;
            let (first, last) = (low.ceil(), high.floor());
            if first > last || first < least || last > most {
                return Err(format!("no whole numbers of the type {dtype} from {low} to {high}"));
            }
            let choices = last - first + 1.0;
            // A product that rounds up must not leave the range.
            let mut whole = || (first + (unit() * choices).floor()).min(last) as i128;
            // In two's complement the lowest bytes are those of the narrower number.
            (0..count).flat_map(|_| whole().to_le_bytes().into_iter().take(dtype.size())).collect()
        }
    })
}

/// Returns the smallest and largest whole number of a type.
fn whole_range(dtype: DataType) -> Option<(f64, f64)> {
    Some(match dtype {
        DataType::I64 => (i64::MIN as f64, i64::MAX as f64),
        DataType::I32 => (i32::MIN.into(), i32::MAX.into()),
        DataType::I16 => (i16::MIN.into(), i16::MAX.into()),
        DataType::I8 => (i8::MIN.into(), i8::MAX.into()),
        DataType::U64 => (0.0, u64::MAX as f64),
        DataType::U32 => (0.0, u32::MAX.into()),
        DataType::U16 => (0.0, u16::MAX.into()),
        DataType::U8 => (0.0, u8::MAX.into()),
        DataType::BOOL => (0.0, 1.0),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn whole(
        dtype: DataType,
        count: usize,
        range: (f64, f64),
        batch: u64,
    ) -> Result<Vec<u8>, String> {
        draw(dtype, count, range, &mut generator(7, "tokens", batch))
    }

    #[test]
    fn values_are_the_same_on_every_machine() {
        let bytes = |batch| whole(DataType::U8, 8, (0.0, 255.0), batch).expect("a range");
        assert_eq!(bytes(0), [193, 168, 232, 77, 16, 60, 144, 97]);
        assert_eq!(bytes(1), [4, 234, 112, 220, 169, 27, 105, 139]);
        let floats = draw(DataType::F32, 3, (-1.0, 1.0), &mut generator(7, "image", 0));
        let bytes = floats.expect("a range");
        let floats: Vec<f32> =
            bytes.as_chunks().0.iter().copied().map(f32::from_le_bytes).collect();
        assert_eq!(floats, [0.990_208_2, -0.626_888_9, -0.835_660_7]);
    }

    #[test]
    fn ranges_without_values_are_refused() {
        insta::assert_snapshot!(
            whole(DataType::I64, 1, (1.0, 0.0), 0).expect_err("no range"),
            @"there are no values from 1 to 0"
        );
        insta::assert_snapshot!(
            whole(DataType::I64, 1, (0.2, 0.8), 0).expect_err("no whole number"),
            @"no whole numbers of the type int64 from 0.2 to 0.8"
        );
        insta::assert_snapshot!(
            whole(DataType::U8, 1, (0.0, 256.0), 0).expect_err("too large"),
            @"no whole numbers of the type uint8 from 0 to 256"
        );
        assert!(whole(DataType::F32, 1, (f64::NAN, 1.0), 0).is_err());
    }

    proptest! {
        #[test]
        fn whole_numbers_stay_in_their_range(low in -128_i8..=127, width in 0_u8..=255, seed: u64) {
            let high = (i32::from(low) + i32::from(width)).min(127);
            let range = (f64::from(low), f64::from(high));
            let bytes = draw(DataType::I8, 200, range, &mut generator(seed, "x", 0)).expect("a range");
            for byte in bytes {
                let value = i32::from(byte as i8);
                prop_assert!(value >= i32::from(low) && value <= high);
            }
        }

        #[test]
        fn reals_stay_in_their_range(low in -1e6_f64..1e6, width in 0.0_f64..1e6, seed: u64) {
            let bytes = draw(DataType::F64, 50, (low, low + width), &mut generator(seed, "x", 0));
            for bytes in bytes.expect("a range").as_chunks().0 {
                let value = f64::from_le_bytes(*bytes);
                prop_assert!(value >= low && value <= low + width);
            }
        }
    }
}
