//! Every table and key of a manifest, once: its name, its shape, its default and its
//! meaning. The parser's struct and the JSON Schema both come from this list.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::PathBuf;

use host_record::{
    Engine, Find, Mode, Order, Pin, PlacementRule, Precision, Rate, RuleSet, Scenario, WarmUp,
};
use schemars::{Schema, SchemaGenerator, json_schema};
use semver::VersionReq;
use toml::de::DeValue;

use crate::axes::AxisNames;
use crate::experiment::DeviceChoice;
use crate::options::Json;
use crate::precisions::PerPrecision;
use crate::scalar::{
    BoundValue, Bytes, Id, Level, Nanoseconds, Nice, OptionText, PerCent, Percentile, PluginId,
    Positive, SchemaVersion, Title, VariableName,
};
use crate::shape::{At, Axis, Described, List, Named, Node, Reader, Shape, Tables, table};

table! {
    /// An experiment: models, backends, the matrix, and how to measure and report.
    Manifest {
        /// Version of the manifest's format: 1.
        "schema" schema: SchemaVersion, required "schema = 1";
        /// Name and purpose of the experiment.
        "experiment" experiment: ExperimentTable, required "[experiment]";
        /// A model. Repeat `[[model]]` for more.
        "model" model: Tables<ModelTable>, required "[[model]]";
        /// A backend, which runs models. Repeat `[[backend]]` for more.
        "backend" backend: Tables<BackendTable>, required "[[backend]]";
        /// The matrix of combinations. Each combination is a case.
        "matrix" matrix: MatrixTable, default "{}";
        /// Settings for the measurement of each case.
        "measure" measure: MeasureTable, default "{}";
        /// Where cases are executed. When absent: on this machine.
        "execution" execution: ExecutionTable, default "{}";
        /// Reference with which outputs are compared before a case is timed. When absent, nothing
        /// is compared.
        "check" check: CheckTable, optional;
        /// A metric to compute. Repeat `[[metric]]` for more. When absent: latency, throughput,
        /// memory, startup, stability, and accuracy if a model has labels.
        "metric" metric: Tables<PluginTable>, optional;
        /// A report to write. Repeat `[[report]]` for more. When absent: html and markdown.
        "report" report: Tables<PluginTable>, optional;
        /// A recommender to use. Repeat `[[recommend]]` for more. When absent, there is no advice.
        "recommend" recommend: Tables<RecommendTable>, optional;
        /// A limit on a metric, for `host check`. Repeat `[[alert]]` for more.
        "alert" alert: Tables<LimitTable>, optional;
        /// The price of an hour of a backend, for costs. Repeat `[[price]]` for more.
        "price" price: Tables<PriceTable>, optional;
    }
}

table! {
    /// Name and purpose of the experiment.
    ExperimentTable {
        /// Name of the experiment in ids, tables and reports.
        "name" name: Title, required "name = \"my-experiment\"";
        /// Purpose of the experiment.
        "description" description: String, default "\"\"";
        /// Seed of everything random: synthetic inputs.
        "seed" seed: u64, default "0";
        /// Folder for the results, relative to the manifest's folder. When absent: `--results`, the
        /// environment, or `results` in the current folder.
        "results" results: PathBuf, optional;
        /// Folders to search for plugins, relative to the manifest's folder, in addition to the
        /// usual ones.
        "plugins" plugins: List<PathBuf>, default "[]";
    }
}

table! {
    /// A model.
    ModelTable {
        /// Name of the model in the matrix and in results.
        "id" id: Id, required "id = \"my-model\"";
        /// The model file, relative to the manifest's folder; or a table with one file per precision, such
        /// as `{ fp32 = "m.onnx", fp16 = "m-fp16.onnx" }`. A precision without a file is a gap.
        "path" path: ModelPath, optional;
        /// In place of `path`, an architecture by name, with weights drawn from the seed: `resnet50`, with sizes
        /// `gpt2:layers=6,width=384`; or several, each under its own name: a category such as `vision`, or `all`.
        "architecture" architecture: String, optional;
        /// Files with inputs. Without them, inputs are drawn from the seed.
        "data" data: DataTable, optional;
        /// Random inputs, by the input's name. An input without an entry is drawn as the model's graph tells, such
        /// as below the size of the table that it is looked up in, or else uniformly from 0 to 1. Beside `data`,
        /// an entry draws an input that has no file.
        "inputs" inputs: Named<SyntheticTable>, optional;
        /// Meaning and sizes of axes. Without it, a default rule finds the axes for batch and sequence length, and
        /// `host plan` tells which they are.
        "axes" axes: AxesTable, optional;
    }
}

