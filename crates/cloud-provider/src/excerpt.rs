//! Excerpts of answers of clouds and API servers, short enough for errors, logs and events.

/// The maximum length of an [`excerpt`] in bytes: the limit for the message of an event.
pub const LONGEST_EXCERPT: usize = 1024;

/// Cuts a text at a character boundary to at most [`LONGEST_EXCERPT`] bytes. Redact secrets before, because half a
/// secret would not be recognized.
///
/// ```
/// let text = cloud_provider::excerpt("no".repeat(1_000_000));
/// assert!(text.len() <= cloud_provider::LONGEST_EXCERPT && text.ends_with('…'));
/// assert_eq!(cloud_provider::excerpt("no".to_owned()), "no");
/// ```
#[must_use]
pub fn excerpt(mut text: String) -> String {
    const MORE: char = '…';
    if text.len() > LONGEST_EXCERPT {
        text.truncate(text.floor_char_boundary(LONGEST_EXCERPT - MORE.len_utf8()));
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
                let cut = excerpt("-".repeat(offset) + &text.repeat(LONGEST_EXCERPT + 1));
                assert!(
                    cut.len() <= LONGEST_EXCERPT
                        && cut.len() > LONGEST_EXCERPT - 8
                        && cut.ends_with('…'),
                    "{} bytes",
                    cut.len()
                );
            }
        }
        assert_eq!(excerpt("x".repeat(LONGEST_EXCERPT)).len(), LONGEST_EXCERPT);
    }
}
