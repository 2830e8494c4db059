//! The parser, which splits the text of a file into sections and keys.

use std::iter::Peekable;
use std::str::Chars;

/// A section `[name]` or `[name "sub name"]`, with the lines below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Name, as it is written; not case-sensitive.
    pub name: String,
    /// Sub name, which is case-sensitive.
    pub sub: Option<String>,
    /// Line of the header; the first line is 1.
    pub line: u32,
    /// Keys, in the order of the file.
    pub entries: Vec<Entry>,
}

/// An entry of the form `key = value`.
#[derive(Clone, PartialEq, Eq)]
pub struct Entry {
    /// Key, as it is written; not case-sensitive.
    pub key: String,
    /// Text of the value.
    pub text: Text,
    /// Line of the key; the first line is 1.
    pub line: u32,
}

/// The text that a key is set to.
#[derive(Clone, PartialEq, Eq)]
pub enum Text {
    /// A key without `=`.
    Bare,
    /// A value without quotes, escapes and unquoted surrounding white space.
    Is(String),
    /// A value with a syntax error, which a [`Mistake`] reports.
    Broken,
}

/// A syntax error. The message quotes nothing, because any part of a broken file may be a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Line of the error; the first line is 1.
    pub line: u32,
    /// The error, and how to correct it.
    pub text: &'static str,
}

/// Shows key and line only, because values may be secrets.
impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} in line {}", self.key, self.line)
    }
}

const HEADER: &str = "a section is written [name], or [name \"sub name\"], alone on its line";
const NO_SECTION: &str = "text before the first [section]";
const NO_ENTRY: &str = "not a `key = value`, a [section] or a comment";
const NOT_CLOSED: &str = "a double quote is not closed in its line";
const ESCAPE: &str = "a backslash must stand before a double quote or at the end of a line, in double quotes also before \\, n or t; for one \
     backslash put the value in double quotes and write two";

/// Parses a file; texts with a syntax error are left out and reported.
///
/// ```
/// use provider_kit::gcfg::{Text, parse};
///
/// let (sections, mistakes) = parse("[Class \"a b\"]\nenabled\nname = \"x;\" ; comment\nbroken = \"\n");
/// assert_eq!((sections[0].name.as_str(), sections[0].sub.as_deref()), ("Class", Some("a b")));
/// assert!(sections[0].entries[0].text == Text::Bare);
/// assert!(sections[0].entries[1].text == Text::Is("x;".to_owned()));
/// assert_eq!((mistakes.len(), mistakes[0].line), (1, 4));
/// ```
#[must_use]
pub fn parse(text: &str) -> (Vec<Section>, Vec<Mistake>) {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = Reader {
        rest: text.chars().peekable(),
        line: 1,
    };
    let mut sections = Vec::new();
    let mut mistakes = Vec::new();
    // The state of the last section header.
    let mut place = Place::BeforeAll;
    while let Some(first) = reader.first() {
        let line = reader.line;
        let outcome = match first {
            '\n' => Ok(()),
            '[' => {
                let header = reader.header();
                place = if header.is_ok() {
                    Place::InSection
                } else {
                    Place::InBroken
                };
                header.map(|(name, sub)| {
                    sections.push(Section {
                        name,
                        sub,
                        line,
                        entries: Vec::new(),
                    });
                })
            }
            first if first.is_alphabetic() => {
                let (key, text) = reader.entry();
                let wrong = text.as_ref().err().copied();
                match (place, sections.last_mut()) {
                    (Place::InSection, Some(section)) => {
                        section.entries.push(Entry {
                            key,
                            text: text.unwrap_or(Text::Broken),
                            line,
                        });
                        wrong.map_or(Ok(()), Err)
                    }
                    (Place::InBroken, _) => Ok(()),
                    _ => Err(NO_SECTION),
                }
            }
            _ => Err(NO_ENTRY),
        };
        if let Err(text) = outcome {
            mistakes.push(Mistake { line, text });
        }
        reader.skip_line();
    }
    (sections, mistakes)
}

#[derive(Clone, Copy)]
enum Place {
    BeforeAll,
    InSection,
    /// The header has a syntax error, which covers the keys below it.
    InBroken,
}

