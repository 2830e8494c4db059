//! Checks that `docs/reference/metrics.md` matches the declarations.

use std::path::Path;

/// Environment variable that rewrites the page instead of checking it.
const WRITE: &str = "CCM_WRITE_REFERENCE";

#[test]
fn the_reference_page_is_as_the_declarations_are() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/metrics.md");
    let page = metrics::reference::page();
    if std::env::var_os(WRITE).is_some_and(|value| !value.is_empty()) {
        std::fs::write(&path, page).unwrap();
        return;
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        there == page,
        "{} is out of date: run `{WRITE}=1 cargo test -p metrics`",
        path.display()
    );
}
