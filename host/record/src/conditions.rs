//! Conditions of a case's measurement, as its worker saw them.

use serde::{Deserialize, Serialize};

use crate::check::Parity;
use crate::device_state::DeviceStates;
use crate::energy::Energy;
use crate::gap::Gap;
use crate::model_use::ModelUse;
use crate::peaks::Peaks;
use crate::placement::{DeviceTime, Placement};
use crate::training::{Learning, LookingCost, PhaseMemory};

/// Conditions of a case's measurement. Everything is optional: a record from before a field was
/// added lacks it, and so does a machine that does not report it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Conditions {
    /// Version of the worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_version: Option<String>,
    /// Processors and priority of the worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<Scheduling>,
    /// Interruptions during measurement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disturbance: Option<Disturbance>,
    /// Part of the pages of all the model's files that were in memory just before it was loaded: 1 if hashing had read
    /// them, 0 after `cold-cache`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_cached: Option<f64>,
    /// Files of the model whose pages were dropped from memory before it was loaded, for `cold-cache`: its own, and those
    /// of its weights.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dropped_files: Vec<String>,
    /// Energy over the measured part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy: Option<Energy>,
    /// Memory apart from the peak.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryUse>,
    /// Stages of a whole query, copies included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stages: Option<Result<StageTimes, Gap>>,
    /// Busy time of the device for a run, by its own events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_time: Option<Result<DeviceTime, Gap>>,
    /// Cost of marking the phases of a training step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub looking: Option<Result<LookingCost, Gap>>,
    /// Memory that the phases of a training step take on the device, in order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase_memory: Option<Result<Vec<PhaseMemory>, Gap>>,
    /// Training epoch by epoch, if the manifest asks for it; of several processes, only the first does it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub learning: Option<Result<Learning, Gap>>,
    /// Which operators ran where; of several processes, only the first finds out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<Result<Placement, Gap>>,
    /// State of the device during measurement, if the manifest asks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_state: Option<Result<DeviceStates, Gap>>,
    /// Comparison of its outputs with the reference's, if the manifest names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parity: Option<Parity>,
    /// Meaning of the model's axes, and shapes and values of its inputs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelUse>,
    /// Peaks of the device in the precision of the case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peaks: Option<Result<Peaks, Gap>>,
}

/// Scheduling of a worker, as in force when the plugin was opened.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Scheduling {
    /// Processors that the worker could use, as the kernel lists them: `0-3,8`.
    pub processors: Option<String>,
    /// Whether the manifest pinned the worker to them.
    pub pinned: bool,
    /// Memory nodes of those processors, as the kernel lists them. Memory comes from the
    /// node of the processor that touches it first, so a worker on one node has its memory there.
    pub processor_nodes: Option<String>,
    /// Memory nodes that memory could come from, as the kernel lists them.
    pub memory_nodes: Option<String>,
    /// Scheduling policy by the kernel's name, such as `other` or `fifo`.
    pub policy: Option<String>,
    /// Nice value: −20 is served first, 19 last.
    pub nice: Option<i32>,
}

/// The kernel's counts while a case was measured: differences between just before the
/// first measured query and just after the last.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Disturbance {
    /// Time between the two readings in nanoseconds.
    pub elapsed_ns: u64,
    /// Processor time of the worker in nanoseconds, all threads together.
    pub processor_ns: Option<u64>,
    /// Times that a thread of the worker gave up its processor, to wait for something.
    pub voluntary_switches: Option<u64>,
    /// Times that the kernel took the processor from a thread of the worker.
    pub involuntary_switches: Option<u64>,
    /// Pages mapped without reading a disk.
    pub minor_faults: Option<u64>,
    /// Pages that had to be read from a disk.
    pub major_faults: Option<u64>,
    /// Time in nanoseconds that a hypervisor kept from the machine, all processors together.
    pub stolen_ns: Option<u64>,
    /// Times that heat slowed one of the processors.
    pub thermal_throttles: Option<u64>,
    /// Times that the control group's quota stopped its processes.
    pub quota_throttles: Option<u64>,
    /// For how long in all, in nanoseconds.
    pub quota_throttled_ns: Option<u64>,
    /// Highest frequency in hertz among the worker's processors when measuring began.
    pub frequency_start_hertz: Option<u64>,
    /// The same when it ended.
    pub frequency_end_hertz: Option<u64>,
}

