//! Configuration files in git's format, as Go programs read them: sections and keys, with all mistakes reported at
//! once, each with file and line.
//!
//! * `[section]` and `[section "sub name"]`; section names and keys are not case-sensitive, sub names are. A section
//!   may be repeated.
//! * `key = value`. `#` and `;` begin a comment. Text in double quotes is taken literally, except for `\"`, `\\`, `\n`
//!   and `\t`. A backslash at the end of a line joins it with the next one.
//! * A key without `=` is true. An empty key is unset. The last of several values counts, unless all are requested.
//!
//! Keys are declared like annotations and variables; the declaration's key includes the section. `[class "name"] key`
//! is a key of every section `class` with a sub name.
//!
//! ```
//! use cloud_provider::ConfigFile;
//! use provider_kit::declared::Kind;
//! use provider_kit::gcfg::{GitConfigSettings, TRUTH};
//!
//! provider_kit::declare! {
//!     /// Every key of Acme's.
//!     pub ALL: "[Global] ";
//!
//!     /// URL of the API.
//!     pub ENDPOINT: String = "endpoint";
//!     /// Port of the metrics endpoint.
//!     pub PORT: u16 = "port", kind(Kind::number(1, 65535)), default("8080");
//!     /// If set, requests are logged.
//!     pub DEBUG: bool = "debug", kind(TRUTH), default("no");
//! }
//!
//! let text = "[global]\nendpoint = \"http://x\" # the proxy\nport = 0\ndebug\ncolour = red\n".into();
//! let mut file = GitConfigSettings::of(&ConfigFile { path: "acme.conf".into(), text });
//! assert_eq!(file.get(&ENDPOINT).as_deref(), Some("http://x"));
//! assert_eq!((file.flag(&DEBUG), file.get(&PORT)), (true, None));
//! file.unknown(&[ALL]);
//! assert_eq!(file.warnings(), ["acme.conf:5: [global] colour is not known: nothing reads it"]);
//! assert_eq!(file.finish().unwrap_err().to_string(),
//!     "acme.conf:3: [Global] port: \"0\" is not a whole number from 1 to 65535");
//! ```

mod parse;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use cloud_provider::{ConfigFile, Result, closest};

pub use parse::{Entry, Mistake, Section, Text, parse};

use crate::declared::{Declaration, Declared, Defaults, Kind, Reading};

/// The declaration of a key.
pub type Key<T> = Declaration<T>;

/// The form of truth values in these files.
pub const TRUTH: Kind<bool> = Kind::of("true or false", |text| {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "1" => Some(true),
        "false" | "no" | "off" | "0" => Some(false),
        _ => None,
    }
});

/// A file that is being read: get each key, then call [`finish`](Self::finish).
#[derive(Debug)]
pub struct GitConfigSettings {
    path: String,
    sections: Vec<Section>,
    reading: Reading,
    /// If set, the file has a syntax error: a text that looks like a key may be the rest of a secret.
    is_broken: bool,
}

impl GitConfigSettings {
    /// Parses a file. Syntax errors are reported with the other mistakes.
    #[must_use]
    pub fn of(file: &ConfigFile) -> Self {
        let (sections, mistakes) = parse(&file.text);
        let is_broken = !mistakes.is_empty();
        let mut settings = Self {
            path: file.path.clone(),
            sections,
            reading: Reading::default(),
            is_broken,
        };
        for Mistake { line, text } in mistakes {
            settings
                .reading
                .mistake(format!("{}:{line}: {text}", settings.path));
        }
        settings
    }

    /// Returns the value, or else the default. `None` if there is neither, or if the value is a mistake.
    pub fn get<T>(&mut self, key: &Key<T>) -> Option<T> {
        self.get_in("", key)
    }

    /// Returns the value of a key in the section with this sub name, like [`get`](Self::get).
    pub fn get_in<T>(&mut self, sub: &str, key: &Key<T>) -> Option<T> {
        let (text, place) = self.found(sub, key.key)?;
        self.reading.get(key, &|_| place.clone(), |_| {
            Some(&*text).filter(|text| !text.is_empty())
        })
    }

    /// Returns the values of these keys that are set in sections with this sub name, as [defaults](Defaults) of
    /// annotations. A value that is not accepted is a mistake.
    pub fn defaults(&mut self, sub: &str, keys: &[&dyn Declared]) -> Defaults {
        let found: BTreeMap<_, _> = keys
            .iter()
            .map(|setting| setting.row().key)
            .filter_map(|key| Some((key, self.found(sub, key)?)))
            .collect();
        self.reading.defaults(keys, |key| found.get(key).cloned())
    }

