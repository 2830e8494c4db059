//! Manifests: each names the image of this release by its digest.

use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::ok;
use crate::dist::INSTALL;
use crate::read_text;

/// Checks the manifests that install a cloud.
pub(super) fn check(folder: &Path, digest: &str) -> Result<()> {
    let mut images = std::collections::BTreeSet::new();
    let mut count = 0;
    for item in
        std::fs::read_dir(folder.join(INSTALL)).with_context(|| format!("{} has no {INSTALL}", folder.display()))?
    {
        let path = item.with_context(|| format!("cannot read {INSTALL}"))?.path();
        let text = read_text(&path)?;
        let found = images_of(&text);
        ensure!(!found.is_empty(), "{} names no image", path.display());
        for image in found {
            ensure!(image.ends_with(&format!("@{digest}")), "{} names the image {image}", path.display());
            images.insert(image.to_owned());
        }
        count += 1;
    }
    ensure!(count >= 14, "only {count} manifests are in {INSTALL}");
    ensure!(images.len() == 1, "the manifests name several images: {images:?}");
    ok(&format!("{count} manifests name the image by its digest"));
    Ok(())
}

/// Returns the images that a manifest names.
fn images_of(manifest: &str) -> Vec<&str> {
    let lines = manifest.lines().filter_map(|line| line.trim().trim_start_matches("- ").strip_prefix("image: "));
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
