//! A session's allocator figures match the needs of its runs.

use std::path::Path;

use engine_onnxruntime::{Cpu, Library, OrtModel, OrtSession, OrtTensor};
use plugin_api::abi;
use plugin_api::backend::{
    AllocatorUse, DataType, LoadRequest, Model, Options, PrepareRequest, Session, Tensor, View,
};

const DIGITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../manifests/data/digits.onnx");

/// Output of the model's first layer for one image: 24 maps of 8 by 8 numbers.
const FIRST_LAYER: u64 = 24 * 8 * 8 * 4;

fn load() -> OrtModel {
    let library = Library::get("cpu").expect("ONNX Runtime");
    let options = Options::default();
    let path = Path::new(DIGITS);
    let request =
        LoadRequest { path, device: "cpu:0", threads: Some(1), options, mode: "inference" };
    OrtModel::load(library, &request, Box::new(Cpu), 1).expect("a model")
}

/// Returns a session for a batch of blank images, and the images.
fn prepare(model: &OrtModel, batch: usize) -> (OrtSession, OrtTensor) {
    let shape = [batch as i64, 1, 8, 8];
    let request = PrepareRequest { precision: "fp32", shapes: &[&shape], bounds: None };
    let session = model.prepare(&request).expect("a session");
    let pixels = vec![0_f32; batch * 64];
    let raw = abi::View {
        struct_size: size_of::<abi::View>(),
        data: pixels.as_ptr().cast_mut().cast(),
        dtype: DataType::F32.to_abi(),
        rank: shape.len() as u32,
        shape: shape.as_ptr(),
        strides: std::ptr::null(),
        byte_offset: 0,
    };
    // SAFETY: the view refers to `shape` and `pixels`, which outlive it.
    let view = unsafe { View::new(&raw const raw) }.expect("a view");
    (session, model.tensor(&view).expect("a tensor"))
}

fn figures(session: &OrtSession) -> AllocatorUse {
    let figures = session.allocator().expect("an account");
    assert_eq!(figures.name, "Cpu");
    assert!(Some(figures.used_bytes) <= figures.peak_bytes, "{figures:?}");
    assert!(figures.peak_bytes <= figures.reserved_bytes, "{figures:?}");
    figures
}

/// All in one, since a process has one library.
#[test]
#[ignore = "needs ONNX Runtime 1.23 or later: name its folder in TARE_RUNTIME"]
fn an_allocator_says_what_runs_need() {
    let model = load();
    let (mut one, image) = prepare(&model, 1);
    let mut outputs = [None];
    // In its second run, ONNX Runtime allocates at once the memory that the first run needed piece by piece.
    for _ in 0..2 {
        one.run(&[&image], &mut outputs).expect("a run");
    }
    let small = figures(&one);
    assert!(small.peak_bytes >= Some(FIRST_LAYER), "{small:?}");

    // Another run needs no more memory.
    one.run(&[&image], &mut outputs).expect("a run");
    assert_eq!(figures(&one), small);

    // A larger batch does, in a session that shares the allocator.
    let (mut many, images) = prepare(&model, 512);
    let mut many_outputs = [None];
    many.run(&[&images], &mut many_outputs).expect("a run");
    let large = figures(&many);
    assert!(large.peak_bytes >= Some(512 * FIRST_LAYER), "{large:?}");
    assert_eq!(figures(&one), large);

    // The peak stays, and freed memory is no longer in use.
    let [Some(output)] = &many_outputs else { panic!("no output") };
    let bytes = output.shape().iter().product::<i64>() as u64 * 4;
    drop(many_outputs);
    let after = figures(&many);
    assert!(after.used_bytes + bytes <= large.used_bytes, "{after:?}, {large:?}");
    assert_eq!(after.peak_bytes, large.peak_bytes);

    // Another model has another allocator.
    let (mut other, image) = prepare(&load(), 1);
    other.run(&[&image], &mut [None]).expect("a run");
    assert!(figures(&other).peak_bytes <= small.peak_bytes, "{:?}", figures(&other));
    assert_eq!(figures(&one), after);
}
