/*!
Memory for guests that makes passing large columns fast.

A metric's columns are copied into fresh memory, and touching that memory for the first time costs
more than the copy: a page fault for every four kilobytes, twenty thousand for ten million
latencies. On request Linux maps two megabytes at a time, which makes passing that column three to
four times as fast (measured in `examples/latency_metric.rs`). wasmtime does not ask for this, and
only a custom memory creator knows the address. This one uses the same layout as wasmtime's own, and asks for large
pages if a guest grows by so much at once that it can only be for columns.
*/

use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use wasmtime::{Config, LinearMemory, MemoryCreator, MemoryType};

/// Least growth, in bytes, for large pages: several must fit.
#[cfg(target_os = "linux")]
const LARGE: usize = 8 << 20;

/// Creates the memory of guests.
#[derive(Debug)]
pub(crate) struct HugePages;

impl HugePages {
    /// Makes an engine create its memories here.
    pub(crate) fn set_up(config: &mut Config) {
        config
            .with_host_memory(Arc::new(Self))
            // Memories have 32-bit addresses, and all of these can be reserved.
            .wasm_memory64(false)
            .memory_reservation(1 << 32)
            // wasmtime maps a module's data only into memory that it created itself, and copies it here; without this
            // setting it panics.
            .memory_init_cow(false);
    }
}

// SAFETY: every memory is a separate mapping, zero-filled by the kernel, to which only the returned object refers. It
// has the reservation and the guard that wasmtime asks for, see `Mapping`.
unsafe impl MemoryCreator for HugePages {
    fn new_memory(
        &self,
        _: MemoryType,
        minimum: usize,
        _: Option<usize>,
        reservation: Option<usize>,
        guard: usize,
    ) -> Result<Box<dyn LinearMemory>, String> {
        let reservation = reservation.filter(|reservation| minimum <= *reservation);
        let reservation = reservation.ok_or("the memory is larger than what is reserved for it")?;
        let mut mapping = Mapping::new(reservation, guard).map_err(|error| error.to_string())?;
        mapping.grow_to(minimum).map_err(|error| error.to_string())?;
        Ok(Box::new(mapping))
    }
}

/// A guard, the reservation, and another guard. Only the first `size` bytes of the reservation are
/// accessible, so any address that a guest uses either lies in its own memory or traps.
struct Mapping {
    start: NonNull<c_void>,
    guard: usize,
    reservation: usize,
    size: usize,
}

// SAFETY: the mapping belongs to this object alone, and is only changed through `&mut self`.
unsafe impl Send for Mapping {}
// SAFETY: as above; `&self` only returns the address.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(reservation: usize, guard: usize) -> Result<Self, rustix::io::Errno> {
        let length = guard
            .checked_mul(2)
            .and_then(|guards| guards.checked_add(reservation))
            .ok_or(rustix::io::Errno::NOMEM)?;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: without MAP_FIXED the kernel chooses unused addresses.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), length, ProtFlags::empty(), flags)? };
        let start = NonNull::new(start).ok_or(rustix::io::Errno::NOMEM)?;
        Ok(Self { start, guard, reservation, size: 0 })
    }

    fn base(&self) -> *mut c_void {
        // SAFETY: the mapping begins with the guard and continues after it.
        unsafe { self.start.as_ptr().byte_add(self.guard) }
    }
}

// SAFETY: the base is page-aligned and never moves, since the reservation is made once; growth
// stays within it, and the guard lies after it.
unsafe impl LinearMemory for Mapping {
    fn byte_size(&self) -> usize {
        self.size
    }

    fn byte_capacity(&self) -> usize {
        self.reservation
    }

