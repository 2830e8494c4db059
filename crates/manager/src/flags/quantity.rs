//! Quantities of bytes in Kubernetes notation: `512`, `1K`, `2Ki`.

use std::str::FromStr;

/// A quantity of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quantity(pub(super) usize);

const SUFFIXES: [(&str, f64); 14] = [
    ("Ki", 1024.0),
    ("Mi", 1048576.0),
    ("Gi", 1073741824.0),
    ("Ti", 1099511627776.0),
    ("Pi", 1125899906842624.0),
    ("k", 1e3),
    ("K", 1e3),
    ("M", 1e6),
    ("G", 1e9),
    ("T", 1e12),
    ("P", 1e15),
    ("m", 1e-3),
    ("u", 1e-6),
    ("n", 1e-9),
];

impl FromStr for Quantity {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "quantities must match the regular expression \
                 '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$': {text:?} does not; write bytes as in 512, 1K or 2Ki"
            )
        };
        let (number, scale) = SUFFIXES
            .into_iter()
            .find_map(|(suffix, scale)| text.strip_suffix(suffix).map(|number| (number, scale)))
            .unwrap_or((text, 1.0));
        let digits = number.strip_prefix(['+', '-']).unwrap_or(number);
        if !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
            return Err(wrong());
        }
        let bytes = number.parse::<f64>().map_err(|_| wrong())? * scale;
        if bytes < 0.0 {
            return Err(format!(
                "{text:?} is negative; write bytes as in 512, 1K or 2Ki"
            ));
        }
        // Fractions of a byte are rounded up; a quantity that exceeds every machine's memory saturates.
        Ok(Self(bytes.ceil() as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_written_as_in_kubernetes() {
        let table = [
            ("0", 0),
            ("512", 512),
            ("1K", 1000),
            ("1k", 1000),
            ("2Ki", 2048),
            ("1.5Mi", 1_572_864),
            ("1e3", 1000),
            ("100m", 1),
        ];
        for (text, bytes) in table {
            assert_eq!(text.parse(), Ok(Quantity(bytes)), "{text}");
        }
        for text in ["", "Ki", "ten", "inf", "NaN", "1X", "-1", "1 K"] {
            assert!(text.parse::<Quantity>().is_err(), "{text}");
        }
    }
}
