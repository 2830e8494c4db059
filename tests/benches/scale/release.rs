//! The controller that is measured.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use ccm_tests::binary;

/// Builds the controller as it is shipped (profile `dist`), with these features as arguments of cargo, unless
/// `CCM_TEST_BINARY` names one.
///
/// # Errors
/// The build failed.
pub(crate) fn binary(features: &[&str]) -> Result<PathBuf> {
    if std::env::var_os(binary::VARIABLE).is_some_and(|path| !path.is_empty()) {
        return binary::path();
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    eprintln!(
        "cargo build --profile dist -p cloud-controller-manager {}",
        features.join(" ")
    );
    let status = Command::new(cargo)
        .args([
            "build",
            "--profile",
            "dist",
            "-p",
            "cloud-controller-manager",
        ])
        .args(features)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdout(Stdio::null())
        .status()
        .context("running cargo")?;
    ensure!(status.success(), "the build failed");
    let beside = binary::beside_this_build()?;
    let target = beside
        .parent()
        .and_then(Path::parent)
        .context("the directory of this build has no parent")?;
    Ok(target.join("dist").join(binary::NAME))
}
