//! The package of the chart: it lints, and installs the image of this release with two values.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail, ensure};

use super::{ok, skip};
use crate::dist::PLACEHOLDER;
use crate::project::Project;
use crate::tarball::{self, Entry};
use crate::{program, read};

/// Oldest supported version of Kubernetes. Helm's default depends on how helm was built.
const KUBERNETES: &str = "1.34.0";
/// Values that an installation needs, beside the repository of the image if the package has a placeholder.
const VALUES: [&str; 4] = ["--set", "provider=hcloud", "--set", "secret=hcloud"];

/// Checks the package with helm.
pub(super) fn check(project: &Project, folder: &Path, digest: &str) -> Result<()> {
    let Some(helm) = program::helm() else {
        return skip("the chart is not checked: install helm, or set HELM to its path");
    };
    let package = folder.join(format!("ccm-rs-{}.tgz", project.version));
    let mut values = VALUES.to_vec();
    if has_placeholder(&package)? {
        values.extend(["--set", "image.repository=registry.example.com/ccm"]);
    }
    program::output(
        Command::new(&helm)
            .args(["lint", "--strict"])
            .arg(&package)
            .args(&values),
    )?;
    let mut template = Command::new(&helm);
    template
        .args(["template", "ccm"])
        .arg(&package)
        .args(["--kube-version", KUBERNETES])
        .args(&values);
    let text = program::output(&mut template)?;
    ensure!(
        text.contains(&format!("@{digest}\"")),
        "the chart does not install the image {digest}"
    );
    ok("the package of the chart lints, and installs the image by its digest");
    Ok(())
}

/// Returns `true` if the package names no repository that an image can be pulled from.
fn has_placeholder(package: &Path) -> Result<bool> {
    let files = tarball::read_tar(&tarball::gunzip(&read(package)?)?)?;
    let Some(Entry::File(text, _)) = files.get("ccm-rs/files/image.yaml") else {
        bail!("the package of the chart has no image")
    };
    Ok(String::from_utf8_lossy(text).contains(PLACEHOLDER))
}
