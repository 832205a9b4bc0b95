/*!
Outputs and labels as Parquet, so that accuracy can be computed again from the folder alone.

Outputs have one row for each example and output; labels one row for each example, in order.
Labels lie in a file of their own and not in the journal, where a large data set would be repeated
as text for every case.
*/

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::builder::{Float32Builder, ListBuilder};
use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, DictionaryArray, Float32Array, Int32Array, Int64Array, ListArray, RecordBatch,
    StringArray, UInt64Array,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use host_record::OutputBlock;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::errors::ParquetError;

use super::durable::settle;
use super::samples::{FileWriter, create, properties, write_rows};
use crate::error::StoreError;

/// Values that are kept in memory before any is encoded: 32 MiB.
const BUFFER_VALUES: usize = 8 << 20;

fn element() -> Arc<Field> {
    Arc::new(Field::new("element", DataType::Float32, false))
}

fn schema() -> SchemaRef {
    let name = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    Arc::new(Schema::new(vec![
        Field::new("example", DataType::UInt64, false),
        Field::new("output", name, false),
        Field::new("values", DataType::List(element()), false),
    ]))
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

    /// Encodes the rest and puts the file in its place; a case without outputs has no file.
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
    let mut values =
        ListBuilder::new(Float32Builder::with_capacity(block.values.len())).with_field(element());
    for example in block.values.chunks_exact(width) {
        values.values().append_slice(example);
        values.append(true);
    }
    let examples = block.first_example..block.first_example + examples as u64;
    let columns: Vec<ArrayRef> = vec![
        Arc::new(UInt64Array::from_iter_values(examples)),
        Arc::new(names),
        Arc::new(values.finish()),
    ];
    Ok(RecordBatch::try_new(schema(), columns)?)
}

/// The first output of a case: its width, and its values for each example in order.
pub(crate) fn read_first_output(path: &Path) -> Result<Option<(u64, Vec<f32>)>, StoreError> {
    let Some(file) = open(path)? else { return Ok(None) };
    read_output(file).map_err(StoreError::parquet(path))
}

fn read_output(file: File) -> Result<Option<(u64, Vec<f32>)>, ParquetError> {
    let general = |detail: String| ParquetError::General(detail);
    let reader = ParquetRecordBatchReaderBuilder::try_new(file)?.with_batch_size(4096).build()?;
    let mut first: Option<(String, u64, Vec<f32>)> = None;
    let mut next_example = 0;
    for batch in reader {
        let batch = batch?;
        let unexpected = || general("the columns are not those of an output file".into());
        let column = |name: &str| batch.column_by_name(name).ok_or_else(unexpected);
        let examples = column("example")?.as_any().downcast_ref::<UInt64Array>();
        let names = column("output")?.as_any().downcast_ref::<DictionaryArray<Int32Type>>();
        let names = names.and_then(|names| names.downcast_dict::<StringArray>());
        let values = column("values")?.as_any().downcast_ref::<ListArray>();
        let (Some(examples), Some(names), Some(values)) = (examples, names, values) else {
            return Err(unexpected());
        };
        let flat = values.values().as_any().downcast_ref::<Float32Array>();
        let flat = flat.ok_or_else(unexpected)?.values();
        for row in 0..batch.num_rows() {
            let key = names.keys().value(row).cast_unsigned() as usize;
            let name = names.values().value(key);
            let bounds = values.value_offsets()[row]..values.value_offsets()[row + 1];
            let answer = &flat[bounds.start as usize..bounds.end as usize];
            let (first, width, answers) = first.get_or_insert_with(|| {
                (name.to_owned(), answer.len() as u64, Vec::with_capacity(answer.len() * 1024))
            });
            if name != first {
                continue;
            }
            if examples.value(row) != next_example || answer.len() as u64 != *width {
                return Err(general(format!(
                    "output `{name}`: example {} with {} values, where example {next_example} \
                     with {width} was expected",
                    examples.value(row),
                    answer.len(),
                )));
            }
            next_example += 1;
            answers.extend_from_slice(answer);
        }
    }
    Ok(first.map(|(_, width, values)| (width, values)))
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
    let read = || {
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
    read().map(Some).map_err(StoreError::parquet(path))
}

fn open(path: &Path) -> Result<Option<File>, StoreError> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StoreError::io("read", path)(error)),
    }
}
