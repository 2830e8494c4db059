//! Limits that hold for the code of this checkout.

use std::collections::BTreeMap;
use std::path::Path;

use super::crates::{figures, sources};
use super::patterns::names_without_a_noun;
use super::table::{of_all, of_kind, ratio};
use super::{Count, Kind};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Closures with a parameter `it` in a thousand lines of code.
const UNNAMED_PARAMETERS: f64 = 1.0;
/// Statements that bind several names to a tuple written beside them, in a thousand lines of code.
const TUPLE_LETS: f64 = 3.0;
/// Tokens in a line of code.
const TOKENS_A_LINE: f64 = 8.0;
/// List of the files that were longer when the limit came.
const LONG_FILES: &str = "xtask/src/figures/long_files.txt";
/// Lines in a file, comments and blank lines included.
const LINES_A_FILE: usize = 500;

/// Returns a sentence for each limit that a crate is over.
fn over(name: &str, code: Count, all: Count) -> Vec<String> {
    let checks = [
        (
            1000.0 * ratio(all.unnamed_parameters, all.lines),
            UNNAMED_PARAMETERS,
            "closures with a parameter `it` in 1,000 lines",
        ),
        (
            1000.0 * ratio(all.tuple_lets, all.lines),
            TUPLE_LETS,
            "statements `let (a, b) = (x, y);` in 1,000 lines",
        ),
        (
            ratio(code.tokens, code.lines),
            TOKENS_A_LINE,
            "tokens a line",
        ),
    ];
    let over = checks.into_iter().filter(|(value, limit, _)| value > limit);
    over.map(|(value, limit, what)| format!("{name}: {value:.1} {what}, the limit is {limit}"))
        .collect()
}

#[test]
fn crates_name_the_parameters_of_closures_and_have_short_lines() {
    let crates = figures(Path::new(ROOT)).unwrap();
    let faults: Vec<_> = crates
        .iter()
        .flat_map(|(name, figures)| over(name, of_kind(figures, Kind::Code), of_all(figures)))
        .collect();
    assert!(
        faults.is_empty(),
        "cargo xtask figures shows:\n{}",
        faults.join("\n")
    );
}

#[test]
fn names_have_a_noun() {
    let mut faults = Vec::new();
    for path in sources(Path::new(ROOT)).unwrap() {
        let text = std::fs::read_to_string(Path::new(ROOT).join(&path)).unwrap();
        for name in names_without_a_noun(text.parse().unwrap()) {
            faults.push(format!("{}: {name}", path.display()));
        }
    }
    assert!(
        faults.is_empty(),
        "names without a noun:\n{}",
        faults.join("\n")
    );
}

/// Returns the files with more lines than a file should have, with their lines.
fn long_files() -> BTreeMap<String, usize> {
    let mut long = BTreeMap::new();
    for path in sources(Path::new(ROOT)).unwrap() {
        let text = std::fs::read_to_string(Path::new(ROOT).join(&path)).unwrap();
        let lines = text.lines().count();
        if lines > LINES_A_FILE {
            long.insert(path.display().to_string(), lines);
        }
    }
    long
}

/// Reads lines `PATH: LINES`.
fn read_list(text: &str) -> BTreeMap<String, usize> {
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    rows.map(|row| {
        let (path, lines) = row.split_once(": ").unwrap();
        (path.to_owned(), lines.parse().unwrap())
    })
    .collect()
}

/// Files that were longer when the limit came may only become shorter: `CCM_WRITE_REFERENCE=1` lowers their lines.
#[test]
fn files_have_at_most_500_lines_and_longer_ones_do_not_grow() {
    let list = Path::new(ROOT).join(LONG_FILES);
    let text = std::fs::read_to_string(&list).unwrap();
    let listed = read_list(&text);
    let long = long_files();
    let grown: Vec<_> = long
        .iter()
        .filter(|(path, lines)| **lines > listed.get(*path).copied().unwrap_or(LINES_A_FILE))
        .map(|(path, lines)| format!("{path}: {lines}"))
        .collect();
    assert!(grown.is_empty(), "split by subject:\n{}", grown.join("\n"));
    if std::env::var_os("CCM_WRITE_REFERENCE").is_some() {
        let head = text.lines().filter(|line| line.starts_with('#'));
        let rows = long.iter().map(|(path, lines)| format!("{path}: {lines}"));
        let lines: Vec<_> = head.map(str::to_owned).chain(rows).collect();
        std::fs::write(list, lines.join("\n") + "\n").unwrap();
    }
}

#[test]
fn crate_over_a_limit_is_named_with_its_figure() {
    let dense = Count {
        lines: 1000,
        tokens: 9000,
        unnamed_parameters: 2,
        tuple_lets: 3,
    };
    let faults = over("crates/a", dense, dense);
    let expected = [
        "crates/a: 2.0 closures with a parameter `it` in 1,000 lines, the limit is 1",
        "crates/a: 9.0 tokens a line, the limit is 8",
    ];
    assert_eq!(faults, expected);
}
