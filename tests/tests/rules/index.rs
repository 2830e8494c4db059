//! Generated parts: the index, and the lines of each rule that name its files.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::citations::{Citations, Items, Site};
use super::definitions::{Definition, Id, pages as pages_of_rules};

/// Width of a line of prose.
const WIDTH: usize = 118;

/// Shortens a path to what ARCHITECTURE.md calls a file: without `crates/`.
fn short(path: &str) -> &str {
    path.strip_prefix("crates/").unwrap_or(path)
}

/// Returns files in one cell, each with its items.
fn cell(items: &Items) -> String {
    let files = items.iter().map(|(path, items)| {
        let names: Vec<&str> = items
            .iter()
            .filter(|text| !text.is_empty())
            .map(String::as_str)
            .collect();
        let names = if names.is_empty() {
            String::new()
        } else {
            format!(": {}", names.join(", "))
        };
        format!("`{}`{names}", short(path))
    });
    files.collect::<Vec<_>>().join("<br>")
}

/// Returns the index: a table for each prefix, with a row for each id.
pub(crate) fn index(definitions: &BTreeMap<Id, Definition>, citations: &Citations) -> String {
    let mut out = String::from(
        "# Index of rules, decisions and invariants\n\nWritten from the citations in code and cases; do not edit.\n`CCM_WRITE_REFERENCE=1 cargo test --workspace --test rules` writes it. A file without a name cites the rule as a whole.\n",
    );
    let mut last = "";
    for (id, definition) in definitions {
        if id.prefix != last {
            _ = write!(
                out,
                "\n## {}\n\n| id | decided in | tested in | cases |\n|---|---|---|---|\n",
                id.prefix
            );
            last = &id.prefix;
        }
        let none = Site::default();
        let site = citations.sites.get(id).unwrap_or(&none);
        let cases = site
            .cases
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(", ");
        let decided = cell(&site.decided);
        let tested = cell(&site.tested);
        _ = writeln!(
            out,
            "| [{id}]({}) | {decided} | {tested} | {cases} |",
            definition.link(id)
        );
    }
    out
}

/// Returns the pages of rules, each rule with a line of the files that decide and test it.
pub(crate) fn pages(
    definitions: &BTreeMap<Id, Definition>,
    citations: &Citations,
) -> BTreeMap<String, String> {
    let fresh = |text: &str| {
        let mut out = String::new();
        let mut generated = String::new();
        for block in text
            .trim_end()
            .split("\n\n")
            .filter(|part| !part.starts_with("Where: "))
        {
            let id = block
                .strip_prefix("### ")
                .and_then(|rest| Id::parse(rest.split(' ').next()?));
            if block.starts_with('#') {
                out.push_str(&std::mem::take(&mut generated));
            }
            if let Some(id) = id.filter(|id| definitions.contains_key(id)) {
                generated = citations.sites.get(&id).map(place).unwrap_or_default();
            }
            _ = write!(out, "{block}\n\n");
        }
        out.push_str(&generated);
        format!("{}\n", out.trim_end())
    };
    pages_of_rules()
        .into_iter()
        .map(|(name, text)| (format!("docs/rules/{name}"), fresh(&text)))
        .collect()
}

/// Returns a paragraph of at most three deciding and three testing files, and the number of cases.
fn place(site: &Site) -> String {
    let list = |items: &Items| {
        let more = items.len().saturating_sub(3);
        let mut names: Vec<String> = items
            .keys()
            .take(3)
            .map(|path| format!("`{}`", short(path)))
            .collect();
        names.extend((more > 0).then(|| format!("{more} more")));
        names.join(", ")
    };
    let first_cases = site
        .cases
        .iter()
        .take(3)
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(", ");
    let cases = match site.cases.len() {
        0 => String::new(),
        1..=3 => format!("cases {first_cases}"),
        all => format!("cases {first_cases} and {} more", all - 3),
    };
    let decided = (!site.decided.is_empty()).then(|| list(&site.decided));
    let tested = (!site.tested.is_empty()).then(|| format!("tests {}", list(&site.tested)));
    let parts: Vec<String> = decided
        .into_iter()
        .chain(tested)
        .chain((!cases.is_empty()).then_some(cases))
        .collect();
    wrapped(&format!("Where: {}.", parts.join("; ")))
}

fn wrapped(text: &str) -> String {
    let mut out = String::new();
    let mut width = 0;
    for word in text.split(' ') {
        if width > 0 && width + 1 + word.chars().count() > WIDTH {
            out.push('\n');
            width = 0;
        } else if width > 0 {
            out.push(' ');
            width += 1;
        }
        out.push_str(word);
        width += word.chars().count();
    }
    out + "\n\n"
}
