//! Inputs of the model: shapes, and sources of values.

use std::collections::BTreeMap;

use host_record::protocol::CaseFiles;
use host_record::{CaseSpec, Failure, InputSource, SyntheticInput};
use plugin_api::client::{DataType, Dimension, ModelInfo, TensorData, TensorInfo, ValueKind};

use crate::failure::input;
use crate::npy::NpyFile;
use crate::synthetic;

/// Number of batches drawn from the seed, without a data set.
const SYNTHETIC_BATCHES: u64 = 4;

/// Batches of one `offline` query, without a data set.
const OFFLINE_BATCHES: u64 = 24;

/// Batches that may lie on the device at once.
const RESIDENT_BATCHES: u64 = 64;

/// Bytes that they may take, unless a single batch takes more.
const RESIDENT_BYTES: u64 = 256 << 20;

/// The inputs of a case.
#[derive(Debug)]
pub(crate) struct Examples {
    batch: u64,
    seed: u64,
    inputs: Vec<Input>,
    /// Examples in the data set; `None` if inputs are drawn.
    pub(crate) count: Option<u64>,
    /// Class labels, one for each example; empty if there are none.
    pub(crate) labels: Vec<i64>,
}

#[derive(Debug)]
struct Input {
    name: String,
    dtype: DataType,
    /// Of a whole batch.
    shape: Vec<i64>,
    source: Source,
}

#[derive(Debug)]
enum Source {
    File(NpyFile),
    Drawn { low: f64, high: f64 },
}

impl Examples {
    /// Settles shape and source of each input that the model declares.
    pub(crate) fn new(
        case: &CaseSpec,
        files: &CaseFiles,
        model: &ModelInfo,
    ) -> Result<Self, Failure> {
        let batch = u64::from(case.key.batch);
        if batch == 0 {
            return Err(input("a batch of no examples"));
        }
        for TensorInfo { name, kind, dtype, .. } in &model.inputs {
            if *kind != ValueKind::Tensor {
                let kind = kind.name();
                return Err(input(format!("`{name}` is a {kind}, and only tensors can be given")));
            }
            if dtype.is_some_and(DataType::is_text) {
                return Err(input(format!(
                    "`{name}` takes texts, which can neither be drawn nor read from a file"
                )));
            }
        }
        let (inputs, count, labels) = match &case.inputs {
            InputSource::Files { inputs: named, .. } => {
                check_names(named.keys(), model)?;
                let mut inputs = Vec::new();
                for info in &model.inputs {
                    let name = &info.name;
                    let path = files.inputs.get(name).ok_or_else(|| {
                        input(format!("the model's input `{name}` has no file; give it one"))
                    })?;
                    let file = NpyFile::open(path)?;
                    let shape = file_shape(info, &file, case).map_err(|what| {
                        input(format!("`{name}` from {}: {what}", path.display()))
                    })?;
                    let dtype = file.dtype;
                    inputs.push(Input {
                        name: name.clone(),
                        dtype,
                        shape,
                        source: Source::File(file),
                    });
                }
                let count = example_count(&inputs)?;
                let labels = match &files.labels {
                    Some(path) => NpyFile::open(path)?.labels()?,
                    None => Vec::new(),
                };
                if !labels.is_empty() && Some(labels.len() as u64) != count {
                    return Err(input(format!(
                        "there are {} labels for {} examples; expected one for each",
                        labels.len(),
                        count.unwrap_or(0)
                    )));
                }
                (inputs, count, labels)
            }
            InputSource::Synthetic(settings) => {
                check_names(settings.keys(), model)?;
                let uniform = SyntheticInput { dimensions: BTreeMap::new(), low: 0.0, high: 1.0 };
                let mut inputs = Vec::new();
                for info in &model.inputs {
                    let name = &info.name;
                    let settings = settings.get(name).unwrap_or(&uniform);
                    let shape = synthetic_shape(info, settings, case)
                        .map_err(|what| input(format!("`{name}`: {what}")))?;
                    let source = Source::Drawn { low: settings.low, high: settings.high };
                    let dtype = info.dtype.unwrap_or(DataType::F32);
                    inputs.push(Input { name: name.clone(), dtype, shape, source });
                }
                check_batch(model, batch)?;
                (inputs, None, Vec::new())
            }
        };
        let examples = Self { batch, seed: case.seed, inputs, count, labels };
        match examples.batch_bytes() {
            Some(_) => Ok(examples),
            None => Err(input(format!("a batch of {batch} does not fit into memory"))),
        }
    }

