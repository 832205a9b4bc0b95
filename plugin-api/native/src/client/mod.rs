/*!
The host's side: safe wrappers over a plugin's entry point.

[`Backend::open`] takes the entry point and is the only unsafe function; everything after it is safe if the plugin
keeps the ABI. All data from a plugin is checked and copied immediately: null and misaligned pointers, text that is
not UTF-8, absurd counts, structs of impossible sizes become an [`Error`] with the code
[`ErrorCode::Contract`].

Handles are never null. They keep their parents alive, so they end in the right order in whichever order they are
dropped: calls and tensors before their session and model, models before the backend. They stay on the thread that
opened the backend, and the types are not `Send`; only if a backend serves several threads, [`Model::on_threads`]
allows preparing a model on others. Models and the backend end on the thread that opened it, or not at all. The
functions that the host gives a plugin are valid for the life of the process.

A [`Call`] is timed. It is prepared beforehand, so [`Call::run`] is one indirect call without any
allocation.
*/

mod call;
mod cancel;
mod error;
mod extensions;
mod foreign;
mod tensor;

use std::cell::RefCell;
use std::ffi::c_void;
use std::fmt;
use std::ptr::{self, NonNull};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, ThreadId};

pub use call::{Call, MarkedRun};
pub use cancel::Canceller;
pub use error::{Error, OpenError};
pub use extensions::{DeviceMemory, DeviceStateReader, PhaseMemory, StageTimes};
pub use tensor::{Tensor, TensorData, TensorView, TextData};

pub use crate::types::{
    AllocatorUse, DataType, Description, Device, DeviceReading, Dimension, ErrorCode, ModelInfo,
    ProfiledOperator, ShapesServed, TensorInfo, ValueKind, element_count,
};

use crate::abi;

/// The result of a call into a backend.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Calls a function of the table.
macro_rules! invoke {
    ($functions:expr, $call:ident, $args:expr) => {{
        // SAFETY: the arguments are filled in as the ABI requires, on the thread of the entry point or on one of a
        // backend that serves several, with handles of this backend that have not been ended.
        let error = unsafe { ($functions.$call)($args) };
        if error.is_null() {
            Ok(())
        } else {
            // SAFETY: the call has just returned it.
            Err(unsafe { Error::take(stringify!($call), error) })
        }
    }};
}
use invoke;

/// The table, with every function checked to be present.
struct Functions {
    describe: abi::Call<abi::DescribeArgs>,
    devices: abi::Call<abi::DevicesArgs>,
    load: abi::Call<abi::LoadArgs>,
    prepare: abi::Call<abi::PrepareArgs>,
    run: abi::Call<abi::RunArgs>,
    synchronise: abi::Call<abi::SynchroniseArgs>,
    release: abi::Call<abi::ReleaseArgs>,
    unload: abi::Call<abi::UnloadArgs>,
    destroy: abi::Call<abi::DestroyArgs>,
    tensor_create: abi::Call<abi::TensorCreateArgs>,
    tensor_describe: abi::Call<abi::TensorDescribeArgs>,
    tensor_read: abi::Call<abi::TensorReadArgs>,
    tensor_destroy: abi::Call<abi::TensorDestroyArgs>,
    get_extension: abi::GetExtension,
}

impl Functions {
    fn new(api: &abi::BackendApi) -> Result<Self, OpenError> {
        macro_rules! all {
            ($($name:ident)+) => {
                Self { $($name: api.$name.ok_or_else(|| OpenError::Contract {
                    detail: format!("the function `{}` is null", stringify!($name)),
                })?,)+ }
            };
        }
        Ok(all! {
            describe devices load prepare run synchronise release unload destroy
            tensor_create tensor_describe tensor_read tensor_destroy get_extension
        })
    }
}

/// Progress of a call, as the backend reports it.
#[derive(Debug, Clone, PartialEq)]
pub struct ProgressReport {
    /// Part that is done, from 0 to 1, if known.
    pub part: Option<f64>,
    /// Current activity; may be empty. Cut at 200 bytes.
    pub doing: String,
}

/// Limit in bytes of [`ProgressReport::doing`].
const DOING_LIMIT: usize = 200;

