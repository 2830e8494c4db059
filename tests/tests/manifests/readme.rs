//! The README of the chart: its tables are generated from values.yaml and from the presets. `CCM_WRITE_REFERENCE=1`
//! writes them.

use std::fmt::Write as _;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::documents::deploy;
use crate::presets::presets;

/// A line of values.yaml that documents a value, or begins a section.
#[derive(Debug, PartialEq)]
enum Entry {
    Section(String),
    Documented { path: String, meaning: String },
    Bare { path: String },
}

/// Reads values.yaml: `## ` begins a section, and a comment belongs to the key below it.
fn entries(text: &str) -> Vec<Entry> {
    let mut found = Vec::new();
    let mut comment = Vec::new();
    let mut parents = Vec::<(usize, String)>::new();
    for line in text.lines() {
        let trimmed = line.trim_start();
        let indent = line.len() - trimmed.len();
        if let Some(title) = trimmed.strip_prefix("## ") {
            found.push(Entry::Section(title.to_owned()));
        } else if let Some(words) = trimmed.strip_prefix("# ") {
            comment.push(words.to_owned());
        } else if let Some((key, _)) = trimmed.split_once(':') {
            parents.retain(|(depth, _)| *depth < indent);
            parents.push((indent, key.to_owned()));
            let path = parents
                .iter()
                .map(|(_, key)| key.as_str())
                .collect::<Vec<_>>()
                .join(".");
            let meaning = std::mem::take(&mut comment).join(" ");
            found.push(if meaning.is_empty() {
                Entry::Bare { path }
            } else {
                Entry::Documented { path, meaning }
            });
        } else {
            comment.clear();
        }
    }
    found
}

/// Returns `true` if one path is below another one.
fn is_below(path: &str, parent: &str) -> bool {
    path.strip_prefix(parent)
        .is_some_and(|rest| rest.starts_with('.'))
}

fn default(values: &Value, path: &str, entries: &[Entry]) -> String {
    let value = path.split('.').fold(values, |value, key| &value[key]);
    let documented = |entry: &Entry| matches!(entry, Entry::Documented { path: other, .. } if is_below(other, path));
    match value {
        Value::Null => "–".to_owned(),
        _ if entries.iter().any(documented) => String::new(),
        _ => format!("`{value}`"),
    }
}

/// Returns the tables of values, one for each section.
fn values_table(text: &str) -> Result<String> {
    let values: Value = serde_saphyr::from_str(text)?;
    let entries = entries(text);
    let mut out = String::new();
    for entry in &entries {
        match entry {
            Entry::Section(title) => write!(
                out,
                "\n### {title}\n\n| value | default | meaning |\n|---|---|---|\n"
            )?,
            Entry::Documented { path, meaning } => {
                ensure!(
                    meaning.ends_with(['.', ':']),
                    "values.yaml: {path}: {meaning:?} is no sentence"
                );
                let default = default(&values, path, &entries);
                writeln!(
                    out,
                    "| `{path}` | {default} | {} |",
                    meaning.replace('|', "\\|")
                )?;
            }
            Entry::Bare { path } => {
                // Rows of its children show it, or the row of a parent whose children have none.
                let below = |entry: &Entry, parent: &str| matches!(entry, Entry::Documented { path: other, .. } if is_below(other, parent));
                let shows = |entry: &Entry| match entry {
                    Entry::Documented { path: parent, .. } => {
                        is_below(path, parent) && !entries.iter().any(|entry| below(entry, parent))
                    }
                    _ => false,
                };
                let shown = entries
                    .iter()
                    .any(|entry| below(entry, path) || shows(entry));
                ensure!(shown, "values.yaml: {path} has no comment");
            }
        }
    }
    Ok(out)
}

