//! Being asked to end what is under way.
//!
//! The host may ask on standard input, while this process is in a call of the backend. So there is a thread
//! that waits for that, only with a backend that can be asked; it sleeps in the kernel until a line comes.

use std::io::{self, BufRead};
use std::thread;

use host_record::protocol::{CANCEL, Message};
use plugin_api::client::{Backend, Canceller};

use crate::connection::Connection;

/// Listens for requests to cancel, if the backend supports them, and tells the host.
pub(crate) fn listen(connection: &mut Connection, backend: &Backend) -> io::Result<()> {
    // A table that breaks the rules is as good as none: the host ends the process by force.
    let Some(Ok(canceller)) = backend.canceller() else { return Ok(()) };
    thread::Builder::new().name("cancel".into()).spawn(move || wait(&canceller))?;
    connection.send(&Message::Cancellable)
}

fn wait(canceller: &Canceller) {
    let mut line = String::new();
    // The host says no more than this, and the end of the input says nothing.
    if io::stdin().lock().read_line(&mut line).is_ok() && line.trim_end() == CANCEL {
        // If the backend cannot, the host ends the process by force.
        let _ = canceller.cancel();
    }
}
