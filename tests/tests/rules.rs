//! Ids of rules: each cited one is defined, each defined one is cited, and docs/rules shows where.
//!
//! `CCM_WRITE_REFERENCE=1 cargo test --workspace --test rules` writes the lines in docs/rules that are made from citations.

#![allow(clippy::unwrap_used)] // helpers are not seen as tests

#[path = "rules/citations.rs"]
mod citations;
#[path = "rules/definitions.rs"]
mod definitions;
#[path = "rules/index.rs"]
mod index;
#[path = "rules/source.rs"]
mod source;

use std::collections::BTreeMap;

use citations::{Citations, cited_ids};
use definitions::{Definition, Id, cases, definitions};
use source::{ROOT, files};

/// Prefixes of rules, of the project's decisions and of its invariants.
const PREFIXES: &[&str] = &[
    "APP", "D", "DEP", "FLAG", "HELP", "INV", "LIFE", "MET", "NODE", "P", "PROV", "ROUTE", "RT",
    "SVC",
];

fn all() -> (BTreeMap<Id, Definition>, Citations) {
    let definitions = definitions();
    let citations = Citations::of(&files(), &definitions);
    (definitions, citations)
}

/// Returns the IDs that a text cites and that are not defined.
fn undefined(text: &str, definitions: &BTreeMap<Id, Definition>) -> Vec<String> {
    cited_ids(text, definitions)
        .into_iter()
        .filter(|id| !definitions.contains_key(id))
        .map(|id| id.to_string())
        .collect()
}

/// Returns the normative rules that neither code nor a case cites.
fn uncited(definitions: &BTreeMap<Id, Definition>, citations: &Citations) -> Vec<String> {
    let rules = definitions
        .iter()
        .filter(|(_, definition)| definition.is_rule() && definition.is_normative);
    rules
        .filter(|(id, _)| !citations.sites.contains_key(id))
        .map(|(id, _)| id.to_string())
        .collect()
}

#[test]
fn every_id_that_is_cited_is_defined() {
    let definitions = definitions();
    assert!(definitions.len() > 500, "{} definitions", definitions.len());
    let found = files().into_iter().flat_map(|file| {
        let lines = file
            .text
            .lines()
            .enumerate()
            .map(|(number, line)| (number, undefined(line, &definitions)));
        let lines: Vec<_> = lines.filter(|(_, ids)| !ids.is_empty()).collect();
        lines
            .into_iter()
            .map(move |(number, ids)| format!("{}:{}: {}", file.path, number + 1, ids.join(", ")))
    });
    assert_eq!(
        found.collect::<Vec<_>>(),
        [""; 0],
        "docs/rules and docs/decisions.md define ids"
    );
    assert_eq!(
        undefined("A Node (SVC-9999, SVC-10)", &definitions),
        ["SVC-9999"],
        "the check finds what is not defined"
    );
}

#[test]
fn every_normative_rule_is_cited() {
    let (mut definitions, citations) = all();
    let message = "cite the rule where it is decided or tested, begin its text with \"Background:\", or delete it";
    assert_eq!(uncited(&definitions, &citations), [""; 0], "{message}");
    let rule = definitions.values().next().unwrap().clone();
    definitions.insert(
        Id {
            prefix: "SVC".into(),
            number: 9999,
        },
        Definition {
            page: "services.md".into(),
            ..rule
        },
    );
    assert_eq!(
        uncited(&definitions, &citations),
        ["SVC-9999"],
        "the check finds what is not cited"
    );
}

#[test]
fn every_case_id_that_is_cited_exists() {
    let cases = cases();
    assert!(cases.len() > 400, "{} cases", cases.len());
    let prefixes: Vec<&str> = cases
        .keys()
        .filter_map(|id| Some(id.split_once('-')?.0))
        .collect();
    let id = regex_lite::Regex::new(r"\b([A-Z]{3})-\d{3}\b").unwrap();
    let found = files().into_iter().flat_map(|file| {
        let ids: Vec<String> = id
            .captures_iter(&file.text)
            .filter(|captures| prefixes.contains(&&captures[1]))
            .map(|captures| captures[0].to_owned())
            .collect();
        ids.into_iter().map(move |id| (file.path.clone(), id))
    });
    let missing: Vec<_> = found.filter(|(_, id)| !cases.contains_key(id)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn no_text_cites_a_section_sign() {
    let sign = '\u{a7}';
    let found = files().into_iter().flat_map(|file| {
        let lines = file
            .text
            .lines()
            .enumerate()
            .filter(|(_, line)| line.contains(sign));
        let numbers: Vec<_> = lines
            .map(|(number, _)| format!("{}:{}", file.path, number + 1))
            .collect();
        numbers.into_iter()
    });
    assert_eq!(
        found.collect::<Vec<_>>(),
        [""; 0],
        "cite the id of a rule, or link to the provider's page"
    );
}

#[test]
fn pages_show_where_each_rule_is_decided_and_tested() {
    let (definitions, citations) = all();
    let mut pages = index::pages(&definitions, &citations);
    pages.insert(
        "docs/rules/index.md".into(),
        index::index(&definitions, &citations),
    );
    for (path, fresh) in pages {
        let path = format!("{ROOT}/{path}");
        if std::env::var_os("CCM_WRITE_REFERENCE").is_some() {
            std::fs::write(&path, fresh).unwrap();
            continue;
        }
        let is_current = std::fs::read_to_string(&path).is_ok_and(|page| page == fresh);
        assert!(
            is_current,
            "{path} is old: CCM_WRITE_REFERENCE=1 cargo test --workspace --test rules writes it"
        );
    }
}