table! {
    /// Meaning and sizes of a model's axes. An axis is named by its symbol, or as `{ input = "…", axis = 0 }`.
    AxesTable {
        /// Axes that count examples, or `[]` if there are none. An output's axis, as
        /// `{ output = "…", axis = 0 }`, counts the examples that a run has computed. When absent: each axis whose
        /// symbol contains `batch` or is `N`, `B` or `bs`, and the first axis of an input if it has no symbol.
        "batch" batch: AxisNames, optional;
        /// Axes that count the tokens of a sequence, or `[]` if there are none. When absent: each axis whose symbol
        /// contains `seq` and not `past`.
        "sequence" sequence: AxisNames, optional;
        /// Sizes of symbols, in all inputs. A symbol with a size has no part in the rules above.
        "sizes" sizes: Named<u64>, default "{}";
    }
}

table! {
    /// A model file for each precision, relative to the manifest's folder.
    PrecisionPaths {
        /// For fp32.
        "fp32" fp32: PathBuf, optional;
        /// For fp16.
        "fp16" fp16: PathBuf, optional;
        /// For bf16.
        "bf16" bf16: PathBuf, optional;
        /// For int8.
        "int8" int8: PathBuf, optional;
    }
}

/// A model's file, or one for each precision; nothing if it could not be read and an error says why.
#[derive(Debug)]
pub(crate) struct ModelPath(pub(crate) Option<PerPrecision<At<PathBuf>>>);

impl Shape for ModelPath {
    const NAME: &'static str = "ModelPath";

    fn read(node: &Node<'_>, reader: &mut Reader) -> Option<Self> {
        Some(Self(read_paths(node, reader)))
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [
                PathBuf::schema(generator),
                generator.subschema_for::<Described<PrecisionPaths>>(),
            ],
        })
    }
}

fn read_paths(node: &Node<'_>, reader: &mut Reader) -> Option<PerPrecision<At<PathBuf>>> {
    if !matches!(node.get_ref(), DeValue::Table(_)) {
        let path = PathBuf::read(node, reader)?;
        return Some(PerPrecision::All(At::new(node.span(), path)));
    }
    let PrecisionPaths { fp32, fp16, bf16, int8 } = PrecisionPaths::read(node, reader)?;
    let each = [
        (Precision::Fp32, fp32),
        (Precision::Fp16, fp16),
        (Precision::Bf16, bf16),
        (Precision::Int8, int8),
    ];
    let each: BTreeMap<_, _> =
        each.into_iter().filter_map(|(precision, path)| Some((precision, path?))).collect();
    if each.is_empty() {
        let hint = "name a file for each precision, such as `{ fp32 = \"model.onnx\" }`";
        reader.value_error(node, "no file is named", "empty", hint.to_owned());
        return None;
    }
    Some(PerPrecision::Each(each))
}

table! {
    /// Files with inputs, and their labels.
    DataTable {
        /// NumPy `.npy` files whose first axis counts examples, by the input's name.
        "inputs" inputs: Named<PathBuf>, required "inputs = { image = \"images.npy\" }";
        /// A NumPy `.npy` file with an integer class label for each example, for accuracy.
        "labels" labels: PathBuf, optional;
    }
}

table! {
    /// Distribution of one random input.
    SyntheticTable {
        /// Sizes of dynamic axes other than batch and sequence length, by the axis's name or
        /// number.
        "dimensions" dimensions: Named<Positive>, default "{}";
        /// The lowest value. When absent: 0 if `high` is given, otherwise as the model's graph tells.
        "low" low: f64, optional;
        /// The highest value. When absent: 1 if `low` is given, otherwise as the model's graph tells.
        "high" high: f64, optional;
    }
}

