#![doc = include_str!("../README.md")]

use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::fmt;
use std::hint::black_box;
use std::num::NonZeroU64;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use plugin_api::abi;
use plugin_api::backend::{
    Allocator, AllocatorUse, Backend, Cancel, DataType, Description, Device, DeviceEnergy,
    DeviceMemory, DeviceReading, DeviceState, DeviceTimer, Dimension, Error, ErrorCode, Host,
    HostTensor, LoadRequest, MemoryUse, Model, ModelInfo, Options, PrepareRequest, Profile,
    ProfiledOperator, Progress, Result, Session, ShapesServed, StageTimes, Stages, Tensor,
    TensorInfo, ValueKind, View, ViewMut, allocator, cancel, device_energy, device_memory,
    device_state, device_timer, profile, stage_times,
};

const DEVICE: &str = "fault:0";
const PRECISION: &str = "fp32";
/// Provider of its operators.
const PROVIDER: &str = "FaultProvider";

macro_rules! choices {
    ($(#[$meta:meta])* $type:ident of $what:literal { $($variant:ident = $name:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        enum $type { $($variant,)+ }

        impl std::str::FromStr for $type {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $($name => Ok(Self::$variant),)+
                    _ => Err(format!("{} is one of: {}", $what, [$($name),+].join(", "))),
                }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.pad(match self { $(Self::$variant => $name,)+ })
            }
        }
    };
}

choices! {
    Fault of "a fault" {
        Segfault = "segfault",
        Abort = "abort",
        Exit = "exit",
        Panic = "panic",
        Hang = "hang",
        Long = "long",
        Leak = "leak",
        Error = "error",
        Print = "print",
        Orphan = "orphan",
        Fork = "fork",
        Zeros = "zeros",
        Wrong = "wrong",
        Nan = "nan",
        Stale = "stale",
        Shape = "shape",
        Write = "write",
        Slow = "slow",
        Work = "work",
        Lie = "lie",
        LieTogether = "lie-together",
        Drift = "drift",
        WarmUp = "warm-up",
        Bimodal = "bimodal",
        Throttle = "throttle",
        Stall = "stall",
        Impossible = "impossible",
        Fallback = "fallback",
    }
}

impl Fault {
    /// Returns whether the fault concerns only runs.
    fn is_of_runs(self) -> bool {
        use Fault::{Fallback, Impossible, Nan, Shape, Stale, Work, Write, Wrong, Zeros};
        let is_of_values = matches!(self, Zeros | Wrong | Nan | Stale | Shape | Write);
        is_of_values || matches!(self, Impossible | Fallback | Work) || self.takes_time()
    }

    fn takes_time(self) -> bool {
        use Fault::{Bimodal, Drift, Lie, LieTogether, Slow, Stall, Throttle, WarmUp};
        matches!(self, Slow | Lie | LieTogether | Drift | WarmUp | Bimodal | Throttle | Stall)
    }

    /// Returns the factor by which run `index` of `runs` (`fault-runs`) is slower than usual.
    fn pace(self, index: u64, runs: u64) -> f64 {
        let part = index as f64 / runs as f64;
        match self {
            Self::Drift => 1.0 + part,
            Self::WarmUp => 1.0 + 2.0 * (-8.0 * part).exp2(),
            Self::Bimodal if mixed(index) % 10 < 3 => 2.0,
            Self::Throttle if index >= runs => 2.0,
            Self::Stall if index % runs == runs - 1 => 10.0,
            _ => 1.0,
        }
    }
}

