//! The engine, and calls into guests.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use host_record::{
    CaseColumns, Column, ColumnData, MetricValue, Recommendation, Table, Views, asks_for,
};
use wasmtime::component::Component;
use wasmtime::{Config, Engine, Store, Trap, WasmBacktrace};

use crate::answer;
use crate::bindings::metric::tare::plugin::other_columns::{OtherColumn, Values};
use crate::bindings::metric::tare::plugin::types;
use crate::bindings::run_metric::RunMetricPluginPre;
use crate::cache::Cache;
use crate::error::{GuestError, GuestErrorKind};
use crate::limits::{Cancel, Cancelled, DeadlinePassed, Limits, MemoryLimit, Watchdog};
use crate::output::Rendered;
use crate::platform::HugePages;
use crate::plugin::{self, Description, Kind, Plugin, World};
use crate::state::State;
use crate::wasi::Denied;

/// Components larger than this, in bytes, are not read.
const LARGEST_COMPONENT: u64 = 64 << 20;

/// A stand-in for an experiment's cases when a metric is tried.
const REHEARSED_CASE: [(&str, &str); 7] = [
    ("model", "model"),
    ("backend", "backend"),
    ("device", "device"),
    ("precision", "fp32"),
    ("batch", "1"),
    ("mode", "inference"),
    ("scenario", "single-stream"),
];

/// Views without data, for trying a plugin. They only record that they were read.
#[derive(Debug, Default)]
struct EmptyViews {
    asked: Cell<bool>,
}

impl Views for EmptyViews {
    fn names(&self) -> Vec<String> {
        self.asked.set(true);
        Vec::new()
    }

    fn read(&self, _: &str) -> Result<Table, String> {
        self.asked.set(true);
        Err("nothing is measured yet".into())
    }
}

/// Settings of a sandbox.
#[derive(Debug, Clone, Default)]
pub struct SandboxOptions {
    /// Folder for compiled components, which only the host writes to. It is created. `None`
    /// compiles every time.
    pub cache: Option<PathBuf>,
    /// Limits of a call.
    pub limits: Limits,
}

/// Runs guests.
#[derive(Debug)]
pub struct Sandbox {
    engine: Engine,
    cache: Option<Cache>,
    limits: Limits,
    cancel: Cancel,
}

impl Sandbox {
    /// Creates a sandbox. A cache folder that cannot be trusted is not used, with a warning in the
    /// log.
    ///
    /// # Errors
    ///
    /// If wasmtime does not run on this processor or system.
    pub fn new(options: SandboxOptions) -> Result<Self, GuestError> {
        let SandboxOptions { cache, limits } = options;
        let mut config = Config::new();
        config
            .consume_fuel(true)
            .epoch_interruption(true)
            // A NaN has many bit patterns, and processors differ in which they make.
            .cranelift_nan_canonicalization(true)
            .relaxed_simd_deterministic(true);
        HugePages::set_up(&mut config);
        let engine = Engine::new(&config).map_err(|error| GuestError {
            plugin: "the sandbox".into(),
            call: None,
            kind: Box::new(GuestErrorKind::Host { detail: format!("{error:#}") }),
            standard_error: String::new(),
        })?;
        let cache = cache.and_then(|path| {
            Cache::open(&path, &engine)
                .inspect_err(|error| {
                    tracing::warn!(folder = %path.display(), "compiled components are not kept: {error}");
                })
                .ok()
        });
        Ok(Self { engine, cache, limits, cancel: Cancel::default() })
    }

    /// Has calls from now on end early when they are cancelled, with [`GuestErrorKind::Cancelled`].
    pub fn heed(&mut self, cancel: Cancel) {
        self.cancel = cancel;
    }