/// Callback for progress.
pub type OnProgress = Box<dyn FnMut(ProgressReport)>;

/// The host's functions, at an address that stays valid for the life of the process: a plugin may keep it, and call
/// from its own threads after its backend has ended. So this is never freed.
struct Host {
    api: abi::HostApi,
    refusal: Option<String>,
    /// The only thread whose progress is reported.
    thread: ThreadId,
    on_progress: RefCell<OnProgress>,
}

impl Host {
    /// Makes the functions for this thread. They are not freed.
    fn for_this_thread(on_progress: OnProgress) -> NonNull<Self> {
        let host = Box::leak(Box::new(Self {
            api: abi::HostApi {
                struct_size: size_of::<abi::HostApi>(),
                abi_major: abi::MAJOR,
                abi_minor: abi::MINOR,
                name: abi::String::borrow("tare"),
                version: abi::String::borrow(env!("CARGO_PKG_VERSION")),
                context: ptr::null_mut(),
                refuse: Some(refuse),
                progress: Some(progress),
            },
            refusal: None,
            thread: thread::current().id(),
            on_progress: RefCell::new(on_progress),
        }));
        let host = NonNull::from(host);
        // SAFETY: it was just made, and nothing else has it.
        unsafe { (*host.as_ptr()).api.context = host.as_ptr().cast() };
        host
    }

    /// Drops the listener, on the thread of the host. Later reports of the plugin are ignored.
    fn stop_listening(host: NonNull<Self>) {
        // SAFETY: it is never freed, and only this thread uses the listener, which is not in a call now.
        let listener = unsafe { &(*host.as_ptr()).on_progress };
        if let Ok(mut listener) = listener.try_borrow_mut() {
            *listener = Box::new(|_| {});
        }
    }
}

unsafe extern "C" fn progress(context: *mut c_void, report: *const abi::Progress) {
    // SAFETY: the plugin passes the context that it was given, which is valid for the life of the process.
    // Only these two fields are read, and another thread sees only constant parts of them.
    let (thread, on_progress) = unsafe {
        let host = context.cast::<Host>();
        (&(*host).thread, &raw const (*host).on_progress)
    };
    if *thread != thread::current().id() {
        return;
    }
    // SAFETY: this is the host's own thread.
    let on_progress = unsafe { &*on_progress };
    // SAFETY: the plugin passes progress as the ABI describes it.
    let Ok(report) = (unsafe { foreign::structure(report, "progress") }) else { return };
    // Progress during the listener's own calls of the backend is not reported.
    let Ok(mut listener) = on_progress.try_borrow_mut() else { return };
    let part = (0.0..=1.0).contains(&report.part).then_some(report.part);
    // SAFETY: the text is valid during this call. Invalid text is ignored.
    let doing = unsafe { foreign::message(report.doing, DOING_LIMIT, "what is being done") };
    listener(ProgressReport { part, doing: doing.unwrap_or_default() });
}

unsafe extern "C" fn refuse(context: *mut c_void, reason: abi::String) {
    // SAFETY: the plugin passes the context that it was given, and a valid string, from within its entry point, while
    // nothing else uses the host.
    unsafe {
        let reason = foreign::message(reason, error::MESSAGE_LIMIT, "a reason");
        let reason = reason.unwrap_or_else(|detail| detail);
        (*context.cast::<Host>()).refusal = Some(reason);
    }
}

struct BackendInner {
    functions: Functions,
    handle: *mut abi::Backend,
    abi: (u32, u32),
    host: NonNull<Host>,
    /// The thread of the entry point, and the only one that unloads and destroys.
    thread: ThreadId,
    /// Models whose last user was on another thread.
    ended: Mutex<Vec<NonNull<abi::Model>>>,
    canceller: cancel::Shared,
    /// Errors of calls that end something. A drop cannot return them.
    end_errors: Arc<Mutex<Vec<Error>>>,
}

impl BackendInner {
    /// Keeps the error of a call that ended something.
    fn ended_with(&self, result: Result<()>) {
        if let Err(error) = result {
            self.end_errors.lock().unwrap_or_else(PoisonError::into_inner).push(error);
        }
    }

