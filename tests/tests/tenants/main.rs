//! Reach of authors of Services beyond their own, as annotations declare it: the page about multi-tenant clusters and the
//! admission policy contain all of it.
//!
//! `CCM_WRITE_REFERENCE=1 cargo test --workspace --test tenants` writes both.

#![allow(clippy::unwrap_used)] // helpers are not seen as tests

mod clouds;
mod policy;

use std::path::Path;

use provider_kit::declared::Row;
use provider_kit::declared::reference::put;

use crate::clouds::{CLOUDS, keys, marked, reaching};

const PAGE: &str = "docs/multi-tenant.md";
const POLICY: &str = "deploy/policies/load-balancer-annotations.yaml";

/// Compares a file with its generated form, or writes it.
fn compare(path: &str, generate: impl FnOnce(&str) -> String) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    let text = std::fs::read_to_string(&file).unwrap();
    let fresh = generate(&text);
    if std::env::var_os("CCM_WRITE_REFERENCE").is_some() {
        std::fs::write(&file, &fresh).unwrap();
    } else {
        assert!(
            text == fresh,
            "{path} is out of date; run this test with CCM_WRITE_REFERENCE=1"
        );
    }
}

fn table(rows: impl Iterator<Item = Row>) -> String {
    let line = |row: Row| {
        let key = row.key.trim_start_matches("service.beta.kubernetes.io/");
        let policy = if row.reaches.is_some() {
            "refuses it"
        } else {
            "allows it"
        };
        format!(
            "| `{key}` | {} | {policy} |\n",
            row.reaches.or(row.costs).unwrap_or_default()
        )
    };
    let lines: String = rows.map(line).collect();
    format!("| annotation | The author of a Service can … | the policy |\n|---|---|---|\n{lines}")
}

#[test]
fn page_names_everything_that_annotations_reach() {
    compare(PAGE, |page| {
        CLOUDS.iter().fold(page.to_owned(), |page, (cloud, lists)| {
            put(&page, cloud, &table(marked(lists)))
                .unwrap_or_else(|| panic!("{PAGE} has no table of {cloud}"))
        })
    });
}

#[test]
fn policy_forbids_everything_that_annotations_reach() {
    compare(POLICY, policy::with_keys);
}

#[test]
fn every_cloud_declares_what_its_annotations_reach() {
    for (cloud, lists) in CLOUDS {
        assert!(reaching(lists).next().is_some(), "{cloud}");
        for row in marked(lists) {
            let what = row.reaches.or(row.costs).unwrap_or_default();
            let is_phrase =
                what.starts_with(|first: char| first.is_ascii_lowercase()) && !what.ends_with('.');
            assert!(
                is_phrase,
                "{}: {what:?} completes \"The author of a Service can …\"",
                row.key
            );
            assert!(
                keys(&row).iter().all(|key| key.contains('/')),
                "{}",
                row.key
            );
        }
    }
}
