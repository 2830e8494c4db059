//! Numbers with their nouns, for texts that people read.

/// Returns a number with its noun, in the plural unless the number is one. The plural of `noun` ends with `s`.
///
/// ```
/// use cloud_provider::counted;
///
/// assert_eq!([0, 1, 2].map(|count| counted(count, "Node")), ["0 Nodes", "1 Node", "2 Nodes"]);
/// ```
#[must_use]
pub fn counted(count: usize, noun: &str) -> String {
    if count == 1 {
        format!("1 {noun}")
    } else {
        format!("{count} {noun}s")
    }
}
