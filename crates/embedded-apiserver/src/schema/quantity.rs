//! Quantities (`500m`, `4Gi`) in their canonical form.

/// Suffixes with a factor of thousands, by exponent of ten.
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
/// Suffixes with a factor of 1024.
const BINARY: [(&str, u32); 6] = [
    ("Ki", 10),
    ("Mi", 20),
    ("Gi", 30),
    ("Ti", 40),
    ("Pi", 50),
    ("Ei", 60),
];

/// Returns the canonical form, or none if `text` is not a quantity: no fraction, the largest suffix that fits.
pub(crate) fn canonical(text: &str) -> Option<String> {
    let (nanos, form) = parse(text)?;
    let negative = nanos < 0;
    let magnitude = nanos.unsigned_abs();
    let body = match form {
        Form::Binary if magnitude.is_multiple_of(NANOS) && magnitude >= 1024 * NANOS => {
            binary(magnitude / NANOS)
        }
        Form::Exponent => exponent(magnitude),
        _ => decimal(magnitude),
    };
    Some(if negative { format!("-{body}") } else { body })
}

const NANOS: u128 = 1_000_000_000;

#[derive(Clone, Copy, PartialEq)]
enum Form {
    Decimal,
    Binary,
    Exponent,
}

/// Returns the value in nano units, rounded up, and the form it was written in.
fn parse(text: &str) -> Option<(i128, Form)> {
    let (negative, rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let end = rest
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(rest.len());
    let (number, suffix) = rest.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    let scale = i32::try_from(fraction.len()).ok()?;
    let (value, form) = if let Some((_, shift)) = BINARY.iter().find(|(s, _)| *s == suffix) {
        (
            scaled(digits.checked_mul(1_i128 << shift)?, 9 - scale)?,
            Form::Binary,
        )
    } else if let Some((_, power)) = DECIMAL.iter().find(|(s, _)| *s == suffix) {
        (scaled(digits, 9 + power - scale)?, Form::Decimal)
    } else {
        let power: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
        (scaled(digits, 9 + power - scale)?, Form::Exponent)
    };
    Some((if negative { -value } else { value }, form))
}

fn scaled(digits: i128, power: i32) -> Option<i128> {
    if power >= 0 {
        return digits.checked_mul(10_i128.checked_pow(power.unsigned_abs())?);
    }
    let divisor = 10_i128.checked_pow(power.unsigned_abs())?;
    Some((digits + divisor - 1) / divisor)
}

fn binary(value: u128) -> String {
    let (suffix, shift) = BINARY
        .iter()
        .rev()
        .find(|(_, shift)| value.is_multiple_of(1_u128 << shift))
        .copied()
        .unwrap_or(("", 0));
    format!("{}{suffix}", value >> shift)
}

fn decimal(nanos: u128) -> String {
    if nanos == 0 {
        return "0".to_owned();
    }
    for (suffix, power) in DECIMAL.iter().rev() {
        let unit = 10_u128.pow((9 + power).unsigned_abs());
        if nanos.is_multiple_of(unit) {
            return format!("{}{suffix}", nanos / unit);
        }
    }
    nanos.to_string()
}

fn exponent(nanos: u128) -> String {
    let mut power = -9_i32;
    let mut value = nanos;
    while value != 0 && value.is_multiple_of(1000) {
        value /= 1000;
        power += 3;
    }
    if power == 0 {
        value.to_string()
    } else {
        format!("{value}e{power}")
    }
}

#[cfg(test)]
mod tests {
    use super::canonical;

    #[test]
    fn quantities_become_canonical() {
        for (input, want) in [
            ("2.0", "2"),
            ("1000m", "1"),
            ("0.5", "500m"),
            ("4096Mi", "4Gi"),
            ("1500Mi", "1500Mi"),
            ("1000k", "1M"),
            ("0", "0"),
            ("0Gi", "0"),
            ("110", "110"),
            ("8123456Ki", "8123456Ki"),
            ("1e3", "1e3"),
            ("0.5Gi", "512Mi"),
            ("-1.5", "-1500m"),
        ] {
            assert_eq!(canonical(input).as_deref(), Some(want), "{input}");
        }
        for bad in ["", "x", "1x", "1.2.3", "Gi"] {
            assert_eq!(canonical(bad), None, "{bad}");
        }
    }
}
