//! Memory and queue of a device with its own memory, and the runtimes of GPUs, which offer both.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::mem::MaybeUninit;
use std::path::PathBuf;
use std::ptr;

use libloading::Library;
use plugin_api::backend::{Error, ErrorCode, Result};

use crate::library::loader_says;

/// A device with its own memory, and a queue on which a model's sessions compute.
pub trait Accelerator: Send + Sync + 'static {
    /// Returns ONNX Runtime's name for the memory, such as `Cuda`, and the device's number.
    fn memory(&self) -> (&'static CStr, i32);

    /// Allocates memory on the device: at least as many bytes as requested.
    ///
    /// # Errors
    ///
    /// Out of memory, or the device's error.
    fn allocate(&self, bytes: usize) -> Result<*mut c_void>;

    /// Frees memory.
    ///
    /// # Safety
    ///
    /// `memory` is from [`Accelerator::allocate`], and is not used again.
    unsafe fn free(&self, memory: *mut c_void);

    /// Copies to the device, after all queued work, and returns when the copy is done.
    ///
    /// # Errors
    ///
    /// Returns the device's error.
    ///
    /// # Safety
    ///
    /// `to` has room for the bytes.
    unsafe fn copy_in(&self, from: &[u8], to: *mut c_void) -> Result<()>;

    /// Copies from the device, after all queued work, and returns when `to` is written.
    ///
    /// # Errors
    ///
    /// Returns the device's error.
    ///
    /// # Safety
    ///
    /// `from` has as many bytes.
    unsafe fn copy_out(&self, from: *const c_void, to: &mut [MaybeUninit<u8>]) -> Result<()>;

    /// Returns when all queued work is done.
    ///
    /// # Errors
    ///
    /// The first error of that work.
    fn synchronise(&self) -> Result<()>;

    /// Queues a mark, from which [`Accelerator::end_timing`] counts.
    ///
    /// # Errors
    ///
    /// Returns the device's error.
    fn begin_timing(&self) -> Result<()>;

    /// Queues another mark, waits for it, and returns the nanoseconds between the two on the device.
    ///
    /// # Errors
    ///
    /// Returns the device's error.
    fn end_timing(&self) -> Result<u64>;
}

/// Names of a GPU runtime's functions and memory, the only relevant difference between CUDA and HIP.
#[derive(Debug, Clone, Copy)]
pub struct RuntimeNames {
    /// Prefix of every function: `cuda`, `hip`.
    pub prefix: &'static str,
    /// ONNX Runtime's name for the memory: `Cuda`, `Hip`.
    pub memory: &'static CStr,
    /// Names of the library, the preferred one first.
    pub libraries: &'static [&'static str],
}

type Status = c_int;
type Handle = *mut c_void;

/// The functions that are used.
struct Functions {
    malloc: unsafe extern "C" fn(*mut *mut c_void, usize) -> Status,
    free: unsafe extern "C" fn(*mut c_void) -> Status,
    memcpy_async: unsafe extern "C" fn(*mut c_void, *const c_void, usize, c_int, Handle) -> Status,
    set_device: unsafe extern "C" fn(c_int) -> Status,
    stream_create: unsafe extern "C" fn(*mut Handle, c_uint) -> Status,
    stream_synchronize: unsafe extern "C" fn(Handle) -> Status,
    stream_destroy: unsafe extern "C" fn(Handle) -> Status,
    event_create: unsafe extern "C" fn(*mut Handle) -> Status,
    event_record: unsafe extern "C" fn(Handle, Handle) -> Status,
    event_synchronize: unsafe extern "C" fn(Handle) -> Status,
    event_elapsed: unsafe extern "C" fn(*mut f32, Handle, Handle) -> Status,
    event_destroy: unsafe extern "C" fn(Handle) -> Status,
    error_string: unsafe extern "C" fn(Status) -> *const c_char,
    runtime_version: unsafe extern "C" fn(*mut c_int) -> Status,
}

const HOST_TO_DEVICE: c_int = 1;
const DEVICE_TO_HOST: c_int = 2;
/// A queue that does not wait for the default one.
const NON_BLOCKING: c_uint = 1;
/// Both runtimes' number for lack of memory.
const OUT_OF_MEMORY: Status = 2;

