//! Tensors: ONNX Runtime's values, in the host's memory or on the device.

use std::ffi::{CStr, c_void};
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ort::sys::{ONNXTensorElementDataType as Element, OrtAllocator, OrtStatusPtr, OrtValue};
use plugin_api::backend::{DataType, Error, ErrorCode, Result, Tensor, View, ViewMut};

use crate::Accelerator;
use crate::error::{Operation, convert};

/// ONNX Runtime's element types and the ABI's.
const ELEMENTS: &[(Element, DataType)] = &[
    (Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, DataType::F32),
    (Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE, DataType::F64),
    (Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16, DataType::F16),
    (Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16, DataType::BF16),
    (Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64, DataType::I64),
    (Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32, DataType::I32),
    (Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16, DataType::I16),
    (Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8, DataType::I8),
    (Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64, DataType::U64),
    (Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32, DataType::U32),
    (Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16, DataType::U16),
    (Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8, DataType::U8),
    (Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL, DataType::BOOL),
];

fn element_of(dtype: DataType) -> Result<Element> {
    let known = ELEMENTS.iter().find(|(_, known)| *known == dtype);
    known.map(|(element, _)| *element).ok_or_else(|| {
        let message = format!("ONNX Runtime has no elements of type {dtype}");
        Error::new(ErrorCode::Unsupported, message)
    })
}

/// Converts the status of a call of ONNX Runtime while models run.
#[inline]
pub(crate) fn check(status: OrtStatusPtr) -> Result<()> {
    // SAFETY: a status from ONNX Runtime that nothing else holds.
    unsafe { ort::Error::result_from_status(status) }
        .map_err(|error| convert(&error, Operation::Running))
}

/// Returns the allocator of the host's memory, which lives as long as the library.
pub(crate) fn host_allocator() -> Result<*mut OrtAllocator> {
    let mut allocator = ptr::null_mut();
    // SAFETY: it fills in a pointer.
    check(unsafe { (ort::api().GetAllocatorWithDefaultOptions)(&raw mut allocator) })?;
    Ok(allocator)
}

/// An owned value.
#[derive(Debug)]
pub(crate) struct Value(NonNull<OrtValue>);

// SAFETY: a value is data, which is only changed by runs with exclusive access.
unsafe impl Send for Value {}
// SAFETY: as above.
unsafe impl Sync for Value {}

impl Value {
    /// # Safety
    ///
    /// `value` is null, or a value without another owner.
    pub(crate) unsafe fn new(value: *mut OrtValue) -> Option<Self> {
        NonNull::new(value).map(Self)
    }

    #[inline]
    pub(crate) fn pointer(&self) -> *mut OrtValue {
        self.0.as_ptr()
    }

    fn data(&self) -> Result<*mut c_void> {
        let mut data = ptr::null_mut();
        // SAFETY: it is a tensor, and it fills in a pointer.
        check(unsafe { (ort::api().GetTensorMutableData)(self.pointer(), &raw mut data) })?;
        Ok(data)
    }

    /// Returns element type and shape.
    fn describe(&self) -> Result<(DataType, Vec<i64>)> {
        let api = ort::api();
        let mut is_tensor = 0;
        // SAFETY: the value is valid, and so are the filled-in pointers.
        check(unsafe { (api.IsTensor)(self.pointer(), &raw mut is_tensor) })?;
        if is_tensor == 0 {
            let message = "the model gives a sequence or a map, and only tensors can be passed on";
            return Err(Error::new(ErrorCode::Unsupported, message));
        }
        let mut info = ptr::null_mut();
        // SAFETY: as above.
        check(unsafe { (api.GetTensorTypeAndShape)(self.pointer(), &raw mut info) })?;
        let mut element = Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
        let mut rank = 0;
        let mut shape = Vec::new();
        let described = (|| {
            // SAFETY: `info` was just returned, and each call fills in the given place.
            unsafe {
                check((api.GetTensorElementType)(info, &raw mut element))?;
                check((api.GetDimensionsCount)(info, &raw mut rank))?;
                shape.resize(rank, 0);
                check((api.GetDimensions)(info, shape.as_mut_ptr(), rank))
            }
        })();
        // SAFETY: it is owned and not used again.
        unsafe { (api.ReleaseTensorTypeAndShapeInfo)(info) };
        described?;
        let known = ELEMENTS.iter().find(|(known, _)| *known == element);
        let (_, dtype) = known.ok_or_else(|| {
            let message =
                format!("the model gives elements of a type that is not known: {element:?}");
            Error::new(ErrorCode::Unsupported, message)
        })?;
        Ok((*dtype, shape))
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        // SAFETY: it is owned and not used again.
        unsafe { (ort::api().ReleaseValue)(self.pointer()) };
    }
}

