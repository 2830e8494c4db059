//! The package of the chart that `deploy/package` makes, with the image in it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::documents::{deploy, parse};
use crate::helm::Helm;
use crate::pods::pods;

const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// Runs `deploy/package`, and returns the package or its error.
fn package(helm: &Helm, folder: &TempDir, repository: &str, version: &str) -> Result<PathBuf> {
    let mut command = Command::new(deploy().join("package"));
    let output = command
        .arg(folder.path())
        .args([repository, version])
        .env("HELM", helm.program())
        .output()?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let entry = std::fs::read_dir(folder.path())?
        .next()
        .context("deploy/package made nothing")?;
    Ok(entry?.path())
}

fn image(helm: &Helm, package: &Path, image: &Value) -> Result<String> {
    let values = json!({"provider": "aws", "image": image});
    let text = helm.rendered(package, values.as_object().unwrap_or(&Map::new()))?;
    let documents = parse(&text)?;
    let [(_, _, pod)] = pods(&documents)[..] else {
        bail!("not one Pod")
    };
    Ok(pod["spec"]["containers"][0]["image"]
        .as_str()
        .unwrap_or_default()
        .to_owned())
}

pub(crate) fn a_package_installs_its_image_and_no_mixture(helm: &Helm) -> Result<()> {
    let of_digest = format!("registry.example.com:5000/team/ccm@{DIGEST}");
    for (version, wanted) in [
        (DIGEST, of_digest.as_str()),
        ("v1", "registry.example.com:5000/team/ccm:v1"),
        // YAML would read these as numbers.
        ("1", "registry.example.com:5000/team/ccm:1"),
        ("1.0", "registry.example.com:5000/team/ccm:1.0"),
    ] {
        let folder = tempfile::tempdir()?;
        let package = package(helm, &folder, "registry.example.com:5000/team/ccm", version)?;
        let got = image(helm, &package, &json!({}))?;
        ensure!(got == wanted, "{version}: {got}");
        let got = image(helm, &package, &Value::Null)?;
        ensure!(got == wanted, "{version}, and an empty section: {got}");
        let got = image(
            helm,
            &package,
            &json!({"repository": "mirror.example.com/ccm", "tag": "v2"}),
        )?;
        ensure!(
            got == "mirror.example.com/ccm:v2",
            "{version}, and an image of the user's own: {got}"
        );
        let got = image(helm, &package, &json!({"tag": "v2"}))?;
        ensure!(
            got == "registry.example.com:5000/team/ccm:v2",
            "{version}, and a tag of the user's own: {got}"
        );
        let Err(error) = image(
            helm,
            &package,
            &json!({"repository": "registry.k8s.io/provider-aws/cloud-controller-manager"}),
        ) else {
            bail!("{version}: the image of the vendor is accepted")
        };
        let says = error
            .to_string()
            .contains("remove image.repository, image.tag and image.digest");
        ensure!(says, "{version}: {error}");
    }
    Ok(())
}

/// `cargo xtask dist` packages a placeholder if nobody names a repository.
pub(crate) fn a_package_with_a_placeholder_needs_a_repository_and_keeps_its_digest(
    helm: &Helm,
) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let package = package(helm, &folder, "REGISTRY/cloud-controller-manager", DIGEST)?;
    let Err(error) = image(helm, &package, &json!({})) else {
        bail!("the placeholder is installed")
    };
    ensure!(
        error.to_string().contains("image.repository is required"),
        "{error}"
    );
    let got = image(
        helm,
        &package,
        &json!({"repository": "registry.example.com/ccm"}),
    )?;
    ensure!(got == format!("registry.example.com/ccm@{DIGEST}"), "{got}");
    let got = image(
        helm,
        &package,
        &json!({"repository": "registry.example.com/ccm", "tag": "v2"}),
    )?;
    ensure!(got == "registry.example.com/ccm:v2", "{got}");
    let Err(error) = image(
        helm,
        &package,
        &json!({"repository": "hetznercloud/hcloud-cloud-controller-manager"}),
    ) else {
        bail!("the image of the vendor is accepted")
    };
    ensure!(
        error
            .to_string()
            .contains("set it to the repository that you pushed the image"),
        "{error}"
    );
    Ok(())
}

pub(crate) fn a_package_with_an_image_that_cannot_be_pulled_is_not_made(helm: &Helm) -> Result<()> {
    for (repository, version, says) in [
        (
            "registry.example.com/ccm:v1",
            "v1",
            "REPOSITORY \"registry.example.com/ccm:v1\" is not valid",
        ),
        (
            "registry.example.com/c|cm",
            "v1",
            "REPOSITORY \"registry.example.com/c|cm\" is not valid",
        ),
        ("https://registry.example.com/ccm", "v1", "REPOSITORY"),
        ("", "v1", "REPOSITORY"),
        (
            "registry.example.com/ccm",
            "sha256:abc",
            "DIGEST \"sha256:abc\" is not valid",
        ),
        ("registry.example.com/ccm", "", "TAG \"\" is not valid"),
        (
            "registry.example.com/ccm",
            "a b",
            "TAG \"a b\" is not valid",
        ),
    ] {
        let folder = tempfile::tempdir()?;
        let Err(error) = package(helm, &folder, repository, version) else {
            bail!("{repository:?} with {version:?} is packaged")
        };
        ensure!(
            error.to_string().contains(says),
            "{repository:?} with {version:?}: {error}"
        );
    }
    Ok(())
}
