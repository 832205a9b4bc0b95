//! The example backends in C, C++ and Rust conform, and match the guide's excerpts.

use std::ffi::c_void;
use std::path::Path;

use crate::common::{FOLDER, build, turn};
use crate::rust_example;
use plugin_api::abi;
use plugin_api::client::{
    AllocatorUse, Backend, DataType, DeviceReading, LoadRequest, ProfiledOperator, TensorView,
};
use plugin_testkit::{Fixture, Suite};

fn fixture() -> Fixture {
    Fixture::read(&Path::new(FOLDER).join("fixture.toml")).expect("a good fixture")
}

fn conforms(source: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = build(source, folder.path(), &[]);
    let _turn = turn();
    // SAFETY: it is this test's library, and nothing else has loaded this copy.
    let suite = unsafe { Suite::open(&path) }.expect("a backend");
    suite.check(&fixture()).assert();
    drop(suite);
    refuses_a_file_that_is_no_model(&path);
}

#[test]
fn the_example_in_c_conforms() {
    conforms("scale.c");
}

#[test]
fn the_example_in_cpp_conforms() {
    conforms("scale.cpp");
}

#[test]
fn the_example_in_rust_conforms() {
    let _turn = turn();
    // SAFETY: it is this test's library, and no other test opens it.
    let suite = unsafe { Suite::from_entry(rust_example::tare_backend_v1) };
    suite.check(&fixture()).assert();
}

/// `example_factor` of `scale.c`.
#[repr(C)]
struct Factor {
    struct_size: usize,
    factor: Option<unsafe extern "C" fn(model: *const abi::Model) -> f32>,
}

#[test]
fn an_extension_of_the_example_in_c_is_found_by_its_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let library = build("scale.c", folder.path(), &[]);
    // SAFETY: it is this test's library, and nothing else has loaded this copy.
    let library = unsafe { libloading::Library::new(library) }.expect("a library");
    // SAFETY: this is the entry point's type.
    let entry = unsafe { library.get::<abi::Entry>(abi::ENTRY_SYMBOL) }.expect("an entry point");
    // SAFETY: it keeps the ABI, and the library outlives the backend.
    let backend = unsafe { Backend::open(*entry) }.expect("a backend");
    let table = backend.extension("example/factor/1").expect("the extension").cast::<Factor>();
    // SAFETY: the extension of this name is such a table.
    let table = unsafe { table.as_ref() };
    assert_eq!((table.struct_size, table.factor.is_some()), (size_of::<Factor>(), true));
    for name in ["example/factor/2", "example/factor/", "", "example/factor/1 "] {
        assert_eq!(backend.extension(name).map(|table| table.cast::<c_void>()), None, "{name}");
    }
}

