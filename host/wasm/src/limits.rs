//! Limits of a call: instructions, time, memory, output.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use wasmtime::{Engine, ResourceLimiter, Store, UpdateDeadline};

use crate::shape::INSTANCES;

/// Limits of one call into a guest.
///
/// By default a guest costs the host at most 256 MiB: its memory and the files that it wrote count together, and the
/// data that it passes is copied once. Only a metric's columns are additional, which the host has in memory anyway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Instructions, about one for each WebAssembly operator. They bound the work itself,
    /// independent of other load on the machine.
    pub fuel: u64,
    /// Time. It bounds the user's waiting time, and covers what fuel does not count.
    pub deadline: Duration,
    /// Bytes of the guest's memory, and of the files that it has written.
    pub memory_bytes: usize,
    /// Additional bytes of memory for each byte of a metric's columns: one for the columns, and more for sorting
    /// them.
    pub memory_per_column_byte: usize,
    /// Bytes that a guest may pass to the host in one call of a function: its answer, or a file.
    pub transfer_bytes: usize,
    /// Bytes of all files that a report may write.
    pub output_bytes: usize,
    /// Files that a report may write.
    pub output_files: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            fuel: 200_000_000_000,
            deadline: Duration::from_secs(60),
            memory_bytes: 192 << 20,
            memory_per_column_byte: 3,
            transfer_bytes: 48 << 20,
            output_bytes: 128 << 20,
            output_files: 1000,
        }
    }
}

impl Limits {
    /// Returns the limits of asking a plugin for its description, which is cheap and done for every list of plugins.
    /// The memory is not lower, since a guest may allocate at its start all that it needs later.
    pub(crate) fn of_description(&self) -> Self {
        Self {
            fuel: self.fuel.min(500_000_000),
            deadline: self.deadline.min(Duration::from_secs(5)),
            transfer_bytes: self.transfer_bytes.min(1 << 20),
            ..self.clone()
        }
    }

    /// Returns the limits of a call with columns of this size.
    pub(crate) fn with_columns(&self, bytes: usize) -> Self {
        let more = bytes.saturating_mul(self.memory_per_column_byte);
        Self { memory_bytes: self.memory_bytes.saturating_add(more), ..self.clone() }
    }
}

/// Counts the memory of a store, over all of its memories, and the memory that the host holds for it.
#[derive(Debug)]
pub(crate) struct Meter {
    limit: usize,
    used: usize,
    held: usize,
}

/// The guest asked for more memory than allowed.
#[derive(Debug, thiserror::Error)]
#[error("{requested} bytes of memory exceed the limit of {limit}")]
pub(crate) struct MemoryLimit {
    pub(crate) requested: usize,
    pub(crate) limit: usize,
}

/// Bytes of an element of a table.
const TABLE_ELEMENT: usize = 16;

impl Meter {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, used: 0, held: 0 }
    }

    /// Returns the bytes that are counted now.
    pub(crate) fn counted(&self) -> usize {
        self.used.saturating_add(self.held)
    }

    /// Counts memory beside the guest's memories, permanently.
    pub(crate) fn charge(&mut self, bytes: usize) -> Result<(), MemoryLimit> {
        let requested = self.used.saturating_add(bytes).saturating_add(self.held);
        if requested > self.limit {
            return Err(MemoryLimit { requested, limit: self.limit });
        }
        self.used = requested - self.held;
        Ok(())
    }

    /// Counts the memory that the host holds for the guest, replacing the previous figure.
    pub(crate) fn hold(&mut self, bytes: usize) -> Result<(), MemoryLimit> {
        let requested = self.used.saturating_add(bytes);
        if requested > self.limit {
            return Err(MemoryLimit { requested, limit: self.limit });
        }
        self.held = bytes;
        Ok(())
    }
}

impl ResourceLimiter for Meter {
    /// Returns an error rather than a refusal that the guest sees. This distinguishes a guest that
    /// is out of memory from one that panics over it.
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _: Option<usize>,
    ) -> wasmtime::Result<bool> {
        self.charge(desired.saturating_sub(current))?;
        Ok(true)
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        _: Option<usize>,
    ) -> wasmtime::Result<bool> {
        self.charge(desired.saturating_sub(current).saturating_mul(TABLE_ELEMENT))?;
        Ok(true)
    }

    fn instances(&self) -> usize {
        INSTANCES
    }

    fn tables(&self) -> usize {
        64
    }

    fn memories(&self) -> usize {
        16
    }
}

/// The time of a call is up.
#[derive(Debug, thiserror::Error)]
#[error("the deadline has passed")]
pub(crate) struct DeadlinePassed;

/// The user asked to stop.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub(crate) struct Cancelled;

/// Time between two looks at a [`Cancel`] during a call.
pub(crate) const LOOK: Duration = Duration::from_millis(50);

