//! Archives: complete, with a static program that runs in an empty root.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use super::{empty_root, ok, skip};
use crate::dist::{Architecture, LICENCES, RUST_LICENCES, archive_name};
use crate::project::{PROGRAM, Project};
use crate::tarball::{self, Entry, Tree};

/// Checks the archives of all architectures that the folder has.
pub(super) fn check(project: &Project, folder: &Path) -> Result<()> {
    let mut count = 0;
    for architecture in Architecture::ALL {
        let name = archive_name(&project.version, architecture);
        if folder.join(&name).exists() {
            count += 1;
            check_one(project, &folder.join(&name), architecture).with_context(|| name.clone())?;
        }
    }
    ensure!(
        count > 0,
        "{} has no archive of version {}",
        folder.display(),
        project.version
    );
    Ok(())
}

fn check_one(project: &Project, archive: &Path, architecture: Architecture) -> Result<()> {
    let tree = tarball::read_tar(&tarball::gunzip(&crate::read(archive)?)?)?;
    let name = archive.file_name().unwrap_or_default().to_string_lossy();
    let top = name.trim_end_matches(".tar.gz").to_owned();
    let outside: Vec<_> = tree
        .keys()
        .filter(|path| path.split('/').next() != Some(&top))
        .collect();
    ensure!(
        outside.is_empty(),
        "{outside:?} are not in the folder {top}"
    );
    for path in ["LICENSE", LICENCES, RUST_LICENCES, "INSTALL.md"] {
        file(&tree, &format!("{top}/{path}"))?;
    }
    for (path, word) in [
        (
            "man/man8/cloud-controller-manager.8",
            ".TH cloud-controller-manager 8",
        ),
        ("completions/cloud-controller-manager.bash", "complete -F"),
        (
            "completions/_cloud-controller-manager",
            "#compdef cloud-controller-manager",
        ),
        (
            "completions/cloud-controller-manager.fish",
            "complete -c cloud-controller-manager",
        ),
    ] {
        let text = String::from_utf8_lossy(file(&tree, &format!("{top}/{path}"))?);
        ensure!(text.contains(word), "{path} has no {word:?}");
    }
    let binary = file(&tree, &format!("{top}/{PROGRAM}"))?;
    empty_root::ensure_static(binary, architecture)?;

    let root = tempfile::tempdir().context("cannot create a folder for an archive")?;
    tarball::unpack(&tree, root.path())?;
    for program in [PROGRAM, "kubectl-ccm"] {
        let Some(text) = empty_root::output(
            root.path(),
            architecture,
            &[&format!("/{top}/{program}"), "version"],
        )?
        else {
            return skip(&format!(
                "{name} is not run here: install {}",
                architecture.emulator()
            ));
        };
        let expected = format!(
            "ccm-rs v{} (commit {})",
            project.version,
            project.shown_revision()
        );
        ensure!(
            text.contains(&expected),
            "the program prints {text:?}, not {expected:?}"
        );
    }
    ok(&format!(
        "{name} has all files, and its static program of {} bytes runs in an empty root",
        binary.len()
    ));
    Ok(())
}

/// Returns the content of a file that is not empty.
fn file<'a>(tree: &'a Tree, path: &str) -> Result<&'a [u8]> {
    match tree.get(path) {
        Some(Entry::File(content, _)) if !content.is_empty() => Ok(content),
        Some(_) => bail!("{path} is empty or no file"),
        None => bail!("{path} is missing"),
    }
}