/// Checks the host's side of the extensions of a backend in C or C++.
fn extensions_are_reported(source: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let library = build(source, folder.path(), &[]);
    // SAFETY: it is this test's library, and nothing else has loaded this copy.
    let library = unsafe { libloading::Library::new(library) }.expect("a library");
    // SAFETY: this is the entry point's type.
    let entry = unsafe { library.get::<abi::Entry>(abi::ENTRY_SYMBOL) }.expect("an entry point");
    // SAFETY: it keeps the ABI, and the library outlives the backend.
    let backend = unsafe { Backend::open(*entry) }.expect("a backend");
    let energy = backend.device_energy("scale:0").expect("the extension");
    assert_eq!(energy.expect("energy"), 12_345_678);
    let memory = backend.device_memory("scale:0").expect("the extension").expect("memory");
    assert_eq!((memory.used_bytes, memory.peak_bytes), (1024, Some(4096)));
    for error in [
        backend.device_energy("gpu:0").expect("the extension").expect_err("no such device"),
        backend.device_memory("gpu:0").expect("the extension").expect_err("no such device"),
    ] {
        assert_eq!(error.code.name(), "not-found");
        assert_eq!(error.message, "there is no device `gpu:0`");
    }

    let reader = backend.device_state("gpu:0").expect("the extension").expect("a reader");
    let error = reader.read().expect_err("no such device");
    assert_eq!(error.message, "there is no device `gpu:0`");
    let reader = backend.device_state("scale:0").expect("the extension").expect("a reader");
    // It is called on another thread, as by the worker.
    let reading = std::thread::scope(|scope| scope.spawn(|| reader.read()).join());
    let expected = DeviceReading {
        utilisation: Some(0.5),
        clock_hertz: Some(1e9),
        temperature_celsius: Some(40.0),
        slowed_by: Some(abi::slowed_by::HEAT),
        ..DeviceReading::default()
    };
    assert_eq!(reading.expect("no panic").expect("a reading"), expected);

    let path = Path::new(FOLDER).join("three.scale");
    let path = path.to_str().expect("UTF-8");
    let request = LoadRequest { path, device: "scale:0", threads: None, options: &[] };
    let model = backend.load(&request).expect("a model");
    let session = model.prepare("fp32", &[vec![1, 4]]).expect("a session");
    let found = session.allocator_use().expect("the extension").expect("an answer");
    let name = "Scale".to_owned();
    let expected =
        AllocatorUse { name, used_bytes: 100, peak_bytes: Some(200), reserved_bytes: None };
    assert_eq!(found, expected);
    let bytes: Vec<u8> = [1.0_f32, 2.0, 3.0, 4.0].into_iter().flat_map(f32::to_ne_bytes).collect();
    let view = TensorView { dtype: DataType::F32, shape: &[1, 4], strides: None, bytes: &bytes };
    let mut call = session.call(vec![model.tensor(view).expect("a tensor")]).expect("a call");
    let stages = call.run_in_stages().expect("the extension").expect("a run");
    assert_eq!((stages.copy_in_ns, stages.compute_ns, stages.copy_out_ns), (1, 2, 3));
    assert_eq!(call.run_timed().expect("the extension").expect("a run"), 4);
    let operators = call.profile().expect("the extension").expect("a profile");
    let operator = |name: &str, kind: &str, provider: &str, start_ns, duration_ns| {
        let (name, kind, provider) = (name.into(), kind.into(), provider.into());
        ProfiledOperator { name, kind, provider, start_ns, duration_ns }
    };
    let expected = [
        operator("scale", "Mul", "ScaleProvider", 1, 5),
        operator("copy", "", "OtherProvider", 6, 7),
    ];
    assert_eq!(operators, expected);
    let phases = session.phases().expect("the extension").expect("names");
    assert_eq!(phases, ["look", "scale"]);
    let run = session.marked_run().expect("the extension").expect("a function");
    let mut marks = Vec::new();
    for phase in [0, 1] {
        call.run_phase(run, phase, &mut || marks.push(phase)).expect("a phase");
    }
    assert_eq!(marks, [0, 1]);
    let error = call.run_phase(run, 2, &mut || {}).expect_err("no such phase");
    assert_eq!(error.code.name(), "invalid-argument");

    call.evaluate().expect("the extension").expect("a run");

    let canceller = backend.canceller().expect("the extension").expect("a canceller");
    let asked = std::thread::spawn(move || canceller.cancel().map(|()| canceller));
    let canceller = asked.join().expect("no panic").expect("it is heard");
    let memory = backend.device_memory("scale:0").expect("the extension").expect("memory");
    assert_eq!(memory.used_bytes, 1025, "the backend has counted");
    let output = call.read_output(0).expect("the run's output");
    let output: Vec<f32> =
        output.bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_ne_bytes(*bytes)).collect();
    assert_eq!(output, [3.0, 6.0, 9.0, 12.0]);
    drop((call, session, model, backend));
    canceller.cancel().expect("there is nobody left to ask");
}

#[test]
fn extensions_of_a_backend_in_c_are_used() {
    extensions_are_reported("extensions.c");
}

#[test]
fn extensions_of_a_backend_in_cpp_are_used() {
    extensions_are_reported("extensions.cpp");
}

