//! OpenVINO's C interface, made safe.
//!
//! The crate `openvino` uses the same bindings, but lacks functions that a benchmark needs: it cannot pass properties
//! when a model is compiled, only set them for all models of a core; it has no profile; and it frees neither ports
//! nor texts, which the conformance suite detects. So this module wraps the few calls that are needed, with a type
//! that frees each handle.

use std::ffi::{CStr, CString, c_char};
use std::fmt;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

use openvino_sys as sys;
use plugin_api::backend::{DataType, element_count};

/// An error of OpenVINO.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

/// Returns the failure. The last error's message is global to the process: two threads that fail at once
/// may get the same one.
#[cold]
fn failure(status: sys::ov_status_e) -> Failure {
    // SAFETY: the library is loaded, since it has just returned a status.
    let text = unsafe { take_text(sys::ov_get_last_err_msg().cast_mut()) };
    let message = match readable(&text) {
        text if text.is_empty() => format!("OpenVINO failed with {status:?} without a message"),
        text => text,
    };
    Failure { message }
}

fn check(status: sys::ov_status_e) -> Result<()> {
    if status == sys::ov_status_e::OK { Ok(()) } else { Err(failure(status)) }
}

/// Returns a message of OpenVINO's exceptions on one line, without its leading source locations.
fn readable(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let reasons: Vec<&str> = lines.clone().filter(|line| !is_place(line)).collect();
    if reasons.is_empty() { lines.collect::<Vec<_>>().join(" ") } else { reasons.join(" ") }
}

/// Recognises lines such as `Exception from src/core/src/runtime/tensor.cpp:95:` and `Check 'status'
/// failed at …:88:`.
fn is_place(line: &str) -> bool {
    (line.starts_with("Exception from ") || line.starts_with("Check '")) && line.ends_with(':')
}

/// Takes ownership of a text from the library.
///
/// # Safety
///
/// The text is null, or ends with a zero and is freed with `ov_free`.
unsafe fn take_text(text: *mut c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller guarantees it.
    unsafe {
        let owned = CStr::from_ptr(text).to_string_lossy().into_owned();
        sys::ov_free(text);
        owned
    }
}

fn c_text(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Failure { message: format!("{text:?} has a zero byte in it") })
}

/// Calls a function that makes a handle.
fn made<T>(make: impl FnOnce(*mut *mut T) -> sys::ov_status_e) -> Result<NonNull<T>> {
    let mut raw = ptr::null_mut();
    check(make(&raw mut raw))?;
    NonNull::new(raw).ok_or_else(|| Failure { message: "OpenVINO gave a null handle".into() })
}

