//! Checks that alerts and dashboard use existing series of this program, with their labels.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use metrics::series::{PROVIDER, Series, all};
use regex_lite::Regex;
use serde_json::Value;

use crate::documents::{deploy, read};

/// Keywords and functions of PromQL.
const WORDS: [&str; 33] = [
    "absent",
    "and",
    "avg",
    "by",
    "clamp_min",
    "count",
    "delta",
    "histogram_quantile",
    "histogram_sum",
    "ignoring",
    "increase",
    "label_values",
    "le",
    "max",
    "min",
    "min_over_time",
    "max_over_time",
    "offset",
    "on",
    "or",
    "rate",
    "sum",
    "time",
    "topk",
    "unless",
    "vector",
    "without",
    "bool",
    "group_left",
    "group_right",
    "inf",
    "nan",
    "irate",
];
/// Labels that Prometheus adds.
const ADDED: [&str; 3] = ["job", "instance", "le"];

/// A use of a series: its name, or a pattern of names, and the labels of its selector.
#[derive(Debug)]
struct Asked {
    name: String,
    is_pattern: bool,
    labels: Vec<String>,
}

fn asked(expression: &str) -> Result<Vec<Asked>> {
    let matcher = Regex::new(r#"([a-zA-Z_][a-zA-Z0-9_]*)\s*(=~|!~|!=|=)\s*"([^"]*)""#)?;
    let selector = Regex::new(r"([a-zA-Z_:][a-zA-Z0-9_:]*)?\s*\{([^}]*)\}")?;
    let mut found = Vec::new();
    for selection in selector.captures_iter(expression) {
        let mut name = selection
            .get(1)
            .map_or("", |matched| matched.as_str())
            .to_owned();
        let mut is_pattern = false;
        let mut labels = Vec::new();
        for label in matcher.captures_iter(&selection[2]) {
            if &label[1] == "__name__" {
                (name, is_pattern) = (label[3].to_owned(), true);
            } else {
                labels.push(label[1].to_owned());
            }
        }
        found.push(Asked {
            name,
            is_pattern,
            labels,
        });
    }
    // The rest are series without a selector, functions, labels to aggregate by, and numbers.
    let rest = selector.replace_all(expression, " ");
    let rest = Regex::new(r"\b(by|without|on|ignoring)\s*\([^)]*\)|\[[^\]]*\]|offset\s+[0-9a-z]+")?
        .replace_all(&rest, " ");
    for word in Regex::new(r"[a-zA-Z_:][a-zA-Z0-9_:]*")?.find_iter(&rest) {
        let after_digit = word.start() > 0 && rest.as_bytes()[word.start() - 1].is_ascii_digit();
        if !after_digit && !WORDS.contains(&word.as_str()) {
            found.push(Asked {
                name: word.as_str().to_owned(),
                is_pattern: false,
                labels: Vec::new(),
            });
        }
    }
    Ok(found)
}

/// Returns the series that an expression uses; those of a histogram are matched by their parts.
fn meant(asked: &Asked) -> Result<Vec<&'static Series>> {
    let name = |series: &Series| series.name.replace(PROVIDER, "acme");
    if asked.is_pattern {
        let pattern = Regex::new(&format!("^(?:{})$", asked.name))?;
        let parts = |series: &Series| {
            ["", "_count", "_sum", "_bucket"].map(|part| format!("{}{part}", name(series)))
        };
        return Ok(all()
            .filter(|series| parts(series).iter().any(|name| pattern.is_match(name)))
            .collect());
    }
    let parts = |series: &Series| match series.buckets.is_empty() {
        true => vec![name(series)],
        // Without a suffix it is the native histogram.
        false => ["", "_count", "_sum", "_bucket"]
            .map(|part| format!("{}{part}", name(series)))
            .to_vec(),
    };
    Ok(all()
        .filter(|series| parts(series).contains(&asked.name))
        .collect())
}