table! {
    /// A backend, which runs models.
    BackendTable {
        /// Name of the backend in the matrix and in results. `all` stands for every installed
        /// backend except those that only test the tool; each has its plugin's id.
        "id" id: Id, required "id = \"cpu\"";
        /// The plugin's id. When absent: the same as `id`.
        "plugin" plugin: PluginId, optional;
        /// Which versions of the plugin will do: a semver range.
        "version" version: VersionReq, default "\"*\"";
        /// Folder of the plugin, in place of the usual ones: for two builds of one plugin. When absent, the usual folders
        /// are searched.
        "folder" folder: PathBuf, optional;
        /// The device, or a list of devices, by the ids that `host devices` lists. `auto` is the
        /// first device that the backend lists.
        "device" device: Axis<DeviceChoice>, default "\"auto\"";
        /// Threads that the backend may use. When absent, the backend decides.
        "threads" threads: NonZeroU32, optional;
        /// Placement of operators. `any`: the backend decides; operators off the device are reported.
        /// `strict`: on the device, or the case fails.
        "placement" placement: PlacementRule, default "\"any\"";
        /// Names of environment variables that its workers get beyond the usual ones, such as `HF_HOME`. Workers
        /// do not see the rest of the environment.
        "environment" environment: List<VariableName>, default "[]";
        /// Options for the backend, passed through as text.
        "options" options: Named<OptionText>, default "{}";
    }
}

table! {
    /// The matrix of combinations. Each axis is a value or a list of values.
    MatrixTable {
        /// Ids of the models to use. When absent: all.
        "model" model: Axis<Id>, optional;
        /// Ids of the backends to use. When absent: all.
        "backend" backend: Axis<Id>, optional;
        /// Number formats in which the model computes.
        "precision" precision: Axis<Precision>, default "[\"fp32\"]";
        /// Examples per batch.
        "batch" batch: Axis<NonZeroU32>, default "[1]";
        /// Lengths of the sequence axis in tokens. When absent, there is no such axis.
        "sequence-length" sequence_length: Axis<NonZeroU32>, optional;
        /// Kind of work.
        "mode" mode: Axis<Mode>, default "[\"inference\"]";
        /// Load scenario: one batch at a time (`single-stream`), several examples at a time
        /// (`multi-stream`), all at once (`offline`), at random times (`server`), at equal intervals
        /// (`constant-rate`), or by several clients (`closed-loop`).
        "scenario" scenario: Axis<Scenario>, default "[\"single-stream\"]";
        /// Queries per second, for the scenarios `server` and `constant-rate`; the others are not
        /// multiplied by it.
        "rate" rate: Axis<Rate>, optional;
        /// Number of clients, for the scenario `closed-loop`; the others are not multiplied by it.
        "clients" clients: Axis<NonZeroU32>, optional;
        /// Cells to add. A key that an entry leaves out takes every value of the axis above.
        "include" include: List<CellTable>, default "[]";
        /// Cells to leave out, from the axes and from `include`. A key that an entry leaves out
        /// matches everything.
        "exclude" exclude: List<CellTable>, default "[]";
        /// At most this many cases: the first ones, with the last axis varying fastest. When absent: all.
        "limit" limit: Positive, optional;
    }
}

table! {
    /// Some coordinates of a cell, each a value or a list of values; at least one.
    CellTable {
        /// Ids of models.
        "model" model: Axis<Id>, optional;
        /// Ids of backends.
        "backend" backend: Axis<Id>, optional;
        /// Devices.
        "device" device: Axis<DeviceChoice>, optional;
        /// Number formats.
        "precision" precision: Axis<Precision>, optional;
        /// Examples per batch.
        "batch" batch: Axis<NonZeroU32>, optional;
        /// Lengths of the sequence axis in tokens.
        "sequence-length" sequence_length: Axis<NonZeroU32>, optional;
        /// Kind of work.
        "mode" mode: Axis<Mode>, optional;
        /// Load scenario.
        "scenario" scenario: Axis<Scenario>, optional;
        /// Queries per second, of the scenarios that take a rate.
        "rate" rate: Axis<Rate>, optional;
        /// Number of clients, of the scenario that has them.
        "clients" clients: Axis<NonZeroU32>, optional;
    }
}

