//! The server over real connections.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use host_serve::{Policy, Request, Response, Server};

fn started() -> (u16, String) {
    let server = Arc::new(Server::bind(0).expect("a free port"));
    let url = server.url();
    let rest = url.strip_prefix("http://127.0.0.1:").expect("the loopback address");
    let (port, token) = rest.split_once('/').expect("a path");
    let (port, token) = (port.parse().expect("a port"), token.trim_matches('/').to_owned());
    std::thread::spawn(move || {
        server.run(|request: &Request| match &request.path[..] {
            [] => Response::page("<p>home".to_owned()),
            [name] if name == "file" => {
                Response { policy: Policy::Sandboxed, ..Response::page("<p>".to_owned()) }
            }
            _ => Response::not_found(),
        });
    });
    (port, token)
}

fn ask(port: u16, request: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn pages_come_with_their_policy_and_only_with_the_token() {
    let (port, token) = started();
    let get =
        |path: &str| ask(port, &format!("GET {path} HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n"));
    let home = get(&format!("/{token}/"));
    assert!(home.starts_with("HTTP/1.1 200 OK\r\n") && home.ends_with("\r\n\r\n<p>home"), "{home}");
    for header in [
        "Content-Security-Policy: default-src 'none'; style-src 'self'",
        "Referrer-Policy: no-referrer",
        "X-Content-Type-Options: nosniff",
        "Cache-Control: no-store",
    ] {
        assert!(home.contains(header), "{header}: {home}");
    }
    assert!(get(&format!("/{token}/file")).contains("sandbox allow-scripts"));
    assert!(get(&format!("/{token}/../../etc/passwd")).starts_with("HTTP/1.1 404 "));
    assert!(get("/").starts_with("HTTP/1.1 404 "));
    let head = ask(port, &format!("HEAD /{token}/ HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n"));
    assert!(head.contains("Content-Length: 7\r\n") && head.ends_with("\r\n\r\n"), "{head}");
}

#[test]
fn a_name_that_points_here_opens_nothing() {
    let (port, token) = started();
    let rebound =
        ask(port, &format!("GET /{token}/ HTTP/1.1\r\nHost: evil.example:{port}\r\n\r\n"));
    assert!(rebound.starts_with("HTTP/1.1 421 "), "{rebound}");
    let post = ask(
        port,
        &format!(
            "POST /{token}/ HTTP/1.1\r\nHost: localhost:{port}\r\nContent-Length: 3\r\n\r\nabc"
        ),
    );
    assert!(post.starts_with("HTTP/1.1 405 ") && post.contains("Allow: GET, HEAD"), "{post}");
    let long = "x".repeat(20_000);
    let long =
        ask(port, &format!("GET /{token}/{long} HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n"));
    assert!(long.starts_with("HTTP/1.1 431 "), "{long:.200}");
    assert!(ask(port, "nonsense\r\n\r\n").starts_with("HTTP/1.1 400 "));
}
