//! Parsers of flag values with the rules of Go programs.

use std::ffi::OsString;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::builder::{OsStringValueParser, TypedValueParser};
use runtime::go_duration::GoDuration;

/// Replaces `_` by `-` in a flag's name (FLAG-3).
pub(super) fn with_hyphens(argument: OsString) -> OsString {
    match argument.to_str() {
        Some(text) if text.starts_with("--") => {
            let (name, value) = text
                .split_once('=')
                .map_or((text, None), |(name, value)| (name, Some(value)));
            let name = name.replace('_', "-");
            value
                .map_or(name.clone(), |value| format!("{name}={value}"))
                .into()
        }
        _ => argument,
    }
}

/// Parses a Boolean (FLAG-2).
pub(super) fn go_bool(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "True" | "TRUE" => Ok(true),
        "0" | "f" | "F" | "false" | "False" | "FALSE" => Ok(false),
        _ => Err(format!(
            "strconv.ParseBool: parsing {text:?}: invalid syntax; write true or false"
        )),
    }
}

/// Parses a duration (FLAG-4).
pub(super) fn duration(text: &str) -> Result<GoDuration, String> {
    text.parse()
        .map_err(|error| format!("{error}; write numbers with units, as in 30s, 5m or 1h30m"))
}

/// Parses an `int`: decimal, hexadecimal, octal or binary, with `_` between digits (FLAG-6).
pub(super) fn go_int64(text: &str) -> Result<i64, String> {
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
    i64::from_str_radix(&format!("{sign}{digits}"), radix).map_err(|error| {
        use std::num::IntErrorKind::{NegOverflow, PosOverflow};
        if matches!(error.kind(), PosOverflow | NegOverflow) {
            out_of_range(text)
        } else {
            format!("strconv.ParseInt: parsing {text:?}: invalid syntax; write a whole number")
        }
    })
}

/// Parses an `int32` (FLAG-6).
pub(super) fn go_int(text: &str) -> Result<i32, String> {
    i32::try_from(go_int64(text)?).map_err(|_| out_of_range(text))
}

fn out_of_range(text: &str) -> String {
    format!(
        "strconv.ParseInt: parsing {text:?}: value out of range; write a number up to {}",
        i32::MAX
    )
}

/// Parses a `float32` (FLAG-6).
pub(super) fn go_float(text: &str) -> Result<f32, String> {
    match text.replace('_', "").parse::<f32>() {
        Ok(number) if number.is_finite() => Ok(number),
        Ok(_) => Err(format!(
            "strconv.ParseFloat: parsing {text:?}: value out of range; write a number, as in 20 or 0.5"
        )),
        Err(_) => Err(format!(
            "strconv.ParseFloat: parsing {text:?}: invalid syntax; write a number, as in 20 or 0.5"
        )),
    }
}

/// Parses an address to listen on. An empty value means all interfaces.
pub(super) fn ip(text: &str) -> Result<IpAddr, String> {
    match text.trim() {
        "" => Ok(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
        text => text.parse().map_err(|_| {
            format!("failed to parse IP: {text:?}; write an address, as in 127.0.0.1 or ::1, without a port")
        }),
    }
}

/// A path that may be empty, which means that there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathFlag(PathBuf);

impl PathFlag {
    /// Returns the path, if there is one.
    #[must_use]
    pub fn as_deref(&self) -> Option<&Path> {
        (!self.0.as_os_str().is_empty()).then_some(self.0.as_path())
    }

    /// Returns the path, if there is one.
    #[must_use]
    pub fn to_path_buf(&self) -> Option<PathBuf> {
        self.as_deref().map(Path::to_path_buf)
    }

    /// Returns the path as `/configz` shows it; empty if there is none.
    pub(crate) fn to_text(&self) -> String {
        self.0.display().to_string()
    }
}

pub(super) fn path() -> impl TypedValueParser<Value = PathFlag> {
    OsStringValueParser::new().map(|text| PathFlag(text.into()))
}

/// A listen address: `HOST:PORT`, `:PORT` for all interfaces, or empty for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListenAddress(pub(super) Option<SocketAddr>);

impl ListenAddress {
    pub(crate) fn get(self) -> Option<SocketAddr> {
        self.0
    }
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text:?} is no address to listen on; write IP:PORT, as in 127.0.0.1:8233, or :PORT"
            )
        };
        if matches!(text, "" | "0") {
            return Ok(Self(None));
        }
        let whole = if text.starts_with(':') {
            format!("0.0.0.0{text}")
        } else {
            text.to_owned()
        };
        whole
            .parse()
            .map(|address| Self(Some(address)))
            .map_err(|_| wrong())
    }
}

/// The value of one occurrence of a list flag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List(pub(super) Vec<String>);

impl List {
    /// Returns the items of all occurrences.
    pub(super) fn all(occurrences: &[Self]) -> impl Iterator<Item = &str> {
        occurrences
            .iter()
            .flat_map(|list| &list.0)
            .map(String::as_str)
    }

    /// Returns the items of all occurrences.
    pub(super) fn owned(occurrences: &[Self]) -> Vec<String> {
        Self::all(occurrences).map(str::to_owned).collect()
    }
}

/// Formats the list as a CSV record.
impl fmt::Display for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, item) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            if item.contains([',', '"']) {
                write!(f, "{comma}\"{}\"", item.replace('"', "\"\""))?;
            } else {
                write!(f, "{comma}{item}")?;
            }
        }
        Ok(())
    }
}

/// Parses a CSV record (FLAG-5). Double quotes around a field are removed, and a comma between them is literal; an
/// empty text has no fields.
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
                    return Err(format!(
                        "parse error: bare \" in non-quoted field {field:?}"
                    ));
                }
                (field.to_owned(), after)
            }
        };
        fields.push(field);
        match after.strip_prefix(',') {
            // A trailing comma begins another, empty field.
            Some("") => {
                fields.push(String::new());
                break;
            }
            Some(next) => rest = next,
            None if after.is_empty() => break,
            None => {
                return Err(format!(
                    "parse error: extraneous or missing \" in quoted field, before {after:?}"
                ));
            }
        }
    }
    Ok(List(fields))
}

/// Returns a field up to its closing quote, and the rest of the text; `""` is an escaped quote.
fn quoted_field(text: &str) -> Result<(String, &str), String> {
    let mut field = String::new();
    let mut rest = text;
    loop {
        let end = rest
            .find('"')
            .ok_or_else(|| "parse error: extraneous or missing \" in quoted field".to_owned())?;
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
        for text in [
            "--5",
            "",
            "-",
            "0x",
            "ten",
            "9223372036854775808",
            "-9223372036854775809",
            "2147483648",
        ] {
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
