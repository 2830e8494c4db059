//! Durations in Go's form: `1h30m`, `300ms`, `-1.5s` (FLAG-4).

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

const NANOSECOND: u64 = 1;
const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

/// A signed duration in nanoseconds, with the range (about ±292 years), the syntax and the canonical text of Go's
/// `time.Duration`.
///
/// ```
/// use cloud_provider::go_duration::GoDuration;
/// use std::time::Duration;
///
/// let d: GoDuration = "1h30m".parse()?;
/// assert_eq!(d.to_std(), Some(Duration::from_secs(5400)));
/// assert_eq!(d.to_string(), "1h30m0s");
/// assert_eq!("10".parse::<GoDuration>().unwrap_err().to_string(), r#"time: missing unit in duration "10""#);
/// # Ok::<(), cloud_provider::go_duration::ParseError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct GoDuration {
    nanoseconds: i64,
}

impl GoDuration {
    /// The zero duration, which prints as `0s`.
    pub const ZERO: Self = Self::from_nanos(0);

    /// Returns a duration of this many nanoseconds, which may be negative.
    #[must_use]
    pub const fn from_nanos(nanoseconds: i64) -> Self {
        Self { nanoseconds }
    }

    /// Returns a duration of this many seconds, or the longest possible duration on overflow.
    #[must_use]
    pub const fn from_secs(seconds: i64) -> Self {
        Self {
            nanoseconds: seconds.saturating_mul(SECOND as i64),
        }
    }

    /// Returns the duration in nanoseconds.
    #[must_use]
    pub const fn as_nanos(self) -> i64 {
        self.nanoseconds
    }

    /// Converts to the standard library's type, which has no negative durations: `None` for those.
    #[must_use]
    pub fn to_std(self) -> Option<Duration> {
        u64::try_from(self.nanoseconds)
            .ok()
            .map(Duration::from_nanos)
    }

    /// Converts to the standard library's type, with zero for negative durations. For waiting.
    #[must_use]
    pub fn to_std_or_zero(self) -> Duration {
        self.to_std().unwrap_or_default()
    }

    /// Returns `true` if the duration is longer than zero.
    #[must_use]
    pub const fn is_positive(self) -> bool {
        self.nanoseconds > 0
    }
}

impl From<Duration> for GoDuration {
    /// Converts a duration, to the longest possible one on overflow.
    fn from(duration: Duration) -> Self {
        Self {
            nanoseconds: i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX),
        }
    }
}

/// The error for a text that is not a duration, worded as in the Kubernetes components.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// A text of another form, or a duration that is too long.
    #[error("time: invalid duration {}", quoted(.0))]
    Invalid(String),
    /// A number without a unit other than a bare `0`.
    #[error("time: missing unit in duration {}", quoted(.0))]
    MissingUnit(String),
    /// A unit that is none of `ns us µs ms s m h`.
    #[error("time: unknown unit {} in duration {}", quoted(unit), quoted(text))]
    UnknownUnit {
        /// Text in the position of the unit.
        unit: String,
        /// The whole duration text.
        text: String,
    },
}

fn quoted(text: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            ' '..='~' => out.push(c),
            _ => c
                .encode_utf8(&mut [0; 4])
                .bytes()
                .for_each(|b| _ = write!(out, "\\x{b:02x}")),
        }
    }
    out + "\""
}

impl FromStr for GoDuration {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let invalid = || ParseError::Invalid(text.to_owned());
        let (negative, mut rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        if rest == "0" {
            return Ok(Self::ZERO);
        }
        if rest.is_empty() {
            return Err(invalid());
        }
        // One more than i64::MAX is allowed for the most negative duration.
        const LIMIT: u64 = 1 << 63;
        let mut total: u64 = 0;
        while !rest.is_empty() {
            let (number, after) = Number::split(rest).ok_or_else(invalid)?;
            let end = after
                .find(|c: char| c == '.' || c.is_ascii_digit())
                .unwrap_or(after.len());
            let (unit, after) = after.split_at(end);
            let scale = match unit {
                "" => return Err(ParseError::MissingUnit(text.to_owned())),
                "ns" => NANOSECOND,
                "us" | "\u{b5}s" | "\u{3bc}s" => MICROSECOND,
                "ms" => MILLISECOND,
                "s" => SECOND,
                "m" => MINUTE,
                "h" => HOUR,
                _ => {
                    return Err(ParseError::UnknownUnit {
                        unit: unit.to_owned(),
                        text: text.to_owned(),
                    });
                }
            };
            total = number
                .times(scale)
                .and_then(|part| total.checked_add(part))
                .filter(|total| *total <= LIMIT)
                .ok_or_else(invalid)?;
            rest = after;
        }
        let nanoseconds = match (negative, i64::try_from(total)) {
            (false, Ok(n)) => n,
            (true, Ok(n)) => -n,
            (true, Err(_)) => i64::MIN,
            (false, Err(_)) => return Err(invalid()),
        };
        Ok(Self { nanoseconds })
    }
}

