//! `host serve`: pages over a real results folder, and what it does not answer.

#![cfg(unix)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use end_to_end::Place;

/// A server that ends with the test.
struct Served {
    child: Child,
    port: u16,
    token: String,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Served {
    fn start(place: &Place) -> Self {
        let mut child = place
            .host(&["serve"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("starting host");
        let mut line = String::new();
        let out = child.stdout.take().expect("standard output is piped");
        BufReader::new(out).read_line(&mut line).expect("an address");
        let rest = line.trim().strip_prefix("http://127.0.0.1:").expect("the loopback address");
        let (port, token) = rest.split_once('/').expect("a token");
        let (port, token) = (port.parse().expect("a port"), token.trim_matches('/').to_owned());
        assert_eq!(token.len(), 32, "{token}");
        Self { child, port, token }
    }

    fn raw(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("a connection");
        stream.write_all(request.as_bytes()).expect("sent");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer");
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn get(&self, path: &str) -> String {
        let Self { port, token, .. } = self;
        self.raw(&format!("GET /{token}/{path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n"))
    }

    fn page(&self, path: &str) -> String {
        let answer = self.get(path);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{path}: {answer:.600}");
        answer
    }
}

fn manifest(name: &str) -> String {
    format!(
        "schema = 1\n[experiment]\nname = \"{name}\"\ndescription = \"a <b> here\"\n[[model]]\nid = \"any\"\npath = \"any.model\"\n\
         [[backend]]\nid = \"null\"\n[matrix]\nbatch = [1, 2]\n[measure]\nwarm-up = 1\nduration = \"20ms\"\n\
         minimum-queries = 1\n[[metric]]\nplugin = \"latency\"\n[[report]]\nplugin = \"html\"\n[[report]]\nplugin = \"csv\"\n"
    )
}

#[test]
fn runs_comparisons_histories_and_reports_are_pages() {
    let place = Place::new();
    place.write("any.model", "anything");
    let served = Served::start(&place);
    assert!(served.page("").contains("has no run yet"), "an empty folder is not an error");
    place.write("it.toml", &manifest("served"));
    for _ in 0..2 {
        let _ = place.run(&["run", "it.toml"]).expect(0);
    }
    let runs = place.run(&["--format", "json", "results", "list"]).expect(0).json();
    let [first, second] =
        [0, 1].map(|index| runs[index]["run_id"].as_str().expect("a run").to_owned());

    let home = served.page("");
    assert!(home.contains(&first) && home.contains(&second), "the page follows the database");
    let run = served.page(&format!("run/{second}"));
    assert!(run.contains("a &lt;b&gt; here") && !run.contains("a <b> here"), "{run:.3000}");
    assert!(run.contains("html") && run.contains(&format!("first={first}")));
    let report = served.page(&format!("run/{second}/html/report.html"));
    assert!(report.contains("sandbox allow-scripts") && report.contains("Content-Type: text/html"));
    assert!(
        served.page(&format!("run/{second}/csv/results.csv")).contains("Content-Type: text/csv")
    );
    let compared = served.page(&format!("compare?first={first}&second={second}"));
    assert!(compared.contains("What changed between two runs"), "{compared:.2000}");
    assert!(served.page("history").contains("history/any"));
    assert!(served.page("history/%61ny").contains("History of any"));
    for name in ["style.css", "script.js", "library.js"] {
        assert!(served.page(name).contains("max-age"), "{name}");
    }
    // Nothing was written.
    let again = place.run(&["--format", "json", "results", "list"]).expect(0).json();
    assert_eq!(again, runs);
}

#[test]
fn nothing_else_is_answered() {
    let place = Place::new();
    place.write("any.model", "anything");
    place.write("it.toml", &manifest("served"));
    let _ = place.run(&["run", "it.toml"]).expect(0);
    let folder = place.run_folder();
    let run = folder.file_name().expect("a name").to_string_lossy().into_owned();
    // A link in a report's folder, and files that the host did not list.
    let csv = folder.join("reports/csv");
    std::fs::write(place.path().join("secret"), "secret").expect("a file");
    std::os::unix::fs::symlink(place.path().join("secret"), csv.join("linked.csv"))
        .expect("a link");
    std::os::unix::fs::symlink(place.path(), folder.join("reports/out")).expect("a link");
    std::fs::write(csv.join("unlisted.csv"), "secret").expect("a file");
    let list = csv.join("files.sha256");
    let listed = std::fs::read_to_string(&list).expect("the list");
    std::fs::write(&list, format!("{listed}{}  linked.csv\n", "0".repeat(64)))
        .expect("a forged list");

    let served = Served::start(&place);
    for path in [
        format!("run/{run}/csv/linked.csv"),
        format!("run/{run}/csv/unlisted.csv"),
        format!("run/{run}/csv/files.sha256"),
        format!("run/{run}/out/secret"),
        format!("run/{run}/csv/../../journal.jsonl"),
        format!("run/{run}/csv/..%2f..%2fjournal.jsonl"),
        format!("run/{run}/../{run}/csv/results.csv"),
        format!("run/{run}/journal.jsonl"),
        format!("run/{run}/%2e%2e/journal.jsonl"),
        "run/..".into(),
        "run/%2e%2e".into(),
        format!("run/..%2fruns%2f{run}"),
        "../../etc/passwd".into(),
        "%2e%2e/%2e%2e/etc/passwd".into(),
        "run/nonesuch".into(),
        format!("compare?first={run}&second=/etc/passwd"),
        format!("compare?first={run}&second=..%2f..%2fsecret"),
        format!("compare?first={run}"),
        "history/nonesuch".into(),
        "history/'%20OR%201=1".into(),
        "elsewhere".into(),
    ] {
        let answer = served.get(&path);
        assert!(answer.starts_with("HTTP/1.1 404 "), "{path}: {answer:.300}");
        assert!(!answer.contains("secret") && !answer.contains("root:"), "{path}: {answer}");
    }
    let (port, token) = (served.port, &served.token);
    let other = served.raw(&format!("GET /{token}/ HTTP/1.1\r\nHost: evil.example:{port}\r\n\r\n"));
    assert!(other.starts_with("HTTP/1.1 421 "), "{other}");
    let wrong = "0".repeat(32);
    let none = served.raw(&format!("GET /{wrong}/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n"));
    assert!(none.starts_with("HTTP/1.1 404 ") && !none.contains(token.as_str()), "{none}");
    let post = served.raw(&format!(
        "POST /{token}/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 0\r\n\r\n"
    ));
    assert!(post.starts_with("HTTP/1.1 405 "), "{post}");
    // Another port of this machine is not another name.
    let taken = place.run(&["serve", "--port", &port.to_string()]).expect(1);
    assert!(taken.stderr.contains("--port 0"), "{}", taken.stderr);
}
