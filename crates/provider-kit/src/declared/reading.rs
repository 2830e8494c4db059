//! Reading what is set, and all that is wrong with it at once.

use cloud_provider::Error;

use super::{Declaration, Declared, Defaults, IfWrong, Row, Unset};

/// So much of a value is quoted in a message.
const QUOTED: usize = 100;

/// What was found out while values were read.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    mistakes: Vec<Mistake>,
    warnings: Vec<String>,
}

/// A value that is not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mistake {
    pub(crate) text: String,
    pub(crate) decides_targets: bool,
}

impl Reading {
    /// The value that is set, else the default. `named`: how a message names a key; `set`: the text under a key.
    pub(crate) fn get<'a, T>(
        &mut self,
        declaration: &Declaration<T>,
        named: &dyn Fn(&str) -> String,
        set: impl Fn(&str) -> Option<&'a str>,
    ) -> Option<T> {
        let Declaration { key, kind, default, aliases, if_wrong, decides_targets, .. } = *declaration;
        let alias = || aliases.iter().find_map(|alias| Some((*alias, set(alias)?)));
        if let Some((used, text)) = set(key).map(|text| (key, text)).or_else(alias) {
            if used != key {
                self.warning(format!("{} is deprecated: use {key}", named(used)));
            }
            let why = match declaration.read(text) {
                Ok(value) => return Some(value),
                Err(why) => why,
            };
            let wrong = format!("{}: {why}", named(used));
            match if_wrong {
                IfWrong::Refuse => {
                    self.add(Mistake { text: wrong, decides_targets });
                    return None;
                }
                IfWrong::Warn => self.warning(wrong),
            }
        }
        match default {
            Unset::Value(text) => kind.parse(text),
            Unset::Nothing | Unset::Words(_) => None,
        }
    }

    /// Returns what is set of `declared`, secrets aside. `set`: the text under a key, and how a message names it.
    pub(crate) fn defaults(
        &mut self,
        declared: &[&dyn Declared],
        set: impl Fn(&'static str) -> Option<(String, String)>,
    ) -> Defaults {
        declared.iter().fold(Defaults::default(), |defaults, declaration| {
            let Row { key, is_secret, .. } = declaration.row();
            let Some((text, named)) = set(key).filter(|(text, _)| !text.is_empty() && !is_secret) else {
                return defaults;
            };
            match declaration.check(&text) {
                Ok(()) => return defaults.set(key, text),
                Err(why) => self.mistake(format!("{named}: {why}")),
            }
            defaults
        })
    }

    /// Told once, however often it is found.
    pub(crate) fn mistake(&mut self, text: String) {
        self.add(Mistake { text, decides_targets: false });
    }

    fn add(&mut self, mistake: Mistake) {
        if !self.mistakes.contains(&mistake) {
            self.mistakes.push(mistake);
        }
    }

    pub(crate) fn warning(&mut self, text: String) {
        if !self.warnings.contains(&text) {
            self.warnings.push(text);
        }
    }

    pub(crate) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    pub(crate) fn into_mistakes(self) -> Vec<Mistake> {
        self.mistakes
    }

    /// Ends the reading. Warnings that name a likely misspelling are in the error as well.
    pub(crate) fn finish(mut self) -> cloud_provider::Result<()> {
        if !self.mistakes.is_empty() {
            let hints: Vec<_> = self.warnings.iter().filter(|it| it.contains(DID_YOU_MEAN)).cloned().collect();
            hints.into_iter().for_each(|hint| self.mistake(hint));
        }
        refused(self.mistakes.iter())
    }
}

impl<T> Declaration<T> {
    /// Returns the value of a text, or what is wrong with the text.
    pub(super) fn read(&self, text: &str) -> Result<T, String> {
        self.kind.read(text).map_err(|why| match self.is_secret {
            // What is wrong with a secret may quote it.
            true => format!("its value is not {}", self.kind.accepted()),
            false => format!("{} {why}", quoted(text)),
        })
    }
}

/// The beginning of a hint at a misspelt name, which may be the reason of another mistake: a value that seems to be missing.
const DID_YOU_MEAN: &str = "did you mean";

/// *Invalid*, with all of these mistakes.
pub(crate) fn refused<'a>(mistakes: impl Iterator<Item = &'a Mistake>) -> cloud_provider::Result<()> {
    let texts: Vec<_> = mistakes.map(|mistake| &*mistake.text).collect();
    if texts.is_empty() { Ok(()) } else { Err(Error::invalid(texts.join("; "))) }
}

fn quoted(text: &str) -> String {
    match text.char_indices().nth(QUOTED) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}