/// A decimal number with an optional fraction.
struct Number {
    whole: u64,
    /// Numerator of the fraction `fraction / scale`; digits beyond the range of `u64` are ignored.
    fraction: u64,
    scale: f64,
}

impl Number {
    /// Splits a number off the front; `None` if there is no digit or the whole part overflows.
    fn split(text: &str) -> Option<(Self, &str)> {
        let digits = |s: &str| s.bytes().take_while(u8::is_ascii_digit).count();
        let (whole, rest) = text.split_at(digits(text));
        let (fraction, rest) = match rest.strip_prefix('.') {
            Some(after) => after.split_at(digits(after)),
            None => ("", rest),
        };
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let mut number = Self {
            whole: if whole.is_empty() {
                0
            } else {
                whole.parse().ok()?
            },
            fraction: 0,
            scale: 1.0,
        };
        for digit in fraction.bytes().map(|b| u64::from(b - b'0')) {
            let next = number
                .fraction
                .checked_mul(10)
                .and_then(|f| f.checked_add(digit));
            let Some(next) = next.filter(|f| *f <= i64::MAX as u64) else {
                break;
            };
            number.fraction = next;
            number.scale *= 10.0;
        }
        Some((number, rest))
    }

    /// Returns the number of units in nanoseconds, rounded towards zero.
    fn times(&self, unit: u64) -> Option<u64> {
        let fraction = (self.fraction as f64 * (unit as f64 / self.scale)) as u64;
        self.whole.checked_mul(unit)?.checked_add(fraction)
    }
}

impl fmt::Display for GoDuration {
    /// Displays the canonical form: hours, minutes and seconds from one second up (`1h0m0.5s`), a single smaller unit
    /// below (`1.5ms`).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.nanoseconds.unsigned_abs();
        let sign = if self.nanoseconds < 0 { "-" } else { "" };
        let text = match n {
            0 => "0s".to_owned(),
            _ if n < MICROSECOND => format!("{n}ns"),
            _ if n < MILLISECOND => format!("{}\u{b5}s", decimal(n, MICROSECOND)),
            _ if n < SECOND => format!("{}ms", decimal(n, MILLISECOND)),
            _ if n < MINUTE => format!("{}s", decimal(n, SECOND)),
            _ if n < HOUR => format!("{}m{}s", n / MINUTE, decimal(n % MINUTE, SECOND)),
            _ => format!(
                "{}h{}m{}s",
                n / HOUR,
                n % HOUR / MINUTE,
                decimal(n % MINUTE, SECOND)
            ),
        };
        f.pad(&format!("{sign}{text}"))
    }
}

/// Returns `n / unit` exactly, without trailing zeros; `unit` is a power of ten.
fn decimal(n: u64, unit: u64) -> String {
    let whole = n / unit;
    let rest = n % unit;
    if rest == 0 {
        return whole.to_string();
    }
    let digits = unit.ilog10() as usize;
    format!(
        "{whole}.{}",
        format!("{rest:0digits$}").trim_end_matches('0')
    )
}