    /// Returns the shape of each input, in the model's order.
    pub(crate) fn shapes(&self) -> Vec<Vec<i64>> {
        self.inputs.iter().map(|input| input.shape.clone()).collect()
    }

    /// Returns the number of different batches; the last one of a data set is filled up with the
    /// first examples.
    pub(crate) fn batches(&self) -> u64 {
        self.count.map_or(SYNTHETIC_BATCHES, |count| count.div_ceil(self.batch))
    }

    /// Returns the number of batches to keep on the device while measuring, taken in turn: all of
    /// the data set if they are at most 64 and take at most 256 MiB, otherwise as many as that
    /// allows.
    pub(crate) fn resident_batches(&self) -> u64 {
        let bytes = self.batch_bytes().unwrap_or(u64::MAX).max(1);
        self.batches().min(RESIDENT_BATCHES).min((RESIDENT_BYTES / bytes).max(1))
    }

    /// Batches in one `offline` query of at least `examples` examples, or of the data set.
    pub(crate) fn offline_batches(&self, examples: Option<u64>) -> u64 {
        let examples = examples.or(self.count).unwrap_or(self.batch * OFFLINE_BATCHES);
        examples.div_ceil(self.batch).max(1)
    }

    /// Makes a batch: each input, in the model's order.
    pub(crate) fn batch(&mut self, index: u64) -> Result<Vec<TensorData>, Failure> {
        self.batch_from(index, index * self.batch)
    }

    /// Returns two different batches, to see whether outputs follow their inputs. In a data set that
    /// fills no more than one, the second begins at the second example; a data set of one batch gives
    /// only one.
    pub(crate) fn different_batches(&mut self) -> Result<Vec<Vec<TensorData>>, Failure> {
        let first = self.batch(0)?;
        Ok(match self.count {
            Some(0 | 1) => vec![first],
            Some(count) if count <= self.batch => vec![first, self.batch_from(1, 1)?],
            _ => vec![first, self.batch(1)?],
        })
    }

    fn batch_from(&mut self, index: u64, first: u64) -> Result<Vec<TensorData>, Failure> {
        let (batch, seed) = (self.batch, self.seed);
        let make = |input_: &mut Input| {
            let bytes = match &mut input_.source {
                Source::File(file) => {
                    let mut bytes = Vec::new();
                    file.read(first, batch, &mut bytes)?;
                    bytes
                }
                Source::Drawn { low, high } => {
                    let count = elements(&input_.shape).unwrap_or(0) as usize;
                    let mut generator = synthetic::generator(seed, &input_.name, index);
                    synthetic::draw(input_.dtype, count, (*low, *high), &mut generator)
                        .map_err(|what| input(format!("`{}`: {what}", input_.name)))?
                }
            };
            Ok(TensorData { dtype: input_.dtype, shape: input_.shape.clone(), bytes })
        };
        self.inputs.iter_mut().map(make).collect()
    }

    fn batch_bytes(&self) -> Option<u64> {
        let bytes = self.inputs.iter().try_fold(0_u64, |sum, input| {
            sum.checked_add(elements(&input.shape)?.checked_mul(input.dtype.size() as u64)?)
        });
        bytes.filter(|bytes| *bytes <= isize::MAX as u64)
    }
}

fn elements(shape: &[i64]) -> Option<u64> {
    shape.iter().try_fold(1_u64, |count, size| count.checked_mul(u64::try_from(*size).ok()?))
}

fn check_names<'a>(
    names: impl Iterator<Item = &'a String>,
    model: &ModelInfo,
) -> Result<(), Failure> {
    let known: Vec<_> = model.inputs.iter().map(|info| info.name.as_str()).collect();
    for name in names {
        if !known.contains(&name.as_str()) {
            let known = known.join("`, `");
            return Err(input(format!("the model has no input `{name}`; it has `{known}`")));
        }
    }
    Ok(())
}

