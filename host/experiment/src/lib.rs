/*!
The application as a library: from a manifest's text to results, reports and advice.

The command line, a Python binding, a server and tests call this crate, and only this crate, to run
an experiment. It does not know terminals, print, or end the process: errors are typed and have their
positions in the manifest if there are any, and an [`Observer`] gets everything else that a caller may
want to show, as a [`Notice`] or as [`Progress`].

| step | call |
|---|---|
| write | [`Quick`] makes a manifest of a few words |
| read | [`Draft::read`], [`Draft::of_bytes`] or [`Draft::parse`] |
| check | [`Draft::check`] |
| plan | [`Checked::plan`] |
| run | [`run()`] |
| resume | [`resume`] |
| compute | [`recompute`] on a run, [`compute()`] with guests chosen by hand |
| compare | [`compare()`] two [`RunFigures`], which a run or a baseline has |
| check | [`judge`] a run by a baseline and by its alerts |
| look back | [`history()`] |
| recommend | [`recommend`] |
| report | [`report`], [`report_again`] of an old run |
| write a plugin | [`GuestSuite`] and [`Suite`] check it, [`Trial`] tries it on a run, [`add`] installs it |
| look at a model | [`inspect()`], [`ask_engines`], [`manifest_for`] |
| look at the machine | [`examine`], [`measure_noise`], [`devices()`] |

[`RunResults`] is the content of a run folder. [`Settings`] are the folders and the plugins that a
caller works with. Native plugins are never loaded here: workers do that, one process for each case.
*/

mod advice;
mod amending;
mod architectures;
mod asking;
mod backends;
mod between;
mod cluster;
mod compare;
mod compute;
mod computed;
mod conformance;
mod devices;
mod doctor;
mod draft;
mod efficiency;
mod error;
mod figures;
mod gate;
mod golden;
mod guest_checks;
mod guests;
mod history;
mod inert;
mod inspect;
mod install;
mod local_paths;
mod noise;
mod observer;
mod outlook;
mod platform;
mod plugins;
mod policy;
mod problem;
mod profile;
mod programs;
mod quick;
mod recompute;
mod reports;
mod results;
mod run;
mod runtime_list;
mod runtimes;
mod settings;
mod shadow;
mod trial;
pub mod units;
mod verdict;

pub use between::{Sides, between};
pub use cluster::{ClusterError, TaskSummary, probe_node, run_block};
pub use compare::{
    Change, Compared, Comparison, Difference, Doubt, FALSE_DISCOVERIES, MetricChange, Needed,
    POWER, RunName, compare,
};
pub use compute::{Extent, compute};
pub use computed::{Computed, KeptReason, State};
pub use conformance::{CheckVerdict, CheckedPlugin, Suite, is_native};
pub use devices::{BackendDevices, devices};
pub use doctor::{Check, CheckStatus, examine};
pub use draft::{Checked, Draft, LARGEST_MANIFEST, Manifest, Planned};
pub use error::{Change as RunChange, Error, Hint, Result};
pub use figures::{
    BASELINE_VERSION, CONFIDENCE, CaseFigures, Figure, LATENCY, RATE, RunFigures, Trust, Unit,
};
pub use gate::{
    Against, Gate, GateOptions, Judged, Judgement, Outcome, Unsure, alerts_of, by_alerts, judge,
};
pub use guest_checks::GuestSuite;
pub use guests::{Guest, GuestWish, Guests, WishSpans, Wishes, sandbox};
pub use history::{
    History, HistoryOptions, MOST_POINTS, Mark, Point, Series, expected_by_chance, history, short,
};
pub use host_record::Engine;
pub use host_run::Interrupt;
pub use inspect::{
    EngineAnswer, Inspection, Meaning, ModelManifest, ask_engines, inspect, manifest_for,
};
pub use install::{Added, Removed, add, remove};
pub use noise::{Noise, WorkNoise, measure_noise};
pub use observer::{Notice, Observer, Progress, Silent};
pub use outlook::{NoiseOfRun, Outlook};
pub use plugins::{
    Installed, PluginEntry, PluginFacts, PluginInfo, file_info, plugin_info, plugins,
};
pub use problem::GuestProblem;
pub use profile::{CaseProfile, Grouping, KindShare, OperatorTimes, Profiles};
pub use quick::{Quick, QuickManifest};
pub use recompute::{RecomputeOptions, Recomputed, recompute};
pub use reports::{GuestFailure, ReportOptions, Reports, WrittenReport, report, report_again};
pub use results::{Advice, CaseResults, RunResults, index, results_of};
pub use run::{Advised, ExecutedRun, Missing, Resumed, RunOptions, attach, recommend, resume, run};
pub use runtime_list::{
    MISSING, NAMED_MISSING, NAMED_OTHER, RuntimeEntry, RuntimeNotice, UNAVAILABLE, folder_name,
    list_runtimes, no_runtime_error, owners, taker,
};
pub use runtimes::{install, install_command};
pub use settings::Settings;
pub use shadow::{PassedOver, Shadow};
pub use trial::{Trial, component_of, stamp};
