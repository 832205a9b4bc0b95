//! Tensors on the device, and their elements in host memory.

use std::ffi::c_void;
use std::ptr;
use std::rc::Rc;
use std::sync::Arc;

use super::{Error, Model, ModelInner, Result, foreign, invoke};
use crate::abi;
use crate::types::{DataType, ErrorCode, ValueKind, element_count};

/// Elements in host memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TensorView<'a> {
    /// Element type.
    pub dtype: DataType,
    /// Size of each axis.
    pub shape: &'a [i64],
    /// Distance of neighbours along each axis, in elements, never negative; `None` for compact elements in C order. A
    /// backend may refuse anything else as unsupported.
    pub strides: Option<&'a [i64]>,
    /// The elements, in the machine's byte order.
    pub bytes: &'a [u8],
}

impl TensorView<'_> {
    /// Returns whether the number of bytes fits type, shape and strides.
    fn fits(&self) -> bool {
        let Self { dtype, shape, strides, bytes } = *self;
        if shape.len() > foreign::HIGHEST_RANK {
            return false;
        }
        let Some(strides) = strides else {
            return byte_count(dtype, shape) == Some(bytes.len());
        };
        if element_count(shape) == Some(0) {
            return strides.len() == shape.len();
        }
        let last = shape.iter().zip(strides).try_fold(0_usize, |last, (axis, stride)| {
            let steps = usize::try_from(axis - 1).ok()?;
            last.checked_add(steps.checked_mul(usize::try_from(*stride).ok()?)?)
        });
        let end = last.and_then(|last| last.checked_add(1)?.checked_mul(dtype.size()));
        strides.len() == shape.len() && end.is_some_and(|end| end <= bytes.len())
    }
}

/// Elements in host memory, compact and in C order, owned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorData {
    /// Element type.
    pub dtype: DataType,
    /// Size of each axis.
    pub shape: Vec<i64>,
    /// The elements, in the machine's byte order.
    pub bytes: Vec<u8>,
}

impl TensorData {
    /// Borrows it.
    #[must_use]
    pub fn view(&self) -> TensorView<'_> {
        TensorView { dtype: self.dtype, shape: &self.shape, strides: None, bytes: &self.bytes }
    }
}

/// Texts in host memory, in C order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextData {
    /// Size of each axis.
    pub shape: Vec<i64>,
    /// The texts.
    pub texts: Vec<String>,
}

/// A handle that ends with its last owner.
pub(super) struct TensorInner {
    pub(super) model: Arc<ModelInner>,
    pub(super) handle: *mut abi::Tensor,
}

impl Drop for TensorInner {
    fn drop(&mut self) {
        destroy(&self.model, self.handle);
    }
}

/// A tensor on a model's device. Clones are the same tensor.
#[derive(Clone)]
pub struct Tensor {
    pub(super) inner: Rc<TensorInner>,
    dtype: DataType,
    shape: Vec<i64>,
}

impl std::fmt::Debug for Tensor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Tensor({} {:?})", self.dtype, self.shape)
    }
}

impl Tensor {
    /// Takes ownership of a handle.
    pub(super) fn adopt(model: &Arc<ModelInner>, handle: *mut abi::Tensor) -> Result<Self> {
        let inner = TensorInner { model: Arc::clone(model), handle };
        let (dtype, shape) = describe(model, handle)?;
        Ok(Self { inner: Rc::new(inner), dtype, shape })
    }

    /// Returns the element type on the device, which may be narrower than the original.
    #[must_use]
    pub fn dtype(&self) -> DataType {
        self.dtype
    }

    /// Returns the size of each axis.
    #[must_use]
    pub fn shape(&self) -> &[i64] {
        &self.shape
    }

    /// Copies it into host memory.
    ///
    /// # Errors
    ///
    /// Returns the backend's error, or an error if the tensor has texts.
    pub fn read(&self) -> Result<TensorData> {
        read(&self.inner.model, self.inner.handle, self.dtype, self.shape.clone())
    }

    /// Copies its texts into host memory.
    ///
    /// # Errors
    ///
    /// Returns the backend's error, or an error if the tensor has numbers.
    pub fn read_texts(&self) -> Result<TextData> {
        read_texts(&self.inner.model, self.inner.handle, self.dtype, self.shape.clone())
    }
}

