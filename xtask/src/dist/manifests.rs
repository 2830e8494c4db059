//! Manifests with the image pinned by digest: `install/NAME.yaml` for each cloud, `manifests/` with the templates.

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
const GENERAL: [&str; 5] = ["daemonset", "deployment", "rbac", "rbac-volumes", "static-pod"];
/// Manifest of the simulated cloud, which is not in the image.
const EXAMPLE: &str = "simulated";

/// Writes the manifests of the repository with this image.
pub(super) fn pin(project: &Project, image: &str, out: &Path) -> Result<()> {
    let folder = project.root.join("deploy/manifests");
    let failed = || format!("cannot read {}", folder.display());
    for item in std::fs::read_dir(&folder).with_context(failed)? {
        let path = item.with_context(failed)?.path();
        let Some(name) = path.file_stem().and_then(|name| name.to_str()) else { continue };
        if path.extension().is_none_or(|it| it != "yaml") || name == EXAMPLE {
            continue;
        }
        let text = read_text(&path)?;
        let is_general = GENERAL.contains(&name);
        let pinned = pinned(&text, &project.version, image).with_context(|| format!("deploy/manifests/{name}.yaml"))?;
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

/// Returns the manifest with this image instead of the placeholder with its tag.
fn pinned(manifest: &str, version: &str, image: &str) -> Result<String> {
    // A longer tag begins with the version, too.
    let tagged = format!("{PLACEHOLDER}:{version}");
    let mut text = String::new();
    for line in manifest.lines() {
        let line = match line.split_once(&tagged) {
            Some((before, after)) if matches!(after, "" | "\"") => format!("{before}{image}{after}"),
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
    use std::path::PathBuf;

    use super::*;

    const IMAGE: &str = "registry.example.com/ccm@sha256:0123";

    #[test]
    fn every_cloud_has_a_manifest_with_the_pinned_image() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let project = Project {
            root: root.clone(),
            target_directory: PathBuf::new(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            revision: String::new(),
            epoch: 0,
        };
        let out = tempfile::tempdir().unwrap();
        pin(&project, IMAGE, out.path()).unwrap();
        for item in std::fs::read_dir(root.join("deploy/helm/ccm-rs/presets")).unwrap() {
            let name = item.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned();
            // Manifests have the names of vendors.
            let name = match name.as_str() {
                "alibabacloud" => "alibaba",
                "cce" => "baidu",
                "gce" => "gcp",
                "tencentcloud" => "tencent",
                EXAMPLE => continue,
                other => other,
            };
            let text = read_text(&out.path().join(INSTALL).join(format!("{name}.yaml"))).unwrap();
            assert!(text.contains(&format!("image: \"{IMAGE}\"\n")), "{name}");
        }
        let pod = read_text(&out.path().join(TEMPLATES).join("static-pod.yaml")).unwrap();
        assert!(pod.contains(&format!("image: {IMAGE}\n")), "{pod}");
    }

    #[test]
    fn manifest_with_the_image_of_another_version_is_refused() {
        let of = |tag: &str| pinned(&format!("  image: \"{PLACEHOLDER}:{tag}\""), "1.2.3", IMAGE);
        assert_eq!(of("1.2.3").unwrap(), format!("  image: \"{IMAGE}\"\n"));
        for other in ["1.2.2", "1.2.30"] {
            let error = of(other).unwrap_err().to_string();
            assert!(error.starts_with("the image has another tag than 1.2.3"), "{error}");
        }
    }
}
