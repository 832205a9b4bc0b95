//! Types of both sides of the boundary, as owned Rust types.

use std::fmt;

use crate::abi;

/// An element type, as in DLPack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

/// DLPack's codes and NumPy's names for them.
const CODES: &[(u8, &str)] = &[
    (0, "int"),
    (1, "uint"),
    (2, "float"),
    (4, "bfloat"),
    (5, "complex"),
    (6, "bool"),
    (abi::DTYPE_STRING, "string"),
];

impl DataType {
    /// 64-bit float.
    pub const F64: Self = Self::new(2, 64);
    /// 32-bit float.
    pub const F32: Self = Self::new(2, 32);
    /// 16-bit float.
    pub const F16: Self = Self::new(2, 16);
    /// bfloat16.
    pub const BF16: Self = Self::new(4, 16);
    /// 64-bit signed integer.
    pub const I64: Self = Self::new(0, 64);
    /// 32-bit signed integer.
    pub const I32: Self = Self::new(0, 32);
    /// 16-bit signed integer.
    pub const I16: Self = Self::new(0, 16);
    /// 8-bit signed integer.
    pub const I8: Self = Self::new(0, 8);
    /// 64-bit unsigned integer.
    pub const U64: Self = Self::new(1, 64);
    /// 32-bit unsigned integer.
    pub const U32: Self = Self::new(1, 32);
    /// 16-bit unsigned integer.
    pub const U16: Self = Self::new(1, 16);
    /// 8-bit unsigned integer.
    pub const U8: Self = Self::new(1, 8);
    /// Boolean: a byte that is 0 or 1.
    pub const BOOL: Self = Self::new(6, 8);
    /// Text in UTF-8, of any length.
    pub const STRING: Self = Self::new(abi::DTYPE_STRING, abi::STRING_BITS);

    /// The types above that are numbers, or read as such.
    pub const ALL: &'static [Self] = &[
        Self::F64,
        Self::F32,
        Self::F16,
        Self::BF16,
        Self::I64,
        Self::I32,
        Self::I16,
        Self::I8,
        Self::U64,
        Self::U32,
        Self::U16,
        Self::U8,
        Self::BOOL,
    ];

    const fn new(code: u8, bits: u8) -> Self {
        Self { code, bits, lanes: 1 }
    }

    /// Returns whether elements are texts, which are stored outside the tensor.
    #[must_use]
    pub const fn is_text(self) -> bool {
        self.code == abi::DTYPE_STRING
    }

    /// Returns the bytes per element.
    #[must_use]
    pub const fn size(self) -> usize {
        self.bits as usize * self.lanes as usize / 8
    }

    /// Returns the type with this NumPy name, such as `float32` or `bool`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|known| known.to_string() == name)
    }

    /// Returns the type for DLPack's triple; `None` if the bits do not fill whole bytes, or the
    /// triple says that the type is unknown.
    #[must_use]
    pub fn from_abi(raw: abi::DType) -> Option<Self> {
        let abi::DType { code, bits, lanes } = raw;
        if code == abi::DTYPE_STRING {
            return ((bits, lanes) == (abi::STRING_BITS, 1)).then_some(Self::STRING);
        }
        let known = CODES.iter().any(|(known, _)| *known == code);
        (known && bits > 0 && bits % 8 == 0 && lanes > 0).then_some(Self { code, bits, lanes })
    }

    /// Returns DLPack's triple.
    #[must_use]
    pub const fn to_abi(self) -> abi::DType {
        abi::DType { code: self.code, bits: self.bits, lanes: self.lanes }
    }
}

impl fmt::Display for DataType {
    /// Writes NumPy's name, such as `float32` or `bool`, with `x4` behind it for four lanes; `string` for
    /// text.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = CODES.iter().find(|(code, _)| *code == self.code).map_or("?", |(_, name)| name);
        let alone = *self == Self::BOOL || self.is_text();
        let bits = if alone { String::new() } else { self.bits.to_string() };
        let lanes = if self.lanes == 1 { String::new() } else { format!("x{}", self.lanes) };
        formatter.pad(&format!("{name}{bits}{lanes}"))
    }
}

