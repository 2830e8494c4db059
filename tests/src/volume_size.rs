//! Sizes of volumes in the units that a cloud sells (HELP-95).

use std::fmt;

use cloud_provider::{Error, Result};

/// A unit of size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Unit {
    B,
    KB,
    KiB,
    MB,
    MiB,
    GB,
    GiB,
}

impl Unit {
    /// Returns the bytes of one unit.
    #[must_use]
    pub const fn bytes(self) -> i64 {
        match self {
            Self::B => 1,
            Self::KB => 1_000,
            Self::KiB => 1 << 10,
            Self::MB => 1_000_000,
            Self::MiB => 1 << 20,
            Self::GB => 1_000_000_000,
            Self::GiB => 1 << 30,
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Returns the size in whole units, rounded up. `quantity` is written as in `spec.capacity`.
///
/// ```
/// use ccm_tests::volume_size::{Unit, round_up};
///
/// assert_eq!(round_up("1.2Gi", Unit::GiB)?, 2);
/// assert_eq!(round_up("1000Mi", Unit::MB)?, 1049);
/// # Ok::<(), cloud_provider::Error>(())
/// ```
///
/// # Errors
/// *Invalid*, if it is no quantity, or 2⁶³−1 bytes or more.
pub fn round_up(quantity: &str, unit: Unit) -> Result<i64> {
    let bytes = bytes(quantity).ok_or_else(|| {
        Error::invalid(format!(
            "{quantity:?} is no quantity: write a number and a suffix, such as 10Gi"
        ))
    })?;
    match i64::try_from(bytes) {
        Ok(bytes) if bytes < i64::MAX => {
            Ok(ceil(i128::from(bytes), i128::from(unit.bytes())) as i64)
        }
        _ => Err(too_great(quantity, "int64")),
    }
}

/// Rounds up like [`round_up`], for clouds whose sizes have 32 bits.
///
/// # Errors
/// Also if the rounded number does not fit.
pub fn round_up_32(quantity: &str, unit: Unit) -> Result<i32> {
    i32::try_from(round_up(quantity, unit)?).map_err(|_| too_great(quantity, "int32"))
}

fn too_great(quantity: &str, what: &str) -> Error {
    Error::invalid(format!(
        "quantity {quantity} is too great, overflows {what}"
    ))
}

/// Returns a quantity in bytes, rounded up; too large values become the largest number.
fn bytes(quantity: &str) -> Option<i128> {
    let (negative, rest) = match quantity.as_bytes().first()? {
        b'-' => (true, &quantity[1..]),
        b'+' => (false, &quantity[1..]),
        _ => (false, quantity),
    };
    let end = rest
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(rest.len());
    let (number, suffix) = rest.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let (two, ten) = factor(suffix)?;
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    let ten = ten.saturating_sub(i32::try_from(fraction.len()).unwrap_or(i32::MAX));
    let magnitude = if digits.is_empty() {
        0
    } else {
        scaled(digits, two, ten)
    };
    Some(if negative { -magnitude } else { magnitude })
}

/// Returns the powers of two and of ten that a suffix stands for.
fn factor(suffix: &str) -> Option<(u32, i32)> {
    const DECIMAL: [(&str, i32); 10] = [
        ("n", -9),
        ("u", -6),
        ("m", -3),
        ("", 0),
        ("k", 3),
        ("M", 6),
        ("G", 9),
        ("T", 12),
        ("P", 15),
        ("E", 18),
    ];
    const BINARY: [(&str, u32); 6] = [
        ("Ki", 10),
        ("Mi", 20),
        ("Gi", 30),
        ("Ti", 40),
        ("Pi", 50),
        ("Ei", 60),
    ];
    if let Some((_, power)) = BINARY.iter().find(|(name, _)| *name == suffix) {
        return Some((*power, 0));
    }
    if let Some((_, power)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        return Some((0, *power));
    }
    Some((0, suffix.strip_prefix(['e', 'E'])?.parse().ok()?))
}

/// Returns `digits · 2^two · 10^ten`, rounded up; never 0.
fn scaled(digits: &str, two: u32, ten: i32) -> i128 {
    // More digits than this are either beyond any size or far behind the decimal point.
    const MOST: usize = 19;
    let (kept, dropped) = digits.split_at(digits.len().min(MOST));
    let ten = ten.saturating_add(i32::try_from(dropped.len()).unwrap_or(i32::MAX));
    let value = kept.parse::<i128>().unwrap_or(i128::MAX);
    let rest = i128::from(dropped.bytes().any(|b| b != b'0'));
    // 19 digits and 60 bits fit 124 bits.
    let value = value << two;
    if ten >= 0 {
        return 10_i128
            .checked_pow(ten.unsigned_abs())
            .and_then(|ten| value.checked_mul(ten))
            .unwrap_or(i128::MAX);
    }
    match 10_i128.checked_pow(ten.unsigned_abs()) {
        Some(ten) => ceil(value.saturating_add(rest), ten),
        None => 1,
    }
}

/// Returns `a / b`, rounded up; `b` is positive.
fn ceil(a: i128, b: i128) -> i128 {
    a.div_euclid(b) + i128::from(a.rem_euclid(b) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_of_every_form_come_to_bytes() {
        let table = [
            ("0", 0),
            ("1", 1),
            ("1.5", 2),
            (".5", 1),
            ("1n", 1),
            ("1000m", 1),
            ("1001m", 2),
            ("1e3", 1000),
            ("12E2", 1200),
            ("1E", 1_000_000_000_000_000_000),
            ("+1Ki", 1024),
            ("-1", -1),
            ("0.000000000000000000000000000001Gi", 1),
            ("1.00000000000000000000000000000000", 1),
            ("1.00000000000000000000000000000001", 2),
            ("1e-40", 1),
            ("9223372036854775807", i128::from(i64::MAX)),
        ];
        for (text, expected) in table {
            assert_eq!(bytes(text), Some(expected), "{text}");
        }
        for text in [
            "", "x", "1.2.3", ".", "1Gib", "1 Gi", "1e", "1e1.5", "-", "Gi",
        ] {
            assert_eq!(bytes(text), None, "{text:?}");
        }
    }

    #[test]
    fn what_is_too_great_is_an_error_and_not_a_wrong_number() {
        for text in [
            "8Ei",
            "9223372036854775807",
            "10E",
            "1e99",
            "1e-99999999999",
            "99999999999999999999999999999999",
        ] {
            let error = round_up(text, Unit::B).unwrap_err();
            assert!(error.is_invalid(), "{text}: {error}");
        }
        assert_eq!(
            round_up("9223372036854775806", Unit::B).unwrap(),
            i64::MAX - 1
        );
        assert_eq!(round_up_32("2147483647Gi", Unit::GiB).unwrap(), i32::MAX);
        let error = round_up_32("2147483648Gi", Unit::GiB)
            .unwrap_err()
            .to_string();
        assert_eq!(error, "quantity 2147483648Gi is too great, overflows int32");
    }
}