macro_rules! handles {
    ($($(#[$meta:meta])* $name:ident($raw:ident) by $free:ident;)+) => {$(
        $(#[$meta])*
        #[derive(Debug)]
        pub(crate) struct $name(NonNull<sys::$raw>);

        impl Drop for $name {
            fn drop(&mut self) {
                // SAFETY: this module owns the handle, and does not use it again.
                unsafe { sys::$free(self.0.as_ptr()) };
            }
        }
    )+};
}

handles! {
    /// The runtime with its devices.
    Core(ov_core_t) by ov_core_free;
    /// A model that was read.
    Model(ov_model_t) by ov_model_free;
    /// A model that was compiled for a device.
    Compiled(ov_compiled_model_t) by ov_compiled_model_free;
    /// One inference at a time.
    Request(ov_infer_request_t) by ov_infer_request_free;
    /// An input or output of a model.
    Port(ov_output_const_port_t) by ov_output_const_port_free;
    /// Handle of a tensor.
    TensorHandle(ov_tensor_t) by ov_tensor_free;
}

// SAFETY: OpenVINO's objects are reference-counted atomically, and are used from any thread.
unsafe impl Send for Core {}
// SAFETY: reading and compiling models, and asking for properties, may be done by several threads at once
// ("ov::Core … thread safe", OpenVINO's documentation of the class).
unsafe impl Sync for Core {}
// SAFETY: as for `Core`. It is changed by reshaping only, which takes it exclusively.
unsafe impl Send for Model {}
// SAFETY: as for `Core`.
unsafe impl Send for Compiled {}
// SAFETY: a compiled model is constant: it only creates requests and returns properties.
unsafe impl Sync for Compiled {}
// SAFETY: as for `Core`. A request is used by one thread at a time, exclusively.
unsafe impl Send for Request {}
// SAFETY: as for `Core`.
unsafe impl Send for TensorHandle {}
// SAFETY: the handle is only read; `Tensor` guards the memory that it refers to.
unsafe impl Sync for TensorHandle {}

/// Returns the version of the loaded library, such as `2026.4.1-22982-…`.
pub(crate) fn version() -> Result<String> {
    let mut raw = sys::ov_version_t { buildNumber: ptr::null(), description: ptr::null() };
    // SAFETY: the struct is writable, and freed after its text was copied.
    unsafe {
        check(sys::ov_get_openvino_version(&raw mut raw))?;
        let version = borrowed(raw.buildNumber);
        sys::ov_version_free(&raw mut raw);
        Ok(version)
    }
}

/// # Safety
///
/// The text is null, or ends with a zero.
unsafe fn borrowed(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller guarantees it.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

impl Core {
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: the pointer is writable.
        made(|raw| unsafe { sys::ov_core_create(raw) }).map(Self)
    }

    /// Returns the names of the available devices, such as `CPU` or `GPU.1`.
    pub(crate) fn devices(&self) -> Result<Vec<String>> {
        let mut raw = sys::ov_available_devices_t { devices: ptr::null_mut(), size: 0 };
        // SAFETY: the list has the stated length, and is freed after its texts were copied.
        unsafe {
            check(sys::ov_core_get_available_devices(self.0.as_ptr(), &raw mut raw))?;
            let names = list(raw.devices, raw.size).iter().map(|name| borrowed(*name)).collect();
            sys::ov_available_devices_free(&raw mut raw);
            Ok(names)
        }
    }

    /// Returns the version of the plugin that drives a device.
    pub(crate) fn device_version(&self, device: &str) -> Result<String> {
        let device = c_text(device)?;
        let mut raw = sys::ov_core_version_list_t { versions: ptr::null_mut(), size: 0 };
        // SAFETY: as for `devices`.
        unsafe {
            let core = self.0.as_ptr();
            check(sys::ov_core_get_versions_by_device_name(core, device.as_ptr(), &raw mut raw))?;
            let first = list(raw.versions, raw.size).first();
            let version = first.map(|one| borrowed(one.version.buildNumber)).unwrap_or_default();
            sys::ov_core_versions_free(&raw mut raw);
            Ok(version)
        }
    }

    pub(crate) fn property(&self, device: &str, key: &str) -> Result<String> {
        let (device, key) = (c_text(device)?, c_text(key)?);
        let mut value = ptr::null_mut();
        // SAFETY: the texts are valid during the call, and this side frees the value.
        unsafe {
            let core = self.0.as_ptr();
            check(sys::ov_core_get_property(core, device.as_ptr(), key.as_ptr(), &raw mut value))?;
            Ok(take_text(value))
        }
    }

    /// Reads a model; the weights of an OpenVINO IR are in the `.bin` beside it.
    pub(crate) fn read(&self, path: &str) -> Result<Model> {
        let path = c_text(path)?;
        // SAFETY: the path is valid during the call; a null second path is allowed.
        made(|raw| unsafe {
            sys::ov_core_read_model(self.0.as_ptr(), path.as_ptr(), ptr::null(), raw)
        })
        .map(Model)
    }

    pub(crate) fn compile(
        &self,
        model: &Model,
        device: &str,
        properties: &[(String, String)],
    ) -> Result<Compiled> {
        let device = c_text(device)?;
        let texts: Vec<(CString, CString)> = properties
            .iter()
            .map(|(key, value)| Ok((c_text(key)?, c_text(value)?)))
            .collect::<Result<_>>()?;
        let properties: Vec<sys::ov_property_t> = texts
            .iter()
            .map(|(key, value)| sys::ov_property_t {
                key: key.as_ptr(),
                value: value.as_ptr().cast(),
            })
            .collect();
        // SAFETY: everything is valid during the call, and the count is correct.
        made(|raw| unsafe {
            sys::ov_core_compile_model_props(
                self.0.as_ptr(),
                model.0.as_ptr(),
                device.as_ptr(),
                properties.len(),
                properties.as_ptr(),
                raw,
            )
        })
        .map(Compiled)
    }
}

/// # Safety
///
/// `raw` is null or points to `count` values, valid during `'a`.
unsafe fn list<'a, T>(raw: *const T, count: usize) -> &'a [T] {
    if raw.is_null() {
        return &[];
    }
    // SAFETY: the caller guarantees it.
    unsafe { std::slice::from_raw_parts(raw, count) }
}

/// An axis: its size, or `None` if that differs from call to call.
pub(crate) type Axis = Option<u64>;

/// Facts about an input or output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PortInfo {
    pub(crate) name: Option<String>,
    pub(crate) dtype: Option<DataType>,
    pub(crate) axes: Option<Vec<Axis>>,
}

impl PortInfo {
    /// Returns the shape, if it is static.
    pub(crate) fn shape(&self) -> Option<Vec<i64>> {
        self.axes.as_ref()?.iter().map(|axis| axis.map(|size| size as i64)).collect()
    }
}

impl Port {
    fn info(&self) -> Result<PortInfo> {
        let port = self.0.as_ptr();
        let mut name = ptr::null_mut();
        // SAFETY: the pointer is writable, and this side frees the text.
        let name = unsafe {
            // A port without a name is an error there.
            let named = check(sys::ov_port_get_any_name(port, &raw mut name)).is_ok();
            named.then(|| take_text(name)).filter(|name| !name.is_empty())
        };
        // A number without a name in the bindings must not become a value of their enumeration.
        let mut element = MaybeUninit::<u32>::zeroed();
        // SAFETY: the enumeration is a `u32` in memory.
        let element = unsafe {
            check(sys::ov_port_get_element_type(port, element.as_mut_ptr().cast()))?;
            element.assume_init()
        };
        Ok(PortInfo { name, dtype: dtype(element), axes: self.axes()? })
    }

    fn axes(&self) -> Result<Option<Vec<Axis>>> {
        let none = sys::ov_dimension_t { min: 0, max: 0 };
        let mut shape = sys::ov_partial_shape_t { rank: none, dims: ptr::null_mut() };
        // SAFETY: the struct is writable; it has as many axes as a fixed rank says; it is freed after they were
        // copied.
        unsafe {
            check(sys::ov_port_get_partial_shape(self.0.as_ptr(), &raw mut shape))?;
            let rank = (shape.rank.min == shape.rank.max).then_some(shape.rank.max);
            let axes = rank.and_then(|rank| usize::try_from(rank).ok()).map(|rank| {
                let size = |axis: &sys::ov_dimension_t| {
                    (axis.min == axis.max).then(|| u64::try_from(axis.max).ok()).flatten()
                };
                list(shape.dims, rank).iter().map(size).collect()
            });
            sys::ov_partial_shape_free(&raw mut shape);
            Ok(axes)
        }
    }
}

impl Model {
    pub(crate) fn inputs(&self) -> Result<Vec<PortInfo>> {
        let model = self.0.as_ptr();
        let mut count = 0;
        // SAFETY: pointers are writable, and each index is below the count.
        unsafe {
            check(sys::ov_model_inputs_size(model, &raw mut count))?;
            (0..count)
                .map(|index| {
                    made(|raw| sys::ov_model_const_input_by_index(model, index, raw))
                        .map(Port)?
                        .info()
                })
                .collect()
        }
    }

    pub(crate) fn outputs(&self) -> Result<Vec<PortInfo>> {
        let model = self.0.as_ptr();
        let mut count = 0;
        // SAFETY: as for `inputs`.
        unsafe {
            check(sys::ov_model_outputs_size(model, &raw mut count))?;
            (0..count)
                .map(|index| {
                    made(|raw| sys::ov_model_const_output_by_index(model, index, raw))
                        .map(Port)?
                        .info()
                })
                .collect()
        }
    }

    /// Fixes the shapes of all inputs. One without an axis has its shape already, and OpenVINO would make a list of any
    /// length of it.
    pub(crate) fn reshape(&mut self, shapes: &[&[i64]]) -> Result<()> {
        let mut partial = PartialShapes(Vec::with_capacity(shapes.len()));
        let mut indexes: Vec<usize> = Vec::new();
        for (index, shape) in shapes.iter().enumerate().filter(|(_, shape)| !shape.is_empty()) {
            let mut raw = MaybeUninit::<sys::ov_partial_shape_t>::uninit();
            // SAFETY: there are as many sizes as the rank; the struct is written if there is no error.
            unsafe {
                check(sys::ov_partial_shape_create_static(
                    shape.len() as i64,
                    shape.as_ptr(),
                    raw.as_mut_ptr(),
                ))?;
                partial.0.push(raw.assume_init());
            }
            indexes.push(index);
        }
        // SAFETY: both lists are as long as the count says.
        check(unsafe {
            sys::ov_model_reshape_by_port_indexes(
                self.0.as_ptr(),
                indexes.as_ptr(),
                partial.0.as_ptr(),
                indexes.len(),
            )
        })
    }
}

struct PartialShapes(Vec<sys::ov_partial_shape_t>);

impl Drop for PartialShapes {
    fn drop(&mut self) {
        for shape in &mut self.0 {
            // SAFETY: each was created, and is not used again.
            unsafe { sys::ov_partial_shape_free(shape) };
        }
    }
}

impl Compiled {
    pub(crate) fn property(&self, key: &str) -> Result<String> {
        let key = c_text(key)?;
        let mut value = ptr::null_mut();
        // SAFETY: as for a core's property.
        unsafe {
            let compiled = self.0.as_ptr();
            check(sys::ov_compiled_model_get_property(compiled, key.as_ptr(), &raw mut value))?;
            Ok(take_text(value))
        }
    }

    pub(crate) fn outputs(&self) -> Result<Vec<PortInfo>> {
        let compiled = self.0.as_ptr();
        let mut count = 0;
        // SAFETY: pointers are writable, and each index is below the count.
        unsafe {
            check(sys::ov_compiled_model_outputs_size(compiled, &raw mut count))?;
            (0..count)
                .map(|index| {
                    made(|raw| sys::ov_compiled_model_output_by_index(compiled, index, raw))
                        .map(Port)?
                        .info()
                })
                .collect()
        }
    }

    pub(crate) fn request(&self) -> Result<Request> {
        let compiled = self.0.as_ptr();
        // SAFETY: the pointer is writable.
        made(|raw| unsafe { sys::ov_compiled_model_create_infer_request(compiled, raw) })
            .map(Request)
    }
}

impl Request {
    #[inline]
    pub(crate) fn set_input(&mut self, index: usize, tensor: &Tensor) -> Result<()> {
        let (request, tensor) = (self.0.as_ptr(), tensor.handle.0.as_ptr());
        // SAFETY: both are alive; the request keeps the tensor alive.
        check(unsafe { sys::ov_infer_request_set_input_tensor_by_index(request, index, tensor) })
    }

    #[inline]
    pub(crate) fn set_output(&mut self, index: usize, tensor: &Tensor) -> Result<()> {
        let (request, tensor) = (self.0.as_ptr(), tensor.handle.0.as_ptr());
        // SAFETY: as for `set_input`.
        check(unsafe { sys::ov_infer_request_set_output_tensor_by_index(request, index, tensor) })
    }

    /// Returns a copy of an output in the request's own memory.
    pub(crate) fn copy_output(&self, index: usize) -> Result<Tensor> {
        let request = self.0.as_ptr();
        // SAFETY: the pointer is writable.
        let handle = made(|raw| unsafe {
            sys::ov_infer_request_get_output_tensor_by_index(request, index, raw)
        })
        .map(TensorHandle)?;
        let theirs = Tensor::from_handle(handle)?;
        let mut copy = Tensor::new(theirs.dtype, &theirs.shape)?;
        copy.bytes_mut().copy_from_slice(theirs.bytes());
        Ok(copy)
    }

    /// Computes, and waits for the result.
    #[inline]
    pub(crate) fn infer(&mut self) -> Result<()> {
        // SAFETY: the request is alive and not used elsewhere.
        check(unsafe { sys::ov_infer_request_infer(self.0.as_ptr()) })
    }

    pub(crate) fn start(&mut self) -> Result<()> {
        // SAFETY: as for `infer`; it keeps its tensors alive.
        check(unsafe { sys::ov_infer_request_start_async(self.0.as_ptr()) })
    }

    pub(crate) fn wait(&mut self) -> Result<()> {
        // SAFETY: as for `infer`.
        check(unsafe { sys::ov_infer_request_wait(self.0.as_ptr()) })
    }

    /// Returns the times of the operators of the last inference, in the order of execution.
    pub(crate) fn profile(&self) -> Result<Vec<Operator>> {
        let mut raw = sys::ov_profiling_info_list_t { profiling_infos: ptr::null_mut(), size: 0 };
        // SAFETY: the list has the stated length, and is freed after it was copied.
        unsafe {
            let request = self.0.as_ptr();
            check(sys::ov_infer_request_get_profiling_info(request, &raw mut raw))?;
            let operators = list(raw.profiling_infos, raw.size)
                .iter()
                .filter(|one| one.status == sys::ov_profiling_info_t_Status::EXECUTED)
                .map(|one| Operator {
                    name: borrowed(one.node_name),
                    kind: borrowed(one.node_type),
                    microseconds: one.real_time,
                })
                .collect();
            sys::ov_profiling_info_list_free(&raw mut raw);
            Ok(operators)
        }
    }
}

/// An operator that ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Operator {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) microseconds: i64,
}

