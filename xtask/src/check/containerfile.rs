//! The Containerfile: the image that it makes has the files and the description of the image in the layout.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::image::{Image, read, top};
use super::{ok, skip};
use crate::dist::{Architecture, IMAGE};
use crate::program;
use crate::project::Project;

/// Name of the image in the storage of this check.
const NAME: &str = "localhost/ccm-check";

/// Builds the image for this machine without a network, and compares both.
pub(super) fn check(project: &Project, folder: &Path) -> Result<()> {
    if program::find("buildah").is_none() {
        return skip("the Containerfile is not built: install buildah");
    }
    let layout = folder.join(IMAGE);
    let index = super::image::index(&layout)?;
    let is_own = |entry: &&Value| {
        let name = entry["platform"]["architecture"]
            .as_str()
            .unwrap_or_default();
        name.parse::<Architecture>().is_ok_and(Architecture::is_own)
    };
    let entry = index["manifests"]
        .as_array()
        .and_then(|all| all.iter().find(is_own));
    let entry = entry.context("the layout has no image for this machine")?;
    let expected = read(&layout, entry)?;

    let work = tempfile::tempdir().context("cannot create a folder for buildah")?;
    let buildah = |arguments: &[&str]| {
        let mut command = Command::new("buildah");
        command.args(["--storage-driver", "vfs"]);
        command
            .arg("--root")
            .arg(work.path().join("root"))
            .arg("--runroot")
            .arg(work.path().join("run"));
        program::output(command.args(arguments))
    };
    let file = project.root.join("Containerfile");
    let context = folder.display().to_string();
    let architecture = entry["platform"]["architecture"]
        .as_str()
        .unwrap_or_default();
    let platform = format!("linux/{architecture}");
    let version = format!("VERSION={}", project.version);
    buildah(&[
        "build",
        "--network=none",
        "--platform",
        &platform,
        "--build-arg",
        &version,
        "--file",
        &file.display().to_string(),
        "--tag",
        NAME,
        &context,
    ])?;
    let out = work.path().join("image");
    buildah(&["push", NAME, &format!("oci:{}:check", out.display())])?;
    let built = read(&out, &top(&out)?)?;
    compare(&built, &expected)?;
    ok("buildah makes the same files and container from the Containerfile");
    Ok(())
}

fn compare(built: &Image, expected: &Image) -> Result<()> {
    for key in ["User", "Entrypoint", "Env"] {
        let got = &built.container[key];
        let wanted = &expected.container[key];
        ensure!(
            got == wanted,
            "{key} of the Containerfile is {got}, and of the layout {wanted}"
        );
    }
    for (label, wanted) in expected.container["Labels"]
        .as_object()
        .into_iter()
        .flatten()
    {
        let got = &built.container["Labels"][label];
        // These are arguments of the build.
        let is_open = ["revision", "created"]
            .iter()
            .any(|text| label.ends_with(text))
            && got == "";
        ensure!(
            got == wanted || is_open,
            "label {label} of the Containerfile is {got}, and of the layout {wanted}"
        );
    }
    let differ = |path: &&String| built.files.get(*path) != expected.files.get(*path);
    let paths: Vec<_> = built
        .files
        .keys()
        .chain(expected.files.keys())
        .filter(differ)
        .collect();
    ensure!(paths.is_empty(), "the images differ in {paths:?}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tarball::{Entry, Tree};

    fn image(user: &str, path: &str) -> Image {
        let container = json!({"User": user, "Labels": {"org.opencontainers.image.created": ""}});
        Image {
            container,
            files: Tree::from([(path.to_owned(), Entry::Folder)]),
        }
    }

    #[test]
    fn another_user_and_another_file_are_found() {
        compare(&image("1", "a"), &image("1", "a")).unwrap();
        let error = |other: &Image| compare(other, &image("1", "a")).unwrap_err().to_string();
        assert_eq!(
            error(&image("0", "a")),
            "User of the Containerfile is \"0\", and of the layout \"1\""
        );
        assert_eq!(
            error(&image("1", "b")),
            "the images differ in [\"b\", \"a\"]"
        );
    }
}
