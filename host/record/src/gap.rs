//! Typed statements that something cannot be done or measured here. Never a zero, never a guess.
//!
//! A gap is data; its `Display` writes the reason in words.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::key::{Mode, Precision};
use crate::model::AxisObstacle;
use crate::names::names;
use crate::phase::{ErrorCode, Phase};
use crate::words::{bytes, list, time};

names! {
    /// Reasons why something cannot be done or measured here.
    GapKind {
        /// No such plugin is installed, or none with a fitting version.
        PluginMissing = "plugin-missing",
        /// The plugin is installed, but the vendor's runtime that it needs is not.
        RuntimeMissing = "runtime-missing",
        /// The plugin sees no such device on this machine.
        DeviceMissing = "device-missing",
        /// The device does not compute in this precision.
        PrecisionUnsupported = "precision-unsupported",
        /// The model has no file for this precision.
        ModelFileMissing = "model-file-missing",
        /// The backend cannot do this mode, scenario or shape.
        Unsupported = "unsupported",
        /// The machine, the backend or the case offers no such measurement.
        NotMeasured = "not-measured",
        /// A figure of the backend's cannot be true, and is refused.
        Impossible = "impossible",
        /// The metric plugin that was to compute it failed.
        PluginFailed = "plugin-failed",
    }
}

/// A typed statement that something cannot be done or measured. Each kind is a [`GapKind`] of the same name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum Gap {
    /// No such plugin is installed, or none with a version that fits.
    PluginMissing {
        /// The plugin's id.
        plugin: String,
        /// The registry's message, with the folders that were searched.
        registry_message: String,
    },
    /// The vendor's runtime is missing.
    RuntimeMissing {
        /// The id of the plugin that needs it; `host runtimes install` takes it.
        plugin: String,
        /// The runtime's name.
        runtime: String,
        /// Its version.
        version: String,
        /// State of the runtime.
        state: RuntimeState,
        /// The reason, such as `is not installed`.
        reason: String,
    },
    /// The backend finds no such device on this machine.
    DeviceMissing {
        /// The backend's id in the manifest.
        backend: String,
        /// The requested device; `None` if any would do.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        device: Option<String>,
        /// Devices that it found.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        found: Vec<String>,
        /// The backend's message, if it reports that it found none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        backend_message: Option<String>,
    },
    /// The device does not compute in this precision.
    PrecisionUnsupported {
        /// The backend's id in the manifest.
        backend: String,
        /// The device.
        device: String,
        /// The requested precision.
        precision: Precision,
        /// Precisions that the backend supports.
        offered: Vec<Precision>,
    },
    /// The model has no file for this precision.
    ModelFileMissing {
        /// The model's id.
        model: String,
        /// The requested precision.
        precision: Precision,
        /// Precisions that have a file.
        offered: Vec<Precision>,
    },
    /// Not supported.
    Unsupported(Unsupported),
    /// Not measured.
    NotMeasured(NotMeasured),
    /// A figure of the backend's cannot be true, and is refused.
    Impossible(Impossible),
    /// The metric plugin that was to compute it failed.
    PluginFailed {
        /// Its message.
        plugin_message: String,
    },
}

/// State of a runtime that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RuntimeState {
    /// Not installed, but can be.
    Missing,
    /// Installed, but changed since.
    Damaged,
    /// Not available for this machine.
    Unavailable,
}