    /// Unloads a model: at once on the thread of the entry point; on other threads, leaves it to the next call on
    /// that thread.
    fn unload(&self, model: NonNull<abi::Model>) {
        if thread::current().id() != self.thread {
            self.ended.lock().unwrap_or_else(PoisonError::into_inner).push(model);
            return;
        }
        let mut args =
            abi::UnloadArgs { struct_size: size_of::<abi::UnloadArgs>(), model: model.as_ptr() };
        self.ended_with(invoke!(self.functions, unload, &raw mut args));
    }

    /// Unloads the models that ended on other threads.
    fn unload_ended(&self) {
        let ended = std::mem::take(&mut *self.ended.lock().unwrap_or_else(PoisonError::into_inner));
        ended.into_iter().for_each(|model| self.unload(model));
    }
}

impl Drop for BackendInner {
    fn drop(&mut self) {
        if thread::current().id() != self.thread {
            // A client's thread has outlived everything on the thread of the entry point. The backend must not be
            // destroyed on this thread, so it stays until the process ends.
            return;
        }
        self.canceller.end();
        self.unload_ended();
        let mut args =
            abi::DestroyArgs { struct_size: size_of::<abi::DestroyArgs>(), backend: self.handle };
        self.ended_with(invoke!(self.functions, destroy, &raw mut args));
        Host::stop_listening(self.host);
    }
}

/// An opened plugin.
pub struct Backend {
    inner: Arc<BackendInner>,
}

/// Arguments of [`Backend::load`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadRequest<'a> {
    /// The model's file.
    pub path: &'a str,
    /// Id of the device.
    pub device: &'a str,
    /// Processor threads to compute with; `None` leaves it to the backend.
    pub threads: Option<u32>,
    /// Options of the backend.
    pub options: &'a [(&'a str, &'a str)],
}

