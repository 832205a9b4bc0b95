//! Element types of tensors.

/// Returns the bits of an element type by its name; `None` if they are not known.
pub(crate) fn bits(name: &str) -> Option<u64> {
    let known = (1..=LAST).map(element).find(|(known, _)| *known == name);
    known.map(|(_, bits)| bits).filter(|bits| *bits > 0)
}

/// The last number that has an element type.
const LAST: i32 = 23;

/// Returns the name and the bits of an element type by its number in ONNX (`TensorProto.DataType`).
pub(crate) fn element(number: i32) -> (&'static str, u64) {
    match number {
        1 => ("fp32", 32),
        2 => ("uint8", 8),
        3 => ("int8", 8),
        4 => ("uint16", 16),
        5 => ("int16", 16),
        6 => ("int32", 32),
        7 => ("int64", 64),
        8 => ("string", 0),
        9 => ("bool", 8),
        10 => ("fp16", 16),
        11 => ("fp64", 64),
        12 => ("uint32", 32),
        13 => ("uint64", 64),
        14 => ("complex64", 64),
        15 => ("complex128", 128),
        16 => ("bf16", 16),
        17..=20 => ("fp8", 8),
        21 => ("uint4", 4),
        22 => ("int4", 4),
        23 => ("fp4", 4),
        _ => ("unknown", 0),
    }
}
