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
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

pub(crate) use architecture::Architecture;
pub(crate) use archive::name as archive_name;
pub(crate) use checksums::{FILE as CHECKSUMS, read as read_checksums, sha256};
pub(crate) use image::{CONFIG as IMAGE_CONFIG, archive as image_archive, archive_name as image_archive_name};
pub(crate) use licences::{FILE as LICENCES, RUST_FILE as RUST_LICENCES};
pub(crate) use manifests::INSTALL;
pub(crate) use sbom::file_name as sbom_name;

use crate::project::Project;
use crate::{DistArguments, program, tarball, write};

/// Variable that names the repository of the image.
const REPOSITORY_VARIABLE: &str = "CCM_IMAGE_REPOSITORY";
/// Repository in manifests until the reader replaces `REGISTRY`. A default that anybody could register would get the
/// credential of the cloud.
pub(crate) const PLACEHOLDER: &str = "REGISTRY/cloud-controller-manager";
/// Folder of the image layout.
pub(crate) const IMAGE: &str = "image";

/// Makes all artefacts.
pub(crate) fn make(project: &Project, arguments: &DistArguments) -> Result<()> {
    let architectures: BTreeSet<Architecture> = arguments.arch.iter().copied().collect();
    let repository = repository(arguments.registry.clone());
    check_tools(project, &architectures)?;
    let out = prepare(&arguments.out)?;

    let mut built = Vec::new();
    for architecture in &architectures {
        say(&format!("building for linux/{architecture} with profile {}", arguments.profile));
        built.push((*architecture, binaries::build(project, *architecture, &arguments.profile, &arguments.features)?));
    }
    let own = built.iter().find(|(architecture, _)| architecture.is_own()).context("no binary of this machine")?;
    let documents = archive::documents(&own.1)?;

    say("reading licences and dependencies");
    let graph = dependencies::read(project, &architectures, &arguments.features)?;
    let texts = licences::text(&graph)?;
    write(&out.join(LICENCES), &texts)?;
    let rust = licences::rust()?;
    write(&out.join(RUST_LICENCES), &rust)?;
    write(&out.join(sbom_name(&project.version)), sbom::document(project, &graph)?)?;

    say("packing archives and image");
    let licences = [(LICENCES, texts.into_bytes()), (RUST_LICENCES, rust)];
    for (architecture, binary) in &built {
        let tree = archive::tree(project, *architecture, binary, &documents, &licences)?;
        let packed = tarball::gzip(&tarball::tar(&tree, project.epoch)?)?;
        write(&out.join(archive_name(&project.version, *architecture)), packed)?;
    }
    let digest = image::write_layout(project, &built, &out)?;

    say("pinning the chart and the manifests");
    chart::package(project, &repository, &digest, &out)?;
    manifests::pin(project, &format!("{repository}@{digest}"), &out)?;
    checksums::write_all(&out)?;

    println!("image {repository}@{digest}");
    if repository == PLACEHOLDER {
        println!("the repository is a placeholder: --registry REPOSITORY names yours in the chart and the manifests");
    }
    println!("artefacts of {} ({}) are in {}", project.version, project.shown_revision(), out.display());
    Ok(())
}

/// Returns the first of the argument, the variable and the placeholder that is not empty.
fn repository(argument: Option<String>) -> String {
    let named = argument.or_else(|| std::env::var(REPOSITORY_VARIABLE).ok());
    named.filter(|name| !name.is_empty()).unwrap_or_else(|| PLACEHOLDER.to_owned())
}

/// Fails with all that is missing, before anything is built.
fn check_tools(project: &Project, architectures: &BTreeSet<Architecture>) -> Result<()> {
    let mut missing = Vec::new();
    for architecture in architectures {
        missing.extend(architecture.missing(&project.root)?);
    }
    if !architectures.iter().any(|architecture| architecture.is_own()) {
        missing.push(
            "this machine's architecture in --arch: its binary prints completions and the manual page".to_owned(),
        );
    }
    if program::helm().is_none() {
        missing.push("helm: go install helm.sh/helm/v3/cmd/helm@v3.18.4, or set HELM to its path".to_owned());
    }
    ensure!(missing.is_empty(), "cannot make the artefacts; missing are\n  {}", missing.join("\n  "));
    Ok(())
}

/// Creates the folder of the artefacts, or empties it if an earlier run made it.
fn prepare(out: &Path) -> Result<PathBuf> {
    if out.exists() {
        let mut entries = std::fs::read_dir(out).with_context(|| format!("cannot read {}", out.display()))?;
        let is_ours = out.join(CHECKSUMS).exists() || out.join(LICENCES).exists();
        if !is_ours && entries.next().is_some() {
            bail!(
                "{} is not empty, and no earlier run made it; remove it, or name another folder with --out",
                out.display()
            );
        }
        std::fs::remove_dir_all(out).with_context(|| format!("cannot remove {}", out.display()))?;
    }
    std::fs::create_dir_all(out).with_context(|| format!("cannot create {}", out.display()))?;
    // The next run recognizes the folder, even if this one fails in the middle.
    write(&out.join(LICENCES), "")?;
    std::path::absolute(out).with_context(|| format!("cannot resolve {}", out.display()))
}

fn say(text: &str) {
    eprintln!("dist: {text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_of_others_is_not_emptied() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        write(&out.join("mine.txt"), "mine").unwrap();
        let error = prepare(&out).unwrap_err().to_string();
        assert!(error.contains("no earlier run made it"), "{error}");
        assert!(out.join("mine.txt").exists());
        write(&out.join(CHECKSUMS), "").unwrap();
        prepare(&out).unwrap();
        assert!(!out.join("mine.txt").exists(), "a folder of an earlier run is emptied");
    }

    #[test]
    fn default_repository_cannot_be_registered() {
        assert_eq!(repository(Some("registry.example.com/ccm".to_owned())), "registry.example.com/ccm");
        // Upper case is valid in no registry.
        assert!(repository(Some(String::new())).starts_with("REGISTRY/"));
    }
}
