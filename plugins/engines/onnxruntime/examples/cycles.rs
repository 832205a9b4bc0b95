//! Loads, runs and unloads a model repeatedly through ONNX Runtime's C API, without Tare's code, and prints the
//! memory of the process after each cycle. Growth here is not caused by this engine.
//!
//!     cycles LIBRARY MODEL PROVIDER CYCLES INPUT OUTPUT SHAPE [KEY=VALUE …]
//!
//! The provider is `CPU`, `CUDA`, a name for ONNX Runtime's function that appends providers, such as `WebGPU`,
//! or a separate library, as in `QNNExecutionProvider=libonnxruntime_providers_qnn.so`. Keys and values are its
//! options, but `axis:batch=2` is the size of a named axis. The input is zeros in float32, and its shape is
//! written like `2x1x8x8`. Prints a line for each cycle: resident memory, and the part of it that is in no
//! file; the C library's allocated and free memory; then, after freed memory was returned to the system,
//! resident memory and its private part again. All in KiB.

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn main() {
    linux::main();
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn main() {
    panic!("the C library's account of memory is only known on Linux with glibc");
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod linux {
    use std::ffi::{CStr, CString, c_char, c_int};
    use std::ptr;

    use ort::sys::{
        GraphOptimizationLevel, ONNXTensorElementDataType as ElementType, OrtAllocatorType, OrtEnv,
        OrtLoggingLevel, OrtMemType, OrtMemoryInfo, OrtSessionOptions, OrtStatusPtr,
    };

    /// glibc's `struct mallinfo2`.
    #[repr(C)]
    struct Heap {
        arena: usize,
        ordblks: usize,
        smblks: usize,
        hblks: usize,
        hblkhd: usize,
        usmblks: usize,
        fsmblks: usize,
        uordblks: usize,
        fordblks: usize,
        keepcost: usize,
    }

    unsafe extern "C" {
        safe fn mallinfo2() -> Heap;
        safe fn malloc_trim(pad: usize) -> c_int;
    }

    /// Returns all resident memory, and the part of it that is in no file.
    fn resident_kibibytes() -> (u64, u64) {
        let status = std::fs::read_to_string("/proc/self/status").expect("the process's status");
        let number = |key: &str| -> u64 {
            let number = status.lines().find_map(|line| line.strip_prefix(key)?.strip_suffix("kB"));
            number.and_then(|number| number.trim().parse().ok()).expect(key)
        };
        (number("VmRSS:"), number("RssAnon:") + number("RssShmem:"))
    }

    fn check(status: OrtStatusPtr, doing: &str) {
        if !status.0.is_null() {
            // SAFETY: a status that is not null has a message.
            let message = unsafe { CStr::from_ptr((ort::api().GetErrorMessage)(status.0)) };
            panic!("{doing}: {}", message.to_string_lossy());
        }
    }

    fn c_string(text: &str) -> CString {
        CString::new(text).expect("no zero bytes")
    }

    struct Setting {
        model: CString,
        provider: String,
        options: Vec<(CString, CString)>,
        axes: Vec<(CString, i64)>,
        input: CString,
        output: CString,
        shape: Vec<i64>,
    }

    impl Setting {
        fn append(&self, environment: *mut OrtEnv, session_options: *mut OrtSessionOptions) {
            let api = ort::api();
            let keys: Vec<*const c_char> =
                self.options.iter().map(|(key, _)| key.as_ptr()).collect();
            let values: Vec<*const c_char> =
                self.options.iter().map(|(_, value)| value.as_ptr()).collect();
            let (keys, values, count) = (keys.as_ptr(), values.as_ptr(), self.options.len());
            match self.provider.as_str() {
                "CPU" => {}
                // SAFETY: the counts of keys and values are correct, and the options are released once.
                "CUDA" => unsafe {
                    let mut cuda = ptr::null_mut();
                    check((api.CreateCUDAProviderOptions)(&raw mut cuda), "making options");
                    let status = (api.UpdateCUDAProviderOptions)(cuda, keys, values, count);
                    check(status, "setting options");
                    let append = api.SessionOptionsAppendExecutionProvider_CUDA_V2;
                    check(append(session_options, cuda), "appending CUDA");
                    (api.ReleaseCUDAProviderOptions)(cuda);
                },
                // SAFETY: as above, and the devices are the environment's.
                name if name.contains('=') => unsafe {
                    let (mut devices, mut device_count) = (ptr::null(), 0);
                    let get = api.GetEpDevices;
                    check(get(environment, &raw mut devices, &raw mut device_count), "devices");
                    let own = (0..device_count)
                        .map(|at| *devices.add(at))
                        .find(|device| {
                            let provider = CStr::from_ptr((api.EpDevice_EpName)(*device));
                            name.split_once('=')
                                .is_some_and(|(own, _)| provider.to_bytes() == own.as_bytes())
                        })
                        .expect("a device of the provider");
                    let append = api.SessionOptionsAppendExecutionProvider_V2;
                    let (devices, one) = (&raw const own, 1);
                    let status =
                        append(session_options, environment, devices, one, keys, values, count);
                    check(status, "appending the provider");
                },
                // SAFETY: as above.
                name => unsafe {
                    let append = api.SessionOptionsAppendExecutionProvider;
                    let name = c_string(name);
                    let status = append(session_options, name.as_ptr(), keys, values, count);
                    check(status, "appending the provider");
                },
            }
        }

        fn cycle(&self, environment: *mut OrtEnv, memory: *const OrtMemoryInfo) {
            let api = ort::api();
            let mut zeros = vec![0_f32; self.shape.iter().product::<i64>() as usize];
            let (mut options, mut session) = (ptr::null_mut(), ptr::null_mut());
            let (mut given, mut made) = (ptr::null_mut(), ptr::null_mut());
            // SAFETY: each call fills in the given places; all handles live until they are released here, once.
            unsafe {
                check((api.CreateSessionOptions)(&raw mut options), "making options");
                let level = GraphOptimizationLevel::ORT_ENABLE_ALL;
                let status = (api.SetSessionGraphOptimizationLevel)(options, level);
                check(status, "choosing optimisations");
                check((api.SetIntraOpNumThreads)(options, 1), "choosing threads");
                for (axis, size) in &self.axes {
                    let set = api.AddFreeDimensionOverrideByName;
                    check(set(options, axis.as_ptr(), *size), "sizing an axis");
                }
                self.append(environment, options);
                let path = self.model.as_ptr();
                let status = (api.CreateSession)(environment, path, options, &raw mut session);
                check(status, "making a session");
                (api.ReleaseSessionOptions)(options);
                let status = (api.CreateTensorWithDataAsOrtValue)(
                    memory,
                    zeros.as_mut_ptr().cast(),
                    size_of_val(zeros.as_slice()),
                    self.shape.as_ptr(),
                    self.shape.len(),
                    ElementType::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT,
                    &raw mut given,
                );
                check(status, "making an input");
                let inputs = [given.cast_const()];
                let (names, outputs) = ([self.input.as_ptr()], [self.output.as_ptr()]);
                let status = (api.Run)(
                    session,
                    ptr::null(),
                    names.as_ptr(),
                    inputs.as_ptr(),
                    1,
                    outputs.as_ptr(),
                    1,
                    &raw mut made,
                );
                check(status, "running");
                (api.ReleaseValue)(made);
                (api.ReleaseValue)(given);
                (api.ReleaseSession)(session);
            }
        }
    }

    #[expect(clippy::print_stdout, reason = "the answer")]
    pub(crate) fn main() {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let [library, model, provider, cycles, input, output, shape, options @ ..] =
            arguments.as_slice()
        else {
            panic!("usage: cycles LIBRARY MODEL PROVIDER CYCLES INPUT OUTPUT SHAPE [KEY=VALUE …]");
        };
        let cycles: usize = cycles.parse().expect("a number of cycles");
        let pairs = options.iter().map(|text| text.split_once('=').expect("KEY=VALUE"));
        let (mut options, mut axes) = (Vec::new(), Vec::new());
        for (key, value) in pairs {
            match key.strip_prefix("axis:") {
                Some(axis) => axes.push((c_string(axis), value.parse().expect("a size"))),
                None => options.push((c_string(key), c_string(value))),
            }
        }
        let setting = Setting {
            model: c_string(model),
            provider: provider.clone(),
            options,
            axes,
            input: c_string(input),
            output: c_string(output),
            shape: shape.split('x').map(|size| size.parse().expect("a size")).collect(),
        };
        // This only opens the library, and creates no environment with it.
        drop(ort::init_from(library).expect("the library"));
        let (mut environment, mut memory) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the calls fill in pointers. 0 and 0: an allocator of the device, the usual memory.
        unsafe {
            let level = OrtLoggingLevel::ORT_LOGGING_LEVEL_ERROR;
            let status = (ort::api().CreateEnv)(level, c"cycles".as_ptr(), &raw mut environment);
            check(status, "making an environment");
            let kind = OrtAllocatorType::OrtDeviceAllocator;
            let place = OrtMemType::OrtMemTypeDefault;
            let status = (ort::api().CreateCpuMemoryInfo)(kind, place, &raw mut memory);
            check(status, "describing memory");
        }
        if let Some((name, library)) = provider.split_once('=') {
            let (name, library) = (c_string(name), c_string(library));
            let register = ort::api().RegisterExecutionProviderLibrary;
            // SAFETY: the environment is valid, and both are C strings.
            let status = unsafe { register(environment, name.as_ptr(), library.as_ptr()) };
            check(status, "registering the provider's library");
        }
        println!("cycle resident own handed-out held-free trimmed trimmed-own");
        for cycle in 1..=cycles {
            setting.cycle(environment, memory);
            let ((resident, own), heap) = (resident_kibibytes(), mallinfo2());
            malloc_trim(0);
            let (handed_out, free) = ((heap.uordblks + heap.hblkhd) / 1024, heap.fordblks / 1024);
            let (trimmed, trimmed_own) = resident_kibibytes();
            println!("{cycle} {resident} {own} {handed_out} {free} {trimmed} {trimmed_own}");
        }
    }
}
