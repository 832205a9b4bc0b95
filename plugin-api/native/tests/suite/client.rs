//! The host's side: handles end children first in any order of dropping, and a caller's mistakes are errors.

use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use plugin_api::abi;
use plugin_api::backend::{
    self, Description, Device, Dimension, Host, HostTensor, ModelInfo, PrepareRequest, TensorInfo,
    ValueKind, View, ViewMut,
};
use plugin_api::client::{
    Backend, DataType, ErrorCode, LoadRequest, Model, Session, Tensor, TensorView,
};

thread_local! {
    /// Names of ended objects, in order.
    static ENDED: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
    /// Number of queued runs that are not finished.
    static QUEUED: RefCell<u32> = const { RefCell::new(0) };
}

/// Records when it is dropped.
struct Noted(&'static str);

impl Drop for Noted {
    fn drop(&mut self) {
        ENDED.with_borrow_mut(|ended| ended.push(self.0));
    }
}

/// A backend that returns its inputs, and records which objects end.
struct EchoBackend(#[expect(dead_code, reason = "for its drop")] Noted);
struct EchoModel(#[expect(dead_code, reason = "for its drop")] Noted);
struct EchoSession(#[expect(dead_code, reason = "for its drop")] Noted);
struct EchoTensor(HostTensor<f32>, #[expect(dead_code, reason = "for its drop")] Noted);

impl backend::Backend for EchoBackend {
    type Model = EchoModel;

    fn new(_host: &Host) -> Result<Self, String> {
        Ok(Self(Noted("backend")))
    }

    fn description(&self) -> Description {
        Description {
            id: "echo".into(),
            version: "0.0.0".into(),
            engine: "none".into(),
            engine_version: String::new(),
            extensions: Vec::new(),
            modes: Vec::new(),
        }
    }

    fn devices(&self) -> backend::Result<Vec<Device>> {
        Ok(Vec::new())
    }

    fn load(&self, request: &backend::LoadRequest<'_>) -> backend::Result<EchoModel> {
        assert_eq!(request.path, Path::new("path"));
        assert_eq!((request.device, request.threads), ("device", Some(3)));
        assert_eq!(request.options.get("key"), Some("value"));
        Ok(EchoModel(Noted("model")))
    }

    fn extension(&self, name: &str) -> Option<NonNull<c_void>> {
        (name == abi::EXTENSION_THREADS).then(backend::threads::<Self>)
    }
}

impl backend::Model for EchoModel {
    type Tensor = EchoTensor;
    type Session = EchoSession;

    fn info(&self) -> ModelInfo {
        let tensor = |name: &str, first: Dimension| TensorInfo {
            name: name.into(),
            dtype: Some(DataType::F32),
            dimensions: Some(vec![first, Dimension::Dynamic("n".into())]),
            kind: ValueKind::Tensor,
        };
        let inputs =
            vec![tensor("a", Dimension::Dynamic("n".into())), tensor("b", Dimension::Fixed(2))];
        let kind = ValueKind::Tensor;
        let unknown = TensorInfo { name: "echo".into(), dtype: None, dimensions: None, kind };
        ModelInfo { inputs, outputs: vec![unknown] }
    }

    fn prepare(&self, _request: &PrepareRequest<'_>) -> backend::Result<EchoSession> {
        Ok(EchoSession(Noted("session")))
    }

    fn tensor(&self, view: &View<'_>) -> backend::Result<EchoTensor> {
        Ok(EchoTensor(HostTensor::new(view)?, Noted("tensor")))
    }
}

impl backend::Tensor for EchoTensor {
    fn dtype(&self) -> DataType {
        DataType::F32
    }

    fn shape(&self) -> &[i64] {
        &self.0.shape
    }

    fn read(&self, into: &mut ViewMut<'_>) -> backend::Result<()> {
        assert_eq!(QUEUED.with_borrow(|queued| *queued), 0, "read before it was complete");
        self.0.read(into)
    }
}

impl backend::Session for EchoSession {
    type Tensor = EchoTensor;

    fn used(&self) -> Vec<(String, String)> {
        vec![("precision".into(), "fp32".into())]
    }

    fn run(
        &mut self,
        inputs: &[&EchoTensor],
        outputs: &mut [Option<Box<EchoTensor>>],
    ) -> backend::Result<()> {
        let output = EchoTensor(inputs[0].0.clone(), Noted("output"));
        outputs[0] = Some(Box::new(output));
        Ok(())
    }

    fn enqueue(
        &mut self,
        inputs: &[&EchoTensor],
        outputs: &mut [Option<Box<EchoTensor>>],
    ) -> backend::Result<()> {
        QUEUED.with_borrow_mut(|queued| *queued += 1);
        self.run(inputs, outputs)
    }

    fn synchronise(&mut self) -> backend::Result<()> {
        QUEUED.with_borrow_mut(|queued| *queued = 0);
        Ok(())
    }
}

fn open() -> (Backend, Model) {
    // SAFETY: the entry point is the SDK's, and the host does not outlive the call's backend.
    let backend = unsafe { Backend::open(entry) }.expect("a backend");
    let request = LoadRequest {
        path: "path",
        device: "device",
        threads: Some(3),
        options: &[("key", "value")],
    };
    let model = backend.load(&request).expect("a model");
    (backend, model)
}

unsafe extern "C" fn entry(
    host: *const plugin_api::abi::HostApi,
) -> *const plugin_api::abi::BackendApi {
    // SAFETY: guaranteed by the caller.
    unsafe { backend::enter::<EchoBackend>(host) }
}

fn tensor(model: &Model, shape: &[i64]) -> Tensor {
    let bytes = vec![0; 4 * shape.iter().product::<i64>() as usize];
    let view = TensorView { dtype: DataType::F32, shape, strides: None, bytes: &bytes };
    model.tensor(view).expect("a tensor")
}

const SHAPES: [[i64; 2]; 2] = [[3, 3], [2, 3]];

fn shapes() -> Vec<Vec<i64>> {
    SHAPES.iter().map(|shape| shape.to_vec()).collect()
}

#[test]
fn handles_end_children_first_however_they_are_dropped() {
    ENDED.with_borrow_mut(Vec::clear);
    let (backend, model) = open();
    let session = model.prepare("fp32", &shapes()).expect("a session");
    let inputs = SHAPES.map(|shape| tensor(&model, &shape));
    let mut call = session.call(inputs.to_vec()).expect("a call");
    call.run().expect("a run");
    let output = call.take_output(0).expect("an output");
    call.run().expect("another run");
    call.enqueue().expect("a run in the queue");

    drop((backend, model, session, inputs));
    assert_eq!(ENDED.take(), ["output"], "the second run's, whose place the third took");
    drop(call);
    assert_eq!(QUEUED.take(), 0, "the queue was waited for");
    assert_eq!(ENDED.take(), ["output", "session", "tensor", "tensor"]);
    drop(output);
    assert_eq!(ENDED.take(), ["output", "model", "backend"]);
}

#[test]
fn outputs_of_queued_runs_are_waited_for() {
    let (_backend, model) = open();
    let session = model.prepare("fp32", &shapes()).expect("a session");
    let mut call =
        session.call(SHAPES.map(|shape| tensor(&model, &shape)).to_vec()).expect("a call");
    call.enqueue().expect("a run in the queue");
    call.read_output(0).expect("an output");
    call.enqueue().expect("a run in the queue");
    call.take_output(0).expect("an output").read().expect("its elements");
    call.enqueue().expect("a run in the queue");
    call.set_input(0, tensor(&model, &SHAPES[0])).expect("another input");
    assert_eq!(QUEUED.take(), 0);
}

/// A session that lives until its thread ends, and then until it is allowed to end.
struct Held {
    session: Option<Session>,
    may_go: Receiver<()>,
    ended: Sender<Vec<&'static str>>,
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.may_go.recv();
        drop(self.session.take());
        let _ = self.ended.send(ENDED.take());
    }
}

/// Models and backends end on the thread that opened the backend, regardless of handles on other threads.
#[test]
fn what_another_thread_keeps_ends_no_model_there() {
    thread_local!(static HELD: Cell<Option<Held>> = const { Cell::new(None) });

    for backend_goes_first in [false, true] {
        let (backend, model) = open();
        let mut backend = Some(backend);
        let ((go, may_go), (ended, other)) = (channel(), channel());
        thread::scope(|scope| {
            let model = model.on_threads().expect("it serves several threads");
            scope.spawn(move || {
                let session = Some(model.here().prepare("fp32", &shapes()).expect("a session"));
                HELD.set(Some(Held { session, may_go, ended }));
            });
        });
        // A scope does not wait for values in thread-local storage.
        drop(model);
        if backend_goes_first {
            backend = None;
        }
        assert_eq!(ENDED.take(), [""; 0]);
        go.send(()).expect("the other thread waits");
        assert_eq!(other.recv().expect("it is told"), ["session"]);
        assert_eq!(ENDED.take(), [""; 0]);
        drop(backend);
        // If nothing of this thread is left, no thread may end them.
        let here = if backend_goes_first { &[][..] } else { &["model", "backend"] };
        assert_eq!(ENDED.take(), here);
    }
}

#[test]
fn mistakes_in_a_call_are_errors() {
    let (_backend, model) = open();
    let (_other_backend, other) = open();
    let session = model.prepare("fp32", &shapes()).expect("a session");
    let [a, b] = SHAPES.map(|shape| tensor(&model, &shape));
    let foreign = tensor(&other, &SHAPES[0]);
    let wrong = [
        (vec![a.clone()], "1 inputs given, 2 wanted"),
        (vec![b.clone(), b.clone()], "input `a` has shape [2, 3], prepared was [3, 3]"),
        (vec![foreign.clone(), b.clone()], "input `a` belongs to another model"),
    ];
    for (inputs, message) in wrong {
        let error = session.call(inputs).expect_err(message);
        assert_eq!((error.code, error.message.as_str()), (ErrorCode::InvalidArgument, message));
    }
    let mut call = session.call(vec![a, b.clone()]).expect("a call");
    assert_eq!(call.read_output(0).expect_err("no run yet").code, ErrorCode::Contract);
    call.set_input(0, b.clone()).expect_err("another shape");
    call.set_input(0, foreign).expect_err("another model");
    call.set_input(2, b).expect_err("no such input");
    call.run().expect("a run");
    call.read_output(1).expect_err("no such output");
}

#[test]
fn shapes_are_checked_against_the_model() {
    let (_backend, model) = open();
    let wrong: [(&[&[i64]], &str); 5] = [
        (&[&[3, 3]], "1 shapes for a model with 2 inputs"),
        (&[&[3], &[2, 3]], "input `a` has 2 axes, not the shape [3]"),
        (&[&[3, 4], &[2, 3]], "axis 1 of input `a` must be 3, not 4"),
        (&[&[3, 3], &[3, 3]], "axis 0 of input `b` must be 2, not 3"),
        (&[&[3, 3], &[2, -1]], "input `b` cannot have the shape [2, -1]"),
    ];
    for (shapes, message) in wrong {
        let shapes: Vec<Vec<i64>> = shapes.iter().map(|shape| shape.to_vec()).collect();
        let error = model.prepare("fp32", &shapes).expect_err(message);
        assert_eq!((error.code, error.message.as_str()), (ErrorCode::InvalidArgument, message));
    }
}

#[test]
fn views_that_do_not_fit_their_bytes_are_errors() {
    let (_backend, model) = open();
    let view = |shape, strides, bytes| {
        model.tensor(TensorView { dtype: DataType::F32, shape, strides, bytes })
    };
    view(&[2], None, &[0; 8]).expect("it fits");
    view(&[2, 2], Some(&[1, 0]), &[0; 8]).expect("it fits");
    view(&[0, 9], Some(&[5, 5]), &[]).expect("there is nothing to fit");
    for (shape, strides, bytes) in [
        (&[2_i64][..], None, &[0_u8; 7][..]),
        (&[-2], None, &[0; 8]),
        (&[2], Some(&[2_i64][..]), &[0; 8]),
        (&[2], Some(&[-1]), &[0; 8]),
        (&[2], Some(&[1, 1]), &[0; 8]),
        (&[i64::MAX, 2], Some(&[i64::MAX, 1]), &[0; 8]),
        (&[1; 65], None, &[0; 4]),
    ] {
        let error = view(shape, strides, bytes).expect_err("it does not fit");
        assert_eq!(error.code, ErrorCode::InvalidArgument, "{error}");
    }
}
