//! Memory that a session's allocator has handed out, by ONNX Runtime's own count.
//!
//! A provider takes memory from the device in large pieces, its arena, and hands out parts of them. The device's
//! driver sees the pieces, so it counts more than is in use, and also other processes. Only the arena knows the peak
//! in use.
//!
//! The functions for this came with version 1.23 of ONNX Runtime, and the engine supports 1.22 and
//! later. So this module looks them up beyond the crate's own table: tables of functions only grow at their ends.

use std::ffi::{CStr, c_char};
use std::mem::offset_of;
use std::ptr::{self, NonNull};

use ort::AsPointer;
use ort::session::Session;
use ort::sys::{OrtAllocator, OrtApi, OrtKeyValuePairs, OrtStatusPtr, OrtValue};
use plugin_api::backend::{AllocatorUse, Error, ErrorCode, Result};

use crate::Library;
use crate::tensor::{MemoryInfo, check};

/// The version of the table with the needed functions.
const VERSION: u32 = 23;

/// The used part of the table of version 23.
#[repr(C)]
struct Table {
    before: OrtApi,
    _get_tensor_size_in_bytes:
        unsafe extern "system" fn(*const OrtValue, *mut usize) -> OrtStatusPtr,
    allocator_get_stats:
        unsafe extern "system" fn(*const OrtAllocator, *mut *mut OrtKeyValuePairs) -> OrtStatusPtr,
}

/// The places of functions in the table never change: the last of version 22 is at 317, and the one
/// used here at 319. If the crate is built for another version, this assertion fails.
const _: () = {
    let function = size_of::<usize>();
    assert!(ort::sys::ORT_API_VERSION == 22);
    assert!(offset_of!(OrtApi, GetEpApi) == 317 * function);
    assert!(size_of::<OrtApi>() == 318 * function);
    assert!(offset_of!(Table, allocator_get_stats) == 319 * function);
};

/// Reads the allocator's figures from `figures`, by ONNX Runtime's names: memory in use now, the peak since
/// the session was made, and the device's memory that it holds.
fn read(name: String, figures: impl Fn(&CStr) -> Option<String>) -> Result<AllocatorUse> {
    let number = |key: &CStr| -> Result<i64> {
        let text = figures(key).ok_or_else(|| {
            let message =
                format!("ONNX Runtime's allocator of {name} memory keeps no account of its use");
            Error::new(ErrorCode::Unsupported, message)
        })?;
        text.parse().map_err(|_| wrong(&name, key, &text))
    };
    let bytes = |key: &CStr| {
        let number = number(key)?;
        u64::try_from(number).map_err(|_| wrong(&name, key, &number.to_string()))
    };
    let peak_bytes = bytes(c"MaxInUse")?;
    if peak_bytes == 0 && number(c"NumAllocs")? > 0 {
        let message =
            format!("ONNX Runtime's allocator of {name} memory counts requests, and no bytes");
        return Err(Error::new(ErrorCode::Unsupported, message));
    }
    let (used_bytes, reserved_bytes) = (bytes(c"InUse")?, bytes(c"TotalAllocated")?);
    let (peak_bytes, reserved_bytes) = (Some(peak_bytes), Some(reserved_bytes));
    Ok(AllocatorUse { name, used_bytes, peak_bytes, reserved_bytes })
}

fn wrong(name: &str, key: &CStr, value: &str) -> Error {
    let key = key.to_string_lossy();
    let message = format!("ONNX Runtime's allocator of {name} memory says that {key} is {value}");
    Error::new(ErrorCode::Internal, message)
}

/// Returns the figures of the session's allocator of a memory.
pub(crate) fn used(
    library: &Library,
    session: &Session,
    memory: &MemoryInfo,
) -> Result<AllocatorUse> {
    let table = library.table(VERSION).ok_or_else(|| {
        let message = format!(
            "ONNX Runtime {} does not report the use of its allocators; 1.{VERSION} and later do",
            library.version()
        );
        Error::new(ErrorCode::Unsupported, message)
    })?;
    // SAFETY: this is a table of that version, which begins like the struct and stays valid.
    let table = unsafe { table.cast::<Table>().as_ref() };
    let allocator = Allocator::new(session, memory)?;
    let mut figures = ptr::null_mut();
    // SAFETY: the allocator is valid, and the call fills in a pointer.
    check(unsafe { (table.allocator_get_stats)(allocator.0.as_ptr(), &raw mut figures) })?;
    let figures = NonNull::new(figures).map(Figures);
    let figures = figures.ok_or_else(|| Error::new(ErrorCode::Internal, "an account is null"))?;
    let tell = |key: &CStr| {
        // SAFETY: the key is a C string, and so is the value, which lives as long as `figures`.
        unsafe { text((table.before.GetKeyValue)(figures.0.as_ptr(), key.as_ptr())) }
    };
    read(allocator.name()?, tell)
}