/// A queue and two events on one GPU, through the CUDA or HIP runtime found at run time.
pub struct GpuRuntime {
    names: RuntimeNames,
    device: i32,
    functions: Functions,
    stream: Handle,
    events: [Handle; 2],
    /// Keeps the functions valid.
    _library: Library,
}

// SAFETY: both runtimes may be called from any thread, and a queue from several.
unsafe impl Send for GpuRuntime {}
// SAFETY: as above.
unsafe impl Sync for GpuRuntime {}

impl GpuRuntime {
    /// Opens the runtime in `folder`, or the system's, and makes a queue on a device.
    ///
    /// # Errors
    ///
    /// If the runtime is missing, with the names that were searched for; or the runtime's error about the device.
    pub fn open(names: RuntimeNames, folder: Option<PathBuf>, device: i32) -> Result<Self> {
        let library = Self::library(names, folder)?;
        let functions = Functions::of(&library, names.prefix)?;
        let mut runtime = Self {
            names,
            device,
            functions,
            stream: ptr::null_mut(),
            events: [ptr::null_mut(); 2],
            _library: library,
        };
        // SAFETY: the functions belong to the runtime, and the pointers are valid.
        unsafe {
            runtime.check((runtime.functions.set_device)(device), "choosing the device")?;
            let status = (runtime.functions.stream_create)(&raw mut runtime.stream, NON_BLOCKING);
            runtime.check(status, "making a stream")?;
            for event in 0..runtime.events.len() {
                let status = (runtime.functions.event_create)(&raw mut runtime.events[event]);
                runtime.check(status, "making an event")?;
            }
        }
        Ok(runtime)
    }

    fn library(names: RuntimeNames, folder: Option<PathBuf>) -> Result<Library> {
        let inside = names.libraries.iter().filter_map(|name| Some(folder.as_ref()?.join(name)));
        let files = inside.chain(names.libraries.iter().map(PathBuf::from));
        let mut failures = Vec::new();
        for file in files {
            // SAFETY: this is the vendor's runtime; loading it runs only its own start-up.
            match unsafe { Library::new(&file) } {
                Ok(library) => return Ok(library),
                Err(error) => failures.push(loader_says(&error)),
            }
        }
        let message = format!("the runtime was not found: {}", failures.join("; "));
        Err(Error::new(ErrorCode::RuntimeMissing, message))
    }

    /// Returns the queue on which ONNX Runtime must compute.
    #[must_use]
    pub fn stream(&self) -> *mut c_void {
        self.stream
    }

    /// Returns the runtime's version, in its own numbering: 13020 is 13.2.
    ///
    /// # Errors
    ///
    /// The runtime's error.
    pub fn version(&self) -> Result<i32> {
        let mut version = 0;
        // SAFETY: the function fills in a number.
        let status = unsafe { (self.functions.runtime_version)(&raw mut version) };
        self.check(status, "asking for the runtime's version")?;
        Ok(version)
    }

    fn check(&self, status: Status, doing: &str) -> Result<()> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: the function gives a constant string for every number.
        let text = unsafe { CStr::from_ptr((self.functions.error_string)(status)) };
        let code = if status == OUT_OF_MEMORY { ErrorCode::OutOfMemory } else { ErrorCode::Device };
        let text = text.to_string_lossy();
        let message = format!("{doing} on device {} failed: {text} ({status})", self.device);
        Err(Error::new(code, message))
    }
}

