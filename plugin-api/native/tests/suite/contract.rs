//! Promises of the SDK to a host in C that the safe client cannot reach.

use std::ffi::c_void;
use std::ptr;

use plugin_api::abi;

/// The example.
#[expect(unreachable_pub, reason = "it is a library by itself, whose items are public there")]
#[path = "../../examples/scale.rs"]
pub mod scale;

/// Keeps the reason of a refusal.
unsafe extern "C" fn refuse(context: *mut c_void, reason: abi::String) {
    // SAFETY: the context is the test's own string, and the reason is valid.
    unsafe {
        let bytes = std::slice::from_raw_parts(reason.data.cast::<u8>(), reason.length);
        *context.cast::<String>() = String::from_utf8(bytes.to_vec()).expect("UTF-8");
    }
}

fn host(reason: &mut String) -> abi::HostApi {
    abi::HostApi {
        struct_size: size_of::<abi::HostApi>(),
        abi_major: abi::MAJOR,
        abi_minor: abi::MINOR,
        name: abi::String::borrow("test"),
        version: abi::String::borrow("0"),
        context: ptr::from_mut(reason).cast(),
        refuse: Some(refuse),
        progress: None,
    }
}

#[test]
fn a_host_of_another_version_is_refused_with_a_reason() {
    let mut reason = String::new();
    let mut other = host(&mut reason);
    other.abi_major = 2;
    // SAFETY: the host is valid.
    assert!(unsafe { scale::tare_backend_v1(&raw const other) }.is_null());
    assert_eq!(reason, "it is for ABI 1, the host speaks 2.1");

    let mut small = host(&mut reason);
    small.struct_size = 24;
    // SAFETY: the host is valid, as far as its size goes.
    assert!(unsafe { scale::tare_backend_v1(&raw const small) }.is_null());
    // SAFETY: null is refused.
    assert!(unsafe { scale::tare_backend_v1(ptr::null()) }.is_null());
}

/// A newer host gives larger structs; an older plugin accepts them.
#[test]
fn larger_structs_than_ours_are_accepted() {
    #[repr(C)]
    struct Newer<T> {
        known: T,
        more: [usize; 4],
    }
    let mut reason = String::new();
    let mut newer = Newer { known: host(&mut reason), more: [7; 4] };
    newer.known.struct_size = size_of::<Newer<abi::HostApi>>();
    newer.known.abi_minor = 9;
    // SAFETY: the host is valid until the end of the test.
    let api = unsafe { scale::tare_backend_v1(&raw const newer.known).as_ref() }.expect("a table");
    let mut args = Newer {
        known: abi::DescribeArgs {
            struct_size: size_of::<Newer<abi::DescribeArgs>>(),
            backend: api.backend,
            description: ptr::null(),
        },
        more: [7; 4],
    };
    // SAFETY: the arguments are valid, and so is the description until the backend ends.
    let id = unsafe {
        let error = api.describe.expect("a function")(&raw mut args.known);
        assert!(error.is_null());
        (*args.known.description).id
    };
    assert_eq!((id.length, args.more, newer.more), (5, [7; 4], [7; 4]));
    let mut args =
        abi::DestroyArgs { struct_size: size_of::<abi::DestroyArgs>(), backend: api.backend };
    // SAFETY: the backend is alive and not used again.
    assert!(unsafe { api.destroy.expect("a function")(&raw mut args) }.is_null());
}