/// Owned memory on a device.
struct Buffer {
    memory: *mut c_void,
    device: Arc<dyn Accelerator>,
}

// SAFETY: it is memory of a device that may be used from any thread.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: it was allocated on this device, and the value that used it was dropped.
        unsafe { self.device.free(self.memory) };
    }
}

/// A tensor.
pub struct OrtTensor {
    /// Dropped before its memory.
    value: Value,
    /// The memory, if it is not ONNX Runtime's own.
    _buffer: Option<Buffer>,
    /// Device of the elements, if they are not in the host's memory.
    device: Option<Arc<dyn Accelerator>>,
    /// Number that is unique in the process.
    id: u64,
    dtype: DataType,
    shape: Vec<i64>,
}

/// A type that contains a tensor of the engine: the tensor itself, or the type of a backend with several engines.
pub trait Carrier: Tensor {
    /// Returns the tensor.
    fn carried(&self) -> &OrtTensor;

    /// Wraps a tensor.
    fn carry(tensor: OrtTensor) -> Self;
}

impl Carrier for OrtTensor {
    #[inline]
    fn carried(&self) -> &OrtTensor {
        self
    }

    fn carry(tensor: OrtTensor) -> Self {
        tensor
    }
}

fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl OrtTensor {
    /// Copies a view to the device, or within the host's memory if there is none.
    pub(crate) fn new(view: &View<'_>, device: Option<&Arc<dyn Accelerator>>) -> Result<Self> {
        let dtype = view.dtype();
        let element = element_of(dtype)?;
        let shape = view.shape().to_vec();
        let bytes = view.contiguous()?;
        let (value, buffer) = match device {
            None => (host_value(&shape, element, &bytes)?, None),
            Some(device) => {
                let (value, buffer) = device_value(&shape, element, &bytes, device)?;
                (value, Some(buffer))
            }
        };
        let device = device.cloned();
        Ok(Self { value, _buffer: buffer, device, id: next_id(), dtype, shape })
    }

    /// Takes ownership of a value that a run has created.
    pub(crate) fn made(value: Value, device: Option<&Arc<dyn Accelerator>>) -> Result<Self> {
        let (dtype, shape) = value.describe()?;
        let device = device.cloned();
        Ok(Self { value, _buffer: None, device, id: next_id(), dtype, shape })
    }

    #[inline]
    pub(crate) fn pointer(&self) -> *mut OrtValue {
        self.value.pointer()
    }

    #[inline]
    pub(crate) fn id(&self) -> u64 {
        self.id
    }
}

/// Returns a tensor in the host's memory, which ONNX Runtime allocates and aligns.
fn host_value(shape: &[i64], element: Element, bytes: &[u8]) -> Result<Value> {
    let allocator = host_allocator()?;
    let mut value = ptr::null_mut();
    // SAFETY: the shape has no negative sizes, like every view's, and the allocator stays valid.
    let value = unsafe {
        let (sizes, rank) = (shape.as_ptr(), shape.len());
        let create = ort::api().CreateTensorAsOrtValue;
        check(create(allocator, sizes, rank, element, &raw mut value))?;
        Value::new(value)
    };
    let value = value.ok_or_else(|| Error::new(ErrorCode::Internal, "a value is null"))?;
    if !bytes.is_empty() {
        let data = value.data()?.cast::<u8>();
        // SAFETY: shape and element type come from the view, so there is room for its bytes.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), data, bytes.len()) };
    }
    Ok(value)
}