fn example_count(inputs: &[Input]) -> Result<Option<u64>, Failure> {
    let mut first: Option<(&str, u64)> = None;
    for input_ in inputs {
        let Source::File(file) = &input_.source else { continue };
        match first {
            None if file.examples == 0 => {
                return Err(input(format!("the file of `{}` holds no example", input_.name)));
            }
            None => first = Some((&input_.name, file.examples)),
            Some((_, count)) if count == file.examples => {}
            Some((name, count)) => {
                return Err(input(format!(
                    "`{name}` has {count} examples, and `{}` has {}",
                    input_.name, file.examples
                )));
            }
        }
    }
    Ok(first.map(|(_, count)| count))
}

/// Returns the shape of a batch from a file, checked against the model's declaration.
fn file_shape(info: &TensorInfo, file: &NpyFile, case: &CaseSpec) -> Result<Vec<i64>, String> {
    if let Some(dtype) = info.dtype.filter(|dtype| *dtype != file.dtype) {
        return Err(format!(
            "the model wants {dtype}, the file has {}; save `array.astype(\"{dtype}\")`",
            file.dtype
        ));
    }
    let sizes: Vec<u64> =
        std::iter::once(u64::from(case.key.batch)).chain(file.shape.iter().copied()).collect();
    if let Some(dimensions) = &info.dimensions {
        let found = || {
            let examples = std::iter::once(file.examples).chain(file.shape.iter().copied());
            format!(
                "the model wants {}, the file has {:?}",
                shown(dimensions),
                Vec::from_iter(examples)
            )
        };
        if dimensions.len() != sizes.len() {
            return Err(found());
        }
        for (axis, (dimension, size)) in dimensions.iter().zip(&sizes).enumerate() {
            match dimension {
                Dimension::Fixed(wanted) if axis == 0 && wanted != size => {
                    return Err(fixed_batch(*wanted, *size));
                }
                Dimension::Fixed(wanted) if wanted != size => return Err(found()),
                Dimension::Dynamic(name) if axis > 0 && is_sequence(name) => {
                    if let Some(length) = case.key.sequence_length
                        && u64::from(length) != *size
                    {
                        return Err(format!(
                            "the case wants sequences of {length}, the file has {size}"
                        ));
                    }
                }
                _ => {}
            }
        }
    }
    sizes.into_iter().map(to_axis).collect()
}

/// Returns the shape of a drawn batch.
fn synthetic_shape(
    info: &TensorInfo,
    settings: &SyntheticInput,
    case: &CaseSpec,
) -> Result<Vec<i64>, String> {
    let dimensions = info.dimensions.as_ref().ok_or(
        "the model does not say which shape it has, so it cannot be drawn; give it a file",
    )?;
    let batch_axis = batch_axis(dimensions);
    let takes_size = |key: &str| {
        dimensions.iter().enumerate().any(|(axis, dimension)| match dimension {
            Dimension::Dynamic(name) if Some(axis) != batch_axis => {
                key == name || key == axis.to_string()
            }
            _ => false,
        })
    };
    if let Some(key) = settings.dimensions.keys().find(|key| !takes_size(key)) {
        let whole = shown(dimensions);
        return Err(format!("there is no axis `{key}` to give a size to in {whole}"));
    }
    let mut shape = Vec::new();
    for (axis, dimension) in dimensions.iter().enumerate() {
        let number = axis.to_string();
        let size = match dimension {
            Dimension::Fixed(size) => *size,
            Dimension::Dynamic(_) if Some(axis) == batch_axis => case.key.batch.into(),
            Dimension::Dynamic(name) => {
                let keys = [name.as_str(), number.as_str()];
                let given = keys.iter().find_map(|key| settings.dimensions.get(*key));
                let length = case.key.sequence_length.filter(|_| is_sequence(name));
                length.map(u64::from).or(given.copied()).ok_or_else(|| {
                    let axis = if name.is_empty() { number } else { format!("{axis} (`{name}`)") };
                    let whole = shown(dimensions);
                    format!(
                        "axis {axis} of {whole} has no fixed size; give it one under `dimensions`"
                    )
                })?
            }
        };
        shape.push(to_axis(size)?);
    }
    Ok(shape)
}

