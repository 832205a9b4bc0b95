//! The engine, and calls into guests.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use host_record::{CaseColumns, Column, ColumnData, MetricValue, Table, Views, asks_for};
use wasmtime::{Engine, InstancePre, Store, Trap, WasmBacktrace};
use wasmtime_wasi::I32Exit;

use crate::advice::{Advice, MoreCases};
use crate::answer;
use crate::bindings::metric::tare::plugin::other_columns::{OtherColumn, Values};
use crate::bindings::metric::tare::plugin::types;
use crate::bindings::run_metric::RunMetricPluginPre;
use crate::cache::Cache;
use crate::command::Process;
use crate::compiler::CompilerLimits;
use crate::console::{Console, Listener};
use crate::engine::engine;
use crate::error::{GuestError, GuestErrorKind};
use crate::ledger::{Key, Ledger};
use crate::limits::{Cancel, Cancelled, DeadlinePassed, Limits, MemoryLimit, Meter, Watchdog};
use crate::lines;
use crate::output::{Rendered, Staged};
use crate::plugin::{Kind, Plugin, World};
use crate::shape::START;
use crate::state::State;
use crate::wasi::Denied;

/// Characters of a guest's own error that are kept.
const MESSAGE: usize = 2000;

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
    /// The program that compiles components in a separate process: one that calls
    /// [`compiler_process`](crate::compiler_process) first. `None` compiles in this process, without limits.
    pub compiler: Option<PathBuf>,
    /// Limits of compiling in a separate process.
    pub compiling: CompilerLimits,
    /// Limits of a call.
    pub limits: Limits,
}

/// Runs guests, for one run: a guest that ran out of time is not called again with the same options.
#[derive(Debug)]
pub struct Sandbox {
    pub(crate) engine: Engine,
    pub(crate) cache: Option<Cache>,
    pub(crate) compiler: Option<PathBuf>,
    pub(crate) compiling: CompilerLimits,
    pub(crate) limits: Limits,
    /// Held while a component is compiled. A compiler uses all processors, and much memory.
    pub(crate) one_compiles: Mutex<()>,
    ledger: Ledger,
    pub(crate) cancel: Cancel,
    listener: Option<Listener>,
    used: Mutex<Used>,
}

/// Part of its limits that a call used.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Used {
    /// Instructions.
    pub fuel: u64,
    /// Bytes of the guest's memory and of the files that it wrote, at the end of the call.
    pub memory_bytes: usize,
    /// Limit on those bytes in this call.
    pub memory_limit: usize,
    /// Time.
    pub time: Duration,
}

/// A call to make.
pub(crate) struct Request<'a> {
    /// The plugin's id, or the name of its file until its id is known.
    pub(crate) plugin: &'a str,
    /// The export.
    pub(crate) call: &'static str,
    pub(crate) limits: Limits,
    /// Bytes that its instances cost the host, which count as its memory.
    pub(crate) instance_bytes: usize,
    pub(crate) views: Option<Rc<dyn Views>>,
    /// The guest with its options; `None` while it is loaded.
    pub(crate) key: Option<Key>,
}

