//! Tensors of `rten`: float32, int32, int8 or uint8.

use plugin_api::backend::{DataType, Element, Error, ErrorCode, Result, Tensor, View, ViewMut};
use rten::{Value, ValueOrView, ValueType};
use rten_tensor::prelude::*;

/// Returns the element type of a value; `None` if it is not a tensor.
pub(crate) fn dtype_of(value: ValueType) -> Option<DataType> {
    match value {
        ValueType::Tensor(rten::DataType::Float) => Some(DataType::F32),
        ValueType::Tensor(rten::DataType::Int32) => Some(DataType::I32),
        ValueType::Tensor(rten::DataType::Int8) => Some(DataType::I8),
        ValueType::Tensor(rten::DataType::UInt8) => Some(DataType::U8),
        _ => None,
    }
}

/// A tensor in the host's memory.
#[derive(Debug)]
pub struct RtenTensor {
    value: Value,
    dtype: DataType,
    shape: Vec<i64>,
}

impl RtenTensor {
    /// Copies a view, and converts element types that the engine lacks.
    pub(crate) fn new(view: &View<'_>) -> Result<Self> {
        let value = match view.dtype() {
            DataType::F32 => value::<f32>(view, view.values()?)?,
            DataType::I32 => value::<i32>(view, view.values()?)?,
            DataType::I8 => value::<i8>(view, view.values()?)?,
            DataType::U8 => value::<u8>(view, view.values()?)?,
            DataType::F64 => {
                value(view, view.values::<f64>()?.into_iter().map(|wide| wide as f32).collect())?
            }
            DataType::I64 => {
                let narrow: Result<Vec<i32>> =
                    view.values::<i64>()?.into_iter().map(narrowed).collect();
                value(view, narrow?)?
            }
            // The engine's booleans are 32-bit integers.
            DataType::BOOL => {
                value(view, view.bytes()?.into_iter().map(|byte| i32::from(byte != 0)).collect())?
            }
            other => {
                let message = format!("the engine has no elements of type {other}");
                return Err(Error::new(ErrorCode::Unsupported, message));
            }
        };
        Self::from_value(value)
    }

    /// Takes ownership of a value of the engine.
    pub(crate) fn from_value(value: Value) -> Result<Self> {
        let mut tensor = Self { value, dtype: DataType::F32, shape: Vec::new() };
        tensor.update()?;
        Ok(tensor)
    }

    /// Replaces this tensor by a value of the engine.
    pub(crate) fn replace(&mut self, value: Value) -> Result<()> {
        self.value = value;
        self.update()
    }

    fn update(&mut self) -> Result<()> {
        self.dtype = dtype_of(self.value.dtype()).ok_or_else(|| {
            let message = "the model outputs a sequence, but only tensors are supported";
            Error::new(ErrorCode::Unsupported, message)
        })?;
        self.shape.clear();
        self.shape.extend(self.value.shape().iter().map(|axis| *axis as i64));
        Ok(())
    }

    pub(crate) fn view(&self) -> ValueOrView<'_> {
        ValueOrView::View(self.value.as_view())
    }
}

fn value<T: Element>(view: &View<'_>, values: Vec<T>) -> Result<Value>
where
    Value: From<rten_tensor::Tensor<T>>,
{
    let shape: Vec<usize> = view.shape().iter().map(|axis| *axis as usize).collect();
    Value::from_shape(shape, values)
        .map_err(|error| Error::new(ErrorCode::InvalidArgument, error.to_string()))
}

fn narrowed(wide: i64) -> Result<i32> {
    i32::try_from(wide).map_err(|_| {
        let message = format!("{wide} does not fit into int32, which the engine uses for int64");
        Error::new(ErrorCode::Unsupported, message)
    })
}

impl Tensor for RtenTensor {
    fn dtype(&self) -> DataType {
        self.dtype
    }

    fn shape(&self) -> &[i64] {
        &self.shape
    }

    fn read(&self, into: &mut ViewMut<'_>) -> Result<()> {
        match &self.value {
            Value::FloatTensor(tensor) => into.write(&tensor.to_vec()),
            Value::Int32Tensor(tensor) => into.write(&tensor.to_vec()),
            Value::Int8Tensor(tensor) => into.write(&tensor.to_vec()),
            Value::UInt8Tensor(tensor) => into.write(&tensor.to_vec()),
            _ => unreachable!("what is no tensor was refused when it came"),
        }
    }
}
