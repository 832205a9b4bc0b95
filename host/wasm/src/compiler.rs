/*!
Compiling a component, in a separate process if there is a program for it.

A small component can take minutes and gigabytes to compile: time and memory grow faster than the size of a function,
and the plugin's author chooses its functions. wasmtime has no limits for this. So the host's own program is started
again as a compiler, with a limit on its memory that the system enforces and a limit on its time. The component goes
to its standard input, the compiled code into a file that is its standard output, and a refusal to its standard error.
It inherits only the environment that it needs to start, and ends with the process that started it.
*/

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use wasmtime::Engine;

use crate::engine::{engine, precompile};
use crate::error::GuestErrorKind;
use crate::limits::{Cancel, LOOK};
use crate::platform::{End, limit_this_process};

/// Components larger than this, in bytes, are not read.
pub(crate) const LARGEST_COMPONENT: u64 = 64 << 20;

/// The first argument of a compiler.
const COMMAND: &str = "compile-component";

/// Exit code of a compiler that refuses the component.
const REFUSED: u8 = 65;
/// Exit code of a compiler that could not begin.
const NOT_STARTED: u8 = 70;

/// A compilation that takes longer is reported.
const SLOW: Duration = Duration::from_secs(1);

/// Bytes of a compiler's standard error that are kept.
const KEPT: u64 = 4096;

/// Variables that a compiler inherits: where the system finds the libraries of the host's program.
const INHERITED: [&str; 2] = ["LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"];

/// Limits of compiling a component in a separate process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompilerLimits {
    /// Time.
    pub time: Duration,
    /// Further time for each whole mebibyte of the component: one that carries an interpreter is large, and not hostile.
    pub time_per_mebibyte: Duration,
    /// Bytes of memory of the compiling process.
    pub memory_bytes: u64,
    /// Bytes of compiled code.
    pub code_bytes: u64,
}

impl Default for CompilerLimits {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(120),
            time_per_mebibyte: Duration::from_secs(15),
            memory_bytes: 3 << 30,
            code_bytes: 192 << 20,
        }
    }
}

/// Returns what is wrong with a component, and the remedy if it is of a kind that some compilers make by default.
fn detail(error: &wasmtime::Error) -> String {
    let detail = format!("{error:#}");
    if detail.contains("component model async") {
        return format!(
            "it has asynchronous calls of WASI 0.3, which this host does not run: build it for WASI 0.2 (with jco and QuickJS, by `--backend-qjs-disable-async`); {detail}"
        );
    }
    detail
}

/// Compiles in this process, without limits, and returns the code. Calls `tell` if it takes long.
pub(crate) fn compile_here(
    engine: &Engine,
    bytes: &[u8],
    tell: &mut dyn FnMut(),
) -> Result<Vec<u8>, GuestErrorKind> {
    thread::scope(|scope| {
        let (done, is_done) = mpsc::channel::<()>();
        let compiling = scope.spawn(move || {
            let compiled = precompile(engine, bytes);
            drop(done);
            compiled
        });
        if is_done.recv_timeout(SLOW) == Err(RecvTimeoutError::Timeout) {
            tell();
        }
        let compiled = compiling.join().map_err(|_| GuestErrorKind::NotCompiled {
            reason: "the compiler has a fault that this component shows".into(),
        })?;
        compiled.map_err(|error| GuestErrorKind::NotAComponent { detail: detail(&error) })
    })
}

