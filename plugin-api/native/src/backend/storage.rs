//! Information in the ABI's form, kept alive together with the values that it points to.
//!
//! The raw structs point into the heap memory of the owned values beside them, which does not move
//! when these types are moved.

use std::ptr;

use crate::abi;
use crate::types::{Description, Device, Dimension, ModelInfo, ProfiledOperator, TensorInfo};

fn texts(owned: &[String]) -> Vec<abi::String> {
    owned.iter().map(|text| abi::String::borrow(text)).collect()
}

fn attributes(owned: &[(String, String)]) -> Vec<abi::Attribute> {
    owned.iter().map(|(key, value)| abi::Attribute::borrow(key, value)).collect()
}

pub(super) struct StoredDescription {
    pub(super) raw: abi::Description,
    _lists: [Vec<abi::String>; 2],
    pub(super) owned: Description,
}

impl StoredDescription {
    pub(super) fn new(owned: Description) -> Self {
        let (extensions, modes) = (texts(&owned.extensions), texts(&owned.modes));
        let raw = abi::Description {
            struct_size: size_of::<abi::Description>(),
            id: abi::String::borrow(&owned.id),
            version: abi::String::borrow(&owned.version),
            engine: abi::String::borrow(&owned.engine),
            engine_version: abi::String::borrow(&owned.engine_version),
            extensions: extensions.as_ptr(),
            extension_count: extensions.len(),
            modes: modes.as_ptr(),
            mode_count: modes.len(),
        };
        Self { raw, _lists: [extensions, modes], owned }
    }
}

#[derive(Default)]
pub(super) struct StoredDevices {
    pub(super) pointers: Vec<*const abi::Device>,
    _raw: Vec<abi::Device>,
    _parts: Vec<(Vec<abi::String>, Vec<abi::Attribute>)>,
    _owned: Vec<Device>,
}

impl StoredDevices {
    pub(super) fn new(owned: Vec<Device>) -> Self {
        let parts: Vec<_> = owned
            .iter()
            .map(|device| (texts(&device.precisions), attributes(&device.attributes)))
            .collect();
        let raw: Vec<_> = owned
            .iter()
            .zip(&parts)
            .map(|(device, (precisions, attributes))| abi::Device {
                struct_size: size_of::<abi::Device>(),
                id: abi::String::borrow(&device.id),
                kind: abi::String::borrow(&device.kind),
                name: abi::String::borrow(&device.name),
                memory_bytes: device.memory_bytes.unwrap_or(0),
                precisions: precisions.as_ptr(),
                precision_count: precisions.len(),
                attributes: attributes.as_ptr(),
                attribute_count: attributes.len(),
            })
            .collect();
        let pointers = raw.iter().map(ptr::from_ref).collect();
        Self { pointers, _raw: raw, _parts: parts, _owned: owned }
    }
}

struct StoredTensors {
    pointers: Vec<*const abi::TensorInfo>,
    _raw: Vec<abi::TensorInfo>,
    _dimensions: Vec<Vec<abi::Dimension>>,
}

impl StoredTensors {
    fn new(owned: &[TensorInfo]) -> Self {
        let dimensions: Vec<Vec<_>> = owned
            .iter()
            .map(|info| info.dimensions.iter().flatten().map(dimension).collect())
            .collect();
        let raw: Vec<_> = owned
            .iter()
            .zip(&dimensions)
            .map(|(info, dimensions)| abi::TensorInfo {
                struct_size: size_of::<abi::TensorInfo>(),
                name: abi::String::borrow(&info.name),
                dtype: info
                    .dtype
                    .map_or(abi::DType { code: 0, bits: 0, lanes: 0 }, |dtype| dtype.to_abi()),
                rank: if info.dimensions.is_some() { dimensions.len() as i32 } else { -1 },
                dimensions: dimensions.as_ptr(),
                kind: info.kind.to_abi(),
                unused: 0,
            })
            .collect();
        let pointers = raw.iter().map(ptr::from_ref).collect();
        Self { pointers, _raw: raw, _dimensions: dimensions }
    }
}

fn dimension(owned: &Dimension) -> abi::Dimension {
    match owned {
        Dimension::Fixed(size) => abi::Dimension {
            size: i64::try_from(*size).unwrap_or(i64::MAX),
            name: abi::String::EMPTY,
        },
        Dimension::Dynamic(name) => {
            abi::Dimension { size: abi::DYNAMIC, name: abi::String::borrow(name) }
        }
    }
}

pub(super) struct StoredModelInfo {
    pub(super) raw: abi::ModelInfo,
    pub(super) owned: ModelInfo,
    _tensors: [StoredTensors; 2],
}

impl StoredModelInfo {
    pub(super) fn new(owned: ModelInfo) -> Self {
        let (inputs, outputs) =
            (StoredTensors::new(&owned.inputs), StoredTensors::new(&owned.outputs));
        let raw = abi::ModelInfo {
            struct_size: size_of::<abi::ModelInfo>(),
            inputs: inputs.pointers.as_ptr(),
            input_count: inputs.pointers.len(),
            outputs: outputs.pointers.as_ptr(),
            output_count: outputs.pointers.len(),
        };
        Self { raw, owned, _tensors: [inputs, outputs] }
    }
}

pub(super) struct StoredSessionInfo {
    pub(super) raw: abi::SessionInfo,
    _used: Vec<abi::Attribute>,
    _owned: Vec<(String, String)>,
}

impl StoredSessionInfo {
    pub(super) fn new(owned: Vec<(String, String)>) -> Self {
        let used = attributes(&owned);
        let raw = abi::SessionInfo {
            struct_size: size_of::<abi::SessionInfo>(),
            used: used.as_ptr(),
            used_count: used.len(),
        };
        Self { raw, _used: used, _owned: owned }
    }
}

/// Names of phases.
pub(super) struct StoredNames {
    pub(super) raw: Vec<abi::String>,
    _owned: Vec<String>,
}

impl StoredNames {
    pub(super) fn new(owned: Vec<String>) -> Self {
        Self { raw: texts(&owned), _owned: owned }
    }
}

#[derive(Default)]
pub(super) struct StoredProfile {
    pub(super) pointers: Vec<*const abi::Operator>,
    _raw: Vec<abi::Operator>,
    _owned: Vec<ProfiledOperator>,
}

impl StoredProfile {
    pub(super) fn new(owned: Vec<ProfiledOperator>) -> Self {
        let raw: Vec<_> = owned
            .iter()
            .map(|operator| abi::Operator {
                struct_size: size_of::<abi::Operator>(),
                name: abi::String::borrow(&operator.name),
                kind: abi::String::borrow(&operator.kind),
                provider: abi::String::borrow(&operator.provider),
                start_ns: operator.start_ns,
                duration_ns: operator.duration_ns,
            })
            .collect();
        let pointers = raw.iter().map(ptr::from_ref).collect();
        Self { pointers, _raw: raw, _owned: owned }
    }
}
