//! The commit of the user's repository.

use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Time limit for `git`, which compares the whole working tree for `-dirty`.
const GIT_LIMIT: Duration = Duration::from_secs(2);

/// Returns the commit of the repository around `folder`, with `-dirty` if tracked files have changes.
/// `None` without a repository, a commit or `git`, or if it takes too long.
#[must_use]
pub fn git_commit(folder: &Path) -> Option<String> {
    let mut child = Command::new("git")
        .arg("-C")
        .arg(folder)
        .args(["describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"])
        // It must not take the index lock from the user's own git.
        .env("GIT_OPTIONAL_LOCKS", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let deadline = Instant::now() + GIT_LIMIT;
    // Its answer is one line, which fits into the pipe, so it ends without being read.
    while child.try_wait().ok()?.is_none() {
        if Instant::now() >= deadline {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        thread::sleep(Duration::from_millis(1));
    }
    let output = child.wait_with_output().ok()?;
    let commit = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !commit.is_empty()).then_some(commit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment;

    fn git(folder: &Path, arguments: &[&str]) {
        let status = Command::new("git")
            .arg("-C")
            .arg(folder)
            .args(["-c", "user.name=Test", "-c", "user.email=test@example.org"])
            .args(arguments)
            .stdout(Stdio::null())
            .status();
        assert!(status.expect("starting git").success(), "{arguments:?}");
    }

    #[test]
    fn a_commit_is_told_and_changes_show() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path();
        assert_eq!(git_commit(path), None, "no repository");
        git(path, &["init", "--quiet"]);
        assert_eq!(git_commit(path), None, "no commit");
        std::fs::write(path.join("file"), "one").expect("writing a file");
        git(path, &["add", "file"]);
        git(path, &["commit", "--quiet", "--message", "One"]);
        git(path, &["tag", "--annotate", "v1", "--message", "v1"]);
        let commit = git_commit(path).expect("a commit");
        assert!(commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit()));
        std::fs::write(path.join("file"), "two").expect("writing a file");
        assert_eq!(environment(git_commit(path)).git_dirty, Some(true));
        assert_eq!(git_commit(path), Some(format!("{commit}-dirty")));
        git(path, &["checkout", "--quiet", "file"]);
        let clean = environment(git_commit(path));
        assert_eq!((clean.git_commit, clean.git_dirty), (Some(commit), Some(false)));
    }
}