impl Backend {
    /// Ends the backend, and returns the errors of all calls that ended sessions, models and the backend itself. It
    /// goes on if something that came from it is still there.
    #[must_use]
    pub fn end(self) -> Vec<Error> {
        let errors = Arc::clone(&self.inner.end_errors);
        drop(self);
        std::mem::take(&mut *errors.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Calls a plugin's entry point and checks the returned table.
    ///
    /// # Errors
    ///
    /// If the plugin refuses, has another version, or returns an invalid table.
    ///
    /// # Safety
    ///
    /// `entry` is the entry point of a library that keeps the ABI of `plugin_api.h` and stays loaded
    /// until the backend and everything that came from it are dropped. No other backend from the same
    /// library is alive.
    pub unsafe fn open(entry: abi::Entry) -> Result<Self, OpenError> {
        // SAFETY: guaranteed by the caller.
        unsafe { Self::open_with(entry, Box::new(|_| {})) }
    }

    /// Opens a backend, with a callback for the progress of long calls on this thread.
    ///
    /// # Errors
    ///
    /// As for [`Backend::open`].
    ///
    /// # Safety
    ///
    /// As for [`Backend::open`].
    pub unsafe fn open_with(entry: abi::Entry, on_progress: OnProgress) -> Result<Self, OpenError> {
        let host = Host::for_this_thread(on_progress);
        // SAFETY: `host` was just made. The entry point is called as the ABI says, on this thread.
        let opened = unsafe {
            let table = entry(&raw const (*host.as_ptr()).api);
            Self::from_table(table, host)
        };
        if opened.is_err() {
            // The plugin may still be alive, for instance if its table breaks the rules.
            Host::stop_listening(host);
        }
        opened
    }

    /// # Safety
    ///
    /// `table` is what the entry point returned for `host`.
    unsafe fn from_table(
        table: *const abi::BackendApi,
        host: NonNull<Host>,
    ) -> Result<Self, OpenError> {
        if table.is_null() {
            // SAFETY: `host` is valid, and the entry point has returned.
            let reason = unsafe { (*host.as_ptr()).refusal.take() };
            let reason = reason.unwrap_or_else(|| "it gave no reason".into());
            return Err(OpenError::Refused { reason });
        }
        // SAFETY: the entry point returned it as its table.
        let api = unsafe { foreign::structure(table, "a table") };
        let api = api.map_err(|detail| OpenError::Contract { detail })?;
        let version = (api.abi_major, api.abi_minor);
        if api.abi_major != abi::MAJOR {
            return Err(OpenError::Version { plugin: version });
        }
        let functions = Functions::new(&api)?;
        let canceller = cancel::Shared::default();
        let inner = BackendInner {
            functions,
            handle: api.backend,
            abi: version,
            host,
            thread: thread::current().id(),
            ended: Mutex::default(),
            end_errors: Arc::default(),
            canceller,
        };
        #[expect(clippy::arc_with_non_send_sync, reason = "only a model may go to other threads")]
        let inner = Arc::new(inner);
        Ok(Self { inner })
    }

    /// Returns the ABI major and minor version that the plugin was built for.
    #[must_use]
    pub fn abi_version(&self) -> (u32, u32) {
        self.inner.abi
    }

    /// Returns the backend's description.
    ///
    /// # Errors
    ///
    /// The backend's error, or that its answer breaks the rules.
    pub fn describe(&self) -> Result<Description> {
        let mut args = abi::DescribeArgs {
            struct_size: size_of::<abi::DescribeArgs>(),
            backend: self.inner.handle,
            description: ptr::null(),
        };
        invoke!(self.inner.functions, describe, &raw mut args)?;
        // SAFETY: the call has filled it in, and it is valid until `destroy`.
        unsafe { foreign::description(args.description) }
            .map_err(|detail| Error::contract("describe", detail))
    }

    /// Returns the current devices.
    ///
    /// # Errors
    ///
    /// The backend's error, or that its answer breaks the rules.
    pub fn devices(&self) -> Result<Vec<Device>> {
        let mut args = abi::DevicesArgs {
            struct_size: size_of::<abi::DevicesArgs>(),
            backend: self.inner.handle,
            devices: ptr::null(),
            device_count: 0,
        };
        invoke!(self.inner.functions, devices, &raw mut args)?;
        // SAFETY: the call has filled it in, and it is valid until `devices` is called again.
        unsafe { foreign::devices(args.devices, args.device_count) }
            .map_err(|detail| Error::contract("devices", detail))
    }

    /// Loads a model onto a device, for inference.
    ///
    /// # Errors
    ///
    /// Returns the backend's error, or an error if its answer breaks the rules.
    pub fn load(&self, request: &LoadRequest<'_>) -> Result<Model> {
        self.load_for("", request)
    }

    /// Loads a model onto a device, for one of the modes in the backend's description.
    ///
    /// # Errors
    ///
    /// As for [`Backend::load`].
    pub fn load_for(&self, mode: &str, request: &LoadRequest<'_>) -> Result<Model> {
        self.inner.unload_ended();
        let options: Vec<_> =
            request.options.iter().map(|(key, value)| abi::Attribute::borrow(key, value)).collect();
        let mut args = abi::LoadArgs {
            struct_size: size_of::<abi::LoadArgs>(),
            backend: self.inner.handle,
            path: abi::String::borrow(request.path),
            device: abi::String::borrow(request.device),
            threads: request.threads.unwrap_or(0),
            unused: 0,
            options: options.as_ptr(),
            option_count: options.len(),
            model: ptr::null_mut(),
            info: ptr::null(),
            mode: abi::String::borrow(mode),
        };
        invoke!(self.inner.functions, load, &raw mut args)?;
        let handle = NonNull::new(args.model)
            .ok_or_else(|| Error::contract("load", "returned a model that is null"))?;
        // From here on the handle is always unloaded.
        let inner = ModelInner { backend: Arc::clone(&self.inner), handle };
        // SAFETY: the call has filled it in, and it is valid until `unload`.
        let info = unsafe { foreign::model_info(args.info) }
            .map_err(|detail| Error::contract("load", detail))?;
        #[expect(
            clippy::arc_with_non_send_sync,
            reason = "`ModelOnThreads` says when it may go to other threads"
        )]
        let inner = Arc::new(inner);
        Ok(Model { inner, info: Arc::new(info) })
    }

    /// Returns the table of an extension; `None` if the backend does not offer it. The extension
    /// defines its type; it is valid until the backend ends.
    #[must_use]
    pub fn extension(&self, name: &str) -> Option<NonNull<c_void>> {
        // SAFETY: the handle is alive and the name is valid during the call.
        let table = unsafe {
            (self.inner.functions.get_extension)(self.inner.handle, abi::String::borrow(name))
        };
        NonNull::new(table.cast_mut())
    }
}

