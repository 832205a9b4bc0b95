/*!
Runs the backend node tests of the ONNX standard on a backend: `node_tests FOLDER [LIBRARY]`.

FOLDER is `onnx/backend/test/data/node` of the Python package `onnx`. LIBRARY is a backend's library; without it, this
crate's engine is tested. Printed is a line for each operator that the tests are about: how many of its tests pass, how
many the backend refuses to load or prepare, and which give wrong outputs. `TARE_RUNTIME` names the backend's runtime.
*/

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use plugin_api::abi;
use plugin_api::client::{Backend, DataType, ErrorCode, LoadRequest, TensorData};
use prost::Message as _;

/// `TensorProto`, for files of inputs and outputs.
#[derive(Clone, PartialEq, prost::Message)]
struct TensorProto {
    #[prost(int64, repeated, tag = "1")]
    sizes: Vec<i64>,
    #[prost(int32, tag = "2")]
    element: i32,
    #[prost(float, repeated, tag = "4")]
    floats: Vec<f32>,
    #[prost(int32, repeated, tag = "5")]
    small: Vec<i32>,
    #[prost(int64, repeated, tag = "7")]
    integers: Vec<i64>,
    #[prost(bytes = "vec", tag = "9")]
    raw: Vec<u8>,
}

/// `ModelProto`, as far as nodes have operators.
#[derive(Clone, PartialEq, prost::Message)]
struct ModelProto {
    #[prost(message, optional, tag = "7")]
    graph: Option<GraphProto>,
}

/// `GraphProto`
#[derive(Clone, PartialEq, prost::Message)]
struct GraphProto {
    #[prost(message, repeated, tag = "1")]
    nodes: Vec<NodeProto>,
}

/// `NodeProto`
#[derive(Clone, PartialEq, prost::Message)]
struct NodeProto {
    #[prost(string, tag = "4")]
    operator: String,
}

/// Outcome of a test.
enum Outcome {
    Passes,
    /// The backend refuses the model.
    Refused(String),
    Wrong(String),
    /// This program cannot run it: text, sequences, or types that the boundary lacks.
    NotRun,
}

/// Tests of one operator.
#[derive(Default)]
struct Tally {
    passes: usize,
    refused: Vec<(String, String)>,
    wrong: Vec<(String, String)>,
    not_run: usize,
}

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "this is a command")]
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (folder, library) = match &arguments[..] {
        [folder] => (PathBuf::from(folder), None),
        [folder, library] => (PathBuf::from(folder), Some(library)),
        _ => {
            eprintln!("usage: node_tests FOLDER [LIBRARY]");
            return ExitCode::from(2);
        }
    };
    let entry: abi::Entry = match library {
        None => engine_torch::tare_backend_v1,
        Some(path) => {
            // SAFETY: the user has named a backend.
            let library = unsafe { libloading::Library::new(path) }.expect("a library");
            // SAFETY: the ABI says what type a symbol of this name has.
            let entry =
                *unsafe { library.get::<abi::Entry>(abi::ENTRY_SYMBOL) }.expect("a backend");
            std::mem::forget(library);
            entry
        }
    };
    // SAFETY: the entry point is a backend's, and opened once.
    let backend = unsafe { Backend::open(entry) }.expect("the backend opens");
    let device = backend.devices().expect("devices").first().expect("a device").id.clone();
    let mut tests: Vec<PathBuf> = fs::read_dir(&folder)
        .expect("the folder of tests")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join("model.onnx").is_file())
        .collect();
    tests.sort();
    let mut tallies: BTreeMap<String, Tally> = BTreeMap::new();
    for test in &tests {
        let name = test.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let bytes = fs::read(test.join("model.onnx")).expect("a model");
        let nodes = ModelProto::decode(&*bytes).ok().and_then(|model| model.graph);
        let nodes = nodes.map(|graph| graph.nodes).unwrap_or_default();
        // A test of an operator's definition by others has several.
        let operator = match &nodes[..] {
            [node] => node.operator.clone(),
            _ => "several operators".to_owned(),
        };
        let tally = tallies.entry(operator).or_default();
        match run(&backend, &device, test) {
            Outcome::Passes => tally.passes += 1,
            Outcome::Refused(reason) => tally.refused.push((name, reason)),
            Outcome::Wrong(reason) => tally.wrong.push((name, reason)),
            Outcome::NotRun => tally.not_run += 1,
        }
    }
    println!("| operator | pass | refused | wrong | not run |\n|---|--:|--:|--:|--:|");
    let mut sums = [0; 4];
    for (operator, tally) in &tallies {
        let Tally { passes, refused, wrong, not_run } = tally;
        let counts = [*passes, refused.len(), wrong.len(), *not_run];
        let [passes, refused, wrong, not_run] = counts;
        println!("| {operator} | {passes} | {refused} | {wrong} | {not_run} |");
        sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    let [passes, refused, wrong, not_run] = sums;
    println!("| all | {passes} | {refused} | {wrong} | {not_run} |");
    for tally in tallies.values() {
        for (what, list) in [("wrong", &tally.wrong), ("refused", &tally.refused)] {
            for (name, reason) in list {
                eprintln!("{what}: {name}: {reason}");
            }
        }
    }
    ExitCode::SUCCESS
}

