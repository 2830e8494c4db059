//! The file system of the image, as `deploy/image/layout` makes it.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// The entry point of the image, as in the Dockerfile.
pub(crate) const ENTRY_POINT: &str = "/cloud-controller-manager";

/// The file system of the image in a temporary directory. Its binary is a link to the binary under test, which has the
/// size of a debug build.
pub(crate) struct Image {
    root: TempDir,
    binary: PathBuf,
    path: String,
}

impl Image {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().expect("a directory");
        let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/image");
        // Any file can stand for the certificates here.
        let stand_in = deploy.join("programs");
        let layout = Command::new("sh")
            .arg(deploy.join("layout"))
            .arg(root.path())
            .args([&stand_in, &stand_in])
            .output();
        let layout = layout.expect("a shell");
        assert!(
            layout.status.success(),
            "{}",
            String::from_utf8_lossy(&layout.stderr)
        );
        let binary = ccm_tests::binary::path()
            .expect("a binary")
            .canonicalize()
            .expect("a path");
        let own = root.path().join(ENTRY_POINT.trim_start_matches('/'));
        std::fs::remove_file(&own).expect("a file");
        std::os::unix::fs::symlink(&binary, own).expect("a link");
        let dockerfile = include_str!("../../../Dockerfile");
        assert!(
            dockerfile.contains(&format!("ENTRYPOINT [\"{ENTRY_POINT}\"]")),
            "the Dockerfile has another entry point"
        );
        let path = dockerfile
            .lines()
            .find_map(|line| line.strip_prefix("ENV PATH="))
            .expect("a PATH in the Dockerfile");
        Self {
            root,
            binary,
            path: path.trim_end_matches('\\').trim().to_owned(),
        }
    }

    /// Returns the names of the programs, and that of the binary.
    pub(crate) fn programs(&self) -> Vec<&'static str> {
        let list = include_str!("../../../deploy/image/programs");
        list.lines()
            .filter(|line| !line.starts_with('#'))
            .chain(["cloud-controller-manager"])
            .collect()
    }

    pub(crate) fn binary(&self) -> &Path {
        &self.binary
    }

    /// Returns the `PATH` of the image.
    pub(crate) fn search_path(&self) -> &str {
        &self.path
    }

    /// Returns the path on this machine of a path in the image.
    pub(crate) fn host_path(&self, path: &str) -> PathBuf {
        self.root.path().join(path.trim_start_matches('/'))
    }

    /// Returns the file that a container runtime executes for this command, if there is one: a path, or a name in `PATH`.
    pub(crate) fn resolve(&self, command: &str) -> Option<PathBuf> {
        let candidates = match command.contains('/') {
            true => vec![self.host_path(command)],
            false => self
                .path
                .split(':')
                .map(|directory| self.host_path(directory).join(command))
                .collect(),
        };
        candidates
            .into_iter()
            .find_map(|path| path.canonicalize().ok())
    }
}