/// Checks that at least one input takes batches of this size.
fn check_batch(model: &ModelInfo, batch: u64) -> Result<(), Failure> {
    let mut fixed = None;
    for info in &model.inputs {
        let Some(dimensions) = &info.dimensions else { return Ok(()) };
        if batch_axis(dimensions).is_some() {
            return Ok(());
        }
        match dimensions.first() {
            Some(Dimension::Fixed(size)) if *size == batch => return Ok(()),
            Some(Dimension::Fixed(size)) => fixed = fixed.or(Some(*size)),
            _ => {}
        }
    }
    match fixed {
        Some(fixed) => Err(input(fixed_batch(fixed, batch))),
        None => Ok(()),
    }
}

fn fixed_batch(fixed: u64, batch: u64) -> String {
    format!(
        "the model's first axis is fixed at {fixed}, the case wants a batch of {batch}; export \
         the model with a dynamic batch axis, or leave this batch size out"
    )
}

/// Returns the axis that counts examples: one with such a name, otherwise the first.
fn batch_axis(dimensions: &[Dimension]) -> Option<usize> {
    let named = dimensions.iter().position(|dimension| {
        matches!(dimension, Dimension::Dynamic(name) if name.to_lowercase().contains("batch"))
    });
    let first = || matches!(dimensions.first(), Some(Dimension::Dynamic(_))).then_some(0);
    named.or_else(first)
}

/// Returns whether an axis of this name counts the tokens of a sequence.
fn is_sequence(name: &str) -> bool {
    name.to_lowercase().contains("seq")
}

fn to_axis(size: u64) -> Result<i64, String> {
    i64::try_from(size).map_err(|_| format!("an axis of {size} is too long"))
}