/// A tensor in the host's memory, which requests read and write in place.
#[derive(Debug)]
pub(crate) struct Tensor {
    handle: TensorHandle,
    dtype: DataType,
    shape: Vec<i64>,
    data: *mut u8,
    length: usize,
}

// SAFETY: the memory belongs to the handle. A writer has exclusive access to the tensor, or to a request that writes
// to it, by the ABI's rules for outputs.
unsafe impl Send for Tensor {}
// SAFETY: as above.
unsafe impl Sync for Tensor {}

impl Tensor {
    /// Creates a tensor of zeros.
    pub(crate) fn new(dtype: DataType, shape: &[i64]) -> Result<Self> {
        let element = element(dtype).ok_or_else(|| Failure {
            message: format!("OpenVINO has no elements of type {dtype}"),
        })?;
        let mut sizes = shape.to_vec();
        let raw_shape = sys::ov_shape_t { rank: sizes.len() as i64, dims: sizes.as_mut_ptr() };
        // SAFETY: the shape has as many sizes as its rank says, and is only read.
        let handle = made(|raw| unsafe { sys::ov_tensor_create(element, raw_shape, raw) })
            .map(TensorHandle)?;
        let mut tensor = Self::with(handle, dtype, sizes)?;
        tensor.zero();
        Ok(tensor)
    }