/// # Safety
///
/// `text` is null, or a C string.
unsafe fn text(text: *const c_char) -> Option<String> {
    // SAFETY: guaranteed by the caller.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

/// An owned handle of a session's allocator.
struct Allocator(NonNull<OrtAllocator>);

impl Allocator {
    fn new(session: &Session, memory: &MemoryInfo) -> Result<Self> {
        let mut allocator = ptr::null_mut();
        // SAFETY: session and memory are valid, and the call fills in a pointer.
        check(unsafe {
            (ort::api().CreateAllocator)(session.ptr(), memory.0.as_ptr(), &raw mut allocator)
        })?;
        let allocator = NonNull::new(allocator).map(Self);
        allocator.ok_or_else(|| Error::new(ErrorCode::Internal, "an allocator is null"))
    }

    fn name(&self) -> Result<String> {
        let (mut info, mut name) = (ptr::null(), ptr::null());
        let api = ort::api();
        // SAFETY: the calls fill in pointers into the allocator.
        unsafe {
            check((api.AllocatorGetInfo)(self.0.as_ptr(), &raw mut info))?;
            check((api.MemoryInfoGetName)(info, &raw mut name))?;
            text(name).ok_or_else(|| Error::new(ErrorCode::Internal, "a memory has no name"))
        }
    }
}

impl Drop for Allocator {
    fn drop(&mut self) {
        // SAFETY: it is owned and not used again.
        unsafe { (ort::api().ReleaseAllocator)(self.0.as_ptr()) };
    }
}

/// Owned figures of an allocator.
struct Figures(NonNull<OrtKeyValuePairs>);

impl Drop for Figures {
    fn drop(&mut self) {
        // SAFETY: it is owned and not used again.
        unsafe { (ort::api().ReleaseKeyValuePairs)(self.0.as_ptr()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_pairs(figures: &[(&str, &str)]) -> Result<AllocatorUse> {
        read("Cuda".into(), |key| {
            let found = figures.iter().find(|(known, _)| *known == key.to_str().expect("UTF-8"));
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    const ARENA: [(&str, &str); 4] = [
        ("InUse", "1024"),
        ("TotalAllocated", "1048576"),
        ("MaxInUse", "4096"),
        ("NumAllocs", "3"),
    ];

    /// Returns the figures of an arena with one value changed.
    fn but(key: &str, value: &str) -> Result<AllocatorUse> {
        let other =
            ARENA.map(|(known, figures)| (known, if known == key { value } else { figures }));
        read_pairs(&other)
    }

    #[test]
    fn an_arena_says_all() {
        let arena = AllocatorUse {
            name: "Cuda".into(),
            used_bytes: 1024,
            peak_bytes: Some(4096),
            reserved_bytes: Some(1_048_576),
        };
        assert_eq!(read_pairs(&ARENA), Ok(arena));
    }

    #[test]
    fn what_is_not_counted_is_not_zero() {
        let error = read_pairs(&[]).expect_err("nothing is told");
        assert_eq!(error.code, ErrorCode::Unsupported);
        assert!(error.message.contains("Cuda memory keeps no account"), "{error}");

        let error = but("MaxInUse", "0").expect_err("three requests for nothing");
        assert_eq!(error.code, ErrorCode::Unsupported);
        assert!(error.message.ends_with("counts requests, and no bytes"), "{error}");

        // An unused arena is empty.
        let unused =
            [("InUse", "0"), ("MaxInUse", "0"), ("NumAllocs", "0"), ("TotalAllocated", "0")];
        let unused = read_pairs(&unused).expect("an empty arena");
        assert_eq!((unused.peak_bytes, unused.reserved_bytes), (Some(0), Some(0)));
    }

    #[test]
    fn what_cannot_be_is_an_error() {
        for value in ["-5", "many", ""] {
            let error = but("InUse", value).expect_err(value);
            assert_eq!(error.code, ErrorCode::Internal);
            assert!(error.message.ends_with(&format!("says that InUse is {value}")), "{error}");
        }
    }
}