/// Compiles in a process of its own, into `output`, until it is cancelled. Calls `tell` if it takes long.
pub(crate) fn compile_apart(
    program: &Path,
    limits: &CompilerLimits,
    bytes: Vec<u8>,
    output: File,
    cancel: &Cancel,
    tell: &mut dyn FnMut(),
) -> Result<(), GuestErrorKind> {
    let host = |what: &str, error: io::Error| GuestErrorKind::Host {
        detail: format!("{what} {}: {error}", program.display()),
    };
    let mebibytes = u32::try_from(bytes.len() >> 20).unwrap_or(u32::MAX);
    let longest = limits.time.saturating_add(limits.time_per_mebibyte.saturating_mul(mebibytes));
    let mut command = Command::new(program);
    command
        .arg(COMMAND)
        .args([limits.memory_bytes, limits.code_bytes].map(|it| it.to_string()))
        .arg(std::process::id().to_string())
        .env_clear()
        .envs(INHERITED.iter().filter_map(|name| Some((name, std::env::var_os(name)?))))
        // Each arena of the allocator reserves memory that counts.
        .env("MALLOC_ARENA_MAX", "2")
        .stdin(Stdio::piped())
        .stdout(output)
        .stderr(Stdio::piped());
    let mut child = Running(command.spawn().map_err(|error| host("cannot start", error))?);
    let mut input = child.0.stdin.take().expect("it is piped");
    let mut errors = child.0.stderr.take().expect("it is piped");
    let feeding = thread::Builder::new().name("compiler-input".into()).spawn(move || {
        // A compiler that ends early reports the reason.
        let _ = input.write_all(&bytes);
    });
    feeding.map_err(|error| host("no thread to feed", error))?;
    let (ended, has_ended) = mpsc::channel();
    let listening = thread::Builder::new().name("compiler-errors".into()).spawn(move || {
        let mut text = Vec::new();
        let _ = (&mut errors).take(KEPT).read_to_end(&mut text);
        let _ = io::copy(&mut errors, &mut io::sink());
        let _ = ended.send(text);
    });
    listening.map_err(|error| host("no thread to listen to", error))?;

    let start = Instant::now();
    let mut is_told = false;
    let said = loop {
        match has_ended.recv_timeout(LOOK.min(longest.saturating_sub(start.elapsed()))) {
            Ok(said) => break said,
            Err(_) if cancel.is_asked() => return Err(GuestErrorKind::Cancelled),
            Err(_) if start.elapsed() >= longest => {
                return Err(GuestErrorKind::NotCompiled {
                    reason: format!("it takes longer than {} s, the limit", longest.as_secs_f64()),
                });
            }
            Err(_) if !is_told && start.elapsed() >= SLOW => {
                is_told = true;
                tell();
            }
            Err(_) => {}
        }
    };
    let end = End::from(child.0.wait().map_err(|error| host("cannot wait for", error))?);
    let said = String::from_utf8_lossy(&said);
    let said: String = said.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let reason = match end {
        End::Code(0) => return Ok(()),
        End::Code(code) if code == i32::from(REFUSED) => {
            return Err(GuestErrorKind::NotAComponent { detail: said });
        }
        End::OutOfMemory => format!("it needs more than {} bytes, the limit", limits.memory_bytes),
        End::FileTooLarge => format!("it becomes more than {} bytes, the limit", limits.code_bytes),
        End::Crashed(signal) => format!("the compiler crashed with signal {signal}"),
        End::Code(code) if code != i32::from(NOT_STARTED) => {
            format!("the compiler ended with code {code}: {said}")
        }
        End::Code(_) => {
            return Err(GuestErrorKind::Host { detail: format!("the compiler: {said}") });
        }
        End::Ended(signal) => {
            return Err(GuestErrorKind::Host {
                detail: format!("the compiler was ended by signal {signal}"),
            });
        }
    };
    Err(GuestErrorKind::NotCompiled { reason })
}

/// A process that is killed when dropped, if it was not waited for.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Compiles a component if this process was started for that, and returns its exit code. A program
/// that is named in [`SandboxOptions::compiler`](crate::SandboxOptions) calls this first.
#[must_use]
pub fn compiler_process() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != COMMAND {
        return None;
    }
    let (code, error) = match compile(arguments) {
        Ok(()) => return Some(ExitCode::SUCCESS),
        Err(Refusal::Component(error)) => (REFUSED, detail(&error)),
        Err(Refusal::Start(error)) => (NOT_STARTED, error.to_string()),
    };
    // There is no other way to report it.
    let _ = io::stderr().write_all(error.as_bytes());
    Some(ExitCode::from(code))
}

enum Refusal {
    Component(wasmtime::Error),
    Start(io::Error),
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::Start(error)
    }
}

fn compile(mut arguments: impl Iterator<Item = OsString>) -> Result<(), Refusal> {
    let mut number = || -> io::Result<u64> {
        let number = arguments.next().and_then(|text| text.to_str()?.parse().ok());
        number.ok_or_else(|| {
            io::Error::other(format!("`{COMMAND}` is for the host's own use, and takes numbers"))
        })
    };
    let (memory, code, parent) = (number()?, number()?, number()?);
    let parent = u32::try_from(parent).map_err(io::Error::other)?;
    limit_this_process(memory, code, parent)?;
    let mut bytes = Vec::new();
    io::stdin().take(LARGEST_COMPONENT + 1).read_to_end(&mut bytes)?;
    let engine =
        engine().map_err(|error| Refusal::Start(io::Error::other(format!("{error:#}"))))?;
    let compiled = precompile(&engine, &bytes).map_err(Refusal::Component)?;
    Ok(io::stdout().write_all(&compiled)?)
}
