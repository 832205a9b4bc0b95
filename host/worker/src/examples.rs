//! Inputs of the model: shapes, and sources of values.

use std::collections::BTreeMap;

use host_machine::Machine;
use host_model::{Meaning, Sizes, Wanted};
use host_record::protocol::CaseFiles;
use host_record::words::bytes;
use host_record::{
    AxesUse, AxisObstacle, CaseSpec, Failure, InputOrigin, InputSource, InputUse, LegalValues,
    Mode, Port, PortAxis, SyntheticInput, Unsupported, quoted_key, shown_axes,
};
use plugin_api::client::{DataType, ModelInfo, TensorData, TensorInfo, ValueKind};

use crate::failure::input;
use crate::inspect;
use crate::legal;
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
    axes: AxesUse,
    inputs: Vec<Input>,
    /// Examples in the data set, without those of the test; `None` if inputs are drawn.
    pub(crate) count: Option<u64>,
    /// Class labels, one for each example; empty if there are none.
    pub(crate) labels: Vec<i64>,
    /// Examples at the end of the data set that are a test, and in no batch of [`Self::batch`].
    pub(crate) test: u64,
    /// Class labels of the test.
    pub(crate) test_labels: Vec<i64>,
}

#[derive(Debug)]
struct Input {
    name: String,
    dtype: DataType,
    /// Of a whole batch.
    shape: Vec<i64>,
    source: Source,
    legal: Option<LegalValues>,
}

/// Examples of a batch.
#[derive(Clone, Copy)]
enum Rows<'a> {
    /// One after the other from this one on, and then from the first of the file.
    From(u64),
    /// Those at these positions.
    These(&'a [u64]),
}

#[derive(Debug)]
enum Source {
    /// A file whose first axis counts examples, which lie along an axis of the input.
    Examples {
        file: NpyFile,
        batch_axis: usize,
    },
    /// A file with the whole input.
    Whole(NpyFile),
    Drawn(InputOrigin),
}

fn gap(cause: Unsupported) -> Failure {
    Failure::Gap { gap: Box::new(cause.into()) }
}

