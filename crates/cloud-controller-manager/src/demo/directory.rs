//! The demo's temporary directory, whose files only this user can read and which is removed at the end.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// A directory of this process and files elsewhere, all removed on drop.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    elsewhere: Vec<PathBuf>,
}

impl Directory {
    /// Creates a directory in the first of the usual places that is writable.
    ///
    /// # Errors
    /// The system's error for the first place, with the path.
    pub(super) fn new() -> io::Result<Self> {
        let run = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        Self::in_first(
            [
                Some(std::env::temp_dir()),
                run,
                Some("/dev/shm".into()),
                Some(".".into()),
            ]
            .into_iter()
            .flatten(),
        )
    }

    fn in_first(candidates: impl Iterator<Item = PathBuf>) -> io::Result<Self> {
        let unique = format!(
            "ccm-demo-{}-{:06x}",
            std::process::id(),
            fastrand::u32(..1 << 24)
        );
        let mut failure = None;
        for candidate in candidates {
            let path = std::path::absolute(candidate.join(&unique))?;
            // The creation fails if the directory exists, so that nobody can prepare it.
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {
                    return Ok(Self {
                        path,
                        elsewhere: Vec::new(),
                    });
                }
                Err(error) => _ = failure.get_or_insert_with(|| about(&path, &error)),
            }
        }
        Err(failure.unwrap_or_else(|| io::Error::other("there is no place for temporary files")))
    }

    /// Writes a new file (mode 600) and returns its path.
    ///
    /// # Errors
    /// The system's error, with the path.
    pub(super) fn write(&self, name: &str, text: &str) -> io::Result<PathBuf> {
        let path = self.path.join(name);
        create(&path, text)?;
        Ok(path)
    }

    /// Writes a new file (mode 600) at a path that the user chose, and returns its absolute path.
    ///
    /// # Errors
    /// The system's error, with the path, also if the file exists.
    pub(super) fn write_elsewhere(&mut self, path: &Path, text: &str) -> io::Result<PathBuf> {
        let path = std::path::absolute(path)?;
        create(&path, text)?;
        self.elsewhere.push(path.clone());
        Ok(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // The system clears its temporary directory sooner or later.
        _ = std::fs::remove_dir_all(&self.path);
        for file in &self.elsewhere {
            _ = std::fs::remove_file(file);
        }
    }
}

fn create(path: &Path, text: &str) -> io::Result<()> {
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| about(path, &error))
}

fn about(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(
        error.kind(),
        format!(
            "cannot write {}: {error}; choose another place with TMPDIR or --kubeconfig",
            path.display()
        ),
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn files_are_for_this_user_alone_and_go_with_the_directory() {
        let directory = Directory::new().unwrap();
        let path = directory.write("kubeconfig", "secret").unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        assert!(directory.write("kubeconfig", "again").is_err());
        drop(directory);
        assert!(!path.exists());
    }

    #[test]
    fn place_that_cannot_be_written_to_is_passed_over() {
        let root = tempfile::tempdir().unwrap();
        let candidates = || [root.path().join("missing"), root.path().to_owned()].into_iter();
        let directory = Directory::in_first(candidates()).unwrap();
        assert!(directory.path.starts_with(root.path()));
        let failure = Directory::in_first(candidates().take(1))
            .unwrap_err()
            .to_string();
        assert!(
            failure.contains("missing/ccm-demo-") && failure.contains("TMPDIR"),
            "{failure}"
        );
    }

    #[test]
    fn file_of_the_users_is_never_overwritten_and_ours_goes() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("config");
        std::fs::write(&path, "mine").unwrap();
        let mut directory = Directory::new().unwrap();
        assert!(directory.write_elsewhere(&path, "ours").is_err());
        let other = directory
            .write_elsewhere(&root.path().join("other"), "ours")
            .unwrap();
        drop(directory);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
        assert!(!other.exists());
    }
}