#[test]
fn null_arguments_handles_and_lists_are_errors() {
    let mut reason = String::new();
    let host = host(&mut reason);
    // SAFETY: the host is valid until the end of the test.
    let api = unsafe { scale::tare_backend_v1(&raw const host).as_ref() }.expect("a table");
    let check = |error: *mut abi::Error, expected: &str| {
        // SAFETY: a call has just returned it.
        let error_ref = unsafe { error.as_ref() }.expect("an error");
        // SAFETY: the message is valid until the error is destroyed.
        let message = unsafe {
            std::slice::from_raw_parts(
                error_ref.message.data.cast::<u8>(),
                error_ref.message.length,
            )
        };
        assert_eq!(std::str::from_utf8(message), Ok(expected));
        assert_eq!(error_ref.code, abi::error_code::INVALID_ARGUMENT);
        // SAFETY: it is ours.
        unsafe { error_ref.destroy.expect("a function")(error) };
    };
    let mut load = abi::LoadArgs {
        struct_size: size_of::<abi::LoadArgs>(),
        backend: api.backend,
        path: abi::String { data: ptr::null(), length: 3 },
        device: abi::String::borrow("scale:0"),
        threads: 0,
        unused: 0,
        options: ptr::null(),
        option_count: 0,
        model: ptr::null_mut(),
        info: ptr::null(),
        mode: abi::String::EMPTY,
    };
    let function = api.load.expect("a function");
    // SAFETY: the arguments are wrong in detectable ways.
    unsafe {
        check(function(&raw mut load), "the path is null");
        load.path = abi::String { data: c"\xff".as_ptr(), length: 1 };
        let message = "the path is not UTF-8: invalid utf-8 sequence of 1 bytes from index 0";
        check(function(&raw mut load), message);
        load.path = abi::String::borrow("x");
        load.option_count = 1;
        check(function(&raw mut load), "the options are null");
        load.backend = ptr::null_mut();
        check(function(&raw mut load), "the handle is null");
        check(function(ptr::null_mut()), "the arguments are null or misaligned");
        let mut release = abi::ReleaseArgs {
            struct_size: size_of::<abi::ReleaseArgs>(),
            session: ptr::null_mut(),
        };
        check(api.release.expect("a function")(&raw mut release), "the handle is null");
        let mut args =
            abi::DestroyArgs { struct_size: size_of::<abi::DestroyArgs>(), backend: api.backend };
        assert!(api.destroy.expect("a function")(&raw mut args).is_null());
    }
}

/// A struct of ABI 1.0, with its size at that time, followed by foreign bytes.
#[repr(C)]
struct Older<T> {
    args: std::mem::MaybeUninit<T>,
}

impl<T: abi::SizedStruct> Older<T> {
    const FOREIGN: u8 = 0xa5;

    fn new(whole: T) -> Self {
        let mut args = std::mem::MaybeUninit::<T>::uninit();
        // SAFETY: there is room for a whole `T`, and its first field is its size.
        unsafe {
            let bytes = args.as_mut_ptr().cast::<u8>();
            bytes.write_bytes(Self::FOREIGN, size_of::<T>());
            bytes.copy_from_nonoverlapping((&raw const whole).cast(), T::V1_SIZE);
            args.as_mut_ptr().cast::<usize>().write(T::V1_SIZE);
        }
        Self { args }
    }

    /// Returns whether the bytes behind the struct are unchanged.
    fn is_untouched(&self) -> bool {
        // SAFETY: all of these bytes were written.
        let behind = unsafe {
            let bytes = self.args.as_ptr().cast::<u8>().add(T::V1_SIZE);
            std::slice::from_raw_parts(bytes, size_of::<T>() - T::V1_SIZE)
        };
        !behind.is_empty() && behind.iter().all(|byte| *byte == Self::FOREIGN)
    }
}

/// Half of a count that is impossible is a count that is possible: memory behind a list of one was read.
#[test]
fn a_struct_ends_with_a_field() {
    let layout = abi::LAYOUTS.iter().find(|layout| layout.name == "tare_description");
    let layout = layout.expect("a description has a layout");
    let v1_size = layout.v1_size.expect("it begins with its size");
    let starts: Vec<usize> = layout.fields.iter().map(|(_, start)| *start).collect();
    for size in 0..layout.size + 100 {
        let whole = size >= layout.size || size >= v1_size && starts.contains(&size);
        assert_eq!(abi::check_size::<abi::Description>(size).is_ok(), whole, "{size}");
    }
}

/// A backend that uses all that ABI 1.1 has: it reports progress, has its own mode, serves any shape, and answers
/// with a sequence.
mod newest {
    use plugin_api::backend::{
        Backend, DataType, Description, Device, Dimension, Host, HostTensor, LoadRequest, Model,
        ModelInfo, PrepareRequest, Progress, Result, Session, ShapesServed, Tensor, TensorInfo,
        ValueKind, View, ViewMut,
    };

