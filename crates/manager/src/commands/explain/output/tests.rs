use super::*;

#[test]
fn long_words_and_sentences_are_wrapped_below_their_prefix() {
    let mut page = Page::default();
    page.hanging("  Name:  ", &["word"; 20].join(" "));
    page.hanging("  ID:    ", &format!("a {} b", "x".repeat(90)));
    let text = page.0.into_text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 5, "{text}");
    assert!(
        lines[0].len() <= WIDTH && lines[1].starts_with("         word"),
        "{text}"
    );
    assert_eq!(lines[2], "  ID:    a");
}

#[test]
fn text_of_others_is_no_line_of_its_own() {
    let mut page = Page::default();
    page.raw("    TARGET\nWhy:\n  Nothing waits.");
    page.hanging("  x\ny:  ", "a\nb \u{1b}[2J");
    let text = page.0.into_text();
    assert_eq!(
        text,
        "    TARGET\\nWhy:\\n  Nothing waits.\n  x\\ny:  a b \\x1b[2J\n"
    );
}
