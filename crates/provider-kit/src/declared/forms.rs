//! Forms of values, for kinds of your own.

use std::time::Duration;

use cloud_provider::go_duration::GoDuration;

/// Parses a truth value in the forms that Go's tools accept.
///
/// ```
/// use provider_kit::declared::forms::truth;
///
/// assert_eq!((truth("T"), truth("0"), truth("yes")), (Some(true), Some(false), None));
/// ```
#[must_use]
pub fn truth(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

/// Parses a duration in Go's form that is not negative.
///
/// ```
/// use provider_kit::declared::forms::duration;
///
/// assert_eq!(duration("1m30s").map(|d| d.as_secs()), Some(90));
/// assert_eq!((duration("90"), duration("-1s")), (None, None));
/// ```
#[must_use]
pub fn duration(text: &str) -> Option<Duration> {
    text.parse::<GoDuration>().ok()?.to_std()
}

/// Parses a duration in Go's form, or a whole number of seconds.
///
/// ```
/// use provider_kit::declared::forms::seconds;
///
/// assert_eq!(seconds("15"), seconds("15s"));
/// ```
#[must_use]
pub fn seconds(text: &str) -> Option<Duration> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number {
        text.parse().ok().map(Duration::from_secs)
    } else {
        duration(text)
    }
}

/// Returns the items of a comma-separated list, without surrounding white space and without empty items.
///
/// ```
/// use provider_kit::declared::forms::items;
///
/// assert_eq!(items("a, b,,").collect::<Vec<_>>(), ["a", "b"]);
/// ```
pub fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
}