    fn grow_to(&mut self, size: usize) -> wasmtime::Result<()> {
        if size > self.reservation || size < self.size {
            wasmtime::bail!("memory cannot have {size} bytes of {}", self.reservation);
        }
        let growth = size - self.size;
        if growth > 0 {
            // SAFETY: `size` was checked to lie within the reservation.
            let new = unsafe { self.base().byte_add(self.size) };
            // WebAssembly's pages of 64 KiB are whole pages on every supported processor.
            // SAFETY: the range lies in this mapping, and is not used yet.
            unsafe { mprotect(new, growth, MprotectFlags::READ | MprotectFlags::WRITE)? };
            #[cfg(target_os = "linux")]
            if growth >= LARGE {
                use rustix::mm::{Advice, madvise};
                // SAFETY: as above. It is advice: memory works without it.
                let advised = unsafe { madvise(new, growth, Advice::LinuxHugepage) };
                if let Err(error) = advised {
                    tracing::debug!("no large pages for a guest: {error}");
                }
            }
        }
        self.size = size;
        Ok(())
    }

    fn as_ptr(&self) -> *mut u8 {
        self.base().cast()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let length = self.reservation + 2 * self.guard;
        // SAFETY: this is the whole mapping, and wasmtime drops a memory after its last use.
        let unmapped = unsafe { munmap(self.start.as_ptr(), length) };
        if let Err(error) = unmapped {
            tracing::warn!("the memory of a guest is not given back: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use wasmtime::{Engine, Instance, Module, Store, Trap, TypedFunc};

    use super::*;

    type Function = TypedFunc<u32, u32>;

    fn guest() -> (Store<()>, Function, Function, Function) {
        let mut config = Config::new();
        HugePages::set_up(&mut config);
        let engine = Engine::new(&config).expect("an engine");
        let text = r#"(module
            (memory 1)
            (data (i32.const 16) "\2a")
            (func (export "grow") (param i32) (result i32) (memory.grow (local.get 0)))
            (func (export "read") (param i32) (result i32) (i32.load8_u (local.get 0)))
            (func (export "far") (param i32) (result i32)
                (i32.load8_u offset=0x1ff0000 (local.get 0))))"#;
        let module = Module::from_binary(&engine, &wat::parse_str(text).expect("correct text"))
            .expect("a module");
        let mut store = Store::new(&engine, ());
        let instance = Instance::new(&mut store, &module, &[]).expect("an instance");
        let [grow, read, far] = ["grow", "read", "far"]
            .map(|name| instance.get_typed_func(&mut store, name).expect("a function"));
        (store, grow, read, far)
    }

    #[test]
    fn memory_is_zero_but_for_its_data_and_grows_in_place() {
        let (mut store, grow, read, _) = guest();
        assert_eq!(read.call(&mut store, 16).expect("it is there"), 42);
        assert_eq!(read.call(&mut store, 17).expect("it is there"), 0);
        // Growth by little, and by enough for large pages.
        for (pages, before) in [(1, 1), (256, 2), (0, 258)] {
            assert_eq!(grow.call(&mut store, pages).expect("it grows"), before);
        }
        assert_eq!(read.call(&mut store, 16).expect("it is there"), 42);
        assert_eq!(read.call(&mut store, 258 * 65536 - 1).expect("it is there"), 0);
    }

    #[test]
    fn every_address_beyond_the_end_traps() {
        let (mut store, grow, read, far) = guest();
        let mut traps = |function: &Function, address| {
            let error = function.call(&mut store, address).expect_err("beyond the end");
            assert_eq!(error.downcast_ref(), Some(&Trap::MemoryOutOfBounds), "{address:#x}");
        };
        for address in [65536, 0x7fff_ffff, 0xffff_ffff] {
            traps(&read, address);
        }
        // With the offset, the last of these lies in the guard after the reservation.
        for address in [0, 0x8000_0000, 0xffff_ffff] {
            traps(&far, address);
        }
        assert_eq!(grow.call(&mut store, 256).expect("it grows"), 1);
        let error = read.call(&mut store, 257 * 65536).expect_err("beyond the new end");
        assert_eq!(error.downcast_ref(), Some(&Trap::MemoryOutOfBounds));
    }

    #[test]
    fn more_than_there_are_addresses_is_refused() {
        let (mut store, grow, ..) = guest();
        assert_eq!(grow.call(&mut store, 65536).expect("no trap"), u32::MAX);
    }
}
