/*!
Outputs and labels as Parquet, so that accuracy can be computed again from the folder alone.

Outputs have one row for each example and output; labels one row for each example, in order. An
output's values are in the column of their type, and the other two are null. Labels are in a separate file and not in
the journal, where a large data set would be repeated as text for every case.
*/

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::builder::{
    ArrayBuilder, BooleanBuilder, Float32Builder, ListBuilder, StringBuilder,
};
use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, Float32Array, Int32Array, Int64Array,
    ListArray, RecordBatch, StringArray, UInt64Array,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use host_record::{OutputBlock, OutputValues};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::errors::ParquetError;

use super::durable::settle;
use super::guarded::read_file;
use super::samples::{FileWriter, create, properties, write_rows};
use crate::error::StoreError;

/// Number of values that are buffered before encoding: 32 MiB.
const BUFFER_VALUES: usize = 8 << 20;

/// The columns of values, by the type of their elements.
const VALUES: [(&str, DataType); 3] =
    [("values", DataType::Float32), ("booleans", DataType::Boolean), ("texts", DataType::Utf8)];

fn element(of: &DataType) -> Arc<Field> {
    Arc::new(Field::new("element", of.clone(), false))
}

fn schema() -> SchemaRef {
    let name = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let mut fields =
        vec![Field::new("example", DataType::UInt64, false), Field::new("output", name, false)];
    fields.extend(VALUES.map(|(name, of)| Field::new(name, DataType::List(element(&of)), true)));
    Arc::new(Schema::new(fields))
}

/// Collects the outputs of one case.
#[derive(Debug)]
pub(super) struct OutputWriter {
    path: PathBuf,
    blocks: Vec<OutputBlock>,
    values: usize,
    writer: Option<FileWriter>,
}

impl OutputWriter {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, blocks: Vec::new(), values: 0, writer: None }
    }

    pub(super) fn push(&mut self, block: &OutputBlock) -> Result<(), StoreError> {
        let width = usize::try_from(block.width).unwrap_or(usize::MAX);
        if width == 0 || !block.values.len().is_multiple_of(width) {
            let detail = format!(
                "output `{}`: {} values are not whole examples of {} values",
                block.name,
                block.values.len(),
                block.width
            );
            return Err(StoreError::parquet(&self.path)(ParquetError::General(detail)));
        }
        self.values += block.values.len() + 16;
        self.blocks.push(block.clone());
        if self.values >= BUFFER_VALUES { self.encode() } else { Ok(()) }
    }

    fn encode(&mut self) -> Result<(), StoreError> {
        self.values = 0;
        for block in std::mem::take(&mut self.blocks) {
            if block.values.is_empty() {
                continue;
            }
            let writer = match &mut self.writer {
                Some(writer) => writer,
                none => none.insert(create(&self.path, schema(), properties().build())?),
            };
            rows(&block)
                .and_then(|rows| writer.write(&rows))
                .map_err(StoreError::parquet(&self.path))?;
        }
        Ok(())
    }

    /// Encodes the rest and completes the file; a case without outputs has no file.
    pub(super) fn finish(mut self) -> Result<(), StoreError> {
        self.encode()?;
        let Some(writer) = self.writer.take() else { return Ok(()) };
        writer.close().map_err(StoreError::parquet(&self.path))?;
        settle(&self.path)
    }
}

fn rows(block: &OutputBlock) -> Result<RecordBatch, ParquetError> {
    let width = usize::try_from(block.width).unwrap_or(usize::MAX);
    let examples = block.values.len() / width;
    let names: ArrayRef = Arc::new(StringArray::from(vec![block.name.as_str()]));
    let names = DictionaryArray::<Int32Type>::try_new(Int32Array::from(vec![0; examples]), names)?;
    let [numbers, booleans, texts] = VALUES.map(|(_, of)| of);
    let (given, place): (ArrayRef, usize) = match &block.values {
        OutputValues::Numbers(values) => {
            let mut lists = lists(Float32Builder::with_capacity(values.len()), &numbers);
            for example in values.chunks_exact(width) {
                lists.values().append_slice(example);
                lists.append(true);
            }
            (Arc::new(lists.finish()), 0)
        }
        OutputValues::Booleans(values) => {
            let mut lists = lists(BooleanBuilder::with_capacity(values.len()), &booleans);
            for example in values.chunks_exact(width) {
                lists.values().append_slice(example);
                lists.append(true);
            }
            (Arc::new(lists.finish()), 1)
        }
        OutputValues::Texts(values) => {
            let mut lists = lists(StringBuilder::new(), &texts);
            for example in values.chunks_exact(width) {
                example.iter().for_each(|text| lists.values().append_value(text));
                lists.append(true);
            }
            (Arc::new(lists.finish()), 2)
        }
    };
    let mut columns: Vec<ArrayRef> = vec![
        Arc::new(UInt64Array::from_iter_values(
            block.first_example..block.first_example + examples as u64,
        )),
        Arc::new(names),
    ];
    for (at, (_, of)) in VALUES.into_iter().enumerate() {
        columns.push(match at == place {
            true => Arc::clone(&given),
            false => arrow_array::new_null_array(&DataType::List(element(&of)), examples),
        });
    }
    Ok(RecordBatch::try_new(schema(), columns)?)
}

fn lists<B: ArrayBuilder>(values: B, of: &DataType) -> ListBuilder<B> {
    ListBuilder::new(values).with_field(element(of))
}

