//! The artefacts of a release. The same commit makes the same bytes, in any folder.

mod architecture;
mod archive;
mod binaries;
mod chart;
mod checksums;
mod dependencies;
mod image;
mod licences;
mod manifests;
mod sbom;

use std::collections::BTreeSet;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

pub(crate) use architecture::Architecture;
pub(crate) use archive::name as archive_name;
pub(crate) use checksums::{FILE as CHECKSUMS, read as read_checksums, sha256};
pub(crate) use image::{
    CONFIG as IMAGE_CONFIG, DOCUMENTS, archive as image_archive, archive_name as image_archive_name,
};
pub(crate) use licences::{FILE as LICENCES, RUST_FILE as RUST_LICENCES};
pub(crate) use manifests::{INSTALL, cloud as cloud_of_manifest};
pub(crate) use sbom::file_name as sbom_name;

use crate::project::Project;
use crate::tarball::Entry;
use crate::{DistArguments, program, read, tarball, write};

/// Variable that names the repository of the image.
const REPOSITORY_VARIABLE: &str = "CCM_IMAGE_REPOSITORY";
/// Repository in manifests until the reader replaces `REGISTRY`. A default that anybody could register would get the
/// credential of the cloud.
pub(crate) const PLACEHOLDER: &str = "REGISTRY/cloud-controller-manager";
/// Folder of the image layout.
pub(crate) const IMAGE: &str = "image";

/// Makes all artefacts of a release in a temporary folder, and puts them in the place of those of an earlier run.
pub(crate) fn make(project: &Project, arguments: &DistArguments) -> Result<()> {
    let architectures: BTreeSet<Architecture> = arguments.arch.iter().copied().collect();
    let repository = repository(
        arguments.registry.clone(),
        std::env::var(REPOSITORY_VARIABLE).ok(),
    );
    check_tools(project, &architectures)?;
    let folder = output_folder(project, arguments)?;
    refuse_files_of_others(&folder)?;
    let features = project.features(&arguments.features)?;
    let parent = folder
        .parent()
        .context("the folder of the artefacts has no parent")?;
    std::fs::create_dir_all(parent)
        .with_context(|| format!("cannot create {}", parent.display()))?;
    let work = tempfile::Builder::new()
        .prefix(".dist-")
        .tempdir_in(parent)
        .context("cannot create a folder")?;
    let out = work.path();
    // An invalid repository is refused before anything is built.
    chart::package(
        project,
        &repository,
        &format!("sha256:{}", sha256(&[])),
        out,
    )?;

    let mut built = Vec::new();
    for architecture in &architectures {
        say(&format!(
            "building for linux/{architecture} with profile {}",
            arguments.profile
        ));
        built.push((
            *architecture,
            binaries::build(
                project,
                *architecture,
                &arguments.profile,
                &arguments.features,
            )?,
        ));
    }
    let own_binary = built
        .iter()
        .find(|(architecture, _)| architecture.is_own())
        .context("no binary of this machine")?;
    let documents = archive::documents(&own_binary.1)?;

    say("reading licences and dependencies");
    let graph = dependencies::read(project, &architectures, &arguments.features)?;
    let texts = licences::text(&graph)?;
    write(&out.join(LICENCES), &texts)?;
    let rust = licences::rust()?;
    write(&out.join(RUST_LICENCES), &rust)?;
    write(
        &out.join(sbom_name(&project.version)),
        sbom::document(project, &graph, arguments)?,
    )?;

    say("packing archives and image");
    let licences = [(LICENCES, texts.into_bytes()), (RUST_LICENCES, rust)];
    for (architecture, binary) in &built {
        let tree = archive::tree(project, *architecture, binary, &documents, &licences)?;
        let packed = tarball::gzip(&tarball::tar(&tree, project.epoch)?)?;
        write(
            &out.join(archive_name(&project.version, *architecture)),
            packed,
        )?;
    }
    let own_licence = ("LICENSE", read(&project.root.join("LICENSE"))?);
    let digest = image::write_layout(
        project,
        &built,
        &[&[own_licence], &licences[..]].concat(),
        out,
    )?;

    say("pinning the chart and the manifests");
    chart::package(project, &repository, &digest, out)?;
    manifests::pin(project, &format!("{repository}@{digest}"), &features, out)?;
    checksums::write_all(out)?;

    println!("image {repository}@{digest}");
    if repository == PLACEHOLDER {
        println!(
            "the repository is a placeholder: --registry REPOSITORY names yours in the chart and the manifests"
        );
    }
    replace(&folder, work)?;
    println!(
        "artefacts of {} ({}) are in {}",
        project.version,
        project.shown_revision(),
        folder.display()
    );
    Ok(())
}