/// Memory of the worker in bytes, apart from its peak. What is sampled includes the processes that it started.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct MemoryUse {
    /// Mean resident memory while the case was measured, sampled by the host ten times a
    /// second; `None` if the case ended before the first sample.
    pub average_bytes: Option<u64>,
    /// Number of samples.
    pub average_of: u64,
    /// Resident memory just after measuring, with pages that are shared among processes divided
    /// among them.
    pub proportional_bytes: Option<u64>,
    /// The most memory on the device that the backend says it held, up to the end of measuring.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_peak_bytes: Option<Result<u64, Gap>>,
    /// Figures of the engine's own allocator on the device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocator: Option<Result<AllocatorUse, Gap>>,
    /// Processes that the worker started. Their memory is counted in the average and in the peak. `None` if the
    /// host saw none, and on systems where it cannot find them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<StartedProcesses>,
}

/// Processes that a worker started, directly or not. The host looks for them once a second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct StartedProcesses {
    /// The most that were seen running at once.
    pub most: u64,
    /// Their highest resident memory in bytes, sampled ten times a second; `None` if none was seen.
    pub peak_bytes: Option<u64>,
    /// Processes that nobody had waited for when the worker ended.
    pub left: u64,
    /// Those of them that were still running, and were ended.
    pub running: u64,
}

/// Memory of a session in bytes, as its engine's allocator counts it, just after measuring.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct AllocatorUse {
    /// The allocator, as the engine calls it.
    pub name: String,
    /// Allocated memory.
    pub used_bytes: u64,
    /// Peak of the allocated memory, if known.
    pub peak_bytes: Option<u64>,
    /// The device's memory that the allocator held, used or not, if known.
    pub reserved_bytes: Option<u64>,
}

/// Means over whole queries that were made for this, after the measured part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct StageTimes {
    /// Returns the number of queries.
    pub queries: u64,
    /// From the host's memory to the device, in nanoseconds.
    pub copy_in_ns: f64,
    /// On the device, in nanoseconds.
    pub compute_ns: f64,
    /// From the device to the host's memory, in nanoseconds.
    pub copy_out_ns: f64,
    /// Copies within a run, if the backend reports them separately; they are counted as
    /// copies above. Otherwise they are part of the computation.
    pub inside_run: Result<InsideRun, Gap>,
}

