//! Facts about the checkout: its version, its commit and the time of that commit.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use jiff::Timestamp;
use serde_json::Value;

use crate::program;

/// Name of the program and of its package.
pub(crate) const PROGRAM: &str = "cloud-controller-manager";

/// Checkout that the artefacts are made from.
pub(crate) struct Project {
    /// Folder of the workspace.
    pub(crate) root: PathBuf,
    /// Folder of the builds of cargo.
    pub(crate) target_directory: PathBuf,
    /// Version in `[workspace.package]`.
    pub(crate) version: String,
    /// Commit, with the suffix `-dirty` if files differ from it. Empty without git.
    pub(crate) revision: String,
    /// Time of the commit in seconds, or the value of `SOURCE_DATE_EPOCH`. Zero without both.
    pub(crate) epoch: u64,
}

impl Project {
    /// Reads the facts with cargo and git.
    pub(crate) fn read() -> Result<Self> {
        let here =
            std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
        let root = here.parent().context("the folder of xtask has no parent")?.to_owned();
        let text = program::output(program::cargo(&root).args(["metadata", "--no-deps", "--format-version=1"]))?;
        let metadata: Value = serde_json::from_str(&text).context("cannot parse the output of cargo metadata")?;
        let target = metadata["target_directory"].as_str().context("cargo metadata names no target_directory")?;
        let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
        let own = packages.iter().find(|package| package["name"] == PROGRAM);
        let version = own.and_then(|package| package["version"].as_str()).context("the program has no version")?;
        Ok(Self {
            target_directory: target.into(),
            version: version.to_owned(),
            revision: revision(&root),
            epoch: epoch(&root)?,
            root,
        })
    }

    /// Returns the time of the commit as RFC 3339 has it.
    pub(crate) fn created(&self) -> String {
        let second = i64::try_from(self.epoch).unwrap_or_default();
        Timestamp::from_second(second).unwrap_or(Timestamp::UNIX_EPOCH).to_string()
    }

    /// Returns the commit, or `unknown`.
    pub(crate) fn shown_revision(&self) -> &str {
        if self.revision.is_empty() { "unknown" } else { &self.revision }
    }
}

/// Returns the output of git in the checkout. A folder inside another repository is not a checkout.
fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    if !root.join(".git").exists() {
        return None;
    }
    let output = program::output(Command::new("git").arg("-C").arg(root).args(arguments)).ok()?;
    Some(output.trim().to_owned())
}

fn revision(root: &Path) -> String {
    let Some(commit) = git(root, &["rev-parse", "HEAD"]) else {
        return std::env::var("CCM_REVISION").unwrap_or_default();
    };
    let is_clean = git(root, &["status", "--porcelain", "--untracked-files=no"]).is_some_and(|text| text.is_empty());
    if is_clean { commit } else { format!("{commit}-dirty") }
}

fn epoch(root: &Path) -> Result<u64> {
    let named = std::env::var("SOURCE_DATE_EPOCH").ok().filter(|text| !text.is_empty());
    let Some(text) = named.or_else(|| git(root, &["log", "-1", "--format=%ct"])) else { return Ok(0) };
    text.parse().with_context(|| format!("SOURCE_DATE_EPOCH {text:?} is not a number of seconds"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_without_git_has_no_commit_of_an_outer_repository() {
        let inner = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert_eq!(git(inner, &["rev-parse", "HEAD"]), None);
    }

    #[test]
    fn time_of_the_commit_is_shown_in_utc() {
        let project = Project {
            root: PathBuf::new(),
            target_directory: PathBuf::new(),
            version: "1.2.3".to_owned(),
            revision: String::new(),
            epoch: 1_764_374_400,
        };
        assert_eq!(project.created(), "2025-11-29T00:00:00Z");
        assert_eq!(project.shown_revision(), "unknown");
    }
}
