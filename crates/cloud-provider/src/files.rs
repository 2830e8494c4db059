//! Files that an operator names: configuration, credentials, tokens. They are read with a limit, so that a wrong path
//! neither hangs the process nor fills its memory.

use std::fs::{self, File, FileType};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::Path;

/// Largest size of a file in bytes. A kubeconfig of a hundred clusters has some 200 KiB.
pub const LARGEST: u64 = 1 << 20;

/// Returns the content of a file as text.
///
/// ```
/// use cloud_provider::files;
///
/// let error = files::read_to_string("/dev/zero").unwrap_err();
/// assert_eq!(error.to_string(), "the file is larger than 1 MiB");
/// ```
///
/// # Errors
/// A file that cannot be read, is larger than [`LARGEST`], holds no UTF-8 text, or is a directory, a pipe or a socket.
pub fn read_to_string(path: impl AsRef<Path>) -> io::Result<String> {
    String::from_utf8(read(path)?).map_err(|_| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "the file is not valid UTF-8 text",
        )
    })
}

/// Returns the content of a file.
///
/// # Errors
/// A file that cannot be read, is larger than [`LARGEST`], or is a directory, a pipe or a socket.
pub fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let path = path.as_ref();
    // A pipe without a writer would block for ever.
    if let Some(kind) = special_kind(fs::metadata(path)?.file_type()) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("it is {kind}, and not a regular file"),
        ));
    }
    read_limited(File::open(path)?, LARGEST)
}

/// Returns all that `from` has. At most one byte more than `most` is read.
///
/// # Errors
/// An error of `from`, or more than `most` bytes, which are whole MiB.
pub fn read_limited(from: impl io::Read, most: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    from.take(most + 1).read_to_end(&mut content)?;
    if content.len() as u64 > most {
        let text = format!("the file is larger than {} MiB", most >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
    }
    Ok(content)
}

/// Returns what a file is if nothing can be read from it as from a regular file. `/dev/null` is a usual name for an
/// empty file.
fn special_kind(kind: FileType) -> Option<&'static str> {
    match kind {
        kind if kind.is_file() || kind.is_char_device() => None,
        kind if kind.is_dir() => Some("a directory"),
        kind if kind.is_fifo() => Some("a named pipe"),
        kind if kind.is_socket() => Some("a socket"),
        _ => Some("a device"),
    }
}

/// Returns `true` if every user of the machine may write the file, and with that choose the credential in it.
#[must_use]
pub fn is_writable_by_all(path: impl AsRef<Path>) -> bool {
    fs::metadata(path)
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o002 != 0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn file_is_read_up_to_the_limit() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        for (size, is_read) in [(0, true), (LARGEST, true), (LARGEST + 1, false)] {
            fs::write(&path, vec![b'x'; usize::try_from(size).unwrap()]).unwrap();
            assert_eq!(read_to_string(&path).is_ok(), is_read, "{size}");
        }
        assert_eq!(read("/dev/null").unwrap(), b"");
    }

    #[test]
    fn what_is_no_file_is_refused_without_a_wait() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("socket");
        let _listener = UnixListener::bind(&socket).unwrap();
        for (path, kind) in [(directory.path(), "a directory"), (&*socket, "a socket")] {
            assert_eq!(
                read(path).unwrap_err().to_string(),
                format!("it is {kind}, and not a regular file")
            );
        }
        fs::write(directory.path().join("binary"), [0xff, 0xfe]).unwrap();
        assert!(
            read_to_string(directory.path().join("binary"))
                .unwrap_err()
                .to_string()
                .contains("UTF-8")
        );
        assert_eq!(
            read(directory.path().join("none")).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }

    #[test]
    fn file_that_all_may_write_is_known() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (mode, expected) in [
            (0o600, false),
            (0o644, false),
            (0o664, false),
            (0o666, true),
            (0o602, true),
        ] {
            fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(is_writable_by_all(file.path()), expected, "{mode:o}");
        }
    }
}