/// Converts an obstacle: the model cannot do the case, or the manifest does not fit the model.
fn obstacle(obstacle: AxisObstacle) -> Failure {
    match obstacle.is_gap() {
        true => gap(Unsupported::Axes { obstacle }),
        false => input(obstacle.to_string()),
    }
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
            let other = match dtype {
                _ if *kind != ValueKind::Tensor => kind.name().to_owned(),
                Some(dtype) if dtype.is_text() => dtype.to_string(),
                _ => continue,
            };
            let cause = Unsupported::InputKind { input: name.clone(), value_kind: other };
            return Err(gap(cause));
        }
        check_names(case.inputs.drawn().keys(), model)?;
        let (signature, dimensions) = (inspect::signature(model), case.inputs.dimensions());
        let sizes = Sizes { choice: &case.axes, dimensions: &dimensions };
        let meaning = Meaning::new(&signature, sizes).map_err(obstacle)?;
        let mut opened = open_files(case, files, model)?;
        let mut wanted = Wanted {
            batch,
            length: case.key.sequence_length.map(u64::from),
            given: BTreeMap::new(),
        };
        // Before files are compared with it.
        meaning.check(&wanted).map_err(obstacle)?;
        for (info, port) in model.inputs.iter().zip(&signature.inputs) {
            let Some((path, file)) = opened.get(info.name.as_str()) else { continue };
            let shape = file_shape(info, port, file, &meaning, &wanted)
                .map_err(|what| input(format!("`{}` from {path}: {what}", info.name)))?;
            wanted.given.insert(&info.name, shape);
        }
        let shapes = meaning.shapes(&wanted).map_err(obstacle)?;
        let mut inputs = Vec::new();
        for (info, shape) in model.inputs.iter().zip(shapes) {
            let name = &info.name;
            let shape: Result<Vec<i64>, _> = shape.into_iter().map(to_axis).collect();
            let shape = shape.map_err(|what| input(format!("`{name}`: {what}")))?;
            let file = opened.remove(name.as_str()).map(|(_, file)| file);
            let dtype = file.as_ref().map(|file| file.dtype).or(info.dtype);
            let source = match (file, meaning.batch_axis(name)) {
                (Some(file), Some(batch_axis)) => Source::Examples { file, batch_axis },
                (Some(file), None) => Source::Whole(file),
                (None, _) => Source::Drawn(origin(name, dtype, case)?),
            };
            let dtype = dtype.unwrap_or(DataType::F32);
            let legal = case.values.get(name).cloned();
            inputs.push(Input { name: name.clone(), dtype, shape, source, legal });
        }
        let count = example_count(&inputs)?;
        let mut labels = labels(files, count)?;
        let (count, test) = without_test(count, case.measure.test_examples)?;
        let test_labels = labels.split_off(labels.len().saturating_sub(test as usize));
        let axes = meaning.axes().clone();
        let seed = case.seed;
        let examples = Self { batch, seed, axes, inputs, count, labels, test, test_labels };
        let memory = Machine::this().available_memory();
        examples.check_size(memory)?;
        Ok(examples)
    }

    /// Checks whether a batch fits into memory, twice: its elements here, and the tensors that a backend makes of
    /// them. Memory that cannot be had would end the worker without a word.
    fn check_size(&self, available: Option<u64>) -> Result<(), Failure> {
        let batch = self.batch;
        let shapes = || {
            let shape = |it: &Input| format!("`{}` {:?}", it.name, it.shape);
            self.inputs.iter().map(shape).collect::<Vec<_>>().join(", ")
        };
        let Some(needed) = self.batch_bytes() else {
            return Err(input(format!(
                "a batch of {batch} does not fit into memory: {}",
                shapes()
            )));
        };
        match available {
            Some(available) if needed > available / 2 => Err(input(format!(
                "a batch of {batch} takes {}, and {} of memory are available for it and for the backend's copy: {}; use \
                 a smaller batch, or smaller sizes of axes",
                bytes(needed),
                bytes(available),
                shapes()
            ))),
            _ => Ok(()),
        }
    }

    /// Returns the meaning of the inputs' axes.
    pub(crate) fn axes(&self) -> &AxesUse {
        &self.axes
    }

    /// Returns shape and origin of each input, in the model's order.
    pub(crate) fn uses(&self) -> Vec<InputUse> {
        let one = |input: &Input| InputUse {
            name: input.name.clone(),
            element_type: input.dtype.to_string(),
            shape: input.shape.clone(),
            origin: match &input.source {
                Source::Examples { .. } => InputOrigin::Examples,
                Source::Whole(_) => InputOrigin::Whole,
                Source::Drawn(origin) => origin.clone(),
            },
        };
        self.inputs.iter().map(one).collect()
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
        match self.count {
            // Going on with the first example after the last would go on with the test.
            Some(count) if self.test > 0 => {
                let rows: Vec<u64> = (first..first + self.batch).map(|row| row % count).collect();
                self.make(index, Rows::These(&rows))
            }
            _ => self.make(index, Rows::From(first)),
        }
    }

    /// Makes a batch of these examples of the data set, by their positions in it.
    pub(crate) fn batch_of(&mut self, rows: &[u64]) -> Result<Vec<TensorData>, Failure> {
        self.make(0, Rows::These(rows))
    }

    /// Makes a batch. What is drawn depends on its index.
    fn make(&mut self, index: u64, rows: Rows<'_>) -> Result<Vec<TensorData>, Failure> {
        let (batch, seed) = (self.batch, self.seed);
        let make = |input_: &mut Input| {
            let bytes = match &mut input_.source {
                Source::Examples { file, batch_axis } => {
                    let mut bytes = Vec::new();
                    match rows {
                        Rows::From(first) => file.read(first, batch, &mut bytes)?,
                        Rows::These(rows) => {
                            rows.iter().try_for_each(|row| file.read(*row, 1, &mut bytes))?;
                        }
                    }
                    along(*batch_axis, &input_.shape, input_.dtype, bytes)
                }
                Source::Whole(file) => {
                    let mut bytes = Vec::new();
                    file.read(0, file.examples, &mut bytes)?;
                    bytes
                }
                Source::Drawn(origin) => {
                    let mut generator = synthetic::generator(seed, &input_.name, index);
                    synthetic::make(input_.dtype, &input_.shape, origin, &mut generator)
                        .map_err(|what| input(format!("`{}`: {what}", input_.name)))?
                }
            };
            if let Some(legal) = &input_.legal {
                legal::check(legal, input_.dtype, &bytes)
                    .map_err(|what| input(format!("`{}`: {what}", input_.name)))?;
            }
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

/// Moves examples that lie one after the other to an axis of a shape.
fn along(axis: usize, shape: &[i64], dtype: DataType, bytes: Vec<u8>) -> Vec<u8> {
    if axis == 0 {
        return bytes;
    }
    let count = |sizes: &[i64]| sizes.iter().map(|size| *size as usize).product::<usize>();
    let (outer, batch) = (count(&shape[..axis]), shape[axis] as usize);
    let inner = count(&shape[axis + 1..]) * dtype.size();
    let mut moved = Vec::with_capacity(bytes.len());
    for row in 0..outer {
        for example in 0..batch {
            let at = (example * outer + row) * inner;
            moved.extend_from_slice(&bytes[at..at + inner]);
        }
    }
    moved
}

/// Returns how an input without a file is drawn.
fn origin(name: &str, dtype: Option<DataType>, case: &CaseSpec) -> Result<InputOrigin, Failure> {
    if let Some((low, high)) = case.inputs.drawn().get(name).and_then(SyntheticInput::range) {
        return Ok(InputOrigin::Declared { low, high });
    }
    Ok(match case.values.get(name) {
        Some(
            LegalValues::Index { entries, operator } | LegalValues::Below { entries, operator },
        ) => {
            // A table may have more entries than the type has numbers.
            let most = dtype.and_then(synthetic::greatest).unwrap_or(u64::MAX);
            let entries = (*entries).min(most.saturating_add(1));
            InputOrigin::Index { entries, operator: operator.clone() }
        }
        Some(LegalValues::Ones) => InputOrigin::Ones,
        Some(LegalValues::Positions { .. }) => InputOrigin::Positions,
        Some(LegalValues::Steers) => return Err(input(steers(name))),
        Some(LegalValues::Computed { entries, operator }) => {
            return Err(input(format!(
                "`{operator}` computes with `{name}` before it is looked up in a table of {entries} entries, so it is not \
                 known which values are legal; give it a range in the `[[model]]`, such as \
                 `inputs.{} = {{ low = 0, high = 100 }}`",
                quoted_key(name)
            )));
        }
        None => InputOrigin::Default,
    })
}

/// Writes that a value is wanted.
fn steers(name: &str) -> String {
    format!(
        "`{name}` decides what is computed, or how much (a branch, rounds of a loop or a size), and has no usual value; \
         give it a range in the \
         `[[model]]`, such as `inputs.{} = {{ low = 10, high = 10 }}`",
        quoted_key(name)
    )
}

/// Checks names of inputs. Those that a mode adds are no mistake: another case of the matrix may have it, and a model's
/// file does not name them.
fn check_names<'a>(
    names: impl Iterator<Item = &'a String>,
    model: &ModelInfo,
) -> Result<(), Failure> {
    let known: Vec<_> = model.inputs.iter().map(|info| info.name.as_str()).collect();
    let further = |name: &str| Mode::ALL.iter().any(|mode| mode.further_input() == Some(name));
    for name in names {
        if !known.contains(&name.as_str()) && !further(name) {
            let known = known.join("`, `");
            return Err(input(format!("the model has no input `{name}`; it has `{known}`")));
        }
    }
    Ok(())
}

/// Opens the file of each input that has one. In a data set, an input that is neither in it nor drawn on
/// purpose was forgotten.
fn open_files<'a>(
    case: &CaseSpec,
    files: &CaseFiles,
    model: &'a ModelInfo,
) -> Result<BTreeMap<&'a str, (String, NpyFile)>, Failure> {
    let InputSource::Files { inputs: named, drawn, .. } = &case.inputs else {
        return Ok(BTreeMap::new());
    };
    check_names(named.keys(), model)?;
    let mut opened = BTreeMap::new();
    for TensorInfo { name, .. } in &model.inputs {
        match files.inputs.get(name) {
            Some(path) => {
                opened.insert(name.as_str(), (path.display().to_string(), NpyFile::open(path)?));
            }
            None if drawn.contains_key(name) => {}
            None => {
                return Err(input(format!(
                    "the model's input `{name}` has no file; give it one under `data`, or an entry under \
                     `inputs` to draw it"
                )));
            }
        }
    }
    Ok(opened)
}