fn device_value(
    shape: &[i64],
    element: Element,
    bytes: &[u8],
    device: &Arc<dyn Accelerator>,
) -> Result<(Value, Buffer)> {
    let memory = device.allocate(bytes.len())?;
    let buffer = Buffer { memory, device: Arc::clone(device) };
    if !bytes.is_empty() {
        // SAFETY: there is room for the bytes.
        unsafe { device.copy_in(bytes, memory) }?;
    }
    let info = MemoryInfo::new(device.memory())?;
    let mut value = ptr::null_mut();
    // SAFETY: the memory is as large as shape and element type say, and outlives the value.
    let value = unsafe {
        let create = ort::api().CreateTensorWithDataAsOrtValue;
        let (sizes, rank) = (shape.as_ptr(), shape.len());
        let length = bytes.len();
        check(create(info.0.as_ptr(), memory, length, sizes, rank, element, &raw mut value))?;
        Value::new(value)
    };
    let value = value.ok_or_else(|| Error::new(ErrorCode::Internal, "a value is null"))?;
    Ok((value, buffer))
}

/// A kind of memory, in ONNX Runtime's terms.
pub(crate) struct MemoryInfo(pub(crate) NonNull<ort::sys::OrtMemoryInfo>);

impl MemoryInfo {
    pub(crate) fn new((name, number): (&CStr, i32)) -> Result<Self> {
        let mut info = ptr::null_mut();
        // SAFETY: the name is a C string, and the call fills in a pointer.
        check(unsafe {
            (ort::api().CreateMemoryInfo)(
                name.as_ptr(),
                ort::sys::OrtAllocatorType::OrtDeviceAllocator,
                number,
                ort::sys::OrtMemType::OrtMemTypeDefault,
                &raw mut info,
            )
        })?;
        let info = NonNull::new(info);
        info.map(Self).ok_or_else(|| Error::new(ErrorCode::Internal, "a memory's place is null"))
    }
}

impl Drop for MemoryInfo {
    fn drop(&mut self) {
        // SAFETY: it is owned and not used again.
        unsafe { (ort::api().ReleaseMemoryInfo)(self.0.as_ptr()) };
    }
}

impl Tensor for OrtTensor {
    fn dtype(&self) -> DataType {
        self.dtype
    }

    fn shape(&self) -> &[i64] {
        &self.shape
    }

    fn read(&self, into: &mut ViewMut<'_>) -> Result<()> {
        let count: i64 = self.shape.iter().product();
        let length = count as usize * self.dtype.size();
        if length == 0 {
            return Ok(());
        }
        let data = self.value.data()?;
        let Some(device) = &self.device else {
            // SAFETY: the tensor's elements are there, and nothing writes to them meanwhile.
            let bytes = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), length) };
            return into.write_bytes(bytes);
        };
        if let Some(room) = into.contiguous() {
            // SAFETY: the view has the tensor's type and shape, so it has room for its bytes.
            return unsafe { device.copy_out(data, room) };
        }
        let mut bytes = vec![0_u8; length];
        // SAFETY: bytes that may be uninitialised can hold initialised ones, and all are written.
        let room = unsafe {
            std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast::<MaybeUninit<u8>>(), length)
        };
        // SAFETY: the number of bytes matches.
        unsafe { device.copy_out(data, room) }?;
        into.write_bytes(&bytes)
    }
}

impl std::fmt::Debug for OrtTensor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("OrtTensor")
            .field("dtype", &self.dtype)
            .field("shape", &self.shape)
            .finish_non_exhaustive()
    }
}
