/*!
Fuzzing: libFuzzer over all readers of untrusted data.

It runs on stable Rust. Only this workspace's code gets libFuzzer's counters, by cargo's wrapper for workspace
members, so dependencies are shared with the tests. Two targets run side by side.
*/

use std::fs;
use std::path::Path;
use std::thread;

use crate::layout;
use crate::setup;
use crate::shell::{At, Failed, cargo, command, root, say};

/// Default seconds for each target.
const SECONDS: &str = "60";

/// Limits of one input: seconds, megabytes of memory, bytes.
const LIMITS: &[&str] = &["-timeout=60", "-rss_limit_mb=1024", "-max_len=65536"];

/// Fuzzes the named targets, or all.
pub(crate) fn fuzz(arguments: &[String]) -> Result<(), Failed> {
    let (targets, seconds) = match arguments {
        [targets @ .., flag, seconds] if flag == "--seconds" => (targets, seconds.as_str()),
        targets => (targets, SECONDS),
    };
    if seconds.parse::<u32>().is_err() || targets.iter().any(|name| name.starts_with('-')) {
        return Err(Failed::new("usage: cargo xtask fuzz [TARGET …] [--seconds N]"));
    }
    setup::setup()?;
    let corpora = root().join("tests/fuzz/corpus");
    let all = names(&corpora)?;
    let targets = if targets.is_empty() { &all } else { targets };
    if let Some(unknown) = targets.iter().find(|name| !all.contains(name)) {
        let all = all.join(", ");
        return Err(Failed::new(format!("there is no fuzz target `{unknown}`; there are {all}")));
    }
    say("fuzz: building");
    let target = layout::target_folder()?;
    cargo()
        .args(["build", "--workspace", "--bin", "fuzz", "--features", "fuzz/libfuzzer"])
        .env("RUSTC_WORKSPACE_WRAPPER", root().join("tests/fuzz/rustc-with-counters"))
        .run()?;
    let folder = target.join("fuzz");
    let mut failed = Vec::new();
    for pair in targets.chunks(2) {
        say(&format!("fuzz: {} for {seconds} s", pair.join(" and ")));
        let ended = thread::scope(|scope| {
            let threads: Vec<_> = pair
                .iter()
                .map(|name| {
                    let program = target.join("debug/fuzz");
                    let (corpora, folder) = (&corpora, &folder);
                    scope.spawn(move || run(&program, name, corpora, folder, seconds))
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect::<Vec<_>>()
        });
        for (name, ended) in pair.iter().zip(ended) {
            match ended {
                Ok(line) => say(&format!("fuzz: {name}: {line}")),
                Err(error) => {
                    say(&format!("fuzz: {name}: {error}"));
                    failed.push(name.as_str());
                }
            }
        }
    }
    match failed[..] {
        [] => Ok(()),
        _ => Err(Failed::new(format!("fuzzing found faults in {}", failed.join(", ")))),
    }
}

/// Returns the fixed seed of continuous integration: a change is refused for its own faults, and not by a lucky draw.
fn seed() -> Option<&'static str> {
    (std::env::var("CI").as_deref() == Ok("true")).then_some("-seed=1")
}

/// Returns the targets, each of which has a folder of seeds.
fn names(corpora: &Path) -> Result<Vec<String>, Failed> {
    let mut names = Vec::new();
    for entry in fs::read_dir(corpora).at(corpora)? {
        names.push(entry.at(corpora)?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

/// Runs one target, and returns libFuzzer's last line. Its log and findings are in `folder`.
fn run(
    program: &Path,
    name: &str,
    corpora: &Path,
    folder: &Path,
    seconds: &str,
) -> Result<String, Failed> {
    let corpus = folder.join("corpus").join(name);
    fs::create_dir_all(&corpus).at(&corpus)?;
    let found = folder.join(format!("found-{name}-"));
    let log = folder.join(format!("{name}.log"));
    let file = fs::File::create(&log).at(&log)?;
    let mut process = command(program)
        .arg(&corpus)
        .arg(corpora.join(name))
        .arg(format!("-artifact_prefix={}", found.display()))
        .arg(format!("-max_total_time={seconds}"))
        .args(LIMITS)
        .args(seed())
        .env("FUZZ_TARGET", name)
        .env("LD_LIBRARY_PATH", setup::duckdb_folder())
        .into_command();
    process.stderr(file.try_clone().at(&log)?).stdout(file);
    let status = process.status().map_err(|error| Failed::new(error.to_string()))?;
    let text = fs::read(&log).at(&log)?;
    let text = String::from_utf8_lossy(&text);
    if status.success() {
        return Ok(text.lines().last().unwrap_or_default().to_owned());
    }
    Err(Failed::new(format!(
        "{status}; {} has the reason, and the input beside it belongs into {}",
        log.display(),
        corpora.join(name).display()
    )))
}