/// Reason why something is not supported.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "cause", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum Unsupported {
    /// The backend reported it.
    Backend {
        /// The phase in which it was called.
        phase: Phase,
        /// The call of the ABI.
        call: String,
        /// Its message.
        backend_message: String,
    },
    /// The backend lacks the mode.
    Mode {
        /// The backend's id in the manifest.
        backend: String,
        /// The requested mode.
        mode: Mode,
        /// Modes that the backend supports.
        offered: Vec<Mode>,
    },
    /// The model's axes cannot have the case's batch or sequence length.
    Axes {
        /// The reason.
        obstacle: AxisObstacle,
    },
    /// The model's weights, inputs and outputs alone take more memory than a case may use.
    Memory {
        /// Size of the weights; 0 if they lie in another memory than the process's.
        weights_bytes: u64,
        /// Size of the inputs of a query, if it is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        inputs_bytes: Option<u64>,
        /// Size of its outputs, as far as it is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        outputs_bytes: Option<u64>,
        /// The manifest's `memory-limit`.
        limit_bytes: u64,
    },
    /// The case cannot be measured in turns with another one.
    Pair {
        /// The reason.
        obstacle: PairObstacle,
    },
    /// The model takes an input that can be neither drawn nor read from a file.
    InputKind {
        /// The input.
        input: String,
        /// Its kind of value, such as `string` or `map`.
        value_kind: String,
    },
    /// A metric reported it.
    Metric {
        /// Its message.
        metric_message: String,
    },
    /// An earlier host recorded it in words.
    Told {
        /// The reason.
        reason: String,
    },
}

/// Reason why a case cannot be measured in turns with another one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum PairObstacle {
    /// The case is on neither side, or the matrix has no case that differs in the pair's coordinate alone.
    Alone {
        /// The coordinate, such as `backend`.
        axis: String,
        /// Its values on both sides.
        sides: [String; 2],
    },
    /// The case on the other side cannot run.
    Other {
        /// Its backend, model or precision.
        other: String,
        /// The reason, in words.
        gap: String,
    },
    /// Both sides are loaded at the same time, and their weights, inputs and outputs alone take more memory than there is.
    Memory {
        /// The memory that both take.
        needed_bytes: u64,
        /// The memory of the device or the machine.
        memory_bytes: u64,
    },
    /// One process at a time can use the device.
    Exclusive {
        /// The device.
        device: String,
    },
}

impl fmt::Display for PairObstacle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Alone { axis, sides: [first, second] } => write!(
                formatter,
                "no other case differs from it in the {axis} alone, {first} or {second}; measure it without \
                 `order = \"paired\"`"
            ),
            Self::Other { other, gap } => {
                write!(formatter, "the other side of its pair, {other}, cannot run: {gap}")
            }
            Self::Memory { needed_bytes, memory_bytes } => write!(
                formatter,
                "both sides are loaded at the same time, and take at least {} of {}; measure them one after the \
                 other, with `order = \"interleaved\"`",
                bytes(*needed_bytes),
                bytes(*memory_bytes)
            ),
            Self::Exclusive { device } => write!(
                formatter,
                "both sides need the device {device}, which one process at a time can use; measure them one after \
                 the other, with `order = \"interleaved\"`"
            ),
        }
    }
}

