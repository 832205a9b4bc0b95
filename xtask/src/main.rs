/*!
The project's tasks, as `cargo xtask TASK`.

Newcomers, developers and CI use the same tasks. Each task first runs its prerequisites: `run` sets up, builds and
lays out the plugins before it measures. This crate has few dependencies, because it is compiled first.
*/

mod bench;
mod check;
mod field;
mod fuzz;
mod generate;
mod layout;
mod macos;
mod packages;
mod python;
mod runtimes;
mod setup;
mod shell;
mod torch;
mod wheel;

use std::path::PathBuf;
use std::process::ExitCode;

use layout::Profile;
use shell::{Failed, say};

const HELP: &str = "\
The project's tasks.

Usage: cargo xtask TASK [ARGUMENTS]

Tasks:
  setup               Install what the build needs: the wasm32-wasip2 target and libduckdb
  build [--release]   Build host, worker and plugins, and put them into one folder
  build torch [--release] [--pytorch FOLDER]
                      Build the engine of the backend `torch` into that folder. Needs a C++ compiler, several
                      minutes, and PyTorch 2.11.0: FOLDER of a Python package `torch`, or else its wheel (531 MB),
                      which pip fetches once
  run MANIFEST …      Build, then `host run MANIFEST …`
  test [FILTER …]     The whole test suite, or the tests whose names match
  test --runtimes     The whole test suite, including large runtimes and tests that take minutes
  lint                Formatting, clippy, dependency licences and advisories
  check-macos         Link the tool for macOS with its backends `cpu` and `mps`, and run nothing
  check-packages      Pack what plugin authors depend on, and build plugins on the packages elsewhere
  check-python [FILTER …]
                      Pack the Python package, run the quickstart with nothing but it, and run its tests
  fuzz [TARGET …] [--seconds N]
                      Search for input from strangers that breaks the tool, a minute for each target
  generate [--check]  Write the generated files, or check that they are up to date
  bench [NAME]        Measure the tool itself: loop, start, minimal, plan, guest, compare; or prove a claim and write a page
                      of docs/reference: overhead, statistics, repeatability, and
                      fidelity [--rounds N] [--seconds N] [--runtime NAME]
  field [--rounds N] [--seconds N] [--model ID]
                      Fetch public trained models, run them on all engines of a processor, and write
                      docs/reference/field.md
  package FOLDER      Copy the built tool, with its plugins, into a folder
  wheel [--release]   Build the tool, and pack it as a wheel of the Python package
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (task, rest) = match arguments.split_first() {
        Some((task, rest)) => (task.as_str(), rest),
        None => ("help", &[] as &[String]),
    };
    let outcome = match task {
        "setup" => setup::setup(),
        "build" => build(rest),
        "run" => run(rest),
        "test" => check::test(rest),
        "lint" => check::lint(),
        "check-macos" => macos::check_macos(),
        "check-packages" => packages::check_packages(),
        "field" => field::field(rest),
        "fuzz" => fuzz::fuzz(rest),
        "generate" => generate::generate(rest.iter().any(|argument| argument == "--check")),
        "bench" => bench::bench(rest),
        "package" => package(rest),
        "wheel" => wheel(rest),
        "check-python" => wheel::check_python(rest),
        "help" | "--help" | "-h" => {
            shell::print(HELP);
            Ok(())
        }
        other => Err(Failed::new(format!("there is no task `{other}`\n\n{HELP}"))),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => {
            say(&format!("error: {failed}"));
            ExitCode::from(failed.code())
        }
    }
}

fn build(arguments: &[String]) -> Result<(), Failed> {
    let profile = match arguments {
        [] => Profile::Debug,
        [flag] if flag == "--release" => Profile::Release,
        [what, rest @ ..] if what == "torch" => return torch::build(rest),
        _ => return Err(Failed::new("usage: cargo xtask build [--release | torch …]")),
    };
    setup::setup()?;
    layout::build(profile).map(drop)
}

fn wheel(arguments: &[String]) -> Result<(), Failed> {
    let profile = match arguments {
        [] => Profile::Debug,
        [flag] if flag == "--release" => Profile::Release,
        _ => return Err(Failed::new("usage: cargo xtask wheel [--release]")),
    };
    wheel::wheel(profile).map(drop)
}

fn run(arguments: &[String]) -> Result<(), Failed> {
    if arguments.is_empty() {
        return Err(Failed::new("usage: cargo xtask run MANIFEST [ARGUMENTS OF `host run`]"));
    }
    setup::setup()?;
    let folder = layout::build(Profile::Debug)?;
    let host = folder.join("host");
    say(&format!("$ {} run {}", shell::relative(&host), arguments.join(" ")));
    shell::command(host).arg("run").args(arguments).replace()
}

fn package(arguments: &[String]) -> Result<(), Failed> {
    let [target] = arguments else {
        return Err(Failed::new("usage: cargo xtask package FOLDER"));
    };
    setup::setup()?;
    let built = layout::build(Profile::Release)?;
    layout::copy_to(&built, &PathBuf::from(target))
}
