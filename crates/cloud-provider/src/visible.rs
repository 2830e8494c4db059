//! Texts of others that a person reads: annotations, names, answers of clouds. Their authors need not be trusted, so a
//! text must neither control a terminal nor look like a line of its own.

use std::borrow::Cow;
use std::fmt;

/// Returns the text on one line, with all invisible characters escaped as Go does: line breaks, terminal escapes, marks
/// that reorder a line.
///
/// ```
/// assert_eq!(cloud_provider::visible("web\nok  nodes: all well\u{1b}[2J"), r"web\nok  nodes: all well\x1b[2J");
/// assert_eq!(cloud_provider::visible("grün \"✓\""), "grün \"✓\"");
/// ```
#[must_use]
pub fn visible(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_visible) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len());
    // A string takes all that is written to it.
    text.chars().for_each(|c| _ = write_visibly(&mut safe, c));
    Cow::Owned(safe)
}

/// Writes a character, or its escape if the character is invisible.
///
/// # Errors
/// The error of `f`.
pub fn write_visibly(f: &mut impl fmt::Write, c: char) -> fmt::Result {
    match c {
        '\u{7}' => f.write_str("\\a"),
        '\u{8}' => f.write_str("\\b"),
        '\u{c}' => f.write_str("\\f"),
        '\n' => f.write_str("\\n"),
        '\r' => f.write_str("\\r"),
        '\t' => f.write_str("\\t"),
        '\u{b}' => f.write_str("\\v"),
        c if is_visible(c) => f.write_char(c),
        c if c.is_ascii() => write!(f, "\\x{:02x}", u32::from(c)),
        c if u32::from(c) <= 0xffff => write!(f, "\\u{:04x}", u32::from(c)),
        c => write!(f, "\\U{:08x}", u32::from(c)),
    }
}

/// Returns `true` if the character is a space, or leaves a mark and changes nothing else.
#[must_use]
pub fn is_visible(c: char) -> bool {
    if c.is_ascii() {
        return c == ' ' || c.is_ascii_graphic();
    }
    // The standard library escapes only unprintable characters, except quotation marks, as a code point.
    !c.is_whitespace() && !c.is_control() && !c.escape_debug().to_string().starts_with("\\u")
}