/// Returns the table of clouds.
fn clouds_table() -> Result<String> {
    let mut out =
        "| cloud | `provider` | keys of the Secret | routes, with `clusterCIDR` |\n|---|---|---|---|\n".to_owned();
    for (name, preset) in presets()? {
        let names: Vec<_> = std::iter::once(&name)
            .chain(&preset.aliases)
            .map(|name| format!("`{name}`"))
            .collect();
        let keys = preset.secret.iter().flat_map(|secret| &secret.keys);
        let keys = keys.map(|key| match key.optional {
            true => format!("`{}` (optional): {}", key.name, key.meaning),
            false => format!("`{}`: {}", key.name, key.meaning),
        });
        let needs = preset
            .needs
            .iter()
            .map(|need| format!("No Secret. Set `env.{}`: {}.", need.env, need.meaning));
        let mut cell = keys.chain(needs).collect::<Vec<_>>().join(" ");
        if preset
            .secret
            .as_ref()
            .is_some_and(|secret| !secret.required)
        {
            cell.insert_str(0, "The Secret is optional. ");
        }
        let routes = preset.routes.as_deref().unwrap_or("–");
        let page = format!("[{}](../../../{})", preset.title, preset.page);
        writeln!(out, "| {page} | {} | {cell} | {routes} |", names.join(", "))?;
    }
    out.push_str("\n### Commands that create the Secrets\n\n");
    for (name, preset) in presets()? {
        if let Some(secret) = preset.secret {
            writeln!(
                out,
                "    # {name}\n    kubectl -n kube-system create secret generic NAME {}",
                secret.create
            )?;
        }
    }
    Ok(out)
}

/// Checks that values.yaml has each value that the schema accepts, and the schema each one of values.yaml. Names that the
/// chart refuses with a hint, and `global` of Helm, are no values.
pub(crate) fn the_schema_and_the_values_of_the_chart_have_the_same_names() -> Result<()> {
    let chart = deploy().join("helm/ccm-rs");
    let text = std::fs::read_to_string(chart.join("values.yaml"))?;
    let values: Value = serde_saphyr::from_str(&text)?;
    let schema: Value =
        serde_json::from_str(&std::fs::read_to_string(chart.join("values.schema.json"))?)?;
    let of_chart = schema["properties"].as_object().context("no properties")?;
    for (name, property) in of_chart {
        let refused = property["description"]
            .as_str()
            .is_some_and(|text| text.starts_with("Not a value of this chart"));
        let expected = !refused && name != "global";
        ensure!(
            values.get(name).is_some() == expected,
            "{name} is in values.yaml: {}",
            !expected
        );
    }
    for entry in entries(&text) {
        let (Entry::Documented { path, .. } | Entry::Bare { path }) = entry else {
            continue;
        };
        let mut at = &schema;
        for key in path.split('.') {
            // Objects that are those of Kubernetes have any keys.
            let Some(properties) = at["properties"].as_object() else {
                break;
            };
            at = properties
                .get(key)
                .with_context(|| format!("values.schema.json lacks {path}"))?;
        }
    }
    Ok(())
}

/// Returns a page with a table between its markers replaced.
fn replaced(page: &str, name: &str, source: &str, table: &str) -> Result<String> {
    let begin = format!("<!-- {name} begins: generated from {source} -->\n");
    let end = format!("<!-- {name} ends -->");
    let (before, rest) = page
        .split_once(&begin)
        .with_context(|| format!("the README lacks {begin}"))?;
    let (_, after) = rest
        .split_once(&end)
        .with_context(|| format!("the README lacks {end}"))?;
    Ok(format!("{before}{begin}\n{}\n\n{end}{after}", table.trim()))
}

pub(crate) fn the_readme_of_the_chart_has_each_value_and_each_cloud() -> Result<()> {
    let example = "## Part\n\n# One.\na: 1\n# Two\n# lines.\nb:\n  # Three.\n  c: {}\n  d: 1\n";
    let documented = |path: &str, meaning: &str| Entry::Documented {
        path: path.to_owned(),
        meaning: meaning.to_owned(),
    };
    let expected = [
        Entry::Section("Part".to_owned()),
        documented("a", "One."),
        documented("b", "Two lines."),
        documented("b.c", "Three."),
        Entry::Bare {
            path: "b.d".to_owned(),
        },
    ];
    ensure!(
        entries(example) == expected,
        "the test itself reads {:?}",
        entries(example)
    );
    ensure!(
        values_table(example).is_err(),
        "the test itself accepts a value without a comment"
    );

    let chart = deploy().join("helm/ccm-rs");
    let page =
        std::fs::read_to_string(chart.join("README.md")).context("the README of the chart")?;
    let values = values_table(&std::fs::read_to_string(chart.join("values.yaml"))?)?;
    let fresh = replaced(&page, "clouds", "presets", &clouds_table()?)?;
    let fresh = replaced(&fresh, "values", "values.yaml", &values)?;
    if std::env::var_os("CCM_WRITE_REFERENCE").is_some() {
        std::fs::write(chart.join("README.md"), fresh)?;
    } else {
        let hint = "CCM_WRITE_REFERENCE=1 cargo test --workspace --test manifests readme writes the README of the chart";
        ensure!(page == fresh, "{hint}");
    }
    Ok(())
}