macro_rules! codes {
    ($($(#[$meta:meta])* $variant:ident = $value:ident $name:literal,)+) => {
        /// Kinds of errors of a backend.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum ErrorCode {
            $($(#[$meta])* $variant,)+
            /// The backend broke the rules of the ABI; found by the host, never sent.
            Contract,
        }

        impl ErrorCode {
            /// Returns the code's name, such as `invalid-argument`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ Self::Contract => "contract" }
            }

            /// Returns the code's number in the ABI.
            #[must_use]
            pub const fn to_abi(self) -> i32 {
                match self {
                    $(Self::$variant => abi::error_code::$value,)+
                    Self::Contract => abi::error_code::INTERNAL,
                }
            }

            /// Returns the code of this name.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant),)+
                    "contract" => Some(Self::Contract),
                    _ => None,
                }
            }

            /// Returns the code for a number of the ABI; an unknown one counts as internal.
            #[must_use]
            pub const fn from_abi(code: i32) -> Self {
                match code {
                    $(abi::error_code::$value => Self::$variant,)+
                    _ => Self::Internal,
                }
            }
        }
    };
}

codes! {
    /// A bug in the backend; it should not be used any more.
    Internal = INTERNAL "internal",
    /// The call, an option or a shape is wrong.
    InvalidArgument = INVALID_ARGUMENT "invalid-argument",
    /// No such file, device or name.
    NotFound = NOT_FOUND "not-found",
    /// The file is not a model, or is damaged.
    InvalidModel = INVALID_MODEL "invalid-model",
    /// The backend cannot do this, and never could.
    Unsupported = UNSUPPORTED "unsupported",
    /// On the host or on the device.
    OutOfMemory = OUT_OF_MEMORY "out-of-memory",
    /// The device or its driver failed.
    Device = DEVICE "device",
    /// A struct is smaller than in ABI 1.0, or ends within a field.
    Version = VERSION "version",
    /// The vendor's runtime, or a part of it, is missing, cannot be loaded or is too old.
    RuntimeMissing = RUNTIME_MISSING "runtime-missing",
    /// The host cancelled the call.
    Cancelled = CANCELLED "cancelled",
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// A backend's description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// The plugin's id, as in `plugin.toml`.
    pub id: String,
    /// The plugin's version, semver.
    pub version: String,
    /// The engine that it drives, such as `rten`.
    pub engine: String,
    /// The engine's version; empty if unknown.
    pub engine_version: String,
    /// Names of the extensions that it offers.
    pub extensions: Vec<String>,
    /// Modes in which it runs models: `inference`, `training`, `generation`. None: inference only.
    pub modes: Vec<String>,
}

impl Description {
    /// Modes in which it runs models, at least one.
    #[must_use]
    pub fn modes(&self) -> Vec<&str> {
        match self.modes.as_slice() {
            [] => vec![INFERENCE],
            modes => modes.iter().map(String::as_str).collect(),
        }
    }
}

/// The mode of a backend that names none.
pub(crate) const INFERENCE: &str = "inference";

/// A device that models can be loaded onto.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Id, unique and the same in each process on this machine, such as `cpu:0`: up to 128 of the
    /// characters `A-Z a-z 0-9 . _ : / -`, beginning with a letter or digit. Any other is refused.
    pub id: String,
    /// `cpu`, `gpu`, `npu` or another word for the kind of hardware.
    pub kind: String,
    /// The full name that the vendor gives it.
    pub name: String,
    /// Memory in bytes, if the backend knows it.
    pub memory_bytes: Option<u64>,
    /// Precisions in which it computes: `fp32`, `fp16`, `bf16`, `int8`. At least one.
    pub precisions: Vec<String>,
    /// Other facts: driver, runtime, compute capability.
    pub attributes: Vec<(String, String)>,
}

/// An axis of an input or output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dimension {
    /// Always this size.
    Fixed(u64),
    /// Dynamic. Axes of the same name have the same size; the name may be empty.
    Dynamic(String),
}