/// Returns a number that looks random: the finaliser of SplitMix64.
fn mixed(index: u64) -> u64 {
    let mut mixed = (index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

choices! {
    /// Kinds of its inputs and outputs.
    Values of "a kind of values" {
        Numbers = "numbers",
        Texts = "texts",
        Sequence = "sequence",
        Map = "map",
    }
}

choices! {
    /// The shapes that its sessions serve.
    Shapes of "the shapes that are served" {
        One = "one",
        Compiled = "compiled",
        Any = "any",
    }
}

/// Number of requests to cancel.
static CANCELLED: AtomicU64 = AtomicU64::new(0);

/// Number of runs that a lying device queues.
const QUEUE: u32 = 16;

choices! {
    Phase of "a phase" {
        Load = "load",
        Prepare = "prepare",
        Tensor = "tensor",
        Run = "run",
        Read = "read",
        Release = "release",
        Unload = "unload",
    }
}

/// The planned fault, shared by everything made from one model.
#[derive(Debug)]
struct Plan {
    fault: Option<Fault>,
    phase: Phase,
    /// Time of a run on the device.
    time: Duration,
    iterations: u64,
    runs: u64,
    bytes: usize,
    exit_code: i32,
    error_code: ErrorCode,
    error_message: Option<String>,
    values: Values,
    shapes: Shapes,
    /// Progress of long phases, if offered.
    progress: Option<Progress>,
    /// Number of times that the phase still succeeds.
    remaining: Cell<u64>,
    /// Number of times that it then goes wrong.
    failing: Cell<u64>,
}

impl Plan {
    fn new(options: &Options<'_>, progress: &Progress) -> Result<Self> {
        options.only(&[
            "fault",
            "fault-phase",
            "fault-after",
            "fault-times",
            "fault-milliseconds",
            "fault-microseconds",
            "fault-iterations",
            "fault-runs",
            "fault-bytes",
            "fault-code",
            "fault-message",
            "fault-offers",
            "fault-values",
            "fault-shapes",
            "threads",
            abi::OPTION_PLACEMENT,
        ])?;
        let invalid = |message| Error::new(ErrorCode::InvalidArgument, message);
        if options.parse::<u64>("threads")?.is_some_and(|threads| threads != 1) {
            return Err(invalid("it computes in one thread".into()));
        }
        let fault = options.parse("fault")?;
        let (mut exit_code, mut error_code) = (3, ErrorCode::Internal);
        match (options.get("fault-code"), fault) {
            (None, _) => {}
            (Some(_), Some(Fault::Exit)) => exit_code = options.parse("fault-code")?.unwrap_or(3),
            (Some(name), Some(Fault::Error)) => {
                error_code = ErrorCode::from_name(name)
                    .ok_or_else(|| invalid(format!("there is no error code `{name}`")))?;
            }
            (Some(_), _) => {
                return Err(invalid("`fault-code` is for the faults `exit` and `error`".into()));
            }
        }
        let plan = Self {
            fault,
            phase: options.parse("fault-phase")?.unwrap_or(Phase::Run),
            time: match options.parse("fault-microseconds")? {
                Some(time) => Duration::from_micros(time),
                None => Duration::from_millis(options.parse("fault-milliseconds")?.unwrap_or(10)),
            },
            iterations: options.parse("fault-iterations")?.unwrap_or(10_000),
            runs: options.parse::<NonZeroU64>("fault-runs")?.map_or(100, NonZeroU64::get),
            bytes: options.parse("fault-bytes")?.unwrap_or(1 << 20),
            exit_code,
            error_code,
            error_message: options.parse("fault-message")?,
            values: options.parse("fault-values")?.unwrap_or(Values::Numbers),
            shapes: options.parse("fault-shapes")?.unwrap_or(Shapes::One),
            progress: offers(options).any(|offer| offer == "progress").then(|| progress.clone()),
            remaining: Cell::new(options.parse("fault-after")?.unwrap_or(0)),
            failing: Cell::new(options.parse("fault-times")?.unwrap_or(u64::MAX)),
        };
        match plan.fault {
            Some(fault) if fault.is_of_runs() && plan.phase != Phase::Run => {
                let message =
                    format!("the fault `{fault}` has no phase `{}`, only `run`", plan.phase);
                Err(invalid(message))
            }
            _ => Ok(plan),
        }
    }

    /// Returns the kind of its output.
    fn kind(&self) -> ValueKind {
        match self.values {
            Values::Numbers | Values::Texts => ValueKind::Tensor,
            Values::Sequence => ValueKind::Sequence,
            Values::Map => ValueKind::Map,
        }
    }

    /// Returns the fault that is due in a phase, counting the calls to it.
    fn due(&self, phase: Phase) -> Option<Fault> {
        let fault = self.fault.filter(|_| phase == self.phase)?;
        match self.remaining.get() {
            0 => {
                let failing = self.failing.get();
                self.failing.set(failing.saturating_sub(1));
                (failing > 0).then_some(fault)
            }
            left => {
                self.remaining.set(left - 1);
                None
            }
        }
    }

    /// Applies any fault that does not concern outputs.
    #[expect(clippy::print_stdout, reason = "these are faults to be had on request")]
    fn misbehave(&self, phase: Phase) -> Result<Option<Fault>> {
        let due = self.due(phase);
        match due {
            // SAFETY: none; nothing is mapped at this address; the crash is intended.
            Some(Fault::Segfault) => unsafe {
                std::ptr::without_provenance_mut::<u8>(8).write_volatile(0);
            },
            Some(Fault::Abort) => std::process::abort(),
            Some(Fault::Exit) => std::process::exit(self.exit_code),
            Some(Fault::Panic) => panic!("asked to panic in phase {phase}"),
            Some(Fault::Hang) => loop {
                thread::sleep(Duration::from_secs(3600));
            },
            Some(Fault::Long) => self.take_long(phase)?,
            Some(Fault::Leak) => {
                std::hint::black_box(vec![1_u8; self.bytes].leak());
            }
            Some(Fault::Error) => {
                let message = self.error_message.clone();
                let message = message.unwrap_or_else(|| format!("asked to fail in phase {phase}"));
                return Err(Error::new(self.error_code, message).with_details("nothing is wrong"));
            }
            Some(Fault::Print) => {
                println!("\u{1}\u{0}{{\"garbage\": \"on standard output, in phase {phase}\"}}");
            }
            Some(Fault::Orphan) => leave_orphan(self.bytes),
            Some(Fault::Fork) => fork_once(),
            _ => {}
        }
        Ok(due)
    }
}

impl Plan {
    /// Takes long, and ends early if it is cancelled, which it also reports on standard error: the caller may not
    /// wait for the answer.
    #[expect(clippy::print_stderr, reason = "tests look for it")]
    fn take_long(&self, phase: Phase) -> Result<()> {
        const STEP: Duration = Duration::from_millis(5);

        let cancelled = CANCELLED.load(Ordering::Relaxed);
        let start = Instant::now();
        loop {
            let elapsed = start.elapsed();
            if elapsed >= self.time {
                return Ok(());
            }
            if CANCELLED.load(Ordering::Relaxed) != cancelled {
                let message = format!("asked to end in phase {phase}");
                eprintln!("{message}");
                return Err(Error::new(ErrorCode::Cancelled, message));
            }
            if let Some(progress) = &self.progress {
                progress.report(Some(elapsed.div_duration_f64(self.time)), "taking its time");
            }
            thread::sleep(STEP.min(self.time - elapsed));
        }
    }
}

/// Starts, once, a process that leaves the group and the session, has no parent, holds memory and ends by itself only
/// after minutes.
fn leave_orphan(bytes: usize) {
    /// Time after which the orphan ends.
    const SECONDS: u32 = 300;
    static ONCE: Once = Once::new();

    ONCE.call_once(|| {
        // SAFETY: the children call only what signal-safety(7) allows, apart from `mmap`, which takes no lock.
        unsafe {
            let child = libc::fork();
            if child > 0 {
                libc::waitpid(child, std::ptr::null_mut(), 0);
            }
            if child != 0 {
                return;
            }
            libc::setsid();
            if libc::fork() != 0 {
                libc::_exit(0);
            }
            for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
                libc::signal(signal, libc::SIG_IGN);
            }
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let memory = libc::mmap(std::ptr::null_mut(), bytes, access, flags, -1, 0);
            if memory != libc::MAP_FAILED {
                libc::memset(memory, 1, bytes);
            }
            libc::sleep(SECONDS);
            libc::_exit(0);
        }
    });
}

/// Makes, once, a copy of this process, which continues as if it was the only one.
fn fork_once() {
    static ONCE: Once = Once::new();

    // SAFETY: not guaranteed: other threads may have held locks. This is intended.
    ONCE.call_once(|| unsafe {
        libc::fork();
    });
}

/// Extensions to offer.
fn offers<'a>(options: &Options<'a>) -> impl Iterator<Item = &'a str> {
    options.get("fault-offers").unwrap_or_default().split(',').map(str::trim)
}

