//! The image: its blobs, its description, its files, and that other programs read it.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::{empty_root, ok, skip};
use crate::dist::{
    Architecture, DOCUMENTS, IMAGE, IMAGE_CONFIG, LICENCES, RUST_LICENCES, image_archive_name,
    sha256,
};
use crate::project::{PROGRAM, Project};
use crate::tarball::{self, Entry, Tree};
use crate::{program, read_text};

/// Folders with a link for each name of the program.
const FOLDERS: [&str; 3] = ["", "bin/", "usr/local/bin/"];
/// Names of certificates in the image.
const CERTIFICATES: [&str; 2] = [
    "etc/ssl/certs/ca-certificates.crt",
    "usr/share/ccm-rs/ca-certificates.crt",
];

/// An image of one layer.
pub(super) struct Image {
    /// User, entry point, variables and labels.
    pub(super) container: Value,
    pub(super) files: Tree,
}

/// Checks the image, and returns its digest.
pub(super) fn check(project: &Project, folder: &Path) -> Result<String> {
    let layout = folder.join(IMAGE);
    let descriptor = top(&layout)?;
    let digest = descriptor["digest"]
        .as_str()
        .context("index.json names no image")?
        .to_owned();
    let index = document(&layout, &descriptor)?;
    let manifests = index["manifests"]
        .as_array()
        .context("the index lists no images")?;
    ensure!(!manifests.is_empty(), "the index lists no images");
    for entry in manifests {
        let name: Architecture = entry["platform"]["architecture"]
            .as_str()
            .and_then(|name| name.parse().ok())
            .context("an image has no known architecture")?;
        check_one(project, &layout, entry, name)
            .with_context(|| format!("image for linux/{name}"))?;
    }
    readable(project, folder, &digest)?;
    Ok(digest)
}

fn check_one(
    project: &Project,
    layout: &Path,
    entry: &Value,
    architecture: Architecture,
) -> Result<()> {
    let Image { container, files } = read(layout, entry)?;
    described(project, &container)?;
    let names = names(project)?;
    has_names(&files, &names)?;
    for path in CERTIFICATES {
        let Some(Entry::File(text, false)) = files.get(path) else {
            bail!("{path} is missing")
        };
        ensure!(
            text.windows(11).any(|window| window == b"CERTIFICATE"),
            "{path} has no certificates"
        );
    }
    for name in ["LICENSE", LICENCES, RUST_LICENCES] {
        let path = format!("{DOCUMENTS}/{name}");
        ensure!(
            matches!(files.get(&path), Some(Entry::File(text, false)) if !text.is_empty()),
            "{path} is missing"
        );
    }
    let root = tempfile::tempdir().context("cannot create a folder for the image")?;
    tarball::unpack(&files, root.path())?;
    for name in &names {
        let Some(text) = empty_root::output(
            root.path(),
            architecture,
            &[&format!("/bin/{name}"), "version"],
        )?
        else {
            return skip(&format!(
                "image for {architecture} is not run here: install {}",
                architecture.emulator()
            ));
        };
        ensure!(
            text.contains(&format!("run as {name},")),
            "the program as {name} prints {text:?}"
        );
    }
    ok(&format!(
        "image for linux/{architecture} is not root, has its labels, and runs by {} names",
        names.len()
    ));
    Ok(())
}

/// Returns the names by which the image has the program.
fn names(project: &Project) -> Result<Vec<String>> {
    let text = read_text(&project.root.join("deploy/image/programs"))?;
    let names = text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty());
    Ok(names.chain([PROGRAM]).map(str::to_owned).collect())
}

fn has_names(files: &Tree, names: &[String]) -> Result<()> {
    ensure!(
        matches!(files.get(PROGRAM), Some(Entry::File(_, true))),
        "the image has no program"
    );
    for folder in FOLDERS {
        for name in names {
            let path = format!("{folder}{name}");
            let up = "../".repeat(folder.matches('/').count());
            let is_there = match files.get(&path) {
                Some(Entry::Link(to)) => *to == format!("{up}{PROGRAM}"),
                Some(Entry::File(..)) => path == PROGRAM,
                _ => false,
            };
            ensure!(is_there, "the image has no link /{path} to the program");
        }
    }
    Ok(())
}

/// Compares the container with its description in the repository, and with this build.
fn described(project: &Project, container: &Value) -> Result<()> {
    let expected: Value = serde_json::from_str(&read_text(&project.root.join(IMAGE_CONFIG))?)?;
    for key in ["User", "Entrypoint", "Env"] {
        ensure!(
            container[key] == expected[key],
            "{key} is {}, and {IMAGE_CONFIG} has {}",
            container[key],
            expected[key]
        );
    }
    let user = container["User"].as_str().unwrap_or_default();
    ensure!(
        !matches!(user.split(':').next(), None | Some("" | "0" | "root")),
        "the image runs as root: {user:?}"
    );
    for (label, value) in expected["Labels"].as_object().into_iter().flatten() {
        ensure!(
            container["Labels"][label] == *value,
            "label {label} is {}, not {value}",
            container["Labels"][label]
        );
    }
    for (label, value) in [
        ("version", project.version.as_str()),
        ("revision", project.shown_revision()),
    ] {
        let got = &container["Labels"][format!("org.opencontainers.image.{label}")];
        ensure!(got == value, "label {label} is {got}, not {value:?}");
    }
    Ok(())
}