/// Reason why something was not measured.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "cause", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum NotMeasured {
    /// The backend does not offer the extension.
    NotOffered {
        /// The extension.
        extension: String,
    },
    /// The backend returned an error.
    Refused {
        /// The call of the ABI.
        call: String,
        /// The kind of error.
        code: ErrorCode,
        /// Its message.
        backend_message: String,
    },
    /// A metric has too few values.
    Metric {
        /// Its message.
        metric_message: String,
    },
    /// No axis of the model counts examples.
    NoBatchAxis,
    /// No output has an axis that could count examples.
    NoBatchOfOutputs,
    /// An output has another number of examples than its inputs.
    BatchOfOutput {
        /// The output.
        output: String,
        /// Size of its batch axis.
        examples: i64,
        /// Examples in the inputs.
        batch: u64,
    },
    /// The operating system could not start a thread for it.
    NoThread {
        /// The operating system's message.
        system_message: String,
    },
    /// The measuring thread panicked.
    ThreadPanicked,
    /// Preparing the model took too long to do it again for a profile.
    PrepareTooLong {
        /// Time to prepare the model.
        prepare_ns: u64,
        /// The case's `timeout`.
        timeout_ns: u64,
    },
    /// The backend reports its current device memory, but no peak.
    NoDevicePeak {
        /// Memory in use after measuring.
        used_bytes: u64,
    },
    /// The allocator does not report its peak.
    NoAllocatorPeak {
        /// The allocator's name.
        allocator: String,
    },
    /// The operating system does not let programs read energy counters.
    NoEnergyInterface,
    /// The machine has no energy counters.
    NoEnergyCounters {
        /// The folder that was searched.
        folder: String,
    },
    /// The processor has no energy counter for this domain.
    NoEnergyDomain {
        /// The domain: `package` or `memory`.
        domain: String,
    },
    /// A counter's file cannot be read.
    CounterUnreadable {
        /// The file.
        file: String,
        /// Whether only root may read it.
        root_only: bool,
        /// The operating system's message.
        system_message: String,
    },
    /// A counter's file does not contain a number.
    NotACount {
        /// The file.
        file: String,
        /// Its text.
        text: String,
    },
    /// A counter was not read for so long that it may have wrapped.
    CounterMayHaveWrapped {
        /// The domain that it counts.
        domain: String,
        /// Time between the readings.
        elapsed_ns: u64,
        /// Range of the counter.
        range_microjoules: u64,
    },
    /// The case ended before the worker's memory was sampled.
    TooShortToSample,
    /// The model's file is not in a format whose cost can be counted.
    NotOnnx {
        /// The reader's message.
        reason: String,
    },
    /// Inputs have no shape, so the cost of a pass is not known.
    NoInputShape {
        /// The inputs.
        inputs: Vec<String>,
    },
    /// A pass costs 2⁶⁰ operations or bytes, or more.
    TooCostly,
    /// The cost of a pass is not known.
    NoFormula {
        /// Operators without a formula for what they cost.
        without_formula: Vec<String>,
        /// Operators whose outputs have shapes that only their values tell.
        without_shape: Vec<String>,
        /// Sparse tensors.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        sparse: Vec<String>,
    },
    /// No table has the device's peaks, and it is not a processor that could be calibrated.
    NoPeaks {
        /// The device.
        device: String,
    },
    /// The device's peak in this format of numbers is not known.
    NoPeakOfFormat {
        /// The device.
        device: String,
        /// The format.
        format: String,
        /// Formats whose peaks are known.
        known: Vec<String>,
    },
    /// The processor could not be calibrated.
    CalibrationFailed {
        /// The reason.
        reason: String,
    },
    /// The host has too little free memory to read more of it than the caches hold.
    CalibrationMemory {
        /// Bytes of the caches.
        cache_bytes: u64,
        /// Available bytes.
        available_bytes: u64,
    },
    /// The cost of a query in this mode is not that of a pass.
    NotAPass {
        /// The mode.
        mode: Mode,
    },
    /// A model is trained epoch by epoch on a data set, and the case has none.
    NoDataSet,
    /// A data set has fewer examples than a batch.
    TooFewExamples {
        /// Examples that are trained on.
        examples: u64,
        /// Examples of a batch.
        batch: u64,
    },
    /// The backend gives no loss of a step.
    NoLoss,
    /// The counter includes the work of the other side of a pair.
    InTurns,
    /// An earlier host recorded it in words.
    Told {
        /// The reason.
        reason: String,
    },
    /// The record is older than this measurement.
    BeforeRecorded {
        /// The measurement.
        quantity: String,
    },
}

/// A figure from the backend that cannot be true.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "cause", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum Impossible {
    /// The device's energy counter decreased.
    EnergyWentBack {
        /// Before measuring.
        from_microjoules: u64,
        /// After it.
        to_microjoules: u64,
    },
    /// The device was busy for longer than the call took.
    DeviceTime {
        /// Busy time of the device, by the backend.
        device_ns: u64,
        /// Duration of the call, by the clock.
        call_ns: u64,
    },
    /// The stages of a run took longer than the run.
    StageTimes {
        /// All stages together, by the backend.
        stages_ns: u64,
        /// The run, by the clock.
        run_ns: u64,
    },
    /// An earlier host recorded it in words.
    Told {
        /// The reason.
        reason: String,
    },
}

