//! Label values, derived from names in the cloud.

/// The maximum length of a label value in bytes.
const LONGEST: usize = 63;

/// Returns `true` if Kubernetes accepts a text as a label value.
///
/// ```
/// use provider_kit::labels::is_value;
///
/// assert!(is_value("m1.large") && is_value(""));
/// assert!(!is_value("m1 large") && !is_value("-a"));
/// ```
#[must_use]
pub fn is_value(text: &str) -> bool {
    text.len() <= LONGEST && (text.is_empty() || is_word(text, "-_."))
}

/// Returns a valid label value that resembles a text: each run of characters that are not allowed becomes `-`, and
/// characters that are not allowed at an end are cut off.
///
/// ```
/// use provider_kit::labels::value_from;
///
/// assert_eq!(value_from("Zürich / 1"), "Z-rich-1");
/// assert_eq!(value_from("__nova.a!"), "nova.a");
/// ```
#[must_use]
pub fn value_from(text: &str) -> String {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let mut value = String::with_capacity(text.len());
    let mut in_run = false;
    for c in text.chars() {
        if is_allowed(c) {
            value.push(c);
        } else if !in_run {
            value.push('-');
        }
        in_run = !is_allowed(c);
    }
    let is_end = |c: char| "-_.".contains(c);
    let value = value.trim_matches(is_end);
    value[..value.len().min(LONGEST)]
        .trim_end_matches(is_end)
        .to_owned()
}

/// Returns `true` if a text consists of ASCII letters, digits and the characters in `middle`, and begins and ends with
/// a letter or digit.
pub(crate) fn is_word(text: &str, middle: &str) -> bool {
    let is_edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let mut chars = text.chars();
    is_edge(text.chars().next())
        && is_edge(text.chars().next_back())
        && chars.all(|c| c.is_ascii_alphanumeric() || middle.contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn converted_names_are_label_values() {
        let long = format!("{}-----{}", "a".repeat(61), "b".repeat(9));
        for (text, value) in [
            ("nova", "nova"),
            ("", ""),
            ("a  b", "a-b"),
            ("a - b", "a---b"),
            ("-_.x.._", "x"),
            ("äöü", ""),
            (&*long, &*"a".repeat(61)),
        ] {
            assert_eq!(value_from(text), value, "{text:?}");
            assert!(is_value(value));
        }
    }
}
