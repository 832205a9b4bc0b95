//! The command `host`.

use std::process::ExitCode;

fn main() -> ExitCode {
    // Plugins are compiled in a process of their own, which is this program again.
    host_wasm::compiler_process().unwrap_or_else(|| host_cli::run().into())
}
