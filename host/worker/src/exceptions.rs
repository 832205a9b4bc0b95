/*!
Exceptions that leave a plugin's functions.

A backend in C++ that lets an exception out breaks the ABI's rules, and nothing can go on. The C++ library would print
the exception's text and abort if it found nobody who could catch it. Rust's `main` looks to it like somebody who could,
and aborts without the text. So this thread's work is called by a function without unwind tables: there the search
ends, and the text is printed. Threads of clients, and a thread that is sampled beside, still end at Rust's own.

Rust's own panics cannot pass it either. The worker does not survive one, so its hook ends the process.
*/

use crate::platform;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
std::arch::global_asm!(
    ".pushsection .text.tare_end_of_search,\"ax\",@progbits",
    ".globl tare_end_of_search",
    ".hidden tare_end_of_search",
    ".type tare_end_of_search, @function",
    "tare_end_of_search:",
    "push rbp",
    "mov rbp, rsp",
    "call rdi",
    "pop rbp",
    "ret",
    ".size tare_end_of_search, . - tare_end_of_search",
    ".popsection",
);

#[cfg(all(target_os = "linux", target_arch = "aarch64"))]
std::arch::global_asm!(
    ".pushsection .text.tare_end_of_search,\"ax\",@progbits",
    ".globl tare_end_of_search",
    ".hidden tare_end_of_search",
    ".type tare_end_of_search, @function",
    "tare_end_of_search:",
    "stp x29, x30, [sp, #-16]!",
    "mov x29, sp",
    "blr x0",
    "ldp x29, x30, [sp], #16",
    "ret",
    ".size tare_end_of_search, . - tare_end_of_search",
    ".popsection",
);

/// Exit code of a Rust program that panicked.
const PANICKED: i32 = 101;

/// Does the work of the process, which ends with it, so that exceptions find nobody who could catch them.
pub(crate) fn end_search_above(work: extern "C-unwind" fn()) {
    let report = std::panic::take_hook();
    let this = std::thread::current().id();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        if std::thread::current().id() == this {
            platform::end(PANICKED);
        }
    }));
    call(work);
}

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
fn call(work: extern "C-unwind" fn()) {
    unsafe extern "C" {
        /// Calls `work`, as the C calling convention has it.
        fn tare_end_of_search(work: extern "C-unwind" fn());
    }
    // SAFETY: it calls what it is given and returns. A panic does not pass it: the hook ends the process first.
    unsafe { tare_end_of_search(work) }
}

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
fn call(work: extern "C-unwind" fn()) {
    work();
}