impl Functions {
    fn of(library: &Library, prefix: &str) -> Result<Self> {
        /// Returns a function, with the type of the field that it is assigned to.
        fn find<T: Copy>(library: &Library, prefix: &str, name: &str) -> Result<T> {
            let name = format!("{prefix}{name}");
            // SAFETY: the functions have these types in every version of both runtimes.
            let found = unsafe { library.get::<T>(name.as_bytes()) };
            found.map(|symbol| *symbol).map_err(|error| {
                let why = loader_says(&error);
                Error::new(ErrorCode::RuntimeMissing, format!("the runtime has no `{name}`: {why}"))
            })
        }
        Ok(Self {
            malloc: find(library, prefix, "Malloc")?,
            free: find(library, prefix, "Free")?,
            memcpy_async: find(library, prefix, "MemcpyAsync")?,
            set_device: find(library, prefix, "SetDevice")?,
            stream_create: find(library, prefix, "StreamCreateWithFlags")?,
            stream_synchronize: find(library, prefix, "StreamSynchronize")?,
            stream_destroy: find(library, prefix, "StreamDestroy")?,
            event_create: find(library, prefix, "EventCreate")?,
            event_record: find(library, prefix, "EventRecord")?,
            event_synchronize: find(library, prefix, "EventSynchronize")?,
            event_elapsed: find(library, prefix, "EventElapsedTime")?,
            event_destroy: find(library, prefix, "EventDestroy")?,
            error_string: find(library, prefix, "GetErrorString")?,
            runtime_version: find(library, prefix, "RuntimeGetVersion")?,
        })
    }
}

impl Drop for GpuRuntime {
    fn drop(&mut self) {
        // SAFETY: this type owns the handles, and does not use them again; null ones were never created.
        unsafe {
            for event in self.events.into_iter().filter(|event| !event.is_null()) {
                (self.functions.event_destroy)(event);
            }
            if !self.stream.is_null() {
                (self.functions.stream_destroy)(self.stream);
            }
        }
    }
}

impl std::fmt::Debug for GpuRuntime {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("GpuRuntime")
            .field("names", &self.names)
            .field("device", &self.device)
            .finish_non_exhaustive()
    }
}

impl Accelerator for GpuRuntime {
    fn memory(&self) -> (&'static CStr, i32) {
        (self.names.memory, self.device)
    }

    fn allocate(&self, bytes: usize) -> Result<*mut c_void> {
        let mut memory = ptr::null_mut();
        // SAFETY: the functions belong to the runtime, and the pointers are valid.
        unsafe {
            self.check((self.functions.set_device)(self.device), "choosing the device")?;
            let status = (self.functions.malloc)(&raw mut memory, bytes.max(1));
            self.check(status, &format!("allocating {bytes} bytes"))?;
        }
        Ok(memory)
    }

    unsafe fn free(&self, memory: *mut c_void) {
        // SAFETY: guaranteed by the caller.
        unsafe { (self.functions.free)(memory) };
    }

    unsafe fn copy_in(&self, from: &[u8], to: *mut c_void) -> Result<()> {
        let (functions, stream) = (&self.functions, self.stream);
        let source = from.as_ptr().cast();
        // SAFETY: guaranteed by the caller.
        let status =
            unsafe { (functions.memcpy_async)(to, source, from.len(), HOST_TO_DEVICE, stream) };
        self.check(status, "copying to the device")?;
        self.synchronise()
    }

    unsafe fn copy_out(&self, from: *const c_void, to: &mut [MaybeUninit<u8>]) -> Result<()> {
        let (functions, stream) = (&self.functions, self.stream);
        let target = to.as_mut_ptr().cast();
        // SAFETY: guaranteed by the caller.
        let status =
            unsafe { (functions.memcpy_async)(target, from, to.len(), DEVICE_TO_HOST, stream) };
        self.check(status, "copying from the device")?;
        self.synchronise()
    }

    fn synchronise(&self) -> Result<()> {
        // SAFETY: this type owns the stream.
        let status = unsafe { (self.functions.stream_synchronize)(self.stream) };
        self.check(status, "waiting for the device")
    }

    fn begin_timing(&self) -> Result<()> {
        // SAFETY: this type owns stream and event.
        let status = unsafe { (self.functions.event_record)(self.events[0], self.stream) };
        self.check(status, "recording an event")
    }

    fn end_timing(&self) -> Result<u64> {
        let [begin, end] = self.events;
        let mut milliseconds = 0_f32;
        // SAFETY: this type owns stream and events.
        unsafe {
            let status = (self.functions.event_record)(end, self.stream);
            self.check(status, "recording an event")?;
            self.check((self.functions.event_synchronize)(end), "waiting for an event")?;
            let status = (self.functions.event_elapsed)(&raw mut milliseconds, begin, end);
            self.check(status, "reading the time between two events")?;
        }
        Ok((f64::from(milliseconds) * 1e6) as u64)
    }
}