    /// Returns the text, empty if there is none, and its name in messages. `None` if the text is a mistake.
    fn found(&mut self, sub: &str, key: &str) -> Option<(String, String)> {
        let found = self.entries(sub, key);
        let Some(last) = found.last() else {
            return Some((String::new(), String::new()));
        };
        let text = last.text.clone();
        let count = found.len();
        let place = self.place(sub, key, Some(last.line));
        match text {
            Text::Is(text) => {
                if count > 1 {
                    self.reading
                        .warning(format!("{place} is set {count} times: this value counts"));
                }
                Some((text, place))
            }
            Text::Bare => {
                self.reading
                    .mistake(format!("{place} needs a value: write `= …`"));
                None
            }
            // The parser has reported it.
            Text::Broken => None,
        }
    }

    /// Returns a truth value, or else the default, or else `false`; a key without a value is `true`.
    pub fn flag(&mut self, key: &Key<bool>) -> bool {
        let is_bare = self
            .entries("", key.key)
            .last()
            .is_some_and(|entry| entry.text == Text::Bare);
        is_bare || self.get(key).unwrap_or_default()
    }

    /// Returns the values of a key that may be repeated; empty ones are left out.
    pub fn all(&mut self, key: &Key<String>) -> Vec<String> {
        let mut values = Vec::new();
        let mut bare = Vec::new();
        for entry in self.entries("", key.key) {
            match &entry.text {
                Text::Is(text) if text.is_empty() => {}
                Text::Is(text) => values.push(text.clone()),
                Text::Bare => bare.push(self.place("", key.key, Some(entry.line))),
                Text::Broken => {}
            }
        }
        for place in bare {
            self.reading
                .mistake(format!("{place} needs a value: write `= …`"));
        }
        values
    }

    /// Returns `true` if the key is present, with a value or a mistake.
    #[must_use]
    pub fn is_set<T>(&self, key: &Key<T>) -> bool {
        self.entries("", key.key)
            .last()
            .is_some_and(|last| !matches!(&last.text, Text::Is(text) if text.is_empty()))
    }

    /// Returns the sub names of the sections with this name.
    #[must_use]
    pub fn subs(&self, section: &str) -> BTreeSet<String> {
        let of_it = self
            .sections
            .iter()
            .filter(|other_section| other_section.name.eq_ignore_ascii_case(section));
        of_it.filter_map(|section| section.sub.clone()).collect()
    }

    /// Adds a mistake in a key that the caller found; `why` completes the sentence that begins with file, line, section
    /// and key.
    pub fn refuse<T>(&mut self, key: &Key<T>, why: &str) {
        let text = self.named(key.key, why);
        self.reading.mistake(text);
    }

    /// Adds a warning about a key that works, but needs attention; `what` completes the sentence that begins with file,
    /// line, section and key.
    pub fn warn<T>(&mut self, key: &Key<T>, what: &str) {
        let text = self.named(key.key, what);
        self.reading.warning(text);
    }

    /// Adds a mistake that the caller found elsewhere; name its place and the accepted values.
    pub fn mistake(&mut self, text: impl Into<String>) {
        self.reading.mistake(text.into());
    }