#[test]
fn what_a_backend_does_not_offer_is_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let library = build("scale.c", folder.path(), &[]);
    // SAFETY: it is this test's library, and nothing else has loaded this copy.
    let library = unsafe { libloading::Library::new(library) }.expect("a library");
    // SAFETY: this is the entry point's type.
    let entry = unsafe { library.get::<abi::Entry>(abi::ENTRY_SYMBOL) }.expect("an entry point");
    // SAFETY: it keeps the ABI, and the library outlives the backend.
    let backend = unsafe { Backend::open(*entry) }.expect("a backend");
    assert!(backend.device_energy("scale:0").is_none());
    assert!(backend.device_memory("scale:0").is_none());
    assert!(backend.device_state("scale:0").is_none());
}

fn refuses_a_file_that_is_no_model(library: &Path) {
    // SAFETY: it is this test's library, and nothing else has loaded this copy.
    let library = unsafe { libloading::Library::new(library) }.expect("a library");
    // SAFETY: this is the entry point's type.
    let entry = unsafe { library.get::<abi::Entry>(abi::ENTRY_SYMBOL) }.expect("an entry point");
    // SAFETY: it keeps the ABI, and the library outlives the backend.
    let backend = unsafe { Backend::open(*entry) }.expect("a backend");
    let path = Path::new(FOLDER).join("fixture.toml");
    let path = path.to_str().expect("UTF-8");
    let request = LoadRequest { path, device: "scale:0", threads: None, options: &[] };
    let error = backend.load(&request).expect_err("not a model");
    assert_eq!(error.code.name(), "invalid-model");
    assert!(error.message.ends_with("fixture.toml: does not begin with `scale FACTOR`"));
}

/// Returns code blocks of a page in one language.
fn code_blocks(page: &str, language: &str) -> Vec<String> {
    let path = Path::new(FOLDER).join("../../docs/guide").join(page);
    let text = std::fs::read_to_string(&path).expect("the page");
    let mut blocks = Vec::new();
    for part in text.split("\n```").skip(1).step_by(2) {
        let (info, code) = part.split_once('\n').unwrap_or((part, ""));
        if info.trim() == language {
            blocks.push(code.to_owned() + "\n");
        }
    }
    blocks
}

#[test]
fn the_guide_shows_the_code_that_is_tested() {
    let files = [
        ("backend-c.md", "c", format!("{FOLDER}/scale.c"), 5),
        ("backend-c.md", "cpp", format!("{FOLDER}/scale.cpp"), 2),
        ("backend-c.md", "toml", format!("{FOLDER}/plugin.toml"), 1),
    ];
    for (page, language, file, least) in files {
        let blocks = code_blocks(page, language);
        assert!(blocks.len() >= least, "{page} shows {} blocks of {language}", blocks.len());
        let tested = std::fs::read_to_string(&file).expect("the tested file");
        for block in blocks {
            assert!(tested.contains(&block), "{page} shows code that is not in {file}:\n{block}");
        }
    }
}

#[test]
fn the_guide_to_rust_is_whole() {
    let native = Path::new(env!("CARGO_MANIFEST_DIR")).join("../native");
    let tested = std::fs::read_to_string(native.join("examples/scale.rs")).expect("the example");
    let shown = code_blocks("backend-rust.md", "rust").join("\n");
    assert_eq!(shown, tested, "the page's blocks, one after the other, are the example");

    let manifest = code_blocks("backend-rust.md", "toml").concat();
    let manifest: toml::Table = manifest.parse().expect("a Cargo.toml");
    assert_eq!(manifest["package"]["name"].as_str(), Some("backend-scale"));
    assert!(manifest["lib"]["crate-type"].as_array().is_some_and(|types| types.len() == 2));
    // The checkout is beside the crate.
    for (table, name) in
        [("dependencies", "tare-plugin-api"), ("dev-dependencies", "tare-plugin-testkit")]
    {
        let path = manifest[table][name]["path"].as_str().expect("a path");
        let path = path.strip_prefix("../tare/plugin-api/").expect("a path into the checkout");
        let there = std::fs::read_to_string(native.join("..").join(path).join("Cargo.toml"));
        assert!(there.expect("a crate").contains(&format!("name = \"{name}\"")), "{name}");
    }
}
