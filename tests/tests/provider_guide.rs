//! The code in docs/providers/writing-a-provider.md is quoted from files that are compiled and tested.
//!
//! A quotation is a line `<!-- quote FILE: FIRST LINE -->` and the fenced code behind it: the item of FILE that begins with the
//! first line. `CCM_WRITE_REFERENCE=1` writes all quotations again.

use std::fmt::Write as _;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
const PAGE: &str = "docs/providers/writing-a-provider.md";

fn read(path: &str) -> String {
    std::fs::read_to_string(format!("{ROOT}/{path}")).unwrap_or_else(|err| panic!("{path}: {err}"))
}

/// Returns the item of a file that begins with this text, up to the brace in its own column, also from examples in documentation.
fn item(path: &str, first: &str) -> String {
    let text = read(path);
    let plain = |line: &str| {
        line.strip_prefix("//!")
            .map_or(line, |rest| rest.strip_prefix(' ').unwrap_or(rest))
            .to_owned()
    };
    let mut lines = text
        .lines()
        .map(plain)
        .skip_while(|line| !line.trim_start().starts_with(first));
    let start = lines
        .next()
        .unwrap_or_else(|| panic!("{path} has no line that begins with {first:?}"));
    let indent = start.len() - start.trim_start().len();
    let end = format!("{}}}", " ".repeat(indent));
    let mut out = format!("{}\n", start.trim_start());
    for line in lines {
        _ = writeln!(out, "{}", line.get(indent..).unwrap_or_default());
        if line == end {
            return out;
        }
    }
    panic!("{path}: what begins with {first:?} has no end");
}

/// Returns the page with fresh quotations.
fn fresh(page: &str) -> String {
    let mut out = String::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        _ = writeln!(out, "{line}");
        let quoted = line
            .strip_prefix("<!-- quote ")
            .and_then(|rest| rest.strip_suffix(" -->"));
        if let Some((path, first)) = quoted.and_then(|quoted| quoted.split_once(": ")) {
            assert_eq!(lines.next(), Some("```rust"), "code follows {line:?}");
            _ = lines.by_ref().find(|line| *line == "```");
            _ = write!(out, "```rust\n{}```\n", item(path, first));
        }
    }
    out
}

#[test]
fn code_in_the_guide_is_quoted_from_tested_files() {
    let page = read(PAGE);
    let fresh = fresh(&page);
    assert_eq!(
        page.matches("```rust").count(),
        page.matches("<!-- quote ").count(),
        "code without a source"
    );
    if std::env::var_os("CCM_WRITE_REFERENCE").is_some() {
        std::fs::write(format!("{ROOT}/{PAGE}"), &fresh).unwrap();
        return;
    }
    assert!(
        page == fresh,
        "{PAGE} is old: CCM_WRITE_REFERENCE=1 cargo test --workspace --test provider_guide writes it"
    );
}

#[test]
fn guide_says_of_each_proof_what_its_failure_means() {
    let page = read(PAGE);
    let suite = read("tests/conformance/src/lib.rs");
    let (_, proofs) = suite
        .split_once("@tests $profile;\n")
        .expect("the list of proofs");
    let (proofs, _) = proofs.split_once('}').expect("its end");
    let missing = proofs
        .split_whitespace()
        .filter(|proof| !page.contains(&format!("`{proof}`")));
    assert_eq!(missing.collect::<Vec<_>>(), [""; 0]);
}
