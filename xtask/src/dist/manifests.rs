//! Manifests with the image pinned by digest: `install/NAME.yaml` for each cloud of the program, `manifests/` with the
//! templates.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::PLACEHOLDER;
use crate::project::Project;
use crate::{read_text, write};

/// Folder of the manifests that install everything for one cloud.
pub(crate) const INSTALL: &str = "install";
/// Folder of the manifests that are templates.
const TEMPLATES: &str = "manifests";
/// Manifests that are not of one cloud.
const GENERAL: [&str; 5] = [
    "daemonset",
    "deployment",
    "rbac",
    "rbac-volumes",
    "static-pod",
];
/// Flag that names the cloud in a manifest. Its value is the name of a feature, too.
const CLOUD_FLAG: &str = "--cloud-provider=";

/// Writes the manifests of the repository with this image: those of the clouds that are among the features, and the
/// templates.
pub(super) fn pin(
    project: &Project,
    image: &str,
    features: &BTreeSet<String>,
    out: &Path,
) -> Result<()> {
    let folder = project.root.join("deploy/manifests");
    let failed = || format!("cannot read {}", folder.display());
    for item in std::fs::read_dir(&folder).with_context(failed)? {
        let path = item.with_context(failed)?.path();
        let Some(name) = path.file_stem().and_then(|name| name.to_str()) else {
            continue;
        };
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        let text = read_text(&path)?;
        let is_general = GENERAL.contains(&name);
        if !is_general {
            let cloud = cloud(&text)
                .with_context(|| format!("deploy/manifests/{name}.yaml has no {CLOUD_FLAG}"))?;
            if !features.contains(cloud) {
                continue;
            }
        }
        let pinned = pinned(&text, &project.version, image)
            .with_context(|| format!("deploy/manifests/{name}.yaml"))?;
        // Permissions alone have no image.
        ensure!(
            is_general || pinned != text,
            "deploy/manifests/{name}.yaml has no image {PLACEHOLDER}:{}",
            project.version
        );
        let to = if is_general { TEMPLATES } else { INSTALL };
        write(&out.join(to).join(format!("{name}.yaml")), pinned)?;
    }
    Ok(())
}

/// Returns the cloud that a manifest names.
pub(crate) fn cloud(manifest: &str) -> Option<&str> {
    manifest
        .lines()
        .find_map(|line| line.trim().strip_prefix("- ")?.strip_prefix(CLOUD_FLAG))
}

/// Returns the manifest with this image instead of the placeholder with its tag.
fn pinned(manifest: &str, version: &str, image: &str) -> Result<String> {
    // A longer tag begins with the version, too.
    let tagged = format!("{PLACEHOLDER}:{version}");
    let mut text = String::new();
    for line in manifest.lines() {
        let line = match line.split_once(&tagged) {
            Some((before, after)) if matches!(after, "" | "\"") => {
                format!("{before}{image}{after}")
            }
            _ => line.to_owned(),
        };
        ensure!(
            !line.contains(&format!("{PLACEHOLDER}:")),
            "the image has another tag than {version}: {}",
            line.trim()
        );
        text.push_str(&line);
        text.push('\n');
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const IMAGE: &str = "registry.example.com/ccm@sha256:0123";

    /// Returns the names of the manifests that are written for these features.
    fn installs(features: &str) -> Vec<String> {
        let project = Project::of_this_crate();
        let out = tempfile::tempdir().unwrap();
        pin(
            &project,
            IMAGE,
            &project.features(features).unwrap(),
            out.path(),
        )
        .unwrap();
        let pod = read_text(&out.path().join(TEMPLATES).join("static-pod.yaml")).unwrap();
        assert!(pod.contains(&format!("image: {IMAGE}\n")), "{pod}");
        let mut names = Vec::new();
        for item in std::fs::read_dir(out.path().join(INSTALL)).unwrap() {
            let path = item.unwrap().path();
            let text = read_text(&path).unwrap();
            assert!(
                text.contains(&format!("image: \"{IMAGE}\"\n")),
                "{}",
                path.display()
            );
            names.push(path.file_stem().unwrap().to_string_lossy().into_owned());
        }
        names.sort();
        names
    }

    #[test]
    fn every_cloud_of_the_program_has_a_manifest_with_the_pinned_image() {
        let all = installs("clouds");
        for cloud in Project::of_this_crate().features("clouds").unwrap() {
            // Manifests have the names of vendors.
            let name = match cloud.as_str() {
                "alibabacloud" => "alibaba",
                "cce" => "baidu",
                "gce" => "gcp",
                "tencentcloud" => "tencent",
                "clouds" => continue,
                other => other,
            };
            assert!(
                all.iter().any(|found| found == name),
                "{name} is not among {all:?}"
            );
        }
        // The simulated cloud is for demos.
        assert!(!all.iter().any(|name| name == "simulated"));
        assert_eq!(installs("hcloud"), ["hcloud", "hcloud-networks"]);
    }

    #[test]
    fn manifest_with_the_image_of_another_version_is_refused() {
        let of = |tag: &str| pinned(&format!("  image: \"{PLACEHOLDER}:{tag}\""), "1.2.3", IMAGE);
        assert_eq!(of("1.2.3").unwrap(), format!("  image: \"{IMAGE}\"\n"));
        for other in ["1.2.2", "1.2.30"] {
            let error = of(other).unwrap_err().to_string();
            assert!(
                error.starts_with("the image has another tag than 1.2.3"),
                "{error}"
            );
        }
    }
}
