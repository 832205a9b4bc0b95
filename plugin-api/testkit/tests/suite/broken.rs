//! Backends that break the rules get an error that says so, and do no harm.

use std::ffi::{CString, c_char};

use crate::common::build;
use plugin_api::abi;
use plugin_api::client::{Backend, DataType, Error, ErrorCode, LoadRequest, OpenError, TensorView};

/// The library of `broken.c`, broken in the requested way.
struct Broken {
    library: libloading::Library,
    _folder: tempfile::TempDir,
}

impl Broken {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let library = build("broken.c", folder.path(), &["-DBROKEN=\"nothing\""]);
        // SAFETY: it is this test's library, and nothing else has loaded this copy.
        let library = unsafe { libloading::Library::new(library) }.expect("a library");
        Self { library, _folder: folder }
    }

    /// Makes all calls up to the first error.
    fn first_error(&self, way: &str) -> Result<Result<(), Error>, OpenError> {
        let way = CString::new(way).expect("no zeros");
        // SAFETY: this is the variable's type, and this thread alone uses the library.
        unsafe {
            let variable = self.library.get::<*mut *const c_char>(b"broken_way\0");
            **variable.expect("the variable") = way.as_ptr();
        }
        // SAFETY: this is the entry point's type.
        let entry = unsafe { self.library.get::<abi::Entry>(abi::ENTRY_SYMBOL) };
        // SAFETY: it breaks the ABI only in detectable ways, and the library outlives it.
        let backend = unsafe { Backend::open(*entry.expect("an entry point")) }?;
        Ok(all_calls(&backend))
    }
}

fn all_calls(backend: &Backend) -> Result<(), Error> {
    backend.describe()?;
    backend.devices()?;
    let request = LoadRequest { path: "any", device: "broken:0", threads: None, options: &[] };
    let model = backend.load(&request)?;
    let session = model.prepare("fp32", &[vec![2]])?;
    let view = TensorView { dtype: DataType::F32, shape: &[2], strides: None, bytes: &[0; 8] };
    let mut call = session.call(vec![model.tensor(view)?])?;
    call.run()?;
    call.read_output(0)?;
    Ok(())
}

#[test]
fn where_nothing_is_broken_all_is_well() {
    Broken::new().first_error("nothing").expect("it opens").expect("it works");
}

#[test]
fn entry_points_that_refuse_or_break_the_rules_are_reported() {
    let cases = [
        ("refuse", "the plugin refused this host: it needs ABI 1.7; update the host"),
        ("refuse-silently", "the plugin refused this host: it gave no reason"),
        ("refuse-not-utf8", "returned a reason that is not UTF-8"),
        ("major", "the plugin speaks ABI 2.1, this host speaks 1.1; update the host"),
        ("major-old", "the plugin speaks ABI 0.1, this host speaks 1.1; update the plugin"),
        ("table-small", "returned a table that claims 64 bytes; ABI 1.0 has 136"),
        ("table-huge", "claims 1099511627776 bytes"),
        ("table-misaligned", "returned a table that is misaligned"),
        ("function-null", "the function `run` is null"),
    ];
    let broken = Broken::new();
    for (way, message) in cases {
        let error = broken.first_error(way).expect_err(way).to_string();
        assert!(error.contains(message), "{way}: {error}");
    }
}

/// A plugin whose table is refused stays alive, and may have a thread that still calls the host.
#[test]
fn the_hosts_functions_outlive_every_backend() {
    let broken = Broken::new();
    for way in ["table-small", "function-null", "major", "refuse", "nothing"] {
        let _ = broken.first_error(way);
        // SAFETY: this is the variable's type, and this thread alone uses the library.
        let host = unsafe {
            **broken
                .library
                .get::<*const *const abi::HostApi>(b"broken_host\0")
                .expect("the variable")
        };
        // Memory that was freed would be used again.
        let others: Vec<_> =
            (0..64).map(|_| vec![0xff_u8; size_of::<abi::HostApi>() + 64]).collect();
        // SAFETY: the host's functions are valid for the life of the process.
        let host = unsafe { &*host };
        assert_eq!((host.struct_size, host.abi_major), (size_of::<abi::HostApi>(), abi::MAJOR));
        let mut report = abi::Progress {
            struct_size: size_of::<abi::Progress>(),
            part: 0.5,
            doing: abi::String::borrow("living on"),
        };
        // SAFETY: the same.
        unsafe { host.progress.expect("it is offered")(host.context, &raw mut report) };
        drop(others);
    }
}

