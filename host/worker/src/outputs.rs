//! Outputs of the model, as metrics get them, and how much of them is NaN.

use half::{bf16, f16};
use host_record::{Breach, Doubt, OutputBlock, OutputObstacle, OutputValues};
use plugin_api::client::{DataType, TensorData};

use crate::backend::Answer;

/// Bytes of values in one block; a frame may have several times as many.
const BLOCK_BYTES: usize = 8 << 20;

/// Splits the answer to a batch into blocks, leaving out all but the first `examples`.
///
/// # Errors
///
/// Returns the reason if the output has no values per example.
pub(crate) fn blocks(
    name: &str,
    output: &Answer,
    batch: u64,
    first_example: u64,
    examples: u64,
) -> Result<Vec<OutputBlock>, OutputObstacle> {
    let shape = match output {
        Answer::Numbers(data) => &data.shape,
        Answer::Texts(data) => &data.shape,
        Answer::NotATensor(kind) => {
            let value_kind = kind.name().to_owned();
            return Err(OutputObstacle::NotATensor { output: name.into(), value_kind });
        }
    };
    if shape.first().and_then(|size| u64::try_from(*size).ok()) != Some(batch) {
        let shape = shape.clone();
        return Err(OutputObstacle::NoBatchAxis { output: name.into(), shape, batch });
    }
    match output {
        Answer::Numbers(data) if data.dtype == DataType::BOOL => {
            let values: Vec<bool> = data.bytes.iter().map(|byte| *byte != 0).collect();
            let cut = Slicing { name, batch, first_example, examples, bytes: 1 };
            cut.blocks(&values, |values| OutputValues::Booleans(values.to_vec()))
        }
        Answer::Numbers(data) => {
            let values = to_f32(data).ok_or_else(|| OutputObstacle::ElementType {
                output: name.into(),
                element_type: data.dtype.to_string(),
            })?;
            let cut = Slicing { name, batch, first_example, examples, bytes: size_of::<f32>() };
            cut.blocks(&values, |values| OutputValues::Numbers(values.to_vec()))
        }
        Answer::Texts(data) => {
            // As JSON a character takes up to six bytes.
            let longest = data.texts.iter().map(String::len).max().unwrap_or(0);
            let cut = Slicing { name, batch, first_example, examples, bytes: 6 * longest + 3 };
            cut.blocks(&data.texts, |values| OutputValues::Texts(values.to_vec()))
        }
        Answer::NotATensor(_) => Ok(Vec::new()),
    }
}

/// Division of an output into blocks.
struct Slicing<'a> {
    name: &'a str,
    batch: u64,
    first_example: u64,
    examples: u64,
    /// Greatest size of a value in bytes.
    bytes: usize,
}

impl Slicing<'_> {
    fn blocks<T>(
        &self,
        values: &[T],
        own: impl Fn(&[T]) -> OutputValues,
    ) -> Result<Vec<OutputBlock>, OutputObstacle> {
        let Self { name, batch, first_example, examples, bytes } = *self;
        let width = values.len() / batch as usize;
        if width == 0 || width * bytes > BLOCK_BYTES {
            return Err(OutputObstacle::Width { output: name.into(), values: width as u64 });
        }
        let per_block = BLOCK_BYTES / bytes / width;
        let kept = &values[..width * examples.min(batch) as usize];
        let blocks =
            kept.chunks(per_block * width).enumerate().map(|(index, values)| OutputBlock {
                name: name.into(),
                first_example: first_example + (index * per_block) as u64,
                width: width as u64,
                values: own(values),
            });
        Ok(blocks.collect())
    }
}

/// Number of NaN values in an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NotNumbers {
    pub(crate) name: String,
    pub(crate) found: usize,
    pub(crate) of: usize,
}

