//! Formatting of numbers in the text format, like other Kubernetes components (MET-4).

use std::fmt::Write as _;

/// Appends a number in its shortest decimal form, with an exponent of at least two digits below 1e-4 and from 1e6 on.
pub(crate) fn write_number(out: &mut String, number: f64) {
    if number.is_nan() {
        return out.push_str("NaN");
    }
    if number.is_infinite() {
        return out.push_str(if number > 0.0 { "+Inf" } else { "-Inf" });
    }
    let size = number.abs();
    // Writing to a string cannot fail.
    if size == 0.0 || (1e-4..1e6).contains(&size) {
        _ = write!(out, "{number}");
        return;
    }
    let text = format!("{number:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = exponent
        .strip_prefix('-')
        .map_or(('+', exponent), |rest| ('-', rest));
    _ = write!(out, "{digits}e{sign}{exponent:0>2}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_in_their_shortest_form() {
        let table = [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-1.0, "-1"),
            (0.005, "0.005"),
            (1e-4, "0.0001"),
            (9.999_999_999_999_999e-5, "9.999999999999999e-05"),
            (9.999_999_999_999_999e-6, "9.999999999999999e-06"),
            (1e-8, "1e-08"),
            (16384.0, "16384"),
            (999_999.0, "999999"),
            (1e6, "1e+06"),
            (2_592_000.0, "2.592e+06"),
            (-2_592_000.0, "-2.592e+06"),
            (16_777_216.0, "1.6777216e+07"),
            (1_763_752_000.25, "1.76375200025e+09"),
            (1e100, "1e+100"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
            (f64::NAN, "NaN"),
        ];
        for (number, expected) in table {
            let mut text = String::new();
            write_number(&mut text, number);
            assert_eq!(text, expected);
        }
    }

    proptest::proptest! {
        #[test]
        fn a_number_is_read_back_as_it_was(number: f64) {
            let mut text = String::new();
            write_number(&mut text, number);
            let read: f64 = text.parse().unwrap();
            proptest::prop_assert!(read == number || read.is_nan() && number.is_nan(), "{} {}", text, number);
        }
    }
}
