//! Software bill of materials in the format CycloneDX 1.5.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::dependencies::{Crate, Graph, Key};
use super::sha256;
use crate::DistArguments;
use crate::project::{PROGRAM, Project};

/// Returns the name of the document.
pub(crate) fn file_name(version: &str) -> String {
    format!("{PROGRAM}-{version}.cdx.json")
}

/// Returns the document. Crates of this workspace are components without an address in a registry.
pub(super) fn document(
    project: &Project,
    graph: &Graph,
    arguments: &DistArguments,
) -> Result<Vec<u8>> {
    let program_crate = graph
        .crates
        .iter()
        .find(|((name, _), _)| name == PROGRAM)
        .context("the program is not in its own graph")?;
    let mut components = Vec::new();
    let mut dependencies = Vec::new();
    for (key, package) in &graph.crates {
        if key != program_crate.0 {
            components.push(component("library", key, package, graph));
        }
        let on: Vec<String> = graph.edges[key]
            .iter()
            .map(|key| reference(key, graph))
            .collect();
        dependencies.push(json!({"ref": reference(key, graph), "dependsOn": on}));
    }
    let mut document = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": project.created(),
            "tools": {"components": [{"type": "application", "name": "xtask", "version": project.version}]},
            "component": component("application", program_crate.0, program_crate.1, graph),
            "properties": [
                {"name": "ccm-rs:revision", "value": project.shown_revision()},
                {"name": "ccm-rs:profile", "value": arguments.profile},
                {"name": "ccm-rs:features", "value": arguments.features},
            ],
        },
        "components": components,
        "dependencies": dependencies,
    });
    // The number of the document follows from its content, so that a second build has the same.
    document["serialNumber"] = serial_number(&serde_json::to_vec(&document)?).into();
    let mut text = serde_json::to_vec_pretty(&document)?;
    text.push(b'\n');
    Ok(text)
}

fn component(kind: &str, key: &Key, package: &Crate, graph: &Graph) -> Value {
    let mut component = json!({
        "type": kind,
        "bom-ref": reference(key, graph),
        "name": key.0,
        "version": key.1,
        "licenses": [{"expression": package.licence}],
    });
    if let Some(checksum) = &package.checksum {
        component["purl"] = reference(key, graph).into();
        component["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
    }
    if let Some(repository) = &package.repository {
        component["externalReferences"] = json!([{"type": "vcs", "url": repository}]);
    }
    component
}

/// Returns the reference of a component: its package URL, or its name in this workspace. A `+` in a version is escaped.
fn reference(key: &Key, graph: &Graph) -> String {
    let (name, version) = key;
    match graph
        .crates
        .get(key)
        .and_then(|package| package.checksum.as_ref())
    {
        Some(_) => format!("pkg:cargo/{name}@{}", version.replace('+', "%2B")),
        None => format!("ccm-rs/{name}@{version}"),
    }
}

/// Returns a UUID of version 8 with the beginning of the content's SHA-256 sum.
fn serial_number(content: &[u8]) -> String {
    let sum = sha256(content);
    format!(
        "urn:uuid:{}-{}-8{}-8{}-{}",
        &sum[..8],
        &sum[8..12],
        &sum[12..15],
        &sum[15..18],
        &sum[18..30]
    )
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::path::PathBuf;

    use super::*;

    fn graph() -> Graph {
        let package = |checksum: Option<&str>| Crate {
            licence: "Apache-2.0".to_owned(),
            authors: Vec::new(),
            repository: Some("https://example.com/a".to_owned()),
            folder: PathBuf::new(),
            checksum: checksum.map(str::to_owned),
        };
        let program_key = (PROGRAM.to_owned(), "1.2.3".to_owned());
        let other = ("zstd".to_owned(), "2.0.1+1.5.7".to_owned());
        Graph {
            crates: BTreeMap::from([
                (program_key.clone(), package(None)),
                (other.clone(), package(Some("ab"))),
            ]),
            edges: BTreeMap::from([
                (program_key, BTreeSet::from([other.clone()])),
                (other, BTreeSet::new()),
            ]),
        }
    }

    fn arguments() -> DistArguments {
        let [profile, features] = ["dist", "clouds"].map(str::to_owned);
        DistArguments {
            arch: Vec::new(),
            out: None,
            profile,
            features,
            registry: None,
        }
    }

    fn project(epoch: u64) -> Project {
        Project {
            version: "1.2.3".to_owned(),
            revision: "abc".to_owned(),
            epoch,
            ..Project::of_this_crate()
        }
    }

    #[test]
    fn document_names_each_crate_with_its_licence_sum_and_dependencies() {
        let document: Value =
            serde_json::from_slice(&super::document(&project(0), &graph(), &arguments()).unwrap())
                .unwrap();
        let [component] = document["components"].as_array().unwrap().as_slice() else {
            panic!("{document:#}")
        };
        assert_eq!(component["purl"], "pkg:cargo/zstd@2.0.1%2B1.5.7");
        assert_eq!(
            component["hashes"],
            json!([{"alg": "SHA-256", "content": "ab"}])
        );
        assert_eq!(component["licenses"], json!([{"expression": "Apache-2.0"}]));
        assert_eq!(
            document["metadata"]["component"]["bom-ref"],
            "ccm-rs/cloud-controller-manager@1.2.3"
        );
        let expected = json!([
            {"ref": "ccm-rs/cloud-controller-manager@1.2.3", "dependsOn": ["pkg:cargo/zstd@2.0.1%2B1.5.7"]},
            {"ref": "pkg:cargo/zstd@2.0.1%2B1.5.7", "dependsOn": []},
        ]);
        assert_eq!(document["dependencies"], expected);
    }

    #[test]
    fn serial_number_follows_from_the_content() {
        let serial = |epoch| {
            let document: Value = serde_json::from_slice(
                &super::document(&project(epoch), &graph(), &arguments()).unwrap(),
            )
            .unwrap();
            document["serialNumber"].as_str().unwrap().to_owned()
        };
        assert_eq!(serial(0), serial(0));
        assert_ne!(serial(0), serial(1));
        let parts: Vec<_> = serial(0)
            .strip_prefix("urn:uuid:")
            .unwrap()
            .split('-')
            .map(str::len)
            .collect();
        assert_eq!(parts, [8, 4, 4, 4, 12]);
    }
}
