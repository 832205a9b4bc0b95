//! A program that only compiles components, for tests of the sandbox.

use std::process::ExitCode;

fn main() -> ExitCode {
    host_wasm::compiler_process().unwrap_or(ExitCode::FAILURE)
}
