//! What depends on the operating system: the terminal, signals, folders and names of programs.

use std::path::PathBuf;
use std::{io, thread};

use host_machine::process;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Columns of the terminal that standard output or standard error is connected to.
pub(crate) fn terminal_width() -> Option<usize> {
    let columns = |fd: std::os::fd::BorrowedFd<'_>| {
        let size = rustix::termios::tcgetwinsize(fd).ok()?;
        (size.ws_col > 0).then_some(usize::from(size.ws_col))
    };
    use std::os::fd::AsFd as _;
    columns(std::io::stdout().as_fd()).or_else(|| columns(std::io::stderr().as_fd()))
}

/// Calls `handle`, on a thread of its own, each time somebody asks this process to end: with
/// SIGINT, as Ctrl-C does, SIGTERM or SIGHUP. Those that it was started to ignore stay ignored, as
/// `nohup` asks for SIGHUP.
///
/// # Errors
///
/// Where the system does not let the process listen.
pub(crate) fn on_termination(mut handle: impl FnMut() + Send + 'static) -> io::Result<()> {
    let heard = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| !process::ignores(*signal));
    let mut signals = Signals::new(heard)?;
    let listen = move || {
        for _ in signals.forever() {
            handle();
        }
    };
    thread::Builder::new().name("signals".into()).spawn(listen).map(drop)
}

/// The user's cache folder of this program, by the XDG base directory specification.
pub(crate) fn cache_folder() -> Option<PathBuf> {
    let named = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let base = named.filter(|path| path.is_absolute()).or_else(|| {
        let home = std::env::home_dir().filter(|home| home.is_absolute())?;
        Some(home.join(".cache"))
    })?;
    Some(base.join("tare"))
}

/// Name of the executable that checks backends.
pub(crate) fn testkit_file_name() -> String {
    format!("plugin-testkit{}", std::env::consts::EXE_SUFFIX)
}

/// Name of the worker's executable.
pub(crate) fn worker_file_name() -> String {
    format!("host-worker{}", std::env::consts::EXE_SUFFIX)
}