    /// Loads a plugin: reads it, compiles it or uses the cache, finds its world, and asks for its
    /// description.
    ///
    /// # Errors
    ///
    /// If the file is not a plugin that this host can run, or fails to describe itself.
    #[tracing::instrument(skip(self), fields(path = %path.display()))]
    pub fn load(&self, path: &Path) -> Result<Plugin, GuestError> {
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let failed = |kind| GuestError {
            plugin: name.clone(),
            call: None,
            kind: Box::new(kind),
            standard_error: String::new(),
        };
        let bytes = read(path).map_err(failed)?;
        plugin::check_header(&bytes).map_err(failed)?;
        let sha256 = host_hash::sha256(&bytes);
        let component = self.component(&bytes, &sha256).map_err(failed)?;
        let world = plugin::resolve(&self.engine, &component).map_err(failed)?;
        let (description, columns) = self.ask(&name, &world)?;
        tracing::debug!(plugin = description.id, version = description.version, "loaded");
        Ok(Plugin { path: path.to_owned(), sha256, description, columns, world })
    }

    fn component(&self, bytes: &[u8], sha256: &str) -> Result<Component, GuestErrorKind> {
        if let Some(cache) = &self.cache
            && let Some(component) = cache.load(&self.engine, sha256)
        {
            return Ok(component);
        }
        let component = Component::from_binary(&self.engine, bytes)
            .map_err(|error| GuestErrorKind::NotAComponent { detail: format!("{error:#}") })?;
        if let Some(cache) = &self.cache {
            cache.store(sha256, &component);
        }
        Ok(component)
    }

    /// Returns the plugin's description of itself, and the columns that a metric reads.
    fn ask(&self, name: &str, world: &World) -> Result<(Description, Vec<String>), GuestError> {
        macro_rules! describe {
            ($pre:expr, $interface:ident) => {
                self.call(name, "describe", None, |store| {
                    let description =
                        $pre.instantiate(&mut *store)?.$interface().call_describe(store)?;
                    Ok(Description {
                        id: description.id,
                        version: description.version,
                        summary: description.summary,
                        license: description.license,
                        options: description
                            .options
                            .into_iter()
                            .map(|option| (option.name, option.value))
                            .collect(),
                    })
                })?
            };
        }
        let (description, columns) = match world {
            World::Metric(pre) => {
                let description = describe!(pre, tare_plugin_metric);
                let columns = self.call(name, "columns", None, |store| {
                    pre.instantiate(&mut *store)?.tare_plugin_metric().call_columns(store)
                })?;
                (description, columns.value)
            }
            World::RunMetric(pre) => (describe!(pre, tare_plugin_run_metric), Vec::new()),
            World::Report(pre) => (describe!(pre, tare_plugin_report), Vec::new()),
            World::Recommender(pre) => (describe!(pre, tare_plugin_recommender), Vec::new()),
        };
        let failed =
            |detail| description.error("describe", GuestErrorKind::InvalidAnswer { detail });
        let checked = answer::description(description.value.clone()).map_err(failed)?;
        Ok((checked, columns))
    }

    /// Computes a metric's values for one case. Columns that the metric does not read are not
    /// passed to it.
    ///
    /// # Errors
    ///
    /// If the plugin is not a metric, fails, or gives an answer that cannot be used.
    #[tracing::instrument(skip_all, fields(plugin = plugin.description.id, case = case.case_id))]
    pub fn compute(
        &self,
        plugin: &Plugin,
        case: &CaseColumns,
        options: &serde_json::Value,
    ) -> Result<Vec<MetricValue>, GuestError> {
        let id = &plugin.description.id;
        let World::Metric(pre) = &plugin.world else {
            return Err(wrong_kind(plugin, "compute", Kind::Metric));
        };
        let options = options_text(options).map_err(|kind| error(id, "compute", kind))?;
        let attributes: Vec<_> = case
            .attributes
            .iter()
            .map(|(name, value)| types::AttributeParam { name, value })
            .collect();
        let mut columns = Vec::new();
        let mut others = Vec::new();
        let requested =
            |column: &&Column| plugin.columns.iter().any(|asked| asks_for(asked, &column.name));
        for column in case.columns.iter().filter(requested) {
            let Column { name, unit, width, data } = column;
            let other = |values| OtherColumn {
                name: name.clone(),
                unit: unit.clone(),
                width: *width,
                values,
            };
            let data = match data {
                ColumnData::U64(values) => types::ColumnData::Unsigned(values),
                ColumnData::S64(values) => types::ColumnData::Signed(values),
                ColumnData::F32(values) => types::ColumnData::Single(values),
                ColumnData::F64(values) => types::ColumnData::Double(values),
                ColumnData::Boolean(values) => {
                    others.push(other(Values::Booleans(values.clone())));
                    continue;
                }
                ColumnData::Text(values) => {
                    others.push(other(Values::Texts(values.clone())));
                    continue;
                }
            };
            columns.push(types::Column { name, unit, width: *width, data });
        }
        let description = types::CaseDescription { id: &case.case_id, attributes: &attributes };
        let answer = self.call(id, "compute", None, |store| {
            store.data_mut().columns = others;
            pre.instantiate(&mut *store)?.tare_plugin_metric().call_compute(
                store,
                description,
                &columns,
                &options,
            )
        })?;
        answer.refused()?.checked(|measurements| answer::measurements(id, measurements))
    }