    fn from_handle(handle: TensorHandle) -> Result<Self> {
        let mut element = MaybeUninit::<u32>::zeroed();
        let mut shape = sys::ov_shape_t { rank: 0, dims: ptr::null_mut() };
        // SAFETY: both are writable; the shape is freed after its sizes were copied.
        let (element, sizes) = unsafe {
            let raw = handle.0.as_ptr();
            check(sys::ov_tensor_get_element_type(raw, element.as_mut_ptr().cast()))?;
            check(sys::ov_tensor_get_shape(raw, &raw mut shape))?;
            let sizes = list(shape.dims.cast_const(), shape.rank as usize).to_vec();
            check(sys::ov_shape_free(&raw mut shape))?;
            (element.assume_init(), sizes)
        };
        let dtype = dtype(element).ok_or_else(|| Failure {
            message: format!("an output has elements of OpenVINO's type {element}"),
        })?;
        Self::with(handle, dtype, sizes)
    }

    fn with(handle: TensorHandle, dtype: DataType, shape: Vec<i64>) -> Result<Self> {
        let count = element_count(&shape).and_then(|count| count.checked_mul(dtype.size()));
        let length = count.ok_or_else(|| Failure { message: format!("the shape {shape:?}") })?;
        let mut data = ptr::null_mut();
        if length > 0 {
            // SAFETY: the pointer is writable.
            check(unsafe { sys::ov_tensor_data(handle.0.as_ptr(), &raw mut data) })?;
        }
        Ok(Self { handle, dtype, shape, data: data.cast(), length })
    }