    pub(crate) struct Newest {
        progress: Progress,
    }
    pub(crate) struct Any;
    pub(crate) struct Sequence(HostTensor<f32>);

    impl Backend for Newest {
        type Model = Any;

        fn new(host: &Host) -> Result<Self, String> {
            Ok(Self { progress: host.progress.clone() })
        }

        fn description(&self) -> Description {
            Description {
                id: "newest".into(),
                version: "0.0.0".into(),
                engine: "none".into(),
                engine_version: String::new(),
                extensions: Vec::new(),
                modes: vec!["training".into()],
            }
        }

        fn devices(&self) -> Result<Vec<Device>> {
            Ok(Vec::new())
        }

        fn load(&self, request: &LoadRequest<'_>) -> Result<Any> {
            self.progress.report(Some(0.5), request.mode);
            Ok(Any)
        }
    }

    impl Model for Any {
        type Tensor = Sequence;
        type Session = Any;

        fn info(&self) -> ModelInfo {
            let input = TensorInfo {
                name: "x".into(),
                dtype: Some(DataType::F32),
                dimensions: Some(vec![Dimension::Dynamic("n".into())]),
                kind: ValueKind::Tensor,
            };
            ModelInfo { inputs: vec![input.clone()], outputs: vec![input] }
        }

        fn prepare(&self, _: &PrepareRequest<'_>) -> Result<Any> {
            Ok(Any)
        }

        fn tensor(&self, view: &View<'_>) -> Result<Sequence> {
            HostTensor::new(view).map(Sequence)
        }
    }

    impl Tensor for Sequence {
        fn dtype(&self) -> DataType {
            self.0.dtype()
        }

        fn shape(&self) -> &[i64] {
            self.0.shape()
        }

        fn read(&self, into: &mut ViewMut<'_>) -> Result<()> {
            self.0.read(into)
        }

        fn kind(&self) -> ValueKind {
            ValueKind::Sequence
        }
    }

    impl Session for Any {
        type Tensor = Sequence;

        fn used(&self) -> Vec<(String, String)> {
            Vec::new()
        }

        fn shapes_served(&self) -> ShapesServed {
            ShapesServed::Any
        }

        fn run(&mut self, _: &[&Sequence], _: &mut [Option<Box<Sequence>>]) -> Result<()> {
            Ok(())
        }
    }
}

/// Takes the result of a call: an error's code and message. The error is destroyed.
fn outcome(error: *mut abi::Error) -> Result<(), (i32, String)> {
    // SAFETY: a call has just returned it.
    let Some(found) = (unsafe { error.as_ref() }) else { return Ok(()) };
    // SAFETY: the message is valid until the error is destroyed.
    let message = unsafe {
        std::slice::from_raw_parts(found.message.data.cast::<u8>(), found.message.length)
    };
    let found_error = (found.code, String::from_utf8_lossy(message).into_owned());
    // SAFETY: it is ours.
    unsafe { found.destroy.expect("a function")(error) };
    Err(found_error)
}

