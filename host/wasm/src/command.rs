/*!
Classic modules: commands of preview 1 of WASI.

A module is started anew for each call, reads lines on standard input and writes lines on standard output
(`lines`). `wasmtime-wasi` serves preview 1, with nothing granted: no folders, no environment, no arguments
beside the program's name, and memory in place of the standard streams. Its clock is the one that stands still. Two of
its functions are replaced. `random_get` gives the fixed sequence, and `poll_oneoff` moves the clock instead of waiting: a
wait in the host is covered neither by fuel nor by the deadline.
*/

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use wasmtime::{Caller, Engine, Extern, InstancePre, Linker, Module};
use wasmtime_wasi::p1::{self, WasiP1Ctx};
use wasmtime_wasi::p2::pipe::{MemoryInputPipe, MemoryOutputPipe};
use wasmtime_wasi::{HostMonotonicClock, HostWallClock, WasiCtxBuilder};

use crate::error::GuestErrorKind;
use crate::limits::{Limits, Meter};
use crate::shape::PREVIEW_1;
use crate::stand_ins::{Clock, Random};

/// Bytes of standard error that a command may write.
const ERRORS: usize = 1 << 20;

/// Limits on the subscriptions and the random bytes of one call of a function.
const SUBSCRIPTIONS: u32 = 1000;
const RANDOM_BYTES: u32 = 1 << 20;

/// Bytes of a subscription and of an event, and of their fields, as preview 1 lays them out.
const SUBSCRIPTION: u32 = 48;
const EVENT: u32 = 32;

/// Numbers of preview 1.
const SUCCESS: i32 = 0;
const INVALID: i32 = 28;
const OF_CLOCK: u8 = 0;
const ABSOLUTE: u16 = 1;
const REAL_TIME: u32 = 0;

/// The data of a store with a command. A store lives for one call.
pub(crate) struct Process {
    wasi: WasiP1Ctx,
    pub(crate) meter: Meter,
    clock: SharedClock,
    random: Random,
    output: MemoryOutputPipe,
    errors: MemoryOutputPipe,
}

impl Process {
    /// Creates a process with this standard input.
    pub(crate) fn new(plugin: &str, limits: &Limits, input: Vec<u8>) -> Self {
        let output = MemoryOutputPipe::new(limits.transfer_bytes);
        let errors = MemoryOutputPipe::new(ERRORS);
        let clock = SharedClock { clock: Arc::default(), plugin: plugin.to_owned() };
        let wasi = WasiCtxBuilder::new()
            .arg("plugin")
            .stdin(MemoryInputPipe::new(input))
            .stdout(output.clone())
            .stderr(errors.clone())
            .wall_clock(clock.clone())
            .monotonic_clock(clock.clone())
            .allow_tcp(false)
            .allow_udp(false)
            .build_p1();
        let (meter, random) = (Meter::new(limits.memory_bytes), Random::default());
        Self { wasi, meter, clock, random, output, errors }
    }

    /// Returns what it wrote to standard output.
    pub(crate) fn output(&self) -> Vec<u8> {
        self.output.contents().to_vec()
    }

    /// Returns what it wrote to standard error.
    pub(crate) fn errors(&self) -> Vec<u8> {
        self.errors.contents().to_vec()
    }
}

/// The clock that stands still, for `wasmtime-wasi` and for sleeps.
#[derive(Clone)]
struct SharedClock {
    clock: Arc<Mutex<Clock>>,
    plugin: String,
}

impl SharedClock {
    fn lock(&self) -> MutexGuard<'_, Clock> {
        self.clock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HostWallClock for SharedClock {
    fn resolution(&self) -> Duration {
        Duration::from_nanos(1)
    }

    fn now(&self) -> Duration {
        let (seconds, nanoseconds) = self.lock().wall(&self.plugin);
        Duration::new(seconds, nanoseconds)
    }
}

impl HostMonotonicClock for SharedClock {
    fn resolution(&self) -> u64 {
        1
    }