fn run(backend: &Backend, device: &str, test: &Path) -> Outcome {
    let data = test.join("test_data_set_0");
    let (Some(inputs), Some(expected)) = (tensors(&data, "input"), tensors(&data, "output")) else {
        return Outcome::NotRun;
    };
    let model = test.join("model.onnx");
    let request =
        LoadRequest { path: &model.to_string_lossy(), device, threads: Some(1), options: &[] };
    let model = match backend.load(&request) {
        Ok(model) => model,
        Err(error) => return Outcome::Refused(error.message),
    };
    let shapes: Vec<Vec<i64>> = inputs.iter().map(|input| input.shape.clone()).collect();
    let mut session = model.prepare("fp32", &shapes);
    for precision in ["fp16", "bf16", "fp64", "int8"] {
        if session.is_err() {
            session = model.prepare(precision, &shapes);
        }
    }
    let session = match session {
        Ok(session) => session,
        Err(error) => return Outcome::Refused(error.message),
    };
    let found = inputs
        .iter()
        .map(|input| model.tensor(input.view()))
        .collect::<Result<Vec<_>, _>>()
        .and_then(|inputs| {
            let mut call = session.call(inputs)?;
            call.run()?;
            (0..expected.len()).map(|index| call.read_output(index)).collect::<Result<Vec<_>, _>>()
        });
    match found {
        Ok(found) => compare(&expected, &found),
        // An element type that the engine lacks.
        Err(error) if error.code == ErrorCode::Unsupported => Outcome::Refused(error.message),
        Err(error) => Outcome::Wrong(error.message),
    }
}

/// Reads the inputs or outputs of a test, in order; `None` if one is not a tensor of numbers.
fn tensors(folder: &Path, kind: &str) -> Option<Vec<TensorData>> {
    let mut found = Vec::new();
    loop {
        let path = folder.join(format!("{kind}_{}.pb", found.len()));
        if !path.is_file() {
            return (!found.is_empty() || kind == "input").then_some(found);
        }
        let tensor = TensorProto::decode(&*fs::read(path).ok()?).ok()?;
        let dtype = dtype_of(tensor.element)?;
        let count = tensor.sizes.iter().product::<i64>() as usize * dtype.size();
        let bytes = match tensor.raw.is_empty() {
            false => tensor.raw,
            true if !tensor.floats.is_empty() => {
                tensor.floats.iter().flat_map(|value| value.to_ne_bytes()).collect()
            }
            true if !tensor.integers.is_empty() => {
                tensor.integers.iter().flat_map(|value| value.to_ne_bytes()).collect()
            }
            true => tensor
                .small
                .iter()
                .flat_map(|value| value.to_ne_bytes()[..dtype.size().min(4)].to_vec())
                .collect(),
        };
        if bytes.len() != count {
            return None;
        }
        found.push(TensorData { dtype, shape: tensor.sizes, bytes });
    }
}

fn dtype_of(element: i32) -> Option<DataType> {
    Some(match element {
        1 => DataType::F32,
        2 => DataType::U8,
        3 => DataType::I8,
        4 => DataType::U16,
        5 => DataType::I16,
        6 => DataType::I32,
        7 => DataType::I64,
        9 => DataType::BOOL,
        10 => DataType::F16,
        11 => DataType::F64,
        12 => DataType::U32,
        13 => DataType::U64,
        16 => DataType::BF16,
        _ => return None,
    })
}

/// Compares with the tolerances of the standard's own runner: 1e-3 relative, 1e-7 absolute.
fn compare(expected: &[TensorData], found: &[TensorData]) -> Outcome {
    for (index, (expected, found)) in expected.iter().zip(found).enumerate() {
        if expected.dtype != found.dtype || expected.shape != found.shape {
            return Outcome::Wrong(format!(
                "output {index} is {} {:?} instead of {} {:?}",
                found.dtype, found.shape, expected.dtype, expected.shape
            ));
        }
        let (wanted, given) = (numbers(expected), numbers(found));
        let close = |(wanted, given): (&f64, &f64)| {
            wanted == given
                || (wanted.is_nan() && given.is_nan())
                || (wanted - given).abs() <= 1e-7 + 1e-3 * wanted.abs()
        };
        if let Some(at) = wanted.iter().zip(&given).position(|pair| !close(pair)) {
            return Outcome::Wrong(format!(
                "element {at} of output {index} is {} instead of {}",
                given[at], wanted[at]
            ));
        }
    }
    Outcome::Passes
}

fn numbers(tensor: &TensorData) -> Vec<f64> {
    let size = tensor.dtype.size();
    let number = |bytes: &[u8]| {
        let mut wide = [0; 8];
        wide[..size].copy_from_slice(bytes);
        let bits = u64::from_ne_bytes(wide);
        match tensor.dtype {
            DataType::F32 => f64::from(f32::from_bits(bits as u32)),
            DataType::F64 => f64::from_bits(bits),
            DataType::BF16 => f64::from(f32::from_bits((bits as u32) << 16)),
            DataType::F16 => half(bits as u16),
            DataType::I64 => bits.cast_signed() as f64,
            DataType::I32 => f64::from(bits as u32 as i32),
            DataType::I16 => f64::from(bits as u16 as i16),
            DataType::I8 => f64::from(bits as u8 as i8),
            _ => bits as f64,
        }
    };
    tensor.bytes.chunks_exact(size).map(number).collect()
}

/// Converts a number of IEEE 754's format of 16 bits.
fn half(bits: u16) -> f64 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff));
    sign * match exponent {
        0 => fraction * 2_f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1.0 + fraction / 1024.0) * 2_f64.powi(exponent - 15),
    }
}