/// The plugin.
#[derive(Debug)]
pub struct FaultBackend {
    /// Extensions that the latest load asked for.
    offers: RefCell<Vec<String>>,
    loaded: Cell<Instant>,
    progress: Progress,
}

impl Backend for FaultBackend {
    type Model = FaultModel;

    fn new(host: &Host) -> Result<Self, String> {
        let progress = host.progress.clone();
        Ok(Self { offers: RefCell::default(), loaded: Cell::new(Instant::now()), progress })
    }

    fn description(&self) -> Description {
        Description {
            id: "fault".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            engine: "none".into(),
            engine_version: String::new(),
            extensions: vec![abi::CANCEL.into()],
            modes: vec!["inference".into()],
        }
    }

    fn devices(&self) -> Result<Vec<Device>> {
        Ok(vec![Device {
            id: DEVICE.into(),
            kind: "none".into(),
            name: "Trouble (goes wrong on request)".into(),
            memory_bytes: None,
            precisions: vec![PRECISION.into()],
            attributes: Vec::new(),
        }])
    }

    fn load(&self, request: &LoadRequest<'_>) -> Result<FaultModel> {
        let plan = Rc::new(Plan::new(&request.options, &self.progress)?);
        if request.device != DEVICE {
            let message = format!("there is no device `{}`; there is `{DEVICE}`", request.device);
            return Err(Error::new(ErrorCode::NotFound, message));
        }
        if !request.path.is_file() {
            let message = format!("{}: there is no such file", request.path.display());
            return Err(Error::new(ErrorCode::NotFound, message));
        }
        plan.misbehave(Phase::Load)?;
        *self.offers.borrow_mut() = offers(&request.options).map(str::to_owned).collect();
        self.loaded.set(Instant::now());
        Ok(FaultModel { plan })
    }

