//! Tensors of libtorch.

use plugin_api::backend::{DataType, Error, ErrorCode, Result, Tensor, View, ViewMut};
use tch::Kind;

use crate::compute::Compute;
use crate::error::Wrong;

/// Libtorch's element types and the ABI's.
const KINDS: &[(Kind, DataType)] = &[
    (Kind::Float, DataType::F32),
    (Kind::Double, DataType::F64),
    (Kind::Half, DataType::F16),
    (Kind::BFloat16, DataType::BF16),
    (Kind::Int64, DataType::I64),
    (Kind::Int, DataType::I32),
    (Kind::Int16, DataType::I16),
    (Kind::Int8, DataType::I8),
    (Kind::Uint8, DataType::U8),
    (Kind::Bool, DataType::BOOL),
];

/// A tensor on a device.
#[derive(Debug)]
pub struct TorchTensor {
    tensor: tch::Tensor,
    dtype: DataType,
    shape: Vec<i64>,
}

impl TorchTensor {
    /// Takes over a tensor.
    pub(crate) fn new(tensor: tch::Tensor) -> Result<Self> {
        let kind = tensor.f_kind().map_err(|error| Wrong::from(error).of_run())?;
        let known = KINDS.iter().find(|(known, _)| *known == kind);
        let (_, dtype) = known.ok_or_else(|| {
            let message = format!("the model gives elements of a type that is not known: {kind:?}");
            Error::new(ErrorCode::Unsupported, message)
        })?;
        let shape = tensor.size();
        Ok(Self { tensor, dtype: *dtype, shape })
    }

    /// Copies elements to a device.
    pub(crate) fn copy(view: &View<'_>, device: tch::Device, compute: Compute) -> Result<Self> {
        let kind = kind_of(view.dtype())?;
        let bytes = view.contiguous()?;
        let tensor = tch::Tensor::f_from_data_size(&bytes, view.shape(), kind);
        let tensor = tensor.and_then(|tensor| tensor.f_to(device));
        let tensor = tensor.map_err(Wrong::from).and_then(|tensor| compute.formatted(&tensor));
        Self::new(tensor.map_err(Wrong::of_run)?)
    }

    /// Returns libtorch's tensor.
    #[inline]
    pub(crate) fn torch(&self) -> &tch::Tensor {
        &self.tensor
    }
}

/// Returns libtorch's element type.
pub(crate) fn kind_of(dtype: DataType) -> Result<Kind> {
    let known = KINDS.iter().find(|(_, known)| *known == dtype);
    known.map(|(kind, _)| *kind).ok_or_else(|| {
        let message = format!("libtorch does not compute with elements of type {dtype}");
        Error::new(ErrorCode::Unsupported, message)
    })
}

impl Tensor for TorchTensor {
    fn dtype(&self) -> DataType {
        self.dtype
    }

    fn shape(&self) -> &[i64] {
        &self.shape
    }

    fn read(&self, into: &mut ViewMut<'_>) -> Result<()> {
        let (count, size) = (self.tensor.numel(), self.dtype.size());
        let host = self.tensor.f_to(tch::Device::Cpu).and_then(|tensor| tensor.f_contiguous());
        let host = host.map_err(|error| Wrong::from(error).of_run())?;
        let mut bytes = vec![0; count * size];
        host.f_copy_data_u8(&mut bytes, count).map_err(|error| Wrong::from(error).of_run())?;
        into.write_bytes(&bytes)
    }
}