impl NotNumbers {
    /// Counts them in an output; types without NaN have none.
    pub(crate) fn of(name: &str, output: &TensorData) -> Self {
        macro_rules! count {
            ($type:ty) => {{
                let (values, _) = output.bytes.as_chunks();
                let is_nan =
                    |bytes: &&[u8; size_of::<$type>()]| <$type>::from_ne_bytes(**bytes).is_nan();
                (values.iter().filter(is_nan).count(), values.len())
            }};
        }
        let (found, of) = match output.dtype {
            DataType::F64 => count!(f64),
            DataType::F32 => count!(f32),
            DataType::F16 => count!(f16),
            DataType::BF16 => count!(bf16),
            _ => (0, 0),
        };
        Self { name: name.into(), found, of }
    }

    /// Adds another part of the same output.
    pub(crate) fn and(self, other: &Self) -> Self {
        Self { found: self.found + other.found, of: self.of + other.of, ..self }
    }

    /// Returns that the output is worthless, or a warning about it. A model may answer NaN if
    /// it has no answer; an output that is all NaN is not the requested work. `in_reference` tells whether the
    /// reference has the same ones.
    pub(crate) fn judge(&self, in_reference: bool) -> Result<Option<Doubt>, Breach> {
        let output = || self.name.clone();
        let (nan_values, values) = (self.found as u64, self.of as u64);
        if nan_values == 0 {
            Ok(None)
        } else if nan_values == values {
            Err(Breach::NotANumber { output: output(), values })
        } else {
            Ok(Some(Doubt::NotANumber { output: output(), nan_values, values, in_reference }))
        }
    }
}

