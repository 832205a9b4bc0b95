//! What the SDK promises to a host in C: nothing of this can be reached through the safe client.

use std::ffi::c_void;
use std::ptr;

use plugin_api::abi;

/// The example.
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
    }
}

#[test]
fn a_host_of_another_version_is_refused_with_a_reason() {
    let mut reason = String::new();
    let mut other = host(&mut reason);
    other.abi_major = 2;
    // SAFETY: the host is valid.
    assert!(unsafe { scale::tare_backend_v1(&raw const other) }.is_null());
    assert_eq!(reason, "it is for ABI 1, the host speaks 2.0");

    let mut small = host(&mut reason);
    small.struct_size = 24;
    // SAFETY: the host is valid, as far as its size goes.
    assert!(unsafe { scale::tare_backend_v1(&raw const small) }.is_null());
    // SAFETY: null is refused.
    assert!(unsafe { scale::tare_backend_v1(ptr::null()) }.is_null());
}

/// A newer host gives larger structs; an older plugin does not mind.
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
    };
    let function = api.load.expect("a function");
    // SAFETY: the arguments are wrong in ways that are found.
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