/// Writes the licences that the image has, for a program of this machine's architecture with these features.
pub(crate) fn write_licences(project: &Project, features: &str, out: &Path) -> Result<()> {
    let own_architecture: BTreeSet<_> = Architecture::ALL
        .into_iter()
        .filter(|architecture| architecture.is_own())
        .collect();
    ensure!(
        !own_architecture.is_empty(),
        "the image is for amd64 and arm64, not for this machine"
    );
    let graph = dependencies::read(project, &own_architecture, features)?;
    write(&out.join("LICENSE"), read(&project.root.join("LICENSE"))?)?;
    write(&out.join(LICENCES), licences::text(&graph)?)?;
    write(&out.join(RUST_LICENCES), licences::rust()?)
}

/// Returns the first of the argument, the variable and the placeholder that is not empty.
fn repository(argument: Option<String>, variable: Option<String>) -> String {
    let named = [argument, variable]
        .into_iter()
        .flatten()
        .find(|name| !name.is_empty());
    named.unwrap_or_else(|| PLACEHOLDER.to_owned())
}

/// Returns the folder for the artefacts: `dist` of the checkout, unless the arguments name another.
fn output_folder(project: &Project, arguments: &DistArguments) -> Result<PathBuf> {
    match &arguments.out {
        None => Ok(project.root.join("dist")),
        Some(out) => {
            std::path::absolute(out).with_context(|| format!("cannot resolve {}", out.display()))
        }
    }
}

/// Fails with all that is missing, before anything is built.
fn check_tools(project: &Project, architectures: &BTreeSet<Architecture>) -> Result<()> {
    let mut missing = Vec::new();
    for architecture in architectures {
        missing.extend(architecture.missing(&project.root)?);
    }
    if !architectures
        .iter()
        .any(|architecture| architecture.is_own())
    {
        missing.push(
            "this machine's architecture in --arch: its binary prints completions and the manual page".to_owned(),
        );
    }
    if program::helm().is_none() {
        missing.push(
            "helm: go install helm.sh/helm/v3/cmd/helm@v3.18.4, or set HELM to its path".to_owned(),
        );
    }
    ensure!(
        missing.is_empty(),
        "cannot make the artefacts; missing are\n  {}",
        missing.join("\n  ")
    );
    Ok(())
}

/// Fails if the folder has files that no earlier run made: those whose sum it does not list.
fn refuse_files_of_others(out: &Path) -> Result<()> {
    if !out.exists() {
        return Ok(());
    }
    let listed = match out.join(CHECKSUMS).exists() {
        true => read_checksums(out)?
            .into_iter()
            .map(|(path, _)| path)
            .collect(),
        false => BTreeSet::new(),
    };
    let tree = tarball::read_folder(out)?;
    let files = tree
        .iter()
        .filter(|(_, entry)| !matches!(entry, Entry::Folder))
        .map(|(path, _)| path.as_str());
    let others: Vec<_> = files
        .filter(|path| *path != CHECKSUMS && !listed.contains(*path))
        .collect();
    ensure!(
        others.is_empty(),
        "{} has files that no earlier run made: {}; move them away, or name another folder with --out",
        out.display(),
        others.join(", ")
    );
    Ok(())
}

/// Replaces the artefacts of an earlier run by new ones.
fn replace(out: &Path, made: TempDir) -> Result<()> {
    refuse_files_of_others(out)?;
    if out.exists() {
        std::fs::remove_dir_all(out).with_context(|| format!("cannot remove {}", out.display()))?;
    }
    let made = made.keep();
    std::fs::set_permissions(&made, Permissions::from_mode(0o755))
        .and_then(|()| std::fs::rename(&made, out))
        .with_context(|| format!("cannot rename {} to {}", made.display(), out.display()))
}

fn say(text: &str) {
    eprintln!("dist: {text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(parent: &Path, name: &str) -> TempDir {
        let folder = tempfile::tempdir_in(parent).unwrap();
        write(&folder.path().join(name), name).unwrap();
        checksums::write_all(folder.path()).unwrap();
        folder
    }

    #[test]
    fn artefacts_of_an_earlier_run_are_replaced_and_files_of_others_stay() {
        let parent = tempfile::tempdir().unwrap();
        let out = parent.path().join("dist");
        replace(&out, made(parent.path(), "first")).unwrap();
        replace(&out, made(parent.path(), "second")).unwrap();
        assert!(out.join("second").exists() && !out.join("first").exists());
        write(&out.join("old/backup.tar"), "mine").unwrap();
        let error = replace(&out, made(parent.path(), "third"))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("files that no earlier run made: old/backup.tar; move them away"),
            "{error}"
        );
        assert!(out.join("second").exists() && out.join("old/backup.tar").exists());
    }

    #[test]
    fn repository_is_the_argument_or_else_the_variable_or_else_a_placeholder() {
        let named = |argument: &str, variable: &str| {
            repository(Some(argument.to_owned()), Some(variable.to_owned()))
        };
        assert_eq!(
            named("registry.example.com/ccm", "other"),
            "registry.example.com/ccm"
        );
        assert_eq!(
            named("", "registry.example.com/ccm"),
            "registry.example.com/ccm"
        );
        // Upper case is valid in no registry, so nobody can register the placeholder.
        assert!(named("", "").starts_with("REGISTRY/"));
    }
}
