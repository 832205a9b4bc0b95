//! One check in a separate process, seen from both sides.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use host_descendants::{Left, Signals};
use plugin_testkit::{Fixture, Suite, Verdict};

/// The first argument of a child.
const FLAG: &str = "--child";
/// Number of last output lines to show if a child died.
const LINES: usize = 5;

/// Time for processes that a child leaves behind to end by themselves.
const GRACE: Duration = Duration::from_millis(500);

/// The outcome of a child, as its parent saw it.
#[derive(Debug)]
pub(crate) enum Outlived {
    /// The child has ended.
    Ended(Verdict),
    /// This signal asked the parent to end.
    Asked(i32),
}

/// A check that runs in a separate process.
#[derive(Debug)]
pub(crate) struct Child {
    pub(crate) library: PathBuf,
    pub(crate) fixture: PathBuf,
    /// The check's name.
    pub(crate) check: String,
    /// Folder in which parent and child leave messages. The plugin may use standard output.
    pub(crate) folder: PathBuf,
}

impl Child {
    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn verdict_file(&self) -> PathBuf {
        self.file("verdict.json")
    }

    fn note_file(&self) -> PathBuf {
        self.file("doing.txt")
    }

    fn error_file(&self) -> PathBuf {
        self.file("standard-error.txt")
    }

    /// Returns the parent's request, if this process is a child.
    pub(crate) fn of_arguments(arguments: &[String]) -> Option<Self> {
        match arguments {
            [flag, library, fixture, check, folder] if flag == FLAG => Some(Self {
                library: library.into(),
                fixture: fixture.into(),
                check: check.clone(),
                folder: folder.into(),
            }),
            _ => None,
        }
    }

    /// In the child: runs the check.
    pub(crate) fn check(&self) -> Result<ExitCode, String> {
        let own = std::process::id();
        let fixture = Fixture::read(&self.fixture).map_err(|error| error.to_string())?;
        // SAFETY: the user wants the library's code to run, and nothing else uses it here.
        let suite = match unsafe { Suite::open(&self.library) } {
            Ok(suite) => suite.with_notes(self.note_file()),
            Err(error) => return self.leave(own, &Verdict::Fails(error.to_string())),
        };
        let verdict = suite.check_one(&self.check, &fixture);
        self.leave(own, &verdict.ok_or_else(|| format!("there is no check `{}`", self.check))?)
    }

    /// Leaves the verdict, in the child itself. A plugin that forks and returns in both processes has made a copy of
    /// the child, which leaves nothing.
    fn leave(&self, child: u32, verdict: &Verdict) -> Result<ExitCode, String> {
        if std::process::id() != child {
            return Ok(ExitCode::FAILURE);
        }
        let text = serde_json::to_vec(verdict).map_err(|error| error.to_string())?;
        let file = self.verdict_file();
        fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
        Ok(ExitCode::SUCCESS)
    }

    /// In the parent: runs the child, and waits for the end of it and of all processes that it starts.
    pub(crate) fn outlive(
        &self,
        program: &Path,
        limit: Duration,
        signals: &Signals,
    ) -> Result<Outlived, String> {
        for file in [self.verdict_file(), self.note_file()] {
            // Output of an earlier child.
            let _ = fs::remove_file(file);
        }
        let errors = self.error_file();
        let errors =
            File::create(&errors).map_err(|error| format!("{}: {error}", errors.display()))?;
        let mut child = Command::new(program)
            .arg(FLAG)
            .args([&self.library, &self.fixture])
            .arg(&self.check)
            .arg(&self.folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(errors)
            .process_group(0)
            .spawn()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
                let left = host_descendants::end_all(None, GRACE);
                host_descendants::end_group(child.id());
                return Ok(Outlived::Ended(self.verdict(status, left)));
            }
            let asked = signals.take();
            if asked.is_some() || Instant::now() >= deadline {
                // It reaps the child as well.
                host_descendants::end_all(Some(child.id()), Duration::ZERO);
                let seconds = limit.as_secs();
                return Ok(match asked {
                    Some(signal) => Outlived::Asked(signal),
                    None => Outlived::Ended(Verdict::Fails(format!(
                        "it was not done after {seconds} s{}",
                        self.circumstances()
                    ))),
                });
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Returns the verdict for a child that has ended.
    fn verdict(&self, status: ExitStatus, left: Left) -> Verdict {
        let verdict = fs::read(self.verdict_file()).ok();
        let verdict = verdict.and_then(|text| serde_json::from_slice(&text).ok());
        match verdict {
            Some(Verdict::Holds) if status.success() && left.running > 0 => {
                Verdict::Fails(format!(
                    "it holds, but left {} running, which had to be ended; end what the backend starts in \
                     `destroy`{}",
                    match left.running {
                        1 => "1 process".to_owned(),
                        count => format!("{count} processes"),
                    },
                    self.last_lines()
                ))
            }
            Some(verdict) if status.success() => verdict,
            Some(Verdict::Fails(detail)) => {
                Verdict::Fails(format!("{detail}; then the process ended with {status}"))
            }
            Some(_) => Verdict::Fails(format!(
                "it holds, but the process ended with {status} when it was to exit{}",
                self.last_lines()
            )),
            None => {
                Verdict::Fails(format!("the process ended with {status}{}", self.circumstances()))
            }
        }
    }

    /// Returns the child's last step and its messages.
    fn circumstances(&self) -> String {
        let doing = fs::read_to_string(self.note_file()).map(|doing| format!(", at {doing}"));
        doing.unwrap_or_default() + &self.last_lines()
    }

    fn last_lines(&self) -> String {
        let written = fs::read(self.error_file()).unwrap_or_default();
        let written = String::from_utf8_lossy(&written);
        let mut lines: Vec<_> =
            written.lines().rev().filter(|line| !line.trim().is_empty()).take(LINES).collect();
        lines.reverse();
        lines.iter().map(|line| format!("\n        | {line}")).collect()
    }
}