impl Sandbox {
    /// Creates a sandbox. A cache folder that cannot be trusted is not used, with a warning in the
    /// log.
    ///
    /// # Errors
    ///
    /// If wasmtime does not run on this processor or system.
    pub fn new(options: SandboxOptions) -> Result<Self, GuestError> {
        let SandboxOptions { cache, compiler, compiling, limits } = options;
        let engine = engine().map_err(|error| GuestError {
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
        let (one_compiles, ledger) = (Mutex::default(), Ledger::default());
        let cancel = Cancel::default();
        let (listener, used) = (None, Mutex::default());
        Ok(Self {
            engine,
            cache,
            compiler,
            compiling,
            limits,
            one_compiles,
            ledger,
            cancel,
            listener,
            used,
        })
    }

    /// Lets somebody listen to what guests write to their standard streams.
    pub fn hear(&mut self, listener: Listener) {
        self.listener = Some(listener);
    }

    /// Returns what the latest call took. Of calls at the same time, it is that of one of them.
    #[must_use]
    pub fn used(&self) -> Used {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the limits of a call.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Has calls and compiling from now on end early when they are cancelled, with [`GuestErrorKind::Cancelled`].
    pub fn heed(&mut self, cancel: Cancel) {
        self.cancel = cancel;
    }

    /// Returns the request to call a plugin with options, and the options as text.
    fn request<'a>(
        &self,
        plugin: &'a Plugin,
        call: &'static str,
        options: &serde_json::Value,
    ) -> Result<(Request<'a>, String), GuestError> {
        let id = plugin.description().id.as_str();
        let text = options_text(options).map_err(|kind| error(id, call, kind))?;
        let key = Some((plugin.sha256.clone(), text.clone()));
        let limits = plugin.allowance.of(self.limits.clone());
        let instance_bytes = plugin.shape.instance_bytes;
        Ok((Request { plugin: id, call, limits, instance_bytes, views: None, key }, text))
    }

    /// Computes a metric's values for one case. Columns that the metric does not read are not
    /// passed to it. If its options were tried ([`Sandbox::rehearse`]), it may only state the names, units and
    /// directions of that trial.
    ///
    /// # Errors
    ///
    /// If the plugin is not a metric, fails, or gives an answer that cannot be used.
    #[tracing::instrument(skip_all, fields(plugin = plugin.description().id, case = case.case_id))]
    pub fn compute(
        &self,
        plugin: &Plugin,
        case: &Rc<CaseColumns>,
        options: &serde_json::Value,
    ) -> Result<Vec<MetricValue>, GuestError> {
        let pre = match &plugin.world {
            World::Metric(pre) => pre,
            World::Command(command) if plugin.kind() == Kind::Metric => {
                return self.compute_command(plugin, command, case, options);
            }
            _ => return Err(wrong_kind(plugin, "compute", Kind::Metric)),
        };
        let (mut request, options) = self.request(plugin, "compute", options)?;
        let (id, key) = (request.plugin, request.key.clone());
        let attributes: Vec<_> = case
            .attributes
            .iter()
            .map(|(name, value)| types::AttributeParam { name, value })
            .collect();
        let mut columns = Vec::new();
        let mut others = Vec::new();
        let mut bytes = 0_usize;
        let mut paged = Vec::new();
        let requested = |column: &Column, names: &[String]| {
            names.iter().any(|asked| asks_for(asked, &column.name))
        };
        for (index, column) in case.columns.iter().enumerate() {
            if requested(column, &plugin.columns.paged) {
                paged.push(index);
            }
            if !requested(column, &plugin.columns.whole) {
                continue;
            }
            bytes = bytes.saturating_add(size(&column.data));
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
        request.limits = request.limits.with_columns(bytes);
        let answer = self.call(request, |store| {
            store.data_mut().columns = others;
            store.data_mut().paged = Some((Rc::clone(case), paged));
            pre.instantiate(&mut *store)?.tare_plugin_metric().call_compute(
                store,
                description,
                &columns,
                &options,
            )
        })?;
        answer.refused()?.checked(|measurements| {
            let values = answer::measurements(id, measurements)?;
            key.map_or(Ok(()), |key| self.ledger.takes(key, &values))?;
            Ok(values)
        })
    }

    /// Computes the values of a metric that is a classic module.
    fn compute_command(
        &self,
        plugin: &Plugin,
        command: &InstancePre<Process>,
        case: &CaseColumns,
        options: &serde_json::Value,
    ) -> Result<Vec<MetricValue>, GuestError> {
        let (mut request, _) = self.request(plugin, "compute", options)?;
        let (id, key) = (request.plugin, request.key.clone());
        let columns = case.columns.iter().filter(|column| {
            plugin.columns.whole.iter().any(|asked| asks_for(asked, &column.name))
        });
        let bytes = columns.clone().map(|column| size(&column.data)).sum();
        request.limits = request.limits.with_columns(bytes);
        let input = lines::compute(case, columns, options);
        let answer = self.run(request, command, input)?;
        answer.read(lines::measurements)?.refused()?.checked(|measurements| {
            let values = answer::measurements(id, measurements)?;
            key.map_or(Ok(()), |key| self.ledger.takes(key, &values))?;
            Ok(values)
        })
    }

    /// Computes the values of a metric over a whole run, by the ids of its finished cases. Each has exactly the
    /// values that the plugin outlines for these options.
    ///
    /// # Errors
    ///
    /// If the plugin is not such a metric, fails, or gives an answer that cannot be used.
    #[tracing::instrument(skip_all, fields(plugin = plugin.description().id))]
    pub fn compute_run(
        &self,
        plugin: &Plugin,
        views: Rc<dyn Views>,
        options: &serde_json::Value,
    ) -> Result<BTreeMap<String, Vec<MetricValue>>, GuestError> {
        let World::RunMetric(pre) = &plugin.world else {
            return Err(wrong_kind(plugin, "compute", Kind::Metric));
        };
        let outline = self.outline(plugin, pre, options)?;
        let (request, text) = self.request(plugin, "compute", options)?;
        let (id, key) = (request.plugin, request.key.clone());
        let answer = self.call(Request { views: Some(Rc::clone(&views)), ..request }, |store| {
            pre.instantiate(&mut *store)?.tare_plugin_run_metric().call_compute(store, &text)
        })?;
        answer.refused()?.checked(|found| {
            let values = answer::of_run(id, found, &outline, &*views)?;
            for values in values.values() {
                key.clone().map_or(Ok(()), |key| self.ledger.takes(key, values))?;
            }
            Ok(values)
        })
    }

    fn outline(
        &self,
        plugin: &Plugin,
        pre: &RunMetricPluginPre<State>,
        options: &serde_json::Value,
    ) -> Result<Vec<MetricValue>, GuestError> {
        let (request, text) = self.request(plugin, "outline", options)?;
        let id = request.plugin;
        let answer = self.call(request, |store| {
            pre.instantiate(&mut *store)?.tare_plugin_run_metric().call_outline(store, &text)
        })?;
        answer.refused()?.checked(|outline| answer::run_measurements(id, outline))
    }

    /// Renders a report, and returns its files. Nothing is written.
    ///
    /// # Errors
    ///
    /// If the plugin is not a report, fails, or gives an answer that cannot be used.
    #[tracing::instrument(skip_all, fields(plugin = plugin.description().id))]
    pub fn render(
        &self,
        plugin: &Plugin,
        views: Rc<dyn Views>,
        options: &serde_json::Value,
    ) -> Result<Rendered, GuestError> {
        let pre = match &plugin.world {
            World::Report(pre) => pre,
            World::Command(command) if plugin.kind() == Kind::Report => {
                let read = |name: &String| Ok((name.clone(), views.read(name)?));
                let views: Result<_, String> = plugin.profile.views.iter().map(read).collect();
                let id = plugin.description().id.as_str();
                let views = views.map_err(|detail| {
                    error(id, "render", GuestErrorKind::InvalidAnswer { detail })
                })?;
                return self.render_command(plugin, command, Some(&views), options);
            }
            _ => return Err(wrong_kind(plugin, "render", Kind::Report)),
        };
        let (request, options) = self.request(plugin, "render", options)?;
        let id = request.plugin;
        let answer = self.call(Request { views: Some(views), ..request }, |store| {
            pre.instantiate(&mut *store)?.tare_plugin_report().call_render(store, &options)
        })?;
        let Answer { value: named, state, .. } = answer.refused()?;
        let console = state.console;
        state.output.rendered(named).map_err(|kind| GuestError {
            standard_error: console.text(),
            ..error(id, "render", kind)
        })
    }

    /// Renders a report that is a classic module; without views, it only checks its options.
    fn render_command(
        &self,
        plugin: &Plugin,
        command: &InstancePre<Process>,
        views: Option<&BTreeMap<String, Table>>,
        options: &serde_json::Value,
    ) -> Result<Rendered, GuestError> {
        let (request, _) = self.request(plugin, "render", options)?;
        let (id, limits) = (request.plugin, request.limits.clone());
        let answer = self.run(request, command, lines::render(views, options))?;
        answer.read(lines::files)?.refused()?.checked(|files| {
            let mut staged = Staged::new(limits.output_bytes, limits.output_files);
            let mut meter = Meter::new(limits.memory_bytes);
            let named = files.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
            for (name, text) in files {
                staged
                    .write(name, text.into_bytes(), &mut meter)
                    .map_err(|refusal| refusal.to_string())?;
            }
            if views.is_none() {
                return Ok(Rendered { files: BTreeMap::new(), named: Vec::new() });
            }
            staged.rendered(named).map_err(|fault| format!("{id}: {fault}"))
        })
    }

    /// Asks a recommender for its advice. `more_cases` takes its wishes for further cases; without it, none is granted.
    ///
    /// # Errors
    ///
    /// If the plugin is not a recommender, fails, or gives an answer that cannot be used.
    #[tracing::instrument(skip_all, fields(plugin = plugin.description().id))]
    pub fn recommend(
        &self,
        plugin: &Plugin,
        views: Rc<dyn Views>,
        more_cases: Option<Rc<dyn MoreCases>>,
        options: &serde_json::Value,
    ) -> Result<Advice, GuestError> {
        let World::Recommender(pre) = &plugin.world else {
            return Err(wrong_kind(plugin, "recommend", Kind::Recommender));
        };
        let (request, options) = self.request(plugin, "recommend", options)?;
        let answer = self.call(Request { views: Some(Rc::clone(&views)), ..request }, |store| {
            store.data_mut().more_cases = more_cases;
            pre.instantiate(&mut *store)?.tare_plugin_recommender().call_recommend(store, &options)
        })?;
        let mut answer = answer.refused()?;
        let predictions = std::mem::take(&mut answer.state.predictions);
        answer.checked(|recommendations| {
            let recommendations = answer::recommendations(recommendations, &*views)?;
            Ok(Advice { recommendations, predictions })
        })
    }

    /// Tries a plugin's options before any data exists, and returns the values that a metric would state: names,
    /// units and directions, each with a gap for a value.
    ///
    /// A metric's names may depend only on its options, so it is called without columns; a metric over a run is asked
    /// for its outline. A report or recommender is called as well, and checks its options before it reads a view.
    /// Once it reads, it has accepted its options, and later errors are ignored. Files of a report are discarded.
    ///
    /// # Errors
    ///
    /// If the plugin refuses its options, with [`GuestErrorKind::Refused`]; for a metric also if
    /// it fails in any other way.
    #[tracing::instrument(skip_all, fields(plugin = plugin.description().id))]
    pub fn rehearse(
        &self,
        plugin: &Plugin,
        options: &serde_json::Value,
    ) -> Result<Vec<MetricValue>, GuestError> {
        let views = Rc::new(EmptyViews::default());
        let some: Option<Rc<dyn Views>> = Some(Rc::clone(&views) as Rc<dyn Views>);
        let refusal = match &plugin.world {
            World::Command(command) if plugin.kind() == Kind::Report => {
                return self.render_command(plugin, command, None, options).map(|_| Vec::new());
            }
            World::Metric(_) | World::Command(_) => {
                let attributes = REHEARSED_CASE.map(|(name, value)| (name.into(), value.into()));
                let case = CaseColumns {
                    case_id: "rehearsal".into(),
                    attributes: attributes.into(),
                    columns: Vec::new(),
                };
                let values = self.compute(plugin, &Rc::new(case), options)?;
                let (request, _) = self.request(plugin, "compute", options)?;
                request.key.into_iter().for_each(|key| self.ledger.states(key, &values));
                return Ok(values);
            }
            World::RunMetric(pre) => return self.outline(plugin, pre, options),
            World::Report(pre) => {
                let (request, text) = self.request(plugin, "render", options)?;
                let answer = self.call(Request { views: some, ..request }, |store| {
                    pre.instantiate(&mut *store)?.tare_plugin_report().call_render(store, &text)
                });
                answer.and_then(|answer| answer.refused().map(drop))
            }
            World::Recommender(pre) => {
                let (request, text) = self.request(plugin, "recommend", options)?;
                let answer = self.call(Request { views: some, ..request }, |store| {
                    pre.instantiate(&mut *store)?
                        .tare_plugin_recommender()
                        .call_recommend(store, &text)
                });
                answer.and_then(|answer| answer.refused().map(drop))
            }
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
    pub(crate) fn call<T>(
        &self,
        request: Request<'_>,
        run: impl FnOnce(&mut Store<State>) -> wasmtime::Result<T>,
    ) -> Result<Answer<T>, GuestError> {
        let (plugin, call) = (request.plugin.to_owned(), request.call);
        let mut state = State::new(&plugin, &request.limits, request.views.clone());
        state.console = Console::of(&plugin, self.listener.as_ref());
        let (value, state) = self.call_in(request, state, run)?;
        Ok(Answer { value, plugin, call, state })
    }

    /// Runs a classic module with this standard input, and returns its standard output.
    pub(crate) fn run(
        &self,
        request: Request<'_>,
        command: &InstancePre<Process>,
        input: Vec<u8>,
    ) -> Result<Answer<Vec<u8>>, GuestError> {
        let (plugin, call, limits) =
            (request.plugin.to_owned(), request.call, request.limits.clone());
        let process = Process::new(&plugin, &limits, input);
        let ((), process) = self.call_in(request, process, |store| {
            let instance = command.instantiate(&mut *store)?;
            let start = instance.get_typed_func::<(), ()>(&mut *store, START)?;
            match start.call(store, ()) {
                Err(failure) if matches!(failure.downcast_ref(), Some(I32Exit(0))) => Ok(()),
                ended => ended,
            }
        })?;
        let mut state = State::new(&plugin, &limits, None);
        state.console = Console::of(&plugin, self.listener.as_ref());
        state.console.write(&process.errors());
        let value = process.output();
        if value.len() >= limits.transfer_bytes {
            let kind = GuestErrorKind::Transfer { limit: limits.transfer_bytes };
            return Err(GuestError {
                standard_error: state.console.text(),
                ..error(&plugin, call, kind)
            });
        }
        Ok(Answer { value, plugin, call, state })
    }

    /// Makes a call in a store with this data, under the limits.
    fn call_in<S: Sandboxed, T>(
        &self,
        request: Request<'_>,
        mut data: S,
        run: impl FnOnce(&mut Store<S>) -> wasmtime::Result<T>,
    ) -> Result<(T, S), GuestError> {
        let Request { plugin, call, limits, instance_bytes, key, .. } = request;
        if self.cancel.is_asked() {
            return Err(error(plugin, call, GuestErrorKind::Cancelled));
        }
        if let Some(before) = key.as_ref().and_then(|key| self.ledger.out_of_time(key)) {
            return Err(error(plugin, call, GuestErrorKind::OutOfTime { call: before }));
        }
        data.meter().charge(instance_bytes).map_err(|MemoryLimit { requested, limit }| {
            error(plugin, call, GuestErrorKind::Memory { requested, limit })
        })?;
        let mut store = Store::new(&self.engine, data);
        store.limiter(|data| data.meter());
        store.set_hostcall_fuel(limits.transfer_bytes);
        let host = |detail: String| error(plugin, call, GuestErrorKind::Host { detail });
        store.set_fuel(limits.fuel).map_err(|failure| host(format!("{failure:#}")))?;
        let watchdog = Watchdog::start(&self.engine, &mut store, limits.deadline, &self.cancel)
            .map_err(|failure| host(format!("no thread for the deadline: {failure}")))?;
        let begun = Instant::now();
        let answer = run(&mut store);
        drop(watchdog);
        let time = begun.elapsed();
        let fuel_left = store.get_fuel().unwrap_or(0);
        let mut data = store.into_data();
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Used {
            fuel: limits.fuel - fuel_left,
            memory_bytes: data.meter().counted(),
            memory_limit: limits.memory_bytes,
            time,
        };
        match answer {
            Ok(value) => {
                let fuel = limits.fuel - fuel_left;
                tracing::debug!(plugin, call, fuel, "returned");
                Ok((value, data))
            }
            Err(failure) => {
                let kind = classify(&failure, &limits);
                if let GuestErrorKind::OutOfFuel { .. } | GuestErrorKind::Deadline { .. } = kind
                    && let Some(key) = key
                {
                    self.ledger.runs_out_of_time(key, call);
                }
                let standard_error = data.console_text();
                Err(GuestError { standard_error, ..error(plugin, call, kind) })
            }
        }
    }
}

/// The data of a store, whatever its guest is.
trait Sandboxed: 'static {
    fn meter(&mut self) -> &mut Meter;

    /// Returns the end of the guest's output to its console.
    fn console_text(&self) -> String;
}

impl Sandboxed for State {
    fn meter(&mut self) -> &mut Meter {
        &mut self.meter
    }

    fn console_text(&self) -> String {
        self.console.text()
    }
}

impl Sandboxed for Process {
    fn meter(&mut self) -> &mut Meter {
        &mut self.meter
    }

    fn console_text(&self) -> String {
        let mut console = Console::default();
        console.write(&self.errors());
        console.text()
    }
}

/// Returns the reason why a call ended, from wasmtime's error.
fn classify(failure: &wasmtime::Error, limits: &Limits) -> GuestErrorKind {
    if let Some(MemoryLimit { requested, limit }) = failure.downcast_ref() {
        return GuestErrorKind::Memory { requested: *requested, limit: *limit };
    }
    if let Some(I32Exit(code)) = failure.downcast_ref() {
        let reason = format!("it exited with code {code}");
        return GuestErrorKind::Trap { reason, backtrace: Vec::new() };
    }
    if failure.is::<Cancelled>() {
        return GuestErrorKind::Cancelled;
    }
    if failure.is::<DeadlinePassed>() {
        return GuestErrorKind::Deadline { limit: limits.deadline };
    }
    if let Some(Denied { function, without }) = failure.downcast_ref() {
        return GuestErrorKind::Denied { function: function.clone(), without };
    }
    let backtrace = failure.downcast_ref::<WasmBacktrace>().map(names).unwrap_or_default();
    match failure.downcast_ref::<Trap>() {
        Some(Trap::OutOfFuel) => GuestErrorKind::OutOfFuel { limit: limits.fuel },
        Some(trap) => {
            let reason = trap.to_string();
            let reason = reason.strip_prefix("wasm trap: ").unwrap_or(&reason).to_owned();
            GuestErrorKind::Trap { reason, backtrace }
        }
        None => {
            let reason = failure.root_cause().to_string();
            // wasmtime has no type for this error.
            if reason.starts_with("too much data is being copied") {
                return GuestErrorKind::Transfer { limit: limits.transfer_bytes };
            }
            // Such as text in an answer that is not UTF-8.
            GuestErrorKind::Trap { reason, backtrace }
        }
    }
}

/// The result of a call, with the rest of its store.
pub(crate) struct Answer<T> {
    value: T,
    plugin: String,
    call: &'static str,
    state: State,
}

impl<T> Answer<T> {
    /// Takes the value if it passes.
    pub(crate) fn checked<U>(
        self,
        check: impl FnOnce(T) -> Result<U, String>,
    ) -> Result<U, GuestError> {
        let Self { value, plugin, call, state } = self;
        check(value).map_err(|detail| GuestError {
            standard_error: state.console.text(),
            ..error(&plugin, call, GuestErrorKind::InvalidAnswer { detail })
        })
    }
}

impl Answer<Vec<u8>> {
    /// Reads what a command wrote.
    fn read<T>(
        self,
        read: impl FnOnce(&[u8]) -> Result<T, String>,
    ) -> Result<Answer<T>, GuestError> {
        let Self { value, plugin, call, state } = self;
        match read(&value) {
            Ok(value) => Ok(Answer { value, plugin, call, state }),
            Err(detail) => Err(GuestError {
                standard_error: state.console.text(),
                ..error(&plugin, call, GuestErrorKind::InvalidAnswer { detail })
            }),
        }
    }
}

impl<T> Answer<Result<T, String>> {
    /// Turns the guest's own error into a [`GuestError`].
    fn refused(self) -> Result<Answer<T>, GuestError> {
        let Self { value, plugin, call, state } = self;
        match value {
            Ok(value) => Ok(Answer { value, plugin, call, state }),
            Err(message) => Err(GuestError {
                standard_error: state.console.text(),
                ..error(&plugin, call, GuestErrorKind::Refused { message: cut(message) })
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
    error(&plugin.description().id, call, kind)
}

/// Cuts a guest's message that is too long.
fn cut(message: String) -> String {
    match message.char_indices().nth(MESSAGE) {
        Some((end, _)) => format!("{}… (of {} bytes)", &message[..end], message.len()),
        None => message,
    }
}

/// Returns the bytes of a column.
fn size(data: &ColumnData) -> usize {
    match data {
        ColumnData::U64(values) => size_of_val(&values[..]),
        ColumnData::S64(values) => size_of_val(&values[..]),
        ColumnData::F32(values) => size_of_val(&values[..]),
        ColumnData::F64(values) => size_of_val(&values[..]),
        ColumnData::Boolean(values) => values.len(),
        ColumnData::Text(values) => {
            values.iter().map(|text| text.len() + size_of::<String>()).sum()
        }
    }
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