fn shown(dimensions: &[Dimension]) -> String {
    let axes: Vec<_> = dimensions
        .iter()
        .map(|dimension| match dimension {
            Dimension::Fixed(size) => size.to_string(),
            Dimension::Dynamic(name) if name.is_empty() => "?".into(),
            Dimension::Dynamic(name) => name.clone(),
        })
        .collect();
    format!("[{}]", axes.join(", "))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use host_record::FileId;

    use super::*;
    use crate::npy::tests::write;
    use crate::tests::case;

    fn tensor(name: &str, dtype: DataType, dimensions: Vec<Dimension>) -> TensorInfo {
        let kind = ValueKind::Tensor;
        TensorInfo { name: name.into(), dtype: Some(dtype), dimensions: Some(dimensions), kind }
    }

    fn dynamic(name: &str) -> Dimension {
        Dimension::Dynamic(name.into())
    }

    fn images() -> ModelInfo {
        let dimensions = vec![dynamic("batch"), Dimension::Fixed(2)];
        ModelInfo { inputs: vec![tensor("image", DataType::U8, dimensions)], outputs: Vec::new() }
    }

    fn tokens() -> ModelInfo {
        let ids = vec![dynamic("batch"), dynamic("sequence"), dynamic("width")];
        let mask = vec![dynamic(""), dynamic("seq_len")];
        let inputs = vec![tensor("ids", DataType::I64, ids), tensor("mask", DataType::F32, mask)];
        ModelInfo { inputs, outputs: Vec::new() }
    }

    /// A case with files.
    type WithFiles = (CaseSpec, CaseFiles);

    fn files(batch: u32, inputs: &[(&str, PathBuf)], labels: Option<PathBuf>) -> WithFiles {
        let id = || FileId { name: "data.npy".into(), sha256: String::new() };
        let mut case = case();
        case.key.batch = batch;
        case.inputs = InputSource::Files {
            inputs: inputs.iter().map(|(name, _)| ((*name).to_owned(), id())).collect(),
            labels: labels.as_ref().map(|_| id()),
        };
        let inputs = inputs.iter().map(|(name, path)| ((*name).to_owned(), path.clone())).collect();
        (case, CaseFiles { inputs, labels, ..CaseFiles::default() })
    }

    fn drawn(batch: u32, inputs: &[(&str, SyntheticInput)]) -> WithFiles {
        let inputs = inputs.iter().map(|(name, input)| ((*name).to_owned(), input.clone()));
        let mut case = case();
        case.key.batch = batch;
        case.inputs = InputSource::Synthetic(inputs.collect());
        (case, CaseFiles::default())
    }

    fn examples_of((case, files): &WithFiles, model: &ModelInfo) -> Result<Examples, Failure> {
        Examples::new(case, files, model)
    }

    fn refusal(case: &WithFiles, model: &ModelInfo) -> String {
        let failure = examples_of(case, model).expect_err("it cannot be used");
        let folder = std::env::temp_dir();
        let text = failure.to_string();
        // Temporary folders have other names each time.
        match text.split_once(folder.to_str().expect("UTF-8")) {
            Some((before, after)) => {
                let after =
                    after.trim_start_matches('/').split_once('/').map_or(after, |(_, after)| after);
                format!("{before}{after}")
            }
            None => text,
        }
    }

    #[test]
    fn a_data_set_is_cut_into_batches_and_the_last_is_filled_up() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = write(folder.path(), "x.npy", "|u1", "(3, 2)", &[1, 2, 3, 4, 5, 6]);
        let labels = write(folder.path(), "y.npy", "|u1", "(3,)", &[7, 8, 9]);
        let case = files(2, &[("image", path)], Some(labels));
        let mut examples = examples_of(&case, &images()).expect("they fit");
        assert_eq!(examples.count, Some(3));
        assert_eq!(examples.labels, [7, 8, 9]);
        assert_eq!(examples.shapes(), [[2, 2]]);
        assert_eq!((examples.batches(), examples.resident_batches()), (2, 2));
        assert_eq!((examples.offline_batches(None), examples.offline_batches(Some(5))), (2, 3));
        assert_eq!(examples.batch(0).expect("a batch")[0].bytes, [1, 2, 3, 4]);
        assert_eq!(examples.batch(1).expect("a batch")[0].bytes, [5, 6, 1, 2]);
    }

    #[test]
    fn files_that_do_not_fit_say_what_was_expected_and_found() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let write = |name: &str, dtype: &str, shape: &str, data: &[u8]| {
            write(folder.path(), name, dtype, shape, data)
        };
        let good = write("good.npy", "|u1", "(3, 2)", &[0; 6]);
        let model = images();
        insta::assert_snapshot!(refusal(&files(1, &[("picture", good.clone())], None), &model), @"input: the model has no input `picture`; it has `image`");
        insta::assert_snapshot!(refusal(&files(1, &[], None), &model), @"input: the model's input `image` has no file; give it one");
        let floats = write("floats.npy", "<f4", "(1, 2)", &[0; 8]);
        insta::assert_snapshot!(refusal(&files(1, &[("image", floats)], None), &model), @r#"input: `image` from floats.npy: the model wants uint8, the file has float32; save `array.astype("uint8")`"#);
        let wide = write("wide.npy", "|u1", "(2, 3)", &[0; 6]);
        insta::assert_snapshot!(refusal(&files(1, &[("image", wide)], None), &model), @"input: `image` from wide.npy: the model wants [batch, 2], the file has [2, 3]");
        let deep = write("deep.npy", "|u1", "(1, 2, 3)", &[0; 6]);
        insta::assert_snapshot!(refusal(&files(1, &[("image", deep)], None), &model), @"input: `image` from deep.npy: the model wants [batch, 2], the file has [1, 2, 3]");
        let empty = write("empty.npy", "|u1", "(0, 2)", &[]);
        insta::assert_snapshot!(refusal(&files(1, &[("image", empty)], None), &model), @"input: the file of `image` holds no example");
        let labels = write("labels.npy", "|u1", "(2,)", &[0; 2]);
        insta::assert_snapshot!(refusal(&files(1, &[("image", good.clone())], Some(labels)), &model), @"input: there are 2 labels for 3 examples; expected one for each");
        let fixed = vec![Dimension::Fixed(1), Dimension::Fixed(2)];
        let fixed =
            ModelInfo { inputs: vec![tensor("image", DataType::U8, fixed)], outputs: Vec::new() };
        insta::assert_snapshot!(refusal(&files(8, &[("image", good.clone())], None), &fixed), @"input: `image` from good.npy: the model's first axis is fixed at 1, the case wants a batch of 8; export the model with a dynamic batch axis, or leave this batch size out");

        let mut two = images();
        let other = tensor("other", DataType::F32, Vec::new());
        two.inputs.push(TensorInfo { dtype: None, dimensions: None, ..other });
        let short = write("short.npy", "|u1", "(2,)", &[0; 2]);
        insta::assert_snapshot!(refusal(&files(1, &[("image", good), ("other", short)], None), &two), @"input: `image` has 3 examples, and `other` has 2");
    }

    #[test]
    fn drawn_inputs_take_their_sizes_from_model_and_case() {
        let width = |key: &str| SyntheticInput {
            dimensions: BTreeMap::from([(key.to_owned(), 5)]),
            low: 0.0,
            high: 9.0,
        };
        let mut case = drawn(2, &[("ids", width("width"))]);
        case.0.key.sequence_length = Some(3);
        let mut examples = examples_of(&case, &tokens()).expect("they can be drawn");
        assert_eq!(examples.shapes(), [vec![2, 3, 5], vec![2, 3]]);
        assert_eq!((examples.count, examples.batches()), (None, 4));
        assert_eq!(examples.offline_batches(None), 24);
        let first = examples.batch(0).expect("a batch");
        assert_eq!(first[0].bytes.len(), 2 * 3 * 5 * 8);
        assert!(
            first[0].bytes.as_chunks::<8>().0.iter().all(|bytes| i64::from_le_bytes(*bytes) < 10)
        );
        assert_ne!(first, examples.batch(1).expect("a batch"));
        assert_eq!(first, examples.batch(0).expect("a batch"));

        case.0.inputs = drawn(2, &[("ids", width("2"))]).0.inputs;
        assert!(examples_of(&case, &tokens()).is_ok(), "an axis by its number");
        case.0.inputs = drawn(2, &[("ids", width("height"))]).0.inputs;
        insta::assert_snapshot!(refusal(&case, &tokens()), @"input: `ids`: there is no axis `height` to give a size to in [batch, sequence, width]");
        case.0.inputs = drawn(2, &[]).0.inputs;
        insta::assert_snapshot!(refusal(&case, &tokens()), @"input: `ids`: axis 2 (`width`) of [batch, sequence, width] has no fixed size; give it one under `dimensions`");
        case.0.inputs = drawn(2, &[("mask", width("0")), ("ids", width("2"))]).0.inputs;
        insta::assert_snapshot!(refusal(&case, &tokens()), @"input: `mask`: there is no axis `0` to give a size to in [?, seq_len]");

        let fixed = vec![Dimension::Fixed(4), Dimension::Fixed(2)];
        let fixed =
            ModelInfo { inputs: vec![tensor("image", DataType::U8, fixed)], outputs: Vec::new() };
        insta::assert_snapshot!(refusal(&drawn(2, &[]), &fixed), @"input: the model's first axis is fixed at 4, the case wants a batch of 2; export the model with a dynamic batch axis, or leave this batch size out");
        assert!(examples_of(&drawn(4, &[]), &fixed).is_ok(), "the batch that it is fixed at");
        let unknown =
            TensorInfo { dtype: None, dimensions: None, ..tensor("x", DataType::F32, Vec::new()) };
        let unknown = ModelInfo { inputs: vec![unknown], outputs: Vec::new() };
        insta::assert_snapshot!(refusal(&drawn(2, &[]), &unknown), @"input: `x`: the model does not say which shape it has, so it cannot be drawn; give it a file");
    }

    #[test]
    fn large_batches_are_few() {
        let mega = vec![dynamic("batch"), Dimension::Fixed(100 << 20)];
        let mega = ModelInfo { inputs: vec![tensor("x", DataType::U8, mega)], outputs: Vec::new() };
        let resident =
            |batch| examples_of(&drawn(batch, &[]), &mega).expect("it fits").resident_batches();
        assert_eq!((resident(1), resident(2), resident(8)), (2, 1, 1));
        let huge = vec![dynamic("batch"), Dimension::Fixed(u64::MAX / 16)];
        let huge =
            ModelInfo { inputs: vec![tensor("x", DataType::F64, huge)], outputs: Vec::new() };
        insta::assert_snapshot!(refusal(&drawn(64, &[]), &huge), @"input: a batch of 64 does not fit into memory");
    }
}