impl Gap {
    /// Returns the kind of gap.
    #[must_use]
    pub fn kind(&self) -> GapKind {
        match self {
            Self::PluginMissing { .. } => GapKind::PluginMissing,
            Self::RuntimeMissing { .. } => GapKind::RuntimeMissing,
            Self::DeviceMissing { .. } => GapKind::DeviceMissing,
            Self::PrecisionUnsupported { .. } => GapKind::PrecisionUnsupported,
            Self::ModelFileMissing { .. } => GapKind::ModelFileMissing,
            Self::Unsupported(_) => GapKind::Unsupported,
            Self::NotMeasured(_) => GapKind::NotMeasured,
            Self::Impossible(_) => GapKind::Impossible,
            Self::PluginFailed { .. } => GapKind::PluginFailed,
        }
    }
}

impl From<NotMeasured> for Gap {
    fn from(cause: NotMeasured) -> Self {
        Self::NotMeasured(cause)
    }
}

impl From<Unsupported> for Gap {
    fn from(cause: Unsupported) -> Self {
        Self::Unsupported(cause)
    }
}

impl From<Impossible> for Gap {
    fn from(cause: Impossible) -> Self {
        Self::Impossible(cause)
    }
}

impl fmt::Display for Gap {
    /// Writes the reason.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PluginMissing { registry_message, .. } => formatter.write_str(registry_message),
            Self::RuntimeMissing { plugin, runtime, version, state, reason } => {
                write!(formatter, "runtime `{runtime}` {version} {reason}; ")?;
                match state {
                    RuntimeState::Missing => {
                        write!(formatter, "install it with `host runtimes install {plugin}`")
                    }
                    RuntimeState::Damaged => {
                        write!(formatter, "repair it with `host runtimes install {plugin}`")
                    }
                    RuntimeState::Unavailable => write!(
                        formatter,
                        "if this machine has one already, name it with --runtime {plugin}=PATH"
                    ),
                }
            }
            Self::DeviceMissing { backend_message: Some(message), .. } => {
                formatter.write_str(message)
            }
            Self::DeviceMissing { backend, device, found, .. } => {
                let Some(device) = device else {
                    return write!(formatter, "the backend `{backend}` found no device");
                };
                write!(formatter, "the backend `{backend}` found no device `{device}`")?;
                let found: Vec<_> = found.iter().map(|device| format!("`{device}`")).collect();
                match found.is_empty() {
                    true => formatter.write_str(" and no other device"),
                    false => write!(formatter, "; it found {}", list(&found, "and")),
                }
            }
            Self::PrecisionUnsupported { backend, device, precision, offered } => {
                write!(
                    formatter,
                    "the backend `{backend}` does not support {precision} on `{device}`; "
                )?;
                match offered.is_empty() {
                    true => formatter.write_str("it lists no precisions"),
                    false => write!(formatter, "it supports {}", precisions(offered)),
                }
            }
            Self::ModelFileMissing { model, precision, offered } => write!(
                formatter,
                "the model `{model}` has no file for {precision}, only for {}",
                precisions(offered)
            ),
            Self::Unsupported(cause) => cause.fmt(formatter),
            Self::NotMeasured(cause) => cause.fmt(formatter),
            Self::Impossible(cause) => cause.fmt(formatter),
            Self::PluginFailed { plugin_message } => formatter.write_str(plugin_message),
        }
    }
}

fn precisions(offered: &[Precision]) -> String {
    let names: Vec<_> = offered.iter().map(|precision| precision.name().to_owned()).collect();
    list(&names, "and")
}

fn quoted(names: &[String]) -> Vec<String> {
    names.iter().map(|name| format!("`{name}`")).collect()
}

