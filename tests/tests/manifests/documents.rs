//! YAML files with several documents.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

/// Returns the directory `deploy` of this repository.
pub(crate) fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy")
}

/// Returns the documents of a text; empty ones are left out.
pub(crate) fn parse(text: &str) -> Result<Vec<Value>> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text)?;
    Ok(documents
        .into_iter()
        .filter(|document| !document.is_null())
        .collect())
}

/// Returns the documents of files in `deploy`, one after the other.
pub(crate) fn read(files: &[&str]) -> Result<Vec<Value>> {
    let mut documents = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(deploy().join(file))
            .with_context(|| format!("reading deploy/{file}"))?;
        documents.extend(parse(&text).with_context(|| format!("deploy/{file}"))?);
    }
    Ok(documents)
}

/// Returns `kind namespace/name`, for messages.
pub(crate) fn title(document: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let namespace = text(&document["metadata"]["namespace"]);
    let name = text(&document["metadata"]["name"]);
    let slash = if namespace.is_empty() { "" } else { "/" };
    format!("{} {namespace}{slash}{name}", text(&document["kind"]))
}
