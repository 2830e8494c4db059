//! The demo's temporary directory: files that only this user can read, removed at the end.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// A directory of this process, removed when it is dropped.
#[derive(Debug)]
pub(super) struct Directory(PathBuf);

impl Directory {
    /// Makes a new one.
    ///
    /// # Errors
    /// The system's, with the path.
    pub(super) fn new() -> io::Result<Self> {
        let unique = format!("ccm-demo-{}-{:06x}", std::process::id(), fastrand::u32(..1 << 24));
        let path = std::env::temp_dir().join(unique);
        // Fails if it exists: nobody can put something of theirs in our place.
        DirBuilder::new().mode(0o700).create(&path).map_err(|error| about(&path, &error))?;
        Ok(Self(path))
    }

    /// Writes a new file (mode 600) and returns its path.
    ///
    /// # Errors
    /// The system's, with the path.
    pub(super) fn write(&self, name: &str, text: &str) -> io::Result<PathBuf> {
        let path = self.0.join(name);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| about(&path, &error))?;
        Ok(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // The system clears its temporary directory sooner or later.
        _ = std::fs::remove_dir_all(&self.0);
    }
}

fn about(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot write {}: {error}; TMPDIR chooses another place", path.display()))
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
}
