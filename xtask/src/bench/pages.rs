//! Time to write a report of five hundred cases and until a browser shows it, and time of a page of `host serve`.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::{Row, spread};
use crate::shell::{At, Failed, cargo, command, say};

/// Pages of each kind that are asked for, none of them twice.
const PAGES: usize = 40;

fn folder(name: &str) -> Result<PathBuf, Failed> {
    let folder = std::env::temp_dir().join(format!("tare-bench-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).at(&folder)?;
    Ok(folder)
}

/// Measures `host report` of a run of 500 cases, five times, and how long Chromium takes until the page is usable.
pub(super) fn report(built: &Path) -> Result<Row, Failed> {
    say("bench: the report of a run of 500 cases");
    let folder = folder("report")?;
    let run = measured(built, &folder)?;
    let out = folder.join("out");
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..5 {
        let started = Instant::now();
        let line = command(built.join("host")).args(["--quiet", "report"]).arg(&run);
        let _nothing = line.args(["--report", "html", "--report-dir"]).arg(&out).read()?;
        times.push(started.elapsed());
    }
    times.sort();
    let page = out.join("html/report.html");
    let size = fs::metadata(&page).at(&page)?.len() as f64 / 1e6;
    let mut usable: Vec<Duration> = Vec::new();
    for _ in 0..5 {
        usable.push(opened(&page, &folder)?);
    }
    usable.sort();
    fs::remove_dir_all(&folder).at(&folder)?;
    Ok(Row {
        what: "`host report` of 500 cases, and Chromium until its table and charts answer (median of 5)".into(),
        measured: format!("{}, and {}; {size:.2} MB", spread(&times), spread(&usable)),
        to_beat: "3 s, and 1 s",
    })
}

/// Measures 500 cases of some thousand queries each, and returns the run's folder. The null backend would make a hundred
/// thousand in the same time, as no model does.
fn measured(built: &Path, folder: &Path) -> Result<PathBuf, Failed> {
    let list = |count: u32| (1..=count).map(|one| one.to_string()).collect::<Vec<_>>().join(", ");
    let models: String = ["a", "b", "c", "d", "e"]
        .map(|id| format!("[[model]]\nid = \"{id}\"\npath = \"any.model\"\n"))
        .concat();
    let backends: String = [("first", 5), ("second", 6)]
        .map(|(id, microseconds)| {
            format!(
                "[[backend]]\nid = \"{id}\"\nplugin = \"fault\"\n\
                 options = {{ fault = \"slow\", fault-microseconds = {microseconds} }}\n"
            )
        })
        .concat();
    let text = format!(
        "schema = 1\nexperiment = {{ name = \"report\" }}\n{models}\
         {backends}[matrix]\nbatch = [{}]\nscenario = [\"single-stream\", \"offline\"]\n\
         [measure]\nwarm-up = 10\nduration = \"10ms\"\nminimum-queries = 1000\n[[recommend]]\nplugin = \"hardware\"\n",
        list(25)
    );
    fs::write(folder.join("any.model"), "anything").at(folder)?;
    let manifest = folder.join("it.toml");
    fs::write(&manifest, text).at(&manifest)?;
    let results = folder.join("results");
    let line = command(built.join("host")).args(["--quiet", "--results"]).arg(&results);
    let _table = line.arg("run").arg(&manifest).read()?;
    let runs = results.join("runs");
    let mut entries = fs::read_dir(&runs).at(&runs)?;
    let run = entries.next().ok_or_else(|| Failed::new("the run left no folder"))?;
    Ok(run.at(&runs)?.path())
}

/// Returns the time until the page's script has ended, by the page's own clock, from its request on.
fn opened(page: &Path, folder: &Path) -> Result<Duration, Failed> {
    let document = command("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"])
        .arg(format!("--user-data-dir={}", folder.join("browser").display()))
        .arg(format!("file://{}", page.display()))
        .read()?;
    let ready = document.split(" data-ready=\"").nth(1).and_then(|rest| rest.split('"').next());
    let ready = ready.and_then(|text| text.parse().ok());
    ready.map(Duration::from_millis).ok_or_else(|| Failed::new("the page's script did not end"))
}

/// Measures pages of `host serve` over a database of a million results, each asked for once.
pub(super) fn serve(built: &Path) -> Result<Row, Failed> {
    const RUNS: usize = 2000;
    const CASES: usize = 500;
    say("bench: pages of `host serve` over a million results");
    let folder = folder("serve")?;
    let line = cargo().args([
        "run",
        "--quiet",
        "--release",
        "--package",
        "host-store",
        "--example",
        "many_results",
        "--",
    ]);
    line.arg(&folder).args([RUNS.to_string(), CASES.to_string()]).run()?;
    let mut server = command(built.join("host"))
        .arg("--results")
        .arg(&folder)
        .args(["--quiet", "serve"])
        .into_command()
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| Failed::new(format!("host could not be started: {error}")))?;
    let mut address = String::new();
    let out = server.stdout.take().expect("standard output is piped");
    BufReader::new(out).read_line(&mut address).at(&folder)?;
    let asked = ask(address.trim(), RUNS, CASES);
    let _ = server.kill();
    let _ = server.wait();
    fs::remove_dir_all(&folder).at(&folder)?;
    let mut all: Vec<Duration> = Vec::new();
    let mut kinds: Vec<String> = Vec::new();
    for (kind, mut times) in asked? {
        times.sort();
        kinds.push(format!("{kind} {:.0} ms", percentile(&times).as_secs_f64() * 1e3));
        all.extend(times);
    }
    all.sort();
    Ok(Row {
        what: format!(
            "page of `host serve` over {} results, none asked for twice (95th percentile)",
            RUNS * CASES
        ),
        measured: format!("{:.0} ms ({})", percentile(&all).as_secs_f64() * 1e3, kinds.join(", ")),
        to_beat: "100 ms",
    })
}

fn percentile(sorted: &[Duration]) -> Duration {
    sorted[(sorted.len() * 95).div_ceil(100) - 1]
}

/// Asks for pages of each kind, and returns their times.
fn ask(
    address: &str,
    runs: usize,
    cases: usize,
) -> Result<Vec<(&'static str, Vec<Duration>)>, Failed> {
    let place = address.strip_prefix("http://").and_then(|rest| rest.split_once('/'));
    let (host, base) = place.ok_or_else(|| Failed::new(format!("`{address}` is no address")))?;
    type Address = Box<dyn Fn(usize) -> String>;
    let kinds: [(&str, Address); 3] = [
        (
            "runs",
            Box::new(move |index| format!("?before=run-{:06}", runs - 1 - index * (runs / PAGES))),
        ),
        ("a run", Box::new(move |index| format!("run/run-{:06}", index * (runs / PAGES)))),
        ("a history", Box::new(move |index| format!("history/{:016x}", index * (cases / PAGES)))),
    ];
    let mut all = Vec::new();
    for (kind, path) in kinds {
        let mut times = Vec::new();
        for index in 0..PAGES {
            let started = Instant::now();
            let path = format!("/{base}{}", path(index));
            let answer =
                get(host, &path).map_err(|error| Failed::new(format!("{path}: {error}")))?;
            times.push(started.elapsed());
            if !answer.starts_with(b"HTTP/1.1 200 ") {
                let answer = String::from_utf8_lossy(&answer[..answer.len().min(400)]).into_owned();
                return Err(Failed::new(format!("{path}: {answer}")));
            }
        }
        all.push((kind, times));
    }
    Ok(all)
}

fn get(host: &str, path: &str) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(host)?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(answer)
}