impl fmt::Display for Unsupported {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Backend { phase, call, backend_message } => {
                write!(
                    formatter,
                    "the backend reported in phase {phase}: {call}: {backend_message}"
                )
            }
            Self::Mode { backend, mode, offered } => {
                let names: Vec<_> = offered.iter().map(|mode| mode.name().to_owned()).collect();
                write!(
                    formatter,
                    "the backend `{backend}` does not support mode {mode}; it supports {}",
                    list(&names, "and")
                )
            }
            Self::Axes { obstacle } => obstacle.fmt(formatter),
            Self::Memory { weights_bytes, inputs_bytes, outputs_bytes, limit_bytes } => {
                let parts = [
                    ("weights", Some(*weights_bytes)),
                    ("inputs", *inputs_bytes),
                    ("outputs", *outputs_bytes),
                ];
                let parts = parts.iter().filter_map(|(name, size)| {
                    size.filter(|size| *size > 0).map(|size| format!("{name} take {}", bytes(size)))
                });
                write!(
                    formatter,
                    "the model's {}, more than the `memory-limit` of {}",
                    list(&parts.collect::<Vec<_>>(), "and"),
                    bytes(*limit_bytes)
                )
            }
            Self::Pair { obstacle } => write!(formatter, "{obstacle}"),
            Self::InputKind { input, value_kind } => write!(
                formatter,
                "the model's input `{input}` is a {value_kind}, which can neither be drawn nor read from a \
                 file"
            ),
            Self::Metric { metric_message } => formatter.write_str(metric_message),
            Self::Told { reason } => formatter.write_str(reason),
        }
    }
}

