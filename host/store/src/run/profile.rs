//! The operators of one run as Parquet: a row for each, in order of start.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{Array as _, ArrayRef, DictionaryArray, RecordBatch, StringArray, UInt64Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use host_record::ProfiledOperator;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::errors::ParquetError;

use super::guarded::read_file;
use super::outputs::open;
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

/// Returns the operators of a profile; none if there is no file.
pub(super) fn read_profile(path: &Path) -> Result<Vec<ProfiledOperator>, StoreError> {
    match open(path)? {
        Some(file) => read_file(path, file, read),
        None => Ok(Vec::new()),
    }
}

fn read(file: File) -> Result<Vec<ProfiledOperator>, ParquetError> {
    let mut operators = Vec::new();
    for batch in ParquetRecordBatchReaderBuilder::try_new(file)?.build()? {
        let batch = batch?;
        let unexpected = || ParquetError::General("the columns are not those of a profile".into());
        let column = |name: &str| batch.column_by_name(name).ok_or_else(unexpected);
        let words = |name: &str| {
            let words = column(name)?.as_any().downcast_ref::<DictionaryArray<Int32Type>>();
            let words = words.and_then(|words| words.downcast_dict::<StringArray>());
            let words = words.ok_or_else(unexpected)?;
            Ok::<_, ParquetError>(
                words
                    .into_iter()
                    .map(|word| word.unwrap_or_default().to_owned())
                    .collect::<Vec<_>>(),
            )
        };
        let numbers = |name: &str| {
            column(name)?.as_any().downcast_ref::<UInt64Array>().ok_or_else(unexpected)
        };
        let names = column("name")?.as_any().downcast_ref::<StringArray>();
        let names = names.ok_or_else(unexpected)?;
        let (kinds, providers) = (words("kind")?, words("provider")?);
        let (starts, durations) = (numbers("start_ns")?, numbers("duration_ns")?);
        for (row, (kind, provider)) in kinds.into_iter().zip(providers).enumerate() {
            operators.push(ProfiledOperator {
                name: names.value(row).to_owned(),
                kind,
                provider,
                start_ns: starts.value(row),
                duration_ns: durations.value(row),
            });
        }
    }
    Ok(operators)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_read_as_it_was_written() {
        let operator = |name: &str, kind: &str, start_ns| ProfiledOperator {
            name: name.into(),
            kind: kind.into(),
            provider: "CPU".into(),
            start_ns,
            duration_ns: 2 * start_ns + 1,
        };
        let operators =
            vec![operator("a", "Conv", 0), operator("b/c", "", 7), operator("a", "Conv", 9)];
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("profile.parquet");
        assert_eq!(read_profile(&path).expect("no file"), []);
        write_profile(&path, &operators).expect("the folder is writable");
        assert_eq!(read_profile(&path).expect("a profile"), operators);
    }
}
