//! Path of the binary under test.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// The binary's file name.
pub const NAME: &str = "cloud-controller-manager";

/// The environment variable that names another binary.
pub const VARIABLE: &str = "CCM_TEST_BINARY";

/// Returns the path of the binary: the value of `CCM_TEST_BINARY`, else the one of this build, next to the test
/// executable's directory (`target/debug/deps/x` → `target/debug/cloud-controller-manager`).
///
/// # Errors
/// The file does not exist; the text names the command that builds it.
pub fn path() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
        let path = PathBuf::from(path);
        if !path.is_file() {
            bail!("{VARIABLE} names {}, which is no file", path.display());
        }
        return Ok(path);
    }
    let path = beside_this_build()?;
    if !path.is_file() {
        let release = if path
            .parent()
            .is_some_and(|profile| profile.ends_with("release"))
        {
            "--release "
        } else {
            ""
        };
        bail!(
            "there is no {}; build it with `cargo build {release}-p {NAME}`, or name one with {VARIABLE}",
            path.display()
        );
    }
    Ok(path)
}

/// Returns the path at which cargo puts the binary in this executable's build, whether or not it exists.
///
/// # Errors
/// This executable lies nowhere that cargo would put it.
pub fn beside_this_build() -> Result<PathBuf> {
    let this = std::env::current_exe().context("this executable's own path")?;
    let profile = this
        .parent()
        .and_then(Path::parent)
        .with_context(|| format!("{} lies in no build", this.display()))?;
    Ok(profile.join(NAME))
}