/// Divides a data set: examples, and examples of the test at its end.
fn without_test(count: Option<u64>, test: Option<u64>) -> Result<(Option<u64>, u64), Failure> {
    match (count, test) {
        (count, None) => Ok((count, 0)),
        (Some(count), Some(test)) if test < count => Ok((Some(count - test), test)),
        (Some(count), Some(test)) => Err(input(format!(
            "`measure.test-examples` is {test}, and the data set has {count} examples; leave some to train on"
        ))),
        (None, Some(_)) => Err(input(
            "`measure.test-examples` are the last of a data set, and the model has none; give it files under `data`",
        )),
    }
}

fn labels(files: &CaseFiles, count: Option<u64>) -> Result<Vec<i64>, Failure> {
    let Some(path) = &files.labels else { return Ok(Vec::new()) };
    let labels = NpyFile::open(path)?.labels()?;
    if !labels.is_empty() && Some(labels.len() as u64) != count {
        return Err(input(format!(
            "there are {} labels for {} examples; expected one for each",
            labels.len(),
            count.unwrap_or(0)
        )));
    }
    Ok(labels)
}

fn example_count(inputs: &[Input]) -> Result<Option<u64>, Failure> {
    let mut first: Option<(&str, u64)> = None;
    for input_ in inputs {
        let Source::Examples { file, .. } = &input_.source else { continue };
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

/// Returns the shape of an input from a file, checked against the model's declaration. Examples take the place of
/// the batch axis; an input without one has the shape of the whole file.
fn file_shape(
    info: &TensorInfo,
    port: &Port,
    file: &NpyFile,
    meaning: &Meaning<'_>,
    wanted: &Wanted<'_>,
) -> Result<Vec<u64>, String> {
    if let Some(dtype) = info.dtype.filter(|dtype| *dtype != file.dtype) {
        return Err(format!(
            "the model wants {dtype}, the file has {}; save `array.astype(\"{dtype}\")`",
            file.dtype
        ));
    }
    let whole = file.whole_shape();
    let batch_axis = meaning.batch_axis(&info.name);
    if whole.is_empty() && batch_axis.is_some() {
        return Err("it is a single number; its first axis should count examples".into());
    }
    let shape = match batch_axis {
        Some(axis) if axis < whole.len() => {
            let mut shape = file.shape.clone();
            shape.insert(axis, wanted.batch);
            shape
        }
        _ => whole.clone(),
    };
    let Some(axes) = &port.axes else { return Ok(shape) };
    let fits = |(axis, size): (&PortAxis, &u64)| match axis {
        PortAxis::Fixed(wanted) => wanted == size,
        PortAxis::Dynamic(_) => true,
    };
    if axes.len() != shape.len() || !axes.iter().zip(&shape).all(fits) {
        return Err(format!("the model wants {}, the file has {whole:?}", shown_axes(axes)));
    }
    let places = meaning.axes().sequence.places.iter().filter(|place| place.input == info.name);
    for place in places {
        let found = shape.get(place.axis as usize);
        if let (Some(length), Some(found)) = (wanted.length, found)
            && length != *found
        {
            return Err(format!("the case wants sequences of {length}, the file has {found}"));
        }
    }
    Ok(shape)
}

fn to_axis(size: u64) -> Result<i64, String> {
    i64::try_from(size).map_err(|_| format!("an axis of {size} is too long"))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use host_record::{AxisName, FileId};
    use plugin_api::client::Dimension;

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
        let id = || FileId { name: "data.npy".into(), sha256: String::new(), ..FileId::default() };
        let mut case = case();
        case.key.batch = batch;
        case.inputs = InputSource::Files {
            inputs: inputs.iter().map(|(name, _)| ((*name).to_owned(), id())).collect(),
            labels: labels.as_ref().map(|_| id()),
            drawn: BTreeMap::new(),
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
    fn examples_of_the_test_are_in_no_batch() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = write(folder.path(), "x.npy", "|u1", "(4, 2)", &[1, 2, 3, 4, 5, 6, 7, 8]);
        let labels = write(folder.path(), "y.npy", "|u1", "(4,)", &[6, 7, 8, 9]);
        // A file for the loss is for training.
        let mut case = files(2, &[("image", path.clone()), ("target", path)], Some(labels));
        case.0.measure.test_examples = Some(1);
        let mut examples = examples_of(&case, &images()).expect("they fit");
        assert_eq!((examples.count, examples.test), (Some(3), 1));
        assert_eq!((&*examples.labels, &*examples.test_labels), (&[6, 7, 8][..], &[9][..]));
        // The last batch is filled up with the first example, and not with the test.
        assert_eq!(examples.batch(1).expect("a batch")[0].bytes, [5, 6, 1, 2]);
        assert_eq!(examples.batch_of(&[3, 1]).expect("a batch")[0].bytes, [7, 8, 3, 4]);
        case.0.measure.test_examples = Some(4);
        insta::assert_snapshot!(refusal(&case, &images()), @"input: `measure.test-examples` is 4, and the data set has 4 examples; leave some to train on");
        let mut case = drawn(2, &[]);
        case.0.measure.test_examples = Some(4);
        insta::assert_snapshot!(refusal(&case, &images()), @"input: `measure.test-examples` are the last of a data set, and the model has none; give it files under `data`");
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
        insta::assert_snapshot!(refusal(&files(1, &[], None), &model), @"input: the model's input `image` has no file; give it one under `data`, or an entry under `inputs` to draw it");
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
        insta::assert_snapshot!(refusal(&files(8, &[("image", good.clone())], None), &fixed), @"the model's batch axis cannot be 8: axis 0 of `image` is fixed at 1; export the model with a dynamic batch axis, or leave this batch size out");

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
            low: None,
            high: Some(9.0),
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
        insta::assert_snapshot!(refusal(&case, &tokens()), @"input: `ids` has no dynamic axis `height`: it is [batch, sequence, width]");
        case.0.inputs = drawn(2, &[]).0.inputs;
        insta::assert_snapshot!(refusal(&case, &tokens()), @"input: axis 2 (`width`) of `ids` has no size; give it one in the `[[model]]` with `axes.sizes = { width = … }`");

        let fixed = vec![Dimension::Fixed(4), Dimension::Fixed(2)];
        let fixed =
            ModelInfo { inputs: vec![tensor("image", DataType::U8, fixed)], outputs: Vec::new() };
        insta::assert_snapshot!(refusal(&drawn(2, &[]), &fixed), @r#"the model has no batch axis for a batch of 2: axis 0 of `image` is fixed at 4; if that axis counts examples, write `axes.batch = { input = "image", axis = 0 }` in the `[[model]]`, otherwise use batch 1"#);
        let mut declared = drawn(4, &[]);
        declared.0.axes.batch = Some(vec![AxisName::Input { input: "image".into(), axis: 0 }]);
        assert!(examples_of(&declared, &fixed).is_ok(), "the batch that it is fixed at");
        assert!(examples_of(&drawn(1, &[]), &fixed).is_ok(), "a query of its own shape");
        let unknown =
            TensorInfo { dtype: None, dimensions: None, ..tensor("x", DataType::F32, Vec::new()) };
        let unknown = ModelInfo { inputs: vec![unknown], outputs: Vec::new() };
        insta::assert_snapshot!(refusal(&drawn(2, &[]), &unknown), @"input: the model does not say which shape `x` has, so it cannot be drawn; give it a file under `data`");
    }

    #[test]
    fn examples_lie_along_the_batch_axis() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = write(folder.path(), "x.npy", "|u1", "(2, 3, 2)", &Vec::from_iter(0..12));
        let state = tensor(
            "state",
            DataType::U8,
            vec![Dimension::Fixed(3), dynamic("batch"), Dimension::Fixed(2)],
        );
        let model = ModelInfo { inputs: vec![state], outputs: Vec::new() };
        let mut examples =
            examples_of(&files(2, &[("state", path)], None), &model).expect("they fit");
        assert_eq!(examples.shapes(), [[3, 2, 2]]);
        let bytes = &examples.batch(0).expect("a batch")[0].bytes;
        assert_eq!(*bytes, [0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11]);
    }

    #[test]
    fn inputs_without_a_batch_axis_come_from_whole_files() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let image = write(folder.path(), "x.npy", "|u1", "(3, 2)", &[1, 2, 3, 4, 5, 6]);
        let rate = write(folder.path(), "rate.npy", "|u1", "()", &[16]);
        let mut model = images();
        model.inputs.push(tensor("rate", DataType::U8, Vec::new()));
        model.inputs.push(tensor("noise", DataType::U8, vec![Dimension::Fixed(2)]));
        let (mut case, paths) = files(2, &[("image", image), ("rate", rate)], None);
        assert_eq!(
            refusal(&(case.clone(), paths.clone()), &model),
            "input: the model's input `noise` has no file; give it one under `data`, or an entry under \
             `inputs` to draw it"
        );
        let InputSource::Files { drawn, .. } = &mut case.inputs else { panic!("files") };
        let seven = SyntheticInput { dimensions: BTreeMap::new(), low: Some(7.0), high: Some(7.0) };
        drawn.insert("noise".into(), seven);
        let mut examples = examples_of(&(case, paths), &model).expect("they fit");
        assert_eq!(examples.count, Some(3));
        assert_eq!(examples.shapes(), [vec![2, 2], vec![], vec![2]]);
        let second = examples.batch(1).expect("a batch");
        let bytes: Vec<&[u8]> = second.iter().map(|input| &*input.bytes).collect();
        assert_eq!(bytes, [&[5, 6, 1, 2][..], &[16], &[7, 7]]);
    }

    #[test]
    fn ids_before_arithmetic_are_asked_for_and_classes_drawn() {
        let whole =
            |name: &str| tensor(name, DataType::I64, vec![dynamic("batch"), Dimension::Fixed(64)]);
        let model = ModelInfo { inputs: vec![whole("ids")], outputs: Vec::new() };
        let mut case = drawn(2, &[]);
        let computed = LegalValues::Computed { entries: 100, operator: "Mul".into() };
        case.0.values = BTreeMap::from([("ids".to_owned(), computed)]);
        insta::assert_snapshot!(refusal(&case, &model), @r#"input: `Mul` computes with `ids` before it is looked up in a table of 100 entries, so it is not known which values are legal; give it a range in the `[[model]]`, such as `inputs."ids" = { low = 0, high = 100 }`"#);
        let below = LegalValues::Below { entries: 77, operator: "OneHot".into() };
        case.0.values = BTreeMap::from([("ids".to_owned(), below)]);
        let mut examples = examples_of(&case, &model).expect("they can be drawn");
        insta::assert_snapshot!(examples.uses()[0], @"`ids` int64 [2, 64]: drawn from 0 to 76 (OneHot)");
        let batch = examples.batch(0).expect("a batch");
        let ids = batch[0].bytes.as_chunks().0.iter().map(|one| i64::from_le_bytes(*one));
        assert!(ids.clone().all(|id| (0..77).contains(&id)) && ids.clone().any(|id| id > 1));
    }

    #[test]
    fn legal_values_are_drawn_and_told() {
        let whole =
            |name: &str| tensor(name, DataType::I64, vec![dynamic("batch"), Dimension::Fixed(4)]);
        let names = ["ids", "mask", "position_ids", "rounds", "other"];
        let model = ModelInfo { inputs: names.map(whole).into(), outputs: Vec::new() };
        let mut case = drawn(2, &[]);
        let index = LegalValues::Index { entries: 30_522, operator: "Gather".into() };
        case.0.values = BTreeMap::from([
            ("ids".to_owned(), index),
            ("mask".to_owned(), LegalValues::Ones),
            ("position_ids".to_owned(), LegalValues::Positions { entries: None }),
            ("rounds".to_owned(), LegalValues::Steers),
        ]);
        insta::assert_snapshot!(refusal(&case, &model), @r#"input: `rounds` decides what is computed, or how much (a branch, rounds of a loop or a size), and has no usual value; give it a range in the `[[model]]`, such as `inputs."rounds" = { low = 10, high = 10 }`"#);
        let range = SyntheticInput { dimensions: BTreeMap::new(), low: Some(3.0), high: Some(3.0) };
        case.0.inputs = drawn(2, &[("rounds", range)]).0.inputs;
        let mut examples = examples_of(&case, &model).expect("they can be drawn");
        let told: Vec<_> = examples.uses().iter().map(ToString::to_string).collect();
        insta::assert_snapshot!(told.join("\n"), @r#"
        `ids` int64 [2, 4]: drawn from 0 to 30521 (Gather)
        `mask` int64 [2, 4]: ones (mask)
        `position_ids` int64 [2, 4]: 0, 1, 2, … (positions)
        `rounds` int64 [2, 4]: drawn from 3 to 3 (manifest)
        `other` int64 [2, 4]: drawn from 0 to 1 (default)
        "#);
        let batch = examples.batch(0).expect("a batch");
        let numbers = |input: usize| -> Vec<i64> {
            batch[input].bytes.as_chunks().0.iter().map(|one| i64::from_le_bytes(*one)).collect()
        };
        assert!(numbers(0).iter().all(|id| (0..30_522).contains(id)), "{:?}", numbers(0));
        assert!(numbers(0).iter().any(|id| *id > 1), "{:?}", numbers(0));
        assert_eq!(numbers(1), [1; 8]);
        assert_eq!(numbers(2), [0, 1, 2, 3, 0, 1, 2, 3]);
        assert_eq!(numbers(3), [3; 8]);
    }

    #[test]
    fn what_can_neither_be_drawn_nor_read_is_a_gap() {
        let text = ModelInfo {
            inputs: vec![tensor("text", DataType::STRING, vec![dynamic("batch")])],
            outputs: Vec::new(),
        };
        let failure = examples_of(&drawn(1, &[]), &text).expect_err("texts");
        assert!(matches!(failure, Failure::Gap { .. }), "{failure:?}");
        insta::assert_snapshot!(failure, @"the model's input `text` is a string, which can neither be drawn nor read from a file");
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
        insta::assert_snapshot!(refusal(&drawn(64, &[]), &huge), @"input: a batch of 64 does not fit into memory: `x` [64, 1152921504606846975]");
        let large = vec![dynamic("batch"), Dimension::Fixed(1 << 40)];
        let large =
            ModelInfo { inputs: vec![tensor("x", DataType::F32, large)], outputs: Vec::new() };
        let told = refusal(&drawn(2, &[]), &large);
        let start = "input: a batch of 2 takes 8 TiB, and ";
        let end = " of memory are available for it and for the backend's copy: `x` [2, 1099511627776]; use a smaller \
                   batch, or smaller sizes of axes";
        assert!(told.starts_with(start) && told.ends_with(end), "{told}");
        let small = examples_of(&drawn(2, &[]), &images()).expect("it fits");
        small.check_size(Some(8)).expect("twice four bytes");
        small.check_size(Some(7)).expect_err("too little");
        small.check_size(None).expect("memory is not known");
    }
}
