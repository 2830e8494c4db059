//! Values of flags as Go programs read them.

use std::ffi::OsString;

/// FLAG-3: `_` in a flag's name is `-`.
pub(super) fn with_hyphens(argument: OsString) -> OsString {
    match argument.to_str() {
        Some(text) if text.starts_with("--") => {
            let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
            let name = name.replace('_', "-");
            value.map_or(name.clone(), |value| format!("{name}={value}")).into()
        }
        _ => argument,
    }
}

/// FLAG-2.
pub(super) fn go_bool(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "True" | "TRUE" => Ok(true),
        "0" | "f" | "F" | "false" | "False" | "FALSE" => Ok(false),
        _ => Err(format!("strconv.ParseBool: parsing {text:?}: invalid syntax")),
    }
}

/// FLAG-6: decimal, hexadecimal, octal or binary, with `_` between digits.
pub(super) fn go_int(text: &str) -> Result<i32, String> {
    let (sign, digits) = match text.strip_prefix(['-', '+']) {
        Some(rest) => (if text.starts_with('-') { "-" } else { "" }, rest),
        None => ("", text),
    };
    let digits = digits.replace('_', "").to_ascii_lowercase();
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x', ..] => (16, &digits[2..]),
        [b'0', b'o', ..] => (8, &digits[2..]),
        [b'0', b'b', ..] => (2, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, &digits[..]),
    };
    let number = i64::from_str_radix(&format!("{sign}{digits}"), radix).map_err(|error| {
        use std::num::IntErrorKind::{NegOverflow, PosOverflow};
        let why =
            if matches!(error.kind(), PosOverflow | NegOverflow) { "value out of range" } else { "invalid syntax" };
        format!("strconv.ParseInt: parsing {text:?}: {why}")
    })?;
    i32::try_from(number).map_err(|_| format!("strconv.ParseInt: parsing {text:?}: value out of range"))
}

/// One occurrence of a flag that holds a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List(Vec<String>);

impl List {
    /// The items of all occurrences.
    pub(super) fn all(occurrences: &[Self]) -> impl Iterator<Item = &str> {
        occurrences.iter().flat_map(|list| &list.0).map(String::as_str)
    }
}

/// FLAG-5: a CSV record. A field in double quotes loses them, and a comma within is literal; no text, no fields.
pub(super) fn list(text: &str) -> Result<List, String> {
    let mut fields = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (field, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted_field(quoted)?,
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                let (field, after) = rest.split_at(end);
                if field.contains('"') {
                    return Err(format!("parse error: bare \" in non-quoted field {field:?}"));
                }
                (field.to_owned(), after)
            }
        };
        fields.push(field);
        match after.strip_prefix(',') {
            // A comma at the end begins another, empty field.
            Some("") => {
                fields.push(String::new());
                break;
            }
            Some(next) => rest = next,
            None if after.is_empty() => break,
            None => return Err(format!("parse error: extraneous or missing \" in quoted field, before {after:?}")),
        }
    }
    Ok(List(fields))
}

/// A field up to its closing quote, and what follows; `""` is a quote.
fn quoted_field(text: &str) -> Result<(String, &str), String> {
    let (mut field, mut rest) = (String::new(), text);
    loop {
        let end = rest.find('"').ok_or_else(|| "parse error: extraneous or missing \" in quoted field".to_owned())?;
        field.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix('"') {
            Some(after) => {
                field.push('"');
                rest = after;
            }
            None => return Ok((field, rest)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_written_as_in_go() {
        for (text, number) in [
            ("10", 10),
            ("+10", 10),
            ("-10", -10),
            ("0x0a", 10),
            ("0o12", 10),
            ("012", 10),
            ("0b1010", 10),
            ("1_000", 1000),
        ] {
            assert_eq!(go_int(text), Ok(number), "{text}");
        }
        for text in ["--5", "", "-", "0x", "ten", "9223372036854775808", "-9223372036854775809", "2147483648"] {
            assert!(go_int(text).is_err(), "{text}");
        }
    }

    #[test]
    fn lists_are_records_of_comma_separated_values() {
        let table: [(&str, &[&str]); 8] = [
            ("", &[]),
            ("a", &["a"]),
            ("a,b", &["a", "b"]),
            ("\"/metrics\"", &["/metrics"]),
            ("\"a,b\",c", &["a,b", "c"]),
            ("\"say \"\"hi\"\"\",b", &["say \"hi\"", "b"]),
            ("a,", &["a", ""]),
            (",", &["", ""]),
        ];
        for (text, items) in table {
            assert_eq!(
                list(text).map(|list| list.0),
                Ok(items.iter().map(|item| (*item).to_owned()).collect()),
                "{text}"
            );
        }
        for text in ["a\"b", "\"a", "\"a\"b"] {
            assert!(list(text).unwrap_err().starts_with("parse error"), "{text}");
        }
    }
}