#[test]
fn answers_that_break_the_rules_are_reported() {
    let cases = [
        ("description-null", "describe: returned a description that is null"),
        ("description-misaligned", "describe: returned a description that is misaligned"),
        ("description-small", "a description that claims 80 bytes; ABI 1.0 has 88"),
        ("description-huge", "claims 1099511627776 bytes"),
        ("id-not-utf8", "describe: returned an id that is not UTF-8"),
        ("id-null", "describe: returned an id that is null"),
        ("id-empty", "describe: returned an id that is empty"),
        ("id-endless", "describe: returned an id of 1099511627776 bytes"),
        (
            "extensions-absurd",
            "returned 1099511627776 names of extensions; at most 65536 can be true",
        ),
        ("devices-absurd", "devices: returned 18446744073709551615 devices; at most 1024"),
        ("devices-many", "devices: returned 1025 devices; at most 1024 can be true"),
        ("device-id-formula", r#"devices: returned the device id "=HYPERLINK(\"x\")"; an id has"#),
        ("device-id-escape", r#"devices: returned the device id "gpu\u{1b}[2J"; an id has"#),
        ("device-id-hyphen", "begins with a letter or digit"),
        ("device-name-long", "a device's name of 20000 bytes; at most 16384 are taken"),
        ("devices-null", "devices: returned 1 devices at an address that is null"),
        ("devices-twice", "devices: returned two devices with the id `broken:0`"),
        ("device-null", "devices: returned a device that is null"),
        ("device-small", "devices: returned a device that claims 24 bytes"),
        ("device-name-not-utf8", "devices: returned a device's name that is not UTF-8"),
        ("device-without-precision", "returned the device `broken:0` without any precision"),
        ("device-precisions-null", "returned 1 precisions at an address that is null"),
        ("device-attributes-absurd", "returned 1048576 attributes of a device"),
        ("info-null", "load: returned a model's information that is null"),
        ("rank-absurd", "load: returned `x` among the inputs with 1000000 axes"),
        ("axes-null", "load: returned 1 axes at an address that is null"),
        ("axis-negative", "load: returned an axis of size -5 for `x`"),
        ("dtype-impossible", "impossible element type: code 99, 32 bits, 1 lanes"),
        ("inputs-absurd", "load: returned 1152921504606846976 inputs"),
        ("no-outputs", "load: returned a model without outputs"),
        ("model-null", "load: returned a model that is null"),
        ("session-null", "prepare: returned a session that is null"),
        ("session-info-null", "prepare: returned a session's information that is null"),
        ("used-absurd", "prepare: returned 1152921504606846976 what it used"),
        ("tensor-null", "tensor_create: returned a tensor that is null"),
        ("tensor-shape-null", "tensor_describe: returned 1 axes at an address that is null"),
        ("tensor-shape-negative", "tensor_describe: returned the shape [-1]"),
        ("tensor-shape-other", "made a tensor of shape [3] from one of shape [2]"),
        ("tensor-rank-absurd", "tensor_describe: returned 2147483648 axes"),
        ("tensor-typeless", "tensor_describe: returned the element type 2, 0 bits, 1 lanes"),
        ("output-null", "run: left output 0 (`x`) null"),
        ("error-message-not-utf8", "describe: returned an error's message that is not UTF-8"),
        ("error-message-null", "describe: returned an error's message that is null"),
        ("error-without-destroy", "describe: returned an error without `destroy`"),
        ("error-small", "describe: returned an error that claims 8 bytes; ABI 1.0 has 56"),
    ];
    let broken = Broken::new();
    for (way, message) in cases {
        let error = broken.first_error(way).expect("it opens").expect_err(way);
        assert_eq!(error.code, ErrorCode::Contract, "{way}: {error}");
        assert!(error.to_string().contains(message), "{way}: {error}");
    }
}

#[test]
fn usual_ids_of_devices_are_taken() {
    Broken::new().first_error("device-id-usual").expect("it opens").expect("it works");
}

#[test]
fn long_messages_are_cut_and_are_reported() {
    let broken = Broken::new();
    let error = broken.first_error("error-message-long").expect("it opens").expect_err("an error");
    assert_eq!(error.code, ErrorCode::Device, "it is still the plugin's own error");
    for (text, limit) in [(&error.message, 4 << 10), (&error.details, 64 << 10)] {
        let left_out = format!("é … {} bytes left out", (3 << 20) - limit);
        assert!(text.ends_with(&left_out) && text.len() == limit + left_out.len() - 2, "{limit}");
    }
    let outcome = broken.first_error("error-message-long-not-utf8").expect("it opens");
    let error = outcome.expect_err("an error");
    assert!(error.message.contains("not UTF-8") && error.message.len() < 1000, "{error}");
}

#[test]
fn an_unknown_error_code_counts_as_internal() {
    let outcome = Broken::new().first_error("error-code-unknown").expect("it opens");
    let error = outcome.expect_err("an error");
    assert_eq!(error.to_string(), "describe: a broken backend fails as it should (internal)");
}
