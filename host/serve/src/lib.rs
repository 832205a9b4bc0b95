/*!
A local, read-only HTTP server for pages about results.

It listens on the loopback interface alone, and its address has a token that cannot be guessed: other users of the machine
and pages in a browser can reach the port, and get nothing without the token. A request whose `Host` is not this server's
is refused, so that a name that someone else points at 127.0.0.1 (DNS rebinding) opens nothing. There is one method, GET
(and HEAD, which is GET without the body), so nothing can be changed.

A path is split at its slashes *before* it is decoded, and the handler gets the segments: a `%2f` or `..` in one of them is
a name like any other, which nothing has. No path of a request ever becomes a path of a file.

Each connection has one request, a thread and a few seconds. The parser is `httparse`, hyper's; everything else that HTTP
asks of such a server is here. Rejected: tiny_http (its last release is of 2022), and hyper or axum with tokio, an
asynchronous runtime and forty crates for a page that one person looks at.
*/

mod request;

use std::io::{self, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

pub use request::Request;
use request::{LONGEST_HEAD, Refused, parse};

/// Time for a request to arrive, and for its answer to leave.
const PATIENCE: Duration = Duration::from_secs(10);

/// Connections that are served at the same time.
const MOST_CONNECTIONS: usize = 16;

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// Status code.
    pub status: u16,
    /// Media type.
    pub kind: &'static str,
    /// Content.
    pub body: Vec<u8>,
    /// Permissions of the content in a browser.
    pub policy: Policy,
    /// Whether a browser may keep it: only what never changes while the server runs.
    pub is_constant: bool,
}

/// Permissions of content in a browser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// Pages of the server's own: its style, its scripts, and forms that lead back to it.
    Own,
    /// A file that a plugin wrote: scripts and styles within it, in an origin of its own, which cannot read other pages.
    Sandboxed,
}

impl Response {
    /// Returns a page of the server's own.
    #[must_use]
    pub fn page(body: String) -> Self {
        Self {
            status: 200,
            kind: "text/html; charset=utf-8",
            body: body.into_bytes(),
            policy: Policy::Own,
            is_constant: false,
        }
    }

    /// Returns an answer in plain text.
    #[must_use]
    pub fn text(status: u16, text: &str) -> Self {
        let body = format!("{text}\n").into_bytes();
        Self { status, kind: "text/plain; charset=utf-8", body, ..Self::page(String::new()) }
    }

    /// Returns the answer for what is not there.
    #[must_use]
    pub fn not_found() -> Self {
        Self::text(404, "There is nothing here.")
    }
}

/// Why the server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The port cannot be had.
    #[error("cannot listen on 127.0.0.1:{port}")]
    Bind {
        /// The port.
        port: u16,
        /// Reason.
        #[source]
        source: io::Error,
    },
    /// The system has no random numbers.
    #[error("cannot make a token: the system gives no random numbers")]
    Random,
}

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    token: String,
}

