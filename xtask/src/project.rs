//! Facts about the checkout: its version, its commit and the time of that commit.

use std::collections::{BTreeMap, BTreeSet};
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
    /// Features of the program, with those that each switches on.
    pub(crate) feature_table: BTreeMap<String, Vec<String>>,
    /// Time of the commit in seconds, or the value of `SOURCE_DATE_EPOCH`. Zero without both.
    pub(crate) epoch: u64,
}

impl Project {
    /// Reads the facts with cargo and git.
    pub(crate) fn read() -> Result<Self> {
        let here = std::env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
        let root = here
            .parent()
            .context("the folder of xtask has no parent")?
            .to_owned();
        let text = program::output(program::cargo(&root).args([
            "metadata",
            "--no-deps",
            "--format-version=1",
        ]))?;
        let metadata: Value =
            serde_json::from_str(&text).context("cannot parse the output of cargo metadata")?;
        let target = metadata["target_directory"]
            .as_str()
            .context("cargo metadata names no target_directory")?;
        let packages = metadata["packages"]
            .as_array()
            .context("cargo metadata lists no packages")?;
        let program = packages
            .iter()
            .find(|package| package["name"] == PROGRAM)
            .context("there is no program")?;
        let version = program["version"]
            .as_str()
            .context("the program has no version")?;
        Ok(Self {
            feature_table: serde_json::from_value(program["features"].clone())
                .context("the program has no features")?,
            target_directory: target.into(),
            version: version.to_owned(),
            revision: revision(&root)?,
            epoch: epoch(&root)?,
            root,
        })
    }

    /// Returns these features, separated by commas, and those that they switch on. A feature that the program does not
    /// have is an error.
    pub(crate) fn features(&self, named: &str) -> Result<BTreeSet<String>> {
        let mut open: Vec<&str> = named
            .split([',', ' '])
            .filter(|name| !name.is_empty())
            .collect();
        let mut features = BTreeSet::new();
        while let Some(name) = open.pop() {
            let all = || {
                self.feature_table
                    .keys()
                    .map(String::as_str)
                    .collect::<Vec<_>>()
                    .join(", ")
            };
            let switched_on = self
                .feature_table
                .get(name)
                .with_context(|| format!("no feature {name:?}; the features are {}", all()))?;
            if features.insert(name.to_owned()) {
                // Others name dependencies and their features.
                open.extend(
                    switched_on
                        .iter()
                        .map(String::as_str)
                        .filter(|name| !name.contains([':', '/'])),
                );
            }
        }
        Ok(features)
    }

    /// Returns the time of the commit as RFC 3339 has it.
    pub(crate) fn created(&self) -> String {
        let second = i64::try_from(self.epoch).unwrap_or_default();
        Timestamp::from_second(second)
            .unwrap_or(Timestamp::UNIX_EPOCH)
            .to_string()
    }

    /// Returns the commit, or `unknown`.
    pub(crate) fn shown_revision(&self) -> &str {
        if self.revision.is_empty() {
            "unknown"
        } else {
            &self.revision
        }
    }
}

/// Returns the output of git in the checkout. A folder inside another repository is not a checkout.
fn git(root: &Path, arguments: &[&str]) -> Result<Option<String>> {
    if !root.join(".git").exists() {
        return Ok(None);
    }
    let output = program::output(Command::new("git").arg("-C").arg(root).args(arguments))
        .context("git cannot read the commit of this checkout")?;
    Ok(Some(output.trim().to_owned()))
}

/// Returns the commit. Files that git does not know can get into the artefacts, so they count as changes.
fn revision(root: &Path) -> Result<String> {
    let Some(commit) = git(root, &["rev-parse", "HEAD"])? else {
        return Ok(std::env::var("CCM_REVISION").unwrap_or_default());
    };
    let changes = git(root, &["status", "--porcelain"])?.unwrap_or_default();
    Ok(if changes.is_empty() {
        commit
    } else {
        format!("{commit}-dirty")
    })
}

fn epoch(root: &Path) -> Result<u64> {
    let named = std::env::var("SOURCE_DATE_EPOCH")
        .ok()
        .filter(|text| !text.is_empty());
    let text = match named {
        Some(text) => Some(text),
        None => git(root, &["log", "-1", "--format=%ct"])?,
    };
    let Some(text) = text else { return Ok(0) };
    text.parse()
        .with_context(|| format!("SOURCE_DATE_EPOCH {text:?} is not a number of seconds"))
}

#[cfg(test)]
impl Project {
    /// Returns a project with the files, the version and the features of this checkout.
    pub(crate) fn of_this_crate() -> Self {
        let project = Self::read().unwrap();
        Self {
            revision: String::new(),
            epoch: 0,
            ..project
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_include_those_that_they_switch_on_and_an_unknown_one_is_refused() {
        let project = Project::of_this_crate();
        let features = project.features("clouds").unwrap();
        assert!(
            features.contains("hcloud") && !features.contains("demo"),
            "{features:?}"
        );
        assert_eq!(
            project
                .features("hcloud,aws")
                .unwrap()
                .into_iter()
                .collect::<Vec<_>>(),
            ["aws", "hcloud"]
        );
        let error = project.features("hclod").unwrap_err().to_string();
        assert!(
            error.starts_with("no feature \"hclod\"; the features are alibabacloud, aws, "),
            "{error}"
        );
    }

    #[test]
    fn folder_without_git_has_no_commit_of_an_outer_repository() {
        let inner = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert_eq!(git(inner, &["rev-parse", "HEAD"]).unwrap(), None);
    }

    #[test]
    fn checkout_that_git_cannot_read_is_an_error_and_a_new_file_is_a_change() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join(".git")).unwrap();
        let error = revision(folder.path()).unwrap_err().to_string();
        assert_eq!(error, "git cannot read the commit of this checkout");
        std::fs::remove_dir(folder.path().join(".git")).unwrap();
        let identity = ["-c", "user.name=n", "-c", "user.email=e@example.com"];
        for words in [
            &["init", "--quiet"][..],
            &["commit", "--quiet", "--allow-empty", "-m", "first"],
        ] {
            let mut git = Command::new("git");
            assert!(
                git.arg("-C")
                    .arg(folder.path())
                    .args(identity)
                    .args(words)
                    .status()
                    .unwrap()
                    .success()
            );
        }
        assert_eq!(revision(folder.path()).unwrap().len(), 40);
        std::fs::write(folder.path().join("secret.yaml"), "").unwrap();
        assert!(revision(folder.path()).unwrap().ends_with("-dirty"));
    }

    #[test]
    fn time_of_the_commit_is_shown_in_utc() {
        let project = Project {
            epoch: 1_764_374_400,
            ..Project::of_this_crate()
        };
        assert_eq!(project.created(), "2025-11-29T00:00:00Z");
        assert_eq!(project.shown_revision(), "unknown");
    }
}
