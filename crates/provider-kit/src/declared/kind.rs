//! Kinds of values: their parsers, and descriptions of the accepted values.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use ipnet::IpNet;

use super::forms;

/// The form of values of type `T`.
///
/// ```
/// use provider_kit::declared::Kind;
///
/// const PORT: Kind<u16> = Kind::number(1, 65535);
/// assert_eq!((PORT.parse("443"), PORT.parse("0")), (Some(443), None));
/// assert_eq!(PORT.accepted(), "a whole number from 1 to 65535");
/// const COLOUR: Kind<char> = Kind::one_of(&[("red", 'r'), ("blue", 'b')]).any_case();
/// assert_eq!(COLOUR.parse("Red"), Some('r'));
/// ```
pub struct Kind<T: 'static> {
    form: Form<T>,
    /// If set, surrounding white space is dropped.
    is_trimmed: bool,
}

enum Form<T: 'static> {
    Parsed {
        accepted: &'static str,
        parse: fn(&str) -> Option<T>,
    },
    Explained {
        accepted: &'static str,
        parse: fn(&str) -> Result<T, String>,
    },
    Number {
        from: i64,
        to: i64,
        parse: fn(i64) -> Option<T>,
    },
    OneOf {
        choices: &'static [(&'static str, T)],
        any_case: bool,
        copy: fn(&T) -> T,
    },
}

impl<T> Kind<T> {
    /// Returns a kind with its own parser. `accepted` completes the sentence "… is not" and appears in the reference:
    /// `an address of this cloud`. `parse` gets the value without surrounding white space.
    #[must_use]
    pub const fn of(accepted: &'static str, parse: fn(&str) -> Option<T>) -> Self {
        Self {
            form: Form::Parsed { accepted, parse },
            is_trimmed: true,
        }
    }

    /// Returns a kind whose parser explains why a value is not accepted.
    #[must_use]
    pub const fn explained(accepted: &'static str, parse: fn(&str) -> Result<T, String>) -> Self {
        Self {
            form: Form::Explained { accepted, parse },
            is_trimmed: true,
        }
    }

    /// Returns a kind for whole numbers within these bounds, both included.
    #[must_use]
    pub const fn number(from: i64, to: i64) -> Self
    where
        T: TryFrom<i64>,
    {
        Self {
            form: Form::Number {
                from,
                to,
                parse: |number| T::try_from(number).ok(),
            },
            is_trimmed: true,
        }
    }

    /// Returns a kind for one of these words, each with its value.
    #[must_use]
    pub const fn one_of(choices: &'static [(&'static str, T)]) -> Self
    where
        T: Copy,
    {
        Self {
            form: Form::OneOf {
                choices,
                any_case: false,
                copy: |value| *value,
            },
            is_trimmed: true,
        }
    }

    /// Accepts words in lower and upper case.
    #[must_use]
    pub const fn any_case(self) -> Self {
        match self.form {
            Form::OneOf { choices, copy, .. } => Self {
                form: Form::OneOf {
                    choices,
                    any_case: true,
                    copy,
                },
                ..self
            },
            _ => self,
        }
    }

    /// Keeps white space around the value.
    #[must_use]
    pub const fn verbatim(self) -> Self {
        Self {
            is_trimmed: false,
            ..self
        }
    }

    /// Returns the value; `None` if the text is not accepted.
    #[must_use]
    pub fn parse(&self, text: &str) -> Option<T> {
        self.read(text).ok()
    }

    /// Returns the value, or the mistake: `is not …`.
    pub(crate) fn read(&self, text: &str) -> Result<T, String> {
        let text = if self.is_trimmed { text.trim() } else { text };
        // Each type of values has its own copy of this function: whatever does not depend on it is done elsewhere.
        match self.form {
            Form::Parsed { accepted, parse } => parse(text).ok_or_else(|| is_not(accepted)),
            Form::Explained { accepted, parse } => {
                parse(text).map_err(|why| is_not_because(accepted, &why))
            }
            Form::Number { from, to, parse } => number(text, from, to)
                .and_then(parse)
                .ok_or_else(|| is_not(&numbers(from, to))),
            Form::OneOf {
                choices,
                any_case,
                copy,
            } => match position(&mut words(choices), text, any_case) {
                Some(at) => Ok(copy(&choices[at].1)),
                None => Err(is_not(&one_of(&mut words(choices)))),
            },
        }
    }

    /// Returns the accepted values, as the end of the sentence "… is not".
    #[must_use]
    pub fn accepted(&self) -> String {
        match self.form {
            Form::Parsed { accepted, .. } | Form::Explained { accepted, .. } => accepted.to_owned(),
            Form::Number { from, to, .. } => numbers(from, to),
            Form::OneOf { choices, .. } => one_of(&mut words(choices)),
        }
    }

    /// Returns the accepted values, for a table in Markdown.
    pub(crate) fn markdown(&self) -> String {
        match self.form {
            Form::OneOf { choices, .. } => joined(&mut words(choices), "`"),
            Form::Parsed { .. } | Form::Explained { .. } | Form::Number { .. } => {
                without_article(self.accepted())
            }
        }
    }
}

