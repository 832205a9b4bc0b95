//! The command `host`.

use std::process::ExitCode;

fn main() -> ExitCode {
    host_cli::run().into()
}