table! {
    /// Settings for the measurement of each case.
    MeasureTable {
        /// Time, or number of queries, before measuring; recorded, and left out of every metric.
        /// With `auto`, until the latencies have reached a steady state. When absent: 1 s, or 50 ms in pairs.
        "warm-up" warm_up: WarmUp, optional;
        /// A case is measured for at least this long. When absent: 5 s, under `rules` as long as
        /// they ask for, or 100 ms in pairs.
        "duration" duration: Nanoseconds, optional;
        /// A case is measured for no longer than this, even if queries are too few. When absent:
        /// ten times `duration`.
        "maximum-duration" maximum_duration: Nanoseconds, optional;
        /// A case is measured until at least this many queries were made.
        "minimum-queries" minimum_queries: Positive, default "100";
        /// Examples in one query of the scenario `offline`, rounded up to whole batches. When
        /// absent: the whole data set, or 24 batches without one.
        "offline-examples" offline_examples: Positive, optional;
        /// Examples in one query of the scenario `multi-stream`, rounded up to whole batches. When
        /// absent: 8.
        "multi-stream-examples" multi_stream_examples: Positive, optional;
        /// A case is measured, beyond `duration` and `minimum-queries`, until an interval around a
        /// percentile of its latencies is narrow enough, or until `maximum-duration` is over.
        "confidence" confidence: ConfidenceTable, optional;
        /// Largest acceptable latency; a slower case is invalid. Not for `offline`, whose query is
        /// the whole set of examples.
        "latency-limit" latency_limit: Nanoseconds, optional;
        /// Which percentile of the latencies is limited. When absent: 99, or the one that `rules`
        /// have for the scenario.
        "latency-percentile" latency_percentile: Percentile, optional;
        /// Public rules to judge cases by. They also set how much is measured if
        /// `duration` and `offline-examples` do not.
        "rules" rules: RuleSet, optional;
        /// `max-rate` searches, in `server` and `constant-rate`, the highest rate at which the
        /// latency keeps to `latency-limit`, and measures the case at it.
        "find" find: Find, optional;
        /// Number of processes, one after the other, in which each case is measured. Intervals then
        /// include the variance between processes. In pairs, the most of each side. When absent: 1, or 60 in pairs.
        "processes" processes: NonZeroU32, optional;
        /// `interleaved` runs the processes in rounds: the first of each case, then the second of
        /// each, so that a drift of the machine affects all cases alike. `paired` runs two cases at a time, in turns of
        /// some milliseconds, in as many processes as it takes to tell them apart.
        "order" order: Order, default "\"planned\"";
        /// The two sides of each pair, if `order` is `paired`: ids of two backends or of two models, or two precisions. The
        /// second is compared with the first.
        "pair" pair: List<Id>, optional;
        /// A case that makes no progress for this long is ended.
        "timeout" timeout: Nanoseconds, default "\"60s\"";
        /// A case that uses more memory than this is ended. When absent: the memory that is
        /// available when the case starts.
        "memory-limit" memory_limit: Bytes, optional;
        /// Processors to measure on: `none` leaves it to the system, `auto` takes as many cores of
        /// one memory node as the backend has threads, and a list takes these, by number.
        "pin" pin: Pin, default "\"none\"";
        /// Nice value of the worker, from -20 (highest priority) to 19. A lower value than the host's
        /// own needs a privilege. When absent: the host's own.
        "nice" nice: Nice, optional;
        /// Interval at which the device's state (utilisation, clocks, temperature, power, throttle
        /// reasons) is sampled while queries are timed, on a thread of its own. When absent: never.
        "device-sampling" device_sampling: Nanoseconds, optional;
        /// Whether the pages of the model's files are dropped from memory before it is loaded. Otherwise they are in
        /// memory, because the file is hashed first, and loading does not wait for the disk.
        "cold-cache" cold_cache: bool, default "false";
        /// In training: epochs for which the model is trained after measuring, from the weights of the file, with the
        /// loss of each step. When absent: none.
        "epochs" epochs: Positive, optional;
        /// In training: examples at the end of the data set that are not trained on, and are the test after each
        /// epoch. When absent: none.
        "test-examples" test_examples: Positive, optional;
    }
}