fn is_not(accepted: &str) -> String {
    format!("is not {accepted}")
}

fn is_not_because(accepted: &str, why: &str) -> String {
    format!("is not {accepted}: {why}")
}

fn without_article(accepted: String) -> String {
    let short = accepted
        .strip_prefix("a ")
        .or_else(|| accepted.strip_prefix("an "));
    short.map(str::to_owned).unwrap_or(accepted)
}

fn number(text: &str, from: i64, to: i64) -> Option<i64> {
    text.parse()
        .ok()
        .filter(|number| (from..=to).contains(number))
}

fn numbers(from: i64, to: i64) -> String {
    match (from, to) {
        (i64::MIN, i64::MAX) => "a whole number".to_owned(),
        (from, i64::MAX) => format!("a whole number from {from} on"),
        (from, to) => format!("a whole number from {from} to {to}"),
    }
}

type Words<'a> = dyn Iterator<Item = &'static str> + 'a;

fn words<T>(choices: &'static [(&'static str, T)]) -> impl Iterator<Item = &'static str> {
    choices.iter().map(|(word, _)| *word)
}

fn position(words: &mut Words<'_>, text: &str, any_case: bool) -> Option<usize> {
    let is_this_word = |word: &str| word == text || any_case && word.eq_ignore_ascii_case(text);
    words
        .enumerate()
        .find(|(_, word)| is_this_word(word))
        .map(|(at, _)| at)
}

/// Returns the end of a message. A message cannot show the empty text.
fn one_of(words: &mut Words<'_>) -> String {
    format!(
        "one of {}",
        joined(&mut words.filter(|word| !word.is_empty()), "")
    )
}

fn joined(words: &mut Words<'_>, quote: &str) -> String {
    words
        .map(|word| format!("{quote}{word}{quote}"))
        .collect::<Vec<_>>()
        .join(", ")
}

/// A type of values with a default form, which a declaration can replace.
pub trait Value: Sized + 'static {
    /// The form of the type's values.
    const KIND: Kind<Self>;
}

/// Accepts any text, unchanged.
impl Value for String {
    const KIND: Kind<Self> = Kind::of("a text", |text| Some(text.to_owned())).verbatim();
}

/// Accepts `true` or `false`, and the other forms that Go's tools accept.
impl Value for bool {
    const KIND: Kind<Self> = Kind::of("true or false", forms::truth);
}

/// Accepts a duration in Go's form that is not negative. [`Kind::seconds`] accepts bare numbers, too.
impl Value for Duration {
    const KIND: Kind<Self> = Kind::of("a duration such as 30s or 1m30s", forms::duration);
}

impl Value for u16 {
    const KIND: Kind<Self> = Kind::number(0, u16::MAX as i64);
}

impl Value for i32 {
    const KIND: Kind<Self> = Kind::number(i32::MIN as i64, i32::MAX as i64);
}

/// Accepts numbers up to the maximum of a signed 64-bit number.
impl Value for u64 {
    const KIND: Kind<Self> = Kind::number(0, i64::MAX);
}

impl Value for u32 {
    const KIND: Kind<Self> = Kind::number(0, i32::MAX as i64);
}

impl Value for IpAddr {
    const KIND: Kind<Self> = Kind::of("an IP address", |text| text.parse().ok());
}

impl Value for Ipv4Addr {
    const KIND: Kind<Self> = Kind::of("an IPv4 address", |text| text.parse().ok());
}

/// Accepts an address range; bits beyond its length are dropped.
impl Value for IpNet {
    const KIND: Kind<Self> = Kind::of("an address range such as 10.0.0.0/24", |text| {
        text.parse().ok().map(|net: IpNet| net.trunc())
    });
}

impl Value for f64 {
    const KIND: Kind<Self> = Kind::of("a number", |text| {
        text.parse().ok().filter(|number: &Self| number.is_finite())
    });
}

/// Keys with values, such as tags. A value may contain `=`, and is empty for a key alone.
impl Value for BTreeMap<String, String> {
    const KIND: Kind<Self> = Kind::of("a comma list of key=value", |text| {
        let pair = |item| {
            let (key, value): (&str, &str) = str::split_once(item, '=').unwrap_or((item, ""));
            let [key, value] = [key, value].map(|text| text.trim().to_owned());
            (!key.is_empty()).then_some((key, value))
        };
        forms::items(text).map(pair).collect()
    });
}

/// Accepts a comma-separated list.
impl<T: Value> Value for Vec<T> {
    const KIND: Kind<Self> = Kind::of("a comma list", |text| {
        forms::items(text).map(|item| T::KIND.parse(item)).collect()
    });
}

impl Kind<Duration> {
    /// Returns a kind for a duration in Go's form, or a whole number of seconds.
    #[must_use]
    pub const fn seconds() -> Self {
        Self::of(
            "a duration such as 30s or 1m30s, or a number of seconds",
            forms::seconds,
        )
    }
}

// Not derived, because that would require the same of `T`.
impl<T> Clone for Kind<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Kind<T> {}

impl<T> Clone for Form<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Form<T> {}

impl<T> fmt::Debug for Kind<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kind({})", self.accepted())
    }
}
