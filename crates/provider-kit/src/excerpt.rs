//! Excerpts of a cloud's texts, short enough for errors, logs and events.

/// The most bytes of a cloud's text that go into an error, and from there into logs, events and conditions.
pub const MOST: usize = 1024;

/// Cuts a text at a character boundary so that no more than [`MOST`] bytes are left. Hide secrets before: nobody
/// recognizes a secret by its first half.
///
/// ```
/// let text = provider_kit::excerpt::excerpt("no".repeat(1_000_000));
/// assert!(text.len() <= provider_kit::excerpt::MOST && text.ends_with('…'));
/// assert_eq!(provider_kit::excerpt::excerpt("no".to_owned()), "no");
/// ```
#[must_use]
pub fn excerpt(mut text: String) -> String {
    const MORE: char = '…';
    if text.len() > MOST {
        text.truncate(text.floor_char_boundary(MOST - MORE.len_utf8()));
        text.push(MORE);
        text.shrink_to_fit();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters() {
        for text in ["é", "x", "🦀"] {
            for offset in 0..4 {
                let cut = excerpt("-".repeat(offset) + &text.repeat(MOST + 1));
                assert!(cut.len() <= MOST && cut.len() > MOST - 8 && cut.ends_with('…'), "{} bytes", cut.len());
            }
        }
        assert_eq!(excerpt("x".repeat(MOST)).len(), MOST);
    }
}