/// Stages of one run that a backend reports separately, as means in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct InsideRun {
    /// Copying in.
    pub copy_in_ns: f64,
    /// Computing.
    pub compute_ns: f64,
    /// Copying out.
    pub copy_out_ns: f64,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        DomainEnergy, Environment, Limit, MeasureSettings, NotMeasured, Pin, WorkerReport,
    };

    /// Returns a report as the first version wrote it.
    fn old_report() -> serde_json::Value {
        json!({
            "timings": { "open-ns": 1, "load-ns": 2, "prepare-ns": null, "first-run-ns": 4 },
            "peak-memory-bytes": 5,
            "baseline-memory-bytes": null,
            "clock": { "source": "CLOCK_MONOTONIC", "resolution-ns": 1, "read-ns": 20.5, "loop-ns": 31.25 },
            "warnings": [{ "kind": "drift", "from-ns": 1e6, "to-ns": 1.1e6, "scatter-ns": 5e3 }],
            "used": { "engine": "rten" },
        })
    }

    /// Returns the machine as the first version wrote it.
    fn old_environment() -> serde_json::Value {
        json!({
            "processor": {
                "name": "Test", "architecture": "x86_64", "logical": 2, "physical": 1,
                "governor": null, "frequency-hertz": 5, "turbo": true,
                "simultaneous-multithreading": null,
            },
            "memory-bytes": 9, "memory-available-bytes": 8, "operating-system": null,
            "kernel": "Linux 6", "load-average": 0.5, "virtualisation": null,
            "git-commit": "0123abc-dirty",
        })
    }

    #[test]
    fn records_from_before_conditions_were_kept_are_read() {
        let report: WorkerReport = serde_json::from_value(old_report()).expect("an old report");
        assert_eq!(report.conditions, Conditions::default());
        assert_eq!((report.clock.resolution_ns, report.clock.checked_readings), (1, None));
        let machine: Environment =
            serde_json::from_value(old_environment()).expect("an old environment");
        assert_eq!(machine.git_commit.as_deref(), Some("0123abc-dirty"));
        assert_eq!((machine.git_dirty, machine.container), (None, None));
        assert_eq!((machine.processor.logical, machine.processor.sockets), (Some(2), None));
        let settings = json!({
            "warm-up": { "iterations": 1 }, "minimum-duration-ns": 1, "maximum-duration-ns": 2,
            "minimum-queries": 3, "timeout-ns": 4,
        });
        let old: MeasureSettings = serde_json::from_value(settings.clone()).expect("old settings");
        assert_eq!(old.pin, Pin::None);
        assert_eq!(serde_json::to_value(old).expect("JSON"), settings, "nothing is added");
    }

    #[test]
    fn what_is_written_is_read() {
        let gap = Gap::from(NotMeasured::NoEnergyDomain { domain: "memory".into() });
        let domain = DomainEnergy {
            domain: "gpu:0".into(),
            joules: 1.5,
            seconds: 0.25,
            step_seconds: Some(0.02),
        };
        let conditions = Conditions {
            worker_version: Some("0.1.0".into()),
            scheduling: Some(Scheduling { nice: Some(-5), ..Scheduling::default() }),
            disturbance: Some(Disturbance { minor_faults: Some(3), ..Disturbance::default() }),
            energy: Some(Energy { processor: Err(gap.clone()), device: Ok(domain) }),
            memory: Some(MemoryUse {
                started: Some(StartedProcesses { most: 2, ..StartedProcesses::default() }),
                device_peak_bytes: Some(Err(gap.clone())),
                allocator: Some(Ok(AllocatorUse {
                    name: "Cuda".into(),
                    used_bytes: 1,
                    peak_bytes: Some(2),
                    reserved_bytes: None,
                })),
                ..MemoryUse::default()
            }),
            stages: Some(Err(gap.clone())),
            device_time: Some(Ok(DeviceTime {
                runs: 3,
                device_ns: 1.5,
                wall_ns: 2.0,
                plain_ns: 1.75,
            })),
            looking: Some(Ok(crate::LookingCost {
                turns: 2,
                marked_ns: 2.5,
                unmarked_ns: 2.25,
                error_ns: None,
            })),
            phase_memory: Some(Ok(vec![PhaseMemory {
                phase: "forward".into(),
                peak_bytes: 3,
                used_bytes: 2,
            }])),
            learning: Some(Ok(crate::Learning {
                examples: 8,
                test_examples: 2,
                batch: 2,
                steps: 4,
                losses: vec![Some(2.5), None],
                epochs: vec![crate::Epoch { right: Some(1), ..crate::Epoch::default() }],
            })),
            placement: Some(Err(gap)),
            device_state: Some(Ok(DeviceStates::of(1000, 5, &[crate::DeviceSample::default()]))),
            model_cached: Some(1.0),
            dropped_files: vec!["model.onnx".into()],
            parity: Some(Parity {
                reference: "cpu".into(),
                tolerance: crate::Tolerance::of(crate::Precision::Fp16),
                batches: 2,
                outputs: Vec::new(),
            }),
            model: Some(crate::ModelUse {
                axes: crate::AxesUse::default(),
                inputs: vec![crate::InputUse {
                    name: "ids".into(),
                    element_type: "int64".into(),
                    shape: vec![8, 128],
                    origin: crate::InputOrigin::Index { entries: 30522, operator: "Gather".into() },
                }],
                samples: Err(NotMeasured::NoBatchAxis.into()),
                card: Some(Ok(crate::ModelCard {
                    bytes: 9,
                    parameters: 8,
                    operators: [("MatMul".to_owned(), 1)].into(),
                    weights: [("fp32".to_owned(), crate::Weights::default())].into(),
                    cost: crate::ModelCost {
                        flops: Ok(7),
                        ..crate::ModelCost::unknown(&NotMeasured::NoBatchAxis.into())
                    },
                })),
            }),
            peaks: Some(Ok(crate::Peaks {
                flops_per_second: Ok(1e12),
                bytes_per_second: Err(NotMeasured::NoBatchAxis.into()),
                format: "fp32".into(),
                source: crate::PeakSource::Calibrated {
                    threads: 2,
                    instructions: None,
                    buffer_bytes: 1,
                },
            })),
        };
        let text = serde_json::to_string(&conditions).expect("JSON");
        assert_eq!(
            serde_json::from_str::<Conditions>(&text).expect("what was written"),
            conditions
        );
        for (limit, text) in [(Limit::At(1.5), "1.5"), (Limit::NONE, "\"none\"")] {
            assert_eq!(serde_json::to_string(&limit).expect("JSON"), text);
            assert_eq!(serde_json::from_str::<Limit>(text).expect("what was written"), limit);
        }
    }
}
