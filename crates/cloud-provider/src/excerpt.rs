//! Excerpts of what clouds and API servers answer, short enough for errors, logs and events.

/// The most bytes of an [`excerpt`]: as many as the message of an event may have.
pub const LONGEST_EXCERPT: usize = 1024;

/// Cuts a text at a character boundary so that no more than [`LONGEST_EXCERPT`] bytes are left. Hide secrets before: nobody
/// recognizes a secret by its first half.
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
                    cut.len() <= LONGEST_EXCERPT && cut.len() > LONGEST_EXCERPT - 8 && cut.ends_with('…'),
                    "{} bytes",
                    cut.len()
                );
            }
        }
        assert_eq!(excerpt("x".repeat(LONGEST_EXCERPT)).len(), LONGEST_EXCERPT);
    }
}
