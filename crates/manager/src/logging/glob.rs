//! Glob patterns with `*` and `?`.

/// Returns `true` if the pattern matches the whole text: `*` matches any characters, `?` matches one character.
pub(super) fn fits(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    // Position to return to: after the last star, one character further in the text each time.
    let (mut at, mut read, mut star) = (0, 0, None);
    while read < text.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at + 1, read));
                at += 1;
            }
            Some(c) if *c == '?' || *c == text[read] => {
                at += 1;
                read += 1;
            }
            _ => {
                let Some((after, from)) = star else { return false };
                star = Some((after, from + 1));
                at = after;
                read = from + 1;
            }
        }
    }
    pattern[at..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_and_question_marks_stand_for_characters() {
        let table = [
            ("route", "route", true),
            ("route", "routes", false),
            ("route*", "routes", true),
            ("*", "", true),
            ("?", "", false),
            ("r?ute", "route", true),
            ("*te", "route", true),
            ("r*t*", "route", true),
            ("*a*b", "xaxab", true),
            ("*a*b", "xaxa", false),
            ("", "", true),
            ("", "x", false),
        ];
        for (pattern, text, expected) in table {
            assert_eq!(fits(pattern, text), expected, "{pattern} {text}");
        }
    }
}