/// A model of a backend that serves several threads.
pub struct ModelOnThreads<'a>(&'a Model);

// SAFETY: it is only made if the backend offers the extension, which allows all uses of a model on any thread, and on
// several at once. If the last user is on another thread, the model and the backend are left to the thread of the
// entry point.
unsafe impl Send for ModelOnThreads<'_> {}
// SAFETY: the same.
unsafe impl Sync for ModelOnThreads<'_> {}

impl ModelOnThreads<'_> {
    /// Returns the model, for the calling thread. Sessions and tensors made from it stay on that thread. If they
    /// outlive the model, it is unloaded after them, by the thread that opened the backend.
    #[must_use]
    pub fn here(&self) -> &Model {
        self.0
    }
}

struct ModelInner {
    backend: Arc<BackendInner>,
    handle: NonNull<abi::Model>,
}

impl Drop for ModelInner {
    fn drop(&mut self) {
        self.backend.unload(self.handle);
    }
}

/// A loaded model.
pub struct Model {
    inner: Arc<ModelInner>,
    info: Arc<ModelInfo>,
}

impl Model {
    /// Returns the model's inputs and outputs.
    #[must_use]
    pub fn info(&self) -> &ModelInfo {
        &self.info
    }

    /// Returns the model for use on other threads; `None` if the backend serves one thread only.
    #[must_use]
    pub fn on_threads(&self) -> Option<ModelOnThreads<'_>> {
        let BackendInner { functions, handle, .. } = &*self.inner.backend;
        let name = abi::String::borrow(abi::EXTENSION_THREADS);
        // SAFETY: the handle is alive and the name is valid during the call.
        let table = unsafe { (functions.get_extension)(*handle, name) };
        (!table.is_null()).then_some(ModelOnThreads(self))
    }

    /// Makes the model ready to run in a precision, with one concrete shape for each input.
    ///
    /// # Errors
    ///
    /// The backend's error, or that its answer breaks the rules.
    pub fn prepare(&self, precision: &str, shapes: &[Vec<i64>]) -> Result<Session> {
        self.prepare_with(precision, shapes, None)
    }

    /// Makes the model ready to run in a precision, with shapes between bounds; `shapes` are typical ones.
    /// [`Session::shapes_served`] says whether calls may have others.
    ///
    /// # Errors
    ///
    /// As for [`Model::prepare`].
    pub fn prepare_within(
        &self,
        precision: &str,
        shapes: &[Vec<i64>],
        bounds: &ShapeBounds,
    ) -> Result<Session> {
        for other in [&bounds.least, &bounds.greatest] {
            if other.len() != shapes.len() {
                let (given, wanted) = (other.len(), shapes.len());
                let message = format!("bounds of {given} shapes for {wanted} shapes");
                return Err(Error::argument("prepare", message));
            }
        }
        self.prepare_with(precision, shapes, Some(bounds))
    }

    fn prepare_with(
        &self,
        precision: &str,
        shapes: &[Vec<i64>],
        bounds: Option<&ShapeBounds>,
    ) -> Result<Session> {
        let borrow = |shapes: &[Vec<i64>]| -> Vec<abi::Shape> {
            let shape = |shape: &Vec<i64>| abi::Shape { sizes: shape.as_ptr(), rank: shape.len() };
            shapes.iter().map(shape).collect()
        };
        let raw = borrow(shapes);
        let raw_bounds = bounds.map(|bounds| (borrow(&bounds.least), borrow(&bounds.greatest)));
        let (least, greatest) = match &raw_bounds {
            Some((least, greatest)) => (least.as_ptr(), greatest.as_ptr()),
            None => (ptr::null(), ptr::null()),
        };
        let mut args = abi::PrepareArgs {
            struct_size: size_of::<abi::PrepareArgs>(),
            model: self.inner.handle.as_ptr(),
            precision: abi::String::borrow(precision),
            shapes: raw.as_ptr(),
            shape_count: raw.len(),
            session: ptr::null_mut(),
            info: ptr::null(),
            least,
            greatest,
            shapes_served: abi::shapes_served::ONE,
            unused: 0,
        };
        invoke!(self.inner.backend.functions, prepare, &raw mut args)?;
        let handle = NonNull::new(args.session)
            .ok_or_else(|| Error::contract("prepare", "returned a session that is null"))?;
        let served = ShapesServed::from_abi(args.shapes_served);
        let bounds = bounds.filter(|_| served != ShapesServed::One);
        let inner = Rc::new(SessionInner {
            model: Arc::clone(&self.inner),
            info: Arc::clone(&self.info),
            handle,
            shapes: shapes.to_vec(),
            bounds: bounds.cloned(),
            queued: false.into(),
        });
        // SAFETY: the call has filled it in, and it is valid until `release`.
        let used = unsafe {
            foreign::structure(args.info, "a session's information")
                .and_then(|info| foreign::attributes(info.used, info.used_count, "what it used"))
        };
        let used = used.map_err(|detail| Error::contract("prepare", detail))?;
        let (given, wanted) = (shapes.len(), self.info.inputs.len());
        if given != wanted {
            let detail = format!("accepted {given} shapes for a model with {wanted} inputs");
            return Err(Error::contract("prepare", detail));
        }
        Ok(Session { inner, used, served })
    }
}