table! {
    /// Where cases are executed. `host run --on ENGINE` has precedence over `engine`.
    ExecutionTable {
        /// `local` executes cases on this machine, `slurm` on nodes of the cluster that `sbatch` submits to.
        "engine" engine: Engine, default "\"local\"";
        /// The partition, or a list of partitions, each of which is a kind of node. A backend is measured on the
        /// first kind that has a device for it. When absent: the cluster's default.
        "partition" partition: Axis<String>, optional;
        /// The account to charge. When absent: the user's default.
        "account" account: String, optional;
        /// Features that a node must have, or a list of them, each of which is a kind of node, as in `partition`.
        "constraint" constraint: Axis<String>, optional;
        /// Generic resources of each node, such as `gpu:1`. When absent: none.
        "gres" gres: String, optional;
        /// Time limit of a task, which measures a block of cases. When absent: the partition's.
        "time" time: Nanoseconds, optional;
        /// Whether a task has its node for itself. If not, other jobs disturb the measurement, and each result
        /// records that its node was shared.
        "exclusive" exclusive: bool, default "true";
        /// At most this many tasks run at the same time. When absent: as many as the cluster lets.
        "array-limit" array_limit: Positive, optional;
        /// Lines of shell that a task runs on its node first, such as `module load cuda`.
        "prologue" prologue: String, default "\"\"";
        /// Further options of `sbatch`, such as `--qos=long`.
        "options" options: List<String>, default "[]";
        /// Further attempts at a case whose node or task died while it was measured.
        "retries" retries: u64, default "1";
        /// Cases of a task, one after the other on one node. When absent: 10, or more if there would be more than
        /// 1000 tasks.
        "block" block: Positive, optional;
    }
}

table! {
    /// Reference with which outputs are compared before a case is timed, for the same inputs.
    CheckTable {
        /// The reference: the id of a `[[backend]]`, or else of a plugin, which is then used with its
        /// first device and without options. It need not be in the matrix.
        "reference" reference: Id, required "reference = \"cpu\"";
        /// The precision that the reference computes in.
        "precision" precision: Precision, default "\"fp32\"";
        /// Largest accepted difference from the reference's outputs, by the precision of the case.
        /// Defaults are in the guide.
        "tolerance" tolerance: TolerancesTable, default "{}";
    }
}

table! {
    /// Largest accepted difference from the reference's outputs, by the precision of the case.
    TolerancesTable {
        /// In fp32. When absent: of-scale 1e-4, relative 1e-3, outliers 0.005, cosine 0.9999,
        /// top1 0.999.
        "fp32" fp32: ToleranceTable, optional;
        /// In fp16. When absent: of-scale 3e-2, relative 2e-2, cosine 0.999, top1 0.99.
        "fp16" fp16: ToleranceTable, optional;
        /// In bf16. When absent: of-scale 3e-1, relative 1e-1, cosine 0.99, top1 0.98.
        "bf16" bf16: ToleranceTable, optional;
        /// In int8. When absent: of-scale 1, relative 0.5, cosine 0.95, top1 0.9.
        "int8" int8: ToleranceTable, optional;
    }
}

table! {
    /// Largest accepted difference from the reference's output. A missing value is the precision's
    /// default.
    ToleranceTable {
        /// Error allowed for values of any size, in the output's own unit. When absent: 0.
        "absolute" absolute: f64, optional;
        /// Additional error, as a part of the scale of the reference's output: the mean size of its
        /// values, each weighted by its size.
        "of-scale" of_scale: f64, optional;
        /// Additional error, relative to the reference's value.
        "relative" relative: f64, optional;
        /// Share of values that may be off by up to ten times as much. When absent: 0, and 0.005 in fp32.
        "outliers" outliers: f64, optional;
        /// Smallest cosine similarity between output and reference, and smallest correlation.
        "cosine" cosine: f64, optional;
        /// Smallest share of rows with the same class, for class scores, and of equal values, for whole numbers.
        "top1" top1: f64, optional;
    }
}

