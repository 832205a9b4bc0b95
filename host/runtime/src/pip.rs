/*!
Fetching a wheel with the user's pip.

pip knows the index or mirror, the proxy, certificates, credentials and the cache, which this tool must not guess. It
is asked for one exact file: its name, version and hash, and the tags of Python and system in the file's name,
whichever Python pip itself runs on.

Python looks for modules in the current folder first, so a `pip.py` that came with a download would run
instead of pip. Python is therefore started isolated (`-I`), in a folder of this tool.
*/

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use host_registry::LockedPackage;

use crate::error::{PipFault, RuntimeError};
use crate::platform;

/// Arguments for Python to run its own pip, regardless of the current folder and of `PYTHONPATH`.
const ISOLATED_PIP: [&str; 3] = ["-I", "-m", "pip"];

/// The pip of the first Python found.
pub(crate) struct Pip {
    python: &'static str,
}

impl Pip {
    /// Searches for pip. Python is started in `folder`, which belongs to this tool.
    pub(crate) fn find(folder: &Path) -> Result<Self, RuntimeError> {
        for python in platform::PYTHONS {
            let answer = Command::new(python)
                .args(ISOLATED_PIP)
                .arg("--version")
                .current_dir(folder)
                .output();
            match answer {
                Ok(answer) if answer.status.success() => return Ok(Self { python }),
                Ok(answer) => {
                    let output = String::from_utf8_lossy(&answer.stderr).trim().to_owned();
                    return Err(RuntimeError::NoPip { python: (*python).into(), output });
                }
                Err(_) => {}
            }
        }
        Err(RuntimeError::NoPython { tried: platform::PYTHONS.join(" nor ") })
    }

    /// Fetches a package's wheel into a folder. `work` is an empty folder on the same disk, for pip's
    /// own files. If `shown`, pip writes to standard error and may ask for credentials.
    pub(crate) fn download(
        &self,
        package: &LockedPackage,
        to: &Path,
        work: &Path,
        shown: bool,
    ) -> Result<(), RuntimeError> {
        let LockedPackage { name, version, sha256, .. } = package;
        let failed = |fault, output| RuntimeError::Pip {
            package: format!("{name} {version}"),
            fault,
            output,
        };
        let requirement = work.join("requirement.txt");
        let line = format!("{name}=={version} --hash=sha256:{sha256}\n");
        fs::write(&requirement, line).map_err(RuntimeError::io("write", &requirement))?;
        let log = work.join("pip.log");

        let mut command = Command::new(self.python);
        command
            .current_dir(work)
            .args(ISOLATED_PIP)
            .args(["download", "--no-deps", "--only-binary=:all:", "--dest"])
            .arg(to)
            // The wheel's Python dependencies do not matter: only its libraries are used.
            .args(["--ignore-requires-python", "--disable-pip-version-check"])
            .args(tags(&package.file))
            .arg("--log")
            .arg(&log)
            .arg("--requirement")
            .arg(&requirement)
            // Hundreds of megabytes, in a folder that has been checked for space.
            .env("TMPDIR", work);
        if shown {
            let error = RuntimeError::io("use", "standard error");
            command.stdout(platform::standard_error().map_err(error)?);
        } else {
            command.args(["--no-input", "--quiet"]);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        }
        tracing::debug!(?command, "fetching");
        let status = command.status().map_err(RuntimeError::io("start", self.python))?;
        if status.success() {
            return Ok(());
        }
        let log = fs::read_to_string(&log).unwrap_or_default();
        let fault = fault(&log);
        let output = match (errors(&log), broken_connection(&log)) {
            // Its error then only states that nothing was found.
            (_, Some(cause)) if fault == PipFault::Network => {
                format!("it cannot reach its index: {cause}")
            }
            (output, _) if output.is_empty() => format!("it ended with {status}"),
            (output, _) => output,
        };
        Err(failed(fault, output))
    }
}

