/*!
Opening and reading files that a user or a stranger names.

A path may lead to a pipe that never ends, a device such as `/dev/zero`, or a file of a terabyte without contents. So
[`open`] opens regular files only and does not wait, and [`read`] has a limit. The error says what kind of file was
found.
*/

use std::fs::{self, File, FileType, OpenOptions};
use std::io::{self, BufRead, ErrorKind, Read};
use std::path::Path;

/// Opens a regular file for reading. A link is followed.
///
/// # Errors
///
/// If it cannot be opened, or is a folder, a pipe, a socket or a device.
pub fn open(path: &Path) -> io::Result<File> {
    // Opening a device can have effects, and opening a socket has an error that does not name it.
    check(path)?;
    let file = without_waiting(OpenOptions::new().read(true)).open(path)?;
    // It may have been replaced in between.
    require_file(file.metadata()?.file_type())?;
    Ok(file)
}

/// Checks that a path leads to a regular file, without opening it.
///
/// # Errors
///
/// If it does not.
pub fn check(path: &Path) -> io::Result<()> {
    require_file(fs::metadata(path)?.file_type())
}

/// Reads a regular file of at most `most` bytes.
///
/// # Errors
///
/// As [`open`]; also if it is longer.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    let length = file.metadata()?.len();
    if length > most {
        return Err(too_long(most));
    }
    let mut contents = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
    // It may grow meanwhile.
    if file.take(most + 1).read_to_end(&mut contents)? as u64 > most {
        return Err(too_long(most));
    }
    Ok(contents)
}

/// Reads a regular file of at most `most` bytes of UTF-8.
///
/// # Errors
///
/// As [`read`]; also if it is not UTF-8.
pub fn read_to_string(path: &Path, most: u64) -> io::Result<String> {
    String::from_utf8(read(path, most)?)
        .map_err(|error| io::Error::new(ErrorKind::InvalidData, error.utf8_error()))
}

/// Reads a line with its newline, if it has one, into an empty buffer, and returns its bytes; 0 at the end.
///
/// # Errors
///
/// If the line has more than `most` bytes, which are not read to its end.
pub fn read_line(reader: &mut impl BufRead, buffer: &mut Vec<u8>, most: u64) -> io::Result<usize> {
    buffer.clear();
    let read = reader.take(most + 1).read_until(b'\n', buffer)?;
    if read as u64 > most {
        buffer.clear();
        return Err(too_long(most));
    }
    Ok(read)
}

/// Returns whether an error means that there is a file, but with contents that may not be read: it is longer than
/// its limit, not UTF-8, or not a regular file.
#[must_use]
pub fn is_unsuitable(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::FileTooLarge
            | ErrorKind::InvalidData
            | ErrorKind::IsADirectory
            | ErrorKind::InvalidInput
    )
}

fn too_long(most: u64) -> io::Error {
    let limit = match most >> 20 {
        0 => format!("{most} bytes"),
        mebibytes => format!("{mebibytes} MiB"),
    };
    io::Error::new(ErrorKind::FileTooLarge, format!("it is longer than {limit}"))
}

fn require_file(found: FileType) -> io::Result<()> {
    if found.is_file() {
        return Ok(());
    }
    let (error, kind) = if found.is_dir() {
        (ErrorKind::IsADirectory, "folder")
    } else {
        (ErrorKind::InvalidInput, special(found))
    };
    Err(io::Error::new(error, format!("it is a {kind}, not a regular file")))
}

#[cfg(unix)]
fn special(found: FileType) -> &'static str {
    use std::os::unix::fs::FileTypeExt;

    match found {
        found if found.is_fifo() => "pipe",
        found if found.is_socket() => "socket",
        _ => "device",
    }
}

#[cfg(not(unix))]
fn special(_: FileType) -> &'static str {
    "device"
}

#[cfg(unix)]
fn without_waiting(options: &mut OpenOptions) -> &mut OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;

    options.custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
}

#[cfg(not(unix))]
fn without_waiting(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(error: io::Result<impl std::fmt::Debug>) -> String {
        error.expect_err("it must be refused").to_string()
    }

    #[test]
    fn files_and_links_to_them_are_read() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("file");
        fs::write(&path, "text").expect("a file");
        assert_eq!(read_to_string(&path, 4).expect("a text"), "text");
        assert_eq!(text(read(&path, 3)), "it is longer than 3 bytes");
        assert_eq!(
            open(&folder.path().join("none")).expect_err("none").kind(),
            ErrorKind::NotFound
        );
        fs::write(&path, b"\xff").expect("a file");
        assert!(is_unsuitable(&read_to_string(&path, 4).expect_err("not UTF-8")));
    }

    #[cfg(unix)]
    #[test]
    fn what_is_not_a_regular_file_is_refused_at_once_and_named() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        assert_eq!(text(open(folder.path())), "it is a folder, not a regular file");
        assert_eq!(text(open(Path::new("/dev/zero"))), "it is a device, not a regular file");
        let socket = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
        assert_eq!(text(open(&socket)), "it is a socket, not a regular file");
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo");
        assert!(made.success());
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&pipe, &link).expect("a link");
        for path in [&pipe, &link] {
            let error = open(path).expect_err("a pipe");
            assert!(is_unsuitable(&error));
            assert_eq!(error.to_string(), "it is a pipe, not a regular file");
        }
    }

    #[test]
    fn an_endless_file_is_refused_without_reading_it() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("sparse");
        let file = File::create(&path).expect("a file");
        file.set_len(1 << 40).expect("a sparse file");
        assert_eq!(text(read(&path, 64 << 20)), "it is longer than 64 MiB");
    }

    #[test]
    fn a_line_is_read_up_to_its_limit() {
        let mut reader = &b"four\nfives\n"[..];
        let mut line = Vec::new();
        assert_eq!(read_line(&mut reader, &mut line, 5).expect("a line"), 5);
        assert_eq!(line, b"four\n");
        assert_eq!(text(read_line(&mut reader, &mut line, 5)), "it is longer than 5 bytes");
        assert!(line.is_empty());
        assert_eq!(read_line(&mut &b""[..], &mut line, 5).expect("the end"), 0);
        let mut endless = io::BufReader::new(io::repeat(0));
        assert_eq!(text(read_line(&mut endless, &mut line, 5)), "it is longer than 5 bytes");
    }
}