    /// Warns of sections and keys that are not `declared`, because no code reads them.
    pub fn unknown(&mut self, declared: &[&[&dyn Declared]]) {
        let known: Vec<&str> = declared
            .iter()
            .flat_map(|list| list.iter())
            .map(|setting| setting.row().key)
            .collect();
        let sections: Vec<&str> = known
            .iter()
            .filter_map(|key| key.split_once("] "))
            .map(|(name, _)| &name[1..])
            .collect();
        for section in &self.sections {
            let of_it: Vec<&str> = known
                .iter()
                .copied()
                .filter_map(|key| key_in(section, key))
                .collect();
            let title = title(section);
            if of_it.is_empty() && self.is_broken {
                self.reading.warning(format!(
                    "{}:{}: a section is not known: nothing reads it",
                    self.path, section.line
                ));
                continue;
            }
            if of_it.is_empty() {
                let named = sections.iter().find(|section| {
                    section
                        .strip_suffix(" \"name\"")
                        .is_some_and(|plain| plain.eq_ignore_ascii_case(&title))
                });
                let hint = match named {
                    Some(named) => format!(": it needs a name, [{named}]"),
                    None => hint(&title, &sections, |meant| format!("[{meant}]")),
                };
                self.reading.warning(format!(
                    "{}:{}: [{title}] is not known{hint}",
                    self.path, section.line
                ));
                continue;
            }
            for Entry { key, text, line } in &section.entries {
                if of_it.iter().any(|known| known.eq_ignore_ascii_case(key)) {
                    continue;
                }
                if self.is_broken || may_be_rest_of_a_value(text) {
                    let what = match text {
                        Text::Bare => "a key is not known: it has no value, and nothing reads it",
                        Text::Is(_) | Text::Broken => "a key is not known: nothing reads it",
                    };
                    self.reading
                        .warning(format!("{}:{line}: [{title}] {what}", self.path));
                    continue;
                }
                let elsewhere = known
                    .iter()
                    .find(|known| known.split_once("] ").is_some_and(|(_, text)| text == key));
                let hint = match elsewhere {
                    Some(meant) => format!(": did you mean {meant}?"),
                    None => hint(key, &of_it, str::to_owned),
                };
                self.reading.warning(format!(
                    "{}:{line}: [{title}] {key} is not known{hint}",
                    self.path
                ));
            }
        }
    }

    /// Returns the warnings so far.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        self.reading.warnings()
    }

    /// Ends the reading and logs the warnings.
    ///
    /// # Errors
    /// *Invalid*, with all mistakes: each names file, line, section, key and the accepted values.
    pub fn finish(self) -> Result<()> {
        for warning in self.reading.warnings() {
            tracing::warn!("{warning}");
        }
        self.reading.finish()
    }

    fn entries(&self, sub: &str, declared: &str) -> Vec<&Entry> {
        let of_it = self
            .sections
            .iter()
            .filter(|section| section.sub.as_deref().unwrap_or_default() == sub);
        let entries =
            of_it.filter_map(|section| Some((key_in(section, declared)?, &section.entries)));
        entries
            .flat_map(|(key, all)| {
                all.iter()
                    .filter(|entry| entry.key.eq_ignore_ascii_case(key))
            })
            .collect()
    }

    fn named(&self, key: &str, what: &str) -> String {
        let line = self.entries("", key).last().map(|entry| entry.line);
        format!("{} {what}", self.place("", key, line))
    }

    fn place(&self, sub: &str, declared: &str, line: Option<u32>) -> String {
        let line = line.map_or_else(String::new, |line| format!(":{line}"));
        let key = match declared.split_once(" \"name\"] ") {
            Some((section, key)) => format!("{section} {sub:?}] {key}"),
            None => declared.to_owned(),
        };
        format!("{}{line}: {key}", self.path)
    }
}

/// Returns the key, if the declaration `[section] key` or `[section "name"] key` belongs to this section.
fn key_in<'a>(section: &Section, declared: &'a str) -> Option<&'a str> {
    let (name, key) = declared.strip_prefix('[')?.split_once("] ")?;
    let plain = name.strip_suffix(" \"name\"");
    let is_this_plain = section.name.eq_ignore_ascii_case(plain.unwrap_or(name))
        && section.sub.is_some() == plain.is_some();
    is_this_plain.then_some(key)
}

/// Returns `true` if a line may be the rest of a secret that was broken into lines: a key without a value, or Base64
/// text, which ends with `=`.
fn may_be_rest_of_a_value(text: &Text) -> bool {
    match text {
        Text::Is(value) => value.chars().all(|c| c == '='),
        Text::Bare | Text::Broken => true,
    }
}

fn title(section: &Section) -> String {
    section.sub.as_ref().map_or_else(
        || section.name.clone(),
        |sub| format!("{} {sub:?}", section.name),
    )
}

fn hint(name: &str, known: &[&str], shown: impl Fn(&str) -> String) -> String {
    let nearest = closest(
        &name.to_ascii_lowercase(),
        &known
            .iter()
            .map(|text| text.to_ascii_lowercase())
            .collect::<Vec<_>>(),
    )
    .and_then(|meant| known.iter().find(|text| text.eq_ignore_ascii_case(meant)));
    nearest.map_or_else(
        || ": nothing reads it".to_owned(),
        |meant| format!(": did you mean {}?", shown(meant)),
    )
}