macro_rules! numbered {
    ($(#[$meta:meta])* $name:ident else $default:ident {
        $($(#[$variant_meta:meta])* $variant:ident = $value:path, $word:literal;)+
    }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$variant_meta])* $variant,)+ }

        impl $name {
            /// Returns its name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }

            /// Returns its number in the ABI.
            #[must_use]
            pub const fn to_abi(self) -> u32 {
                match self { $(Self::$variant => $value,)+ }
            }

            /// Returns the value with this number in the ABI. An unknown number becomes the most conservative
            /// value.
            #[must_use]
            pub const fn from_abi(number: u32) -> Self {
                match number { $($value => Self::$variant,)+ _ => Self::$default }
            }
        }
    };
}

numbered! {
    /// Kinds of inputs and outputs. Only a tensor has an element type and a shape.
    ValueKind else Other {
        /// A dense tensor.
        #[default]
        Tensor = abi::value_kind::TENSOR, "tensor";
        /// A list of values.
        Sequence = abi::value_kind::SEQUENCE, "sequence";
        /// Values by key.
        Map = abi::value_kind::MAP, "map";
        /// Something else.
        Other = abi::value_kind::OTHER, "value of another kind";
    }
}

numbered! {
    /// Which shapes the calls of a session may have.
    ShapesServed else One {
        /// Only those that were prepared: the backend compiles for a shape.
        #[default]
        One = abi::shapes_served::ONE, "one";
        /// Any within the bounds; the first run with each compiles it.
        Compiled = abi::shapes_served::COMPILED, "compiled";
        /// Any within the bounds, at once.
        Any = abi::shapes_served::ANY, "any";
    }
}

/// An input or output of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    /// Its name in the model.
    pub name: String,
    /// Its element type, if the model states it.
    pub dtype: Option<DataType>,
    /// Its axes, if the model states them.
    pub dimensions: Option<Vec<Dimension>>,
    /// The kind of value.
    pub kind: ValueKind,
}

/// A model's inputs and outputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelInfo {
    /// Inputs, in the order in which a run takes them.
    pub inputs: Vec<TensorInfo>,
    /// Outputs, in the order in which a run gives them.
    pub outputs: Vec<TensorInfo>,
}

/// State of a device at a moment, as far as it is known.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct DeviceReading {
    /// Part of the latest interval in which it computed, from 0 to 1.
    pub utilisation: Option<f64>,
    /// Part of that interval in which its memory was read or written, from 0 to 1.
    pub memory_utilisation: Option<f64>,
    /// Clock of its cores, in hertz.
    pub clock_hertz: Option<f64>,
    /// Clock of its memory, in hertz.
    pub memory_clock_hertz: Option<f64>,
    /// Temperature in degrees Celsius.
    pub temperature_celsius: Option<f64>,
    /// Power of the whole device, in watts.
    pub power_watts: Option<f64>,
    /// Reasons why its clocks are below their maximum: bits of [`abi::slowed_by`](crate::abi::slowed_by).
    pub slowed_by: Option<u32>,
}

/// A session's use of a device's memory, as its engine's allocator counts it, in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllocatorUse {
    /// The engine's name for the allocator.
    pub name: String,
    /// Memory in use now.
    pub used_bytes: u64,
    /// Peak memory in use, if known.
    pub peak_bytes: Option<u64>,
    /// The device's memory that the allocator holds, used or not, if known.
    pub reserved_bytes: Option<u64>,
}

/// An operator in one run: after fusion, so it may stand for several of the model's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfiledOperator {
    /// The engine's name for the node.
    pub name: String,
    /// Its kind, such as `Conv`; empty if unknown.
    pub kind: String,
    /// Its provider, such as `CUDAExecutionProvider`.
    pub provider: String,
    /// Start in nanoseconds since the run began.
    pub start_ns: u64,
    /// Its own time, in nanoseconds.
    pub duration_ns: u64,
}

/// Returns the number of elements of a shape; `None` if an axis is negative or the product too
/// large.
#[must_use]
pub fn element_count(shape: &[i64]) -> Option<usize> {
    shape.iter().try_fold(1_usize, |count, axis| count.checked_mul(usize::try_from(*axis).ok()?))
}
