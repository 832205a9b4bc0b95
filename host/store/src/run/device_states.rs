//! States of the device as Parquet: a row for each sample, in order of time.

use std::path::Path;
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, Float64Array, RecordBatch, UInt64Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use host_record::DeviceSample;
use parquet::errors::ParquetError;

use super::samples::write_rows;
use crate::error::StoreError;

pub(crate) type Value = fn(&DeviceSample) -> Option<f64>;

/// The numeric columns, each of which a device may lack.
pub(crate) const NUMBERS: [(&str, Value); 6] = [
    ("utilisation", |sample| sample.utilisation),
    ("memory_utilisation", |sample| sample.memory_utilisation),
    ("clock_hertz", |sample| sample.clock_hertz),
    ("memory_clock_hertz", |sample| sample.memory_clock_hertz),
    ("temperature_celsius", |sample| sample.temperature_celsius),
    ("power_watts", |sample| sample.power_watts),
];

fn schema() -> SchemaRef {
    let words = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let numbers = NUMBERS.iter().map(|(name, _)| Field::new(*name, DataType::Float64, true));
    let mut fields = vec![Field::new("time_ns", DataType::UInt64, false)];
    fields.extend(numbers);
    fields.push(Field::new("slowed_by", words, true));
    Arc::new(Schema::new(fields))
}

pub(super) fn write_device_states(path: &Path, samples: &[DeviceSample]) -> Result<(), StoreError> {
    write_rows(path, &rows(samples).map_err(StoreError::parquet(path))?)
}

fn rows(samples: &[DeviceSample]) -> Result<RecordBatch, ParquetError> {
    let times = UInt64Array::from_iter_values(samples.iter().map(|sample| sample.time_ns));
    let mut columns: Vec<ArrayRef> = vec![Arc::new(times)];
    columns.extend(NUMBERS.iter().map(|(_, value)| -> ArrayRef {
        Arc::new(samples.iter().map(value).collect::<Float64Array>())
    }));
    let causes = samples.iter().map(|sample| {
        let names = sample.slowed_by.as_ref()?.iter().map(|cause| cause.name());
        Some(names.collect::<Vec<_>>().join(" "))
    });
    let causes: Vec<Option<String>> = causes.collect();
    let words: DictionaryArray<Int32Type> = causes.iter().map(Option::as_deref).collect();
    columns.push(Arc::new(words));
    Ok(RecordBatch::try_new(schema(), columns)?)
}
