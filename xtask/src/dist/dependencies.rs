//! Crates that are linked into the program, for all architectures together.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::Value;

use super::Architecture;
use crate::project::{PROGRAM, Project};
use crate::{program, read_text};

/// Name and version of a crate.
pub(super) type Key = (String, String);

/// Facts about a crate.
#[derive(Clone, Debug)]
pub(super) struct Crate {
    /// Licence as an SPDX expression.
    pub(super) licence: String,
    /// Names of the authors, which a licence without a text needs.
    pub(super) authors: Vec<String>,
    /// Address of the sources.
    pub(super) repository: Option<String>,
    /// Folder of the sources.
    pub(super) folder: PathBuf,
    /// SHA-256 sum in `Cargo.lock`. Crates of this workspace have none.
    pub(super) checksum: Option<String>,
}

/// The crates, and the crates that each depends on.
#[derive(Debug, Default)]
pub(super) struct Graph {
    pub(super) crates: BTreeMap<Key, Crate>,
    pub(super) edges: BTreeMap<Key, BTreeSet<Key>>,
}

impl Graph {
    /// Returns the crates that are not of this workspace.
    pub(super) fn third_party(&self) -> impl Iterator<Item = (&Key, &Crate)> {
        self.crates
            .iter()
            .filter(|(_, found)| found.checksum.is_some())
    }
}

/// Reads the graph with cargo. Neither build scripts nor macros are linked.
pub(super) fn read(
    project: &Project,
    architectures: &BTreeSet<Architecture>,
    features: &str,
) -> Result<Graph> {
    let mut edges = BTreeMap::new();
    for architecture in architectures {
        let mut cargo = program::cargo(&project.root);
        cargo.args([
            "tree",
            "--locked",
            "--package",
            PROGRAM,
            "--no-default-features",
            "--features",
            features,
        ]);
        cargo.args([
            "--target",
            architecture.target(),
            "--edges",
            "normal,no-proc-macro",
        ]);
        cargo.args(["--prefix", "depth", "--format", " {p}"]);
        add_edges(&program::output(&mut cargo)?, &mut edges)?;
    }
    let checksums = checksums(&read_text(&project.root.join("Cargo.lock"))?);
    let text = program::output(program::cargo(&project.root).args([
        "metadata",
        "--locked",
        "--all-features",
        "--format-version=1",
    ]))?;
    let metadata: Value =
        serde_json::from_str(&text).context("cannot parse the output of cargo metadata")?;
    let packages = metadata["packages"]
        .as_array()
        .context("cargo metadata lists no packages")?;
    let mut crates = BTreeMap::new();
    for package in packages {
        let text = |name: &str| package[name].as_str().map(str::to_owned);
        let (Some(name), Some(version)) = (text("name"), text("version")) else {
            continue;
        };
        let key = (name, version);
        if !edges.contains_key(&key) {
            continue;
        }
        let manifest = PathBuf::from(text("manifest_path").unwrap_or_default());
        let authors = package["authors"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str);
        let found = Crate {
            licence: expression(&text("license").unwrap_or_default()),
            authors: authors.map(str::to_owned).collect(),
            repository: text("repository"),
            folder: manifest
                .parent()
                .context("a manifest without a folder")?
                .to_owned(),
            checksum: checksums.get(&key).cloned(),
        };
        crates.insert(key, found);
    }
    let missing: Vec<_> = edges
        .keys()
        .filter(|key| !crates.contains_key(*key))
        .collect();
    anyhow::ensure!(
        missing.is_empty(),
        "cargo metadata does not list {missing:?}"
    );
    Ok(Graph { crates, edges })
}

/// Adds the edges that a tree with depths has: ` NAME vVERSION …`, and ` (*)` behind a crate whose dependencies are
/// listed elsewhere.
fn add_edges(tree: &str, edges: &mut BTreeMap<Key, BTreeSet<Key>>) -> Result<()> {
    let mut path: Vec<Key> = Vec::new();
    for line in tree.lines().filter(|line| !line.is_empty()) {
        let parsed = || {
            let mut words = line.split(' ');
            let depth: usize = words.next()?.parse().ok()?;
            Some((
                depth,
                (
                    words.next()?.to_owned(),
                    words.next()?.strip_prefix('v')?.to_owned(),
                ),
            ))
        };
        let (depth, key) =
            parsed().with_context(|| format!("cannot parse the line {line:?} of cargo tree"))?;
        path.truncate(depth);
        edges.entry(key.clone()).or_default();
        if let Some(parent) = path.last() {
            edges.entry(parent.clone()).or_default().insert(key.clone());
        }
        path.push(key);
    }
    Ok(())
}

/// Returns the sums in a `Cargo.lock`.
fn checksums(lock: &str) -> BTreeMap<Key, String> {
    let value = |block: &str, name: &str| {
        let line = block
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(" = "))?;
        Some(line.trim_matches('"').to_owned())
    };
    let blocks = lock.split("[[package]]");
    blocks
        .filter_map(|block| {
            Some((
                (value(block, "name")?, value(block, "version")?),
                value(block, "checksum")?,
            ))
        })
        .collect()
}

/// Returns a licence as SPDX writes it: old manifests separate alternatives with a slash.
fn expression(licence: &str) -> String {
    licence
        .split('/')
        .map(str::trim)
        .collect::<Vec<_>>()
        .join(" OR ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str, version: &str) -> Key {
        (name.to_owned(), version.to_owned())
    }

    #[test]
    fn tree_with_depths_becomes_edges() {
        let tree =
            "0 app v0.1.0 (/x)\n1 a v1.0.0\n2 b v2.0.0\n3 c v3.0.0\n1 b v2.0.0 (*)\n1 c v3.1.0\n";
        let mut edges = BTreeMap::new();
        add_edges(tree, &mut edges).unwrap();
        let of = |pair: Key| edges[&pair].iter().cloned().collect::<Vec<_>>();
        assert_eq!(
            of(key("app", "0.1.0")),
            [key("a", "1.0.0"), key("b", "2.0.0"), key("c", "3.1.0")]
        );
        assert_eq!(of(key("b", "2.0.0")), [key("c", "3.0.0")]);
        assert_eq!(edges.len(), 5);
        assert!(add_edges("0 app\n", &mut edges).is_err());
    }

    #[test]
    fn lock_file_has_sums_of_crates_from_outside_only() {
        let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nsource = \"x\"\nchecksum = \"ab\"\n\n\
                    [[package]]\nname = \"own\"\nversion = \"0.1.0\"\n";
        assert_eq!(
            checksums(lock),
            BTreeMap::from([(key("a", "1.0.0"), "ab".to_owned())])
        );
    }

    #[test]
    fn slash_between_licences_is_an_alternative() {
        assert_eq!(expression("MIT/Apache-2.0"), "MIT OR Apache-2.0");
        assert_eq!(expression("MIT OR Apache-2.0"), "MIT OR Apache-2.0");
    }
}
