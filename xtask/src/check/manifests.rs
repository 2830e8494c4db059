//! Manifests: each names the image of this release by its digest, and a cloud that the program has.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::ok;
use crate::dist::{INSTALL, cloud_of_manifest};
use crate::read_text;

/// Feature that has all clouds.
const ALL_CLOUDS: &str = "clouds";

/// Checks the manifests that install a cloud, for a program with these features.
pub(super) fn check(folder: &Path, digest: &str, features: &BTreeSet<String>) -> Result<()> {
    let mut images = BTreeSet::new();
    let mut clouds = BTreeSet::new();
    for item in std::fs::read_dir(folder.join(INSTALL))
        .with_context(|| format!("{} has no {INSTALL}", folder.display()))?
    {
        let path = item
            .with_context(|| format!("cannot read {INSTALL}"))?
            .path();
        let text = read_text(&path)?;
        let found = images_of(&text);
        ensure!(!found.is_empty(), "{} names no image", path.display());
        for image in found {
            ensure!(
                image.ends_with(&format!("@{digest}")),
                "{} names the image {image}",
                path.display()
            );
            images.insert(image.to_owned());
        }
        let cloud = cloud_of_manifest(&text)
            .with_context(|| format!("{} names no cloud", path.display()))?;
        clouds.insert(cloud.to_owned());
    }
    let expected: BTreeSet<_> = features
        .iter()
        .filter(|feature| *feature != ALL_CLOUDS)
        .cloned()
        .collect();
    ensure!(
        clouds == expected,
        "{INSTALL} has manifests for {clouds:?}, and the program has {expected:?}"
    );
    ensure!(
        images.len() == 1,
        "the manifests name several images: {images:?}"
    );
    ok(&format!(
        "manifests of {} clouds name the image by its digest",
        clouds.len()
    ));
    Ok(())
}

/// Returns the images that a manifest names.
fn images_of(manifest: &str) -> Vec<&str> {
    let lines = manifest
        .lines()
        .filter_map(|line| line.trim().trim_start_matches("- ").strip_prefix("image: "));
    lines.map(|image| image.trim_matches('"')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_found_with_and_without_quotes() {
        let manifest = "containers:\n  - image: \"a@sha256:1\"\n    name: x\n  - name: y\n    image: b:1\n# image: c\n";
        assert_eq!(images_of(manifest), ["a@sha256:1", "b:1"]);
    }
}