impl Model {
    /// Makes a tensor on the model's device.
    ///
    /// # Errors
    ///
    /// If the number of bytes does not fit type and shape, or the backend's error.
    pub fn tensor(&self, view: TensorView<'_>) -> Result<Tensor> {
        let TensorView { dtype, shape, strides, bytes } = view;
        if dtype.is_text() {
            let message = "texts are not bytes; `texts` makes a tensor of them";
            return Err(Error::argument("tensor_create", message));
        }
        if !view.fits() {
            let count = bytes.len();
            let message = format!("{count} bytes do not make a tensor of {dtype} {shape:?}");
            return Err(Error::argument("tensor_create", message));
        }
        let mut view = raw_view(dtype, shape, bytes.as_ptr().cast_mut().cast());
        view.strides = strides.map_or(ptr::null(), <[i64]>::as_ptr);
        self.create(&view, shape)
    }

    /// Makes a tensor of texts, which are in C order.
    ///
    /// # Errors
    ///
    /// If their number does not match the shape, or with the backend's error.
    pub fn texts(&self, shape: &[i64], texts: &[&str]) -> Result<Tensor> {
        if shape.len() > foreign::HIGHEST_RANK || element_count(shape) != Some(texts.len()) {
            let count = texts.len();
            let message = format!("{count} texts do not make a tensor of shape {shape:?}");
            return Err(Error::argument("tensor_create", message));
        }
        let elements: Vec<_> = texts.iter().map(|text| abi::String::borrow(text)).collect();
        let view = raw_view(DataType::STRING, shape, elements.as_ptr().cast_mut().cast());
        self.create(&view, shape)
    }

    /// Creates a tensor from a valid view of this shape.
    fn create(&self, view: &abi::View, shape: &[i64]) -> Result<Tensor> {
        let mut args = abi::TensorCreateArgs {
            struct_size: size_of::<abi::TensorCreateArgs>(),
            model: self.inner.handle.as_ptr(),
            view: ptr::from_ref(view),
            tensor: ptr::null_mut(),
        };
        invoke!(self.inner.backend.functions, tensor_create, &raw mut args)?;
        if args.tensor.is_null() {
            return Err(Error::contract("tensor_create", "returned a tensor that is null"));
        }
        let tensor = Tensor::adopt(&self.inner, args.tensor)?;
        if tensor.shape != shape {
            let made = &tensor.shape;
            let detail = format!("made a tensor of shape {made:?} from one of shape {shape:?}");
            return Err(Error::contract("tensor_create", detail));
        }
        Ok(tensor)
    }
}

fn byte_count(dtype: DataType, shape: &[i64]) -> Option<usize> {
    element_count(shape)?.checked_mul(dtype.size())
}

fn raw_view(dtype: DataType, shape: &[i64], data: *mut c_void) -> abi::View {
    abi::View {
        struct_size: size_of::<abi::View>(),
        data,
        dtype: dtype.to_abi(),
        rank: shape.len() as u32,
        shape: shape.as_ptr(),
        strides: ptr::null(),
        byte_offset: 0,
    }
}

pub(super) fn destroy(model: &ModelInner, handle: *mut abi::Tensor) {
    let mut args =
        abi::TensorDestroyArgs { struct_size: size_of::<abi::TensorDestroyArgs>(), tensor: handle };
    // The host cannot handle an error here.
    let _ = invoke!(model.backend.functions, tensor_destroy, &raw mut args);
}

/// Returns the kind of value behind a handle, and its element type if it is a tensor.
pub(super) fn kind(
    model: &ModelInner,
    handle: *mut abi::Tensor,
) -> Result<(ValueKind, Option<DataType>)> {
    let args = described(model, handle)?;
    let kind = ValueKind::from_abi(args.kind);
    let dtype = DataType::from_abi(args.dtype).filter(|_| kind == ValueKind::Tensor);
    Ok((kind, dtype))
}

fn described(model: &ModelInner, handle: *mut abi::Tensor) -> Result<abi::TensorDescribeArgs> {
    let mut args = abi::TensorDescribeArgs {
        struct_size: size_of::<abi::TensorDescribeArgs>(),
        tensor: handle,
        dtype: abi::DType { code: 0, bits: 0, lanes: 0 },
        rank: 0,
        shape: ptr::null(),
        kind: abi::value_kind::TENSOR,
        unused: 0,
    };
    invoke!(model.backend.functions, tensor_describe, &raw mut args)?;
    Ok(args)
}

