//! Checks a backend from the command line: `plugin-testkit LIBRARY FIXTURE`.

use std::path::Path;
use std::process::ExitCode;

use plugin_testkit::{Fixture, Suite};

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "this is a command")]
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [library, fixture] = arguments.as_slice() else {
        eprintln!("usage: plugin-testkit LIBRARY FIXTURE.toml");
        return ExitCode::from(2);
    };
    let fixture = match Fixture::read(Path::new(fixture)) {
        Ok(fixture) => fixture,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    // SAFETY: whoever runs this wants the library's code to run, and nobody else uses it here.
    match unsafe { Suite::open(Path::new(library)) } {
        Ok(suite) => {
            let report = suite.check(&fixture);
            println!("{report}");
            ExitCode::from(u8::from(report.failures().next().is_some()))
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}
