//! Percent-encoding, as in URLs.

/// Decodes `%XX` codes. Invalid codes are kept unchanged.
pub(crate) fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let is_hex = |hex: &&[u8]| hex.iter().all(u8::is_ascii_hexdigit);
        let code = after.get(..2).filter(is_hex).and_then(|hex| std::str::from_utf8(hex).ok());
        let decoded = code.filter(|_| byte == b'%').and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(decoded.unwrap_or(byte));
        rest = if decoded.is_some() { &after[2..] } else { after };
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_codes_stay_as_they_are() {
        for (key, expected) in
            [("a%2Fb", "a/b"), ("a%2", "a%2"), ("a%+f", "a%+f"), ("a%zz", "a%zz"), ("%ff", "%ff"), ("100%", "100%")]
        {
            assert_eq!(decoded(key), expected);
        }
    }
}