    fn now(&self) -> u64 {
        self.lock().now(&self.plugin)
    }
}

/// Resolves the imports of a command.
pub(crate) fn resolve(
    engine: &Engine,
    module: &Module,
) -> Result<InstancePre<Process>, GuestErrorKind> {
    let link = || -> wasmtime::Result<_> {
        let mut linker = Linker::new(engine);
        p1::add_to_linker_sync(&mut linker, |process: &mut Process| &mut process.wasi)?;
        linker.allow_shadowing(true);
        linker.func_wrap(PREVIEW_1, "random_get", random_get)?;
        linker.func_wrap(PREVIEW_1, "poll_oneoff", poll_oneoff)?;
        Ok(linker)
    };
    let linker = link().map_err(|error| GuestErrorKind::Host { detail: format!("{error:#}") })?;
    linker
        .instantiate_pre(module)
        .map_err(|error| GuestErrorKind::NotAComponent { detail: format!("{error:#}") })
}

/// Returns the memory of a command, and its store's data.
fn memory<'a>(
    caller: &'a mut Caller<'_, Process>,
) -> wasmtime::Result<(&'a mut [u8], &'a mut Process)> {
    match caller.get_export("memory") {
        Some(Extern::Memory(memory)) => Ok(memory.data_and_store_mut(caller)),
        _ => wasmtime::bail!("the module exports no `memory`"),
    }
}

/// Returns a part of the memory.
fn part(memory: &mut [u8], start: u32, length: u32) -> wasmtime::Result<&mut [u8]> {
    let start = start as usize;
    let part = memory.get_mut(start..start.saturating_add(length as usize));
    part.ok_or_else(|| wasmtime::format_err!("out of bounds memory access"))
}

fn bytes<const N: usize>(of: &[u8], at: usize) -> [u8; N] {
    of[at..at + N].try_into().expect("of this length")
}

fn random_get(mut caller: Caller<'_, Process>, start: u32, length: u32) -> wasmtime::Result<i32> {
    if length > RANDOM_BYTES {
        return Ok(INVALID);
    }
    let (memory, process) = memory(&mut caller)?;
    process.random.fill(part(memory, start, length)?);
    Ok(SUCCESS)
}

/// Streams are always ready. If a command waits only for instants, it sleeps until the first of them.
fn poll_oneoff(
    mut caller: Caller<'_, Process>,
    subscriptions: u32,
    events: u32,
    count: u32,
    written: u32,
) -> wasmtime::Result<i32> {
    if count == 0 || count > SUBSCRIPTIONS {
        return Ok(INVALID);
    }
    let (memory, process) = memory(&mut caller)?;
    let mut clock = process.clock.lock();
    let asked = part(memory, subscriptions, count * SUBSCRIPTION)?.to_vec();
    let now = clock.now(&process.clock.plugin);
    let (seconds, nanoseconds) = clock.wall(&process.clock.plugin);
    let wall = seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds.into());
    // Each with the instant at which it is ready.
    let asked = asked.chunks_exact(SUBSCRIPTION as usize).map(|one| {
        let kind = one[8];
        if kind != OF_CLOCK {
            return (bytes::<8>(one, 0), kind, now);
        }
        let timeout = u64::from_le_bytes(bytes(one, 24));
        let is_absolute = u16::from_le_bytes(bytes(one, 40)) & ABSOLUTE != 0;
        let is_wall = u32::from_le_bytes(bytes(one, 16)) == REAL_TIME;
        let instant = match (is_absolute, is_wall) {
            (false, _) => clock.after(timeout),
            (true, true) => clock.after(timeout.saturating_sub(wall)),
            (true, false) => timeout,
        };
        (bytes::<8>(one, 0), kind, instant)
    });
    let asked: Vec<_> = asked.collect();
    let first = asked.iter().map(|(.., instant)| *instant).min().expect("there is one");
    clock.sleep_until(first);
    let mut ready = 0;
    for (user_data, kind, _) in asked.iter().filter(|(.., instant)| clock.has_reached(*instant)) {
        let place = events.saturating_add(ready * EVENT);
        let event = part(memory, place, EVENT)?;
        event.fill(0);
        event[..8].copy_from_slice(user_data);
        event[10] = *kind;
        // Bytes that can be read or written.
        event[16..24].copy_from_slice(&u64::from(*kind != OF_CLOCK).to_le_bytes());
        ready += 1;
    }
    part(memory, written, 4)?.copy_from_slice(&ready.to_le_bytes());
    Ok(SUCCESS)
}