/// An output of a case.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Output {
    pub(crate) name: String,
    /// Values of each example.
    pub(crate) width: u64,
    /// Values of all examples, in order.
    pub(crate) values: OutputValues,
}

/// Returns the outputs of a case, or only the first, in the order of the model.
pub(crate) fn read_outputs(path: &Path, only_first: bool) -> Result<Vec<Output>, StoreError> {
    let Some(file) = open(path)? else { return Ok(Vec::new()) };
    read_file(path, file, |file| read(file, only_first))
}

fn read(file: File, only_first: bool) -> Result<Vec<Output>, ParquetError> {
    let general = |detail: String| ParquetError::General(detail);
    let reader = ParquetRecordBatchReaderBuilder::try_new(file)?.with_batch_size(4096).build()?;
    // Each has the index of its next example.
    let mut outputs: Vec<(Output, u64)> = Vec::new();
    for batch in reader {
        let batch = batch?;
        let unexpected = || general("the columns are not those of an output file".into());
        let column = |name: &str| batch.column_by_name(name).ok_or_else(unexpected);
        let examples = column("example")?.as_any().downcast_ref::<UInt64Array>();
        let names = column("output")?.as_any().downcast_ref::<DictionaryArray<Int32Type>>();
        let names = names.and_then(|names| names.downcast_dict::<StringArray>());
        let (Some(examples), Some(names)) = (examples, names) else { return Err(unexpected()) };
        let lists = VALUES.iter().map(|(name, _)| {
            column(name)?.as_any().downcast_ref::<ListArray>().ok_or_else(unexpected)
        });
        let lists: Vec<&ListArray> = lists.collect::<Result<_, _>>()?;
        for row in 0..batch.num_rows() {
            let key = names.keys().value(row).cast_unsigned() as usize;
            let name = names.values().value(key);
            let known = outputs.iter().position(|(output, _)| output.name == name);
            if known.is_none() && only_first && !outputs.is_empty() {
                continue;
            }
            let values = answer(&lists, row).ok_or_else(unexpected)?;
            let count = values.len() as u64;
            let place = known.unwrap_or_else(|| {
                let none = match &values {
                    OutputValues::Numbers(_) => OutputValues::Numbers(Vec::new()),
                    OutputValues::Booleans(_) => OutputValues::Booleans(Vec::new()),
                    OutputValues::Texts(_) => OutputValues::Texts(Vec::new()),
                };
                outputs.push((Output { name: name.to_owned(), width: count, values: none }, 0));
                outputs.len() - 1
            });
            let (output, next) = &mut outputs[place];
            if examples.value(row) != *next || count != output.width {
                return Err(general(format!(
                    "output `{name}`: example {} with {count} values, where example {next} with {} \
                     was expected",
                    examples.value(row),
                    output.width,
                )));
            }
            *next += 1;
            if !output.values.extend(values) {
                return Err(general(format!("output `{name}` has values of several types")));
            }
        }
    }
    Ok(outputs.into_iter().map(|(output, _)| output).collect())
}

/// Returns the values of an example, from the column that has them.
fn answer(lists: &[&ListArray], row: usize) -> Option<OutputValues> {
    let list = lists.iter().find(|list| list.is_valid(row))?;
    let offsets = list.value_offsets();
    let (begin, end) = (offsets[row] as usize, offsets[row + 1] as usize);
    let flat = list.values().as_any();
    if let Some(numbers) = flat.downcast_ref::<Float32Array>() {
        return Some(OutputValues::Numbers(numbers.values()[begin..end].to_vec()));
    }
    if let Some(booleans) = flat.downcast_ref::<BooleanArray>() {
        let values = (begin..end).map(|at| booleans.value(at));
        return Some(OutputValues::Booleans(values.collect()));
    }
    let texts = flat.downcast_ref::<StringArray>()?;
    Some(OutputValues::Texts((begin..end).map(|at| texts.value(at).to_owned()).collect()))
}

fn label_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("label", DataType::Int64, false)]))
}

pub(super) fn write_labels(path: &Path, labels: &[i64]) -> Result<(), StoreError> {
    let column: ArrayRef = Arc::new(Int64Array::from(labels.to_vec()));
    let rows = RecordBatch::try_new(label_schema(), vec![column]).map_err(ParquetError::from);
    write_rows(path, &rows.map_err(StoreError::parquet(path))?)
}

pub(crate) fn read_labels(path: &Path) -> Result<Option<Vec<i64>>, StoreError> {
    let Some(file) = open(path)? else { return Ok(None) };
    let read = |file| {
        let builder = ParquetRecordBatchReaderBuilder::try_new(file)?;
        let only = ProjectionMask::columns(builder.parquet_schema(), ["label"]);
        let mut labels = Vec::new();
        for batch in builder.with_projection(only).build()? {
            let batch = batch?;
            let column = batch.columns().first();
            let column = column.and_then(|column| column.as_any().downcast_ref::<Int64Array>());
            let column =
                column.ok_or_else(|| ParquetError::General("there is no column `label`".into()))?;
            labels.extend_from_slice(column.values());
        }
        Ok(labels)
    };
    read_file(path, file, read).map(Some)
}

/// Opens a file of a run, if there is one.
pub(super) fn open(path: &Path) -> Result<Option<File>, StoreError> {
    match host_files::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StoreError::unread(path)(error)),
    }
}
