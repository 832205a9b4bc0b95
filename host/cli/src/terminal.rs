//! The terminal and the signals of the operating system.

use std::{io, thread};

use host_machine::process;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Returns the columns of the terminal that standard output or standard error is connected to.
pub(crate) fn terminal_width() -> Option<usize> {
    let columns = |fd: std::os::fd::BorrowedFd<'_>| {
        let size = rustix::termios::tcgetwinsize(fd).ok()?;
        (size.ws_col > 0).then_some(usize::from(size.ws_col))
    };
    use std::os::fd::AsFd as _;
    columns(std::io::stdout().as_fd()).or_else(|| columns(std::io::stderr().as_fd()))
}

/// Asks a question on the terminal. Without a terminal the answer is no.
pub(crate) fn confirms(question: &str) -> bool {
    use std::io::{IsTerminal as _, Write as _};
    let (stdin, mut stderr) = (io::stdin(), io::stderr());
    if !stdin.is_terminal() || !stderr.is_terminal() {
        return false;
    }
    let asked = stderr.write_all(question.as_bytes()).and_then(|()| stderr.flush());
    let mut answer = String::new();
    asked.is_ok()
        && stdin.read_line(&mut answer).is_ok()
        && matches!(answer.trim(), "y" | "Y" | "yes")
}

/// Calls `handle`, on its own thread, each time this process is asked to end: with
/// SIGINT, as Ctrl-C does, SIGTERM or SIGHUP. Those that it was started to ignore stay ignored, as
/// `nohup` asks for SIGHUP.
///
/// # Errors
///
/// If the operating system refuses the handler.
pub(crate) fn on_termination(mut handle: impl FnMut() + Send + 'static) -> io::Result<()> {
    let signals = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| !process::ignores(*signal));
    let mut signals = Signals::new(signals)?;
    let listen = move || {
        for _ in signals.forever() {
            handle();
        }
    };
    thread::Builder::new().name("signals".into()).spawn(listen).map(drop)
}