/// Decides whether calls must end early. The default never ends them.
#[derive(Clone, Default)]
pub struct Cancel(Option<Arc<dyn Fn() -> bool + Send + Sync>>);

impl Cancel {
    /// Cancels calls, including those in progress, as soon as `asked` returns true.
    #[must_use]
    pub fn when(asked: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(asked)))
    }

    /// Returns whether calls must end now.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.0.as_ref().is_some_and(|asked| asked())
    }
}

impl fmt::Debug for Cancel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Cancel").finish_non_exhaustive()
    }
}

/// Ends the guest of one store when its time is up, or when it is cancelled.
///
/// There is a thread for each call, and none between calls: a permanent clock would wake the processor during a
/// measurement. All stores of an engine share the epoch, so each checks the time when it changes, and continues if
/// the deadline belongs to another store.
pub(crate) struct Watchdog {
    /// Dropping it wakes the thread, which then ends.
    _stop: Sender<()>,
}

impl Watchdog {
    pub(crate) fn start<T>(
        engine: &Engine,
        store: &mut Store<T>,
        limit: Duration,
        cancel: &Cancel,
    ) -> std::io::Result<Self> {
        let end = Instant::now() + limit;
        store.set_epoch_deadline(1);
        let asked = cancel.clone();
        store.epoch_deadline_callback(move |_| {
            if asked.is_asked() {
                return Err(Cancelled.into());
            }
            if Instant::now() >= end {
                return Err(DeadlinePassed.into());
            }
            Ok(UpdateDeadline::Continue(1))
        });
        let (stop, stopped) = mpsc::channel::<()>();
        let (engine, cancel) = (engine.clone(), cancel.clone());
        thread::Builder::new().name("guest-deadline".into()).spawn(move || {
            let look = if cancel.0.is_some() { LOOK } else { limit };
            loop {
                let left = end.saturating_duration_since(Instant::now());
                if stopped.recv_timeout(left.min(look)) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
                if left <= look || cancel.is_asked() {
                    engine.increment_epoch();
                    return;
                }
            }
        })?;
        Ok(Self { _stop: stop })
    }
}

#[cfg(test)]
mod tests {
    use wasmtime::{Config, Instance, Module, Trap};

    use super::*;

    /// The stores of one engine share its epoch but have their own deadlines.
    #[test]
    fn another_calls_deadline_does_not_end_this_one() {
        let mut config = Config::new();
        config.consume_fuel(true).epoch_interruption(true);
        let engine = Engine::new(&config).expect("an engine");
        let text = r#"(module (func (export "loop") (loop (br 0))))"#;
        let module = Module::from_binary(&engine, &wat::parse_str(text).expect("correct text"))
            .expect("a module");
        let run = |fuel, limit| {
            let mut store = Store::new(&engine, ());
            store.set_fuel(fuel).expect("fuel is counted");
            let _watchdog =
                Watchdog::start(&engine, &mut store, limit, &Cancel::default()).expect("a thread");
            let instance = Instance::new(&mut store, &module, &[]).expect("an instance");
            let function =
                instance.get_typed_func::<(), ()>(&mut store, "loop").expect("it is there");
            function.call(&mut store, ()).expect_err("an endless loop")
        };
        // The long call continues until all short ones have met their deadlines.
        thread::scope(|scope| {
            let long = scope.spawn(|| run(1_000_000_000, Duration::from_secs(600)));
            for _ in 0..3 {
                let error = run(u64::MAX, Duration::from_millis(5));
                assert!(error.is::<DeadlinePassed>(), "{error}");
            }
            let error = long.join().expect("no panic");
            assert_eq!(error.downcast_ref(), Some(&Trap::OutOfFuel), "{error}");
        });
    }

    #[test]
    fn memory_is_counted_over_all_memories() {
        let mut meter = Meter::new(100);
        assert!(meter.memory_growing(0, 60, None).expect("it fits"));
        assert!(meter.memory_growing(0, 40, None).expect("it fits"));
        let error = meter.memory_growing(40, 41, None).expect_err("one too many");
        let MemoryLimit { requested, limit } = error.downcast_ref().expect("the limit");
        assert_eq!((*requested, *limit), (101, 100));
        // The files of a report count as well, each once.
        let mut meter = Meter::new(100);
        assert!(meter.memory_growing(0, 60, None).expect("it fits"));
        meter.hold(30).expect("it fits");
        meter.hold(40).expect("it fits in place of the other");
        meter.hold(41).expect_err("one too many");
        meter.memory_growing(60, 61, None).expect_err("one too many");
        // Tables count as well.
        let mut meter = Meter::new(100);
        assert!(meter.table_growing(0, 6, None).expect("it fits"));
        meter.table_growing(6, 7, None).expect_err("one too many");
    }
}
