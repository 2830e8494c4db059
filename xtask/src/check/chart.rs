//! The package of the chart: it lints, and installs the image of this release with two values.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};

use super::{ok, skip};
use crate::program;
use crate::project::Project;

/// Oldest supported version of Kubernetes. Helm's default depends on how helm was built.
const KUBERNETES: &str = "1.34.0";
const VALUES: [&str; 4] = ["--set", "provider=hcloud", "--set", "secret=hcloud"];

/// Checks the package with helm.
pub(super) fn check(project: &Project, folder: &Path, digest: &str) -> Result<()> {
    let Some(helm) = program::helm() else {
        return skip("the chart is not checked: install helm, or set HELM to its path");
    };
    let package = folder.join(format!("ccm-rs-{}.tgz", project.version));
    program::output(Command::new(&helm).args(["lint", "--strict"]).arg(&package).args(VALUES))?;
    let mut template = Command::new(&helm);
    template.args(["template", "ccm"]).arg(&package).args(["--kube-version", KUBERNETES]).args(VALUES);
    let text = program::output(&mut template)?;
    ensure!(text.contains(&format!("@{digest}\"")), "the chart does not install the image {digest}");
    ok("the package of the chart lints, and installs the image by its digest");
    Ok(())
}