pub(super) fn describe(
    model: &ModelInner,
    handle: *mut abi::Tensor,
) -> Result<(DataType, Vec<i64>)> {
    let args = described(model, handle)?;
    let kind = ValueKind::from_abi(args.kind);
    if kind != ValueKind::Tensor {
        let message = format!("it is a {}, not a tensor", kind.name());
        let (call, code, details) = ("tensor_describe", ErrorCode::Unsupported, String::new());
        return Err(Error { call, code, message, details });
    }
    let contract = |detail| Error::contract("tensor_describe", detail);
    let abi::DType { code, bits, lanes } = args.dtype;
    let dtype = DataType::from_abi(args.dtype).ok_or_else(|| {
        contract(format!("returned the element type {code}, {bits} bits, {lanes} lanes"))
    })?;
    let rank = args.rank as usize;
    if rank > foreign::HIGHEST_RANK {
        return Err(contract(format!("returned {rank} axes")));
    }
    // SAFETY: the call has filled it in, and it is valid until the tensor is written again.
    let shape = unsafe { foreign::list(args.shape, rank, "axes") }.map_err(contract)?.to_vec();
    if byte_count(dtype, &shape).is_none_or(|bytes| bytes > isize::MAX as usize) {
        return Err(contract(format!("returned the shape {shape:?}")));
    }
    Ok((dtype, shape))
}

pub(super) fn read(
    model: &ModelInner,
    handle: *mut abi::Tensor,
    dtype: DataType,
    shape: Vec<i64>,
) -> Result<TensorData> {
    if dtype.is_text() {
        return Err(wrong_type("it has texts, not numbers"));
    }
    let count = byte_count(dtype, &shape).expect("checked by describe");
    can_be_allocated::<u8>(count, &shape)?;
    let mut bytes = vec![0_u8; count];
    let view = raw_view(dtype, &shape, bytes.as_mut_ptr().cast());
    let mut args = abi::TensorReadArgs {
        struct_size: size_of::<abi::TensorReadArgs>(),
        tensor: handle,
        view: &raw const view,
    };
    invoke!(model.backend.functions, tensor_read, &raw mut args)?;
    Ok(TensorData { dtype, shape, bytes })
}

pub(super) fn read_texts(
    model: &ModelInner,
    handle: *mut abi::Tensor,
    dtype: DataType,
    shape: Vec<i64>,
) -> Result<TextData> {
    if !dtype.is_text() {
        return Err(wrong_type("it has numbers, not texts"));
    }
    let count = element_count(&shape).expect("checked by describe");
    can_be_allocated::<abi::String>(count, &shape)?;
    let mut elements = vec![abi::String::EMPTY; count];
    let view = raw_view(dtype, &shape, elements.as_mut_ptr().cast());
    let mut args = abi::TensorReadArgs {
        struct_size: size_of::<abi::TensorReadArgs>(),
        tensor: handle,
        view: &raw const view,
    };
    invoke!(model.backend.functions, tensor_read, &raw mut args)?;
    let texts = elements.iter().map(|element| {
        // SAFETY: the call has just written it, and the tensor has not been touched since.
        unsafe { foreign::message(*element, LONGEST_TEXT, "an element") }
            .map_err(|detail| Error::contract("tensor_read", detail))
    });
    Ok(TextData { texts: texts.collect::<Result<_>>()?, shape })
}

/// Returns an error if there is no memory for a tensor's elements: its shape is the backend's word, and allocating too much
/// would end the process.
fn can_be_allocated<T>(count: usize, shape: &[i64]) -> Result<()> {
    Vec::<T>::new().try_reserve_exact(count).map_err(|_| {
        let bytes = count.saturating_mul(size_of::<T>());
        let message =
            format!("a tensor of shape {shape:?} takes {bytes} bytes, which cannot be allocated");
        let (call, code, details) = ("tensor_read", ErrorCode::OutOfMemory, String::new());
        Error { call, code, message, details }
    })
}

/// Limit of a text in bytes.
const LONGEST_TEXT: usize = 1 << 20;

#[cold]
fn wrong_type(message: &str) -> Error {
    let (call, code, details) = ("tensor_read", ErrorCode::Unsupported, String::new());
    Error { call, code, message: message.into(), details }
}
