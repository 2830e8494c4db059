//! The image in two versions, and the package of the chart for each.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::TempDir;
use tokio::process::Command;

use crate::bed::Bed;
use crate::commands::output;

/// Repository of the image.
pub(crate) const REPOSITORY: &str = "registry.example.com/cloud-controller-manager";
/// Tags of the image: the first one, and the one of a rolling update.
pub(crate) const TAGS: [&str; 2] = ["0.1.0", "0.1.1"];

/// Packages of the chart, whose images the Node has.
pub(crate) struct Images {
    folder: PathBuf,
    packages: Vec<PathBuf>,
}

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy")
}

/// Makes the file system of the image and an OCI archive of it.
async fn archive(binary: &Path, folder: &Path) -> Result<PathBuf> {
    let root = folder.join("root");
    let archive = folder.join("image.tar");
    output(Command::new(deploy().join("image/layout")).args([&root, binary])).await?;
    output(Command::new(deploy().join("image/archive")).args([&root, &archive])).await?;
    std::fs::remove_dir_all(root)?;
    Ok(archive)
}

impl Images {
    /// Makes the image, gives it to the Node by both names, and packages the chart for each.
    pub(crate) async fn make(bed: &Bed, binary: &Path, helm: &Path) -> Result<Self> {
        let folder = TempDir::with_prefix("ccm-cluster-")?;
        let archive = archive(binary, folder.path())
            .await
            .context("making the image")?;
        let mut packages = Vec::new();
        for tag in TAGS {
            bed.import(&archive, &format!("{REPOSITORY}:{tag}")).await?;
            let package = folder.path().join(tag);
            let mut command = Command::new(deploy().join("package"));
            output(
                command
                    .arg(&package)
                    .args([REPOSITORY, tag])
                    .env("HELM", helm),
            )
            .await?;
            let made = std::fs::read_dir(&package)?
                .next()
                .context("deploy/package made nothing")?;
            packages.push(made?.path());
        }
        std::fs::remove_file(archive)?;
        Ok(Self {
            folder: folder.keep(),
            packages,
        })
    }

    /// Makes an image of another program, and gives it to the Node by this name.
    pub(crate) async fn make_foreign(&self, bed: &Bed, binary: &Path, name: &str) -> Result<()> {
        let folder = TempDir::new_in(&self.folder)?;
        let archive = archive(binary, folder.path()).await?;
        bed.import(&archive, name).await
    }

    /// Returns the package whose image has this one of the [`TAGS`].
    pub(crate) fn package(&self, index: usize) -> &Path {
        &self.packages[index]
    }

    /// Removes the folder with the packages.
    pub(crate) fn remove(&self) {
        // A folder for temporary files, which the system removes as well.
        _ = std::fs::remove_dir_all(&self.folder);
    }
}
