//! Scenarios as they stand in the YAML files.

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

/// A file of scenarios: everything about one semantics.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Group {
    /// The semantics; also the file's name.
    pub(crate) semantics: String,
    /// Scenarios of the semantics, at least three.
    pub(crate) scenarios: Vec<Scenario>,
}

/// A short story of requests whose answers must be equal on both servers.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scenario {
    /// A DNS label, unique in the suite; namespaces and objects are named after it.
    pub(crate) id: String,
    /// Title of the scenario: the behaviour that it shows, as a sentence.
    pub(crate) title: String,
    /// Required history of the server.
    #[serde(default)]
    pub(crate) needs: Option<Need>,
    /// Paths to delete in the end, beyond those that are found from the steps themselves.
    #[serde(default)]
    pub(crate) cleanup: Vec<String>,
    /// The requests, in order.
    pub(crate) steps: Vec<Step>,
    /// Text of the file, to distinguish a scenario's literals from generated values.
    #[serde(skip)]
    pub(crate) literals: String,
}

/// A state that a scenario needs its server in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Need {
    /// Revision 1 is forgotten, by the storage and by the watch caches.
    Compacted,
}

/// A request of a scenario.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Step {
    /// Method and URL: `METHOD /path?query`.
    pub(crate) call: String,
    /// `Accept`; short names: see [`accept`].
    #[serde(default)]
    pub(crate) accept: Option<String>,
    /// `Content-Type`; short names: see [`content_type`].
    #[serde(default, rename = "type")]
    pub(crate) content_type: Option<String>,
    /// The body as YAML, sent as JSON.
    #[serde(default)]
    pub(crate) body: Option<Value>,
    /// The body as it is.
    #[serde(default)]
    pub(crate) raw: Option<String>,
    /// Variables for later steps, by JSON pointer into the answer's body.
    #[serde(default)]
    pub(crate) save: BTreeMap<String, String>,
    /// The answer is a watch, read until this.
    #[serde(default)]
    pub(crate) watch: Option<Until>,
    /// Steps that run while the watch is open.
    #[serde(default)]
    pub(crate) during: Vec<Step>,
    /// Compare only the status code: the step prepares another.
    #[serde(default)]
    pub(crate) setup: bool,
    /// Compare only these parts of the body.
    #[serde(default)]
    pub(crate) only: Vec<String>,
    /// Leave these parts of the body out.
    #[serde(default)]
    pub(crate) ignore: Vec<String>,
    /// If set, `managedFields` are compared too.
    #[serde(default)]
    pub(crate) managed: bool,
}

/// End of the part of a watch that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Until {
    /// After this number of events (bookmarks count).
    Events(usize),
    /// After the first bookmark.
    Bookmark,
    /// The server closes the stream.
    Closed,
}

/// Returns the directory of the scenario files.
pub(crate) fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("equal-answers")
}

/// Reads every `*.yaml` of the directory. `tag` takes the place of `eq-` in every name, so that runs do not meet.
pub(crate) fn load(directory: &Path, tag: &str) -> Result<Vec<Group>> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(directory)
        .with_context(|| format!("reading {}", directory.display()))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    paths.retain(|path| {
        path.extension()
            .is_some_and(|extension| extension == "yaml")
    });
    paths.sort();
    let mut groups = Vec::new();
    let mut ids = HashSet::new();
    for path in paths {
        let text = std::fs::read_to_string(&path)?;
        // `y` is a string in these files.
        let options = serde_saphyr::options! { strict_booleans: true };
        let mut group: Group =
            serde_saphyr::from_str_with_options(&text.replace("eq-", tag), options)
                .with_context(|| format!("parsing {}", path.display()))?;
        ensure!(
            path.file_stem()
                .is_some_and(|stem| stem == group.semantics.as_str()),
            "{} speaks of {}",
            path.display(),
            group.semantics
        );
        for scenario in &mut group.scenarios {
            ensure!(
                ids.insert(scenario.id.clone()),
                "{}: scenario {} is there twice",
                path.display(),
                scenario.id
            );
            scenario.literals = format!("{:?}", scenario.steps);
        }
        groups.push(group);
    }
    Ok(groups)
}

/// Returns the media type for a short name of `accept`.
pub(crate) fn accept(name: &str) -> &str {
    match name {
        "table" => "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
        "table-only" => "application/json;as=Table;v=v1;g=meta.k8s.io",
        "partial" => {
            "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json"
        }
        "partial-list" => {
            "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"
        }
        "aggregated" => {
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
        }
        "json" => "application/json",
        other => other,
    }
}

/// Returns the media type for a short name of `type`.
pub(crate) fn content_type(name: &str) -> &str {
    match name {
        "json" => "application/json",
        "merge" => "application/merge-patch+json",
        "json-patch" => "application/json-patch+json",
        "strategic" => "application/strategic-merge-patch+json",
        "apply" => "application/apply-patch+yaml",
        other => other,
    }
}