    /// Computes the values of a metric over a run as a whole, by the ids of its finished cases. Each has
    /// exactly the values that the plugin outlines for these options.
    ///
    /// # Errors
    ///
    /// If the plugin is not such a metric, fails, or gives an answer that cannot be used.
    #[tracing::instrument(skip_all, fields(plugin = plugin.description.id))]
    pub fn compute_run(
        &self,
        plugin: &Plugin,
        views: Rc<dyn Views>,
        options: &serde_json::Value,
    ) -> Result<BTreeMap<String, Vec<MetricValue>>, GuestError> {
        let id = &plugin.description.id;
        let World::RunMetric(pre) = &plugin.world else {
            return Err(wrong_kind(plugin, "compute", Kind::Metric));
        };
        let outline = self.outline(id, pre, options)?;
        let text = options_text(options).map_err(|kind| error(id, "compute", kind))?;
        let answer = self.call(id, "compute", Some(Rc::clone(&views)), |store| {
            pre.instantiate(&mut *store)?.tare_plugin_run_metric().call_compute(store, &text)
        })?;
        answer.refused()?.checked(|found| answer::of_run(id, found, &outline, &*views))
    }

    fn outline(
        &self,
        id: &str,
        pre: &RunMetricPluginPre<State>,
        options: &serde_json::Value,
    ) -> Result<Vec<MetricValue>, GuestError> {
        let text = options_text(options).map_err(|kind| error(id, "outline", kind))?;
        let answer = self.call(id, "outline", None, |store| {
            pre.instantiate(&mut *store)?.tare_plugin_run_metric().call_outline(store, &text)
        })?;
        answer.refused()?.checked(|outline| answer::run_measurements(id, outline))
    }

    /// Renders a report, and returns its files. Nothing is written.
    ///
    /// # Errors
    ///
    /// If the plugin is not a report, fails, or gives an answer that cannot be used.
    #[tracing::instrument(skip_all, fields(plugin = plugin.description.id))]
    pub fn render(
        &self,
        plugin: &Plugin,
        views: Rc<dyn Views>,
        options: &serde_json::Value,
    ) -> Result<Rendered, GuestError> {
        let id = &plugin.description.id;
        let World::Report(pre) = &plugin.world else {
            return Err(wrong_kind(plugin, "render", Kind::Report));
        };
        let options = options_text(options).map_err(|kind| error(id, "render", kind))?;
        let answer = self.call(id, "render", Some(views), |store| {
            pre.instantiate(&mut *store)?.tare_plugin_report().call_render(store, &options)
        })?;
        let Answer { value: named, state, .. } = answer.refused()?;
        let console = state.console;
        state.output.rendered(named).map_err(|kind| GuestError {
            standard_error: console.text(),
            ..error(id, "render", kind)
        })
    }

    /// Asks a recommender for its advice.
    ///
    /// # Errors
    ///
    /// If the plugin is not a recommender, fails, or gives an answer that cannot be used.
    #[tracing::instrument(skip_all, fields(plugin = plugin.description.id))]
    pub fn recommend(
        &self,
        plugin: &Plugin,
        views: Rc<dyn Views>,
        options: &serde_json::Value,
    ) -> Result<Vec<Recommendation>, GuestError> {
        let id = &plugin.description.id;
        let World::Recommender(pre) = &plugin.world else {
            return Err(wrong_kind(plugin, "recommend", Kind::Recommender));
        };
        let options = options_text(options).map_err(|kind| error(id, "recommend", kind))?;
        let answer = self.call(id, "recommend", Some(Rc::clone(&views)), |store| {
            pre.instantiate(&mut *store)?.tare_plugin_recommender().call_recommend(store, &options)
        })?;
        answer
            .refused()?
            .checked(|recommendations| answer::recommendations(recommendations, &*views))
    }