impl fmt::Display for NotMeasured {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotOffered { extension } => {
                write!(formatter, "the backend does not offer the extension `{extension}`")
            }
            Self::Refused { call, code, backend_message } => {
                write!(formatter, "the backend reported: {call}: {backend_message} ({code})")
            }
            Self::Metric { metric_message } => formatter.write_str(metric_message),
            Self::NoBatchAxis => formatter.write_str(
                "no axis of the model counts examples, so samples cannot be counted; name it with \
                 `axes.batch` in the `[[model]]` if there is one",
            ),
            Self::NoBatchOfOutputs => formatter.write_str(
                "no output has an axis that could count examples, so samples cannot be counted",
            ),
            Self::BatchOfOutput { output, examples, batch } => write!(
                formatter,
                "output `{output}` has {examples} for a batch of {batch}, so samples cannot be counted; if \
                 another axis counts examples, name it with `axes.batch` in the `[[model]]`"
            ),
            Self::NoThread { system_message } => {
                write!(formatter, "the measuring thread could not be started: {system_message}")
            }
            Self::ThreadPanicked => formatter.write_str("the measuring thread panicked"),
            Self::PrepareTooLong { prepare_ns, timeout_ns } => write!(
                formatter,
                "preparing the model took {}, and a profile may prepare it again; that needs a `timeout` of \
                 more than four times as long, and it is {}",
                time(*prepare_ns as f64),
                time(*timeout_ns as f64)
            ),
            Self::NoDevicePeak { used_bytes } => write!(
                formatter,
                "the backend reports its current device memory ({} after measuring), but not its peak",
                bytes(*used_bytes)
            ),
            Self::NoAllocatorPeak { allocator } => {
                write!(formatter, "the allocator `{allocator}` does not report its peak")
            }
            Self::NoEnergyInterface => formatter.write_str(
                "this operating system does not give programs the processor's energy counters",
            ),
            Self::NoEnergyCounters { folder } => write!(
                formatter,
                "no energy counters under {folder}: virtual machines and most processors other than Intel's \
                 and AMD's have none; elsewhere, load the kernel module: sudo modprobe intel_rapl_msr"
            ),
            Self::NoEnergyDomain { domain } => {
                write!(formatter, "the processor has no separate energy counter for its {domain}")
            }
            Self::CounterUnreadable { file, root_only: true, .. } => write!(
                formatter,
                "only root may read {file}; to allow it until the next boot: sudo chmod a+r {file}"
            ),
            Self::CounterUnreadable { file, system_message, .. } => {
                write!(formatter, "{file}: {system_message}")
            }
            Self::NotACount { file, text } => {
                write!(formatter, "{file} contains `{text}`, which is not a count")
            }
            Self::CounterMayHaveWrapped { domain, elapsed_ns, range_microjoules } => write!(
                formatter,
                "the energy counter of {domain} was not read for {} and may have wrapped: its range is {} J",
                time(*elapsed_ns as f64),
                range_microjoules / 1_000_000
            ),
            Self::TooShortToSample => formatter.write_str(
                "the case ended before the host sampled the worker's memory (ten times a second)",
            ),
            Self::NotOnnx { reason } => {
                write!(formatter, "costs are counted over ONNX graphs, and {reason}")
            }
            Self::NoInputShape { inputs } => {
                write!(formatter, "no shape is known for {}", list(&quoted(inputs), "and"))
            }
            Self::TooCostly => {
                formatter.write_str("a pass of these shapes costs more than can be counted")
            }
            Self::NoFormula { without_formula, without_shape, sparse } => {
                let mut reasons = Vec::new();
                let operators = |names: &[String]| list(&quoted(names), "and");
                if !without_formula.is_empty() {
                    let operators = operators(without_formula);
                    reasons.push(format!("there is no formula for the cost of {operators}"));
                }
                if !without_shape.is_empty() {
                    let operators = operators(without_shape);
                    reasons.push(format!("shapes behind {operators} depend on values"));
                }
                if !sparse.is_empty() {
                    let are = if sparse.len() == 1 { "is" } else { "are" };
                    reasons.push(format!(
                        "{} {are} sparse, and costs are counted for tensors with all their elements",
                        operators(sparse)
                    ));
                }
                formatter.write_str(&reasons.join("; "))
            }
            Self::NoPeaks { device } => write!(
                formatter,
                "no table has the peaks of `{device}`, and only processors are calibrated"
            ),
            Self::NoPeakOfFormat { device, format, known } => write!(
                formatter,
                "the peak of {device} in {format} is not known, only in {}",
                list(known, "and")
            ),
            Self::CalibrationFailed { reason } => {
                write!(formatter, "the processor could not be calibrated: {reason}")
            }
            Self::CalibrationMemory { cache_bytes, available_bytes } => write!(
                formatter,
                "measuring the memory's bandwidth needs more than the caches hold ({}), and {} were available",
                bytes(*cache_bytes),
                bytes(*available_bytes)
            ),
            Self::NoDataSet => formatter.write_str(
                "epochs are over a data set, and the model has none; give it files under `data`",
            ),
            Self::TooFewExamples { examples, batch } => {
                write!(
                    formatter,
                    "there are {examples} examples to train on, fewer than the batch of {batch}"
                )
            }
            Self::NoLoss => formatter.write_str("the backend gives no loss of a step"),
            Self::InTurns => {
                formatter.write_str("the counter includes the work of the other side of the pair")
            }
            Self::NotAPass { mode } => write!(
                formatter,
                "costs are counted for one pass, and a query in mode {mode} is more than that"
            ),
            Self::Told { reason } => formatter.write_str(reason),
            Self::BeforeRecorded { quantity } => {
                write!(formatter, "the record predates the measurement of {quantity}")
            }
        }
    }
}

