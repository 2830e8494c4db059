//! Checks of the artefacts, as users get them. What needs a program that is missing is skipped with a message, or fails in
//! CI (`CI=true`).

mod archives;
mod chart;
mod containerfile;
mod empty_root;
mod image;
mod manifests;
mod sbom;

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Result, bail, ensure};

use crate::dist::{CHECKSUMS, read_checksums, sha256};
use crate::project::Project;
use crate::tarball::{self, Entry};

/// Checks all artefacts in a folder, and reports each check.
pub(crate) fn all(project: &Project, folder: &Path) -> Result<()> {
    ensure!(
        folder.join(CHECKSUMS).exists(),
        "{} has no {CHECKSUMS}: run cargo xtask dist first",
        folder.display()
    );
    checksums(folder)?;
    archives::check(project, folder)?;
    let digest = image::check(project, folder)?;
    containerfile::check(project, folder)?;
    manifests::check(
        folder,
        &digest,
        &project.features(&sbom::features(project, folder)?)?,
    )?;
    chart::check(project, folder, &digest)?;
    sbom::check(project, folder)?;
    println!(
        "all artefacts in {} are as they should be",
        folder.display()
    );
    Ok(())
}

/// Reports a check that passed.
fn ok(text: &str) {
    println!("ok: {text}");
}

/// Reports a check that cannot be made here. In CI this is a failure.
fn skip(text: &str) -> Result<()> {
    if std::env::var("CI").is_ok_and(|value| value == "true") {
        bail!("{text}");
    }
    println!("skipped: {text}");
    Ok(())
}

/// Compares the sums with the files: each file has one, and each sum is right.
fn checksums(folder: &Path) -> Result<()> {
    let mut listed = BTreeSet::new();
    for (path, expected) in read_checksums(folder)? {
        let sum = sha256(&crate::read(&folder.join(&path))?);
        ensure!(
            sum == expected,
            "{path} has the sum {sum}, and {CHECKSUMS} lists {expected}"
        );
        listed.insert(path);
    }
    let tree = tarball::read_folder(folder)?;
    let files = tree
        .iter()
        .filter(|(_, entry)| matches!(entry, Entry::File(..)))
        .map(|(path, _)| path);
    // The signature of the sums begins with their name.
    let unlisted: Vec<_> = files
        .filter(|path| !path.starts_with(CHECKSUMS) && !listed.contains(*path))
        .collect();
    ensure!(
        unlisted.is_empty(),
        "{CHECKSUMS} lists no sum of {unlisted:?}"
    );
    ok(&format!("{CHECKSUMS} holds for {} files", listed.len()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_file_and_file_without_a_sum_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let write =
            |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("a", "abc");
        write(
            CHECKSUMS,
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  a\n",
        );
        checksums(folder.path()).unwrap();
        write("b", "");
        assert_eq!(
            checksums(folder.path()).unwrap_err().to_string(),
            "SHA256SUMS lists no sum of [\"b\"]"
        );
        write("a", "abd");
        assert!(
            checksums(folder.path())
                .unwrap_err()
                .to_string()
                .starts_with("a has the sum a52d159f")
        );
    }
}