#[test]
fn an_older_host_is_served_and_nothing_is_read_or_written_beyond_its_structs() {
    let mut reason = String::new();
    // The bytes where `progress` would be are not a function.
    let mut older_host = Older::new(host(&mut reason));
    // SAFETY: the host is valid until the end of the test, as far as its size goes.
    let api = unsafe {
        plugin_api::backend::enter::<newest::Newest>(older_host.args.as_mut_ptr()).as_ref()
    };
    let api = api.expect("a table");
    let load = |mode: &str| abi::LoadArgs {
        struct_size: size_of::<abi::LoadArgs>(),
        backend: api.backend,
        path: abi::String::borrow("x"),
        device: abi::String::borrow("d"),
        threads: 0,
        unused: 0,
        options: ptr::null(),
        option_count: 0,
        model: ptr::null_mut(),
        info: ptr::null(),
        mode: abi::String::borrow(mode),
    };
    // An older host knows no modes, and means inference, which this backend lacks.
    let mut args = Older::new(load("training"));
    // SAFETY: the arguments are valid, as far as their size goes.
    let refused = outcome(unsafe { api.load.expect("a function")(args.args.as_mut_ptr()) });
    let message = "the mode inference is not offered; training is".to_owned();
    assert_eq!(refused, Err((abi::error_code::UNSUPPORTED, message)));
    assert!(args.is_untouched());

    let mut args = load("training");
    // SAFETY: the arguments are valid.
    assert_eq!(outcome(unsafe { api.load.expect("a function")(&raw mut args) }), Ok(()));
    let model = args.model;
    let sizes = [2_i64];
    let shape = abi::Shape { sizes: sizes.as_ptr(), rank: 1 };
    let prepare = abi::PrepareArgs {
        struct_size: size_of::<abi::PrepareArgs>(),
        model,
        precision: abi::String::borrow("fp32"),
        shapes: &raw const shape,
        shape_count: 1,
        session: ptr::null_mut(),
        info: ptr::null(),
        least: &raw const shape,
        greatest: &raw const shape,
        shapes_served: 0,
        unused: 0,
    };
    let mut older = Older::new(prepare);
    let mut today = prepare;
    // SAFETY: the arguments are valid, as far as their size goes.
    unsafe {
        let function = api.prepare.expect("a function");
        assert_eq!(outcome(function(older.args.as_mut_ptr())), Ok(()));
        assert_eq!(outcome(function(&raw mut today)), Ok(()));
    }
    assert!(older.is_untouched());
    assert_eq!(today.shapes_served, abi::shapes_served::ANY);
    // SAFETY: the fields of ABI 1.0 have been filled in.
    let older_session = unsafe { (&raw const (*older.args.as_ptr()).session).read() };

    let values = [1.0_f32, 2.0];
    let view = abi::View {
        struct_size: size_of::<abi::View>(),
        data: values.as_ptr().cast_mut().cast(),
        dtype: plugin_api::backend::DataType::F32.to_abi(),
        rank: 1,
        shape: sizes.as_ptr(),
        strides: ptr::null(),
        byte_offset: 0,
    };
    let mut create = abi::TensorCreateArgs {
        struct_size: size_of::<abi::TensorCreateArgs>(),
        model,
        view: &raw const view,
        tensor: ptr::null_mut(),
    };
    // SAFETY: the arguments are valid.
    assert_eq!(outcome(unsafe { api.tensor_create.expect("a function")(&raw mut create) }), Ok(()));
    let mut described = abi::TensorDescribeArgs {
        struct_size: size_of::<abi::TensorDescribeArgs>(),
        tensor: create.tensor,
        dtype: abi::DType { code: 0, bits: 0, lanes: 0 },
        rank: 0,
        shape: ptr::null(),
        kind: 0,
        unused: 0,
    };
    // An older host would take any output for a tensor.
    let mut older = Older::new(described);
    // SAFETY: the arguments are valid, as far as their size goes.
    unsafe {
        let function = api.tensor_describe.expect("a function");
        let refused = outcome(function(older.args.as_mut_ptr()));
        let message = "it is a sequence, not a tensor".to_owned();
        assert_eq!(refused, Err((abi::error_code::UNSUPPORTED, message)));
        assert_eq!(outcome(function(&raw mut described)), Ok(()));
    }
    assert!(older.is_untouched());
    assert_eq!(described.kind, abi::value_kind::SEQUENCE);

    // SAFETY: the handles are valid and not used again.
    unsafe {
        let mut end = abi::TensorDestroyArgs {
            struct_size: size_of::<abi::TensorDestroyArgs>(),
            tensor: create.tensor,
        };
        assert_eq!(outcome(api.tensor_destroy.expect("a function")(&raw mut end)), Ok(()));
        for session in [older_session, today.session] {
            let mut end = abi::ReleaseArgs { struct_size: size_of::<abi::ReleaseArgs>(), session };
            assert_eq!(outcome(api.release.expect("a function")(&raw mut end)), Ok(()));
        }
        let mut end = abi::UnloadArgs { struct_size: size_of::<abi::UnloadArgs>(), model };
        assert_eq!(outcome(api.unload.expect("a function")(&raw mut end)), Ok(()));
        let mut end =
            abi::DestroyArgs { struct_size: size_of::<abi::DestroyArgs>(), backend: api.backend };
        assert_eq!(outcome(api.destroy.expect("a function")(&raw mut end)), Ok(()));
    }
    assert!(older_host.is_untouched());
}
