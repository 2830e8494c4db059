//! The recorded answers: `answers/SEMANTICS.json`, by scenario, one entry a step.

use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Masked answers by scenario id.
pub(crate) type Answers = BTreeMap<String, Value>;

fn path(directory: &Path, semantics: &str) -> PathBuf {
    directory.join("answers").join(format!("{semantics}.json"))
}

/// Returns the recorded responses of a semantics; empty if the file does not exist yet.
pub(crate) fn read(directory: &Path, semantics: &str) -> Result<Answers> {
    let path = path(directory, semantics);
    match std::fs::read_to_string(&path) {
        Ok(text) => {
            serde_json::from_str(&text).with_context(|| format!("parsing {}", path.display()))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Answers::new()),
        Err(error) => Err(error).with_context(|| format!("reading {}", path.display())),
    }
}

/// Records the answers of a semantics.
pub(crate) fn write(directory: &Path, semantics: &str, answers: &Answers) -> Result<()> {
    let path = path(directory, semantics);
    let text = serde_json::to_string_pretty(answers)? + "\n";
    std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
}
