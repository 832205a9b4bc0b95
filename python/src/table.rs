//! Tables in Arrow's columns, which other libraries read without copies.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{Float64Type, Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchIterator};
use arrow_cast::cast;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use host_store::Columns;
use pyo3::IntoPyObjectExt as _;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList};

/// A table in memory, in Arrow's columns.
#[pyclass(frozen, module = "tare._tare")]
pub(crate) struct Table {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl From<Columns> for Table {
    fn from(Columns { schema, batches }: Columns) -> Self {
        Self { schema, batches }
    }
}

impl Table {
    /// Makes a table of whole columns of one length.
    ///
    /// # Errors
    ///
    /// If their lengths differ.
    pub(crate) fn of_columns(columns: Vec<(&str, ArrayRef)>) -> PyResult<Self> {
        let field =
            |(name, array): &(&str, ArrayRef)| Field::new(*name, array.data_type().clone(), true);
        let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
        let arrays = columns.into_iter().map(|(_, array)| array).collect();
        let batch = RecordBatch::try_new(Arc::clone(&schema), arrays)
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(Self { schema, batches: vec![batch] })
    }
}

impl Table {
    /// Splits the table by the text in a column. The buffers are shared and not copied.
    ///
    /// # Errors
    ///
    /// If there is no such column, or it has no text.
    pub(crate) fn split(&self, column: &str) -> PyResult<BTreeMap<String, Self>> {
        let failed = |error: arrow_schema::ArrowError| PyValueError::new_err(error.to_string());
        let index = self.schema.index_of(column).map_err(failed)?;
        let mut parts = BTreeMap::new();
        for batch in &self.batches {
            let keys = cast(batch.column(index), &DataType::Utf8).map_err(failed)?;
            let keys = keys.as_string::<i32>();
            let mut start = 0;
            while start < batch.num_rows() {
                let key = keys.value(start);
                let same = (start..batch.num_rows()).take_while(|row| keys.value(*row) == key);
                let length = same.count();
                let part = parts.entry(key.to_owned()).or_insert_with(|| Self {
                    schema: Arc::clone(&self.schema),
                    batches: Vec::new(),
                });
                part.batches.push(batch.slice(start, length));
                start += length;
            }
        }
        Ok(parts)
    }
}

#[pymethods]
impl Table {
    /// The names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<&str> {
        self.schema.fields().iter().map(|field| field.name().as_str()).collect()
    }

    /// The number of rows.
    fn __len__(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// The schema, by Arrow's PyCapsule interface.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.schema.as_ref())
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// The rows, by Arrow's PyCapsule interface. The buffers are shared and not copied. A requested schema is ignored, as
    /// the interface allows.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let batches = self.batches.clone().into_iter().map(Ok);
        let reader = RecordBatchIterator::new(batches, Arc::clone(&self.schema));
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    /// The rows as dictionaries, for callers without a library for Arrow.
    fn rows<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let rows = PyList::empty(py);
        for batch in &self.batches {
            let columns = batch.columns().iter().map(|column| values(py, column));
            let columns = columns.collect::<PyResult<Vec<_>>>()?;
            for row in 0..batch.num_rows() {
                let shown = PyDict::new(py);
                for (field, column) in self.schema.fields().iter().zip(&columns) {
                    shown.set_item(field.name(), &column[row])?;
                }
                rows.append(shown)?;
            }
        }
        Ok(rows)
    }
}

/// Returns a column's values: numbers, text and truth values as Python has them, and all else as text.
fn values<'py>(py: Python<'py>, column: &ArrayRef) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let failed = |error: arrow_schema::ArrowError| PyValueError::new_err(error.to_string());
    let none = || py.None().into_bound(py);
    let kind = column.data_type();
    let mut all = Vec::with_capacity(column.len());
    if let DataType::Boolean = kind {
        for value in column.as_boolean() {
            all.push(value.map_or_else(|| Ok(none()), |value| value.into_bound_py_any(py))?);
        }
    } else if kind.is_unsigned_integer() {
        let wide = cast(column, &DataType::UInt64).map_err(failed)?;
        for value in wide.as_primitive::<UInt64Type>() {
            all.push(value.map_or_else(|| Ok(none()), |value| value.into_bound_py_any(py))?);
        }
    } else if kind.is_integer() {
        let wide = cast(column, &DataType::Int64).map_err(failed)?;
        for value in wide.as_primitive::<Int64Type>() {
            all.push(value.map_or_else(|| Ok(none()), |value| value.into_bound_py_any(py))?);
        }
    } else if kind.is_floating() || matches!(kind, DataType::Decimal128(..)) {
        let wide = cast(column, &DataType::Float64).map_err(failed)?;
        for value in wide.as_primitive::<Float64Type>() {
            all.push(value.map_or_else(|| Ok(none()), |value| value.into_bound_py_any(py))?);
        }
    } else {
        let options = FormatOptions::default();
        // Times with a zone are moments, which are shown in UTC: names of zones would need a database of zones.
        let column = &match kind {
            DataType::Timestamp(unit, Some(_)) => {
                cast(column, &DataType::Timestamp(*unit, Some("+00:00".into()))).map_err(failed)?
            }
            _ => Arc::clone(column),
        };
        let formatter = ArrayFormatter::try_new(column, &options).map_err(failed)?;
        for row in 0..column.len() {
            all.push(match column.is_null(row) {
                true => none(),
                false => formatter.value(row).to_string().into_bound_py_any(py)?,
            });
        }
    }
    Ok(all)
}
