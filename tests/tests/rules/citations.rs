//! Citations of ids in code: file, item, and whether the item decides or tests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex_lite::Regex;

use super::definitions::{Definition, Id, cases};
use super::source::File;

/// Numbers of elliptic curves, which look like rules.
const CURVES: &[&str] = &["P-256", "P-384", "P-521"];

/// An id, or a range of ids.
static IDS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\b([A-Z]{1,5}-\d+)\b(?: ?(?:…|to) ?([A-Z]{1,5}-\d+)\b)?").unwrap()
});

/// Files and their items that cite an id; the item is empty where a whole file does.
pub(crate) type Items = BTreeMap<String, BTreeSet<String>>;

#[derive(Default)]
pub(crate) struct Site {
    pub(crate) decided: Items,
    pub(crate) tested: Items,
    pub(crate) cases: BTreeSet<String>,
}

/// Citations of each ID in code and cases; mentions in pages alone are not part of them.
pub(crate) struct Citations {
    pub(crate) sites: BTreeMap<Id, Site>,
}

/// Returns the ids in a text. A range such as `SVC-20 … SVC-22` cites its ends and each defined id between them.
pub(crate) fn cited_ids(text: &str, definitions: &BTreeMap<Id, Definition>) -> Vec<Id> {
    if !text.contains('-') {
        return Vec::new();
    }
    let mut found = Vec::new();
    for range in IDS
        .captures_iter(text)
        .filter(|captures| !CURVES.contains(&&captures[1]))
    {
        let first = Id::parse(&range[1]);
        let last = range.get(2).and_then(|last| Id::parse(last.as_str()));
        if let (Some(first), Some(last)) = (&first, &last) {
            let within = definitions
                .keys()
                .filter(|id| first < *id && *id < last && id.prefix == first.prefix);
            found.extend(within.cloned());
        }
        found.extend(first.into_iter().chain(last));
    }
    found
}

impl Citations {
    pub(crate) fn of(files: &[File], definitions: &BTreeMap<Id, Definition>) -> Self {
        let mut sites: BTreeMap<Id, Site> = BTreeMap::new();
        let of_cases = |file: &&File| file.path.starts_with("tests/cases/");
        for file in files
            .iter()
            .filter(|file| !file.path.ends_with(".md") && !of_cases(file))
        {
            let lines: Vec<&str> = file.text.lines().collect();
            let is_module =
                |pair: &[&str]| pair[0].starts_with("#[cfg(test)]") && pair[1].ends_with('{');
            let first_test = lines.windows(2).position(is_module).unwrap_or(lines.len());
            for (number, line) in lines.iter().enumerate() {
                for id in cited_ids(line, definitions) {
                    let site = sites.entry(id).or_default();
                    let is_test = is_test_file(&file.path) || number > first_test;
                    let items = if is_test {
                        &mut site.tested
                    } else {
                        &mut site.decided
                    };
                    items
                        .entry(file.path.clone())
                        .or_default()
                        .insert(item(&lines, number));
                }
            }
        }
        for (case, rules) in cases() {
            for id in rules {
                sites.entry(id).or_default().cases.insert(case.clone());
            }
        }
        let unit_tested: BTreeSet<&str> = files
            .iter()
            .filter(|file| has_unit_tests(file, files))
            .map(|file| &*file.path)
            .collect();
        for site in sites
            .values_mut()
            .filter(|site| site.tested.is_empty() && site.cases.is_empty())
        {
            let paths = site
                .decided
                .keys()
                .filter(|path| unit_tested.contains(path.as_str()));
            site.tested = paths
                .map(|path| (path.clone(), BTreeSet::from(["unit tests".to_owned()])))
                .collect();
        }
        Self { sites }
    }
}

/// Returns `true` if a file ends with a module of tests, or has one in a file of its own.
fn has_unit_tests(file: &File, files: &[File]) -> bool {
    let stem = file.path.trim_end_matches(".rs").trim_end_matches("/mod");
    let names = [format!("{stem}/tests.rs"), format!("{stem}/tests/mod.rs")];
    file.text.contains("\nmod tests {")
        || names
            .iter()
            .any(|name| files.iter().any(|file| file.path == *name))
}

fn is_test_file(path: &str) -> bool {
    path.starts_with("tests/")
        || ["/tests/", "/tests.rs", "/fake/", "/benches/"]
            .iter()
            .any(|bench| path.contains(bench))
}

/// Returns the name of the item that a line belongs to: the one below a doc comment, or the function around the line.
fn item(lines: &[&str], number: usize) -> String {
    let name = Regex::new(r"\b(?:fn|struct|enum|trait|type|const|static|mod) (\w+)").unwrap();
    let named = |line: &str| name.captures(line).map(|captures| captures[1].to_owned());
    let line = lines[number].trim_start();
    if line.starts_with("//!") || line.starts_with('#') {
        return String::new();
    }
    if line.starts_with("///") {
        let is_code = |line: &&&str| {
            !["///", "//", "#["]
                .iter()
                .any(|text| line.trim_start().starts_with(text))
        };
        let below = lines[number..]
            .iter()
            .find(is_code)
            .unwrap_or(&"")
            .trim_start();
        let word = || {
            below
                .split(|character: char| !character.is_alphanumeric() && character != '_')
                .find(|part| !["", "pub", "crate", "super"].contains(part))
        };
        return named(below)
            .or_else(|| word().map(str::to_owned))
            .unwrap_or_default();
    }
    let indent = |line: &str| line.len() - line.trim_start().len();
    let around = lines[..number]
        .iter()
        .rev()
        .filter(|other_number| indent(other_number) < indent(lines[number]));
    around
        .filter(|text| text.contains("fn "))
        .find_map(|text| named(text))
        .unwrap_or_default()
}

#[test]
fn ranges_cite_what_lies_between() {
    let definition = Definition {
        page: "services.md".into(),
        title: String::new(),
        is_normative: true,
    };
    let ids = ["SVC-20", "SVC-21", "SVC-22", "SVC-30"]
        .map(|text| (Id::parse(text).unwrap(), definition.clone()));
    let definitions = BTreeMap::from(ids);
    let cited = |text| {
        cited_ids(text, &definitions)
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    assert_eq!(cited("(SVC-20 … SVC-22)"), ["SVC-21", "SVC-20", "SVC-22"]);
    assert_eq!(
        cited("SVC-20 to SVC-22, SVC-30; curve P-256"),
        ["SVC-21", "SVC-20", "SVC-22", "SVC-30"]
    );
}

#[test]
fn citation_belongs_to_the_item_below_or_around() {
    let text = "//! P-1\n\n/// P-1\n#[must_use]\npub fn below() {\n    // P-1\n}\nstruct S {\n    /// P-1\n    pub field: u32,\n}";
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        [0, 2, 5, 8].map(|number| item(&lines, number)),
        ["", "below", "below", "field"]
    );
}