struct Reader<'a> {
    rest: Peekable<Chars<'a>>,
    line: u32,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<char> {
        let next = self.rest.next();
        self.line += u32::from(next == Some('\n'));
        next
    }

    fn peek(&mut self) -> Option<char> {
        self.rest.peek().copied()
    }

    /// Returns the first character of a line that is not blank, after skipping a comment.
    fn first(&mut self) -> Option<char> {
        self.skip_blanks();
        if matches!(self.peek(), Some('#' | ';')) {
            self.skip_comment();
        }
        self.peek()
    }

    fn skip_blanks(&mut self) {
        while self.peek().is_some_and(is_blank) {
            self.next();
        }
    }

    fn skip_comment(&mut self) {
        while self.peek().is_some_and(|next| next != '\n') {
            self.next();
        }
    }

    fn skip_line(&mut self) {
        self.skip_comment();
        self.next();
    }

    fn name(&mut self) -> String {
        let mut name = String::new();
        while let Some(next) = self
            .peek()
            .filter(|next| next.is_alphanumeric() || matches!(next, '-' | '_' | '.'))
        {
            name.push(next);
            self.next();
        }
        name
    }

    /// Reads a header, from `[` to the end of the line.
    fn header(&mut self) -> Result<(String, Option<String>), &'static str> {
        self.next();
        self.skip_blanks();
        let name = self.name();
        self.skip_blanks();
        let sub = if self.peek() == Some('"') {
            Some(self.sub_name()?)
        } else {
            None
        };
        self.skip_blanks();
        let is_closed = self.peek() == Some(']');
        if is_closed {
            self.next();
        }
        let is_alone = matches!(self.first(), None | Some('\n'));
        let is_named = !name.is_empty() && sub.as_ref().is_none_or(|sub| !sub.is_empty());
        if is_closed && is_alone && is_named {
            Ok((name, sub))
        } else {
            Err(HEADER)
        }
    }

    fn sub_name(&mut self) -> Result<String, &'static str> {
        self.next();
        let mut name = String::new();
        loop {
            match self.peek() {
                None | Some('\n') => return Err(HEADER),
                Some('"') => break,
                Some('\\') => {
                    self.next();
                    name.push(
                        self.peek()
                            .filter(|next| matches!(next, '"' | '\\'))
                            .ok_or(HEADER)?,
                    );
                }
                Some(other) => name.push(other),
            }
            self.next();
        }
        self.next();
        Ok(name)
    }

    /// Reads a key, and its value to the end of the line.
    fn entry(&mut self) -> (String, Result<Text, &'static str>) {
        let key = self.name();
        let text = match self.first() {
            None | Some('\n') => Ok(Text::Bare),
            Some('=') => {
                self.next();
                self.skip_blanks();
                self.value().map(Text::Is)
            }
            Some(_) => Err(NO_ENTRY),
        };
        (key, text)
    }

    fn value(&mut self) -> Result<String, &'static str> {
        let mut value = String::new();
        // Blanks after this length are dropped if nothing follows them.
        let mut length = 0;
        let mut is_quoted = false;
        while let Some(next) = self.peek() {
            match next {
                '\n' if is_quoted => return Err(NOT_CLOSED),
                '\n' => break,
                '#' | ';' if !is_quoted => break,
                _ => self.next(),
            };
            match next {
                // A line end in the Windows form.
                '\r' => {}
                '"' => is_quoted = !is_quoted,
                '\\' => value.extend(self.escaped(is_quoted)?),
                other => value.push(other),
            }
            if is_quoted || !is_blank(next) {
                length = value.len();
            }
        }
        if is_quoted {
            return Err(NOT_CLOSED);
        }
        value.truncate(length);
        Ok(value)
    }

    /// Returns the character that a backslash and the next character stand for; `None` at the line's end.
    fn escaped(&mut self, is_quoted: bool) -> Result<Option<char>, &'static str> {
        if self.peek() == Some('\r') {
            self.next();
        }
        let stands_for = match self.peek() {
            Some('\n') => None,
            Some('"') => Some('"'),
            Some('\\') if is_quoted => Some('\\'),
            Some('n') if is_quoted => Some('\n'),
            Some('t') if is_quoted => Some('\t'),
            _ => return Err(ESCAPE),
        };
        self.next();
        Ok(stands_for)
    }
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r')
}
