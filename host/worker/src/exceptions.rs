/*!
Exceptions that leave a plugin's functions.

A backend in C++ that lets an exception out breaks the ABI's rules, and nothing can go on. The C++ library would print
the exception's text and abort if it found nobody who could catch it. Rust's `main` looks to it like somebody who could,
and aborts without the text; so does the start of each of Rust's threads. So every thread that calls a plugin does its work
below a function without unwind tables: there the search ends, and the text is printed.

Rust's own panics cannot pass it either. The worker does not survive one, so its hook ends the process.
*/

use std::cell::Cell;
use std::ffi::c_void;
use std::sync::Once;

use crate::platform;

/// Defines `tare_end_of_search`, which calls its first argument with its second, without unwind tables.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
macro_rules! end_of_search {
    ($($instruction:literal),* $(,)?) => {
        std::arch::global_asm!(
            ".pushsection .text.tare_end_of_search,\"ax\",@progbits",
            ".globl tare_end_of_search",
            ".hidden tare_end_of_search",
            ".type tare_end_of_search, @function",
            "tare_end_of_search:",
            $($instruction,)*
            ".size tare_end_of_search, . - tare_end_of_search",
            ".popsection",
        );
    };
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
end_of_search!(
    "push rbp",
    "mov rbp, rsp",
    "mov rax, rdi",
    "mov rdi, rsi",
    "call rax",
    "pop rbp",
    "ret",
);

#[cfg(all(target_os = "linux", target_arch = "aarch64"))]
end_of_search!(
    "stp x29, x30, [sp, #-16]!",
    "mov x29, sp",
    "mov x9, x0",
    "mov x0, x1",
    "blr x9",
    "ldp x29, x30, [sp], #16",
    "ret",
);

/// Exit code of a Rust program that panicked.
const PANICKED: i32 = 101;

thread_local! {
    /// Whether this thread is below the end of a search.
    static IS_BELOW: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work` on this thread below the end of the search, so that no handler catches its exceptions. A panic ends the
/// process.
pub(crate) fn end_search_above<R>(work: impl FnOnce() -> R) -> R {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            report(panic);
            if IS_BELOW.get() {
                platform::end(PANICKED);
            }
        }));
    });
    let mut job = Job { work: Some(work), result: None };
    let was_below = IS_BELOW.replace(true);
    call(job_of(&job), (&raw mut job).cast());
    IS_BELOW.set(was_below);
    job.result.expect("the job was done")
}

/// Work, and later its result.
struct Job<F, R> {
    work: Option<F>,
    result: Option<R>,
}

type Work = unsafe extern "C-unwind" fn(*mut c_void);

/// Returns the function that does a job of this type.
fn job_of<F: FnOnce() -> R, R>(_: &Job<F, R>) -> Work {
    unsafe extern "C-unwind" fn work<F: FnOnce() -> R, R>(job: *mut c_void) {
        // SAFETY: it is the job of this type that `end_search_above` holds meanwhile.
        let job = unsafe { &mut *job.cast::<Job<F, R>>() };
        job.result = job.work.take().map(|work| work());
    }
    work::<F, R>
}

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
fn call(work: Work, job: *mut c_void) {
    unsafe extern "C-unwind" {
        /// Calls `work` with `job`, as the C calling convention has it.
        fn tare_end_of_search(work: Work, job: *mut c_void);
    }
    // SAFETY: it calls what it is given and returns. A panic does not pass it: the hook ends the process first.
    unsafe { tare_end_of_search(work, job) }
}

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
fn call(work: Work, job: *mut c_void) {
    // SAFETY: the job is of the function's type.
    unsafe { work(job) }
}