/// Lets skopeo copy the archive with all architectures, which must keep its digest.
fn readable(project: &Project, folder: &Path, digest: &str) -> Result<()> {
    if program::find("skopeo").is_none() {
        return skip("the image is not copied: install skopeo");
    }
    let copied = tempfile::tempdir().context("cannot create a folder for a copy of the image")?;
    let from = format!(
        "oci-archive:{}:{}",
        folder.join(image_archive_name(&project.version)).display(),
        project.version
    );
    let to = format!("dir:{}", copied.path().display());
    program::output(Command::new("skopeo").args([
        "copy",
        "--all",
        "--preserve-digests",
        "--insecure-policy",
        &from,
        &to,
    ]))?;
    let sum = format!(
        "sha256:{}",
        sha256(&crate::read(&copied.path().join("manifest.json"))?)
    );
    ensure!(
        sum == digest,
        "the copy of the image has the digest {sum}, not {digest}"
    );
    ok(&format!(
        "skopeo copies the image with all architectures as {digest}"
    ));
    Ok(())
}

/// Returns the descriptor of the only entry of a layout.
pub(super) fn top(layout: &Path) -> Result<Value> {
    let top: Value = serde_json::from_str(&read_text(&layout.join("index.json"))?)
        .context("cannot parse index.json")?;
    Ok(top["manifests"][0].clone())
}

/// Returns the index with the images for all architectures.
pub(super) fn index(layout: &Path) -> Result<Value> {
    document(layout, &top(layout)?)
}

/// Reads the image that a descriptor of a manifest names.
pub(super) fn read(layout: &Path, entry: &Value) -> Result<Image> {
    let manifest = document(layout, entry)?;
    let image = document(layout, &manifest["config"])?;
    let named = &entry["platform"]["architecture"];
    let own_architecture = &image["architecture"];
    ensure!(
        named.is_null() || named == own_architecture,
        "the index names the architecture {named}, and the image {own_architecture}"
    );
    ensure!(
        manifest["layers"]
            .as_array()
            .is_some_and(|layers| layers.len() == 1),
        "the image has not one layer"
    );
    let plain = tarball::gunzip(&blob(layout, &manifest["layers"][0])?)?;
    let sum = format!("sha256:{}", sha256(&plain));
    ensure!(
        image["rootfs"]["diff_ids"][0] == sum.as_str(),
        "the layer is not the one of the image's description"
    );
    Ok(Image {
        container: image["config"].clone(),
        files: tarball::read_tar(&plain)?,
    })
}

fn document(layout: &Path, descriptor: &Value) -> Result<Value> {
    serde_json::from_slice(&blob(layout, descriptor)?).context("cannot parse a blob of the image")
}

/// Returns the content of a blob after comparing its sum and size.
fn blob(layout: &Path, descriptor: &Value) -> Result<Vec<u8>> {
    let digest = descriptor["digest"]
        .as_str()
        .context("a descriptor has no digest")?;
    let sum = digest
        .strip_prefix("sha256:")
        .context("a digest is not of SHA-256")?;
    let content = crate::read(&layout.join("blobs/sha256").join(sum))?;
    ensure!(sha256(&content) == sum, "blob {digest} has another content");
    ensure!(
        descriptor["size"].as_u64() == Some(content.len() as u64),
        "blob {digest} has another size"
    );
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn image_without_a_name_of_the_program_is_refused() {
        let names = ["hcloud-cloud-controller-manager", PROGRAM].map(str::to_owned);
        let link = |to: &str| Entry::Link(to.to_owned());
        let mut files = Tree::from([
            (PROGRAM.to_owned(), Entry::File(Vec::new(), true)),
            (names[0].clone(), link(PROGRAM)),
        ]);
        for folder in ["bin/", "usr/local/bin/"] {
            let up = "../".repeat(folder.matches('/').count());
            files.extend(
                names
                    .iter()
                    .map(|name| (format!("{folder}{name}"), link(&format!("{up}{PROGRAM}")))),
            );
        }
        has_names(&files, &names).unwrap();
        files.remove("usr/local/bin/hcloud-cloud-controller-manager");
        let error = has_names(&files, &names).unwrap_err().to_string();
        assert_eq!(
            error,
            "the image has no link /usr/local/bin/hcloud-cloud-controller-manager to the program"
        );
    }
}