impl fmt::Debug for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DAY: i64 = 24 * HOUR as i64;

    #[test]
    fn durations_parse_as_in_go() {
        let s = SECOND as i64;
        let table = [
            ("0", 0),
            ("-0", 0),
            ("+0", 0),
            ("0s", 0),
            ("5s", 5 * s),
            ("30s", 30 * s),
            ("1478s", 1478 * s),
            ("-5s", -5 * s),
            ("+5s", 5 * s),
            ("5.0s", 5 * s),
            ("5.6s", 5_600_000_000),
            ("5.s", 5 * s),
            (".5s", s / 2),
            ("1.0s", s),
            ("1.00s", s),
            ("1.004s", 1_004_000_000),
            ("1.0040s", 1_004_000_000),
            ("100.00100s", 100_001_000_000),
            ("10ns", 10),
            ("11us", 11_000),
            ("12\u{b5}s", 12_000),
            ("12\u{3bc}s", 12_000),
            ("13ms", 13_000_000),
            ("14s", 14 * s),
            ("15m", 900 * s),
            ("16h", 16 * 3600 * s),
            ("3h30m", 12_600 * s),
            ("10.5s4m", 250 * s + s / 2),
            ("-2m3.4s", -123_400_000_000),
            ("1h2m3s4ms5us6ns", 3_723_004_005_006),
            ("39h9m14.425s", 140_954_425_000_000),
            ("52763797000ns", 52_763_797_000),
            ("0.3333333333333333333h", 1_200_000_000_000),
            ("9007199254740993ns", 9_007_199_254_740_993),
            ("9223372036854775807ns", i64::MAX),
            ("9223372036854775.807us", i64::MAX),
            ("9223372036s854ms775us807ns", i64::MAX),
            ("-9223372036854775808ns", i64::MIN),
            ("-9223372036854775.808us", i64::MIN),
            ("-9223372036s854ms775us808ns", i64::MIN),
            ("-2562047h47m16.854775808s", i64::MIN),
            ("0.100000000000000000000h", 360 * s),
            ("0.830103483285477580700h", 2_988_372_539_827),
        ];
        for (text, nanoseconds) in table {
            assert_eq!(
                text.parse::<GoDuration>().map(GoDuration::as_nanos),
                Ok(nanoseconds),
                "{text}"
            );
        }
    }

    #[test]
    fn invalid_durations_have_the_error_texts_of_go() {
        let table = [
            ("", r#"time: invalid duration """#),
            ("abc", r#"time: invalid duration "abc""#),
            ("3", r#"time: missing unit in duration "3""#),
            ("-", r#"time: invalid duration "-""#),
            ("s", r#"time: invalid duration "s""#),
            (".", r#"time: invalid duration ".""#),
            ("-.", r#"time: invalid duration "-.""#),
            (".s", r#"time: invalid duration ".s""#),
            ("+.s", r#"time: invalid duration "+.s""#),
            ("1d", r#"time: unknown unit "d" in duration "1d""#),
            ("5 m", r#"time: unknown unit " m" in duration "5 m""#),
            ("1h ", r#"time: unknown unit "h " in duration "1h ""#),
            ("--1s", r#"time: invalid duration "--1s""#),
            ("1.2.3s", r#"time: missing unit in duration "1.2.3s""#),
            (
                "\u{85}\u{85}",
                r#"time: invalid duration "\xc2\x85\xc2\x85""#,
            ),
            (
                "1\u{b5}",
                r#"time: unknown unit "\xc2\xb5" in duration "1\xc2\xb5""#,
            ),
            ("hello \"x\"", r#"time: invalid duration "hello \"x\"""#),
            (
                "9223372036854775810ns",
                r#"time: invalid duration "9223372036854775810ns""#,
            ),
            (
                "9223372036854775808ns",
                r#"time: invalid duration "9223372036854775808ns""#,
            ),
            (
                "-9223372036854775809ns",
                r#"time: invalid duration "-9223372036854775809ns""#,
            ),
            (
                "9223372036854776us",
                r#"time: invalid duration "9223372036854776us""#,
            ),
            ("3000000h", r#"time: invalid duration "3000000h""#),
            (
                "99999999999999999999s",
                r#"time: invalid duration "99999999999999999999s""#,
            ),
        ];
        for (text, error) in table {
            assert_eq!(text.parse::<GoDuration>().unwrap_err().to_string(), error);
        }
    }

    #[test]
    fn durations_print_in_the_canonical_form() {
        let table = [
            (0, "0s"),
            (1, "1ns"),
            (1_100, "1.1\u{b5}s"),
            (2_200_000, "2.2ms"),
            (3_300_000_000, "3.3s"),
            (12 * HOUR as i64, "12h0m0s"),
            (4 * MINUTE as i64 + 5 * SECOND as i64, "4m5s"),
            (4 * MINUTE as i64 + 5_001_000_000, "4m5.001s"),
            (
                5 * HOUR as i64 + 6 * MINUTE as i64 + 7_001_000_000,
                "5h6m7.001s",
            ),
            (8 * MINUTE as i64 + 1, "8m0.000000001s"),
            (-90 * SECOND as i64, "-1m30s"),
            (-1, "-1ns"),
            (365 * DAY, "8760h0m0s"),
            (i64::MAX, "2562047h47m16.854775807s"),
            (i64::MIN, "-2562047h47m16.854775808s"),
        ];
        for (nanoseconds, text) in table {
            assert_eq!(GoDuration::from_nanos(nanoseconds).to_string(), text);
        }
    }

    #[test]
    fn duration_reads_and_writes_json_strings() {
        let d: GoDuration = serde_json::from_str(r#""15m""#).unwrap();
        assert_eq!(serde_json::to_string(&d).unwrap(), r#""15m0s""#);
        assert!(serde_json::from_str::<GoDuration>("15").is_err());
    }

    proptest! {
        #[test]
        fn printed_durations_parse_back(nanoseconds in any::<i64>(), shift in 0_u32..63) {
            let d = GoDuration::from_nanos(nanoseconds >> shift);
            prop_assert_eq!(d.to_string().parse(), Ok(d));
        }

        #[test]
        fn parser_of_durations_never_panics(text in "[-+]?([0-9]{0,25}\\.?[0-9]{0,25}(ns|us|µs|ms|s|m|h|x|)){0,4}|\\PC*") {
            _ = text.parse::<GoDuration>();
        }
    }
}