    fn extension(&self, name: &str) -> Option<NonNull<c_void>> {
        let offered = |what: &str| self.offers.borrow().iter().any(|offer| offer == what);
        match name {
            abi::DEVICE_ENERGY if offered("device-energy") => Some(device_energy::<Self>()),
            abi::DEVICE_MEMORY if offered("device-memory") => Some(device_memory::<Self>()),
            abi::DEVICE_STATE if offered("device-state") => Some(device_state::<Self>()),
            abi::ALLOCATOR if offered("allocator") => Some(allocator::<Self>()),
            abi::STAGE_TIMES if offered("stage-times") => Some(stage_times::<Self>()),
            abi::DEVICE_TIMER if offered("device-timer") => Some(device_timer::<Self>()),
            abi::PROFILE if offered("profile") => Some(profile::<Self>()),
            abi::CANCEL => Some(cancel::<Self>()),
            _ => None,
        }
    }
}

impl Cancel for FaultBackend {
    fn cancel() -> Result<()> {
        CANCELLED.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

impl DeviceEnergy for FaultBackend {
    fn microjoules(&self, _device: &str) -> Result<u64> {
        // 40 W, in steps as coarse as those of NVIDIA's counters.
        const STEP: u128 = 20_000;
        let steps = self.loaded.get().elapsed().as_micros() / STEP;
        Ok((40 * STEP * steps) as u64)
    }
}

impl DeviceMemory for FaultBackend {
    fn memory(&self, _device: &str) -> Result<MemoryUse> {
        Ok(MemoryUse { used_bytes: 1 << 20, peak_bytes: Some(3 << 20) })
    }
}

/// A device that is too hot.
impl DeviceState for FaultBackend {
    fn reading(_device: &str) -> Result<DeviceReading> {
        Ok(DeviceReading {
            utilisation: Some(0.75),
            clock_hertz: Some(1e9),
            temperature_celsius: Some(95.0),
            slowed_by: Some(abi::slowed_by::HEAT),
            ..DeviceReading::default()
        })
    }
}

impl Allocator for FaultSession {
    fn allocator_use(&mut self) -> Result<AllocatorUse> {
        Ok(AllocatorUse {
            name: "Fault".into(),
            used_bytes: 1 << 19,
            peak_bytes: Some(2 << 20),
            reserved_bytes: None,
        })
    }
}

impl StageTimes for FaultSession {
    fn run_in_stages(
        &mut self,
        inputs: &[&FaultTensor],
        outputs: &mut [Option<Box<FaultTensor>>],
    ) -> Result<Stages> {
        let start = Instant::now();
        self.run(inputs, outputs)?;
        let quarter = start.elapsed().as_nanos() as u64 / 4;
        if self.plan.fault == Some(Fault::Impossible) {
            let (copy_in_ns, copy_out_ns) = (quarter, u64::MAX);
            return Ok(Stages { copy_in_ns, compute_ns: 1000 * quarter, copy_out_ns });
        }
        Ok(Stages { copy_in_ns: quarter, compute_ns: 2 * quarter, copy_out_ns: quarter })
    }
}

impl DeviceTimer for FaultSession {
    fn run_timed(
        &mut self,
        inputs: &[&FaultTensor],
        outputs: &mut [Option<Box<FaultTensor>>],
    ) -> Result<u64> {
        let start = self.busy_until.max(Instant::now());
        self.submit(inputs, outputs)?;
        wait_until(self.busy_until);
        let busy_ns = self.busy_until.saturating_duration_since(start).as_nanos() as u64;
        Ok(match self.plan.fault {
            Some(Fault::Impossible) => 3_600_000_000_000,
            _ => busy_ns,
        })
    }
}

impl Profile for FaultSession {
    fn profile(&mut self, inputs: &[&FaultTensor]) -> Result<Vec<ProfiledOperator>> {
        let start = Instant::now();
        self.run(inputs, &mut [None])?;
        let half_ns = start.elapsed().as_nanos() as u64 / 2;
        let operator = |name: &str, kind: &str, provider: &str, start_ns| ProfiledOperator {
            name: name.into(),
            kind: kind.into(),
            provider: provider.into(),
            start_ns,
            duration_ns: half_ns,
        };
        let second = match self.plan.fault {
            Some(Fault::Fallback) => "OtherProvider",
            _ => PROVIDER,
        };
        Ok(vec![
            operator("copied", "Identity", PROVIDER, 0),
            operator("sum", "Add", second, half_ns),
        ])
    }
}

/// A model that doubles.
#[derive(Debug)]
pub struct FaultModel {
    plan: Rc<Plan>,
}

impl Drop for FaultModel {
    fn drop(&mut self) {
        end(&self.plan, Phase::Unload);
    }
}

/// Applies a fault at the end of an object; there, an error can only be reported by a panic.
fn end(plan: &Plan, phase: Phase) {
    if let Err(error) = plan.misbehave(phase) {
        panic!("{}", error.message);
    }
}

impl Model for FaultModel {
    type Tensor = FaultTensor;
    type Session = FaultSession;

    fn info(&self) -> ModelInfo {
        let dtype = match self.plan.values {
            Values::Texts => DataType::STRING,
            Values::Numbers | Values::Sequence | Values::Map => DataType::F32,
        };
        let input = TensorInfo {
            name: "input".into(),
            dtype: Some(dtype),
            dimensions: Some(vec![Dimension::Dynamic("batch".into()), Dimension::Fixed(1)]),
            kind: ValueKind::Tensor,
        };
        let name = "output".into();
        let output = match self.plan.kind() {
            ValueKind::Tensor => TensorInfo { name, ..input.clone() },
            kind => TensorInfo { name, dtype: None, dimensions: None, kind },
        };
        ModelInfo { inputs: vec![input], outputs: vec![output] }
    }

    fn prepare(&self, request: &PrepareRequest<'_>) -> Result<FaultSession> {
        if request.precision != PRECISION {
            let message = format!("{} is not offered; {PRECISION} is", request.precision);
            return Err(Error::new(ErrorCode::Unsupported, message));
        }
        self.plan.misbehave(Phase::Prepare)?;
        let plan = Rc::clone(&self.plan);
        let compiled = vec![request.shapes[0].to_vec()];
        let busy_until = Instant::now();
        Ok(FaultSession { plan, busy_until, made: 0, before: Vec::new(), compiled })
    }

    fn tensor(&self, view: &View<'_>) -> Result<FaultTensor> {
        self.plan.misbehave(Phase::Tensor)?;
        let elements = match self.plan.values {
            Values::Texts => HostTensor { shape: view.shape().to_vec(), values: numbers(view)? },
            Values::Numbers | Values::Sequence | Values::Map => HostTensor::new(view)?,
        };
        Ok(FaultTensor::new(&self.plan, elements, ValueKind::Tensor, Instant::now()))
    }
}

/// A tensor on a device that may still be writing it.
#[derive(Debug)]
pub struct FaultTensor {
    plan: Rc<Plan>,
    elements: HostTensor<f32>,
    /// The elements as texts, if it has texts.
    texts: Option<Vec<String>>,
    kind: ValueKind,
    ready_at: Instant,
    /// Number of runs that have written to it although it was their input.
    written: Cell<u32>,
}

impl FaultTensor {
    fn new(plan: &Rc<Plan>, elements: HostTensor<f32>, kind: ValueKind, ready_at: Instant) -> Self {
        let texts = || elements.values.iter().map(f32::to_string).collect();
        let texts = (plan.values == Values::Texts).then(texts);
        Self { plan: Rc::clone(plan), elements, texts, kind, ready_at, written: Cell::new(0) }
    }

    /// Returns its current elements.
    fn values(&self) -> impl Iterator<Item = f32> {
        let more = self.written.get() as f32;
        self.elements.values.iter().map(move |value| value + more)
    }
}

/// Parses texts as numbers.
fn numbers(view: &View<'_>) -> Result<Vec<f32>> {
    let number = |text: &str| {
        text.parse().map_err(|_| {
            Error::new(ErrorCode::InvalidArgument, format!("`{text}` is not a number"))
        })
    };
    view.texts()?.into_iter().map(number).collect()
}

impl Tensor for FaultTensor {
    fn dtype(&self) -> DataType {
        if self.texts.is_some() { DataType::STRING } else { self.elements.dtype() }
    }

    fn texts(&self) -> Option<&[String]> {
        wait_until(self.ready_at);
        self.texts.as_deref()
    }

    fn kind(&self) -> ValueKind {
        self.kind
    }

    fn shape(&self) -> &[i64] {
        self.elements.shape()
    }

    fn read(&self, into: &mut ViewMut<'_>) -> Result<()> {
        self.plan.misbehave(Phase::Read)?;
        wait_until(self.ready_at);
        wait_until(self.ready_at);
        match self.written.get() {
            0 => self.elements.read(into),
            _ => {
                let (shape, values) = (self.elements.shape.clone(), self.values().collect());
                HostTensor::<f32> { shape, values }.read(into)
            }
        }
    }
}

/// Waits with microsecond precision on a quiet machine: the end of a wait is spun, since a sleeping thread is woken
/// late. The spin is short, since a busy machine takes the processor from spinning threads and gives it to waking
/// ones.
fn wait_until(instant: Instant) {
    const SPIN: Duration = Duration::from_micros(100);
    loop {
        let left = instant.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        match left.checked_sub(SPIN) {
            Some(sleep) => thread::sleep(sleep),
            None => std::hint::spin_loop(),
        }
    }
}

/// A session that doubles, on a device that may be slow.
#[derive(Debug)]
pub struct FaultSession {
    plan: Rc<Plan>,
    busy_until: Instant,
    /// Number of runs since the fault was due.
    made: u64,
    before: Vec<f32>,
    /// Shapes that are already compiled.
    compiled: Vec<Vec<i64>>,
}

impl Drop for FaultSession {
    fn drop(&mut self) {
        wait_until(self.busy_until);
        end(&self.plan, Phase::Release);
    }
}

impl Session for FaultSession {
    type Tensor = FaultTensor;

    fn used(&self) -> Vec<(String, String)> {
        vec![
            ("precision".into(), PRECISION.into()),
            ("provider".into(), PROVIDER.into()),
            ("simulated".into(), "it goes wrong on request, to test the tool itself".into()),
        ]
    }

    fn shapes_served(&self) -> ShapesServed {
        match self.plan.shapes {
            Shapes::One => ShapesServed::One,
            Shapes::Compiled => ShapesServed::Compiled,
            Shapes::Any => ShapesServed::Any,
        }
    }

    fn run(
        &mut self,
        inputs: &[&FaultTensor],
        outputs: &mut [Option<Box<FaultTensor>>],
    ) -> Result<()> {
        let fault = self.submit(inputs, outputs)?;
        if fault == Some(Fault::Lie) {
            let longest = self.plan.time * QUEUE;
            wait_until(self.busy_until.checked_sub(longest).unwrap_or(self.busy_until));
        } else {
            wait_until(self.busy_until);
        }
        Ok(())
    }

    fn enqueue(
        &mut self,
        inputs: &[&FaultTensor],
        outputs: &mut [Option<Box<FaultTensor>>],
    ) -> Result<()> {
        self.submit(inputs, outputs).map(drop)
    }

    fn synchronise(&mut self) -> Result<()> {
        // At most so many runs are left, as in a queue of the driver.
        let left = match self.plan.fault {
            Some(Fault::LieTogether) => self.plan.time * QUEUE,
            _ => Duration::ZERO,
        };
        wait_until(self.busy_until.checked_sub(left).unwrap_or(self.busy_until));
        Ok(())
    }
}

impl FaultSession {
    /// Queues work on the device.
    fn submit(
        &mut self,
        inputs: &[&FaultTensor],
        outputs: &mut [Option<Box<FaultTensor>>],
    ) -> Result<Option<Fault>> {
        let fault = self.plan.misbehave(Phase::Run)?;
        let input = &inputs[0].elements;
        let doubled: Vec<f32> = inputs[0].values().map(|value| 2.0 * value).collect();
        if fault == Some(Fault::Write) {
            inputs[0].written.set(inputs[0].written.get() + 1);
        }
        let mut before = std::mem::replace(&mut self.before, doubled.clone());
        let values = match fault {
            Some(Fault::Zeros) => vec![0.0; doubled.len()],
            Some(Fault::Wrong) => doubled.iter().map(|value| 1.1 * value).collect(),
            Some(Fault::Nan) => vec![f32::NAN; doubled.len()],
            Some(Fault::Stale) => {
                before.resize(input.values.len(), 0.0);
                before
            }
            _ => doubled,
        };
        if fault == Some(Fault::Work) {
            // Each number needs the one before it, so that this takes as long as the processor makes it.
            black_box((0..self.plan.iterations).fold(0, |last, _| mixed(black_box(last))));
        }
        let now = Instant::now();
        self.busy_until = self.busy_until.max(now);
        if let Some(fault) = fault.filter(|fault| fault.takes_time()) {
            self.busy_until += self.plan.time.mul_f64(fault.pace(self.made, self.plan.runs));
            self.made += 1;
        }
        if self.plan.shapes == Shapes::Compiled && !self.compiled.contains(&input.shape) {
            self.busy_until += self.plan.time;
            self.compiled.push(input.shape.clone());
        }
        let mut elements = HostTensor { shape: input.shape.clone(), values };
        if fault == Some(Fault::Shape) {
            // All examples but the last.
            elements.shape[0] -= 1;
            elements.values.pop();
        }
        let output = FaultTensor::new(&self.plan, elements, self.plan.kind(), self.busy_until);
        outputs[0] = Some(Box::new(output));
        Ok(fault)
    }
}

plugin_api::export_backend!(FaultBackend);
