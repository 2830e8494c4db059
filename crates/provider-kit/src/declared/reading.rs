//! Reading of settings, with all mistakes collected.

use cloud_provider::Error;

use super::{Declaration, Declared, DefaultValue, Defaults, OnInvalid, Row};

/// The number of characters of a value that a message quotes.
const QUOTED: usize = 100;

/// The mistakes and warnings found while values were read.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    mistakes: Vec<Mistake>,
    warnings: Vec<String>,
}

/// The parts of a [`Declaration`] that do not depend on the type of its values.
#[derive(Clone, Copy)]
struct Rules {
    key: &'static str,
    aliases: &'static [&'static str],
    on_invalid: OnInvalid,
    decides_targets: bool,
}

/// A value that is not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mistake {
    pub(crate) text: String,
    pub(crate) decides_targets: bool,
}

impl Reading {
    /// Returns the value that is set, or else the default. `named` names a key in messages; `set` returns the text
    /// under a key.
    pub(crate) fn get<'a, T>(
        &mut self,
        declaration: &Declaration<T>,
        named: &dyn Fn(&str) -> String,
        set: impl Fn(&str) -> Option<&'a str>,
    ) -> Option<T> {
        let Declaration {
            key,
            aliases,
            on_invalid,
            decides_targets,
            ref kind,
            default,
            ..
        } = *declaration;
        let mut value = None;
        let mut read = |text: &str| declaration.read(text).map(|read| value = Some(read));
        let rules = Rules {
            key,
            aliases,
            on_invalid,
            decides_targets,
        };
        match (self.has_default(rules, named, &set, &mut read), default) {
            (true, DefaultValue::Value(text)) => kind.parse(text),
            _ => value,
        }
    }

    /// Reads the text that is set, and collects mistakes. Returns `true` if the default applies.
    fn has_default<'a>(
        &mut self,
        Rules {
            key,
            aliases,
            on_invalid,
            decides_targets,
        }: Rules,
        named: &dyn Fn(&str) -> String,
        set: &dyn Fn(&str) -> Option<&'a str>,
        read: &mut dyn FnMut(&str) -> Result<(), String>,
    ) -> bool {
        let alias = || aliases.iter().find_map(|alias| Some((*alias, set(alias)?)));
        let Some((used, text)) = set(key).map(|text| (key, text)).or_else(alias) else {
            return true;
        };
        if used != key {
            self.warning(format!("{} is deprecated: use {key}", named(used)));
        }
        let Err(why) = read(text) else { return false };
        let wrong = format!("{}: {why}", named(used));
        match on_invalid {
            OnInvalid::Refuse => self.add(Mistake {
                text: wrong,
                decides_targets,
            }),
            OnInvalid::Warn => self.warning(wrong),
        }
        on_invalid == OnInvalid::Warn
    }

    /// Returns the values of `declared` that are set, except for secrets. `set` returns the text under a key, and its
    /// name in messages.
    pub(crate) fn defaults(
        &mut self,
        declared: &[&dyn Declared],
        set: impl Fn(&'static str) -> Option<(String, String)>,
    ) -> Defaults {
        declared
            .iter()
            .fold(Defaults::default(), |defaults, declaration| {
                let Row { key, is_secret, .. } = declaration.row();
                let Some((text, named)) =
                    set(key).filter(|(text, _)| !text.is_empty() && !is_secret)
                else {
                    return defaults;
                };
                match declaration.check(&text) {
                    Ok(()) => return defaults.set(key, text),
                    Err(why) => self.mistake(format!("{named}: {why}")),
                }
                defaults
            })
    }

    /// Adds a mistake once, even if it is found several times.
    pub(crate) fn mistake(&mut self, text: String) {
        self.add(Mistake {
            text,
            decides_targets: false,
        });
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

    /// Ends the reading. Warnings that suggest a misspelling are added to the error.
    pub(crate) fn finish(mut self) -> cloud_provider::Result<()> {
        if !self.mistakes.is_empty() {
            let hints: Vec<_> = self
                .warnings
                .iter()
                .filter(|warning| warning.contains(DID_YOU_MEAN))
                .cloned()
                .collect();
            hints.into_iter().for_each(|hint| self.mistake(hint));
        }
        refused(self.mistakes.iter())
    }
}

impl<T> Declaration<T> {
    /// Returns the value of a text, or the reason why the text is not accepted.
    pub(super) fn read(&self, text: &str) -> Result<T, String> {
        self.kind.read(text).map_err(|why| match self.is_secret {
            // The reason may quote the secret.
            true => secret_is_not(&self.kind.accepted()),
            false => value_is_not(text, &why),
        })
    }
}

/// The beginning of a hint at a misspelt name, which may cause another mistake: a value that seems to be missing.
const DID_YOU_MEAN: &str = "did you mean";

/// Returns *invalid* with all of these mistakes, if there are any.
pub(crate) fn refused<'a>(
    mistakes: impl Iterator<Item = &'a Mistake>,
) -> cloud_provider::Result<()> {
    let texts: Vec<_> = mistakes.map(|mistake| &*mistake.text).collect();
    if texts.is_empty() {
        Ok(())
    } else {
        Err(Error::invalid(texts.join("; ")))
    }
}

fn secret_is_not(accepted: &str) -> String {
    format!("its value is not {accepted}")
}

fn value_is_not(text: &str, why: &str) -> String {
    format!("{} {why}", quoted(text))
}

fn quoted(text: &str) -> String {
    match text.char_indices().nth(QUOTED) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}
