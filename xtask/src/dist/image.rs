//! The image in the OCI layout: one layer for each architecture. `deploy/image/config.json` describes the container,
//! `deploy/image/layout` makes its files.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value, json};

use super::{Architecture, IMAGE, sha256};
use crate::project::Project;
use crate::tarball::{self, Entry, Tree};
use crate::{program, read_text, write};

/// Description of the container: user, entry point, variables and labels.
pub(crate) const CONFIG: &str = "deploy/image/config.json";

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG_TYPE: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
/// Folder of the licences in the image, as Dockerfile has it, too.
pub(crate) const DOCUMENTS: &str = "usr/share/ccm-rs";
/// Prefix of the labels that are annotations, too.
const STANDARD_LABELS: &str = "org.opencontainers.image.";

/// Returns the name of the image archive.
pub(crate) fn archive_name(version: &str) -> String {
    format!("cloud-controller-manager-{version}-image.tar")
}

/// Writes the layout, its archive and the file systems. Returns the digest of the index, which names the image for all
/// architectures.
pub(super) fn write_layout(
    project: &Project,
    built: &[(Architecture, PathBuf)],
    licences: &[(&str, Vec<u8>)],
    out: &Path,
) -> Result<String> {
    let config = container(project)?;
    let mut layout = Layout::new();
    let mut manifests = Vec::new();
    for (architecture, binary) in built {
        let layer = layer(project, binary, licences)?;
        // The Containerfile adds it.
        write(
            &out.join(format!("rootfs-linux-{architecture}.tar.gz")),
            &layer,
        )?;
        manifests.push(layout.image(project, &config, *architecture, &layer)?);
    }
    let index = json!({
        "schemaVersion": 2,
        "mediaType": INDEX,
        "manifests": manifests,
        "annotations": annotations(&config),
    });
    let mut descriptor = layout.blob(INDEX, &serde_json::to_vec(&index)?);
    let digest = descriptor["digest"].as_str().unwrap_or_default().to_owned();
    descriptor["annotations"] = json!({"org.opencontainers.image.ref.name": project.version});
    let tree = layout.end(&descriptor)?;
    tarball::unpack(&tree, &out.join(IMAGE))?;
    write(
        &out.join(archive_name(&project.version)),
        tarball::tar(&tree, project.epoch)?,
    )?;
    Ok(digest)
}

/// Writes an archive of the image for this machine from a file system that `deploy/image/layout` has made.
pub(crate) fn archive(project: &Project, root: &Path, archive: &Path) -> Result<()> {
    let own_architecture = Architecture::ALL
        .into_iter()
        .find(|architecture| architecture.is_own());
    let own_architecture =
        own_architecture.context("the image is for amd64 and arm64, not for this machine")?;
    let mut layout = Layout::new();
    let layer = tarball::gzip(&tarball::tar(&tarball::read_folder(root)?, project.epoch)?)?;
    let descriptor = layout.image(project, &container(project)?, own_architecture, &layer)?;
    write(
        archive,
        tarball::tar(&layout.end(&descriptor)?, project.epoch)?,
    )
}

/// Returns the layer with the files that `deploy/image/layout` makes for the binary, and with the licences.
fn layer(project: &Project, binary: &Path, licences: &[(&str, Vec<u8>)]) -> Result<Vec<u8>> {
    let folder = tempfile::tempdir().context("cannot create a folder for the image")?;
    let root = folder.path().join("root");
    program::run(
        Command::new(project.root.join("deploy/image/layout"))
            .arg(&root)
            .arg(binary),
    )?;
    let mut tree = tarball::read_folder(&root)?;
    for (name, text) in licences {
        tree.insert(
            format!("{DOCUMENTS}/{name}"),
            Entry::File(text.clone(), false),
        );
    }
    tarball::gzip(&tarball::tar(&tree, project.epoch)?)
}

/// Returns the description of the container with the labels of this build.
fn container(project: &Project) -> Result<Map<String, Value>> {
    let text = read_text(&project.root.join(CONFIG))?;
    let mut config: Map<String, Value> =
        serde_json::from_str(&text).with_context(|| format!("cannot parse {CONFIG}"))?;
    let labels = config.get_mut("Labels").and_then(Value::as_object_mut);
    let labels = labels.with_context(|| format!("{CONFIG} has no Labels"))?;
    for (name, value) in [
        ("version", project.version.as_str()),
        ("revision", project.shown_revision()),
        ("created", &project.created()),
    ] {
        labels.insert(format!("{STANDARD_LABELS}{name}"), value.into());
    }
    Ok(config)
}

