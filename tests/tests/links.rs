//! Links between pages lead to files that exist, and to headings that they have.

#![allow(clippy::unwrap_used)] // helpers are not seen as tests

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use regex_lite::Regex;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Reads all pages below a folder.
fn read_pages(folder: &Path, pages: &mut BTreeMap<String, String>) {
    for path in std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
    {
        let is_ours = path
            .file_name()
            .is_some_and(|name| name != "target" && name != ".git");
        if path.is_dir() && is_ours {
            read_pages(&path, pages);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            let name = path
                .strip_prefix(ROOT)
                .unwrap()
                .to_string_lossy()
                .into_owned();
            pages.insert(name, std::fs::read_to_string(&path).unwrap());
        }
    }
}

/// Returns the anchors of a page's headings, in GitHub's form.
fn anchors(page: &str) -> BTreeSet<String> {
    let headings = page.lines().filter(|line| line.starts_with('#'));
    let headings = headings.map(|line| line.trim_start_matches('#').trim().to_lowercase());
    let kept = |character: &char| character.is_alphanumeric() || " -_".contains(*character);
    headings
        .map(|headings| {
            headings
                .chars()
                .filter(kept)
                .map(|character| if character == ' ' { '-' } else { character })
                .collect()
        })
        .collect()
}

/// Returns the path that a link from a page leads to, without `..`.
fn resolved(page: &str, link: &str) -> String {
    let folder = page.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in link.split('/') {
        match part {
            ".." => _ = parts.pop(),
            "." | "" => {}
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

/// Returns the links of a page that lead nowhere.
fn broken(name: &str, text: &str, pages: &BTreeMap<String, String>) -> Vec<String> {
    let link = Regex::new(r"\]\(([^()\s]+)\)").unwrap();
    let leads_nowhere = |link: &str| {
        let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
        let path = if path.is_empty() {
            name.to_owned()
        } else {
            resolved(name, path)
        };
        let has_anchor = || {
            pages
                .get(&path)
                .is_none_or(|page| anchors(page).contains(anchor))
        };
        let exists = pages.contains_key(&path) || Path::new(ROOT).join(&path).exists();
        !exists || (!anchor.is_empty() && !has_anchor())
    };
    let links = link
        .captures_iter(text)
        .map(|captures| captures[1].to_owned());
    let inner = links.filter(|link| !link.contains("://") && !link.starts_with("mailto:"));
    inner
        .filter(|text| leads_nowhere(text))
        .map(|text| format!("{name}: {text}"))
        .collect()
}

#[test]
fn every_link_of_a_page_leads_somewhere() {
    let mut pages = BTreeMap::new();
    read_pages(Path::new(ROOT), &mut pages);
    assert!(pages.len() > 20, "{:?}", pages.keys());
    let broken: Vec<String> = pages
        .iter()
        .flat_map(|(name, text)| broken(name, text, &pages))
        .collect();
    assert_eq!(broken, [""; 0]);
}

#[test]
fn link_to_a_missing_page_or_heading_is_found() {
    let pages = BTreeMap::from([("docs/a.md".to_owned(), "# The `--x` flag: how\n".to_owned())]);
    let text = "[1](../README.md) [2](a.md#the---x-flag-how) [3](a.md#other) [4](none.md) [5](https://example.com/x#y)";
    assert_eq!(
        broken("docs/b.md", text, &pages),
        ["docs/b.md: a.md#other", "docs/b.md: none.md"]
    );
}
