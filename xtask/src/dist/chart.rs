//! The chart as a package, with the image in it.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::project::Project;
use crate::{program, read, tarball, write};

/// Packages the chart with `deploy/package`. Helm writes the time of the day into the package; it is packed again
/// without.
pub(super) fn package(project: &Project, repository: &str, digest: &str, out: &Path) -> Result<()> {
    let folder = tempfile::tempdir().context("cannot create a folder for the chart")?;
    let mut command = Command::new(project.root.join("deploy/package"));
    command.arg(folder.path()).args([repository, digest]);
    if let Some(helm) = program::helm() {
        command.env("HELM", helm);
    }
    program::output(&mut command)?;
    let name = format!("ccm-rs-{}.tgz", project.version);
    let tree = tarball::read_tar(&tarball::gunzip(&read(&folder.path().join(&name))?)?)?;
    write(
        &out.join(name),
        tarball::gzip(&tarball::tar(&tree, project.epoch)?)?,
    )
}