impl fmt::Display for Impossible {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EnergyWentBack { from_microjoules, to_microjoules } => write!(
                formatter,
                "the backend's energy counter decreased from {from_microjoules} µJ to {to_microjoules} µJ"
            ),
            Self::DeviceTime { device_ns, call_ns } => write!(
                formatter,
                "the backend reported {} of device time in a call of {}",
                time(*device_ns as f64),
                time(*call_ns as f64)
            ),
            Self::StageTimes { stages_ns, run_ns } => write!(
                formatter,
                "the backend reported stages of {} in total for a run of {}",
                time(*stages_ns as f64),
                time(*run_ns as f64)
            ),
            Self::Told { reason } => formatter.write_str(reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_kept_with_their_figures_and_shown_in_words() {
        let gaps = [
            (
                Gap::PluginMissing {
                    plugin: "cuda".into(),
                    registry_message: "no plugin `cuda` is installed".into(),
                },
                "no plugin `cuda` is installed",
            ),
            (
                Gap::RuntimeMissing {
                    plugin: "cpu".into(),
                    runtime: "onnxruntime".into(),
                    version: "1.0".into(),
                    state: RuntimeState::Missing,
                    reason: "is not installed".into(),
                },
                "runtime `onnxruntime` 1.0 is not installed; install it with `host runtimes install cpu`",
            ),
            (
                Gap::DeviceMissing {
                    backend: "b".into(),
                    device: Some("gpu:0".into()),
                    found: vec!["gpu:1".into(), "gpu:2".into()],
                    backend_message: None,
                },
                "the backend `b` found no device `gpu:0`; it found `gpu:1` and `gpu:2`",
            ),
            (
                Gap::DeviceMissing {
                    backend: "b".into(),
                    device: None,
                    found: Vec::new(),
                    backend_message: Some("there is no NPU".into()),
                },
                "there is no NPU",
            ),
            (
                Gap::PrecisionUnsupported {
                    backend: "b".into(),
                    device: "cpu:0".into(),
                    precision: Precision::Int8,
                    offered: vec![Precision::Fp32, Precision::Fp16],
                },
                "the backend `b` does not support int8 on `cpu:0`; it supports fp32 and fp16",
            ),
            (
                Gap::ModelFileMissing {
                    model: "m".into(),
                    precision: Precision::Int8,
                    offered: vec![Precision::Fp32],
                },
                "the model `m` has no file for int8, only for fp32",
            ),
            (
                Unsupported::Memory {
                    weights_bytes: 4_400_193_536,
                    inputs_bytes: None,
                    outputs_bytes: None,
                    limit_bytes: 2 << 30,
                }
                .into(),
                "the model's weights take 4.10 GiB, more than the `memory-limit` of 2 GiB",
            ),
            (
                Gap::Unsupported(Unsupported::Backend {
                    phase: Phase::Prepare,
                    call: "prepare".into(),
                    backend_message: "no int8 here".into(),
                }),
                "the backend reported in phase prepare: prepare: no int8 here",
            ),
            (
                NotMeasured::NotOffered { extension: "tare/energy/1".into() }.into(),
                "the backend does not offer the extension `tare/energy/1`",
            ),
            (
                NotMeasured::CounterMayHaveWrapped {
                    domain: "dram".into(),
                    elapsed_ns: 40_000_000_000,
                    range_microjoules: 65_712_999_613,
                }
                .into(),
                "the energy counter of dram was not read for 40 s and may have wrapped: its range is 65712 J",
            ),
            (
                Impossible::DeviceTime { device_ns: 3_600_000_000, call_ns: 5000 }.into(),
                "the backend reported 3.60 s of device time in a call of 5 µs",
            ),
        ];
        for (gap, words) in gaps {
            assert_eq!(gap.to_string(), words);
            let json = serde_json::to_value(&gap).expect("JSON");
            assert_eq!(json["kind"], gap.kind().name(), "{json}");
            assert_eq!(serde_json::from_value::<Gap>(json).expect("what was written"), gap);
        }
        let kind = |gap: Gap| serde_json::to_value(gap).expect("JSON").to_string();
        assert_eq!(
            kind(NotMeasured::TooShortToSample.into()),
            r#"{"cause":"too-short-to-sample","kind":"not-measured"}"#
        );
    }
}