fn check(place: &str, expression: &str) -> Result<BTreeSet<&'static str>> {
    let mut used = BTreeSet::new();
    for asked in asked(expression)? {
        // Prometheus' own.
        if asked.name == "up" {
            continue;
        }
        let series = meant(&asked)?;
        ensure!(
            !series.is_empty(),
            "{place}: nothing is called {:?}: {expression}",
            asked.name
        );
        for series in series {
            let unknown = asked
                .labels
                .iter()
                .find(|label| !ADDED.contains(&&***label) && !series.labels.contains(&&***label));
            ensure!(
                unknown.is_none(),
                "{place}: {} has no label {unknown:?}: {expression}",
                series.name
            );
            used.insert(series.name);
        }
    }
    Ok(used)
}

pub(crate) fn every_series_of_the_alerts_exists() -> Result<()> {
    let documents = read(&["alerts/ccm-rs.rules.yaml"])?;
    let groups = documents[0]["groups"].as_array().context("no groups")?;
    let rules: Vec<&Value> = groups
        .iter()
        .flat_map(|group| group["rules"].as_array().into_iter().flatten())
        .collect();
    ensure!(rules.len() > 15, "{} rules", rules.len());
    for rule in rules {
        let name = rule["alert"].as_str().context("a rule that is no alert")?;
        check(name, rule["expr"].as_str().context("no expression")?)?;
        for part in ["summary", "description", "runbook"] {
            ensure!(
                rule["annotations"][part].is_string(),
                "{name} has no {part}"
            );
        }
        ensure!(
            rule["labels"]["severity"].is_string(),
            "{name} has no severity"
        );
    }
    Ok(())
}

pub(crate) fn every_series_of_the_dashboard_exists() -> Result<()> {
    let dashboard: Value = serde_json::from_str(&std::fs::read_to_string(
        deploy().join("dashboards/ccm-rs.json"),
    )?)?;
    let panels = dashboard["panels"].as_array().context("no panels")?;
    let mut used = BTreeSet::new();
    let mut ids = BTreeSet::new();
    for panel in panels {
        let title = panel["title"].as_str().context("a panel without a title")?;
        ensure!(
            ids.insert(panel["id"].as_u64().context("no id")?),
            "{title} has the id of another panel"
        );
        for target in panel["targets"].as_array().into_iter().flatten() {
            used.extend(check(
                title,
                target["expr"].as_str().context("no expression")?,
            )?);
        }
    }
    ensure!(used.len() > 35, "only {} series are shown", used.len());
    Ok(())
}

/// Words without a subject, or with one that says nothing.
const VAGUE: [&str; 5] = ["a second", "an hour", "nobody", "somebody", "whoever"];
/// Minimum number of words of a sentence.
const SENTENCE: usize = 5;

/// Returns an error unless a text consists of sentences that a person understands without another text.
fn is_clear(place: &str, text: &str) -> Result<()> {
    let lower = text.to_lowercase();
    let vague = VAGUE.iter().find(|word| lower.contains(**word));
    ensure!(vague.is_none(), "{place}: {vague:?} in {text:?}");
    ensure!(
        text.split_whitespace().count() >= SENTENCE,
        "{place}: {text:?} is no sentence"
    );
    ensure!(
        text.ends_with('.') || text.ends_with('`'),
        "{place}: {text:?} does not end with a full stop"
    );
    Ok(())
}

pub(crate) fn each_note_of_the_dashboard_and_of_the_alerts_is_a_sentence() -> Result<()> {
    let dashboard: Value = serde_json::from_str(&std::fs::read_to_string(
        deploy().join("dashboards/ccm-rs.json"),
    )?)?;
    for panel in dashboard["panels"].as_array().context("no panels")? {
        let title = panel["title"].as_str().context("a panel without a title")?;
        if panel["type"] != "row" {
            is_clear(title, panel["description"].as_str().unwrap_or_default())?;
        }
    }
    let documents = read(&["alerts/ccm-rs.rules.yaml"])?;
    for rule in documents[0]["groups"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|group| group["rules"].as_array())
    {
        for rule in rule {
            let name = rule["alert"].as_str().context("a rule that is no alert")?;
            for part in ["summary", "description", "runbook"] {
                is_clear(
                    &format!("{part} of {name}"),
                    rule["annotations"][part].as_str().unwrap_or_default(),
                )?;
            }
        }
    }
    Ok(())
}
