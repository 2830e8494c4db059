//! Case files: found, read, and checked as far as that goes without knowing the suite.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde::Deserialize;
use serde_json::Value;

use super::schema;
use super::suites::RUNNABLE;

/// The case files of this repository.
const OWN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/cases");

/// Directories of case files.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    /// A directory that must have a case for every suite.
    pub(crate) own: Option<PathBuf>,
    /// Further directories of cases.
    pub(crate) extra: Vec<PathBuf>,
}

impl Sources {
    /// Returns the repository's own directory and further ones, separated by `:`. A relative directory is resolved
    /// against the repository's root, where people call cargo, and then against the working directory, which cargo
    /// sets.
    pub(crate) fn own_and(extra: &str) -> Self {
        let extra = extra.split(':').filter(|dir| !dir.is_empty()).map(|dir| {
            let from_root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(dir);
            if from_root.exists() {
                from_root
            } else {
                PathBuf::from(dir)
            }
        });
        Self {
            own: Some(OWN.into()),
            extra: extra.collect(),
        }
    }
}

/// A case before its content is parsed.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) suite: String,
    /// ID of the case, or `#N` for the Nth case of a file without an ID.
    pub(crate) id: String,
    pub(crate) file: PathBuf,
    content: Value,
    duplicate: bool,
}

/// The fields of a case.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    id: String,
    #[serde(default, rename = "rules")]
    _rules: Vec<String>,
    #[serde(rename = "class")]
    _class: Option<Class>,
    #[serde(rename = "title")]
    _title: Option<String>,
    given: Value,
    expect: Value,
    /// Informative, hence not compared.
    #[serde(rename = "observed")]
    _observed: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Class {
    Normative,
    Quirk,
    Defect,
}

/// The fields of a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    suite: String,
    cases: Vec<Value>,
}

impl Case {
    /// Returns the name `SUITE::ID` of the case.
    pub(crate) fn name(&self) -> String {
        format!("{}::{}", self.suite, self.id)
    }

    /// Returns the parts `given` and `expect`.
    pub(crate) fn parts(&self) -> Result<(Value, Value)> {
        let Fields {
            id, given, expect, ..
        } = schema::read("", &self.content)?;
        ensure!(!id.is_empty(), "id: is empty");
        ensure!(
            !self.duplicate,
            "id: another case of this file has the id {id:?} too"
        );
        ensure!(given.is_object(), "given: is not a map");
        ensure!(
            expect.as_object().is_some_and(|keys| !keys.is_empty()),
            "expect: has no keys"
        );
        Ok((given, expect))
    }
}

/// Cases that were found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) cases: Vec<Case>,
    /// Errors in directories and whole files.
    pub(crate) problems: Vec<String>,
}

/// Reads all case files.
pub(crate) fn load(sources: &Sources) -> Found {
    let mut found = Found::default();
    for directory in sources.own.iter().chain(&sources.extra) {
        let files = yaml_files(directory).and_then(|files| {
            ensure!(
                !files.is_empty(),
                "{} has no YAML file",
                directory.display()
            );
            Ok(files)
        });
        match files {
            Err(error) => found.problems.push(format!("{error:#}")),
            Ok(files) => {
                for file in files {
                    match read(&file) {
                        Ok(cases) => found.cases.extend(cases),
                        Err(error) => found
                            .problems
                            .push(format!("{}: {error:#}", file.display())),
                    }
                }
            }
        }
    }
    if let Some(own) = &sources.own {
        for (suite, _) in RUNNABLE {
            if !found
                .cases
                .iter()
                .any(|case| case.suite == suite && case.file.starts_with(own))
            {
                found
                    .problems
                    .push(format!("{} has no case of suite {suite}", own.display()));
            }
        }
    }
    found
}

/// Returns the YAML files of a directory and those below it, in a fixed order.
fn yaml_files(directory: &Path) -> Result<Vec<PathBuf>> {
    let context = || format!("cannot read directory {}", directory.display());
    let mut entries: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(directory).with_context(context)? {
        entries.push(entry.with_context(context)?.path());
    }
    entries.sort();
    let mut files = Vec::new();
    for entry in entries {
        if entry.is_dir() {
            files.extend(yaml_files(&entry)?);
        } else if entry
            .extension()
            .is_some_and(|extension| extension == "yaml" || extension == "yml")
        {
            files.push(entry);
        }
    }
    Ok(files)
}

fn read(path: &Path) -> Result<Vec<Case>> {
    let text = std::fs::read_to_string(path).context("cannot be read")?;
    let mut options = serde_saphyr::options! { strict_booleans: true };
    options.with_snippet = false;
    let content: Value = serde_saphyr::from_str_with_options(&text, options)
        .map_err(|e| anyhow!("is not YAML: {e}"))?;
    ensure!(!content.is_null(), "is empty, it has no cases");
    let File { suite, cases } = schema::read("", &content)?;
    if !RUNNABLE.iter().any(|(known, _)| *known == suite) {
        let known: Vec<&str> = RUNNABLE.iter().map(|(name, _)| *name).collect();
        bail!(
            "suite: unknown suite {suite:?}; known are {}",
            known.join(", ")
        );
    }
    ensure!(!cases.is_empty(), "cases: is empty");
    let mut ids = HashSet::new();
    Ok(cases
        .into_iter()
        .enumerate()
        .map(|(index, content)| {
            let id = content["id"]
                .as_str()
                .map_or_else(|| format!("#{}", index + 1), str::to_owned);
            let duplicate = !ids.insert(id.clone());
            Case {
                suite: suite.clone(),
                id,
                file: path.to_owned(),
                content,
                duplicate,
            }
        })
        .collect())
}
