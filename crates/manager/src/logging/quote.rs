//! Quoted text in Go's syntax, which parsers of klog lines rely on.

use std::fmt::{self, Write as _};

use cloud_provider::write_visibly;

/// Quotes the text on one line, with all invisible characters escaped.
pub(super) fn quoted(text: &str) -> Quoted<'_> {
    Quoted(text)
}

/// The `Display` implementation of [`quoted`].
pub(super) struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for c in self.0.chars() {
            match c {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                c => write_visibly(f, c)?,
            }
        }
        f.write_char('"')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_characters_are_escaped() {
        let table = [
            ("plain", r#""plain""#),
            ("", r#""""#),
            (r#"say "hi" \ 'ok'"#, r#""say \"hi\" \\ 'ok'""#),
            ("a\tb\nc\rd", r#""a\tb\nc\rd""#),
            ("\u{7}\u{8}\u{c}\u{b}", r#""\a\b\f\v""#),
            ("\u{1b}[31m\u{0}\u{7f}", r#""\x1b[31m\x00\x7f""#),
            ("grün 日本 🦀", r#""grün 日本 🦀""#),
            (
                "\u{a0}\u{200b}\u{e000}\u{2028}",
                r#""\u00a0\u200b\ue000\u2028""#,
            ),
            ("\u{10ffff}", r#""\U0010ffff""#),
        ];
        for (text, expected) in table {
            assert_eq!(quoted(text).to_string(), expected);
        }
    }
}