    /// Tries a plugin's options before there is any data, and returns the values that a metric would
    /// state: names, units and directions, each with a gap for a value.
    ///
    /// A metric's names may depend only on its options, so it is called without columns; one over a run is asked
    /// for its outline. A report or recommender is called as well, and checks its options before it reads a view.
    /// Once it reads, it has accepted its options, and later errors are ignored. Files of a report are discarded.
    ///
    /// # Errors
    ///
    /// If the plugin refuses its options, with [`GuestErrorKind::Refused`]; for a metric also if
    /// it fails in any other way.
    #[tracing::instrument(skip_all, fields(plugin = plugin.description.id))]
    pub fn rehearse(
        &self,
        plugin: &Plugin,
        options: &serde_json::Value,
    ) -> Result<Vec<MetricValue>, GuestError> {
        let id = &plugin.description.id;
        let text = options_text(options).map_err(|kind| error(id, "rehearse", kind))?;
        let views = Rc::new(EmptyViews::default());
        let some: Option<Rc<dyn Views>> = Some(Rc::clone(&views) as Rc<dyn Views>);
        let refusal = match &plugin.world {
            World::Metric(_) => {
                let attributes = REHEARSED_CASE.map(|(name, value)| (name.into(), value.into()));
                let case = CaseColumns {
                    case_id: "rehearsal".into(),
                    attributes: attributes.into(),
                    columns: Vec::new(),
                };
                return self.compute(plugin, &case, options);
            }
            World::RunMetric(pre) => return self.outline(id, pre, options),
            World::Report(pre) => self
                .call(id, "render", some, |store| {
                    pre.instantiate(&mut *store)?.tare_plugin_report().call_render(store, &text)
                })
                .and_then(|answer| answer.refused().map(drop)),
            World::Recommender(pre) => self
                .call(id, "recommend", some, |store| {
                    pre.instantiate(&mut *store)?
                        .tare_plugin_recommender()
                        .call_recommend(store, &text)
                })
                .and_then(|answer| answer.refused().map(drop)),
        };
        match refusal {
            Err(refusal)
                if matches!(*refusal.kind, GuestErrorKind::Refused { .. })
                    && !views.asked.get() =>
            {
                Err(refusal)
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Makes a call in its own store, under the limits.
    fn call<T>(
        &self,
        plugin: &str,
        call: &'static str,
        views: Option<Rc<dyn Views>>,
        run: impl FnOnce(&mut Store<State>) -> wasmtime::Result<T>,
    ) -> Result<Answer<T>, GuestError> {
        if self.cancel.is_asked() {
            return Err(error(plugin, call, GuestErrorKind::Cancelled));
        }
        let mut store = Store::new(&self.engine, State::new(plugin, &self.limits, views));
        store.limiter(|state| &mut state.meter);
        store.set_hostcall_fuel(self.limits.transfer_bytes);
        let host = |detail: String| error(plugin, call, GuestErrorKind::Host { detail });
        store.set_fuel(self.limits.fuel).map_err(|failure| host(format!("{failure:#}")))?;
        let watchdog =
            Watchdog::start(&self.engine, &mut store, self.limits.deadline, &self.cancel)
                .map_err(|failure| host(format!("no thread for the deadline: {failure}")))?;
        let answer = run(&mut store);
        drop(watchdog);
        let fuel_left = store.get_fuel().unwrap_or(0);
        let state = store.into_data();
        match answer {
            Ok(value) => {
                let fuel = self.limits.fuel - fuel_left;
                tracing::debug!(plugin, call, fuel, "returned");
                Ok(Answer { value, plugin: plugin.to_owned(), call, state })
            }
            Err(failure) => Err(GuestError {
                standard_error: state.console.text(),
                ..error(plugin, call, self.classify(&failure))
            }),
        }
    }

    /// Returns the reason why a call ended, from wasmtime's error.
    fn classify(&self, failure: &wasmtime::Error) -> GuestErrorKind {
        if let Some(MemoryLimit { requested, limit }) = failure.downcast_ref() {
            return GuestErrorKind::Memory { requested: *requested, limit: *limit };
        }
        if failure.is::<Cancelled>() {
            return GuestErrorKind::Cancelled;
        }
        if failure.is::<DeadlinePassed>() {
            return GuestErrorKind::Deadline { limit: self.limits.deadline };
        }
        if let Some(Denied { function, without }) = failure.downcast_ref() {
            return GuestErrorKind::Denied { function: function.clone(), without };
        }
        let backtrace = failure.downcast_ref::<WasmBacktrace>().map(names).unwrap_or_default();
        match failure.downcast_ref::<Trap>() {
            Some(Trap::OutOfFuel) => GuestErrorKind::OutOfFuel { limit: self.limits.fuel },
            Some(trap) => {
                let reason = trap.to_string();
                let reason = reason.strip_prefix("wasm trap: ").unwrap_or(&reason).to_owned();
                GuestErrorKind::Trap { reason, backtrace }
            }
            None => {
                let reason = failure.root_cause().to_string();
                // wasmtime has no type for this error.
                if reason.starts_with("too much data is being copied") {
                    return GuestErrorKind::Transfer { limit: self.limits.transfer_bytes };
                }
                // Such as text in an answer that is not UTF-8.
                GuestErrorKind::Trap { reason, backtrace }
            }
        }
    }
}

/// The result of a call, with the rest of its store.
struct Answer<T> {
    value: T,
    plugin: String,
    call: &'static str,
    state: State,
}

impl<T> Answer<T> {
    fn error(&self, call: &'static str, kind: GuestErrorKind) -> GuestError {
        GuestError { standard_error: self.state.console.text(), ..error(&self.plugin, call, kind) }
    }

    /// Takes the value if it passes.
    fn checked<U>(self, check: impl FnOnce(T) -> Result<U, String>) -> Result<U, GuestError> {
        let Self { value, plugin, call, state } = self;
        check(value).map_err(|detail| GuestError {
            standard_error: state.console.text(),
            ..error(&plugin, call, GuestErrorKind::InvalidAnswer { detail })
        })
    }
}

impl<T> Answer<Result<T, String>> {
    /// Turns the guest's own error into ours.
    fn refused(self) -> Result<Answer<T>, GuestError> {
        let Self { value, plugin, call, state } = self;
        match value {
            Ok(value) => Ok(Answer { value, plugin, call, state }),
            Err(message) => Err(GuestError {
                standard_error: state.console.text(),
                ..error(&plugin, call, GuestErrorKind::Refused { message })
            }),
        }
    }
}

fn error(plugin: &str, call: &'static str, kind: GuestErrorKind) -> GuestError {
    GuestError {
        plugin: plugin.to_owned(),
        call: Some(call),
        kind: Box::new(kind),
        standard_error: String::new(),
    }
}

fn wrong_kind(plugin: &Plugin, call: &'static str, expected: Kind) -> GuestError {
    let kind = GuestErrorKind::WrongKind { found: plugin.kind().name(), expected: expected.name() };
    error(&plugin.description.id, call, kind)
}

fn read(path: &Path) -> Result<Vec<u8>, GuestErrorKind> {
    let unreadable = |error| GuestErrorKind::Unreadable { path: path.to_owned(), error };
    let size = fs::metadata(path).map_err(unreadable)?.len();
    if size > LARGEST_COMPONENT {
        return Err(GuestErrorKind::NotAComponent {
            detail: format!("it has {size} bytes, where plugins have at most {LARGEST_COMPONENT}"),
        });
    }
    fs::read(path).map_err(unreadable)
}

fn options_text(options: &serde_json::Value) -> Result<String, GuestErrorKind> {
    use serde_json::Value;
    let found = match options {
        Value::Object(_) => return Ok(options.to_string()),
        Value::Null => return Ok("{}".into()),
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
    };
    Err(GuestErrorKind::Options { found: found.into() })
}

/// Returns the innermost functions that have names.
fn names(backtrace: &WasmBacktrace) -> Vec<String> {
    backtrace
        .frames()
        .iter()
        .filter_map(|frame| frame.func_name().map(str::to_owned))
        .take(5)
        .collect()
}