    pub(crate) fn dtype(&self) -> DataType {
        self.dtype
    }

    pub(crate) fn shape(&self) -> &[i64] {
        &self.shape
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the handle keeps these bytes alive, and all were written.
        unsafe { list(self.data.cast_const(), self.length) }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        if self.length == 0 {
            return &mut [];
        }
        // SAFETY: as above, with exclusive access to the tensor.
        unsafe { std::slice::from_raw_parts_mut(self.data, self.length) }
    }

    /// Clears memory, because uninitialised memory must not be read.
    fn zero(&mut self) {
        if self.length > 0 {
            // SAFETY: these bytes exist, and access is exclusive.
            unsafe { self.data.write_bytes(0, self.length) };
        }
    }
}

/// OpenVINO's element types (`ov_element_type_e` since 2025.1) and the ABI's.
const ELEMENTS: &[(sys::ov_element_type_e, DataType)] = &[
    (sys::ov_element_type_e::OV_BOOLEAN, DataType::BOOL),
    (sys::ov_element_type_e::BF16, DataType::BF16),
    (sys::ov_element_type_e::F16, DataType::F16),
    (sys::ov_element_type_e::F32, DataType::F32),
    (sys::ov_element_type_e::F64, DataType::F64),
    (sys::ov_element_type_e::I8, DataType::I8),
    (sys::ov_element_type_e::I16, DataType::I16),
    (sys::ov_element_type_e::I32, DataType::I32),
    (sys::ov_element_type_e::I64, DataType::I64),
    (sys::ov_element_type_e::U8, DataType::U8),
    (sys::ov_element_type_e::U16, DataType::U16),
    (sys::ov_element_type_e::U32, DataType::U32),
    (sys::ov_element_type_e::U64, DataType::U64),
];