struct SessionInner {
    model: Arc<ModelInner>,
    info: Arc<ModelInfo>,
    handle: NonNull<abi::Session>,
    shapes: Vec<Vec<i64>>,
    /// Bounds of the shapes of calls, if shapes may differ.
    bounds: Option<ShapeBounds>,
    /// Whether a run may still be in progress.
    queued: std::cell::Cell<bool>,
}

impl SessionInner {
    fn synchronise(&self) -> Result<()> {
        let mut args = abi::SynchroniseArgs {
            struct_size: size_of::<abi::SynchroniseArgs>(),
            session: self.handle.as_ptr(),
        };
        self.queued.set(false);
        invoke!(self.model.backend.functions, synchronise, &raw mut args)
    }
}

impl Drop for SessionInner {
    fn drop(&mut self) {
        let mut args = abi::ReleaseArgs {
            struct_size: size_of::<abi::ReleaseArgs>(),
            session: self.handle.as_ptr(),
        };
        let backend = &self.model.backend;
        backend.ended_with(invoke!(backend.functions, release, &raw mut args));
    }
}

/// A model that is ready to run with given shapes.
pub struct Session {
    inner: Rc<SessionInner>,
    used: Vec<(String, String)>,
    served: ShapesServed,
}

/// Bounds of shapes, axis by axis, one of each for each input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShapeBounds {
    /// The least size of each axis.
    pub least: Vec<Vec<i64>>,
    /// The greatest size of each axis.
    pub greatest: Vec<Vec<i64>>,
}

impl Session {
    /// Returns the settings in use, as opposed to those requested.
    #[must_use]
    pub fn used(&self) -> &[(String, String)] {
        &self.used
    }

    /// Returns the shapes that calls may have: only the prepared ones without bounds or with a backend of ABI 1.0.
    #[must_use]
    pub fn shapes_served(&self) -> ShapesServed {
        self.served
    }

    /// Waits until all enqueued work is done.
    ///
    /// # Errors
    ///
    /// The first error of the enqueued work.
    pub fn synchronise(&self) -> Result<()> {
        self.inner.synchronise()
    }

    /// Prepares a call with these inputs, in the order of the model's inputs.
    ///
    /// # Errors
    ///
    /// If their number or a shape differs from the prepared ones, or one belongs to another model.
    pub fn call(&self, inputs: Vec<Tensor>) -> Result<Call> {
        Call::new(&self.inner, inputs)
    }
}

macro_rules! debug {
    ($($type:ident: $field:ident),+) => {
        $(impl fmt::Debug for $type {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut fields = formatter.debug_struct(stringify!($type));
                fields.field(stringify!($field), &self.$field).finish_non_exhaustive()
            }
        })+
    };
}
debug!(Model: info, Session: used);

impl fmt::Debug for ModelOnThreads<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl fmt::Debug for Backend {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Backend").field("abi", &self.inner.abi).finish_non_exhaustive()
    }
}
