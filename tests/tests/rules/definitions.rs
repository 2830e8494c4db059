//! Definitions of IDs: headings of docs/rules and docs/decisions.md, rows of ARCHITECTURE.md, and case files.

use std::collections::BTreeMap;
use std::fmt;

use super::PREFIXES;
use super::source::ROOT;

/// The id of a rule, a decision or an invariant.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Id {
    pub(crate) prefix: String,
    pub(crate) number: u32,
}

impl Id {
    /// Reads `SVC-12`; `None` for everything that is not such an id.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (prefix, number) = text.split_once('-')?;
        let number = number.parse().ok()?;
        PREFIXES.contains(&prefix).then(|| Self {
            prefix: prefix.to_owned(),
            number,
        })
    }
}

impl fmt::Display for Id {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}-{}", self.prefix, self.number)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Definition {
    /// File name in docs/rules, or the path from there.
    pub(crate) page: String,
    pub(crate) title: String,
    /// If not set, the text only explains ("Background:") and need not be cited.
    pub(crate) is_normative: bool,
}

impl Definition {
    /// Returns `true` for a rule of docs/rules, not for a decision or an invariant.
    pub(crate) fn is_rule(&self) -> bool {
        !self.page.starts_with("..")
    }

    /// Returns the link to the heading, in the form of GitHub's anchors.
    pub(crate) fn link(&self, id: &Id) -> String {
        let heading = format!("{id} {}", self.title).to_lowercase();
        let kept = heading
            .chars()
            .filter(|character| character.is_alphanumeric() || " -_".contains(*character));
        let anchor: String = kept
            .map(|character| if character == ' ' { '-' } else { character })
            .collect();
        match id.prefix.as_str() {
            "INV" => format!("{}#invariants", self.page),
            _ if self.title.is_empty() => self.page.clone(),
            _ => format!("{}#{anchor}", self.page),
        }
    }
}

/// Returns the pages of rules that people write: their names in docs/rules, and their text.
pub(crate) fn pages() -> BTreeMap<String, String> {
    let entries = std::fs::read_dir(format!("{ROOT}/docs/rules"))
        .unwrap()
        .map(|entry| entry.unwrap());
    let names = entries.map(|entry| entry.file_name().into_string().unwrap());
    let names = names.filter(|name| !["README.md", "index.md"].contains(&name.as_str()));
    names
        .map(|name| {
            (
                name.clone(),
                std::fs::read_to_string(format!("{ROOT}/docs/rules/{name}")).unwrap(),
            )
        })
        .collect()
}

/// Returns everything that has an id. Panics if an id is defined twice.
pub(crate) fn definitions() -> BTreeMap<Id, Definition> {
    let read = |path: &str| std::fs::read_to_string(format!("{ROOT}/{path}")).unwrap();
    let mut found = BTreeMap::new();
    for (page, text) in pages() {
        headings(&page, &text, &mut found);
    }
    headings("../decisions.md", &read("docs/decisions.md"), &mut found);
    for line in read("ARCHITECTURE.md").lines() {
        let mut cells = line.split('|').map(str::trim).skip(1);
        if let (Some(id), Some(title)) = (cells.next().and_then(Id::parse), cells.next()) {
            add(&id, "../../ARCHITECTURE.md", title, true, &mut found);
        }
    }
    found
}

fn headings(page: &str, text: &str, found: &mut BTreeMap<Id, Definition>) {
    let lines: Vec<&str> = text.lines().collect();
    for (number, line) in lines.iter().enumerate() {
        let heading = line
            .strip_prefix("### ")
            .and_then(|rest| rest.split_once(' '));
        // An entry may also begin with its id in bold letters; it has no anchor then.
        let bold = line
            .strip_prefix("**")
            .and_then(|rest| Some((rest.split_once(' ')?.0, "")));
        let heading = heading.or(bold);
        if let Some((id, title)) = heading.and_then(|(id, title)| Some((Id::parse(id)?, title))) {
            let text = lines[number + 1..]
                .iter()
                .find(|line| !line.is_empty())
                .unwrap_or(&"");
            add(&id, page, title, !text.starts_with("Background:"), found);
        }
    }
}

fn add(id: &Id, page: &str, title: &str, is_normative: bool, found: &mut BTreeMap<Id, Definition>) {
    let definition = Definition {
        page: page.to_owned(),
        title: title.to_owned(),
        is_normative,
    };
    if let Some(other) = found.insert(id.clone(), definition) {
        panic!("{id} is defined in {page} and in {}", other.page);
    }
}

/// Returns the cases of tests/cases by id, each with the rules that it shows.
pub(crate) fn cases() -> BTreeMap<String, Vec<Id>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(format!("{ROOT}/tests/cases")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let Some(id) = line.strip_prefix("- id: ") else {
                continue;
            };
            let rules = lines
                .next()
                .and_then(|line| line.trim().strip_prefix("rules: ["))
                .unwrap_or_else(|| panic!("{id} names no rules"));
            let rules = rules
                .trim_end_matches(']')
                .split(", ")
                .filter_map(Id::parse)
                .collect();
            assert!(
                found.insert(id.to_owned(), rules).is_none(),
                "two cases have the id {id}"
            );
        }
    }
    found
}