/// Widens or rounds to 32-bit floats.
pub(crate) fn to_f32(tensor: &TensorData) -> Option<Vec<f32>> {
    macro_rules! decode {
        ($type:ty, $convert:expr) => {
            tensor
                .bytes
                .as_chunks()
                .0
                .iter()
                .map(|bytes| $convert(<$type>::from_le_bytes(*bytes)))
                .collect()
        };
        ($type:ty) => {
            decode!($type, |value| value as f32)
        };
    }
    Some(match tensor.dtype {
        DataType::F64 => decode!(f64),
        DataType::F32 => decode!(f32, |value| value),
        DataType::F16 => decode!(f16, f16::to_f32),
        DataType::BF16 => decode!(bf16, bf16::to_f32),
        DataType::I64 => decode!(i64),
        DataType::I32 => decode!(i32),
        DataType::I16 => decode!(i16),
        DataType::I8 => decode!(i8),
        DataType::U64 => decode!(u64),
        DataType::U32 => decode!(u32),
        DataType::U16 => decode!(u16),
        DataType::U8 | DataType::BOOL => decode!(u8),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use plugin_api::client::{TextData, ValueKind};

    use super::*;

    fn tensor(dtype: DataType, shape: &[i64], bytes: Vec<u8>) -> TensorData {
        TensorData { dtype, shape: shape.to_vec(), bytes }
    }

    #[test]
    fn every_type_becomes_a_float() {
        let one = |dtype, bytes: &[u8]| to_f32(&tensor(dtype, &[1], bytes.to_vec()));
        assert_eq!(one(DataType::F64, &(-1.5_f64).to_le_bytes()), Some(vec![-1.5]));
        assert_eq!(one(DataType::F16, &f16::from_f32(0.5).to_le_bytes()), Some(vec![0.5]));
        assert_eq!(one(DataType::BF16, &bf16::from_f32(3.0).to_le_bytes()), Some(vec![3.0]));
        assert_eq!(one(DataType::I8, &[0xff]), Some(vec![-1.0]));
        assert_eq!(one(DataType::U8, &[0xff]), Some(vec![255.0]));
        assert_eq!(one(DataType::BOOL, &[1]), Some(vec![1.0]));
        assert_eq!(one(DataType::I64, &(-3_i64).to_le_bytes()), Some(vec![-3.0]));
    }

    #[test]
    fn values_that_are_no_numbers_are_counted() {
        let judged =
            |dtype, bytes: Vec<u8>| NotNumbers::of("y", &tensor(dtype, &[2], bytes)).judge(false);
        let nan = |one: f64, other: f64| {
            let f64s = [one, other].iter().flat_map(|value| value.to_ne_bytes()).collect();
            let halves =
                [one, other].iter().flat_map(|value| f16::from_f64(*value).to_ne_bytes()).collect();
            [judged(DataType::F64, f64s), judged(DataType::F16, halves)]
        };
        assert_eq!(nan(1.0, f64::NEG_INFINITY), [Ok(None), Ok(None)]);
        let one =
            Doubt::NotANumber { output: "y".into(), nan_values: 1, values: 2, in_reference: false };
        assert_eq!(nan(1.0, f64::NAN), [Ok(Some(one.clone())), Ok(Some(one))]);
        let both = Breach::NotANumber { output: "y".into(), values: 2 };
        assert_eq!(nan(f64::NAN, f64::NAN), [Err(both.clone()), Err(both)]);
        // The bits of a NaN, in a type that has none.
        assert_eq!(judged(DataType::U8, vec![0xff; 2]), Ok(None));
        assert_eq!(judged(DataType::F32, Vec::new()), Ok(None));
    }

    #[test]
    fn examples_that_only_fill_the_batch_up_are_left_out() {
        let bytes = (0..6).flat_map(|value| (value as f32).to_le_bytes()).collect();
        let output = Answer::Numbers(tensor(DataType::F32, &[3, 2], bytes));
        let blocks = blocks("scores", &output, 3, 9, 2).expect("values per example");
        assert_eq!(
            blocks,
            [OutputBlock {
                name: "scores".into(),
                first_example: 9,
                width: 2,
                values: vec![0.0, 1.0, 2.0, 3.0].into()
            }]
        );
    }

    #[test]
    fn booleans_and_texts_stay_what_they_are() {
        let booleans = Answer::Numbers(tensor(DataType::BOOL, &[2, 1], vec![0, 1]));
        let found = blocks("mask", &booleans, 2, 0, 2).expect("values per example");
        assert_eq!(found[0].values, OutputValues::Booleans(vec![false, true]));
        let texts = vec!["a".to_owned(), "b".to_owned()];
        let answer = Answer::Texts(TextData { shape: vec![2], texts: texts.clone() });
        let found = blocks("label", &answer, 2, 0, 2).expect("values per example");
        assert_eq!((found[0].width, &found[0].values), (1, &OutputValues::Texts(texts)));
        let reason = blocks("all", &Answer::NotATensor(ValueKind::Map), 2, 0, 2);
        let obstacle =
            OutputObstacle::NotATensor { output: "all".into(), value_kind: "map".into() };
        assert_eq!(reason, Err(obstacle));
    }

    #[test]
    fn large_outputs_are_split_between_examples() {
        let width = BLOCK_BYTES / 4 / 3;
        let output = tensor(DataType::U8, &[7, width as i64], vec![1; 7 * width]);
        let output = Answer::Numbers(output);
        let blocks = blocks("mask", &output, 7, 0, 7).expect("values per example");
        let starts: Vec<_> =
            blocks.iter().map(|block| (block.first_example, block.values.len() / width)).collect();
        assert_eq!(starts, [(0, 3), (3, 3), (6, 1)]);
    }

    #[test]
    fn outputs_without_a_batch_axis_are_reported() {
        let output = Answer::Numbers(tensor(DataType::F32, &[2], vec![0; 8]));
        assert_eq!(
            blocks("loss", &output, 3, 0, 3),
            Err(OutputObstacle::NoBatchAxis { output: "loss".into(), shape: vec![2], batch: 3 })
        );
        let empty = Answer::Numbers(tensor(DataType::F32, &[3, 0], Vec::new()));
        let no_values = OutputObstacle::Width { output: "loss".into(), values: 0 };
        assert_eq!(blocks("loss", &empty, 3, 0, 3), Err(no_values));
    }
}