fn dtype(element: u32) -> Option<DataType> {
    ELEMENTS.iter().find(|(raw, _)| *raw as u32 == element).map(|(_, dtype)| *dtype)
}

fn element(dtype: DataType) -> Option<sys::ov_element_type_e> {
    ELEMENTS.iter().find(|(_, ours)| *ours == dtype).map(|(raw, _)| *raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_in_the_source_are_left_out_of_messages() {
        let text = "Exception from src/inference/src/cpp/core.cpp:128:\n\
                    Check 'plugin' failed at src/inference/src/dev/core_impl.cpp:589:\n\
                    Device with \"GPU\" name is not registered in the OpenVINO Runtime\n";
        let reasons = "Device with \"GPU\" name is not registered in the OpenVINO Runtime";
        assert_eq!(readable(text), reasons);
        let only = "Exception from src/core/src/any.cpp:1:\n\n";
        assert_eq!(readable(only), "Exception from src/core/src/any.cpp:1:");
        assert_eq!(readable("\n"), "");
    }

    #[test]
    fn every_element_type_of_ours_has_one_of_theirs() {
        for ours in DataType::ALL {
            let theirs = element(*ours).expect("a type");
            assert_eq!(dtype(theirs as u32), Some(*ours));
        }
        assert_eq!(dtype(1000), None);
        assert_eq!(dtype(sys::ov_element_type_e::STRING as u32), None);
    }
}
