//! The timed path allocates nothing.

use std::alloc::{GlobalAlloc, Layout, System};
use std::convert::Infallible;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use host_measure::{Block, Meter, Pattern, StopRule, SystemClock, Target};
use host_record::Rate;

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

struct Nothing {
    allocates: bool,
}

impl Target for Nothing {
    type Error = Infallible;

    fn run(&mut self) -> Result<(), Infallible> {
        if self.allocates {
            black_box(Box::new(black_box(1_u8)));
        }
        Ok(())
    }
}

// This is the only test of this binary, so that no other thread allocates meanwhile.
#[test]
fn the_loop_allocates_nothing() {
    let clock = SystemClock::new();
    let mut meter = Meter::new(&clock, 64, 1_000_000);
    let rule = StopRule { minimum_ns: 0, minimum_queries: 1000, maximum_ns: u64::MAX };
    let rate = Rate::per_second(1e6).expect("a rate");
    for pattern in [
        Pattern::SingleStream,
        Pattern::MultiStream { batches: 2 },
        Pattern::Offline { batches: 3 },
        Pattern::ConstantRate { rate },
    ] {
        let mut allocations = |allocates| {
            let before = ALLOCATIONS.load(Ordering::Relaxed);
            let mut sink = |_: Block<'_>| Ok::<_, Infallible>(());
            meter
                .run(&mut Nothing { allocates }, pattern, &rule, &mut sink)
                .expect("nothing fails");
            ALLOCATIONS.load(Ordering::Relaxed) - before
        };
        // An open loop makes its histogram of lateness before the schedule starts.
        let at_start = u64::from(pattern.arrivals().is_some());
        assert_eq!(allocations(false), at_start, "{pattern:?}");
        assert!(allocations(true) >= 1000, "the counter works");
    }
}