impl Server {
    /// Listens on the loopback interface; port 0 is any free one.
    ///
    /// # Errors
    ///
    /// If the port is taken, or the system has no random numbers.
    pub fn bind(port: u16) -> Result<Self, ServeError> {
        let bound = |source| ServeError::Bind { port, source };
        let listener = TcpListener::bind((IpAddr::V4(Ipv4Addr::LOCALHOST), port)).map_err(bound)?;
        let address = listener.local_addr().map_err(bound)?;
        let mut bytes = [0_u8; 16];
        getrandom::fill(&mut bytes).map_err(|_| ServeError::Random)?;
        let token = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { listener, address, token })
    }

    /// Returns the address to open, with the token.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/{}/", self.address, self.token)
    }

    /// Returns the beginning of the paths of all pages: `/TOKEN`.
    #[must_use]
    pub fn base(&self) -> String {
        format!("/{}", self.token)
    }

    /// Answers requests until the process ends. The handler gets only requests with the token.
    pub fn run(&self, handler: impl Fn(&Request) -> Response + Sync) {
        let open = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for stream in self.listener.incoming() {
                let stream = match stream {
                    Ok(stream) => stream,
                    Err(error) => {
                        tracing::debug!(%error, "a connection was lost");
                        continue;
                    }
                };
                if open.fetch_add(1, Ordering::SeqCst) >= MOST_CONNECTIONS {
                    open.fetch_sub(1, Ordering::SeqCst);
                    let busy = Response::text(503, "Too many connections at once; try again.");
                    drop(write(&stream, &busy, true));
                    continue;
                }
                let (handler, open) = (&handler, &open);
                scope.spawn(move || {
                    let started = Instant::now();
                    if let Err(error) = self.serve(&stream, handler) {
                        tracing::debug!(%error, "a request was not answered");
                    }
                    tracing::debug!(elapsed = ?started.elapsed(), "request");
                    open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
    }

    fn serve(&self, stream: &TcpStream, handler: &impl Fn(&Request) -> Response) -> io::Result<()> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let head = read_head(stream)?;
        let (response, with_body) = match parse(&head, self.address.port(), &self.token) {
            Ok(request) => (handler(&request), !request.is_head),
            Err(refused) => (answer(refused), true),
        };
        write(stream, &response, with_body)
    }
}

fn answer(refused: Refused) -> Response {
    match refused {
        Refused::Malformed => Response::text(400, "This is not a request that can be read."),
        Refused::TooLong => Response::text(431, "The request is too long."),
        Refused::Method => {
            Response::text(405, "Only GET and HEAD are allowed: nothing can be changed here.")
        }
        Refused::ForeignHost => {
            Response::text(421, "This server answers as 127.0.0.1 and localhost only.")
        }
        Refused::NoToken => Response::text(
            404,
            "There is nothing here. The address that `host serve` printed has a token.",
        ),
    }
}

/// Reads up to the empty line. The time for all of it is bounded, however slowly it drips.
fn read_head(stream: &TcpStream) -> io::Result<Vec<u8>> {
    let end = Instant::now() + PATIENCE;
    let mut reader = BufReader::with_capacity(1 << 10, stream);
    let mut head = Vec::new();
    let mut byte = [0_u8];
    while !head.ends_with(b"\r\n\r\n") && head.len() <= LONGEST_HEAD {
        if Instant::now() > end {
            return Err(io::ErrorKind::TimedOut.into());
        }
        if reader.read(&mut byte)? == 0 {
            break;
        }
        head.push(byte[0]);
    }
    Ok(head)
}

fn write(mut stream: &TcpStream, response: &Response, with_body: bool) -> io::Result<()> {
    let reason = match response.status {
        200 => "OK",
        303 => "See Other",
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed",
        421 => "Misdirected Request",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        _ => "Internal Server Error",
    };
    let policy = match response.policy {
        Policy::Own => {
            "default-src 'none'; style-src 'self' 'unsafe-inline'; script-src 'self'; img-src data:; \
             base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
        }
        Policy::Sandboxed => {
            "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; \
             font-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
             sandbox allow-scripts allow-downloads"
        }
    };
    let keep = if response.is_constant { "private, max-age=3600" } else { "no-store" };
    let allow = if response.status == 405 { "Allow: GET, HEAD\r\n" } else { "" };
    let head = format!(
        "HTTP/1.1 {} {reason}\r\nContent-Type: {}\r\nContent-Length: {}\r\nContent-Security-Policy: {policy}\r\n\
         Cache-Control: {keep}\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n\
         Cross-Origin-Resource-Policy: same-origin\r\nCross-Origin-Opener-Policy: same-origin\r\n{allow}\
         Connection: close\r\n\r\n",
        response.status,
        response.kind,
        response.body.len(),
    );
    stream.write_all(head.as_bytes())?;
    if with_body {
        stream.write_all(&response.body)?;
    }
    stream.flush()?;
    // What the client still sends is read, or its kernel would drop the answer.
    stream.shutdown(std::net::Shutdown::Write)?;
    stream.set_read_timeout(Some(Duration::from_millis(200)))?;
    drop(io::copy(&mut stream.take(1 << 16), &mut io::sink()));
    Ok(())
}