fn annotations(config: &Map<String, Value>) -> Map<String, Value> {
    let labels = config
        .get("Labels")
        .and_then(Value::as_object)
        .into_iter()
        .flatten();
    labels
        .filter(|(name, _)| name.starts_with(STANDARD_LABELS))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// An image layout in memory.
struct Layout {
    tree: Tree,
}

impl Layout {
    fn new() -> Self {
        let folders = ["blobs", "blobs/sha256"].map(|path| (path.to_owned(), Entry::Folder));
        Self {
            tree: Tree::from(folders),
        }
    }

    /// Adds a blob, and returns its descriptor.
    fn blob(&mut self, media_type: &str, content: &[u8]) -> Value {
        let sum = sha256(content);
        self.tree.insert(
            format!("blobs/sha256/{sum}"),
            Entry::File(content.to_vec(), false),
        );
        json!({"mediaType": media_type, "digest": format!("sha256:{sum}"), "size": content.len()})
    }

    /// Adds an image of one compressed layer, and returns the descriptor of its manifest.
    fn image(
        &mut self,
        project: &Project,
        config: &Map<String, Value>,
        architecture: Architecture,
        layer: &[u8],
    ) -> Result<Value> {
        let content = format!("sha256:{}", sha256(&tarball::gunzip(layer)?));
        let os = "linux";
        let created = project.created();
        let image = json!({
            "created": created,
            "architecture": architecture.to_string(),
            "os": os,
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": [content]},
            "history": [{"created": created, "created_by": "cargo xtask dist"}],
        });
        let image = self.blob(CONFIG_TYPE, &serde_json::to_vec(&image)?);
        let layer = self.blob(LAYER, layer);
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": image,
            "layers": [layer],
            "annotations": annotations(config),
        });
        let mut descriptor = self.blob(MANIFEST, &serde_json::to_vec(&manifest)?);
        descriptor["platform"] = json!({"architecture": architecture.to_string(), "os": os});
        Ok(descriptor)
    }

    /// Ends the layout with its only entry.
    fn end(mut self, descriptor: &Value) -> Result<Tree> {
        ensure!(descriptor["digest"].is_string(), "the image has no digest");
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [descriptor]});
        self.tree.insert(
            "index.json".to_owned(),
            Entry::File(serde_json::to_vec(&index)?, false),
        );
        let version = json!({"imageLayoutVersion": "1.0.0"});
        self.tree.insert(
            "oci-layout".to_owned(),
            Entry::File(serde_json::to_vec(&version)?, false),
        );
        Ok(self.tree)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read;

    fn project() -> Project {
        Project {
            version: "1.2.3".to_owned(),
            revision: "0123456789abcdef0123456789abcdef01234567".to_owned(),
            epoch: 1_764_374_400,
            ..Project::of_this_crate()
        }
    }

    fn json_blob(layout: &Path, descriptor: &Value) -> Value {
        let sum = descriptor["digest"]
            .as_str()
            .unwrap()
            .strip_prefix("sha256:")
            .unwrap();
        let content = read(&layout.join("blobs/sha256").join(sum)).unwrap();
        assert_eq!(
            (sha256(&content).as_str(), descriptor["size"].as_u64()),
            (sum, Some(content.len() as u64))
        );
        serde_json::from_slice(&content).unwrap()
    }

    #[test]
    fn layout_has_an_index_with_both_architectures() {
        let project = project();
        let out = tempfile::tempdir().unwrap();
        // Any file can stand for a binary here.
        let built =
            Architecture::ALL.map(|architecture| (architecture, project.root.join("LICENSE")));
        let digest = write_layout(
            &project,
            &built,
            &[("LICENSE", b"text".to_vec())],
            out.path(),
        )
        .unwrap();
        let layout = out.path().join(IMAGE);
        let top: Value =
            serde_json::from_slice(&read(&layout.join("index.json")).unwrap()).unwrap();
        assert_eq!(top["manifests"][0]["digest"], digest.as_str());
        assert_eq!(
            top["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"],
            "1.2.3"
        );
        let index = json_blob(&layout, &top["manifests"][0]);
        let platforms: Vec<_> = index["manifests"]
            .as_array()
            .unwrap()
            .iter()
            .map(|manifest| &manifest["platform"])
            .collect();
        let expected = ["amd64", "arm64"].map(|name| json!({"architecture": name, "os": "linux"}));
        assert_eq!(platforms, expected.iter().collect::<Vec<_>>());
        assert_eq!(
            index["annotations"]["org.opencontainers.image.created"],
            "2025-11-29T00:00:00Z"
        );

        for entry in index["manifests"].as_array().unwrap() {
            let manifest = json_blob(&layout, entry);
            let image = json_blob(&layout, &manifest["config"]);
            assert_eq!(image["config"]["User"], "65532:65532");
            assert_eq!(
                image["config"]["Labels"]["org.opencontainers.image.revision"],
                project.revision.as_str()
            );
            let sum = manifest["layers"][0]["digest"]
                .as_str()
                .unwrap()
                .replace(':', "/");
            let plain = tarball::gunzip(&read(&layout.join("blobs").join(sum)).unwrap()).unwrap();
            assert_eq!(
                image["rootfs"]["diff_ids"],
                json!([format!("sha256:{}", sha256(&plain))])
            );
            let files = tarball::read_tar(&plain).unwrap();
            assert_eq!(
                files["usr/share/ccm-rs/LICENSE"],
                Entry::File(b"text".to_vec(), false)
            );
            assert_eq!(
                files["bin/kubectl-ccm"],
                Entry::Link("../cloud-controller-manager".to_owned())
            );
        }
    }

    #[test]
    fn equal_binaries_make_equal_images() {
        let project = project();
        let built = [(Architecture::Amd64, project.root.join("LICENSE"))];
        let digests = [0, 1].map(|_| {
            write_layout(&project, &built, &[], tempfile::tempdir().unwrap().path()).unwrap()
        });
        assert_eq!(digests[0], digests[1]);
    }
}
