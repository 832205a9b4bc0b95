//! The operators of one run as Parquet: a row for each, in order of start.

use std::path::Path;
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, RecordBatch, StringArray, UInt64Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use host_record::ProfiledOperator;
use parquet::errors::ParquetError;

use super::samples::write_rows;
use crate::error::StoreError;

fn schema() -> SchemaRef {
    // There are few different values, each many times.
    let word = || DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    Arc::new(Schema::new(vec![
        Field::new("name", DataType::Utf8, false),
        Field::new("kind", word(), false),
        Field::new("provider", word(), false),
        Field::new("start_ns", DataType::UInt64, false),
        Field::new("duration_ns", DataType::UInt64, false),
    ]))
}

pub(super) fn write_profile(path: &Path, operators: &[ProfiledOperator]) -> Result<(), StoreError> {
    write_rows(path, &rows(operators).map_err(StoreError::parquet(path))?)
}

fn rows(operators: &[ProfiledOperator]) -> Result<RecordBatch, ParquetError> {
    let word = |of: fn(&ProfiledOperator) -> &str| -> ArrayRef {
        Arc::new(operators.iter().map(of).collect::<DictionaryArray<Int32Type>>())
    };
    let number = |of: fn(&ProfiledOperator) -> u64| -> ArrayRef {
        Arc::new(UInt64Array::from_iter_values(operators.iter().map(of)))
    };
    let names = operators.iter().map(|operator| operator.name.as_str());
    let columns = vec![
        Arc::new(StringArray::from_iter_values(names)) as ArrayRef,
        word(|operator| &operator.kind),
        word(|operator| &operator.provider),
        number(|operator| operator.start_ns),
        number(|operator| operator.duration_ns),
    ];
    Ok(RecordBatch::try_new(schema(), columns)?)
}