table! {
    /// Greatest width of an interval at which measuring ends.
    ConfidenceTable {
        /// Confidence of the interval, and of those that metrics state. When absent: 0.95, or 0.995 for the ratio of a
        /// pair.
        "level" level: Level, optional;
        /// Half of the interval's width, as a part of the percentile's estimate.
        "half-width" half_width: PerCent, required "half-width = \"1%\"";
        /// Which percentile of the latencies the interval is around.
        "percentile" percentile: Percentile, default "50";
    }
}

table! {
    /// A metric or a report.
    PluginTable {
        /// The plugin's id.
        "plugin" plugin: PluginId, required "plugin = \"…\"";
        /// Which versions of the plugin will do: a semver range.
        "version" version: VersionReq, default "\"*\"";
        /// Options for the plugin; `host plugins info` lists them.
        "options" options: Json, default "{}";
        /// Memory of the plugin in a call, if it is a WASM plugin: at most 4 GiB. When absent: 192 MiB.
        "memory-limit" memory_limit: Bytes, optional;
        /// Time of a call of the plugin, and with it the instructions that it may run: at most 1h. When absent: 60s.
        "time-limit" time_limit: Nanoseconds, optional;
    }
}

table! {
    /// A recommender.
    RecommendTable {
        /// The plugin's id.
        "plugin" plugin: PluginId, required "plugin = \"hardware\"";
        /// Which versions of the plugin will do: a semver range.
        "version" version: VersionReq, default "\"*\"";
        /// Limits that a case must meet to be recommended.
        "limits" limits: List<LimitTable>, default "[]";
        /// Cases that it may ask for beyond the matrix, if it does such. When absent: none.
        "ask" ask: AskTable, optional;
        /// Options for the plugin; `host plugins info` lists them.
        "options" options: Json, default "{}";
        /// Memory of the plugin in a call, if it is a WASM plugin: at most 4 GiB. When absent: 192 MiB.
        "memory-limit" memory_limit: Bytes, optional;
        /// Time of a call of the plugin, and with it the instructions that it may run: at most 1h. When absent: 60s.
        "time-limit" time_limit: Nanoseconds, optional;
    }
}

table! {
    /// Cases beyond the matrix that a recommender may ask for. They are measured after the matrix.
    AskTable {
        /// The most cases.
        "cases" cases: Positive, required "cases = 12";
        /// Time to measure them. The case that uses it up is measured to its end.
        "time" time: Nanoseconds, default "\"10min\"";
    }
}

table! {
    /// A limit on a metric: `metric` and one of `at-most` and `at-least`.
    LimitTable {
        /// Full name of the metric, such as `latency.p99`.
        "metric" metric: Title, required "metric = \"latency.p99\"";
        /// The metric may be this much or less: a number in the metric's unit, a duration or a
        /// size.
        "at-most" at_most: BoundValue, optional;
        /// The metric must be this much or more: a number in the metric's unit, a duration or a
        /// size.
        "at-least" at_least: BoundValue, optional;
    }
}

table! {
    /// The price of an hour of a backend, in any currency: costs are in the same.
    PriceTable {
        /// The backend's id.
        "backend" backend: Id, required "backend = \"cuda\"";
        /// One of its devices. When absent: each of them.
        "device" device: String, optional;
        /// The price of an hour.
        "per-hour" per_hour: f64, required "per-hour = 1.5";
    }
}

/// Returns the header under which a key belongs, for a key that stands elsewhere.
pub(crate) fn home(key: &str) -> Option<&'static str> {
    [
        ("[experiment]", ExperimentTable::KEYS),
        ("[matrix]", MatrixTable::KEYS),
        ("[measure]", MeasureTable::KEYS),
        ("[execution]", ExecutionTable::KEYS),
        ("[check]", CheckTable::KEYS),
        ("[[model]]", ModelTable::KEYS),
        ("[[backend]]", BackendTable::KEYS),
        ("[[recommend]]", RecommendTable::KEYS),
        ("[[alert]]", LimitTable::KEYS),
        ("[[price]]", PriceTable::KEYS),
    ]
    .into_iter()
    .find(|(_, keys)| keys.contains(&key))
    .map(|(header, _)| header)
}
