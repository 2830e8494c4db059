//! Shortening of callers' input for responses and log lines.

use std::borrow::Cow;

/// Characters of a caller's text that an answer or a log line repeats: enough to recognise it.
const QUOTED: usize = 200;

/// Returns the beginning of a text that a caller chose, with `…` in the place of the rest.
pub(crate) fn shortened(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(QUOTED) {
        None => Cow::Borrowed(text),
        Some((end, _)) => Cow::Owned(format!("{}…", text.get(..end).unwrap_or_default())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(shortened("/healthz"), "/healthz");
        assert_eq!(shortened(&"ü".repeat(200)), "ü".repeat(200));
        assert_eq!(shortened(&"ü".repeat(60_000)), "ü".repeat(200) + "…");
    }
}