/// Returns arguments that make pip accept the wheel of this name, on any Python and system. The name was checked to
/// have these parts: `NAME-VERSION[-BUILD]-PYTHON-ABI-PLATFORM.whl`, of which the last three may be several joined by
/// dots.
fn tags(file: &str) -> Vec<String> {
    let stem = file.strip_suffix(".whl").unwrap_or(file);
    let mut parts = stem.rsplit('-');
    let mut next = || parts.next().unwrap_or_default();
    let (platforms, abis, pythons) = (next(), next(), next());
    // The last is the newest: `py2.py3`.
    let python = pythons.rsplit('.').next().unwrap_or_default();
    let split = python.find(|letter: char| letter.is_ascii_digit()).unwrap_or(python.len());
    let (implementation, version) = python.split_at(split);
    let mut tags =
        vec![format!("--implementation={implementation}"), format!("--python-version={version}")];
    tags.extend(abis.split('.').map(|abi| format!("--abi={abi}")));
    tags.extend(platforms.split('.').map(|platform| format!("--platform={platform}")));
    tags
}

/// Returns the reason why pip failed, from its message: there is no other source.
fn fault(log: &str) -> PipFault {
    const FAULTS: &[(&str, PipFault)] = &[
        ("DO NOT MATCH THE HASHES", PipFault::Hash),
        ("No space left on device", PipFault::Space),
        ("connection broken by", PipFault::Network),
        ("Connection timed out", PipFault::Network),
        ("Read timed out", PipFault::Network),
        ("Max retries exceeded", PipFault::Network),
        ("Could not fetch URL", PipFault::Network),
        ("There was a problem confirming the ssl certificate", PipFault::Network),
        ("No matching distribution found", PipFault::NotFound),
    ];
    let found = FAULTS.iter().find(|(words, _)| log.contains(words));
    found.map_or(PipFault::Other, |(_, fault)| *fault)
}

/// Returns the reason why a connection broke, if one did.
fn broken_connection(log: &str) -> Option<&str> {
    log.lines().find_map(|line| Some(line.split_once("connection broken by ")?.1))
}

/// Returns the errors in a log, without their times.
fn errors(log: &str) -> String {
    let mut lines: Vec<&str> = Vec::new();
    let mut within = false;
    for line in log.lines() {
        // A line without a time continues the previous one.
        let (time, text) = line.split_once(' ').unwrap_or((line, ""));
        let stamped = time.len() > 10 && time.as_bytes()[4] == b'-' && time.contains('T');
        if stamped {
            within = text.trim_start().starts_with("ERROR: ");
        }
        let text = if stamped { text } else { line };
        let text = text.trim().trim_start_matches("ERROR: ");
        if within && !text.is_empty() && !lines.contains(&text) {
            lines.push(text);
        }
    }
    lines.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wheel_is_asked_for_by_the_tags_in_its_name() {
        let shown = |file: &str| tags(file).join(" ");
        insta::assert_snapshot!(
            [
                shown("onnxruntime-1.28.0-cp312-cp312-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl"),
                shown("openvino-2026.4.1-22982-cp312-cp312-manylinux_2_28_x86_64.whl"),
                shown("nvidia_cudnn_cu13-9.1-py3-none-manylinux_2_27_x86_64.whl"),
                shown("any-1.0-py2.py3-none-any.whl"),
            ]
            .join("\n"),
            @r#"
    --implementation=cp --python-version=312 --abi=cp312 --platform=manylinux_2_27_x86_64 --platform=manylinux_2_28_x86_64
    --implementation=cp --python-version=312 --abi=cp312 --platform=manylinux_2_28_x86_64
    --implementation=py --python-version=3 --abi=none --platform=manylinux_2_27_x86_64
    --implementation=py --python-version=3 --abi=none --platform=any
    "#
        );
    }

    #[test]
    fn what_pip_says_is_understood() {
        let log = "2026-11-28T13:00:00,001 Looking in links: /wheels\n\
                   2026-11-28T13:00:01,002 ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE \
                   REQUIREMENTS FILE.\n    x from file:\n2026-11-28T13:00:01,003         Got 00\n\
                   2026-11-28T13:00:02,001 Exception information:\n";
        assert_eq!(fault(log), PipFault::Hash);
        assert_eq!(
            errors(log),
            "THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.; x from file:"
        );
        let log = "2026-11-28T13:00:00,001 WARNING: Retrying (Retry(total=4)) after connection broken \
                   by 'NewConnectionError()': /simple/x/\n\
                   2026-11-28T13:00:01,002 ERROR: No matching distribution found for x==1\n";
        assert_eq!(fault(log), PipFault::Network, "the first cause is told");
        assert_eq!(errors(log), "No matching distribution found for x==1");
        assert_eq!(broken_connection(log), Some("'NewConnectionError()': /simple/x/"));
    }
}
